//! The durable state of the store: the result of all edits so far.

use super::edit::{
    CheckpointRecord, Counters, KeyspaceId, KeyspaceRecord, LogId, TableAdd, ValuesPlaced,
    VersionEdit,
};
use super::holders::{HOLDER_LEVEL, Holders};
use super::partitions::Partitions;
use super::{LEVEL_COUNT, RunId, TableId, TableSlot, Version};
use crate::totals::Totals;
use imbrex_files::invariants;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A keyspace and its version.
#[derive(Clone, Debug)]
pub(crate) struct KeyspaceEntry {
    pub(crate) record: KeyspaceRecord,
    pub(crate) log_floor: LogId,
    pub(crate) version: Arc<Version>,
}

/// The result of all edits so far. Cloning is cheap, because versions are shared until they change.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreState {
    pub(crate) counters: Counters,
    /// The totals of the lifetime, as of the last edit.
    pub(crate) totals: Totals,
    pub(crate) keyspaces: BTreeMap<KeyspaceId, KeyspaceEntry>,
    /// Encoded snapshots, by checkpoint name.
    pub(crate) checkpoints: BTreeMap<String, Arc<[u8]>>,
}

impl StoreState {
    /// Applies `edit`. After an error, the state may be half changed and must be discarded.
    ///
    /// # Errors
    /// The contradiction, as text. Only the caller knows where the edit came from.
    pub(crate) fn apply(&mut self, edit: &VersionEdit) -> Result<(), String> {
        if let Some(counters) = edit.counters {
            let old = self.counters;
            if counters.next_id < old.next_id || counters.next_keyspace_id < old.next_keyspace_id {
                return Err(format!("counters go back from {old:?} to {counters:?}"));
            }
            self.counters = Counters { last_seq: counters.last_seq.max(old.last_seq), ..counters };
        }
        self.totals.raise_to(&edit.totals);
        for record in &edit.keyspaces_created {
            self.create(record)?;
        }
        let mut moved = BTreeMap::new();
        for &(keyspace, id) in &edit.tables_removed {
            let slot = Arc::make_mut(&mut self.entry(keyspace)?.version)
                .remove(id)
                .ok_or_else(|| format!("table {id} is removed but was never added"))?;
            moved.insert(id, slot);
        }
        for add in &edit.tables_added {
            self.add(add, &mut moved)?;
        }
        self.apply_values(edit, &moved)?;
        for &(keyspace, floor) in &edit.log_floors {
            let entry = self.entry(keyspace)?;
            entry.log_floor = entry.log_floor.max(floor);
        }
        for (keyspace, cuts) in &edit.cuts {
            let version = Arc::make_mut(&mut self.entry(*keyspace)?.version);
            version.partitions.cuts.clone_from(cuts);
        }
        for (keyspace, merge) in &edit.base_merges {
            let version = Arc::make_mut(&mut self.entry(*keyspace)?.version);
            version.partitions.merge.clone_from(merge);
        }
        for id in &edit.keyspaces_dropped {
            self.keyspaces.remove(id).ok_or_else(|| format!("no keyspace {} to drop", id.0))?;
        }
        for CheckpointRecord { name, snapshot } in &edit.checkpoints_created {
            if self.checkpoints.insert(name.clone(), snapshot.as_slice().into()).is_some() {
                return Err(format!("checkpoint {name:?} is created twice"));
            }
        }
        for name in &edit.checkpoints_dropped {
            self.checkpoints.remove(name).ok_or_else(|| format!("no checkpoint {name:?}"))?;
        }
        if cfg!(test) || invariants::are_checked() {
            for entry in self.keyspaces.values() {
                entry.version.check()?;
            }
        }
        Ok(())
    }

    fn create(&mut self, record: &KeyspaceRecord) -> Result<(), String> {
        if record.id.0 >= self.counters.next_keyspace_id {
            return Err(format!("keyspace {} is beyond the counter", record.id.0));
        }
        if self.keyspaces.values().any(|k| k.record.name == record.name) {
            return Err(format!("two keyspaces are named {:?}", record.name));
        }
        let entry =
            KeyspaceEntry { record: record.clone(), log_floor: LogId(0), version: Arc::default() };
        match self.keyspaces.insert(record.id, entry) {
            None => Ok(()),
            Some(_) => Err(format!("keyspace {} is created twice", record.id.0)),
        }
    }

