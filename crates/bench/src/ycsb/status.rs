//! Status lines in YCSB's form, and progress, during a run.
//!
//! ```text
//!   2026-11-21 07:31:10:250 10 sec: 48211 operations; 4821.1 current ops/sec; est completion in 2 minutes
//!     [READ: Count=..., Max=..., Min=..., Avg=..., 50=..., 90=..., 99=..., 99.9=..., 99.99=...]      (one line)
//! ```

use super::measure::{Measurements, full_name};
use super::pace::{Pace, Timing};
use super::settings::{MeasureInterval, Settings};
use crate::latency::Latencies;
use crate::watch::Phase;
use imbrex_clockwork::unix_time_s;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YcsbProgress {
    /// Whether records are being loaded, also if only because a run needs them.
    pub is_load: bool,
    /// The phase.
    pub phase: Phase,
    /// Operations or bytes done.
    pub done: u64,
    /// Operations or bytes to do, if known.
    pub total: Option<u64>,
    /// The current rate of the schedule, if there is a schedule.
    pub arrivals_per_second: Option<f64>,
}

/// Callbacks, called from any thread.
#[derive(Clone, Copy)]
pub struct YcsbWatch<'a> {
    /// Warnings, one line each.
    pub warn: &'a (dyn Fn(&str) + Sync),
    /// Status lines, if the properties ask for them.
    pub status: &'a (dyn Fn(&str) + Sync),
    /// Progress; `Break` ends the run, and the report covers the work up to that moment.
    pub progress: &'a (dyn Fn(&YcsbProgress) -> ControlFlow<()> + Sync),
}

impl std::fmt::Debug for YcsbWatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("YcsbWatch").finish_non_exhaustive()
    }
}

/// Observes the clients from time to time.
pub(crate) struct Observer<'a> {
    pub(crate) timing: &'a Timing<'a>,
    /// Their measurement sets.
    pub(crate) places: &'a [Mutex<Measurements>],
    pub(crate) settings: &'a Settings,
    pub(crate) watch: YcsbWatch<'a>,
    pub(crate) is_load: bool,
    /// The number of operations of all clients, if limited.
    pub(crate) ops_total: Option<u64>,
    state: Mutex<Seen>,
}

/// The state at the last observation.
#[derive(Debug)]
struct Seen {
    /// The date at the start of the run; other times are relative to it.
    began_unix_s: u64,
    status_ns: u64,
    status_ops: u64,
    next_status_ns: u64,
    arrived_count: u64,
    arrived_until_ns: u64,
    arrivals_per_second: f64,
}

/// The shortest interval over which the rate of arrivals is computed.
const RATE_OVER_NS: u64 = 1_000_000_000;

impl<'a> Observer<'a> {
    pub(crate) fn new(
        timing: &'a Timing<'a>,
        places: &'a [Mutex<Measurements>],
        settings: &'a Settings,
        watch: YcsbWatch<'a>,
        (is_load, ops_total): (bool, Option<u64>),
    ) -> Observer<'a> {
        let state = Mutex::new(Seen {
            began_unix_s: unix_time_s(),
            status_ns: 0,
            status_ops: 0,
            next_status_ns: 0,
            arrived_count: 0,
            arrived_until_ns: 0,
            arrivals_per_second: 0.0,
        });
        Observer { timing, places, settings, watch, is_load, ops_total, state }
    }

    /// Reports the progress at `now_ns`, and stops the run if the callback asks for it.
    pub(crate) fn look(&self, now_ns: u64) {
        let ops = self.ops();
        let mut seen = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = self.arrival_rate(&mut seen);
        let progress = YcsbProgress {
            is_load: self.is_load,
            phase: Phase::Operations,
            done: ops,
            total: self.ops_total,
            arrivals_per_second: rate,
        };
        if (self.watch.progress)(&progress).is_break() {
            self.timing.stop();
        }
        let after_ns = now_ns.saturating_sub(self.timing.began_ns());
        if self.settings.has_status && after_ns >= seen.next_status_ns {
            self.status(&mut seen, after_ns, ops);
            let interval_ns = self.settings.status_interval_s * 1_000_000_000;
            seen.next_status_ns = (after_ns / interval_ns + 1) * interval_ns;
        }
    }

    /// Prints the last status line, if status lines are printed.
    pub(crate) fn end(&self, now_ns: u64) {
        if self.settings.has_status {
            let mut seen = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let after_ns = now_ns.saturating_sub(self.timing.began_ns());
            self.status(&mut seen, after_ns, self.ops());
        }
    }

    fn ops(&self) -> u64 {
        let ops =
            |place: &Mutex<Measurements>| place.lock().unwrap_or_else(PoisonError::into_inner).ops;
        self.places.iter().map(ops).sum()
    }

    fn arrival_rate(&self, seen: &mut Seen) -> Option<f64> {
        match &self.timing.pace {
            Pace::BackToBack => None,
            Pace::Target { .. } => Some(self.settings.target_per_s as f64),
            Pace::Open(_) => {
                let count = self.timing.arrived_count.load(Ordering::Relaxed);
                let until_ns = self.timing.arrived_until_ns.load(Ordering::Relaxed);
                let over_ns = until_ns.saturating_sub(seen.arrived_until_ns);
                let arrived = count.saturating_sub(seen.arrived_count);
                if over_ns >= RATE_OVER_NS || seen.arrived_until_ns == 0 {
                    seen.arrivals_per_second = arrived as f64 * 1e9 / over_ns.max(1) as f64;
                }
                if over_ns >= RATE_OVER_NS {
                    (seen.arrived_count, seen.arrived_until_ns) = (count, until_ns);
                }
                Some(seen.arrivals_per_second)
            }
        }
    }

    /// A status line at this time after the start.
    fn status(&self, seen: &mut Seen, after_ns: u64, ops: u64) {
        let mut line = self.settings.label.clone();
        let date = Date::of(seen.began_unix_s, after_ns / 1_000_000);
        let seconds = after_ns / 1_000_000_000;
        let mut add = |text: std::fmt::Arguments<'_>| {
            line.write_fmt(text).expect("writing to a string never fails");
        };
        add(format_args!("{date} {seconds} sec: {ops} operations; "));
        if ops > 0 {
            let over_s = after_ns.saturating_sub(seen.status_ns).max(1) as f64 / 1e9;
            let rate = (ops - seen.status_ops) as f64 / over_s;
            add(format_args!("{} current ops/sec; ", two_decimals(rate)));
        }
        let left = self.ops_total.map_or(0, |total| total.saturating_sub(ops));
        if left > 0 && ops > 0 {
            let left_s = left as f64 * after_ns as f64 / 1e9 / ops as f64;
            add(format_args!("est completion in {}", Remaining(left_s.ceil() as u64)));
        }
        for name_and_latencies in self.since_status() {
            add(format_args!("{name_and_latencies} "));
        }
        (self.watch.status)(&line);
        (seen.status_ns, seen.status_ops) = (after_ns, ops);
    }

    /// The latencies of each kind of operation since the last status line.
    fn since_status(&self) -> Vec<String> {
        let mut merged = std::collections::BTreeMap::new();
        for place in self.places {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            for (name, both) in place.take_since_status() {
                let all =
                    merged.entry(name).or_insert_with(super::measure::ServiceAndResponse::new);
                all.add(&both);
            }
        }
        let interval = self.settings.measure.interval;
        let mut parts = Vec::new();
        for (&(what, has_failed), both) in &merged {
            let name = full_name(what, has_failed);
            if interval != MeasureInterval::Intended {
                parts.push(summary(&name, &both.service));
            }
            match interval {
                MeasureInterval::Op => {}
                MeasureInterval::Intended => parts.push(summary(&name, &both.response)),
                MeasureInterval::ServiceAndResponse => {
                    parts.push(summary(&format!("Intended-{name}"), &both.response));
                }
            }
        }
        parts
    }
}

