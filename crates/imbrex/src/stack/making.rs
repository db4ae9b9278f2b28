//! Making a store, or room for the files of another database: on drives that exist, or on new images.
//!
//! ```text
//!   drives that exist    FoundDrives::blank:  blank, or may be erased?  -> rehearse on copies in memory -> erase
//!   new images           create_images:       create -> make -> remove them again if that fails
//!   both                 Formatting:          does the layout suit? -> format -> is there room for a store?
//! ```
//!
//! Invariants
//!   K1  Nothing on an existing drive is written or erased until all of its drives are open, may be erased, and the same
//!       making has succeeded on blank drives of the same shape.
//!   K2  A failed creation leaves no image of its own.
//!
//! Not here: opening (`opening`), the choice of an emulated drive's shape (`emulated`).

use super::compose::{Mounted, Stack};
use super::content::{first_data, own_content};
use super::drives::Drives;
use super::error::{LayoutError, Occupied};
use super::foreign::{Foreign, foreign_content};
use super::found_drive::FoundDrive;
use super::layout::Layout;
use super::opening::{FlashPath, FoundDrives};
use super::recipe::Recipe;
use crate::error::{Error, ErrorKind, error_text};
use imbrex_clockwork::{Clock, Order, Runtime};
use imbrex_disk::{ByteSize, Disk, Geometry, Rule, ZoneState};
use imbrex_disk_sim::{Profile, SimDisk, ZoneFailure};
use imbrex_engine::EngineError;
use imbrex_files::Files;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The least number of zones for the files of another database. Its open logs (a write-ahead log and the next one, a
/// manifest and the next one, an info log) have a zone each, seven levels have one each, cleaning has two of its own, and
/// two are left.
const FOREIGN_ZONE_COUNT_MIN: u64 = 16;

/// The least drive for them: four write buffers of LevelDB.
const FOREIGN_LEN_BYTES_MIN: u64 = 16 << 20;

/// A small store of few bands has so many: sets, logs, and what merges write.
const GUARD_COUNT: u64 = 8;

/// How drives are formatted.
#[derive(Clone, Debug)]
pub struct Formatting {
    /// The main drive, for messages.
    path: PathBuf,
    /// As what.
    pub layout: Layout,
    /// The parts of the layout; may be adjusted.
    pub recipe: Recipe,
    /// Distinguishes this format of a drive from others; see [`Layout::format_with`].
    pub format_id: u64,
}

impl Formatting {
    /// The formatting of a drive of `geometry` at `path`: as `asked`, or as the usual layout of such a drive.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: the layout cannot use the drive, or no layout can.
    pub fn new(
        path: &Path,
        geometry: &Geometry,
        asked: Option<Layout>,
        format_id: u64,
    ) -> Result<Formatting, Error> {
        let Some(layout) = asked.or_else(|| Layout::default_for(geometry.rule())) else {
            let (shown, rule) = (path.display(), geometry.rule().name());
            let message = format!("cannot format {shown}: no layout is for {rule} drives");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        };
        let unsuitable = |reason| LayoutError::Unsuitable { layout: layout.name(), reason };
        let suits = layout.suits(geometry).map_err(unsuitable);
        suits.map_err(|error| Error::at("format", path, error))?;
        let recipe = layout.recipe(geometry);
        Ok(Formatting { path: path.to_owned(), layout, recipe, format_id })
    }

    /// Refuses a flash drive that the layout has no use for, and a layout that needs one without it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`].
    pub fn check_flash(&self, has_flash: bool) -> Result<(), Error> {
        let (shown, layout) = (self.path.display(), self.layout);
        let rule = match (layout.takes_flash(), has_flash) {
            (true, false) => "takes a flash drive in addition to the drive; name one".to_owned(),
            (false, true) => {
                let with = Layout::all().filter(|layout| layout.takes_flash());
                let with: Vec<_> = with.map(Layout::name).collect();
                let with = with.join(", ");
                format!("has no use for a flash drive; name none, or choose {with}")
            }
            _ => return Ok(()),
        };
        let message = format!("cannot format {shown}: layout {layout} {rule}");
        Err(Error::new(ErrorKind::InvalidArgument, message))
    }

    /// Makes files on blank drives, and no store.
    ///
    /// # Errors
    /// As [`Layout::format_files`].
    pub fn files(&self, drives: Drives, runtime: &Runtime) -> Result<Mounted, Error> {
        let mounted = self.layout.format_files(drives, runtime, &self.recipe, self.format_id);
        mounted.map_err(|error| Error::at("format", &self.path, error))
    }

    /// Makes an empty store on blank drives.
    ///
    /// # Errors
    /// As [`Formatting::files`]; [`ErrorKind::InvalidArgument`]: the drive has no room for a store.
    pub fn store(&self, drives: Drives, runtime: &Runtime) -> Result<Stack, Error> {
        let mounted = self.files(drives, runtime)?;
        let stack = mounted.open_db(runtime, self.recipe.options.clone());
        let stack = stack.map_err(|error| Error::at("format", &self.path, error))?;
        let (drive_len, guards_len) =
            (writable_len(&*stack.drive), guards_len(stack.disk.geometry()));
        let checked = stack.db.check_length(drive_len, guards_len);
        checked.map_err(|error| self.too_small(room_missing(&error)))?;
        Ok(stack)
    }

    /// Makes room for the files of another database on blank drives.
    ///
    /// # Errors
    /// As [`Formatting::files`]; [`ErrorKind::InvalidArgument`]: the drive has too few zones, or more than half of it is
    /// not for files.
    pub fn foreign_files(&self, drives: Drives, runtime: &Runtime) -> Result<Mounted, Error> {
        let mounted = self.files(drives, runtime)?;
        let (space, len) = (mounted.files.space(), writable_len(&*mounted.drive));
        if len < FOREIGN_LEN_BYTES_MIN {
            let least = FOREIGN_LEN_BYTES_MIN >> 20;
            return Err(self.too_small(format!("a database of another program needs {least} MiB")));
        }
        if let Some(zones) = mounted.disk.geometry().zones() {
            let count = space.capacity_bytes / zones.zone_capacity.bytes();
            if count < FOREIGN_ZONE_COUNT_MIN {
                return Err(self.too_small(format!(
                    "it has {count} zones for files, and a database needs {FOREIGN_ZONE_COUNT_MIN} for its logs and \
                     levels"
                )));
            }
        }
        let kept = space.reserve_bytes + len.saturating_sub(space.capacity_bytes);
        if len < 2 * kept {
            let kept = ByteSize(kept);
            let kept = format!("{kept} of it is not for files, which is more than half");
            return Err(self.too_small(kept));
        }
        Ok(mounted)
    }

    /// Where the main drive is, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn too_small(&self, reason: String) -> Error {
        let layout = self.layout.name();
        Error::at("format", &self.path, LayoutError::TooSmall { layout, reason })
    }

    /// Makes an empty store on blank drives, and closes it.
    ///
    /// # Errors
    /// As [`Formatting::store`].
    pub fn closed_store(&self, drives: Drives, runtime: &Runtime) -> Result<(), Error> {
        let stack = self.store(drives, runtime)?;
        stack.close().map_err(|error| Error::at("format", &self.path, error))
    }

    /// Makes files on copies of drives, as a rehearsal.
    ///
    /// # Errors
    /// As [`Formatting::files`].
    pub fn rehearse_files(&self, copies: Drives) -> Result<(), Error> {
        let (runtime, _) = Runtime::virtual_time(Order::SmallestTime);
        self.files(copies, &runtime).map(drop)
    }

    /// Makes room for another database on copies of drives, as a rehearsal.
    ///
    /// # Errors
    /// As [`Formatting::foreign_files`].
    pub fn rehearse_foreign_files(&self, copies: Drives) -> Result<(), Error> {
        let (runtime, _) = Runtime::virtual_time(Order::SmallestTime);
        self.foreign_files(copies, &runtime).map(drop)
    }

    /// Makes a store on copies of drives, as a rehearsal.
    ///
    /// # Errors
    /// As [`Formatting::store`].
    pub fn rehearse_store(&self, copies: Drives) -> Result<(), Error> {
        let (runtime, _) = Runtime::virtual_time(Order::SmallestTime);
        self.closed_store(copies, &runtime)
    }
}