    fn add(
        &mut self,
        add: &TableAdd,
        moved: &mut BTreeMap<TableId, Arc<TableSlot>>,
    ) -> Result<(), String> {
        let id = add.meta.id;
        if usize::from(add.level) >= LEVEL_COUNT && add.level != HOLDER_LEVEL {
            return Err(format!("table {id} is added to level {}", add.level));
        }
        if id.0 >= self.counters.next_id {
            return Err(format!("table {id} is beyond the counter {}", self.counters.next_id));
        }
        let slot = match moved.remove(&id) {
            Some(slot) => slot.moved_to(&add.meta)?,
            None => TableSlot::new(add.meta.clone()),
        };
        let version = Arc::make_mut(&mut self.entry(add.keyspace)?.version);
        match add.level {
            HOLDER_LEVEL => Arc::make_mut(&mut version.holders).insert_alone(id, slot),
            level => version.insert(level, add.run, slot),
        }
        Ok(())
    }

    /// Applies what the edit says about values apart. `gone` are the removed tables that are in no level any more.
    fn apply_values(
        &mut self,
        edit: &VersionEdit,
        gone: &BTreeMap<TableId, Arc<TableSlot>>,
    ) -> Result<(), String> {
        for &ValuesPlaced { keyspace, origin, file, len_bytes } in &edit.values_placed {
            let version = Arc::make_mut(&mut self.entry(keyspace)?.version);
            let mut holders = std::mem::take(&mut version.holders);
            let in_level = || version.tables().find(|slot| slot.meta.id == file).cloned();
            let slot = || gone.get(&file).cloned().or_else(in_level);
            Arc::make_mut(&mut holders).place(origin, file, len_bytes, slot)?;
            version.holders = holders;
        }
        for &(keyspace, origin, file) in &edit.values_moved {
            self.holders(keyspace)?.move_to(origin, file)?;
        }
        for &(keyspace, origin, len_bytes) in &edit.values_released {
            self.holders(keyspace)?.release(origin, len_bytes)?;
        }
        let released = edit.values_released.iter().map(|&(keyspace, ..)| keyspace);
        let moved = edit.values_moved.iter().map(|&(keyspace, ..)| keyspace);
        let mut touched: BTreeSet<_> = released.chain(moved).collect();
        for (keyspace, id) in &edit.tables_removed {
            if gone.contains_key(id) && !self.entry(*keyspace)?.version.holders.is_empty() {
                self.holders(*keyspace)?.leave_level(*id);
                touched.insert(*keyspace);
            }
        }
        for keyspace in touched {
            self.holders(keyspace)?.sweep();
        }
        Ok(())
    }

    fn holders(&mut self, keyspace: KeyspaceId) -> Result<&mut Holders<TableSlot>, String> {
        let version = Arc::make_mut(&mut self.entry(keyspace)?.version);
        Ok(Arc::make_mut(&mut version.holders))
    }

    fn entry(&mut self, id: KeyspaceId) -> Result<&mut KeyspaceEntry, String> {
        self.keyspaces.get_mut(&id).ok_or_else(|| format!("no keyspace {}", id.0))
    }

    /// Whether any keyspace has a table.
    pub(crate) fn has_tables(&self) -> bool {
        self.keyspaces.values().any(|entry| entry.version.tables().next().is_some())
    }

    /// An edit that creates this state from the empty one.
    pub(crate) fn to_edit(&self) -> VersionEdit {
        let mut edit = VersionEdit {
            counters: Some(self.counters),
            totals: self.totals.clone(),
            ..VersionEdit::default()
        };
        for (&id, entry) in &self.keyspaces {
            edit.keyspaces_created.push(entry.record.clone());
            edit.log_floors.push((id, entry.log_floor));
            let Partitions { cuts, merge } = &entry.version.partitions;
            if !cuts.is_empty() {
                edit.cuts.push((id, cuts.clone()));
            }
            if merge.is_some() {
                edit.base_merges.push((id, merge.clone()));
            }
            let alone = entry.version.holders.alone().map(|slot| (HOLDER_LEVEL, RunId::ONLY, slot));
            for (level, run, slot) in entry.version.places().chain(alone) {
                let meta = slot.meta.clone();
                edit.tables_added.push(TableAdd { keyspace: id, level, run, meta });
            }
            let held = entry.version.holders.iter();
            edit.values_placed.extend(held.map(|(origin, held)| ValuesPlaced {
                keyspace: id,
                origin,
                file: held.file,
                len_bytes: held.live_bytes,
            }));
        }
        for (name, snapshot) in &self.checkpoints {
            let record = CheckpointRecord { name: name.clone(), snapshot: snapshot.to_vec() };
            edit.checkpoints_created.push(record);
        }
        edit
    }
}
