//! Background work as resumable jobs, and who runs them.

use crate::Clock;
use std::fmt::Debug;
use std::sync::Arc;

/// How much a job should do before it returns from one `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// About how many bytes of I/O; a step may exceed it by one indivisible piece.
    pub io_bytes: u64,
}

/// The budget where nobody says otherwise: on a disk 1 MiB of transfer costs about as much as the
/// seek to it, and a reader waits no longer than that for the head.
pub const BUDGET_DEFAULT: Budget = Budget { io_bytes: 1 << 20 };

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to do.
    More,
    /// Nothing to do until somebody calls [`Scheduler::notify`].
    Wait,
    /// As [`Step::Wait`], but the job looks again by itself when so much time has passed. Nobody waits for it:
    /// a caller for whom only such jobs could do something is stalled.
    WaitFor {
        /// How long, in ns.
        ns: u64,
    },
    /// Finished: the scheduler drops the job.
    Done,
}

/// A piece of background work that can be left and resumed between steps.
pub trait Job: Send {
    /// What the job is, for traces: "flush", "compact", "clean".
    fn name(&self) -> &'static str;

    /// Does about `budget` of work. Never waits (C3), never panics on a failure of the world: a job
    /// reports its errors to its owner, who stops it by letting it return [`Step::Done`].
    fn step(&mut self, budget: Budget) -> Step;
}

/// Nothing can make the awaited condition true: every job waits, is done or has panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stalled: waiting for background work, but no job can run")]
pub struct Stalled;

/// Runs jobs, on threads or in virtual time.
pub trait Scheduler: Send + Sync + Debug {
    /// Adds a job; it starts at the caller's time.
    fn spawn(&self, job: Box<dyn Job>);

    /// Lets background work catch up with the caller's time. Called at the start of every
    /// foreground operation. Threads: does nothing. Holds no locks of the caller (C4).
    fn yield_now(&self);

    /// Returns when `ready` says true. Threads: sleeps between notifies. Virtual: runs other
    /// actors; the caller's time moves on to the moment at which it became true.
    ///
    /// # Errors
    /// [`Stalled`] where no job could ever make it true: virtual, all jobs wait or are done;
    /// threads, a job has panicked or the scheduler was stopped, and it is not true.
    fn wait_until(&self, ready: &mut dyn FnMut() -> bool) -> Result<(), Stalled>;

    /// Something changed: waiting jobs and waiting callers look again.
    fn notify(&self);
}

/// A clock and a scheduler that belong together; cheap to clone.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Who runs jobs.
    pub scheduler: Arc<dyn Scheduler>,
}
