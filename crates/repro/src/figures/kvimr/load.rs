//! Figures 5 and 6: the whole load, and how it changes as the drive fills.

use super::{
    AT_REST, BY_FULLEST, CMR, Counts, FIRST_FIT, FULLEST, KEEPS_WRITES, LOGS_ON_DRIVE, Loaded,
    MILESTONES_A_POINT, NAMES, SHORT_TRACKS, STORES, Setting, WHOLE_TABLES_SCALE, conditions,
    last_point, load, load_in, loaded, loads, loads_kept, loads_with_logs, motivation,
    percent_above, percent_below, rate_between, serves_load_and_mixes,
};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{milestones, need, over, seconds};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{Milestone, PhaseResult, Results, RunResult};
use crate::spec::{RunSpec, Size};

pub(in super::super) const FIGURE_5: Figure = Figure {
    name: "kvimr-5",
    title: "load: throughput, compactions, rewrites and syncs",
    paper: "KVIMR, figure 5",
    runs: Runs::Stores(runs),
    page: |size, results| {
        let mut page = Page::default();
        let found = Found::of(&mut page, size, results);
        page.claims = claims(&found);
        page.tables.push(found.table());
        let bars = |title: &str, of: fn(&Loaded) -> f64| {
            let groups = NAMES.map(str::to_owned).to_vec();
            let heights = found.paper.iter().map(of).collect();
            Chart::bars(title, groups, Axis::linear(title), vec![(title.to_owned(), heights)])
        };
        page.charts.push(bars("puts/s", |of| of.rate));
        page.charts.push(bars("compactions", |of| of.put.compactions));
        page.charts.push(bars("compaction time (s)", |of| of.put.compaction_s));
        page.charts.push(bars("rewritten tracks", |of| of.put.rewritten_tracks));
        page.charts.push(bars("syncs", |of| of.put.syncs()));
        page.notes.push(conditions(size));
        page.notes.push(
            "The paper's text gives 1.44 times Seq and 2.21 times 3Phase. Its figure 2 has 3Phase \
             at 1.53 times Seq, so the two numbers must be swapped, as they are here. All counters \
             stop at the last put. Syncs are the syncs that writing tables needs, plus one per \
             commit, which is the last sync of a table; several tables of one compaction may share \
             it."
            .to_owned(),
        );
        page
    },
};

fn runs(size: &Size) -> Vec<RunSpec> {
    let paper = STORES.iter().map(|store| load(size, store));
    let logs = STORES.iter().map(|store| load_in(size, store, Setting::LogsOnDrive));
    let short = SHORT.iter().map(|store| load_in(size, store, Setting::ShortTracks));
    let first_fit = [load_in(size, CMR, Setting::FirstFit)];
    let kept = STORES.iter().map(|store| load_in(size, store, Setting::KeepsWrites));
    paper.chain(logs).chain(short).chain(first_fit).chain(kept).collect()
}

/// The stores that also run on short tracks.
const SHORT: [&str; 3] = [STORES[1], STORES[2], STORES[3]];