/// How much can be written to `disk`, in bytes.
fn writable_len(disk: &dyn Disk) -> u64 {
    let zones = disk.report_zones();
    match zones.is_empty() {
        true => disk.geometry().len().bytes(),
        false => zones.iter().map(|zone| zone.capacity.bytes()).sum(),
    }
}

/// How much the guards of [`GUARD_COUNT`] bands take in bytes, if files have any.
fn guards_len(geometry: &Geometry) -> u64 {
    match geometry.rule() {
        Rule::IsolationDistance(tracks) => {
            GUARD_COUNT * (tracks.track_len + tracks.isolation_len()).bytes()
        }
        _ => 0,
    }
}

/// What an empty drive lacks, from the refusal of its store.
fn room_missing(error: &EngineError) -> String {
    match error {
        EngineError::NoSpace { .. } => {
            "a store keeps so much of it free for logs, deletes and merges that less than half \
                                        would be left for entries"
                .to_owned()
        }
        error => error_text(error),
    }
}

/// What formatting may erase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Erase {
    /// Nothing: a drive that holds data is refused.
    #[default]
    Nothing,
    /// What this program has written, and data that it does not know.
    Own,
    /// The same, and what other programs have put on the drives, as far as these names say what it is.
    Named(Vec<String>),
}

impl Erase {
    /// Whether a drive that holds `foreign` may be erased.
    fn allows(&self, foreign: Option<&Foreign>) -> bool {
        match (self, foreign) {
            (Erase::Nothing, _) => false,
            (_, None) => true,
            (Erase::Own, Some(_)) => false,
            (Erase::Named(names), Some(foreign)) => {
                names.iter().any(|name| foreign.is_called(name))
            }
        }
    }
}

