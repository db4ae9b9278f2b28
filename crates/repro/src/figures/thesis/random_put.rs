//! Figures 3.11 and 3.12: random puts, sequential gets after them, and the data that compactions
//! move.

use super::{BAND_LEN_BYTES, STORES, file_reads, large_reads, random};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{megabytes, merges, need, over, rate, seconds};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{Results, RunResult};
use crate::spec::{FILE_READ_AHEAD_LEN_BYTES, TABLE_READ_AHEAD_LEN_BYTES};
use crate::spec::{RunSpec, Size, Tune};

/// The three stores with their own read units, then with the other unit.
fn all(size: &Size) -> [(&'static str, RunSpec); 6] {
    [
        ("128 KB", random(size, STORES[0], BAND_LEN_BYTES)),
        ("4 MB", random(size, STORES[1], BAND_LEN_BYTES)),
        ("4 MB", random(size, STORES[2], BAND_LEN_BYTES)),
        ("4 MB", large_reads(size)),
        ("128 KB", file_reads(size, STORES[1])),
        ("128 KB", file_reads(size, STORES[2])),
    ]
}

fn runs(size: &Size) -> Vec<RunSpec> {
    all(size).into_iter().map(|(_, spec)| spec).collect()
}

/// SOC with other bounds on how many tables of level 1 overlap. Its own is 16.
const DEPTHS: [(u32, &str); 2] =
    [(4, "at most 4 tables of SOC overlap"), (8, "at most 8 tables of SOC overlap")];

fn of_depth(size: &Size, overlap_count_max: u32) -> RunSpec {
    let spec = random(size, STORES[2], BAND_LEN_BYTES);
    let tune = Tune { overlap_count_max: Some(overlap_count_max), ..spec.tune };
    spec.tuned(tune)
}

/// Conditions for the comparison at equal read units.
const EQUAL: [&str; 2] = [
    "all read 128 KB at a time in compactions",
    "all read 4 MB at a time in \
     compactions",
];

/// The ratio of a measure between two stores of [`all`]: with their own units, at 128 KB, at 4 MB.
fn ratios(of: &[f64], a: usize, b: usize) -> [f64; 3] {
    // The indices of LevelDB, LOC and SOC in `all` at each unit.
    let (small, large) = ([0, 4, 5], [3, 1, 2]);
    [over(of[a], of[b]), over(of[small[a]], of[small[b]]), over(of[large[a]], of[large[b]])]
}

fn claim(what: &str, better: Better, [own, small, large]: [f64; 3]) -> Claim {
    Claim::order(what, better, own).under(EQUAL[0], small).under(EQUAL[1], large)
}

pub(in super::super) const FIGURE_3_11: Figure = Figure {
    name: "thesis-3.11",
    title: "random puts, and sequential gets after them",
    paper: "thesis, figure 3.11: 11 GB of random puts, no syncs",
    runs: Runs::Stores(|size| {
        let depths = DEPTHS.map(|(count, _)| of_depth(size, count));
        runs(size).into_iter().chain(depths).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut table = Table::new(
            "MB/s of values",
            &["store", "compaction reads", "random put", "get, 128 KB ahead", "get, 4 MB ahead"],
        );
        let (mut puts, mut gets, mut far_gets) = (Vec::new(), Vec::new(), Vec::new());
        for (unit, spec) in all(size) {
            let found = need(&mut page, results, &spec);
            let mb = |rate: f64| rate * 4096.0 / 1e6;
            let scan = |ahead: usize| found.map_or(0.0, |run| rate(run.read_sequential(ahead)));
            puts.push(mb(rate(found.and_then(RunResult::load))));
            gets.push(mb(scan(FILE_READ_AHEAD_LEN_BYTES)));
            far_gets.push(mb(scan(TABLE_READ_AHEAD_LEN_BYTES)));
            let at = puts.len() - 1;
            table.row(spec.layout, &[puts[at], gets[at], far_gets[at]]);
            table.rows[at].insert(1, unit.to_owned());
        }
        let put = |a, b| ratios(&puts, a, b);
        let get = |what: &str, a: usize, b: usize| {
            Claim::order(what, Better::Larger, over(gets[a], gets[b]))
                .under("both read 4 MB ahead", over(far_gets[a], far_gets[b]))
        };
        let in_order = get("sequential get, SOC over LOC", 2, 1);
        let in_order = DEPTHS.iter().fold(in_order, |claim, (count, words)| {
            let found = need(&mut page, results, &of_depth(size, *count));
            let get = found.map_or(0.0, |run| rate(run.read_sequential(FILE_READ_AHEAD_LEN_BYTES)));
            claim.under(*words, over(get * 4096.0 / 1e6, gets[1]))
        });
        page.claims = vec![
            claim("random put, SOC over LevelDB", Better::Larger, put(2, 0)),
            claim("random put, SOC over LOC", Better::Larger, put(2, 1)),
            claim("random put, LOC over LevelDB", Better::Smaller, put(1, 0)).under(
                "all read 128 KB at a time in compactions, first tenth of the load",
                first_tenth(size, results),
            ),
            get("sequential get, SOC over LevelDB", 2, 0),
            in_order,
        ];
        let groups = vec!["random put".to_owned(), "sequential get".to_owned()];
        let series = STORES.iter().zip(puts.iter().zip(&gets));
        let series = series.map(|(s, (put, get))| (s.to_string(), vec![*put, *get])).collect();
        page.charts.push(Chart::bars("throughput", groups, Axis::linear("MB/s"), series));
        page.tables.push(table);
        page.tables.push(runs_at_the_end(size, results));
        page.notes.push(
            "The thesis draws these bars without numbers and says which one is higher. Values \
             above 1 mean that the first store has the higher bar."
                .to_owned(),
        );
        page
    },
};

/// LOC's puts over LevelDB's in the first tenth of the load, both reading 128 KB at a time.
fn first_tenth(size: &Size, results: &Results) -> f64 {
    let rate = |at: usize| {
        let load = results.get(&all(size)[at].1).ok().and_then(RunResult::load);
        let state = load.and_then(|load| load.at_share(0.1));
        state.map_or(0.0, |state| over(state.ops as f64, state.totals.at_ns as f64))
    };
    over(rate(4), rate(0))
}

/// The number of sorted runs that a sequential get merges.
fn runs_at_the_end(size: &Size, results: &Results) -> Table {
    let mut table = Table::new("sorted runs when the gets start", &["store", "level 0", "deeper"]);
    for store in STORES {
        let Ok(run) = results.get(&random(size, store, BAND_LEN_BYTES)) else { continue };
        let Some(gets) = run.read_sequential(FILE_READ_AHEAD_LEN_BYTES) else { continue };
        let count = |deep: bool| -> usize {
            gets.levels.iter().filter(|l| (l.level > 0) == deep).map(|l| l.run_count).sum()
        };
        table.row(store, &[count(false) as f64, count(true) as f64]);
    }
    table
}

pub(in super::super) const FIGURE_3_12: Figure = Figure {
    name: "thesis-3.12",
    title: "compaction: time, bytes read and written",
    paper: "thesis, figure 3.12: 11 GB of random puts",
    runs: Runs::Stores(runs),
    page: |size, results| {
        let mut page = Page::default();
        let header = ["store", "reads", "count", "seconds", "MB read", "MB written", "WA"];
        let mut table = Table::new("compaction", &header);
        let mut columns: [Vec<f64>; 3] = Default::default();
        for (unit, spec) in all(size) {
            let found = need(&mut page, results, &spec);
            let Some((run, load)) = found.and_then(|run| Some((run, run.load()?))) else {
                columns.iter_mut().for_each(|column| column.push(0.0));
                continue;
            };
            let took = merges(&run.lines).map(|l| seconds(l.end_ns - l.start_ns)).sum();
            let t = load.totals;
            let row = [took, megabytes(t.compaction_in_bytes), megabytes(t.compaction_out_bytes)];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            let count = merges(&run.lines).count() as f64;
            table.row(spec.layout, &[count, row[0], row[1], row[2], t.write_amp_ratio()]);
            let last = table.rows.len() - 1;
            table.rows[last].insert(1, unit.to_owned());
        }
        let [took, read, written] = &columns;
        page.claims = vec![
            claim("compaction time, SOC over LevelDB", Better::Smaller, ratios(took, 2, 0)),
            claim("compaction time, SOC over LOC", Better::Smaller, ratios(took, 2, 1)),
            claim(
                "compaction bytes written, SOC over LevelDB",
                Better::Smaller,
                ratios(written, 2, 0),
            ),
            claim("compaction bytes written, SOC over LOC", Better::Smaller, ratios(written, 2, 1)),
            claim("compaction bytes read, SOC over LOC", Better::Smaller, ratios(read, 2, 1)),
        ];
        let groups = || STORES.map(str::to_owned).to_vec();
        let of_stores = |column: &[f64]| column[..STORES.len()].to_vec();
        let time = vec![("compaction".to_owned(), of_stores(took))];
        page.charts.push(Chart::bars("time", groups(), Axis::linear("seconds"), time));
        let bytes =
            vec![("read".to_owned(), of_stores(read)), ("written".to_owned(), of_stores(written))];
        page.charts.push(Chart::bars("bytes", groups(), Axis::linear("MB"), bytes));
        page.tables.push(table);
        page
    },
};
