//! The report of a run: all figures, as JSON for programs and as a table for people.
//!
//! Times are never mixed. `clock` names the clock of `elapsed_ns` and of the latencies. Figures per
//! disk-second come from the modelled disk's busy time in both modes. Figures of the machine (CPU,
//! memory) are in `host` and are absent in virtual mode, so two runs with one seed report the same
//! bytes.

use crate::latency::LatencySummary;
use crate::options::Mode;
use imbrex_engine::inspect::CompactionLine;
use serde::Serialize;
use std::fmt;

/// The results of one `imbrex bench`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The setup.
    pub setup: Setup,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// Why a benchmark failed, which ended the run; it and the following ones are not in `runs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// One entry per benchmark, in order.
    pub runs: Vec<RunReport>,
}

/// The setup of the benchmarks.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    /// The drive's profile or image.
    pub drive: String,
    /// The drive's capacity in bytes.
    pub capacity_bytes: u64,
    /// The layout.
    pub layout: String,
    /// The source of time.
    pub mode: Mode,
    /// The seed.
    pub seed: u64,
    /// Keys.
    pub num: u64,
    /// Bytes per key.
    pub key_len_bytes: usize,
    /// Bytes per value.
    pub value_len_bytes: usize,
    /// Clients.
    pub threads: u32,
}

/// The figures of one benchmark. Counters cover only this benchmark, until the background work that
/// it caused was done (unless `--settle=false`).
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// db_bench's name.
    pub benchmark: String,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Operations done.
    pub ops: u64,
    /// The number of reads that found a value.
    pub found: u64,
    /// Bytes of keys and values written to the store.
    pub written_bytes: u64,
    /// Bytes of keys and values read from it.
    pub read_bytes: u64,
    /// From the start of the first operation to the end of the last.
    pub elapsed_ns: u64,
    /// From the start of the first operation to the end of the background work.
    pub settled_ns: u64,
    /// Operations per second of the clock, up to the end of the last operation.
    pub ops_per_second: f64,
    /// Latency of single operations.
    pub latency: LatencySummary,
    /// Work of the engine.
    pub engine: EngineFigures,
    /// Work of the disk.
    pub drive: DriveFigures,
    /// Space on the drive at the end.
    pub space: SpaceFigures,
    /// Cost on this machine; in threads mode only.
    pub host: Option<HostFigures>,
    /// The compactions, about the last thousand.
    pub compactions: Vec<CompactionLine>,
}

/// Figures of the store, the drive and the machine.
#[derive(Clone, Debug, Serialize)]
pub struct StoreFigures {
    /// Work of the engine.
    pub engine: EngineFigures,
    /// Work of the disk.
    pub drive: DriveFigures,
    /// Space on the drive at the end.
    pub space: SpaceFigures,
    /// Cost on this machine; in threads mode only.
    pub host: Option<HostFigures>,
    /// The compactions, about the last thousand.
    pub compactions: Vec<CompactionLine>,
}

/// Bytes through the engine, by purpose.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct EngineFigures {
    /// Written to the log.
    pub log_bytes: u64,
    /// Written by flushes.
    pub flush_bytes: u64,
    /// Read by compactions.
    pub compaction_in_bytes: u64,
    /// Written by compactions.
    pub compaction_out_bytes: u64,
    /// Flushes.
    pub flush_count: u64,
    /// Compactions, including moves without a copy.
    pub compaction_count: u64,
    /// Time that writers waited for background work.
    pub stall_ns: u64,
    /// WA: bytes written by flush and compaction per user byte written.
    pub write_amp_ratio: f64,
    /// Memory of memtables at the end.
    pub memtable_bytes: u64,
    /// Memory of cached blocks at the end.
    pub block_cache_bytes: u64,
    /// Memory of filters and indexes at the end.
    pub table_memory_bytes: u64,
}

/// Work of the disk.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DriveFigures {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Cache flushes.
    pub flushes: u64,
    /// Requests that moved the head.
    pub seeks: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read in addition because of the recording.
    pub added_read_bytes: u64,
    /// Bytes written in addition because of the recording.
    pub added_written_bytes: u64,
    /// Busy time of the modelled disk; 0 without mechanics.
    pub busy_ns: u64,
    /// Bytes written to the flash drive beside it, which wears; 0 without one.
    pub flash_written_bytes: u64,
    /// Operations per second of busy time; 0 if it was never busy.
    pub ops_per_disk_second: f64,
    /// AWA: bytes that the drive wrote per byte of write requests.
    pub added_write_amp_ratio: f64,
    /// MWA = WA x AWA: bytes that the drive wrote for flushes and compactions per user byte.
    pub multiplied_write_amp_ratio: f64,
}

/// The drive's space, in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SpaceFigures {
    /// The capacity.
    pub capacity_bytes: u64,
    /// Occupied space.
    pub occupied_bytes: u64,
    /// The part of it that live files hold.
    pub valid_bytes: u64,
    /// Valid space as a share of occupied space.
    pub utilisation_ratio: f64,
}

/// Cost on this machine.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct HostFigures {
    /// CPU time of all threads.
    pub cpu_ns: u64,
    /// Operations per CPU-second.
    pub ops_per_cpu_second: f64,
    /// Anonymous memory at the end, if the system reports it.
    pub anonymous_bytes: Option<u64>,
}

impl Report {
    /// The report as JSON, ending in a line feed.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a report is numbers, strings and lists");
        text.push('\n');
        text
    }
}

