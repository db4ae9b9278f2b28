//! Charts as SVG, in the forms that papers use: scatter, lines, and bars with their values on top.
//!
//! ```text
//!   Chart { kind, axes, series } --to_svg--> <svg> text: no scripts, no fonts, no outside files
//! ```
//!
//! The same chart gives the same bytes on any machine. Coordinates are rounded to a tenth of a
//! pixel, and points at one spot are drawn once, so that a scatter of a hundred thousand points
//! stays small. Colours are Okabe and Ito's, which colour-blind readers can distinguish; text has
//! the page's colour.

mod draw;

use serde::Serialize;

/// A chart.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The form.
    pub kind: ChartKind,
    /// The x axis; bars use only its label.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// The series, in order of colour.
    pub series: Vec<Series>,
    /// For bars: the names of the groups along the x axis.
    pub groups: Vec<String>,
}

/// The form of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChartKind {
    /// One dot per point.
    Scatter,
    /// Points joined by lines.
    Lines,
    /// One bar per series in each group; `y` is its height and `x` the group's number.
    Bars,
    /// Stacked bars.
    Stacked,
}

/// One axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// Whether it is logarithmic.
    pub is_log: bool,
}

/// Points of one colour.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The name.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
    /// For bars: the labels on top, if they are not the heights.
    pub labels: Vec<String>,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), is_log: false }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), is_log: true }
    }
}

impl Series {
    /// A series of points.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, labels: Vec::new() }
    }
}

impl Chart {
    /// One dot per point.
    pub fn scatter(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Chart {
        let kind = ChartKind::Scatter;
        Chart { title: title.into(), kind, x, y, series, groups: Vec::new() }
    }

    /// Points joined by lines.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Chart {
        Chart { kind: ChartKind::Lines, ..Chart::scatter(title, x, y, series) }
    }

    /// Bars in groups; each series has one height per group.
    pub fn bars(
        title: impl Into<String>,
        groups: Vec<String>,
        y: Axis,
        series: Vec<(String, Vec<f64>)>,
    ) -> Chart {
        let series = series
            .into_iter()
            .map(|(name, heights)| {
                let points = heights.into_iter().enumerate().map(|(i, h)| (i as f64, h));
                Series::new(name, points.collect())
            })
            .collect();
        let chart = Chart::scatter(title, Axis::linear(""), y, series);
        Chart { kind: ChartKind::Bars, groups, ..chart }
    }

    /// Stacked bars.
    pub fn stacked(self) -> Chart {
        Chart { kind: ChartKind::Stacked, ..self }
    }

    /// The chart with these labels on top of its bars: one list per series.
    pub fn labelled(mut self, labels: Vec<Vec<String>>) -> Chart {
        for (series, labels) in self.series.iter_mut().zip(labels) {
            series.labels = labels;
        }
        self
    }
}

#[cfg(test)]
pub(super) mod tests;
