//! Watching a run: how far it is, and whether it should go on.
//!
//! ```text
//!   clients step, step, ...  every so many operations ---> watch(RunProgress) -> Continue | Break
//!   settling                 after every piece        --->                          |
//!   run: no more steps, the figures so far, the store closed in good order  <-------'
//! ```

use crate::benchmark::Benchmark;
use imbrex_engine::Progress;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunProgress {
    /// The benchmark at work.
    pub benchmark: Benchmark,
    /// Which one of those asked for it is, from 1.
    pub number: usize,
    /// How many were asked for.
    pub count: usize,
    /// What its clients or the store are at.
    pub phase: Phase,
    /// Operations or bytes done.
    pub done: u64,
    /// Operations or bytes to do, where that can be told.
    pub total: Option<u64>,
}

/// What a benchmark is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Clients do their operations, which are counted.
    Operations,
    /// The store works in the background, on behalf of nobody: bytes are counted.
    Background,
}

/// Looks on now and then, from any thread; `Break` ends the run.
pub type RunWatch<'a> = dyn Fn(&RunProgress) -> ControlFlow<()> + Sync + 'a;

/// One benchmark under watch.
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
    /// A client looks up from its work every so many operations.
    pub(crate) const LOOK_EVERY_OPS: u64 = 64;

    pub(crate) fn new(
        watch: &'a RunWatch<'a>,
        benchmark: Benchmark,
        (number, count): (usize, usize),
    ) -> Watcher<'a> {
        let (ops, is_stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        Watcher { watch, benchmark, number, count, ops, ops_total: None, is_stopped }
    }

    /// How many operations all clients are to do together.
    pub(crate) fn expect_ops(&mut self, total: Option<u64>) {
        self.ops_total = total;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// `ops` more are done; whether to go on.
    pub(crate) fn did(&self, ops: u64) -> bool {
        let done = self.ops.fetch_add(ops, Ordering::Relaxed) + ops;
        self.look(Phase::Operations, done, self.ops_total).is_continue()
    }

    /// As the engine's watch.
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
