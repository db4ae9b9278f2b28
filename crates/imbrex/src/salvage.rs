//! Salvage: everything that can still be read on a drive, into another store.
//!
//! ```text
//!   source, only read --> mount, open --> a store                       what its catalog says is true
//!                         |  no catalog, or a damaged one
//!                         '-> [fixed bands] -> all blocks -> tables, logs -> a store     engine::salvage
//!   a store ------------> every entry, keyspace by keyspace ------------> the target
//! ```
//!
//! Invariants
//!   S1  Nothing is written to the source.
//!   S2  The target is a valid store, however far the salvage gets.
//!   S3  A target that holds entries is refused, unless the caller allows it. A target with objects is refused always:
//!       uploads of both stores have the same numbers, and one's chunks would take the place of the other's.

pub use imbrex_engine::salvage::{Doubt, FoundReport, KeyspaceCopy};

use crate::stack::opening::{mount_at, open_plain_at};
use crate::stack::{Beside, DrivePaths, Drives, FlashPath};
use crate::{Error, ErrorKind, Store};
use imbrex_clockwork::Runtime;
use imbrex_disk::Disk;
use imbrex_engine::salvage::{Found, StoreTrace, Traces, copy_store, doubts_of, has_entries};
use imbrex_engine::{Db, OpenMode, Watch};
use imbrex_files::raw::RawDrive;
use imbrex_objects::Objects;
use imbrex_translate::FixedBands;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a salvage works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageOptions {
    /// The flash drive of the source.
    pub flash: Option<PathBuf>,
    /// Whether to search the drive although its catalog can be read.
    pub ignore_catalog: bool,
    /// The store to take, if the drive was formatted several times: an id that the refusal lists.
    pub store: Option<u64>,
    /// Whether the target may hold entries. Those of the same keys are overwritten. It may not hold objects.
    pub add: bool,
}

/// What a salvage found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// Why the catalog was not used; `None` if it was.
    pub no_catalog: Option<String>,
    /// What a search of the drive found; `None` if the catalog was used.
    pub found: Option<FoundReport>,
    /// What was written to the target.
    pub copies: Vec<KeyspaceCopy>,
    /// What was damaged or missing, one sentence each.
    pub losses: Vec<String>,
    /// Keys of which something is missing or may be outdated.
    pub doubts: Vec<Doubt>,
}

impl SalvageReport {
    /// Whether everything was found, as far as is known.
    pub fn is_whole(&self) -> bool {
        self.losses.is_empty() && self.doubts.is_empty()
    }

    /// The number of entries written to the target.
    pub fn entry_count(&self) -> u64 {
        self.copies.iter().map(|copy| copy.entry_count).sum()
    }
}

/// Writes everything that can still be read on the drive at `source` to `target`.
///
/// If the catalog of the source can be read, it decides what the store holds. Otherwise the drive is searched for
/// tables and logs, which know what they replaced. The report says what is missing, and for which keys an older value
/// or a deleted one may be back.
///
/// Cost: reads the drive once without a catalog; reads what the store holds once; writes it.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`]: the target holds entries. [`ErrorKind::NotAStore`]: nothing of a store was found.
/// [`ErrorKind::InvalidArgument`]: the drive has traces of several stores, or the target holds objects.
/// [`ErrorKind::NoSpace`]: the target is too
/// small; what was written stays. Else as [`crate::Options::open_read_only`].
pub fn salvage(
    source: impl AsRef<Path>,
    target: &Store,
    options: &SalvageOptions,
) -> Result<SalvageReport, Error> {
    let mut watch = |_| ControlFlow::Continue(());
    salvage_path(source.as_ref(), &target.stack().db, options, &mut watch)
}

/// Like [`salvage`], for tools: `watch` sees the progress, and may stop it.
///
/// # Errors
/// As [`salvage`]; [`ErrorKind::Stopped`].
pub fn salvage_path(
    source: &Path,
    target: &Db,
    options: &SalvageOptions,
    watch: &mut Watch<'_>,
) -> Result<SalvageReport, Error> {
    check_target(source, target, options)?;
    let flash = options.flash.clone().map_or(FlashPath::NotNamed, FlashPath::At);
    let paths = DrivePaths { flash, is_read_only: true, ..DrivePaths::of(source) };
    let found = paths.find()?;
    salvage_drives(source, &|| found.drives(), target, options, watch)
}

/// Like [`salvage_path`], for drives that are open. `drives` returns them, as they are on the drive; what is written to
/// them is lost.
///
/// # Errors
/// As [`salvage_path`].
pub fn salvage_drives(
    source: &Path,
    drives: &dyn Fn() -> Drives,
    target: &Db,
    options: &SalvageOptions,
    watch: &mut Watch<'_>,
) -> Result<SalvageReport, Error> {
    check_target(source, target, options)?;
    let mut salvage = Salvage { source, target, options, report: SalvageReport::default() };
    let runtime = Runtime::threads(1);
    let no_catalog = match options.ignore_catalog {
        true => "the caller did not want it used".to_owned(),
        false => match salvage.open(drives(), &runtime)? {
            Ok(db) => {
                let mut report = salvage.copy(&db, watch)?;
                report.doubts = doubts_of(&db)?;
                return Ok(report);
            }
            Err(no_catalog) => no_catalog,
        },
    };
    salvage.report.no_catalog = Some(no_catalog);
    let found = salvage.search(drives(), watch)?;
    let db = found.open(runtime).map_err(|error| Error::at("put together", source, error))?;
    salvage.report.doubts = found.report().doubts.clone();
    salvage.report.found = Some(found.report().clone());
    let mut report = salvage.copy(&db, watch)?;
    report.doubts.extend(doubts_of(&db)?);
    Ok(report)
}

