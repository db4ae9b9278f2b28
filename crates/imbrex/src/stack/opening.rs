//! Opening by path: the one way for programs, the command line and the C API. Each refuses a drive for the same causes,
//! in the same words.
//!
//! ```text
//!   DrivePaths::find       paths -> open drives      no such file, a directory, a foreign file, in use, newer, damaged
//!   FoundDrives::mount     drives -> files           another layout, a block device, a blank drive, damaged
//!   FoundDrives::open      files -> a store          the files of another database, damaged
//!   FoundDrives::open_file_system                    a store, damaged
//! ```
//!
//! Drives that are opened for reading only are never written: all above them stands on an [`Overlay`], which keeps in
//! memory what recovery writes.
//!
//! Not here: making a store (`making`), what a drive holds instead of one (`content`).

use super::compose::{Mounted, Stack, mount};
use super::content::Content;
use super::drives::Drives;
use super::error::LayoutError;
use super::found_drive::FoundDrive;
use super::layout::Layout;
use crate::error::{Error, ErrorKind};
use imbrex_clockwork::{Clock, Prng, Runtime, StillClock, unix_time_s};
use imbrex_disk::{Blocks, Disk, Overlay};
use imbrex_disk_sim::OpenOptions;
use imbrex_engine::{OpenMode, Options};
use imbrex_files::FilesError;
use imbrex_filesystem::{FileSystem, FsOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the drives of a store are, and what the caller requires of them.
#[derive(Clone, Debug)]
pub struct DrivePaths {
    /// The main drive: an image or a block device.
    pub main: PathBuf,
    /// The flash drive.
    pub flash: FlashPath,
    /// The layout that the drive must hold; any layout without it.
    pub layout: Option<Layout>,
    /// Whether the drives are only read. Nothing is written to them, and other readers may have them open.
    pub is_read_only: bool,
    /// A power cut of the main drive, for tests.
    pub power_cut: Option<PowerCut>,
    /// The clock that requests to emulated drives advance.
    pub clock: Arc<dyn Clock>,
}

/// Where the flash drive of a store is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FlashPath {
    /// The caller names none.
    #[default]
    NotNamed,
    /// An image or a block device.
    At(PathBuf),
    /// It is lost: the main drive is to be read without it.
    Lost,
}

/// A planned power cut of an emulated drive.
#[derive(Clone, Copy, Debug)]
pub struct PowerCut {
    /// The number of writes, flushes and zone resets that complete; the power fails during the next.
    pub after_event_count: u64,
    /// Selects which unflushed writes have reached the platter.
    pub seed: u64,
    /// The length of the drive's volatile write cache.
    pub cache_bytes: u64,
}

impl DrivePaths {
    /// One drive, of any layout. Emulated drives work back to back, on a clock of their own.
    pub fn of(main: impl Into<PathBuf>) -> DrivePaths {
        DrivePaths {
            main: main.into(),
            flash: FlashPath::NotNamed,
            layout: None,
            is_read_only: false,
            power_cut: None,
            clock: Arc::new(StillClock),
        }
    }

    /// Opens the drives.
    ///
    /// # Errors
    /// As [`FoundDrive::open`]; [`ErrorKind::InvalidArgument`]: the power of a real drive cannot be cut.
    pub fn find(&self) -> Result<FoundDrives, Error> {
        let options = || OpenOptions::default().clock(Arc::clone(&self.clock));
        let open = if self.is_read_only { FoundDrive::open_read_only } else { FoundDrive::open };
        let main = match self.power_cut {
            None => open(&self.main, options())?,
            Some(cut) => open_for_power_cut(&self.main, options(), cut)?,
        };
        let flash = match &self.flash {
            FlashPath::At(path) => Some(open(path, options())?),
            FlashPath::NotNamed | FlashPath::Lost => None,
        };
        Ok(FoundDrives { paths: self.clone(), main, flash })
    }
}

