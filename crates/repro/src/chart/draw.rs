//! The SVG of a chart.

use super::{Chart, ChartKind, Series};
use imbrex_bench::svg::{Scale, colour, escape, px, short, text};
use std::collections::BTreeSet;
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 46.0;

/// The distance between the rows of a legend.
const LEGEND_ROW: f64 = 15.0;

impl Chart {
    /// The SVG of the chart.
    pub fn to_svg(&self) -> String {
        draw(self)
    }
}

/// Draws `chart`.
fn draw(chart: &Chart) -> String {
    let legend = Legend::new(chart);
    let height = HEIGHT + legend.more_height();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" font-family=\"sans-serif\" font-size=\"11\" fill=\"currentColor\">\n\
         <title>{}</title>\n",
        escape(&chart.title)
    );
    text(&mut svg, WIDTH / 2.0, 16.0, "middle", 13, &chart.title);
    legend.draw(&mut svg, chart);
    let is_moved = legend.more_height() > 0.0;
    if is_moved {
        let _ = writeln!(svg, "<g transform=\"translate(0 {})\">", px(legend.more_height()));
    }
    let xs = x_scale(chart);
    let ys = y_scale(chart);
    axes(&mut svg, chart, &xs, &ys);
    match chart.kind {
        ChartKind::Scatter => scatter(&mut svg, chart, &xs, &ys),
        ChartKind::Lines => lines(&mut svg, chart, &xs, &ys),
        ChartKind::Bars => bars(&mut svg, chart, &ys),
        ChartKind::Stacked => stacked(&mut svg, chart, &ys),
    }
    svg.push_str(if is_moved { "</g>\n</svg>\n" } else { "</svg>\n" });
    svg
}

fn x_scale(chart: &Chart) -> Scale {
    let points = chart.series.iter().flat_map(|s| &s.points);
    Scale::new(points.map(|p| p.0), chart.x.is_log, LEFT, WIDTH - RIGHT)
}

fn y_scale(chart: &Chart) -> Scale {
    let (bottom, top) = (HEIGHT - BOTTOM, TOP);
    if chart.kind == ChartKind::Stacked {
        let sums = (0..chart.groups.len()).map(|group| {
            chart.series.iter().filter_map(|s| s.points.get(group)).map(|p| p.1).sum()
        });
        return Scale::new(sums, chart.y.is_log, bottom, top);
    }
    let points = chart.series.iter().flat_map(|s| &s.points);
    Scale::new(points.map(|p| p.1), chart.y.is_log, bottom, top)
}

fn axes(svg: &mut String, chart: &Chart, xs: &Scale, ys: &Scale) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for &tick in ys.ticks() {
        let y = px(ys.at(tick));
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y}H{right}\" stroke=\"currentColor\" stroke-opacity=\"0.15\"/>"
        );
        text(svg, LEFT - 5.0, ys.at(tick) + 4.0, "end", 10, &short(tick));
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" stroke=\"currentColor\" fill=\"none\"/>"
    );
    if chart.groups.is_empty() {
        for &tick in xs.ticks() {
            let x = px(xs.at(tick));
            let _ = writeln!(svg, "<path d=\"M{x} {bottom}v4\" stroke=\"currentColor\"/>");
            text(svg, xs.at(tick), bottom + 15.0, "middle", 10, &short(tick));
        }
    }
    text(svg, (LEFT + right) / 2.0, HEIGHT - 10.0, "middle", 11, &chart.x.label);
    let middle = px((TOP + bottom) / 2.0);
    let _ = writeln!(
        svg,
        "<text transform=\"translate(13 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escape(&chart.y.label)
    );
}

/// The positions of the series' names, in as many rows as needed.
struct Legend {
    spots: Vec<(f64, u32)>,
}

impl Legend {
    fn new(chart: &Chart) -> Legend {
        let mut spots = Vec::new();
        if chart.series.len() < 2 && chart.kind != ChartKind::Scatter {
            return Legend { spots };
        }
        let (mut x, mut row) = (LEFT, 0);
        for series in &chart.series {
            // The width of a word is estimated, because no font is known: six pixels per letter is
            // generous.
            let width = 28.0 + 6.0 * series.name.chars().count() as f64;
            if x > LEFT && x + width - 14.0 > WIDTH - RIGHT {
                (x, row) = (LEFT, row + 1);
            }
            spots.push((x, row));
            x += width;
        }
        Legend { spots }
    }

    /// Its height in addition to that of one row.
    fn more_height(&self) -> f64 {
        LEGEND_ROW * self.spots.last().map_or(0.0, |&(_, row)| f64::from(row))
    }

