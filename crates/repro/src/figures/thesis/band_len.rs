//! Figure 3.15: random puts by band length.

use super::random;
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{MIB, need, over};
use crate::page::{Better, Claim, Page};
use crate::results::{PhaseResult, RunResult};

const STORES: [&str; 2] = ["smrdb-leveled", "smrdb"];
const BAND_LENS_MIB: [u64; 4] = [20, 40, 80, 160];

pub(in super::super) const FIGURE_3_15: Figure = Figure {
    name: "thesis-3.15",
    title: "random puts by band length",
    paper: "thesis, figure 3.15",
    runs: Runs::Stores(|size| {
        let all = STORES.iter().flat_map(|s| BAND_LENS_MIB.map(|mib| (*s, mib)));
        all.map(|(s, mib)| random(size, s, mib * MIB)).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut rows = Vec::new();
        for store in STORES {
            let rates = BAND_LENS_MIB.map(|mib| {
                let found = need(&mut page, results, &random(size, store, mib * MIB));
                let rate = found.and_then(RunResult::load).map(PhaseResult::ops_per_second);
                rate.unwrap_or(0.0) * 4096.0 / 1e6
            });
            rows.push((store.to_owned(), rates.to_vec()));
        }
        let last = BAND_LENS_MIB.len() - 1;
        for (store, rates) in &rows {
            let what =
                format!("{store}, bands of {} over {} MB", BAND_LENS_MIB[last], BAND_LENS_MIB[0]);
            let ours = over(rates[last], rates[0]);
            page.claims.push(Claim::order(what, Better::Larger, ours));
        }
        let what = "bands of 80 MB, SOC over LOC";
        let ours = over(rows[1].1[2], rows[0].1[2]);
        page.claims.push(Claim::order(what, Better::Larger, ours));
        let groups = BAND_LENS_MIB.map(|mib| format!("{mib} MB")).to_vec();
        page.charts.push(Chart::bars("random put", groups, Axis::linear("MB/s"), rows));
        page
    },
};
