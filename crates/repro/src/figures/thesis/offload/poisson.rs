//! Figures 5.7 to 5.9: Poisson inserts at rising rates with and without offloading, the scans after
//! them, and the latencies of the inserts.

use super::{
    A_SECOND, BY_VALUE, Bands, Offload, SLOW_MS, STATE, moved_a_second, offer, size, state, store,
};
use crate::arrivals::ArrivalSource;
use crate::chart::{Axis, Chart, Series};
use crate::client_phase::{ClientLatencies, ClientPhase, OpenLoop};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{need, over};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{PhaseResult, Results, RunResult};
use crate::spec::Phase;
use crate::spec::{RunSpec, Size};
use imbrex_workload::ycsb::presets::YcsbWorkload;

const INSERTS: u64 = 10_000_000;
/// The thesis does not give the number of scans.
const SCANS: u64 = 2_500;
const SCAN_COUNT_MIN: u64 = 100;
/// Every second rate of the thesis.
const RATES_PER_S: [u64; 6] = [5_000, 15_000, 25_000, 35_000, 45_000, 55_000];
const PLACES: [Offload; 2] = [Offload::Nowhere, Offload::Flash];
/// Rates at which a second run reads values one by one.
const BY_VALUE_RATES_PER_S: [u64; 2] = [RATES_PER_S[0], RATES_PER_S[5]];

fn run(asked: &Size, offload: Offload, rate_per_s: u64, bands: Bands) -> RunSpec {
    let size = size(asked);
    let arrivals = OpenLoop { source: ArrivalSource::Poisson, rate_per_s };
    let inserts = size.count(INSERTS, 8_000);
    let scans = size.count(SCANS, SCAN_COUNT_MIN);
    let scans = offer(YcsbWorkload::Scans { scan_percent: 100 }, scans, None);
    let phases = vec![
        Phase::Clients(offer(YcsbWorkload::Inserts, inserts, Some(arrivals))),
        Phase::Clients(ClientPhase { client_count: 1, ..scans }),
    ];
    store(&size, offload, bands, phases)
}

fn runs(size: &Size) -> Vec<RunSpec> {
    let at_once = RATES_PER_S.map(|rate| PLACES.map(|place| run(size, place, rate, Bands::AtOnce)));
    let by_value =
        BY_VALUE_RATES_PER_S.map(|rate| PLACES.map(|place| run(size, place, rate, Bands::ByValue)));
    at_once.into_iter().chain(by_value).flatten().collect()
}

/// The two phases of a run.
struct Found<'a> {
    inserts: &'a PhaseResult,
    scans: &'a PhaseResult,
}

impl Found<'_> {
    fn offered(&self) -> ClientLatencies {
        self.inserts.offered.clone().unwrap_or_default()
    }

    fn slow(&self) -> u64 {
        self.offered().service.slower_than(SLOW_MS)
    }
}

fn find<'a>(page: &mut Page, results: &'a Results, spec: &RunSpec) -> Option<Found<'a>> {
    let run: &RunResult = need(page, results, spec)?;
    let [inserts, scans] = run.phases.as_slice() else { return None };
    Some(Found { inserts, scans })
}

/// Per rate: the run without offloading and the run with it.
type Pairs<'a> = Vec<(u64, [Option<Found<'a>>; 2])>;

fn pairs<'a>(page: &mut Page, size: &Size, results: &'a Results, bands: Bands) -> Pairs<'a> {
    let rates = match bands {
        Bands::AtOnce => &RATES_PER_S[..],
        Bands::ByValue => &BY_VALUE_RATES_PER_S[..],
    };
    let pair = |&rate: &u64| {
        (rate, PLACES.map(|place| find(page, results, &run(size, place, rate, bands))))
    };
    rates.iter().map(pair).collect()
}

/// The ratio of `of` at a rate, with offloading over without; NaN if either run is missing.
fn ratio(pairs: &Pairs<'_>, rate: u64, of: &dyn Fn(&Found<'_>) -> f64) -> f64 {
    let Some((_, [Some(none), Some(flash)])) = pairs.iter().find(|pair| pair.0 == rate) else {
        return f64::NAN;
    };
    over(of(flash), of(none))
}

fn at(pairs: &Pairs<'_>, rate: u64, place: usize, of: &dyn Fn(&Found<'_>) -> f64) -> f64 {
    let pair = pairs.iter().find(|pair| pair.0 == rate);
    pair.and_then(|(_, found)| found[place].as_ref()).map_or(f64::NAN, of)
}

