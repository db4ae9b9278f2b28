//! How a store is created or opened: a builder whose defaults suit most.

use crate::emulated::{Profile, Shape, flash_profile};
use crate::fitting::{Trial, blank_drives, refused};
use crate::stack::opening::{mount_at, open_at};
use crate::stack::{
    DrivePaths, Drives, Erase, FlashPath, Formatting, FoundDrive, FoundDrives, Layout, NewImage,
    create_images,
};
use crate::{Error, ErrorKind, Store};
use imbrex_clockwork::{Runtime, entropy_u64};
use imbrex_disk::{Disk, Geometry};
use imbrex_disk_host::is_block_device;
use imbrex_files::Files;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How long an emulated drive is unless the caller says otherwise. The image is a sparse file, so an empty drive takes
/// less than 1 MiB of the host's disk.
const CAPACITY_BYTES: u64 = 64 << 30;

/// One flush and one compaction run at the same time.
const WORKER_COUNT: usize = 2;

/// The name of a disk that has no path, for messages.
const CALLERS_DISK: &str = "the disk";

/// Makes something of blank drives.
type Finish<'a, T> = dyn FnMut(&Formatting, Drives, &Runtime) -> Result<T, Error> + 'a;

/// Makes the same of blank drives in memory.
type Rehearse = dyn Fn(&Formatting, Drives) -> Result<(), Error>;

/// Changes the engine's options of a layout.
type Tune = dyn Fn(&mut imbrex_engine::Options) + Send + Sync;

/// How a store is created or opened.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("disk.imbrex");
/// let options = imbrex::Options::new().layout("sealdb").capacity(4 << 30);
/// let store = options.create(&path)?;
/// assert_eq!(store.layout().name(), "sealdb");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Options {
    layout: Option<String>,
    profile: Option<String>,
    shape: Shape,
    flash: Option<PathBuf>,
    runtime: Option<Runtime>,
    values_apart_from_bytes: Option<u32>,
    tune: Option<Arc<Tune>>,
    erase: Erase,
    seed: Option<u64>,
}

impl Options {
    /// The defaults: the usual layout of the drive, threads for background work, and for a new image an emulated
    /// host-managed drive of 64 GiB.
    pub fn new() -> Options {
        Options::default()
    }

    /// The layout by name: what a new store is formatted as, and what an existing one must be. `imbrex layouts` and
    /// [`Layout::names`] list them.
    #[must_use]
    pub fn layout(mut self, name: impl Into<String>) -> Options {
        self.layout = Some(name.into());
        self
    }

    /// The length of a new emulated drive in bytes.
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Options {
        self.shape.capacity_bytes = Some(bytes);
        self
    }

    /// The model that a new emulated drive is like: the name of a profile, or the path of a TOML file.
    #[must_use]
    pub fn profile(mut self, name: impl Into<String>) -> Options {
        self.profile = Some(name.into());
        self
    }

    /// How a new emulated drive differs from its model; replaces an earlier [`Options::capacity`].
    #[must_use]
    pub fn shape(mut self, shape: Shape) -> Options {
        self.shape = shape;
        self
    }

    /// The flash drive, for layouts that take one: an image or a block device.
    #[must_use]
    pub fn flash(mut self, path: impl Into<PathBuf>) -> Options {
        self.flash = Some(path.into());
        self
    }

    /// The clock and the scheduler of background work. The default is wall time and two threads;
    /// [`Runtime::virtual_time`] gives the same result for the same calls.
    #[must_use]
    pub fn runtime(mut self, runtime: Runtime) -> Options {
        self.runtime = Some(runtime);
        self
    }

    /// For a new store: values from this length on are written once, apart from their keys, and compactions leave them
    /// where they are. For long values and objects; 64 KiB is usual.
    #[must_use]
    pub fn values_apart_from(mut self, len_bytes: u32) -> Options {
        self.values_apart_from_bytes = Some(len_bytes);
        self
    }

    /// Adjusts the engine's options, which begin as the layout's own: memory, sizes, compaction. Options of the
    /// keyspace are recorded when a store is created.
    #[must_use]
    pub fn engine(
        mut self,
        tune: impl Fn(&mut imbrex_engine::Options) + Send + Sync + 'static,
    ) -> Options {
        self.tune = Some(Arc::new(tune));
        self
    }

