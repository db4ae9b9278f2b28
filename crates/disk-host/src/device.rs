//! The open device: bytes at offsets, bypassing the page cache, and zones as the device reports
//! them.

use crate::error::HostDiskError;
use crate::holder;
use crate::ioctl::{self, RawZone, SECTOR_LEN_BYTES, ZoneRequest};
use crate::limits::Limits;
use crate::report;
use imbrex_disk::BLOCK_LEN_BYTES;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::io::{IoSlice, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The longest request: long enough that a disk spends most of its time on the transfer.
const PIECE_LEN_BYTES_MAX: u64 = 1 << 20;

/// Buffers kept for the next requests, each of a piece's length.
const SPARE_BUFFER_COUNT_MAX: usize = 8;

/// The memory alignment that direct I/O needs on any device.
const ALIGNMENT: usize = BLOCK_LEN_BYTES;

/// What a device is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading and writing, by one program.
    Write,
    /// Reading only, by any number of programs.
    Read,
}

/// An open block device (H1).
#[derive(Debug)]
pub(crate) struct Device {
    file: File,
    access: Access,
    piece_len_bytes: usize,
    sector_len_bytes: usize,
    spare: Mutex<Vec<Buffer>>,
}

/// Memory with the alignment that direct I/O needs.
#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Buffer {
        let bytes = vec![0; len + ALIGNMENT];
        let from = bytes.as_ptr().align_offset(ALIGNMENT);
        Buffer { bytes, from, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().align_offset(ALIGNMENT) == 0
}

impl Device {
    /// Opens the device at `path`, and reads what the kernel knows about it.
    pub(crate) fn open(
        path: &Path,
        access: Access,
    ) -> std::result::Result<(Device, Limits), HostDiskError> {
        let limits = look(path, access)?;
        let file = open_file(path, access)?;
        let piece_len = limits.request_len_bytes_max.min(PIECE_LEN_BYTES_MAX) as usize;
        let device = Device {
            file,
            access,
            piece_len_bytes: piece_len / BLOCK_LEN_BYTES * BLOCK_LEN_BYTES,
            sector_len_bytes: limits.sector_len_bytes as usize,
            spare: Mutex::default(),
        };
        Ok((device, limits))
    }

    pub(crate) fn len_bytes(&self) -> Result<u64> {
        Ok(rustix::fs::seek(&self.file, SeekFrom::End(0))?)
    }

