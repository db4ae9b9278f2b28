//! An open store: the stack of the layout that its drive records, on an image file or a device.

use crate::error::{CliError, Context, Exit};
use crate::output::note;
use clap::{ArgMatches, FromArgMatches};
use imbrex::ErrorKind;
use imbrex::stack::{
    BandShape, DrivePaths, FlashPath, FoundDrives, Layout, Mounted, PowerCut, Stack, Unmounted,
    causes,
};
use imbrex_bench::BenchError;
use imbrex_clockwork::Runtime;
use imbrex_disk::Disk;
use imbrex_disk_host::HostDiskError;
use imbrex_disk_sim::ImageError;
use imbrex_engine::{Db, EngineError, Keyspace, OpenMode};
use imbrex_files::tiers::{FlashError, TieredFiles};
use imbrex_files::{FileLayer, FilesError};
use std::error::Error;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Threads for background work: a flush and a compaction can run at the same time.
const WORKER_COUNT: usize = 2;

/// An open store and the layers below it.
pub(crate) struct Store {
    pub(crate) path: PathBuf,
    pub(crate) layout: Layout,
    /// The disk below the files: the drive, or a translation layer over it.
    pub(crate) disk: Arc<dyn Disk>,
    /// The shape of the bands of that layer, if it is one of fixed bands.
    pub(crate) bands: Option<BandShape>,
    /// The files on the drive.
    pub(crate) files: FileLayer,
    /// The files on both drives, if the layout has a flash drive.
    pub(crate) tiers: Option<TieredFiles>,
    pub(crate) db: Db,
}

/// Arguments that name an existing drive.
#[derive(clap::Args, Debug)]
pub(crate) struct DriveArgs {
    /// The drive: an image file, or a block device such as /dev/sdb
    pub(crate) drive: PathBuf,
    /// Require this layout, and refuse a drive with another one [default: the layout that the drive
    /// records]
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// The flash drive of the store, if its layout has one: an image file or a block device
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Open the store without its flash drive, read-only; files on flash are left out
    #[arg(long, conflicts_with = "flash")]
    without_flash: bool,
    #[arg(skip)]
    writes: Writes,
    #[arg(skip)]
    cut: Option<PowerCut>,
}

/// Whether a command writes to its drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Writes {
    /// It does.
    #[default]
    Always,
    /// Opening repairs what a crash left; `--read-only` would not.
    Repairs,
    /// It writes nothing.
    Never,
}

/// Arguments that name an existing drive, for a command that only reads.
#[derive(Debug)]
pub(crate) struct ReadDriveArgs(DriveArgs);

#[derive(clap::Args, Debug)]
struct ReadDriveFlags {
    #[command(flatten)]
    drive: DriveArgs,
    /// Write nothing to the drive, not even to repair what a crash left: for a drive that may only be
    /// read, on a full host, or beside other readers
    #[arg(long)]
    read_only: bool,
}

impl From<ReadDriveFlags> for ReadDriveArgs {
    fn from(flags: ReadDriveFlags) -> ReadDriveArgs {
        let writes = if flags.read_only { Writes::Never } else { Writes::Repairs };
        ReadDriveArgs(DriveArgs { writes, ..flags.drive })
    }
}

impl Deref for ReadDriveArgs {
    type Target = DriveArgs;

    fn deref(&self) -> &DriveArgs {
        &self.0
    }
}

impl clap::Args for ReadDriveArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        ReadDriveFlags::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        ReadDriveFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for ReadDriveArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ReadDriveArgs, clap::Error> {
        ReadDriveFlags::from_arg_matches(matches).map(Into::into)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ReadDriveArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Arguments that name a keyspace of a store.
#[derive(clap::Args, Debug)]
pub(crate) struct KeyspaceArgs {
    /// Name of the keyspace [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
}

/// The layout called `name`; `None` if the user named none.
pub(crate) fn layout_named(name: Option<&str>) -> Result<Option<Layout>, CliError> {
    Ok(name.map(Layout::by_name).transpose().map_err(imbrex::Error::from)?)
}

impl DriveArgs {
    pub(crate) fn new(drive: PathBuf, layout: Option<String>) -> DriveArgs {
        let writes = Writes::default();
        DriveArgs { drive, layout, flash: None, without_flash: false, writes, cut: None }
    }

    /// The same drive, with a power cut planned.
    pub(crate) fn with_power_cut(self, cut: Option<PowerCut>) -> DriveArgs {
        DriveArgs { cut, ..self }
    }

    /// The same drive, to be read only. Opening repairs what a crash left, unless nothing may be written.
    pub(crate) fn for_reading(self, read_only: bool) -> ReadDriveArgs {
        let writes = if read_only { Writes::Never } else { Writes::Repairs };
        ReadDriveArgs(DriveArgs { writes, ..self })
    }

    /// The same drive, to which nothing is written, whatever is done with it.
    pub(crate) fn never_written(self) -> DriveArgs {
        DriveArgs { writes: Writes::Never, ..self }
    }

