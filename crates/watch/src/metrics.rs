//! OpenMetrics text of scenes, for Prometheus and what reads its format.
//!
//! Names follow the conventions: a prefix, base units (seconds, bytes), `_total` for counters. Every sample has the
//! label `store`, so that several stores have one page.
//!
//! Source: the OpenMetrics specification 1.0, sections on text format and naming.

use crate::frame::Frame;
use crate::scene::Scene;
use std::fmt::Write;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
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

/// The scenes as OpenMetrics text, to its end mark. A scene without a frame is left out.
pub fn open_metrics<'a>(scenes: impl Iterator<Item = &'a Scene>) -> String {
    let mut named: Vec<(String, &Scene)> = Vec::new();
    for scene in scenes.filter(|scene| scene.frame_count > 0) {
        // Two stores of one name are two series.
        let mut name = escaped(&scene.head.name);
        if named.iter().any(|(known, _)| *known == name) {
            name = format!("{name}-{}", scene.head.id);
        }
        named.push((name, scene));
    }
    let mut text = String::new();
    for family in &FAMILIES {
        let Family { name, kind, unit, help, value } = family;
        describe(&mut text, name, *kind, unit, help);
        let end = if *kind == Kind::Counter { "_total" } else { "" };
        for (store, scene) in &named {
            let value = value(&scene.last);
            let _ = writeln!(text, "imbrex_{name}{end}{{store=\"{store}\"}} {value}");
        }
    }
    busy_parts(&mut text, &named);
    levels(&mut text, &named);
    text.push_str("# EOF\n");
    text
}

fn describe(text: &mut String, name: &str, kind: Kind, unit: &str, help: &str) {
    let kind = if kind == Kind::Counter { "counter" } else { "gauge" };
    let _ = writeln!(text, "# TYPE imbrex_{name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(text, "# UNIT imbrex_{name} {unit}");
    }
    let _ = writeln!(text, "# HELP imbrex_{name} {}", escaped(help));
}

fn busy_parts(text: &mut String, scenes: &[(String, &Scene)]) {
    let name = "drive_busy_part_seconds";
    describe(text, name, Kind::Counter, "seconds", "The parts of a modelled drive's busy time.");
    for (store, scene) in scenes {
        let drive = &scene.last.drive;
        let head_ns = [drive.seek_ns, drive.turn_ns, drive.transfer_ns];
        let parts = [
            ("seek", drive.seek_ns),
            ("turn", drive.turn_ns),
            ("transfer", drive.transfer_ns),
            (
                "electronics",
                head_ns.iter().fold(drive.busy_ns, |left, part| left.saturating_sub(*part)),
            ),
        ];
        for (part, ns) in parts {
            let value = seconds(ns);
            let _ =
                writeln!(text, "imbrex_{name}_total{{store=\"{store}\",part=\"{part}\"}} {value}");
        }
    }
}

fn levels(text: &mut String, scenes: &[(String, &Scene)]) {
    type OfLevel = fn(&crate::LevelNow) -> u64;
    let families: [(&str, &str, &str, OfLevel); 3] = [
        ("level_bytes", "bytes", "Length of a level's tables.", |level| level.len_bytes),
        ("level_tables", "", "Tables of a level.", |level| level.tables),
        ("level_runs", "", "Sorted runs of a level.", |level| level.runs),
    ];
    for (name, unit, help, value) in families {
        describe(text, name, Kind::Gauge, unit, help);
        for (store, scene) in scenes {
            for level in &scene.last.now.levels {
                let (keyspace, number) = (escaped(&level.keyspace), level.level);
                let _ = writeln!(
                    text,
                    "imbrex_{name}{{store=\"{store}\",keyspace=\"{keyspace}\",level=\"{number}\"}} {}",
                    value(level)
                );
            }
        }
    }
}

fn escaped(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect();
    plain.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
