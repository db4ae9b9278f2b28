//! Range tombstones: "no key in `[start, end)` has a value from sequence number n on".
//!
//! ```text
//!   memtable    MemTombstones           as written; pieces of doubling length for look-ups
//!                 | views                                      `memory`, `history`
//!                 v
//!   cursor      Covers                  one stretch of keys at a time       `read::covers`
//!                 ^
//!                 | lanes
//!   tables      FragmentedTombstones    cut at each other's bounds          `fragments`, `lane`
//! ```
//!
//! Invariants
//!   R3  An entry with sequence number s is deleted for a reader at `snapshot` if a tombstone over
//!       its key has a number t with s < t <= `snapshot`.
//!   R4  With n tombstones in a source, a look-up compares O(log^2 n) keys. A cursor copies no
//!       tombstone: it shares the structures of memtables and tables.
//!
//! Source: fragmented range tombstones (RocksDB, Pebble). They fragment the whole memtable again
//! for the first reader after a write, and store n^2/2 numbers for n nested ranges; `history` is a
//! segment tree instead, `memory` the logarithmic method (Bentley and Saxe, 1980) over it.
//! Not here: which tombstones a compaction may drop.

mod fragments;
mod history;
mod lane;
mod memory;

pub(crate) use fragments::FragmentedTombstones;
pub(crate) use history::TombstoneHistory;
pub(crate) use lane::TombstoneLane;
pub(crate) use memory::MemTombstones;

use crate::key::Seq;
use bytes::Bytes;

/// A range tombstone as it was written. `start < end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeTombstone {
    pub(crate) start: Bytes,
    pub(crate) end: Bytes,
    pub(crate) seq: Seq,
}

impl RangeTombstone {
    pub(crate) fn new(start: &[u8], end: &[u8], seq: Seq) -> RangeTombstone {
        let (start, end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        RangeTombstone { start, end, seq }
    }
}

/// A run of keys, `start..end` with `None` for unbounded, and the newest tombstone over all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cover {
    pub(crate) start: Option<Bytes>,
    pub(crate) end: Option<Bytes>,
    pub(crate) seq: Option<Seq>,
}

impl Cover {
    pub(crate) fn contains(&self, user_key: &[u8]) -> bool {
        self.start.as_ref().is_none_or(|start| start <= user_key)
            && self.end.as_ref().is_none_or(|end| user_key < end)
    }

    /// The keys in both runs, with the newer of the two tombstones.
    pub(crate) fn intersect(self, other: Cover) -> Cover {
        let end = match (self.end, other.end) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Cover { start: self.start.max(other.start), end, seq: self.seq.max(other.seq) }
    }
}

/// Counts one comparison of keys, or one list of numbers, that a look-up costs. Only tests count.
#[inline]
fn count_step() {
    #[cfg(test)]
    tests::STEP_COUNT.set(tests::STEP_COUNT.get() + 1);
}

#[cfg(test)]
pub(crate) mod tests;
