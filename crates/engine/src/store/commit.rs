//! The one way to change a store: a commit of the file layer, then the state in memory (S1).

use super::Store;
use crate::EngineError;
use crate::batch::KeyspaceId;
use crate::key::Seq;
use crate::store::keyspace::KeyspaceState;
use crate::store::view::MemSlot;
use crate::table::WrittenEnd;
use crate::version::TableId;
use crate::version::edit::{Counters, LogId, VersionEdit};
use crate::version::holders::HOLDER_LEVEL;
use crate::version::state::StoreState;
use imbrex_files::{Commit, CommitKind, Persisted};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A change of the store: an edit, and the changes to files that belong to it.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) edit: VersionEdit,
    pub(crate) add: Vec<Box<dyn Persisted>>,
    /// The ends of added tables, so that opening them reads nothing.
    pub(crate) ends: BTreeMap<TableId, WrittenEnd>,
    pub(crate) remove: Vec<String>,
    pub(crate) link: Vec<(String, String)>,
    pub(crate) level: Vec<(String, u8)>,
    /// Logs that become tables.
    pub(crate) bands: Vec<(LogId, TableId)>,
    /// Memtables whose content is in tables with this change.
    pub(crate) flushed: Vec<(KeyspaceId, Arc<MemSlot>)>,
    /// The last write that the removed logs can hold.
    pub(crate) last_seq: Seq,
    /// Keyspaces whose memtables begin with this change.
    pub(crate) created: Vec<Arc<KeyspaceState>>,
    /// How far the commit may fill the catalog.
    pub(crate) kind: CommitKind,
    /// Whether it is that of a close, which records the totals that other commits leave out.
    pub(crate) is_close: bool,
}

impl Store {
    /// Makes `change` durable, then visible (S1).
    ///
    /// # Errors
    /// [`EngineError::Files`]. Without space nothing has changed; any other failure poisons the
    /// store (S3).
    pub(crate) fn commit(&self, change: Change) -> Result<(), EngineError> {
        self.commit_with(|_| Ok(change))
    }

    /// Like [`Store::commit`], with a change that depends on the current state.
    ///
    /// # Errors
    /// The errors of [`Store::commit`]; the errors of `plan`, and then nothing has changed.
    pub(crate) fn commit_with(
        &self,
        plan: impl FnOnce(&StoreState) -> Result<Change, EngineError>,
    ) -> Result<(), EngineError> {
        self.check_poison()?;
        let mut versions = self.versions.lock();
        // Checked under the lock: a close waits for it (S5), and the store may have been poisoned
        // while this call waited (S3).
        self.check_going()?;
        let mut change = plan(&versions.state)?;
        let mut edit = change.edit;
        let mut remove = change.remove;
        let (first_kept, last_seq) = self.release_logs(&change.flushed, &edit, &mut remove);
        edit.counters = Some(Counters {
            next_id: self.next_id.load(Ordering::Relaxed),
            next_keyspace_id: next_keyspace_id(&versions.state, &edit),
            last_seq: last_seq.max(change.last_seq).0.max(versions.state.counters.last_seq),
        });
        edit.totals = self.totals_of_lifetime().changed_from(&versions.state.totals);
        if !change.is_close {
            edit.totals.leave_out_times();
        }
        let mut state = versions.state.clone();
        if let Err(reason) = state.apply(&edit) {
            return Err(self.poison(&format!("an edit does not fit the state: {reason}")));
        }
        keep_holders(&versions.state, &state, &edit, &mut remove);
        let (record, lens) =
            versions.record(&edit, &state, &self.files.space().catalog, change.kind);
        let (mut rename, mut link) = (Vec::new(), change.link);
        for (log, table) in change.bands {
            let names = (log.file_name(), table.file_name());
            // A replay needs the logs without gaps, even a log whose writes are all in tables.
            let is_needed = !remove.contains(&names.0);
            remove.retain(|name| *name != names.0);
            if is_needed { &mut link } else { &mut rename }.push(names);
        }
        let commit = Commit {
            remove,
            rename,
            link,
            add: change.add,
            level: change.level,
            app: Some(record),
            kind: change.kind,
        };
        self.files.commit(commit).map_err(|source| self.files_failed("commit", source))?;
        self.attach_added(&state, &edit, &mut change.ends)?;
        self.has_checkpoint.store(!state.checkpoints.is_empty(), Ordering::Release);
        versions.state = state;
        versions.lens = lens;
        self.history.note_commit();
        self.has_committed.store(true, Ordering::Release);
        let was_blocked = self.blocked_write_at.lock().take().is_some();
        let mut logs = self.logs.lock();
        logs.retain(|log| log.id >= first_kept);
        if logs.is_empty() {
            self.are_logs_kept.store(false, Ordering::Release);
        }
        drop(logs);
        self.room_max_bytes.store(u64::MAX, Ordering::Release);
        self.install(&versions.state, &edit, &change.flushed, change.created);
        drop(versions);
        self.refresh_gate();
        if was_blocked {
            self.runtime.scheduler.notify();
        }
        Ok(())
    }