    /// The same drive, with its flash drive.
    pub(crate) fn with_flash(self, flash: Option<PathBuf>) -> DriveArgs {
        DriveArgs { flash, ..self }
    }

    /// Every drive that [`DriveArgs::mount`] opens.
    pub(crate) fn images(&self) -> Vec<&Path> {
        std::iter::once(self.drive.as_path()).chain(self.flash.as_deref()).collect()
    }

    /// The drive's path, for messages.
    pub(crate) fn shown(&self) -> String {
        self.drive.display().to_string()
    }

    /// Opens the drive and its store to write; flushes and compactions run in the background.
    pub(crate) fn open(&self) -> Result<Store, CliError> {
        self.open_with(true, self.usual_mode())
    }

    /// Opens the drive and its store without background work. A check then sees a store that does not
    /// change, and a manual compaction does not wait for another one.
    pub(crate) fn open_quiet(&self) -> Result<Store, CliError> {
        self.open_with(false, self.usual_mode())
    }

    /// Opens the undamaged part of the drive and its store, read-only.
    pub(crate) fn open_to_salvage(&self) -> Result<Store, CliError> {
        self.open_with(false, OpenMode::Salvage)
    }

    fn usual_mode(&self) -> OpenMode {
        if self.without_flash { OpenMode::ReadOnlyInPart } else { OpenMode::ReadWrite }
    }

    fn open_with(&self, background_work: bool, open_mode: OpenMode) -> Result<Store, CliError> {
        let runtime = Runtime::threads(WORKER_COUNT);
        let is_read_only = open_mode != OpenMode::ReadWrite;
        let stack = self.find(is_read_only)?.open(&runtime, |options| {
            options.background_work = background_work;
            options.open_mode = open_mode;
            // `drive create` and `drive format` make stores. A drive without one was made for the files of
            // another database (`--no-store`), and a store on it would shut `imbrex run` out.
            options.create_if_missing = false;
        });
        self.opened(stack.map_err(|error| self.cannot_open(error))?)
    }

    /// Opens the drive and its store for a copy, which begins with a flush: in memory, with
    /// `--read-only`.
    pub(crate) fn open_to_copy(&self) -> Result<Store, CliError> {
        if self.without_flash {
            return Err(CliError::usage(
                "a copy without the files of the flash drive would be no store; name it with --flash FILE",
            ));
        }
        if self.writes != Writes::Never {
            return self.open_quiet();
        }
        let runtime = Runtime::threads(WORKER_COUNT);
        let stack = self.find(true)?.open_in_memory(&runtime, |options| {
            options.create_if_missing = false;
        });
        self.opened(stack.map_err(|error| self.cannot_open(error))?)
    }

    fn opened(&self, stack: Stack) -> Result<Store, CliError> {
        if self.without_flash {
            let missing = &stack.db.recovery().missing;
            note(format!(
                "imbrex: warning: the store is open without its flash drive: {} of its tables and logs are \
                 left out, and so are logs that only the flash drive records; values may be outdated",
                missing.len()
            ));
        }
        let kept_log_count = stack.db.recovery().kept_log_count;
        if kept_log_count > 0 {
            note(format!(
                "imbrex: warning: {} has no room to turn {kept_log_count} of its logs into tables: it can \
                 be read, and refuses writes until a checkpoint or a keyspace is deleted",
                self.shown()
            ));
        }
        let Stack { layout, bands, disk, files, tiers, db, .. } = stack;
        Ok(Store { path: self.drive.clone(), layout, bands, disk, files, tiers, db })
    }

    /// Opens the drives; with `is_read_only`, only to read them, whatever the command does.
    pub(crate) fn find(&self, is_read_only: bool) -> Result<FoundDrives, CliError> {
        let paths = DrivePaths {
            flash: match &self.flash {
                Some(flash) => FlashPath::At(flash.clone()),
                None if self.without_flash => FlashPath::Lost,
                None => FlashPath::NotNamed,
            },
            // An unknown layout name is reported before any drive is opened.
            layout: layout_named(self.layout.as_deref())?,
            is_read_only: is_read_only || self.writes == Writes::Never,
            power_cut: self.cut,
            ..DrivePaths::of(&self.drive)
        };
        paths.find().map_err(|error| self.cannot_open(error))
    }

    /// Opens the drives, and mounts their files if they can be mounted.
    pub(crate) fn mount(
        &self,
        runtime: &Runtime,
    ) -> Result<(FoundDrives, Result<Mounted, Unmounted>), CliError> {
        let found = self.find(self.without_flash)?;
        let mounted = found.mount(runtime);
        Ok((found, mounted))
    }

    /// Opens the files of another database.
    pub(crate) fn open_file_system(&self, runtime: &Runtime) -> Result<(), CliError> {
        let opened = self.find(false)?.open_file_system(runtime);
        opened.map(drop).map_err(|error| self.cannot_open(error))
    }

