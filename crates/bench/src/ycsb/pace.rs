//! The start of each operation of a client.
//!
//! ```text
//!   back to back   |op |op      |op |            at once, as YCSB does without a target
//!   target         |op |  |op      ||op |  |op   at every tick; late ones follow at once
//!   open loop      a    b c         d            arrivals, independent of the store
//!     client 1     |op a    ||op c  |            the first free client takes the next one
//!     client 2          |op b |     |op d |
//! ```
//!
//! Invariants
//!   S1  Operation k of an open loop starts at its intended time or when the first client is free,
//!       whichever is later. No operation is skipped because the store is slow, and no run starts
//!       before all its clients exist.
//!   S2  Waiting for a client counts for the response time and never for the service time.
//!   S3  In virtual time operations are done in the order of their starts. The shared drive and its
//!       write turns only move forward, so a later operation that ran first would delay the earlier
//!       ones.
//!
//! The schedule of an open loop is kept if, of the operations that a client waited for, 99 % start
//! at most [`KEPT_WITHIN_NS`] late. The report says whether it was kept, because no program can
//! promise it on a machine with other work.

use crate::latency::{Latencies, LatencySummary};
use imbrex_clockwork::Clock;
use serde::Serialize;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The largest delay of a start within a kept schedule.
pub const KEPT_WITHIN_NS: u64 = 50_000;

/// The longest wait between two checks for a stop.
const SLICE_NS: u64 = 100_000_000;

/// The largest number of arrivals counted after the end; the report says if there were more.
const UNSTARTED_MAX: usize = 10_000_000;

/// Intended start times in nanoseconds from the start of the run, never decreasing.
pub type Arrivals = Box<dyn Iterator<Item = u64> + Send>;

/// The pacing of all clients of a run.
pub enum Pace {
    /// Each client starts an operation when the one before has ended.
    BackToBack,
    /// Each client starts an operation per tick.
    Target {
        /// The time between two operations of a client.
        tick_ns: u64,
    },
    /// The first free client takes the next arrival.
    Open(Mutex<Arrivals>),
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::BackToBack => f.write_str("BackToBack"),
            Pace::Target { tick_ns } => write!(f, "Target({tick_ns} ns)"),
            Pace::Open(_) => f.write_str("Open"),
        }
    }
}

/// The timing that all clients share.
#[derive(Debug)]
pub struct Timing<'a> {
    /// The clock of the run.
    pub clock: &'a dyn Clock,
    /// The pacing of clients.
    pub pace: Pace,
    began_ns: OnceLock<u64>,
    /// No operation starts later than this after the start of the run.
    limit_ns: u64,
    is_stopped: AtomicBool,
    /// The number of arrivals taken, and the intended start of the last one, relative to the start
    /// of the run.
    pub(super) arrived_count: AtomicU64,
    pub(super) arrived_until_ns: AtomicU64,
    /// Intended starts of arrivals that clients took and never started.
    given_up_ns: Mutex<Vec<u64>>,
}

/// The schedule of one client.
#[derive(Debug)]
pub struct ClientSchedule {
    /// The start of its ticks.
    began_ns: u64,
    ops: u64,
    lateness: Latencies,
    /// Operations that started no later than [`KEPT_WITHIN_NS`]; the histogram has no bin bound
    /// there.
    kept_count: u64,
    queued_count: u64,
    queued_ns_max: u64,
}

