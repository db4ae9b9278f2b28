//! Waiting for a moment of the real clock, to within microseconds.
//!
//! ```text
//!   now                                   at - SPIN                 at
//!    |------------- asleep -------------->|.. spins, alone ........>|
//!                                          ^ the system wakes a sleeper 20 to 60 us late
//! ```
//!
//! Invariants
//!   P1  It never returns early.
//!   P2  At most one thread of the process spins: on a machine of two processors a second one would
//!       keep the work that is measured from running. The others sleep until it is their turn.
//!
//! Only load generators wait so, whose schedule is the point of the measurement; see
//! [`Clock::wait_until_ns`](crate::Clock::wait_until_ns).

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long before the moment it stops sleeping: a little more than a sleep is late.
const SPIN: Duration = Duration::from_micros(60);

/// Who spins (P2).
static SPINNER: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether this thread has told the system that it wants to be woken on time.
    static IS_PUNCTUAL: Cell<bool> = const { Cell::new(false) };
}

/// Returns at `at`, or at once if that is past.
#[expect(clippy::disallowed_methods, reason = "the one place where somebody sleeps")]
pub(crate) fn wait_until(at: Instant) {
    let left = || at.saturating_duration_since(Instant::now());
    if left() > SPIN {
        ask_to_be_woken_on_time();
        std::thread::sleep(left().saturating_sub(SPIN));
    }
    if left().is_zero() {
        return;
    }
    let _alone = SPINNER.lock().unwrap_or_else(PoisonError::into_inner);
    while !left().is_zero() {
        std::hint::spin_loop();
    }
}

/// By default Linux may wake a sleeper 50 us late, so that it can wake several at once.
fn ask_to_be_woken_on_time() {
    #[cfg(target_os = "linux")]
    if !IS_PUNCTUAL.replace(true) {
        // Where it is refused, sleepers are late, which the caller measures.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}

#[cfg(test)]
mod tests {
    use crate::{Clock, VirtualWorld, WallClock};
    use crate::{Order, fan_out};

    #[test]
    fn nobody_is_back_early() {
        let clock = WallClock::new();
        let moments: Vec<u64> = (1..=40).map(|at| at * 50_000).collect();
        let back = fan_out(4, &moments, |at| {
            clock.wait_until_ns(*at);
            clock.now_ns()
        });
        for (at, back) in moments.iter().zip(&back) {
            assert!(back >= at, "P1: back at {back}, asked for {at}");
        }
        let before = clock.now_ns();
        clock.wait_until_ns(before / 2);
        assert!(clock.now_ns() >= before, "a moment that is past is no reason to wait");
    }

    #[test]
    fn in_virtual_time_a_wait_takes_none() {
        let world = VirtualWorld::new(Order::SmallestTime);
        world.wait_until_ns(3_600_000_000_000);
        assert_eq!(world.now_ns(), 3_600_000_000_000);
        world.wait_until_ns(1);
        assert_eq!(world.now_ns(), 3_600_000_000_000);
    }
}