    /// Adds to the error of an opening the flag that would help.
    pub(crate) fn cannot_open(&self, error: impl Into<imbrex::Error>) -> CliError {
        let error = error.into();
        let hint = match flash_error(&error) {
            Some(FlashError::NotGiven { .. }) => {
                "name it with --flash FILE, or read the rest with --without-flash"
            }
            Some(FlashError::NotPaired) => "omit --flash and --without-flash",
            Some(FlashError::OnFlash { .. } | FlashError::InPart | FlashError::ReadOnly) => {
                "name it with --flash FILE"
            }
            None if self.writes == Writes::Repairs && would_read(&error) => {
                "--read-only reads it without writing to it"
            }
            None if causes(&error).any(is_no_store) => {
                return CliError::from(error).with_hint(format!(
                    "it was made for another database: `imbrex run` starts a program on it, `imbrex drive \
                     format --erase {}` makes a store of it",
                    self.shown()
                ));
            }
            _ => return error.into(),
        };
        CliError::from(error).with_hint(hint)
    }
}

impl Store {
    /// Opens the keyspace that `args` names.
    pub(crate) fn keyspace(&self, args: &KeyspaceArgs) -> Result<Keyspace, CliError> {
        keyspace_in(&self.db, args)
    }

    /// Runs `work`, then closes the store in every case. Returns the first error, with one exception: if the
    /// work was only cut short (interrupted, or its reader has gone), a failed close is the more important
    /// error.
    pub(crate) fn with<T>(
        self,
        work: impl FnOnce(&Store) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let result = work(&self);
        let Store { path, db, .. } = self;
        for why in db.metrics().tables_set_aside {
            note(format!(
                "imbrex: warning: compactions of {} leave a damaged table out: {why}",
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

/// Opens the keyspace of `db` that `args` names.
pub(crate) fn keyspace_in(db: &Db, args: &KeyspaceArgs) -> Result<Keyspace, CliError> {
    let Some(name) = &args.keyspace else { return Ok(db.default_keyspace()) };
    db.keyspace(name).map_err(|error| {
        let names = db.keyspace_names();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let error = CliError::of(format!("cannot open keyspace {name:?}"), &error);
        error.with_hint(format!("the keyspaces are: {known}"))
    })
}

/// The advice for a damaged store.
pub(crate) fn salvage_hint(drive: &Path) -> String {
    format!(
        "`imbrex salvage {} TARGET` writes everything that can still be read to another store",
        drive.display()
    )
}

/// Why nothing was measured; names the flag to change if the flash drive or an option is the cause.
pub(crate) fn cannot_measure(error: &BenchError) -> CliError {
    let told = CliError::of("cannot measure", error);
    if let Some(flag) = bad_flag(error) {
        return told.with_hint(format!("{flag} sets it"));
    }
    let hint = match flash_error(error) {
        Some(FlashError::NotGiven { .. }) => "name it with --flash FILE",
        Some(FlashError::NotPaired) => "omit --flash",
        _ => return told,
    };
    told.with_hint(hint)
}

/// The flag of the store's option that is out of range, if that is the cause.
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

/// Whether the drive failed to open only because it cannot be written.
fn would_read(error: &imbrex::Error) -> bool {
    let is_read_only = |cause: &(dyn Error + 'static)| {
        matches!(cause.downcast_ref(), Some(ImageError::ReadOnly { .. }))
            || matches!(cause.downcast_ref(), Some(HostDiskError::ReadOnly { .. }))
    };
    error.kind() == ErrorKind::NoSpace || causes(error).any(is_read_only)
}

fn is_no_store(cause: &(dyn Error + 'static)) -> bool {
    matches!(cause.downcast_ref(), Some(EngineError::NoStore))
}

/// The error of the flash drive, if that is the cause.
fn flash_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a FlashError> {
    causes(error).find_map(|cause| match cause.downcast_ref()? {
        FilesError::Flash(error) => Some(error),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_disk::Blocks;
    use imbrex_disk_sim::SimDisk;

    /// The message claimed a clean close.
    #[test]
    fn an_interrupted_command_reports_that_its_store_did_not_close() {
        let sim = Arc::new(SimDisk::tiny_zoned(64, Blocks::new(256)));
        let layout = Layout::by_name("leveled-zones").unwrap();
        let stack = layout.format(Arc::clone(&sim), &Runtime::threads(1)).unwrap();
        let Stack { layout, bands, disk, files, tiers, db, .. } = stack;
        let store = Store { path: PathBuf::from("d"), layout, bands, disk, files, tiers, db };
        let result: Result<(), CliError> = store.with(|store| {
            store.db.default_keyspace().put("a", "1").unwrap();
            sim.cut_power();
            Err(CliError::interrupted())
        });
        let told = result.unwrap_err();
        assert_eq!(told.exit(), Exit::Store, "{told}");
        assert!(told.to_string().contains("cannot close the store on d"), "{told}");
    }
}
