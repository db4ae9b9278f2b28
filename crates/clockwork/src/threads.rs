//! Production: a wall clock, and worker threads that loop over the steps of jobs.
//!
//! ```text
//!   spawn ---> runnable (first in, first out) ---> a worker steps it ---> Done: dropped
//!                  ^   ^                                |      |
//!                  |   +------------- More -------------+      | Wait
//!                  +---------- notify, or time passed --- parked
//! ```
//!
//! Invariants
//!   T1  No wake-up is lost: a job or caller that checked before a notify checks again after it.
//!   T2  No lock of the scheduler is held while a job's step, a job's drop or a `ready` runs.
//!   T3  A panic stays in its job: the worker continues, the job is dropped, its message is kept.
//!   T4  While a caller waits and every job is parked, the jobs and the caller check again each second: a
//!       change that its maker does not report costs a second, and nobody waits for ever.
//!
//! This module and `punctual` are the only ones that read a clock; this module and `crew` are the
//! only ones that start threads.

use crate::scheduler::BUDGET_DEFAULT;
use crate::{Budget, Clock, Job, Runtime, Scheduler, Stalled, Step};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The real time since the clock was created.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    start: Instant,
}

impl WallClock {
    /// A clock that reads 0 at its creation.
    #[expect(clippy::disallowed_methods, reason = "the one place where real time enters")]
    pub fn new() -> WallClock {
        WallClock { start: Instant::now() }
    }
}

impl Default for WallClock {
    fn default() -> Self {
        WallClock::new()
    }
}

impl Clock for WallClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
    fn advance_to_ns(&self, _at_ns: u64) {}
    fn wait_until_ns(&self, at_ns: u64) {
        // A moment so far ahead that the clock cannot represent it; it never comes.
        const CENTURY_NS: u64 = 3_155_760_000_000_000_000;
        crate::punctual::wait_until(self.start + Duration::from_nanos(at_ns.min(CENTURY_NS)));
    }
}

impl Runtime {
    /// Real time, and `worker_count` threads (at least one) for background work. The threads end
    /// when the last clone is dropped. Unfinished work of their jobs is then left undone.
    pub fn threads(worker_count: usize) -> Runtime {
        Runtime {
            clock: Arc::new(WallClock::new()),
            scheduler: Arc::new(ThreadScheduler::new(worker_count)),
        }
    }
}

/// Runs jobs on worker threads.
pub struct ThreadScheduler {
    shared: Arc<Shared>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    /// Signalled when a worker has work, or must end.
    runnable: Condvar,
    /// Signalled when a waiting caller must check again.
    changed: Condvar,
    /// Whether `State::panics` has entries, for frequent checks.
    has_panicked: AtomicBool,
    budget: Budget,
}

/// How long a caller waits beside parked jobs before all check again (T4).
const CHECK_AGAIN: Duration = Duration::from_secs(1);

/// No job is parked longer than this: a day.
const LONG_NS: u64 = 86_400_000_000_000;

#[derive(Default)]
struct State {
    runnable: VecDeque<Box<dyn Job>>,
    parked: Vec<Box<dyn Job>>,
    /// Parked until a moment.
    timed: Vec<(Instant, Box<dyn Job>)>,
    /// Counts notifies. A caller that checked under an older count must check again (T1).
    generation: u64,
    stepping_count: usize,
    panics: Vec<String>,
    is_stopping: bool,
}

impl ThreadScheduler {
    /// A scheduler with `worker_count` threads, at least one.
    pub fn new(worker_count: usize) -> ThreadScheduler {
        ThreadScheduler::with_budget(worker_count, BUDGET_DEFAULT)
    }

