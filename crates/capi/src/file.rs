//! Open files.

use crate::drive::{Drive, Shared};
use crate::open::Opened;
use crate::process::Held;
use crate::status::{Failure, Status, guard};
use crate::strings::{bytes, give, handle, need_out, null, put, take, text};
use crate::{KIND_LOG, KIND_METADATA, KIND_OTHER, KIND_TABLE};
use imbrex_files::{CommitKind, FileKind, GroupId};
use std::ffi::c_char;
use std::sync::Arc;

/// Hints about the use of a file. Fill the struct with zeros, then set `kind` and the known fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    /// IMBREX_KIND_LOG, IMBREX_KIND_TABLE, IMBREX_KIND_METADATA or IMBREX_KIND_OTHER.
    pub kind: u8,
    /// The level of a table in its LSM-tree; 0 is the youngest.
    pub level: u8,
    /// Nonzero: the file may use the reserve of blocks and catalog space with which a full drive can be
    /// emptied. For compaction outputs and manifests.
    pub may_use_reserve: u8,
    /// Must be zero.
    pub reserved: u8,
    /// The stream: files of one stream are expected to die together; 0 if unknown.
    pub stream: u32,
    /// The compaction that writes the file; 0 if unknown.
    pub group: u64,
    /// The expected length of the file; 0 if unknown.
    pub expected_len_bytes: u64,
}

impl Hints {
    pub(crate) fn checked(&self) -> Result<imbrex_files::Hints, Failure> {
        let kind = match self.kind {
            KIND_LOG => FileKind::Log,
            KIND_TABLE => FileKind::Table,
            KIND_METADATA => FileKind::Metadata,
            KIND_OTHER => FileKind::Other,
            kind => {
                let message = format!("{kind} is no kind of file; 1 to 4 are");
                return Err(Failure::new(Status::Invalid, message));
            }
        };
        let purpose = match self.may_use_reserve {
            0 => CommitKind::Ordinary,
            _ => CommitKind::Upkeep,
        };
        Ok(imbrex_files::Hints {
            level: self.level,
            group: (self.group != 0).then_some(GroupId(self.group)),
            stream: self.stream,
            expected_len_bytes: (self.expected_len_bytes != 0).then_some(self.expected_len_bytes),
            purpose,
            ..imbrex_files::Hints::new(kind)
        })
    }
}

/// The hints at `hints`; NULL for none.
///
/// # Safety
/// NULL or hints.
pub(crate) unsafe fn hints_at(hints: *const Hints) -> Result<imbrex_files::Hints, Failure> {
    if hints.is_null() {
        return Ok(imbrex_files::Hints::new(FileKind::Other));
    }
    // SAFETY: not NULL, and the rest is the caller's promise.
    unsafe { *hints }.checked()
}

/// A file open for writing.
#[derive(Debug)]
pub struct Writer {
    // Before the drive, because closing the file needs the drive.
    writer: imbrex_filesystem::Writer,
    shared: Arc<Opened<Shared>>,
}

/// A file open for reading.
#[derive(Debug)]
pub struct Reader {
    reader: imbrex_filesystem::Reader,
    shared: Arc<Opened<Shared>>,
}

impl Held for Writer {
    fn opener(&self) -> Option<u32> {
        self.shared.opener()
    }
}

impl Held for Reader {
    fn opener(&self) -> Option<u32> {
        self.shared.opener()
    }
}

/// Creates an empty file at `path`, in an existing directory, and opens it for writing.
///
/// An existing file at `path` loses this name; open readers keep working. `hints` may be NULL. Release the
/// writer with imbrex_writer_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_create(
    drive: *const Drive,
    path: *const c_char,
    hints: *const Hints,
    out: *mut *mut Writer,
) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: a handle, a string and hints, as the header's conventions say.
        let (drive, path, hints) =
            unsafe { (handle(drive, "the drive")?, text(path, "the path")?, hints_at(hints)?) };
        let shared = Arc::clone(drive.shared());
        let writer = shared.writing(|fs| Ok(fs.create(path, hints)?))?;
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { give(out, Writer { writer, shared }) }
    })
}

/// Opens an existing file to append to it. Release the writer with imbrex_writer_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_open(
    drive: *const Drive,
    path: *const c_char,
    out: *mut *mut Writer,
) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: a handle and a string, as the header's conventions say.
        let (drive, path) = unsafe { (handle(drive, "the drive")?, text(path, "the path")?) };
        let shared = Arc::clone(drive.shared());
        let writer = shared.writing(|fs| Ok(fs.append_to(path)?))?;
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { give(out, Writer { writer, shared }) }
    })
}

