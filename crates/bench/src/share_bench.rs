//! `imbrex bench shares`: how full a drive may be under uniform overwrites, and how fast it then is.
//!
//! ```text
//!   layouts x shares --> cells, each with a fresh drive: live data / share = its capacity
//!                          |  fill in random order, overwrite as much, overwrite as much again
//!                        ShareBenchReport: operations per disk-second of the last part, or the refusal
//! ```
//!
//! Each key has one value, so the live data stay the same. A store that runs out of space does so
//! within the first overwrites of its data; the second round shows the speed that lasts.
//!
//! Zones and shingled tracks are a fixed share of the drive, so that a smaller drive is the same drive
//! at another scale. The lengths of memtables, tables and levels are those of the layout on a drive of
//! that length.

use crate::byte_count::ByteCount;
use crate::error::BenchError;
use crate::options::{BenchOptions, CompressionType};
use crate::profile_choice::DriveShape;
use crate::report::RunReport;
use crate::run::run_watched;
use crate::watch::RunProgress;
use crate::workers::worker_count;
use imbrex::Layout;
use imbrex::stack::Recording;
use imbrex_clockwork::fan_out;
use serde::Serialize;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const BENCHMARKS: [&str; 3] = ["filluniquerandom", "overwrite", "overwrite"];

/// The zones of a drive: about those of 16 MiB on 6.85 GB.
const ZONES_PER_DRIVE: u64 = 428;
/// The tracks of a shingled drive: those of 256 KiB on 6.85 GB.
const TRACKS_PER_DRIVE: u64 = 26_000;
const BLOCK_LEN_BYTES: u64 = 4096;

/// The options of one `imbrex bench shares`.
#[derive(Clone, Debug, clap::Args)]
pub struct ShareBenchOptions {
    /// Layouts to measure, such as sealdb,gear [default: all that need no flash drive]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub layouts: Vec<String>,

    /// Shares of the drive that live data take, in percent
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", default_value = "50,60,70,80,90")]
    pub shares: Vec<u64>,

    /// Number of keys
    #[arg(long, default_value_t = 250_000)]
    pub num: u64,

    /// Length of a value in bytes; a key has 16
    #[arg(long = "value_size", alias = "value-size", default_value_t = 4080)]
    pub value_size: usize,

    /// Seed: the same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Number of parallel runs; each takes one core and its own memory
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
}

/// Callbacks, called from any thread.
#[derive(Clone, Copy)]
pub struct ShareBenchWatch<'a> {
    /// A finished cell.
    pub finished: &'a (dyn Fn(&ShareRun) + Sync),
    /// The number of operations done and to do; `Break` ends the bench, and the report has the
    /// completed cells.
    pub progress: &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync),
}

impl fmt::Debug for ShareBenchWatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShareBenchWatch").finish_non_exhaustive()
    }
}

/// The results of all cells.
#[derive(Clone, Debug, Serialize)]
pub struct ShareBenchReport {
    /// The shares in percent, as requested.
    pub shares: Vec<u64>,
    /// Keys.
    pub num: u64,
    /// Bytes of user data.
    pub live_bytes: u64,
    /// The seed.
    pub seed: u64,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// By layout and share, in the requested order.
    pub runs: Vec<ShareRun>,
}

/// One layout at one share.
#[derive(Clone, Debug, Serialize)]
pub struct ShareRun {
    /// The layout.
    pub layout: &'static str,
    /// The share of the drive that live data take, in percent.
    pub share_percent: u64,
    /// The last round of overwrites; `None` if a write was refused before.
    pub last: Option<RunReport>,
    /// The error that ended the run.
    pub refusal: Option<String>,
}

/// One run to be done.
#[derive(Clone, Copy, Debug)]
struct Cell {
    layout: Layout,
    share_percent: u64,
    index: usize,
}

struct Bench<'a> {
    options: &'a ShareBenchOptions,
    watch: ShareBenchWatch<'a>,
    /// Operations done, by cell.
    done: Vec<AtomicU64>,
    is_stopped: AtomicBool,
}

/// Runs every layout at every share.
///
/// Cost: per concurrent run, a drive in memory with everything that the run writes.
///
/// # Errors
/// [`BenchError::Options`], [`BenchError::Layout`]: the request is invalid. A run whose drive cannot be
/// formatted or has no space is part of the report.
pub fn share_bench(
    options: &ShareBenchOptions,
    watch: ShareBenchWatch<'_>,
) -> Result<ShareBenchReport, BenchError> {
    let cells = cells(options)?;
    let done = (0..cells.len()).map(|_| AtomicU64::new(0)).collect();
    let bench = Bench { options, watch, done, is_stopped: AtomicBool::new(false) };
    let results = fan_out(worker_count(options.jobs, cells.len()), &cells, |cell| bench.run(*cell));
    Ok(ShareBenchReport {
        shares: options.shares.clone(),
        num: options.num,
        live_bytes: options.live_bytes(),
        seed: options.seed,
        interrupted: bench.is_stopped.load(Ordering::Relaxed),
        runs: results.into_iter().flatten().collect(),
    })
}

