//! Figure 8: loads and reads, normalised to LevelDB on fixed bands.

use super::{STORES, equal_reads, random, sequential};
use crate::repro::chart::short;
use crate::repro::figures::{need, over};
use crate::repro::results::PhaseResult;
use crate::repro::spec::RunSpec;
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page, Results, RunResult, Size, Table};

pub(in super::super) const FIGURE_8: Figure = Figure {
    name: "sealdb-8",
    title: "loads and reads of three stores",
    paper: "SEALDB, figure 8: 100 GB loads, 100 thousand reads",
    runs: |size| {
        let loads = STORES.iter().flat_map(|s| [random(size, s), sequential(size, s)]);
        loads.chain([equal_reads(size), random(size, "leveldb-cmr")]).collect()
    },
    page: |size, results| {
        let mut page = Page::default();
        let rates: Vec<[f64; 4]> =
            STORES.iter().map(|store| rates(&mut page, size, results, store)).collect();
        let claim = |what: &str, paper, a: f64, b: f64| {
            Claim::new(what, Better::Larger, paper, over(a, b), "x")
        };
        let [leveldb, smrdb, sealdb] = [rates[0], rates[1], rates[2]];
        page.claims = vec![
            claim("random load, SEALDB over LevelDB", 3.42, sealdb[0], leveldb[0]),
            claim("random load, SEALDB over SMRDB", 1.67, sealdb[0], smrdb[0]),
            claim("sequential read, SEALDB over LevelDB", 3.96, sealdb[2], leveldb[2]),
            claim("random read, SEALDB over LevelDB", 1.80, sealdb[3], leveldb[3]),
            claim("random read, SEALDB over SMRDB", 1.80, sealdb[3], smrdb[3]),
        ];
        page.charts.push(normalised(&rates));
        page.tables.push(conditions(&mut page.missing, size, results));
        page.notes.push(
            "Throughput is counted up to the last put's return, as db_bench does. Settled, in the \
             table, counts the compactions that a load leaves behind as well."
                .to_owned(),
        );
        page
    },
};

const GROUPS: [&str; 4] = ["random write", "sequential write", "sequential read", "random read"];

fn rates(page: &mut Page, size: &Size, results: &Results, store: &'static str) -> [f64; 4] {
    let rate = |phase: Option<&PhaseResult>| phase.map_or(0.0, PhaseResult::ops_per_second);
    let random = need(page, results, &random(size, store));
    let sequential = need(page, results, &sequential(size, store));
    [
        rate(random.and_then(RunResult::load)),
        rate(sequential.and_then(RunResult::load)),
        rate(random.and_then(RunResult::read_sequential)),
        rate(random.and_then(RunResult::read_random)),
    ]
}

fn normalised(rates: &[[f64; 4]]) -> Chart {
    let heights = |of: &[f64; 4]| of.iter().zip(rates[0]).map(|(r, base)| over(*r, base)).collect();
    let series = STORES.iter().zip(rates).map(|(store, of)| (store.to_string(), heights(of)));
    let labels = rates.iter().map(|of| of.iter().map(|v| short(*v)).collect()).collect();
    let groups = GROUPS.map(str::to_owned).to_vec();
    let title = "normalised to LevelDB; on top, operations per second";
    Chart::bars(title, groups, Axis::linear("times LevelDB's"), series.collect()).labelled(labels)
}

/// The paper's conditions and equal ones, beside each other.
fn conditions(missing: &mut Vec<String>, size: &Size, results: &Results) -> Table {
    let mut table = Table::new(
        "random load by what a compaction reads at a time",
        &["store", "read unit", "puts/s", "puts/s settled", "WA", "AWA", "seeks"],
    );
    let rows: [(&str, RunSpec); 5] = [
        ("128 KB", random(size, "leveldb-banded")),
        ("4 MB", equal_reads(size)),
        ("128 KB", random(size, "leveldb-cmr")),
        ("whole tables", random(size, "smrdb")),
        ("whole tables", random(size, "sealdb")),
    ];
    for (unit, spec) in rows {
        let Some(load) = results.get(&spec).ok().and_then(RunResult::load) else {
            missing.push(format!("{} with {unit} reads", spec.layout));
            continue;
        };
        table.rows.push(vec![
            spec.layout.to_owned(),
            unit.to_owned(),
            short(load.ops_per_second()),
            short(load.settled_ops_per_second()),
            short(load.totals.write_amp_ratio()),
            short(load.totals.added_write_amp_ratio()),
            load.totals.seeks.to_string(),
        ]);
    }
    table
}
