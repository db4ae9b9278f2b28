//! `imbrex bench steady`: the steady state of layouts, side by side.
//!
//! ```text
//!   fill in random order | overwrite half a drive | overwrite as much again, in parts | wait | get, scan
//!                          warm-up                  what counts: speed, stalls, space          reads
//! ```
//!
//! A cell is one layout at one share of live data ([`crate::share_grid`]). Uniform overwrites are the
//! hardest case for space: no key range is quieter than another. The peak is the most space occupied after any
//! part. Reads begin after the background work that is due.

use crate::error::BenchError;
use crate::report::RunReport;
use crate::share_grid::{CellRun, GridOptions, GridWatch};
use serde::Serialize;

/// The parts of the overwrites that count.
const PART_COUNT: u64 = 8;

/// The tasks before them.
const WARM_UP_TASK_COUNT: usize = 2;

const GET_COUNT: u64 = 2_000;
const SCAN_COUNT: u64 = 200;
/// The entries of a short scan.
const SCAN_LEN: u32 = 100;

/// The results of all cells.
#[derive(Clone, Debug, Serialize)]
pub struct SteadyBenchReport {
    /// Keys.
    pub num: u64,
    /// Bytes of user data.
    pub live_bytes: u64,
    /// Which keys were overwritten more often.
    pub overwrites: String,
    /// The seed.
    pub seed: u64,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// By layout and share, in the requested order.
    pub runs: Vec<SteadyRun>,
}

/// One layout at one share.
#[derive(Clone, Debug, Serialize)]
pub struct SteadyRun {
    /// The layout.
    pub layout: &'static str,
    /// The share of the drive that live data take, in percent.
    pub share_percent: u64,
    /// `None` if a write was refused.
    pub figures: Option<SteadyFigures>,
    /// The error that ended the run.
    pub refusal: Option<String>,
}

/// What the layout does in its steady state.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SteadyFigures {
    /// Overwrites per second of the drive's time.
    pub ops_per_disk_second: f64,
    /// Bytes that the drive wrote for each byte of the user: log, flushes, compactions, cleaning, catalog.
    pub written_ratio: f64,
    /// Bytes that the flash drive wrote for each byte of the user; 0 without one.
    pub flash_written_ratio: f64,
    /// The longest time that a put took.
    pub longest_put_ns: u64,
    /// Live data as a share of the largest occupied space.
    pub live_ratio: f64,
    /// The mean time of a get, with the cache of the layout.
    pub get_ns: u64,
    /// The mean time of a scan of 100 entries.
    pub scan_ns: u64,
    /// Bytes of keys and values per second of a scan of everything.
    pub full_scan_bytes_per_second: f64,
}

/// Runs every layout at every share.
///
/// Cost: per concurrent run, a drive in memory with everything that the run writes.
///
/// # Errors
/// [`BenchError::Options`], [`BenchError::Layout`]: the request is invalid. A run whose drive cannot be
/// formatted or has no space is part of the report.
pub fn steady_bench(
    options: &GridOptions,
    watch: GridWatch<'_>,
) -> Result<SteadyBenchReport, BenchError> {
    let num = options.num;
    let entry_len_bytes = (options.live_bytes() / num.max(1)).max(1);
    let tasks = |capacity_bytes: u64| {
        let half = capacity_bytes / entry_len_bytes / 2;
        let mut tasks = vec![("filluniquerandom", num), ("overwrite", half)];
        tasks.extend((0..PART_COUNT).map(|_| ("overwrite", (half / PART_COUNT).max(1))));
        let reads = [("readrandom", GET_COUNT), ("seekrandom", SCAN_COUNT), ("readseq", num)];
        tasks.push(("waitforcompaction", 1));
        tasks.extend(reads);
        tasks
    };
    let grid = options.run(&tasks, &|options| options.seek_nexts = SCAN_LEN, watch)?;
    Ok(SteadyBenchReport {
        num,
        live_bytes: options.live_bytes(),
        overwrites: options.overwrites.to_string(),
        seed: options.seed,
        interrupted: grid.is_interrupted,
        runs: grid.cells.into_iter().map(|cell| SteadyRun::of(cell, options)).collect(),
    })
}

impl SteadyBenchReport {
    /// What was measured, in one line.
    pub fn title(&self) -> String {
        let live = crate::report::Bytes(self.live_bytes);
        format!("The steady state under {} overwrites, with {live} of live data", self.overwrites)
    }

    /// The names of the columns.
    pub fn columns() -> [&'static str; 10] {
        [
            "layout",
            "live %",
            "overwrites per disk-second",
            "bytes written per byte",
            "longest put, s",
            "live / peak",
            "get, ms",
            "scan of 100, ms",
            "full scan, MB/s",
            "bytes to flash per byte",
        ]
    }

    /// A row for each cell.
    pub fn rows(&self) -> Vec<Vec<String>> {
        self.runs.iter().map(SteadyRun::row).collect()
    }
}

impl SteadyRun {
    fn of(cell: CellRun, options: &GridOptions) -> SteadyRun {
        let CellRun { layout, share_percent, runs, refusal } = cell;
        let figures = match refusal {
            None => SteadyFigures::of(&runs, options.live_bytes()),
            Some(_) => None,
        };
        SteadyRun { layout, share_percent, figures, refusal }
    }

    fn row(&self) -> Vec<String> {
        let mut row = vec![self.layout.to_owned(), self.share_percent.to_string()];
        match &self.figures {
            Some(f) => row.extend([
                format!("{:.0}", f.ops_per_disk_second),
                format!("{:.2}", f.written_ratio),
                format!("{:.2}", f.longest_put_ns as f64 / 1e9),
                format!("{:.2}", f.live_ratio),
                format!("{:.1}", f.get_ns as f64 / 1e6),
                format!("{:.1}", f.scan_ns as f64 / 1e6),
                format!("{:.0}", f.full_scan_bytes_per_second / 1e6),
                format!("{:.2}", f.flash_written_ratio),
            ]),
            None => row.push("refused".to_owned()),
        }
        row.resize(SteadyBenchReport::columns().len(), String::new());
        row
    }
}

impl SteadyFigures {
    /// The figures of a cell whose tasks all ended.
    fn of(runs: &[RunReport], live_bytes: u64) -> Option<SteadyFigures> {
        let (parts, reads) =
            runs.get(WARM_UP_TASK_COUNT..)?.split_at_checked(PART_COUNT as usize)?;
        let [_, get, scan, full] = reads else { return None };
        let sum = |of: &dyn Fn(&RunReport) -> u64| parts.iter().map(of).sum::<u64>() as f64;
        let busy_seconds = sum(&|run| run.drive.busy_ns) / 1e9;
        let peak_bytes = parts.iter().map(|run| run.space.occupied_bytes).max()?;
        Some(SteadyFigures {
            ops_per_disk_second: sum(&|run| run.ops) / busy_seconds,
            written_ratio: sum(&|run| run.drive.written_bytes) / sum(&|run| run.written_bytes),
            flash_written_ratio: sum(&|run| run.drive.flash_written_bytes)
                / sum(&|run| run.written_bytes),
            longest_put_ns: parts.iter().map(|run| run.latency.max_ns).max()?,
            live_ratio: live_bytes as f64 / peak_bytes as f64,
            get_ns: get.latency.mean_ns,
            scan_ns: scan.latency.mean_ns,
            full_scan_bytes_per_second: full.read_bytes as f64 * 1e9
                / full.elapsed_ns.max(1) as f64,
        })
    }
}

#[cfg(test)]
mod tests;
