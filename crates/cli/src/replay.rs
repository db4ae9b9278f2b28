//! `replay`: replays a block trace on the block driver in virtual time, by the crate `imbrex-bench`.

use crate::error::CliError;
use crate::memory;
use crate::output::{Report, Table};
use crate::progress::{Progress, Unit};
use crate::session::Session;
use clap::ValueEnum;
use imbrex_bench::BenchError;
use imbrex_bench::latency::LatencySummary;
use imbrex_bench::replay::{
    BareReport, ReplayOptions, ReplayReport, ReplayUnit, RequestFigures, replay, replay_bare,
};
use imbrex_disk::ByteSize;
use imbrex_disk_sim::Profile;
use imbrex_translate::{CleaningOrder, EvictionOrder};
use imbrex_workload::trace::{BUNDLED, BundledTrace, TraceError, TraceFormat, TraceSource};
use std::path::PathBuf;

/// Arguments of `imbrex replay`.
#[derive(clap::Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The trace: a file, plain, .zst or .gz, or one that comes with the program (bundled:vm,
    /// bundled:ext4, bundled:xfs, bundled:btrfs)
    ///
    /// Formats: CSV (time_us,op,offset_bytes,size_bytes), MSR Cambridge, SYSTOR '17, CloudPhysics vscsi.
    trace: PathBuf,
    /// Format of the trace file [default: detected from its first bytes]
    #[arg(long, value_name = "FORMAT", value_enum)]
    trace_format: Option<TraceFormat>,
    /// Replay in sectors of 512 bytes, as the paper's driver maps them, and not in blocks of 4096
    ///
    /// Requests of whole sectors are then as long as in the trace, and no edges are read. Steps of the driver's
    /// work are an eighth as long.
    #[arg(long)]
    sectors: bool,
    /// Capacity of the write buffer; 0 for none
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    buffer: ByteSize,
    /// Length of the journal [default: twice the write buffer]
    #[arg(long, value_name = "SIZE")]
    journal: Option<ByteSize>,
    /// Order in which the write buffer evicts
    #[arg(long, value_enum, default_value = "aged")]
    eviction: Eviction,
    /// Choice of the zones to clean: those whose cleaning merges the most mapping nodes, or those with the
    /// most garbage
    #[arg(long, value_enum, default_value = "merged")]
    cleaning: Cleaning,
    /// Length of a zone
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    zone_len: ByteSize,
    /// Profile with the mechanics of the drive, as in `imbrex drive create --profile`
    #[arg(long, value_name = "NAME", default_value = "st1000dm003")]
    profile: String,
    /// Capacity of the drive [default: what the trace's addresses need]
    #[arg(long, value_name = "SIZE")]
    drive_size: Option<ByteSize>,
    /// Share of the data zones that the trace's addresses may fill, in percent; cleaning needs the rest
    #[arg(long, value_name = "PERCENT", default_value_t = 80)]
    fill: u64,
    /// Remove the address ranges that the trace never touches
    #[arg(long)]
    squeeze: bool,
    /// Time scale in percent: 50 replays the trace twice as fast
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    time: u64,
    /// Issue each request when the previous one has ended, instead of at the trace's time
    #[arg(long, conflicts_with = "time")]
    closed_loop: bool,
    /// Make each write durable before it completes
    #[arg(long)]
    write_through: bool,
    /// Replay the trace on this drive as well, and print both side by side: what zones cost
    #[arg(long, value_name = "DRIVE", value_enum)]
    beside: Option<Beside>,
    /// Replay at most this many requests
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Eviction {
    /// The longest contiguous region up to 4 MiB; among equal ones the oldest
    Aged,
    /// The largest contiguous region of any length, as in the paper
    Largest,
    /// The region written longest ago
    Lru,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Beside {
    /// The bare conventional drive of the same profile and length, without zones and without the block
    /// driver
    Conventional,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cleaning {
    /// Among the 20 zones with the most garbage, the 2 whose cleaning merges the most mapping nodes and moves
    /// little more than that of the 2 emptiest
    Merged,
    /// The same without a bound on what is moved, as in the paper
    Paper,
    /// The 2 zones with the most garbage
    Garbage,
}

impl ReplayArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let wanted = self.profile.as_str();
        let profile = Profile::names().find(|name| name.eq_ignore_ascii_case(wanted));
        let profile = profile.ok_or_else(|| {
            let names: Vec<&str> = Profile::names().collect();
            CliError::usage(format!(
                "there is no drive profile {wanted:?}; the profiles are {}",
                names.join(", ")
            ))
        })?;
        let options = ReplayOptions {
            trace: source(self.trace, self.trace_format)?,
            unit: if self.sectors { ReplayUnit::Sector } else { ReplayUnit::Block },
            buffer_bytes: self.buffer.0,
            journal_bytes: self.journal.map(|size| size.0),
            eviction: match self.eviction {
                Eviction::Aged => EvictionOrder::LongestAndOldest,
                Eviction::Largest => EvictionOrder::LargestRegion,
                Eviction::Lru => EvictionOrder::LeastRecentlyWritten,
            },
            cleaning: match self.cleaning {
                Cleaning::Merged => CleaningOrder::merged(),
                Cleaning::Paper => CleaningOrder::of_the_paper(),
                Cleaning::Garbage => CleaningOrder::MostGarbage { chosen_count: 2 },
            },
            zone_len_bytes: self.zone_len.0,
            profile,
            drive_len_bytes: self.drive_size.map(|size| size.0),
            fill_percent: self.fill,
            squeezes: self.squeeze,
            time_percent: self.time,
            is_closed_loop: self.closed_loop,
            writes_through: self.write_through,
            request_count_max: self.limit.unwrap_or(u64::MAX),
            unpacked_bytes: memory::for_emulated_drives(),
        };
        // An output format that does not fit fails before the work, not after it.
        session.out.is_json()?;
        let report = watched(session, "replaying", |watch| replay(&options, watch))?;
        let bare = match self.beside {
            Some(Beside::Conventional) if report.is_complete => {
                let what = "replaying on the conventional drive";
                Some(watched(session, what, |watch| replay_bare(&options, watch))?)
            }
            _ => None,
        };
        let is_complete = report.is_complete && bare.as_ref().is_none_or(|bare| bare.is_complete);
        let told = tell(session, &report, bare.as_ref());
        if is_complete { told } else { Err(CliError::interrupted()) }
    }
}

