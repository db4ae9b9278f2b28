//! A pinned store: the store at one moment, held so that its tables can be copied byte by byte.
//!
//! ```text
//!   Db::pin   flush to a cut -> state -> PinnedStore     writes and compactions continue
//!                                        record          what the catalog would say, alone
//!                                        tables          their bytes stay while they are held (F3)
//!                    write_to ---------> another drive   one commit
//!                    record, tables ---> anywhere else   for a caller that writes files of its own
//! ```
//!
//! Invariants
//!   P1  The record and the tables are of one moment: together they are a whole store.
//!   P2  A target becomes the copy in one commit. Until then it is what it was.
//!   P3  A copy takes no number that its target has used before: the target's logs may still be on
//!       the platter.
//!
//! Not here: a target with an earlier copy (`replica`), directories of the host (`imbrex::backup`),
//! checkpoints (`checkpoint`).

use crate::EngineError;
use crate::batch::KeyspaceId;
use crate::db::Db;
use crate::losses::keys_between;
use crate::open::recover::decode_records;
use crate::table::Table;
use crate::table::cache::BlockCache;
use crate::version::format::{self, RecordKind};
use crate::version::holders::HOLDER_LEVEL;
use crate::version::state::StoreState;
use crate::version::{TableId, TableSlot};
use crate::watch::{Progress, Watch, ask};
use crate::work::flush;
use imbrex_files::{AppRecord, Commit, FileBuffer, FileKind, FileReader, Files, Hints};
use std::sync::Arc;

/// The snapshot record of `state`, without its checkpoints, and without its totals: a copy is another
/// store, with a lifetime of its own.
pub(super) fn snapshot_record(state: &StoreState) -> Vec<u8> {
    let bare =
        StoreState { checkpoints: Default::default(), totals: Default::default(), ..state.clone() };
    format::encode(RecordKind::Snapshot, &bare.to_edit())
}

/// A store at one moment, with the bytes of its tables. Space that its tables hold comes back after
/// it is dropped.
#[derive(Debug)]
pub struct PinnedStore {
    pub(super) state: StoreState,
    tables: Vec<PinnedTable>,
}

/// A table of a [`PinnedStore`].
#[derive(Clone)]
pub struct PinnedTable {
    pub(super) slot: Arc<TableSlot>,
    keyspace: KeyspaceId,
    keyspace_name: Arc<str>,
    pub(super) level: u8,
}

impl Db {
    /// Pins the store as it is at one moment during the call: everything written before, in all
    /// keyspaces, and nothing written later.
    ///
    /// Cost: a flush. A store that is open for reading has none: it must have no entries in logs.
    ///
    /// # Errors
    /// The errors of [`Db::flush`]; [`EngineError::ReadOnly`] if a flush is needed.
    pub fn pin(&self) -> Result<PinnedStore, EngineError> {
        let store = self.store();
        let has_entries_in_memory = || {
            store.all_keyspaces().iter().any(|keyspace| {
                let view = keyspace.view();
                !view.active.mem.is_empty() || !view.immutables.is_empty()
            })
        };
        let state = match store.check_writable() {
            Err(EngineError::ReadOnly) if !has_entries_in_memory() => store.state(),
            writable => {
                writable?;
                let cut = flush::flush_to_cut(store)?;
                let state = store.state();
                drop(cut);
                state
            }
        };
        Ok(PinnedStore::of(state))
    }
}

impl PinnedStore {
    fn of(state: StoreState) -> PinnedStore {
        let mut tables = Vec::new();
        for (&keyspace, entry) in &state.keyspaces {
            let keyspace_name: Arc<str> = entry.record.name.as_str().into();
            let alone = entry.version.holders.alone().map(|slot| (HOLDER_LEVEL, slot));
            let places = entry.version.places().map(|(level, _, slot)| (level, slot));
            for (level, slot) in places.chain(alone) {
                let (slot, keyspace_name) = (Arc::clone(slot), Arc::clone(&keyspace_name));
                tables.push(PinnedTable { slot, keyspace, keyspace_name, level });
            }
        }
        PinnedStore { state, tables }
    }

    /// The one record from which a store with these tables opens: the only one of
    /// [`Files::app_records`].
    pub fn record(&self) -> Vec<u8> {
        snapshot_record(&self.state)
    }

    /// All tables.
    pub fn tables(&self) -> &[PinnedTable] {
        &self.tables
    }

    /// The length of all tables.
    pub fn len_bytes(&self) -> u64 {
        self.tables.iter().map(PinnedTable::len_bytes).sum()
    }

