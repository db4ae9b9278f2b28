//! A drive by its path: an image file, or a block device of this machine.

use imbrex_disk::{BlockRange, Disk, DiskError, Lba, ZoneAction, ZoneState};
use imbrex_disk_host::{HostDisk, HostDiskError, is_block_device};
use imbrex_disk_sim::{ImageError, OpenOptions, SimDisk};
use std::path::Path;
use std::sync::Arc;

/// What lies at a path, open.
#[derive(Clone, Debug)]
pub enum FoundDrive {
    /// An emulated drive in an image file.
    Image(Arc<SimDisk>),
    /// A real one.
    Device(Arc<HostDisk>),
}

/// Why what lies at a path cannot be opened as a drive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// No image, or none that opens.
    #[error("{0}")]
    Image(#[source] ImageError),
    /// A block device that does not open.
    #[error("{0}")]
    Device(#[source] HostDiskError),
}

impl FoundDrive {
    /// Opens the drive at `path`; `options` are for one that is emulated.
    ///
    /// # Errors
    /// [`FindError`].
    pub fn open(path: &Path, options: OpenOptions) -> Result<FoundDrive, FindError> {
        // What cannot even be looked at is told by the image's error.
        if is_block_device(path).unwrap_or(false) {
            let device = HostDisk::open(path).map_err(FindError::Device)?;
            return Ok(FoundDrive::Device(Arc::new(device)));
        }
        let image = SimDisk::open_image(path, options).map_err(FindError::Image)?;
        Ok(FoundDrive::Image(Arc::new(image)))
    }

    /// Makes it as blank as it can be made quickly; what it holds is lost.
    ///
    /// # Errors
    /// As [`Disk::write`].
    pub fn erase(&self) -> Result<(), DiskError> {
        let disk = match self {
            FoundDrive::Image(disk) => disk,
            FoundDrive::Device(disk) => return disk.erase(),
        };
        for info in disk.report_zones() {
            if !matches!(
                info.state,
                ZoneState::NoPointer | ZoneState::ReadOnly | ZoneState::Offline
            ) {
                disk.manage_zone(info.zone, ZoneAction::Reset)?;
            }
        }
        disk.discard(BlockRange::new(Lba::new(0), disk.geometry().len()))?;
        disk.flush()
    }

    /// The disk that it is.
    pub fn disk(&self) -> Arc<dyn Disk> {
        match self {
            FoundDrive::Image(disk) => Arc::clone(disk) as Arc<dyn Disk>,
            FoundDrive::Device(disk) => Arc::clone(disk) as Arc<dyn Disk>,
        }
    }
}
