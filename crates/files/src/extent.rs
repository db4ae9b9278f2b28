//! Extents: a file's bytes on the disk, in order.
//!
//! ```text
//!   file bytes   0 .......... 10000 | 10000 ........ 14096
//!   extents      [ 3 blocks, 10000 B] [ 1 block, 4096 B  ]
//! ```
//!
//! An extent occupies whole blocks but may hold fewer bytes. A log that was synced in the middle of
//! a block continues in the next one, because a block in a sequential zone is written only once.

use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba};
use std::fmt;

/// A run of blocks that belongs to one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// The first block.
    pub start: Lba,
    /// How many bytes of the file it holds; the last block may be partly unused.
    pub len_bytes: u64,
}

impl Extent {
    /// How many blocks it occupies.
    pub fn blocks(&self) -> Blocks {
        Blocks::holding(self.len_bytes)
    }

    /// The blocks it occupies.
    pub fn range(&self) -> BlockRange {
        BlockRange::new(self.start, self.blocks())
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.range())?;
        if !self.len_bytes.is_multiple_of(BLOCK_LEN_BYTES as u64) {
            write!(f, " ({} bytes)", self.len_bytes)?;
        }
        Ok(())
    }
}

/// Distributes `len_bytes` bytes over `ranges`, in order: every extent but the last fills its
/// range.
pub(crate) fn fill(ranges: &[BlockRange], len_bytes: u64) -> Vec<Extent> {
    let mut left = len_bytes;
    let mut extents = Vec::with_capacity(ranges.len());
    for range in ranges {
        let now = left.min(range.len.bytes());
        extents.push(Extent { start: range.start, len_bytes: now });
        left -= now;
    }
    assert!(left == 0, "the ranges hold the file");
    extents
}
