//! Figures 7 and 8: what a table of 10 or 100 sectors an entry would have written for each eviction.

use super::{
    AT_1_GB, AT_5_GB, BUFFERS, add, conditions, eviction_runs, percent_below, subjects, table,
    values,
};
use crate::replay::{ReplayReport, TableFigures};
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page, Results, Runs, Size};

/// What the paper says in words of LUN0 with a buffer of 1 GB: LRU and ours.
struct Said {
    entry_sectors: u64,
    lru: f64,
    ours: f64,
}

const SHORT: Said = Said { entry_sectors: 10, lru: 2.1, ours: 1.1 };
const LONG: Said = Said { entry_sectors: 100, lru: 11.8, ours: 2.3 };
/// "By up to 93 %", of all traces, buffers and entries.
const FALL_MAX_PERCENT: f64 = 93.0;

pub(in super::super) const FIGURE_7: Figure = Figure {
    name: "driver-7",
    title: "write amplification of a mapping table of 10 sectors an entry",
    paper: "SMR block device driver, figure 7",
    runs: Runs::Replays(eviction_runs),
    page: |size, results| page(size, results, &SHORT),
};

pub(in super::super) const FIGURE_8: Figure = Figure {
    name: "driver-8",
    title: "write amplification of a mapping table of 100 sectors an entry",
    paper: "SMR block device driver, figure 8",
    runs: Runs::Replays(eviction_runs),
    page: |size, results| page(size, results, &LONG),
};

fn amplification(report: &ReplayReport, entry_sectors: u64) -> f64 {
    let table = report.tables.iter().find(|table| table.entry_sectors == entry_sectors);
    table.map(TableFigures::amplification).filter(|&times| times > 0.0).unwrap_or(f64::NAN)
}

fn page(size: &Size, results: &Results, said: &Said) -> Page {
    let mut page = Page::default();
    let entry = said.entry_sectors;
    let mut numbers =
        table(&format!("sectors written for each evicted, {entry} an entry"), "first to leave");
    let (mut most, mut bars) = (f64::NAN, [Vec::new(), Vec::new()]);
    for subject in subjects(size) {
        let of = |report: &ReplayReport| amplification(report, entry);
        let lru = values(&mut page, results, &subject.lru(), of);
        let ours = values(&mut page, results, &subject.ours(), of);
        for column in 0..BUFFERS.len() {
            most = most.max(percent_below(ours[column], lru[column]));
        }
        if subject.paper.is_some_and(|paper| paper.name == "LUN0") {
            let what = |order: &str| format!("{}, 1 GB, {order}", subject.name());
            page.claims.push(Claim::new(what("LRU"), Better::Same, said.lru, lru[AT_1_GB], "x"));
            let ours = ours[AT_1_GB];
            page.claims.push(Claim::new(what("ours"), Better::Smaller, said.ours, ours, "x"));
        }
        let what = format!("{}, 5 GB, ours below LRU", subject.name());
        let below = percent_below(ours[AT_5_GB], lru[AT_5_GB]);
        page.claims.push(Claim::shown(what, below, "%"));
        add(&mut numbers, &subject.name(), "LRU", &lru);
        add(&mut numbers, &subject.name(), "largest region", &ours);
        bars[0].push((subject.name(), vec![lru[AT_1_GB], ours[AT_1_GB]]));
        bars[1].push((subject.name(), vec![lru[AT_5_GB], ours[AT_5_GB]]));
    }
    if entry == LONG.entry_sectors {
        let what = "the most that ours lies below LRU, of all traces and buffers";
        page.claims.push(Claim::new(what, Better::Larger, FALL_MAX_PERCENT, most, "%"));
    }
    page.tables.push(numbers);
    let groups = || vec!["LRU".to_owned(), "largest region".to_owned()];
    for (buffer, bars) in ["1 GB", "5 GB"].into_iter().zip(bars) {
        let title = format!("write buffer of {buffer}");
        page.charts.push(Chart::bars(title, groups(), Axis::linear("times"), bars));
    }
    page.notes.push(conditions(size));
    page.notes.push(
        "The replay itself runs over the mapping tree; the table is asked, for every run that is evicted, \
         which entries it covers in part. Runs that follow each other in address and in time count as one. A \
         dash: nothing was evicted."
            .to_owned(),
    );
    page
}
