//! Figures 3.16 and 3.17: YCSB with every write synced, and the progress of its load.

use super::{BAND_LEN_BYTES, VALUE_LEN_BYTES, drive, random, size, tune};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{milestones, need, over, seconds};
use crate::page::{Better, Claim, Page};
use crate::results::{PhaseResult, RunResult};
use crate::spec::{LoadOrder, Phase, RunSpec, Size};
use imbrex_bench::svg::short;
use imbrex_workload::ycsb::presets::YcsbWorkload;

const STORES: [&str; 2] = ["leveldb-cmr", "smrdb"];
/// Update heavy, read heavy, read latest.
const WORKLOADS: [YcsbWorkload; 3] = [YcsbWorkload::A, YcsbWorkload::B, YcsbWorkload::D];
const RECORDS: u64 = 2_000_000;
const OPS: u64 = 200_000;

pub(in super::super) const FIGURE_3_16: Figure = Figure {
    name: "thesis-3.16",
    title: "YCSB: load, update heavy, read heavy, read latest",
    paper: "thesis, figure 3.16: 2 million entries, 200 thousand operations, every write synced",
    runs: Runs::Stores(|size| STORES.iter().map(|store| run(size, store)).collect()),
    page: |size, results| {
        let mut page = Page::default();
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for store in STORES {
            let found = need(&mut page, results, &run(size, store));
            let phases = found.map_or(&[][..], |run| &run.phases);
            rows.push(phases.iter().map(PhaseResult::ops_per_second).collect());
        }
        let groups = ["load", "update heavy (A)", "read heavy (B)", "read latest (D)"];
        for (at, group) in groups.iter().enumerate() {
            let rate = |of: usize| rows[of].get(at).copied().unwrap_or(0.0);
            // The thesis reports +8.8 % for the smallest of the four gains and +123.6 % for the
            // largest.
            let what = format!("{group}, SMRDB over LevelDB (the thesis: 1.088 to 2.236)");
            page.claims.push(Claim::new(what, Better::Larger, 1.088, over(rate(1), rate(0)), "x"));
        }
        let labels = rows.iter().map(|r| r.iter().map(|v| short(*v)).collect()).collect();
        let series = STORES.iter().map(ToString::to_string).zip(rows).collect();
        let y = Axis::linear("operations/s");
        let groups = groups.map(str::to_owned).to_vec();
        page.charts.push(Chart::bars("throughput", groups, y, series).labelled(labels));
        page
    },
};

pub(in super::super) const FIGURE_3_17: Figure = Figure {
    name: "thesis-3.17",
    title: "progress of YCSB's load",
    paper: "thesis, figure 3.17",
    runs: Runs::Stores(|size| {
        let unsynced = STORES.iter().map(|store| random(size, store, BAND_LEN_BYTES));
        STORES.iter().map(|store| run(size, store)).chain(unsynced).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let (mut series, mut took) = (Vec::new(), Vec::new());
        for store in STORES {
            let found = need(&mut page, results, &run(size, store));
            let Some(load) = found.and_then(RunResult::load) else {
                took.push(0.0);
                continue;
            };
            let milestones = milestones(load);
            let start_ns = milestones.first().map_or(0, |m| m.totals.at_ns);
            let points = milestones.windows(2).map(|pair| {
                let ops = (pair[1].ops - pair[0].ops) as f64;
                let elapsed = seconds(pair[1].totals.at_ns - pair[0].totals.at_ns);
                (seconds(pair[1].totals.at_ns - start_ns), over(ops, elapsed))
            });
            series.push(Series::new(store, points.collect()));
            took.push(seconds(load.elapsed_ns));
        }
        let unsynced = STORES.map(|store| {
            let found = need(&mut page, results, &random(size, store, BAND_LEN_BYTES));
            found.and_then(RunResult::load).map_or(0.0, |load| seconds(load.elapsed_ns))
        });
        let what = "time to load, SMRDB over LevelDB (the thesis: less than half)";
        page.claims.push(
            Claim::new(what, Better::Smaller, 0.5, over(took[1], took[0]), "x")
                .under("no syncs: the load of thesis-3.11", over(unsynced[1], unsynced[0])),
        );
        let (x, y) = (Axis::linear("seconds"), Axis::linear("operations/s"));
        page.charts.push(Chart::lines("puts per second over the load", x, y, series));
        page
    },
};

fn run(asked: &Size, layout: &'static str) -> RunSpec {
    let size = size(asked);
    let entry = (16 + VALUE_LEN_BYTES) as u64;
    let bytes = size.count(RECORDS, 2_000) * entry;
    let mut phases = vec![Phase::load(LoadOrder::Once, bytes, VALUE_LEN_BYTES).synced(1)];
    let count = size.count(OPS, 2_000);
    phases.extend(WORKLOADS.map(|workload| Phase::Ycsb { workload, count, sync: true }));
    RunSpec::new(layout, drive(&size, layout, BAND_LEN_BYTES), phases).tuned(tune(layout))
}
