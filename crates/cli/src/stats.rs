//! `stats`: the content of the store and the drive, and their counters since the opening and over the
//! store's lifetime.

mod screen;

use crate::amplification::{Amplification, ratio_text};
use crate::count::{counted, grouped};
use crate::drive;
use crate::error::CliError;
use crate::output::Report;
use crate::parts::{merge_json, merge_words};
use crate::session::Session;
use crate::store::{ReadDriveArgs, Store};
use imbrex_disk::ByteSize;
use imbrex_disk::Counters;
use imbrex_disk_sim::flash_wear_ratio;
use imbrex_engine::inspect::{MergeWait, PartitionMetrics, PartitionTotals};
use imbrex_engine::{Metrics, Total, Totals};
use imbrex_files::inspect::FilesStats;
use serde_json::json;

/// Arguments of `imbrex stats`.
#[derive(clap::Args, Debug)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    store: ReadDriveArgs,
    /// Print every counter, also those that are 0
    #[arg(long)]
    all: bool,
}

impl StatsArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        self.store.open_quiet()?.with(|store| {
            if self.all || is_json {
                return session.out.report(&report(store));
            }
            session.out.bytes(screen::screen(store).as_bytes())
        })
    }
}

/// The content and the counters of the flash drive.
fn flash(report: &mut Report, store: &Store) {
    let Some(tiers) = &store.tiers else { return };
    let (Some(files), Some(stats)) = (tiers.flash(), tiers.tier_stats()) else { return };
    drive::flash_space(report, &stats);
    for (name, count) in [
        ("logs started on flash", stats.logs),
        ("other files written to flash", stats.tables),
        ("files without room on flash", stats.fallbacks),
    ] {
        report.row(name, grouped(count), count);
    }
    let written_bytes = files.disk().counters().written_bytes;
    report.row("written to flash", ByteSize(written_bytes).to_string(), written_bytes);
    let wear_ratio = flash_wear_ratio(written_bytes, files.disk().geometry().len().bytes());
    report.row("wear by these writes", format!("{:.6} %", wear_ratio * 100.0), json!(wear_ratio));
}

/// All counters, from the keys down to the tracks.
fn report(store: &Store) -> Report {
    let mut report = Report::default();
    report.row("layout", store.layout.name(), store.layout.name());
    let metrics = store.db.metrics();
    levels(&mut report, &metrics);
    drive::space(&mut report, &store.files);
    engine(&mut report, &metrics);
    file_layer(&mut report, &store.files.stats());
    flash(&mut report, store);
    drive_counters(&mut report, &store.disk.counters(), &metrics);
    lifetime(&mut report, &store.db.totals_of_lifetime());
    report
}

fn bytes(report: &mut Report, name: &str, len_bytes: u64) {
    report.row(name, ByteSize(len_bytes).to_string(), len_bytes);
}

fn count(report: &mut Report, name: &str, number: u64) {
    report.row(name, grouped(number), number);
}

fn levels(report: &mut Report, metrics: &Metrics) {
    for keyspace in &metrics.keyspaces {
        report.section_of("keyspace", &keyspace.name);
        bytes(report, "memtables", keyspace.memtable_len_bytes);
        for level in &keyspace.levels {
            report.row(
                format!("level {}", level.level),
                format!(
                    "{} in {}, {}, {} entries",
                    ByteSize(level.len_bytes),
                    counted(level.table_count as u64, "table"),
                    counted(level.run_count as u64, "run"),
                    grouped(level.entry_count)
                ),
                json!({
                    "len_bytes": level.len_bytes,
                    "table_count": level.table_count,
                    "run_count": level.run_count,
                    "entry_count": level.entry_count,
                }),
            );
        }
        if let Some(own) = &keyspace.partitions {
            partitions(report, own);
        }
    }
}

/// The partitions of a keyspace in sums; `dump DRIVE partitions` lists them.
fn partitions(report: &mut Report, own: &PartitionMetrics) {
    count(report, "partitions", own.shapes.len() as u64);
    let totals = PartitionTotals::of(&own.shapes);
    bytes(report, "base", totals.base_len_bytes);
    bytes(report, "above the base", totals.upper_len_bytes);
    if totals.flash_len_bytes > 0 {
        bytes(report, "of that waiting on flash", totals.flash_len_bytes);
    }
    count(report, "most runs above a base", totals.run_count_max as u64);
    bytes(report, "dead in tables, at most", totals.dead_len_bytes_max);
    let Some(merge) = &own.base_merge else { return };
    report.row("base merge", merge_words(merge), merge_json(merge));
    if let Some(wait) = &merge.wait {
        let (name, bytes) = wait_json(wait);
        let json = json!({ "wait": name, "bytes": bytes });
        report.row("base merge waits for", wait.to_string(), json);
    }
}

/// The name of what a base merge waits for, and of how many bytes, if it is writes.
fn wait_json(wait: &MergeWait) -> (&'static str, Option<u64>) {
    match wait {
        MergeWait::Running => ("running", None),
        MergeWait::Due => ("due", None),
        MergeWait::Writes { slack_bytes, due_below_bytes } => {
            ("writes", Some(slack_bytes.saturating_sub(*due_below_bytes)))
        }
        MergeWait::Compaction => ("compaction", None),
        MergeWait::Room => ("room", None),
        MergeWait::Damage => ("damage", None),
    }
}