pub(in super::super::super) const FIGURE_5_7: Figure = Figure {
    name: "thesis-5.7",
    title: "scans after Poisson inserts at rising rates, with and without offloading",
    paper: "thesis, figure 5.7: 10 million inserts of 1 KB, then scans of 1 to 100",
    runs: Runs::Stores(runs),
    page: |size, results| {
        let mut page = Page::default();
        let pairs_at_once = pairs(&mut page, size, results, Bands::AtOnce);
        let pairs_by_value = pairs(&mut page, size, results, Bands::ByValue);
        page.claims = claims(&pairs_at_once, &pairs_by_value);
        let header = [&["rate, writes go", "inserts/s", "scans/s"], &STATE[..]].concat();
        let title = "scans, and the state when the last insert ended";
        let mut table = Table::new(title, &header);
        for (all, bands) in [(&pairs_at_once, ""), (&pairs_by_value, ", value by value")] {
            for (rate, found) in all {
                for (place, found) in PLACES.iter().zip(found) {
                    let Some(found) = found else { continue };
                    let rates = [found.inserts.ops_per_second(), found.scans.ops_per_second()];
                    let row = [&rates[..], &state(found.inserts)].concat();
                    table.row(format!("{rate}/s, {}{bands}", place.name()), &row);
                }
            }
        }
        page.tables.push(table);
        let lines = |of: &dyn Fn(&Found<'_>) -> f64| -> Vec<Series> {
            let line = |place: usize| {
                let points = pairs_at_once.iter().filter_map(|(rate, found)| {
                    Some((*rate as f64 / 1e3, of(found[place].as_ref()?)))
                });
                Series::new(PLACES[place].name(), points.collect())
            };
            vec![line(0), line(1)]
        };
        let x = || Axis::linear("thousand inserts/s");
        let scans = lines(&|found| found.scans.ops_per_second());
        page.charts.push(Chart::lines(
            "scans after the inserts",
            x(),
            Axis::linear("scans/s"),
            scans,
        ));
        for (at, what) in STATE.iter().enumerate() {
            let y = Axis::linear("% of bytes written");
            let lines = lines(&|found| state(found.inserts)[at]);
            page.charts.push(Chart::lines(what.trim_start_matches("% "), x(), y, lines));
        }
        page
    },
};

fn claims(all: &Pairs<'_>, by_value: &Pairs<'_>) -> Vec<Claim> {
    let scans = |found: &Found<'_>| found.scans.ops_per_second();
    let column = |at: usize| move |found: &Found<'_>| state(found.inserts)[at];
    let (moved, unsorted, offloaded) = (column(0), column(2), column(3));
    let mut claims = Vec::new();
    for rate in RATES_PER_S {
        let what = format!("{rate}/s: scans, with offloading over without");
        let claim = Claim::order(what, Better::Larger, ratio(all, rate, &scans));
        claims.push(claim.under(BY_VALUE, ratio(by_value, rate, &scans)));
    }
    for rate in RATES_PER_S {
        let what = format!("{rate}/s: compaction, with offloading over without");
        let claim = Claim::order(what, Better::Larger, ratio(all, rate, &moved))
            .under(BY_VALUE, ratio(by_value, rate, &moved));
        let a_second = |found: &Found<'_>| moved_a_second(found.inserts);
        claims.push(claim.under(A_SECOND, ratio(all, rate, &a_second)));
        let what = format!("{rate}/s: unsorted, with offloading over without");
        let claim = Claim::order(what, Better::Smaller, ratio(all, rate, &unsorted));
        claims.push(claim.under(BY_VALUE, ratio(by_value, rate, &unsorted)));
    }
    let (slow, fast) = (RATES_PER_S[0], RATES_PER_S[5]);
    let ends = |of: &dyn Fn(&Found<'_>) -> f64, place| {
        over(at(all, fast, place, of), at(all, slow, place, of))
    };
    let what = "no offload: unsorted, 55,000/s over 5,000/s";
    claims.push(Claim::order(what, Better::Larger, ends(&unsorted, 0)));
    let what = "no offload: compaction, 55,000/s over 5,000/s";
    claims.push(Claim::order(what, Better::Smaller, ends(&moved, 0)));
    let what = "with offloading: offloaded, 55,000/s over 5,000/s";
    claims.push(Claim::order(what, Better::Larger, ends(&offloaded, 1)));
    let what = "with offloading: offloaded at 5,000/s (the thesis: less than half)";
    claims.push(Claim::new(what, Better::Smaller, 50.0, at(all, slow, 1, &offloaded), "%"));
    let what = "with offloading: scans after 55,000/s over scans after 45,000/s";
    let ours = over(at(all, fast, 1, &scans), at(all, RATES_PER_S[4], 1, &scans));
    claims.push(Claim::order(what, Better::Larger, ours));
    claims
}