    /// Copies the store to `target`, in one commit (P2). The target is an empty file layer or holds
    /// a store without entries, which the copy replaces with all its files. That store is not open,
    /// and its logs hold no entry.
    ///
    /// Cost: reads and writes all tables once; memory for one table.
    ///
    /// # Errors
    /// [`EngineError::BackupTarget`]: the target holds tables or checkpoints.
    /// [`EngineError::Files`], [`EngineError::Stopped`].
    pub fn write_to(&self, target: &dyn Files, watch: &mut Watch<'_>) -> Result<(), EngineError> {
        let old = target.list("");
        let records = target.app_records();
        let mut state = self.state.clone();
        if !records.is_empty() {
            let replaced = decode_records(&records)?;
            let is_bare = replaced.checkpoints.is_empty()
                && replaced.keyspaces.values().all(|entry| entry.version.files().next().is_none());
            if !is_bare {
                return Err(EngineError::BackupTarget { file_count: old.len() });
            }
            let counters = &mut state.counters;
            counters.next_id = counters.next_id.max(replaced.counters.next_id);
        } else if !old.is_empty() {
            return Err(EngineError::BackupTarget { file_count: old.len() });
        }
        let remove = old.into_iter().map(|file| file.name).collect();
        let mut commit = Commit { remove, ..Commit::default() };
        let (mut done_bytes, total_bytes) = (0, self.len_bytes());
        for table in &self.tables {
            ask(watch, "a copy of a store", Progress { done_bytes, total_bytes })?;
            let what = format!("write table {} to the backup", table.id());
            let files = target.persist(vec![table.buffered()?]);
            commit.add.extend(files.map_err(EngineError::files(what))?);
            done_bytes += table.len_bytes();
        }
        ask(watch, "a copy of a store", Progress { done_bytes, total_bytes })?;
        commit.app = Some(AppRecord::Replace(snapshot_record(&state)));
        target.commit(commit).map_err(EngineError::files("commit the backup"))
    }
}

impl PinnedTable {
    /// The table's number.
    pub fn id(&self) -> u64 {
        self.slot.meta.id.0
    }

    /// The name of the file of table `id` in a store.
    pub fn file_name_of(id: u64) -> String {
        TableId(id).file_name()
    }

    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        self.slot.meta.len_bytes
    }

    /// Where its entries are, in words: the keyspace and the range of keys.
    pub fn place(&self) -> String {
        let meta = &self.slot.meta;
        let keys = keys_between(Some(&meta.smallest), &meta.largest);
        format!("table {} of keyspace {:?}, {keys}", meta.id, self.keyspace_name)
    }

    /// Reads `len_bytes` bytes at `offset`, with the buffer `scratch`.
    ///
    /// # Errors
    /// [`EngineError::Files`].
    pub fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], EngineError> {
        let file = self.slot.file().expect("a version's tables are attached when it is installed");
        let what = format!("read table {} at {offset}", self.slot.meta.id);
        file.read_at(offset, len_bytes, scratch).map_err(EngineError::files(what))
    }

    /// All of the table, as it will be written to another drive.
    pub(super) fn buffered(&self) -> Result<FileBuffer, EngineError> {
        let meta = &self.slot.meta;
        let hints = Hints {
            // Its file stayed where the log was.
            level: if self.level == HOLDER_LEVEL { 0 } else { self.level },
            group: Some(meta.group),
            stream: self.keyspace.0,
            expected_len_bytes: Some(meta.len_bytes),
            ..Hints::new(FileKind::Table)
        };
        let mut copy = FileBuffer::new(meta.id.file_name(), hints);
        let mut scratch = Vec::new();
        while copy.len_bytes() < meta.len_bytes {
            let at = copy.len_bytes();
            let len_bytes = (meta.len_bytes - at).min(FileBuffer::CHUNK_LEN_BYTES as u64);
            copy.append(self.read_at(at, len_bytes as usize, &mut scratch)?);
        }
        Ok(copy)
    }
}

impl std::fmt::Debug for PinnedTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.place())
    }
}

/// Reads the table in `file`, checks everything that can be checked, and returns its findings, one
/// sentence each; none if it is sound.
///
/// Cost: reads the file once.
///
/// # Errors
/// [`EngineError::Files`]: the file cannot be read, for another reason than damage.
pub fn verify_table(file: Arc<dyn FileReader>) -> Result<Vec<String>, EngineError> {
    let cache = Arc::new(BlockCache::new(0));
    let verified = Table::open_any(file, cache).and_then(|table| table.verify(&mut |_| Ok(())));
    match verified {
        Ok(report) => Ok(report.findings),
        Err(error) if error.is_damage() => Ok(vec![error.to_string()]),
        Err(error) => Err(error),
    }
}