impl<'a> Timing<'a> {
    /// The timing of a run by `clock` that ends `limit_ns` after its start.
    pub fn new(clock: &'a dyn Clock, pace: Pace, limit_ns: u64) -> Timing<'a> {
        Timing {
            clock,
            pace,
            began_ns: OnceLock::new(),
            limit_ns,
            is_stopped: AtomicBool::new(false),
            arrived_count: AtomicU64::new(0),
            arrived_until_ns: AtomicU64::new(0),
            given_up_ns: Mutex::default(),
        }
    }

    /// The start of the run: the first call of this, when all clients exist.
    pub fn began_ns(&self) -> u64 {
        *self.began_ns.get_or_init(|| self.clock.now_ns())
    }

    /// No operation starts at or after this time.
    pub fn deadline_ns(&self) -> u64 {
        self.began_ns().saturating_add(self.limit_ns)
    }

    /// Whether [`Timing::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Ends the run: no further operation starts.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Waits until `at_ns`. Returns false if the run was stopped or the deadline came first.
    pub fn wait(&self, at_ns: u64) -> bool {
        let deadline_ns = self.deadline_ns();
        loop {
            let now_ns = self.clock.now_ns();
            if self.is_stopped() || now_ns >= deadline_ns {
                return false;
            }
            if now_ns >= at_ns {
                return true;
            }
            let slice_end_ns = now_ns.saturating_add(SLICE_NS);
            self.clock.wait_until_ns(at_ns.min(slice_end_ns).min(deadline_ns));
        }
    }

    /// Waits for the next operation of a client. Returns its intended start, or `None` at the end.
    pub fn next(&self, beat: &mut ClientSchedule) -> Option<u64> {
        let free_ns = self.clock.now_ns();
        let intended_ns = match &self.pace {
            Pace::BackToBack => free_ns,
            Pace::Target { .. } if beat.ops == 0 => beat.began_ns.max(free_ns),
            Pace::Target { tick_ns } => beat.tick_at_ns(*tick_ns),
            Pace::Open(arrivals) => {
                let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
                let after_ns = arrivals.next()?;
                // Both under the lock, so that they match and the later arrival counts.
                self.arrived_count.fetch_add(1, Ordering::Relaxed);
                self.arrived_until_ns.store(after_ns, Ordering::Relaxed);
                self.began_ns().saturating_add(after_ns)
            }
        };
        if !self.wait(intended_ns) {
            let mut given_up_ns = self.given_up_ns.lock().unwrap_or_else(PoisonError::into_inner);
            given_up_ns.push(intended_ns);
            return None;
        }
        beat.ops += 1;
        if intended_ns > free_ns {
            beat.note_lateness(self.clock.now_ns() - intended_ns);
        } else if intended_ns < free_ns {
            beat.queued_count += 1;
            beat.queued_ns_max = beat.queued_ns_max.max(free_ns - intended_ns);
        }
        Some(intended_ns)
    }

    /// The start of the next operation of a client that is free from `free_ns`, as far as its own
    /// schedule decides: arrivals are handed out in order to the client that takes them.
    pub fn starts_ns(&self, beat: &ClientSchedule, free_ns: u64) -> u64 {
        match &self.pace {
            Pace::Target { tick_ns } => free_ns.max(beat.tick_at_ns(*tick_ns)),
            Pace::BackToBack | Pace::Open(_) => free_ns,
        }
    }

    /// The number of arrivals that were due at `ended_ns` and never started, and whether there were
    /// more than are counted.
    fn unstarted_count(&self, ended_ns: u64) -> (u64, bool) {
        let Pace::Open(arrivals) = &self.pace else { return (0, false) };
        let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let given_up_ns = self.given_up_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let taken_count = given_up_ns.iter().filter(|&&intended_ns| intended_ns < ended_ns).count();
        let due = |after_ns: &u64| self.began_ns().saturating_add(*after_ns) < ended_ns;
        let left_count = arrivals.by_ref().take(UNSTARTED_MAX).take_while(due).count();
        let has_more = left_count == UNSTARTED_MAX && arrivals.next().is_some_and(|at| due(&at));
        ((taken_count + left_count) as u64, has_more)
    }
}

impl ClientSchedule {
    /// A schedule whose ticks start at `began_ns`.
    pub fn new(began_ns: u64) -> ClientSchedule {
        let lateness = Latencies::new();
        ClientSchedule {
            began_ns,
            ops: 0,
            lateness,
            kept_count: 0,
            queued_count: 0,
            queued_ns_max: 0,
        }
    }

    /// Records the delay of an operation that the client waited for.
    fn note_lateness(&mut self, late_ns: u64) {
        self.lateness.record(late_ns);
        self.kept_count += u64::from(late_ns <= KEPT_WITHIN_NS);
    }

