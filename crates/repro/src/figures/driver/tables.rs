//! Figures 7 and 8: the sectors that a mapping table with entries of 10 or 100 sectors would have
//! written for each eviction.

use super::{
    AGED, AT_1_GB, AT_5_GB, Condition, JOURNALS, Subject, add, conditions, eviction_runs,
    percent_below, subjects, table, values, with_journal,
};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::page::{Better, Claim, Page};
use crate::replays::JOURNAL_BUFFER_COUNT;
use crate::replays::ReplaySpec;
use crate::results::Results;
use crate::spec::Size;
use imbrex_bench::replay::{ReplayReport, TableFigures};

/// The paper's values for LUN0 with a buffer of 1 GB, which it gives in words. The shape's writes
/// are fitted to its values for LRU, 2.1 and 11.8.
struct PaperValues {
    entry_sectors: u64,
    ours: f64,
}

const SHORT: PaperValues = PaperValues { entry_sectors: 10, ours: 1.1 };
const LONG: PaperValues = PaperValues { entry_sectors: 100, ours: 2.3 };
const SAID_OF: &str = "LUN0";
/// "By up to 93 %" in the paper, over all traces, buffers and entries.
const FALL_MAX_PERCENT: f64 = 93.0;

pub(in super::super) const FIGURE_7: Figure = Figure {
    name: "driver-7",
    title: "write amplification of a mapping table with entries of 10 sectors",
    paper: "SMR block device driver, figure 7",
    runs: Runs::Replays(runs),
    page: |size, results| page(size, results, &SHORT),
};

pub(in super::super) const FIGURE_8: Figure = Figure {
    name: "driver-8",
    title: "write amplification of a mapping table with entries of 100 sectors",
    paper: "SMR block device driver, figure 8",
    runs: Runs::Replays(runs),
    page: |size, results| page(size, results, &LONG),
};

/// Every buffer and both orders, and the runs of the claims with scattered writes.
fn runs(size: &Size) -> Vec<ReplaySpec> {
    let others = subjects(size).into_iter().filter_map(|subject| scattered(&subject));
    let others = others.flat_map(|subject| [subject.lru(), subject.ours()].concat());
    let journals = said_of(size).into_iter().flat_map(|subject| {
        JOURNALS.into_iter().flat_map(move |buffer_count| with_journal(&subject, buffer_count))
    });
    eviction_runs(size).into_iter().chain(others).chain(journals).collect()
}

/// The trace of which the paper gives values.
fn said_of(size: &Size) -> Option<Subject> {
    subjects(size).into_iter().find(|s| s.paper.is_some_and(|paper| paper.name == SAID_OF))
}

/// By the length of the journal: the figure's value, and what share of the evicted blocks left because the
/// journal was full. With 5 GB the default journal decides everything and the order of eviction nothing.
fn journals(page: &mut Page, size: &Size, results: &Results, entry_sectors: u64) {
    let Some(subject) = said_of(size) else { return };
    let mut numbers = table("by the length of the journal", "journal, in buffers");
    for buffer_count in [JOURNAL_BUFFER_COUNT].into_iter().chain(JOURNALS) {
        let specs = with_journal(&subject, buffer_count);
        let times = values(page, results, &specs, |report| amplification(report, entry_sectors));
        let shares = values(page, results, &specs, |report| match report.written.evicted_bytes {
            0 => f64::NAN,
            all => 100.0 * report.journal_evicted_bytes as f64 / all as f64,
        });
        add(&mut numbers, &subject.name(), &format!("{buffer_count}: multiple"), &times);
        let what = format!("{buffer_count}: evicted for the journal, %");
        add(&mut numbers, &subject.name(), &what, &shares);
    }
    page.tables.push(numbers);
}

fn scattered(subject: &Subject) -> Option<Subject> {
    subject.paper.filter(|paper| paper.name == SAID_OF)?;
    subject.under(Condition::Scattered)
}

fn amplification(report: &ReplayReport, entry_sectors: u64) -> f64 {
    let table = report.tables.iter().find(|table| table.entry_sectors == entry_sectors);
    table.map(TableFigures::amplification).filter(|&times| times > 0.0).unwrap_or(f64::NAN)
}

