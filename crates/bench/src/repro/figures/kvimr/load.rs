//! Figures 5 and 6: the whole load, and how it changes as the drive fills.

use super::{Loaded, NAMES, STORES, conditions, load, loads, percent_above, percent_below};
use crate::repro::figures::{need, over, seconds};
use crate::repro::{
    Axis, Better, Chart, Claim, Figure, Milestone, Page, PhaseResult, RunResult, Series, Table,
};

pub(in super::super) const FIGURE_5: Figure = Figure {
    name: "kvimr-5",
    title: "loading: throughput, compactions, rewrites and syncs",
    paper: "KVIMR, figure 5",
    runs: |size| STORES.iter().map(|store| load(size, store)).collect(),
    page: |size, results| {
        let mut page = Page::default();
        let found = loads(&mut page, size, results);
        page.claims = claims(&found);
        let mut table = Table::new(
            "the whole load",
            &["scheme", "puts/s", "compactions", "compaction s", "rewritten tracks", "syncs"],
        );
        for (name, of) in NAMES.iter().zip(&found) {
            let Loaded { rate, compactions, compaction_s, rewritten_tracks, syncs } = *of;
            table.row(*name, &[rate, compactions, compaction_s, rewritten_tracks, syncs]);
        }
        page.tables.push(table);
        let bars = |title: &str, of: fn(&Loaded) -> f64| {
            let groups = NAMES.map(str::to_owned).to_vec();
            let heights = found.iter().map(of).collect();
            Chart::bars(title, groups, Axis::linear(title), vec![(title.to_owned(), heights)])
        };
        page.charts.push(bars("puts/s", |of| of.rate));
        page.charts.push(bars("compactions", |of| of.compactions));
        page.charts.push(bars("compaction time (s)", |of| of.compaction_s));
        page.charts.push(bars("rewritten tracks", |of| of.rewritten_tracks));
        page.charts.push(bars("syncs", |of| of.syncs));
        page.notes.push(conditions(size));
        page.notes.push(
            "The paper's text gives 1.44 times Seq and 2.21 times 3Phase; by its figure 2 (3Phase is \
             1.53 times Seq) it must be the other way round, and so it is here. Syncs are those that \
             writing tables asks for, and one a commit; several tables of a compaction may share it."
                .to_owned(),
        );
        page
    },
};

fn claims(found: &[Loaded; 5]) -> Vec<Claim> {
    let [seq, phases, naive, merged, cmr] = found;
    let larger =
        |what: &str, paper, ours, unit| Claim::new(what, Better::Larger, paper, ours, unit);
    let cut = |what: &str, paper, ours: f64, theirs: f64| {
        Claim::new(what, Better::Larger, paper, percent_below(ours, theirs), "%")
    };
    let times = |a: &Loaded, b: &Loaded| over(a.rate, b.rate);
    vec![
        larger("throughput, KVIMR-N over Seq", 2.21, times(naive, seq), "x"),
        larger("throughput, KVIMR-N over 3Phase", 1.44, times(naive, phases), "x"),
        larger("throughput, KVIMR-M over 3Phase", 1.55, times(merged, phases), "x"),
        larger(
            "throughput of KVIMR-M above KVIMR-N",
            7.0,
            percent_above(merged.rate, naive.rate),
            "%",
        ),
        Claim::new(
            "throughput of KVIMR-M below CMR",
            Better::Smaller,
            5.5,
            percent_below(merged.rate, cmr.rate),
            "%",
        ),
        cut("compaction time cut, N below Seq", 55.61, naive.compaction_s, seq.compaction_s),
        cut("compaction time cut, N below 3Phase", 31.69, naive.compaction_s, phases.compaction_s),
        cut("compaction time cut, M below N", 7.67, merged.compaction_s, naive.compaction_s),
        cut("rewrites cut, N below Seq", 91.11, naive.rewritten_tracks, seq.rewritten_tracks),
        cut("rewrites cut, N below 3Phase", 68.14, naive.rewritten_tracks, phases.rewritten_tracks),
        cut("rewrites cut, M below N", 37.53, merged.rewritten_tracks, naive.rewritten_tracks),
        cut("syncs cut, N below Seq", 94.99, naive.syncs, seq.syncs),
        cut("syncs cut, N below 3Phase", 77.32, naive.syncs, phases.syncs),
        cut("syncs cut, M below N", 64.55, merged.syncs, naive.syncs),
    ]
}

