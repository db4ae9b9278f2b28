//! Counters that several threads add to at once.

use crate::{Activity, ActivityCounters, ByActivity, Counters};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The running totals of a disk.
#[derive(Debug, Default)]
pub struct Tally {
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    zone_resets: AtomicU64,
    read_bytes: ByActivity<AtomicU64>,
    written_bytes: ByActivity<AtomicU64>,
}

impl Tally {
    /// A read has been served.
    pub fn read(&self, activity: Activity, len_bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes[activity].fetch_add(len_bytes as u64, Relaxed);
    }

    /// A write has been served.
    pub fn write(&self, activity: Activity, len_bytes: usize) {
        self.writes.fetch_add(1, Relaxed);
        self.written_bytes[activity].fetch_add(len_bytes as u64, Relaxed);
    }

    /// A flush has been served.
    pub fn flush(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    /// A zone was reset.
    pub fn reset(&self) {
        self.zone_resets.fetch_add(1, Relaxed);
    }

    /// The totals, without those that only a model of the mechanics knows.
    pub fn counters(&self) -> Counters {
        let by_activity = ByActivity::of(|activity| ActivityCounters {
            read_bytes: self.read_bytes[activity].load(Relaxed),
            written_bytes: self.written_bytes[activity].load(Relaxed),
            ..ActivityCounters::default()
        });
        let sum = |of: fn(&ActivityCounters) -> u64| by_activity.iter().map(|(_, c)| of(c)).sum();
        Counters {
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            zone_resets: self.zone_resets.load(Relaxed),
            read_bytes: sum(|counters| counters.read_bytes),
            written_bytes: sum(|counters| counters.written_bytes),
            by_activity,
            ..Counters::default()
        }
    }
}
