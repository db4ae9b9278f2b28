//! Clocks: the source of time, and the operations that move it.

use std::fmt::Debug;

/// A source of time, in nanoseconds since an arbitrary start.
pub trait Clock: Send + Sync + Debug {
    /// The time; in the virtual world the local time of the running actor.
    fn now_ns(&self) -> u64;

    /// Advances the caller's time to `at_ns`, if that is later. A simulated disk calls this when a
    /// request is served. A wall clock ignores it: a modelled disk delays no caller.
    fn advance_to_ns(&self, at_ns: u64);

    /// Returns at `at_ns`, or at once if it is later already. This is for load generators, which
    /// have a schedule to keep, and for writes with a fixed delay. A caller that waits for an event
    /// uses `Scheduler::wait_until` instead.
    ///
    /// In the virtual world time advances. On a wall clock the thread sleeps, and reads the clock
    /// repeatedly towards the end.
    fn wait_until_ns(&self, at_ns: u64) {
        self.advance_to_ns(at_ns);
    }
}

/// A clock that always reads 0, for a disk whose time is not used.
#[derive(Clone, Copy, Debug, Default)]
pub struct StillClock;

impl Clock for StillClock {
    fn now_ns(&self) -> u64 {
        0
    }
    fn advance_to_ns(&self, _at_ns: u64) {}
}
