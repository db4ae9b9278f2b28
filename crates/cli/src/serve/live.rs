//! What a server of a block device does while it runs: a line on the terminal, and metrics for a collector.

use crate::output::note;
use crate::progress::LiveLine;
use imbrex_disk::{ByteSize, Counters, Disk};
use imbrex_serve::Counts;
use imbrex_serve::http::{Reply, Request, Site};
use imbrex_translate::{BlockDriver, DriverCounters};
use imbrex_watch::{Activities, MetricKind, MetricsFormat, MetricsText};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The line of a server that may not have begun yet. Messages go above it.
#[derive(Clone, Debug, Default)]
pub(super) struct Live(Arc<OnceLock<LiveLine>>);

impl Live {
    pub(super) fn begin(&self, counting: &Counting) {
        self.0.get_or_init(|| counting.line());
    }

    pub(super) fn note(&self, text: &str) {
        match self.0.get() {
            Some(line) => line.line(text),
            None => note(text),
        }
    }

    pub(super) fn end(&self) {
        if let Some(line) = self.0.get() {
            line.end();
        }
    }
}

/// Where the counters of a server come from.
#[derive(Clone)]
pub(super) struct Counting {
    pub(super) counts: Arc<dyn Fn() -> Counts + Send + Sync>,
    /// How many clients are connected now; 0 where there are no connections.
    pub(super) connection_count: Arc<dyn Fn() -> usize + Send + Sync>,
    pub(super) drive: Arc<dyn Disk>,
    pub(super) driver: Option<Arc<BlockDriver>>,
    pub(super) shown: String,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: Duration,
    counts: Counts,
    drive: Counters,
    /// How full the write buffer is, in percent of its length.
    buffer_percent: Option<u64>,
}

/// Rates are those of at least this long.
const RATES_OVER: Duration = Duration::from_millis(900);

impl Counting {
    pub(super) fn new(
        drive: Arc<dyn Disk>,
        driver: Option<Arc<BlockDriver>>,
        shown: &str,
        counts: impl Fn() -> Counts + Send + Sync + 'static,
    ) -> Counting {
        Counting {
            counts: Arc::new(counts),
            connection_count: Arc::new(|| 0),
            drive,
            driver,
            shown: shown.to_owned(),
        }
    }

    pub(super) fn with_connections(
        mut self,
        count: impl Fn() -> usize + Send + Sync + 'static,
    ) -> Counting {
        self.connection_count = Arc::new(count);
        self
    }

    pub(super) fn connection_count(&self) -> usize {
        (self.connection_count)()
    }

    /// The line of this server.
    fn line(&self) -> LiveLine {
        let (counting, last) =
            (self.clone(), Arc::new(Mutex::new((Sample::default(), String::new()))));
        LiveLine::new(move |at| {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.1.is_empty() || last.0.at + RATES_OVER <= at {
                let now = counting.sample(at);
                *last = (now, line(&last.0, &now));
            }
            last.1.clone()
        })
    }

    fn sample(&self, at: Duration) -> Sample {
        // A device that is only read has no use for a length of its buffer.
        let status = self.driver.as_ref().map(|driver| driver.status());
        let buffer_percent = status.filter(|status| !status.is_read_only).map(|status| {
            100 * (status.buffered - status.clean).get() / status.buffer_len.get().max(1)
        });
        Sample { at, counts: (self.counts)(), drive: self.drive.counters(), buffer_percent }
    }

    fn metrics(&self, format: MetricsFormat) -> String {
        let Sample { counts, drive, .. } = self.sample(Duration::ZERO);
        let driver = self.driver.as_ref().map(|driver| driver.driver_counters());
        metrics(MetricsText::new(format), &self.shown, &counts, &drive, driver.as_ref())
    }
}

/// `reads 812/s, 51.2 MiB/s; writes 0/s, 0 B/s; flushes 1/s; busy 45 %; buffer 80 %`.
fn line(before: &Sample, now: &Sample) -> String {
    let seconds = (now.at.saturating_sub(before.at)).as_secs_f64().max(0.001);
    let rate = |of: fn(&Counts) -> u64| {
        of(&now.counts).saturating_sub(of(&before.counts)) as f64 / seconds
    };
    let bytes = |of: fn(&Counts) -> u64| ByteSize(rate(of) as u64);
    let mut line = format!(
        "reads {:.0}/s, {}/s; writes {:.0}/s, {}/s; flushes {:.0}/s",
        rate(|c| c.reads),
        bytes(|c| c.read_bytes),
        rate(|c| c.writes),
        bytes(|c| c.written_bytes),
        rate(|c| c.flushes),
    );
    let busy_ns = now.drive.busy_ns.saturating_sub(before.drive.busy_ns);
    if now.drive.busy_ns > 0 {
        line.push_str(&format!("; busy {:.0} %", (busy_ns as f64 / seconds / 1e7).min(100.0)));
    }
    if let Some(percent) = now.buffer_percent {
        line.push_str(&format!("; buffer {percent} %"));
    }
    if now.counts.errors > 0 {
        line.push_str(&format!("; {} errors", now.counts.errors));
    }
    line
}