    fn draw(&self, svg: &mut String, chart: &Chart) {
        for (index, (series, &(x, row))) in chart.series.iter().zip(&self.spots).enumerate() {
            let (colour, down) = (colour(index), LEGEND_ROW * f64::from(row));
            let _ = writeln!(
                svg,
                "<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>",
                px(x),
                px(30.0 + down)
            );
            text(svg, x + 14.0, 39.0 + down, "start", 11, &series.name);
        }
    }
}

fn scatter(svg: &mut String, chart: &Chart, xs: &Scale, ys: &Scale) {
    for (index, series) in chart.series.iter().enumerate() {
        // Half pixels are fine enough for a dot of one and a half pixels.
        let spots: BTreeSet<(i64, i64)> = series
            .points
            .iter()
            .map(|&(x, y)| ((xs.at(x) * 2.0).round() as i64, (ys.at(y) * 2.0).round() as i64))
            .collect();
        // A few dots must be visible, and many must not hide each other.
        let width = match spots.len() {
            0..500 => "4",
            500..3000 => "2.5",
            _ => "1.5",
        };
        let mut path = String::new();
        for (x, y) in spots {
            let _ = write!(path, "M{} {}h0", px(x as f64 / 2.0), px(y as f64 / 2.0));
        }
        let colour = colour(index);
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linecap=\"round\" stroke-opacity=\"0.7\"/>"
        );
    }
}

fn lines(svg: &mut String, chart: &Chart, xs: &Scale, ys: &Scale) {
    for (index, series) in chart.series.iter().enumerate() {
        let mut path = String::new();
        let mut last = None;
        for &(x, y) in series.points.iter().filter(|point| point.1.is_finite()) {
            let spot = (px(xs.at(x)), px(ys.at(y)));
            if last.as_ref() == Some(&spot) {
                continue;
            }
            let step = if last.is_none() { 'M' } else { 'L' };
            let _ = write!(path, "{step}{} {}", spot.0, spot.1);
            last = Some(spot);
        }
        let colour = colour(index);
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"1.8\" fill=\"none\"/>"
        );
    }
}

/// The left edge and the width of group `group`.
fn slot(chart: &Chart, group: usize) -> (f64, f64) {
    let width = (WIDTH - RIGHT - LEFT) / chart.groups.len().max(1) as f64;
    (LEFT + width * group as f64, width)
}

fn group_names(svg: &mut String, chart: &Chart) {
    for (group, name) in chart.groups.iter().enumerate() {
        let (left, width) = slot(chart, group);
        text(svg, left + width / 2.0, HEIGHT - BOTTOM + 15.0, "middle", 10, name);
    }
}

fn bars(svg: &mut String, chart: &Chart, ys: &Scale) {
    group_names(svg, chart);
    let count = chart.series.len().max(1) as f64;
    for (index, series) in chart.series.iter().enumerate() {
        for (group, &(_, height)) in series.points.iter().enumerate() {
            if !height.is_finite() {
                continue;
            }
            let (left, slot_width) = slot(chart, group);
            let width = slot_width * 0.8 / count;
            let x = left + slot_width * 0.1 + width * index as f64;
            bar(svg, index, (x, width), (ys.at(0.0), ys.at(height)));
            let on_top = label(series, group, height);
            let size = if width < 24.0 { 8 } else { 10 };
            text(svg, x + width / 2.0, ys.at(height) - 3.0, "middle", size, &on_top);
        }
    }
}

fn stacked(svg: &mut String, chart: &Chart, ys: &Scale) {
    group_names(svg, chart);
    for group in 0..chart.groups.len() {
        let (left, slot_width) = slot(chart, group);
        let (x, width) = (left + slot_width * 0.25, slot_width * 0.5);
        let mut below = 0.0;
        for (index, series) in chart.series.iter().enumerate() {
            let Some(&(_, height)) = series.points.get(group) else { continue };
            let (from, to) = (ys.at(below), ys.at(below + height));
            bar(svg, index, (x, width), (from, to));
            if from - to > 12.0 {
                let middle = (from + to) / 2.0 + 4.0;
                text(svg, x + width / 2.0, middle, "middle", 10, &label(series, group, height));
            }
            below += height;
        }
    }
}

fn bar(svg: &mut String, index: usize, (x, width): (f64, f64), (bottom, top): (f64, f64)) {
    let colour = colour(index);
    let _ = writeln!(
        svg,
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{colour}\"/>",
        px(x),
        px(top),
        px(width * 0.94),
        px((bottom - top).max(0.0))
    );
}

fn label(series: &Series, group: usize, height: f64) -> String {
    series.labels.get(group).cloned().unwrap_or_else(|| short(height))
}
