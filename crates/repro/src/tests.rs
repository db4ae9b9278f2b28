//! The list of figures, small runs twice, and pages that are well-formed.

use super::*;
use crate::page::Elsewhere;
use crate::results::{Outcome, Results};
use crate::work::Work;
use imbrex_bench::BenchError;

/// The figures and tables of the five documents, and one of a document's words.
const WANTED: [&str; 57] = [
    "sealdb-2",
    "sealdb-3",
    "sealdb-table-2",
    "sealdb-8",
    "sealdb-9",
    "sealdb-10",
    "sealdb-11",
    "sealdb-12",
    "sealdb-13",
    "sealdb-14",
    "sealdb-sets",
    "thesis-3.9",
    "thesis-3.10",
    "thesis-3.11",
    "thesis-3.12",
    "thesis-3.13",
    "thesis-3.14",
    "thesis-3.15",
    "thesis-3.16",
    "thesis-3.17",
    "thesis-4.5",
    "thesis-4.6",
    "thesis-4.7",
    "thesis-4.8",
    "thesis-4.9",
    "thesis-table-4.2",
    "thesis-4.10",
    "thesis-5.3",
    "thesis-5.5",
    "thesis-5.6",
    "thesis-5.7",
    "thesis-5.8",
    "thesis-5.9",
    "thesis-table-5.1",
    "geardb-gc-time",
    "geardb-gc-utilisation",
    "geardb-load",
    "geardb-micro",
    "geardb-breakdown",
    "geardb-compaction",
    "geardb-zones",
    "kvimr-2",
    "kvimr-5",
    "kvimr-6",
    "kvimr-load",
    "kvimr-7",
    "kvimr-8",
    "kvimr-9",
    "kvimr-fill",
    "kvimr-overwrite",
    "driver-5",
    "driver-6",
    "driver-7",
    "driver-8",
    "driver-table-1",
    "driver-table-2",
    "driver-table-3",
];

const TINY: Size = Size { scale: 0.0003, seed: 3, traces: &[], only: &[] };

fn run(names: &[&str], jobs: usize) -> Reproduction {
    let figures: Vec<Figure> = names.iter().flat_map(|name| figures_named(name).unwrap()).collect();
    repro(&figures, TINY, Machine { jobs, unpacked_bytes: 0 }, &Watch::default(), &|| false)
        .unwrap()
}

#[test]
fn every_figure_of_the_five_documents_is_there() {
    let names: Vec<&str> = figures().iter().map(|figure| figure.name).collect();
    assert_eq!(names, WANTED);
    assert_eq!(figures_named("all").unwrap().len(), WANTED.len());
    assert_eq!(figures_named("sealdb").unwrap().len(), 11);
    assert_eq!(figures_named("thesis-3.9").unwrap().len(), 1);
    assert_eq!(figures_named("kvimr").unwrap().len(), 9);
    assert_eq!(figures_named("thesis-5").unwrap().len(), 6);
}

