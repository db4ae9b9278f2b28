//! Figures 5 and 6: read latency by the write buffer's length, LRU beside the largest region first.

use super::{
    AT_5_GB, BUFFERS, Subject, add, conditions, eviction_runs, percent_below, subjects, table,
    values,
};
use crate::replay::ReplayReport;
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page, Results, Runs, Series, Size};

/// What the paper says in words: a trace, and by how many percent the read latency falls at 5 GB.
struct Said {
    word: &'static str,
    falls: [(&'static str, f64); 2],
    of: fn(&ReplayReport) -> f64,
}

const MEAN: Said = Said {
    word: "mean",
    falls: [("LUN2", 87.0), ("PageRank", 91.0)],
    of: |report| report.read_latency.mean_ns as f64 / 1e6,
};

const TAIL: Said = Said {
    word: "99th percentile",
    falls: [("LUN2", 77.0), ("PageRank", 93.0)],
    of: |report| report.read_latency.p99_ns as f64 / 1e6,
};

pub(in super::super) const FIGURE_5: Figure = Figure {
    name: "driver-5",
    title: "mean read latency by write buffer, LRU and largest region first",
    paper: "SMR block device driver, figure 5",
    runs: Runs::Replays(eviction_runs),
    page: |size, results| page(size, results, &MEAN),
};

pub(in super::super) const FIGURE_6: Figure = Figure {
    name: "driver-6",
    title: "99th percentile of read latency by write buffer, LRU and largest region first",
    paper: "SMR block device driver, figure 6",
    runs: Runs::Replays(eviction_runs),
    page: |size, results| page(size, results, &TAIL),
};

fn page(size: &Size, results: &Results, said: &Said) -> Page {
    let mut page = Page::default();
    let mut numbers = table(&format!("{} read latency in ms", said.word), "first to leave");
    for subject in subjects(size) {
        let lru = values(&mut page, results, &subject.lru(), said.of);
        let ours = values(&mut page, results, &subject.ours(), said.of);
        let below: Vec<f64> =
            lru.iter().zip(ours).map(|(lru, ours)| percent_below(ours, *lru)).collect();
        page.claims.push(claim(&subject, said, below[AT_5_GB]));
        add(&mut numbers, &subject.name(), "LRU", &lru);
        add(&mut numbers, &subject.name(), "largest region", &ours);
        add(&mut numbers, &subject.name(), "below LRU, %", &below);
        page.charts.push(chart(&subject, said, lru, ours));
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

fn claim(subject: &Subject, said: &Said, below: f64) -> Claim {
    let what = format!("{}, {} at 5 GB below LRU", subject.name(), said.word);
    let paper = subject.paper.and_then(|paper| {
        said.falls.iter().find(|(name, _)| *name == paper.name).map(|&(_, percent)| percent)
    });
    match paper {
        Some(percent) => Claim::new(what, Better::Larger, percent, below, "%"),
        None => Claim::shown(what, below, "%"),
    }
}

fn chart(subject: &Subject, said: &Said, lru: [f64; 4], ours: [f64; 4]) -> Chart {
    let points = |values: [f64; 4]| {
        let gib = BUFFERS.map(|(bytes, _)| bytes as f64 / f64::from(1 << 30));
        gib.into_iter().zip(values).filter(|(_, value)| value.is_finite()).collect()
    };
    Chart::lines(
        subject.name(),
        Axis::linear("write buffer, GB of the paper's"),
        Axis::linear(format!("{} read latency, ms", said.word)),
        vec![Series::new("LRU", points(lru)), Series::new("largest region", points(ours))],
    )
}
