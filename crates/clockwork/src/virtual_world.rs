//! Reproduction and tests: a discrete-event world on one thread, in which time moves only when a
//! simulated disk works.
//!
//! ```text
//!   actor          local time
//!   client main    |------------------> 40      yield_now: jobs at or before 40 are stepped,
//!   job flush      |-----------> 31             smallest time first
//!   job compact    |------------------------> 55
//!   job clean      waits for a notify
//! ```
//!
//! Invariants
//!   V1  `now_ns` and `advance_to_ns` act on the running actor; its time never goes back.
//!   V2  A job is out of its slot while it is stepped, and no lock is held: a step may yield, wait
//!       or spawn, and is never entered twice.
//!   V3  The choice of the next job depends only on the times, the ids and the order's seed (C2);
//!       every choice goes into the trace hash.
//!   V4  A job that waits wakes no earlier than the time of the actor that notified.
//!
//! A job's step is indivisible: a caller at time 40 sees everything that a step begun at 31 did,
//! even if the step ended at 45. The error is at most one step's budget.

use crate::scheduler::BUDGET_DEFAULT;
use crate::{Budget, Clock, Job, Prng, Runtime, Scheduler, Stalled, Step};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The rule for the next job to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The job with the smallest local time; the older one in a tie. A real machine would do the
    /// same.
    SmallestTime,
    /// Any job, any number of steps, drawn from the stream. Every interleaving of foreground and
    /// background can occur, whatever the clocks read.
    Seeded(Prng),
}

/// A foreground actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(usize);

/// The clock and the scheduler of virtual time. Use it from one thread.
pub struct VirtualWorld {
    state: Mutex<State>,
    budget: Budget,
}

struct State {
    actors: Vec<Actor>,
    running: usize,
    order: Order,
    /// Counts notifies. A job that was stepped under an older count must check again.
    generation: u64,
    trace_hash: u64,
    step_count: u64,
}

struct Actor {
    name: String,
    local_ns: u64,
    role: Role,
}

enum Role {
    Client,
    Runnable(Box<dyn Job>),
    Waiting {
        job: Box<dyn Job>,
        /// When it is stepped again by itself.
        until_ns: Option<u64>,
    },
    /// Taken out to be stepped (V2). `is_dropped`: all jobs were dropped meanwhile.
    Stepping {
        is_dropped: bool,
    },
    Done,
}

impl Actor {
    /// The time of its next step; for a job that waits for time, when that has passed.
    fn due_ns(&self) -> u64 {
        match self.role {
            Role::Waiting { until_ns: Some(wake_ns), .. } => self.local_ns.max(wake_ns),
            _ => self.local_ns,
        }
    }
}

impl Runtime {
    /// Virtual time under `order`. A driver of clients keeps the world.
    pub fn virtual_time(order: Order) -> (Runtime, Arc<VirtualWorld>) {
        let world = Arc::new(VirtualWorld::new(order));
        (world.runtime(), world)
    }
}

impl VirtualWorld {
    /// A world at time 0 with one client, which is running.
    pub fn new(order: Order) -> VirtualWorld {
        VirtualWorld::with_budget(order, BUDGET_DEFAULT)
    }

    /// Like [`VirtualWorld::new`], with the budget of a step.
    pub fn with_budget(order: Order, budget: Budget) -> VirtualWorld {
        let main = Actor { name: "main".to_string(), local_ns: 0, role: Role::Client };
        let state = State {
            actors: vec![main],
            running: 0,
            order,
            generation: 0,
            trace_hash: 0xcbf2_9ce4_8422_2325,
            step_count: 0,
        };
        VirtualWorld { state: Mutex::new(state), budget }
    }

    /// The runtime of this world.
    pub fn runtime(self: &Arc<Self>) -> Runtime {
        Runtime {
            clock: Arc::clone(self) as Arc<dyn Clock>,
            scheduler: Arc::clone(self) as Arc<dyn Scheduler>,
        }
    }

    /// Adds a client called `name`, at the running actor's time.
    pub fn client(&self, name: &str) -> ClientId {
        let mut state = self.lock();
        let local_ns = state.actors[state.running].local_ns;
        state.actors.push(Actor { name: name.to_string(), local_ns, role: Role::Client });
        ClientId(state.actors.len() - 1)
    }

