//! Drives: an image, what it is formatted as, and the file system on it.
//!
//! A process opens a drive once, however often it is asked to: the handles share it, and the last of
//! them, or of the files open on it, closes it.

use crate::open::{Opened, Registry, Workers, check_layout, image_at, layout_named, open_drive};
use crate::process::Held;
use crate::status::{Failure, Fuse, Status, guard};
use crate::strings::{give, handle, put, structure, take, text};
use imbrex::{FoundDrive, Layout, mount};
use imbrex_clockwork::{Prng, unix_time_s};
use imbrex_disk::{Blocks, Disk};
use imbrex_disk_sim::OpenOptions;
use imbrex_files::FileLayer;
use imbrex_filesystem::{FileSystem, FsOptions};
use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;

/// One thread cleans where the layout has to.
const WORKER_COUNT: usize = 1;

/// A drive that is open.
#[derive(Debug)]
pub struct Drive {
    shared: Arc<Opened<Shared>>,
}

/// What all handles of a drive share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) fs: FileSystem,
    layout: Layout,
    /// What the files lie on.
    pub(crate) disk: Arc<dyn Disk>,
    /// The files, for their counters.
    layer: FileLayer,
    fuse: Fuse,
    // After all that uses them.
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
    /// Runs a call that may write, unless something is broken already.
    pub(crate) fn writing<T>(
        &self,
        call: impl FnOnce(&FileSystem) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.fuse.guard(&self.workers, || self.layer.end_cleaning(), || call(&self.fs))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Who wants to know whether it works calls `imbrex_drive_sync` first.
        let _ = self.writing(|fs| Ok(fs.sync_all()?));
    }
}

fn open(
    path: &Path,
    layout: Option<&str>,
    cut: Option<PowerCut>,
) -> Result<Arc<Opened<Shared>>, Failure> {
    let asked = layout_named(layout)?;
    let image = image_at(path, "; `imbrex drive create --no-store` makes a drive")?;
    let (shared, is_new) = OPEN.open(image, || open_image(path, cut))?;
    if cut.is_some() && !is_new {
        let message = format!("drive {} is open already, without that power cut", path.display());
        return Err(Failure::new(Status::Busy, message));
    }
    check_layout(path, shared.layout, asked)?;
    Ok(shared)
}

fn open_image(path: &Path, cut: Option<PowerCut>) -> Result<Shared, Failure> {
    let what = format!("cannot open drive {}: ", path.display());
    let options = match cut {
        None => OpenOptions::default(),
        Some(cut) => OpenOptions::default().write_cache(Blocks::holding(cut.cache_bytes)),
    };
    let drive = open_drive(path, options, &what)?;
    match (&drive, cut) {
        (FoundDrive::Image(disk), Some(cut)) => {
            disk.lose_power_after(cut.after_event_count, Prng::new(cut.seed));
        }
        (FoundDrive::Device(_), Some(_)) => {
            let message = format!("{what}it is a real drive, whose power nobody here can cut");
            return Err(Failure::new(Status::Unsupported, message));
        }
        (_, None) => {}
    }
    let (workers, runtime) = Workers::start(WORKER_COUNT);
    let mounted = mount(drive.disk(), &runtime)
        .map_err(|error| Failure::of_opening(Status::Unsupported, &what, &error))?;
    let files = Arc::new(mounted.files.clone());
    let fs = FileSystem::open(files, FsOptions { unix_time_s })
        .map_err(|error| Failure::of_opening(Status::of(&error), &what, &error))?;
    runtime.scheduler.spawn(mounted.files.clean_job());
    let (layout, disk, layer) = (mounted.layout, mounted.disk, mounted.files);
    Ok(Shared { fs, layout, disk, layer, fuse: Fuse::default(), workers })
}

/// Opens the drive at `image_path`: an image file, made by `imbrex drive create --no-store`, or a block device, made
/// ready by `imbrex drive format --no-store`.
///
/// `layout` names the layout that it must be formatted as; NULL takes any. Give the drive back with
/// imbrex_drive_close().
///
/// Errors: IMBREX_STATUS_NOT_FOUND, IMBREX_STATUS_BUSY, IMBREX_STATUS_UNSUPPORTED, IMBREX_STATUS_CORRUPT, IMBREX_STATUS_IO.
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

/// A power cut that an emulated drive shall meet, for tests.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PowerCut {
    /// So many writes, flushes and resets of zones complete; the next is on its way.
    pub after_event_count: u64,
    /// Decides what of the unflushed writes is on the platter.
    pub seed: u64,
    /// The drive's volatile write cache.
    pub cache_bytes: u64,
}

/// Opens an emulated drive that loses its power at a chosen event: a facility for tests.
///
/// As imbrex_drive_open(), but writes stay in the drive's volatile cache until they are flushed, and once
/// `cut` comes every call that needs the drive fails. The image is then what such a drive holds when
/// the power is back: of what was not flushed any part, in any order, writes torn. A process that dies
/// before loses the whole cache.
///
/// Errors: as imbrex_drive_open(); IMBREX_STATUS_BUSY also if this process has the drive open.
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

/// Makes everything durable and takes the handle back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_drive_close(drive: *mut Drive) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        let Some(drive) = (unsafe { take(drive)? }) else { return Ok(()) };
        drive.shared.writing(|fs| Ok(fs.sync_all()?))
    })
}

/// What a drive holds and what it has done since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DriveStats {
    /// All that files could ever use.
    pub capacity_bytes: u64,
    /// Held by files.
    pub live_bytes: u64,
    /// Dead, in zones and bands that are not free yet.
    pub dead_bytes: u64,
    /// Can be written now.
    pub free_bytes: u64,
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Flushes of the drive's cache.
    pub flushes: u64,
    /// Seeks of the arm.
    pub seeks: u64,
    /// Bytes read from the platter.
    pub read_bytes: u64,
    /// Bytes written to the platter.
    pub written_bytes: u64,
    /// Of these, what the recording added: read-modify-write.
    pub added_read_bytes: u64,
    /// The same of what was written.
    pub added_written_bytes: u64,
    /// How long the modelled drive was busy.
    pub busy_ns: u64,
    /// Bytes written for files: tables, and logs as framed. What the drive wrote beyond them is the
    /// catalog's, cleaning's and rewriting's.
    pub file_written_bytes: u64,
    /// Bytes written to the catalog.
    pub catalog_written_bytes: u64,
    /// Commits: each syncs the drive.
    pub commits: u64,
    /// Zones and bands emptied by cleaning.
    pub cleaned_zones: u64,
    /// Bytes that cleaning moved for it.
    pub cleaning_moved_bytes: u64,
    /// Zones reset, most of them without being cleaned.
    pub reset_zones: u64,
    /// Top tracks backed up and moved back because bottom tracks below them were written.
    pub rewritten_tracks: u64,
    /// Bytes moved back; as many were backed up.
    pub rewritten_bytes: u64,
    /// Syncs that writing to interlaced tracks asked for, besides those of commits.
    pub track_syncs: u64,
}

/// Tells what the drive holds and has done.
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