#[test]
fn an_unknown_figure_lists_those_there_are() {
    let error = figures_named("sealdb-99").unwrap_err().to_string();
    assert!(error.contains("sealdb-99") && error.contains("geardb-zones"), "{error}");
    assert!(figures_named("").is_err());
    let wrong = Size { scale: 1.5, ..TINY };
    let error = repro(&[], wrong, Machine::default(), &Watch::default(), &|| false)
        .unwrap_err()
        .to_string();
    assert!(error.contains("--scale is 1.5"), "{error}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_number_of_workers() {
    let names = ["sealdb-2", "sealdb-3", "thesis-3.17"];
    let (one, two) = (run(&names, 1), run(&names, 2));
    assert_eq!(one.to_json(), two.to_json());
    assert_eq!(one.to_html(), two.to_html());
    let other = Size { seed: 4, ..TINY };
    let figures = figures_named("sealdb-2").unwrap();
    let other = repro(&figures, other, Machine::default(), &Watch::default(), &|| false).unwrap();
    assert_ne!(one.to_json(), other.to_json());
}

#[test]
fn pages_are_well_formed_and_name_missing_runs() {
    let reproduction = run(&["sealdb-2", "sealdb-table-2"], 1);
    let html = reproduction.to_html();
    chart::tests::assert_well_formed(html.strip_prefix("<!DOCTYPE html>\n").unwrap());
    assert!(html.contains("<svg") && html.contains("id=\"sealdb-2\""));
    assert!(html.contains("<code>imbrex drive bench st1000dm003</code>"), "backticks were shown");
    let verdicts = reproduction.verdicts();
    assert!(verdicts.contains(" claims ") && !format!(" {verdicts}").contains(" 0 "), "{verdicts}");
    let none = Reproduction { figures: Vec::new(), ..reproduction.clone() };
    assert_eq!(none.verdicts(), "without claims to judge");
    let markdown = reproduction.to_markdown();
    assert!(markdown.contains("### sealdb-table-2") && markdown.contains("|---|"), "{markdown}");
    let text = reproduction.to_text();
    assert!(text.contains("sequential read") && text.contains("169"), "{text}");
    // A page without results names the missing runs and does not panic.
    for figure in figures() {
        let page = (figure.page)(&TINY, &Results::default());
        let needs_none = figure.runs.works(&TINY).is_empty();
        assert_eq!(page.missing.is_empty(), needs_none, "{}", figure.name);
        page.charts.iter().for_each(|chart| chart::tests::assert_well_formed(&chart.to_svg()));
    }
}

#[test]
fn arrivals_are_drawn_at_three_time_scales() {
    let reproduction = run(&["thesis-4.5", "thesis-4.7", "thesis-4.9"], 2);
    for figure in &reproduction.figures {
        let wanted = if figure.name == "thesis-4.9" { 2 } else { 3 };
        assert_eq!(figure.page.charts.len(), wanted, "{}", figure.name);
        assert_eq!(figure.page.missing, Vec::<String>::new());
        for chart in &figure.page.charts {
            chart::tests::assert_well_formed(&chart.to_svg());
            assert!(chart.series.iter().all(|series| series.points.len() >= 50), "{}", chart.title);
        }
    }
    let claims = &reproduction.figures[2].page.claims;
    let poisson = claims.iter().find(|claim| claim.what == "Poisson, gaps at lag 1").unwrap();
    assert!(poisson.ours.abs() < 0.05, "{poisson:?}");
}

#[test]
fn clients_and_a_flash_drive_go_through_figures() {
    let reproduction = run(&["thesis-4.10", "thesis-5.5", "thesis-table-5.1"], 2);
    for figure in &reproduction.figures {
        let page = &figure.page;
        assert_eq!(page.missing, Vec::<String>::new());
        // Nothing is compacted this early in 4.10, and two of its claims are about compaction.
        assert!(page.claims.len() >= 6, "{}", figure.name);
        for chart in &page.charts {
            chart::tests::assert_well_formed(&chart.to_svg());
            assert!(chart.series.iter().all(|series| !series.points.is_empty()), "{}", chart.title);
        }
    }
    let rows = |at: usize| reproduction.figures[at].page.tables[0].rows.len();
    assert_eq!([rows(0), rows(1), rows(2)], [11, 5, 8]);
}

#[test]
fn a_run_can_be_stopped() {
    let figures = figures_named("sealdb-2").unwrap();
    let stopped = repro(&figures, TINY, Machine::default(), &Watch::default(), &|| true);
    assert!(matches!(stopped, Err(BenchError::Stopped)));
}

/// All runs of the first figure complete; those of the second are stopped.
#[test]
fn a_stopped_reproduction_keeps_the_completed_figures() {
    let figures: Vec<Figure> =
        ["sealdb-2", "geardb-compaction"].iter().flat_map(|f| figures_named(f).unwrap()).collect();
    let first = figures[0].runs.works(&TINY);
    let of_second: Vec<String> = figures[1].runs.works(&TINY).iter().map(Work::label).collect();
    assert!(first.iter().all(|work| !of_second.contains(&work.label())));
    let watch = Watch::default();
    let is_stopped = || watch.running().iter().any(|label| of_second.contains(label));
    let stopped = repro(&figures, TINY, Machine::default(), &watch, &is_stopped).unwrap();
    let names: Vec<&str> = stopped.figures.iter().map(|figure| figure.name).collect();
    assert_eq!((names, stopped.unfinished.clone()), (vec!["sealdb-2"], vec!["geardb-compaction"]));
    let whole =
        repro(&figures[..1], TINY, Machine::default(), &Watch::default(), &|| false).unwrap();
    assert_eq!(
        serde_json::to_value(&stopped.figures).unwrap(),
        serde_json::to_value(&whole.figures).unwrap()
    );
    for page in [stopped.to_text(), stopped.to_html(), stopped.to_markdown()] {
        assert!(page.contains("Stopped before the end of geardb-compaction."), "{page}");
    }
    assert!(!whole.to_text().contains("Stopped"));
}

/// Without one of its runs, a page makes only claims that it also makes with all of them: a failed run neither meets
/// nor misses a claim.
#[test]
fn no_claim_is_made_through_a_run_that_was_not_made() {
    let mut wrong = Vec::new();
    for figure in figures() {
        let page = |results: &Results| (figure.page)(&TINY, results).without_the_unmeasured();
        let works = sample_results::works(figure, &TINY);
        let mut results = sample_results::results(&works);
        let whole = page(&results);
        assert_eq!(whole.missing, Vec::<String>::new(), "{}", figure.name);
        for work in &works {
            results.insert(work.clone(), Err("it broke".to_owned()));
            let lacking = page(&results);
            results.insert(work.clone(), Ok(sample_results::outcome(work)));
            if *work == works[0] {
                lacking.charts.iter().for_each(|c| chart::tests::assert_well_formed(&c.to_svg()));
            }
            for claim in &lacking.claims {
                let told = whole.claims.iter().find(|other| other.what == claim.what);
                let is_same = told.is_some_and(|told| {
                    let same = |one: &Elsewhere, other: &Elsewhere| {
                        one.condition == other.condition && one.value == other.value
                    };
                    let is_there = |one| told.elsewhere.iter().any(|other| same(one, other));
                    told.ours == claim.ours && claim.elsewhere.iter().all(is_there)
                });
                if !is_same {
                    wrong.push(format!("{} without {}: {claim:?}", figure.name, work.label()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

/// At a small scale a run has too few seconds for an exponent; thirty claims used to count as missed.
#[test]
fn a_series_that_is_too_short_is_no_claim() {
    let figure = figures_named("thesis-table-4.2").unwrap()[0];
    let mut results = Results::default();
    for work in sample_results::works(&figure, &TINY) {
        let Outcome::Arrivals(mut report) = sample_results::outcome(&work) else {
            panic!("{work:?}")
        };
        report.whole.hurst = None;
        results.insert(work, Ok(Outcome::Arrivals(report)));
    }
    let page = (figure.page)(&TINY, &results).without_the_unmeasured();
    assert_eq!(page.claims.len(), 30);
    assert!(page.claims.iter().all(|claim| claim.what.contains(", gaps, ")), "{:?}", page.claims);
    let note = &page.notes[page.notes.len() - 1];
    assert_eq!(note.matches(", seconds, ").count(), 30, "{note}");
    assert!(page.missing.is_empty());
}

/// From scale 0.1 up the compressed SEALDB loads less than LevelDB. That fifth of a load used to explain claims that
/// the whole load missed.
#[test]
fn a_shorter_load_explains_nothing() {
    let conditions = |scale: f64, name: &str| {
        let size = Size { scale, ..TINY };
        let figure = figures_named(name).unwrap()[0];
        let works = sample_results::works(&figure, &size);
        let page = (figure.page)(&size, &sample_results::results(&works));
        let all = page.claims.iter().flat_map(|claim| &claim.elsewhere);
        let of_compressed = all.filter(|other| other.condition.contains("only SEALDB compresses"));
        let is_told = page.notes.iter().any(|note| note.contains("compressed run"));
        (of_compressed.count(), is_told)
    };
    assert_eq!(conditions(0.1, "sealdb-8"), (3, false));
    assert_eq!(conditions(0.5, "sealdb-8"), (0, true));
    assert_eq!(conditions(0.1, "sealdb-9"), (7, false));
    assert_eq!(conditions(0.5, "sealdb-9"), (0, true));
}

/// Sample loads progress steadily up to the last put, and clean more after its return.
#[test]
fn a_load_over_time_ends_with_its_last_put() {
    for name in ["thesis-3.17", "geardb-gc-time"] {
        let figure = figures_named(name).unwrap()[0];
        let page =
            (figure.page)(&TINY, &sample_results::results(&sample_results::works(&figure, &TINY)));
        for series in &page.charts[0].series {
            let (first, last) = (series.points[0].1, series.points[series.points.len() - 1].1);
            assert!((last / first - 1.0).abs() < 0.05, "{name}, {}: {first} {last}", series.name);
        }
    }
}
