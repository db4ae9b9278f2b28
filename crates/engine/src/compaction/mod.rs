//! Compaction: what to merge with what (`plan`: pure), and the merge itself (`job`).
//!
//! ```text
//!   Version --plan--> Plan { inputs, output level }            decides, touches nothing
//!   Plan    --job---> tables written, one commit {+outputs, -inputs, edit}      does, decides nothing
//! ```
//!
//! Invariants
//!   P1  A table that stays in the run that outputs go to overlaps none of them (V1): either all
//!       tables there that overlap the inputs' range are inputs themselves, or the plan names those
//!       that stay, and sends nothing into them.
//!   P2  A table is an input of one running plan at most, and no two running plans write to
//!       overlapping ranges of one level.
//!   P3  What is newer stays above: of the tables of level 0 that overlap an input from level 0, all
//!       older ones are inputs too (V2).
//!   P4  An entry goes to a level only if, at its key, everything of that level and of those above
//!       that is older is an input too, and goes as deep or deeper (V2).
//!   P5  A table that could not be read, again and again, is set aside: no plan has it as an input, so by
//!       P1 and P3 what lies over it stays where it is, and all else is compacted as ever. Writes are
//!       refused only once they would wait for what it holds up, or where so many tables are set aside
//!       that the drive is failing.
//!
//! Sources: LevelDB's leveled compaction (round-robin victims, trivial moves, the limit on
//! grandparents); RocksDB's choice of the victim with the least overlap.

mod chosen;
pub(crate) mod gear;
pub(crate) mod job;
pub(crate) mod leveled;
pub(crate) mod output;
pub(crate) mod routes;
pub(crate) mod sequentiality;
pub(crate) mod set_aware;
pub(crate) mod sinks;
pub(crate) mod smrdb;
pub(crate) mod task;
#[cfg(test)]
mod tests;
pub(crate) mod turn;
mod way;

use crate::batch::KeyspaceId;
use crate::options::{CompactionKind, KeyspaceOptions};
use crate::room::Room;
use crate::table::TableProperties;
use crate::version::edit::LogId;
use crate::version::{KeyRange, LEVEL_COUNT, RunId, TableId, TableMeta, TableSlot, Version};
use bytes::Bytes;
use imbrex_files::UnitId;
use routes::Routes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Why a compaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Level 0 has too many runs.
    Runs { run_count: usize },
    /// A level is too long.
    Len { level: u8 },
    /// Too many tables of a level lie over one key.
    Overlaps { table_count: usize },
    /// Tables consist of deletes that hide data below.
    Deletes { level: u8 },
    /// Somebody asked for it.
    Manual,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Runs { run_count } => write!(f, "level 0 has {run_count} runs"),
            Reason::Len { level } => write!(f, "level {level} is too long"),
            Reason::Overlaps { table_count } => {
                write!(f, "{table_count} tables over one key")
            }
            Reason::Deletes { level } => write!(f, "deletes in level {level}"),
            Reason::Manual => f.write_str("asked for"),
        }
    }
}

/// How the inputs become the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// The tables change their level and nothing is written.
    Move,
    /// The tables are merged into new ones.
    Merge,
}

/// Tables of one run that take part.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) level: u8,
    pub(crate) tables: Vec<Arc<TableSlot>>,
}

/// A run that outputs go to.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) level: u8,
    /// The run of that level; its age is that of its newest input (V2).
    pub(crate) run: RunId,
    /// Nothing older than this run has keys in the plan's range: deletes have nothing left to hide.
    /// Where the plan has routes, they say it instead.
    pub(crate) is_bottom: bool,
    /// The tables of the next level in the range: where outputs are cut.
    pub(crate) grandparents: Vec<Arc<TableSlot>>,
    /// The tables of the run that stay and lie within the plan's range, in key order: an output
    /// table ends before the next of them (P1).
    pub(crate) staying: Vec<Arc<TableSlot>>,
}

/// A compaction to run: all of its decisions.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) reason: Reason,
    pub(crate) work: Work,
    /// From the newest run to the oldest.
    pub(crate) inputs: Vec<Input>,
    /// At least one; a move has exactly one, and so has a merge without routes.
    pub(crate) outputs: Vec<Output>,
    /// Which output takes an entry, by the level it comes from and by its key.
    pub(crate) routes: Option<Routes>,
    /// What the inputs cover: the outputs stay within it.
    pub(crate) range: KeyRange,
    /// The output tables of a run are persisted in one go, so that the placement may lay them side
    /// by side as a set. All of them are in memory then: about as much as the plan reads.
    pub(crate) outputs_together: bool,
    /// The windows that it was chosen by, to be remembered when it starts.
    pub(crate) windows: Option<Box<Windows>>,
}

impl Plan {
    /// Where the outputs go, or the first such place.
    pub(crate) fn output(&self) -> &Output {
        self.outputs.first().expect("a plan has an output")
    }

