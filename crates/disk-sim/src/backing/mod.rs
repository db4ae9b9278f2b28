//! Backing: where the bytes of a simulated platter live.
//!
//! ```text
//!     SimDisk --(Backing)--> memory.rs   64 KiB chunks, zeros elided, cold ones compressed
//!                       \--> image.rs    one sparse file that survives the process
//!
//!     synced.rs stands before an image: after a sync of the host that failed there is no other
//!     overlapping.rs stands before either where tracks overlap: a write destroys others tracks
//! ```
//!
//! The two at the bottom know blocks, zone records and marks and no rule: what they are told to
//! store, they store. A backing is called by several threads at once.

mod image;
pub(crate) mod image_format;
mod memory;
mod overlapping;
mod synced;

pub(crate) use image::{ImageBacking, NewImage};
pub use image::{ImageInfo, is_image};
pub(crate) use memory::MemoryBacking;
pub(crate) use overlapping::OverlappingBacking;
pub(crate) use synced::SyncedBacking;

use crate::rule::Mark;
use imbrex_disk::{BlockRange, Blocks, DiskError, Lba, ZoneId, ZoneRecord};

/// Whether bytes must be durable on the host when a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// After the next flush.
    Later,
    /// On return.
    Now,
}

/// Where bytes live.
pub(crate) trait Backing: Send + Sync + std::fmt::Debug {
    /// Reads whole blocks; what was never written reads as zeros.
    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError>;

    /// Writes whole blocks.
    fn write(&self, at: Lba, data: &[u8], durable: Durable) -> Result<(), DiskError>;

    /// Changes one stored block and nothing else, as rot does: behind the recording's back.
    fn overwrite_unnoticed(&self, at: Lba, block: &[u8]) -> Result<(), DiskError> {
        self.write(at, block, Durable::Later)
    }

    /// Makes `range` read as zeros and gives its space back.
    fn zero(&self, range: BlockRange) -> Result<(), DiskError>;

    /// Whether the first block of `range`, which is not empty, takes room, and for how many blocks of
    /// `range` that is so. What takes none reads as zeros.
    fn stored(&self, range: BlockRange) -> (bool, Blocks) {
        (true, range.len)
    }

    /// Remembers what holds for `zone`.
    fn set_zone(&self, zone: ZoneId, record: ZoneRecord, durable: Durable)
    -> Result<(), DiskError>;

    /// What was last remembered for `zone`; an empty zone if nothing was.
    fn zone(&self, zone: ZoneId) -> Result<ZoneRecord, DiskError>;

    /// Remembers a mark, or none, for every block of `range` of a drive whose tracks overlap. A backing that
    /// ends with its process has nothing to remember: the rule's table is there as long.
    fn set_marks(
        &self,
        _range: BlockRange,
        _mark: Option<Mark>,
        _durable: Durable,
    ) -> Result<(), DiskError> {
        Ok(())
    }

    /// Shows every run of blocks with a mark, in order.
    fn for_each_mark(&self, _see: &mut dyn FnMut(BlockRange, Mark)) -> Result<(), DiskError> {
        Ok(())
    }

    /// Makes everything written so far durable on the host.
    fn flush(&self) -> Result<(), DiskError>;

    /// Whether the host has failed to make something durable: then nobody knows what is.
    fn has_lost(&self) -> bool {
        false
    }

    /// Shows every stored block that is not all zeros, in order.
    fn for_each_block(&self, see: &mut dyn FnMut(Lba, &[u8])) -> Result<(), DiskError>;

    /// How much of the host's memory or disk the blocks take now.
    fn stored_bytes(&self) -> Result<u64, DiskError>;

    /// What the image says about itself, where the backing is one.
    fn image(&self) -> Option<&ImageInfo> {
        None
    }
}
