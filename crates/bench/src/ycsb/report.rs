//! The report of a YCSB run in addition to YCSB's own output: latencies counted in both ways, how
//! the schedule was kept, and the work of engine and drive for our own store.

use super::export::YcsbOutput;
use super::measure::Measurements;
use super::pace::ScheduleFigures;
use crate::latency::LatencySummary;
use crate::options::Mode;
use crate::report::{Bytes, StoreFigures, Time, fmt_store};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The results of one `imbrex ycsb load` or `run`.
#[derive(Clone, Debug, Serialize)]
pub struct YcsbReport {
    /// The setup.
    pub setup: YcsbSetup,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// The reason for an early end, if the store was lost or a load was given up.
    pub failure: Option<String>,
    /// The store's error at its first refusal of an operation.
    pub first_error: Option<String>,
    /// Operations done.
    pub ops: u64,
    /// From the start of the first operation to the end of the last.
    pub elapsed_ns: u64,
    /// From the start of the first operation to the end of the background work.
    pub settled_ns: u64,
    /// Operations per second of the clock, up to the end of the last operation.
    pub ops_per_second: f64,
    /// Latency of whole operations, from their own start.
    pub service: LatencySummary,
    /// Latency of whole operations, from their intended start.
    pub response: LatencySummary,
    /// The figures by kind, under YCSB's names.
    pub operations: Vec<OperationFigures>,
    /// How the schedule was kept, if there was one.
    pub schedule: Option<ScheduleFigures>,
    /// Bytes of keys and values written to our own store.
    pub written_bytes: u64,
    /// Bytes of keys and values read from it.
    pub read_bytes: u64,
    /// Work of our own store and its drive.
    pub store: Option<StoreFigures>,
    /// YCSB's own output.
    #[serde(skip)]
    pub output: YcsbOutput,
}

/// The setup.
#[derive(Clone, Debug, Serialize)]
pub struct YcsbSetup {
    /// `load` or `run`.
    pub phase: &'static str,
    /// The store: `imbrex`, or a server's address.
    pub db: String,
    /// The profile or image of our own store's drive.
    pub drive: Option<String>,
    /// Its capacity in bytes.
    pub capacity_bytes: Option<u64>,
    /// The layout.
    pub layout: Option<String>,
    /// The source of time.
    pub mode: Mode,
    /// The seed.
    pub seed: u64,
    /// Clients.
    pub threads: u32,
    /// Records after the load.
    pub record_count: u64,
    /// Whether the run first loaded them, unmeasured.
    pub loaded_first: bool,
    /// The pacing: `back to back`, a target, or a model of arrivals.
    pub pace: String,
}

/// The figures of one kind of operation.
#[derive(Clone, Debug, Serialize)]
pub struct OperationFigures {
    /// YCSB's name.
    pub name: String,
    /// The number of operations.
    pub count: u64,
    /// Outcomes and their counts.
    pub returns: BTreeMap<String, u64>,
    /// Latency from their own start.
    pub service: LatencySummary,
    /// Latency from their intended start.
    pub response: LatencySummary,
}

impl OperationFigures {
    pub(crate) fn all(measured: &Measurements) -> Vec<OperationFigures> {
        let of = measured.series().map(|(name, series)| OperationFigures {
            name,
            count: series.both.service.count(),
            returns: series.returns.iter().map(|(k, count)| (k.to_string(), *count)).collect(),
            service: series.both.service.summary(),
            response: series.both.response.summary(),
        });
        of.collect()
    }
}

impl YcsbReport {
    /// How the schedule was kept, in one line; `None` without a schedule.
    pub fn schedule_line(&self) -> Option<String> {
        let schedule = self.schedule.as_ref()?;
        let words = schedule.words(self.setup.mode);
        Some(match schedule.verdict(self.setup.mode) {
            Some(verdict) => format!("schedule {verdict}: {words}"),
            None => format!("schedule: {words}"),
        })
    }

