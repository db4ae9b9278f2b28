//! The range tombstones of a memtable.
//!
//! ```text
//!   written   #1 #2 #3 ................................. #n      in order of their numbers
//!   pieces    [       2^k x 32       ][  2^j x 32  ][ 32 ]       each half as long as the one before, or less
//!   tail                                                  [ < 32 ]
//! ```
//!
//! A look-up searches the pieces from the newest to the oldest, and the first answer is the newest
//! tombstone. Two pieces of one length become one, so there are at most log2(n / 32) + 1 of them.
//! The first reader that needs a piece prepares it (`history`); until then, a write only appends.
//!
//! Invariants
//!   P1  The pieces and the tail are `written`, in order and without gaps. The lengths of the
//!       pieces are [`TAIL_LEN_MAX`] times descending powers of two.
//!   P2  `written` only grows, and a prepared piece never changes. A reader therefore sees the same
//!       tombstones at its snapshot whenever it looks.
//!
//! Source: the logarithmic method (Bentley and Saxe, 1980). A tombstone is prepared at most
//! log2(n / 32) times as part of a piece. A reader after a write prepares the tail again.

use super::{RangeTombstone, TombstoneHistory};
use crate::key::Seq;
use bytes::Bytes;
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The length of the shortest piece.
const TAIL_LEN_MAX: usize = 32;

/// The range tombstones of a memtable.
#[derive(Debug, Default)]
pub(crate) struct MemTombstones {
    /// Outside the lock, so that a look-up without any tombstones costs one load.
    count: AtomicUsize,
    len_bytes: AtomicUsize,
    lists: RwLock<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    /// The tombstones as written, in order of sequence number.
    written: Vec<RangeTombstone>,
    pieces: Vec<Piece>,
    tail: Piece,
}

/// A part of `written`, prepared by the first reader that needs it.
#[derive(Debug, Default)]
struct Piece {
    part: Range<usize>,
    history: OnceLock<Arc<TombstoneHistory>>,
}

impl Lists {
    fn push(&mut self, tombstone: RangeTombstone) {
        assert!(
            self.written.last().is_none_or(|t| t.seq < tombstone.seq),
            "tombstones out of order"
        );
        self.written.push(tombstone);
        let count = self.written.len();
        let mut part = self.tail.part.start..count;
        self.tail = Piece::of(part.clone());
        if part.len() < TAIL_LEN_MAX {
            return;
        }
        while let Some(last) = self.pieces.pop_if(|last| last.part.len() == part.len()) {
            part.start = last.part.start;
        }
        self.pieces.push(Piece::of(part));
        self.tail = Piece::of(count..count);
    }

    /// The tombstones that a reader at `snapshot` sees, prepared, the newest first.
    fn histories(&self, snapshot: Seq) -> impl Iterator<Item = &Arc<TombstoneHistory>> {
        let pieces = std::iter::once(&self.tail).chain(self.pieces.iter().rev());
        let is_seen = move |piece: &&Piece| {
            self.written.get(piece.part.start).is_some_and(|oldest| oldest.seq <= snapshot)
        };
        pieces.filter(is_seen).map(|piece| {
            let prepare = || TombstoneHistory::new(&self.written[piece.part.clone()]);
            piece.history.get_or_init(|| Arc::new(prepare()))
        })
    }
}

impl Piece {
    fn of(part: Range<usize>) -> Piece {
        Piece { part, history: OnceLock::new() }
    }
}

impl MemTombstones {
    /// Adds a tombstone; `seq` is above all earlier ones. An empty range adds nothing.
    ///
    /// Cost: one copy of the keys.
    pub(crate) fn insert(&self, start: &[u8], end: &[u8], seq: Seq) {
        if start >= end {
            return;
        }
        let mut lists = self.lists.write();
        lists.push(RangeTombstone::new(start, end, seq));
        let count = lists.written.len();
        self.len_bytes.fetch_add(tombstone_len_bytes(start, end, count), Ordering::Relaxed);
        self.count.store(count, Ordering::Release);
    }

    /// Whether there is no tombstone.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The memory in use, approximately: counted as if all pieces were prepared.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes.load(Ordering::Relaxed)
    }

    /// The newest tombstone at or below `snapshot` that covers `user_key`.
    ///
    /// Cost: a binary search in each piece, of which there are O(log n), after the preparation of
    /// those that no reader has needed before.
    #[inline]
    pub(crate) fn max_seq_covering(&self, user_key: &[u8], snapshot: Seq) -> Option<Seq> {
        if self.is_empty() {
            return None;
        }
        // Later pieces have higher numbers, so the first answer is the highest.
        let lists = self.lists.read();
        lists.histories(snapshot).find_map(|history| history.max_seq_covering(user_key, snapshot))
    }

    /// What a reader at `snapshot` sees, in pieces; no pieces if it sees no tombstones.
    pub(crate) fn views(&self, snapshot: Seq) -> Vec<Arc<TombstoneHistory>> {
        if self.is_empty() {
            return Vec::new();
        }
        self.lists.read().histories(snapshot).cloned().collect()
    }

    /// The tombstones as they were written.
    pub(crate) fn list(&self) -> Vec<RangeTombstone> {
        self.lists.read().written.clone()
    }
}

/// The memory of the tombstone `start..end`, the `count`th of a memtable: itself, its bounds with
/// their nodes, and the numbers of a range over half of the others.
fn tombstone_len_bytes(start: &[u8], end: &[u8], count: usize) -> usize {
    let nodes = 2 * (size_of::<Bytes>() + 2 * size_of::<u32>());
    let numbers = (1 + count.ilog2() as usize) * size_of::<Seq>();
    start.len() + end.len() + size_of::<RangeTombstone>() + nodes + numbers
}
