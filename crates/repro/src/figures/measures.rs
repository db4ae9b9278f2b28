//! Measurements that several figures share: sizes, means, rates, and notes on what is missing.

use crate::page::Page;
use crate::results::{LevelState, Milestone, PhaseResult, Results, RunResult};
use crate::spec::RunSpec;
use imbrex_bench::svg::short;
use imbrex_disk::BLOCK_LEN_BYTES;
use imbrex_engine::inspect::CompactionLine;

pub(crate) const GB: u64 = 1_000_000_000;
pub(crate) const MIB: u64 = 1 << 20;

/// The result of `spec`. If there is none, adds the reason to `page`.
pub(crate) fn need<'a>(
    page: &mut Page,
    results: &'a Results,
    spec: &RunSpec,
) -> Option<&'a RunResult> {
    match results.get(spec) {
        Ok(result) => Some(result),
        Err(reason) => {
            let missing = format!("{}: {reason}", spec.label());
            if !page.missing.contains(&missing) {
                page.missing.push(missing);
            }
            None
        }
    }
}

/// The compactions that wrote output.
pub(crate) fn merges(lines: &[CompactionLine]) -> impl Iterator<Item = &CompactionLine> {
    lines.iter().filter(|line| line.output_table_count > 0)
}

/// The byte ranges that a compaction wrote, as `(first byte, length)`, adjacent ranges joined,
/// sorted by address.
pub(crate) fn output_runs(line: &CompactionLine) -> Vec<(u64, u64)> {
    let block = BLOCK_LEN_BYTES as u64;
    let extents = line.outputs.iter().flat_map(|table| &table.extents);
    let mut pieces: Vec<(u64, u64)> =
        extents.map(|&(first, count)| (first * block, count * block)).collect();
    pieces.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (start, len) in pieces {
        match runs.last_mut() {
            Some((first, so_far)) if *first + *so_far == start => *so_far += len,
            _ => runs.push((start, len)),
        }
    }
    runs
}

/// The start time of a load.
pub(crate) fn start_ns(load: &PhaseResult) -> u64 {
    let end_ns = load.milestones.last().map_or(0, |m| m.totals.at_ns);
    end_ns.saturating_sub(load.settled_ns)
}

/// The milestones of a load. The last one has the counters at the return of the last put, not at
/// rest.
pub(crate) fn milestones(load: &PhaseResult) -> Vec<Milestone> {
    let mut milestones = load.milestones.clone();
    if let Some(last) = milestones.last_mut() {
        last.totals = last.totals - (load.totals - load.totals_at_last_op);
    }
    milestones
}

/// The mean of `values`; NaN if there are none.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0_u64, 0.0), |(count, sum), value| (count + 1, sum + value));
    if count == 0 { f64::NAN } else { sum / count as f64 }
}

/// Extrapolates a measure to the paper's load: `quarter` is its value after a quarter of our load,
/// `whole` at the end. The levels of an LSM-tree grow with the logarithm of the data, so each
/// further doubling adds the average of the last two doublings. Returns NaN if our load is about as
/// long as the paper's, if nothing was measured after a quarter, or if the extrapolation is not
/// positive.
pub(crate) fn grown(loaded_bytes: u64, paper_bytes: u64, quarter: f64, whole: f64) -> f64 {
    let doublings = libm::log2(paper_bytes as f64 / loaded_bytes.max(1) as f64);
    let there = whole + (whole - quarter) / 2.0 * doublings;
    if doublings < 0.5 || quarter == 0.0 || there <= 0.0 { f64::NAN } else { there }
}

/// The condition text for [`grown`].
pub(crate) fn growth_to(paper_bytes: u64, quarter: f64, whole: f64) -> String {
    format!(
        "grew from {} to {} over the last three quarters of the load; extrapolated to {} GB",
        short(quarter),
        short(whole),
        paper_bytes / GB
    )
}

/// The columns of [`read_cost`].
pub(crate) const READ_COST: [&str; 6] = [
    "store",
    "runs in level 0",
    "runs in total",
    "disk reads per operation",
    "ms per disk read",
    "operations/s",
];

/// What the reads of `phase` cost, and how many sorted runs they passed.
pub(crate) fn read_cost(phase: &PhaseResult) -> [f64; 5] {
    let runs = |levels: &mut dyn Iterator<Item = &LevelState>| levels.map(|l| l.run_count).sum();
    let in_level_0: usize = runs(&mut phase.levels.iter().filter(|level| level.level == 0));
    let in_all: usize = runs(&mut phase.levels.iter());
    let reads = phase.totals.drive_reads as f64;
    [
        in_level_0 as f64,
        in_all as f64,
        over(reads, phase.ops as f64),
        over(phase.totals.busy_ns as f64 / 1e6, reads),
        phase.ops_per_second(),
    ]
}

/// The minimum of `values`; NaN if any of them is NaN.
pub(crate) fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, |least, value| match least.is_nan() || value.is_nan() {
        true => f64::NAN,
        false => least.min(value),
    })
}

/// The maximum of `values`; NaN if any of them is NaN.
pub(crate) fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    -least(values.into_iter().map(|value| -value))
}

/// Operations per second; 0 if nothing was measured.
pub(crate) fn rate(phase: Option<&PhaseResult>) -> f64 {
    phase.map_or(0.0, PhaseResult::ops_per_second)
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// `a / b`; NaN if `b` is 0. A ratio of 0 would pass as the best possible value for a "smaller is
/// better" claim.
pub(crate) fn over(a: f64, b: f64) -> f64 {
    if b == 0.0 { f64::NAN } else { a / b }
}
