//! Replays that figures run: a trace, a write buffer, an order of eviction and one of cleaning.

use imbrex_bench::BenchError;
use imbrex_bench::replay::{ReplayOptions, ReplayReport, replay, survey};
use imbrex_translate::{CleaningOrder, EvictionOrder};
use imbrex_workload::trace::{BundledTrace, Shape, TraceSource};
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A trace that the user has, for the figures of the block driver.
///
/// It lives as long as the program, because what figures run is plain data that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GivenTrace {
    /// What it stands for: `LUN0`, or any other name.
    pub name: &'static str,
    path: &'static Path,
    request_count: u64,
    footprint_bytes: u64,
}

impl GivenTrace {
    /// Reads the file at `path` through: what cannot be read fails before the first run.
    ///
    /// # Errors
    /// [`BenchError::Trace`]; [`BenchError::Options`]: it has no requests.
    pub fn open(name: &str, path: PathBuf) -> Result<GivenTrace, BenchError> {
        let found = survey(&TraceSource::File { path: path.clone(), format: None })?;
        Ok(GivenTrace {
            name: String::leak(name.to_owned()),
            path: Box::leak(path.into_boxed_path()),
            request_count: found.requests,
            footprint_bytes: found.footprint_bytes,
        })
    }
}

/// Its name: the same trace in another place gives the same page.
impl Serialize for GivenTrace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// What is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplayTrace {
    /// Made of a shape.
    Synthetic(Shape),
    /// Recorded; it comes with the program.
    Bundled(BundledTrace),
    /// A file.
    Given(GivenTrace),
}

impl ReplayTrace {
    /// What it stands for.
    pub fn name(&self) -> &'static str {
        match self {
            ReplayTrace::Synthetic(shape) => shape.name,
            ReplayTrace::Bundled(bundled) => bundled.name,
            ReplayTrace::Given(given) => given.name,
        }
    }

    /// How much it touches, or may.
    pub fn footprint_bytes(&self) -> u64 {
        match self {
            ReplayTrace::Synthetic(shape) => shape.footprint_bytes,
            ReplayTrace::Bundled(bundled) => bundled.footprint_bytes,
            ReplayTrace::Given(given) => given.footprint_bytes,
        }
    }

    fn request_count(&self) -> u64 {
        match self {
            ReplayTrace::Synthetic(shape) => shape.request_count,
            ReplayTrace::Bundled(bundled) => bundled.request_count,
            ReplayTrace::Given(given) => given.request_count,
        }
    }
}

/// Which zones are cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CleaningChoice {
    /// Of the 20 with the most garbage the 2 that merge the most nodes.
    MostMerged,
    /// The 2 with the most garbage: the baseline.
    MostGarbage,
}

/// One replay: everything that decides its outcome but the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplaySpec {
    /// Of what.
    pub trace: ReplayTrace,
    /// How much the write buffer may hold; 0 for none.
    pub buffer_bytes: u64,
    /// What leaves it first.
    pub evicts: EvictionOrder,
    /// Which zones are cleaned.
    pub cleans: CleaningChoice,
    /// A zone of the drive.
    pub zone_len_bytes: u64,
    /// How much of the data zones the trace's addresses fill.
    pub fill_percent: u64,
    /// Whether a request comes when the one before is done, and not at its own time.
    pub is_closed_loop: bool,
}

impl ReplaySpec {
    /// The replay in a few words.
    pub fn label(&self) -> String {
        let evicts = match self.evicts {
            EvictionOrder::LargestRegion => "largest region first",
            EvictionOrder::LongestAndOldest => "longest and oldest part first",
            EvictionOrder::LeastRecentlyWritten => "LRU",
        };
        let cleans = match self.cleans {
            CleaningChoice::MostMerged => "",
            CleaningChoice::MostGarbage => ", most garbage first",
        };
        let paces = if self.is_closed_loop { ", one after another" } else { "" };
        let megabytes = self.buffer_bytes as f64 / 1e6;
        format!("{}, buffer {megabytes:.1} MB, {evicts}{cleans}{paces}", self.trace.name())
    }

    /// How many requests it has: what progress counts.
    pub fn op_count(&self) -> u64 {
        self.trace.request_count()
    }

    fn options(&self, seed: u64) -> ReplayOptions {
        let trace = match self.trace {
            ReplayTrace::Synthetic(shape) => TraceSource::Synthetic { shape, seed },
            ReplayTrace::Bundled(bundled) => TraceSource::Bundled(bundled),
            ReplayTrace::Given(given) => {
                TraceSource::File { path: given.path.to_owned(), format: None }
            }
        };
        ReplayOptions {
            buffer_bytes: self.buffer_bytes,
            eviction: self.evicts,
            cleaning: match self.cleans {
                CleaningChoice::MostMerged => {
                    CleaningOrder::MostMerged { candidate_count: 20, chosen_count: 2 }
                }
                CleaningChoice::MostGarbage => CleaningOrder::MostGarbage { chosen_count: 2 },
            },
            zone_len_bytes: self.zone_len_bytes,
            fill_percent: self.fill_percent,
            is_closed_loop: self.is_closed_loop,
            squeezes: !matches!(self.trace, ReplayTrace::Synthetic(_)),
            ..ReplayOptions::new(trace)
        }
    }
}

/// Carries `spec` out; `ops_done` grows as it goes, and `is_stopped` is asked as often.
pub(super) fn execute(
    spec: &ReplaySpec,
    seed: u64,
    ops_done: &AtomicU64,
    is_stopped: &dyn Fn() -> bool,
) -> Result<ReplayReport, BenchError> {
    let mut told = 0;
    let mut tell = |done: u64| {
        ops_done.fetch_add(done - told, Ordering::Relaxed);
        told = done;
    };
    let report = replay(&spec.options(seed), &mut |done, _| {
        tell(done);
        !is_stopped()
    })?;
    tell(spec.op_count());
    if report.is_complete { Ok(report) } else { Err(BenchError::Stopped) }
}
