//! The table of a keyspace that gets have missed too often (`policy::as_leveldb`).
//!
//! A get that looks in a second table has missed the first. Tables count their misses in memory, so
//! they begin anew when the store is opened.

use crate::compaction::policy::as_leveldb::miss_count_max;
use crate::version::{TableId, TableSlot, Version};
use parking_lot::Mutex;
use std::sync::Arc;

/// At most one table at a time, with its level.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    table: Mutex<Option<(u8, TableId)>>,
}

impl Missed {
    /// The table, with the level in which it was. It may be gone since.
    pub(crate) fn table(&self) -> Option<(u8, TableId)> {
        *self.table.lock()
    }

    /// Counts a miss of `slot` in `level`. Returns whether the table is now the one to go down.
    pub(crate) fn count(&self, version: &Version, level: u8, slot: &TableSlot) -> bool {
        if slot.note_miss() < miss_count_max(&slot.meta) {
            return false;
        }
        let mut table = self.table.lock();
        let is_there = |(level, id): (u8, TableId)| {
            let mut tables = version.levels[usize::from(level)].tables();
            tables.any(|slot: &Arc<TableSlot>| slot.meta.id == id)
        };
        if table.is_some_and(is_there) {
            return false;
        }
        *table = Some((level, slot.meta.id));
        // It begins anew in the level that it comes to, if it only moves.
        slot.forget_misses();
        true
    }
}
