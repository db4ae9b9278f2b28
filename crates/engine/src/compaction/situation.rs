//! What a policy decides from, and the trait of all policies.

use crate::compaction::busy::Busy;
use crate::compaction::plan::{Plan, TableFacts, Windows, Work};
use crate::options::KeyspaceOptions;
use crate::version::{LEVEL_COUNT, RunId, TableMeta, TableSlot, Version};
use bytes::Bytes;
use std::fmt;

/// What the outputs of a compaction may take before its inputs are released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Those of any compaction.
    pub(crate) len_bytes: u64,
    /// Those of one that gives back more zones than it takes.
    pub(crate) gaining_len_bytes: u64,
    /// What a table takes at least where tables share no zone, else 0.
    pub(crate) grain_bytes: u64,
}

impl Room {
    /// For a compaction that gains space, or for any.
    pub(crate) fn of(&self, is_gaining: bool) -> u64 {
        if is_gaining { self.gaining_len_bytes } else { self.len_bytes }
    }

    /// Room without end.
    #[cfg(test)]
    pub(crate) const UNBOUNDED: Room =
        Room { len_bytes: u64::MAX, gaining_len_bytes: u64::MAX, grain_bytes: 0 };
}

/// What a policy looks at.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) version: &'a Version,
    pub(crate) options: &'a KeyspaceOptions,
    pub(crate) busy: &'a Busy,
    /// Per level, the largest key of the last victim: where the round goes on.
    pub(crate) cursors: &'a [Bytes; LEVEL_COUNT],
    /// The windows that the last plan was chosen by.
    pub(crate) windows: &'a Windows,
    pub(crate) facts: &'a dyn TableFacts,
    /// Space is short: deletes are to reach what they hide, whatever it costs.
    pub(crate) is_space_short: bool,
    /// The drive is idle: what is half due counts as due.
    pub(crate) is_eager: bool,
    /// What the outputs of a merge may take before its inputs are released.
    pub(crate) room: Room,
}

impl Situation<'_> {
    /// Whether the drive has room for the outputs beside the inputs.
    pub(crate) fn fits(&self, plan: &Plan) -> bool {
        let table_len_bytes = self.options.table_len_bytes;
        let cost_bytes = plan.cost_bytes(self.room.grain_bytes, table_len_bytes);
        plan.work == Work::Move || cost_bytes <= self.room.of(self.is_gaining(plan))
    }

    pub(crate) fn is_gaining(&self, plan: &Plan) -> bool {
        plan.is_gaining(self.room.grain_bytes, self.options.table_len_bytes, self.facts)
    }

    /// Whether a table has so many deletes that it should go down to what they hide; where space is
    /// short, any will do.
    pub(crate) fn is_mostly_deletes(&self, table: &TableMeta) -> bool {
        let hides_some = table.delete_count > 0 || table.range_tombstone_count > 0;
        let hides_much = table.range_tombstone_count > 0
            || table.delete_count.saturating_mul(2) >= table.entry_count;
        hides_some && (hides_much || self.is_space_short)
    }
}

/// How far compaction lags behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// It keeps up.
    None,
    /// Writes should go no faster than compaction.
    Slowdown,
    /// Writes should wait.
    Stop,
}

/// A compaction policy: pure, so that a test is a table of shapes and plans.
pub(crate) trait Policy: Send + Sync + fmt::Debug {
    /// The most urgent compaction that can run now; `None` when there is nothing to do.
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan>;

    /// The next step towards having all of `range` in one run: a compaction of `level` into the
    /// next, of tables that begin at `from` or behind it.
    fn plan_manual(
        &self,
        situation: &Situation<'_>,
        level: u8,
        range: &ManualRange,
        from: Option<&[u8]>,
    ) -> ManualPlan;

    /// How far it lags behind.
    fn pressure(&self, version: &Version, options: &KeyspaceOptions) -> Pressure;
}

/// The range of a manual compaction; `None` is without end.
#[derive(Clone, Debug)]
pub(crate) struct ManualRange {
    pub(crate) start: Option<Bytes>,
    /// Excluded.
    pub(crate) end: Option<Bytes>,
    /// Runs of level 0 that are newer came after the wish.
    pub(crate) run_max: RunId,
}

impl ManualRange {
    pub(crate) fn overlaps(&self, table: &TableSlot) -> bool {
        self.start.as_ref().is_none_or(|start| !table.meta.ends_before(start))
            && self.end.as_ref().is_none_or(|end| table.meta.smallest < *end)
    }
}

/// What a manual compaction does next.
#[derive(Debug)]
pub(crate) enum ManualPlan {
    /// This.
    Run(Box<Plan>),
    /// Wait for a running compaction that is in the way.
    Wait,
    /// Nothing more in this level.
    LevelDone,
}
