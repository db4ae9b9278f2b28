//! Stores: a drive with keys and values, and its keyspaces.
//!
//! A process opens a store once. All handles share it, and it is closed with the last handle, keyspace, batch
//! or cursor.

use crate::open::{Opened, Registry, Workers, layout_named};
use crate::process::Held;
use crate::status::{Failure, Fuse, Status, guard};
use crate::strings::{copy_out, give, handle, need_out, take, text};
use imbrex::stack::{DrivePaths, FlashPath, FoundDrive, Stack, require_layout};
use imbrex_engine::{Db, EngineError};
use std::ffi::c_char;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Two threads: a flush and a compaction can run at the same time.
const WORKER_COUNT: usize = 2;

/// An open store.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Opened<Shared>>,
}

/// An open keyspace.
#[derive(Debug)]
pub struct Keyspace {
    // Before the store, because dropping a keyspace may need the store.
    pub(crate) inner: imbrex_engine::Keyspace,
    pub(crate) shared: Arc<Opened<Shared>>,
}

impl Held for Store {
    fn opener(&self) -> Option<u32> {
        self.shared.opener()
    }
}

impl Held for Keyspace {
    fn opener(&self) -> Option<u32> {
        self.shared.opener()
    }
}

/// The state that all handles of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    stack: Stack,
    /// The image of the flash drive, if there is one.
    flash: Option<PathBuf>,
    is_read_only: bool,
    fuse: Fuse,
    // Last, because fields are dropped in order, and the others use the workers.
    workers: Workers,
}

/// The stores that this process has open.
static OPEN: Registry<Shared> = Registry::new();

impl Store {
    pub(crate) fn shared(&self) -> &Arc<Opened<Shared>> {
        &self.shared
    }
}

impl Shared {
    pub(crate) fn db(&self) -> &Db {
        &self.stack.db
    }

    /// Runs a call that may write, unless a panic came before.
    pub(crate) fn writing<T>(
        &self,
        call: impl FnOnce(&Db) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.fuse.guard(&self.workers, || self.end(), || call(&self.stack.db))
    }

    /// Refuses another handle of a store that is open in another way.
    fn check_opened_as(
        &self,
        path: &Path,
        flash: Option<&Path>,
        is_read_only: bool,
    ) -> Result<(), Failure> {
        let how = match (&self.flash, self.is_read_only) {
            (Some(own), _) if Some(own.as_path()) != flash => {
                format!("with flash drive {}", own.display())
            }
            (None, _) if flash.is_some() => "without a flash drive".to_owned(),
            (_, true) if !is_read_only => "for reading only".to_owned(),
            (_, false) if is_read_only => "for writing".to_owned(),
            _ => return Ok(()),
        };
        let message = format!("drive {} is open already, {how}", path.display());
        Err(Failure::new(Status::Busy, message))
    }

    /// Stops the background writers (A3).
    fn end(&self) {
        self.stack.db.abandon("a bug in imbrex; close the drive and open it again");
        self.stack.files.end_cleaning();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // After a panic, found now or earlier, the store is abandoned before its close could write (A3).
        let _ = self.writing(|_| Ok(()));
    }
}

fn open_images(paths: &DrivePaths, flash: Option<PathBuf>) -> Result<Shared, Failure> {
    let (workers, runtime) = Workers::start(WORKER_COUNT);
    let paths = DrivePaths { clock: Arc::clone(&runtime.clock), ..paths.clone() };
    let stack = paths.find()?.open(&runtime, |_| ())?;
    let is_read_only = paths.is_read_only;
    Ok(Shared { stack, flash, is_read_only, fuse: Fuse::default(), workers })
}

/// Opens the store on the drive at `drive_path`: an image file, from imbrex_store_create() or `imbrex drive
/// create`, or a block device such as /dev/sdb, formatted by imbrex_store_format() or `imbrex drive format`.
///
/// `flash_path` is the flash drive of the store, from `--flash` of the same command; NULL for a layout
/// without one. `layout` names the required layout; NULL accepts any. Every write with `sync` that an
/// earlier process acknowledged is there, even if that process died. Release the store with
/// imbrex_store_close().
///
/// Cost: the content of the logs is written to tables.
///
/// Errors: IMBREX_STATUS_NOT_FOUND; IMBREX_STATUS_BUSY, also if this process has the store open with another
/// flash drive or for reading; IMBREX_STATUS_UNSUPPORTED, IMBREX_STATUS_CORRUPT, IMBREX_STATUS_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_store_open(
    drive_path: *const c_char,
    flash_path: *const c_char,
    layout: *const c_char,
    out: *mut *mut Store,
) -> Status {
    // SAFETY: strings and an out parameter, as the header's conventions say.
    unsafe { open(drive_path, flash_path, layout, false, out) }
}

