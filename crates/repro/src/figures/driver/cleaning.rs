//! Tables II and III: mapping nodes that a cleaning merges, and the garbage in the zones it
//! chooses.

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

/// The paper's baseline, its proposal, and that within the budget of a block device. The claims are of the first
/// two.
const ORDERS: [(CleaningChoice, &str); 3] = [
    (CleaningChoice::MostGarbage, "most garbage"),
    (CleaningChoice::Paper, "most merged"),
    (CleaningChoice::MostMerged, "most merged within a budget"),
];

/// A baseline that merges less than one node in two cleanings is too small to divide by.
const MERGED_LEAST: f64 = 0.5;

/// The largest cost of the order in the paper: PageRank without a buffer, LUN0 with 5 GB.
const POINTS_MAX: f64 = 11.0;

fn rows(subject: &Subject) -> [[ReplaySpec; 4]; 3] {
    ORDERS.map(|(cleans, _)| subject.row(EvictionOrder::LargestRegion, cleans))
}

fn runs(size: &Size) -> Vec<ReplaySpec> {
    subjects(size).iter().flat_map(|subject| rows(subject).concat()).collect()
}

pub(in super::super) const TABLE_2: Figure = Figure {
    name: "driver-table-2",
    title: "mapping nodes that a cleaning merges",
    paper: "SMR block device driver, table II",
    runs: Runs::Replays(runs),
    page: |size, results| {
        let mut page = Page::default();
        let of = |report: &ReplayReport| report.merged_nodes_mean;
        let mut merged = table("nodes that a cleaning merges", "zones chosen by");
        for subject in subjects(size) {
            let [garbage, most, within] = all(&mut page, results, &subject, of);
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
            for ((_, order), values) in ORDERS.iter().zip([garbage, most, within]) {
                add(&mut merged, &subject.name(), order, &values);
            }
        }
        page.tables.push(merged);
        page.tables.push(cleanings(size, results));
        page.notes.push(conditions(size));
        page.notes.push(
            "The claims divide the nodes merged by the paper's order by those merged by its \
             baseline, because the number of nodes depends on the length of a zone. There is no \
             claim where the baseline merges less than one node in two cleanings. Urgent \
             cleanings, which start when hardly any zone is free, choose by garbage alone in every \
             order; they are counted separately and are not in these means. A dash means that no \
             timely cleaning was needed. The block device itself has a budget: two zones may have a \
             tenth more valid data than the two emptiest."
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
        let mut rates = table("garbage, %", "zones chosen by");
        let mut most = f64::NAN;
        // With only some of the traces there is no maximum over all.
        let mut made = size.only.is_empty();
        for subject in subjects(size) {
            let found = all(&mut page, results, &subject, |report| report.garbage_percent);
            made &= subject.paper.is_none()
                || rows(&subject).iter().flatten().all(|spec| results.replay(spec).is_ok());
            for (at, (_, order)) in ORDERS.iter().enumerate() {
                add(&mut rates, &subject.name(), order, &found[at]);
                if let Some(theirs) = subject.paper.and_then(|paper| paper.garbage.get(at)) {
                    add(&mut rates, &subject.name(), "  paper", theirs);
                }
            }
            let points: [f64; 4] = std::array::from_fn(|at| found[0][at] - found[1][at]);
            add(&mut rates, &subject.name(), "fewer points of garbage", &points);
            for (column, points) in points.into_iter().enumerate() {
                if let Some(paper) = subject.paper {
                    // Traces without a timely cleaning are left out; a missing run makes the
                    // maximum NaN.
                    most = if made { most.max(points) } else { f64::NAN };
                    let share =
                        |most: [f64; 4], garbage: [f64; 4]| over(most[column], garbage[column]);
                    let what = format!("{}, buffer {}", subject.name(), BUFFERS[column].1);
                    let theirs = share(paper.garbage[1], paper.garbage[0]);
                    let ours = share(found[1], found[0]);
                    if ours > 0.0 {
                        page.claims.push(Claim::new(what, Better::Larger, theirs, ours, "x"));
                    }
                }
            }
        }
        let what = "largest loss of garbage, over the paper's traces and all buffers";
        page.claims.push(Claim::new(what, Better::Smaller, POINTS_MAX, most, "points"));
        page.tables.push(rates);
        page.tables.push(cleanings(size, results));
        page.notes.push(conditions(size));
        page.notes.push(
            "The claims divide the garbage in the zones that merge most by the garbage in the \
             zones with most garbage. A negative number of points means more garbage."
                .to_owned(),
        );
        page
    },
};

/// `of` over timely cleanings, for each order; NaN without a timely cleaning.
fn all(
    page: &mut Page,
    results: &Results,
    subject: &Subject,
    of: fn(&ReplayReport) -> f64,
) -> [[f64; 4]; 3] {
    let of =
        |report: &ReplayReport| if report.timely_cleanings == 0 { f64::NAN } else { of(report) };
    rows(subject).map(|specs| values(page, results, &specs, of))
}

/// Counts of timely and of urgent cleanings.
fn cleanings(size: &Size, results: &Results) -> crate::page::Table {
    let mut counts = table("cleanings started: timely, urgent", "zones chosen by");
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
