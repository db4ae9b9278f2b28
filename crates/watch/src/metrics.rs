//! Metrics of scenes as text: OpenMetrics, or the older format of Prometheus for collectors that do not ask for it.
//!
//! Names follow the conventions: a prefix, base units (seconds, bytes), `_total` for counters. Every sample has the
//! label `store`, so that several stores have one page.
//!
//! Sources: the OpenMetrics specification 1.0, sections on text format and naming; Prometheus, "Exposition formats",
//! text-based format 0.0.4.

use crate::frame::{Activities, ActivityTotals, Frame};
use crate::scene::Scene;
use std::fmt::Write;

/// The form of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricsFormat {
    /// OpenMetrics 1.0: a family has its own name, and an end mark follows the last.
    OpenMetrics,
    /// Prometheus's text format 0.0.4: a family has the name of its samples.
    #[default]
    Prometheus,
}

impl MetricsFormat {
    /// The form for a reader that sent this `Accept` header.
    pub fn accepted_by(header: Option<&str>) -> MetricsFormat {
        match header {
            Some(types) if types.contains("application/openmetrics-text") => {
                MetricsFormat::OpenMetrics
            }
            _ => MetricsFormat::Prometheus,
        }
    }

    /// The media type of the text.
    pub fn media_type(self) -> &'static str {
        match self {
            MetricsFormat::OpenMetrics => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
            MetricsFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What the values of a family do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// They only grow.
    Counter,
    /// They go up and down.
    Gauge,
}

use MetricKind as Kind;

/// Text that grows family by family.
#[derive(Debug, Default)]
pub struct MetricsText {
    format: MetricsFormat,
    text: String,
    /// The name of the family's samples.
    name: String,
}

impl MetricsText {
    /// Text without a family.
    pub fn new(format: MetricsFormat) -> MetricsText {
        MetricsText { format, ..MetricsText::default() }
    }

    /// Begins the family `imbrex_NAME`, which ends with `unit` if it has one.
    pub fn family(&mut self, kind: MetricKind, name: &str, unit: &str, help: &str) {
        let (word, end) = match kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
        };
        self.name = format!("imbrex_{name}{end}");
        let family = match self.format {
            MetricsFormat::OpenMetrics => format!("imbrex_{name}"),
            MetricsFormat::Prometheus => self.name.clone(),
        };
        let _ = writeln!(self.text, "# TYPE {family} {word}");
        if self.format == MetricsFormat::OpenMetrics && !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {family} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {family} {}", escaped(help));
    }

