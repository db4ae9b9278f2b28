//! Figures 5 and 6: read latency by the write buffer's length, LRU beside the largest region first and beside the
//! order beyond the paper.

use super::{
    AGED, AT_5_GB, BUFFERS, CONDITIONS, Subject, add, conditions, eviction_runs, percent_below,
    subjects, table, value, values,
};
use crate::replay::ReplayReport;
use crate::repro::{
    Axis, Better, Chart, Claim, Figure, Page, ReplaySpec, Results, Runs, Series, Size,
};

/// What the paper says in words: a trace, and by how many percent the read latency falls at 5 GB.
struct Said {
    word: &'static str,
    falls: [(&'static str, f64); 2],
    value: fn(&ReplayReport) -> f64,
}

const MEAN: Said = Said {
    word: "mean",
    falls: [("LUN2", 87.0), ("PageRank", 91.0)],
    value: |report| report.read_latency.mean_ns as f64 / 1e6,
};

const TAIL: Said = Said {
    word: "99th percentile",
    falls: [("LUN2", 77.0), ("PageRank", 93.0)],
    value: |report| report.read_latency.p99_ns as f64 / 1e6,
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

/// Every buffer and both orders, and the claims under other conditions.
fn runs(size: &Size) -> Vec<ReplaySpec> {
    let claimed = |subject: &Subject| MEAN.of(subject).is_some();
    let others = subjects(size).into_iter().filter(claimed).flat_map(|subject| {
        let under = CONDITIONS.iter().filter_map(move |condition| subject.under(*condition));
        under.flat_map(|subject| [subject.lru()[AT_5_GB], subject.ours()[AT_5_GB]])
    });
    eviction_runs(size).into_iter().chain(others).collect()
}

impl Said {
    /// What the paper says of this trace.
    fn of(&self, subject: &Subject) -> Option<f64> {
        let name = subject.paper?.name;
        self.falls.iter().find(|(said, _)| *said == name).map(|&(_, percent)| percent)
    }
}

fn page(size: &Size, results: &Results, said: &Said) -> Page {
    let mut page = Page::default();
    let mut numbers = table(&format!("{} read latency in ms", said.word), "first to leave");
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
    }
    page.tables.push(numbers);
    page.notes.push(conditions(size));
    page.notes.push(
        "A read's latency begins when the trace has it come. It counts what waits before it: evictions, the \
         journal and cleaning too. What the write buffer holds is read in no time."
            .to_owned(),
    );
    page
}

/// The claim, and what it comes to under other conditions.
fn claim(page: &mut Page, results: &Results, subject: &Subject, said: &Said, below: f64) -> Claim {
    let what = format!("{}, {} at 5 GB below LRU", subject.name(), said.word);
    let Some(percent) = said.of(subject) else { return Claim::shown(what, below, "%") };
    let mut claim = Claim::new(what, Better::Larger, percent, below, "%");
    for condition in CONDITIONS {
        if let Some(other) = subject.under(condition) {
            let [lru, ours] = [other.lru(), other.ours()]
                .map(|row| value(page, results, &row[AT_5_GB], said.value));
            claim = claim.under(condition.words(), percent_below(ours, lru));
        }
    }
    claim
}

fn chart(subject: &Subject, said: &Said, rows: [[f64; 4]; 3]) -> Chart {
    let points = |values: [f64; 4]| {
        let gib = BUFFERS.map(|(bytes, _)| bytes as f64 / f64::from(1 << 30));
        gib.into_iter().zip(values).filter(|(_, value)| value.is_finite()).collect()
    };
    Chart::lines(
        subject.name(),
        Axis::linear("write buffer, GB of the paper's"),
        Axis::linear(format!("{} read latency, ms", said.word)),
        ["LRU", "largest region", AGED]
            .into_iter()
            .zip(rows)
            .map(|(name, row)| Series::new(name, points(row)))
            .collect(),
    )
}
