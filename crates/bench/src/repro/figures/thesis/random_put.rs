//! Figures 3.11 and 3.12: random puts, sequential gets after them, and what compaction moved.

use super::{BAND_LEN_BYTES, STORES, random};
use crate::repro::figures::{megabytes, merges, need, over, seconds};
use crate::repro::{
    Axis, Better, Chart, Claim, Figure, Page, PhaseResult, Results, RunResult, RunSpec, Size, Table,
};

fn runs(size: &Size) -> Vec<RunSpec> {
    STORES.iter().map(|store| random(size, store, BAND_LEN_BYTES)).collect()
}

fn found<'a>(page: &mut Page, size: &Size, results: &'a Results) -> Vec<Option<&'a RunResult>> {
    STORES.iter().map(|s| need(page, results, &random(size, s, BAND_LEN_BYTES))).collect()
}

pub(in super::super) const FIGURE_3_11: Figure = Figure {
    name: "thesis-3.11",
    title: "random puts, and sequential gets after them",
    paper: "thesis, figure 3.11: 11 GB of random puts, no syncs",
    runs,
    page: |size, results| {
        let mut page = Page::default();
        let runs = found(&mut page, size, results);
        let mb =
            |phase: Option<&PhaseResult>| phase.map_or(0.0, |p| p.ops_per_second() * 4096.0 / 1e6);
        let puts: Vec<f64> = runs.iter().map(|r| mb(r.and_then(RunResult::load))).collect();
        let gets: Vec<f64> =
            runs.iter().map(|r| mb(r.and_then(RunResult::read_sequential))).collect();
        let claim = |what: &str, better, ours| Claim::new(what, better, 1.0, ours, "x");
        page.claims = vec![
            claim("random put, SOC over LevelDB", Better::Larger, over(puts[2], puts[0])),
            claim("random put, SOC over LOC", Better::Larger, over(puts[2], puts[1])),
            claim("random put, LOC over LevelDB", Better::Smaller, over(puts[1], puts[0])),
            claim("sequential get, SOC over LevelDB", Better::Larger, over(gets[2], gets[0])),
            claim("sequential get, SOC over LOC", Better::Larger, over(gets[2], gets[1])),
        ];
        let groups = vec!["random put".to_owned(), "sequential get".to_owned()];
        let series = STORES.iter().zip(puts.iter().zip(&gets));
        let series = series.map(|(s, (put, get))| (s.to_string(), vec![*put, *get])).collect();
        page.charts.push(Chart::bars("throughput", groups, Axis::linear("MB/s"), series));
        page.notes.push(
            "The thesis draws these bars and says which is higher; 1 stands for the other store."
                .to_owned(),
        );
        page
    },
};

pub(in super::super) const FIGURE_3_12: Figure = Figure {
    name: "thesis-3.12",
    title: "compaction: time, bytes read and written",
    paper: "thesis, figure 3.12: 11 GB of random puts",
    runs,
    page: |size, results| {
        let mut page = Page::default();
        let runs = found(&mut page, size, results);
        let mut table =
            Table::new("compaction", &["store", "count", "seconds", "MB read", "MB written", "WA"]);
        let mut rows: Vec<[f64; 3]> = Vec::new();
        for (store, run) in STORES.iter().zip(&runs) {
            let Some((run, load)) = run.and_then(|run| Some((run, run.load()?))) else {
                rows.push([0.0; 3]);
                continue;
            };
            let took = merges(&run.lines).map(|l| seconds(l.end_ns - l.start_ns)).sum();
            let (read, written) = (
                megabytes(load.totals.compaction_in_bytes),
                megabytes(load.totals.compaction_out_bytes),
            );
            rows.push([took, read, written]);
            let count = merges(&run.lines).count() as f64;
            table.row(*store, &[count, took, read, written, load.totals.write_amp_ratio()]);
        }
        let ratio = |i: usize, a: usize, b: usize| over(rows[a][i], rows[b][i]);
        let claim = |what: &str, ours| Claim::new(what, Better::Smaller, 1.0, ours, "x");
        page.claims = vec![
            claim("compaction time, SOC over LevelDB", ratio(0, 2, 0)),
            claim("compaction time, SOC over LOC", ratio(0, 2, 1)),
            claim("compaction bytes written, SOC over LevelDB", ratio(2, 2, 0)),
            claim("compaction bytes written, SOC over LOC", ratio(2, 2, 1)),
            claim("compaction bytes read, SOC over LOC", ratio(1, 2, 1)),
        ];
        let groups = || STORES.map(str::to_owned).to_vec();
        let column = |i: usize| rows.iter().map(|row| row[i]).collect::<Vec<f64>>();
        let time = vec![("compaction".to_owned(), column(0))];
        page.charts.push(Chart::bars("time", groups(), Axis::linear("seconds"), time));
        let bytes = vec![("read".to_owned(), column(1)), ("written".to_owned(), column(2))];
        page.charts.push(Chart::bars("bytes", groups(), Axis::linear("MB"), bytes));
        page.tables.push(table);
        page
    },
};