/// Appends `len_bytes` bytes. Cost: a copy, and tens of nanoseconds for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_append(
    writer: *const Writer,
    data: *const u8,
    len_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: a handle and a buffer, as the header's conventions say.
        let (writer, data) = unsafe { (handle(writer, "the writer")?, bytes(data, len_bytes)?) };
        writer.shared.writing(|_| Ok(writer.writer.append(data)?))
    })
}

/// Writes `len_bytes` bytes at `offset`. At the end of the file this is an append. Anywhere else the file, at
/// most 1 GiB long, is read into memory, and the next sync rewrites it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_write_at(
    writer: *const Writer,
    offset: u64,
    data: *const u8,
    len_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: a handle and a buffer, as the header's conventions say.
        let (writer, data) = unsafe { (handle(writer, "the writer")?, bytes(data, len_bytes)?) };
        writer.shared.writing(|_| Ok(writer.writer.write_at(offset, data)?))
    })
}

/// Writes `len_bytes` bytes at `offset`, for logs in which many threads write at separate places: each byte
/// once, in any order.
///
/// Bytes after a hole wait in memory, at most 1 GiB past the end of the file, and join the file when the
/// hole is filled. imbrex_writer_sync() waits until all holes below the bytes written before it are filled,
/// so a thread that fills a hole must not wait for that sync. imbrex_writer_close() fills holes with zeros.
///
/// Errors: IMBREX_STATUS_INVALID for a byte that is written already; the call had no effect. After
/// IMBREX_STATUS_INVALID for an offset too far past the end, and after any other error (as of
/// imbrex_writer_append()), the hole stays for good, and every later call for the file's bytes fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_fill_at(
    writer: *const Writer,
    offset: u64,
    data: *const u8,
    len_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: a handle and a buffer, as the header's conventions say.
        let (writer, data) = unsafe { (handle(writer, "the writer")?, bytes(data, len_bytes)?) };
        writer.shared.writing(|_| Ok(writer.writer.fill_at(offset, data)?))
    })
}

/// Makes durable the file's bytes, its name, and every change of names before the last change of this file's
/// name; imbrex_sync_names() covers later changes. Waits for holes that imbrex_writer_fill_at() left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_sync(writer: *const Writer) -> Status {
    guard(|| {
        // SAFETY: a handle, as the header's conventions say.
        let writer = unsafe { handle(writer, "the writer")? };
        writer.shared.writing(|_| Ok(writer.writer.sync()?))
    })
}

/// Truncates the file to `len_bytes`, or extends it with zeros. Durable after the next sync.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_truncate(writer: *const Writer, len_bytes: u64) -> Status {
    guard(|| {
        // SAFETY: a handle, as the header's conventions say.
        let writer = unsafe { handle(writer, "the writer")? };
        writer.shared.writing(|_| Ok(writer.writer.truncate(len_bytes)?))
    })
}

/// Sets the hints of the file. A table is placed when it is synced or closed, so its level may be set until
/// then. A table longer than 256 MiB is placed in pieces of that length as they are written: set its hints
/// before the first write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_set_hints(
    writer: *const Writer,
    hints: *const Hints,
) -> Status {
    guard(|| {
        // SAFETY: a handle and hints, as the header's conventions say.
        let (writer, hints) = unsafe { (handle(writer, "the writer")?, hints_at(hints)?) };
        writer.writer.set_hints(hints);
        Ok(())
    })
}

/// Returns the file's length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_len(writer: *const Writer, out: *mut u64) -> Status {
    guard(|| {
        // SAFETY: a handle and an out parameter, as the header's conventions say.
        unsafe { put(out, handle(writer, "the writer")?.writer.len_bytes()) }
    })
}

/// Closes the file and releases the writer. Appended bytes are stored, but durable only after a sync.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_close(writer: *mut Writer) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        let Some(writer) = (unsafe { take(writer)? }) else { return Ok(()) };
        let Writer { writer, shared } = *writer;
        let mut writer = Some(writer);
        let closed = shared.writing(|_| Ok(writer.take().map_or(Ok(()), |w| w.close())?));
        // After a panic the close is refused, and the writer is not dropped: that would store its tail (A3).
        writer.into_iter().for_each(imbrex_filesystem::Writer::abandon);
        closed
    })
}

/// Opens a file for reading. Bytes appended later can be read too. A file that is removed or replaced stays
/// readable. Release the reader with imbrex_reader_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_reader_open(
    drive: *const Drive,
    path: *const c_char,
    out: *mut *mut Reader,
) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: a handle and a string, as the header's conventions say.
        let (drive, path) = unsafe { (handle(drive, "the drive")?, text(path, "the path")?) };
        let shared = Arc::clone(drive.shared());
        let reader = shared.fs.open_read(path)?;
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { give(out, Reader { reader, shared }) }
    })
}

