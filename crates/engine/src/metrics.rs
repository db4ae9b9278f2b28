//! Metrics: what the store did and holds, counted always, gathered when asked for.
//!
//! With the feature `serde` a [`Metrics`] serialises.

use crate::EngineError;
use crate::store::Store;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Waits of one kind.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    count: AtomicU64,
    total_ns: AtomicU64,
}

impl Stall {
    pub(crate) fn note(&self, ns: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn metrics(&self) -> StallMetrics {
        StallMetrics {
            count: self.count.load(Ordering::Relaxed),
            total_ns: self.total_ns.load(Ordering::Relaxed),
        }
    }
}

/// How many compactions that failed are told of.
const FAILURE_COUNT_MAX: usize = 16;

/// The compactions so far.
#[derive(Debug, Default)]
pub(crate) struct CompactionLog {
    lines: VecDeque<CompactionLine>,
    /// Plans that failed, in words, at most [`FAILURE_COUNT_MAX`] of the last ones.
    failures: VecDeque<String>,
    count: u64,
    move_count: u64,
    in_len_bytes: u64,
    out_len_bytes: u64,
}

impl CompactionLog {
    /// Remembers `line`, and at most `line_count_max` of the last ones.
    pub(crate) fn note(&mut self, line: CompactionLine, line_count_max: usize) {
        self.count += 1;
        self.move_count += u64::from(line.output_table_count == 0 && line.in_len_bytes == 0);
        self.in_len_bytes += line.in_len_bytes;
        self.out_len_bytes += line.out_len_bytes;
        self.lines.push_back(line);
        while self.lines.len() > line_count_max {
            self.lines.pop_front();
        }
    }

    /// Remembers a plan that failed.
    pub(crate) fn note_failure(&mut self, plan: String) {
        self.failures.push_back(plan);
        while self.failures.len() > FAILURE_COUNT_MAX {
            self.failures.pop_front();
        }
    }
}

/// What is counted as it happens.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) stall_stop: Stall,
    pub(crate) stall_slowdown: Stall,
    pub(crate) stall_offload: Stall,
    pub(crate) slowed_bytes: AtomicU64,
    /// Merged by compactions, before compression: what slowed writers wait for.
    pub(crate) background_bytes: AtomicU64,
    pub(crate) flush_count: AtomicU64,
    pub(crate) flush_out_bytes: AtomicU64,
    /// Compactions that could not read and were tried again.
    pub(crate) read_failure_count: AtomicU64,
    /// From the start of each flush to its commit.
    pub(crate) flush_ns: AtomicU64,
    pub(crate) compactions: Mutex<CompactionLog>,
}

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

impl Store {
    /// Gathers everything. Cost: a walk over all tables.
    pub(crate) fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        {
            let writer = self.writer.lock();
            metrics.user_bytes = writer.user_bytes;
            metrics.user_op_count = writer.op_count;
            metrics.log_bytes = writer.log_bytes();
            metrics.offloaded_bytes = writer.offloaded_bytes;
        }
        metrics.flush_count = self.tally.flush_count.load(Ordering::Relaxed);
        metrics.flush_out_bytes = self.tally.flush_out_bytes.load(Ordering::Relaxed);
        metrics.compaction_read_failure_count =
            self.tally.read_failure_count.load(Ordering::Relaxed);
        metrics.tables_set_aside = self.plans.lock().hindrances().cloned().collect();
        metrics.flush_total_ns = self.tally.flush_ns.load(Ordering::Relaxed);
        {
            let log = self.tally.compactions.lock();
            metrics.compaction_count = log.count;
            metrics.move_count = log.move_count;
            metrics.compaction_in_bytes = log.in_len_bytes;
            metrics.compaction_out_bytes = log.out_len_bytes;
            metrics.compactions = log.lines.iter().cloned().collect();
            metrics.failed_compactions = log.failures.iter().cloned().collect();
        }
        let written = metrics.flush_out_bytes + metrics.compaction_out_bytes;
        if metrics.user_bytes > 0 {
            metrics.write_amp_ratio = written as f64 / metrics.user_bytes as f64;
        }
        metrics.stall_stop = self.tally.stall_stop.metrics();
        metrics.stall_slowdown = self.tally.stall_slowdown.metrics();
        metrics.stall_offload = self.tally.stall_offload.metrics();
        let cache = self.cache.metrics();
        metrics.cache_hit_count = cache.hit_count;
        metrics.cache_miss_count = cache.miss_count;
        metrics.cache_len_bytes = cache.used_bytes;
        metrics.snapshot_count = self.snapshots.count();
        metrics.last_seq = self.visible().0;
        for keyspace in self.all_keyspaces() {
            let view = keyspace.view_arc();
            for table in view.version.tables().filter_map(|slot| slot.opened()) {
                metrics.open_table_count += 1;
                metrics.table_memory_len_bytes += table.memory_len_bytes() as u64;
            }
            let slots = view.immutables.iter().chain([&view.active]);
            let memtable_len_bytes = slots.map(|slot| slot.mem.len_bytes() as u64).sum();
            metrics.memtable_len_bytes += memtable_len_bytes;
            let logged = view.version.levels[0].tables().filter(|slot| slot.meta.is_logged);
            let unsorted_len_bytes = logged.map(|slot| slot.meta.len_bytes).sum();
            let levels = view.version.levels.iter().enumerate();
            metrics.keyspaces.push(KeyspaceMetrics {
                name: keyspace.name.clone(),
                memtable_len_bytes,
                immutable_memtable_count: view.immutables.len(),
                levels: levels
                    .filter(|(_, level)| !level.runs.is_empty())
                    .map(|(number, level)| LevelMetrics {
                        level: number as u8,
                        run_count: level.runs.len(),
                        table_count: level.table_count(),
                        len_bytes: level.len_bytes(),
                        entry_count: level.tables().map(|slot| slot.meta.entry_count).sum(),
                    })
                    .collect(),
                unsorted_len_bytes,
            });
        }
        metrics
    }

    /// A property by name, as text; `None` for a name that means nothing.
    pub(crate) fn property(&self, name: &str) -> Option<String> {
        let metrics = self.metrics();
        Some(match name {
            "levels" => {
                let keyspaces = self.all_keyspaces();
                let pictures =
                    keyspaces.iter().map(|k| format!("keyspace {}\n{}", k.name, k.view().version));
                pictures.collect()
            }
            "stats" => metrics.to_string(),
            "last-sequence" => metrics.last_seq.to_string(),
            "memtable-bytes" => metrics.memtable_len_bytes.to_string(),
            "block-cache-bytes" => metrics.cache_len_bytes.to_string(),
            "write-amplification" => format!("{:.3}", metrics.write_amp_ratio),
            "snapshots" => metrics.snapshot_count.to_string(),
            "background-error" => match self.check_not_refused() {
                Err(EngineError::Poisoned { reason }) => reason,
                _ => "none".to_owned(),
            },
            _ => return None,
        })
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