/// Opens the store on the drive at `drive_path` for reading. Nothing is written to the drive: the content of the
/// logs, and whatever recovery repairs, stays in memory.
///
/// The file or the device need only be readable. Any number of processes can have a store open for reading, while
/// none has it open for writing. Writes fail with IMBREX_STATUS_READ_ONLY. In other respects, as
/// imbrex_store_open().
///
/// Errors: as imbrex_store_open(); IMBREX_STATUS_BUSY also if this process has the store open for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_store_open_read_only(
    drive_path: *const c_char,
    flash_path: *const c_char,
    layout: *const c_char,
    out: *mut *mut Store,
) -> Status {
    // SAFETY: strings and an out parameter, as the header's conventions say.
    unsafe { open(drive_path, flash_path, layout, true, out) }
}

/// # Safety
/// Strings and an out parameter, as the header's conventions say.
unsafe fn open(
    drive_path: *const c_char,
    flash_path: *const c_char,
    layout: *const c_char,
    is_read_only: bool,
    out: *mut *mut Store,
) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: the caller's promise.
        let (path, flash, layout) = unsafe {
            let layout = if layout.is_null() { None } else { Some(text(layout, "the layout")?) };
            let flash = match flash_path.is_null() {
                true => None,
                false => Some(Path::new(text(flash_path, "the flash drive's path")?)),
            };
            (Path::new(text(drive_path, "the drive's path")?), flash, layout)
        };
        let layout = layout_named(layout)?;
        let flash_path = flash.map_or(FlashPath::NotNamed, |flash| FlashPath::At(flash.into()));
        let paths = DrivePaths { flash: flash_path, layout, is_read_only, ..DrivePaths::of(path) };
        let image = FoundDrive::canonical_path(path, is_read_only)?;
        let flash =
            flash.map(|flash| FoundDrive::canonical_path(flash, is_read_only)).transpose()?;
        let (shared, _) = OPEN.open(image, || open_images(&paths, flash.clone()))?;
        shared.check_opened_as(path, flash.as_deref(), is_read_only)?;
        require_layout(path, shared.stack.layout, layout)?;
        // SAFETY: the caller's promise.
        unsafe { give(out, Store { shared }) }
    })
}

/// Makes everything written so far durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_store_sync(store: *const Store) -> Status {
    // SAFETY: a handle, as the header's conventions say.
    unsafe { on_store(store, |db| Ok(db.sync()?)) }
}

/// Writes the memtables to tables, durably.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_store_flush(store: *const Store) -> Status {
    // SAFETY: a handle, as the header's conventions say.
    unsafe { on_store(store, |db| Ok(db.flush()?)) }
}

/// Waits until no background work is due: the memtables that were full are in tables, and no compaction is
/// due.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_store_wait_idle(store: *const Store) -> Status {
    // SAFETY: a handle, as the header's conventions say.
    unsafe { on_store(store, |db| Ok(db.wait_idle()?)) }
}

/// Runs `call` on a store.
///
/// # Safety
/// A handle, as the header's conventions say.
unsafe fn on_store(store: *const Store, call: impl FnOnce(&Db) -> Result<(), Failure>) -> Status {
    guard(|| {
        // SAFETY: the caller's promise.
        let store = unsafe { handle(store, "the store")? };
        store.shared.writing(call)
    })
}

/// Returns a property of the store as text without a terminating NUL: `stats`, `levels`,
/// `write-amplification`, `memtable-bytes`, `block-cache-bytes`, `last-sequence`, `snapshots` or
/// `background-error`.
///
/// `out_len_bytes` receives the length of the text. If it exceeds `len_bytes`, `buffer` holds only the
/// beginning: call again with a longer buffer.
///
/// Errors: IMBREX_STATUS_NOT_FOUND for any other name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_store_get_property(
    store: *const Store,
    name: *const c_char,
    buffer: *mut u8,
    len_bytes: usize,
    out_len_bytes: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: a handle and a string, as the header's conventions say.
        let (store, name) = unsafe { (handle(store, "the store")?, text(name, "the name")?) };
        let property = store.shared.stack.db.property(name).ok_or_else(|| {
            Failure::new(Status::NotFound, format!("a store has no property {name:?}"))
        })?;
        // SAFETY: a buffer and an out parameter, as the header's conventions say.
        unsafe { copy_out(property.as_bytes(), buffer, len_bytes, out_len_bytes) }
    })
}

/// Makes everything durable and releases the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_store_close(store: *mut Store) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        let Some(store) = (unsafe { take(store)? }) else { return Ok(()) };
        if store.shared.is_read_only {
            return Ok(());
        }
        store.shared.writing(|db| Ok(db.sync()?))
    })
}

/// Opens the keyspace `name`, a separate ordered map in the store.
///
/// With `create` a missing keyspace is created, durably, with the options of the drive's layout. The
/// keyspace "default" always exists. Release it with imbrex_keyspace_close().
///
/// Errors: IMBREX_STATUS_NOT_FOUND for a missing keyspace without `create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_keyspace_open(
    store: *const Store,
    name: *const c_char,
    create: bool,
    out: *mut *mut Keyspace,
) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: a handle and a string, as the header's conventions say.
        let (store, name) = unsafe { (handle(store, "the store")?, text(name, "the name")?) };
        let shared = Arc::clone(&store.shared);
        let inner = match shared.stack.db.keyspace(name) {
            Err(EngineError::NoKeyspace { .. }) if create => shared.create(name)?,
            found => found?,
        };
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { give(out, Keyspace { inner, shared }) }
    })
}

