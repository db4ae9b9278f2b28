//! The chart of a results page: horizontal bars as SVG, without scripts, fonts or outside files.
//!
//! The same data give the same bytes: coordinates are rounded to a tenth of a pixel. Colours are Okabe and Ito's,
//! which colour-blind readers can tell apart; the ground is white, so that a dark page shows it as well.

use crate::data::{Cell, Data};
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const BAR: f64 = 12.0;
const GAP: f64 = 8.0;
const TOP: f64 = 52.0;
/// A character of a label, in the size that it is written in.
const CHAR_WIDTH: f64 = 6.3;
const VALUE_WIDTH: f64 = 70.0;
/// Longer labels are cut.
const LABEL_CHARS_MAX: usize = 54;
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];

/// A row of the table, as it is drawn.
struct Group<'a> {
    label: String,
    cells: Vec<&'a Cell>,
}

/// How long a value's bar is.
struct Scale {
    is_log: bool,
    min: f64,
    max: f64,
    len: f64,
}

pub(crate) fn svg(data: &Data) -> String {
    let groups = groups(data);
    let series: Vec<&str> = data
        .chart
        .values
        .iter()
        .filter_map(|at| data.table().columns.get(*at))
        .map(|column| column.name.as_str())
        .collect();
    let label_len = groups.iter().map(|group| group.label.chars().count()).max().unwrap_or(0);
    let left = label_len as f64 * CHAR_WIDTH + 16.0;
    let scale = Scale::of(&groups, data.chart.log, WIDTH - left - VALUE_WIDTH);
    let group_height = series.len() as f64 * BAR + GAP;
    let height = TOP + groups.len() as f64 * group_height + 8.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
        escaped(&data.chart.title)
    );
    legend(&mut out, &series, data.chart.log);
    for (at, group) in groups.iter().enumerate() {
        draw(&mut out, group, &scale, left, TOP + at as f64 * group_height);
    }
    if let Some(mark) = data.chart.mark {
        let x = left + scale.px(mark);
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {:.1}V{:.1}\" stroke=\"#222\" stroke-dasharray=\"3 3\"/>",
            TOP - 6.0,
            height - 8.0
        );
    }
    out.push_str("</svg>\n");
    out
}

fn groups(data: &Data) -> Vec<Group<'_>> {
    let chart = &data.chart;
    let is_drawn = |row: &&Vec<Cell>| {
        chart.only.as_ref().is_none_or(|(at, text)| row.get(*at).is_some_and(|c| c.text() == text))
    };
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut first = "";
    for row in data.table().rows.iter().filter(is_drawn) {
        let cell = |at: &usize| row.get(*at);
        let mut label = String::new();
        for (part, at) in chart.label.iter().enumerate() {
            let mut text = cell(at).map_or("", Cell::text);
            if part == 0 {
                // A row that leaves its first name out belongs to the one above.
                first = if text.is_empty() { first } else { text };
                text = first;
            }
            label.push_str(if label.is_empty() || text.is_empty() { "" } else { ", " });
            label.push_str(text);
        }
        let cells: Vec<&Cell> = chart.values.iter().filter_map(cell).collect();
        if cells.iter().any(|cell| cell.number().is_some()) {
            groups.push(Group { label: shortened(&label.replace('`', "")), cells });
        }
    }
    groups
}

fn shortened(label: &str) -> String {
    match label.char_indices().nth(LABEL_CHARS_MAX) {
        Some((at, _)) => format!("{}...", &label[..at]),
        None => label.to_owned(),
    }
}

impl Scale {
    fn of(groups: &[Group<'_>], is_log: bool, len: f64) -> Scale {
        let values = || groups.iter().flat_map(|g| &g.cells).filter_map(|cell| cell.number());
        let max = values().fold(0.0, f64::max);
        let least = values().filter(|value| *value > 0.0).fold(max, f64::min);
        let min = if is_log { least / 2.0 } else { 0.0 };
        Scale { is_log, min, max, len }
    }

    fn px(&self, value: f64) -> f64 {
        if self.max <= self.min || value <= self.min {
            return 0.0;
        }
        match self.is_log {
            true => (value / self.min).ln() / (self.max / self.min).ln() * self.len,
            false => value / self.max * self.len,
        }
    }
}

fn legend(out: &mut String, series: &[&str], is_log: bool) {
    let mut x = 12.0;
    for (at, name) in series.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"30\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"39\">{}</text>",
            x + 14.0,
            escaped(name)
        );
        x += 30.0 + name.chars().count() as f64 * CHAR_WIDTH;
    }
    if is_log {
        let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"39\" fill=\"#666\">(logarithmic)</text>");
    }
}

fn draw(out: &mut String, group: &Group<'_>, scale: &Scale, left: f64, top: f64) {
    let middle = top + group.cells.len() as f64 * BAR / 2.0 + 4.0;
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
        left - 8.0,
        escaped(&group.label)
    );
    for (at, cell) in group.cells.iter().enumerate() {
        let y = top + at as f64 * BAR;
        let width = cell.number().map_or(0.0, |value| scale.px(value));
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\">{}</text>",
            BAR - 2.0,
            COLOURS[at % COLOURS.len()],
            left + width + 4.0,
            y + BAR - 3.0,
            escaped(cell.text().split(" (").next().unwrap_or_default())
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
