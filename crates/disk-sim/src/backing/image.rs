//! Image backing: a drive in one sparse file of the host.
//!
//! ```text
//!     | header | profile text | zone records or track map ... | block 0 | block 1 | hole ... |
//!     '------ image_format.rs -------------------------------'
//! ```
//!
//! Invariants
//!   I1  A zone's record never claims more than is stored: the blocks are written first.
//!   I2  One process at a time, or any number that only read: an advisory lock is held while the file is
//!       open, exclusive or shared.
//!   I3  A read or a write is one system call on an open file: no lock, no allocation.
//!   I4  One flipped bit in front of the data is corrected when the image is opened. More are an
//!       error. In a file that is only read it stays, and each read corrects it in memory.
//!
//! Not here: the layout (`image_format`), the meaning of a zone record or a mark (`rule`), the order
//! in which blocks and marks are written (`overlapping`).

mod holder;
mod tracks;

use super::image_format::{
    self as format, HEADER_LEN_BYTES, Header, HeaderFault, NAME_LEN_BYTES_MAX,
    PROFILE_LEN_BYTES_MAX, PROFILE_OFFSET, ZONE_RECORD_LEN_BYTES, ZONE_TABLE_OFFSET,
};
use super::image_info::ImageInfo;
use super::{Backing, Durable};
use crate::ImageError;
use crate::rule::{Mark, check_zone_count};
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, Geometry, Lba, ZoneId, ZoneRecord, flipped_bit,
};
use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IoSlice};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

/// A platter in a file.
#[derive(Debug)]
pub(crate) struct ImageBacking {
    file: LockedFile,
    geometry: Geometry,
    data_offset: u64,
    info: ImageInfo,
}

/// What an image is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading and writing.
    Write,
    /// Reading only: neither the file nor its times change.
    Read,
}

/// The description to write into a new image.
#[derive(Debug)]
pub(crate) struct NewImage<'a> {
    pub(crate) path: &'a Path,
    pub(crate) geometry: Geometry,
    pub(crate) write_cache: Blocks,
    pub(crate) image_id: u64,
    pub(crate) label: &'a str,
    pub(crate) profile_name: &'a str,
    pub(crate) profile_text: &'a str,
}

impl ImageBacking {
    /// Creates the file; it must not exist.
    pub(crate) fn create(new: &NewImage<'_>) -> Result<ImageBacking, ImageError> {
        let path = new.path;
        check_len("label", new.label.len(), NAME_LEN_BYTES_MAX)?;
        check_len("profile name", new.profile_name.len(), NAME_LEN_BYTES_MAX)?;
        check_len("profile text", new.profile_text.len(), PROFILE_LEN_BYTES_MAX)?;
        let Some(len_bytes) = format::image_len_bytes(&new.geometry) else {
            let got = new.geometry.len().get().saturating_mul(BLOCK_LEN_BYTES as u64);
            return Err(ImageError::TooLong { what: "drive", got, bound: i64::MAX as u64 });
        };
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(
            |error| match error.kind() {
                ErrorKind::AlreadyExists => ImageError::Exists { path: path.to_owned() },
                ErrorKind::NotFound => ImageError::NotFound { path: path.to_owned() },
                ErrorKind::ReadOnlyFilesystem => ImageError::ReadOnly { path: path.to_owned() },
                _ => host(path, "creating the image")(error),
            },
        )?;
        let file = LockedFile::new(file, path, Access::Write)?;
        fill_new(&file, new, len_bytes).inspect_err(|_| {
            // Best effort: an image without a header would only block the next attempt.
            let _ = std::fs::remove_file(path);
        })?;
        let info = ImageInfo {
            path: path.to_owned(),
            image_id: new.image_id,
            label: new.label.to_owned(),
            profile_name: new.profile_name.to_owned(),
            profile_text: new.profile_text.to_owned(),
            corrected_bit_count: 0,
        };
        let data_offset = format::data_offset_bytes(&new.geometry);
        Ok(ImageBacking { file, geometry: new.geometry, data_offset, info })
    }

