//! Clocks: who says what time it is, and who may move it.

use std::fmt::Debug;

/// A source of time, in nanoseconds since an arbitrary start.
pub trait Clock: Send + Sync + Debug {
    /// The time now; in the virtual world the running actor's local time.
    fn now_ns(&self) -> u64;

    /// Moves the caller's time on to `at_ns`, if that is later: a simulated disk calls it when a
    /// request is served. A wall clock ignores it: a modelled disk keeps nobody waiting.
    fn advance_to_ns(&self, at_ns: u64);

    /// Returns when it is `at_ns`, or at once if it is later. For load generators, which have a schedule to
    /// keep, and for writes that are delayed by a fixed time: whoever waits for something to happen uses
    /// `Scheduler::wait_until`.
    ///
    /// In the virtual world time moves on; on a wall clock the thread sleeps and, at the end, looks again and again.
    fn wait_until_ns(&self, at_ns: u64) {
        self.advance_to_ns(at_ns);
    }
}

/// A clock that always says 0 and never moves: for a disk whose time nobody asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct StillClock;

impl Clock for StillClock {
    fn now_ns(&self) -> u64 {
        0
    }
    fn advance_to_ns(&self, _at_ns: u64) {}
}