fn cells(options: &ShareBenchOptions) -> Result<Vec<Cell>, BenchError> {
    let wrong = |what: &str| Err(BenchError::Options(what.to_owned()));
    if options.num == 0 || options.jobs == 0 {
        return wrong("--num and --jobs are at least 1");
    }
    if options.shares.is_empty() || options.shares.iter().any(|share| !(1..=99).contains(share)) {
        return wrong("--shares are percentages from 1 to 99");
    }
    let layouts: Vec<Layout> = match options.layouts.is_empty() {
        true => Layout::all().filter(|layout| !layout.takes_flash()).collect(),
        false => {
            let named = options.layouts.iter().map(|name| Layout::by_name(name));
            named.collect::<Result<_, _>>().map_err(BenchError::layout)?
        }
    };
    if let Some(layout) = layouts.iter().find(|layout| layout.takes_flash()) {
        return wrong(&format!(
            "{layout} needs a flash drive, and a share is one of a single drive"
        ));
    }
    let with_shares = |layout| options.shares.iter().map(move |&share| (layout, share));
    let all = layouts.into_iter().flat_map(with_shares).enumerate();
    Ok(all.map(|(index, (layout, share_percent))| Cell { layout, share_percent, index }).collect())
}

impl ShareBenchOptions {
    fn live_bytes(&self) -> u64 {
        BenchOptions { num: self.num, value_size: self.value_size, ..BenchOptions::new() }
            .data_len_bytes()
    }

    /// The run of one cell.
    fn run_of(&self, cell: Cell) -> Result<BenchOptions, BenchError> {
        let tasks = BENCHMARKS.iter().map(|name| name.parse());
        let benchmarks = tasks.collect::<Result<_, _>>().map_err(BenchError::Options)?;
        let capacity = self.live_bytes() * 100 / cell.share_percent;
        let part = |per_drive: u64| {
            let len_bytes = (capacity / per_drive).next_multiple_of(BLOCK_LEN_BYTES);
            Some(ByteCount(len_bytes.max(BLOCK_LEN_BYTES)))
        };
        let whole_blocks = capacity / BLOCK_LEN_BYTES * BLOCK_LEN_BYTES;
        let mut shape =
            DriveShape { capacity: Some(ByteCount(whole_blocks)), ..DriveShape::default() };
        match cell.layout.recording() {
            Recording::Zoned => shape.zone_len = part(ZONES_PER_DRIVE),
            Recording::Shingled => shape.track_len = part(TRACKS_PER_DRIVE),
            Recording::Conventional | Recording::Interlaced => {}
        }
        let mut options = BenchOptions {
            benchmarks,
            num: self.num,
            value_size: self.value_size,
            seed: self.seed,
            settle: false,
            ..BenchOptions::new()
        };
        options.testbed.compression_type = Some(CompressionType::None);
        options.testbed.layout = Some(cell.layout.name().to_owned());
        options.testbed.shape = shape;
        Ok(options)
    }
}

impl Bench<'_> {
    /// The results of the cell; `None` if the user stopped it.
    fn run(&self, cell: Cell) -> Option<ShareRun> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return None;
        }
        let mut finished: Vec<RunReport> = Vec::new();
        let watch = |at: &RunProgress| self.look(cell, at);
        let report = self.options.run_of(cell).and_then(|options| {
            run_watched(&options, &mut |run| finished.push(run.clone()), &watch)
        });
        if self.is_stopped.load(Ordering::Relaxed) {
            return None;
        }
        self.done[cell.index].store(self.cell_op_count(), Ordering::Relaxed);
        let is_whole = finished.len() == BENCHMARKS.len();
        let run = ShareRun {
            layout: cell.layout.name(),
            share_percent: cell.share_percent,
            last: finished.pop().filter(|_| is_whole),
            refusal: report.err().map(|error| error.to_string()),
        };
        (self.watch.finished)(&run);
        Some(run)
    }

    fn cell_op_count(&self) -> u64 {
        BENCHMARKS.len() as u64 * self.options.num
    }

    fn look(&self, cell: Cell, at: &RunProgress) -> ControlFlow<()> {
        let before = (at.number as u64).saturating_sub(1) * self.options.num;
        self.done[cell.index].store(before + at.done, Ordering::Relaxed);
        let done = self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
        let flow = (self.watch.progress)(done, self.cell_op_count() * self.done.len() as u64);
        if flow.is_break() {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        flow
    }
}

impl ShareBenchReport {
    /// What was measured, in one line.
    pub fn title(&self) -> String {
        format!(
            "Operations per disk-second of uniform overwrites, by the share of the drive that {} of live data take",
            crate::report::Bytes(self.live_bytes)
        )
    }

    /// A row for each layout: its name, then what it does at each share.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let rows = self.runs.chunk_by(|a, b| a.layout == b.layout);
        rows.map(|runs| {
            let cells = runs.iter().map(ShareRun::shown);
            std::iter::once(runs[0].layout.to_owned()).chain(cells).collect()
        })
        .collect()
    }
}

impl ShareRun {
    /// Its speed, or that a write was refused.
    pub fn shown(&self) -> String {
        match &self.last {
            Some(run) => format!("{:.0}", run.drive.ops_per_disk_second),
            None => "refused".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
