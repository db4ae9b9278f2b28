//! Figures 5 and 6: read latency by write buffer length, for LRU, for the largest region first, and
//! for an eviction order that is not in the paper.

use super::{
    AGED, AT_5_GB, BUFFERS, CONDITIONS, Subject, add, conditions, eviction_runs, percent_below,
    short, subjects, table, value, values,
};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::page::{Better, Claim, Page, Table};
use crate::replays::ReplaySpec;
use crate::results::Results;
use crate::spec::Size;
use imbrex_bench::replay::ReplayReport;

/// Request intervals of the table by rate, in milliseconds.
const INTERVALS_MS: [u64; 10] = [25, 22, 21, 20, 15, 10, 9, 8, 7, 5];

/// If the last request completes later than this after its arrival, in percent of the trace's
/// duration, the drive does not keep up.
const LATE_PERCENT_MAX: f64 = 1.0;

/// A claim that the paper makes in words: per trace, the fall of the read latency at 5 GB in
/// percent.
struct PaperValues {
    word: &'static str,
    falls: [(&'static str, f64); 2],
    value: fn(&ReplayReport) -> f64,
}

const MEAN: PaperValues = PaperValues {
    word: "mean",
    falls: [("LUN2", 87.0), ("PageRank", 91.0)],
    value: |report| report.requests.read_latency.mean_ns as f64 / 1e6,
};

const TAIL: PaperValues = PaperValues {
    word: "99th percentile",
    falls: [("LUN2", 77.0), ("PageRank", 93.0)],
    value: |report| report.requests.read_latency.p99_ns as f64 / 1e6,
};

pub(in super::super) const FIGURE_5: Figure = Figure {
    name: "driver-5",
    title: "mean read latency by write buffer, LRU and largest region first",
    paper: "SMR block device driver, figure 5",
    runs: Runs::Replays(runs),
    page: |size, results| page(size, results, &MEAN),
};

pub(in super::super) const FIGURE_6: Figure = Figure {
    name: "driver-6",
    title: "99th percentile of read latency by write buffer, LRU and largest region first",
    paper: "SMR block device driver, figure 6",
    runs: Runs::Replays(runs),
    page: |size, results| page(size, results, &TAIL),
};

/// Every buffer and both orders, and the runs of the claims under other conditions and at other
/// rates.
fn runs(size: &Size) -> Vec<ReplaySpec> {
    let claimed = |subject: &Subject| MEAN.of(subject).is_some();
    let others = subjects(size).into_iter().filter(claimed).flat_map(|subject| {
        let under = CONDITIONS.iter().filter_map(|condition| subject.under(*condition));
        let under: Vec<Subject> =
            under.chain(rates(&subject).map(|(_, subject)| subject)).collect();
        under.into_iter().flat_map(|subject| both(&subject))
    });
    eviction_runs(size).into_iter().chain(others).collect()
}

/// A buffer of 5 GB, with LRU and with the largest region.
fn both(subject: &Subject) -> [ReplaySpec; 2] {
    [subject.lru()[AT_5_GB], subject.ours()[AT_5_GB]]
}

/// The same trace at other rates.
fn rates(subject: &Subject) -> impl Iterator<Item = (u64, Subject)> {
    INTERVALS_MS.into_iter().filter_map(|each| Some((each, subject.each(each)?)))
}

impl PaperValues {
    /// The paper's value for this trace.
    fn of(&self, subject: &Subject) -> Option<f64> {
        let name = subject.paper?.name;
        self.falls.iter().find(|(said, _)| *said == name).map(|&(_, percent)| percent)
    }
}

fn page(size: &Size, results: &Results, said: &PaperValues) -> Page {
    let mut page = Page::default();
    let mut numbers = table(&format!("{} read latency in ms", said.word), "evicted first");
    let mut late = table(
        "delay of the last request in percent of the trace's duration; above 1 the drive does not \
         keep up",
        "evicted first",
    );
    for subject in subjects(size) {
        let lru = values(&mut page, results, &subject.lru(), said.value);
        let ours = values(&mut page, results, &subject.ours(), said.value);
        let aged = values(&mut page, results, &subject.aged(), said.value);
        let below: Vec<f64> =
            lru.iter().zip(ours).map(|(lru, ours)| percent_below(ours, *lru)).collect();
        let claim = claim(&mut page, results, &subject, said, below[AT_5_GB]);
        page.claims.push(claim);
        add(&mut numbers, &subject.name(), "LRU", &lru);
        add(&mut numbers, &subject.name(), "largest region", &ours);
        add(&mut numbers, &subject.name(), "below LRU, %", &below);
        add(&mut numbers, &subject.name(), AGED, &aged);
        page.charts.push(chart(&subject, said, [lru, ours, aged]));
        for (order, specs) in [("LRU", subject.lru()), ("largest region", subject.ours())] {
            let late_percent = values(&mut page, results, &specs, ReplayReport::late_percent);
            add(&mut late, &subject.name(), order, &late_percent);
        }
    }
    page.tables.push(numbers);
    page.tables.push(late);
    let by_rate = by_rate(&mut page, size, results, said);
    page.tables.push(by_rate);
    page.notes.push(conditions(size));
    page.notes.push(
        "If the drive does not keep up, its queue grows until the trace ends. A latency is then \
         the length of that queue, and depends more on the length of the trace than on the order. \
         Where only LRU does not keep up, the lead can take any value; the table by rate shows \
         this."
            .to_owned(),
    );
    page.notes.push(
        "The latency of a read starts at its arrival in the trace. It includes everything the read \
         waits for, also evictions, the journal and cleaning. Reads of data in the write buffer \
         take no time."
            .to_owned(),
    );
    page
}

/// The lead on the traces that the paper mentions, by request rate and under each condition. It
/// depends on what saturates the drive, and on which order saturates it first.
fn by_rate(page: &mut Page, size: &Size, results: &Results, said: &PaperValues) -> Table {
    let title =
        format!("{} read latency in ms with a buffer of 5 GB, by rate and condition", said.word);
    let header = ["trace", "", "LRU", "late, %", "largest region", "late, %", "below LRU, %"];
    let mut table = Table::new(title, &header);
    for subject in subjects(size).iter().filter(|subject| said.of(subject).is_some()) {
        let here = [("rate of the shape".to_owned(), *subject)];
        let rates = rates(subject).map(|(each, other)| (each_words(each), other));
        let under = CONDITIONS.iter().filter_map(|condition| {
            Some((condition.words().to_owned(), subject.under(*condition)?))
        });
        for (words, other) in here.into_iter().chain(rates).chain(under) {
            let [lru, ours] = both(&other).map(|spec| value(page, results, &spec, said.value));
            let late = both(&other)
                .map(|spec| value(page, results, &spec, |report| late_percent(&spec, report)));
            let cells = [lru, late[0], ours, late[1], percent_below(ours, lru)].map(cell);
            table.rows.push([subject.name(), words].into_iter().chain(cells).collect());
        }
    }
    table
}

/// In a closed loop no request is late.
fn late_percent(spec: &ReplaySpec, report: &ReplayReport) -> f64 {
    if spec.is_closed_loop { 0.0 } else { report.late_percent() }
}

fn cell(value: f64) -> String {
    if value.is_finite() { short(value) } else { "-".to_owned() }
}

fn each_words(interval_ms: u64) -> String {
    format!("one request every {interval_ms} ms")
}

/// The claim, its value under each condition, and its largest value over the other rates. Where the
/// drive does not keep up, the lead can take any value, so such a condition is left out here; the
/// table by rate has it.
fn claim(
    page: &mut Page,
    results: &Results,
    subject: &Subject,
    said: &PaperValues,
    below: f64,
) -> Claim {
    let what = format!("{}, {} at 5 GB below LRU", subject.name(), said.word);
    let Some(percent) = said.of(subject) else { return Claim::shown(what, below, "%") };
    let mut claim = Claim::new(what, Better::Larger, percent, below, "%");
    for condition in CONDITIONS {
        let other = subject.under(condition);
        if let Some(below) = other.and_then(|other| kept_lead(page, results, &other, said)) {
            claim = claim.under(condition.words(), below);
        }
    }
    let leads = rates(subject).filter_map(|(each, other)| {
        kept_lead(page, results, &other, said).map(|below| (each, below))
    });
    match leads.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
        Some((each, below)) => claim.under(each_words(each), below),
        None => claim,
    }
}

/// By how many percent ours is below LRU, if the drive keeps up with both orders.
fn kept_lead(
    page: &mut Page,
    results: &Results,
    subject: &Subject,
    said: &PaperValues,
) -> Option<f64> {
    let late =
        both(subject).map(|spec| value(page, results, &spec, |report| late_percent(&spec, report)));
    if !late.iter().all(|&late| late <= LATE_PERCENT_MAX) {
        return None;
    }
    let [lru, ours] = both(subject).map(|spec| value(page, results, &spec, said.value));
    Some(percent_below(ours, lru))
}

fn chart(subject: &Subject, said: &PaperValues, rows: [[f64; 4]; 3]) -> Chart {
    let points = |values: [f64; 4]| {
        let gib = BUFFERS.map(|(bytes, _)| bytes as f64 / f64::from(1 << 30));
        gib.into_iter().zip(values).filter(|(_, value)| value.is_finite()).collect()
    };
    Chart::lines(
        subject.name(),
        Axis::linear("write buffer, GB at the paper's size"),
        Axis::linear(format!("{} read latency, ms", said.word)),
        ["LRU", "largest region", AGED]
            .into_iter()
            .zip(rows)
            .map(|(name, row)| Series::new(name, points(row)))
            .collect(),
    )
}
