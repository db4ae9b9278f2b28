//! The stack put together: a store, as the layout that its drive records, in an image file or on a device.

use crate::blank::written;
use crate::error::{CliError, Context, Exit, causes};
use crate::output::note;
use imbrex::{Drives, FoundDrive, Layout, LayoutError, Mounted, Stack, mount};
use imbrex_bench::BenchError;
use imbrex_clockwork::{Prng, Runtime};
use imbrex_disk::{Blocks, Disk};
use imbrex_disk_sim::OpenOptions;
use imbrex_engine::{Db, EngineError, Keyspace, OpenMode, Options};
use imbrex_files::tiers::{FlashError, TieredFiles};
use imbrex_files::{FileLayer, FilesError};
use imbrex_filesystem::holds_file_system;
use imbrex_translate::BlockDriver;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Threads for background work: one flush and one compaction side by side.
const WORKER_COUNT: usize = 2;

/// An open store and what it lies on.
pub(crate) struct Store {
    pub(crate) path: PathBuf,
    pub(crate) layout: Layout,
    /// What the files lie on: the drive, or a translation over it.
    pub(crate) disk: Arc<dyn Disk>,
    /// The drive's files.
    pub(crate) files: FileLayer,
    /// They and those of the flash drive beside it, where there is one.
    pub(crate) tiers: Option<TieredFiles>,
    pub(crate) db: Db,
}

/// Arguments that name a drive that is there.
#[derive(clap::Args, Debug)]
pub(crate) struct DriveArgs {
    /// The drive: an image file, or a block device such as /dev/sdb
    pub(crate) drive: PathBuf,
    /// Refuse the drive if it holds another layout than this; without it, it opens as what it holds
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// The flash drive beside the drive, where its layout has one: an image file or a block device
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Open the drive without its flash drive, to read what does not lie on flash
    #[arg(long, conflicts_with = "flash")]
    without_flash: bool,
    #[arg(skip)]
    cut: Option<PowerCut>,
}

/// A power cut that an emulated drive shall meet, for tests: as `imbrex_drive_open_for_power_cut` has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PowerCut {
    /// So many writes, flushes and resets of zones complete; the next is on its way.
    pub(crate) after_event_count: u64,
    /// Decides what of the unflushed writes is on the platter.
    pub(crate) seed: u64,
    /// The drive's volatile write cache.
    pub(crate) cache_bytes: u64,
}

/// Arguments that name a keyspace of a store.
#[derive(clap::Args, Debug)]
pub(crate) struct KeyspaceArgs {
    /// The keyspace; without it the default one
    #[arg(long, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
}

/// The layout called `name`, if one is named.
pub(crate) fn layout_named(name: Option<&str>) -> Result<Option<Layout>, CliError> {
    let layout = name.map(Layout::by_name).transpose();
    layout.map_err(|error| CliError::of("cannot use --layout", &error))
}

impl DriveArgs {
    pub(crate) fn new(drive: PathBuf, layout: Option<String>) -> DriveArgs {
        DriveArgs { drive, layout, flash: None, without_flash: false, cut: None }
    }

    /// The same drive, which shall meet `cut`.
    pub(crate) fn with_power_cut(self, cut: Option<PowerCut>) -> DriveArgs {
        DriveArgs { cut, ..self }
    }

    /// All images that opening opens.
    pub(crate) fn images(&self) -> Vec<&Path> {
        std::iter::once(self.drive.as_path()).chain(self.flash.as_deref()).collect()
    }

    /// For messages.
    pub(crate) fn shown(&self) -> String {
        self.drive.display().to_string()
    }

    /// Opens the drive and the store on it, to write: flushes and compactions go on behind.
    pub(crate) fn open(&self) -> Result<Store, CliError> {
        self.open_with(true, self.usual_mode())
    }

    /// Opens the drive and the store on it, to look at it or to work on it alone: nothing happens
    /// behind the command, so a check sees a store that stands still, and a compaction waits for none.
    pub(crate) fn open_quiet(&self) -> Result<Store, CliError> {
        self.open_with(false, self.usual_mode())
    }

    /// Opens what can be opened of the drive and the store on it, to read what still reads.
    pub(crate) fn open_to_salvage(&self) -> Result<Store, CliError> {
        self.open_with(false, OpenMode::Salvage)
    }

    fn usual_mode(&self) -> OpenMode {
        if self.without_flash { OpenMode::ReadOnlyInPart } else { OpenMode::ReadWrite }
    }