    /// The time of its next tick.
    fn tick_at_ns(&self, tick_ns: u64) -> u64 {
        self.began_ns.saturating_add(self.ops.saturating_mul(tick_ns))
    }
}

/// How well a schedule was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ScheduleFigures {
    /// Operations per second that the schedule requested, up to the last operation that was
    /// started.
    pub offered_per_second: f64,
    /// Operations that a free client waited for.
    pub waited_count: u64,
    /// The delays of their starts.
    pub lateness: LatencySummary,
    /// Whether 99 % of them started within 50 us.
    pub is_kept: bool,
    /// Operations that arrived while all clients were busy.
    pub queued_count: u64,
    /// The longest wait for a client.
    pub queued_ns_max: u64,
    /// Operations that were due before the end and never started.
    pub unstarted_count: u64,
    /// Whether there were more of them than are counted.
    pub has_more_unstarted: bool,
}

impl ScheduleFigures {
    /// The figures of the schedule at `ended_ns`; `None` without a schedule.
    pub fn of(
        timing: &Timing<'_>,
        beats: &[ClientSchedule],
        ended_ns: u64,
    ) -> Option<ScheduleFigures> {
        let offered_per_second = match &timing.pace {
            Pace::BackToBack => return None,
            Pace::Target { tick_ns } => beats.len() as f64 * 1e9 / *tick_ns as f64,
            Pace::Open(_) => {
                let count = timing.arrived_count.load(Ordering::Relaxed) as f64;
                let until_ns = timing.arrived_until_ns.load(Ordering::Relaxed);
                count * 1e9 / until_ns.max(1) as f64
            }
        };
        let mut lateness = Latencies::new();
        beats.iter().for_each(|beat| lateness.add(&beat.lateness));
        let waited_count = lateness.count();
        let kept_count: u64 = beats.iter().map(|beat| beat.kept_count).sum();
        let (unstarted_count, has_more_unstarted) = timing.unstarted_count(ended_ns);
        Some(ScheduleFigures {
            offered_per_second,
            waited_count,
            lateness: lateness.summary(),
            is_kept: 99 * u128::from(waited_count) <= 100 * u128::from(kept_count),
            queued_count: beats.iter().map(|beat| beat.queued_count).sum(),
            queued_ns_max: beats.iter().map(|beat| beat.queued_ns_max).max().unwrap_or(0),
            unstarted_count,
            has_more_unstarted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::{Order, VirtualWorld};

    fn figures(timing: &Timing<'_>, beats: &[ClientSchedule], ended_ns: u64) -> ScheduleFigures {
        ScheduleFigures::of(timing, beats, ended_ns).unwrap()
    }

    /// The count up to the limit used to be reported as the total.
    #[test]
    fn more_arrivals_than_anybody_counts_are_at_least_so_many() {
        let world = VirtualWorld::new(Order::SmallestTime);
        let left = |count: u64, ended_ns: u64| {
            let timing = Timing::new(&world, Pace::Open(Mutex::new(Box::new(0..count))), u64::MAX);
            let figures = figures(&timing, &[], ended_ns);
            (figures.unstarted_count, figures.has_more_unstarted)
        };
        let most = UNSTARTED_MAX as u64;
        assert_eq!(left(7, u64::MAX), (7, false));
        assert_eq!(left(most, u64::MAX), (most, false));
        assert_eq!(left(2 * most, most), (most, false), "those after the end were not due");
        assert_eq!(left(2 * most, most + 1), (most, true));
    }

    /// The histogram's bin that contains 50,000 ns ends above it.
    #[test]
    fn a_schedule_is_kept_to_the_nanosecond() {
        let is_kept = |late_ns: [u64; 100]| {
            let world = VirtualWorld::new(Order::SmallestTime);
            let timing = Timing::new(&world, Pace::Target { tick_ns: 1 }, u64::MAX);
            let mut beat = ClientSchedule::new(0);
            for late_ns in late_ns {
                beat.note_lateness(late_ns);
            }
            figures(&timing, &[beat], 1).is_kept
        };
        let but = |count: usize| {
            let mut late_ns = [KEPT_WITHIN_NS; 100];
            late_ns[..count].fill(KEPT_WITHIN_NS + 1);
            late_ns
        };
        assert!(is_kept(but(0)) && is_kept(but(1)));
        assert!(!is_kept(but(2)));
    }
}
