//! Metrics: what the store did and what it holds, always counted, collected on request.
//!
//! With the feature `serde`, [`Metrics`] can be serialised.

use imbrex_files::ByteSize;
use std::fmt;

/// Waits of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StallMetrics {
    /// How many waits.
    pub count: u64,
    /// How long all waits took together.
    pub total_ns: u64,
    /// Half of the waits took at most this long; up to a quarter too high.
    pub p50_ns: u64,
    /// 99 of 100 waits took at most this long; up to a quarter too high.
    pub p99_ns: u64,
    /// The longest wait.
    pub max_ns: u64,
}

/// A table that a compaction wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct OutputTable {
    /// Its number.
    pub table: u64,
    /// The level it was written to.
    pub level: u8,
    /// Its length.
    pub len_bytes: u64,
    /// Its place on the drive: first block and number of blocks of each piece, in order.
    pub extents: Vec<(u64, u64)>,
}

/// One compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CompactionLine {
    /// When it started, by the store's clock.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The keyspace it ran in.
    pub keyspace: String,
    /// The plan in words: tables, levels, reason.
    pub plan: String,
    /// The level it compacted.
    pub level: u8,
    /// The level it wrote to; the first of them if it wrote to several.
    pub output_level: u8,
    /// The number of tables it read.
    pub input_table_count: usize,
    /// The number of tables it wrote; 0 for a move.
    pub output_table_count: usize,
    /// The number of sets that lost tables to it in the level that it wrote to.
    pub set_count: usize,
    /// Bytes it read; 0 for a move.
    pub in_len_bytes: u64,
    /// Bytes it wrote.
    pub out_len_bytes: u64,
    /// The tables it wrote, level by level.
    pub outputs: Vec<OutputTable>,
    /// Entries read.
    pub entry_count: u64,
    /// Entries dropped: overwritten or deleted ones, and deletes with nothing left to delete.
    pub dropped_count: u64,
}

/// One level of one keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LevelMetrics {
    /// The level.
    pub level: u8,
    /// The number of sorted runs.
    pub run_count: usize,
    /// The number of tables.
    pub table_count: usize,
    /// The length of all tables together.
    pub len_bytes: u64,
    /// Entries, including deletes and overwritten ones.
    pub entry_count: u64,
}

/// One keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct KeyspaceMetrics {
    /// Its name.
    pub name: String,
    /// Memory in use by its memtables.
    pub memtable_len_bytes: u64,
    /// Memtables that wait to be flushed.
    pub immutable_memtable_count: usize,
    /// The levels that have tables.
    pub levels: Vec<LevelMetrics>,
    /// Length of the tables of level 0 whose values are in the order in which they were written.
    pub unsorted_len_bytes: u64,
    /// With lazy leveling: its partitions.
    pub partitions: Option<PartitionMetrics>,
    /// Files with values that are apart from their keys ([`crate::KeyspaceOptions::values_apart_from_bytes`]).
    pub values_apart: ValuesApartMetrics,
}

/// Files with values that are apart from their keys. Tables of a level do not count, even if values of other tables'
/// entries are in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ValuesApartMetrics {
    /// How many files there are.
    pub file_count: usize,
    /// Their length.
    pub len_bytes: u64,
    /// The length of the values in them that entries refer to.
    pub live_bytes: u64,
}

/// The partitions of a keyspace with lazy leveling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PartitionMetrics {
    /// Each of them, in key order.
    pub shapes: Vec<PartitionShape>,
    /// The base merge under way, between two of its pieces or in one.
    pub base_merge: Option<BaseMergeMetrics>,
}

/// What one partition consists of. A table counts in the partition where it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PartitionShape {
    /// Its first key; empty if it is unbounded.
    pub start: Vec<u8>,
    /// The first key after it, if it is bounded.
    pub end: Option<Vec<u8>>,
    /// The levels above the base that have tables.
    pub upper_levels: Vec<LevelMetrics>,
    /// The length of the tables that wait on the flash drive; 0 if the store is not open.
    pub flash_len_bytes: u64,
    /// Its part of the base.
    pub base: LevelMetrics,
    /// How many bytes of its tables may be dead, at most. Only a merge finds out.
    pub dead_len_bytes_max: u64,
    /// The number of tables whose first part a base merge has passed. The space of a table comes back whole.
    pub front_count: usize,
}

impl PartitionShape {
    /// The length of its tables above the base.
    pub fn upper_len_bytes(&self) -> u64 {
        self.upper_levels.iter().map(|level| level.len_bytes).sum()
    }

    /// The length of all its tables.
    pub fn len_bytes(&self) -> u64 {
        self.base.len_bytes + self.upper_len_bytes()
    }
}

