//! Threads without sleeping: every wait is for an event.

use crate::{Budget, Clock, Job, Runtime, Scheduler, Stalled, Step, ThreadScheduler, fan_out};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Does one unit of work in each step while there is any, and reports that to the scheduler.
struct Worker {
    todo: Arc<AtomicU64>,
    done: Arc<AtomicU64>,
    scheduler: Arc<ThreadScheduler>,
    drops: Arc<AtomicU64>,
}

impl Job for Worker {
    fn name(&self) -> &'static str {
        "work"
    }
    fn step(&mut self, budget: Budget) -> Step {
        assert_eq!(budget.io_bytes, 1 << 20);
        let took = self.todo.fetch_update(SeqCst, SeqCst, |todo| todo.checked_sub(1)).is_ok();
        if !took {
            return Step::Wait;
        }
        self.done.fetch_add(1, SeqCst);
        self.scheduler.notify();
        Step::More
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.drops.fetch_add(1, SeqCst);
    }
}

#[test]
fn jobs_share_workers_park_and_wake() {
    for worker_count in [0, 1, 3] {
        let scheduler = Arc::new(ThreadScheduler::new(worker_count));
        let [todo, done, drops] = std::array::from_fn(|_| Arc::new(AtomicU64::new(0)));
        for _ in 0..5 {
            scheduler.spawn(Box::new(Worker {
                todo: Arc::clone(&todo),
                done: Arc::clone(&done),
                scheduler: Arc::clone(&scheduler),
                drops: Arc::clone(&drops),
            }));
        }
        for round in 1..=50 {
            todo.fetch_add(20, SeqCst);
            scheduler.notify();
            scheduler.wait_until(&mut || done.load(SeqCst) == 20 * round).unwrap();
        }
        // The jobs hold the scheduler that holds them; stopping it breaks the cycle.
        scheduler.stop();
        assert_eq!(drops.load(SeqCst), 5);
        assert_eq!(Arc::strong_count(&scheduler), 1);
        assert!(scheduler.panics().is_empty());
        assert_eq!(scheduler.wait_until(&mut || false), Err(Stalled));
    }
}

struct Closure<F>(F);

impl<F: FnMut() -> Step + Send> Job for Closure<F> {
    fn name(&self) -> &'static str {
        "closure"
    }
    fn step(&mut self, _budget: Budget) -> Step {
        (self.0)()
    }
}

#[test]
fn a_panic_wakes_waiters_and_is_reported() {
    let scheduler = ThreadScheduler::new(1);
    assert!(!scheduler.has_panicked());
    scheduler.spawn(Box::new(Closure(|| panic!("block {} is gone", 7))));
    assert_eq!(scheduler.wait_until(&mut || false), Err(Stalled));
    assert_eq!(scheduler.panics(), ["closure: block 7 is gone"]);
    assert!(scheduler.has_panicked());
    // The worker is still alive.
    let ran = Arc::new(Mutex::new(false));
    let flag = Arc::clone(&ran);
    let (sender, receiver) = std::sync::mpsc::channel();
    scheduler.spawn(Box::new(Closure(move || {
        *flag.lock().unwrap() = true;
        sender.send(()).unwrap();
        Step::Done
    })));
    receiver.recv().unwrap();
    assert!(*ran.lock().unwrap());
}

#[test]
fn the_last_runtime_may_be_dropped_by_its_own_job() {
    let runtime = Runtime::threads(1);
    let (sender, receiver) = std::sync::mpsc::channel();
    let held = runtime.clone();
    let mut step_count = 0;
    runtime.scheduler.spawn(Box::new(Closure(move || {
        step_count += 1;
        if step_count == 1 {
            receiver.recv().unwrap();
        }
        assert!(held.clock.now_ns() < u64::MAX);
        Step::Done
    })));
    drop(runtime);
    sender.send(()).unwrap();
}

