//! The stack put together: a store on the file layer on an emulated drive, in an image file.

use crate::error::{CliError, Context};
use imbrex::{Db, Keyspace, Options};
use imbrex_clockwork::Runtime;
use imbrex_disk::Disk;
use imbrex_disk_sim::{OpenOptions, SimDisk};
use imbrex_files::{FileLayer, Files};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Threads for background work: one flush and one compaction side by side.
const WORKER_COUNT: usize = 2;

/// An open store and what it lies on.
pub(crate) struct Store {
    pub(crate) path: PathBuf,
    pub(crate) disk: Arc<SimDisk>,
    pub(crate) files: FileLayer,
    pub(crate) db: Db,
    pub(crate) runtime: Runtime,
}

/// Arguments that name a store.
#[derive(clap::Args, Debug)]
pub(crate) struct StoreArgs {
    /// The drive image
    pub(crate) drive: PathBuf,
}

/// Arguments that name a keyspace of a store.
#[derive(clap::Args, Debug)]
pub(crate) struct KeyspaceArgs {
    /// The keyspace; without it the default one
    #[arg(long, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
}

impl StoreArgs {
    pub(crate) fn open(&self) -> Result<Store, CliError> {
        Store::open(&self.drive)
    }
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Store, CliError> {
        let runtime = Runtime::threads(WORKER_COUNT);
        let disk = Arc::new(open_disk(path)?);
        let files = open_files(path, &disk, &runtime)?;
        let options = options(&files);
        let db = Db::open(Arc::new(files.clone()), runtime.clone(), options)
            .context(|| format!("cannot open the store on {}", path.display()))?;
        Ok(Store { path: path.to_path_buf(), disk, files, db, runtime })
    }

    /// The keyspace that `args` names.
    pub(crate) fn keyspace(&self, args: &KeyspaceArgs) -> Result<Keyspace, CliError> {
        let Some(name) = &args.keyspace else { return Ok(self.db.default_keyspace()) };
        self.db.keyspace(name).map_err(|error| {
            let names = self.db.keyspace_names();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let error = CliError::of(format!("cannot open keyspace {name:?}"), &error);
            CliError::new(error.exit(), format!("{error}; there are: {known}"))
        })
    }

    /// Runs `work` and closes the store whatever it came to; the first error counts.
    pub(crate) fn with<T>(
        self,
        work: impl FnOnce(&Store) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let result = work(&self);
        let Store { path, db, .. } = self;
        let closed = db.close().context(|| format!("cannot close the store on {}", path.display()));
        let value = result?;
        closed?;
        Ok(value)
    }
}

/// The engine's options, with memtables that a small drive has room for: a store keeps free what
/// it holds in memory.
pub(crate) fn options(files: &FileLayer) -> Options {
    let default = Options::default();
    let share = files.space().capacity_bytes / 64;
    let memtable_len_bytes = share.clamp(64 << 10, default.memtable_len_bytes);
    Options { memtable_len_bytes, ..default }
}

/// Opens the drive image at `path`.
pub(crate) fn open_disk(path: &Path) -> Result<SimDisk, CliError> {
    SimDisk::open_image(path, OpenOptions::default()).context(|| "cannot open drive")
}

/// Opens the file layer on `disk`, with its cleaning at work.
pub(crate) fn open_files(
    path: &Path,
    disk: &Arc<SimDisk>,
    runtime: &Runtime,
) -> Result<FileLayer, CliError> {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    let files = FileLayer::open(disk, runtime)
        .context(|| format!("cannot open the files on {}", path.display()))?;
    runtime.scheduler.spawn(files.clean_job());
    Ok(files)
}