/// The sums over the partitions of a keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionTotals {
    /// The length of the base.
    pub base_len_bytes: u64,
    /// The length of all tables above it.
    pub upper_len_bytes: u64,
    /// The part of them that waits on the flash drive.
    pub flash_len_bytes: u64,
    /// How many bytes of all these tables may be dead, at most.
    pub dead_len_bytes_max: u64,
    /// The most runs that one partition has above its base.
    pub run_count_max: usize,
}

impl PartitionTotals {
    /// Sums over `partitions`.
    pub fn of(partitions: &[PartitionShape]) -> PartitionTotals {
        let sum = |of: fn(&PartitionShape) -> u64| partitions.iter().map(of).sum();
        let runs = |shape: &PartitionShape| {
            shape.upper_levels.iter().map(|level| level.run_count).sum::<usize>()
        };
        PartitionTotals {
            base_len_bytes: sum(|shape| shape.base.len_bytes),
            upper_len_bytes: sum(PartitionShape::upper_len_bytes),
            flash_len_bytes: sum(|shape| shape.flash_len_bytes),
            dead_len_bytes_max: sum(|shape| shape.dead_len_bytes_max),
            run_count_max: partitions.iter().map(runs).max().unwrap_or(0),
        }
    }
}

/// A merge of a partition into the base that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BaseMergeMetrics {
    /// The first key of its range; empty if it is unbounded.
    pub start: Vec<u8>,
    /// The first key after its range, if it is bounded.
    pub end: Option<Vec<u8>>,
    /// The first key that is not merged yet.
    pub next_key: Vec<u8>,
    /// Length of the tables above the base that it still has to merge, at most.
    pub left_len_bytes: u64,
    /// Length of the base in its range up to `next_key`.
    pub base_done_len_bytes: u64,
    /// Length of the base in its range.
    pub base_len_bytes: u64,
    /// What its next piece waits for; `None` if only an open store knows.
    pub wait: Option<MergeWait>,
}

/// What the next piece of a base merge waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum MergeWait {
    /// For nothing: a piece runs.
    Running,
    /// For the compaction job, which takes it next.
    Due,
    /// For writes: it is due when less than `due_below_bytes` may still be written.
    Writes {
        /// How much may be written before puts are refused, without any cleaning.
        slack_bytes: u64,
        /// The slack below which the piece is due.
        due_below_bytes: u64,
    },
    /// For a running compaction that uses one of its tables.
    Compaction,
    /// For room on the drive: even the shortest piece does not fit.
    Room,
    /// For the operator: a table that it needs cannot be read.
    Damage,
}

impl fmt::Display for MergeWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeWait::Running => f.write_str("nothing, it runs"),
            MergeWait::Due => f.write_str("nothing, its next piece is due"),
            MergeWait::Writes { slack_bytes, due_below_bytes } => {
                let bytes = ByteSize(slack_bytes.saturating_sub(*due_below_bytes));
                write!(f, "{bytes} of writes, until it needs the space")
            }
            MergeWait::Compaction => f.write_str("a compaction that runs on its tables"),
            MergeWait::Room => f.write_str("room on the drive"),
            MergeWait::Damage => f.write_str("a table that cannot be read"),
        }
    }
}

/// A compaction that runs now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RunningCompaction {
    /// The keyspace it runs in.
    pub keyspace: String,
    /// The plan in words: tables, levels, reason.
    pub plan: String,
    /// How many bytes it reads, about.
    pub len_bytes: u64,
    /// How many of them it has merged, about.
    pub done_len_bytes: u64,
}

