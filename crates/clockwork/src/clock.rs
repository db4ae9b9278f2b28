//! Clocks: who says what time it is, and who may move it.

use std::fmt::Debug;

/// A source of time, in nanoseconds since an arbitrary start.
pub trait Clock: Send + Sync + Debug {
    /// The time now; in the virtual world the running actor's local time.
    fn now_ns(&self) -> u64;

    /// Moves the caller's time on to `at_ns`, if that is later: a simulated disk calls it when a
    /// request is served. A wall clock ignores it, because nothing is ever slept.
    fn advance_to_ns(&self, at_ns: u64);
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