fn summary(name: &str, latencies: &Latencies) -> String {
    let s = latencies.summary();
    format!(
        "[{name}: Count={}, Max={}, Min={}, Avg={}, 50={}, 90={}, 99={}, 99.9={}, 99.99={}]",
        latencies.count(),
        s.max_ns / 1000,
        latencies.min_ns() / 1000,
        two_decimals(latencies.mean_ns() / 1000.0),
        s.p50_ns / 1000,
        s.p90_ns / 1000,
        s.p99_ns / 1000,
        s.p999_ns / 1000,
        s.p9999_ns / 1000,
    )
}

/// Formats like Java's `#.##`.
fn two_decimals(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The remaining time in YCSB's words.
struct Remaining(u64);

impl std::fmt::Display for Remaining {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (days, hours) = (self.0 / 86_400, self.0 / 3600 % 24);
        let (minutes, seconds) = (self.0 / 60 % 60, self.0 % 60);
        let mut part = |count: u64, name: &str| match count {
            0 => Ok(()),
            1 => write!(f, "1 {name} "),
            _ => write!(f, "{count} {name}s "),
        };
        part(days, "day")?;
        part(hours, "hour")?;
        if days < 1 {
            part(minutes, "minute")?;
        }
        if self.0 < 60 { write!(f, "{seconds} seconds ") } else { Ok(()) }
    }
}

/// A moment in UTC, as YCSB writes it.
struct Date {
    unix_s: u64,
    millis: u64,
}

impl Date {
    fn of(began_unix_s: u64, after_ms: u64) -> Date {
        Date { unix_s: began_unix_s + after_ms / 1000, millis: after_ms % 1000 }
    }
}

impl std::fmt::Display for Date {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Years start in March here, so that the leap day is the last one; an era has 400 years.
        let days = self.unix_s / 86_400 + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute) = (self.unix_s / 3600 % 24, self.unix_s / 60 % 60);
        let (second, millis) = (self.unix_s % 60, self.millis);
        write!(f, "{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}:{millis:03}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |unix_s, want: &str| assert_eq!(Date::of(unix_s, 1250).to_string(), want);
        check(0, "1970-01-01 00:00:01:250");
        check(951_782_398, "2000-02-28 23:59:59:250");
        check(951_868_798, "2000-02-29 23:59:59:250");
        check(951_868_799, "2000-03-01 00:00:00:250");
        check(1_795_247_999, "2026-11-21 08:00:00:250");
        check(4_102_444_799, "2100-01-01 00:00:00:250");
    }

    #[test]
    fn remaining_time_and_decimals_read_as_in_ycsb() {
        let check = |seconds, want: &str| assert_eq!(Remaining(seconds).to_string(), want);
        check(0, "0 seconds ");
        check(59, "59 seconds ");
        check(61, "1 minute ");
        check(3_720, "1 hour 2 minutes ");
        check(90_000, "1 day 1 hour ");
        let check = |value: f64, want: &str| assert_eq!(two_decimals(value), want);
        check(4821.1, "4821.1");
        check(100.0, "100");
        check(0.004, "0");
        check(1.239, "1.24");
    }
}
