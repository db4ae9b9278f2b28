//! When a client starts its next operation.
//!
//! ```text
//!   back to back   |op |op      |op |            at once, as YCSB does without a target
//!   target         |op |  |op      ||op |  |op   every tick of its own; late ones follow at once
//!   open loop      a    b c         d            arrivals, which no store can hold up
//!     client 1     |op a    ||op c  |            the first that is free takes the next one
//!     client 2          |op b |     |op d |
//! ```
//!
//! Invariants
//!   S1  Operation k of an open loop starts at its intended time or when the first client is free, whichever
//!       is later; none is left out because the store is slow. No run begins before its clients are there.
//!   S2  Waiting for a client is part of the response time, and never of the service time.
//!   S3  In virtual time operations are done in the order of their starts: what clients share, a drive and its turns
//!       of writes, only goes forward, so a later one done first would hold up those before it.
//!
//! The schedule of an open loop is kept if of the operations for which a client waited 99 % start at most
//! [`KEPT_WITHIN_NS`] late. Whether it was is part of the report: under a machine that has other
//! things to do no program can promise it.

use crate::latency::{Latencies, LatencySummary};
use imbrex_clockwork::Clock;
use serde::Serialize;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// How late operations may start for a schedule to be kept.
pub const KEPT_WITHIN_NS: u64 = 50_000;

/// How long a client waits without looking whether it is to stop.
const SLICE_NS: u64 = 100_000_000;

/// More arrivals than anybody counts after the end; that there are more of them is told.
const UNSTARTED_MAX: usize = 10_000_000;

/// Intended start times in nanoseconds from the start of the run, never decreasing.
pub type Arrivals = Box<dyn Iterator<Item = u64> + Send>;

/// How all clients of a run go on.
pub enum Pace {
    /// Each client starts an operation when the one before has ended.
    BackToBack,
    /// Each client has a tick.
    Target {
        /// From one operation of a client to its next.
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

/// What all clients share of time.
#[derive(Debug)]
pub struct Timing<'a> {
    /// The clock of the run.
    pub clock: &'a dyn Clock,
    /// How clients go on.
    pub pace: Pace,
    began_ns: OnceLock<u64>,
    /// So long after the start no operation starts any more.
    limit_ns: u64,
    is_stopped: AtomicBool,
    /// Arrivals taken, and when the last of them was intended, from the start of the run.
    pub(super) arrived_count: AtomicU64,
    pub(super) arrived_until_ns: AtomicU64,
    /// Arrivals that clients took and did not start any more: when they were intended.
    given_up_ns: Mutex<Vec<u64>>,
}

/// One client's place in time.
#[derive(Debug)]
pub struct ClientSchedule {
    /// When its ticks began.
    began_ns: u64,
    ops: u64,
    lateness: Latencies,
    /// Operations that started no later than [`KEPT_WITHIN_NS`]: the histogram has no bound there.
    kept_count: u64,
    queued_count: u64,
    queued_ns_max: u64,
}

impl<'a> Timing<'a> {
    /// A run by `clock` that ends `limit_ns` after its start.
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

    /// When the run began, which is when this was first asked for: when all clients are there.
    pub fn began_ns(&self) -> u64 {
        *self.began_ns.get_or_init(|| self.clock.now_ns())
    }

    /// No operation starts from here on.
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

    /// Waits until `at_ns`; false if it was stopped, or the deadline came before.
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

    /// Waits for the next operation of a client; when it should have started, or `None` at the end.
    pub fn next(&self, beat: &mut ClientSchedule) -> Option<u64> {
        let free_ns = self.clock.now_ns();
        let intended_ns = match &self.pace {
            Pace::BackToBack => free_ns,
            Pace::Target { .. } if beat.ops == 0 => beat.began_ns.max(free_ns),
            Pace::Target { tick_ns } => beat.tick_at_ns(*tick_ns),
            Pace::Open(arrivals) => {
                let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
                let after_ns = arrivals.next()?;
                // Under the lock, so that they belong together and the later one counts.
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

    /// When a client that is free from `free_ns` on starts its next operation, as far as that is its own affair: arrivals
    /// belong to who takes them, and are handed out in order.
    pub fn starts_ns(&self, beat: &ClientSchedule, free_ns: u64) -> u64 {
        match &self.pace {
            Pace::Target { tick_ns } => free_ns.max(beat.tick_at_ns(*tick_ns)),
            Pace::BackToBack | Pace::Open(_) => free_ns,
        }
    }

    /// Arrivals that were due at `ended_ns` and that nobody started, and whether there are more than anybody counts.
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
    /// One whose ticks begin at `began_ns`.
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

    /// A client waited for an operation, which starts so late.
    fn note_lateness(&mut self, late_ns: u64) {
        self.lateness.record(late_ns);
        self.kept_count += u64::from(late_ns <= KEPT_WITHIN_NS);
    }

    /// When its next tick is.
    fn tick_at_ns(&self, tick_ns: u64) -> u64 {
        self.began_ns.saturating_add(self.ops.saturating_mul(tick_ns))
    }
}

/// How well a schedule was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ScheduleFigures {
    /// Operations that a schedule called for a second, up to the last one that was started.
    pub offered_per_second: f64,
    /// Operations for which a client was free and waited.
    pub waited_count: u64,
    /// How late those started.
    pub lateness: LatencySummary,
    /// Whether 99 % of them started within 50 us.
    pub is_kept: bool,
    /// Operations that came while all clients were busy.
    pub queued_count: u64,
    /// How long one of them waited for a client at most.
    pub queued_ns_max: u64,
    /// Operations that were due before the end and never started.
    pub unstarted_count: u64,
    /// Whether there were more of those, which nobody counted.
    pub has_more_unstarted: bool,
}

impl ScheduleFigures {
    /// What became of the schedule by `ended_ns`; none without one.
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

    /// What was counted up to the ceiling was told as all there was.
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

    /// The bin of the histogram that has 50,000 ns in it ends above them.
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