impl FoundDrives {
    /// Returns the drives, blank. A drive that holds data is erased if `erase` allows it, and refused otherwise.
    ///
    /// `rehearse` gets blank copies of the drives first, in memory and with the same zones out of order. If it fails, or
    /// if one of the drives is refused, all of them stay as they are (K1).
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`]: a drive holds data ([`Occupied`] is the cause), or none holds what `erase` names. Else
    /// the error of `rehearse`, or of a failing drive.
    pub fn blank(
        &self,
        erase: &Erase,
        rehearse: impl FnOnce(Drives) -> Result<(), Error>,
    ) -> Result<Drives, Error> {
        let flash = match (&self.flash, &self.paths.flash) {
            (Some(drive), FlashPath::At(path)) => Some((path, drive)),
            _ => None,
        };
        let both = || std::iter::once((&self.paths.main, &self.main)).chain(flash);
        let mut unmet = match erase {
            Erase::Named(names) => names.clone(),
            Erase::Nothing | Erase::Own => Vec::new(),
        };
        for (path, drive) in both() {
            if let Some(foreign) = check_erasable(path, &drive.disk(), erase)? {
                unmet.retain(|name| !foreign.is_called(name));
            }
        }
        if let Some(name) = unmet.first() {
            let shown = self.paths.main.display();
            let message =
                format!("cannot erase {shown}: it does not hold {name}; check which drive it is");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let mut copies = Drives::from(blank_copy(&self.paths.main, &*self.main.disk())?);
        if let Some((path, drive)) = flash {
            copies = copies.with_flash(blank_copy(path, &*drive.disk())?);
        }
        rehearse(copies)?;
        if *erase != Erase::Nothing {
            for (path, drive) in both() {
                drive.erase().map_err(|error| Error::at("erase", path, error))?;
            }
        }
        Ok(self.drives())
    }
}

/// Refuses a drive that holds data which may not be erased. Returns what another program has put on it, if that may be.
fn check_erasable(
    path: &Path,
    disk: &Arc<dyn Disk>,
    erase: &Erase,
) -> Result<Option<Foreign>, Error> {
    let failed = |error| Error::at("format", path, error);
    let foreign = foreign_content(&**disk).map_err(failed)?;
    if erase.allows(foreign.first()) {
        return Ok(foreign.into_iter().next());
    }
    let what = match (foreign.is_empty(), own_content(disk)) {
        (false, _) => {
            let all: Vec<_> = foreign.iter().map(ToString::to_string).collect();
            Some(format!("it holds {}", all.join(", and ")))
        }
        (true, Some(own)) => Some(format!("it holds {own}")),
        (true, None) => first_data(&**disk).map_err(failed)?,
    };
    let Some(what) = what else { return Ok(None) };
    let name = foreign.first().map(|foreign| foreign.name);
    Err(Error::at("format", path, Occupied { what, name }))
}

/// A blank drive in memory with the same geometry, and with the same zones read-only or offline.
fn blank_copy(path: &Path, disk: &dyn Disk) -> Result<Arc<SimDisk>, Error> {
    let copy = SimDisk::builder(*disk.geometry()).memory();
    let copy = copy.map_err(|error| Error::at("format", path, error))?;
    for zone in disk.report_zones() {
        let failure = match zone.state {
            ZoneState::ReadOnly => ZoneFailure::ReadOnly,
            ZoneState::Offline => ZoneFailure::Offline,
            _ => continue,
        };
        let failed = copy.fail_zone(zone.zone, failure);
        failed.map_err(|error| Error::at("format", path, error))?;
    }
    Ok(Arc::new(copy))
}

/// An image to be created for an emulated drive.
#[derive(Clone, Debug)]
pub struct NewImage<'a> {
    /// Where; nothing may exist there.
    pub path: &'a Path,
    /// The drive to emulate.
    pub profile: Profile,
    /// Whether the time that the drive takes is modelled.
    pub is_timed: bool,
    /// Decides the image's id. A drive and its flash drive need different ones.
    pub seed: u64,
}

impl NewImage<'_> {
    fn create(&self, clock: &Arc<dyn Clock>) -> Result<FoundDrive, Error> {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
            let (shown, parent) = (self.path.display(), parent.display());
            let message =
                format!("cannot create {shown}: {parent} is not a directory; create it first");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let mut builder = SimDisk::builder(self.profile.geometry()).clock(Arc::clone(clock));
        if self.is_timed {
            builder = builder.profile(self.profile.clone());
        }
        let disk = builder.create_image(self.path, "", self.seed);
        let disk = disk.map_err(|error| Error::at("create", self.path, error))?;
        Ok(FoundDrive::Image(Arc::new(disk)))
    }
}

/// Creates images for a drive and its flash drive, and makes something on them with `make`. If that fails, the images are
/// removed (K2). Requests to the drives advance `clock`.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`], [`ErrorKind::NotFound`] for a missing directory, [`ErrorKind::NoSpace`],
/// [`ErrorKind::Io`]; or the error of `make`.
pub fn create_images<T>(
    main: &NewImage<'_>,
    flash: Option<&NewImage<'_>>,
    clock: &Arc<dyn Clock>,
    make: impl FnOnce(Drives) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut drives = Drives::from(main.create(clock)?.disk());
    let mut created = vec![main.path];
    let mut add_flash = || {
        let Some(flash) = flash else { return Ok(()) };
        let disk = flash.create(clock)?.disk();
        created.push(flash.path);
        drives.beside = super::drives::Beside::Flash(disk);
        Ok(())
    };
    let made = add_flash().and_then(|()| make(drives));
    // The images are this call's own.
    made.inspect_err(|_| created.iter().for_each(|path| _ = std::fs::remove_file(path)))
}