/// The counters, with the label `drive`.
fn metrics(
    mut text: MetricsText,
    shown: &str,
    counts: &Counts,
    drive: &Counters,
    driver: Option<&DriverCounters>,
) -> String {
    let mut add = |kind, name: &str, unit: &str, help: &str, value: f64| {
        text.family(kind, name, unit, help);
        text.sample(&[("drive", shown)], value);
    };
    let mut count = |name: &str, help: &str, value: u64| {
        let unit = if name.ends_with("_bytes") { "bytes" } else { "" };
        add(MetricKind::Counter, name, unit, help, value as f64);
    };
    count("serve_connections", "Clients that connected.", counts.connections);
    count(
        "serve_turned_away",
        "Clients turned away because too many were there.",
        counts.turned_away,
    );
    count("serve_broken_off", "Connections that ended with an error.", counts.broken_off);
    count("serve_reads", "Reads by clients.", counts.reads);
    count("serve_read_bytes", "Read by clients.", counts.read_bytes);
    count("serve_writes", "Writes by clients.", counts.writes);
    count("serve_written_bytes", "Written by clients.", counts.written_bytes);
    count("serve_flushes", "Flushes by clients.", counts.flushes);
    count("serve_trims", "Trims by clients.", counts.trims);
    count("serve_zeroes", "Requests to write zeros.", counts.zeroes);
    count("serve_errors", "Requests answered with an error.", counts.errors);
    count("drive_reads", "Read requests to the drive.", drive.reads);
    count("drive_writes", "Write requests to the drive.", drive.writes);
    count("drive_flushes", "Flushes of the drive.", drive.flushes);
    count("drive_read_bytes", "Read from the drive.", drive.read_bytes);
    count("drive_written_bytes", "Written to the drive.", drive.written_bytes);
    count("drive_zone_resets", "Zones reset.", drive.zone_resets);
    if let Some(driver) = driver {
        let bytes = |blocks: u64| blocks * imbrex_disk::BLOCK_LEN_BYTES as u64;
        count("driver_cleaned_zones", "Zones emptied by the block driver.", driver.cleaned_zones);
        count("driver_moved_bytes", "Moved by its cleaning.", bytes(driver.moved_blocks));
        count("driver_journal_bytes", "Written to its journal.", bytes(driver.journal_blocks));
        count("driver_checkpoints", "Checkpoints of its map.", driver.checkpoints);
    }
    if drive.busy_ns > 0 {
        let help = "How long the modelled drive was busy.";
        let busy_s = drive.busy_ns as f64 / 1e9;
        add(MetricKind::Counter, "drive_busy_seconds", "seconds", help, busy_s);
    }
    if let Some(driver) = driver {
        let mut gauge = |name: &str, unit: &str, help: &str, value: u64| {
            add(MetricKind::Gauge, name, unit, help, value as f64);
        };
        gauge("driver_free_zones", "", "Zones without data.", driver.free_zones);
        gauge("driver_mapping_nodes", "", "Nodes of its map.", driver.mapping_nodes);
        gauge("driver_buffer_bytes", "bytes", "Memory of its write buffer.", driver.buffer_bytes);
    }
    text.activities("drive", &[(shown, Activities::of(&drive.by_activity))]);
    text.finish()
}

/// The site that a collector asks.
impl Site for Counting {
    fn answer(&self, request: &Request) -> Reply {
        match (&request.path[..], request.is_change) {
            ("/metrics", false) => {
                let format = MetricsFormat::accepted_by(request.accept.as_deref());
                Reply::page(format.media_type(), self.metrics(format).into_bytes())
            }
            _ => Reply::text(404, "here is /metrics"),
        }
    }
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").field("shown", &self.shown).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_rates_since_the_one_before_and_fits() {
        let counts = |reads, errors| Counts {
            reads,
            read_bytes: reads << 20,
            writes: 3 * reads,
            written_bytes: (3 * reads) << 12,
            flushes: reads / 10,
            errors,
            ..Counts::default()
        };
        let at = Duration::from_secs;
        let before = Sample { at: at(10), counts: counts(1_000, 0), ..Sample::default() };
        let mut now = Sample { at: at(12), counts: counts(3_000, 0), ..Sample::default() };
        assert_eq!(
            line(&before, &now),
            "reads 1000/s, 0.98 GiB/s; writes 3000/s, 11.7 MiB/s; flushes 100/s"
        );
        now.drive.busy_ns = 500_000_000;
        now.counts = counts(199_999, 12);
        now.buffer_percent = Some(90);
        let long = line(&before, &now);
        assert!(long.ends_with("; busy 25 %; buffer 90 %; 12 errors"), "{long}");
        assert!(long.len() <= 110, "{long}");
    }
}
