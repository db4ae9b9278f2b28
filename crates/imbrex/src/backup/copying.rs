//! A backup: which tables the directory lacks, then their bytes, then the copy that names them all.

use super::directory::Directory;
use super::format::{CopyRecord, END_LEN_BYTES, TableEntry, ends_crc, table_file_name};
use super::host_file::{HostFile, host_error};
use super::{BackupOptions, BackupReport, asked};
use crate::error::{Error, ErrorKind};
use crate::stack::{Layout, error_text};
use imbrex_clockwork::unix_time_s;
use imbrex_engine::{Db, PinnedTable, Progress, Watch, verify_table};
use imbrex_files::FileBuffer;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// What the directory has of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Nothing that can be used.
    Nothing,
    /// A file that a copy names.
    Named(TableEntry),
    /// A file that no copy names: an interrupted backup left it.
    Left,
}

/// Copies the store `db`, whose drive has the id `store_id` and holds `layout`, to the directory `target`, which is made if
/// it does not exist.
///
/// Cost: a flush; reads two ends of each table, and all of those that the directory does not have; writes these, and reads
/// them there.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`]: the directory is not empty and has no backup, or that of another store.
/// [`ErrorKind::Damaged`]: a table of the drive is damaged. [`ErrorKind::InUse`], [`ErrorKind::NotPermitted`],
/// [`ErrorKind::NoSpace`], [`ErrorKind::NewerVersion`], [`ErrorKind::Stopped`], [`ErrorKind::Io`]. After each of them, the
/// copies that the directory has are whole (B3).
pub fn backup_db(
    db: &Db,
    store_id: u64,
    layout: Layout,
    target: &Path,
    options: &BackupOptions,
    watch: &mut Watch<'_>,
) -> Result<BackupReport, Error> {
    let mut dir = Directory::open_or_create(target, store_id)?;
    if dir.store_id != store_id {
        if !options.adopt {
            let (shown, held) = (target.display(), dir.store_id);
            let message = format!(
                "cannot back up to {shown}: it has copies of store {held:016x}, and this is store {store_id:016x}; name \
                 another directory, or continue that backup with --adopt if this store was restored from it"
            );
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        dir.adopt(store_id)?;
    }
    let begun_unix_s = unix_time_s();
    let pinned = db.pin()?;
    let mut backup = Backup { known: known_tables(&dir)?, dir, options, watch, done_bytes: 0 };
    let mut plan = Vec::new();
    let files = backup.dir.table_files()?;
    for table in pinned.tables() {
        asked((backup.watch)(Progress::default()), "the backup")?;
        let ends_crc = backup.ends_crc_of(table)?;
        plan.push((table, ends_crc, backup.held(table, ends_crc, &files)));
    }
    let missing = plan.iter().filter(|(.., held)| *held == Held::Nothing);
    let missing_bytes = missing.map(|(table, ..)| table.len_bytes()).sum();
    backup.check_room(missing_bytes)?;
    let total_bytes = match options.full {
        true => pinned.len_bytes(),
        false => missing_bytes,
    };
    let mut report = BackupReport { len_bytes: pinned.len_bytes(), ..BackupReport::default() };
    let mut tables = Vec::new();
    for (table, ends_crc, held) in plan {
        let (entry, is_written) = backup.table(table, ends_crc, held, total_bytes)?;
        if is_written {
            report.written_table_count += 1;
            report.written_bytes += entry.len_bytes;
        }
        tables.push(entry);
    }
    tables.sort_by_key(|table| table.id);
    backup.dir.sync_tables()?;
    report.table_count = tables.len() as u64;
    report.number = backup.dir.copies()?.last_key_value().map_or(0, |(&last, _)| last) + 1;
    let (layout, record) = (layout.name().to_owned(), pinned.record());
    let number = report.number;
    let unix_time_s = begun_unix_s;
    let copy = CopyRecord { number, unix_time_s, store_id, layout, tables, record };
    backup.dir.put_copy(&copy)?;
    remove_old(&backup.dir, options.keep, &mut report)?;
    Ok(report)
}

/// All tables that a copy names, by the names of their files.
fn known_tables(dir: &Directory) -> Result<BTreeMap<String, TableEntry>, Error> {
    let copies = dir.copies()?;
    let tables = copies.values().flatten().flat_map(|copy| &copy.tables);
    Ok(tables.map(|table| (table.file_name(), *table)).collect())
}

/// A backup in progress.
struct Backup<'a, 'w> {
    dir: Directory,
    options: &'a BackupOptions,
    known: BTreeMap<String, TableEntry>,
    watch: &'a mut Watch<'w>,
    done_bytes: u64,
}

impl Backup<'_, '_> {
    fn ends_crc_of(&self, table: &PinnedTable) -> Result<u32, Error> {
        let (len_bytes, mut scratch) = (table.len_bytes(), Vec::new());
        let end_len_bytes = len_bytes.min(END_LEN_BYTES);
        let read = |at, scratch: &mut Vec<u8>| {
            let bytes = table.read_at(at, end_len_bytes as usize, scratch);
            bytes.map(<[u8]>::to_vec).map_err(|error| self.source_failed(table, &error))
        };
        let head = read(0, &mut scratch)?;
        let tail = read(len_bytes - end_len_bytes, &mut scratch)?;
        Ok(ends_crc(len_bytes, &head, &tail))
    }

    fn held(&self, table: &PinnedTable, ends_crc: u32, files: &BTreeMap<String, u64>) -> Held {
        let name = table_file_name(table.id(), ends_crc);
        let is_there = files.get(&name) == Some(&table.len_bytes());
        match self.known.get(&name).filter(|known| known.len_bytes == table.len_bytes()) {
            _ if !is_there => Held::Nothing,
            Some(known) => Held::Named(*known),
            None => Held::Left,
        }
    }

    /// Fails before anything is copied if the host has no room for `missing_bytes`.
    fn check_room(&self, missing_bytes: u64) -> Result<(), Error> {
        let Some(free_bytes) = self.dir.free_bytes() else { return Ok(()) };
        if missing_bytes <= free_bytes {
            return Ok(());
        }
        let message = format!(
            "cannot back up to {}: {missing_bytes} bytes must be copied, and its file system has {free_bytes} free; make \
             room there, or keep fewer copies with --keep",
            self.dir.path().display()
        );
        Err(Error::new(ErrorKind::NoSpace, message))
    }

    /// The entry of `table`, whose file is in the directory on return, and whether it was written.
    fn table(
        &mut self,
        table: &PinnedTable,
        ends_crc: u32,
        held: Held,
        total_bytes: u64,
    ) -> Result<(TableEntry, bool), Error> {
        let name = table_file_name(table.id(), ends_crc);
        let (id, len_bytes) = (table.id(), table.len_bytes());
        let path = self.dir.table_path(&name);
        match held {
            Held::Named(known) if !self.options.full => return Ok((known, false)),
            Held::Named(known) => {
                let on_drive = self.read(table, total_bytes, &mut |_| Ok(()))?;
                if on_drive != known.crc {
                    return Err(self.differs(table));
                }
                let file = Arc::new(HostFile::open(&path, &*name)?);
                if file.crc()? == known.crc && verify_table(file)?.is_empty() {
                    return Ok((known, false));
                }
            }
            Held::Left => {
                let file = Arc::new(HostFile::open(&path, &*name)?);
                let crc = file.crc()?;
                if verify_table(file)?.is_empty() {
                    return Ok((TableEntry { id, len_bytes, crc, ends_crc }, false));
                }
            }
            Held::Nothing => {}
        }
        let crc = self.copy(table, &name, total_bytes)?;
        if let Some(known) = self.known.get(&name).filter(|known| known.crc != crc) {
            debug_assert_eq!(known.id, id);
            return Err(self.differs(table));
        }
        Ok((TableEntry { id, len_bytes, crc, ends_crc }, true))
    }

    /// Writes the file `name` for `table`, and verifies it there (B2). Returns the checksum of its bytes.
    fn copy(&mut self, table: &PinnedTable, name: &str, total_bytes: u64) -> Result<u32, Error> {
        let part = self.dir.table_path(name);
        let mut written = 0;
        // The directory is borrowed while the file is made.
        let Backup { dir, watch, done_bytes, .. } = self;
        dir.put_table(
            name,
            |file| {
                let mut write = |piece: &[u8]| {
                    file.write_all(piece).map_err(|error| host_error("write", &part, &error))
                };
                read(dir, table, *watch, done_bytes, total_bytes, &mut write)
            },
            |path, crc| {
                written = crc;
                let file = Arc::new(HostFile::open(path, PinnedTable::file_name_of(table.id()))?);
                if file.crc()? != crc {
                    let shown = path.display();
                    let message = format!(
                        "cannot back up: {shown} reads back other bytes than were written; check that disk"
                    );
                    return Err(Error::new(ErrorKind::Io, message));
                }
                match verify_table(file)?.first() {
                    None => Ok(()),
                    Some(finding) => Err(source_damaged(dir, table, finding)),
                }
            },
        )?;
        Ok(written)
    }

    fn read(
        &mut self,
        table: &PinnedTable,
        total_bytes: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<u32, Error> {
        read(&self.dir, table, self.watch, &mut self.done_bytes, total_bytes, sink)
    }

    fn source_failed(&self, table: &PinnedTable, error: &imbrex_engine::EngineError) -> Error {
        source_failed(&self.dir, table, error)
    }

    /// A table that the directory has under the same number, with the same ends, and other bytes between them.
    fn differs(&self, table: &PinnedTable) -> Error {
        let message = format!(
            "cannot back up to {}: its table {} is another one than that of the drive; the drive may be a copy of the one \
             that was backed up there; name another directory",
            self.dir.path().display(),
            table.id()
        );
        Error::new(ErrorKind::AlreadyExists, message)
    }
}

/// Passes the bytes of `table` on the drive to `sink`, and returns their checksum.
fn read(
    dir: &Directory,
    table: &PinnedTable,
    watch: &mut Watch<'_>,
    done_bytes: &mut u64,
    total_bytes: u64,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<u32, Error> {
    let (mut crc, mut at, mut scratch) = (0, 0, Vec::new());
    while at < table.len_bytes() {
        let len_bytes = (table.len_bytes() - at).min(FileBuffer::CHUNK_LEN_BYTES as u64);
        let piece = table.read_at(at, len_bytes as usize, &mut scratch);
        let piece = piece.map_err(|error| source_failed(dir, table, &error))?;
        crc = crc32c::crc32c_append(crc, piece);
        sink(piece)?;
        at += len_bytes;
        *done_bytes += len_bytes;
        asked(watch(Progress { done_bytes: *done_bytes, total_bytes }), "the backup")?;
    }
    Ok(crc)
}

fn source_failed(
    dir: &Directory,
    table: &PinnedTable,
    error: &imbrex_engine::EngineError,
) -> Error {
    match ErrorKind::of(error) {
        ErrorKind::Damaged => source_damaged(dir, table, &error_text(error)),
        kind => {
            Error::new(kind, format!("cannot back up {}: {}", table.place(), error_text(error)))
        }
    }
}

fn source_damaged(dir: &Directory, table: &PinnedTable, finding: &str) -> Error {
    let message = format!(
        "cannot back up: {} is damaged: {finding}; the copies in {} are whole; `imbrex check DRIVE` lists all damage",
        table.place(),
        dir.path().display()
    );
    Error::new(ErrorKind::Damaged, message)
}

/// Removes copies beyond the newest `keep`, and tables that no copy names (B4).
fn remove_old(dir: &Directory, keep: Option<u64>, report: &mut BackupReport) -> Result<(), Error> {
    let mut copies = dir.copies()?;
    if let Some((number, Err(malformed))) = copies.iter().find(|(_, copy)| copy.is_err()) {
        report.not_removed = Some(format!(
            "copy {number} cannot be decoded ({malformed}), so nothing was removed; delete it first"
        ));
        return Ok(());
    }
    let keep = keep.map_or(copies.len(), |keep| keep.max(1) as usize);
    while copies.len() > keep {
        let Some((number, _)) = copies.pop_first() else { break };
        dir.remove_copy(number)?;
        report.removed_copies.push(number);
    }
    report.removed_table_count = remove_unnamed(dir)?;
    Ok(())
}

/// Removes tables that no copy names, and returns their number. Every copy can be decoded.
fn remove_unnamed(dir: &Directory) -> Result<u64, Error> {
    let known: BTreeSet<String> = known_tables(dir)?.into_keys().collect();
    let mut count = 0;
    for name in dir.table_files()?.into_keys().filter(|name| !known.contains(name)) {
        dir.remove_table(&name)?;
        count += 1;
    }
    Ok(count)
}

/// Removes copy `number` from the backup at `path`, whole or damaged, and the tables that no other copy names.
///
/// # Errors
/// [`ErrorKind::NotFound`]: it has no such copy. Else as [`copies`](super::copies).
pub fn remove_copy(path: &Path, number: u64) -> Result<(), Error> {
    let store_id = Directory::open(path)?.store_id;
    let dir = Directory::open_or_create(path, store_id)?;
    let copies = dir.copies()?;
    if !copies.contains_key(&number) {
        return Err(no_such_copy(path, number, copies.keys()));
    }
    dir.remove_copy(number)?;
    if copies.iter().all(|(&other, copy)| other == number || copy.is_ok()) {
        remove_unnamed(&dir)?;
    }
    Ok(())
}

/// The error for a copy that the backup at `path` does not have.
pub(super) fn no_such_copy<'a>(
    path: &Path,
    number: u64,
    copies: impl Iterator<Item = &'a u64>,
) -> Error {
    let shown: Vec<_> = copies.map(u64::to_string).collect();
    let shown = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
    let message = format!("{} has no copy {number}; its copies are: {shown}", path.display());
    Error::new(ErrorKind::NotFound, message)
}
