//! A compaction that is decided: which tables, to which level, and why.

use crate::compaction::routes::Routes;
use crate::table::TableProperties;
use crate::version::{KeyRange, LEVEL_COUNT, RunId, TableId, TableSlot};
use imbrex_files::UnitId;
use std::collections::BTreeSet;
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
    pub(crate) fn cost_bytes(&self, grain_bytes: u64, table_len_bytes: u64) -> u64 {
        if grain_bytes == 0 {
            return self.len_bytes();
        }
        // The last table of a run is short, and runs are cut for the sake of those below.
        let short_count = if self.output().level == 0 { 1 } else { 2 };
        (short_count + self.len_bytes() / table_len_bytes.min(grain_bytes)) * grain_bytes
    }

    /// Whether it gives back more zones than it takes, where a table takes whole ones.
    pub(crate) fn is_gaining(
        &self,
        grain_bytes: u64,
        table_len_bytes: u64,
        facts: &dyn TableFacts,
    ) -> bool {
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
