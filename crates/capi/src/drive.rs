//! Drives: an image or a device, its layout, and the file system on it.
//!
//! A process opens a drive once. All handles share it, and it is closed with the last handle or the last open
//! file.

use crate::open::{Opened, Registry, Workers, layout_named};
use crate::process::Held;
use crate::status::{Failure, Fuse, Status, guard};
use crate::strings::{give, handle, put, structure, take, text};
use imbrex::stack::{self, DrivePaths, FoundDrive, Layout, require_layout};
use imbrex_disk::Disk;
use imbrex_files::FileLayer;
use imbrex_filesystem::FileSystem;
use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;

/// One thread, for cleaning in layouts that need it.
const WORKER_COUNT: usize = 1;

/// An open drive.
#[derive(Debug)]
pub struct Drive {
    shared: Arc<Opened<Shared>>,
}

/// The state that all handles of a drive share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) fs: FileSystem,
    layout: Layout,
    /// The disk below the files.
    pub(crate) disk: Arc<dyn Disk>,
    /// The files, for their counters.
    layer: FileLayer,
    fuse: Fuse,
    // Last, because fields are dropped in order, and the others use the workers.
    pub(crate) workers: Workers,
}

/// The drives that this process has open.
static OPEN: Registry<Shared> = Registry::new();

impl Held for Drive {
    fn opener(&self) -> Option<u32> {
        self.shared.opener()
    }
}

impl Drive {
    pub(crate) fn shared(&self) -> &Arc<Opened<Shared>> {
        &self.shared
    }
}

impl Shared {
    /// Runs a call that may write, unless a panic came before.
    pub(crate) fn writing<T>(
        &self,
        call: impl FnOnce(&FileSystem) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.fuse.guard(&self.workers, || self.layer.end_cleaning(), || call(&self.fs))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A caller that needs the result calls `imbrex_drive_sync` first.
        let _ = self.writing(|fs| Ok(fs.sync_all()?));
    }
}

fn open(
    path: &Path,
    layout: Option<&str>,
    cut: Option<PowerCut>,
) -> Result<Arc<Opened<Shared>>, Failure> {
    let layout = layout_named(layout)?;
    let power_cut = cut.map(|cut| stack::PowerCut {
        after_event_count: cut.after_event_count,
        seed: cut.seed,
        cache_bytes: cut.cache_bytes,
    });
    let paths = DrivePaths { layout, power_cut, ..DrivePaths::of(path) };
    let image = FoundDrive::canonical_path(path, false)?;
    let (shared, is_new) = OPEN.open(image, || open_image(&paths))?;
    if cut.is_some() && !is_new {
        let message = format!("drive {} is open already, without this power cut", path.display());
        return Err(Failure::new(Status::Busy, message));
    }
    require_layout(path, shared.layout, layout)?;
    Ok(shared)
}

fn open_image(paths: &DrivePaths) -> Result<Shared, Failure> {
    let (workers, runtime) = Workers::start(WORKER_COUNT);
    let (mounted, fs) = paths.find()?.open_file_system(&runtime)?;
    runtime.scheduler.spawn(mounted.files.clean_job());
    let (layout, disk, layer) = (mounted.layout, mounted.disk, mounted.files);
    Ok(Shared { fs, layout, disk, layer, fuse: Fuse::default(), workers })
}

/// Opens the drive at `image_path`: an image file from `imbrex drive create --no-store`, or a block device
/// prepared by `imbrex drive format --no-store`.
///
/// `layout` names the required layout; NULL accepts any. Release the drive with imbrex_drive_close().
///
/// Errors: IMBREX_STATUS_NOT_FOUND, IMBREX_STATUS_BUSY, IMBREX_STATUS_UNSUPPORTED,
/// IMBREX_STATUS_CORRUPT, IMBREX_STATUS_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_drive_open(
    image_path: *const c_char,
    layout: *const c_char,
    out: *mut *mut Drive,
) -> Status {
    guard(|| {
        // SAFETY: strings and an out parameter, as the header's conventions say.
        unsafe {
            let layout = if layout.is_null() { None } else { Some(text(layout, "the layout")?) };
            let shared = open(Path::new(text(image_path, "the image's path")?), layout, None)?;
            give(out, Drive { shared })
        }
    })
}

/// A planned power cut of an emulated drive, for tests.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PowerCut {
    /// The number of writes, flushes and zone resets that complete; the power fails during the next.
    pub after_event_count: u64,
    /// Selects which unflushed writes have reached the platter.
    pub seed: u64,
    /// The length of the drive's volatile write cache.
    pub cache_bytes: u64,
}