pub(in super::super::super) const FIGURE_5_8: Figure = Figure {
    name: "thesis-5.8",
    title: "latencies of Poisson inserts over time, with and without offloading",
    paper: "thesis, figure 5.8",
    runs: Runs::Stores(runs),
    page: |size, results| {
        let mut page = Page::default();
        let all = pairs(&mut page, size, results, Bands::AtOnce);
        let by_value = pairs(&mut page, size, results, Bands::ByValue);
        // One is added on both sides, because offloading may leave none to divide by.
        let slow = |found: &Found<'_>| found.slow() as f64 + 1.0;
        for rate in RATES_PER_S {
            let what =
                format!("{rate}/s: inserts above 100 ms (plus one), with offloading over without");
            let claim = Claim::order(what, Better::Smaller, ratio(&all, rate, &slow));
            page.claims.push(claim.under(BY_VALUE, ratio(&by_value, rate, &slow)));
        }
        let header =
            ["rate, writes go", "mean, ms", "slowest, ms", "above 100 ms", "slowest response, ms"];
        let mut table = Table::new("latencies of inserts", &header);
        for (all, bands) in [(&all, ""), (&by_value, ", value by value")] {
            for (rate, found) in all {
                for (place, found) in PLACES.iter().zip(found) {
                    let Some(found) = found else { continue };
                    let ClientLatencies { service, response, .. } = found.offered();
                    let slow = found.slow() as f64;
                    let row = [service.mean_ms(), service.max_ms(), slow, response.max_ms()];
                    table.row(format!("{rate}/s, {}{bands}", place.name()), &row);
                }
            }
        }
        page.tables.push(table);
        for (rate, found) in &all {
            let series = PLACES.iter().zip(found).filter_map(|(place, found)| {
                Some(Series::new(place.name(), found.as_ref()?.offered().trace.points()))
            });
            let title = format!("{rate} inserts/s");
            let (x, y) = (Axis::linear("seconds"), Axis::log("ms"));
            page.charts.push(Chart::scatter(title, x, y, series.collect()));
        }
        page.notes.push(NOTE.to_owned());
        page
    },
};

const NOTE: &str = "A latency is the time of a client's call, which includes 50 microseconds for \
                    the way to the store. As in the thesis' figure, it excludes the time that a \
                    request waits for one of the 8 clients; the response time includes that.";

pub(in super::super::super) const FIGURE_5_9: Figure = Figure {
    name: "thesis-5.9",
    title: "latencies of Poisson inserts as normalised cumulative histograms",
    paper: "thesis, figure 5.9",
    runs: Runs::Stores(runs),
    page: |size, results| {
        let mut page = Page::default();
        let all = pairs(&mut page, size, results, Bands::AtOnce);
        let slow = |found: &Found<'_>| found.slow() as f64 + 1.0;
        for (place, name) in PLACES.iter().enumerate() {
            let ours = over(
                at(&all, RATES_PER_S[5], place, &slow),
                at(&all, RATES_PER_S[0], place, &slow),
            );
            let what =
                format!("{}: inserts above 100 ms (plus one), 55,000/s over 5,000/s", name.name());
            page.claims.push(match place {
                0 => Claim::order(what, Better::Larger, ours),
                _ => Claim::shown(what, ours, "x"),
            });
        }
        for (place, name) in PLACES.iter().enumerate() {
            let lines = |of: &dyn Fn(&ClientLatencies) -> Vec<(f64, f64)>| -> Vec<Series> {
                let found = all.iter().filter_map(|(rate, found)| {
                    let points = of(&found[place].as_ref()?.offered());
                    Some(Series::new(format!("{}K", rate / 1000), points))
                });
                found.collect()
            };
            let cumulative = lines(&|offered| offered.service.cumulative());
            let (x, y) = (Axis::log("ms"), Axis::linear("% of inserts"));
            let title = format!("{}: share of inserts at or below a latency", name.name());
            page.charts.push(Chart::lines(title, x, y, cumulative));
            let slower = lines(&|offered| offered.service.slower());
            let (x, y) = (Axis::log("ms"), Axis::log("% of inserts"));
            let title = format!("{}: share of inserts above a latency", name.name());
            page.charts.push(Chart::lines(title, x, y, slower));
        }
        page.notes.push(
            "The first chart of each pair is the thesis' figure. The second shows its upper end, \
             which the thesis highlights."
                .to_owned(),
        );
        page
    },
};
