//! Time, randomness and background work, injected so that one engine runs in two worlds.
//!
//! ```text
//!               threads (production)          virtual (reproduction, tests)
//!   Clock       WallClock                     VirtualWorld: the running actor's local time
//!   Scheduler   ThreadScheduler               VirtualWorld: the actor with the smallest time runs
//!   Prng        the same algorithm, one seed a run, one derived stream a component
//! ```
//!
//! Background work is a [`Job`]: a value with a resumable `step`. The thread scheduler loops over
//! `step` on a worker thread. The virtual world interleaves the steps of all actors on one thread.
//! Work that blocks on a peer is no job: a server's connections have a [`Crew`] of threads.
//!
//! Invariants
//!   C1  Nothing outside this crate reads a wall clock, starts a thread or draws ambient
//!       randomness. Inside there is one source of randomness, [`entropy_u64`], for identities that
//!       no caller chose, and one of the date, [`unix_time_s`], for display with a file or a line.
//!       [`processor_ns`] returns how much of the processor a process has used, for programs that
//!       work for a set time.
//!   C2  In the virtual world the order of events depends on the seed and the calls alone.
//!   C3  A job's `step` never waits: it returns [`Step::Wait`] and is stepped again after a notify.
//!   C4  A caller of [`Scheduler::yield_now`] or [`Scheduler::wait_until`] holds no lock that a job
//!       takes: in the virtual world the job runs inside that call, on the caller's stack.

mod clock;
mod crew;
mod entropy;
mod prng;
mod processor;
mod punctual;
mod scheduler;
mod seeds;
mod threads;
mod virtual_world;
mod wall;

pub use clock::{Clock, StillClock};
pub use crew::Crew;
pub use entropy::entropy_u64;
pub use prng::Prng;
pub use processor::processor_ns;
pub use scheduler::{BUDGET_DEFAULT, Budget, Job, Runtime, Scheduler, Stalled, Step};
pub use seeds::{seeds, share_of};
pub use threads::{ThreadScheduler, WallClock, fan_out, try_fan_out};
pub use virtual_world::{ClientId, Order, VirtualWorld};
pub use wall::unix_time_s;
