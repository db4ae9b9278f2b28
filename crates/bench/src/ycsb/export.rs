//! YCSB's own output: the lines that scripts of its users parse.
//!
//! ```text
//!   [OVERALL], RunTime(ms), 4567
//!   [READ], 99thPercentileLatency(us), 1234
//!   [Intended-READ], AverageLatency(us), 56.7        with measurement.interval=both
//!   [READ], Return=OK, 950
//! ```
//!
//! Omitted: YCSB's lines on the memory and the garbage collection of its Java machine.

use super::measure::{Measured, Measurements, Older, Series};
use super::settings::{Exporter, MeasureInterval, MeasureKind, MeasurePlan};
use crate::error::BenchError;
use crate::latency::Latencies;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// One line of the output.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    metric: String,
    measurement: String,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Whole(i64),
    Decimal(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Whole(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// YCSB's output at the end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct YcsbOutput {
    lines: Vec<Line>,
    /// Every latency, if requested.
    raw: String,
    exporter: Exporter,
    /// The file for the output, instead of standard output.
    raw_file: Option<PathBuf>,
    file: Option<PathBuf>,
}

impl YcsbOutput {
    pub(crate) fn new(plan: &MeasurePlan, measured: &Measurements, elapsed_ns: u64) -> YcsbOutput {
        let mut output = YcsbOutput {
            lines: Vec::new(),
            raw: String::new(),
            exporter: plan.exporter,
            raw_file: plan.raw_file.clone(),
            file: plan.export_file.clone(),
        };
        let run_time_ms = elapsed_ns / 1_000_000;
        output.line("OVERALL", "RunTime(ms)", run_time_ms.into());
        // YCSB divides by whole milliseconds; in modelled time a run may take less than one.
        let seconds =
            if run_time_ms > 0 { run_time_ms as f64 / 1e3 } else { elapsed_ns as f64 / 1e9 };
        let rate = if elapsed_ns == 0 { 0.0 } else { measured.ops as f64 / seconds };
        output.line("OVERALL", "Throughput(ops/sec)", Value::Decimal(rate));
        if plan.interval != MeasureInterval::Intended {
            for (name, series) in measured.series() {
                let (latencies, older) = (&series.both.service, &series.service_older);
                output.series(plan, &name, latencies, older, Some(series));
            }
        }
        if plan.interval != MeasureInterval::Op {
            let is_alone = plan.interval == MeasureInterval::Intended;
            for (name, series) in measured.series() {
                // A verification is not scheduled, so the intended measurement has only its
                // outcomes.
                let is_scheduled = name != Measured::Verify.name();
                let name = if is_alone { name } else { format!("Intended-{name}") };
                let returns = is_alone.then_some(series);
                if is_scheduled {
                    let (latencies, older) = (&series.both.response, &series.response_older);
                    output.series(plan, &name, latencies, older, returns);
                } else if is_alone {
                    output.series(plan, &name, &Latencies::new(), &Older::new(plan), returns);
                }
            }
        }
        output
    }

    fn line(&mut self, metric: &str, measurement: impl Into<String>, value: Value) {
        let (metric, measurement) = (metric.to_owned(), measurement.into());
        self.lines.push(Line { metric, measurement, value });
    }

    /// All lines of one name; `returns` are printed once.
    fn series(
        &mut self,
        plan: &MeasurePlan,
        name: &str,
        latencies: &Latencies,
        older: &Older,
        returns: Option<&Series>,
    ) {
        let (hdr, other) = match plan.kind {
            MeasureKind::Hdr => (Some(String::new()), None),
            MeasureKind::HdrAndBuckets => (Some("Hdr".to_owned()), Some("Bucket")),
            MeasureKind::HdrAndRaw => (Some("Hdr".to_owned()), Some("Raw")),
            MeasureKind::Buckets | MeasureKind::TimeSeries | MeasureKind::Raw => (None, Some("")),
        };
        let has_hdr = hdr.is_some();
        if let Some(prefix) = hdr {
            let name = format!("{prefix}{name}");
            self.head(&name, latencies, None);
            for (written, percentile) in &plan.percentiles {
                let measurement = format!("{}PercentileLatency(us)", ordinal(written, *percentile));
                self.line(&name, measurement, (latencies.at_ns(*percentile) / 1000).into());
            }
            self.returns(&name, returns);
        }
        if let Some(prefix) = other {
            let name = format!("{prefix}{name}");
            self.older(&name, latencies, older, returns.filter(|_| !has_hdr));
        }
    }

    fn head(&mut self, name: &str, latencies: &Latencies, variance: Option<f64>) {
        let summary = latencies.summary();
        self.line(name, "Operations", latencies.count().into());
        self.line(name, "AverageLatency(us)", Value::Decimal(latencies.mean_ns() / 1000.0));
        if let Some(variance) = variance {
            self.line(name, "LatencyVariance(us)", Value::Decimal(variance));
        }
        self.line(name, "MinLatency(us)", (latencies.min_ns() / 1000).into());
        self.line(name, "MaxLatency(us)", (summary.max_ns / 1000).into());
    }

    fn returns(&mut self, name: &str, returns: Option<&Series>) {
        for (status, count) in returns.iter().flat_map(|series| &series.returns) {
            self.line(name, format!("Return={status}"), (*count).into());
        }
    }

    fn older(
        &mut self,
        name: &str,
        latencies: &Latencies,
        older: &Older,
        returns: Option<&Series>,
    ) {
        match older {
            Older::None => {}
            Older::Buckets { counts, sum_us, square_sum_us, .. } => {
                let count = latencies.count();
                self.head(name, latencies, Some(variance(count, *sum_us, *square_sum_us)));
                for (label, percent) in [("95th", 95), ("99th", 99)] {
                    let wanted = (count * percent).div_ceil(100);
                    let mut seen = 0;
                    let bucket = counts.iter().position(|in_bucket| {
                        seen += in_bucket;
                        count > 0 && seen >= wanted
                    });
                    if let Some(bucket) = bucket {
                        let value = (bucket as u64 * 1000).into();
                        self.line(name, format!("{label}PercentileLatency(us)"), value);
                    }
                }
                self.returns(name, returns);
            }
            Older::TimeSeries { units, .. } => {
                self.head(name, latencies, None);
                self.returns(name, returns);
                for (at_ms, (sum_us, count)) in units {
                    let mean_us = *sum_us as f64 / *count as f64;
                    self.line(name, at_ms.to_string(), Value::Decimal(mean_us));
                }
            }
            Older::Raw(points) => {
                self.raw_points(name, points);
                self.returns(name, returns);
            }
        }
    }

    fn raw_points(&mut self, name: &str, points: &[(u64, u64)]) {
        let raw = &mut self.raw;
        let title = writeln!(raw, "{name} latency raw data: op, timestamp(ms), latency(us)");
        title.expect("writing to a string never fails");
        for (at_ms, took_us) in points {
            let line = writeln!(raw, "{name},{at_ms},{took_us}");
            line.expect("writing to a string never fails");
        }
        self.line(name, "Total Operations", (points.len() as u64).into());
        let mut sorted: Vec<u64> = points.iter().map(|(_, took_us)| *took_us).collect();
        sorted.sort_unstable();
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else { return };
        let mean = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64;
        self.line(name, "Below is a summary of latency in microseconds:", Value::Whole(-1));
        self.line(name, "Average", Value::Decimal(mean));
        self.line(name, "Min", (*min).into());
        self.line(name, "Max", (*max).into());
        let shares = [
            ("p1", 100),
            ("p5", 500),
            ("p50", 5_000),
            ("p90", 9_000),
            ("p95", 9_500),
            ("p99", 9_900),
            ("p99.9", 9_990),
            ("p99.99", 9_999),
        ];
        for (label, of_10_000) in shares {
            self.line(name, label, sorted[sorted.len() * of_10_000 / 10_000].into());
        }
    }

    /// Every latency, one line each; empty unless `measurementtype` requests it.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Writes the parts that belong into files, and returns the part for standard output. Raw
    /// latencies are appended to their file; the rest replaces the content of its own.
    ///
    /// # Errors
    /// [`BenchError::Output`].
    pub fn save(&self) -> Result<String, BenchError> {
        let mut printed = String::new();
        match &self.raw_file {
            Some(path) if !self.raw.is_empty() => {
                let opened = OpenOptions::new().create(true).append(true).open(path);
                let written = opened.and_then(|mut file| file.write_all(self.raw.as_bytes()));
                written.map_err(|source| failed(path, source))?;
            }
            _ => printed.push_str(&self.raw),
        }
        match &self.file {
            Some(path) => {
                std::fs::write(path, self.text()).map_err(|source| failed(path, source))?;
            }
            None => printed.push_str(&self.text()),
        }
        Ok(printed)
    }

    /// The output in the exporter's form, with a final line feed.
    pub fn text(&self) -> String {
        let json = |line: &Line| {
            serde_json::json!({
                "metric": line.metric,
                "measurement": line.measurement,
                "value": match line.value {
                    Value::Whole(value) => serde_json::json!(value),
                    Value::Decimal(value) => serde_json::json!(value),
                },
            })
        };
        match self.exporter {
            Exporter::Text => self.lines.iter().map(Line::text).collect(),
            Exporter::Json => self.lines.iter().map(|line| format!("{:#}\n", json(line))).collect(),
            Exporter::JsonArray => {
                let all: Vec<serde_json::Value> = self.lines.iter().map(json).collect();
                format!("{:#}\n", serde_json::Value::Array(all))
            }
        }
    }
}

impl Line {
    fn text(&self) -> String {
        let value = match self.value {
            Value::Whole(value) => value.to_string(),
            Value::Decimal(value) => java_double(value),
        };
        format!("[{}], {}, {value}\n", self.metric, self.measurement)
    }
}

/// The variance of `count` whole numbers from their sum and the sum of their squares. With doubles,
/// the difference of the two would be a rounding error of either sign.
fn variance(count: u64, sum: u128, square_sum: u128) -> f64 {
    let all = u128::from(count.max(1));
    // The squares of the differences from the integer part of the mean.
    let (mean, rest) = (sum / all, sum % all);
    let squares = square_sum.saturating_sub(mean * sum).saturating_sub(mean * rest);
    let (squares, rest) = (squares as f64 / all as f64, rest as f64 / all as f64);
    (squares - rest * rest).max(0.0)
}

fn failed(path: &Path, source: std::io::Error) -> BenchError {
    BenchError::Output { path: path.to_owned(), source }
}

/// Formats a number like Java's doubles.
fn java_double(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() {
        "NaN".to_owned()
    } else if value == 0.0 || (1e-3..1e7).contains(&size) {
        format!("{value:?}")
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else {
        let text = format!("{value:E}");
        match text.split_once('E') {
            Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
            _ => text,
        }
    }
}

/// Formats a percentile like YCSB: 95th, 1st, but 99.9.
fn ordinal(written: &str, percentile: f64) -> String {
    if percentile.fract() != 0.0 {
        return written.to_owned();
    }
    let whole = percentile as u64;
    let ending = match (whole % 100, whole % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{whole}{ending}")
}

#[cfg(test)]
mod tests;
