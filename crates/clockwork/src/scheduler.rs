//! Background work as resumable jobs, and the scheduler that runs them.

use crate::Clock;
use std::fmt::Debug;
use std::sync::Arc;

/// How much a job should do before it returns from one `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The amount of I/O, roughly; a step may exceed it by one indivisible piece.
    pub io_bytes: u64,
}

/// The default budget. On a disk 1 MiB of transfer costs about as much as the seek to it, and a
/// reader waits no longer than that for the head.
pub const BUDGET_DEFAULT: Budget = Budget { io_bytes: 1 << 20 };

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to do.
    More,
    /// Nothing to do until [`Scheduler::notify`] is called.
    Wait,
    /// Like [`Step::Wait`], but the job is stepped again by itself after this time. No caller waits
    /// for it: a caller that only such jobs could help is stalled.
    WaitFor {
        /// The time, in ns.
        ns: u64,
    },
    /// Finished: the scheduler drops the job.
    Done,
}

/// A piece of background work that can pause and resume between steps.
pub trait Job: Send {
    /// The name of the job, for traces: "flush", "compact", "clean".
    fn name(&self) -> &'static str;

    /// Does about `budget` of work. Never waits (C3), and never panics on a failure of the world. A
    /// job reports its errors to its owner, which stops it by letting it return [`Step::Done`].
    fn step(&mut self, budget: Budget) -> Step;
}

/// Nothing can make the awaited condition true: every job waits, has ended or has panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stalled: waiting for background work, but no job can run")]
pub struct Stalled;

/// Runs jobs, on threads or in virtual time.
pub trait Scheduler: Send + Sync + Debug {
    /// Adds a job; it starts at the caller's time.
    fn spawn(&self, job: Box<dyn Job>);

    /// Lets background work catch up with the caller's time. Called at the start of every
    /// foreground operation. With threads it does nothing. The caller must hold no locks (C4).
    fn yield_now(&self);

    /// Returns when `ready` returns true. With threads it sleeps between notifies,
    /// or for a second while every job waits. In the virtual
    /// world it runs other actors, and the caller's time advances to the moment at which the
    /// condition became true.
    ///
    /// # Errors
    /// [`Stalled`] if no job can make the condition true. Virtual: all jobs wait or have ended.
    /// Threads: a job has panicked or the scheduler was stopped, and the condition is false.
    fn wait_until(&self, ready: &mut dyn FnMut() -> bool) -> Result<(), Stalled>;

    /// Reports a change: waiting jobs and callers check again.
    fn notify(&self);
}

/// A clock and a scheduler that belong together; cheap to clone.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The scheduler.
    pub scheduler: Arc<dyn Scheduler>,
}
