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

use crate::job_count::Counted;
use crate::store::Store;
use imbrex_clockwork::{Budget, Job, Step};
use imbrex_files::Tier;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How often a period of idleness is looked for in its own length, but not more often than each millisecond.
const LOOKS_PER_PERIOD: u64 = 4;
const LOOK_AFTER_NS_MIN: u64 = 1_000_000;

/// Whether a compaction runs, and when the last one ended.
#[derive(Debug, Default)]
pub(crate) struct Compacting {
    is_running: AtomicBool,
    ended_ns: AtomicU64,
    is_eager: AtomicBool,
}

impl Compacting {
    /// A compaction begins.
    pub(crate) fn begin(&self) {
        self.is_running.store(true, Ordering::Release);
        self.is_eager.store(false, Ordering::Release);
    }

    /// One ended; others may run or be due.
    pub(crate) fn note_end(&self, now_ns: u64) {
        self.ended_ns.store(now_ns, Ordering::Release);
    }

    /// None runs, and none is due.
    pub(crate) fn rest(&self) {
        self.is_running.store(false, Ordering::Release);
    }

    /// Whether to compact what is not due yet.
    pub(crate) fn is_eager(&self) -> bool {
        self.is_eager.load(Ordering::Acquire)
    }
}

impl Store {
    /// Where a log should be begun now.
    pub(crate) fn wanted_tier(&self) -> Tier {
        let is_running = self.compacting.is_running.load(Ordering::Acquire);
        if self.options.offloads && is_running { Tier::Fast } else { Tier::Main }
    }

    /// Whether more files lie on flash than writes should go on adding to at full speed.
    pub(crate) fn is_flash_crowded(&self) -> bool {
        let options = &self.options;
        options.offloads
            && options.offload_delay_ns > 0
            && options.offloaded_file_count_max < self.files.flash_file_count()
    }

    /// Holds one write up for a while.
    pub(crate) fn delay_offloading(&self) {
        let clock = &self.runtime.clock;
        let start_ns = clock.now_ns();
        clock.wait_until_ns(start_ns.saturating_add(self.options.offload_delay_ns));
        self.tally.stall_offload.note(clock.now_ns().saturating_sub(start_ns));
    }
}

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
