//! Backups in a directory of the host: copies of a store that share the tables they have in common.
//!
//! ```text
//!   drive --pin--> tables at one moment --what is new--> TARGET/tables/      verified, then named
//!                                                        TARGET/copy-000007  last: the copy exists from here
//!
//!   TARGET/copy-000007 -> its tables -> a store that is only read --one commit--> an empty drive -> checked
//! ```
//!
//! Tables are immutable and have numbers, so a copy takes only tables that the directory does not have: a backup costs what
//! changed. The directory is plain files. Any program can carry it elsewhere; `docs/formats/backup_directory.md` has its
//! bytes.
//!
//! Invariants
//!   B1  A copy is a whole store at one moment: every acknowledged write before it, and none after.
//!   B2  A copy exists only if each of its tables is in the directory, durably, and was read back there and verified. A
//!       damaged table on the drive therefore ends the backup, instead of replacing a good copy in time.
//!   B3  Interrupted at any point, a backup leaves all earlier copies whole and the drive as it was. The next one goes on
//!       with the tables that are there.
//!   B4  Nothing that a copy names is changed or removed. While a copy cannot be decoded, no table is removed.
//!   B5  A restore becomes the drive's content in one commit, after every table was compared with its checksum. Interrupted
//!       before that, the drive holds the empty store that it held.
//!
//! A table that the directory has is recognised by its number, its length and its ends ([`BackupOptions::full`] compares all
//! of it). Two drives that were one, copied with `cp`, and written apart afterwards, may have tables that differ in the
//! middle only: each needs a directory for itself.
//!
//! Sources of ideas: RocksDB's BackupEngine (tables shared by checksum), restic (what is named last decides; an interrupted
//! run leaves work that the next one finds).
//! Not here: a moment of a store (`engine::PinnedStore`), copies on the same drive
//! ([`Store::checkpoint`](crate::Store::checkpoint)), a new drive as the target
//! ([`Store::backup_to`](crate::Store::backup_to)), damaged drives ([`salvage`](mod@crate::salvage)).

mod copying;
mod directory;
mod drive;
mod format;
mod host_file;
mod restoring;

pub use copying::{backup_db, remove_copy};
pub use drive::{DriveBackup, backup_to_drives};
pub use restoring::{RestoreReport, restore_to};

use crate::Error;
use crate::error::ErrorKind;
use directory::Directory;
use host_file::{HostFile, host_error};
use imbrex_engine::{Progress, Watch, verify_table};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// How a backup works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupOptions {
    /// Whether to go on with a directory that has copies of another store, of which this one was restored.
    pub adopt: bool,
    /// Whether to read also the tables that the directory has, on the drive and there, and to replace those that were damaged
    /// in the directory.
    pub full: bool,
    /// How many copies to keep, the new one included; all of them without it.
    pub keep: Option<u64>,
}

/// What a backup did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The number of the new copy.
    pub number: u64,
    /// Its tables, and their length.
    pub table_count: u64,
    /// The length of its tables.
    pub len_bytes: u64,
    /// How many of them were written.
    pub written_table_count: u64,
    /// The length of those.
    pub written_bytes: u64,
    /// The copies that were removed, because no more are to be kept.
    pub removed_copies: Vec<u64>,
    /// Tables that no copy named any more, and that were removed.
    pub removed_table_count: u64,
    /// Why nothing was removed although it may have been due.
    pub not_removed: Option<String>,
}

/// A copy in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyInfo {
    /// Its number.
    pub number: u64,
    /// When it was made; 0 if the host did not know.
    pub unix_time_s: u64,
    /// The layout of the drive.
    pub layout: String,
    /// The drive's id.
    pub store_id: u64,
    /// How many tables it has.
    pub table_count: u64,
    /// Their length.
    pub len_bytes: u64,
    /// What is wrong with it, one sentence each; empty as far as was looked.
    pub findings: Vec<String>,
}

/// The copies in the directory `path`. With `read_all`, every table is read and verified; otherwise only that it is there.
///
/// # Errors
/// [`ErrorKind::NotFound`], [`ErrorKind::NotAStore`]: it is no backup; [`ErrorKind::InUse`], [`ErrorKind::NotPermitted`],
/// [`ErrorKind::NewerVersion`], [`ErrorKind::Io`], [`ErrorKind::Stopped`]. Damage is not an error but part of the result.
pub fn copies(path: &Path, read_all: bool, watch: &mut Watch<'_>) -> Result<Vec<CopyInfo>, Error> {
    let dir = Directory::open(path)?;
    let found = dir.copies()?;
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut infos = Vec::new();
    let mut done_bytes = 0;
    for (number, copy) in found {
        let copy = match copy {
            Ok(copy) => copy,
            Err(malformed) => {
                let findings = vec![format!("copy {number} cannot be used: {malformed}")];
                let (layout, table_count, len_bytes) = Default::default();
                let (store_id, unix_time_s) = (dir.store_id, 0);
                infos.push(CopyInfo {
                    number,
                    unix_time_s,
                    layout,
                    store_id,
                    table_count,
                    len_bytes,
                    findings,
                });
                continue;
            }
        };
        let mut findings = Vec::new();
        for table in &copy.tables {
            let name = table.file_name();
            if !known.contains_key(&name) {
                let found = table_findings(&dir, table, read_all)?;
                if read_all {
                    done_bytes += table.len_bytes;
                    asked(watch(Progress { done_bytes, total_bytes: 0 }), "the check")?;
                }
                known.insert(name.clone(), found);
            }
            findings.extend(known[&name].iter().cloned());
        }
        infos.push(CopyInfo {
            number,
            unix_time_s: copy.unix_time_s,
            layout: copy.layout.clone(),
            store_id: copy.store_id,
            table_count: copy.tables.len() as u64,
            len_bytes: copy.len_bytes(),
            findings,
        });
    }
    Ok(infos)
}

/// The bytes of all tables with number `id` that the backup at `path` has: several, if stores continued each other.
pub(crate) fn tables_numbered(path: &Path, id: u64) -> Result<Vec<Vec<u8>>, Error> {
    let dir = Directory::open(path)?;
    let prefix = format!("{id:06}-");
    let names = dir.table_files()?.into_keys().filter(|name| name.starts_with(&prefix));
    let read = |name: String| {
        let path = dir.table_path(&name);
        std::fs::read(&path).map_err(|error| host_error("read", &path, &error))
    };
    names.filter(|name| name.ends_with(".tbl")).map(read).collect()
}

/// What is wrong with the file of `table`.
fn table_findings(
    dir: &Directory,
    table: &format::TableEntry,
    read_all: bool,
) -> Result<Vec<String>, Error> {
    let name = table.file_name();
    let path = dir.table_path(&name);
    if !dir.has(table) {
        return Ok(vec![format!("{} is missing, or has another length", path.display())]);
    }
    if !read_all {
        return Ok(Vec::new());
    }
    let file = Arc::new(HostFile::open(&path, &*name)?);
    let mut findings = verify_table(Arc::clone(&file) as Arc<_>)?;
    if file.crc()? != table.crc {
        findings.push(format!("{} is damaged: its checksum does not match", path.display()));
    }
    Ok(findings)
}

/// # Errors
/// [`ErrorKind::Stopped`].
fn asked(answer: ControlFlow<()>, what: &str) -> Result<(), Error> {
    match answer {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            Err(Error::new(ErrorKind::Stopped, format!("{what} was stopped as requested")))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
