//! The order of steps: jobs and clients write it to a log.

use crate::{Budget, Clock, Job, Order, Prng, Runtime, Scheduler, Stalled, Step, VirtualWorld};
use std::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<String>>>;

/// Works for `step_ns` in each step, `left` times; then waits for more.
struct Worker {
    name: &'static str,
    step_ns: u64,
    left: Arc<Mutex<u64>>,
    world: Arc<VirtualWorld>,
    log: Log,
}

impl Job for Worker {
    fn name(&self) -> &'static str {
        self.name
    }
    fn step(&mut self, _budget: Budget) -> Step {
        if *self.left.lock().unwrap() == 0 {
            return Step::Wait;
        }
        *self.left.lock().unwrap() -= 1;
        let start_ns = self.world.now_ns();
        self.world.advance_to_ns(start_ns + self.step_ns);
        self.log.lock().unwrap().push(format!("{} {start_ns}", self.name));
        Step::More
    }
}

fn spawn(
    world: &Arc<VirtualWorld>,
    log: &Log,
    name: &'static str,
    step_ns: u64,
) -> Arc<Mutex<u64>> {
    let left = Arc::new(Mutex::new(0));
    world.spawn(Box::new(Worker {
        name,
        step_ns,
        left: Arc::clone(&left),
        world: Arc::clone(world),
        log: Arc::clone(log),
    }));
    left
}

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

#[test]
fn the_smallest_time_goes_first() {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let log = Log::default();
    let flush = spawn(&world, &log, "flush", 10);
    let compact = spawn(&world, &log, "compact", 25);
    (*flush.lock().unwrap(), *compact.lock().unwrap()) = (6, 2);
    runtime.clock.advance_to_ns(30);
    runtime.scheduler.yield_now();
    assert_eq!(
        take(&log),
        ["flush 0", "compact 0", "flush 10", "flush 20", "compact 25", "flush 30"]
    );
    assert_eq!(runtime.clock.now_ns(), 30, "background work does not cost the caller time");
    runtime.scheduler.wait_until(&mut || *flush.lock().unwrap() == 0).unwrap();
    assert_eq!(take(&log), ["flush 40", "flush 50"]);
    assert_eq!(runtime.clock.now_ns(), 60, "waiting does");
}

#[test]
fn a_job_wakes_no_earlier_than_it_was_notified() {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let log = Log::default();
    let left = spawn(&world, &log, "flush", 10);
    world.run_until_idle();
    *left.lock().unwrap() = 1;
    runtime.clock.advance_to_ns(100);
    runtime.scheduler.yield_now();
    assert!(take(&log).is_empty(), "it was not notified");
    runtime.scheduler.notify();
    world.run_until_idle();
    assert_eq!(take(&log), ["flush 100"]);
    assert_eq!(runtime.clock.now_ns(), 110);
}

#[test]
fn clients_have_their_own_time() {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    runtime.clock.advance_to_ns(5);
    let [a, b] = ["a", "b"].map(|name| world.client(name));
    world.as_client(a, || runtime.clock.advance_to_ns(50));
    assert_eq!(world.as_client(b, || runtime.clock.now_ns()), 5);
    assert_eq!(world.client_now_ns(a), 50);
    assert_eq!(runtime.clock.now_ns(), 5);
    assert!(format!("{world:?}").contains("a client at 50 ns"));
}

#[test]
fn nothing_to_run_is_a_stall() {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    spawn(&world, &Log::default(), "flush", 1);
    assert_eq!(runtime.scheduler.wait_until(&mut || false), Err(Stalled));
}

/// Steps that yield and wait for each other's work, on one stack.
struct Nesting {
    runtime: Runtime,
    depth: Arc<Mutex<(u32, u32)>>,
    left: u32,
}

impl Job for Nesting {
    fn name(&self) -> &'static str {
        "nesting"
    }
    fn step(&mut self, _budget: Budget) -> Step {
        if self.left == 0 {
            return Step::Done;
        }
        self.left -= 1;
        let (depth, deepest) = *self.depth.lock().unwrap();
        *self.depth.lock().unwrap() = (depth + 1, deepest.max(depth + 1));
        self.runtime.scheduler.yield_now();
        self.runtime.scheduler.notify();
        self.depth.lock().unwrap().0 -= 1;
        Step::More
    }
}

