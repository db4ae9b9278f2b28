//! A drive by its path: an image file, or a block device of this machine.

#[cfg(doc)]
use crate::ErrorKind;
use crate::error::Error;
use imbrex_disk::{BlockRange, Blocks, Disk, DiskError, Lba, Persist, Rule, ZoneState};
use imbrex_disk_host::{HostDisk, HostDiskError, is_block_device};
use imbrex_disk_sim::{OpenOptions, SimDisk};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What lies at a path, open.
#[derive(Clone, Debug)]
pub enum FoundDrive {
    /// An emulated drive in an image file.
    Image(Arc<SimDisk>),
    /// A real one.
    Device(Arc<HostDisk>),
}

impl FoundDrive {
    /// Opens the drive at `path`; `options` are for one that is emulated.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotAStore`] for a directory or a foreign file, [`ErrorKind::InUse`],
    /// [`ErrorKind::NotPermitted`], [`ErrorKind::NewerVersion`], [`ErrorKind::Damaged`], [`ErrorKind::Unsupported`],
    /// [`ErrorKind::Io`].
    pub fn open(path: &Path, options: OpenOptions) -> Result<FoundDrive, Error> {
        FoundDrive::open_by(path, options, HostDisk::open)
    }

    /// Opens the drive at `path` for reading only, as any number of programs can while none has it open for writing.
    /// Nothing is written to it.
    ///
    /// # Errors
    /// As [`FoundDrive::open`].
    pub fn open_read_only(path: &Path, options: OpenOptions) -> Result<FoundDrive, Error> {
        FoundDrive::open_by(path, options.read_only(), HostDisk::open_read_only)
    }

    fn open_by(
        path: &Path,
        options: OpenOptions,
        open_device: fn(&Path) -> Result<HostDisk, HostDiskError>,
    ) -> Result<FoundDrive, Error> {
        // A name such as /dev/sdz without a device is reported as a missing device, not as a missing image.
        let is_device_name = path.starts_with("/dev") && !path.starts_with("/dev/shm");
        if is_block_device(path).unwrap_or(is_device_name) {
            let device = open_device(path).map_err(|error| Error::at("open", path, error))?;
            return Ok(FoundDrive::Device(Arc::new(device)));
        }
        let image = SimDisk::open_image(path, options);
        let image = image.map_err(|error| Error::at("open", path, error))?;
        Ok(FoundDrive::Image(Arc::new(image)))
    }

    /// The canonical path of what lies at `path`, which is going to be opened: with `is_read_only`, for reading only.
    ///
    /// # Errors
    /// Where there is none, as [`FoundDrive::open`].
    pub fn canonical_path(path: &Path, is_read_only: bool) -> Result<PathBuf, Error> {
        let open = if is_read_only { FoundDrive::open_read_only } else { FoundDrive::open };
        path.canonicalize().map_err(|source| {
            let opened = open(path, OpenOptions::default());
            opened.err().unwrap_or_else(|| Error::at("open", path, source))
        })
    }

    /// Makes it blank, as far as [`looked_at`] can see: zones are reset, all else is discarded, and of a device what is
    /// looked at is overwritten with zeros, where writes go anywhere. What it holds is lost.
    ///
    /// # Errors
    /// As [`Disk::write`]; some of it may be blank by then.
    pub fn erase(&self) -> Result<(), DiskError> {
        let disk = self.disk();
        disk.reset_zones()?;
        disk.discard(BlockRange::new(Lba::new(0), disk.geometry().len()))?;
        // A device may keep what it discards. An emulated drive reads as zeros by now, and zeros would be written to
        // the host, which may have no room for them.
        let is_device = matches!(self, FoundDrive::Device(_));
        if is_device && matches!(disk.geometry().rule(), Rule::Anywhere | Rule::AtPointer(_)) {
            for range in looked_at(&*disk) {
                disk.write_zeroes(range, Persist::Cached)?;
            }
        }
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

/// Where one looks for what was written to a drive, besides at its zones' pointers: where writes go anywhere, at the
/// first 512 MiB and the last one. Both regions of a store's catalog are there, and the marks of file systems and of
/// tables of partitions.
pub fn looked_at(disk: &dyn Disk) -> [BlockRange; 2] {
    const START_LEN: Blocks = Blocks::holding(512 << 20);
    const END_LEN: Blocks = Blocks::holding(1 << 20);
    let zones = disk.report_zones();
    let conventional = zones.iter().take_while(|zone| zone.state == ZoneState::NoPointer);
    let len = match zones.is_empty() {
        true => disk.geometry().len(),
        false => conventional.map(|zone| zone.capacity).sum(),
    };
    let start_len = len.min(START_LEN);
    let end_len = END_LEN.min(len - start_len);
    let end = Lba::new((len - end_len).get());
    [BlockRange::new(Lba::new(0), start_len), BlockRange::new(end, end_len)]
}
