//! Shapes that the paper's tables imply, given traces in their place, and figures end to end.

use super::*;
use crate::figures::figures_named;
use crate::replays::GivenTrace;
use crate::reproduction::{Machine, Watch, repro};
use crate::sample_results;
use imbrex_workload::trace::WriteOrder;
use std::fmt::Write;

const SIZE: Size = Size { scale: 0.02, seed: 1, traces: &[], only: &[] };

#[test]
fn shapes_have_what_table_1_implies() {
    let shape = |name: &str| {
        let paper = PAPER.iter().find(|paper| paper.name == name).unwrap();
        paper.shape(0.02)
    };
    let lun0 = shape("LUN0");
    assert_eq!(lun0.footprint_bytes, 2_500_000_000);
    // 17 nodes a file, 67 KB a node.
    let nodes = 17 * lun0.written_file_count();
    let run_bytes = lun0.footprint_bytes / nodes;
    assert!((64_000..72_000).contains(&run_bytes), "{run_bytes}");
    let kmeans = shape("Kmeans");
    let WriteOrder::Streams { count, turn_bytes } = kmeans.order else { panic!("{kmeans:?}") };
    assert!((480_000..500_000).contains(&turn_bytes), "half of 983 KB: {turn_bytes}");
    assert_eq!(count, 15, "a 50th of 737");
    for subject in subjects(&SIZE) {
        match subject.trace {
            ReplayTrace::Synthetic(shape) => {
                assert!(shape.request_count > 0 && shape.written_permille <= 500, "{shape:?}");
            }
            ReplayTrace::Bundled(_) => assert!(subject.paper.is_none()),
            ReplayTrace::Given(given) => panic!("nothing was given, but {}", given.name),
        }
        assert!((20..=95).contains(&subject.fill_percent), "{}", subject.fill_percent);
    }
}

/// One request per 5.7 ms: in ten hours LUN0's requests, with a mean of 19.8 KB, touch its 125 GB. The shape has more
/// requests, because it writes until cleaning is steady; they arrive at the rate of ten hours, or faster.
#[test]
fn rates_that_touch_the_dataset_in_ten_hours_are_the_slowest_that_the_paper_allows() {
    let each_us = |name: &str, scale: f64| {
        let paper = PAPER.iter().find(|paper| paper.name == name).unwrap();
        let shape = paper.shape(scale);
        let slowest = paper.touched_in_ten_hours(shape);
        assert_eq!(shape.interval_ns, 30_000_000, "half busy");
        (slowest.interval_ns / 1000, PaperTrace::in_ten_hours(shape, scale).interval_ns / 1000)
    };
    assert_eq!(each_us("LUN0", 0.02).0, 5700);
    assert_eq!(each_us("LUN0", 1.0).0, 5700, "a drive's speed does not shrink");
    for paper in &PAPER {
        let (slowest, whole) = each_us(paper.name, 0.02);
        assert!((4_000..250_000).contains(&slowest) && whole < slowest, "{slowest}, {whole}");
    }
    let (slowest, _) = each_us("PageRank", 0.02);
    assert!((70_000..80_000).contains(&slowest), "{slowest}");
}

#[test]
fn conditions_change_only_their_part_of_synthetic_traces() {
    let all = subjects(&SIZE);
    let shape = |subject: &Subject| match subject.trace {
        ReplayTrace::Synthetic(shape) => shape,
        _ => panic!("{}", subject.name()),
    };
    let lun0 = shape(&all[0]);
    assert_eq!(lun0.order, WriteOrder::Gathered { count: 600 });
    let under = |condition| all[0].under(condition).map(|subject| shape(&subject)).unwrap();
    assert_eq!(under(Condition::Scattered), Shape { order: WriteOrder::Scattered, ..lun0 });
    assert_eq!(under(Condition::TouchedInTenHours).interval_ns / 1000, 5700);
    let counted = under(Condition::CountedReads);
    let writes = |shape: Shape| shape.request_count * (100 - shape.read_percent) / 100;
    assert!(writes(lun0).abs_diff(writes(counted)) <= 1, "{counted:?}");
    assert_eq!(counted.read_percent, 78);
    let after_another = all[0].under(Condition::OneAfterAnother).unwrap();
    assert!(after_another.lru()[3].is_closed_loop && shape(&after_another) == lun0);
    let [kmeans, recorded] = [&all[4], &all[8]];
    assert!(kmeans.under(Condition::Scattered).is_none(), "streams");
    assert!(kmeans.under(Condition::CountedReads).is_none(), "nobody counted them");
    assert!(CONDITIONS.iter().all(|condition| recorded.under(*condition).is_none()));
    assert!(recorded.each(10).is_none());
}

