//! Whether a compaction runs, and if not, since when.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether a compaction runs, and when the last one ended.
#[derive(Debug, Default)]
pub(crate) struct Compacting {
    pub(crate) is_running: AtomicBool,
    pub(crate) ended_ns: AtomicU64,
    pub(crate) is_eager: AtomicBool,
    /// What the running compactions have written. They give it back when they release their inputs.
    pub(crate) written_bytes: AtomicU64,
}

impl Compacting {
    /// Notes that a compaction begins; `is_first` if no other runs.
    pub(crate) fn begin(&self, is_first: bool) {
        if is_first {
            self.written_bytes.store(0, Ordering::Relaxed);
        }
        self.is_running.store(true, Ordering::Release);
        self.is_eager.store(false, Ordering::Release);
    }

    /// Notes that a compaction ended; others may run (`is_last` if none does) or be due.
    pub(crate) fn note_end(&self, now_ns: u64, is_last: bool) {
        if is_last {
            self.written_bytes.store(0, Ordering::Relaxed);
        }
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
