//! Figure 7: reads and writes mixed, after the load.

use super::{NAMES, STORES, TABLE_LEN_BYTES, conditions, load_phase, sized, spec_of};
use crate::repro::figures::need;
use crate::repro::spec::{Phase, RunSpec, Size};
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page};
use crate::ycsb::YcsbWorkload;

const READ_PERCENTS: [u8; 3] = [90, 50, 10];
/// Of the least improvement over Seq and 3Phase.
const PAPER_PERCENTS: [f64; 3] = [2.28, 10.22, 28.93];
const OPS: u64 = 7_500_000;

fn run(size: &Size, layout: &'static str, read_percent: u8) -> RunSpec {
    let workload = YcsbWorkload::Mix { read_percent };
    let count = sized(size).count(OPS, 10_000);
    let mix = Phase::Ycsb { workload, count, sync: false };
    spec_of(size, layout, TABLE_LEN_BYTES, vec![load_phase(size), mix])
}

pub(in super::super) const FIGURE_7: Figure = Figure {
    name: "kvimr-7",
    title: "reads and writes mixed, after the load",
    paper: "KVIMR, figure 7: 7.5 million zipfian operations",
    runs: |size| {
        let of = |store: &'static str| READ_PERCENTS.map(|percent| run(size, store, percent));
        STORES.iter().flat_map(|store| of(store)).collect()
    },
    page: |size, results| {
        let mut page = Page::default();
        let mut rates = [[0.0; 3]; 5];
        for (store, rates) in STORES.iter().zip(&mut rates) {
            for (percent, rate) in READ_PERCENTS.iter().zip(rates) {
                let found = need(&mut page, results, &run(size, store, *percent));
                let mix = found.and_then(|r| r.phase(|p| matches!(p, Phase::Ycsb { .. })));
                *rate = mix.map_or(0.0, |mix| mix.ops_per_second());
            }
        }
        let [seq, phases, naive, merged, _] = rates;
        for (at, read_percent) in READ_PERCENTS.iter().enumerate() {
            let (slow, fast) = (seq[at].max(phases[at]), naive[at].min(merged[at]));
            let name = YcsbWorkload::Mix { read_percent: *read_percent };
            let what = format!("{name}, KVIMR at least above Seq and 3Phase");
            let ours = super::percent_above(fast, slow);
            page.claims.push(Claim::new(what, Better::Larger, PAPER_PERCENTS[at], ours, "%"));
        }
        let groups =
            READ_PERCENTS.map(|read_percent| YcsbWorkload::Mix { read_percent }.to_string());
        let series = NAMES.iter().zip(rates).map(|(name, of)| ((*name).to_owned(), of.to_vec()));
        let y = Axis::linear("operations/s");
        page.charts.push(Chart::bars("mixes", groups.to_vec(), y, series.collect()));
        page.notes.push(conditions(size));
        page
    },
};