    fn open_with(&self, background_work: bool, open_mode: OpenMode) -> Result<Store, CliError> {
        let runtime = Runtime::threads(WORKER_COUNT);
        let (disk, mounted) = self.mount(&runtime)?;
        let mounted = mounted.map_err(|error| self.cannot_open(&*disk.disk(), &error))?;
        if holds_file_system(&mounted.files) {
            let message = format!(
                "cannot open {}: it holds no store, but files of another database; `imbrex run` \
                 starts programs on it",
                self.shown()
            );
            return Err(CliError::new(Exit::Store, message));
        }
        let usual = mounted.layout.recipe(mounted.drive.geometry()).options;
        let options = Options { background_work, open_mode, ..usual };
        let stack = mounted.open_db(&runtime, options);
        let stack = stack.map_err(|error| self.cannot_open(&*disk.disk(), &error))?;
        if self.without_flash {
            let missing = &stack.db.recovery().missing;
            note(format!(
                "imbrex: warning: without the flash drive {} of its tables and logs are left out, and logs \
                 that it alone knows of: what is read may be older than what was written last",
                missing.len()
            ));
        }
        let kept_log_count = stack.db.recovery().kept_log_count;
        if kept_log_count > 0 {
            note(format!(
                "imbrex: warning: {} has no room for what {kept_log_count} of its logs hold: it can be \
                 read, and not written before its program deletes a checkpoint or a keyspace",
                self.shown()
            ));
        }
        let Stack { layout, disk, files, tiers, db, .. } = stack;
        Ok(Store { path: self.drive.clone(), layout, disk, files, tiers, db })
    }

    /// The drive, and its files or why they do not open.
    pub(crate) fn mount(
        &self,
        runtime: &Runtime,
    ) -> Result<(FoundDrive, Result<Mounted, LayoutError>), CliError> {
        // A name that is none is told before a drive is touched.
        let asked = layout_named(self.layout.as_deref())?;
        let disk = open_drive(&self.drive, self.cut)?;
        let mut drives = Drives::from(disk.disk());
        if let Some(flash) = &self.flash {
            drives = drives.with_flash(open_drive(flash, None)?.disk());
        } else if self.without_flash {
            drives = drives.without_flash();
        }
        let mounted = mount(drives, runtime);
        let mounted = mounted.and_then(|mounted| match asked {
            Some(asked) if asked != mounted.layout => {
                let recorded = mounted.layout.name().to_owned();
                Err(LayoutError::Other { recorded, asked: asked.name() })
            }
            _ => Ok(mounted),
        });
        Ok((disk, mounted))
    }

    pub(crate) fn cannot_open(&self, disk: &dyn Disk, error: &LayoutError) -> CliError {
        if let Some(what) = other_content(disk, error) {
            let message = format!(
                "cannot open {}: there is no store, the drive holds {what}; `imbrex drive create` \
                 makes drives with one, and `imbrex drive format` makes one on this",
                self.shown()
            );
            return CliError::new(Exit::Store, message);
        }
        let told = CliError::of(format!("cannot open {}", self.shown()), error);
        let hint = match flash_error(error) {
            Some(FlashError::NotGiven { .. }) => "--flash FILE names it, --without-flash leaves it",
            Some(FlashError::NotPaired) => "leave --flash and --without-flash away",
            Some(FlashError::OnFlash { .. } | FlashError::InPart | FlashError::ReadOnly) => {
                "--flash FILE names it"
            }
            _ if matches!(error, LayoutError::Engine { .. }) => {
                return told.with_damage_hint(|| salvage_hint(&self.drive));
            }
            _ => return told,
        };
        told.with_hint(hint)
    }
}

impl Store {
    /// The keyspace that `args` names.
    pub(crate) fn keyspace(&self, args: &KeyspaceArgs) -> Result<Keyspace, CliError> {
        let Some(name) = &args.keyspace else { return Ok(self.db.default_keyspace()) };
        self.db.keyspace(name).map_err(|error| {
            let names = self.db.keyspace_names();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let error = CliError::of(format!("cannot open keyspace {name:?}"), &error);
            error.with_hint(format!("there are: {known}"))
        })
    }

    /// Runs `work` and closes the store whatever it came to; the first error counts, but not one that says that
    /// the store was closed.
    pub(crate) fn with<T>(
        self,
        work: impl FnOnce(&Store) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let result = work(&self);
        let Store { path, db, .. } = self;
        for why in db.metrics().tables_set_aside {
            note(format!(
                "imbrex: warning: a table of {} is left out of compactions: {why}",
                path.display()
            ));
        }
        let closed = db.close().context(|| format!("cannot close the store on {}", path.display()));
        match (result, closed) {
            (Ok(value), closed) => closed.map(|()| value),
            (Err(error), Err(closed))
                if matches!(error.exit(), Exit::ReaderGone | Exit::Interrupted) =>
            {
                Err(closed)
            }
            (Err(error), _) => Err(error),
        }
    }
}

/// How what is not damaged of a store is had.
pub(crate) fn salvage_hint(drive: &Path) -> String {
    format!("`imbrex scan {} --skip-damage` prints what still reads", drive.display())
}

/// Whether a drive that has no files, or damaged ones, which is what `error` says, holds a block device. Where one has
/// lost a zone or a block that it has twice, files take that for a damaged catalog.
pub(crate) fn holds_block_device(disk: &dyn Disk, error: &LayoutError) -> bool {
    let LayoutError::Files { source, .. } = error else { return false };
    let may_be = matches!(source, FilesError::NotFormatted { .. }) || source.is_damage();
    may_be && BlockDriver::is_on(disk)
}

