//! What several figures read off a run: amounts, means, rates, and the words for what is missing.

use crate::page::Page;
use crate::results::{LevelState, Milestone, PhaseResult, Results, RunResult};
use crate::spec::RunSpec;
use imbrex_bench::svg::short;
use imbrex_disk::BLOCK_LEN_BYTES;
use imbrex_engine::CompactionLine;

pub(crate) const GB: u64 = 1_000_000_000;
pub(crate) const MIB: u64 = 1 << 20;

/// What `spec` found; if nothing, `page` tells why.
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

/// The compactions that wrote something.
pub(crate) fn merges(lines: &[CompactionLine]) -> impl Iterator<Item = &CompactionLine> {
    lines.iter().filter(|line| line.output_table_count > 0)
}

/// Where a compaction wrote: `(first byte, length in bytes)`, neighbours joined, by address.
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

/// When a load began.
pub(crate) fn start_ns(load: &PhaseResult) -> u64 {
    let end_ns = load.milestones.last().map_or(0, |m| m.totals.at_ns);
    end_ns.saturating_sub(load.settled_ns)
}

/// The states of a load, the counters of the last one when the last put returned and not when the store was at
/// rest.
pub(crate) fn milestones(load: &PhaseResult) -> Vec<Milestone> {
    let mut milestones = load.milestones.clone();
    if let Some(last) = milestones.last_mut() {
        last.totals = last.totals - (load.totals - load.totals_at_last_op);
    }
    milestones
}

/// The mean of `values`; no number if there are none.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0_u64, 0.0), |(count, sum), value| (count + 1, sum + value));
    if count == 0 { f64::NAN } else { sum / count as f64 }
}

/// What a measure that was `quarter` after a quarter of a load and `whole` after all of it comes to
/// at the paper's length, if every doubling adds what the last two added in the mean: levels of an
/// LSM-tree grow with the logarithm of what is loaded. No number where the load is the paper's, where
/// there was nothing to measure after a quarter, or where something shrinks so fast that it would
/// come to nothing.
pub(crate) fn grown(loaded_bytes: u64, paper_bytes: u64, quarter: f64, whole: f64) -> f64 {
    let doublings = libm::log2(paper_bytes as f64 / loaded_bytes.max(1) as f64);
    let there = whole + (whole - quarter) / 2.0 * doublings;
    if doublings < 0.5 || quarter == 0.0 || there <= 0.0 { f64::NAN } else { there }
}

/// Names the condition of [`grown`].
pub(crate) fn growth_to(paper_bytes: u64, quarter: f64, whole: f64) -> String {
    format!(
        "from {} to {} over the last three quarters of the load; growing on so, at {} GB",
        short(quarter),
        short(whole),
        paper_bytes / GB
    )
}

/// What reads cost: the columns of [`read_cost`].
pub(crate) const READ_COST: [&str; 6] = [
    "store",
    "runs in level 0",
    "runs in all",
    "disk reads an operation",
    "ms a disk read",
    "operations/s",
];

/// What the reads of `phase` cost, and of how many sorted runs.
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

/// The least of `values`; no number if one of them is none.
pub(crate) fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, |least, value| match least.is_nan() || value.is_nan() {
        true => f64::NAN,
        false => least.min(value),
    })
}

/// The most of `values`; no number if one of them is none.
pub(crate) fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    -least(values.into_iter().map(|value| -value))
}

/// Operations per second; 0 where nothing was measured.
pub(crate) fn rate(phase: Option<&PhaseResult>) -> f64 {
    phase.map_or(0.0, PhaseResult::ops_per_second)
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// `a / b`; no number if there is no `b`. A 0 would be the best that there is to a claim of less.
pub(crate) fn over(a: f64, b: f64) -> f64 {
    if b == 0.0 { f64::NAN } else { a / b }
}
