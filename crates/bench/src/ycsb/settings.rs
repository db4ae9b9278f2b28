//! Settings of the client, as opposed to the workload: how YCSB's properties drive and measure a
//! run.

use crate::options::THREAD_COUNT_MAX;
use imbrex_workload::ycsb::properties::{Properties, PropertyError};
use std::path::PathBuf;

/// YCSB's numbers are Java's ints.
const INT_MAX: u64 = i32::MAX as u64;

/// The settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) thread_count: u32,
    /// Operations per second of all clients together; 0 for no limit.
    pub(crate) target_per_s: u64,
    /// The run ends after this many seconds; 0 for no limit.
    pub(crate) max_execution_s: u64,
    /// Whether status lines are printed, their interval, and their prefix.
    pub(crate) has_status: bool,
    pub(crate) status_interval_s: u64,
    pub(crate) label: String,
    pub(crate) measure: MeasurePlan,
}

/// The measurements that are kept, and their form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeasurePlan {
    pub(crate) kind: MeasureKind,
    pub(crate) interval: MeasureInterval,
    /// The reported percentiles, as written in the property.
    pub(crate) percentiles: Vec<(String, f64)>,
    /// The number of buckets of a millisecond.
    pub(crate) bucket_count: usize,
    /// The length of an interval in milliseconds.
    pub(crate) granularity_ms: u64,
    pub(crate) raw_file: Option<PathBuf>,
    pub(crate) exporter: Exporter,
    pub(crate) export_file: Option<PathBuf>,
    /// Whether the operations since the last status line are kept.
    pub(crate) has_status: bool,
}

/// YCSB's `measurementtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeasureKind {
    Hdr,
    Buckets,
    HdrAndBuckets,
    TimeSeries,
    Raw,
    HdrAndRaw,
}

/// YCSB's `measurement.interval`: the start from which latencies count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeasureInterval {
    /// The operation's own start.
    Op,
    /// Its intended start.
    Intended,
    /// Both, under separate names.
    ServiceAndResponse,
}

/// The form of YCSB's own output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exporter {
    Text,
    /// One JSON object after another.
    Json,
    /// One JSON array.
    JsonArray,
}

impl Settings {
    /// Reads the settings from `p`; `is_open` is whether the run is an open loop.
    pub(crate) fn new(p: &Properties, is_open: bool) -> Result<Settings, PropertyError> {
        let thread_count = p.number("threadcount", 1, (1, u64::from(THREAD_COUNT_MAX)))?;
        let has_status = p.flag("status", false)?;
        Ok(Settings {
            thread_count: u32::try_from(thread_count).unwrap_or(u32::MAX),
            target_per_s: p.number("target", 0, (0, INT_MAX))?,
            max_execution_s: p.number("maxexecutiontime", 0, (0, INT_MAX))?,
            has_status,
            status_interval_s: p.number("status.interval", 10, (1, INT_MAX))?,
            label: p.get_whole("label").unwrap_or_default().to_owned(),
            measure: MeasurePlan::new(p, is_open, has_status)?,
        })
    }
}

impl MeasurePlan {
    fn new(p: &Properties, is_open: bool, has_status: bool) -> Result<MeasurePlan, PropertyError> {
        let kind = match p.get("measurementtype").unwrap_or("hdrhistogram") {
            "hdrhistogram" => MeasureKind::Hdr,
            "histogram" => MeasureKind::Buckets,
            "hdrhistogram+histogram" => MeasureKind::HdrAndBuckets,
            "hdrhistogram+raw" => MeasureKind::HdrAndRaw,
            "timeseries" => MeasureKind::TimeSeries,
            "raw" => MeasureKind::Raw,
            _ => {
                let kinds = "expected hdrhistogram, histogram, timeseries, raw, \
                             hdrhistogram+histogram or hdrhistogram+raw";
                return Err(p.wrong("measurementtype", kinds));
            }
        };
        let interval = match p.get("measurement.interval") {
            // In an open loop the wait for a client must count.
            None if is_open => MeasureInterval::ServiceAndResponse,
            None | Some("op") => MeasureInterval::Op,
            Some("intended") => MeasureInterval::Intended,
            Some("both") => MeasureInterval::ServiceAndResponse,
            Some(_) => {
                return Err(p.wrong("measurement.interval", "expected op, intended or both"));
            }
        };
        let path = |key| p.get(key).filter(|path| !path.is_empty()).map(PathBuf::from);
        Ok(MeasurePlan {
            kind,
            interval,
            percentiles: percentiles(p)?,
            bucket_count: p.number("histogram.buckets", 1000, (1, 1 << 24))? as usize,
            granularity_ms: p.number("timeseries.granularity", 1000, (1, INT_MAX))?,
            raw_file: path("measurement.raw.output_file"),
            exporter: exporter(p)?,
            export_file: path("exportfile"),
            has_status,
        })
    }
}

