//! The facts that a policy decides from, and the trait of all policies.

use crate::compaction::busy::Busy;
use crate::compaction::plan::{GivesBack, Plan, TableFacts, Windows, Work};
use crate::options::{CompactionKind, KeyspaceOptions};
use crate::version::{LEVEL_COUNT, RunId, TableId, TableMeta, TableSlot, Version};
use bytes::Bytes;
use std::fmt;

/// The space that a compaction's outputs may use before its inputs are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// For any compaction.
    pub(crate) len_bytes: u64,
    /// For a compaction that frees more zones than it takes.
    pub(crate) gaining_len_bytes: u64,
    /// For one with deletes. It may take more than others: the room of these fills with further data.
    pub(crate) hiding_len_bytes: u64,
    /// The smallest space of a table if tables share no zone; otherwise 0.
    pub(crate) grain_bytes: u64,
}

impl Room {
    /// The room for a compaction that gives back so much.
    pub(crate) fn of(&self, gives_back: GivesBack) -> u64 {
        match gives_back {
            GivesBack::Zones => self.gaining_len_bytes,
            GivesBack::Hidden => self.hiding_len_bytes,
            GivesBack::Unknown => self.len_bytes,
        }
    }

    /// Unlimited room, of which a table takes at least `grain_bytes`.
    pub(crate) const fn unbounded(grain_bytes: u64) -> Room {
        Room {
            len_bytes: u64::MAX,
            gaining_len_bytes: u64::MAX,
            hiding_len_bytes: u64::MAX,
            grain_bytes,
        }
    }
}

/// The facts that a policy decides from.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) version: &'a Version,
    pub(crate) options: &'a KeyspaceOptions,
    pub(crate) busy: &'a Busy,
    /// For each level, the largest key of the last victim: the round-robin continues after it.
    pub(crate) cursors: &'a [Bytes; LEVEL_COUNT],
    /// The windows of the last plan.
    pub(crate) windows: &'a Windows,
    pub(crate) facts: &'a dyn TableFacts,
    /// A table that gets have missed too often, and its level.
    pub(crate) missed: Option<(u8, TableId)>,
    /// Space is short: what frees most for each byte moved goes first, and deletes must reach the
    /// data they hide, whatever that costs.
    pub(crate) is_space_short: bool,
    /// The drive is idle: level 0 is due at one run, the others at half their limit.
    pub(crate) is_eager: bool,
    /// The space that the outputs of a merge may use before its inputs are released.
    pub(crate) room: Room,
    /// How much more may be written before puts are refused, without any cleaning.
    pub(crate) slack_bytes: u64,
    /// How much the flash drive holds beyond what it should before slices go to the disk.
    pub(crate) flash_excess_bytes: u64,
}

impl Situation<'_> {
    /// Whether the drive has room for the outputs while the inputs still exist, and for what they add for
    /// good. The room that merges need never goes to data from flash: no merge could bring it back.
    pub(crate) fn fits(&self, plan: &Plan) -> bool {
        let table_len_bytes = self.options.table_len_bytes;
        let cost_bytes = plan.cost_bytes(self.room.grain_bytes, table_len_bytes);
        let has_room = cost_bytes <= self.room_for(plan);
        plan.work == Work::Move || has_room && self.has_slack_for(plan)
    }

    /// The room for the outputs of a plan.
    pub(crate) fn room_for(&self, plan: &Plan) -> u64 {
        let table_len_bytes = self.options.table_len_bytes;
        self.room.of(plan.gives_back(self.room.grain_bytes, table_len_bytes, self.facts))
    }

    /// Whether what the plan may add for good is no more than may still be written, or half of the room that
    /// merges have left: mostly nothing is added, and one piece more shows it. Only lazy leveling plans by
    /// slack.
    fn has_slack_for(&self, plan: &Plan) -> bool {
        let is_lazy = self.options.compaction == CompactionKind::Lazy;
        !is_lazy || plan.growth_len_bytes() <= self.slack_bytes.max(self.room.len_bytes / 2)
    }

    /// The same facts, as if space were not short.
    pub(crate) fn with_space(&self) -> Situation<'_> {
        Situation { is_space_short: false, ..*self }
    }

    pub(crate) fn is_gaining(&self, plan: &Plan) -> bool {
        plan.is_gaining(self.room.grain_bytes, self.options.table_len_bytes, self.facts)
    }

    /// Whether a table has so many deletes that it should go down to the data they hide. If space
    /// is short, one delete is enough.
    pub(crate) fn is_mostly_deletes(&self, table: &TableMeta) -> bool {
        let hides_much = table.range_tombstone_count > 0
            || table.delete_count.saturating_mul(2) >= table.entry_count;
        table.has_deletes() && (hides_much || self.is_space_short)
    }
}

/// How far compaction lags behind writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Compaction keeps up.
    None,
    /// Writes should be slower than compaction: for each byte written it should process so many.
    Slowdown {
        /// At least 1.
        bytes_per_byte: u64,
    },
    /// Writes should wait.
    Stop,
}

impl Pressure {
    /// The usual slowdown.
    pub(crate) const SLOWDOWN: Pressure = Pressure::Slowdown { bytes_per_byte: 2 };
}

/// A compaction policy. It is pure, so a test is a table of shapes and plans.
pub(crate) trait Policy: Send + Sync + fmt::Debug {
    /// The most urgent compaction that can run now, or `None`.
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan>;

    /// The next step of a manual compaction, which ends with all of `range` in one run. The step takes
    /// tables of `level` that begin at or after `from`, usually into the next level.
    fn plan_manual(
        &self,
        situation: &Situation<'_>,
        level: u8,
        range: &ManualRange,
        from: Option<&[u8]>,
    ) -> ManualPlan;

    /// How far compaction lags behind writes, while `slack_bytes` more may be written.
    fn pressure(&self, version: &Version, options: &KeyspaceOptions, slack_bytes: u64) -> Pressure;
}

/// The range of a manual compaction. `None` means unbounded.
#[derive(Clone, Debug)]
pub(crate) struct ManualRange {
    pub(crate) start: Option<Bytes>,
    /// The exclusive end.
    pub(crate) end: Option<Bytes>,
    /// The newest run of level 0 when the compaction was requested. Newer runs are not part of it.
    pub(crate) run_max: RunId,
}

impl ManualRange {
    pub(crate) fn overlaps(&self, table: &TableSlot) -> bool {
        self.start.as_ref().is_none_or(|start| !table.meta.ends_before(start))
            && self.end.as_ref().is_none_or(|end| table.meta.smallest < *end)
    }
}

/// The next step of a manual compaction.
#[derive(Debug)]
pub(crate) enum ManualPlan {
    /// Run this plan.
    Run(Box<Plan>),
    /// Wait for a running compaction that prevents the next step.
    Wait,
    /// Nothing is left to do in this level.
    LevelDone,
}