    /// Adds a sample of the family. Labels are escaped here.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(self.text, "{}{{{}}} {value}", self.name, labels.join(","));
    }

    /// Adds what drives did for each activity; `label` has the name of each drive.
    pub fn activities(&mut self, label: &str, drives: &[(&str, Activities)]) {
        let help = "The busy time of a modelled drive, by what its requests served.";
        self.family(Kind::Counter, "drive_activity_seconds", "seconds", help);
        for (name, activities) in drives {
            for (activity, own) in activities.each() {
                for (part, ns) in parts(own.busy_ns, [own.seek_ns, own.turn_ns, own.transfer_ns]) {
                    let labels = [(label, *name), ("activity", activity.name()), ("part", part)];
                    self.sample(&labels, seconds(ns));
                }
            }
        }
        type OfActivity = fn(&ActivityTotals) -> u64;
        let families: [(&str, &str, OfActivity); 2] = [
            ("drive_activity_read_bytes", "Read from the drive, by what it served.", |own| {
                own.read_bytes
            }),
            ("drive_activity_written_bytes", "Written to the drive, by what it served.", |own| {
                own.written_bytes
            }),
        ];
        for (family, help, value) in families {
            self.family(Kind::Counter, family, "bytes", help);
            for (name, activities) in drives {
                for (activity, own) in activities.each() {
                    let labels = [(label, *name), ("activity", activity.name())];
                    self.sample(&labels, value(&own) as f64);
                }
            }
        }
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        if self.format == MetricsFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// A family whose value is one number of a frame.
struct Family {
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    help: &'static str,
    value: Value,
}

type Value = fn(&Frame) -> f64;

const fn family(
    kind: Kind,
    (name, unit, help): (&'static str, &'static str, &'static str),
    value: Value,
) -> Family {
    Family { name, kind, unit, help, value }
}

const fn counter(
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    value: Value,
) -> Family {
    family(Kind::Counter, (name, unit, help), value)
}

const fn gauge(name: &'static str, unit: &'static str, help: &'static str, value: Value) -> Family {
    family(Kind::Gauge, (name, unit, help), value)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Every family with one value a store.
const FAMILIES: [Family; 32] = [
    counter("user_operations", "", "Operations written by the user.", |f| f.store.user_ops as f64),
    counter("user_bytes", "bytes", "Keys and values written by the user.", |f| {
        f.store.user_bytes as f64
    }),
    counter("log_written_bytes", "bytes", "Written to logs.", |f| f.store.log_bytes as f64),
    counter("flushes", "", "Memtables written to tables.", |f| f.store.flushes as f64),
    counter("flush_written_bytes", "bytes", "Written by flushes.", |f| f.store.flush_bytes as f64),
    counter("compactions", "", "Compactions that ended, moves included.", |f| {
        f.store.compactions as f64
    }),
    counter("compaction_read_bytes", "bytes", "Read by compactions.", |f| {
        f.store.compaction_read_bytes as f64
    }),
    counter("compaction_written_bytes", "bytes", "Written by compactions.", |f| {
        f.store.compaction_written_bytes as f64
    }),
    counter("cleaning_moved_bytes", "bytes", "Moved by cleaning.", |f| {
        f.store.cleaning_bytes as f64
    }),
    counter("catalog_written_bytes", "bytes", "Written to the catalog.", |f| {
        f.store.catalog_bytes as f64
    }),
    counter("cache_hits", "", "Look-ups that found their block in the cache.", |f| {
        f.store.cache_hits as f64
    }),
    counter("cache_misses", "", "Look-ups that did not.", |f| f.store.cache_misses as f64),
    counter("write_stops", "", "Writes that waited for a flush or for space.", |f| {
        f.store.stopped.count as f64
    }),
    counter("write_stop_seconds", "seconds", "How long they waited.", |f| {
        seconds(f.store.stopped.total_ns)
    }),
    counter("write_slowdowns", "", "Writes slowed to the pace of compaction.", |f| {
        f.store.slowed.count as f64
    }),
    counter("write_slowdown_seconds", "seconds", "How long they waited.", |f| {
        seconds(f.store.slowed.total_ns)
    }),
    counter("drive_reads", "", "Read requests to the drive.", |f| f.drive.reads as f64),
    counter("drive_writes", "", "Write requests to the drive.", |f| f.drive.writes as f64),
    counter("drive_flushes", "", "Flushes of the drive.", |f| f.drive.flushes as f64),
    counter("drive_seeks", "", "Moves of the head; of a modelled drive.", |f| f.drive.seeks as f64),
    counter("drive_zone_resets", "", "Zones reset.", |f| f.drive.zone_resets as f64),
    counter("drive_read_bytes", "bytes", "Read from the drive.", |f| f.drive.read_bytes as f64),
    counter("drive_written_bytes", "bytes", "Written to the drive.", |f| {
        f.drive.written_bytes as f64
    }),
    counter("drive_busy_seconds", "seconds", "How long the modelled drive was busy.", |f| {
        seconds(f.drive.busy_ns)
    }),
    gauge("live_bytes", "bytes", "Bytes of live files.", |f| f.now.live_bytes as f64),
    gauge("dead_bytes", "bytes", "Bytes that are dead and not yet free.", |f| {
        f.now.dead_bytes as f64
    }),
    gauge("free_bytes", "bytes", "Bytes that can be written now.", |f| f.now.free_bytes as f64),
    gauge("slack_bytes", "bytes", "What may be written before puts wait for cleaning.", |f| {
        f.now.slack_bytes as f64
    }),
    gauge("memtable_bytes", "bytes", "Memory of memtables.", |f| f.now.memtable_bytes as f64),
    gauge("cache_bytes", "bytes", "Memory of the block cache.", |f| f.now.cache_bytes as f64),
    gauge("table_memory_bytes", "bytes", "Memory of filters and indexes.", |f| {
        f.now.table_memory_bytes as f64
    }),
    gauge("snapshots", "", "Snapshots held.", |f| f.now.snapshots as f64),
];

/// The scenes as text. A scene without a frame is left out.
pub fn metrics_text<'a>(scenes: impl Iterator<Item = &'a Scene>, format: MetricsFormat) -> String {
    let mut named: Vec<(String, &Scene)> = Vec::new();
    for scene in scenes.filter(|scene| scene.frame_count > 0) {
        // Two stores of one name are two series.
        let mut name = scene.head.name.clone();
        if named.iter().any(|(known, _)| escaped(known) == escaped(&name)) {
            name = format!("{name}-{}", scene.head.id);
        }
        named.push((name, scene));
    }
    let mut text = MetricsText::new(format);
    for Family { name, kind, unit, help, value } in &FAMILIES {
        text.family(*kind, name, unit, help);
        for (store, scene) in &named {
            text.sample(&[("store", store)], value(&scene.last));
        }
    }
    busy_parts(&mut text, &named);
    let activities = named.iter().map(|(store, scene)| (&store[..], scene.last.drive.activities));
    text.activities("store", &activities.collect::<Vec<_>>());
    levels(&mut text, &named);
    text.finish()
}

fn busy_parts(text: &mut MetricsText, scenes: &[(String, &Scene)]) {
    let help = "The parts of a modelled drive's busy time.";
    text.family(Kind::Counter, "drive_busy_part_seconds", "seconds", help);
    for (store, scene) in scenes {
        let drive = &scene.last.drive;
        let head_ns = [drive.seek_ns, drive.turn_ns, drive.transfer_ns];
        for (part, ns) in parts(drive.busy_ns, head_ns) {
            text.sample(&[("store", store), ("part", part)], seconds(ns));
        }
    }
}

/// The parts of a busy time with their names; what the head does not explain is electronics.
fn parts(busy_ns: u64, [seek_ns, turn_ns, transfer_ns]: [u64; 3]) -> [(&'static str, u64); 4] {
    let head_ns = [seek_ns, turn_ns, transfer_ns];
    let rest_ns = head_ns.iter().fold(busy_ns, |left, part| left.saturating_sub(*part));
    [("seek", seek_ns), ("turn", turn_ns), ("transfer", transfer_ns), ("electronics", rest_ns)]
}

fn levels(text: &mut MetricsText, scenes: &[(String, &Scene)]) {
    type OfLevel = fn(&crate::LevelNow) -> u64;
    let families: [(&str, &str, &str, OfLevel); 3] = [
        ("level_bytes", "bytes", "Length of a level's tables.", |level| level.len_bytes),
        ("level_tables", "", "Tables of a level.", |level| level.tables),
        ("level_runs", "", "Sorted runs of a level.", |level| level.runs),
    ];
    for (name, unit, help, value) in families {
        text.family(Kind::Gauge, name, unit, help);
        for (store, scene) in scenes {
            for level in &scene.last.now.levels {
                let number = level.level.to_string();
                let labels =
                    [("store", &store[..]), ("keyspace", &level.keyspace[..]), ("level", &number)];
                text.sample(&labels, value(level) as f64);
            }
        }
    }
}

fn escaped(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect();
    plain.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
