//! Write-offloading: who writes while a compaction runs writes to the flash drive.
//!
//! ```text
//!   main drive   log | log |        compaction: reads, writes        | log |
//!   flash drive            | log | log | log | log | log | log | log |
//! ```
//!
//! A disk has one head: what is written while a compaction runs takes it away from the compaction, and the
//! compaction from what is written. So the log ends when a compaction begins, and goes on on flash
//! until none runs and none is due ([`crate::Options::offloads`]). With logs that are tables (`band`) what was offloaded stays on
//! flash until it is compacted to the disk.
//!
//! While nobody has compacted for a while, the disk is idle, and what the next burst would have to wait for is done
//! now: level 0 goes down whatever it holds, and the other levels from half of their length on
//! ([`crate::Options::eager_after_ns`]).
//!
//! Flash takes writes faster than compaction takes them away again, so most of a long burst ends there. A store may
//! delay each write while many files lie on flash, which lets more compactions run meanwhile
//! ([`crate::Options::offload_delay_ns`]).
//!
//! A log on flash is promised room for a memtable. Before a write that would make it longer while flash is full
//! the log ends, for which the promise suffices, and the next one begins on the disk.
//!
//! Source: the thesis' chapter 5.2, 5.3 and 5.4.2 (the delay). Not here: which drive a file lies on, and how room on
//! flash is promised (`imbrex_files::tiers::TieredFiles`).

use crate::store::Store;
use crate::store::job_count::Counted;
use imbrex_clockwork::{Budget, Job, Step};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often a period of idleness is looked for in its own length, but not more often than each millisecond.
const LOOKS_PER_PERIOD: u64 = 4;
const LOOK_AFTER_NS_MIN: u64 = 1_000_000;

/// Looks from time to time whether nobody has compacted for a while, until the store closes.
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
