//! First reads: the reads with which a cursor's sources begin a move, issued together.
//!
//! ```text
//!               begin                    begin                 begin
//!   memtable    moved
//!   run 1       moved, all was cached
//!   run 2       needs a partition --+    needs a block --+     moved
//!   run 3       needs a block ------+    moved           |
//!   run 4       needs a partition --+    needs a block --+     moved
//!                                 batch                batch
//! ```
//!
//! A seek has to find an entry in each sorted run. If each run read for itself, the head would follow
//! the order of the runs. In a batch the disk chooses the order.
//!
//! Invariants
//!   R1  A move issues at most two batches: the second has the data blocks whose index partitions the
//!       first has read. All other reads of the move are those of single sources.
//!   R2  A batch only saves time. If it fails, each source reads for itself, and reports damage as it
//!       does without batches.
//!   R3  A source that skips damage reads for itself, because its losses must be recorded in the order
//!       of its entries. So does a source that reads all of its table in order.
//!
//! Not here: the choice of a table's first read (`table::iter`), the moves of the sources (`merge`).

use crate::key::InternalKey;
use imbrex_files::{FileRange, FileReader, read_together};
use std::ops::Range;
use std::sync::Arc;

/// The entry that a move is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SeekTo<'a> {
    /// The first entry.
    First,
    /// The last entry.
    Last,
    /// The first entry at or after the key.
    AtOrAfter(InternalKey<'a>),
    /// The last entry before the key.
    Before(InternalKey<'a>),
}

/// The read that a source needs to begin a move.
#[derive(Clone, Debug)]
pub(crate) struct FirstRead {
    pub(crate) file: Arc<dyn FileReader>,
    pub(crate) range: Range<u64>,
}

/// The number of batches in which a source has all that a move begins with: partition and block.
pub(crate) const BATCH_COUNT_MAX: usize = 2;

/// The bytes of `reads`, in the same order; `None` if one of them fails, or if there is only one (R2).
pub(crate) fn read_all(reads: &[(usize, FirstRead)]) -> Option<Vec<Vec<u8>>> {
    if reads.len() < 2 {
        return None;
    }
    let ranges: Vec<FileRange<'_>> = reads
        .iter()
        .map(|(_, FirstRead { file, range })| FileRange {
            file: &**file,
            offset: range.start,
            len_bytes: (range.end - range.start) as usize,
        })
        .collect();
    read_together(&ranges).ok()
}