/// Reads up to `len_bytes` bytes from `offset` into `buffer`, fewer at the end of the file. `out_len_bytes`
/// receives their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_reader_read_at(
    reader: *const Reader,
    offset: u64,
    buffer: *mut u8,
    len_bytes: usize,
    out_len_bytes: *mut usize,
) -> Status {
    guard(|| {
        need_out(out_len_bytes)?;
        // SAFETY: a handle, as the header's conventions say.
        let reader = unsafe { handle(reader, "the reader")? };
        let buffer = if len_bytes == 0 {
            &mut []
        } else if buffer.is_null() {
            return Err(null("the buffer"));
        } else {
            // SAFETY: not NULL; the caller promises its length and that no other code uses it. It may be
            // uninitialised, because the callee only copies into it.
            unsafe { std::slice::from_raw_parts_mut(buffer, len_bytes) }
        };
        let got = reader.reader.read_at(offset, buffer)?;
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { put(out_len_bytes, got) }
    })
}

/// Returns the file's current length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_reader_len(reader: *const Reader, out: *mut u64) -> Status {
    guard(|| {
        // SAFETY: a handle and an out parameter, as the header's conventions say.
        unsafe { put(out, handle(reader, "the reader")?.reader.len_bytes()) }
    })
}

/// Returns a number that is unique among all past and future files of the drive, for caches. One exception:
/// after a crash, a new file may get the number of a file whose name was never synced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_reader_id(reader: *const Reader, out: *mut u64) -> Status {
    guard(|| {
        // SAFETY: a handle and an out parameter, as the header's conventions say.
        unsafe { put(out, handle(reader, "the reader")?.reader.unique_id()) }
    })
}

/// Releases the reader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_reader_close(reader: *mut Reader) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        drop(unsafe { take(reader)? });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{imbrex_drive_close, imbrex_drive_open};
    use imbrex::Layout;
    use imbrex_clockwork::Runtime;
    use imbrex_disk::{Blocks, Geometry, GeometrySpec, Rule};
    use imbrex_disk_sim::SimDisk;
    use std::ffi::CString;
    use std::ptr;

    /// An image with an empty file system.
    fn make(path: &std::path::Path) {
        let layout = Layout::by_name("leveled-first-fit").unwrap();
        let spec = GeometrySpec { len: Blocks::new(1 << 17), rule: Rule::Anywhere };
        let geometry = Geometry::new(spec).unwrap();
        let disk = Arc::new(SimDisk::builder(geometry).create_image(path, "", 1).unwrap());
        let recipe = layout.recipe(&geometry);
        layout.format_files(disk, &Runtime::threads(1), &recipe, 7).unwrap();
    }

    /// A close after a panic was refused, but it dropped the writer, which wrote.
    #[test]
    fn after_a_panic_closing_a_file_writes_nothing() {
        check_writes_nothing_after(|shared| {
            assert_eq!(guard(|| shared.writing(|_| panic!("a bug below"))), Status::Bug);
        });
    }

    /// A panic in the background was not noticed.
    #[test]
    fn after_a_panic_in_the_background_closing_a_file_writes_nothing() {
        check_writes_nothing_after(|shared| shared.workers.break_one());
    }

    fn check_writes_nothing_after(meet_a_bug: fn(&Shared)) {
        let dir = tempfile::tempdir().unwrap();
        make(&dir.path().join("drive"));
        let path = CString::new(dir.path().join("drive").to_str().unwrap()).unwrap();
        let (mut drive, mut writer) = (ptr::null_mut(), ptr::null_mut());
        let data = [7; 9_000];
        // SAFETY: strings, buffers and out parameters that live as long as the calls; handles that are
        // open, and given back once.
        unsafe {
            let opened = imbrex_drive_open(path.as_ptr(), ptr::null(), &raw mut drive);
            assert_eq!(opened, Status::Ok);
            let created = imbrex_writer_create(drive, c"/f".as_ptr(), ptr::null(), &raw mut writer);
            assert_eq!(created, Status::Ok);
            assert_eq!(imbrex_writer_append(writer, data.as_ptr(), data.len()), Status::Ok);
            let shared = Arc::clone(&(*writer).shared);
            let before = shared.disk.counters().writes;
            meet_a_bug(&shared);
            assert_eq!(imbrex_writer_close(writer), Status::Bug);
            assert_eq!(imbrex_drive_close(drive), Status::Bug);
            assert_eq!(shared.disk.counters().writes, before, "A3");
        }
    }
}
