//! The figures: one small declarative file each, or one for several that are read off the same runs.
//!
//! To add one: a `Figure` constant in a file of its paper's folder, and one line in [`ALL`].

mod geardb;
mod sealdb;
mod thesis;

use super::results::{Results, RunResult};
use super::spec::RunSpec;
use super::{Figure, Page};
use imbrex::CompactionLine;
use imbrex_disk::BLOCK_LEN_BYTES;

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
    geardb::motivation::CLEANING_TIME,
    geardb::motivation::CLEANING_UTILISATION,
    geardb::load::LOAD,
    geardb::load::MICRO,
    geardb::breakdown::BREAKDOWN,
    geardb::compaction::COMPACTION,
    geardb::zones::ZONES,
];

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

/// The mean of `values`; 0 if there are none.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0_u64, 0.0), |(count, sum), value| (count + 1, sum + value));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// `a / b`; 0 if there is no `b`.
fn over(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}
