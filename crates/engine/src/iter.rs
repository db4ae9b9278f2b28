//! The trait of everything that yields internal keys in order: memtables, tables, merges.

use crate::EngineError;
use crate::first_reads::{FirstRead, SeekTo};
use crate::key::{ApartEntry, InternalKey};
use bytes::Bytes;

/// The bounds of a cursor.
#[derive(Clone, Debug, Default)]
pub(crate) struct IterBounds {
    /// The first key, if bounded.
    pub(crate) lower: Option<Bytes>,
    /// The first key after the last one, if bounded.
    pub(crate) upper: Option<Bytes>,
}

impl IterBounds {
    /// Whether some key from `smallest` to `largest` is within the bounds.
    pub(crate) fn overlap(&self, smallest: &[u8], largest: &[u8]) -> bool {
        self.lower.as_ref().is_none_or(|lower| largest >= lower)
            && self.upper.as_ref().is_none_or(|upper| smallest < upper)
    }
}

/// A cursor over internal entries in internal-key order. It starts without a position (`valid()` is
/// false), and has none after an error.
///
/// Range tombstones are not among the entries; each source returns them separately.
pub(crate) trait InternalIter: Send {
    /// Moves to the first entry.
    fn seek_to_first(&mut self) -> Result<(), EngineError>;

    /// Moves to the last entry.
    fn seek_to_last(&mut self) -> Result<(), EngineError>;

    /// Moves to the first entry at or after `target`.
    fn seek(&mut self, target: InternalKey<'_>) -> Result<(), EngineError>;

    /// Moves to the last entry before `target` (strictly).
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<(), EngineError>;

    /// Moves to `to`.
    fn go_to(&mut self, to: SeekTo<'_>) -> Result<(), EngineError> {
        match to {
            SeekTo::First => self.seek_to_first(),
            SeekTo::Last => self.seek_to_last(),
            SeekTo::AtOrAfter(target) => self.seek(target),
            SeekTo::Before(target) => self.seek_before(target),
        }
    }

    /// Moves to `to`, or returns the read of a file that the move needs first. In that case the
    /// cursor has no position. The caller may pass the bytes to [`InternalIter::accept`], and then
    /// begins the move again or makes it with [`InternalIter::go_to`]. This move may end at a bound.
    fn begin(&mut self, to: SeekTo<'_>) -> Result<Option<FirstRead>, EngineError> {
        self.go_to(to).map(|()| None)
    }

    /// Keeps the bytes of the read at `offset` that `begin` returned, so that the move need not read
    /// them.
    fn accept(&mut self, offset: u64, bytes: &[u8]) {
        let _ = (offset, bytes);
    }

    /// Whether the cursor stands not on an entry but at a bound: its next entry in the direction of the
    /// move is there or beyond. It then has a key, which is the bound, and no value. Only
    /// [`InternalIter::begin`] leaves a cursor there.
    fn is_at_bound(&self) -> bool {
        false
    }

    /// Moves from the bound to the entry, if there is one.
    fn leave_bound(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Moves to the next entry. Only while `valid`, and not at a bound.
    fn next(&mut self) -> Result<(), EngineError>;

    /// Moves to the previous entry. Only while `valid`, and not at a bound.
    fn prev(&mut self) -> Result<(), EngineError>;

    /// Whether the cursor stands on an entry or at a bound.
    fn valid(&self) -> bool;

    /// The entry's key.
    fn key(&self) -> InternalKey<'_>;

    /// Loads the entry's value for [`InternalIter::value`] and returns what that cost: 0, or for a
    /// separate read the number of bytes whose transfer takes as long. Only while `valid`.
    fn load_value(&mut self) -> Result<u64, EngineError> {
        Ok(0)
    }

    /// The entry's value. Only after [`InternalIter::load_value`].
    fn value(&self) -> &[u8];

    /// The length of the entry's value.
    fn value_len(&self) -> usize {
        self.value().len()
    }

    /// The entry for another table that leaves the value in this one's file, if it is not beside the key.
    fn apart(&self) -> Option<ApartEntry> {
        None
    }
}
