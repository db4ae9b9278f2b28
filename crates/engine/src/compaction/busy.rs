//! Which compactions run, and which tables no plan may take.

use crate::batch::KeyspaceId;
use crate::compaction::plan::{Plan, Windows};
use crate::version::edit::LogId;
use crate::version::{KeyRange, LEVEL_COUNT, TableId, TableSlot};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// What running plans hold (P2), and what no plan may (P5).
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy {
    tables: BTreeSet<TableId>,
    pub(crate) outputs: Vec<(u8, KeyRange)>,
    /// What each table that was set aside failed with, and what to do.
    pub(crate) set_aside: BTreeMap<TableId, String>,
}

impl Busy {
    /// Notes that `plan` runs.
    pub(crate) fn start(&mut self, plan: &Plan) {
        for table in plan.tables() {
            let is_new = self.tables.insert(table.meta.id);
            assert!(is_new, "P2: table {} is an input of two plans", table.meta.id);
        }
        for output in &plan.outputs {
            self.outputs.push((output.level, plan.range.clone()));
        }
    }

    /// Notes that `plan` runs no more.
    pub(crate) fn finish(&mut self, plan: &Plan) {
        for table in plan.tables() {
            self.tables.remove(&table.meta.id);
        }
        for output in &plan.outputs {
            let mut held = self.outputs.iter();
            if let Some(at) = held.position(|(l, r)| *l == output.level && *r == plan.range) {
                self.outputs.remove(at);
            }
        }
    }

    /// Whether nothing runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.outputs.is_empty()
    }

    /// What plans are blocked by though nothing runs: the first table that was set aside, if one was.
    pub(crate) fn blocked_by(&self) -> Option<&str> {
        self.set_aside.values().next().map(String::as_str)
    }

    pub(crate) fn has_table(&self, table: &TableSlot) -> bool {
        self.tables.contains(&table.meta.id) || self.is_set_aside(table)
    }

    pub(crate) fn is_set_aside(&self, table: &TableSlot) -> bool {
        self.set_aside.contains_key(&table.meta.id)
    }

    pub(crate) fn writes_to(&self, level: u8, range: &KeyRange) -> bool {
        self.outputs.iter().any(|(l, r)| *l == level && r.overlaps(range))
    }
}

/// Which compactions run, of every keyspace.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    pub(crate) keyspaces: BTreeMap<KeyspaceId, KeyspacePlans>,
    /// Whose memtable is being flushed.
    pub(crate) flushing: Option<KeyspaceId>,
    /// The logs that cuts of the store end before: no memtable that begins there is flushed.
    pub(crate) cuts: Vec<LogId>,
    /// How often compactions failed to read a table.
    pub(crate) read_failures: BTreeMap<TableId, u32>,
    /// Why puts and deletes are refused, where they are because of tables that were set aside.
    pub(crate) refusal: Option<String>,
    /// How many compactions have ended, well or not.
    pub(crate) ended_count: u64,
}

/// Which compactions of a keyspace run, and where its rounds go on.
#[derive(Debug, Default)]
pub(crate) struct KeyspacePlans {
    pub(crate) busy: Busy,
    pub(crate) cursors: [Bytes; LEVEL_COUNT],
    pub(crate) windows: Windows,
}

/// How often compactions try to read a table.
const READ_TRY_COUNT_MAX: u32 = 3;
/// A drive on which more tables cannot be read is failing: what is written there may be lost like them.
const SET_ASIDE_COUNT_MAX: usize = 8;

impl Plans {
    /// Notes that a compaction failed to read `table`; whether it may be tried again.
    pub(crate) fn may_read_again(&mut self, table: TableId) -> bool {
        let count = self.read_failures.entry(table).or_default();
        *count += 1;
        *count < READ_TRY_COUNT_MAX
    }

    /// Sets a table of `keyspace` aside (P5).
    pub(crate) fn set_aside(&mut self, keyspace: KeyspaceId, table: TableId, why: String) {
        self.keyspaces.entry(keyspace).or_default().busy.set_aside.insert(table, why);
    }

    /// Whether so many tables were set aside that the drive must be failing.
    pub(crate) fn is_drive_failing(&self) -> bool {
        self.set_aside_reasons().count() > SET_ASIDE_COUNT_MAX
    }

    /// What the tables that were set aside failed with, and what to do.
    pub(crate) fn set_aside_reasons(&self) -> impl Iterator<Item = &String> {
        self.keyspaces.values().flat_map(|plans| plans.busy.set_aside.values())
    }

    /// Whether no compaction and no flush of keyspace `id` runs; those of others may.
    pub(crate) fn is_idle_for(&self, id: KeyspaceId) -> bool {
        let is_compacting = self.keyspaces.get(&id).is_some_and(|plans| !plans.busy.is_idle());
        self.flushing != Some(id) && !is_compacting
    }

    /// Whether no compaction and no flush runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.flushing.is_none() && !self.is_compacting()
    }

    /// Whether any compaction runs.
    pub(crate) fn is_compacting(&self) -> bool {
        self.keyspaces.values().any(|plans| !plans.busy.is_idle())
    }
}

impl KeyspacePlans {
    pub(crate) fn start(&mut self, plan: &Plan) {
        self.busy.start(plan);
        if let Some(windows) = &plan.windows {
            self.windows = (**windows).clone();
        }
        let Some(input) = plan.inputs.first() else { return };
        if let Some(range) = KeyRange::of(input.tables.iter().map(|slot| &slot.meta)) {
            self.cursors[usize::from(input.level)] = range.largest;
        }
    }
}