/// Does work that shows its progress and stops at an interruption.
fn watched<T>(
    session: &Session,
    what: &str,
    work: impl FnOnce(&mut dyn FnMut(u64, Option<u64>) -> bool) -> Result<T, BenchError>,
) -> Result<T, CliError> {
    let progress = Progress::new(what, Unit::Items, None);
    work(&mut |done, of| {
        progress.set_of(done, of);
        !session.interrupt.is_asked()
    })
    .map_err(failed)
}

fn tell(
    session: &mut Session,
    report: &ReplayReport,
    bare: Option<&BareReport>,
) -> Result<(), CliError> {
    let mut told = shown(report);
    let Some(bare) = bare else { return session.out.report(&told) };
    if session.out.is_json()? {
        told.section("Conventional drive");
        told.row("complete", "", bare.is_complete);
        size(&mut told, "drive", bare.drive_bytes);
        number(&mut told, "elapsed s", bare.requests.elapsed_ns as f64 / 1e9);
        number(&mut told, "MB/s", bare.requests.megabytes_per_s());
        latency(&mut told, "Conventional drive, read latency", &bare.requests.read_latency);
        latency(&mut told, "Conventional drive, write latency", &bare.requests.write_latency);
        return session.out.report(&told);
    }
    session.out.report(&told)?;
    session.out.line("")?;
    session.out.bytes(beside(&report.requests, &bare.requests).text_right().as_bytes())
}

/// Both drives in one table, with what the zones make of each figure.
fn beside(zoned: &RequestFigures, bare: &RequestFigures) -> Table {
    let mut table = Table::new(&["", "over zones", "conventional", "times"]);
    let mut row = |what: &str, zoned: f64, bare: f64| {
        let times = if bare > 0.0 { format!("{:.2}", zoned / bare) } else { "-".to_owned() };
        table.row(vec![what.to_owned(), format!("{zoned:.3}"), format!("{bare:.3}"), times]);
    };
    let latencies = [
        ("read", &zoned.read_latency, &bare.read_latency),
        ("write", &zoned.write_latency, &bare.write_latency),
    ];
    for (what, zoned, bare) in latencies {
        let figures = [
            ("mean", zoned.mean_ns, bare.mean_ns),
            ("p50", zoned.p50_ns, bare.p50_ns),
            ("p99", zoned.p99_ns, bare.p99_ns),
            ("p99.9", zoned.p999_ns, bare.p999_ns),
            ("max", zoned.max_ns, bare.max_ns),
        ];
        for (name, zoned, bare) in figures {
            row(&format!("{what} {name}, ms"), zoned as f64 / 1e6, bare as f64 / 1e6);
        }
    }
    row("MB/s", zoned.megabytes_per_s(), bare.megabytes_per_s());
    table
}