/// The tables for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.setup)?;
        for run in &self.runs {
            writeln!(f, "\n{run}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self;
        write!(
            f,
            "{} of {}, {}; {} clients, seed {}, keys {} B, values {} B, {} keys; {}",
            s.drive,
            Bytes(s.capacity_bytes),
            s.layout,
            s.threads,
            s.seed,
            s.key_len_bytes,
            s.value_len_bytes,
            s.num,
            match s.mode {
                Mode::Virtual => "virtual time",
                Mode::Threads => "this machine's time",
            }
        )
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<16} {} ops", self.benchmark, self.ops)?;
        if self.interrupted {
            f.write_str(" (interrupted)")?;
        }
        write!(f, " in {}, {:.0} ops/s", Time(self.elapsed_ns), self.ops_per_second)?;
        if self.drive.busy_ns > 0 {
            write!(f, ", {:.1} ops per disk-second", self.drive.ops_per_disk_second)?;
        }
        if let Some(host) = &self.host {
            write!(f, ", {:.0} ops per CPU-second", host.ops_per_cpu_second)?;
        }
        writeln!(
            f,
            ", {} found, user bytes written {} read {}",
            self.found,
            Bytes(self.written_bytes),
            Bytes(self.read_bytes)
        )?;
        writeln!(f, "  latency   {}", self.latency)?;
        let settled_ns = self.settled_ns;
        let (engine, drive, space) = (&self.engine, &self.drive, &self.space);
        fmt_store(f, settled_ns, engine, drive, space, self.host.as_ref())
    }
}

/// The last lines of every run, on the store, its drive and its memory, without the final line
/// feed.
pub(crate) fn fmt_store(
    f: &mut fmt::Formatter<'_>,
    settled_ns: u64,
    e: &EngineFigures,
    d: &DriveFigures,
    s: &SpaceFigures,
    host: Option<&HostFigures>,
) -> fmt::Result {
    writeln!(
        f,
        "  engine    log {}  flush {} ({})  compaction in {} out {} ({})  stalled {}  settled {}",
        Bytes(e.log_bytes),
        Bytes(e.flush_bytes),
        e.flush_count,
        Bytes(e.compaction_in_bytes),
        Bytes(e.compaction_out_bytes),
        e.compaction_count,
        Time(e.stall_ns),
        Time(settled_ns),
    )?;
    writeln!(
        f,
        "  drive     read {} ({})  written {} ({})  added {} + {}  seeks {}  flushes {}  busy {}",
        Bytes(d.read_bytes),
        d.reads,
        Bytes(d.written_bytes),
        d.writes,
        Bytes(d.added_read_bytes),
        Bytes(d.added_written_bytes),
        d.seeks,
        d.flushes,
        Time(d.busy_ns)
    )?;
    writeln!(
        f,
        "  amplified WA {:.2} (flush and compaction / user)  AWA {:.2} (drive / store)  MWA {:.2} (WA x AWA)",
        e.write_amp_ratio, d.added_write_amp_ratio, d.multiplied_write_amp_ratio
    )?;
    writeln!(
        f,
        "  space     occupied {}  valid {}  utilisation {:.1} %",
        Bytes(s.occupied_bytes),
        Bytes(s.valid_bytes),
        s.utilisation_ratio * 100.0
    )?;
    write!(
        f,
        "  memory    memtables {}  block cache {}  filters and indexes {}",
        Bytes(e.memtable_bytes),
        Bytes(e.block_cache_bytes),
        Bytes(e.table_memory_bytes)
    )?;
    match host.and_then(|host| host.anonymous_bytes) {
        Some(bytes) => write!(f, "  anonymous {}", Bytes(bytes)),
        None => Ok(()),
    }
}

impl fmt::Display for LatencySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "mean {}  p50 {}  p90 {}  p99 {}  p99.9 {}  p99.99 {}  max {}",
            Time(self.mean_ns),
            Time(self.p50_ns),
            Time(self.p90_ns),
            Time(self.p99_ns),
            Time(self.p999_ns),
            Time(self.p9999_ns),
            Time(self.max_ns)
        )
    }
}

/// Formats bytes with three digits and a binary unit.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0 as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
    }
}

/// Formats nanoseconds with three digits and a unit.
pub(crate) struct Time(pub(crate) u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0 as f64, 1000.0, &["ns", "us", "ms", "s"])
    }
}

fn scaled(f: &mut fmt::Formatter<'_>, value: f64, base: f64, units: &[&str]) -> fmt::Result {
    let (mut value, mut unit) = (value, 0);
    // The unit changes where rounding to three digits would reach the base.
    while value >= base - 0.5 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 { 0 } else { 1 + usize::from(value < 9.995) };
    write!(f, "{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people_have_three_digits() {
        let check = |got: String, want: &str| assert_eq!(got, want);
        check(Bytes(0).to_string(), "0 B");
        check(Bytes(1023).to_string(), "1023 B");
        check(Bytes(1024).to_string(), "1.00 KiB");
        check(Bytes(150 << 20).to_string(), "150 MiB");
        check(Bytes(u64::MAX).to_string(), "16777216 TiB");
        check(Time(999).to_string(), "999 ns");
        check(Time(8_333_333).to_string(), "8.33 ms");
        check(Time(3_600_000_000_000).to_string(), "3600 s");
    }
}