#[test]
fn the_end_of_a_job_wakes_its_waiters() {
    let scheduler = ThreadScheduler::new(2);
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    scheduler.spawn(Box::new(Closure(move || {
        assert!(Arc::strong_count(&held) > 0);
        Step::Done
    })));
    scheduler.wait_until(&mut || Arc::strong_count(&alive) == 1).unwrap();
}

#[test]
fn fan_out_keeps_the_order_of_its_items() {
    let items: Vec<u64> = (0..1000).collect();
    for worker_count in [0, 1, 2, 7] {
        let squares = fan_out(worker_count, &items, |n| n * n);
        assert!(squares.iter().zip(&items).all(|(square, n)| *square == n * n));
    }
    assert!(fan_out(2, &[] as &[u64], |n| *n).is_empty());
}

#[test]
fn a_wall_clock_is_not_moved_by_others() {
    let clock = crate::WallClock::new();
    clock.advance_to_ns(u64::MAX);
    let now_ns = clock.now_ns();
    assert!(now_ns < 3_600_000_000_000, "an hour has not passed");
    assert!(now_ns <= clock.now_ns());
}

/// Reads the time again and again, and counts.
struct Checker(Arc<AtomicU64>, Arc<ThreadScheduler>);

impl Job for Checker {
    fn name(&self) -> &'static str {
        "check"
    }
    fn step(&mut self, _budget: Budget) -> Step {
        if self.0.fetch_add(1, SeqCst) < 3 {
            return Step::WaitFor { ns: 1000 };
        }
        self.1.notify();
        Step::Done
    }
}

#[test]
fn a_job_that_waits_for_time_is_stepped_without_a_notify() {
    let scheduler = Arc::new(ThreadScheduler::new(1));
    let count = Arc::new(AtomicU64::new(0));
    scheduler.spawn(Box::new(Checker(Arc::clone(&count), Arc::clone(&scheduler))));
    scheduler.wait_until(&mut || count.load(SeqCst) == 4).unwrap();
    scheduler.stop();
}

#[test]
fn a_change_that_nobody_reports_is_found() {
    let scheduler = ThreadScheduler::new(1);
    let [room, found] = std::array::from_fn(|_| Arc::new(AtomicU64::new(0)));
    let (looked, looks) = channel();
    let (of_job, of_caller) = (Arc::clone(&room), Arc::clone(&found));
    scheduler.spawn(Box::new(Closure(move || {
        if of_job.load(SeqCst) == 0 {
            looked.send(()).unwrap();
            return Step::Wait;
        }
        of_caller.store(1, SeqCst);
        Step::Done
    })));
    looks.recv().unwrap();
    room.store(1, SeqCst);
    scheduler.wait_until(&mut || found.load(SeqCst) == 1).unwrap();
}

/// A job that ends when its twin runs too, or after ten seconds, and records which.
fn meeting(
    twin: Sender<()>,
    from_twin: Receiver<()>,
    told: Sender<Result<(), RecvTimeoutError>>,
) -> Box<dyn Job> {
    Box::new(Closure(move || {
        twin.send(()).unwrap_or_default();
        told.send(from_twin.recv_timeout(Duration::from_secs(10))).unwrap();
        Step::Done
    }))
}

#[test]
fn jobs_whose_moment_comes_together_share_the_workers() {
    let scheduler = ThreadScheduler::new(2);
    let (told, hear) = channel();
    let meet = || {
        let ((to_left, left), (to_right, right)) = (channel(), channel());
        [meeting(to_left, right, told.clone()), meeting(to_right, left, told.clone())]
    };
    // Both workers are there, and have nothing else to do.
    meet().into_iter().for_each(|job| scheduler.spawn(job));
    assert_eq!([hear.recv().unwrap(), hear.recv().unwrap()], [Ok(()); 2]);
    let mut state = scheduler.shared.lock();
    meet().into_iter().for_each(|job| state.park_for(0, job));
    drop(state);
    // As if one worker's wait had ended with their moment, and the other's had none to end with.
    scheduler.shared.runnable.notify_one();
    assert_eq!([hear.recv().unwrap(), hear.recv().unwrap()], [Ok(()); 2]);
}
