//! What a store counts as it happens.

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

/// How many compactions that failed are told of.
const FAILURE_COUNT_MAX: usize = 16;

/// The compactions so far.
#[derive(Debug, Default)]
pub(crate) struct CompactionLog {
    pub(crate) lines: VecDeque<CompactionLine>,
    /// Plans that failed, in words, at most [`FAILURE_COUNT_MAX`] of the last ones.
    pub(crate) failures: VecDeque<String>,
    pub(crate) count: u64,
    pub(crate) move_count: u64,
    pub(crate) in_len_bytes: u64,
    pub(crate) out_len_bytes: u64,
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
