//! The directory of a backup: its files by their names, and when a name is given.
//!
//! ```text
//!   put    NAME.part -> write -> sync -> check -> rename -> sync the directory
//! ```
//!
//! Invariants
//!   D1  A file has its name only if its content is durable and was checked.
//!   D2  One process at a time writes to a backup; readers share it among themselves.
//!
//! Not here: what is in the files (`format`), which files a backup needs (`copying`).

use super::format::{
    CopyRecord, Malformed, TableEntry, copy_file_name, copy_number, decode_mark, encode_mark,
};
use super::host_file::host_error;
use crate::error::{Error, ErrorKind};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const MARK: &str = "imbrex-backup";
const TABLES: &str = "tables";
const PART: &str = ".part";

/// The directory of a backup, locked.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// The store whose backup it is.
    pub(super) store_id: u64,
    /// Holds the lock (D2).
    _lock: File,
}

/// A copy in a directory: its record, or why it cannot be used.
pub(super) type FoundCopy = Result<CopyRecord, Malformed>;

impl Directory {
    /// Opens the backup at `path` for reading.
    pub(super) fn open(path: &Path) -> Result<Directory, Error> {
        let shown = path.display();
        match fs::metadata(path) {
            Ok(found) if !found.is_dir() => {
                let message = format!("cannot read the backup {shown}: it is not a directory");
                return Err(Error::new(ErrorKind::NotAStore, message));
            }
            Ok(_) => {}
            Err(error) => return Err(host_error("read the backup", path, &error)),
        }
        match File::open(path.join(MARK)) {
            Ok(mark) => Directory::locked(path, mark, FlockOperation::NonBlockingLockShared),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!(
                    "cannot read the backup {shown}: it has no file {MARK}, so it is no backup of this program"
                );
                Err(Error::new(ErrorKind::NotAStore, message))
            }
            Err(error) => Err(host_error("read the backup", &path.join(MARK), &error)),
        }
    }

    /// Opens the backup at `path` for writing, or makes an empty one for `store_id` in a directory that does not exist or
    /// is empty.
    pub(super) fn open_or_create(path: &Path, store_id: u64) -> Result<Directory, Error> {
        let failed = |error| host_error("back up to", path, &error);
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let advice = "the directory that it is to be in does not exist; create it first";
                return Err(failed(error).with_advice(advice));
            }
            made => {
                made.map_err(failed)?;
                // A copy in a directory that a power cut takes away would not be durable (D1).
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                File::open(parent.unwrap_or(Path::new(".")))
                    .and_then(|dir| dir.sync_all())
                    .map_err(failed)?;
            }
        }
        let mark = path.join(MARK);
        if !mark.exists() {
            let is_own_rest = |name: &str| name == TABLES || name == format!("{MARK}{PART}");
            let foreign = file_names(path)?.into_iter().find(|name| !is_own_rest(name));
            if let Some(foreign) = foreign {
                let shown = path.display();
                let message = format!(
                    "cannot back up to {shown}: it holds {foreign:?} and no backup; name an empty directory, or one that \
                     does not exist"
                );
                return Err(Error::new(ErrorKind::AlreadyExists, message));
            }
            match fs::create_dir(path.join(TABLES)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(failed)?,
            }
            put(path, MARK, |file| file.write_all(encode_mark(store_id).as_bytes()))
                .map_err(failed)?;
        }
        let lock = File::open(&mark).map_err(|error| host_error("back up to", &mark, &error))?;
        let dir = Directory::locked(path, lock, FlockOperation::NonBlockingLockExclusive)?;
        for sub in [dir.path.clone(), dir.tables()] {
            for name in file_names(&sub)?.iter().filter(|name| name.ends_with(PART)) {
                fs::remove_file(sub.join(name)).map_err(failed)?;
            }
        }
        Ok(dir)
    }

    fn locked(path: &Path, mark: File, lock: FlockOperation) -> Result<Directory, Error> {
        let shown = path.display();
        flock(&mark, lock).map_err(|errno| match errno {
            rustix::io::Errno::WOULDBLOCK => {
                let message = format!("cannot open the backup {shown}: another process uses it");
                Error::new(ErrorKind::InUse, message)
            }
            errno => host_error("lock the backup", path, &errno.into()),
        })?;
        let text = io::read_to_string(&mark)
            .map_err(|error| host_error("read", &path.join(MARK), &error))?;
        let store_id = decode_mark(&text).map_err(|malformed| {
            let kind = kind_of(&malformed);
            Error::new(kind, format!("cannot open the backup {shown}: {malformed}"))
        })?;
        Ok(Directory { path: path.to_owned(), store_id, _lock: mark })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it the backup of `store_id` from now on.
    pub(super) fn adopt(&mut self, store_id: u64) -> Result<(), Error> {
        let text = encode_mark(store_id);
        put(&self.path, MARK, |file| file.write_all(text.as_bytes()))
            .map_err(|error| host_error("back up to", &self.path, &error))?;
        let mark = self.path.join(MARK);
        let lock = File::open(&mark).map_err(|error| host_error("back up to", &mark, &error))?;
        *self = Directory::locked(&self.path, lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(())
    }

    fn tables(&self) -> PathBuf {
        self.path.join(TABLES)
    }

    /// The path of a table's file.
    pub(super) fn table_path(&self, file_name: &str) -> PathBuf {
        self.tables().join(file_name)
    }

    /// All copies by their numbers.
    pub(super) fn copies(&self) -> Result<BTreeMap<u64, FoundCopy>, Error> {
        let mut copies = BTreeMap::new();
        for name in file_names(&self.path)? {
            let Some(number) = copy_number(&name) else { continue };
            let path = self.path.join(&name);
            let bytes = fs::read(&path).map_err(|error| host_error("read", &path, &error))?;
            let found = CopyRecord::decode(&bytes).and_then(|copy| match copy.number == number {
                true => Ok(copy),
                false => Err(Malformed::Damaged("it has another number than its name says")),
            });
            copies.insert(number, found);
        }
        Ok(copies)
    }

    /// The names and lengths of all tables' files.
    pub(super) fn table_files(&self) -> Result<BTreeMap<String, u64>, Error> {
        let tables = self.tables();
        let mut found = BTreeMap::new();
        for name in file_names(&tables)? {
            let path = tables.join(&name);
            let len = fs::metadata(&path).map_err(|error| host_error("read", &path, &error))?.len();
            found.insert(name, len);
        }
        Ok(found)
    }

    /// Whether the file of `table` is there and as long as it says.
    pub(super) fn has(&self, table: &TableEntry) -> bool {
        let found = fs::metadata(self.table_path(&table.file_name()));
        found.is_ok_and(|found| found.is_file() && found.len() == table.len_bytes)
    }

    /// Makes a table's file: `write` gets a new file, `check` its path after the content is durable (D1). The name is
    /// durable after [`Directory::sync_tables`].
    pub(super) fn put_table<T>(
        &self,
        file_name: &str,
        write: impl FnOnce(&mut File) -> Result<T, Error>,
        check: impl FnOnce(&Path, T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (to, part) =
            (self.table_path(file_name), self.table_path(&format!("{file_name}{PART}")));
        let failed = |error: io::Error| host_error("write", &part, &error);
        let made = File::create(&part).map_err(failed).and_then(|mut file| {
            let written = write(&mut file)?;
            file.sync_all().map_err(failed)?;
            // The check then reads what the disk has, as far as the host allows it.
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            check(&part, written)?;
            fs::rename(&part, &to).map_err(|error| host_error("write", &to, &error))
        });
        // A full host gets its room back.
        made.inspect_err(|_| _ = fs::remove_file(&part))
    }

    /// Makes the names of tables durable.
    pub(super) fn sync_tables(&self) -> Result<(), Error> {
        let tables = self.tables();
        let synced = File::open(&tables).and_then(|dir| dir.sync_all());
        synced.map_err(|error| host_error("write", &tables, &error))
    }

    /// Adds a copy, durably.
    pub(super) fn put_copy(&self, copy: &CopyRecord) -> Result<(), Error> {
        let (name, bytes) = (copy_file_name(copy.number), copy.encode());
        put(&self.path, &name, |file| file.write_all(&bytes))
            .map_err(|error| host_error("write", &self.path.join(&name), &error))
    }

    /// Removes a copy, durably. Its tables stay.
    pub(super) fn remove_copy(&self, number: u64) -> Result<(), Error> {
        let path = self.path.join(copy_file_name(number));
        let removed = fs::remove_file(&path)
            .and_then(|()| File::open(&self.path))
            .and_then(|dir| dir.sync_all());
        removed.map_err(|error| host_error("remove", &path, &error))
    }

    /// Removes a table's file. If the removal is lost, the next one finds it again.
    pub(super) fn remove_table(&self, file_name: &str) -> Result<(), Error> {
        let path = self.table_path(file_name);
        fs::remove_file(&path).map_err(|error| host_error("remove", &path, &error))
    }

    /// How much room the host's file system has for this user.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.path).ok()?;
        found.f_bavail.checked_mul(found.f_frsize)
    }
}

/// The kind of error for a file that is malformed.
pub(super) fn kind_of(malformed: &Malformed) -> ErrorKind {
    match malformed {
        Malformed::Version(_) => ErrorKind::NewerVersion,
        Malformed::Damaged(_) => ErrorKind::Damaged,
    }
}

/// Makes a file whose name appears, durably, after its content is durable (D1).
fn put(dir: &Path, name: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let part = dir.join(format!("{name}{PART}"));
    let made = File::create(&part).and_then(|mut file| {
        write(&mut file)?;
        file.sync_all()?;
        fs::rename(&part, dir.join(name))?;
        File::open(dir)?.sync_all()
    });
    made.inspect_err(|_| _ = fs::remove_file(&part))
}

fn file_names(dir: &Path) -> Result<Vec<String>, Error> {
    let failed = |error: io::Error| host_error("read", dir, &error);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