fn open_for_power_cut(
    path: &Path,
    options: OpenOptions,
    cut: PowerCut,
) -> Result<FoundDrive, Error> {
    let options = options.write_cache(Blocks::holding(cut.cache_bytes));
    let drive = FoundDrive::open(path, options)?;
    let FoundDrive::Image(disk) = &drive else {
        let shown = path.display();
        let message = format!(
            "cannot cut the power of {shown}: it is a real drive; only the power of an emulated drive can be cut"
        );
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    };
    disk.lose_power_after(cut.after_event_count, Prng::new(cut.seed));
    Ok(drive)
}

/// The drives at [`DrivePaths`], open. No other process can open them, except that readers share them.
#[derive(Clone, Debug)]
pub struct FoundDrives {
    pub(crate) paths: DrivePaths,
    pub(super) main: FoundDrive,
    pub(super) flash: Option<FoundDrive>,
}

impl FoundDrives {
    /// The main drive.
    pub fn main(&self) -> &FoundDrive {
        &self.main
    }

    /// The main drive, and the flash drive where there is one.
    pub fn all(&self) -> impl Iterator<Item = &FoundDrive> {
        std::iter::once(&self.main).chain(&self.flash)
    }

    /// The disks, for a stack. Of drives that are only read, each call returns new overlays, which begin as the drives
    /// are.
    pub fn drives(&self) -> Drives {
        let disk = |drive: &FoundDrive| match self.paths.is_read_only {
            true => Arc::new(Overlay::new(drive.disk())) as Arc<dyn Disk>,
            false => drive.disk(),
        };
        let drives = Drives::from(disk(&self.main));
        match (&self.flash, &self.paths.flash) {
            (Some(flash), _) => drives.with_flash(disk(flash)),
            (None, FlashPath::Lost) => drives.without_flash(),
            (None, _) => drives,
        }
    }

    /// Opens the files, whichever layout made them, as [`mount`] does.
    ///
    /// # Errors
    /// [`Unmounted`].
    pub fn mount(&self, runtime: &Runtime) -> Result<Mounted, Unmounted> {
        mount_at(&self.paths.main, self.drives(), self.paths.layout, runtime)
    }

    /// Opens the store: for reading, if the drives are only read. `adjust` changes the engine's options, which begin as
    /// the layout's own.
    ///
    /// # Errors
    /// As [`FoundDrives::mount`]; [`ErrorKind::NotAStore`]: it holds the files of another database. Else the kind of the
    /// engine's error.
    pub fn open(
        &self,
        runtime: &Runtime,
        adjust: impl FnOnce(&mut Options),
    ) -> Result<Stack, Error> {
        open_at(&self.paths.main, self.mount(runtime)?, runtime, |options| {
            adjust(options);
            if self.paths.is_read_only && options.open_mode == OpenMode::ReadWrite {
                options.open_mode = OpenMode::ReadOnly;
            }
        })
    }

    /// Opens a second stack, of drives that are only read, as if for writing: all that it writes stays in memory, and is
    /// gone with it. For calls that flush before they read, such as a backup. No background work runs: a compaction
    /// would keep its tables in memory.
    ///
    /// # Errors
    /// As [`FoundDrives::open`].
    ///
    /// # Panics
    /// If the drives are open for writing.
    pub fn open_in_memory(
        &self,
        runtime: &Runtime,
        adjust: impl FnOnce(&mut Options),
    ) -> Result<Stack, Error> {
        assert!(self.paths.is_read_only, "the second stack would write to the drives of the first");
        open_at(&self.paths.main, self.mount(runtime)?, runtime, |options| {
            adjust(options);
            options.background_work = false;
        })
    }

    /// Opens the files of another database, for `imbrex run` and the C API. Cleaning does not work yet.
    ///
    /// # Errors
    /// As [`FoundDrives::mount`]; [`ErrorKind::NotAStore`]: it holds a store. Else the kind of the file system's error.
    pub fn open_file_system(&self, runtime: &Runtime) -> Result<(Mounted, FileSystem), Error> {
        let mounted = self.mount(runtime)?;
        let files = FileSystem::open(Arc::new(mounted.files.clone()), FsOptions { unix_time_s });
        let files = files.map_err(|error| Error::at("open", &self.paths.main, error))?;
        Ok((mounted, files))
    }
}

