//! A drive of this machine: a Linux block device, host-managed or conventional, as a [`Disk`](imbrex_disk::Disk).
//!
//! ```text
//!   HostDisk     ZoneTable      refuses what breaks the rule, with the same words as an emulated drive
//!      |         |
//!      |         | filled from the drive's own report: at the opening, and after a request that failed
//!      v         |
//!   Device       pread, pwrite (O_DIRECT, one piece a request), fdatasync,
//!      |         report, reset, close, finish a zone; discard
//!   ===|======== Linux =============================================================================
//!   /dev/sdX     SMR drives by ZBC and ZAC, NVMe zoned namespaces, what device mapper makes of them;
//!                conventional drives and partitions (a flash drive beside the other)
//! ```
//!
//! What a drive promises and what the trait asks for differ in places; what is done about it:
//!
//! | | a drive | here |
//! |---|---|---|
//! | reads above a write pointer | refused, or anything | zeros, and the drive is not asked |
//! | a reset | durable when the drive pleases | flushed before the call returns |
//! | a torn write | ends at any sector | filled up with zeros to a whole block at the opening |
//! | zones left open by a killed program | stay open | closed at the opening |
//!
//! Invariants
//!   H1  One program has the device: it is opened exclusively, which mounts and other openers respect.
//!   H2  Nothing is kept in the kernel's page cache: what `fdatasync` makes durable is the drive's own cache.
//!   H3  The table of zones is what the drive reports. After a request that failed a zone is asked for anew.
//!   H4  After a failed flush, or a failed write that was to be durable, nothing is written any more.
//!   H5  One request at a time is on its way to a zone, and none is longer than the kernel passes on whole:
//!       whatever schedules below, a zone's writes arrive in their order.
//!
//! Not here: image files (`disk-sim`), and which layout lies on a drive (`imbrex`).
//!
//! Sources: `linux/blkzoned.h`, `linux/fs.h`, Documentation/ABI/stable/sysfs-block; ZBC (INCITS 536).

mod device;
mod disk;
mod error;
mod ioctl;
mod limits;
mod report;

pub use disk::HostDisk;
pub use error::HostDiskError;

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Whether a block device lies at `path`, which [`HostDisk::open`] opens.
///
/// # Errors
/// Nothing can be said of the path: it does not exist, or a directory on the way may not be searched.
pub fn is_block_device(path: &Path) -> std::io::Result<bool> {
    Ok(std::fs::metadata(path)?.file_type().is_block_device())
}