fn engine(report: &mut Report, metrics: &Metrics) {
    report.section("engine, since it was opened");
    count(report, "user writes", metrics.user_op_count);
    bytes(report, "user bytes", metrics.user_bytes);
    bytes(report, "log bytes", metrics.log_bytes);
    count(report, "flushes", metrics.flush_count);
    bytes(report, "flushed bytes", metrics.flush_out_bytes);
    count(report, "compactions", metrics.compaction_count);
    count(report, "moves", metrics.move_count);
    bytes(report, "compaction read", metrics.compaction_in_bytes);
    bytes(report, "compaction written", metrics.compaction_out_bytes);
    running(report, metrics);
    let ratio = metrics.write_amp_ratio;
    report.row("write amplification", format!("{ratio:.2}"), ratio);
    let stalls = [
        ("stops", metrics.stall_stop),
        ("slowdowns", metrics.stall_slowdown),
        ("offload delays", metrics.stall_offload),
        ("all these waits", metrics.stalls),
    ];
    for (name, stall) in stalls {
        let seconds = stall.total_ns as f64 / 1e9;
        report.row(
            name,
            format!("{}, {seconds:.3} s", grouped(stall.count)),
            json!({
                "count": stall.count,
                "total_ns": stall.total_ns,
                "p50_ns": stall.p50_ns,
                "p99_ns": stall.p99_ns,
                "max_ns": stall.max_ns,
            }),
        );
    }
    count(report, "cache hits", metrics.cache_hit_count);
    count(report, "cache misses", metrics.cache_miss_count);
    bytes(report, "cache memory", metrics.cache_len_bytes);
    count(report, "open tables", metrics.open_table_count as u64);
    bytes(report, "table memory", metrics.table_memory_len_bytes);
}

/// The compactions that run now.
fn running(report: &mut Report, metrics: &Metrics) {
    for compaction in &metrics.running {
        let (done, all) = (compaction.done_len_bytes, compaction.len_bytes);
        report.row(
            "compaction that runs",
            format!("{} of {}: {}", ByteSize(done), ByteSize(all), compaction.plan),
            json!({ "plan": compaction.plan, "done_len_bytes": done, "len_bytes": all }),
        );
    }
    bytes(report, "room for writes without cleaning", metrics.slack_bytes);
}

fn file_layer(report: &mut Report, stats: &FilesStats) {
    report.section("files, since they were opened");
    count(report, "commits", stats.commits);
    bytes(report, "catalog bytes", stats.catalog_written_bytes);
    if stats.catalog_mended > 0 {
        count(report, "catalog parts healed from a copy", stats.catalog_mended);
    }
    bytes(report, "file bytes", stats.file_written_bytes);
    count(report, "cleaned zones", stats.cleaned_zones);
    bytes(report, "moved by cleaning", stats.cleaning_moved_bytes);
    if stats.track_syncs > 0 {
        count(report, "rewritten tracks", stats.rewritten_tracks);
        count(report, "syncs for tracks", stats.track_syncs);
    }
    count(report, "reset zones", stats.reset_zones);
}

fn drive_counters(report: &mut Report, counters: &Counters, metrics: &Metrics) {
    report.section("drive, since it was opened");
    count(report, "reads", counters.reads);
    bytes(report, "read bytes", counters.read_bytes);
    count(report, "writes", counters.writes);
    bytes(report, "written bytes", counters.written_bytes);
    bytes(report, "read by translation", counters.added_read_bytes);
    bytes(report, "written by translation", counters.added_written_bytes);
    count(report, "flushes", counters.flushes);
    count(report, "seeks", counters.seeks);
    let busy_s = counters.busy_ns as f64 / 1e9;
    report.row("busy time", format!("{busy_s:.3} s"), json!({ "total_ns": counters.busy_ns }));
    for (activity, own) in counters.by_activity.iter() {
        let name = activity.name();
        bytes(report, &format!("read for {name}"), own.read_bytes);
        bytes(report, &format!("written for {name}"), own.written_bytes);
        if counters.busy_ns > 0 {
            let busy_s = own.busy_ns as f64 / 1e9;
            let json = json!({
                "total_ns": own.busy_ns,
                "seek_ns": own.seek_ns,
                "turn_ns": own.turn_ns,
                "transfer_ns": own.transfer_ns,
            });
            report.row(format!("busy for {name}"), format!("{busy_s:.3} s"), json);
        }
    }
    if counters.busy_ns > 0 && metrics.user_op_count > 0 {
        let rate = metrics.user_op_count as f64 / busy_s;
        report.row("user writes per disk-second", grouped(rate as u64), rate);
    }
    if metrics.user_bytes > 0 {
        let ratio = counters.written_bytes as f64 / metrics.user_bytes as f64;
        report.row("drive bytes per user byte", format!("{ratio:.2}"), ratio);
    }
}

/// Everything that was counted over the store's lifetime, in the units of the totals.
fn lifetime(report: &mut Report, totals: &Totals) {
    report.section("lifetime");
    for total in Total::ALL {
        let value = totals.get(*total);
        let text = if total.is_bytes() { ByteSize(value).to_string() } else { grouped(value) };
        report.row(total.name().replace('_', " "), text, value);
    }
    let [store, drive] =
        [Amplification::of_store(totals), Amplification::of_drive(totals)].map(|a| a.ratios());
    for (name, ratio) in [
        ("written per user byte, with log", store[0]),
        ("written per user byte, without log", store[1]),
        ("drive bytes per user byte, with log", drive[0]),
        ("drive bytes per user byte, without log", drive[1]),
    ] {
        report.row(name, ratio_text(ratio), ratio);
    }
}
