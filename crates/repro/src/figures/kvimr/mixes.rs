//! Figure 7: mixed reads and writes after the load.

use super::{
    NAMES, READ_PERCENTS, STORES, conditions, load_and_mixes, load_and_mixes_by, load_then_mix,
    percent_above,
};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{READ_COST, least, most, need, over, read_cost};
use crate::page::{Better, Claim, Page, Table};
use crate::spec::Phase;
use imbrex_workload::ycsb::presets::YcsbWorkload;

/// The smallest improvement over Seq and 3Phase.
const PAPER_PERCENTS: [f64; 3] = [2.28, 10.22, 28.93];

/// Clients of the condition: the paper does not say how many it has.
const CLIENT_COUNTS: [u32; 3] = [4, 8, 16];

const BEHIND_THE_LOAD: &str = "each mix right after a load of its own";

pub(in super::super) const FIGURE_7: Figure = Figure {
    name: "kvimr-7",
    title: "mixed reads and writes after the load",
    paper: "KVIMR, figure 7: 7.5 million zipfian operations",
    runs: Runs::Stores(|size| {
        let of_store = |store: &&'static str| {
            let behind = READ_PERCENTS.map(|percent| load_then_mix(size, store, percent));
            let by_clients = CLIENT_COUNTS.map(|count| load_and_mixes_by(size, store, count));
            [load_and_mixes(size, store)].into_iter().chain(behind).chain(by_clients)
        };
        STORES.iter().flat_map(of_store).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut rates = [[f64::NAN; 3]; 5];
        let mut rates_behind = [[f64::NAN; 3]; 5];
        let mut compactions = [[f64::NAN; 3]; 5];
        let mut rates_by = [[[f64::NAN; 3]; 5]; CLIENT_COUNTS.len()];
        let mut costs = Table::new("cost of an operation", &READ_COST);
        for (at, store) in STORES.iter().enumerate() {
            let run = need(&mut page, results, &load_and_mixes(size, store));
            for (mix, read_percent) in READ_PERCENTS.into_iter().enumerate() {
                let workload = YcsbWorkload::Mix { read_percent };
                let is = |p: &Phase| matches!(p, Phase::Ycsb { workload: w, .. } if *w == workload);
                let Some(found) = run.and_then(|run| run.phase(is)) else { continue };
                rates[at][mix] = found.ops_per_second();
                compactions[at][mix] = found.totals_at_last_op.compaction_count as f64;
                costs.row(format!("{}, {workload}", NAMES[at]), &read_cost(found));
            }
            for (mix, read_percent) in READ_PERCENTS.into_iter().enumerate() {
                let run = need(&mut page, results, &load_then_mix(size, store, read_percent));
                let is = |p: &Phase| matches!(p, Phase::Ycsb { .. });
                let Some(found) = run.and_then(|run| run.phase(is)) else { continue };
                rates_behind[at][mix] = found.ops_per_second();
            }
            for (count, rates) in CLIENT_COUNTS.into_iter().zip(&mut rates_by) {
                let run = need(&mut page, results, &load_and_mixes_by(size, store, count));
                let mixes = run.map_or(&[][..], |run| &run.phases[1..]);
                for (rate, found) in rates[at].iter_mut().zip(mixes) {
                    *rate = found.ops_per_second();
                }
            }
        }
        let groups: [String; 3] =
            READ_PERCENTS.map(|read_percent| YcsbWorkload::Mix { read_percent }.to_string());
        for (mix, name) in groups.iter().enumerate() {
            let of = |store: usize| rates[store][mix];
            let lead = |rates: &[[f64; 3]; 5]| {
                let of = |store: usize| rates[store][mix];
                percent_above(least([of(2), of(3)]), most([of(0), of(1)]))
            };
            let claim = Claim::new(
                format!("{name}, smaller lead of KVIMR over Seq and 3Phase"),
                Better::Larger,
                PAPER_PERCENTS[mix],
                lead(&rates),
                "%",
            );
            let claim = claim.under(BEHIND_THE_LOAD, lead(&rates_behind));
            let clients = CLIENT_COUNTS.into_iter().zip(&rates_by);
            page.claims.push(clients.fold(claim, |claim, (count, rates)| {
                claim.under(format!("{count} clients"), lead(rates))
            }));
            page.claims.push(Claim::shown(
                format!("{name}, KVIMR-M over 3Phase"),
                over(of(3), of(1)),
                "x",
            ));
        }
        let bars = |title: &str, of: [[f64; 3]; 5]| {
            let series = NAMES.iter().zip(of);
            let series = series.map(|(name, of)| ((*name).to_owned(), of.to_vec())).collect();
            Chart::bars(title, groups.to_vec(), Axis::linear(title), series)
        };
        page.charts.push(bars("operations/s", rates));
        page.charts.push(bars("operations/s, each mix right after the load", rates_behind));
        page.charts.push(bars("compactions", compactions));
        page.tables.push(costs);
        page.notes.push(conditions(size));
        page.notes.push(
            "The mixes follow each other on one store; the first starts when the store is at rest \
             after the load. Writes are updates. The paper does not say whether its load comes to \
             rest, so under the condition each mix starts right after a load of its own."
                .to_owned(),
        );
        page
    },
};
