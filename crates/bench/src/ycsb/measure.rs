//! Latencies of operations by kind: from their own start (service) and from their intended start
//! (response).
//!
//! ```text
//!   should start      starts                ends
//!      |---- waits -----|----- service -----|
//!      |------------- response -------------|      YCSB calls it "intended"
//! ```
//!
//! A client has its own measurements, or shares them if there are many clients. All are added up at
//! the end.

use super::settings::{MeasureKind, MeasurePlan};
use crate::latency::Latencies;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The kinds of measurement, each with its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measured {
    Read,
    Update,
    Insert,
    Scan,
    /// In addition to the read and the update that it consists of.
    ReadModifyWrite,
    /// The comparison of a read record with the expected one.
    Verify,
    Cleanup,
}

impl Measured {
    /// YCSB's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Measured::Read => "READ",
            Measured::Update => "UPDATE",
            Measured::Insert => "INSERT",
            Measured::Scan => "SCAN",
            Measured::ReadModifyWrite => "READ-MODIFY-WRITE",
            Measured::Verify => "VERIFY",
            Measured::Cleanup => "CLEANUP",
        }
    }
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    Ok,
    NotFound,
    Error,
    /// The record read differs from the one written.
    UnexpectedState,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Ok => "OK",
            Status::NotFound => "NOT_FOUND",
            Status::Error => "ERROR",
            Status::UnexpectedState => "UNEXPECTED_STATE",
        })
    }
}

/// A completed operation; times in nanoseconds of the run's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// The intended start.
    pub(crate) intended_ns: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

impl Done {
    fn service_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    fn response_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.intended_ns)
    }
}

/// Latencies counted in both ways.
#[derive(Clone, Debug)]
pub(crate) struct ServiceAndResponse {
    pub(crate) service: Latencies,
    pub(crate) response: Latencies,
}

impl ServiceAndResponse {
    pub(crate) fn new() -> ServiceAndResponse {
        ServiceAndResponse { service: Latencies::new(), response: Latencies::new() }
    }

    fn record(&mut self, done: Done) {
        self.service.record(done.service_ns());
        self.response.record(done.response_ns());
    }

    pub(crate) fn add(&mut self, other: &ServiceAndResponse) {
        self.service.add(&other.service);
        self.response.add(&other.response);
    }
}

/// The data of YCSB's older kinds of measurement.
#[derive(Clone, Debug)]
pub(crate) enum Older {
    None,
    /// Counts per millisecond, the count above the last bucket, the sum of microseconds, and the
    /// sum of their squares.
    Buckets {
        counts: Vec<u64>,
        overflow: u64,
        sum_us: u128,
        square_sum_us: u128,
    },
    /// Microseconds and operations per interval.
    TimeSeries {
        granularity_ms: u64,
        units: BTreeMap<u64, (u64, u64)>,
    },
    /// The end of each operation in milliseconds from the start, and its microseconds.
    Raw(Vec<(u64, u64)>),
}

impl Older {
    pub(crate) fn new(plan: &MeasurePlan) -> Older {
        match plan.kind {
            MeasureKind::Hdr => Older::None,
            MeasureKind::Buckets | MeasureKind::HdrAndBuckets => Older::Buckets {
                counts: vec![0; plan.bucket_count],
                overflow: 0,
                sum_us: 0,
                square_sum_us: 0,
            },
            MeasureKind::TimeSeries => {
                let granularity_ms = plan.granularity_ms;
                Older::TimeSeries { granularity_ms, units: BTreeMap::new() }
            }
            MeasureKind::Raw | MeasureKind::HdrAndRaw => Older::Raw(Vec::new()),
        }
    }

    fn record(&mut self, at_ms: u64, took_us: u64) {
        match self {
            Older::None => {}
            Older::Buckets { counts, overflow, sum_us, square_sum_us } => {
                let bucket = usize::try_from(took_us / 1000).unwrap_or(usize::MAX);
                *counts.get_mut(bucket).unwrap_or(overflow) += 1;
                *sum_us += u128::from(took_us);
                *square_sum_us =
                    square_sum_us.saturating_add(u128::from(took_us) * u128::from(took_us));
            }
            Older::TimeSeries { granularity_ms, units } => {
                let unit = units.entry(at_ms / *granularity_ms * *granularity_ms).or_default();
                unit.0 += took_us;
                unit.1 += 1;
            }
            Older::Raw(points) => points.push((at_ms, took_us)),
        }
    }

    fn add(&mut self, other: &Older) {
        match (self, other) {
            (
                Older::Buckets { counts, overflow, sum_us, square_sum_us },
                Older::Buckets { counts: c, overflow: o, sum_us: s, square_sum_us: q },
            ) => {
                counts.iter_mut().zip(c).for_each(|(count, more)| *count += more);
                *overflow += o;
                *sum_us += s;
                *square_sum_us = square_sum_us.saturating_add(*q);
            }
            (Older::TimeSeries { units, .. }, Older::TimeSeries { units: more, .. }) => {
                for (at, (sum, count)) in more {
                    let unit = units.entry(*at).or_default();
                    unit.0 += sum;
                    unit.1 += count;
                }
            }
            (Older::Raw(points), Older::Raw(more)) => {
                points.extend(more);
                points.sort_unstable();
            }
            _ => {}
        }
    }
}

