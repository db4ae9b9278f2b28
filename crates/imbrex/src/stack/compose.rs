//! The stack put together: formatting a drive as a layout, and opening what a drive holds.
//!
//! ```text
//!   format   suits? -> [translation] -> FileLayer::format {placement, name} -> Db::open
//!            \_____________________ format_files _______________________/
//!   mount                               FileLayer::open -> the name recorded -> Layout
//!   open     mount -> the same name?                                         -> Db::open
//! ```

use super::drives::{Beside, Drives};
use super::error::LayoutError;
use super::layout::Layout;
use super::recipe::Recipe;
use imbrex_clockwork::{Runtime, entropy_u64};
use imbrex_disk::{Counters, Disk};
use imbrex_engine::{Db, OpenMode, Options};
use imbrex_files::tiers::{FlashError, TieredFiles};
use imbrex_files::{FileLayer, Files, FormatOptions};
use imbrex_translate::{BandOptions, BandShape, BandsError, FixedBands};
use std::fmt;
use std::sync::Arc;

/// A drive with its files open, and no store yet: for tools that look below it.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// What the drive is formatted as.
    pub layout: Layout,
    /// The drive itself.
    pub drive: Arc<dyn Disk>,
    /// The bands over it, where the layout has them.
    pub bands: Option<Arc<FixedBands>>,
    /// What the files lie on: the drive, or the bands over it.
    pub disk: Arc<dyn Disk>,
    /// The drive's files.
    pub files: FileLayer,
    /// They and those of the flash drive beside it, where the layout has one.
    pub tiers: Option<TieredFiles>,
}

/// An open store and everything below it.
pub struct Stack {
    /// What the drive is formatted as.
    pub layout: Layout,
    /// The drive itself.
    pub drive: Arc<dyn Disk>,
    /// The shape of the bands over it, where the layout has them.
    pub bands: Option<BandShape>,
    /// What the files lie on: the drive, or the translation over it.
    pub disk: Arc<dyn Disk>,
    /// The drive's files.
    pub files: FileLayer,
    /// They and those of the flash drive beside it, where the layout has one.
    pub tiers: Option<TieredFiles>,
    /// The store.
    pub db: Db,
}

impl Layout {
    /// Formats `drives`, whatever they held, as this layout, and opens an empty store on them.
    ///
    /// The format has an id of its own, from the operating system: the flash drive of another pair is refused, and
    /// nothing of a format before it is taken for its own. [`Layout::format_with`] takes the id, for the same bytes
    /// each time.
    ///
    /// # Errors
    /// [`LayoutError::Unsuitable`]: nothing was written. Else the failing layer's.
    pub fn format(
        self,
        drives: impl Into<Drives>,
        runtime: &Runtime,
    ) -> Result<Stack, LayoutError> {
        let drives = drives.into();
        let recipe = self.recipe(drives.main.geometry());
        self.format_with(drives, runtime, &recipe, entropy_u64())
    }

    /// The same with an adjusted recipe; `format_id` tells this format of a drive from others. No two pairs
    /// may have the same: the flash drive of one would be taken for that of the other.
    ///
    /// # Errors
    /// As [`Layout::format`].
    pub fn format_with(
        self,
        drives: impl Into<Drives>,
        runtime: &Runtime,
        recipe: &Recipe,
        format_id: u64,
    ) -> Result<Stack, LayoutError> {
        let mounted = self.format_files(drives, runtime, recipe, format_id)?;
        mounted.open_db(runtime, recipe.options.clone())
    }