pub(in super::super) const LOAD: Figure = Figure {
    name: "kvimr-load",
    title: "the five loads alone, with the paper's tables",
    paper: "KVIMR, figures 2, 5 and 6",
    runs: Runs::Stores(|size| {
        STORES.iter().chain([&FULLEST]).map(|store| load(size, store)).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let paper = loads(&mut page, size, results);
        let fullest = loaded(&mut page, results, &load(size, FULLEST));
        let found = Found::with_fullest(paper, fullest);
        // At a small scale these are the runs of those figures, so the claims would count twice.
        if !serves_load_and_mixes(size) {
            page.claims = motivation::claims(&found.paper, &found.logs, &found.first_fit);
            page.claims.extend(claims(&found));
            let ends = |of: [Loaded; 5]| of.map(|loaded| loaded.rate_at_end);
            let points = found.paper.map(|loaded| loaded.rate_of_last_point);
            let rates = EndRates {
                paper: ends(found.paper),
                logs: ends(found.logs),
                fullest: ends(found.fullest),
                points,
            };
            page.claims.extend(claims_at_end(&rates));
        }
        page.tables.push(found.table());
        page.notes.push(conditions(size));
        page.notes.push(format!(
            "This page is for --scale {WHOLE_TABLES_SCALE} and above, where tables have the \
             paper's 64 MB and each load takes minutes to an hour of processor time. It has the \
             claims of figures 2, 5 and 6 with one condition, because each condition needs another \
             load. At a smaller scale the claims appear only in those figures."
        ));
        page
    },
};

/// All loads, by setting and store.
struct Found {
    paper: [Loaded; 5],
    logs: [Loaded; 5],
    kept: [Loaded; 5],
    /// Seq and CMR are missing.
    short: [Loaded; 5],
    first_fit: Loaded,
    /// As `paper`, with KVIMR-M's tiers chosen by the fullest level.
    fullest: [Loaded; 5],
}

impl Found {
    fn of(page: &mut Page, size: &Size, results: &Results) -> Found {
        let paper = loads(page, size, results);
        let logs = loads_with_logs(page, size, results);
        let kept = loads_kept(page, size, results);
        let mut of = |store, setting| loaded(page, results, &load_in(size, store, setting));
        let [phases, naive, merged] = SHORT.map(|store| of(store, Setting::ShortTracks));
        let first_fit = of(CMR, Setting::FirstFit);
        let short = [Loaded::NONE, phases, naive, merged, Loaded::NONE];
        let fullest = [Loaded::NONE; 5];
        Found { paper, logs, kept, short, first_fit, fullest }
    }

    /// The paper's setting, and KVIMR-M by the fullest level.
    fn with_fullest(paper: [Loaded; 5], merged: Loaded) -> Found {
        let [logs, kept, short] = [[Loaded::NONE; 5]; 3];
        let [seq, phases, naive, _, cmr] = paper;
        let fullest = [seq, phases, naive, merged, cmr];
        Found { paper, logs, kept, short, first_fit: Loaded::NONE, fullest }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            "the whole load, up to the last put",
            &[
                "scheme",
                "puts/s",
                "puts/s, last eighth",
                "compactions",
                "compaction s",
                "rewritten tracks",
                "syncs of rewrites",
                "commits",
                "rewritten tracks until rest",
            ],
        );
        let mut add = |name: String, of: &Loaded| {
            let Loaded { rate, rate_at_end, rate_of_last_point: _, put, rest } = *of;
            let Counts { compactions, compaction_s, rewritten_tracks, track_syncs, commits } = put;
            let ending = rest.rewritten_tracks;
            let values = [rate, rate_at_end, compactions, compaction_s, rewritten_tracks];
            if rate > 0.0 {
                table.row(name, &[&values[..], &[track_syncs, commits, ending]].concat());
            }
        };
        for (name, of) in NAMES.iter().zip(&self.paper) {
            add((*name).to_owned(), of);
        }
        add(format!("{}: {BY_FULLEST}", NAMES[MERGED]), &self.fullest[MERGED]);
        add(format!("CMR: {FIRST_FIT}"), &self.first_fit);
        let settings =
            [(LOGS_ON_DRIVE, &self.logs), (SHORT_TRACKS, &self.short), (KEEPS_WRITES, &self.kept)];
        for (setting, all) in settings {
            for (name, of) in NAMES.iter().zip(all) {
                add(format!("{name}: {setting}"), of);
            }
        }
        table
    }
}

/// The index of KVIMR-M.
const MERGED: usize = 3;

/// Two of the five stores, by index.
type Pair = (usize, usize);

const NAIVE_SEQ: Pair = (2, 0);
const NAIVE_PHASES: Pair = (2, 1);
const MERGED_PHASES: Pair = (3, 1);
const MERGED_NAIVE: Pair = (3, 2);
const MERGED_CMR: Pair = (3, 4);

