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

/// What is known about how a file will be used. Fill it with zeros, then set `kind` and what is known.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    /// IMBREX_KIND_LOG, IMBREX_KIND_TABLE, IMBREX_KIND_METADATA or IMBREX_KIND_OTHER.
    pub kind: u8,
    /// The level of a table in its LSM-tree, 0 the youngest.
    pub level: u8,
    /// Not 0: may use the reserve that lets a full drive be emptied, of blocks and of the catalog (compaction
    /// outputs, manifests).
    pub may_use_reserve: u8,
    /// Zero.
    pub reserved: u8,
    /// Files of one stream are expected to die together; 0 if nothing is known.
    pub stream: u32,
    /// Which compaction writes it; 0 if nothing is known.
    pub group: u64,
    /// How long it will get; 0 if nothing is known.
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
    // Before the drive: closing the file needs it.
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

/// Makes an empty file at `path`, in a directory that is there, and opens it for writing.
///
/// A file that was there loses the name; who has it open may go on reading. `hints` may be NULL. Give
/// the writer back with imbrex_writer_close().
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

/// Opens an existing file to append to it. Give the writer back with imbrex_writer_close().
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

/// Appends `len_bytes` bytes. Cost: a copy; a call costs tens of nanoseconds more.
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

/// Writes `len_bytes` bytes at `offset`: at the end of the file an append; anywhere else the file is
/// taken into memory, at most 1 GiB of it, and written anew by the next sync.
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

/// Writes `len_bytes` bytes at `offset`, for logs that many threads write at places of their own: each
/// byte once, in any order. What lies behind a hole waits in memory, at most 1 GiB behind the file's
/// end, and is the file's when the hole is filled. imbrex_writer_sync() then waits for the holes below
/// what was written before it, so whoever fills one must not wait for that sync;
/// imbrex_writer_close() fills them with zeros.
///
/// Errors: IMBREX_STATUS_INVALID for a byte that is written already: nothing has happened. The same for one
/// that is too far away, or any other, as of imbrex_writer_append(): that leaves a hole for good, and every
/// later call for the file's bytes fails.
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

/// Makes the file's bytes and its name durable, and every change of names before the file's own last one; for
/// others there is imbrex_sync_names(). Waits for holes that imbrex_writer_fill_at() left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_sync(writer: *const Writer) -> Status {
    guard(|| {
        // SAFETY: a handle, as the header's conventions say.
        let writer = unsafe { handle(writer, "the writer")? };
        writer.shared.writing(|_| Ok(writer.writer.sync()?))
    })
}

/// Cuts the file to `len_bytes`, or lengthens it by zeros. Durable after the next sync.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_truncate(writer: *const Writer, len_bytes: u64) -> Status {
    guard(|| {
        // SAFETY: a handle, as the header's conventions say.
        let writer = unsafe { handle(writer, "the writer")? };
        writer.shared.writing(|_| Ok(writer.writer.truncate(len_bytes)?))
    })
}

/// Tells how the file will be used. A table is placed when it is synced or closed: until then it may
/// still be told its level. Of a longer one, every 256 MiB are placed as they come: tell it at first.
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

/// The file's length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_len(writer: *const Writer, out: *mut u64) -> Status {
    guard(|| {
        // SAFETY: a handle and an out parameter, as the header's conventions say.
        unsafe { put(out, handle(writer, "the writer")?.writer.len_bytes()) }
    })
}

/// Closes the file: what was appended is stored, but durable only after a sync. Takes the writer back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_writer_close(writer: *mut Writer) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        let Some(writer) = (unsafe { take(writer)? }) else { return Ok(()) };
        let Writer { writer, shared } = *writer;
        let mut writer = Some(writer);
        let closed = shared.writing(|_| Ok(writer.take().map_or(Ok(()), |w| w.close())?));
        // Refused after a panic: dropped, it would store its tail all the same (A3).
        writer.into_iter().for_each(imbrex_filesystem::Writer::abandon);
        closed
    })
}

/// Opens a file for reading. What is appended later can be read as well; what is removed or replaced
/// meanwhile stays readable. Give the reader back with imbrex_reader_close().
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

/// Reads `len_bytes` bytes from `offset` into `buffer`, fewer at the end of the file, and says how many.
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
            // SAFETY: not NULL; that it is as long as that, and nobody else's, is the caller's promise.
            // It may be uninitialised: it is filled before it is read, by code that only copies into it.
            unsafe { std::slice::from_raw_parts_mut(buffer, len_bytes) }
        };
        let got = reader.reader.read_at(offset, buffer)?;
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { put(out_len_bytes, got) }
    })
}

/// The file's length now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_reader_len(reader: *const Reader, out: *mut u64) -> Status {
    guard(|| {
        // SAFETY: a handle and an out parameter, as the header's conventions say.
        unsafe { put(out, handle(reader, "the reader")?.reader.len_bytes()) }
    })
}

/// A number that no other file of the drive has, had or will have: for caches. A file whose name is never synced may
/// leave it to another one after a crash.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_reader_id(reader: *const Reader, out: *mut u64) -> Status {
    guard(|| {
        // SAFETY: a handle and an out parameter, as the header's conventions say.
        unsafe { put(out, handle(reader, "the reader")?.reader.unique_id()) }
    })
}

/// Takes the reader back.
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

    /// An image with nothing but an empty file system on it.
    fn make(path: &std::path::Path) {
        let layout = Layout::by_name("leveled-first-fit").unwrap();
        let spec = GeometrySpec { len: Blocks::new(1 << 17), rule: Rule::Anywhere };
        let geometry = Geometry::new(spec).unwrap();
        let disk = Arc::new(SimDisk::builder(geometry).create_image(path, "", 1).unwrap());
        let recipe = layout.recipe(&geometry);
        layout.format_files(disk, &Runtime::threads(1), &recipe, 7).unwrap();
    }

    /// A close after a panic was refused, and dropped the writer, which wrote.
    #[test]
    fn after_a_panic_closing_a_file_writes_nothing() {
        check_writes_nothing_after(|shared| {
            assert_eq!(guard(|| shared.writing(|_| panic!("a bug below"))), Status::Bug);
        });
    }

    /// What panicked in the background was told to nobody.
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
