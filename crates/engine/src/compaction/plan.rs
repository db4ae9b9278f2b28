//! A planned compaction: which tables, to which level, and why.

use crate::compaction::routes::Routes;
use crate::table::TableProperties;
use crate::version::partitions::Partitions;
use crate::version::{KeyRange, LEVEL_COUNT, RunId, TableId, TableMeta, TableSlot};
use bytes::Bytes;
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
    /// Too many tables of a level cover one key.
    Overlaps { table_count: usize },
    /// Gets have often looked in a table of this level and found nothing.
    Misses { level: u8 },
    /// Tables consist of deletes that hide data below.
    Deletes { level: u8 },
    /// The drive or its catalog is nearly full.
    Space { level: u8 },
    /// A partition has too many runs in a level.
    PartitionRuns { level: u8, run_count: usize },
    /// The flash drive holds more than it should, so many bytes of this partition.
    Destage { flash_len_bytes: u64 },
    /// A base merge goes on, with so many bytes above the base left before this piece.
    Base { left_len_bytes: u64 },
    /// A table of this level was merged in part, for want of room.
    Rest { level: u8 },
    /// A caller asked for it.
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
            Reason::Misses { level } => write!(f, "gets miss a table of level {level}"),
            Reason::Deletes { level } => write!(f, "deletes in level {level}"),
            Reason::Space { level } => write!(f, "space is short, garbage below level {level}"),
            Reason::PartitionRuns { level, run_count } => {
                write!(f, "a partition has {run_count} runs in level {level}")
            }
            Reason::Destage { flash_len_bytes } => {
                write!(f, "destage, {flash_len_bytes} bytes on flash")
            }
            Reason::Base { left_len_bytes } => {
                write!(f, "base merge, {left_len_bytes} bytes left")
            }
            Reason::Rest { level } => write!(f, "the rest of a table of level {level}"),
            Reason::Manual => f.write_str("asked for"),
        }
    }
}

/// How the inputs become the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// The tables change their level. Nothing is written.
    Move,
    /// The tables are merged into new ones.
    Merge,
}

/// The tables of one run that take part.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) level: u8,
    pub(crate) tables: Vec<Arc<TableSlot>>,
}

/// A run that outputs go to.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) level: u8,
    /// The run within that level. It is as old as its newest input (V2).
    pub(crate) run: RunId,
    /// No run older than this one has keys in the plan's range, so deletes have nothing left to
    /// hide. If the plan has routes, they decide this segment by segment instead.
    pub(crate) is_bottom: bool,
    /// The tables of the next level within the plan's range. They bound how much an output may
    /// overlap.
    pub(crate) grandparents: Vec<Arc<TableSlot>>,
    /// Tables of this run that are no inputs but share the plan's range, in key order. An output
    /// table ends before the next of them (P1).
    pub(crate) staying: Vec<Arc<TableSlot>>,
}

/// Where a merge stops before the end of its inputs.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    /// The first key that is not merged.
    pub(crate) until: Bytes,
    /// The inputs that have later keys: level, run, and the table with `until` as its front.
    pub(crate) rest: Vec<(u8, RunId, TableMeta)>,
    /// About how many bytes the merge reads.
    pub(crate) len_bytes: u64,
}

/// What a compaction gives back at its end, as far as its plan tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivesBack {
    /// More zones than it takes.
    Zones,
    /// What its deletes hide, if there is any.
    Hidden,
    /// Perhaps as much as it takes.
    Unknown,
}

