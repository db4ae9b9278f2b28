//! Metrics: what the store did and holds, counted always, gathered when asked for.
//!
//! With the feature `serde` a [`Metrics`] serialises.

use std::fmt;

/// Waits of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StallMetrics {
    /// How many.
    pub count: u64,
    /// How long together.
    pub total_ns: u64,
}

/// A table that a compaction wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct OutputTable {
    /// Its number.
    pub table: u64,
    /// The level it was written to.
    pub level: u8,
    /// How long it is.
    pub len_bytes: u64,
    /// Where it was put on the drive: first block and number of blocks of each piece, in order.
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
    /// Of which keyspace.
    pub keyspace: String,
    /// The plan in words: tables, levels, reason.
    pub plan: String,
    /// The level it compacted.
    pub level: u8,
    /// The level it wrote to; the first where it wrote to several.
    pub output_level: u8,
    /// How many tables went in.
    pub input_table_count: usize,
    /// How many came out; none for a move.
    pub output_table_count: usize,
    /// What it read; nothing for a move.
    pub in_len_bytes: u64,
    /// What it wrote.
    pub out_len_bytes: u64,
    /// The tables it wrote, level by level.
    pub outputs: Vec<OutputTable>,
    /// Entries read.
    pub entry_count: u64,
    /// Entries dropped: overwritten, deleted, or deletes without anything left to delete.
    pub dropped_count: u64,
}

/// One level of one keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LevelMetrics {
    /// The level.
    pub level: u8,
    /// Sorted runs.
    pub run_count: usize,
    /// Tables.
    pub table_count: usize,
    /// How long they are together.
    pub len_bytes: u64,
    /// Entries, deletes and overwritten ones included.
    pub entry_count: u64,
}

/// One keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct KeyspaceMetrics {
    /// Its name.
    pub name: String,
    /// Memory of its memtables.
    pub memtable_len_bytes: u64,
    /// Memtables that wait for their flush.
    pub immutable_memtable_count: usize,
    /// The levels that have tables.
    pub levels: Vec<LevelMetrics>,
    /// Of level 0, what lies in the order of its writes.
    pub unsorted_len_bytes: u64,
}

/// What the store did since it was opened, and what it holds.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Metrics {
    /// Keys and values written by the user.
    pub user_bytes: u64,
    /// Of that, what a log on a flash drive took, because a compaction ran.
    pub offloaded_bytes: u64,
    /// Operations written by the user.
    pub user_op_count: u64,
    /// Written to logs.
    pub log_bytes: u64,
    /// Flushes.
    pub flush_count: u64,
    /// Written by flushes.
    pub flush_out_bytes: u64,
    /// How long flushes took together, waiting for the drive behind others included.
    pub flush_total_ns: u64,
    /// Compactions, moves included.
    pub compaction_count: u64,
    /// Compactions that only moved tables to another level.
    pub move_count: u64,
    /// Compactions that could not read a table and were tried again.
    pub compaction_read_failure_count: u64,
    /// Of tables that compactions could not read, again and again, and leave where they are until the store is opened
    /// again: what was wrong with each, and what to do.
    pub tables_set_aside: Vec<String>,
    /// Read by compactions.
    pub compaction_in_bytes: u64,
    /// Written by compactions.
    pub compaction_out_bytes: u64,
    /// Bytes written by flush and compaction for each byte of the user.
    pub write_amp_ratio: f64,
    /// Writes that waited for a flush or for compaction.
    pub stall_stop: StallMetrics,
    /// Writes that were slowed down to the pace of compaction.
    pub stall_slowdown: StallMetrics,
    /// Writes that were delayed because many files lie on the flash drive.
    pub stall_offload: StallMetrics,
    /// Block cache: look-ups that found their block.
    pub cache_hit_count: u64,
    /// Block cache: look-ups that did not.
    pub cache_miss_count: u64,
    /// Block cache: memory in use.
    pub cache_len_bytes: u64,
    /// Memory of the filters, indexes and range tombstones of open tables.
    pub table_memory_len_bytes: u64,
    /// Tables that are open.
    pub open_table_count: usize,
    /// Memory of all memtables.
    pub memtable_len_bytes: u64,
    /// Snapshots that are held.
    pub snapshot_count: usize,
    /// The last sequence number given out.
    pub last_seq: u64,
    /// The keyspaces, in order of their numbers.
    pub keyspaces: Vec<KeyspaceMetrics>,
    /// The last compactions, oldest first: as many as
    /// [`Options::compaction_line_count_max`](crate::Options::compaction_line_count_max).
    pub compactions: Vec<CompactionLine>,
    /// The plans of the last compactions that failed, in words, oldest first.
    pub failed_compactions: Vec<String>,
}

impl CompactionLine {
    /// What it wrote to `level`.
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
        }
        Ok(())
    }
}
