//! Runs benchmarks one after another on one testbed and collects their figures.
//!
//! ```text
//!   for each benchmark:  empty the store (fills) -> clients -> settle -> figures since the start
//!
//!   threads   each client loops on its own thread
//!   virtual   the client with the smallest local time does its next operation, on this thread
//!             a write starts when the one before it has ended, as on threads (`write_turns`)
//! ```

use crate::benchmark::{Benchmark, Task};
use crate::client::{Client, Tally};
use crate::error::BenchError;
use crate::options::{BenchOptions, Mode};
use crate::report::{Report, RunReport, Setup, StoreFigures};
use crate::testbed::{Reading, Testbed};
use crate::watch::{RunWatches, Watcher};
use crate::write_turns::WriteTurns;
use imbrex::stack::error_text;
use imbrex_clockwork::{ClientId, VirtualWorld, fan_out};
use imbrex_engine::EngineError;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs the benchmarks of `options` and returns all figures.
///
/// Calls `finished` after each benchmark, so that a long run can show its results.
///
/// # Errors
/// [`RunFailure`] with [`BenchError::Options`]: the options contradict themselves; with any error of the
/// drive, the file layer or the engine, and with the report of the benchmarks that had ended.
pub fn run(
    options: &BenchOptions,
    finished: &mut dyn FnMut(&RunReport),
) -> Result<Report, Box<RunFailure>> {
    run_watched(options, finished, RunWatches::new(&|_| ControlFlow::Continue(())))
}

/// Like [`run`], with progress: calls both of `watches` from time to time, and ends the run if the
/// progress returns `Break`. The report then covers the work up to that moment, and the store is closed as usual.
///
/// # Errors
/// Those of [`run`].
pub fn run_watched(
    options: &BenchOptions,
    finished: &mut dyn FnMut(&RunReport),
    watches: RunWatches<'_>,
) -> Result<Report, Box<RunFailure>> {
    if let Some(fault) = options.fault() {
        return Err(BenchError::Options(fault).into());
    }
    let testbed = Testbed::new(options.plan())?;
    let setup = setup(&testbed, options);
    let mut report = Report { setup, interrupted: false, failure: None, runs: Vec::new() };
    match run_all(testbed, options, &mut report, finished, watches) {
        Ok(()) => Ok(report),
        Err(error) => {
            report.failure = Some(error_text(&error));
            Err(Box::new(RunFailure { error, report: Some(report) }))
        }
    }
}

/// A run that failed.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RunFailure {
    /// Why.
    #[source]
    pub error: BenchError,
    /// What had ended before; `None` if there was no store yet.
    pub report: Option<Report>,
}

impl From<BenchError> for Box<RunFailure> {
    fn from(error: BenchError) -> Box<RunFailure> {
        Box::new(RunFailure { error, report: None })
    }
}

impl From<Box<RunFailure>> for BenchError {
    fn from(failure: Box<RunFailure>) -> BenchError {
        failure.error
    }
}

/// Runs the benchmarks one after another, and adds the figures of each to `report`.
fn run_all(
    mut testbed: Testbed,
    options: &BenchOptions,
    report: &mut Report,
    finished: &mut dyn FnMut(&RunReport),
    watches: RunWatches<'_>,
) -> Result<(), BenchError> {
    let count = options.benchmarks.len();
    for (&task, number) in options.benchmarks.iter().zip(1..) {
        // The first benchmark may find data of an earlier run, if the drive is not new.
        let may_hold_some = number > 1 || testbed.was_there();
        if task.benchmark.is_fresh() && !options.use_existing_db && may_hold_some {
            testbed = testbed.emptied(options.plan())?;
        }
        let mut watcher = Watcher::new(watches, &testbed, task.benchmark, (number, count));
        let earlier = options.benchmarks[..number - 1].iter();
        let round = earlier.filter(|earlier| earlier.benchmark == task.benchmark).count();
        let run = run_one(&testbed, (task, round), options, &mut watcher)?;
        finished(&run);
        report.interrupted = run.interrupted;
        report.runs.push(run);
        if report.interrupted {
            break;
        }
    }
    testbed.close()
}

fn setup(testbed: &Testbed, options: &BenchOptions) -> Setup {
    Setup {
        drive: testbed.drive_name().to_string(),
        capacity_bytes: testbed.capacity_bytes(),
        layout: testbed.layout().to_string(),
        mode: options.mode,
        seed: options.seed,
        num: options.num,
        key_len_bytes: options.key_size,
        value_len_bytes: options.value_size,
        threads: options.threads,
    }
}