fn percentiles(p: &Properties) -> Result<Vec<(String, f64)>, PropertyError> {
    const KEY: &str = "hdrhistogram.percentiles";
    let text = p.get(KEY).unwrap_or("50,95,99");
    let parsed = text.split(',').map(|part| {
        let part = part.trim();
        let percentile: Option<f64> = part.parse().ok();
        percentile.filter(|at| (0.0..=100.0).contains(at)).map(|at| (part.to_owned(), at))
    });
    let parsed: Option<Vec<_>> = parsed.collect();
    parsed.ok_or_else(|| p.wrong(KEY, "expected numbers from 0 to 100 with commas between"))
}

fn exporter(p: &Properties) -> Result<Exporter, PropertyError> {
    let class = p.get("exporter").unwrap_or("TextMeasurementsExporter");
    match class.rsplit('.').next() {
        Some("TextMeasurementsExporter") => Ok(Exporter::Text),
        Some("JSONMeasurementsExporter") => Ok(Exporter::Json),
        Some("JSONArrayMeasurementsExporter") => Ok(Exporter::JsonArray),
        _ => Err(p.wrong(
            "exporter",
            "expected TextMeasurementsExporter, JSONMeasurementsExporter or \
             JSONArrayMeasurementsExporter of site.ycsb.measurements.exporter",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(assignments: &[&str], is_open: bool) -> Result<Settings, PropertyError> {
        let mut properties = Properties::new();
        assignments.iter().for_each(|text| properties.assign(text).unwrap());
        Settings::new(&properties, is_open)
    }

    #[test]
    fn defaults_are_those_of_ycsb() {
        let s = settings(&[], false).unwrap();
        assert_eq!((s.thread_count, s.target_per_s, s.max_execution_s), (1, 0, 0));
        assert_eq!((s.has_status, s.status_interval_s), (false, 10));
        assert_eq!((s.measure.kind, s.measure.interval), (MeasureKind::Hdr, MeasureInterval::Op));
        assert_eq!((s.measure.bucket_count, s.measure.granularity_ms), (1000, 1000));
        assert_eq!(s.measure.exporter, Exporter::Text);
        assert_eq!(
            settings(&[], true).unwrap().measure.interval,
            MeasureInterval::ServiceAndResponse
        );
        let op = settings(&["measurement.interval=op"], true).unwrap();
        assert_eq!(op.measure.interval, MeasureInterval::Op);
    }

    #[test]
    fn requested_settings_are_read() {
        let s = settings(
            &[
                "threadcount=8",
                "hdrhistogram.percentiles=50, 99.9",
                "exporter=site.ycsb.measurements.exporter.JSONArrayMeasurementsExporter",
                "measurementtype=hdrhistogram+raw",
                "measurement.raw.output_file=raw.csv",
            ],
            false,
        )
        .unwrap();
        assert_eq!(s.thread_count, 8);
        assert_eq!(s.measure.percentiles, [("50".to_owned(), 50.0), ("99.9".to_owned(), 99.9)]);
        assert_eq!(
            (s.measure.exporter, s.measure.kind),
            (Exporter::JsonArray, MeasureKind::HdrAndRaw)
        );
        assert_eq!(s.measure.raw_file, Some(PathBuf::from("raw.csv")));
    }

    #[test]
    fn invalid_properties_are_reported() {
        for (assignment, part) in [
            ("threadcount=0", "from 1 to"),
            ("target=-5", "from 0 to"),
            ("status=maybe", "true or false"),
            ("measurementtype=guess", "timeseries"),
            ("measurement.interval=none", "intended"),
            ("hdrhistogram.percentiles=50,101", "from 0 to 100"),
            ("hdrhistogram.percentiles=", "from 0 to 100"),
            ("exporter=com.example.Mine", "JSONMeasurementsExporter"),
            ("histogram.buckets=0", "from 1 to"),
        ] {
            let error = settings(&[assignment], false).unwrap_err().to_string();
            assert!(error.contains(assignment) && error.contains(part), "{error}");
        }
    }
}
