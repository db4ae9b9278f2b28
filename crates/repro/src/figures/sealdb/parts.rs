//! Figure 14: how much of SEALDB's gain comes from sets, and how much from dynamic bands.

use super::{LOAD_BYTES, large_reads, random, sequential};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{READ_COST, grown, growth_to, need, over, rate, read_cost, seconds};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{Results, RunResult};
use crate::spec::TABLE_READ_AHEAD_LEN_BYTES;
use crate::spec::{RunSpec, Size};
use imbrex_bench::svg::short;

const STORES: [&str; 3] = ["leveldb-banded", "sets-banded", "sealdb"];

pub(in super::super) const FIGURE_14: Figure = Figure {
    name: "sealdb-14",
    title: "LevelDB, LevelDB with sets, and SEALDB",
    paper: "SEALDB, figure 14",
    runs: Runs::Stores(|size| {
        let all = STORES.iter().flat_map(|s| [random(size, s), sequential(size, s)]);
        all.chain([large_reads(size, "leveldb-banded")]).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut rates: Vec<[f64; 4]> = Vec::new();
        for store in STORES {
            let by_chance = need(&mut page, results, &random(size, store));
            let in_order = need(&mut page, results, &sequential(size, store));
            let scan = |run: &RunResult| rate(run.read_sequential(TABLE_READ_AHEAD_LEN_BYTES));
            rates.push([
                rate(by_chance.and_then(RunResult::load)),
                rate(in_order.and_then(RunResult::load)),
                by_chance.map_or(0.0, scan),
                rate(by_chance.and_then(RunResult::read_random)),
            ]);
        }
        let large = need(&mut page, results, &large_reads(size, "leveldb-banded"));
        let large = rate(large.and_then(RunResult::load));
        let part = |i: usize| part_of(rates[0][i], rates[1][i], rates[2][i]);
        let put_part = part_of(large, rates[1][0], rates[2][0]);
        let early = STORES.map(|store| early_rate(results, &random(size, store)));
        let early = part_of(early[0], early[1], early[2]);
        let at_paper = grown(size.bytes(LOAD_BYTES), LOAD_BYTES, early, part(0));
        page.claims = vec![
            Claim::new(
                "share of the gain due to sets: random write",
                Better::Same,
                41.0,
                part(0),
                "%",
            )
            .under("LevelDB also reads 4 MB at a time in compactions", put_part)
            .under(growth_to(LOAD_BYTES, early, part(0)), at_paper),
            Claim::new(
                "share of the gain due to sets: random read",
                Better::Same,
                50.0,
                part(3),
                "%",
            ),
            Claim::shown("share of the gain due to sets: sequential read", part(2), "%"),
            Claim::shown(
                "sequential write, LevelDB with sets over LevelDB",
                over(rates[1][1], rates[0][1]),
                "x",
            ),
        ];
        page.tables.push(steps(large, [rates[0][0], rates[1][0], rates[2][0]]));
        page.tables.push(gets(size, results));
        let times = |of: &[f64; 4]| of.iter().zip(rates[0]).map(|(r, b)| over(*r, b)).collect();
        let series = STORES.iter().zip(&rates).map(|(s, of)| (s.to_string(), times(of)));
        let labels = rates.iter().map(|of| of.iter().map(|v| short(*v)).collect()).collect();
        let groups = ["random write", "sequential write", "sequential read", "random read"];
        let title = "relative to LevelDB; labels are operations per second";
        let y = Axis::linear("multiple of LevelDB");
        let groups = groups.map(str::to_owned).to_vec();
        page.charts.push(Chart::bars(title, groups, y, series.collect()).labelled(labels));
        page
    },
};

/// The percentage of SEALDB's lead over LevelDB that sets alone bring; NaN unless all three rates
/// were measured.
fn part_of(from: f64, sets: f64, to: f64) -> f64 {
    match [from, sets, to].contains(&0.0) {
        true => f64::NAN,
        false => over(sets - from, to - from) * 100.0,
    }
}

/// The gain of random writes, step by step.
fn steps(large: f64, [leveldb, sets, sealdb]: [f64; 3]) -> Table {
    let header = ["step", "puts/s before", "puts/s after", "% of the gain"];
    let mut table = Table::new("random write, from LevelDB on bands to SEALDB", &header);
    let all = [
        ("compaction reads 4 MB instead of 128 KB", leveldb, large),
        ("the outputs of one compaction are contiguous and are read in one go", large, sets),
        ("dynamic bands instead of fixed bands with rewrites", sets, sealdb),
    ];
    for (step, from, to) in all {
        table.row(step, &[from, to, 100.0 * over(to - from, sealdb - leveldb)]);
    }
    table
}

/// Splits a lead in random reads into reads per get and time per read.
fn gets(size: &Size, results: &Results) -> Table {
    let mut table = Table::new("random reads by sorted runs", &READ_COST);
    for store in STORES {
        let reads = results.get(&random(size, store)).ok().and_then(RunResult::read_random);
        if let Some(reads) = reads {
            table.row(store, &read_cost(reads));
        }
    }
    table
}

/// Puts per second during the first quarter of a load.
fn early_rate(results: &Results, spec: &RunSpec) -> f64 {
    let load = results.get(spec).ok().and_then(RunResult::load);
    load.and_then(|load| load.at_share(0.25))
        .map_or(0.0, |state| over(state.ops as f64, seconds(state.totals.at_ns)))
}
