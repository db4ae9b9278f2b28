//! Counters that several threads add to at once.

use imbrex_disk::Counters;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The running totals of a disk.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    zone_resets: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Tally {
    pub(crate) fn read(&self, len_bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(len_bytes as u64, Relaxed);
    }

    pub(crate) fn write(&self, len_bytes: usize) {
        self.writes.fetch_add(1, Relaxed);
        self.written_bytes.fetch_add(len_bytes as u64, Relaxed);
    }

    pub(crate) fn flush(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    pub(crate) fn reset(&self) {
        self.zone_resets.fetch_add(1, Relaxed);
    }

    /// The totals, without what only mechanics know.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        counters.reads = self.reads.load(Relaxed);
        counters.writes = self.writes.load(Relaxed);
        counters.flushes = self.flushes.load(Relaxed);
        counters.zone_resets = self.zone_resets.load(Relaxed);
        counters.read_bytes = self.read_bytes.load(Relaxed);
        counters.written_bytes = self.written_bytes.load(Relaxed);
        counters
    }
}
