//! Figure 8: longer tables, of more tracks each.

use super::{NAMES, STORES, conditions, load_phase, percent_above, spec_of, table_len_bytes};
use crate::repro::figures::{MIB, need};
use crate::repro::spec::{RunSpec, Size};
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page, PhaseResult, RunResult};

/// The paper's, of which ours shrink at a small scale.
const TABLE_LENS_MIB: [u64; 4] = [64, 128, 256, 512];
const PAPER_PERCENTS: [f64; 4] = [7.0, 5.9, 13.0, 16.8];

fn run(size: &Size, layout: &'static str, mib: u64) -> RunSpec {
    spec_of(size, layout, mib * MIB, vec![load_phase(size)])
}

pub(in super::super) const FIGURE_8: Figure = Figure {
    name: "kvimr-8",
    title: "loading, by the length of tables",
    paper: "KVIMR, figure 8",
    runs: |size| {
        let of = |store: &'static str| TABLE_LENS_MIB.map(|mib| run(size, store, mib));
        STORES.iter().take(4).flat_map(|store| of(store)).collect()
    },
    page: |size, results| {
        let mut page = Page::default();
        let mut rows = Vec::new();
        for store in STORES.iter().take(4) {
            let rates = TABLE_LENS_MIB.map(|mib| {
                let found = need(&mut page, results, &run(size, store, mib));
                let load = found.and_then(RunResult::load);
                load.map_or(0.0, PhaseResult::ops_per_second)
            });
            rows.push(rates);
        }
        for (at, mib) in TABLE_LENS_MIB.iter().enumerate() {
            let (naive, merged) = (rows[2][at], rows[3][at]);
            let what = format!("tables of {mib} MB, KVIMR-M above KVIMR-N");
            let ours = percent_above(merged, naive);
            page.claims.push(Claim::new(what, Better::Larger, PAPER_PERCENTS[at], ours, "%"));
        }
        let here = |mib: u64| table_len_bytes(size, mib * MIB) / MIB;
        let groups = TABLE_LENS_MIB.map(|mib| format!("{mib} MB (here {})", here(mib)));
        let series = NAMES.iter().zip(rows).map(|(name, of)| ((*name).to_owned(), of.to_vec()));
        let y = Axis::linear("puts/s");
        page.charts.push(Chart::bars("load", groups.to_vec(), y, series.collect()));
        page.notes.push(conditions(size));
        page
    },
};
