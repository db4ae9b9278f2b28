//! Figure 3.14: random gets, after a sequential and after a random load.

use super::{BAND_LEN_BYTES, LOAD_BYTES, READS, VALUE_LEN_BYTES, drive, random, size, tune};
use crate::repro::figures::{need, over};
use crate::repro::spec::{LoadOrder, Phase, RunSpec, Size};
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page, RunResult};

const STORES: [&str; 2] = ["leveldb-cmr", "smrdb"];

pub(in super::super) const FIGURE_3_14: Figure = Figure {
    name: "thesis-3.14",
    title: "latency of random gets after sequential and random puts",
    paper: "thesis, figure 3.14",
    runs: |size| {
        let runs = STORES.iter();
        runs.flat_map(|s| [in_order(size, s), random(size, s, BAND_LEN_BYTES)]).collect()
    },
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
        let loads = ["sequential", "random"];
        for (at, load) in loads.iter().enumerate() {
            let what = format!("latency after a {load} load, SMRDB over LevelDB");
            let ours = over(rows[1].1[at], rows[0].1[at]);
            page.claims.push(Claim::new(what, Better::Smaller, 1.0, ours, "x"));
        }
        let groups = loads.map(|l| format!("after a {l} load")).to_vec();
        let y = Axis::linear("milliseconds");
        page.charts.push(Chart::bars("mean latency of a random get", groups, y, rows));
        page.notes.push(
            "SMRDB has filters, as in the thesis, and LevelDB has none, as by default; both keep their \
             indexes in memory. How much of the difference the filters are was not measured."
                .to_owned(),
        );
        page
    },
};

fn in_order(asked: &Size, layout: &'static str) -> RunSpec {
    let size = size(asked);
    let phases = vec![
        Phase::load(LoadOrder::Sequential, size.bytes(LOAD_BYTES), VALUE_LEN_BYTES),
        Phase::ReadRandom { count: size.count(READS / 10, 2_000) },
    ];
    RunSpec::new(layout, drive(&size, layout, BAND_LEN_BYTES), phases).tuned(tune(layout))
}