fn page(size: &Size, results: &Results, said: &PaperValues) -> Page {
    let mut page = Page::default();
    let entry = said.entry_sectors;
    let mut numbers =
        table(&format!("sectors written per evicted sector, {entry} per entry"), "evicted first");
    let (mut most, mut most_scattered) = (f64::NAN, f64::NAN);
    // With only some of the traces there is no maximum over all.
    let (mut is_whole, mut is_scattered_whole) = (size.only.is_empty(), false);
    let mut bars = [Vec::new(), Vec::new()];
    for subject in subjects(size) {
        let of = |report: &ReplayReport| amplification(report, entry);
        let mut both = |subject: &Subject| {
            [subject.lru(), subject.ours()].map(|specs| values(&mut page, results, &specs, of))
        };
        let [lru, ours] = both(&subject);
        is_whole &= subject.paper.is_none() || made(results, &subject);
        let other = scattered(&subject).map(|other| both(&other));
        if subject.paper.is_some() {
            most = most.max(fall_max(lru, ours));
        }
        if let Some([lru, ours]) = other {
            most_scattered = fall_max(lru, ours);
            is_scattered_whole = scattered(&subject).is_some_and(|other| made(results, &other));
            add(&mut numbers, &subject.name(), "LRU, scattered", &lru);
            add(&mut numbers, &subject.name(), "largest region, scattered", &ours);
        }
        if subject.paper.is_some_and(|paper| paper.name == SAID_OF) {
            let what = format!("{}, 1 GB, ours", subject.name());
            let claim = Claim::new(what, Better::Smaller, said.ours, ours[AT_1_GB], "x");
            let there = other.map_or(f64::NAN, |[_, ours]| ours[AT_1_GB]);
            page.claims.push(claim.under(Condition::Scattered.words(), there));
        }
        let what = format!("{}, 5 GB, ours below LRU", subject.name());
        let below = percent_below(ours[AT_5_GB], lru[AT_5_GB]);
        page.claims.push(Claim::shown(what, below, "%"));
        add(&mut numbers, &subject.name(), "LRU", &lru);
        add(&mut numbers, &subject.name(), "largest region", &ours);
        let aged = values(&mut page, results, &subject.aged(), of);
        add(&mut numbers, &subject.name(), AGED, &aged);
        bars[0].push((subject.name(), vec![lru[AT_1_GB], ours[AT_1_GB]]));
        bars[1].push((subject.name(), vec![lru[AT_5_GB], ours[AT_5_GB]]));
    }
    if entry == LONG.entry_sectors {
        let what = "largest gain of ours over LRU, over the paper's traces and all buffers";
        let known = |most: f64, is_whole: bool| if is_whole { most } else { f64::NAN };
        let most = known(most, is_whole);
        let claim = Claim::new(what, Better::Larger, FALL_MAX_PERCENT, most, "%");
        let there = known(most_scattered, is_scattered_whole);
        page.claims.push(claim.under(Condition::Scattered.words(), there));
    }
    page.tables.push(numbers);
    journals(&mut page, size, results, entry);
    let groups = || vec!["LRU".to_owned(), "largest region".to_owned()];
    for (buffer, bars) in ["1 GB", "5 GB"].into_iter().zip(bars) {
        let title = format!("write buffer of {buffer}");
        page.charts.push(Chart::bars(title, groups(), Axis::linear("multiple"), bars));
    }
    page.notes.push(conditions(size));
    page.notes.push(
        "The replay itself uses the mapping tree. For every evicted run, the model of the table \
         counts the entries that the run covers in part. Runs that follow each other in address \
         and in time count as one. A dash means that nothing was evicted."
            .to_owned(),
    );
    page
}

/// Whether every run for [`fall_max`] was made.
fn made(results: &Results, subject: &Subject) -> bool {
    let mut runs = [subject.lru(), subject.ours()].into_iter().flatten();
    runs.all(|spec| results.replay(&spec).is_ok())
}

/// The largest percentage by which ours is below LRU, over the buffers that evicted something.
fn fall_max(lru: [f64; 4], ours: [f64; 4]) -> f64 {
    let falls = lru.iter().zip(ours).map(|(lru, ours)| percent_below(ours, *lru));
    falls.fold(f64::NAN, f64::max)
}