impl Shared {
    fn create(&self, name: &str) -> Result<imbrex_engine::Keyspace, Failure> {
        let options = self.stack.layout.recipe(self.stack.drive.geometry()).options.keyspace;
        self.writing(|db| match db.create_keyspace(name, options) {
            // Another thread has created it meanwhile.
            Err(EngineError::KeyspaceExists { .. }) => Ok(db.keyspace(name)?),
            made => Ok(made?),
        })
    }
}

/// Releases the keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_keyspace_close(keyspace: *mut Keyspace) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        drop(unsafe { take(keyspace)? });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{imbrex_get, imbrex_put};
    use imbrex::Layout;
    use imbrex_clockwork::Runtime;
    use imbrex_disk::{Blocks, Geometry, GeometrySpec, Rule};
    use imbrex_disk_sim::SimDisk;
    use std::ffi::CString;
    use std::ptr;

    /// An image with an empty store on it.
    fn make(path: &Path) {
        let layout = Layout::by_name("leveled-first-fit").unwrap();
        let spec = GeometrySpec { len: Blocks::new(1 << 17), rule: Rule::Anywhere };
        let geometry = Geometry::new(spec).unwrap();
        let disk = Arc::new(SimDisk::builder(geometry).create_image(path, "", 1).unwrap());
        let recipe = layout.recipe(&geometry);
        let stack = layout.format_with(disk, &Runtime::threads(1), &recipe, 7);
        stack.unwrap().close().unwrap();
    }

    fn open(path: &Path) -> (*mut Store, *mut Keyspace) {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        let (mut store, mut keyspace) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: strings and out parameters that live as long as the calls; a handle that is open.
        unsafe {
            let status = imbrex_store_open(path.as_ptr(), ptr::null(), ptr::null(), &raw mut store);
            assert_eq!(status, Status::Ok);
            let status = imbrex_keyspace_open(store, c"default".as_ptr(), false, &raw mut keyspace);
            assert_eq!(status, Status::Ok);
        }
        (store, keyspace)
    }

    fn put(keyspace: *mut Keyspace, key: &[u8], sync: bool) -> Status {
        // SAFETY: a handle that is open, and buffers as long as said.
        unsafe { imbrex_put(keyspace, key.as_ptr(), key.len(), key.as_ptr(), key.len(), sync) }
    }

    fn get(keyspace: *mut Keyspace, key: &[u8]) -> Status {
        let (mut value, mut len) = ([0_u8; 16], 0);
        // SAFETY: a handle that is open, buffers as long as said, and an out parameter.
        unsafe {
            let (at, room) = (value.as_mut_ptr(), value.len());
            imbrex_get(keyspace, key.as_ptr(), key.len(), at, room, &raw mut len)
        }
    }

    /// Every call was refused, but closing the store wrote the half-done state that a panic had left.
    #[test]
    fn after_a_panic_a_store_ends_without_a_write() {
        check_ends_without_a_write_after(|shared| {
            assert_eq!(guard(|| shared.writing(|_| panic!("a bug below"))), Status::Bug);
        });
    }

    /// A panic in the background was not noticed, and writes went on.
    #[test]
    fn after_a_panic_in_the_background_a_store_ends_without_a_write() {
        check_ends_without_a_write_after(|shared| shared.workers.break_one());
    }

    fn check_ends_without_a_write_after(meet_a_bug: fn(&Shared)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("drive");
        make(&path);
        let (store, keyspace) = open(&path);
        assert_eq!(put(keyspace, b"synced", true), Status::Ok);
        assert_eq!(put(keyspace, b"not synced", false), Status::Ok);
        // SAFETY: a handle that is open.
        let shared = unsafe { Arc::clone(&(*keyspace).shared) };
        let disk = Arc::clone(&shared.stack.disk);
        let before = disk.counters();
        meet_a_bug(&shared);
        assert_eq!(put(keyspace, b"refused", true), Status::Bug);
        assert_eq!(get(keyspace, b"not synced"), Status::Ok, "reads go on");
        let background = shared.stack.db.property("background-error").unwrap();
        assert!(background.contains("a bug in imbrex"), "{background}");
        drop(shared);
        // SAFETY: handles that are open, and given back once.
        unsafe {
            assert_eq!(imbrex_store_close(store), Status::Bug);
            assert_eq!(imbrex_keyspace_close(keyspace), Status::Ok);
        }
        let after = disk.counters();
        assert_eq!((after.writes, after.flushes), (before.writes, before.flushes), "A3");
        drop(disk);

        let (store, keyspace) = open(&path);
        assert_eq!(get(keyspace, b"synced"), Status::Ok);
        assert_eq!(get(keyspace, b"not synced"), Status::NotFound);
        // SAFETY: handles that are open, and given back once.
        unsafe {
            assert_eq!(imbrex_store_close(store), Status::Ok);
            assert_eq!(imbrex_keyspace_close(keyspace), Status::Ok);
        }
    }
}