    /// Opens an existing image and checks everything except the data. Also returns the size of its
    /// write cache.
    pub(crate) fn open(path: &Path, access: Access) -> Result<(ImageBacking, Blocks), ImageError> {
        let file = LockedFile::new(open_file(path, access)?, path, access)?;
        let (header, is_header_corrected) = read_header(&file, path)?;
        // Checked before the zone table is read: a header can name one longer than any memory.
        check_zone_count(&header.geometry)
            .map_err(|source| ImageError::Build { path: path.to_owned(), source })?;
        let (profile_text, is_profile_corrected) = read_profile(&file, path, &header)?;
        let info = ImageInfo {
            path: path.to_owned(),
            image_id: header.image_id,
            label: header.label,
            profile_name: header.profile_name,
            profile_text,
            corrected_bit_count: u64::from(is_header_corrected) + u64::from(is_profile_corrected),
        };
        let geometry = header.geometry;
        let data_offset = format::data_offset_bytes(&geometry);
        let mut image = ImageBacking { file, geometry, data_offset, info };
        image.info.corrected_bit_count += if tracks::has_tracks(&geometry) {
            image.check_track_map()?
        } else {
            image.check_zone_table()?
        };
        Ok((image, header.write_cache))
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Checks the records of all zones. Returns how many bits it corrected.
    fn check_zone_table(&self) -> Result<u64, ImageError> {
        let path = &self.info.path;
        let mut table = vec![0; (self.data_offset - ZONE_TABLE_OFFSET) as usize];
        self.file
            .read_exact_at(&mut table, ZONE_TABLE_OFFSET)
            .map_err(host(path, "reading the zone table"))?;
        let records_len = self.geometry.zone_count() as usize * ZONE_RECORD_LEN_BYTES;
        let (records, padding) = table.split_at_mut(records_len);
        let mut corrected_count = 0;
        for (index, bytes) in records.as_chunks_mut().0.iter_mut().enumerate() {
            let zone = ZoneId(index as u32);
            let is_sound = |bytes: &[u8; ZONE_RECORD_LEN_BYTES]| {
                format::decode_zone(zone, self.capacity(zone), bytes).is_some()
            };
            if is_sound(bytes) {
                continue;
            }
            let offset = record_offset(zone);
            if !format::correct_bit(bytes) || !is_sound(bytes) {
                return Err(ImageError::ZoneDamaged { path: path.clone(), zone, offset });
            }
            store_corrected(&self.file, path, bytes, offset)?;
            corrected_count += 1;
        }
        while let Some(index) = padding.iter().position(|&b| b != 0) {
            let offset = ZONE_TABLE_OFFSET + (records_len + index) as u64;
            if padding[index].is_power_of_two() {
                padding[index] = 0;
                store_corrected(&self.file, path, &[0], offset)?;
                corrected_count += 1;
                continue;
            }
            let detail = format!("padding byte {offset} is {}, expected 0", padding[index]);
            let structure = "zone table";
            return Err(ImageError::Damaged { path: path.clone(), structure, detail });
        }
        Ok(corrected_count)
    }

    fn capacity(&self, zone: ZoneId) -> Blocks {
        self.geometry.zone_capacity(zone).unwrap_or(Blocks::ZERO)
    }

    fn offset(&self, at: Lba) -> u64 {
        self.data_offset + at.bytes()
    }

    fn put(&self, bytes: &[u8], offset: u64, durable: Durable) -> std::io::Result<()> {
        match durable {
            Durable::Later => self.file.write_all_at(bytes, offset),
            Durable::Now => self.put_through(bytes, offset),
        }
    }

    /// Writes through the host's cache. This syncs only these bytes, not the whole file.
    fn put_through(&self, mut bytes: &[u8], mut offset: u64) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let slices = [IoSlice::new(bytes)];
            match rustix::io::pwritev2(&*self.file, &slices, offset, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => {
                    bytes = &bytes[len..];
                    offset += len as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.file.write_all_at(bytes, offset)?;
                    return self.file.sync_data();
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn failed(&self, what: &str, range: BlockRange, source: std::io::Error) -> DiskError {
        let advice = match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free space on the host",
            ErrorKind::UnexpectedEof => "; the image was cut while in use",
            _ => "",
        };
        let path = self.info.path.display();
        DiskError::Host { what: format!("{path}: {what} blocks {range}{advice}"), source }
    }

    fn failed_at_zone(&self, what: &str, zone: ZoneId, source: std::io::Error) -> DiskError {
        let path = self.info.path.display();
        DiskError::Host { what: format!("{path}: {what} the record of {zone}"), source }
    }
}

impl Backing for ImageBacking {
    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        let len = buf.len();
        self.file
            .read_exact_at(buf, self.offset(at))
            .map_err(|source| self.failed("reading", run(at, len), source))
    }

    fn write(&self, at: Lba, data: &[u8], durable: Durable) -> Result<(), DiskError> {
        self.put(data, self.offset(at), durable)
            .map_err(|source| self.failed("writing", run(at, data.len()), source))
    }

    fn zero(&self, range: BlockRange) -> Result<(), DiskError> {
        if range.len.is_zero() {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let offset = self.offset(range.start);
        match rustix::fs::fallocate(&*self.file, flags, offset, range.len.bytes()) {
            Ok(()) => Ok(()),
            // A host file system without holes: stored zeros have the same meaning, but take space.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let zeros = vec![0; 1 << 20];
                let mut left = range.len.bytes();
                while left > 0 {
                    let len = left.min(zeros.len() as u64);
                    self.file
                        .write_all_at(&zeros[..len as usize], offset + range.len.bytes() - left)
                        .map_err(|source| self.failed("zeroing", range, source))?;
                    left -= len;
                }
                Ok(())
            }
            Err(error) => Err(self.failed("freeing", range, error.into())),
        }
    }

    fn stored(&self, range: BlockRange) -> (bool, Blocks) {
        let (start, end) = (self.offset(range.start), self.offset(range.end()));
        let block_len = BLOCK_LEN_BYTES as u64;
        let blocks_to = |offset: u64| Blocks::new((offset.min(end) - start) / block_len);
        let whole = (true, range.len);
        // A host block that is only partly stored counts as stored.
        match rustix::fs::seek(&*self.file, SeekFrom::Data(start)) {
            Ok(data) if data >= start + block_len => (false, blocks_to(data)),
            Ok(_) => match rustix::fs::seek(&*self.file, SeekFrom::Hole(start)) {
                Ok(hole) => {
                    (true, blocks_to(hole.next_multiple_of(block_len).max(start + block_len)))
                }
                Err(_) => whole,
            },
            // No data from there to the file's end. If the file was cut short, a read will report
            // it.
            Err(Errno::NXIO) => {
                (!self.file.metadata().is_ok_and(|file| end <= file.len()), range.len)
            }
            Err(_) => whole,
        }
    }

    fn set_zone(
        &self,
        zone: ZoneId,
        record: ZoneRecord,
        durable: Durable,
    ) -> Result<(), DiskError> {
        self.put(&format::encode_zone(zone, record), record_offset(zone), durable)
            .map_err(|source| self.failed_at_zone("writing", zone, source))
    }

    fn zone(&self, zone: ZoneId) -> Result<ZoneRecord, DiskError> {
        let mut bytes = [0; ZONE_RECORD_LEN_BYTES];
        self.file
            .read_exact_at(&mut bytes, record_offset(zone))
            .map_err(|source| self.failed_at_zone("reading", zone, source))?;
        let decode = |bytes: &_| format::decode_zone(zone, self.capacity(zone), bytes);
        // A file that is only read keeps its flipped bits (I4).
        let record = decode(&bytes);
        let corrected = || format::correct_bit(&mut bytes).then(|| decode(&bytes)).flatten();
        record.or_else(corrected).ok_or_else(|| {
            let source = std::io::Error::from(ErrorKind::InvalidData);
            self.failed_at_zone("decoding", zone, source)
        })
    }

    fn set_marks(
        &self,
        range: BlockRange,
        mark: Option<Mark>,
        durable: Durable,
    ) -> Result<(), DiskError> {
        self.put_marks(range, mark, durable)
    }

    fn for_each_mark(&self, see: &mut dyn FnMut(BlockRange, Mark)) -> Result<(), DiskError> {
        self.see_marks(see)
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(|source| {
            let path = self.info.path.display();
            DiskError::Host { what: format!("{path}: flushing the image"), source }
        })
    }

    fn for_each_block(&self, see: &mut dyn FnMut(Lba, &[u8])) -> Result<(), DiskError> {
        let whole = BlockRange::new(Lba::new(0), self.geometry.len());
        let end = self.offset(whole.end());
        let mut buf = vec![0; 256 * BLOCK_LEN_BYTES];
        let mut offset = self.data_offset;
        while offset < end {
            let start = match rustix::fs::seek(&*self.file, SeekFrom::Data(offset)) {
                Ok(start) if start < end => start.max(offset),
                Ok(_) | Err(Errno::NXIO) => break,
                Err(Errno::INVAL | Errno::OPNOTSUPP) => offset,
                Err(error) => return Err(self.failed("scanning", whole, error.into())),
            };
            let block_len = BLOCK_LEN_BYTES as u64;
            let start = start - (start - self.data_offset) % block_len;
            let len = (end - start).min(buf.len() as u64) as usize;
            self.file
                .read_exact_at(&mut buf[..len], start)
                .map_err(|source| self.failed("scanning", whole, source))?;
            for (index, block) in buf[..len].chunks_exact(BLOCK_LEN_BYTES).enumerate() {
                if block.iter().any(|&b| b != 0) {
                    see(Lba::new((start - self.data_offset) / block_len + index as u64), block);
                }
            }
            offset = start + len as u64;
        }
        Ok(())
    }

    fn stored_bytes(&self) -> Result<u64, DiskError> {
        let metadata = self.file.metadata().map_err(|source| {
            let path = self.info.path.display();
            DiskError::Host { what: format!("{path}: reading the image's size"), source }
        })?;
        Ok(metadata.blocks() * 512)
    }

    fn image(&self) -> Option<&ImageInfo> {
        Some(&self.info)
    }
}

fn fill_new(file: &File, new: &NewImage<'_>, len_bytes: u64) -> Result<(), ImageError> {
    let path = new.path;
    file.set_len(len_bytes).map_err(host(path, "setting the image's length"))?;
    let mut profile = vec![0; PROFILE_LEN_BYTES_MAX];
    profile[..new.profile_text.len()].copy_from_slice(new.profile_text.as_bytes());
    let records: Vec<u8> = (0..new.geometry.zone_count())
        .flat_map(|zone| format::encode_zone(ZoneId(zone), ZoneRecord::EMPTY))
        .collect();
    let header = Header {
        image_id: new.image_id,
        geometry: new.geometry,
        write_cache: new.write_cache,
        profile_len_bytes: new.profile_text.len() as u32,
        profile_crc: crc32c::crc32c(&profile),
        label: new.label.to_owned(),
        profile_name: new.profile_name.to_owned(),
    };
    let put = |bytes: &[u8], offset: u64, what: &'static str| {
        file.write_all_at(bytes, offset).and_then(|()| file.sync_data()).map_err(host(path, what))
    };
    put(&profile, PROFILE_OFFSET, "writing the profile")?;
    put(&records, ZONE_TABLE_OFFSET, "writing the zone table")?;
    put(&header.encode(), 0, "writing the header")?;
    // The name must survive too: sync the directory that holds it.
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(host(path, "syncing the image's directory"))
}

