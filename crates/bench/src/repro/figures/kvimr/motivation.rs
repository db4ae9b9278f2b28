//! Figure 2: what rewrites cost the schemes that know no levels.

use super::{STORES, conditions, load, loads, percent_below};
use crate::repro::figures::over;
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page};

pub(in super::super) const FIGURE_2: Figure = Figure {
    name: "kvimr-2",
    title: "loading in sequence, in three phases, and without overlap",
    paper: "KVIMR, figure 2",
    runs: |size| STORES.iter().map(|store| load(size, store)).collect(),
    page: |size, results| {
        let mut page = Page::default();
        let [seq, phases, _, _, cmr] = loads(&mut page, size, results);
        let times = |of: f64, base: f64| over(of, base);
        page.claims = vec![
            Claim::new(
                "throughput, 3Phase over Seq",
                Better::Same,
                1.53,
                times(phases.rate, seq.rate),
                "x",
            ),
            Claim::new(
                "throughput of 3Phase below CMR",
                Better::Same,
                38.97,
                percent_below(phases.rate, cmr.rate),
                "%",
            ),
            Claim::new(
                "time of a compaction, Seq over CMR",
                Better::Same,
                2.59,
                times(seq.seconds_each(), cmr.seconds_each()),
                "x",
            ),
            Claim::new(
                "time of a compaction, 3Phase over CMR",
                Better::Same,
                1.68,
                times(phases.seconds_each(), cmr.seconds_each()),
                "x",
            ),
        ];
        let names = ["Seq", "3Phase", "CMR"].map(str::to_owned).to_vec();
        let rates = [seq, phases, cmr].map(|of| of.rate).to_vec();
        let each = [seq, phases, cmr].map(|of| of.seconds_each()).to_vec();
        let bars = |title: &str, unit: &str, of: Vec<f64>| {
            Chart::bars(title, names.clone(), Axis::linear(unit), vec![(unit.to_owned(), of)])
        };
        page.charts.push(bars("throughput", "puts/s", rates));
        page.charts.push(bars("compaction", "seconds each", each));
        page.notes.push(conditions(size));
        page
    },
};