/// Runs a task whose benchmark was run `round` times before.
fn run_one(
    testbed: &Testbed,
    (task, round): (Task, usize),
    options: &BenchOptions,
    watcher: &mut Watcher<'_>,
) -> Result<RunReport, BenchError> {
    let benchmark = task.benchmark;
    let context = |source| BenchError::Engine { what: benchmark.to_string(), source };
    let turns = testbed.world().map(|_| Arc::new(WriteTurns::new(testbed.shared_clock())));
    let client = |task, index| {
        let client = Client::new((task, round), index, options, testbed.db(), testbed.keyspace());
        client.in_turns(turns.clone())
    };
    let mut clients: Vec<Client> = (0..options.threads).map(|index| client(task, index)).collect();
    let limit = |client: &Client| client.limit();
    let ops_total = clients.iter().map(limit).fold(0, u64::saturating_add);
    watcher.expect_ops(options.duration.is_none().then_some(ops_total));
    let watcher = &*watcher;
    // The companion comes last, so that the first clients are the same with and without it.
    let has_companion = benchmark == Benchmark::ReadWhileWriting;
    if has_companion {
        let overwrite = Task { benchmark: Benchmark::Overwrite, ops: None };
        clients.push(client(overwrite, options.threads).without_limit());
    }
    let before = testbed.reading();
    let duration_ns = options.duration.map_or(u64::MAX, |s| s.saturating_mul(1_000_000_000));
    let deadline_ns = before.now_ns.saturating_add(duration_ns);
    let limits = Limits { companion: has_companion, deadline_ns };
    let ended_ns = match testbed.world() {
        Some(world) => take_turns(testbed, world, &mut clients, limits, watcher),
        None => race(testbed, &mut clients, limits, watcher),
    }
    .map_err(context)?;
    let mut tally = Tally::new();
    let counted = options.threads as usize;
    for (index, client) in clients.iter().enumerate() {
        tally.add(&client.tally, index < counted);
    }
    drop(clients);
    if options.settle && benchmark.is_write() && !watcher.is_stopped() {
        testbed.db().flush().map_err(context)?;
        let settled = testbed.db().wait_idle_with(&mut |progress| watcher.background(progress));
        unless_stopped(settled).map_err(context)?;
    }
    let mut report = figures(benchmark, &tally, &before, ended_ns, &testbed.reading(), options);
    report.interrupted = watcher.is_stopped();
    Ok(report)
}

/// Treats a requested stop as success.
pub(crate) fn unless_stopped(result: Result<(), EngineError>) -> Result<(), EngineError> {
    match result {
        Err(EngineError::Stopped { .. }) => Ok(()),
        result => result,
    }
}

/// When clients stop early.
#[derive(Clone, Copy)]
struct Limits {
    /// Whether the last client only accompanies the others and stops with them.
    companion: bool,
    deadline_ns: u64,
}

/// Virtual mode: steps the client with the smallest local time, ties by number, until all clients
/// that count are done. Returns when the last one ended.
fn take_turns(
    testbed: &Testbed,
    world: &VirtualWorld,
    clients: &mut [Client],
    limits: Limits,
    watcher: &Watcher<'_>,
) -> Result<u64, EngineError> {
    let counted = clients.len() - usize::from(limits.companion);
    let mut looked_at_ops = 0;
    let actors: Vec<ClientId> =
        (0..clients.len()).map(|index| world.client(&format!("client {index}"))).collect();
    let mut is_done = vec![false; clients.len()];
    let mut ended_ns = testbed.clock().now_ns();
    while is_done[..counted].contains(&false) {
        let index = (0..clients.len())
            .filter(|&index| !is_done[index])
            .min_by_key(|&index| world.client_now_ns(actors[index]))
            .expect("the loop runs while one is not done");
        let step = world.as_client(actors[index], || clients[index].step(testbed.clock(), watcher));
        let mut more = going_on(step)?;
        let ops: u64 = clients[..counted].iter().map(|client| client.tally.ops).sum();
        if ops - looked_at_ops >= Watcher::LOOK_EVERY_OPS {
            let now_ns = world.client_now_ns(actors[index]);
            more &= watcher.did(ops - looked_at_ops, now_ns);
            looked_at_ops = ops;
        }
        if watcher.is_stopped() {
            is_done.fill(true);
        }
        let now_ns = world.client_now_ns(actors[index]);
        is_done[index] |= !more || now_ns >= limits.deadline_ns;
        if index < counted {
            ended_ns = ended_ns.max(now_ns);
        }
    }
    testbed.clock().advance_to_ns(ended_ns);
    Ok(ended_ns)
}

