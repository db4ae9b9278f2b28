//! Why a block device cannot be opened as a disk.

use imbrex_disk::{GeometryError, Holder};
use std::path::PathBuf;

/// Why a block device cannot be opened. Nothing was written to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostDiskError {
    /// Nothing exists at the path.
    #[error("{}: no such device; `imbrex drive list` lists them", path.display())]
    NotFound {
        /// Which path.
        path: PathBuf,
    },
    /// The path names a file, a directory or a terminal.
    #[error("{}: not a block device; give one, such as /dev/sdb", path.display())]
    NotADevice {
        /// Which path.
        path: PathBuf,
    },
    /// The device is mounted, part of another device, or open in another program.
    #[error("{}: is in use by {holder}; end that use first", path.display())]
    InUse {
        /// Which path.
        path: PathBuf,
        /// The user of the device.
        holder: Holder,
    },
    /// The user of this process may not open the device.
    #[error("{}: permission denied; run as root, or as a member of the group that owns it", path.display())]
    NotPermitted {
        /// Which path.
        path: PathBuf,
    },
    /// The device may be read but not written.
    #[error("{}: is read-only; open it read-only, or make it writable", path.display())]
    ReadOnly {
        /// Which path.
        path: PathBuf,
    },
    /// A kind of drive that is not supported.
    #[error("{}: cannot be used: {reason}", path.display())]
    Unsupported {
        /// Which path.
        path: PathBuf,
        /// What it is, and what is required.
        reason: String,
    },
    /// The drive reports an impossible geometry.
    #[error("{}: the drive reports an impossible geometry", path.display())]
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
        /// The operation that failed.
        what: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
}