fn check_target(source: &Path, target: &Db, options: &SalvageOptions) -> Result<(), Error> {
    for name in target.keyspace_names() {
        if Objects::are_in(&target.keyspace(&name)?)? {
            let message = format!(
                "cannot salvage {}: the keyspace {name} of the target holds objects, whose data would mix with those \
                 of the salvaged ones; salvage to an empty store, and copy the objects from there",
                source.display()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
    }
    if options.add || !has_entries(target)? {
        return Ok(());
    }
    let message = "cannot salvage: the target holds entries already; choose an empty store, or allow to add to it";
    Err(Error::new(ErrorKind::AlreadyExists, message))
}

/// A salvage in progress.
struct Salvage<'a> {
    source: &'a Path,
    target: &'a Db,
    options: &'a SalvageOptions,
    report: SalvageReport,
}

impl Salvage<'_> {
    /// Opens the store that the catalog of the source describes, or returns why there is none.
    fn open(&self, drives: Drives, runtime: &Runtime) -> Result<Result<Db, String>, Error> {
        let mounted = match mount_at(self.source, drives, None, runtime) {
            Ok(mounted) => mounted,
            Err(unmounted) => {
                // A drive that seems blank is searched: only its beginning and its end were read.
                let is_other = unmounted.is_block_device();
                let error = unmounted.plain();
                let may_search = matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotAStore);
                return match may_search && !is_other {
                    true => Ok(Err(error.to_string())),
                    false => Err(error),
                };
            }
        };
        let opened = open_plain_at(self.source, mounted, runtime, |options| {
            options.open_mode = OpenMode::Salvage;
            options.background_work = false;
            options.create_if_missing = false;
        });
        match opened {
            Ok(stack) => Ok(Ok(stack.db)),
            Err(error) if error.kind() == ErrorKind::Damaged => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// Finds the store by its tables and logs.
    fn search(&self, drives: Drives, watch: &mut Watch<'_>) -> Result<Found, Error> {
        let Drives { main, beside } = drives;
        let bands = FixedBands::open(Arc::clone(&main)).ok();
        let below_files = bands.map_or(main, |bands| Arc::new(bands) as Arc<dyn Disk>);
        let mut raw = vec![RawDrive::new(below_files)];
        if let Beside::Flash(flash) = beside {
            raw.push(RawDrive::new(flash));
        }
        let traces = Traces::read(raw, watch).map_err(|error| self.failed("search", error))?;
        let store = self.choose(traces.stores())?;
        traces.assemble(store).map_err(|error| self.failed("search", error))
    }

    fn choose(&self, stores: &[StoreTrace]) -> Result<u64, Error> {
        let shown = self.source.display();
        let listed = || {
            let each = stores.iter().map(|store| {
                format!(
                    "{:016x} ({} tables, {} logs)",
                    store.id, store.table_count, store.log_count
                )
            });
            each.collect::<Vec<_>>().join(", ")
        };
        match (stores, self.options.store) {
            ([], _) => {
                let message =
                    format!("cannot salvage {shown}: it has no table and no log of a store");
                Err(Error::new(ErrorKind::NotAStore, message))
            }
            (_, Some(id)) if stores.iter().any(|store| store.id == id) => Ok(id),
            ([only], None) => Ok(only.id),
            (_, chosen) => {
                let why = match chosen {
                    Some(id) => format!("nothing of store {id:016x} is on it"),
                    None => "several stores left something on it".to_owned(),
                };
                let message = format!(
                    "cannot salvage {shown}: {why}; choose one of these with `--store ID`: {}",
                    listed()
                );
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        }
    }

    fn failed(&self, what: &'static str, error: imbrex_engine::EngineError) -> Error {
        Error::at(what, self.source, error)
    }

    /// Writes all entries of `db` to the target.
    fn copy(mut self, db: &Db, watch: &mut Watch<'_>) -> Result<SalvageReport, Error> {
        let copied = copy_store(db, self.target, &mut self.report.copies, watch);
        self.report.losses = db.losses();
        let missing = db.recovery().missing.iter();
        self.report
            .losses
            .extend(missing.map(|file| format!("{file} is on a drive that is missing")));
        match copied {
            Ok(()) => Ok(self.report),
            Err(error) if error.is_no_space() => {
                let needed_bytes = match &self.report.found {
                    Some(found) => found.len_bytes,
                    None => table_len_bytes(db),
                };
                let message = format!(
                    "the target is full after {} entries of {}; all of them may take {needed_bytes} bytes, besides \
                     room for compactions; what was written is a valid store: {error}",
                    self.report.entry_count(),
                    self.source.display()
                );
                Err(Error::new(ErrorKind::NoSpace, message))
            }
            Err(error) => Err(self.failed("copy", error)),
        }
    }
}

/// The length of all tables of `db`.
fn table_len_bytes(db: &Db) -> u64 {
    let keyspaces = db.metrics().keyspaces;
    let levels = keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    levels.map(|level| level.len_bytes).sum()
}

#[cfg(test)]
mod tests;
