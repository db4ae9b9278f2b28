//! `imbrex bench shares`: how full a drive may be under overwrites, and how fast it then is.
//!
//! A cell ([`crate::share_grid`]) fills its drive in random order, overwrites as much, and overwrites as
//! much again. A store that runs out of space does so within the first overwrites of its data; the
//! second round shows the speed that lasts.

use crate::error::BenchError;
use crate::report::RunReport;
use crate::share_grid::{CellRun, GridOptions, GridWatch};
use serde::Serialize;

/// The results of all cells.
#[derive(Clone, Debug, Serialize)]
pub struct ShareBenchReport {
    /// The shares in percent, as requested.
    pub shares: Vec<u64>,
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

/// Runs every layout at every share.
///
/// Cost: per concurrent run, a drive in memory with everything that the run writes.
///
/// # Errors
/// [`BenchError::Options`], [`BenchError::Layout`]: the request is invalid. A run whose drive cannot be
/// formatted or has no space is part of the report.
pub fn share_bench(
    options: &GridOptions,
    watch: GridWatch<'_>,
) -> Result<ShareBenchReport, BenchError> {
    let num = options.num;
    let tasks = |_| vec![("filluniquerandom", num), ("overwrite", num), ("overwrite", num)];
    let grid = options.run(&tasks, &|_| (), watch)?;
    Ok(ShareBenchReport {
        shares: options.shares.clone(),
        num,
        live_bytes: options.live_bytes(),
        overwrites: options.overwrites.to_string(),
        seed: options.seed,
        interrupted: grid.is_interrupted,
        runs: grid.cells.into_iter().map(ShareRun::of).collect(),
    })
}

impl ShareBenchReport {
    /// What was measured, in one line.
    pub fn title(&self) -> String {
        format!(
            "Operations per disk-second of {} overwrites, by the share of the drive that {} of live data take",
            self.overwrites,
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
    fn of(cell: CellRun) -> ShareRun {
        let CellRun { layout, share_percent, mut runs, refusal } = cell;
        let last = if refusal.is_none() { runs.pop() } else { None };
        ShareRun { layout, share_percent, last, refusal }
    }

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
