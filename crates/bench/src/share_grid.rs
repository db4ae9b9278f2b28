//! Layouts beside shares: the cells of `imbrex bench shares` and `imbrex bench steady`.
//!
//! ```text
//!   layouts x shares --> cells, each with a fresh drive: live data / share = its capacity
//!                          |  the tasks of the bench, one after another
//!                        CellRun: the figures of each task, or the error that ended them
//! ```
//!
//! Each key has one value, so the live data stay the same after the first fill.
//!
//! A flash drive is a share of the live data as well. It holds some of them, but a share is one of the main
//! drive alone.
//!
//! Zones and shingled tracks are a fixed share of the drive, so that a smaller drive is the same drive
//! at another scale. The lengths of memtables, tables and levels are those of the layout on a drive of
//! that length.
//!
//! Not here: what is run and reported (`share_bench`, `steady_bench`).

use crate::benchmark::Task;
use crate::error::BenchError;
use crate::options::{BenchOptions, CompressionType, len_bytes};
use crate::profile_choice::DriveShape;
use crate::report::RunReport;
use crate::run::run_watched;
use crate::watch::{RunProgress, RunWatches};
use crate::workers::worker_count;
use imbrex::Layout;
use imbrex::stack::Recording;
use imbrex_clockwork::fan_out;
use imbrex_disk::ByteSize;
use imbrex_workload::keys::Skew;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The zones of a drive: about those of 16 MiB on 6.85 GB.
const ZONES_PER_DRIVE: u64 = 428;
/// The tracks of a shingled drive: those of 256 KiB on 6.85 GB.
const TRACKS_PER_DRIVE: u64 = 26_000;
const BLOCK_LEN_BYTES: u64 = 4096;

/// Which cells there are, and the data in each.
#[derive(Clone, Debug, clap::Args)]
pub struct GridOptions {
    /// Layouts to measure, such as sealdb,gear [default: all that need no flash
    /// drive]
    #[arg(long, alias = "layout", value_delimiter = ',', value_name = "NAMES")]
    pub layouts: Vec<String>,

    /// Shares of the drive that live data take, in percent
    #[arg(
        long,
        visible_alias = "live",
        value_delimiter = ',',
        value_name = "PERCENT",
        default_value = "50,60,70,80,90"
    )]
    pub shares: Vec<u64>,

    /// Layouts with a flash drive: its length, in percent of the live data
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    pub flash: u64,

    /// Number of keys
    #[arg(long, default_value_t = 250_000)]
    pub num: u64,

    /// Length of a value, such as 4080 or 1KiB; a key has 16 bytes
    #[arg(long = "value_size", alias = "value-size", default_value = "4080", value_parser = len_bytes::<usize>)]
    pub value_size: usize,

    /// Keys that are overwritten more often than others: uniform (none), zipfian (a few all over the
    /// key range) or hot-range (the first tenth takes nine tenths)
    #[arg(long, default_value_t = Skew::Uniform, value_name = "SKEW")]
    pub overwrites: Skew,

    /// Size of a memtable, such as 64M [default: the layout's on a drive so long]
    #[arg(long = "write_buffer_size", alias = "write-buffer-size")]
    pub write_buffer_size: Option<ByteSize>,

    /// Values from this length on are written once, apart from their keys, such as 64KiB [default: none]
    #[arg(long = "values_apart", alias = "values-apart")]
    pub values_apart: Option<ByteSize>,

    /// Seed: the same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Number of parallel runs; each takes one core and its own memory
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
}

/// Callbacks, called from any thread.
#[derive(Clone, Copy)]
pub struct GridWatch<'a> {
    /// A finished cell.
    pub finished: &'a (dyn Fn(&CellRun) + Sync),
    /// The number of operations done and to do; `Break` ends the bench, and the report has the
    /// completed cells.
    pub progress: &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync),
}

impl fmt::Debug for GridWatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GridWatch").finish_non_exhaustive()
    }
}

/// One layout at one share.
#[derive(Clone, Debug)]
pub struct CellRun {
    /// The layout.
    pub layout: &'static str,
    /// The share of the drive that live data take, in percent.
    pub share_percent: u64,
    /// The finished tasks, in order.
    pub runs: Vec<RunReport>,
    /// The error that ended the run.
    pub refusal: Option<String>,
}

/// All cells that ended, by layout and share.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) cells: Vec<CellRun>,
    pub(crate) is_interrupted: bool,
}

/// One run to be done.
#[derive(Clone, Debug)]
struct Cell {
    layout: Layout,
    share_percent: u64,
    index: usize,
    /// Each with its number of operations.
    tasks: Vec<(Task, u64)>,
}

struct Bench<'a> {
    options: &'a GridOptions,
    watch: GridWatch<'a>,
    op_count: u64,
    /// Operations done, by cell.
    done: Vec<AtomicU64>,
    is_stopped: AtomicBool,
}

impl GridOptions {
    /// Bytes of live data.
    pub(crate) fn live_bytes(&self) -> u64 {
        BenchOptions { num: self.num, value_size: self.value_size, ..BenchOptions::new() }
            .data_len_bytes()
    }

    fn capacity_bytes(&self, share_percent: u64) -> u64 {
        self.live_bytes() * 100 / share_percent / BLOCK_LEN_BYTES * BLOCK_LEN_BYTES
    }