/// Opens an emulated drive that loses its power at a chosen event, for tests.
///
/// Like imbrex_drive_open(), but writes stay in the drive's volatile cache until they are flushed. From the
/// event of `cut` on, every call that needs the drive fails. The image then holds what such a drive holds
/// when the power returns: any part of the unflushed writes, in any order, some of them torn. If the
/// process dies before the event, the whole cache is lost.
///
/// Errors: as imbrex_drive_open(); also IMBREX_STATUS_BUSY if this process has the drive open already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_drive_open_for_power_cut(
    image_path: *const c_char,
    layout: *const c_char,
    cut: *const PowerCut,
    out: *mut *mut Drive,
) -> Status {
    guard(|| {
        // SAFETY: strings, a struct to read and an out parameter, as the header's conventions say.
        unsafe {
            let layout = if layout.is_null() { None } else { Some(text(layout, "the layout")?) };
            let cut = structure(cut, "the power cut")?;
            let path = Path::new(text(image_path, "the image's path")?);
            give(out, Drive { shared: open(path, layout, Some(*cut))? })
        }
    })
}

/// Makes everything durable: all bytes appended to any file, and all names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_drive_sync(drive: *const Drive) -> Status {
    guard(|| {
        // SAFETY: a handle, as the header's conventions say.
        let drive = unsafe { handle(drive, "the drive")? };
        drive.shared.writing(|fs| Ok(fs.sync_all()?))
    })
}

/// Makes everything durable and releases the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_drive_close(drive: *mut Drive) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        let Some(drive) = (unsafe { take(drive)? }) else { return Ok(()) };
        drive.shared.writing(|fs| Ok(fs.sync_all()?))
    })
}

/// The content of a drive, and its counters since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DriveStats {
    /// Space for files in total.
    pub capacity_bytes: u64,
    /// Space in use by files.
    pub live_bytes: u64,
    /// Dead space, in zones and bands that are not free yet.
    pub dead_bytes: u64,
    /// Space that can be written now.
    pub free_bytes: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Flushes of the drive's cache.
    pub flushes: u64,
    /// Seeks of the arm.
    pub seeks: u64,
    /// Bytes read from the platter.
    pub read_bytes: u64,
    /// Bytes written to the platter.
    pub written_bytes: u64,
    /// Bytes of `read_bytes` that the recording added by read-modify-write.
    pub added_read_bytes: u64,
    /// Bytes of `written_bytes` that the recording added by read-modify-write.
    pub added_written_bytes: u64,
    /// Busy time of the modelled drive.
    pub busy_ns: u64,
    /// Bytes written for files: tables, and logs with their framing. All other written bytes belong to the
    /// catalog, to cleaning and to rewriting.
    pub file_written_bytes: u64,
    /// Bytes written to the catalog.
    pub catalog_written_bytes: u64,
    /// Commits: each syncs the drive.
    pub commits: u64,
    /// Zones and bands emptied by cleaning.
    pub cleaned_zones: u64,
    /// Bytes that cleaning moved.
    pub cleaning_moved_bytes: u64,
    /// Zones reset, most of them without cleaning.
    pub reset_zones: u64,
    /// Top tracks that were backed up and moved back for writes to bottom tracks below them.
    pub rewritten_tracks: u64,
    /// Bytes moved back; the same number was backed up.
    pub rewritten_bytes: u64,
    /// Syncs for writes to interlaced tracks, in addition to those of commits.
    pub track_syncs: u64,
}

/// Returns the content and the counters of the drive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_drive_get_stats(
    drive: *const Drive,
    out: *mut DriveStats,
) -> Status {
    guard(|| {
        // SAFETY: a handle, as the header's conventions say.
        let drive = unsafe { handle(drive, "the drive")? };
        let space = drive.shared.fs.files().space();
        let counters = drive.shared.disk.counters();
        let files = drive.shared.layer.stats();
        let stats = DriveStats {
            capacity_bytes: space.capacity_bytes,
            live_bytes: space.live_bytes,
            dead_bytes: space.dead_bytes,
            free_bytes: space.free_bytes,
            reads: counters.reads,
            writes: counters.writes,
            flushes: counters.flushes,
            seeks: counters.seeks,
            read_bytes: counters.read_bytes,
            written_bytes: counters.written_bytes,
            added_read_bytes: counters.added_read_bytes,
            added_written_bytes: counters.added_written_bytes,
            busy_ns: counters.busy_ns,
            file_written_bytes: files.file_written_bytes,
            catalog_written_bytes: files.catalog_written_bytes,
            commits: files.commits,
            cleaned_zones: files.cleaned_zones,
            cleaning_moved_bytes: files.cleaning_moved_bytes,
            reset_zones: files.reset_zones,
            rewritten_tracks: files.rewritten_tracks,
            rewritten_bytes: files.rewritten_bytes,
            track_syncs: files.track_syncs,
        };
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { put(out, stats) }
    })
}