fn open_file(path: &Path, access: Access) -> Result<File, ImageError> {
    let not_permitted = || {
        let needs = match access {
            Access::Write => {
                "opening repairs what a crash left, so it needs to read and write the file"
            }
            Access::Read => "opening needs to read the file",
        };
        ImageError::NotPermitted { path: path.to_owned(), needs }
    };
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            ImageError::NotFound { path: path.to_owned() }
        }
        ErrorKind::PermissionDenied => not_permitted(),
        _ => host(path, "looking at the image")(error),
    })?;
    let file_type = metadata.file_type();
    if file_type.is_dir() {
        return Err(ImageError::NotAFile { path: path.to_owned(), what: "a directory" });
    }
    if file_type.is_fifo() || !file_type.is_file() {
        let what = "a device, pipe or socket";
        return Err(ImageError::NotAFile { path: path.to_owned(), what });
    }
    let is_to_write = access == Access::Write;
    // Ask the file's mode, not the system call: a privileged process could open it anyway.
    if is_to_write && metadata.permissions().readonly() {
        return Err(ImageError::ReadOnly { path: path.to_owned() });
    }
    let opened = OpenOptions::new().read(true).write(is_to_write).open(path);
    opened.map_err(|error| match error.kind() {
        ErrorKind::ReadOnlyFilesystem => ImageError::ReadOnly { path: path.to_owned() },
        ErrorKind::PermissionDenied if is_to_write && File::open(path).is_ok() => {
            ImageError::ReadOnly { path: path.to_owned() }
        }
        ErrorKind::PermissionDenied => not_permitted(),
        _ => host(path, "opening the image")(error),
    })
}