    /// Opens the files of added tables.
    fn attach_added(
        &self,
        state: &StoreState,
        edit: &VersionEdit,
        ends: &mut BTreeMap<TableId, WrittenEnd>,
    ) -> Result<(), EngineError> {
        for add in &edit.tables_added {
            let version = &state.keyspaces[&add.keyspace].version;
            let tables = version.levels.get(usize::from(add.level)).map(|level| level.tables());
            let alone = (add.level == HOLDER_LEVEL).then(|| version.holders.alone());
            let tables = tables.into_iter().flatten().chain(alone.into_iter().flatten());
            for slot in tables.filter(|slot| slot.meta.id == add.meta.id) {
                let attached = slot.attach(&*self.files, &add.meta.id.file_name());
                attached.map_err(|error| self.poison(&error.to_string()))?;
                if let Some(end) = ends.remove(&add.meta.id) {
                    slot.open_written(end, &self.cache);
                }
            }
        }
        Ok(())
    }

    /// Installs in memory what the edit changed.
    fn install(
        &self,
        state: &StoreState,
        edit: &VersionEdit,
        flushed: &[(KeyspaceId, Arc<MemSlot>)],
        created: Vec<Arc<KeyspaceState>>,
    ) {
        let mut keyspaces = self.keyspaces.write();
        for keyspace in created {
            keyspaces.insert(keyspace.id, keyspace);
        }
        for id in &edit.keyspaces_dropped {
            if let Some(keyspace) = keyspaces.remove(id) {
                keyspace.drop_data();
            }
        }
        for (id, entry) in &state.keyspaces {
            let keyspace = &keyspaces[id];
            let flushed = flushed.iter().filter(|(of, _)| of == id).map(|(_, slot)| slot);
            keyspace.install(&entry.version, flushed.collect());
        }
    }

    /// Adds the logs that are not needed once `flushed` are in tables to `remove`. Returns the
    /// first log that stays, and the last write in the released logs.
    fn release_logs(
        &self,
        flushed: &[(KeyspaceId, Arc<MemSlot>)],
        edit: &VersionEdit,
        remove: &mut Vec<String>,
    ) -> (LogId, Seq) {
        // Read the newest log first: later writes go to this log or a newer one.
        let Some(newest) = self.newest_log() else { return (LogId(0), Seq(0)) };
        let is_flushed =
            |slot: &Arc<MemSlot>| flushed.iter().any(|(_, other)| Arc::ptr_eq(slot, other));
        // The newest log is being written, unless it has ended.
        let is_open = newest.end_seq.is_none();
        let mut needed = if is_open { newest.id } else { LogId(newest.id.0 + 1) };
        for keyspace in self.keyspaces.read().values() {
            if edit.keyspaces_dropped.contains(&keyspace.id) {
                continue;
            }
            let view = keyspace.view();
            let slots = view.immutables.iter().chain([&view.active]);
            let oldest = slots.filter(|slot| !is_flushed(slot)).filter_map(|s| s.first_log()).min();
            needed = needed.min(oldest.unwrap_or(needed));
        }
        let logs = self.logs.lock();
        remove.extend(logs.iter().filter(|log| log.id < needed).map(|log| log.id.file_name()));
        let first_kept = logs.iter().find(|log| log.id >= needed);
        // By log number, not by sequence number: an empty log begins with the same write as its
        // successor.
        let all = newest.end_seq.map_or(Seq(0), |end| Seq(end.0 - 1));
        (needed, first_kept.map_or(all, |log| Seq(log.first_seq.0 - 1)))
    }
}

/// Keeps the files that hold values after `edit` (H2) out of `remove`, and adds those that hold none any more.
fn keep_holders(
    before: &StoreState,
    after: &StoreState,
    edit: &VersionEdit,
    remove: &mut Vec<String>,
) {
    let is_alone = |state: &StoreState, keyspace, file| {
        let entry = state.keyspaces.get(&keyspace);
        entry.is_some_and(|entry| entry.version.holders.is_alone(file))
    };
    for &(keyspace, file) in &edit.tables_removed {
        if is_alone(after, keyspace, file) {
            remove.retain(|name| *name != file.file_name());
        }
    }
    let released = edit.values_released.iter().map(|&(keyspace, origin, _)| (keyspace, origin));
    let moved = edit.values_moved.iter().map(|&(keyspace, origin, _)| (keyspace, origin));
    for (keyspace, origin) in released.chain(moved) {
        let entry = before.keyspaces.get(&keyspace);
        let held = entry.and_then(|entry| entry.version.holders.get(origin));
        let Some(file) = held.map(|held| held.file) else { continue };
        let is_gone = is_alone(before, keyspace, file) && !is_alone(after, keyspace, file);
        if is_gone && !remove.contains(&file.file_name()) {
            remove.push(file.file_name());
        }
    }
}

/// The number of the next keyspace after `edit`.
fn next_keyspace_id(state: &StoreState, edit: &VersionEdit) -> u32 {
    let created = edit.keyspaces_created.iter().map(|record| record.id.0 + 1);
    created.fold(state.counters.next_keyspace_id, u32::max)
}
