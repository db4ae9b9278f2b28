//! Backing: where the bytes of a simulated platter live.
//!
//! ```text
//!     SimDisk --(Backing)--> memory.rs   64 KiB chunks, zeros elided, cold ones compressed
//!                       \--> image.rs    one sparse file that survives the process
//!
//!     synced.rs wraps an image: after one failed sync of the host no later sync succeeds
//!     overlapping.rs wraps either backing where tracks overlap: a write destroys other tracks
//! ```
//!
//! The two at the bottom know blocks, zone records and marks, but no rule: they store whatever they
//! are given. Several threads call a backing at once.

mod image;
pub(crate) mod image_format;
mod image_info;
mod memory;
mod overlapping;
mod synced;

pub use image::is_image;
pub(crate) use image::{Access, ImageBacking, NewImage};
pub use image_info::ImageInfo;
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
    /// Reads whole blocks. Unwritten blocks read as zeros.
    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError>;

    /// Writes whole blocks.
    fn write(&self, at: Lba, data: &[u8], durable: Durable) -> Result<(), DiskError>;

    /// Changes one stored block and nothing else, as bit rot does: marks and pointers stay.
    fn overwrite_unnoticed(&self, at: Lba, block: &[u8]) -> Result<(), DiskError> {
        self.write(at, block, Durable::Later)
    }

    /// Makes `range` read as zeros and frees its space.
    fn zero(&self, range: BlockRange) -> Result<(), DiskError>;

    /// Whether the first block of `range` takes space, and the number of blocks of `range` for
    /// which that is true. `range` is not empty. Blocks that take no space read as zeros.
    fn stored(&self, range: BlockRange) -> (bool, Blocks) {
        (true, range.len)
    }

    /// Stores the record of `zone`.
    fn set_zone(&self, zone: ZoneId, record: ZoneRecord, durable: Durable)
    -> Result<(), DiskError>;

    /// The record last stored for `zone`, or that of an empty zone.
    fn zone(&self, zone: ZoneId) -> Result<ZoneRecord, DiskError>;

    /// Stores a mark, or none, for every block of `range` of a drive with overlapping tracks. A
    /// backing that ends with its process stores nothing: the rule's table lives as long.
    fn set_marks(
        &self,
        _range: BlockRange,
        _mark: Option<Mark>,
        _durable: Durable,
    ) -> Result<(), DiskError> {
        Ok(())
    }

    /// Visits every run of blocks with a mark, in order.
    fn for_each_mark(&self, _see: &mut dyn FnMut(BlockRange, Mark)) -> Result<(), DiskError> {
        Ok(())
    }

    /// Makes everything written so far durable on the host.
    fn flush(&self) -> Result<(), DiskError>;

    /// Whether the host has failed to make something durable, so that it is unknown what is
    /// durable.
    fn has_lost(&self) -> bool {
        false
    }

    /// Visits every stored block that is not all zeros, in order.
    fn for_each_block(&self, see: &mut dyn FnMut(Lba, &[u8])) -> Result<(), DiskError>;

    /// How much of the host's memory or storage the blocks take now.
    fn stored_bytes(&self) -> Result<u64, DiskError>;

    /// The image's description, if the backing is one.
    fn image(&self) -> Option<&ImageInfo> {
        None
    }
}