    /// The report as JSON, ending in a line feed.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a report is numbers, strings and lists");
        text.push('\n');
        text
    }
}

impl fmt::Display for YcsbSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} records on {}", self.phase, self.record_count, self.db)?;
        if let (Some(drive), Some(bytes), Some(layout)) =
            (&self.drive, self.capacity_bytes, &self.layout)
        {
            write!(f, ", {drive} of {}, {layout}", Bytes(bytes))?;
        }
        let time = match self.mode {
            Mode::Virtual => "virtual time",
            Mode::Threads => "this machine's time",
        };
        write!(f, "; {} clients, {}, seed {}; {time}", self.threads, self.pace, self.seed)
    }
}

/// The tables for people.
impl fmt::Display for YcsbReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.setup)?;
        write!(f, "{} ops", self.ops)?;
        if self.interrupted {
            f.write_str(" (interrupted)")?;
        }
        write!(f, " in {}, {:.0} ops/s", Time(self.elapsed_ns), self.ops_per_second)?;
        if let Some(drive) = self.store.as_ref().map(|store| &store.drive) {
            if drive.busy_ns > 0 {
                write!(f, ", {:.1} ops per disk-second", drive.ops_per_disk_second)?;
            }
            let (written, read) = (Bytes(self.written_bytes), Bytes(self.read_bytes));
            write!(f, ", user bytes written {written} read {read}")?;
        }
        writeln!(f)?;
        writeln!(f, "  service   {}", self.service)?;
        if self.schedule.is_some() {
            writeln!(f, "  response  {}", self.response)?;
        }
        for operation in self.operations.iter().filter(|operation| operation.name != "CLEANUP") {
            write!(f, "  {} {}", operation.name, operation.count)?;
            for (status, count) in &operation.returns {
                write!(f, "  {status} {count}")?;
            }
            writeln!(f)?;
            writeln!(f, "    service   {}", operation.service)?;
            if self.schedule.is_some() {
                writeln!(f, "    response  {}", operation.response)?;
            }
        }
        if let Some(schedule) = &self.schedule {
            let words = schedule.words(self.setup.mode);
            match schedule.verdict(self.setup.mode) {
                Some(verdict) => writeln!(f, "  schedule  {verdict}: {words}")?,
                None => writeln!(f, "  schedule  {words}")?,
            }
        }
        if let Some(store) = &self.store {
            let StoreFigures { engine, drive, space, host, .. } = store;
            fmt_store(f, self.settled_ns, engine, drive, space, host.as_ref())?;
            writeln!(f)?;
        }
        if let Some(error) = &self.first_error {
            writeln!(f, "  refused   {error}")?;
        }
        Ok(())
    }
}

impl ScheduleFigures {
    /// Whether it was kept; `None` if that is certain, or no operation can show it.
    fn verdict(&self, mode: Mode) -> Option<&'static str> {
        let can_tell = mode == Mode::Threads && self.waited_count > 0;
        can_tell.then_some(if self.is_kept { "kept" } else { "NOT kept (p99 over 50 us)" })
    }

    /// The operations of the schedule in words.
    fn words(&self, mode: Mode) -> String {
        let mut words = format!(
            "{:.0} ops/s requested; {} found a free client",
            self.offered_per_second, self.waited_count
        );
        if mode == Mode::Threads && self.waited_count > 0 {
            let l = &self.lateness;
            let (p50, p99, max) = (Time(l.p50_ns), Time(l.p99_ns), Time(l.max_ns));
            words += &format!(" and started late by p50 {p50}  p99 {p99}  max {max}");
        }
        let longest = Time(self.queued_ns_max);
        words += &format!("; {} found all clients busy, for up to {longest}", self.queued_count);
        if self.unstarted_count > 0 {
            let at_least = if self.has_more_unstarted { "at least " } else { "" };
            words += &format!("; {at_least}{} were due and never started", self.unstarted_count);
        }
        words
    }
}
