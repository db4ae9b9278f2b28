//! Waiting for a moment of the real clock, to within microseconds.
//!
//! ```text
//!   now                                   at - window               at
//!    |------------- asleep -------------->|.. looks and yields ....>|
//!                                          ^ the system wakes a sleeper 20 to 300 us late
//! ```
//!
//! Invariants
//!   P1  It never returns early.
//!   P2  Between two reads of the clock a waiter yields its processor, so that ready work runs.
//!       Letting one waiter at a time read the clock made the others late, because they had to be
//!       woken: docs/results/ycsb.md.
//!   P3  The window is as long as sleeps have been late. A sleep that is later grows it by half of
//!       the excess. A sleep that is not shrinks it by an eight-hundredth, so that few are later.
//!
//! For its users see [`Clock::wait_until_ns`](crate::Clock::wait_until_ns).

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long before the moment a waiter stops sleeping, at least and at most.
const WINDOW_NS: std::ops::RangeInclusive<u64> = 60_000..=500_000;
/// The window grows by no more than this at a time, because one late sleep proves little.
const GROWTH_NS_MAX: u64 = 50_000;
/// The fraction by which it shrinks.
const SHRINKS_BY: u64 = 800;

/// How late sleeps have been (P3). If two threads change it at once, one change may be lost.
static LATE_NS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread has asked the system for timely wake-ups.
    static IS_PUNCTUAL: Cell<bool> = const { Cell::new(false) };
}

/// Returns at `at`, or at once if that is in the past.
#[expect(clippy::disallowed_methods, reason = "the one place where a thread sleeps")]
pub(crate) fn wait_until(at: Instant) {
    let left = || at.saturating_duration_since(Instant::now());
    let window = window(LATE_NS.load(Ordering::Relaxed));
    let asleep = left().saturating_sub(window);
    if !asleep.is_zero() {
        ask_to_be_woken_on_time();
        let wake = Instant::now() + asleep;
        std::thread::sleep(asleep);
        let late_ns = wake.elapsed().as_nanos() as u64;
        LATE_NS.store(learned(LATE_NS.load(Ordering::Relaxed), late_ns), Ordering::Relaxed);
    }
    while !left().is_zero() {
        std::thread::yield_now();
    }
}

/// How long before the moment a sleep ends, if sleeps have been that late.
fn window(late_ns: u64) -> Duration {
    // A quarter more, because the rare late sleep matters.
    Duration::from_nanos((late_ns + late_ns / 4).clamp(*WINDOW_NS.start(), *WINDOW_NS.end()))
}

/// The known lateness of sleeps, updated with one more sleep (P3).
fn learned(known_ns: u64, late_ns: u64) -> u64 {
    match late_ns.checked_sub(known_ns) {
        Some(excess_ns) => known_ns + (excess_ns / 2).min(GROWTH_NS_MAX),
        None => known_ns - known_ns / SHRINKS_BY,
    }
}

/// By default Linux may wake a sleeper 50 us late, so that it can wake several at once.
fn ask_to_be_woken_on_time() {
    #[cfg(target_os = "linux")]
    if !IS_PUNCTUAL.replace(true) {
        // If the system refuses, sleepers are late, and the caller measures that.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}

#[cfg(test)]
mod tests {
    use super::{WINDOW_NS, learned, window};
    use crate::{Clock, VirtualWorld, WallClock};
    use crate::{Order, Prng, fan_out};
    use std::time::Duration;

    #[test]
    fn no_waiter_returns_early() {
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

    /// P3, with sleeps that are late at random: mostly a little, seldom a lot.
    #[test]
    fn the_window_is_as_long_as_sleeps_are_late() {
        let mut prng = Prng::new(1);
        let (mut late_ns, mut missed_count) = (0, 0);
        for at in 0..20_000 {
            let is_rare = prng.below(100) == 0;
            let this_ns = if is_rare { 200_000 } else { 20_000 + prng.below(60_000) };
            if 10_000 <= at && window(late_ns) < Duration::from_nanos(this_ns) {
                missed_count += 1;
            }
            late_ns = learned(late_ns, this_ns);
        }
        assert!(missed_count < 100, "{missed_count} of 10,000 were later than the window");
        assert!(window(late_ns) < Duration::from_micros(260), "{late_ns} ns");
        // The window forgets, but stays within its limits.
        for _ in 0..10_000 {
            late_ns = learned(late_ns, 10_000);
        }
        assert_eq!(window(late_ns), Duration::from_nanos(*WINDOW_NS.start()));
        assert_eq!(window(learned(u64::MAX / 2, u64::MAX)), Duration::from_nanos(*WINDOW_NS.end()));
    }
}