    /// Runs `f` as `client`: the clock reads and advances the client's time.
    pub fn as_client<R>(&self, client: ClientId, f: impl FnOnce() -> R) -> R {
        let before = std::mem::replace(&mut self.lock().running, client.0);
        let result = f();
        self.lock().running = before;
        result
    }

    /// The local time of `client`. A driver of several clients lets the one with the smallest time
    /// go next.
    pub fn client_now_ns(&self, client: ClientId) -> u64 {
        self.lock().actors[client.0].local_ns
    }

    /// Steps jobs until all wait or have ended. The caller's time advances to the end of the last
    /// step.
    pub fn run_until_idle(&self) {
        while let Some(end_ns) = self.step_one(None) {
            self.advance_to_ns(end_ns);
        }
    }

    /// Drops all jobs, like the death of the process. A job that is being stepped is dropped when
    /// it returns.
    ///
    /// Jobs usually hold the runtime that holds them. A driver that abandons a store without
    /// letting its jobs finish must call this, or the memory is never freed.
    pub fn drop_jobs(&self) {
        let mut jobs = Vec::new();
        for actor in &mut self.lock().actors {
            match std::mem::replace(&mut actor.role, Role::Done) {
                Role::Client => actor.role = Role::Client,
                Role::Runnable(job) | Role::Waiting { job, .. } => jobs.push(job),
                Role::Stepping { .. } => actor.role = Role::Stepping { is_dropped: true },
                Role::Done => {}
            }
        }
        // Dropped without the lock, because a job's drop may notify.
        drop(jobs);
    }

    /// A hash of every choice so far: which job was stepped, when, with what outcome (V3).
    pub fn trace_hash(&self) -> u64 {
        self.lock().trace_hash
    }

    /// How many steps were run.
    pub fn step_count(&self) -> u64 {
        self.lock().step_count
    }

