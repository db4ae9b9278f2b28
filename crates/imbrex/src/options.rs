//! How a store is created or opened: a builder whose defaults suit most.

use crate::emulated::{Profile, Shape, SimDisk, flash_profile};
use crate::stack::{Content, Drives, FoundDrive, Layout, LayoutError, Stack, first_data, mount};
use crate::{Error, ErrorKind, Store};
use imbrex_clockwork::{Runtime, entropy_u64};
use imbrex_disk::{Disk, Geometry};
use imbrex_disk_host::is_block_device;
use imbrex_disk_sim::OpenOptions;
use imbrex_engine::OpenMode;
use imbrex_files::Files;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How long an emulated drive is unless the caller says otherwise. The image is a sparse file, so an empty drive takes
/// less than 1 MiB of the host's disk.
const CAPACITY_BYTES: u64 = 64 << 30;

/// One flush and one compaction run at the same time.
const WORKER_COUNT: usize = 2;

/// What is made of new drives.
type Finish<'a, T> = dyn FnMut(Drives, Layout, u64, &Runtime) -> Result<T, Error> + 'a;

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
    tune: Option<Arc<Tune>>,
    erase: bool,
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

    /// Allows [`Options::create`] to format a drive that holds data, which is lost.
    #[must_use]
    pub fn erase(mut self, erase: bool) -> Options {
        self.erase = erase;
        self
    }

    /// Decides the ids of a new image, so that the same calls make the same bytes. The operating system draws them
    /// otherwise.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Options {
        self.seed = Some(seed);
        self
    }

    /// Creates an empty store at `path`: in a new image, or on a block device. The store is durable on return.
    ///
    /// Cost: a few MiB written; of a device that may hold data, reads 512 MiB to see that it does not.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`]: a file is there, or the device holds data and [`Options::erase`] was not given.
    /// [`ErrorKind::InvalidArgument`]: the layout, the drive and the sizes do not suit each other. Else as
    /// [`Options::open`]. A drive that holds data is then as it was, unless [`Options::erase`] was given: it is erased
    /// before everything is known to fit.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Store, Error> {
        let path = path.as_ref();
        self.make(path, &mut |drives, layout, seed, runtime| {
            self.format(path, drives, layout, seed, runtime)
        })
    }

    /// Creates an empty file layer at `path`, without a store, and hands it to `fill`. A new image goes if `fill` fails.
    pub(crate) fn create_files(
        &self,
        path: &Path,
        fill: impl Fn(&dyn Files) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.make(path, &mut |drives, layout, seed, runtime| {
            let recipe = layout.recipe(drives.main.geometry());
            let mounted = layout.format_files(drives, runtime, &recipe, seed);
            let mounted = mounted.map_err(|error| Error::at("create", path, error))?;
            fill(&*mounted.all_files())
        })
    }

    /// The drives for a new store at `path`, handed to `finish` with their layout and the id of the format.
    fn make<T>(&self, path: &Path, finish: &mut Finish<'_, T>) -> Result<T, Error> {
        let asked = self.asked_layout()?;
        let runtime = self.the_runtime();
        let seed = self.seed.unwrap_or_else(entropy_u64);
        if path.exists() {
            let (drives, layout) = self.existing(path, asked, &runtime)?;
            return finish(drives, layout, seed, &runtime);
        }
        let capacity_bytes = self.shape.capacity_bytes.or(Some(CAPACITY_BYTES));
        let shape = Shape { capacity_bytes, ..self.shape.clone() };
        let profile = shape.profile(self.profile.as_deref(), asked)?;
        let layout = layout_for(path, &profile.geometry(), asked)?;
        let flash = self.new_flash(path, layout, &profile)?;
        let mut drives = Drives::from(make_image(path, profile, seed, &runtime)?);
        let mut made = vec![path];
        let mut finished = Ok(());
        if let Some((flash_path, profile)) = flash {
            // The id of another image.
            match make_image(flash_path, profile, !seed, &runtime) {
                Ok(flash) => {
                    drives = drives.with_flash(flash);
                    made.push(flash_path);
                }
                Err(error) => finished = Err(error),
            }
        }
        let finished = finished.and_then(|()| finish(drives, layout, seed, &runtime));
        // The images are ours and hold nothing yet.
        finished.inspect_err(|_| made.iter().for_each(|path| _ = std::fs::remove_file(path)))
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
        self.open_in(path.as_ref(), OpenMode::ReadWrite)
    }

    /// Opens the store at `path` for reading: writes are refused, and what the logs hold stays in memory.
    ///
    /// The drive itself is still opened for writing, because fixed bands and interlaced tracks mend what a power cut
    /// left before their files can be read.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<Store, Error> {
        self.open_in(path.as_ref(), OpenMode::ReadOnly)
    }

    /// Creates an empty store on a disk of the caller's, such as an emulated one in memory. What the disk holds is
    /// lost.
    ///
    /// # Errors
    /// As [`Options::create`].
    pub fn create_on(&self, disk: Arc<dyn Disk>) -> Result<Store, Error> {
        let place = Path::new("the disk");
        let layout = layout_for(place, disk.geometry(), self.asked_layout()?)?;
        let seed = self.seed.unwrap_or_else(entropy_u64);
        self.format(place, Drives::from(disk), layout, seed, &self.the_runtime())
    }

    /// Opens the store on a disk of the caller's.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_on(&self, disk: Arc<dyn Disk>) -> Result<Store, Error> {
        let drives = Drives::from(disk);
        self.open_drives(Path::new("the disk"), drives, OpenMode::ReadWrite, &self.the_runtime())
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

    /// Where the new flash drive goes and what it is, where the layout takes one.
    fn new_flash(
        &self,
        path: &Path,
        layout: Layout,
        profile: &Profile,
    ) -> Result<Option<(&Path, Profile)>, Error> {
        let flash = flash_profile(layout, &profile.geometry(), None)?;
        match (flash, self.flash.as_deref()) {
            (Some(flash), Some(at)) => Ok(Some((at, flash))),
            (None, None) => Ok(None),
            (wanted, _) => Err(flash_mismatch("create", path, layout, wanted.is_some())),
        }
    }

    /// What is at `path` already, blank: a block device, or with [`Options::erase`] an image.
    fn existing(
        &self,
        path: &Path,
        asked: Option<Layout>,
        runtime: &Runtime,
    ) -> Result<(Drives, Layout), Error> {
        if !self.erase && !is_block_device(path).unwrap_or(false) {
            let shown = path.display();
            let message = format!(
                "cannot create {shown}: it exists already; open it, or choose another path"
            );
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let drive = find(path, runtime, "create")?;
        let disk = drive.disk();
        let layout = layout_for(path, disk.geometry(), asked)?;
        if layout.takes_flash() != self.flash.is_some() {
            return Err(flash_mismatch("create", path, layout, layout.takes_flash()));
        }
        let flash = self.flash.as_deref().map(|at| find(at, runtime, "create").map(|f| (at, f)));
        let flash = flash.transpose()?;
        let both = [Some((path, drive)), flash.clone()];
        for (path, drive) in both.iter().flatten() {
            let failed = |error| Error::at("create", path, error);
            match first_data(&*drive.disk()).map_err(failed)? {
                Some(_) if self.erase => drive.erase().map_err(failed)?,
                Some(data) => {
                    let shown = path.display();
                    let message = format!(
                        "cannot create a store on {shown}: {data}, which would be lost; erase it explicitly, or choose \
                         another drive"
                    );
                    return Err(Error::new(ErrorKind::AlreadyExists, message));
                }
                None => {}
            }
        }
        let mut drives = Drives::from(disk);
        if let Some((_, flash)) = flash {
            drives = drives.with_flash(flash.disk());
        }
        Ok((drives, layout))
    }

    fn format(
        &self,
        path: &Path,
        drives: Drives,
        layout: Layout,
        format_id: u64,
        runtime: &Runtime,
    ) -> Result<Store, Error> {
        let mut recipe = layout.recipe(drives.main.geometry());
        self.tuned(&mut recipe.options);
        let stack = layout.format_with(drives, runtime, &recipe, format_id);
        let stack = stack.map_err(|error| Error::at("create", path, error))?;
        stack.db.check_room().map_err(|error| {
            let shown = path.display();
            let message = format!(
                "cannot create {shown}: the drive is too small for layout {layout}: {error}, or one with shorter zones"
            );
            Error::new(ErrorKind::InvalidArgument, message)
        })?;
        Ok(Store::of(stack))
    }

    fn open_in(&self, path: &Path, mode: OpenMode) -> Result<Store, Error> {
        let runtime = self.the_runtime();
        let mut drives = Drives::from(find(path, &runtime, "open")?.disk());
        if let Some(flash) = &self.flash {
            drives = drives.with_flash(find(flash, &runtime, "open")?.disk());
        }
        self.open_drives(path, drives, mode, &runtime)
    }

    fn open_drives(
        &self,
        path: &Path,
        drives: Drives,
        mode: OpenMode,
        runtime: &Runtime,
    ) -> Result<Store, Error> {
        let asked = self.asked_layout()?;
        let disk = Arc::clone(&drives.main);
        let mounted = mount(drives, runtime).map_err(|error| {
            match Content::of_unmounted(&*disk, &error) {
                Some(content) => holds(path, content),
                None => Error::at("open", path, error),
            }
        })?;
        let failed = |error: LayoutError| Error::at("open", path, error);
        if let Some(asked) = asked.filter(|&asked| asked != mounted.layout) {
            let recorded = mounted.layout.name().to_owned();
            return Err(failed(LayoutError::Other { recorded, asked: asked.name() }));
        }
        if let Some(content) = Content::of_files(&mounted.files) {
            return Err(holds(path, content));
        }
        let mut options = mounted.layout.recipe(mounted.drive.geometry()).options;
        self.tuned(&mut options);
        options.open_mode = mode;
        let stack: Stack = mounted.open_db(runtime, options).map_err(|error| {
            let error = failed(error);
            let is_damage = error.kind() == ErrorKind::Damaged;
            if !is_damage {
                return error;
            }
            let advice =
                format!("`imbrex scan {} --skip-damage` prints what still reads", path.display());
            error.with_advice(&advice)
        })?;
        Ok(Store::of(stack))
    }

    fn tuned(&self, options: &mut imbrex_engine::Options) {
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
            .finish_non_exhaustive()
    }
}

