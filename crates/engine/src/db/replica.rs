//! A replica: another drive that holds an earlier moment of the same store, brought up to this one.
//!
//! ```text
//!   drive    12  13  15  18  19          replica, before    12  13  14  16
//!                                        + 15 18 19, - 14 16, the record: one commit
//! ```
//!
//! Invariants
//!   Q1  A drive that another store has written to is refused. Each table of the drive must come from
//!       a store that wrote one of this store's tables, and not from the drive's own store.
//!   Q2  A table of the replica is kept if its number, its metadata and its ends are those of the table here.
//!   Q3  What is written is read back and verified before the commit: a damaged table ends the update.
//!   Q4  One commit changes the replica (P2): interrupted before, it is the earlier moment.

use crate::EngineError;
use crate::db::Db;
use crate::db::pin::{PinnedStore, PinnedTable, snapshot_record, verify_table};
use crate::open::recover::decode_records;
use crate::table::cache::BlockCache;
use crate::version::TableSlot;
use crate::version::holders::HOLDER_LEVEL;
use crate::watch::{Progress, Watch, ask};
use imbrex_files::{AppRecord, Commit, Files, Persisted};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How much of each end of a table is compared.
const END_LEN_BYTES: u64 = 64 << 10;

/// What an update of a replica wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaReport {
    /// The tables that were written.
    pub written_table_count: u64,
    /// Their length.
    pub written_bytes: u64,
}

impl PinnedStore {
    /// Whether `target`, an open store, holds nothing but an earlier moment of this one, or nothing (Q1). `store_id` is the
    /// id of this store's drive, `target_id` that of the other.
    ///
    /// Cost: a read or two for each table of both.
    ///
    /// # Errors
    /// [`EngineError::Files`], [`EngineError::Corrupt`].
    pub fn may_replace(
        &self,
        store_id: u64,
        target: &Db,
        target_id: u64,
    ) -> Result<bool, EngineError> {
        let state = target.store().state();
        if !state.checkpoints.is_empty() {
            return Ok(false);
        }
        let cache = Arc::new(BlockCache::new(0));
        let mut writers = BTreeSet::from([store_id]);
        for table in self.tables() {
            writers.extend(table.slot.open(&cache)?.store_id()?);
        }
        for slot in state.keyspaces.values().flat_map(|entry| entry.version.files()) {
            let writer = slot.open(&cache)?.store_id()?;
            let is_known = writer.is_some_and(|id| id != target_id && writers.contains(&id));
            if !is_known {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes `target` a copy of this store in one commit, with the tables that it has. Its store is closed, its logs hold no
    /// entry, and [`PinnedStore::may_replace`] has agreed.
    ///
    /// Cost: reads the ends of the tables that both have; reads and writes the others once; memory for one table.
    ///
    /// # Errors
    /// [`EngineError::Files`], [`EngineError::Corrupt`], [`EngineError::Stopped`].
    pub fn update(
        &self,
        target: &dyn Files,
        watch: &mut Watch<'_>,
    ) -> Result<ReplicaReport, EngineError> {
        let replaced = decode_records(&target.app_records())?;
        let mut held: BTreeMap<u64, (u8, &Arc<TableSlot>)> = BTreeMap::new();
        for entry in replaced.keyspaces.values() {
            let places = entry.version.places();
            held.extend(places.map(|(level, _, slot)| (slot.meta.id.0, (level, slot))));
            let alone = entry.version.holders.alone();
            held.extend(alone.map(|slot| (slot.meta.id.0, (HOLDER_LEVEL, slot))));
        }
        let mut remove: BTreeSet<String> =
            target.list("").into_iter().map(|file| file.name).collect();
        let (mut commit, mut missing) = (Commit::default(), Vec::new());
        for table in self.tables() {
            let name = table.slot.meta.id.file_name();
            let same = held.get(&table.id()).filter(|(_, slot)| slot.meta == table.slot.meta);
            match same {
                Some((level, _)) if has_same_ends(table, target)? => {
                    remove.remove(&name);
                    if *level != table.level {
                        commit.level.push((name, table.level));
                    }
                }
                _ => missing.push(table),
            }
        }
        let mut report = ReplicaReport::default();
        let total_bytes = missing.iter().map(|table| table.len_bytes()).sum();
        for table in missing {
            let done_bytes = report.written_bytes;
            ask(watch, "a copy of a store", Progress { done_bytes, total_bytes })?;
            let files = target.persist(vec![table.buffered()?]);
            let what = format!("write table {} to the backup", table.id());
            let files = files.map_err(EngineError::files(what))?;
            for file in &files {
                verify(table, target, &**file)?;
            }
            commit.add.extend(files);
            report.written_table_count += 1;
            report.written_bytes += table.len_bytes();
        }
        ask(watch, "a copy of a store", Progress { done_bytes: total_bytes, total_bytes })?;
        let mut state = self.state.clone();
        // P3
        let counters = &mut state.counters;
        counters.next_id = counters.next_id.max(replaced.counters.next_id);
        commit.remove = remove.into_iter().collect();
        commit.app = Some(AppRecord::Replace(snapshot_record(&state)));
        target.commit(commit).map_err(EngineError::files("commit the backup"))?;
        Ok(report)
    }
}

/// Verifies a table that was written (Q3).
fn verify(
    table: &PinnedTable,
    target: &dyn Files,
    written: &dyn Persisted,
) -> Result<(), EngineError> {
    let what = format!("read table {} of the backup", table.id());
    let file = target.open_persisted(written).map_err(EngineError::files(what))?;
    match verify_table(file)?.into_iter().next() {
        None => Ok(()),
        Some(finding) => Err(EngineError::Corrupt {
            structure: "table",
            file: format!("{}, or on the other drive", table.place()),
            offset: 0,
            reason: finding,
        }),
    }
}

/// Whether the file of `table` in `target` begins and ends like the table.
fn has_same_ends(table: &PinnedTable, target: &dyn Files) -> Result<bool, EngineError> {
    let name = table.slot.meta.id.file_name();
    let failed = || EngineError::files(format!("read {name} of the backup"));
    let file = target.open(&name).map_err(failed())?;
    let end_len_bytes = table.len_bytes().min(END_LEN_BYTES);
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for at in [0, table.len_bytes() - end_len_bytes] {
        let ours = table.read_at(at, end_len_bytes as usize, &mut here)?;
        match file.read_at(at, end_len_bytes as usize, &mut there) {
            Ok(theirs) if theirs == ours => {}
            Err(error) if !error.is_damage() => return Err(failed()(error)),
            _ => return Ok(false),
        }
    }
    Ok(true)
}