/// Threads mode: each client loops on its own thread. Returns when the last one ended.
fn race(
    testbed: &Testbed,
    clients: &mut [Client],
    limits: Limits,
    watcher: &Watcher<'_>,
) -> Result<u64, EngineError> {
    let counted = clients.len() - usize::from(limits.companion);
    let at_work_count = AtomicUsize::new(counted);
    let stop = || watcher.stop();
    let turns: Vec<(usize, Mutex<&mut Client>)> =
        clients.iter_mut().map(Mutex::new).enumerate().collect();
    let ended = fan_out(turns.len(), &turns, |(index, client)| {
        let mut client = client.lock().unwrap_or_else(PoisonError::into_inner);
        let _at_work = (*index < counted).then(|| AtWork::new(&at_work_count, &stop));
        let mut more = true;
        let mut outcome = Ok(());
        let mut looked_at_ops = 0;
        while more && outcome.is_ok() && !watcher.is_stopped() {
            match going_on(client.step(testbed.clock(), watcher)) {
                Ok(has_more) => more = has_more && testbed.clock().now_ns() < limits.deadline_ns,
                Err(error) => outcome = Err(error),
            }
            let ops = client.tally.ops;
            if *index < counted && ops - looked_at_ops >= Watcher::LOOK_EVERY_OPS {
                watcher.did(ops - looked_at_ops, testbed.clock().now_ns());
                looked_at_ops = ops;
            }
            if *index >= counted && at_work_count.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        outcome.map(|()| if *index < counted { testbed.clock().now_ns() } else { 0 })
    });
    ended.into_iter().try_fold(0, |last_ns, ended| ended.map(|ns: u64| last_ns.max(ns)))
}

/// A running client, which another thread waits for. On drop, also after a panic, it decrements the
/// count of running clients; after a panic it also stops the others.
pub(crate) struct AtWork<'a> {
    count: &'a AtomicUsize,
    stop: &'a (dyn Fn() + Sync),
}

impl<'a> AtWork<'a> {
    /// Marks one of `count` clients as running.
    pub(crate) fn new(count: &'a AtomicUsize, stop: &'a (dyn Fn() + Sync)) -> AtWork<'a> {
        AtWork { count, stop }
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.stop)();
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a client has more to do; a step that was stopped has not.
fn going_on(step: Result<bool, EngineError>) -> Result<bool, EngineError> {
    match step {
        Err(EngineError::Stopped { .. }) => Ok(false),
        step => step,
    }
}

/// The figures between two readings.
fn figures(
    benchmark: Benchmark,
    tally: &Tally,
    before: &Reading,
    ended_ns: u64,
    after: &Reading,
    options: &BenchOptions,
) -> RunReport {
    let elapsed_ns = ended_ns - before.now_ns;
    let figures = store_figures(tally.ops, tally.written_bytes, (before, after), options.mode);
    let StoreFigures { engine, drive, space, host, compactions } = figures;
    RunReport {
        benchmark: benchmark.to_string(),
        interrupted: false,
        ops: tally.ops,
        found: tally.found,
        written_bytes: tally.written_bytes,
        read_bytes: tally.read_bytes,
        elapsed_ns,
        settled_ns: after.now_ns - before.now_ns,
        ops_per_second: per_second(tally.ops, elapsed_ns),
        latency: tally.latencies.summary(),
        engine,
        drive,
        space,
        host,
        compactions,
    }
}

/// The figures of store, drive and machine between two readings, for `ops` operations that wrote
/// `written_bytes`.
pub(crate) fn store_figures(
    ops: u64,
    written_bytes: u64,
    (before, after): (&Reading, &Reading),
    mode: Mode,
) -> StoreFigures {
    let mut engine = after.engine_since(before);
    let stored_bytes = engine.flush_bytes + engine.compaction_out_bytes;
    engine.write_amp_ratio = ratio(stored_bytes, written_bytes, 0.0);
    let mut drive = after.drive_since(before);
    drive.ops_per_disk_second = per_second(ops, drive.busy_ns);
    let told_bytes = drive.written_bytes - drive.added_written_bytes;
    drive.added_write_amp_ratio = ratio(drive.written_bytes, told_bytes, 1.0);
    drive.multiplied_write_amp_ratio = engine.write_amp_ratio * drive.added_write_amp_ratio;
    let host = (mode == Mode::Threads).then(|| {
        let mut host = after.host_since(before);
        host.ops_per_cpu_second = per_second(ops, host.cpu_ns);
        host
    });
    let (space, compactions) = (after.space, after.compactions_since(before));
    StoreFigures { engine, drive, space, host, compactions }
}

pub(crate) fn per_second(ops: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { ops as f64 * 1e9 / ns as f64 }
}

/// `part / whole`, or `otherwise` if there is no whole.
fn ratio(part: u64, whole: u64, otherwise: f64) -> f64 {
    if whole == 0 { otherwise } else { part as f64 / whole as f64 }
}
