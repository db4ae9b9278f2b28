//! The counters of a store, updated as it works.

use crate::metrics::{CompactionLine, StallMetrics};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Waits of one kind.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    pub(crate) count: AtomicU64,
    total_ns: AtomicU64,
}

impl Stall {
    pub(crate) fn note(&self, ns: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(crate) fn metrics(&self) -> StallMetrics {
        StallMetrics {
            count: self.count.load(Ordering::Relaxed),
            total_ns: self.total_ns.load(Ordering::Relaxed),
        }
    }
}

/// How many failed compactions are reported.
const FAILURE_COUNT_MAX: usize = 16;

/// The compactions so far.
#[derive(Debug, Default)]
pub(crate) struct CompactionLog {
    pub(crate) lines: VecDeque<CompactionLine>,
    /// The plans of the last failed compactions, in words, at most [`FAILURE_COUNT_MAX`].
    pub(crate) failures: VecDeque<String>,
    pub(crate) count: u64,
    pub(crate) move_count: u64,
    pub(crate) in_len_bytes: u64,
    pub(crate) out_len_bytes: u64,
}

impl CompactionLog {
    /// Records `line`, and keeps the last `line_count_max` lines.
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

    /// Records the plan of a failed compaction.
    pub(crate) fn note_failure(&mut self, plan: String) {
        self.failures.push_back(plan);
        while self.failures.len() > FAILURE_COUNT_MAX {
            self.failures.pop_front();
        }
    }
}

/// The counters of a store.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) stall_stop: Stall,
    pub(crate) stall_slowdown: Stall,
    pub(crate) stall_offload: Stall,
    pub(crate) slowed_bytes: AtomicU64,
    /// Bytes merged by compactions, before compression; slowed writers wait for them.
    pub(crate) background_bytes: AtomicU64,
    pub(crate) flush_count: AtomicU64,
    pub(crate) flush_out_bytes: AtomicU64,
    /// Compactions that could not read a table and were tried again.
    pub(crate) read_failure_count: AtomicU64,
    /// Time of all flushes, each from its start to its commit.
    pub(crate) flush_ns: AtomicU64,
    pub(crate) compactions: Mutex<CompactionLog>,
}
