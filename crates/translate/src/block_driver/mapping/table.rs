//! The baseline of the mapping tree: a table of one entry for each 1, 10 or 100 sectors.
//!
//! ```text
//!     entries     |    0    |    1    |    2    |     10 sectors each
//!     evicted            wwwwwwwwww
//!     head        .......                           read and written with it
//!     tail                         ..
//! ```
//!
//! An entry maps its sectors as one, so an evicted run is written together with the rest of the
//! entries that it touches. The table has no content: it computes what a real table would read,
//! write and occupy.
//!
//! Sectors here have 512 bytes, whatever the drive's block length. The write amplification in the
//! paper (figures 7 and 8: about 2.1 at 10 sectors and 11.8 at 100, for small writes) fits sectors
//! of 512 bytes and no others.
//!
//! Source: section III-A.2 of the paper.

use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange};
use std::num::NonZeroU64;

/// The sector length of a table, in bytes.
const SECTOR_LEN_BYTES: u64 = 512;
const SECTORS_PER_BLOCK: u64 = BLOCK_LEN_BYTES as u64 / SECTOR_LEN_BYTES;

/// A half-open run of sectors of 512 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectorRange {
    /// The first sector, counted from the start of the disk.
    pub start: u64,
    /// How many sectors.
    pub len: u64,
}

impl SectorRange {
    /// The first sector after the run.
    pub fn end(self) -> u64 {
        self.start + self.len
    }
}

impl From<BlockRange> for SectorRange {
    fn from(blocks: BlockRange) -> SectorRange {
        SectorRange {
            start: blocks.start.get() * SECTORS_PER_BLOCK,
            len: blocks.len.get() * SECTORS_PER_BLOCK,
        }
    }
}

/// What a table writes for an evicted run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableWrite {
    /// The whole entries, written: `head`, the run and `tail`.
    pub written: SectorRange,
    /// The part of the first entry before the run: read first, if it holds data.
    pub head: SectorRange,
    /// The part of the last entry after the run: read first, if it holds data.
    pub tail: SectorRange,
}

/// A table with a fixed number of sectors for each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMapping {
    len_sectors: u64,
    entry_len_sectors: NonZeroU64,
}

impl TableMapping {
    /// A table for a disk of `len_sectors`; the last entry ends with the disk.
    pub fn new(len_sectors: u64, entry_len_sectors: NonZeroU64) -> TableMapping {
        TableMapping { len_sectors, entry_len_sectors }
    }

    /// How many entries.
    pub fn entry_count(&self) -> u64 {
        self.len_sectors.div_ceil(self.entry_len_sectors.get())
    }

    /// How much memory the table takes: four bytes an entry if four bytes can number all entries,
    /// as in the paper's estimate of 0.1 % of the capacity in blocks of 4096 bytes; otherwise
    /// eight.
    pub fn memory_bytes(&self) -> u64 {
        let count = self.entry_count();
        count * if u32::try_from(count).is_ok() { 4 } else { 8 }
    }

    /// The write that evicts `run`, which is not empty and on the disk.
    pub fn evict(&self, run: SectorRange) -> TableWrite {
        let entry_len = self.entry_len_sectors.get();
        let start = run.start - run.start % entry_len;
        // A run on the disk ends where the disk ends, at the latest.
        let end = run.end().next_multiple_of(entry_len).min(self.len_sectors.max(run.end()));
        TableWrite {
            written: SectorRange { start, len: end - start },
            head: SectorRange { start, len: run.start - start },
            tail: SectorRange { start: run.end(), len: end - run.end() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entry_len_sectors: u64) -> TableMapping {
        TableMapping::new(1008, NonZeroU64::new(entry_len_sectors).expect("a test's table"))
    }

    fn sectors(start: u64, end: u64) -> SectorRange {
        SectorRange { start, len: end - start }
    }

    #[test]
    fn an_eviction_takes_whole_entries() {
        let write = table(10).evict(sectors(7, 17));
        assert_eq!(write.written, sectors(0, 20));
        assert_eq!(write.head, sectors(0, 7));
        assert_eq!(write.tail, sectors(17, 20));
        let whole = table(10).evict(sectors(20, 40));
        assert_eq!(whole.written, sectors(20, 40));
        assert_eq!((whole.head.len, whole.tail.len), (0, 0));
    }

    #[test]
    fn single_sectors_have_no_amplification() {
        for (start, end) in [(0, 1), (7, 17), (1000, 1008)] {
            assert_eq!(table(1).evict(sectors(start, end)).written, sectors(start, end));
        }
    }

    #[test]
    fn the_last_entry_ends_with_the_disk() {
        let write = table(100).evict(sectors(1000, 1008));
        assert_eq!(write.written, sectors(1000, 1008));
        assert_eq!(table(100).entry_count(), 11);
    }

    #[test]
    fn blocks_are_eight_sectors() {
        let blocks = BlockRange::new(imbrex_disk::Lba::new(3), imbrex_disk::Blocks::new(2));
        assert_eq!(SectorRange::from(blocks), sectors(24, 40));
        // A block of 4 KiB in entries of 100 sectors: about the paper's worst case.
        assert_eq!(table(100).evict(sectors(96, 104)).written, sectors(0, 200));
    }

    #[test]
    fn memory_depends_on_entries() {
        assert_eq!(table(10).memory_bytes(), 101 * 4);
        let one = NonZeroU64::MIN;
        let large = TableMapping::new(14_000_000_000_000 / 512, one);
        assert_eq!(large.memory_bytes(), 14_000_000_000_000 / 512 * 8);
    }
}
