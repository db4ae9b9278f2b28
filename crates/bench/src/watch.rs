//! Progress of a run, and whether it should continue.
//!
//! ```text
//!   clients step, step, ...  after some operations ----> watch(RunProgress) -> Continue | Break
//!   settling                 after every piece        --->                          |
//!   run: no more steps, the figures so far, the store closed normally  <-------'
//! ```

use crate::benchmark::Benchmark;
use imbrex_engine::Progress;
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

/// Watches one benchmark.
pub(crate) struct Watcher<'a> {
    watch: &'a RunWatch<'a>,
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
        watch: &'a RunWatch<'a>,
        benchmark: Benchmark,
        (number, count): (usize, usize),
    ) -> Watcher<'a> {
        let (ops, is_stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        Watcher { watch, benchmark, number, count, ops, ops_total: None, is_stopped }
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
    pub(crate) fn did(&self, ops: u64) -> bool {
        let done = self.ops.fetch_add(ops, Ordering::Relaxed) + ops;
        self.look(Phase::Operations, done, self.ops_total).is_continue()
    }

    /// Reports the engine's progress.
    pub(crate) fn background(&self, progress: Progress) -> ControlFlow<()> {
        let total = (progress.total_bytes > 0).then_some(progress.total_bytes);
        self.look(Phase::Background, progress.done_bytes, total)
    }

    fn look(&self, phase: Phase, done: u64, total: Option<u64>) -> ControlFlow<()> {
        let Watcher { benchmark, number, count, .. } = *self;
        let flow = (self.watch)(&RunProgress { benchmark, number, count, phase, done, total });
        if flow.is_break() {
            self.stop();
        }
        if self.is_stopped() { ControlFlow::Break(()) } else { flow }
    }
}
