//! Operations on paths, without an open file.

use crate::drive::Drive;
use crate::file::{Hints, hints_at};
use crate::process::Held;
use crate::status::{Failure, Status, guard};
use crate::strings::{give, handle, need_out, put, take, text};
use imbrex_filesystem::FileSystem;
use std::ffi::{CString, c_char};

/// Runs `call` on a drive and a path.
///
/// # Safety
/// A handle and a string, as the header's conventions say.
unsafe fn on_path(
    drive: *const Drive,
    path: *const c_char,
    call: impl FnOnce(&FileSystem, &str) -> Result<(), Failure>,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (drive, path) = unsafe { (handle(drive, "the drive")?, text(path, "the path")?) };
        drive.shared().writing(|fs| call(fs, path))
    })
}

/// Removes a path of a file. The file is removed with its last path; open readers and writers keep
/// working.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_unlink(drive: *const Drive, path: *const c_char) -> Status {
    // SAFETY: a handle and a string, as the header's conventions say.
    unsafe { on_path(drive, path, |fs, path| Ok(fs.unlink(path)?)) }
}

/// Renames a file or a directory. An existing file at `to` is replaced atomically, by content that survives a
/// power cut. A directory may replace an empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_rename(
    drive: *const Drive,
    from: *const c_char,
    to: *const c_char,
) -> Status {
    // SAFETY: a handle and strings, as the header's conventions say.
    unsafe { on_path(drive, from, |fs, from| Ok(fs.rename(from, text(to, "the new path")?)?)) }
}

/// Adds a path to an existing file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_link(
    drive: *const Drive,
    existing: *const c_char,
    path: *const c_char,
) -> Status {
    // SAFETY: a handle and strings, as the header's conventions say.
    unsafe { on_path(drive, existing, |fs, from| Ok(fs.link(from, text(path, "the new path")?)?)) }
}

/// Records that a table belongs to another level now, without rewriting it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_set_level(
    drive: *const Drive,
    path: *const c_char,
    level: u8,
) -> Status {
    // SAFETY: a handle and a string, as the header's conventions say.
    unsafe { on_path(drive, path, |fs, path| Ok(fs.set_level(path, level)?)) }
}

/// Creates a directory. `with_parents` also creates missing parents, and accepts an existing directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_make_dir(
    drive: *const Drive,
    path: *const c_char,
    with_parents: bool,
) -> Status {
    // SAFETY: a handle and a string, as the header's conventions say.
    unsafe {
        on_path(drive, path, |fs, path| {
            let made = if with_parents { fs.make_dirs(path) } else { fs.make_dir(path) };
            Ok(made?)
        })
    }
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_remove_dir(drive: *const Drive, path: *const c_char) -> Status {
    // SAFETY: a handle and a string, as the header's conventions say.
    unsafe { on_path(drive, path, |fs, path| Ok(fs.remove_dir(path)?)) }
}

/// Makes every change of names so far durable, like fsync of a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_sync_names(drive: *const Drive) -> Status {
    guard(|| {
        // SAFETY: a handle, as the header's conventions say.
        let drive = unsafe { handle(drive, "the drive")? };
        drive.shared().writing(|fs| Ok(fs.sync_names()?))
    })
}

/// Locks a path for this process, and creates an empty file if none exists.
///
/// Errors: IMBREX_STATUS_LOCKED if this process holds the lock already. Other processes cannot open the
/// drive at all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_lock(drive: *const Drive, path: *const c_char) -> Status {
    let hints = Hints {
        kind: crate::KIND_METADATA,
        level: 0,
        may_use_reserve: 0,
        reserved: 0,
        stream: 0,
        group: 0,
        expected_len_bytes: 0,
    };
    // SAFETY: a handle and a string, as the header's conventions say.
    unsafe { on_path(drive, path, |fs, path| Ok(fs.lock(path, hints_at(&raw const hints)?)?)) }
}

/// Releases a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_unlock(drive: *const Drive, path: *const c_char) -> Status {
    // SAFETY: a handle and a string, as the header's conventions say.
    unsafe { on_path(drive, path, |fs, path| Ok(fs.unlock(path)?)) }
}

/// The properties of a path.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FileStat {
    /// Whether it is a directory.
    pub is_dir: bool,
    /// The level of a table, as last recorded.
    pub level: u8,
    /// The number of paths of the file.
    pub link_count: u32,
    /// The length of a file.
    pub len_bytes: u64,
    /// The time of the last change of its content on the drive, in seconds since 1970.
    pub mtime_s: u64,
}

/// Returns the properties of a path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_stat(
    drive: *const Drive,
    path: *const c_char,
    out: *mut FileStat,
) -> Status {
    guard(|| {
        // SAFETY: a handle and a string, as the header's conventions say.
        let (drive, path) = unsafe { (handle(drive, "the drive")?, text(path, "the path")?) };
        let found = drive.shared().fs.metadata(path)?;
        let stat = FileStat {
            is_dir: found.is_dir,
            level: found.level,
            link_count: found.link_count,
            len_bytes: found.len_bytes,
            mtime_s: found.mtime_s,
        };
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { put(out, stat) }
    })
}

/// The names in a directory.
#[derive(Debug)]
pub struct Names {
    names: Vec<CString>,
}

impl Held for Names {
    fn opener(&self) -> Option<u32> {
        None
    }
}

/// Lists the names in a directory, in order. Release the listing with imbrex_names_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_list(
    drive: *const Drive,
    path: *const c_char,
    out: *mut *mut Names,
) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: a handle and a string, as the header's conventions say.
        let (drive, path) = unsafe { (handle(drive, "the drive")?, text(path, "the path")?) };
        let entries = drive.shared().fs.list(path)?;
        let name = |entry: imbrex_filesystem::DirEntry| CString::new(entry.name).ok();
        let names = entries.into_iter().filter_map(name).collect();
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { give(out, Names { names }) }
    })
}

/// Returns the number of names; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_names_count(names: *const Names) -> usize {
    // SAFETY: a handle, as the header's conventions say.
    unsafe { names.as_ref() }.map_or(0, |names| names.names.len())
}

/// Returns name number `index`, from 0, or NULL past the end. The text belongs to the listing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_names_get(names: *const Names, index: usize) -> *const c_char {
    // SAFETY: a handle, as the header's conventions say.
    let names = unsafe { names.as_ref() };
    names.and_then(|names| names.names.get(index)).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Releases the listing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_names_close(names: *mut Names) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        drop(unsafe { take(names)? });
        Ok(())
    })
}