    /// Allows [`Options::create`] to format a drive that holds data, which is lost. What another program has put there
    /// takes [`Options::erase_named`].
    #[must_use]
    pub fn erase(mut self, erase: bool) -> Options {
        self.erase = if erase { Erase::Own } else { Erase::Nothing };
        self
    }

    /// Allows [`Options::create`] to format a drive that holds what `name` says, such as `ext4`: a file system, a partition
    /// table, or a part of a volume. It is lost. Names are those of `blkid`, and the error of a refused drive has the right
    /// one. A drive that does not hold it is refused. Each call adds a name.
    #[must_use]
    pub fn erase_named(mut self, name: impl Into<String>) -> Options {
        match &mut self.erase {
            Erase::Named(names) => names.push(name.into()),
            Erase::Nothing | Erase::Own => self.erase = Erase::Named(vec![name.into()]),
        }
        self
    }

    /// Decides the ids of a new image, so that the same calls make the same bytes. The operating system draws them
    /// otherwise.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Options {
        self.seed = Some(seed);
        self
    }

    /// Creates an empty store at `path`: in a new image, or on a block device. The store is durable on return. A new image
    /// gets shorter zones than usual if it is too small otherwise, and no length is asked for ([`Shape::fitted`]).
    ///
    /// Cost: a few MiB written; of a device that may hold data, reads 512 MiB to see that it does not.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`]: a file is there, or the device holds data and [`Options::erase`] was not given.
    /// [`ErrorKind::InvalidArgument`]: the layout, the drive and the sizes do not suit each other, or the drive exists in
    /// another shape. For a drive that is too small the error has the least length. Else as [`Options::open`]. A drive that
    /// exists is then as it was, with one exception: [`ErrorKind::Io`] from a drive that fails while it is erased or
    /// written. A new image is gone.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Store, Error> {
        self.make(path.as_ref(), &Formatting::rehearse_store, &mut |formatting, drives, runtime| {
            Ok(Store::of(formatting.store(drives, runtime)?))
        })
    }

    /// Makes an empty store on the drive at `path`, an image or a block device that exists. Unlike [`Options::create`], it
    /// formats a blank image without [`Options::erase`].
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: there is no drive. Else as [`Options::create`].
    pub fn format(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        self.make_on(path, &Formatting::rehearse_store, &mut |formatting, drives, runtime| {
            formatting.closed_store(drives, runtime)
        })
    }

    /// Creates an empty file layer at `path`, without a store, and hands it to `fill`. A new image is removed if `fill`
    /// fails.
    pub(crate) fn create_files(
        &self,
        path: &Path,
        fill: impl Fn(&dyn Files) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.make(path, &Formatting::rehearse_store, &mut |formatting, drives, runtime| {
            fill(&*formatting.files(drives, runtime)?.all_files())
        })
    }

    /// Makes blank drives at `path`, or a new image, into what `finish` makes of them. `rehearse` does the same on
    /// copies in memory.
    fn make<T>(
        &self,
        path: &Path,
        rehearse: &Rehearse,
        finish: &mut Finish<'_, T>,
    ) -> Result<T, Error> {
        if path.exists() {
            self.check_may_format(path)?;
            return self.make_on(path, rehearse, finish);
        }
        let asked = self.asked_layout()?;
        let runtime = self.the_runtime();
        let seed = self.seed.unwrap_or_else(entropy_u64);
        let trial = self.trial(path, asked, seed, rehearse);
        let profile = self.asked_profile(path, asked, &trial)?;
        let formatting = self.formatting(path, &profile.geometry(), asked, seed)?;
        let flash = flash_profile(formatting.layout, &profile.geometry(), None)?;
        let flash = self.flash.as_deref().zip(flash);
        // A flash drive needs another id.
        let flash = flash.map(|(path, profile)| image(path, profile, !seed));
        let main = image(path, profile, seed);
        create_images(&main, flash.as_ref(), &runtime.clock, |drives| {
            finish(&formatting, drives, &runtime)
        })
    }

    /// Makes the drives at `path` into what `finish` makes of them, if they are blank or may be erased.
    fn make_on<T>(
        &self,
        path: &Path,
        rehearse: &Rehearse,
        finish: &mut Finish<'_, T>,
    ) -> Result<T, Error> {
        let asked = self.asked_layout()?;
        let runtime = self.the_runtime();
        let seed = self.seed.unwrap_or_else(entropy_u64);
        let trial = self.trial(path, asked, seed, rehearse);
        let found = self.paths(path, &runtime)?.find()?;
        self.check_shape_of(path, found.main(), asked, &trial)?;
        let geometry = *found.main().disk().geometry();
        let advised = |error| refused(path, &geometry, asked, error, &trial);
        let formatting = self.formatting(path, &geometry, asked, seed).map_err(advised)?;
        let rehearsed = |copies| rehearse(&formatting, copies).map_err(advised);
        let drives = found.blank(&self.erase, rehearsed)?;
        finish(&formatting, drives, &runtime)
    }

    /// Rehearses on blank drives in memory, with the geometry that the caller names.
    fn trial<'a>(
        &'a self,
        path: &'a Path,
        asked: Option<Layout>,
        seed: u64,
        rehearse: &'a Rehearse,
    ) -> impl Fn(&Geometry) -> Result<(), Error> + 'a {
        move |geometry| {
            let formatting = self.formatting(path, geometry, asked, seed)?;
            rehearse(&formatting, blank_drives(&formatting, geometry, None)?)
        }
    }

    /// Refuses a file that exists, unless it may be erased. A block device always exists.
    fn check_may_format(&self, path: &Path) -> Result<(), Error> {
        if self.erase != Erase::Nothing || is_block_device(path).unwrap_or(false) {
            return Ok(());
        }
        let shown = path.display();
        let message =
            format!("cannot create {shown}: it exists already; open it, or choose another path");
        Err(Error::new(ErrorKind::AlreadyExists, message))
    }

    /// Refuses settings that a drive which exists does not have: erasing changes neither its shape nor what made it.
    fn check_shape_of(
        &self,
        path: &Path,
        found: &FoundDrive,
        asked: Option<Layout>,
        trial: &Trial<'_>,
    ) -> Result<(), Error> {
        let refused = |what: &str| {
            let message = format!("cannot create {}: {what}", path.display());
            Err(Error::new(ErrorKind::InvalidArgument, message))
        };
        let is_device = matches!(found, FoundDrive::Device(_));
        if is_device && self.seed.is_some() {
            // With the ids of the store before, recovery would take its logs for the new store's.
            return refused("a seed is for new images, and this is a device; leave it out");
        }
        if self.profile.is_none() && self.shape == Shape::default() {
            return Ok(());
        }
        let profile = self.asked_profile(path, asked, trial)?;
        if is_device || profile.geometry() != *found.disk().geometry() {
            let advice = "remove the image first, or leave out profile, capacity and shape";
            return refused(&format!(
                "the drive exists, in another shape than is asked for; {advice}"
            ));
        }
        Ok(())
    }

    /// The drive that the settings describe, with zones short enough for `trial`.
    fn asked_profile(
        &self,
        path: &Path,
        asked: Option<Layout>,
        trial: &Trial<'_>,
    ) -> Result<Profile, Error> {
        let capacity_bytes = self.shape.capacity_bytes.or(Some(CAPACITY_BYTES));
        let shape = Shape { capacity_bytes, ..self.shape.clone() };
        let fitted = shape.fitted(self.profile.as_deref(), asked, path, Some(trial))?;
        Ok(fitted.profile)
    }

    /// How a drive of `geometry` at `path` is formatted.
    fn formatting(
        &self,
        path: &Path,
        geometry: &Geometry,
        asked: Option<Layout>,
        format_id: u64,
    ) -> Result<Formatting, Error> {
        let mut formatting = Formatting::new(path, geometry, asked, format_id)?;
        formatting.check_flash(self.flash.is_some())?;
        self.tuned(&mut formatting.recipe.options);
        Ok(formatting)
    }

    /// Opens the store at `path`, an image or a block device, for reading and writing.
    ///
    /// What was acknowledged with sync before a crash is there. Cost: reads the catalog, and writes to tables what the
    /// logs hold.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotAStore`], [`ErrorKind::InUse`], [`ErrorKind::NotPermitted`],
    /// [`ErrorKind::NewerVersion`], [`ErrorKind::WrongLayout`], [`ErrorKind::Damaged`], [`ErrorKind::Io`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Store, Error> {
        let runtime = self.the_runtime();
        let found = self.paths(path.as_ref(), &runtime)?.find()?;
        Ok(Store::of(found.open(&runtime, |options| self.tuned(options))?))
    }

    /// Opens the store at `path` for reading: writes are refused with [`ErrorKind::ReadOnly`], and nothing is written to
    /// the drive. What the logs hold, and what recovery mends, stays in memory.
    ///
    /// Any number of processes can have a store open for reading, while none has it open for writing. The file or the
    /// device need only be readable.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<Store, Error> {
        let runtime = self.the_runtime();
        let paths = DrivePaths { is_read_only: true, ..self.paths(path.as_ref(), &runtime)? };
        let found = paths.find()?;
        let stack = found.open(&runtime, |options| self.tuned(options))?;
        Ok(Store::read_only(stack, found, self.clone()))
    }

    /// Creates an empty store on a disk of the caller's, such as an emulated one in memory. What the disk holds is
    /// lost.
    ///
    /// # Errors
    /// As [`Options::create`].
    pub fn create_on(&self, disk: Arc<dyn Disk>) -> Result<Store, Error> {
        let seed = self.seed.unwrap_or_else(entropy_u64);
        let asked = self.asked_layout()?;
        let (path, geometry) = (Path::new(CALLERS_DISK), *disk.geometry());
        let trial = |geometry: &Geometry| {
            let formatting = self.formatting(path, geometry, asked, seed)?;
            formatting.rehearse_store(blank_drives(&formatting, geometry, None)?)
        };
        let formatting = self.formatting(path, &geometry, asked, seed);
        let made = formatting.and_then(|f| f.store(Drives::from(disk), &self.the_runtime()));
        let made = made.map_err(|error| refused(path, &geometry, asked, error, &trial));
        Ok(Store::of(made?))
    }

    /// Opens the store on a disk of the caller's.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_on(&self, disk: Arc<dyn Disk>) -> Result<Store, Error> {
        let (path, runtime) = (Path::new(CALLERS_DISK), self.the_runtime());
        let mounted = mount_at(path, Drives::from(disk), self.asked_layout()?, &runtime)?;
        Ok(Store::of(open_at(path, mounted, &runtime, |options| self.tuned(options))?))
    }

    /// The same, with `layout` where none was chosen and no drive that might need another.
    pub(crate) fn or_layout(mut self, layout: Layout) -> Options {
        if self.profile.is_none() && self.shape.recording.is_none() {
            self.layout = self.layout.or_else(|| Some(layout.name().to_owned()));
        }
        self
    }

    fn the_runtime(&self) -> Runtime {
        self.runtime.clone().unwrap_or_else(|| Runtime::threads(WORKER_COUNT))
    }

    fn asked_layout(&self) -> Result<Option<Layout>, Error> {
        Ok(self.layout.as_deref().map(Layout::by_name).transpose()?)
    }

    fn paths(&self, path: &Path, runtime: &Runtime) -> Result<DrivePaths, Error> {
        let flash = self.flash.clone().map_or(FlashPath::NotNamed, FlashPath::At);
        let (layout, clock) = (self.asked_layout()?, Arc::clone(&runtime.clock));
        Ok(DrivePaths { flash, layout, clock, ..DrivePaths::of(path) })
    }

    /// The store on `found`, which is open for reading, as if it were open for writing; see
    /// [`FoundDrives::open_in_memory`].
    pub(crate) fn open_in_memory(&self, found: &FoundDrives) -> Result<Store, Error> {
        let runtime = self.the_runtime();
        Ok(Store::of(found.open_in_memory(&runtime, |options| self.tuned(options))?))
    }

    fn tuned(&self, options: &mut imbrex_engine::Options) {
        if let Some(len_bytes) = self.values_apart_from_bytes {
            options.keyspace.values_apart_from_bytes = len_bytes;
        }
        if let Some(tune) = &self.tune {
            tune(options);
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("layout", &self.layout)
            .field("profile", &self.profile)
            .field("shape", &self.shape)
            .field("flash", &self.flash)
            .field("erase", &self.erase)
            .field("seed", &self.seed)
            .field("values_apart_from_bytes", &self.values_apart_from_bytes)
            .finish_non_exhaustive()
    }
}

/// A new image of a timed drive.
fn image(path: &Path, profile: Profile, seed: u64) -> NewImage<'_> {
    NewImage { path, profile, is_timed: true, seed }
}
