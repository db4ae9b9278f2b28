//! Figure 2: the cost of rewrites for schemes that ignore levels.

use super::{
    AT_REST, CMR, FIRST_FIT, LOGS_ON_DRIVE, Loaded, STORES, Setting, conditions, load, load_in,
    loaded, loads, loads_with_logs, percent_below,
};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::over;
use crate::page::{Better, Claim, Page};

pub(in super::super) const FIGURE_2: Figure = Figure {
    name: "kvimr-2",
    title: "loads in sequential order, in three phases, and without overlap",
    paper: "KVIMR, figure 2",
    runs: Runs::Stores(|size| {
        let logs = STORES.map(|store| load_in(size, store, Setting::LogsOnDrive));
        let runs = STORES.iter().map(|store| load(size, store)).chain(logs);
        runs.chain([load_in(size, CMR, Setting::FirstFit)]).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let paper = loads(&mut page, size, results);
        let logs = loads_with_logs(&mut page, size, results);
        let first_fit = loaded(&mut page, results, &load_in(size, CMR, Setting::FirstFit));
        let [seq, phases, _, _, cmr] = paper;
        page.claims = claims(&paper, &logs, &first_fit);
        let names = ["Seq", "3Phase", "CMR"].map(str::to_owned).to_vec();
        let rates = [seq, phases, cmr].map(|of| of.rate).to_vec();
        let each = [seq, phases, cmr].map(|of| of.put.seconds_each()).to_vec();
        let bars = |title: &str, unit: &str, of: Vec<f64>| {
            Chart::bars(title, names.clone(), Axis::linear(unit), vec![(unit.to_owned(), of)])
        };
        page.charts.push(bars("throughput", "puts/s", rates));
        page.charts.push(bars("compaction", "mean seconds", each));
        page.notes.push(conditions(size));
        page
    },
};

pub(super) fn claims(paper: &[Loaded; 5], logs: &[Loaded; 5], first_fit: &Loaded) -> Vec<Claim> {
    let claim = |what: &str, value, ours, unit| Claim::new(what, Better::Same, value, ours, unit);
    let [seq, phases, _, _, cmr] = paper;
    let below = |phases: &Loaded, cmr: &Loaded| percent_below(phases.rate, cmr.rate);
    let each = |of: &Loaded, cmr: &Loaded| over(of.put.seconds_each(), cmr.put.seconds_each());
    let rest = |of: &Loaded| over(of.rest.seconds_each(), cmr.rest.seconds_each());
    vec![
        claim("throughput, 3Phase over Seq", 1.53, over(phases.rate, seq.rate), "x")
            .under(LOGS_ON_DRIVE, over(logs[1].rate, logs[0].rate)),
        claim("throughput of 3Phase below CMR", 38.97, below(phases, cmr), "%")
            .under(LOGS_ON_DRIVE, below(&logs[1], &logs[4]))
            .under(FIRST_FIT, below(phases, first_fit)),
        claim("time of a compaction, Seq over CMR", 2.59, each(seq, cmr), "x")
            .under(LOGS_ON_DRIVE, each(&logs[0], &logs[4]))
            .under(AT_REST, rest(seq))
            .under(FIRST_FIT, each(seq, first_fit)),
        claim("time of a compaction, 3Phase over CMR", 1.68, each(phases, cmr), "x")
            .under(LOGS_ON_DRIVE, each(&logs[1], &logs[4]))
            .under(AT_REST, rest(phases))
            .under(FIRST_FIT, each(phases, first_fit)),
    ]
}