/// All measurements of one name.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) both: ServiceAndResponse,
    pub(crate) service_older: Older,
    pub(crate) response_older: Older,
    pub(crate) returns: BTreeMap<Status, u64>,
    /// Since the last status line, if status lines are printed.
    since_status: Option<Box<ServiceAndResponse>>,
}

impl Series {
    fn new(plan: &MeasurePlan) -> Series {
        Series {
            both: ServiceAndResponse::new(),
            service_older: Older::new(plan),
            response_older: Older::new(plan),
            returns: BTreeMap::new(),
            since_status: plan.has_status.then(|| Box::new(ServiceAndResponse::new())),
        }
    }
}

/// The measurements of one client, of several, or of all.
#[derive(Clone, Debug)]
pub(crate) struct Measurements {
    plan: Arc<MeasurePlan>,
    /// The start of the run.
    began_ns: u64,
    /// By name; failed operations are under the name with `-FAILED`.
    series: BTreeMap<(Measured, bool), Series>,
    /// Whole operations of any kind.
    pub(crate) all: ServiceAndResponse,
    pub(crate) ops: u64,
    /// The store's first error.
    pub(crate) first_error: Option<String>,
}

impl Measurements {
    pub(crate) fn new(plan: &Arc<MeasurePlan>, began_ns: u64) -> Measurements {
        Measurements {
            plan: Arc::clone(plan),
            began_ns,
            series: BTreeMap::new(),
            all: ServiceAndResponse::new(),
            ops: 0,
            first_error: None,
        }
    }

    /// Sets the start of the run.
    pub(crate) fn begin(&mut self, began_ns: u64) {
        self.began_ns = began_ns;
    }

    /// Records the end of an operation, or of a part of one, under its name.
    pub(crate) fn record(&mut self, what: Measured, status: Status, done: Done) {
        let began_ns = self.began_ns;
        // YCSB measures every verification under one name.
        let has_failed = status != Status::Ok && what != Measured::Verify;
        let series = self.of(what, has_failed);
        series.both.record(done);
        if let Some(since) = &mut series.since_status {
            since.record(done);
        }
        let at_ms = done.end_ns.saturating_sub(began_ns) / 1_000_000;
        series.service_older.record(at_ms, done.service_ns() / 1000);
        series.response_older.record(at_ms, done.response_ns() / 1000);
        // YCSB counts outcomes under the plain name, except those of a whole read-modify-write and
        // of the cleanup.
        if !matches!(what, Measured::ReadModifyWrite | Measured::Cleanup) {
            *self.of(what, false).returns.entry(status).or_default() += 1;
        }
    }

    /// The number of inserted records, not of attempts.
    pub(crate) fn inserted_count(&self) -> u64 {
        let series = self.series.get(&(Measured::Insert, false));
        series.and_then(|series| series.returns.get(&Status::Ok)).copied().unwrap_or(0)
    }

    /// Records a failure of the store; the first one is kept.
    pub(crate) fn failed(&mut self, error: &dyn fmt::Display) {
        self.first_error.get_or_insert_with(|| error.to_string());
    }

    /// Records a whole operation.
    pub(crate) fn record_whole(&mut self, done: Done) {
        self.all.record(done);
        self.ops += 1;
    }

    pub(crate) fn add(&mut self, other: &Measurements) {
        self.all.add(&other.all);
        self.ops += other.ops;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
        for (&(what, has_failed), theirs) in &other.series {
            let ours = self.of(what, has_failed);
            ours.both.add(&theirs.both);
            ours.service_older.add(&theirs.service_older);
            ours.response_older.add(&theirs.response_older);
            for (status, count) in &theirs.returns {
                *ours.returns.entry(*status).or_default() += count;
            }
        }
    }

    /// Each name with its operations since the last call.
    pub(crate) fn take_since_status(&mut self) -> Vec<((Measured, bool), ServiceAndResponse)> {
        let taken = self.series.iter_mut().filter_map(|(name, series)| {
            let since = series.since_status.as_mut()?;
            Some((*name, std::mem::replace(&mut **since, ServiceAndResponse::new())))
        });
        taken.collect()
    }

    /// Sorted by name.
    pub(crate) fn series(&self) -> impl Iterator<Item = (String, &Series)> {
        self.series
            .iter()
            .map(|(&(what, has_failed), series)| (full_name(what, has_failed), series))
    }

    fn of(&mut self, what: Measured, has_failed: bool) -> &mut Series {
        let plan = &self.plan;
        self.series.entry((what, has_failed)).or_insert_with(|| Series::new(plan))
    }
}

/// `READ`, or `READ-FAILED`.
pub(crate) fn full_name(what: Measured, has_failed: bool) -> String {
    format!("{}{}", what.name(), if has_failed { "-FAILED" } else { "" })
}
