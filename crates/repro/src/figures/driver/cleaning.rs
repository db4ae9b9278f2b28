//! Tables II and III: what a cleaning merges, and how much garbage is in the zones it chooses.

use super::{
    BUFFERS, CleaningChoice, EvictionOrder, Subject, add, conditions, subjects, table, values,
};
use crate::figure::{Figure, Runs};
use crate::figures::measures::over;
use crate::page::{Better, Claim, Page};
use crate::replays::ReplaySpec;
use crate::results::Results;
use crate::spec::Size;
use imbrex_bench::replay::ReplayReport;

/// The orders: the paper's baseline, and the one it proposes.
const ORDERS: [(CleaningChoice, &str); 2] =
    [(CleaningChoice::MostGarbage, "most garbage"), (CleaningChoice::MostMerged, "most merged")];

/// A baseline that merges less than a node in two cleanings is nothing to divide by.
const MERGED_LEAST: f64 = 0.5;

/// What the order costs at the most in the paper: PageRank without a buffer, LUN0 with 5 GB.
const POINTS_MAX: f64 = 11.0;

fn rows(subject: &Subject) -> [[ReplaySpec; 4]; 2] {
    ORDERS.map(|(cleans, _)| subject.row(EvictionOrder::LargestRegion, cleans))
}

fn runs(size: &Size) -> Vec<ReplaySpec> {
    subjects(size).iter().flat_map(|subject| rows(subject).concat()).collect()
}

pub(in super::super) const TABLE_2: Figure = Figure {
    name: "driver-table-2",
    title: "mapping nodes merged by a cleaning",
    paper: "SMR block device driver, table II",
    runs: Runs::Replays(runs),
    page: |size, results| {
        let mut page = Page::default();
        let of = |report: &ReplayReport| report.merged_nodes_mean;
        let mut merged = table("nodes that a cleaning merges", "zones with");
        for subject in subjects(size) {
            let [garbage, most] = both(&mut page, results, &subject, of);
            if let Some(paper) = subject.paper {
                for column in 0..BUFFERS.len() {
                    let theirs = over(paper.merged[1][column], paper.merged[0][column]);
                    let times = over(most[column], garbage[column]);
                    let what = format!("{}, buffer {}", subject.name(), BUFFERS[column].1);
                    if theirs > 0.0 && garbage[column] >= MERGED_LEAST {
                        page.claims.push(Claim::new(what, Better::Larger, theirs, times, "x"));
                    }
                }
            }
            for ((_, order), values) in ORDERS.iter().zip([garbage, most]) {
                add(&mut merged, &subject.name(), order, &values);
            }
        }
        page.tables.push(merged);
        page.tables.push(cleanings(size, results));
        page.notes.push(conditions(size));
        page.notes.push(
            "The claims are nodes merged by the paper's order over those by its baseline: how many one merges \
             depends on how long a zone is; there is none where the baseline merges less than one in two \
             cleanings. Urgent cleanings, when hardly a zone is free, go by garbage alone \
             in both orders; they are counted apart, and not in these means. A dash: nothing had to be cleaned in time."
                .to_owned(),
        );
        page
    },
};

pub(in super::super) const TABLE_3: Figure = Figure {
    name: "driver-table-3",
    title: "garbage in the zones that a cleaning chooses",
    paper: "SMR block device driver, table III",
    runs: Runs::Replays(runs),
    page: |size, results| {
        let mut page = Page::default();
        let mut rates = table("garbage in percent", "zones with");
        let mut most = f64::NAN;
        // Of some of the traces there is no most of all.
        let mut made = size.only.is_empty();
        for subject in subjects(size) {
            let found = both(&mut page, results, &subject, |report| report.garbage_percent);
            made &= subject.paper.is_none()
                || rows(&subject).iter().flatten().all(|spec| results.replay(spec).is_ok());
            for (at, (_, order)) in ORDERS.iter().enumerate() {
                add(&mut rates, &subject.name(), order, &found[at]);
                if let Some(paper) = subject.paper {
                    add(&mut rates, &subject.name(), "  the paper's", &paper.garbage[at]);
                }
            }
            let points: [f64; 4] = std::array::from_fn(|at| found[0][at] - found[1][at]);
            add(&mut rates, &subject.name(), "points less", &points);
            for (column, points) in points.into_iter().enumerate() {
                if let Some(paper) = subject.paper {
                    // What was not cleaned in time is left out, and what was not run leaves no most.
                    most = if made { most.max(points) } else { f64::NAN };
                    let share = |rates: [[f64; 4]; 2]| over(rates[1][column], rates[0][column]);
                    let what = format!("{}, buffer {}", subject.name(), BUFFERS[column].1);
                    let (theirs, ours) = (share(paper.garbage), share(found));
                    if ours > 0.0 {
                        page.claims.push(Claim::new(what, Better::Larger, theirs, ours, "x"));
                    }
                }
            }
        }
        let what = "the most points less, of the paper's traces and all buffers";
        page.claims.push(Claim::new(what, Better::Smaller, POINTS_MAX, most, "points"));
        page.tables.push(rates);
        page.tables.push(cleanings(size, results));
        page.notes.push(conditions(size));
        page.notes.push(
            "The claims are the garbage in the zones that merge most over that in the zones with most garbage. \
             Points below 0: more garbage."
                .to_owned(),
        );
        page
    },
};

/// What `of` says of timely cleanings, by both orders; no number where there was none.
fn both(
    page: &mut Page,
    results: &Results,
    subject: &Subject,
    of: fn(&ReplayReport) -> f64,
) -> [[f64; 4]; 2] {
    let of =
        |report: &ReplayReport| if report.timely_cleanings == 0 { f64::NAN } else { of(report) };
    rows(subject).map(|specs| values(page, results, &specs, of))
}

/// How many cleanings were timely, and how many urgent.
fn cleanings(size: &Size, results: &Results) -> crate::page::Table {
    let mut counts = table("cleanings begun: timely, urgent", "zones with");
    for subject in subjects(size) {
        for ((_, order), specs) in ORDERS.iter().zip(rows(&subject)) {
            let cells = specs.map(|spec| match results.replay(&spec) {
                Ok(report) => format!("{}, {}", report.timely_cleanings, report.urgent_cleanings),
                Err(_) => "-".to_owned(),
            });
            let names = [subject.name(), (*order).to_owned()];
            counts.rows.push(names.into_iter().chain(cells).collect());
        }
    }
    counts
}