#[test]
fn buffers_and_zones_shrink_and_without_a_buffer_orders_are_one() {
    let all = subjects(&SIZE);
    let [none, half, _, most] = all[0].lru();
    assert_eq!(none, all[0].ours()[0]);
    assert_eq!((none.buffer_bytes, none.zone_len_bytes), (0, 10 * MIB));
    assert_eq!(half.buffer_bytes, 10_735_616, "a 50th, whole blocks");
    assert_eq!(most.buffer_bytes, 107_372_544);
}

fn given(dir: &tempfile::TempDir, name: &str) -> GivenTrace {
    let mut text = String::new();
    let mut prng = imbrex_clockwork::Prng::new(7);
    for at in 0..500 {
        let op = if prng.chance(1, 3) { 'r' } else { 'w' };
        writeln!(text, "{},{op},{},4096", at * 9000, prng.below(800) << 12).unwrap();
    }
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    GivenTrace::open(name, path).unwrap()
}

#[test]
fn given_traces_stand_for_the_papers_or_for_themselves_and_are_run() {
    let dir = tempfile::tempdir().unwrap();
    // Every trace is given, so nothing is generated and no long trace replayed: this takes a second.
    let names = PAPER.iter().map(|paper| paper.name.to_lowercase());
    let names = names.chain(BUNDLED.map(|trace| trace.name.to_owned())).chain(["mine".to_owned()]);
    let traces: Vec<GivenTrace> = names.map(|name| given(&dir, &name)).collect();
    let size = Size { traces: traces.leak(), ..SIZE };
    let all = subjects(&size);
    let names: Vec<String> = all[8..].iter().map(Subject::name).collect();
    assert_eq!(names, ["vm", "ext4", "xfs", "btrfs", "mine"]);
    assert!(all[0].paper.is_some() && all[8].paper.is_none());
    let figures = figures_named("driver").unwrap();
    assert_eq!(figures.len(), 7);
    let done =
        repro(&figures, size, Machine { jobs: 2, unpacked_bytes: 0 }, &Watch::default(), &|| false)
            .unwrap();
    for figure in &done.figures {
        assert!(figure.page.missing.is_empty(), "{}: {:?}", figure.name, figure.page.missing);
    }
    let text = done.to_text();
    assert!(text.contains("mine, mean at 5 GB below LRU"), "{text}");
    assert!(!text.contains("synthetic)") && !text.contains("recorded)"), "{text}");
    let json = done.to_json();
    assert!(!json.contains(dir.path().to_str().unwrap()), "no path of the machine is on the page");
}

#[test]
fn figures_are_of_only_the_traces_that_are_named() {
    let only = |names: &[&str]| Size {
        only: names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>().leak(),
        ..SIZE
    };
    let size = only(&["kmeans", "VM"]);
    let names: Vec<&str> = subjects(&size).iter().map(|subject| subject.trace.name()).collect();
    assert_eq!(names, ["Kmeans", "vm"]);
    let figures = figures_named("driver-table-3").unwrap();
    let most = |size: &Size| {
        let results = sample_results::results(&sample_results::works(&figures[0], size));
        let page = (figures[0].page)(size, &results);
        page.claims.iter().find(|claim| claim.what.starts_with("largest loss")).unwrap().ours
    };
    assert!(most(&SIZE).is_finite());
    assert!(most(&size).is_nan(), "two traces have no most of all eight");
    let run = |figures: &[_], names: &[&str]| {
        repro(figures, only(names), Machine::default(), &Watch::default(), &|| true)
            .unwrap_err()
            .to_string()
    };
    assert!(run(&figures, &["LUN1"]).contains("there are LUN0, LUN2,"));
    assert!(run(&figures_named("kvimr-5").unwrap(), &["LUN0"]).contains("replays"));
}

#[test]
fn a_made_trace_goes_through_a_figure() {
    let subject = &subjects(&Size { scale: 0.0, ..SIZE })[0];
    let mut page = Page::default();
    let mut results = Results::default();
    let specs = subject.ours();
    for spec in [specs[0], specs[3]] {
        let found = crate::replays::execute(&spec, 1, 0, &Default::default(), &|| false);
        let outcome = crate::results::Outcome::Replay(Box::new(found.unwrap()));
        results.insert(crate::work::Work::Replay(spec), Ok(outcome));
    }
    let nodes = values(&mut page, &results, &specs, |report| report.mapping_nodes as f64);
    assert!(nodes[0] > nodes[3] && nodes[3] > 0.0, "a buffer keeps runs together: {nodes:?}");
    assert!(nodes[1].is_nan() && page.missing.len() == 2, "{:?}", page.missing);
    let prefilled = results.replay(&specs[0]).unwrap().prefilled_bytes;
    assert_eq!(prefilled, subject.trace.footprint_bytes() / 65536 * 65536);
}