/// A file under a lock (I2).
///
/// Closing alone would not always release the lock: between fork and exec, a child process holds a
/// copy of every open file. An explicit unlock releases it for all copies.
#[derive(Debug)]
struct LockedFile(File, Access);

impl LockedFile {
    fn new(file: File, path: &Path, access: Access) -> Result<LockedFile, ImageError> {
        let lock = match access {
            Access::Write => FlockOperation::NonBlockingLockExclusive,
            Access::Read => FlockOperation::NonBlockingLockShared,
        };
        match rustix::fs::flock(&file, lock) {
            Ok(()) => Ok(LockedFile(file, access)),
            Err(Errno::WOULDBLOCK) => {
                let holder = holder::holder(&file);
                Err(ImageError::InUse { path: path.to_owned(), holder })
            }
            Err(error) => Err(host(path, "locking the image")(error.into())),
        }
    }
}

impl LockedFile {
    /// Stores bytes with a corrected bit, unless the file is only read (I4).
    fn correct(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        match self.1 {
            Access::Write => self.0.write_all_at(bytes, offset),
            Access::Read => Ok(()),
        }
    }
}

impl std::ops::Deref for LockedFile {
    type Target = File;
    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // If it fails, the close that follows still releases the lock, only later.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// Whether the file at `path` begins like a drive image, sound or not. Anything but a regular file
/// is none, and is not read.
///
/// # Errors
/// The file cannot be read.
pub fn is_image(path: &Path) -> std::io::Result<bool> {
    let len_bytes = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => return Ok(false),
    };
    let mut begin = [0; HEADER_LEN_BYTES];
    let have = len_bytes.min(HEADER_LEN_BYTES as u64) as usize;
    File::open(path)?.read_exact_at(&mut begin[..have], 0)?;
    Ok(begin.starts_with(&format::MAGIC)
        || (format::correct_bit(&mut begin) && begin.starts_with(&format::MAGIC)))
}