fn failed(error: BenchError) -> CliError {
    match error {
        BenchError::Options(fault) => CliError::usage(fault),
        BenchError::Stopped => CliError::interrupted(),
        BenchError::Trace(TraceError::Io { .. }) => CliError::of("cannot replay", &error),
        BenchError::Trace(error @ TraceError::Unknown { .. }) => {
            CliError::data(format!("{error}; name it with --trace-format"))
        }
        BenchError::Trace(error) => CliError::data(error.to_string()),
        error => CliError::of("cannot replay", &error),
    }
}

fn size(report: &mut Report, name: &str, bytes: u64) {
    report.row(name, ByteSize(bytes).to_string(), bytes);
}

fn count(report: &mut Report, name: &str, count: u64) {
    report.row(name, count.to_string(), count);
}

fn number(report: &mut Report, name: &str, value: f64) {
    report.row(name, format!("{value:.3}"), value);
}

/// The trace file, or the bundled trace.
fn source(path: PathBuf, format: Option<TraceFormat>) -> Result<TraceSource, CliError> {
    let Some(name) = path.to_str().and_then(|text| text.strip_prefix("bundled:")) else {
        return Ok(TraceSource::File { path, format });
    };
    let bundled = BundledTrace::named(name).ok_or_else(|| {
        let all: Vec<String> =
            BUNDLED.iter().map(|t| format!("bundled:{} ({})", t.name, t.title)).collect();
        CliError::usage(format!(
            "there is no bundled trace {name:?}; the bundled traces are {}",
            all.join(", ")
        ))
    })?;
    match format {
        None => Ok(TraceSource::Bundled(bundled)),
        Some(_) => Err(CliError::usage("--trace-format is for files; omit it for a bundled trace")),
    }
}

fn latency(report: &mut Report, title: &str, latency: &LatencySummary) {
    report.section(title);
    number(report, "mean ms", latency.mean_ns as f64 / 1e6);
    number(report, "p50 ms", latency.p50_ns as f64 / 1e6);
    number(report, "p99 ms", latency.p99_ns as f64 / 1e6);
    number(report, "p99.9 ms", latency.p999_ns as f64 / 1e6);
    number(report, "max ms", latency.max_ns as f64 / 1e6);
}

fn shown(of: &ReplayReport) -> Report {
    let mut report = Report::default();
    report.row("complete", if of.is_complete { "yes" } else { "no" }, of.is_complete);
    report.section("Trace");
    count(&mut report, "requests", of.survey.requests);
    size(&mut report, "read", of.survey.read_bytes);
    size(&mut report, "written", of.survey.written_bytes);
    size(&mut report, "footprint", of.survey.footprint_bytes);
    count(&mut report, "moved up by bytes", of.survey.shift_bytes);
    count(&mut report, "skipped", of.survey.skipped);
    count(&mut report, "late", of.survey.late);
    report.section("Drive");
    size(&mut report, "drive", of.drive_bytes);
    size(&mut report, "device", of.device_bytes);
    size(&mut report, "written before the start", of.prefilled_bytes);
    report.section("Done");
    let done = &of.requests;
    count(&mut report, "reads", done.reads);
    count(&mut report, "writes", done.writes);
    count(&mut report, "edge blocks read", done.edge_blocks);
    number(&mut report, "elapsed s", done.elapsed_ns as f64 / 1e9);
    number(&mut report, "MB/s", done.megabytes_per_s());
    latency(&mut report, "Read latency", &done.read_latency);
    latency(&mut report, "Write latency", &done.write_latency);
    number(&mut report, "longest stall ms", done.write_stall_ns_max as f64 / 1e6);
    report.section("Written");
    size(&mut report, "host", of.written.host_bytes);
    size(&mut report, "journal", of.written.journal_bytes);
    size(&mut report, "evicted", of.written.evicted_bytes);
    size(&mut report, "evicted for the journal", of.journal_evicted_bytes);
    size(&mut report, "cleaning", of.written.moved_bytes);
    size(&mut report, "checkpoints", of.written.checkpoint_bytes);
    size(&mut report, "summaries", of.written.summary_bytes);
    number(&mut report, "write amplification", of.written.amplification());
    report.section("Mapping");
    count(&mut report, "nodes", of.mapping_nodes);
    size(&mut report, "memory", of.mapping_bytes);
    report.section("Cleaning");
    count(&mut report, "in time", of.timely_cleanings);
    count(&mut report, "urgent (by garbage alone)", of.urgent_cleanings);
    number(&mut report, "merged nodes each", of.merged_nodes_mean);
    number(&mut report, "garbage percent", of.garbage_percent);
    for table in &of.tables {
        let sectors = if table.entry_sectors == 1 { "sector" } else { "sectors" };
        report.section(format!("Table of {} {sectors} an entry", table.entry_sectors));
        size(&mut report, "memory", table.memory_bytes);
        number(&mut report, "write amplification", table.amplification());
    }
    report
}