fn claims(found: &Found) -> Vec<Claim> {
    let cmr = |of: &[Loaded; 5], with: &Loaded| percent_below(of[MERGED_CMR.0].rate, with.rate);
    let mut claims = vec![
        times("throughput, KVIMR-N over Seq", 2.21, found, NAIVE_SEQ),
        times("throughput, KVIMR-N over 3Phase", 1.44, found, NAIVE_PHASES),
        times("throughput, KVIMR-M over 3Phase", 1.55, found, MERGED_PHASES),
        more("throughput of KVIMR-M above KVIMR-N", 7.0, found),
        Claim::new(
            "throughput of KVIMR-M below CMR",
            Better::Smaller,
            5.5,
            cmr(&found.paper, &found.paper[4]),
            "%",
        )
        .under(LOGS_ON_DRIVE, cmr(&found.logs, &found.logs[4]))
        .under(KEEPS_WRITES, cmr(&found.kept, &found.kept[4]))
        .under(FIRST_FIT, cmr(&found.paper, &found.first_fit))
        .under(BY_FULLEST, cmr(&found.fullest, &found.fullest[4])),
    ];
    let compaction: fn(&Counts) -> f64 = |of| of.compaction_s;
    let rewrites: fn(&Counts) -> f64 = |of| of.rewritten_tracks;
    let cuts = [
        ("compaction time, N below Seq", 55.61, compaction, NAIVE_SEQ),
        ("compaction time, N below 3Phase", 31.69, compaction, NAIVE_PHASES),
        ("compaction time, M below N", 7.67, compaction, MERGED_NAIVE),
        ("rewrites, N below Seq", 91.11, rewrites, NAIVE_SEQ),
        ("rewrites, N below 3Phase", 68.14, rewrites, NAIVE_PHASES),
        ("rewrites, M below N", 37.53, rewrites, MERGED_NAIVE),
        ("syncs, N below Seq", 94.99, Counts::syncs, NAIVE_SEQ),
        ("syncs, N below 3Phase", 77.32, Counts::syncs, NAIVE_PHASES),
        ("syncs, M below N", 64.55, Counts::syncs, MERGED_NAIVE),
    ];
    for (what, paper, of, pair) in cuts {
        let short = below(&found.short, |loaded| of(&loaded.put), pair);
        let no_commits = below(&found.paper, |loaded| loaded.put.track_syncs, pair);
        let claim = cut(what, paper, found, of, pair);
        // Short tracks change the time of a rewrite, so times are not compared with them.
        claims.push(match what.split_once(' ') {
            Some(("rewrites", _)) => claim.under(SHORT_TRACKS, short),
            Some(("syncs", _)) => claim.under(SHORT_TRACKS, short).under(NO_COMMITS, no_commits),
            _ => claim,
        });
    }
    claims
}

/// Tables of fewer tracks need more commits.
const NO_COMMITS: &str = "without commits";

/// How many times faster the first store of a pair is.
fn times(what: &str, paper: f64, found: &Found, pair: Pair) -> Claim {
    let ratio = |of: &[Loaded; 5]| over(of[pair.0].rate, of[pair.1].rate);
    Claim::new(what, Better::Larger, paper, ratio(&found.paper), "x")
        .under(LOGS_ON_DRIVE, ratio(&found.logs))
        .under(KEEPS_WRITES, ratio(&found.kept))
        .under(BY_FULLEST, if_merged(pair, ratio(&found.fullest)))
}

fn more(what: &str, paper: f64, found: &Found) -> Claim {
    let (a, b) = MERGED_NAIVE;
    let percent = |of: &[Loaded; 5]| percent_above(of[a].rate, of[b].rate);
    Claim::new(what, Better::Larger, paper, percent(&found.paper), "%")
        .under(LOGS_ON_DRIVE, percent(&found.logs))
        .under(KEEPS_WRITES, percent(&found.kept))
        .under(BY_FULLEST, percent(&found.fullest))
}

/// By how many percent the first store of a pair has less of something.
fn below(of: &[Loaded; 5], count: impl Fn(&Loaded) -> f64, pair: Pair) -> f64 {
    percent_below(count(&of[pair.0]), count(&of[pair.1]))
}

fn cut(what: &str, paper: f64, found: &Found, count: fn(&Counts) -> f64, pair: Pair) -> Claim {
    let put = |of: &[Loaded; 5]| below(of, |loaded| count(&loaded.put), pair);
    let rest = below(&found.paper, |loaded| count(&loaded.rest), pair);
    Claim::new(what, Better::Larger, paper, put(&found.paper), "%")
        .under(LOGS_ON_DRIVE, put(&found.logs))
        .under(KEEPS_WRITES, put(&found.kept))
        .under(AT_REST, rest)
        .under(BY_FULLEST, if_merged(pair, put(&found.fullest)))
}

/// `value` if the first store of `pair` is KVIMR-M, else NaN: a condition of M changes no other store.
fn if_merged(pair: Pair, value: f64) -> f64 {
    if pair.0 == MERGED { value } else { f64::NAN }
}