/// Reads the header, and corrects a flipped bit in it. Also returns whether there was one.
fn read_header(file: &LockedFile, path: &Path) -> Result<(Header, bool), ImageError> {
    let got_len = file.metadata().map_err(host(path, "reading the image's size"))?.len();
    let mut bytes = [0; HEADER_LEN_BYTES];
    let have = got_len.min(HEADER_LEN_BYTES as u64) as usize;
    file.read_exact_at(&mut bytes[..have], 0).map_err(host(path, "reading the header"))?;
    let damaged =
        |detail| ImageError::Damaged { path: path.to_owned(), structure: "header", detail };
    if (8..HEADER_LEN_BYTES).contains(&have) && bytes[..8] == format::MAGIC {
        let (path, expected) = (path.to_owned(), HEADER_LEN_BYTES as u64);
        return Err(ImageError::WrongLength { path, expected, got: got_len });
    }
    let mut corrected = bytes;
    let is_corrected = Header::decode(&bytes).is_err()
        && format::correct_bit(&mut corrected)
        && Header::decode(&corrected).is_ok();
    let sound = if is_corrected { &corrected } else { &bytes };
    let header = Header::decode(sound).map_err(|fault| match fault {
        HeaderFault::Magic => {
            let got = bytes[..8.min(have)].escape_ascii().to_string();
            ImageError::NotAnImage { path: path.to_owned(), got }
        }
        HeaderFault::Version { got } => {
            let expected = format::FORMAT_VERSION;
            ImageError::Version { path: path.to_owned(), expected, got }
        }
        HeaderFault::Checksum { expected, got } => {
            damaged(format!("checksum {got:#010x}, expected {expected:#010x}"))
        }
        HeaderFault::Field { field } => damaged(format!("field {field} is out of range")),
    })?;
    if let Some(expected) = format::image_len_bytes(&header.geometry)
        && expected != got_len
    {
        return Err(ImageError::WrongLength { path: path.to_owned(), expected, got: got_len });
    }
    if is_corrected {
        store_corrected(file, path, &corrected, 0)?;
    }
    Ok((header, is_corrected))
}

