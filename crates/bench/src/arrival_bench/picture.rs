//! The picture of a comparison: the waits of operations, one line per run.
//!
//! ```text
//!              constant                      poisson
//!   layout a   o--------|----|--|---x        o-----|---|------|--x       load 1
//!              o------------|---|-----x      o---------|---|-------x     load 2
//!                p50   p99 p99.9 p99.99 max, on a logarithmic axis
//!                                        and the number not started when the run ended
//!   layout b   o---|--|x ended early     the operations until its store was lost, perhaps none
//! ```

use super::{ArrivalBenchReport, ArrivalRun};
use crate::svg::{Scale, colour, escape, px, short, text};
use std::fmt::Write;

const LEFT: f64 = 130.0;
const TOP: f64 = 84.0;
const PANEL: f64 = 250.0;
const BETWEEN: f64 = 44.0;
const LINE: f64 = 7.0;
/// The distance between the names of two loads.
const LOAD: f64 = 90.0;
const ROW_GAP: f64 = 8.0;
const BOTTOM: f64 = 44.0;
/// The mean width of letters above the panels, as an upper bound.
const LETTER: f64 = 6.0;

/// The distinct values in order of first occurrence.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// An operation that does not wait for the disk takes no virtual time, which a logarithmic axis
/// cannot show. Shorter waits are drawn at the left end.
const SHORTEST_NS: u64 = 10_000;

/// From shortest to longest.
fn waits_ms(run: &ArrivalRun) -> [f64; 5] {
    let l = &run.response;
    let waits_ns = [l.p50_ns, l.p99_ns, l.p999_ns, l.p9999_ns, l.max_ns];
    waits_ns.map(|ns| ns.max(SHORTEST_NS) as f64 / 1e6)
}

pub(super) fn draw(report: &ArrivalBenchReport) -> String {
    let layouts = distinct(report.runs.iter().map(|run| run.layout));
    let models = distinct(report.runs.iter().map(|run| run.model));
    let loads = distinct(report.runs.iter().map(|run| run.load_per_s));
    let row_len = loads.len() as f64 * LINE + ROW_GAP;
    let bottom = TOP + layouts.len() as f64 * row_len;
    let title = report.title();
    let key = key(report);
    let key_left = LEFT + loads.len() as f64 * LOAD;
    let len = |text: &str| text.chars().count() as f64 * LETTER;
    let width = (LEFT + models.len() as f64 * (PANEL + BETWEEN))
        .max(LEFT + len(&title))
        .max(key_left + len(&key));
    let height = bottom + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"currentColor\">\n<title>{}</title>\n",
        px(width),
        px(height),
        escape(&title)
    );
    text(
        &mut svg,
        LEFT,
        18.0,
        "start",
        13,
        "Response time, from when an operation should have started",
    );
    text(&mut svg, LEFT, 34.0, "start", 11, &title);
    for (index, load) in loads.iter().enumerate() {
        let x = LEFT + index as f64 * LOAD;
        let (at, colour) = (px(x), colour(index));
        let _ = writeln!(
            svg,
            "<rect x=\"{at}\" y=\"43\" width=\"10\" height=\"10\" fill=\"{colour}\"/>"
        );
        text(&mut svg, x + 14.0, 52.0, "start", 11, &format!("{load} ops/s"));
    }
    text(&mut svg, key_left, 52.0, "start", 11, &key);
    for (row, layout) in layouts.iter().enumerate() {
        let y = TOP + row as f64 * row_len + row_len / 2.0;
        text(&mut svg, LEFT - 8.0, y, "end", 11, layout);
    }
    for (column, model) in models.iter().enumerate() {
        let left = LEFT + column as f64 * (PANEL + BETWEEN);
        let done = report.runs.iter().filter(|run| run.ops > 0);
        let scale = Scale::new(done.flat_map(waits_ms), true, left, left + PANEL);
        panel(&mut svg, &scale, (left, bottom), model);
        for run in report.runs.iter().filter(|run| run.model == *model) {
            let row = layouts.iter().position(|layout| *layout == run.layout).unwrap_or(0);
            let line = loads.iter().position(|load| *load == run.load_per_s).unwrap_or(0);
            let y = TOP + row as f64 * row_len + ROW_GAP / 2.0 + (line as f64 + 0.5) * LINE;
            let mut x = left;
            if run.ops > 0 {
                bar(&mut svg, &scale, y, colour(line), waits_ms(run));
                x = scale.at(waits_ms(run)[4]);
            }
            if let Some(mark) = mark(run) {
                text(&mut svg, x + 5.0, y + 2.0, "start", 7, &mark);
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The mark after a bar, or in its place if no operation completed.
fn mark(run: &ArrivalRun) -> Option<String> {
    let unstarted = (run.unstarted_count > 0).then(|| format!("+{}", run.unstarted()));
    let ended = (run.failure.is_some() || run.ops == 0).then(|| format!("x {}", run.ops));
    let marks: Vec<String> = ended.into_iter().chain(unstarted).collect();
    (!marks.is_empty()).then(|| marks.join(" "))
}

/// The meaning of dots, ticks and marks.
fn key(report: &ArrivalBenchReport) -> String {
    let mut key = "dot p50; ticks p99, p99.9, p99.99; ring maximum".to_owned();
    if report.runs.iter().any(|run| run.failure.is_some() || run.ops == 0) {
        key.push_str(", x ended early (operations done)");
    }
    if report.runs.iter().any(|run| run.unstarted_count > 0) {
        key.push_str(", + operations never started");
    }
    key
}

fn panel(svg: &mut String, scale: &Scale, (left, bottom): (f64, f64), model: &str) {
    text(svg, left + PANEL / 2.0, TOP - 12.0, "middle", 12, model);
    // Every second tick has a number if there is not enough space for all.
    let every = if scale.ticks().len() > 6 { 2 } else { 1 };
    for (index, &tick) in scale.ticks().iter().enumerate() {
        let x = px(scale.at(tick));
        let _ = writeln!(
            svg,
            "<path d=\"M{x} {}V{}\" stroke=\"currentColor\" stroke-opacity=\"0.15\"/>",
            px(TOP),
            px(bottom)
        );
        if index % every == 0 {
            text(svg, scale.at(tick), bottom + 15.0, "middle", 10, &short(tick));
        }
    }
    text(
        svg,
        left + PANEL / 2.0,
        bottom + 32.0,
        "middle",
        11,
        "ms (0.01 and below at the left \
         end)",
    );
}

fn bar(svg: &mut String, scale: &Scale, y: f64, colour: &str, waits_ms: [f64; 5]) {
    let [p50, p99, p999, p9999, longest] = waits_ms.map(|ms| scale.at(ms));
    let line = px(y);
    let mut path = format!("M{} {line}H{}", px(p50), px(longest));
    for tick in [p99, p999, p9999] {
        let _ = write!(path, "M{} {}v5", px(tick), px(y - 2.5));
    }
    let _ = writeln!(svg, "<path d=\"{path}\" stroke=\"{colour}\" fill=\"none\"/>");
    let _ = writeln!(svg, "<circle cx=\"{}\" cy=\"{line}\" r=\"2.2\" fill=\"{colour}\"/>", px(p50));
    let _ = writeln!(
        svg,
        "<circle cx=\"{}\" cy=\"{line}\" r=\"2.2\" fill=\"none\" stroke=\"{colour}\"/>",
        px(longest)
    );
}