pub(in super::super) const FIGURE_6: Figure = Figure {
    name: "kvimr-6",
    title: "load, as the drive fills",
    paper: "KVIMR, figure 6",
    runs: Runs::Stores(|size| {
        let logs = STORES.iter().map(|store| load_in(size, store, Setting::LogsOnDrive));
        STORES.iter().map(|store| load(size, store)).chain(logs).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let logs = loads_with_logs(&mut page, size, results).map(|of| of.rate_at_end);
        let mut windows = Table::new(
            "puts/s near the end",
            &["scheme", "last quarter", "last eighth", "last twentieth", "last 75th"],
        );
        let (mut rates, mut rewrites, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ends, mut points) = ([f64::NAN; 5], [f64::NAN; 5]);
        for (at, store) in STORES.iter().enumerate() {
            let run = need(&mut page, results, &load(size, store));
            let Some(load) = run.and_then(RunResult::load) else { continue };
            let name = NAMES[at];
            let lately =
                [0.75, 0.875, 0.95, last_point()].map(|from| rate_between(load, from, 1.0));
            windows.row(name, &lately);
            (ends[at], points[at]) = (lately[1], lately[3]);
            rates.push(Series::new(name, steps(load, puts_per_second)));
            let count = |of: fn(&Milestone) -> u64| {
                move |before: Option<&Milestone>, now: &Milestone| {
                    (of(now) - before.map_or(0, of)) as f64
                }
            };
            rewrites.push(Series::new(name, steps(load, count(|m| m.totals.rewritten_tracks))));
            syncs.push(Series::new(name, steps(load, count(|m| m.totals.track_syncs))));
        }
        let fullest = [f64::NAN; 5];
        page.claims = claims_at_end(&EndRates { paper: ends, logs, fullest, points });
        let x = || Axis::linear("million pairs");
        page.charts.push(Chart::lines("puts/s", x(), Axis::log("puts/s"), rates));
        let lines = |title: &str, series| Chart::lines(title, x(), Axis::linear(title), series);
        page.charts.push(lines("rewritten tracks", rewrites));
        page.charts.push(lines("syncs", syncs));
        page.tables.push(windows);
        page.notes.push(conditions(size));
        page.notes.push(
            "Each point covers a 75th of the load, as in the paper. `Near the end` means the last \
             eighth, because single points vary between the stops of level 0."
                .to_owned(),
        );
        page
    },
};

/// Puts per second near the end of a load, by store: in its last eighth, under two conditions too, and in
/// its last 75th.
struct EndRates {
    paper: [f64; 5],
    logs: [f64; 5],
    fullest: [f64; 5],
    points: [f64; 5],
}

/// Claims on the last eighth of a load. The paper's are on its last point.
fn claims_at_end(rates: &EndRates) -> Vec<Claim> {
    let claim = |what: &str, paper, (a, b): Pair| {
        let ratio = |of: &[f64; 5]| over(of[a], of[b]);
        Claim::new(what, Better::Larger, paper, ratio(&rates.paper), "x")
            .under(LOGS_ON_DRIVE, ratio(&rates.logs))
            .under("the last 75th of the load", ratio(&rates.points))
            .under(BY_FULLEST, ratio(&rates.fullest))
    };
    vec![
        claim("throughput near the end, KVIMR-M over Seq", 2.01, (3, 0)),
        claim("throughput near the end, KVIMR-M over 3Phase", 2.17, MERGED_PHASES),
        claim("throughput near the end, KVIMR-M over KVIMR-N", 1.2627, MERGED_NAIVE),
    ]
}

fn puts_per_second(before: Option<&Milestone>, now: &Milestone) -> f64 {
    let (ops, ns) = before.map_or((0, 0), |b| (b.ops, b.totals.at_ns));
    over((now.ops - ops) as f64, seconds(now.totals.at_ns.saturating_sub(ns)))
}

/// The points of the figure, each computed from the difference to the one before.
fn steps(
    load: &PhaseResult,
    of: impl Fn(Option<&Milestone>, &Milestone) -> f64,
) -> Vec<(f64, f64)> {
    let milestones = milestones(load);
    let points = milestones.chunks(MILESTONES_A_POINT as usize);
    let points: Vec<_> = points.filter_map(<[Milestone]>::last).collect();
    let before = std::iter::once(None).chain(points.iter().copied().map(Some));
    let pairs = before.zip(points.iter().copied());
    pairs.map(|(before, now)| (now.ops as f64 / 1e6, of(before, now))).collect()
}
