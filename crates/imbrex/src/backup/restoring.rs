//! A restore: the tables of a copy, compared with their checksums, into an empty drive, which is then checked.

use super::asked;
use super::copying::no_such_copy;
use super::directory::{Directory, kind_of};
use super::format::CopyRecord;
use super::host_file::{CopyFiles, HostFile};
use crate::error::{Error, ErrorKind};
use crate::stack::{FoundDrives, error_text};
use imbrex_clockwork::Runtime;
use imbrex_engine::salvage::{copy_store, has_entries};
use imbrex_engine::{Db, OpenMode, Options, Progress, Watch};
use imbrex_files::Files;
use std::path::Path;
use std::sync::Arc;

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// The copy that was restored.
    pub number: u64,
    /// When it was made.
    pub unix_time_s: u64,
    /// The tables that the drive has now.
    pub table_count: u64,
    /// Their length.
    pub len_bytes: u64,
    /// The entries that were checked on the drive: live ones, older ones and deletes.
    pub entry_count: u64,
    /// Whether the entries were written anew, because the drive has another layout.
    pub by_entries: bool,
}

/// Restores a copy of the backup at `source` to the drives `target`, which hold an empty store. `number` chooses the copy;
/// the newest one without it. With `any_layout`, the drive may have another layout than the copy: then all entries are
/// written anew.
///
/// Cost: reads the copy twice; writes it once; reads what was written twice.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`]: the drive holds entries or checkpoints. [`ErrorKind::WrongLayout`].
/// [`ErrorKind::Damaged`]: a file of the copy is damaged: nothing was written. [`ErrorKind::NoSpace`]: the drive is too small.
/// [`ErrorKind::Stopped`]. Else as [`copies`](super::copies) and [`FoundDrives::open`]. The drive holds the empty store then
/// (B5), with `any_layout` a part of the entries.
pub fn restore_to(
    source: &Path,
    number: Option<u64>,
    target: &FoundDrives,
    any_layout: bool,
    watch: &mut Watch<'_>,
) -> Result<RestoreReport, Error> {
    let dir = Directory::open(source)?;
    let copy = chosen(&dir, number)?;
    let runtime = Runtime::threads(1);
    let path = &target.paths.main;
    let failed = |error: imbrex_engine::EngineError| Error::at("restore to", path, error);
    let stack = target.open(&runtime, quiet)?;
    let layout = stack.layout;
    let is_empty = !has_entries(&stack.db).map_err(failed)? && stack.db.checkpoints().is_empty();
    stack.close().map_err(|error| Error::at("restore to", path, error))?;
    if !is_empty {
        let message = format!(
            "cannot restore to {}: it holds entries or checkpoints already; make an empty drive for it",
            path.display()
        );
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    let by_entries = copy.layout != layout.name();
    if by_entries && !any_layout {
        let message = format!(
            "cannot restore to {}: the copy is of a drive with layout {}, and this one has {layout}; make it with `--layout \
             {}`, or write all entries anew with --any-layout",
            path.display(),
            copy.layout,
            copy.layout
        );
        return Err(Error::new(ErrorKind::WrongLayout, message));
    }
    compare(&dir, &copy, watch)?;
    let files = Arc::new(CopyFiles::new(&dir, &copy));
    let options =
        Options { open_mode: OpenMode::ReadOnly, background_work: false, ..Options::default() };
    let db = Db::open(files as Arc<dyn Files>, runtime.clone(), options);
    let db = db.map_err(|error| Error::at("open the copy in", source, error))?;
    if by_entries {
        let stack = target.open(&runtime, |_| {})?;
        let copied = copy_store(&db, &stack.db, &mut Vec::new(), watch);
        let closed = stack.close();
        copied.map_err(failed)?;
        closed.map_err(|error| Error::at("restore to", path, error))?;
    } else {
        let mounted = target.mount(&runtime)?;
        let written = db.pin().and_then(|pinned| pinned.write_to(&*mounted.all_files(), watch));
        mounted.files.end_cleaning();
        written.map_err(|error| match error.is_no_space() {
            true => too_small(path, &copy, &error),
            false => failed(error),
        })?;
    }
    let mut report = RestoreReport {
        number: copy.number,
        unix_time_s: copy.unix_time_s,
        by_entries,
        ..RestoreReport::default()
    };
    check(target, &runtime, watch, &mut report)?;
    Ok(report)
}

fn quiet(options: &mut Options) {
    options.background_work = false;
}

/// The copy with this number, or the newest one.
fn chosen(dir: &Directory, number: Option<u64>) -> Result<CopyRecord, Error> {
    let shown = dir.path().display();
    let mut copies = dir.copies()?;
    let numbers: Vec<u64> = copies.keys().copied().collect();
    let Some(newest) = numbers.last() else {
        let message = format!("{shown} has no copy: no backup to it has ended");
        return Err(Error::new(ErrorKind::NotFound, message));
    };
    let number = number.unwrap_or(*newest);
    let Some(copy) = copies.remove(&number) else {
        return Err(no_such_copy(dir.path(), number, numbers.iter()));
    };
    let copy = copy.map_err(|malformed| {
        let message = format!(
            "cannot restore copy {number} of {shown}: {malformed}; choose another one with --copy: `imbrex copies {shown}` \
             lists them"
        );
        Error::new(kind_of(&malformed), message)
    })?;
    let missing = copy.tables.iter().find(|table| !dir.has(table));
    match missing {
        None => Ok(copy),
        Some(table) => Err(unusable(dir, &copy, &table.file_name(), "is missing or cut off")),
    }
}

/// Compares all tables of `copy` with their checksums.
fn compare(dir: &Directory, copy: &CopyRecord, watch: &mut Watch<'_>) -> Result<(), Error> {
    let (mut done_bytes, total_bytes) = (0, copy.len_bytes());
    for table in &copy.tables {
        let name = table.file_name();
        let crc = HostFile::open(&dir.table_path(&name), &*name)?.crc()?;
        if crc != table.crc {
            return Err(unusable(dir, copy, &name, "is damaged: its checksum does not match"));
        }
        done_bytes += table.len_bytes;
        asked(watch(Progress { done_bytes, total_bytes }), "the restore")?;
    }
    Ok(())
}

fn unusable(dir: &Directory, copy: &CopyRecord, file_name: &str, why: &str) -> Error {
    let shown = dir.path().display();
    let message = format!(
        "cannot restore copy {} of {shown}: {} {why}; nothing was written; `imbrex copies {shown} --verify` lists the \
         copies that are whole",
        copy.number,
        dir.table_path(file_name).display()
    );
    Error::new(ErrorKind::Damaged, message)
}

fn too_small(path: &Path, copy: &CopyRecord, error: &imbrex_engine::EngineError) -> Error {
    let message = format!(
        "cannot restore to {}: the tables of the copy have {} bytes, and the drive has no room for them; nothing was \
         restored; use a larger drive: {}",
        path.display(),
        copy.len_bytes(),
        error_text(error)
    );
    Error::new(ErrorKind::NoSpace, message)
}

/// Checks the store that was restored.
fn check(
    target: &FoundDrives,
    runtime: &Runtime,
    watch: &mut Watch<'_>,
    report: &mut RestoreReport,
) -> Result<(), Error> {
    let path = &target.paths.main;
    let stack = target.open(runtime, quiet)?;
    let checked = stack.db.check_with(watch);
    let closed = stack.close();
    let checked = checked.map_err(|error| Error::at("check", path, error))?;
    closed.map_err(|error| Error::at("restore to", path, error))?;
    report.table_count = checked.table_count as u64;
    report.len_bytes = checked.table_len_bytes;
    report.entry_count = checked.entry_count;
    match checked.findings.first() {
        None => Ok(()),
        Some(finding) => {
            let message = format!(
                "{} was restored, but what it reads back is damaged: {finding}; use another drive",
                path.display()
            );
            Err(Error::new(ErrorKind::Damaged, message))
        }
    }
}