    /// Fills `buf` from `offset`. An `Err` holds the start of the piece that cannot be read.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), ReadError> {
        let mut at = offset;
        for piece in buf.chunks_mut(self.piece_len_bytes) {
            let read = if is_aligned(piece) {
                self.read_piece(at, piece)
            } else {
                self.with_buffer(piece.len(), |buffer| {
                    self.read_piece(at, buffer)?;
                    piece.copy_from_slice(buffer);
                    Ok(())
                })
            };
            read.map_err(|source| ReadError { at, len: piece.len(), source })?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn read_piece(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match rustix::io::pread(&self.file, &mut buf[done..], offset + done as u64) {
                Ok(0) => return Err(shrunk()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Writes `data` at `offset`, one piece after another (H5): to the medium if `through`,
    /// otherwise into the drive's cache.
    pub(crate) fn write(&self, offset: u64, data: &[u8], through: bool) -> Result<()> {
        let mut at = offset;
        for piece in data.chunks(self.piece_len_bytes) {
            if is_aligned(piece) {
                self.write_piece(at, piece, through)?;
            } else {
                self.with_buffer(piece.len(), |buffer| {
                    buffer.copy_from_slice(piece);
                    self.write_piece(at, buffer, through)
                })?;
            }
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn write_piece(&self, offset: u64, data: &[u8], through: bool) -> Result<()> {
        let flags = if through { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        let mut done = 0;
        while done < data.len() {
            let (rest, at) = ([IoSlice::new(&data[done..])], offset + done as u64);
            match rustix::io::pwritev2(&self.file, &rest, at, flags) {
                Ok(0) => return Err(shrunk()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn with_buffer<T>(&self, len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let spare = self.spare.lock().pop();
        let mut buffer = spare.unwrap_or_else(|| Buffer::new(self.piece_len_bytes));
        let result = work(&mut buffer.bytes()[..len]);
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_BUFFER_COUNT_MAX {
            spare.push(buffer);
        }
        result
    }

    /// Makes the content of the drive's cache durable.
    pub(crate) fn flush(&self) -> Result<()> {
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    pub(crate) fn discard(&self, offset: u64, len: u64) -> Result<()> {
        ioctl::discard(&self.file, offset, len)
    }

    pub(crate) fn zero_out(&self, offset: u64, len: u64) -> Result<()> {
        ioctl::zero_out(&self.file, offset, len)
    }

    /// All zones, in order, as [`Device::settled`] leaves them.
    pub(crate) fn zones(&self, len_bytes: u64) -> Result<Vec<RawZone>> {
        let sector_count = len_bytes / SECTOR_LEN_BYTES;
        let mut zones: Vec<RawZone> = Vec::new();
        loop {
            let next = zones.last().map_or(0, |zone| zone.start + zone.len);
            if next >= sector_count {
                return zones.into_iter().map(|zone| self.settled(zone)).collect();
            }
            let more = ioctl::report_zones(&self.file, next, usize::MAX)?;
            let Some(last) = more.last() else { return Ok(zones) };
            if last.start + last.len <= next {
                return Err(std::io::Error::other("its zone report does not end"));
            }
            zones.extend(more);
        }
    }

    /// The zone that begins at `sector`, as [`Device::settled`] leaves it.
    pub(crate) fn zone(&self, sector: u64) -> Result<RawZone> {
        self.reported(sector).and_then(|zone| self.settled(zone))
    }

    /// Closes the zone if it was opened explicitly. If its write pointer lies inside a block, fills
    /// the rest of that torn block with zeros. A device that is only read keeps such a zone: its
    /// record leaves the torn block out.
    fn settled(&self, zone: RawZone) -> Result<RawZone> {
        let mut zone = zone;
        if self.access == Access::Read {
            return Ok(zone);
        }
        if report::is_left_open(&zone) {
            self.manage_zone(ZoneRequest::Close, zone.start, zone.len)?;
            zone = self.reported(zone.start)?;
        }
        if let Some(sectors) = report::torn_sectors(&zone) {
            let len = (sectors * SECTOR_LEN_BYTES) as usize;
            let mut zeros = Buffer::new(len.next_multiple_of(self.sector_len_bytes));
            let offset = zone.write_pointer * SECTOR_LEN_BYTES;
            self.write_piece(offset, &zeros.bytes()[..len], true)?;
            zone = self.reported(zone.start)?;
        }
        Ok(zone)
    }

    /// The zone that begins at `sector`, as the drive reports it.
    pub(crate) fn reported(&self, sector: u64) -> Result<RawZone> {
        ioctl::report_zones(&self.file, sector, 1)?.first().copied().ok_or_else(shrunk)
    }

    pub(crate) fn manage_zone(&self, request: ZoneRequest, sector: u64, len: u64) -> Result<()> {
        ioctl::manage_zones(&self.file, request, sector, len)
    }
}

/// Where a read failed.
#[derive(Debug)]
pub(crate) struct ReadError {
    pub(crate) at: u64,
    pub(crate) len: usize,
    pub(crate) source: std::io::Error,
}

fn shrunk() -> std::io::Error {
    std::io::Error::other("the device is shorter than when it was opened")
}

/// Opens the device: for one program exclusively, which mounts and other exclusive openers respect,
/// or for one of many readers. The lock keeps a writer and readers apart.
fn open_file(path: &Path, access: Access) -> std::result::Result<File, HostDiskError> {
    let is_to_write = access == Access::Write;
    if !is_to_write && let Some(holder) = holder::claim(path) {
        return Err(HostDiskError::InUse { path: path.to_owned(), holder });
    }
    let opened = rustix::fs::open(path, flags(access), Mode::empty());
    let file = opened.map(File::from).map_err(|errno| cannot_open(path, access, errno))?;
    match ioctl::try_lock(&file, is_to_write) {
        Ok(true) => Ok(file),
        Ok(false) => {
            let holder = holder::holder(path);
            Err(HostDiskError::InUse { path: path.to_owned(), holder })
        }
        Err(source) => {
            Err(HostDiskError::Host { path: path.to_owned(), what: "locking it", source })
        }
    }
}

fn flags(access: Access) -> OFlags {
    let common = OFlags::DIRECT | OFlags::CLOEXEC;
    match access {
        Access::Write => common | OFlags::RDWR | OFlags::EXCL,
        Access::Read => common | OFlags::RDONLY,
    }
}

/// Inspects a device before it is opened.
fn look(path: &Path, access: Access) -> std::result::Result<Limits, HostDiskError> {
    let of = || path.to_owned();
    let found = std::fs::metadata(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => HostDiskError::NotFound { path: of() },
        std::io::ErrorKind::PermissionDenied => HostDiskError::NotPermitted { path: of() },
        _ => HostDiskError::Host { path: of(), what: "looking for it", source },
    })?;
    if !found.file_type().is_block_device() {
        return Err(HostDiskError::NotADevice { path: of() });
    }
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let dir = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let is_read_only =
        || std::fs::read_to_string(dir.join("ro")).is_ok_and(|text| text.trim() == "1");
    if access == Access::Write && is_read_only() {
        return Err(HostDiskError::ReadOnly { path: of() });
    }
    Ok(Limits::read(&dir))
}

fn cannot_open(path: &Path, access: Access, errno: Errno) -> HostDiskError {
    let is_readable = || rustix::fs::open(path, flags(Access::Read), Mode::empty()).is_ok();
    let path = path.to_owned();
    match errno {
        Errno::BUSY => HostDiskError::InUse { holder: holder::holder(&path), path },
        Errno::ACCESS | Errno::PERM if access == Access::Write && is_readable() => {
            HostDiskError::ReadOnly { path }
        }
        Errno::ACCESS | Errno::PERM => HostDiskError::NotPermitted { path },
        Errno::ROFS => HostDiskError::ReadOnly { path },
        // The name exists, but its device is gone.
        Errno::NXIO | Errno::NODEV | Errno::NOMEDIUM => HostDiskError::NotFound { path },
        errno => HostDiskError::Host { path, what: "opening it", source: errno.into() },
    }
}