    /// Steps one runnable job, chosen by the order among those at or before `until_ns`. Returns its
    /// time afterwards; `None` if there is none.
    fn step_one(&self, until_ns: Option<u64>) -> Option<u64> {
        let mut state = self.lock();
        let id = state.choose(until_ns)?;
        let due_ns = state.actors[id].due_ns();
        let stepping = Role::Stepping { is_dropped: false };
        let role = std::mem::replace(&mut state.actors[id].role, stepping);
        let mut job = match role {
            Role::Runnable(job) => job,
            Role::Waiting { job, .. } => {
                state.actors[id].local_ns = due_ns;
                job
            }
            _ => unreachable!("V3: only jobs that may run are chosen"),
        };
        let caller = std::mem::replace(&mut state.running, id);
        let generation = state.generation;
        drop(state);

        let step = job.step(self.budget);

        let mut state = self.lock();
        state.running = caller;
        let end_ns = state.actors[id].local_ns;
        state.note(id as u64, end_ns, step);
        let is_dropped = matches!(state.actors[id].role, Role::Stepping { is_dropped: true });
        let (role, dead) = match step {
            _ if is_dropped => (Role::Done, Some(job)),
            Step::Done => (Role::Done, Some(job)),
            Step::Wait | Step::WaitFor { .. } if state.generation == generation => {
                let until_ns = match step {
                    Step::WaitFor { ns } => Some(end_ns.saturating_add(ns)),
                    _ => None,
                };
                (Role::Waiting { job, until_ns }, None)
            }
            _ => (Role::Runnable(job), None),
        };
        state.actors[id].role = role;
        drop(state);
        drop(dead);
        Some(end_ns)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock, so a poisoned state is intact.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next job to step (V3).
    fn choose(&mut self, until_ns: Option<u64>) -> Option<usize> {
        let now_ns = self.actors[self.running].local_ns;
        // A job that only waits for time to pass runs when it has passed, and delays no other.
        let is_runnable = |actor: &Actor| match &actor.role {
            Role::Runnable(_) => true,
            Role::Waiting { until_ns: Some(_), .. } => {
                until_ns.is_some() && actor.due_ns() <= now_ns
            }
            _ => false,
        };
        match &mut self.order {
            Order::SmallestTime => {
                let runnable = self.actors.iter().enumerate().filter(|(_, a)| is_runnable(a));
                let (due_ns, id) = runnable.map(|(id, actor)| (actor.due_ns(), id)).min()?;
                until_ns.is_none_or(|until_ns| due_ns <= until_ns).then_some(id)
            }
            Order::Seeded(prng) => {
                let count = self.actors.iter().filter(|a| is_runnable(a)).count();
                if count == 0 {
                    return None;
                }
                let nth = prng.below(count as u64) as usize;
                let mut runnable = self.actors.iter().enumerate().filter(|(_, a)| is_runnable(a));
                runnable.nth(nth).map(|(id, _)| id)
            }
        }
    }

    fn note(&mut self, id: u64, end_ns: u64, step: Step) {
        self.step_count += 1;
        let outcome = match step {
            Step::More => 1,
            Step::Wait => 2,
            Step::Done => 3,
            Step::WaitFor { .. } => 4,
        };
        for word in [id, end_ns, outcome] {
            self.trace_hash = (self.trace_hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
            self.trace_hash ^= self.trace_hash >> 29;
        }
    }
}

impl Clock for VirtualWorld {
    fn now_ns(&self) -> u64 {
        let state = self.lock();
        state.actors[state.running].local_ns
    }

    fn advance_to_ns(&self, at_ns: u64) {
        let mut state = self.lock();
        let running = state.running;
        let local_ns = &mut state.actors[running].local_ns;
        *local_ns = at_ns.max(*local_ns);
    }
}

impl Scheduler for VirtualWorld {
    fn spawn(&self, job: Box<dyn Job>) {
        let mut state = self.lock();
        let local_ns = state.actors[state.running].local_ns;
        let actor = Actor { name: job.name().to_string(), local_ns, role: Role::Runnable(job) };
        // The slot of an ended job is reused, so that a long run does not grow.
        match state.actors.iter().position(|a| matches!(a.role, Role::Done)) {
            Some(slot) => state.actors[slot] = actor,
            None => state.actors.push(actor),
        }
    }

    fn yield_now(&self) {
        let seeded_steps = match &mut self.lock().order {
            Order::SmallestTime => None,
            // Mostly none, sometimes a few, now and then a long run, so that each side gets far
            // ahead of the other at times.
            Order::Seeded(prng) => Some(match prng.below(8) {
                0..=3 => 0,
                4..=5 => 1,
                6 => prng.below(5),
                _ => prng.below(40),
            }),
        };
        match seeded_steps {
            Some(count) => {
                let until_ns = self.now_ns();
                for _ in 0..count {
                    if self.step_one(Some(until_ns)).is_none() {
                        return;
                    }
                }
            }
            None => {
                let until_ns = self.now_ns();
                while self.step_one(Some(until_ns)).is_some() {}
            }
        }
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> bool) -> Result<(), Stalled> {
        let mut became_true_ns = 0;
        while !ready() {
            became_true_ns = self.step_one(None).ok_or(Stalled)?;
        }
        self.advance_to_ns(became_true_ns);
        Ok(())
    }

    fn notify(&self) {
        let mut state = self.lock();
        state.generation += 1;
        let now_ns = state.actors[state.running].local_ns;
        for actor in &mut state.actors {
            match std::mem::replace(&mut actor.role, Role::Done) {
                Role::Waiting { job, .. } => {
                    actor.role = Role::Runnable(job);
                    actor.local_ns = actor.local_ns.max(now_ns);
                }
                role => actor.role = role,
            }
        }
    }
}

impl fmt::Debug for VirtualWorld {
    /// One line for each actor: its name, time and state.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        writeln!(f, "virtual world after {} steps", state.step_count)?;
        for (id, actor) in state.actors.iter().enumerate() {
            let role = match actor.role {
                Role::Client => "client",
                Role::Runnable(_) => "runnable",
                Role::Waiting { .. } => "waiting",
                Role::Stepping { .. } => "stepping",
                Role::Done => continue,
            };
            let mark = if id == state.running { ">" } else { " " };
            writeln!(f, "{mark} {} {role} at {} ns", actor.name, actor.local_ns)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