/// Stores bytes in which a flipped bit was corrected, unless the file is only read (I4).
fn store_corrected(
    file: &LockedFile,
    path: &Path,
    bytes: &[u8],
    offset: u64,
) -> Result<(), ImageError> {
    file.correct(bytes, offset).map_err(host(path, "correcting a flipped bit"))
}

/// Reads the profile, and corrects a flipped bit in it. Also returns whether there was one.
fn read_profile(
    file: &LockedFile,
    path: &Path,
    header: &Header,
) -> Result<(String, bool), ImageError> {
    let mut bytes = vec![0; PROFILE_LEN_BYTES_MAX];
    file.read_exact_at(&mut bytes, PROFILE_OFFSET).map_err(host(path, "reading the profile"))?;
    let (expected, got) = (header.profile_crc, crc32c::crc32c(&bytes));
    let structure = "profile text";
    let is_corrected = expected != got;
    if is_corrected {
        let bit = flipped_bit(bytes.len(), expected, got).filter(|bit| *bit < 8 * bytes.len());
        let Some(bit) = bit else {
            let detail = format!("checksum {got:#010x}, expected {expected:#010x}");
            return Err(ImageError::Damaged { path: path.to_owned(), structure, detail });
        };
        bytes[bit / 8] ^= 1 << (bit % 8);
        let offset = PROFILE_OFFSET + bit as u64 / 8;
        store_corrected(file, path, &bytes[bit / 8..][..1], offset)?;
    }
    bytes.truncate(header.profile_len_bytes as usize);
    let text = String::from_utf8(bytes).map_err(|_| {
        let detail = "not UTF-8".to_owned();
        ImageError::Damaged { path: path.to_owned(), structure, detail }
    })?;
    Ok((text, is_corrected))
}

fn record_offset(zone: ZoneId) -> u64 {
    ZONE_TABLE_OFFSET + u64::from(zone.0) * ZONE_RECORD_LEN_BYTES as u64
}

fn run(at: Lba, len_bytes: usize) -> BlockRange {
    BlockRange::new(at, Blocks::holding(len_bytes as u64))
}

fn check_len(what: &'static str, got: usize, bound: usize) -> Result<(), ImageError> {
    let (got, bound) = (got as u64, bound as u64);
    if got > bound { Err(ImageError::TooLong { what, got, bound }) } else { Ok(()) }
}

fn host(path: &Path, what: &'static str) -> impl FnOnce(std::io::Error) -> ImageError {
    let path = path.to_owned();
    move |source| match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            ImageError::NoSpace { path, what }
        }
        _ => ImageError::Host { path, what, source },
    }
}

#[cfg(test)]
mod tests;
