//! Figure 3.14: random gets, after a sequential and after a random load.

use super::{
    BAND_LEN_BYTES, LOAD_BYTES, READS, VALUE_LEN_BYTES, drive, file_reads, large_reads, random,
    size, tune,
};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{READ_COST, need, over, read_cost};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{Results, RunResult};
use crate::spec::{LoadOrder, Phase, RunSpec, Size};

const STORES: [&str; 2] = ["leveldb-cmr", "smrdb"];

pub(in super::super) const FIGURE_3_14: Figure = Figure {
    name: "thesis-3.14",
    title: "latency of random gets after sequential and after random puts",
    paper: "thesis, figure 3.14",
    runs: Runs::Stores(|size| {
        let runs = STORES.iter();
        let all = runs.flat_map(|s| [in_order(size, s), random(size, s, BAND_LEN_BYTES)]);
        all.chain([file_reads(size, "smrdb"), large_reads(size)]).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut latency = |spec: &RunSpec| {
            let found = need(&mut page, results, spec);
            found.and_then(RunResult::read_random).map_or(0.0, |p| p.latency.mean_ns as f64 / 1e6)
        };
        let rows: Vec<(String, Vec<f64>)> = STORES
            .iter()
            .map(|s| {
                let in_order = latency(&in_order(size, s));
                let by_chance = latency(&random(size, s, BAND_LEN_BYTES));
                (s.to_string(), vec![in_order, by_chance])
            })
            .collect();
        let unfiltered = latency(&file_reads(size, "smrdb"));
        let filtered = latency(&large_reads(size));
        let loads = ["sequential", "random"];
        for (at, load) in loads.iter().enumerate() {
            let what = format!("latency after a {load} load, SMRDB over LevelDB");
            let ours = over(rows[1].1[at], rows[0].1[at]);
            let claim = Claim::order(what, Better::Smaller, ours);
            page.claims.push(match *load {
                "random" => claim
                    .under("both without filters", over(unfiltered, rows[0].1[at]))
                    .under("both have filters", over(rows[1].1[at], filtered)),
                _ => claim,
            });
        }
        let groups = loads.map(|l| format!("after a {l} load")).to_vec();
        let y = Axis::linear("milliseconds");
        page.charts.push(Chart::bars("mean latency of a random get", groups, y, rows));
        page.tables.push(costs(size, results));
        page.notes.push(
            "SMRDB has filters, as in the thesis; LevelDB has none, as by default. The top of each \
             table's index stays in memory. All other blocks go through a block cache of 8 MB."
                .to_owned(),
        );
        page
    },
};

/// Costs after the random load, with and without filters.
fn costs(size: &Size, results: &Results) -> Table {
    let mut table = Table::new("random gets after a random load", &READ_COST);
    let rows = [
        ("leveldb-cmr", random(size, "leveldb-cmr", BAND_LEN_BYTES)),
        ("leveldb-cmr, filters", large_reads(size)),
        ("smrdb, no filters", file_reads(size, "smrdb")),
        ("smrdb", random(size, "smrdb", BAND_LEN_BYTES)),
    ];
    for (name, spec) in rows {
        if let Some(reads) = results.get(&spec).ok().and_then(RunResult::read_random) {
            table.row(name, &read_cost(reads));
        }
    }
    table
}

fn in_order(asked: &Size, layout: &'static str) -> RunSpec {
    let size = size(asked);
    let phases = vec![
        Phase::load(LoadOrder::Sequential, size.bytes(LOAD_BYTES), VALUE_LEN_BYTES),
        Phase::ReadRandom { count: size.count(READS / 10, 2_000) },
    ];
    RunSpec::new(layout, drive(&size, layout, BAND_LEN_BYTES), phases).tuned(tune(layout))
}