/// What the store did since it was opened, and what it holds now.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Metrics {
    /// Keys and values written by the user.
    pub user_bytes: u64,
    /// Part of `user_bytes`: written to a log on the flash drive because a compaction ran.
    pub offloaded_bytes: u64,
    /// Operations written by the user.
    pub user_op_count: u64,
    /// Bytes written to logs.
    pub log_bytes: u64,
    /// Flushes.
    pub flush_count: u64,
    /// Bytes written by flushes.
    pub flush_out_bytes: u64,
    /// How long all flushes took together, including their wait for the drive.
    pub flush_total_ns: u64,
    /// Compactions, including moves.
    pub compaction_count: u64,
    /// Compactions that only moved tables to another level.
    pub move_count: u64,
    /// Compactions that could not read a table and were tried again.
    pub compaction_read_failure_count: u64,
    /// The tables that compactions repeatedly failed to read. Compactions leave them in place until
    /// the store is opened again. Each entry says what is wrong and what to do.
    pub tables_set_aside: Vec<String>,
    /// The compactions that run now.
    pub running: Vec<RunningCompaction>,
    /// How much may be written before puts are refused, without any cleaning.
    pub slack_bytes: u64,
    /// Bytes read by compactions, and by cleanings of values apart.
    pub compaction_in_bytes: u64,
    /// Bytes written by compactions, and by cleanings of values apart.
    pub compaction_out_bytes: u64,
    /// Bytes written by flushes and compactions, per byte of the user.
    pub write_amp_ratio: f64,
    /// Writes that waited for a flush or for compaction.
    pub stall_stop: StallMetrics,
    /// Writes that were slowed to the pace of compaction.
    pub stall_slowdown: StallMetrics,
    /// Writes that were delayed because the flash drive holds many files.
    pub stall_offload: StallMetrics,
    /// All these waits together.
    pub stalls: StallMetrics,
    /// Block cache: look-ups that found the block.
    pub cache_hit_count: u64,
    /// Block cache: look-ups that did not find the block.
    pub cache_miss_count: u64,
    /// Block cache: memory in use.
    pub cache_len_bytes: u64,
    /// Memory in use by the filters, indexes and range tombstones of open tables.
    pub table_memory_len_bytes: u64,
    /// Tables that are open.
    pub open_table_count: usize,
    /// Memory in use by all memtables.
    pub memtable_len_bytes: u64,
    /// The number of snapshots held.
    pub snapshot_count: usize,
    /// The length of the values that cleaning moved to other files.
    pub values_moved_bytes: u64,
    /// The last sequence number that was assigned.
    pub last_seq: u64,
    /// The keyspaces, in order of their numbers.
    pub keyspaces: Vec<KeyspaceMetrics>,
    /// The last compactions, oldest first; at most
    /// [`Options::compaction_line_count_max`](crate::Options::compaction_line_count_max) of them.
    pub compactions: Vec<CompactionLine>,
    /// The plans of the last failed compactions, in words, oldest first.
    pub failed_compactions: Vec<String>,
}

impl CompactionLine {
    /// The bytes it wrote to `level`.
    pub fn out_len_bytes_of(&self, level: u8) -> u64 {
        let outputs = self.outputs.iter().filter(|output| output.level == level);
        outputs.map(|output| output.len_bytes).sum()
    }
}

impl fmt::Display for Metrics {
    /// A table for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        writeln!(f, "user      {:>10.1} MB in {} writes", mb(self.user_bytes), self.user_op_count)?;
        writeln!(f, "log       {:>10.1} MB", mb(self.log_bytes))?;
        let (out, count) = (mb(self.flush_out_bytes), self.flush_count);
        writeln!(f, "flush     {out:>10.1} MB in {count} flushes")?;
        writeln!(
            f,
            "compact   {:>10.1} MB written, {:.1} MB read, {} compactions, {} of them moves",
            mb(self.compaction_out_bytes),
            mb(self.compaction_in_bytes),
            self.compaction_count,
            self.move_count
        )?;
        for why in &self.tables_set_aside {
            writeln!(f, "set aside {why}")?;
        }
        for running in &self.running {
            let RunningCompaction { keyspace, plan, len_bytes, done_len_bytes } = running;
            let (done, all) = (mb(*done_len_bytes), mb(*len_bytes));
            writeln!(f, "running   {done:.1} of {all:.1} MB, keyspace {keyspace}: {plan}")?;
        }
        writeln!(f, "write amplification {:.2}", self.write_amp_ratio)?;
        let stalls = [
            ("stop", self.stall_stop),
            ("slowdown", self.stall_slowdown),
            ("offload", self.stall_offload),
        ];
        for (name, stall) in stalls {
            let ms = stall.total_ns as f64 / 1e6;
            writeln!(f, "stall {name:<9} {} times, {ms:.1} ms", stall.count)?;
        }
        for keyspace in &self.keyspaces {
            writeln!(f, "keyspace {}", keyspace.name)?;
            for level in &keyspace.levels {
                writeln!(
                    f,
                    "  L{} {:>4} runs {:>6} tables {:>10.1} MB {:>12} entries",
                    level.level,
                    level.run_count,
                    level.table_count,
                    mb(level.len_bytes),
                    level.entry_count
                )?;
            }
            if let Some(own) = &keyspace.partitions {
                write!(f, "{own}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for PartitionMetrics {
    /// Sums over all partitions, and the base merge under way.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, totals) = (self.shapes.len(), PartitionTotals::of(&self.shapes));
        let [base, upper, dead] =
            [totals.base_len_bytes, totals.upper_len_bytes, totals.dead_len_bytes_max]
                .map(|bytes| bytes as f64 / 1e6);
        writeln!(
            f,
            "  {count} partitions: base {base:.1} MB, above it {upper:.1} MB, at most {dead:.1} MB dead"
        )?;
        let Some(merge) = &self.base_merge else { return Ok(()) };
        let [done, all, left] =
            [merge.base_done_len_bytes, merge.base_len_bytes, merge.left_len_bytes]
                .map(|bytes| bytes as f64 / 1e6);
        write!(f, "  base merge: base {done:.1} of {all:.1} MB, {left:.1} MB of runs left")?;
        match &merge.wait {
            Some(wait) => writeln!(f, "; waits for {wait}"),
            None => writeln!(f),
        }
    }
}
