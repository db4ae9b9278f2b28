//! Internal keys: a user key, a sequence number and a kind.
//!
//! ```text
//!   user key ascending | sequence descending | kind descending
//!   "apple"              #9 Put          <- what a reader at #9 or later sees
//!   "apple"              #4 Delete
//!   "banana"             #7 Put
//! ```
//!
//! Invariants
//!   K1  No two entries have the same user key and sequence number.
//!   K2  Discriminants are on the disk: never renumbered, never reused, never zero.

use std::cmp::Ordering;

/// The number of a write; larger is newer. At most [`Seq::MAX`], which leaves 8 bits for the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seq(pub(crate) u64);

impl Seq {
    /// The largest sequence number.
    pub(crate) const MAX: Seq = Seq((1 << 56) - 1);
}

/// What an entry says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key has no value.
    Delete = 2,
    /// No key in `[key, value)` has a value.
    RangeDelete = 3,
    /// The key has a value, and this table entry says where in the table's file it is stored
    /// (`table::values`).
    PutAt = 4,
    /// The key has a value, and this table entry says where in the file of another table it is stored
    /// (`table::apart`).
    PutApart = 5,
}

impl Kind {
    /// The kind with a discriminant that was read from a disk.
    pub(crate) fn from_u8(byte: u8) -> Option<Kind> {
        match byte {
            1 => Some(Kind::Put),
            2 => Some(Kind::Delete),
            3 => Some(Kind::RangeDelete),
            4 => Some(Kind::PutAt),
            5 => Some(Kind::PutApart),
            _ => None,
        }
    }
}

/// What an entry of kind [`Kind::PutApart`] has instead of its value (`table::apart`).
pub(crate) type ApartEntry = [u8; 28];

/// A sequence number and a kind in one word, `seq << 8 | kind`: what follows a user key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Trailer(pub(crate) u64);

impl Trailer {
    pub(crate) const fn new(seq: Seq, kind: Kind) -> Trailer {
        Trailer(seq.0 << 8 | kind as u64)
    }

    /// Sorts before every entry that a reader at `snapshot` may see: where a seek for it starts.
    pub(crate) const fn seek(snapshot: Seq) -> Trailer {
        Trailer(snapshot.0 << 8 | 0xff)
    }

    pub(crate) const fn seq(self) -> Seq {
        Seq(self.0 >> 8)
    }

    /// The kind; `None` for a seek trailer or a damaged one.
    pub(crate) fn kind(self) -> Option<Kind> {
        Kind::from_u8(self.0 as u8)
    }
}

/// An internal key by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InternalKey<'a> {
    pub(crate) user_key: &'a [u8],
    pub(crate) trailer: Trailer,
}

impl<'a> InternalKey<'a> {
    pub(crate) const fn new(user_key: &'a [u8], trailer: Trailer) -> InternalKey<'a> {
        InternalKey { user_key, trailer }
    }
}

impl Ord for InternalKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.user_key.cmp(other.user_key).then_with(|| other.trailer.cmp(&self.trailer))
    }
}

impl PartialOrd for InternalKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