    /// All input tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableSlot>> {
        self.inputs.iter().flat_map(|input| &input.tables)
    }

    /// How much it reads.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.tables().map(|table| table.meta.len_bytes).sum()
    }

    /// What its outputs take before its inputs are released, where a table takes `grain_bytes` at
    /// least.
    fn cost_bytes(&self, grain_bytes: u64, table_len_bytes: u64) -> u64 {
        if grain_bytes == 0 {
            return self.len_bytes();
        }
        // The last table of a run is short, and runs are cut for the sake of those below.
        let short_count = if self.output().level == 0 { 1 } else { 2 };
        (short_count + self.len_bytes() / table_len_bytes.min(grain_bytes)) * grain_bytes
    }

    /// Whether it gives back more zones than it takes, where a table takes whole ones.
    fn is_gaining(&self, grain_bytes: u64, table_len_bytes: u64, facts: &dyn TableFacts) -> bool {
        let freed = self.tables().filter(|table| !facts.gives_no_zone_back(table));
        let freed = freed.map(|table| table.meta.len_bytes.next_multiple_of(grain_bytes));
        grain_bytes > 0 && freed.sum::<u64>() > self.cost_bytes(grain_bytes, table_len_bytes)
    }
}

impl fmt::Display for Plan {
    /// `merge L0[000007 000005] L1[000002] -> L1 (bottom): level 0 has 4 runs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.work {
            Work::Move => "move",
            Work::Merge => "merge",
        })?;
        for input in &self.inputs {
            write!(f, " L{}[", input.level)?;
            for (index, table) in input.tables.iter().enumerate() {
                let space = if index == 0 { "" } else { " " };
                write!(f, "{space}{}", table.meta.id)?;
            }
            f.write_str("]")?;
        }
        f.write_str(" ->")?;
        for output in &self.outputs {
            let bottom = if output.is_bottom { " (bottom)" } else { "" };
            write!(f, " L{}{bottom}", output.level)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// What running plans hold (P2), and what no plan may (P5).
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy {
    tables: BTreeSet<TableId>,
    outputs: Vec<(u8, KeyRange)>,
    /// What each table that was set aside failed with, and what to do.
    set_aside: BTreeMap<TableId, String>,
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

    /// Why plans are not made though nothing runs: the first table that was set aside, if one was.
    pub(crate) fn hindrance(&self) -> Option<&str> {
        self.set_aside.values().next().map(String::as_str)
    }

    fn has_table(&self, table: &TableSlot) -> bool {
        self.tables.contains(&table.meta.id) || self.is_set_aside(table)
    }

    fn is_set_aside(&self, table: &TableSlot) -> bool {
        self.set_aside.contains_key(&table.meta.id)
    }

    fn writes_to(&self, level: u8, range: &KeyRange) -> bool {
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
    read_failures: BTreeMap<TableId, u32>,
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

/// Per level, the tables that gear compaction empties next; forgotten when the store closes, and
/// chosen anew by the same rule.
pub(crate) type Windows = [BTreeSet<TableId>; LEVEL_COUNT];

/// What a policy may ask about a table beyond its metadata.
pub(crate) trait TableFacts: fmt::Debug {
    /// The reclaim unit that the table begins in; `None` where the placement has none.
    fn unit_of(&self, table: &TableSlot) -> Option<UnitId>;

    /// Whether no zone of the main drive comes back when the table is merged: a checkpoint keeps it, or it
    /// lies on flash.
    fn gives_no_zone_back(&self, table: &TableSlot) -> bool;

    /// Whether the table lies on the flash drive, which is for level 0: to go down it is written to the
    /// main drive.
    fn is_on_flash(&self, table: &TableSlot) -> bool;

    /// What the table says about itself; `None` if it cannot be read. Cost: opens the table, a few
    /// reads the first time.
    fn properties(&self, table: &TableSlot) -> Option<TableProperties>;
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
        self.hindrances().count() > SET_ASIDE_COUNT_MAX
    }

    /// What the tables that were set aside failed with, and what to do.
    pub(crate) fn hindrances(&self) -> impl Iterator<Item = &String> {
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
    fn fits(&self, plan: &Plan) -> bool {
        let table_len_bytes = self.options.table_len_bytes;
        let cost_bytes = plan.cost_bytes(self.room.grain_bytes, table_len_bytes);
        plan.work == Work::Move || cost_bytes <= self.room.of(self.is_gaining(plan))
    }

    fn is_gaining(&self, plan: &Plan) -> bool {
        plan.is_gaining(self.room.grain_bytes, self.options.table_len_bytes, self.facts)
    }

    /// Whether a table has so many deletes that it should go down to what they hide; where space is
    /// short, any will do.
    fn is_mostly_deletes(&self, table: &TableMeta) -> bool {
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

/// The policy of a kind.
pub(crate) fn policy(kind: CompactionKind) -> &'static dyn Policy {
    match kind {
        CompactionKind::Leveled => &leveled::Leveled,
        CompactionKind::SetAware => &set_aware::SetAware,
        CompactionKind::Smrdb => &smrdb::Smrdb,
        CompactionKind::Gear => &gear::Gear,
    }
}
