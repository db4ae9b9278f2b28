//! Write offloading: while a compaction runs, writes go to a log on the flash drive.
//!
//! ```text
//!   main drive   log | log |        compaction: reads, writes        | log |
//!   flash drive            | log | log | log | log | log | log | log |
//! ```
//!
//! A disk has one head, so writes and a compaction that run at the same time slow each other down.
//! The log therefore ends when a compaction begins, and the next log is on flash until no
//! compaction runs or is due ([`crate::Options::offloads`]). If logs become tables (`band`),
//! offloaded writes stay on flash until they are compacted to the disk.
//!
//! After a period without compaction the disk counts as idle, and the store does work that the next
//! burst would have to wait for. It compacts level 0 whatever it holds, and the other levels from
//! half of their length on ([`crate::Options::eager_after_ns`]).
//!
//! Flash absorbs writes faster than compaction moves them to the disk, so most of a long burst ends
//! up on flash. A store may delay each write while flash holds many files, so that more compactions
//! run meanwhile ([`crate::Options::offload_delay_ns`]).
//!
//! A log on flash is promised room for one memtable. If flash is full, a write that would make the
//! log longer ends the log first; the promise covers the end of the log. The next log begins on the
//! disk.
//!
//! Source: chapters 5.2, 5.3 and 5.4.2 (the delay) of the thesis. Not here: which drive a file is
//! on, and how room on flash is promised (`imbrex_files::tiers::TieredFiles`).

use crate::store::Store;
use crate::store::job_count::Counted;
use imbrex_clockwork::{Budget, Job, Step};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many times in an idle period the job looks, but not more often than every millisecond.
const LOOKS_PER_PERIOD: u64 = 4;
const LOOK_AFTER_NS_MIN: u64 = 1_000_000;

/// Checks from time to time whether the store has been without compaction for the idle period,
/// until the store closes.
#[derive(Debug)]
pub(crate) struct EagerJob {
    store: Counted<Arc<Store>>,
}

impl EagerJob {
    pub(crate) fn new(store: Arc<Store>) -> EagerJob {
        EagerJob { store: store.jobs.count(Arc::clone(&store)) }
    }
}

impl Job for EagerJob {
    fn name(&self) -> &'static str {
        "look for idleness"
    }

    fn step(&mut self, _budget: Budget) -> Step {
        let store = &self.store;
        if store.is_closing.load(Ordering::Acquire) {
            return Step::Done;
        }
        let compacting = &store.compacting;
        let after_ns = store.options.eager_after_ns;
        let since_ns = compacting.ended_ns.load(Ordering::Acquire);
        let idle_ns = store.runtime.clock.now_ns().saturating_sub(since_ns);
        let is_idle = !compacting.is_running.load(Ordering::Acquire) && after_ns <= idle_ns;
        if is_idle && !compacting.is_eager.swap(true, Ordering::AcqRel) {
            store.runtime.scheduler.notify();
        }
        Step::WaitFor { ns: (after_ns / LOOKS_PER_PERIOD).max(LOOK_AFTER_NS_MIN) }
    }
}