#[test]
fn a_step_may_yield() {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let depth = Arc::new(Mutex::new((0, 0)));
    for left in [3, 5, 2] {
        let depth = Arc::clone(&depth);
        runtime.scheduler.spawn(Box::new(Nesting { runtime: runtime.clone(), depth, left }));
    }
    world.run_until_idle();
    assert_eq!(*depth.lock().unwrap(), (0, 3));
    drop(runtime);
    assert_eq!(Arc::strong_count(&world), 1, "finished jobs are dropped");
}

#[test]
fn dropped_jobs_let_go_of_their_world() {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let log = Log::default();
    for _ in 0..3 {
        spawn(&world, &log, "flush", 1);
    }
    world.drop_jobs();
    world.run_until_idle();
    drop(runtime);
    assert_eq!(Arc::strong_count(&world), 1);
    assert!(take(&log).is_empty());
}

fn seeded_run(seed: u64) -> (u64, u64, Vec<String>) {
    let (runtime, world) = Runtime::virtual_time(Order::Seeded(Prng::new(seed)));
    let log = Log::default();
    let jobs = [("a", 3), ("b", 5), ("c", 7)].map(|(name, ns)| spawn(&world, &log, name, ns));
    for round in 0..40u64 {
        *jobs[round as usize % 3].lock().unwrap() += 3;
        runtime.scheduler.notify();
        runtime.scheduler.yield_now();
        log.lock().unwrap().push(format!("client {round}"));
    }
    let idle = || jobs.iter().all(|left| *left.lock().unwrap() == 0);
    runtime.scheduler.wait_until(&mut { idle }).unwrap();
    (world.trace_hash(), runtime.clock.now_ns(), take(&log))
}

#[test]
fn same_seed_same_trace() {
    let runs: Vec<_> = (0..20).map(seeded_run).collect();
    for (seed, run) in runs.iter().enumerate() {
        assert_eq!(*run, seeded_run(seed as u64));
    }
    let mut hashes: Vec<u64> = runs.iter().map(|run| run.0).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), runs.len(), "each seed is a run of its own");
}

/// Works for 5 ns whenever it checks, and checks again 100 ns later.
struct Checker {
    world: Arc<VirtualWorld>,
    log: Log,
}

impl Job for Checker {
    fn name(&self) -> &'static str {
        "check"
    }
    fn step(&mut self, _budget: Budget) -> Step {
        let start_ns = self.world.now_ns();
        self.world.advance_to_ns(start_ns + 5);
        self.log.lock().unwrap().push(format!("check {start_ns}"));
        Step::WaitFor { ns: 100 }
    }
}

#[test]
fn a_job_that_waits_for_time_runs_when_it_has_passed_and_delays_no_other() {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let log = Log::default();
    world.spawn(Box::new(Checker { world: Arc::clone(&world), log: Arc::clone(&log) }));
    world.yield_now();
    assert_eq!(take(&log), ["check 0"]);
    runtime.clock.advance_to_ns(104);
    world.yield_now();
    assert_eq!(take(&log), [""; 0]);
    runtime.clock.advance_to_ns(320);
    world.yield_now();
    assert_eq!(take(&log), ["check 105", "check 210", "check 315"]);
    // No caller waits for it, and a caller that needs a job to act learns that none will.
    world.run_until_idle();
    assert_eq!(runtime.scheduler.wait_until(&mut || false), Err(Stalled));
    assert_eq!(take(&log), [""; 0]);
    // A notify wakes it early.
    runtime.clock.advance_to_ns(330);
    world.notify();
    world.yield_now();
    assert_eq!(take(&log), ["check 330"]);
}

#[test]
fn a_job_that_waits_for_time_does_not_overtake_an_earlier_one() {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let log = Log::default();
    world.spawn(Box::new(Checker { world: Arc::clone(&world), log: Arc::clone(&log) }));
    world.yield_now();
    runtime.clock.advance_to_ns(50);
    let flush = spawn(&world, &log, "flush", 70);
    *flush.lock().unwrap() = 2;
    runtime.clock.advance_to_ns(200);
    world.yield_now();
    assert_eq!(take(&log), ["check 0", "flush 50", "check 105", "flush 120"]);
}
