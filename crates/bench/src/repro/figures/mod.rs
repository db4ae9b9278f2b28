//! The figures: one small declarative file each, or one for several that are read off the same runs.
//!
//! To add one: a `Figure` constant in a file of its paper's folder, and one line in [`ALL`].

mod driver;
mod geardb;
mod kvimr;
mod sealdb;
mod thesis;

use super::chart::short;
use super::results::{LevelState, Milestone, PhaseResult, Results, RunResult};
use super::spec::RunSpec;
use super::{Figure, Page, Runs, Size};
use imbrex_disk::BLOCK_LEN_BYTES;
use imbrex_engine::CompactionLine;

const GB: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// All figures, paper by paper, in the paper's order.
pub(super) const ALL: &[Figure] = &[
    sealdb::placement::FIGURE_2,
    sealdb::bands::FIGURE_3,
    sealdb::table_2::TABLE_2,
    sealdb::micro::FIGURE_8,
    sealdb::ycsb::FIGURE_9,
    sealdb::compaction::FIGURE_10,
    sealdb::placement::FIGURE_11,
    sealdb::amplification::FIGURE_12,
    sealdb::fragments::FIGURE_13,
    sealdb::parts::FIGURE_14,
    thesis::sequential_put::FIGURE_3_9,
    thesis::sequential_put::FIGURE_3_10,
    thesis::random_put::FIGURE_3_11,
    thesis::random_put::FIGURE_3_12,
    thesis::delay::FIGURE_3_13,
    thesis::random_get::FIGURE_3_14,
    thesis::band_len::FIGURE_3_15,
    thesis::ycsb::FIGURE_3_16,
    thesis::ycsb::FIGURE_3_17,
    thesis::arrivals::FIGURE_4_5,
    thesis::arrivals::FIGURE_4_6,
    thesis::arrivals::FIGURE_4_7,
    thesis::arrivals::FIGURE_4_8,
    thesis::arrivals::FIGURE_4_9,
    thesis::hurst::TABLE_4_2,
    thesis::demonstration::FIGURE_4_10,
    thesis::offload::life::FIGURE_5_3,
    thesis::offload::micro::FIGURE_5_5,
    thesis::offload::clients::FIGURE_5_6,
    thesis::offload::poisson::FIGURE_5_7,
    thesis::offload::poisson::FIGURE_5_8,
    thesis::offload::poisson::FIGURE_5_9,
    thesis::offload::bursts::TABLE_5_1,
    geardb::motivation::CLEANING_TIME,
    geardb::motivation::CLEANING_UTILISATION,
    geardb::load::LOAD,
    geardb::load::MICRO,
    geardb::breakdown::BREAKDOWN,
    geardb::compaction::COMPACTION,
    geardb::zones::ZONES,
    kvimr::motivation::FIGURE_2,
    kvimr::load::FIGURE_5,
    kvimr::load::FIGURE_6,
    kvimr::load::LOAD,
    kvimr::mixes::FIGURE_7,
    kvimr::table_len::FIGURE_8,
    kvimr::databases::FIGURE_9,
    kvimr::fill::FILL,
    kvimr::overwrite::OVERWRITE,
    driver::latency::FIGURE_5,
    driver::latency::FIGURE_6,
    driver::tables::FIGURE_7,
    driver::tables::FIGURE_8,
    driver::mapping::TABLE_1,
    driver::cleaning::TABLE_2,
    driver::cleaning::TABLE_3,
];

/// Why `figures` cannot be of only the traces that `size` names, if it names any.
pub(super) fn check_only(figures: &[Figure], size: &Size) -> Result<(), String> {
    if size.only.is_empty() {
        return Ok(());
    }
    if !figures.iter().any(|figure| matches!(figure.runs, Runs::Replays(_))) {
        return Err("none of these figures replays block traces; those of `driver` do".to_owned());
    }
    driver::check_only(size)
}

/// What `spec` found; if nothing, `page` tells why.
fn need<'a>(page: &mut Page, results: &'a Results, spec: &RunSpec) -> Option<&'a RunResult> {
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
fn merges(lines: &[CompactionLine]) -> impl Iterator<Item = &CompactionLine> {
    lines.iter().filter(|line| line.output_table_count > 0)
}

/// Where a compaction wrote: `(first byte, length in bytes)`, neighbours joined, by address.
fn output_runs(line: &CompactionLine) -> Vec<(u64, u64)> {
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
fn start_ns(load: &PhaseResult) -> u64 {
    let end_ns = load.milestones.last().map_or(0, |m| m.totals.at_ns);
    end_ns.saturating_sub(load.settled_ns)
}

/// The states of a load, the counters of the last one when the last put returned and not when the store was at
/// rest.
fn milestones(load: &PhaseResult) -> Vec<Milestone> {
    let mut milestones = load.milestones.clone();
    if let Some(last) = milestones.last_mut() {
        last.totals = last.totals - (load.totals - load.totals_at_last_op);
    }
    milestones
}

/// The mean of `values`; no number if there are none.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0_u64, 0.0), |(count, sum), value| (count + 1, sum + value));
    if count == 0 { f64::NAN } else { sum / count as f64 }
}

/// What a measure that was `quarter` after a quarter of a load and `whole` after all of it comes to
/// at the paper's length, if every doubling adds what the last two added in the mean: levels of an
/// LSM-tree grow with the logarithm of what is loaded. No number where the load is the paper's, where
/// there was nothing to measure after a quarter, or where something shrinks so fast that it would
/// come to nothing.
fn grown(loaded_bytes: u64, paper_bytes: u64, quarter: f64, whole: f64) -> f64 {
    let doublings = libm::log2(paper_bytes as f64 / loaded_bytes.max(1) as f64);
    let there = whole + (whole - quarter) / 2.0 * doublings;
    if doublings < 0.5 || quarter == 0.0 || there <= 0.0 { f64::NAN } else { there }
}

/// Names the condition of [`grown`].
fn growth_to(paper_bytes: u64, quarter: f64, whole: f64) -> String {
    format!(
        "from {} to {} over the last three quarters of the load; growing on so, at {} GB",
        short(quarter),
        short(whole),
        paper_bytes / GB
    )
}

/// What reads cost: the columns of [`read_cost`].
const READ_COST: [&str; 6] = [
    "store",
    "runs in level 0",
    "runs in all",
    "disk reads an operation",
    "ms a disk read",
    "operations/s",
];

/// What the reads of `phase` cost, and of how many sorted runs.
fn read_cost(phase: &PhaseResult) -> [f64; 5] {
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
fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, |least, value| match least.is_nan() || value.is_nan() {
        true => f64::NAN,
        false => least.min(value),
    })
}

/// The most of `values`; no number if one of them is none.
fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    -least(values.into_iter().map(|value| -value))
}

/// Operations per second; 0 where nothing was measured.
fn rate(phase: Option<&PhaseResult>) -> f64 {
    phase.map_or(0.0, PhaseResult::ops_per_second)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// `a / b`; no number if there is no `b`. A 0 would be the best that there is to a claim of less.
fn over(a: f64, b: f64) -> f64 {
    if b == 0.0 { f64::NAN } else { a / b }
}
