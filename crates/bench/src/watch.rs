//! Progress of a run, and whether it should continue.
//!
//! ```text
//!   clients step, step, ...  after some operations ----> watch(RunProgress) -> Continue | Break
//!   settling                 after every piece        --->                          |
//!   run: no more steps, the figures so far, the store closed normally  <-------'
//! ```

use crate::benchmark::Benchmark;
use crate::testbed::Testbed;
use imbrex_engine::Progress;
use imbrex_watch::Subject;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunProgress {
    /// The running benchmark.
    pub benchmark: Benchmark,
    /// Its position among the requested benchmarks, from 1.
    pub number: usize,
    /// The number of requested benchmarks.
    pub count: usize,
    /// The phase of the benchmark.
    pub phase: Phase,
    /// Operations or bytes done.
    pub done: u64,
    /// Operations or bytes to do, if known.
    pub total: Option<u64>,
}

/// The phase of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Clients do operations; operations are counted.
    Operations,
    /// The store does background work while no client waits; bytes are counted.
    Background,
}

/// Called from time to time, from any thread; `Break` ends the run.
pub type RunWatch<'a> = dyn Fn(&RunProgress) -> ControlFlow<()> + Sync + 'a;

/// Called as often, with the moment in nanoseconds of the run's time, and the store.
pub type StoreWatch<'a> = dyn Fn(u64, Subject<'_>) + Sync + 'a;

/// Everybody who watches a run.
#[derive(Clone, Copy)]
pub struct RunWatches<'a> {
    /// Its progress.
    pub progress: &'a RunWatch<'a>,
    /// Its store.
    pub store: &'a StoreWatch<'a>,
}

impl<'a> RunWatches<'a> {
    /// Only its progress.
    pub fn new(progress: &'a RunWatch<'a>) -> RunWatches<'a> {
        RunWatches { progress, store: &|_, _| () }
    }
}

impl fmt::Debug for RunWatches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunWatches").finish_non_exhaustive()
    }
}

/// Watches one benchmark.
pub(crate) struct Watcher<'a> {
    watches: RunWatches<'a>,
    testbed: &'a Testbed,
    benchmark: Benchmark,
    number: usize,
    count: usize,
    ops: AtomicU64,
    ops_total: Option<u64>,
    is_stopped: AtomicBool,
}

impl<'a> Watcher<'a> {
    /// A client reports after this many operations.
    pub(crate) const LOOK_EVERY_OPS: u64 = 64;

    pub(crate) fn new(
        watches: RunWatches<'a>,
        testbed: &'a Testbed,
        benchmark: Benchmark,
        (number, count): (usize, usize),
    ) -> Watcher<'a> {
        let (ops, is_stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        Watcher { watches, testbed, benchmark, number, count, ops, ops_total: None, is_stopped }
    }

    /// Sets the number of operations of all clients together.
    pub(crate) fn expect_ops(&mut self, total: Option<u64>) {
        self.ops_total = total;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Adds `ops`; returns whether to continue.
    pub(crate) fn did(&self, ops: u64, now_ns: u64) -> bool {
        let done = self.ops.fetch_add(ops, Ordering::Relaxed) + ops;
        self.look(now_ns, Phase::Operations, done, self.ops_total).is_continue()
    }

    /// Reports the engine's progress.
    pub(crate) fn background(&self, progress: Progress) -> ControlFlow<()> {
        let total = (progress.total_bytes > 0).then_some(progress.total_bytes);
        self.look(self.testbed.clock().now_ns(), Phase::Background, progress.done_bytes, total)
    }

    fn look(&self, now_ns: u64, phase: Phase, done: u64, total: Option<u64>) -> ControlFlow<()> {
        let Watcher { benchmark, number, count, .. } = *self;
        let testbed = self.testbed;
        (self.watches.store)(now_ns, testbed.subject());
        let flow =
            (self.watches.progress)(&RunProgress { benchmark, number, count, phase, done, total });
        if flow.is_break() {
            self.stop();
        }
        if self.is_stopped() { ControlFlow::Break(()) } else { flow }
    }
}
