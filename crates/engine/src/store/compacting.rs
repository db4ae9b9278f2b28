//! Whether a compaction runs, and if not, since when.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether a compaction runs, and when the last one ended.
#[derive(Debug, Default)]
pub(crate) struct Compacting {
    pub(crate) is_running: AtomicBool,
    pub(crate) ended_ns: AtomicU64,
    pub(crate) is_eager: AtomicBool,
}

impl Compacting {
    /// Notes that a compaction begins.
    pub(crate) fn begin(&self) {
        self.is_running.store(true, Ordering::Release);
        self.is_eager.store(false, Ordering::Release);
    }

    /// Notes that a compaction ended; others may run or be due.
    pub(crate) fn note_end(&self, now_ns: u64) {
        self.ended_ns.store(now_ns, Ordering::Release);
    }

    /// Notes that no compaction runs or is due; returns whether that is new.
    pub(crate) fn rest(&self) -> bool {
        self.is_running.swap(false, Ordering::AcqRel)
    }

    /// Whether policies should plan compactions that are not due yet.
    pub(crate) fn is_eager(&self) -> bool {
        self.is_eager.load(Ordering::Acquire)
    }
}
