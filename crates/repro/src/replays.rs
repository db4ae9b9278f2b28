//! Replays for figures: a trace, a write buffer, an order of eviction and one of cleaning.

use imbrex_bench::BenchError;
use imbrex_bench::replay::{ReplayOptions, ReplayReport, ReplayUnit, replay, survey};
use imbrex_translate::{CleaningOrder, EvictionOrder};
use imbrex_workload::trace::{BundledTrace, Shape, TraceSource};
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A user's trace, for the figures of the block driver.
///
/// It lives until the program ends, because the runs of figures are plain data that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GivenTrace {
    /// Its name: `LUN0` for a trace of the paper, or any other name.
    pub name: &'static str,
    path: &'static Path,
    request_count: u64,
    footprint_bytes: u64,
}

impl GivenTrace {
    /// Reads the whole file at `path`, so that a bad file fails before the first run.
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

/// Only its name, so that the same trace in another place gives the same page.
impl Serialize for GivenTrace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// The replayed trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplayTrace {
    /// Synthetic, of a shape.
    Synthetic(Shape),
    /// Recorded, and bundled with the program.
    Bundled(BundledTrace),
    /// A user's file.
    Given(GivenTrace),
}

impl ReplayTrace {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            ReplayTrace::Synthetic(shape) => shape.name,
            ReplayTrace::Bundled(bundled) => bundled.name,
            ReplayTrace::Given(given) => given.name,
        }
    }

    /// The bytes that it touches, or may touch.
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

/// The length of the journal, in lengths of the write buffer: the block device's own.
pub const JOURNAL_BUFFER_COUNT: u64 = 2;

/// The choice of zones to clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CleaningChoice {
    /// Of the 20 zones with the most garbage, the 2 that merge the most nodes: the paper's rule.
    Paper,
    /// The same within a budget of what is moved: the default of the block device (decision 49).
    MostMerged,
    /// The 2 zones with the most garbage: the baseline.
    MostGarbage,
}

/// One replay: everything that decides its outcome, except the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplaySpec {
    /// The trace.
    pub trace: ReplayTrace,
    /// The capacity of the write buffer; 0 for none.
    pub buffer_bytes: u64,
    /// The length of the journal, in lengths of the write buffer.
    pub journal_buffer_count: u64,
    /// The order of eviction.
    pub evicts: EvictionOrder,
    /// The choice of zones to clean.
    pub cleans: CleaningChoice,
    /// The length of a zone.
    pub zone_len_bytes: u64,
    /// The share of the data zones that the trace's addresses fill.
    pub fill_percent: u64,
    /// Whether a request arrives when the one before completes, instead of at its own time.
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
            CleaningChoice::Paper => "",
            CleaningChoice::MostMerged => ", merged within a budget",
            CleaningChoice::MostGarbage => ", most garbage first",
        };
        let paces = if self.is_closed_loop { ", one after another" } else { "" };
        let journal = match self.journal_buffer_count {
            JOURNAL_BUFFER_COUNT => String::new(),
            count => format!(", journal of {count} buffers"),
        };
        let megabytes = self.buffer_bytes as f64 / 1e6;
        let name = self.trace.name();
        format!("{name}, buffer {megabytes:.1} MB{journal}, {evicts}{cleans}{paces}")
    }

    /// The number of requests, for progress.
    pub fn op_count(&self) -> u64 {
        self.trace.request_count()
    }

    fn options(&self, seed: u64, unpacked_bytes: u64) -> ReplayOptions {
        let trace = match self.trace {
            ReplayTrace::Synthetic(shape) => TraceSource::Synthetic { shape, seed },
            ReplayTrace::Bundled(bundled) => TraceSource::Bundled(bundled),
            ReplayTrace::Given(given) => {
                TraceSource::File { path: given.path.to_owned(), format: None }
            }
        };
        // The paper's traces and its driver have sectors; ours and the shapes have blocks.
        let is_given = matches!(self.trace, ReplayTrace::Given(_));
        ReplayOptions {
            unit: if is_given { ReplayUnit::Sector } else { ReplayUnit::Block },
            buffer_bytes: self.buffer_bytes,
            journal_bytes: Some(self.journal_buffer_count * self.buffer_bytes),
            eviction: self.evicts,
            cleaning: match self.cleans {
                CleaningChoice::Paper => CleaningOrder::of_the_paper(),
                CleaningChoice::MostMerged => CleaningOrder::merged(),
                CleaningChoice::MostGarbage => CleaningOrder::MostGarbage { chosen_count: 2 },
            },
            zone_len_bytes: self.zone_len_bytes,
            fill_percent: self.fill_percent,
            is_closed_loop: self.is_closed_loop,
            squeezes: !matches!(self.trace, ReplayTrace::Synthetic(_)),
            unpacked_bytes,
            ..ReplayOptions::new(trace)
        }
    }
}

/// Executes `spec` on a drive in memory with `unpacked_bytes` uncompressed. Updates `ops_done` and polls
/// `is_stopped` along the way.
pub(super) fn execute(
    spec: &ReplaySpec,
    seed: u64,
    unpacked_bytes: u64,
    ops_done: &AtomicU64,
    is_stopped: &dyn Fn() -> bool,
) -> Result<ReplayReport, BenchError> {
    let mut told = 0;
    let mut tell = |done: u64| {
        ops_done.fetch_add(done - told, Ordering::Relaxed);
        told = done;
    };
    let report = replay(&spec.options(seed, unpacked_bytes), &mut |done, _| {
        tell(done);
        !is_stopped()
    })?;
    tell(spec.op_count());
    if report.is_complete { Ok(report) } else { Err(BenchError::Stopped) }
}
