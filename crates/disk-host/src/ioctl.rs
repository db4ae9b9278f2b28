//! The kernel's requests for block devices as safe functions. All `unsafe` code of this crate is
//! here, but for one call in `memory`.
//!
//! Numbers and structures are those of `linux/blkzoned.h` and `linux/fs.h`, which never change.

use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};
use std::fs::File;
use std::os::fd::AsRawFd;

/// Zones per report request: 64 KiB of report.
const ZONES_PER_REPORT: usize = 1024;

/// The kernel's sector: the unit of all zone addresses, whatever the drive's sector length.
pub(crate) const SECTOR_LEN_BYTES: u64 = 512;

/// A zone as the kernel reports it, in sectors of 512 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawZone {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) write_pointer: u64,
    pub(crate) kind: u8,
    pub(crate) condition: u8,
    /// Flags of zone kinds that are not used here, and padding.
    pub(crate) reserved: [u8; 6],
    pub(crate) capacity: u64,
    pub(crate) more_reserved: [u8; 24],
}

#[repr(C)]
struct ReportHeader {
    sector: u64,
    zone_count: u32,
    flags: u32,
}

#[repr(C)]
struct Report {
    header: ReportHeader,
    zones: [RawZone; ZONES_PER_REPORT],
}

/// A run of sectors, for zone requests, or of bytes.
#[repr(C)]
struct Run {
    start: u64,
    len: u64,
}

/// Set if the kernel reports a zone's capacity. Older kernels leave it zero.
const HAS_CAPACITY: u32 = 1;

const GROUP: u8 = 0x12;
const DISCARD: Opcode = opcode::none(GROUP, 119);
const ZERO_OUT: Opcode = opcode::none(GROUP, 127);
const REPORT_ZONES: Opcode = opcode::read_write::<ReportHeader>(GROUP, 130);
const RESET_ZONE: Opcode = opcode::write::<Run>(GROUP, 131);
const OPEN_ZONE: Opcode = opcode::write::<Run>(GROUP, 134);
const CLOSE_ZONE: Opcode = opcode::write::<Run>(GROUP, 135);
const FINISH_ZONE: Opcode = opcode::write::<Run>(GROUP, 136);

/// The zones from the one that holds `sector`, at most `most`. Empty past the end.
pub(crate) fn report_zones(file: &File, sector: u64, most: usize) -> std::io::Result<Vec<RawZone>> {
    let zone_count = most.min(ZONES_PER_REPORT) as u32;
    let header = ReportHeader { sector, zone_count, flags: 0 };
    let mut report = Box::new(Report { header, zones: [RawZone::default(); ZONES_PER_REPORT] });
    // SAFETY: the kernel writes a header and at most as many zones as the header requests, and the
    // buffer has room for them.
    unsafe { ioctl(file, Updater::<REPORT_ZONES, Report>::new(&mut report))? };
    let count = (report.header.zone_count as usize).min(ZONES_PER_REPORT);
    let mut zones = report.zones[..count].to_vec();
    if report.header.flags & HAS_CAPACITY == 0 {
        zones.iter_mut().for_each(|zone| zone.capacity = zone.len);
    }
    Ok(zones)
}

/// A command for the zones of a run of sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ZoneRequest {
    Open,
    Close,
    Finish,
    Reset,
}

/// Applies `request` to the zones in the `len` sectors from `start`.
pub(crate) fn manage_zones(
    file: &File,
    request: ZoneRequest,
    start: u64,
    len: u64,
) -> std::io::Result<()> {
    let run = Run { start, len };
    // SAFETY: each of these requests reads one run of sectors and writes nothing to memory.
    unsafe {
        match request {
            ZoneRequest::Open => ioctl(file, Setter::<OPEN_ZONE, Run>::new(run))?,
            ZoneRequest::Close => ioctl(file, Setter::<CLOSE_ZONE, Run>::new(run))?,
            ZoneRequest::Finish => ioctl(file, Setter::<FINISH_ZONE, Run>::new(run))?,
            ZoneRequest::Reset => ioctl(file, Setter::<RESET_ZONE, Run>::new(run))?,
        }
    }
    Ok(())
}

/// Declares `len` bytes from `start` as no longer needed.
pub(crate) fn discard(file: &File, start: u64, len: u64) -> std::io::Result<()> {
    // SAFETY: the request reads one run of bytes and writes nothing to memory.
    unsafe { ioctl(file, Setter::<DISCARD, Run>::new(Run { start, len }))? };
    Ok(())
}

/// Zeroes `len` bytes from `start` in the way that is cheapest for the drive.
pub(crate) fn zero_out(file: &File, start: u64, len: u64) -> std::io::Result<()> {
    // SAFETY: the request reads one run of bytes and writes nothing to memory.
    unsafe { ioctl(file, Setter::<ZERO_OUT, Run>::new(Run { start, len }))? };
    Ok(())
}

/// Locks all of `file`, shared or exclusive, until its last copy is closed. Returns false if another
/// open file has a lock that conflicts.
///
/// The lock belongs to the open file, not to the process. It does not conflict with `flock`, which
/// udev takes on a device whenever a program that wrote to it has closed it.
pub(crate) fn try_lock(file: &File, is_exclusive: bool) -> std::io::Result<bool> {
    let kind = if is_exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
    // SAFETY: zeros are a valid value of this structure of integers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // From the start (0) to the end (a length of 0).
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the request reads one such structure, and writes nothing to memory.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if done == 0 {
        return Ok(true);
    }
    let error = std::io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of `linux/blkzoned.h`.
    #[test]
    fn structures_have_the_lengths_of_the_kernels() {
        assert_eq!(size_of::<RawZone>(), 64);
        assert_eq!(size_of::<ReportHeader>(), 16);
        assert_eq!(std::mem::offset_of!(RawZone, capacity), 32);
        assert_eq!(std::mem::offset_of!(Report, zones), 16);
    }

    #[test]
    fn many_open_files_share_a_lock_and_one_has_it_exclusively() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(path.path()).unwrap();
        let (first, second) = (open(), open());
        assert!(try_lock(&first, false).unwrap());
        assert!(try_lock(&second, false).unwrap());
        let writer = open();
        assert!(!try_lock(&writer, true).unwrap());
        drop(first);
        // Closing another open file of the same device takes no lock away.
        drop(open());
        assert!(!try_lock(&writer, true).unwrap());
        drop(second);
        assert!(try_lock(&writer, true).unwrap());
        assert!(!try_lock(&open(), false).unwrap());
    }
}
