//! Figure 9: YCSB's load and core workloads A to F.

use super::{
    FILTER_BITS_PER_KEY, STORES, compressed_over, left_out, setting, ycsb_compressed, ycsb_run,
};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{READ_COST, need, over, read_cost};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{PhaseResult, RunResult};
use crate::spec::{Phase, RunSpec, Size};
use imbrex_bench::svg::short;
use imbrex_workload::ycsb::presets::YcsbWorkload;

pub(in super::super) const FIGURE_9: Figure = Figure {
    name: "sealdb-9",
    title: "YCSB on three stores",
    paper: "SEALDB, figure 9: 25 million entries loaded, 100 thousand operations a workload",
    runs: Runs::Stores(|size| all(size).to_vec()),
    page: |size, results| {
        let mut page = Page::default();
        let mut table = Table::new("cost of an operation of workload C (reads only)", &READ_COST);
        let mut rates: Vec<Vec<f64>> = Vec::new();
        let mut groups = Vec::new();
        for spec in all(size) {
            let Some(run) = need(&mut page, results, &spec) else {
                rates.push(Vec::new());
                continue;
            };
            groups = run.phases.iter().map(|phase| name(&phase.phase)).collect();
            rates.push(run.phases.iter().map(PhaseResult::ops_per_second).collect());
            if let Some(reads) = only_reads(run) {
                table.row(row_name(&spec), &read_cost(reads));
            }
        }
        let times = |of: &[f64], base: &[f64]| -> Vec<f64> {
            of.iter().zip(base).map(|(rate, base)| over(*rate, *base)).collect()
        };
        let filtered = times(&rates[4], &rates[3]);
        let shrunk: Vec<f64> = rates[5]
            .iter()
            .zip(&rates[3])
            .map(|(rate, base)| compressed_over(size, *rate, *base))
            .collect();
        for (at, times) in times(&rates[2], &rates[0]).iter().enumerate() {
            let what = format!("{}, SEALDB over LevelDB", groups[at]);
            // The paper draws these bars without numbers. It says only that SEALDB is ahead in all
            // of them.
            let claim = Claim::order(what, Better::Larger, *times);
            let there = |of: &[f64]| of.get(at).copied().unwrap_or(0.0);
            page.claims.push(
                claim
                    .under("both have filters", there(&filtered))
                    .under("both have filters, only SEALDB compresses (to half)", there(&shrunk)),
            );
        }
        let series = STORES.iter().zip(&rates).map(|(s, of)| (s.to_string(), times(of, &rates[0])));
        let labels = rates.iter().take(3).map(|of| of.iter().map(|v| short(*v)).collect());
        let y = Axis::linear("multiple of LevelDB");
        let title = "relative to LevelDB; labels are operations per second";
        let chart = Chart::bars(title, groups, y, series.collect());
        page.charts.push(chart.labelled(labels.collect()));
        page.tables.push(table);
        page.notes.push(NOTE.to_owned());
        page.notes.extend(left_out(size));
        page
    },
};

const NOTE: &str = "Requests follow YCSB's own property files: A, B, C, E and F draw zipfian ranks \
                    among ten billion and hash them; D draws the latest records. (The paper says \
                    that E has the latest distribution; in YCSB it is D.) Without filters, a get \
                    reads the disk for every sorted run that it passes, and the number of runs in \
                    level 0 at the end of a load is a matter of chance. Filters remove that \
                    chance.";

/// The stores that also run under other conditions.
const COMPARED: [&str; 2] = ["leveldb-banded", "sealdb"];

fn all(size: &Size) -> [RunSpec; 6] {
    let [leveldb, smrdb, sealdb] = STORES.map(|store| ycsb_run(size, store));
    let [leveldb_filters, sealdb_filters] = COMPARED.map(|store| {
        let tune = setting(store).filters(FILTER_BITS_PER_KEY);
        ycsb_run(size, store).tuned(tune)
    });
    [leveldb, smrdb, sealdb, leveldb_filters, sealdb_filters, ycsb_compressed(size)]
}

fn row_name(spec: &RunSpec) -> String {
    let tune = spec.tune;
    let with = if tune.filter_bits_per_key.is_some() { ", filters" } else { "" };
    let shrunk = if tune.compresses { ", compressed" } else { "" };
    format!("{}{with}{shrunk}", spec.layout)
}

fn only_reads(run: &RunResult) -> Option<&PhaseResult> {
    run.phase(|phase| matches!(phase, Phase::Ycsb { workload: YcsbWorkload::C, .. }))
}

fn name(phase: &Phase) -> String {
    match phase {
        Phase::Ycsb { workload, .. } => workload.to_string(),
        _ => "load".to_owned(),
    }
}
