//! The counters of a store, updated as it works.

use crate::metrics::{CompactionLine, StallMetrics};
use crate::store::waits::Waits;
use crate::store::writer::Writer;
use crate::totals::{Total, Totals};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

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

    /// Counts a cleaning of values, which reads and writes data again as a compaction does.
    pub(crate) fn note_cleaning(&mut self, in_len_bytes: u64, out_len_bytes: u64) {
        self.in_len_bytes += in_len_bytes;
        self.out_len_bytes += out_len_bytes;
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
    pub(crate) stall_stop: Waits,
    pub(crate) stall_slowdown: Waits,
    pub(crate) stall_offload: Waits,
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
    /// Values that cleaning moved to other files.
    pub(crate) values_moved_bytes: AtomicU64,
    pub(crate) user_op_count: AtomicU64,
    pub(crate) user_bytes: AtomicU64,
    /// The part of the user's bytes whose log is on flash.
    pub(crate) offloaded_bytes: AtomicU64,
    /// The length of all logs, for readers that may not wait for the writer: a commit's caller may hold it.
    pub(crate) log_bytes: AtomicU64,
}

impl Tally {
    fn stalls(&self) -> [&Waits; 3] {
        [&self.stall_stop, &self.stall_slowdown, &self.stall_offload]
    }

    /// All waits of writes.
    pub(crate) fn waits(&self) -> StallMetrics {
        Waits::together(self.stalls())
    }

    /// Counts a batch of the user.
    pub(crate) fn note_write(&self, op_count: u64, len_bytes: u64, is_on_flash: bool) {
        self.user_op_count.fetch_add(op_count, Ordering::Relaxed);
        self.user_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        if is_on_flash {
            self.offloaded_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        }
    }

    /// Takes over the length of the logs.
    pub(crate) fn note_logs(&self, writer: &Writer) {
        self.log_bytes.store(writer.log_bytes(), Ordering::Relaxed);
    }

    /// The store's own totals since the opening.
    pub(crate) fn totals(&self) -> Totals {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [stop, slowdown, offload] =
            self.stalls().map(|waits| [waits.count(), waits.total_ns()]);
        let log = self.compactions.lock();
        Totals::of([
            (Total::UserWrites, load(&self.user_op_count)),
            (Total::UserBytes, load(&self.user_bytes)),
            (Total::LogBytes, load(&self.log_bytes)),
            (Total::Flushes, load(&self.flush_count)),
            (Total::FlushedBytes, load(&self.flush_out_bytes)),
            (Total::Compactions, log.count),
            (Total::Moves, log.move_count),
            (Total::CompactionRead, log.in_len_bytes),
            (Total::CompactionWritten, log.out_len_bytes),
            (Total::Stops, stop[0]),
            (Total::StopNs, stop[1]),
            (Total::Slowdowns, slowdown[0]),
            (Total::SlowdownNs, slowdown[1]),
            (Total::OffloadDelays, offload[0]),
            (Total::OffloadDelayNs, offload[1]),
            (Total::OffloadedBytes, load(&self.offloaded_bytes)),
        ])
    }
}