/// What a drive holds instead of files, where that is known.
pub(crate) fn other_content(disk: &dyn Disk, error: &LayoutError) -> Option<&'static str> {
    if holds_block_device(disk, error) {
        return Some("a block device, which `imbrex serve` serves and `imbrex check` verifies");
    }
    let LayoutError::Files { source: FilesError::NotFormatted { .. }, .. } = error else {
        return None;
    };
    let is_blank = disk.geometry().zones().is_some() && matches!(written(disk), Ok(None));
    is_blank.then_some("nothing")
}

/// Why nothing was measured; names the flag where a flash drive or an option of the store is the matter.
pub(crate) fn cannot_measure(error: &BenchError) -> CliError {
    let told = CliError::of("cannot measure", error);
    if let Some(flag) = bad_flag(error) {
        return told.with_hint(format!("{flag} sets it"));
    }
    let hint = match flash_error(error) {
        Some(FlashError::NotGiven { .. }) => "--flash FILE names it",
        Some(FlashError::NotPaired) => "leave --flash away",
        _ => return told,
    };
    told.with_hint(hint)
}

/// The flag that sets the option of the store that cannot work, if that is the matter.
fn bad_flag(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let option = causes(error).find_map(|cause| match cause.downcast_ref()? {
        EngineError::BadOption { option, .. } => Some(*option),
        _ => None,
    });
    match option? {
        "block_len_bytes" => Some("--block_size"),
        "memtable_len_bytes" => Some("--write_buffer_size"),
        "table_len_bytes" => Some("--target_file_size_base"),
        "filter_bits_per_key" => Some("--bloom_bits"),
        _ => None,
    }
}

/// What is wrong with the flash drive, if that is the matter.
fn flash_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a FlashError> {
    causes(error).find_map(|cause| match cause.downcast_ref()? {
        FilesError::Flash(error) => Some(error),
        _ => None,
    })
}

/// Opens the drive at `path`.
pub(crate) fn open_drive(path: &Path, cut: Option<PowerCut>) -> Result<FoundDrive, CliError> {
    let mut options = OpenOptions::default();
    if let Some(cut) = cut {
        options = options.write_cache(Blocks::holding(cut.cache_bytes));
    }
    let drive = FoundDrive::open(path, options).context(|| "cannot open drive")?;
    match (&drive, cut) {
        (FoundDrive::Image(disk), Some(cut)) => {
            disk.lose_power_after(cut.after_event_count, Prng::new(cut.seed));
        }
        (FoundDrive::Device(_), Some(_)) => {
            let path = path.display();
            return Err(CliError::usage(format!(
                "cannot cut the power of {path}: it is a real drive, and only emulated ones can be told when"
            )));
        }
        (_, None) => {}
    }
    Ok(drive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_disk::{BlockRange, Lba};
    use imbrex_disk_sim::SimDisk;
    use imbrex_translate::DriverOptions;

    /// It was said to be closed cleanly.
    #[test]
    fn an_interrupted_command_tells_that_its_store_did_not_close() {
        let sim = Arc::new(SimDisk::tiny_zoned(64, Blocks::new(256)));
        let layout = Layout::by_name("leveled-zones").unwrap();
        let stack = layout.format(Arc::clone(&sim), &Runtime::threads(1)).unwrap();
        let Stack { layout, disk, files, tiers, db, .. } = stack;
        let store = Store { path: PathBuf::from("d"), layout, disk, files, tiers, db };
        let result: Result<(), CliError> = store.with(|store| {
            store.db.default_keyspace().put("a", "1").unwrap();
            sim.cut_power();
            Err(CliError::interrupted())
        });
        let told = result.unwrap_err();
        assert_eq!(told.exit(), Exit::Store, "{told}");
        assert!(told.to_string().contains("cannot close the store on d"), "{told}");
    }

    /// The driver has both twice; to files it was a catalog that cannot be read.
    #[test]
    fn a_block_device_with_an_unreadable_superblock_is_one() {
        for zone in 0..2 {
            let disk = Arc::new(SimDisk::tiny_zoned(64, Blocks::new(256)));
            let below = || Arc::clone(&disk) as Arc<dyn Disk>;
            let options = DriverOptions { buffer_len: Blocks::new(256), ..Default::default() };
            drop(BlockDriver::format(below(), &options).unwrap());
            disk.damage(BlockRange::new(Lba::new(zone * 256), Blocks::new(1)));
            let error = mount(Drives::from(below()), &Runtime::threads(1)).err().unwrap();
            assert!(holds_block_device(&*disk, &error), "zone {zone}: {error}");
            assert!(other_content(&*disk, &error).unwrap().contains("a block device"));
            BlockDriver::open(below(), &options).unwrap();
        }
    }
}
