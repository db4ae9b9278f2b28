//! Why a block device cannot be opened as a disk.

use imbrex_disk::GeometryError;
use std::path::PathBuf;

/// A block device that cannot be opened. Nothing was written to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostDiskError {
    /// There is nothing at the path.
    #[error("{}: no such device; `lsblk -o NAME,SIZE,ZONED` lists them", path.display())]
    NotFound {
        /// Which path.
        path: PathBuf,
    },
    /// The path names a file, a directory, a terminal.
    #[error("{}: is no block device; give one, such as /dev/sdb", path.display())]
    NotADevice {
        /// Which path.
        path: PathBuf,
    },
    /// It is mounted, part of something that is, or open in another program.
    #[error("{}: in use: mounted, part of another device, or open in another program; end that first", path.display())]
    InUse {
        /// Which path.
        path: PathBuf,
    },
    /// Whoever runs the program may not read and write the device.
    #[error("{}: you may not read and write it; be root, or a member of the group that owns it", path.display())]
    NotPermitted {
        /// Which path.
        path: PathBuf,
    },
    /// The device, or the way to it, can only be read.
    #[error("{}: is read-only, and opening it puts in order what a crash left; make it writable", path.display())]
    ReadOnly {
        /// Which path.
        path: PathBuf,
    },
    /// A drive that keeps no rule of ours.
    #[error("{}: cannot be used: {reason}", path.display())]
    Unsupported {
        /// Which path.
        path: PathBuf,
        /// What it is, and what it would have to be.
        reason: String,
    },
    /// What the drive says of itself cannot be.
    #[error("{}: the drive reports what cannot be", path.display())]
    Geometry {
        /// Which path.
        path: PathBuf,
        /// What is wrong.
        source: GeometryError,
    },
    /// The operating system refused or failed.
    #[error("{}: {what}", path.display())]
    Host {
        /// Which path.
        path: PathBuf,
        /// What was being done.
        what: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
}
