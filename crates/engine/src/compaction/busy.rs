//! Bookkeeping of compactions: which ones run, and which tables no plan may use.

use crate::batch::KeyspaceId;
use crate::compaction::plan::{Plan, Windows};
use crate::version::edit::LogId;
use crate::version::rested::Rested;
use crate::version::{KeyRange, LEVEL_COUNT, TableId, TableSlot};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// What running plans occupy (P2), and the tables that every plan must avoid (P5).
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy {
    tables: BTreeSet<TableId>,
    pub(crate) outputs: Vec<(u8, KeyRange)>,
    /// Where a running flush writes to below level 0. No plan writes to the range there meanwhile.
    pub(crate) flush: Option<(u8, KeyRange)>,
    /// The running plans, by their first table, for the metrics.
    running: BTreeMap<TableId, RunningPlan>,
    /// For each table set aside: the error that it failed with, and what the operator can do.
    pub(crate) set_aside: BTreeMap<TableId, String>,
}

/// A running plan, and how far it is.
#[derive(Clone, Debug)]
pub(crate) struct RunningPlan {
    pub(crate) words: String,
    pub(crate) len_bytes: u64,
    pub(crate) done_len_bytes: u64,
}

impl Busy {
    /// Records that `plan` is running.
    pub(crate) fn start(&mut self, plan: &Plan) {
        if let Some(first) = plan.tables().next() {
            let running = RunningPlan {
                words: plan.to_string(),
                len_bytes: plan.len_bytes(),
                done_len_bytes: 0,
            };
            self.running.insert(first.meta.id, running);
        }
        for table in plan.tables() {
            let is_new = self.tables.insert(table.meta.id);
            assert!(is_new, "P2: table {} is an input of two plans", table.meta.id);
        }
        for output in &plan.outputs {
            self.outputs.push((output.level, plan.range.clone()));
        }
    }

    /// Records that `plan` has ended.
    pub(crate) fn finish(&mut self, plan: &Plan) {
        for table in plan.tables() {
            self.running.remove(&table.meta.id);
            self.tables.remove(&table.meta.id);
        }
        for output in &plan.outputs {
            let mut held = self.outputs.iter();
            if let Some(at) = held.position(|(l, r)| *l == output.level && *r == plan.range) {
                self.outputs.remove(at);
            }
        }
    }

    /// Records that `plan` has merged `entry_count` of its entries.
    pub(crate) fn note_progress(&mut self, plan: &Plan, entry_count: u64) {
        let first = plan.tables().next().map(|table| table.meta.id);
        if let Some(running) = first.and_then(|first| self.running.get_mut(&first)) {
            running.done_len_bytes = plan.share_len_bytes(entry_count);
        }
    }

    /// The running plans.
    pub(crate) fn running(&self) -> impl Iterator<Item = &RunningPlan> {
        self.running.values()
    }

    /// Whether no plan is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.outputs.is_empty()
    }

    /// Why planning can be blocked although nothing runs: the reason of the first table set aside,
    /// if there is one.
    pub(crate) fn blocked_by(&self) -> Option<&str> {
        self.set_aside.values().next().map(String::as_str)
    }

    pub(crate) fn has_table(&self, table: &TableSlot) -> bool {
        self.tables.contains(&table.meta.id) || self.is_set_aside(table)
    }

    pub(crate) fn is_set_aside(&self, table: &TableSlot) -> bool {
        self.set_aside.contains_key(&table.meta.id)
    }

    /// Whether a running plan writes to `level`. No flush writes to the levels that callers ask for.
    pub(crate) fn writes_level(&self, level: u8) -> bool {
        self.outputs.iter().any(|(l, _)| *l == level)
    }

    /// Whether a running plan or flush writes to `range` of `level`.
    pub(crate) fn writes_to(&self, level: u8, range: &KeyRange) -> bool {
        let held = self.outputs.iter().chain(&self.flush);
        held.into_iter().any(|(l, r)| *l == level && r.overlaps(range))
    }
}

/// The running compactions of all keyspaces.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    pub(crate) keyspaces: BTreeMap<KeyspaceId, KeyspacePlans>,
    /// The keyspace whose memtable is being flushed.
    pub(crate) flushing: Option<KeyspaceId>,
    /// The keyspace of which files with values are being cleaned.
    pub(crate) cleaning: Option<KeyspaceId>,
    /// Files with values that are damaged: they are not cleaned.
    pub(crate) unclean: BTreeSet<TableId>,
    /// Files with values that cleaning wrote.
    pub(crate) rested: Rested,
    /// For each cut of the store, the first log after it. A memtable that begins with that log or a
    /// later one is not flushed.
    pub(crate) cuts: Vec<LogId>,
    /// For each table, how often compactions failed to read it.
    pub(crate) read_failures: BTreeMap<TableId, u32>,
    /// Why puts and deletes are refused, if tables set aside are the cause.
    pub(crate) refusal: Option<String>,
    /// The number of compactions that have ended, successfully or not.
    pub(crate) ended_count: u64,
}

/// The running compactions of one keyspace, and where each level continues its round-robin.
#[derive(Debug, Default)]
pub(crate) struct KeyspacePlans {
    pub(crate) busy: Busy,
    pub(crate) cursors: [Bytes; LEVEL_COUNT],
    pub(crate) windows: Windows,
}

/// How often compactions try to read a table before it is set aside.
const READ_TRY_COUNT_MAX: u32 = 3;
/// With more unreadable tables than this, the drive itself is failing, and whatever is written to
/// it may be lost in the same way.
const SET_ASIDE_COUNT_MAX: usize = 8;

impl Plans {
    /// Counts a failed read of `table` and returns whether a compaction may try again.
    pub(crate) fn may_read_again(&mut self, table: TableId) -> bool {
        let count = self.read_failures.entry(table).or_default();
        *count += 1;
        *count < READ_TRY_COUNT_MAX
    }

    /// Sets a table of `keyspace` aside (P5).
    pub(crate) fn set_aside(&mut self, keyspace: KeyspaceId, table: TableId, why: String) {
        self.keyspaces.entry(keyspace).or_default().busy.set_aside.insert(table, why);
    }

    /// Whether more tables are set aside than a healthy drive explains.
    pub(crate) fn is_drive_failing(&self) -> bool {
        self.set_aside_reasons().count() > SET_ASIDE_COUNT_MAX
    }

    /// For each table set aside, in any keyspace: its error, and what the operator can do.
    pub(crate) fn set_aside_reasons(&self) -> impl Iterator<Item = &String> {
        self.keyspaces.values().flat_map(|plans| plans.busy.set_aside.values())
    }

    /// Whether keyspace `id` has no running compaction and no running flush. Other keyspaces may
    /// have both.
    pub(crate) fn is_idle_for(&self, id: KeyspaceId) -> bool {
        let is_compacting = self.keyspaces.get(&id).is_some_and(|plans| !plans.busy.is_idle());
        self.flushing != Some(id) && self.cleaning != Some(id) && !is_compacting
    }

    /// Whether no keyspace has a running compaction or flush.
    pub(crate) fn is_idle(&self) -> bool {
        self.flushing.is_none() && self.cleaning.is_none() && !self.is_compacting()
    }

    /// Whether any keyspace has a running compaction.
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
