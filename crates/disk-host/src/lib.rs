//! A drive of this machine: a Linux block device, host-managed or conventional, as a [`Disk`](imbrex_disk::Disk).
//!
//! ```text
//!   HostDisk     ZoneTable      refuses what breaks the rule, as an emulated drive does
//!      |         |
//!      |         | filled from the drive's own report: on opening, and after a failed request
//!      v         |
//!   Device       pread, pwrite (O_DIRECT, one piece a request), fdatasync,
//!      |         report, reset, close, finish a zone; discard
//!   ===|======== Linux =============================================================================
//!   /dev/sdX     SMR drives by ZBC and ZAC, NVMe zoned namespaces, what device mapper makes of them;
//!                conventional drives and partitions (also flash, for the second drive of a pair)
//! ```
//!
//! Drives promise less than the trait requires. The crate closes the gap:
//!
//! | | a drive | this crate |
//! |---|---|---|
//! | reads above a write pointer | refused, or arbitrary data | returns zeros without asking the drive |
//! | a reset | durable at some later time | flushed before the call returns |
//! | a torn write | ends at any sector | filled with zeros to a whole block on opening |
//! | zones left open by a killed program | stay open | closed on opening |
//!
//! A device that is opened for reading only is not repaired: a torn block counts as not written.
//!
//! Invariants
//!   H1  One program has the device to write: it is opened exclusively, which mounts and other openers
//!       respect. Or any number of programs have it to read. A lock keeps a writer and readers apart.
//!   H2  Nothing stays in the kernel's page cache: `fdatasync` only has to flush the drive's own
//!       cache.
//!   H3  The table of zones matches the drive's report. After a failed request the zone is read
//!       from the drive again.
//!   H4  After a failed flush, or a failed write that had to be durable, nothing is written any
//!       more.
//!   H5  At most one request per zone is under way, and none is longer than what the kernel passes
//!       on whole. A zone's writes therefore arrive in order, whatever the I/O scheduler below
//!       does.
//!
//! Not here: image files (`disk-sim`), and which layout lies on a drive (`imbrex`).
//!
//! Sources: `linux/blkzoned.h`, `linux/fs.h`, Documentation/ABI/stable/sysfs-block; ZBC (INCITS 536).

mod device;
mod disk;
mod error;
mod holder;
mod ioctl;
mod limits;
mod list;
mod memory;
mod report;

pub use disk::HostDisk;
pub use error::HostDiskError;
pub use list::{ListedDevice, list_devices};
pub use memory::return_free_memory;

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Whether the path `path` names a block device, which [`HostDisk::open`] can open.
///
/// # Errors
/// If the path cannot be examined: it does not exist, or a directory on the way cannot be searched.
pub fn is_block_device(path: &Path) -> std::io::Result<bool> {
    Ok(std::fs::metadata(path)?.file_type().is_block_device())
}
