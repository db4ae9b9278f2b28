//! The wait of a connection for its client: asleep, or polling.
//!
//! ```text
//!   128 waits by polling | 128 asleep | 8192 by the better of the two | 128 by polling | ...
//! ```
//!
//! On a quiet machine with one request of a client in flight, sleeping and waking took half of the request's time
//! (docs/results/block_device.md). On a busy machine polling halved the rate, and with many requests in flight a
//! sleeper finds several at once. No interface reports which case holds, so the connection measures both.
//!
//! Invariants
//!   W1  A slow client costs almost no processor time: one wait in 66 polls, for about 0.1 ms.

use imbrex_clockwork::Clock;
use std::sync::Arc;

/// How often a wait polls before it sleeps; each poll takes about a microsecond.
const LOOK_COUNT_MAX: u32 = 100;
const TRIAL_WAIT_COUNT: u32 = 128;
const SETTLED_WAIT_COUNT: u32 = 8192;
/// Longer waits count as this long, because the client causes them.
const WAIT_NS_MAX: u64 = 200_000;

/// The waiting strategy of one connection.
#[derive(Debug)]
pub(crate) struct Polling {
    clock: Arc<dyn Clock>,
    phase: Phase,
    /// The number of waits left in the phase.
    left_count: u32,
    start_ns: u64,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    TryLooking,
    TrySleeping { looking: Outcome },
    Settled { looks: bool },
}

#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    request_count: u64,
    elapsed_ns: u64,
    /// The part of that time spent waiting.
    waited_ns: u64,
}

impl Outcome {
    /// Whether requests were served a third faster than in `other`, not counting the client's own time. Polling
    /// occupies a processor, so a small gain is not worth it.
    fn is_worth_more_than(&self, other: &Outcome) -> bool {
        let elapsed = self.elapsed_ns.saturating_mul(other.request_count);
        let theirs = other.elapsed_ns.saturating_mul(self.request_count);
        let less = |ours: u64, theirs: u64| ours.saturating_mul(4) < theirs.saturating_mul(3);
        less(elapsed, theirs) && less(self.waited_ns, other.waited_ns)
    }
}

impl Polling {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Polling {
        let start_ns = clock.now_ns();
        let (phase, left_count) = (Phase::TryLooking, TRIAL_WAIT_COUNT);
        Polling { clock, phase, left_count, start_ns, outcome: Outcome::default() }
    }

    /// Waits: calls `look` until it finds something if polling pays, otherwise `sleep`. `request_count` requests came
    /// since the last wait.
    pub(crate) fn wait<T>(
        &mut self,
        request_count: u64,
        mut look: impl FnMut() -> Option<T>,
        sleep: impl FnOnce() -> T,
    ) -> T {
        let start_ns = self.clock.now_ns();
        let looks = matches!(self.phase, Phase::TryLooking | Phase::Settled { looks: true });
        let found = (0..if looks { LOOK_COUNT_MAX } else { 0 }).find_map(|_| {
            look().or_else(|| {
                // The client may need this processor.
                std::thread::yield_now();
                None
            })
        });
        let found = found.unwrap_or_else(sleep);
        let now_ns = self.clock.now_ns();
        self.outcome.request_count += request_count;
        self.outcome.waited_ns += now_ns.saturating_sub(start_ns).min(WAIT_NS_MAX);
        self.left_count -= 1;
        if self.left_count == 0 {
            self.end_phase(now_ns);
        }
        found
    }

    fn end_phase(&mut self, now_ns: u64) {
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.elapsed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.start_ns, now_ns));
        (self.phase, self.left_count) = match self.phase {
            Phase::TryLooking => (Phase::TrySleeping { looking: outcome }, TRIAL_WAIT_COUNT),
            Phase::TrySleeping { looking } => {
                (Phase::Settled { looks: looking.is_worth_more_than(&outcome) }, SETTLED_WAIT_COUNT)
            }
            Phase::Settled { .. } => (Phase::TryLooking, TRIAL_WAIT_COUNT),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::{Order, StillClock, VirtualWorld};

    /// The number of `wait_count` waits that slept. A poll takes `look_ns`, a sleep `sleep_ns`; a request arrives after
    /// `there_after` polls, and a sleeper finds `at_once` requests.
    fn slept(wait_count: u32, look_ns: u64, sleep_ns: u64, there_after: u32, at_once: u64) -> u32 {
        let clock = Arc::new(VirtualWorld::new(Order::SmallestTime));
        let mut polling = Polling::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let (mut slept_count, mut request_count) = (0, 1);
        let pass = |ns| clock.advance_to_ns(clock.now_ns() + ns);
        for number in 0..wait_count {
            let (mut look_count, slept_before) = (0, slept_count);
            let look = || {
                pass(look_ns);
                look_count += 1;
                (look_count >= there_after).then_some(number)
            };
            let sleep = || {
                pass(sleep_ns);
                slept_count += 1;
                number
            };
            assert_eq!(polling.wait(request_count, look, sleep), number);
            request_count = if slept_before < slept_count { at_once } else { 1 };
        }
        slept_count
    }

    const CYCLE: u32 = 2 * TRIAL_WAIT_COUNT + SETTLED_WAIT_COUNT;

    #[test]
    fn the_cheaper_wait_is_used_until_the_next_trial() {
        assert_eq!(slept(2 * CYCLE, 1_000, 50_000, 20, 1), 2 * TRIAL_WAIT_COUNT);
        let busy = slept(2 * CYCLE, 5_000, 50_000, 20, 1);
        assert_eq!(busy, 2 * (CYCLE - TRIAL_WAIT_COUNT), "a look lets others run first");
        let many = slept(2 * CYCLE, 1_000, 50_000, 20, 3);
        assert_eq!(many, 2 * (CYCLE - TRIAL_WAIT_COUNT), "three requests in 50 us, for one in 20");
    }

    #[test]
    fn a_slow_client_is_not_polled_for() {
        let looks_in_vain = LOOK_COUNT_MAX + 1;
        assert_eq!(slept(CYCLE, 1_000, 5_000_000, looks_in_vain, 1), CYCLE);
        let mut look_count = 0;
        let mut polling = Polling::new(Arc::new(StillClock));
        for _ in 0..CYCLE {
            polling.wait(
                1,
                || {
                    look_count += 1;
                    None
                },
                || (),
            );
        }
        assert_eq!(look_count, TRIAL_WAIT_COUNT * LOOK_COUNT_MAX, "nobody's time passes");
    }
}