    /// Runs every layout at every share: the benchmarks that `tasks` names for a capacity in bytes, each
    /// with its number of operations. `adjust` changes their options.
    ///
    /// Cost: per concurrent run, a drive in memory with everything that the run writes.
    ///
    /// # Errors
    /// [`BenchError::Options`], [`BenchError::Layout`]: the request is invalid. A run whose drive cannot
    /// be formatted or has no space is part of the report.
    pub(crate) fn run(
        &self,
        tasks: &dyn Fn(u64) -> Vec<(&'static str, u64)>,
        adjust: &(dyn Fn(&mut BenchOptions) + Sync),
        watch: GridWatch<'_>,
    ) -> Result<Grid, BenchError> {
        let cells = self.cells(tasks)?;
        let op_count = cells.iter().flat_map(|cell| &cell.tasks).map(|(_, count)| count).sum();
        let done = cells.iter().map(|_| AtomicU64::new(0)).collect();
        let is_stopped = AtomicBool::new(false);
        let bench = Bench { options: self, watch, op_count, done, is_stopped };
        let results =
            fan_out(worker_count(self.jobs, cells.len()), &cells, |cell| bench.run(cell, adjust));
        Ok(Grid {
            cells: results.into_iter().flatten().collect(),
            is_interrupted: bench.is_stopped.load(Ordering::Relaxed),
        })
    }

    fn cells(
        &self,
        tasks: &dyn Fn(u64) -> Vec<(&'static str, u64)>,
    ) -> Result<Vec<Cell>, BenchError> {
        let wrong = |what: &str| Err(BenchError::Options(what.to_owned()));
        if self.num == 0 || self.jobs == 0 {
            return wrong("--num and --jobs are at least 1");
        }
        if self.shares.is_empty() || self.shares.iter().any(|share| !(1..=99).contains(share)) {
            return wrong("--shares are percentages from 1 to 99");
        }
        let layouts: Vec<Layout> = match self.layouts.is_empty() {
            true => Layout::all().filter(|layout| !layout.takes_flash()).collect(),
            false => {
                let named = self.layouts.iter().map(|name| Layout::by_name(name));
                named.collect::<Result<_, _>>().map_err(BenchError::layout)?
            }
        };
        if self.flash == 0 && layouts.iter().any(|layout| layout.takes_flash()) {
            return wrong("--flash is at least 1: a layout needs a flash drive");
        }
        let mut cells = Vec::new();
        for layout in layouts {
            for &share_percent in &self.shares {
                let parsed = tasks(self.capacity_bytes(share_percent)).into_iter();
                let parsed =
                    parsed.map(|(name, count)| Ok((format!("{name}:{count}").parse()?, count)));
                let tasks = parsed.collect::<Result<_, _>>().map_err(BenchError::Options)?;
                cells.push(Cell { layout, share_percent, index: cells.len(), tasks });
            }
        }
        Ok(cells)
    }

    /// The run of one cell.
    fn options_of(&self, cell: &Cell) -> BenchOptions {
        let capacity = self.capacity_bytes(cell.share_percent);
        let part = |per_drive: u64| {
            let len_bytes = (capacity / per_drive).next_multiple_of(BLOCK_LEN_BYTES);
            Some(ByteSize(len_bytes.max(BLOCK_LEN_BYTES)))
        };
        let mut shape = DriveShape { capacity: Some(ByteSize(capacity)), ..DriveShape::default() };
        match cell.layout.recording() {
            Recording::Zoned => shape.zone_len = part(ZONES_PER_DRIVE),
            Recording::Shingled => shape.track_len = part(TRACKS_PER_DRIVE),
            Recording::Conventional | Recording::Interlaced => {}
        }
        let mut options = BenchOptions {
            benchmarks: cell.tasks.iter().map(|(task, _)| *task).collect(),
            num: self.num,
            value_size: self.value_size,
            overwrites: self.overwrites,
            seed: self.seed,
            settle: false,
            ..BenchOptions::new()
        };
        options.testbed.compression_type = Some(CompressionType::None);
        options.testbed.layout = Some(cell.layout.name().to_owned());
        options.testbed.shape = shape;
        if cell.layout.takes_flash() {
            let len_bytes =
                self.live_bytes() / 100 * self.flash / BLOCK_LEN_BYTES * BLOCK_LEN_BYTES;
            options.testbed.flash_size = Some(ByteSize(len_bytes));
        }
        options.testbed.write_buffer_size = self.write_buffer_size;
        options.testbed.values_apart = self.values_apart;
        options
    }
}

impl Bench<'_> {
    /// The results of the cell; `None` if the user stopped it.
    fn run(&self, cell: &Cell, adjust: &(dyn Fn(&mut BenchOptions) + Sync)) -> Option<CellRun> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return None;
        }
        let mut runs: Vec<RunReport> = Vec::new();
        let watch = |at: &RunProgress| self.look(cell, at);
        let mut options = self.options.options_of(cell);
        adjust(&mut options);
        let report =
            run_watched(&options, &mut |run| runs.push(run.clone()), RunWatches::new(&watch));
        if self.is_stopped.load(Ordering::Relaxed) {
            return None;
        }
        self.note(cell, cell.tasks.iter().map(|(_, count)| count).sum());
        let run = CellRun {
            layout: cell.layout.name(),
            share_percent: cell.share_percent,
            runs,
            refusal: report.err().map(|error| error.to_string()),
        };
        (self.watch.finished)(&run);
        Some(run)
    }

    fn note(&self, cell: &Cell, done: u64) {
        self.done[cell.index].store(done, Ordering::Relaxed);
    }

    fn look(&self, cell: &Cell, at: &RunProgress) -> ControlFlow<()> {
        let before = cell.tasks.iter().take(at.number.saturating_sub(1)).map(|(_, count)| count);
        self.note(cell, before.sum::<u64>() + at.done);
        let done = self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
        let flow = (self.watch.progress)(done, self.op_count);
        if flow.is_break() {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        flow
    }
}