    /// The same without a store, which whoever opens it first makes.
    ///
    /// # Errors
    /// As [`Layout::format`]; [`LayoutError::Engine`] for options that cannot work, [`LayoutError::Files`] and
    /// [`LayoutError::Bands`] for lengths that do not suit the drive: nothing was written.
    pub fn format_files(
        self,
        drives: impl Into<Drives>,
        runtime: &Runtime,
        recipe: &Recipe,
        format_id: u64,
    ) -> Result<Mounted, LayoutError> {
        let Drives { main: drive, beside } = drives.into();
        let unsuitable = |reason| LayoutError::Unsuitable { layout: self.name(), reason };
        self.suits(drive.geometry()).map_err(unsuitable)?;
        let flash = self.flash(recipe, beside).map_err(unsuitable)?;
        let refused = |source| LayoutError::Engine { what: "checking the options", source };
        recipe.options.check().map_err(refused)?;
        let make_bands = |options: &BandOptions| {
            let mut options = *options;
            options.id = format_id;
            FixedBands::format(Arc::clone(&drive), &options).map(Arc::new)
        };
        let format = FormatOptions {
            layout_name: self.name().to_owned(),
            format_id,
            placement_options: recipe.placement_options,
            ..FormatOptions::new(self.policy())
        };
        let failed_bands = failed("making fixed bands");
        let failed = |source| LayoutError::Files { what: "formatting the drive", source };
        if let Some(options) = &recipe.bands {
            // L2: making bands gives up what the drive holds.
            let over = FixedBands::geometry_over(drive.geometry(), options);
            format.check(&over.map_err(&failed_bands)?).map_err(failed)?;
        }
        let bands = recipe.bands.as_ref().map(make_bands).transpose().map_err(failed_bands)?;
        let disk = above(&drive, bands.as_ref());
        if let Some(flash) = flash {
            let options = recipe.flash.unwrap_or_default();
            let tiers = TieredFiles::format(Arc::clone(&disk), flash, &format, &options, runtime);
            return Ok(Mounted::of_tiers(self, drive, tiers.map_err(failed)?));
        }
        let files = FileLayer::format(Arc::clone(&disk), &format, runtime).map_err(failed)?;
        Ok(Mounted { layout: self, drive, bands, disk, files, tiers: None })
    }

    /// The flash drive to format, where the recipe has one.
    fn flash(self, recipe: &Recipe, beside: Beside) -> Result<Option<Arc<dyn Disk>>, String> {
        match (recipe.flash.is_some(), beside) {
            (true, _) if recipe.bands.is_some() => {
                Err("fixed bands and a flash drive beside them do not go together".to_owned())
            }
            (true, Beside::Flash(flash)) => Ok(Some(flash)),
            (true, _) => Err("it needs a flash drive beside the drive; give one".to_owned()),
            (false, Beside::Nothing) => Ok(None),
            (false, _) => {
                let with: Vec<&str> =
                    Layout::all().filter(|l| l.takes_flash()).map(Layout::name).collect();
                let with = with.join(", ");
                Err(format!(
                    "it has no use for a flash drive beside the drive; give none, or choose {with}"
                ))
            }
        }
    }

    /// Opens the store on `drives`, which must be formatted as this layout.
    ///
    /// # Errors
    /// [`LayoutError::Other`]: it is not. Else the failing layer's.
    pub fn open(self, drives: impl Into<Drives>, runtime: &Runtime) -> Result<Stack, LayoutError> {
        let drives = drives.into();
        let recipe = self.recipe(drives.main.geometry());
        self.open_with(drives, runtime, &recipe)
    }

    /// The same with an adjusted recipe; what the drive records is taken from the drive.
    ///
    /// # Errors
    /// As [`Layout::open`].
    pub fn open_with(
        self,
        drives: impl Into<Drives>,
        runtime: &Runtime,
        recipe: &Recipe,
    ) -> Result<Stack, LayoutError> {
        let mounted = mount(drives, runtime)?;
        if mounted.layout != self {
            let recorded = mounted.layout.name().to_owned();
            return Err(LayoutError::Other { recorded, asked: self.name() });
        }
        mounted.open_db(runtime, recipe.options.clone())
    }
}