    /// Like [`ThreadScheduler::new`], with the budget of a step.
    #[expect(clippy::disallowed_methods, reason = "the one place where threads start")]
    pub fn with_budget(worker_count: usize, budget: Budget) -> ThreadScheduler {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            runnable: Condvar::new(),
            changed: Condvar::new(),
            has_panicked: AtomicBool::new(false),
            budget,
        });
        let workers = (0..worker_count.max(1))
            .map(|_| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.work())
            })
            .collect();
        ThreadScheduler { shared, workers: Mutex::new(workers) }
    }

    /// The messages of the jobs that panicked, in order: `name: message`. Entries are never
    /// removed.
    pub fn panics(&self) -> Vec<String> {
        self.shared.lock().panics.clone()
    }

    /// Whether a job has panicked. Cost: a load.
    pub fn has_panicked(&self) -> bool {
        self.shared.has_panicked.load(Ordering::Acquire)
    }

    /// Ends the workers after their current steps, drops all jobs, then waits for the workers.
    /// Waiting callers wake with [`Stalled`]; later jobs are dropped at once.
    pub fn stop(&self) {
        let mut state = self.shared.lock();
        state.is_stopping = true;
        let parked = (std::mem::take(&mut state.parked), std::mem::take(&mut state.timed));
        let jobs = (std::mem::take(&mut state.runnable), parked);
        drop(state);
        self.shared.runnable.notify_all();
        self.shared.changed.notify_all();
        drop(jobs);
        let workers = std::mem::take(&mut *ignore_poison(self.workers.lock()));
        let me = std::thread::current().id();
        for worker in workers {
            // A job may hold the last clone of its runtime; then a worker stops itself.
            if worker.thread().id() != me {
                worker.join().expect("T3: workers do not panic");
            }
        }
    }
}

impl Scheduler for ThreadScheduler {
    fn spawn(&self, job: Box<dyn Job>) {
        let mut state = self.shared.lock();
        if state.is_stopping {
            drop(state);
            drop(job);
            return;
        }
        state.runnable.push_back(job);
        drop(state);
        self.shared.runnable.notify_one();
    }

    fn yield_now(&self) {}

    fn wait_until(&self, ready: &mut dyn FnMut() -> bool) -> Result<(), Stalled> {
        loop {
            let (generation, is_hopeless) = {
                let state = self.shared.lock();
                (state.generation, state.is_stopping || !state.panics.is_empty())
            };
            if ready() {
                return Ok(());
            }
            if is_hopeless {
                return Err(Stalled);
            }
            let mut state = self.shared.lock();
            while state.generation == generation && !state.is_stopping {
                let waited = self.shared.changed.wait_timeout(state, CHECK_AGAIN);
                let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                state = woken;
                if timeout.timed_out() && state.is_parked() {
                    drop(state);
                    self.shared.notify();
                    break;
                }
            }
        }
    }

    fn notify(&self) {
        self.shared.notify();
    }
}

impl Drop for ThreadScheduler {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for ThreadScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("ThreadScheduler")
            .field("runnable", &state.runnable.iter().map(|job| job.name()).collect::<Vec<_>>())
            .field("parked", &state.parked.iter().map(|job| job.name()).collect::<Vec<_>>())
            .field("timed", &state.timed.iter().map(|(_, job)| job.name()).collect::<Vec<_>>())
            .field("stepping_count", &state.stepping_count)
            .field("panics", &state.panics)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Whether no job runs or is about to run.
    fn is_parked(&self) -> bool {
        self.stepping_count == 0 && self.runnable.is_empty()
    }

    /// Makes jobs runnable whose moment has come. Returns whether there were any.
    #[expect(clippy::disallowed_methods, reason = "real time decides when they run")]
    fn wake_timed(&mut self) -> bool {
        let (now, before) = (Instant::now(), self.runnable.len());
        for (until, job) in std::mem::take(&mut self.timed) {
            if until <= now { self.runnable.push_back(job) } else { self.timed.push((until, job)) }
        }
        self.runnable.len() > before
    }