/// A compaction to run, with every decision made.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) reason: Reason,
    pub(crate) work: Work,
    /// From the newest run to the oldest.
    pub(crate) inputs: Vec<Input>,
    /// At least one. A move has exactly one, and so does a merge without routes.
    pub(crate) outputs: Vec<Output>,
    /// The output for each entry, by the level it comes from and by its key.
    pub(crate) routes: Option<Routes>,
    /// The key range of the inputs. The outputs stay within it.
    pub(crate) range: KeyRange,
    /// Persists all output tables in one call, so that the placement can store them side by side as
    /// a set. Until then they are all in memory, about as many bytes as the plan reads.
    pub(crate) outputs_together: bool,
    /// The windows that led to this plan. They are stored when the plan starts.
    pub(crate) windows: Option<Box<Windows>>,
    /// Where the merge stops; without it, at the end of the inputs.
    pub(crate) stop: Option<Stop>,
    /// The partitions from the plan's commit on, if they change.
    pub(crate) partitions: Option<Partitions>,
}

impl Plan {
    /// The first output. Most plans have only one.
    pub(crate) fn output(&self) -> &Output {
        self.outputs.first().expect("a plan has an output")
    }

    /// All input tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableSlot>> {
        self.inputs.iter().flat_map(|input| &input.tables)
    }

    /// Whether the merge stops before the end of `table`, which goes on with a front.
    pub(crate) fn keeps_rest_of(&self, table: &TableSlot) -> bool {
        let mut rest = self.stop.iter().flat_map(|stop| &stop.rest);
        rest.any(|(_, _, meta)| meta.id == table.meta.id)
    }

    /// The number of bytes that the plan reads; an estimate if it stops before the end of its inputs.
    pub(crate) fn len_bytes(&self) -> u64 {
        let whole = || self.tables().map(|table| table.meta.len_bytes).sum();
        self.stop.as_ref().map_or_else(whole, |stop| stop.len_bytes)
    }

    /// About how many of its bytes are merged with the first `entry_count` entries.
    pub(crate) fn share_len_bytes(&self, entry_count: u64) -> u64 {
        let entries: u64 = self.tables().map(|table| table.meta.entry_count).sum();
        let bytes: u64 = self.tables().map(|table| table.meta.len_bytes).sum();
        let share = u128::from(entry_count) * u128::from(bytes) / u128::from(entries.max(1));
        u64::try_from(share).unwrap_or(u64::MAX).min(self.len_bytes())
    }

    /// The space that the outputs need before the inputs are released, if a table takes at least
    /// `grain_bytes`.
    pub(crate) fn cost_bytes(&self, grain_bytes: u64, table_len_bytes: u64) -> u64 {
        if grain_bytes == 0 {
            return self.len_bytes();
        }
        // The last table of a run is short, and cuts at grandparents make more short ones.
        let short_count = if self.output().level == 0 { 1 } else { 2 };
        (short_count + self.len_bytes() / table_len_bytes.min(grain_bytes)) * grain_bytes
    }

    /// About how much the plan adds to the main drive for good, once its inputs are released: what the puts of
    /// its tables on flash hold, less what its deletes hide at the bottom. A delete may hide nothing, and a put
    /// may replace something, so it is less certain than it looks.
    pub(crate) fn growth_len_bytes(&self) -> u64 {
        if !self.tables().any(|slot| slot.is_on_flash()) {
            return 0;
        }
        let (mut base, mut whole, mut parts) = <(InputSums, InputSums, InputSums)>::default();
        for input in &self.inputs {
            let is_base = self.output().is_bottom && input.level == self.output().level;
            for slot in &input.tables {
                let sum = match (is_base, self.keeps_rest_of(slot)) {
                    (true, _) => &mut base,
                    (false, false) => &mut whole,
                    (false, true) => &mut parts,
                };
                sum.add(slot);
            }
        }
        // Of the tables that go on behind the stop, a part is merged.
        let before_stop = self.len_bytes().saturating_sub(base.len_bytes + whole.len_bytes);
        let before_stop = before_stop.min(parts.len_bytes);
        let merged = |of: fn(&InputSums) -> u64| {
            of(&whole) + share_of(of(&parts), before_stop, parts.len_bytes)
        };
        let has_range_deletes = whole.has_range_deletes || parts.has_range_deletes;
        let delete_count = merged(|sum| sum.delete_count);
        let hidden_count = if has_range_deletes { u64::MAX } else { delete_count };
        let hidden_count = hidden_count.min(base.entry_count);
        let hidden_bytes = share_of(base.len_bytes, hidden_count, base.entry_count);
        merged(|sum| sum.flash_put_bytes).saturating_sub(hidden_bytes)
    }

    /// What the plan gives back.
    pub(crate) fn gives_back(
        &self,
        grain_bytes: u64,
        table_len_bytes: u64,
        facts: &dyn TableFacts,
    ) -> GivesBack {
        if self.is_gaining(grain_bytes, table_len_bytes, facts) {
            GivesBack::Zones
        } else if self.tables().any(|slot| slot.meta.has_deletes()) {
            GivesBack::Hidden
        } else {
            GivesBack::Unknown
        }
    }

    /// Whether the plan frees more than it takes: zones; if tables share zones, only a piece of a
    /// base merge does, and only if it adds nothing from flash.
    pub(crate) fn is_gaining(
        &self,
        grain_bytes: u64,
        table_len_bytes: u64,
        facts: &dyn TableFacts,
    ) -> bool {
        if grain_bytes == 0 {
            return self.partitions.is_some() && self.growth_len_bytes() == 0;
        }
        let freed = self.tables().filter(|table| !facts.gives_no_zone_back(table));
        let freed = freed.filter(|table| !self.keeps_rest_of(table));
        let freed = freed.map(|table| table.meta.len_bytes.next_multiple_of(grain_bytes));
        freed.sum::<u64>() > self.cost_bytes(grain_bytes, table_len_bytes)
    }
}