/// Opens the files of a formatted drive, whichever layout it holds, with those of the flash drive
/// beside it. No file changes, but what lies below them is recovered: fixed bands end a rewrite that a
/// power cut stopped, write a checkpoint and discard what is not valid; on interlaced tracks what a power
/// cut left in the backup region is moved back. Other drives are not written to.
///
/// # Errors
/// [`LayoutError::Foreign`]; [`LayoutError::Files`] where it holds no files or damaged ones, or where
/// its flash drive is missing, another one's, or not wanted.
pub fn mount(drives: impl Into<Drives>, runtime: &Runtime) -> Result<Mounted, LayoutError> {
    let Drives { main: drive, beside } = drives.into();
    let failed_files = |source| LayoutError::Files { what: "opening the files", source };
    let failed_bands = failed("opening fixed bands");
    if !matches!(beside, Beside::Nothing)
        && FixedBands::are_on(Arc::clone(&drive)).map_err(&failed_bands)?
    {
        return Err(failed_files(FlashError::NotPaired.into()));
    }
    let tiers = match beside {
        Beside::Nothing => None,
        Beside::Flash(flash) => Some(TieredFiles::open(Arc::clone(&drive), flash, runtime)),
        Beside::Missing => Some(TieredFiles::open_without_flash(Arc::clone(&drive), runtime)),
    };
    if let Some(tiers) = tiers {
        let tiers = tiers.map_err(failed_files)?;
        let (name, placement) = (tiers.main().layout_name(), tiers.main().placement_name());
        let layout = Layout::recorded(name, placement)?;
        return Ok(Mounted::of_tiers(layout, drive, tiers));
    }
    let bands = match FixedBands::open(Arc::clone(&drive)) {
        Ok(bands) => Some(Arc::new(bands)),
        Err(BandsError::NotBands | BandsError::WrongRule { .. }) => None,
        Err(error) => return Err(failed_bands(error)),
    };
    let disk = above(&drive, bands.as_ref());
    let files = FileLayer::open(Arc::clone(&disk), runtime).map_err(failed_files)?;
    let layout = Layout::recorded(files.layout_name(), files.placement_name())?;
    Ok(Mounted { layout, drive, bands, disk, files, tiers: None })
}

/// What the files see.
fn above(drive: &Arc<dyn Disk>, bands: Option<&Arc<FixedBands>>) -> Arc<dyn Disk> {
    match bands {
        Some(bands) => Arc::clone(bands) as Arc<dyn Disk>,
        None => Arc::clone(drive),
    }
}

fn failed(what: &'static str) -> impl Fn(BandsError) -> LayoutError {
    move |source| LayoutError::Bands { what, source }
}

impl Mounted {
    fn of_tiers(layout: Layout, drive: Arc<dyn Disk>, tiers: TieredFiles) -> Mounted {
        let (disk, files) = (Arc::clone(&drive), tiers.main().clone());
        Mounted { layout, drive, bands: None, disk, files, tiers: Some(tiers) }
    }

    /// All files, those of the flash drive too.
    pub fn all_files(&self) -> Arc<dyn Files> {
        match &self.tiers {
            Some(tiers) => Arc::new(tiers.clone()),
            None => Arc::new(self.files.clone()),
        }
    }

    /// Opens the store with the layout's own options.
    ///
    /// # Errors
    /// [`LayoutError::Engine`].
    pub fn open(self, runtime: &Runtime) -> Result<Stack, LayoutError> {
        let options = self.layout.recipe(self.drive.geometry()).options;
        self.open_db(runtime, options)
    }

    /// Opens the store with `options`, and sets cleaning to work if the store may be written.
    ///
    /// # Errors
    /// [`LayoutError::Engine`].
    pub fn open_db(self, runtime: &Runtime, mut options: Options) -> Result<Stack, LayoutError> {
        // A layout that needs no flash drive was given one for logs.
        options.logs_on_flash |= self.tiers.is_some() && !self.layout.takes_flash();
        let all_files = self.all_files();
        let Mounted { layout, drive, bands, disk, files, tiers } = self;
        let bands = bands.map(|bands| bands.shape());
        let cleans = options.background_work && options.open_mode == OpenMode::ReadWrite;
        let db = Db::open(all_files, runtime.clone(), options)
            .map_err(|source| LayoutError::Engine { what: "opening the store", source })?;
        if cleans {
            runtime.scheduler.spawn(files.clean_job());
        }
        Ok(Stack { layout, drive, bands, disk, files, tiers, db })
    }
}

impl Stack {
    /// What the drive did, with what a translation layer added marked as added.
    pub fn counters(&self) -> Counters {
        self.disk.counters()
    }

    /// Closes the store. After that the drives can be opened again at once.
    ///
    /// # Errors
    /// [`LayoutError::Engine`].
    pub fn close(self) -> Result<(), LayoutError> {
        let failed = |source| LayoutError::Engine { what: "closing the store", source };
        let closed = self.db.close().map_err(failed);
        self.files.end_cleaning();
        closed
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("layout", &self.layout)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