    /// How long until the first of them may run.
    #[expect(clippy::disallowed_methods, reason = "real time decides when they run")]
    fn time_left(&self) -> Option<Duration> {
        let first = self.timed.iter().map(|(until, _)| *until).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    /// Parks a job for `ns`.
    #[expect(clippy::disallowed_methods, reason = "real time decides when it runs")]
    fn park_for(&mut self, ns: u64, job: Box<dyn Job>) {
        self.timed.push((Instant::now() + Duration::from_nanos(ns.min(LONG_NS)), job));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }

    fn notify(&self) {
        let mut state = self.lock();
        state.generation += 1;
        let parked = std::mem::take(&mut state.parked);
        let timed = std::mem::take(&mut state.timed);
        let woke_any = !parked.is_empty() || !timed.is_empty();
        state.runnable.extend(parked.into_iter().chain(timed.into_iter().map(|(_, job)| job)));
        drop(state);
        if woke_any {
            self.runnable.notify_all();
        }
        self.changed.notify_all();
    }

    fn note_panic(&self, state: &mut State, story: String) {
        state.panics.push(story);
        self.has_panicked.store(true, Ordering::Release);
    }

    /// The loop of a worker.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if state.is_stopping {
                return;
            }
            // This worker takes one job. A resting worker may have no moment of its own at which to
            // wake.
            if !state.timed.is_empty() && state.wake_timed() && state.runnable.len() > 1 {
                self.runnable.notify_all();
            }
            let Some(mut job) = state.runnable.pop_front() else {
                state = match state.time_left() {
                    None => ignore_poison(self.runnable.wait(state)),
                    Some(left) => {
                        let waited = self.runnable.wait_timeout(state, left);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
                continue;
            };
            let generation = state.generation;
            state.stepping_count += 1;
            drop(state);

            let outcome = catch_unwind(AssertUnwindSafe(|| job.step(self.budget)));
            state = self.lock();
            state.stepping_count -= 1;
            let is_kept = !matches!(outcome, Ok(Step::Done) | Err(_)) && !state.is_stopping;
            match outcome {
                Ok(Step::Wait) if is_kept && state.generation == generation => {
                    state.parked.push(job);
                    continue;
                }
                Ok(Step::WaitFor { ns }) if is_kept && state.generation == generation => {
                    state.park_for(ns, job);
                    continue;
                }
                Ok(_) if is_kept => {
                    state.runnable.push_back(job);
                    continue;
                }
                Ok(_) => {}
                Err(payload) => {
                    let story = format!("{}: {}", job.name(), panic_message(&*payload));
                    self.note_panic(&mut state, story);
                }
            }
            drop(state);
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(job))) {
                let story = format!("dropping a job: {}", panic_message(&*payload));
                self.note_panic(&mut self.lock(), story);
            }
            // A caller may be waiting for the end of the job.
            self.notify();
            state = self.lock();
        }
    }
}

/// Maps `items` through `f` on `worker_count` threads (at least one). The results are in the order
/// of the items, whatever the order in which they were computed.
///
/// This is for many independent runs at once, for example over seeds; not for work inside a store.
/// All threads are started before the first item.
///
/// # Panics
/// If `f` panics; or if the system refuses a thread, before any item is processed.
pub fn fan_out<T, R>(worker_count: usize, items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R>
where
    T: Sync,
    R: Send,
{
    let done = try_fan_out(worker_count, items, f);
    done.unwrap_or_else(|error| panic!("cannot start {worker_count} threads: {error}"))
}

/// Like [`fan_out`], for more threads than the system may provide.
///
/// # Errors
/// The system refuses a thread. No item was processed.
///
/// # Panics
/// If `f` panics.
pub fn try_fan_out<T, R>(
    worker_count: usize,
    items: &[T],
    f: impl Fn(&T) -> R + Sync,
) -> std::io::Result<Vec<R>>
where
    T: Sync,
    R: Send,
{
    let next = AtomicUsize::new(0);
    let are_all_there: OnceLock<bool> = OnceLock::new();
    let worker = || {
        let mut results = Vec::new();
        if !*are_all_there.wait() {
            return results;
        }
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return results };
            results.push((index, f(item)));
        }
    };
    let results: std::io::Result<Vec<(usize, R)>> = std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, worker);
        let helpers: Result<Vec<_>, _> = (1..worker_count).map(spawn).collect();
        // Without this the threads that were started would wait for ever.
        are_all_there.get_or_init(|| helpers.is_ok());
        let mut results = worker();
        for helper in helpers? {
            match helper.join() {
                Ok(more) => results.extend(more),
                Err(payload) => std::panic::resume_unwind(payload),
            }
        }
        Ok(results)
    });
    let mut results = results?;
    results.sort_by_key(|&(index, _)| index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_string())
}

/// No panic can occur while the scheduler's own locks are held, so a poisoned lock guards intact
/// data.
fn ignore_poison<T>(result: Result<T, PoisonError<T>>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