/// Sums over input tables.
#[derive(Clone, Copy, Debug, Default)]
struct InputSums {
    len_bytes: u64,
    entry_count: u64,
    delete_count: u64,
    has_range_deletes: bool,
    /// What the puts of tables on flash take.
    flash_put_bytes: u64,
}

impl InputSums {
    fn add(&mut self, slot: &TableSlot) {
        let meta = &slot.meta;
        self.len_bytes += meta.len_bytes;
        self.entry_count += meta.entry_count;
        self.delete_count += meta.delete_count;
        self.has_range_deletes |= meta.range_tombstone_count > 0;
        if slot.is_on_flash() {
            let put_count = meta.entry_count.saturating_sub(meta.delete_count);
            self.flash_put_bytes += share_of(meta.len_bytes, put_count, meta.entry_count);
        }
    }
}

/// The part of `whole` that belongs to `part` of `all`.
fn share_of(whole: u64, part: u64, all: u64) -> u64 {
    (u128::from(whole) * u128::from(part) / u128::from(all.max(1))) as u64
}

impl fmt::Display for Plan {
    /// For example `merge L0[000007 000005] L1[000002] -> L1 (bottom): level 0 has 4 runs`.
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
        if let Some(stop) = &self.stop {
            write!(f, " until {}", stop.until.escape_ascii())?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// For each level, the tables that gear compaction empties next. The windows are lost when the
/// store closes; the next open chooses them again by the same rule.
pub(crate) type Windows = [BTreeSet<TableId>; LEVEL_COUNT];

/// The facts about a table that a policy may need besides its metadata.
pub(crate) trait TableFacts: fmt::Debug {
    /// The reclaim unit in which the table begins; `None` if the placement has no units.
    fn unit_of(&self, table: &TableSlot) -> Option<UnitId>;

    /// Whether further files may begin in the unit before it is empty.
    fn is_filling(&self, unit: UnitId) -> bool;

    /// Whether merging the table frees no zone of the main drive, because a checkpoint keeps the
    /// table or because it is stored on flash.
    fn gives_no_zone_back(&self, table: &TableSlot) -> bool;

    /// Whether the space of the table comes back only with that of its set.
    fn is_in_set(&self, table: &TableSlot) -> bool;

    /// The properties block of the table; `None` if it cannot be read.
    ///
    /// Cost: opens the table, which takes a few reads the first time.
    fn properties(&self, table: &TableSlot) -> Option<TableProperties>;
}