/// The drive at `path`, whose modelled time, if it is emulated, is that of `runtime`.
fn find(path: &Path, runtime: &Runtime, doing: &str) -> Result<FoundDrive, Error> {
    let options = OpenOptions::default().clock(Arc::clone(&runtime.clock));
    FoundDrive::open(path, options).map_err(|error| Error::at(doing, path, error))
}

fn make_image(
    path: &Path,
    profile: Profile,
    seed: u64,
    runtime: &Runtime,
) -> Result<Arc<SimDisk>, Error> {
    let builder = SimDisk::builder(profile.geometry()).profile(profile);
    let disk = builder.clock(Arc::clone(&runtime.clock)).create_image(path, "", seed);
    Ok(Arc::new(disk.map_err(|error| Error::at("create", path, error))?))
}

/// The layout for a drive of `geometry`: the one asked for, or the usual one.
fn layout_for(path: &Path, geometry: &Geometry, asked: Option<Layout>) -> Result<Layout, Error> {
    let usual = || Layout::default_for(geometry.rule());
    let Some(layout) = asked.or_else(usual) else {
        let (shown, rule) = (path.display(), geometry.rule().name());
        let message = format!("cannot create {shown}: no layout is for {rule} drives");
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    };
    let suits = layout.suits(geometry);
    let unsuitable = |reason| LayoutError::Unsuitable { layout: layout.name(), reason };
    suits.map_err(|reason| Error::at("create", path, unsuitable(reason)))?;
    Ok(layout)
}

fn holds(path: &Path, content: Content) -> Error {
    let message = format!("cannot open {}: it holds {}", path.display(), content.describe());
    Error::new(ErrorKind::NotAStore, message)
}

fn flash_mismatch(doing: &str, path: &Path, layout: Layout, takes_flash: bool) -> Error {
    let shown = path.display();
    let rule = match takes_flash {
        true => "takes a flash drive; name one",
        false => "takes no flash drive; name none",
    };
    let message = format!("cannot {doing} {shown}: layout {layout} {rule}");
    Error::new(ErrorKind::InvalidArgument, message)
}