/// Why the files of a drive do not open. [`Error::from`] has the words.
#[derive(Debug)]
pub struct Unmounted {
    path: PathBuf,
    /// What the drive holds instead, where that is known.
    pub content: Option<Content>,
    /// The failing layer's error.
    pub source: Box<LayoutError>,
}

impl Unmounted {
    /// Whether the drive has no files at all: it is blank, or what it holds is not of this program's file layer.
    pub fn is_unformatted(&self) -> bool {
        let LayoutError::Files { source, .. } = &*self.source else { return false };
        matches!(source, FilesError::NotFormatted { .. })
    }

    /// Whether the drive holds a block device.
    pub fn is_block_device(&self) -> bool {
        self.content == Some(Content::BlockDevice)
    }
}

impl Unmounted {
    /// The failure in words, without advice.
    pub(crate) fn plain(self) -> Error {
        let Unmounted { path, content, source } = self;
        match content {
            Some(content) => holds(&path, content),
            None => Error::at("open", &path, *source),
        }
    }
}

impl From<Unmounted> for Error {
    fn from(unmounted: Unmounted) -> Error {
        let (path, is_unknown) = (unmounted.path.clone(), unmounted.content.is_none());
        let error = unmounted.plain();
        match error.kind() {
            ErrorKind::Damaged | ErrorKind::NotAStore if is_unknown => {
                error.with_advice(&format!("if it had a store, {}", salvage_advice(&path)))
            }
            _ => error,
        }
    }
}

fn salvage_advice(path: &Path) -> String {
    let shown = path.display();
    format!(
        "`imbrex salvage {shown} TARGET` writes everything that can still be read to another store"
    )
}

/// The files on `drives`, whose main drive is at `path`.
pub(crate) fn mount_at(
    path: &Path,
    drives: Drives,
    asked: Option<Layout>,
    runtime: &Runtime,
) -> Result<Mounted, Unmounted> {
    let disk = Arc::clone(&drives.main);
    let mounted = mount(drives, runtime).and_then(|mounted| {
        check_layout(mounted.layout, asked)?;
        Ok(mounted)
    });
    mounted.map_err(|source| {
        let content = Content::of_unmounted(&*disk, &source);
        Unmounted { path: path.to_owned(), content, source: Box::new(source) }
    })
}

/// The store in `mounted`, whose main drive is at `path`.
pub(crate) fn open_at(
    path: &Path,
    mounted: Mounted,
    runtime: &Runtime,
    adjust: impl FnOnce(&mut Options),
) -> Result<Stack, Error> {
    open_plain_at(path, mounted, runtime, adjust).map_err(|error| match error.kind() {
        ErrorKind::Damaged => error.with_advice(&salvage_advice(path)),
        _ => error,
    })
}

/// As [`open_at`], with errors without advice.
pub(crate) fn open_plain_at(
    path: &Path,
    mounted: Mounted,
    runtime: &Runtime,
    adjust: impl FnOnce(&mut Options),
) -> Result<Stack, Error> {
    if let Some(content) = Content::of_files(&mounted.files) {
        return Err(holds(path, content));
    }
    let mut options = mounted.layout.recipe(mounted.drive.geometry()).options;
    adjust(&mut options);
    mounted.open_db(runtime, options).map_err(|error| Error::at("open", path, error))
}

/// Refuses the drive at `path`, which holds layout `held`, if `asked` is another one.
///
/// # Errors
/// [`ErrorKind::WrongLayout`].
pub fn require_layout(path: &Path, held: Layout, asked: Option<Layout>) -> Result<(), Error> {
    check_layout(held, asked).map_err(|error| Error::at("open", path, error))
}

fn check_layout(held: Layout, asked: Option<Layout>) -> Result<(), LayoutError> {
    match asked {
        Some(asked) if asked != held => {
            Err(LayoutError::Other { recorded: held.name().to_owned(), asked: asked.name() })
        }
        _ => Ok(()),
    }
}

fn holds(path: &Path, content: Content) -> Error {
    let message = format!("cannot open {}: it holds {}", path.display(), content.describe());
    Error::new(ErrorKind::NotAStore, message)
}