pub(in super::super) const FIGURE_6: Figure = Figure {
    name: "kvimr-6",
    title: "loading, as the drive fills",
    paper: "KVIMR, figure 6",
    runs: |size| STORES.iter().map(|store| load(size, store)).collect(),
    page: |size, results| {
        let mut page = Page::default();
        let mut rates = Vec::new();
        let mut rewrites = Vec::new();
        let mut syncs = Vec::new();
        let mut last = [0.0; 5];
        for (at, store) in STORES.iter().enumerate() {
            let run = need(&mut page, results, &load(size, store));
            let Some(load) = run.and_then(RunResult::load) else { continue };
            let name = NAMES[at];
            let rate = |before: Option<&Milestone>, now: &Milestone| {
                let (ops, ns) = before.map_or((0, 0), |b| (b.ops, b.totals.at_ns));
                over((now.ops - ops) as f64, seconds(now.totals.at_ns.saturating_sub(ns)))
            };
            let count = |of: fn(&Milestone) -> u64| {
                move |before: Option<&Milestone>, now: &Milestone| {
                    (of(now) - before.map_or(0, of)) as f64
                }
            };
            let points = steps(load, rate);
            last[at] = near_the_end(load);
            rates.push(Series::new(name, points));
            rewrites.push(Series::new(name, steps(load, count(|m| m.totals.rewritten_tracks))));
            syncs.push(Series::new(name, steps(load, count(|m| m.totals.track_syncs))));
        }
        let [seq, phases, naive, merged, _] = last;
        let claim = |what: &str, paper, ours| Claim::new(what, Better::Larger, paper, ours, "x");
        page.claims = vec![
            claim("throughput near the end, KVIMR-M over Seq", 2.01, over(merged, seq)),
            claim("throughput near the end, KVIMR-M over 3Phase", 2.17, over(merged, phases)),
            claim("throughput near the end, KVIMR-M over KVIMR-N", 1.2627, over(merged, naive)),
        ];
        let x = || Axis::linear("million pairs");
        let lines = |title: &str, series| Chart::lines(title, x(), Axis::linear(title), series);
        page.charts.push(lines("puts/s", rates));
        page.charts.push(lines("rewritten tracks", rewrites));
        page.charts.push(lines("syncs", syncs));
        page.notes.push(conditions(size));
        page.notes
            .push("Each point is a fortieth of the load; the paper's, a seventy-fifth.".into());
        page
    },
};

/// Puts a second over about the last eighth of a load: single steps come in bursts, between the stops
/// of level 0. The last milestone is left out, because it waits for what the load left to do.
fn near_the_end(load: &PhaseResult) -> f64 {
    let (Some(from), Some(to)) = (load.at_share(0.85), load.milestones.iter().rev().nth(1)) else {
        return 0.0;
    };
    let ns = to.totals.at_ns.saturating_sub(from.totals.at_ns);
    over(to.ops.saturating_sub(from.ops) as f64, seconds(ns))
}

/// A point for each milestone, by what was added since the one before.
fn steps(
    load: &PhaseResult,
    of: impl Fn(Option<&Milestone>, &Milestone) -> f64,
) -> Vec<(f64, f64)> {
    let before = std::iter::once(None).chain(load.milestones.iter().map(Some));
    let pairs = before.zip(&load.milestones);
    pairs.map(|(before, now)| (now.ops as f64 / 1e6, of(before, now))).collect()
}
