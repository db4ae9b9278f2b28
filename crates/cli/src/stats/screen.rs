//! What `stats` prints for people: what the store holds, what it did, and what its drive did, on one screen.
//!
//! A line whose numbers are all 0 is left out. `--all` prints every counter instead.

use crate::amplification::{Amplification, ratio_text};
use crate::count::{counted, grouped};
use crate::output::Table;
use crate::store::Store;
use imbrex_disk::ByteSize;
use imbrex_disk_sim::flash_wear_ratio;
use imbrex_engine::inspect::{KeyspaceMetrics, PartitionTotals, StallMetrics};
use imbrex_engine::{Metrics, Total, Totals};
use imbrex_files::{Activity, Files, SpaceUse};

/// With more lines than this in the first section, each keyspace gets one line.
const LEVEL_LINE_COUNT_MAX: usize = 12;
/// The most keyspaces that are listed.
const KEYSPACE_COUNT_MAX: usize = 8;

/// The three sections.
pub(super) fn screen(store: &Store) -> String {
    let metrics = store.db.metrics();
    let totals = [store.db.totals_since_opening(), store.db.totals_of_lifetime()];
    let mut text = holds(store, &metrics);
    text.push_str(&store_did(&totals, &metrics.stalls));
    text.push_str(&drive_did(&totals));
    if let Some(flash) = store.tiers.as_ref().and_then(|tiers| tiers.flash()) {
        text.push_str(&flash_did(&totals, flash.disk().geometry().len().bytes()));
    }
    for set_aside in &metrics.tables_set_aside {
        text.push_str(&format!("\nleft out by compactions: {set_aside}\n"));
    }
    text
}

fn bytes(len_bytes: u64) -> String {
    ByteSize(len_bytes).to_string()
}

/// What is in the store and on the drive.
fn holds(store: &Store, metrics: &Metrics) -> String {
    let mut table = Table::new(&["the store holds", ""]);
    let mut row = |name: &str, text: String| table.row(vec![format!("  {name}"), text]);
    row("layout", store.layout.name().to_owned());
    let all = metrics.keyspaces.iter();
    let line_count: usize = all.clone().map(|keyspace| keyspace.levels.len() + 3).sum();
    for keyspace in all.clone().take(KEYSPACE_COUNT_MAX) {
        let lines = if line_count <= LEVEL_LINE_COUNT_MAX { level_lines(keyspace) } else { vec![] };
        row(&format!("keyspace {}", keyspace.name), in_all(keyspace));
        lines.into_iter().for_each(|(name, text)| row(&format!("  {name}"), text));
        let apart = keyspace.values_apart;
        if apart.file_count > 0 {
            let (live, all) = (bytes(apart.live_bytes), bytes(apart.len_bytes));
            let files = counted(apart.file_count as u64, "file");
            row("  values apart", format!("{live} live in {files} of {all}"));
        }
    }
    if let Some(more) = metrics.keyspaces.len().checked_sub(KEYSPACE_COUNT_MAX).filter(|&n| n > 0) {
        row("", format!("and {}; --all lists them", counted(more as u64, "more keyspace")));
    }
    row("space", space(&store.files.space()));
    let pins = store.db.pins();
    if pins.checkpoints_len_bytes > 0 {
        let count = counted(pins.checkpoints.len() as u64, "checkpoint");
        row("", format!("{} are live only for {count}", bytes(pins.checkpoints_len_bytes)));
    }
    if let Some(stats) = store.tiers.as_ref().and_then(|tiers| tiers.tier_stats()) {
        row(
            "flash drive",
            format!("{}; {}", counted(stats.file_count, "file"), space(&stats.space)),
        );
    }
    table.text()
}

/// A keyspace in one line.
fn in_all(keyspace: &KeyspaceMetrics) -> String {
    let sum = |of: fn(&imbrex_engine::inspect::LevelMetrics) -> u64| {
        keyspace.levels.iter().map(of).sum::<u64>()
    };
    let mut text = format!(
        "{} in {}, {}",
        bytes(sum(|level| level.len_bytes)),
        counted(sum(|level| level.table_count as u64), "table"),
        entries(sum(|level| level.entry_count))
    );
    if keyspace.memtable_len_bytes > 0 {
        text.push_str(&format!("; {} in memory", bytes(keyspace.memtable_len_bytes)));
    }
    text
}

fn entries(count: u64) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{} entries", grouped(count)) }
}

/// The levels of a keyspace, and its partitions in sums.
fn level_lines(keyspace: &KeyspaceMetrics) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for level in &keyspace.levels {
        lines.push((
            format!("level {}", level.level),
            format!(
                "{} in {}, {}",
                bytes(level.len_bytes),
                counted(level.table_count as u64, "table"),
                counted(level.run_count as u64, "sorted run")
            ),
        ));
    }
    if let Some(own) = &keyspace.partitions {
        let totals = PartitionTotals::of(&own.shapes);
        let mut text = counted(own.shapes.len() as u64, "partition");
        if totals.dead_len_bytes_max > 0 {
            text.push_str(&format!(
                ", at most {} dead in tables",
                bytes(totals.dead_len_bytes_max)
            ));
        }
        lines.push(("base".to_owned(), text));
        if let Some(wait) = own.base_merge.as_ref().and_then(|merge| merge.wait.as_ref()) {
            lines.push(("base merge".to_owned(), format!("waits for {wait}")));
        }
    }
    lines
}

fn space(space: &SpaceUse) -> String {
    let parts =
        [(space.live_bytes, "live"), (space.dead_bytes, "dead"), (space.free_bytes, "free")];
    let parts = parts.iter().filter(|(len_bytes, _)| *len_bytes > 0);
    let parts: Vec<_> =
        parts.map(|(len_bytes, what)| format!("{} {what}", bytes(*len_bytes))).collect();
    format!("{} for files: {}", bytes(space.capacity_bytes), parts.join(", "))
}

/// A table with a column for each of the two periods.
struct Periods<'a> {
    totals: &'a [Totals; 2],
    table: Table,
    is_empty: bool,
}

impl<'a> Periods<'a> {
    fn new(title: &str, totals: &'a [Totals; 2]) -> Periods<'a> {
        let table = Table::new(&[title, "since opening", "in its lifetime"]);
        Periods { totals, table, is_empty: true }
    }

    /// Adds a line, unless `of` returns `None` for both periods.
    fn line(&mut self, name: &str, of: impl Fn(&Totals) -> Option<String>) {
        let cells = self.totals.each_ref().map(of);
        if cells.iter().any(Option::is_some) {
            let [since, lifetime] = cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
            self.table.row(vec![format!("  {name}"), since, lifetime]);
            self.is_empty = false;
        }
    }

    fn count(&mut self, name: &str, total: Total) {
        self.line(name, |totals| {
            Some(grouped(totals.get(total))).filter(|_| totals.get(total) > 0)
        });
    }

    fn bytes(&mut self, name: &str, total: Total) {
        self.line(name, |totals| Some(bytes(totals.get(total))).filter(|_| totals.get(total) > 0));
    }

    /// Adds a line with a count and what it amounts to.
    fn both(&mut self, name: &str, count: Total, amount: Total, shown: fn(u64) -> String) {
        self.line(name, |totals| {
            let (count, amount) = (totals.get(count), totals.get(amount));
            (count > 0).then(|| format!("{}, {}", grouped(count), shown(amount)))
        });
    }

    /// Adds the two lines of a write amplification.
    fn ratios(&mut self, of: fn(&Totals) -> Amplification) {
        for (at, name) in ["written per user byte, with log", "  without log"].iter().enumerate() {
            self.line(name, |totals| of(totals).ratios()[at].map(|ratio| ratio_text(Some(ratio))));
        }
    }

    fn text(self) -> String {
        if self.is_empty { String::new() } else { format!("\n{}", self.table.text_right()) }
    }
}

fn seconds(ns: u64) -> String {
    match ns as f64 / 1e9 {
        s if s < 10.0 => format!("{s:.3} s"),
        s if s < 6000.0 => format!("{s:.1} s"),
        s => format!("{:.1} h", s / 3600.0),
    }
}

fn store_did(totals: &[Totals; 2], stalls: &StallMetrics) -> String {
    let mut did = Periods::new("the store did", totals);
    did.both("user writes", Total::UserWrites, Total::UserBytes, bytes);
    did.bytes("log", Total::LogBytes);
    did.both("flushes, written", Total::Flushes, Total::FlushedBytes, bytes);
    did.count("compactions", Total::Compactions);
    did.count("  of them moves", Total::Moves);
    did.bytes("  read", Total::CompactionRead);
    did.bytes("  written", Total::CompactionWritten);
    did.ratios(Amplification::of_store);
    did.both("waits, stopped", Total::Stops, Total::StopNs, seconds);
    did.both("waits, slowed down", Total::Slowdowns, Total::SlowdownNs, seconds);
    did.both("waits for flash", Total::OffloadDelays, Total::OffloadDelayNs, seconds);
    if stalls.count > 0 {
        did.line("  half, 99 %, longest within", |period| {
            let is_now = std::ptr::eq(period, &totals[0]);
            let times = [stalls.p50_ns, stalls.p99_ns, stalls.max_ns].map(seconds);
            is_now.then(|| times.join(", "))
        });
    }
    did.bytes("offloaded to flash", Total::OffloadedBytes);
    did.text()
}

fn drive_did(totals: &[Totals; 2]) -> String {
    let mut did = Periods::new("the drive did", totals);
    did.both("reads", Total::DriveReads, Total::DriveReadBytes, bytes);
    did.both("writes", Total::DriveWrites, Total::DriveWrittenBytes, bytes);
    did.bytes("  for the catalog", Total::CatalogBytes);
    did.bytes("  moved by cleaning", Total::CleaningMoved);
    did.bytes("  moved for tracks", Total::RewrittenBytes);
    did.bytes("  by translation", Total::TranslationWritten);
    did.count("zones cleaned", Total::CleanedZones);
    did.count("zones reset", Total::ResetZones);
    did.count("flushes", Total::DriveFlushes);
    did.count("seeks", Total::Seeks);
    did.line("busy", |totals| {
        Some(seconds(totals.get(Total::BusyNs))).filter(|_| totals.get(Total::BusyNs) > 0)
    });
    did.line("  seek, turn, transfer", |totals| {
        let busy_ns = totals.get(Total::BusyNs);
        let parts = [Total::SeekNs, Total::TurnNs, Total::TransferNs];
        let percent = |part: Total| (totals.get(part) as f64 * 100.0 / busy_ns as f64).round();
        parts.iter().any(|part| totals.get(*part) > 0).then(|| {
            let [seek, turn, transfer] = parts.map(percent);
            format!("{seek}, {turn}, {transfer} %")
        })
    });
    did.line("  for user reads, log, flush", |totals| {
        shares(totals, &[Activity::User, Activity::Log, Activity::Flush])
    });
    did.line("  compaction, cleaning, catalog", |totals| {
        shares(totals, &[Activity::Compaction, Activity::Cleaning, Activity::Catalog])
    });
    did.ratios(Amplification::of_drive);
    did.line("user writes per busy second", |totals| {
        let (count, ns) = (totals.get(Total::UserWrites), totals.get(Total::BusyNs));
        (count > 0 && ns > 0).then(|| grouped((count as f64 / (ns as f64 / 1e9)) as u64))
    });
    did.text()
}

/// The shares of `activities` in the drive's busy time, as far as it is known what it served.
fn shares(totals: &Totals, activities: &[Activity]) -> Option<String> {
    let ns_of = |activity: &Activity| totals.get(Total::busy_for(*activity));
    let known_ns: u64 = Activity::ALL.iter().map(ns_of).sum();
    let percent = |activity| (ns_of(activity) as f64 * 100.0 / known_ns as f64).round();
    let shares: Vec<String> = activities.iter().map(|a| percent(a).to_string()).collect();
    activities
        .iter()
        .any(|activity| ns_of(activity) > 0)
        .then(|| format!("{} %", shares.join(", ")))
}

/// What was written to a flash drive of `len_bytes`, which it wears.
fn flash_did(totals: &[Totals; 2], len_bytes: u64) -> String {
    let mut did = Periods::new("the flash drive did", totals);
    did.bytes("writes", Total::FlashWrittenBytes);
    did.line("wear, of its writes", |totals| {
        let written_bytes = totals.get(Total::FlashWrittenBytes);
        let ratio = flash_wear_ratio(written_bytes, len_bytes);
        (written_bytes > 0).then(|| format!("{:.4} %", ratio * 100.0))
    });
    did.count("files without room", Total::FlashFallbacks);
    did.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex::stack::{Layout, Stack};
    use imbrex_clockwork::Runtime;
    use imbrex_disk::Blocks;
    use imbrex_disk_sim::SimDisk;
    use std::path::PathBuf;
    use std::sync::Arc;

    fn stall() -> StallMetrics {
        let (count, total_ns) = (3, 30_000_000);
        StallMetrics { count, total_ns, p50_ns: 2_000_000, p99_ns: 9_000_000, max_ns: 25_000_000 }
    }

    #[test]
    fn a_line_of_zeros_is_left_out_and_percentiles_are_since_the_opening() {
        let empty = [Totals::default(), Totals::default()];
        assert_eq!(store_did(&empty, &StallMetrics::default()), "");
        assert_eq!(drive_did(&empty), "");
        assert_eq!(flash_did(&empty, 1 << 30), "");
        assert!(
            store_did(&empty, &stall()).contains("0.002 s, 0.009 s, 0.025 s  "),
            "{}",
            store_did(&empty, &stall())
        );
    }

    #[test]
    fn an_old_and_busy_store_fits_a_screen() {
        let layout = Layout::by_name("leveled-zones").unwrap();
        let sim = Arc::new(SimDisk::tiny_zoned(64, Blocks::new(256)));
        let Stack { layout, bands, disk, files, tiers, db, .. } =
            layout.format(sim, &Runtime::threads(1)).unwrap();
        let store = Store { path: PathBuf::from("d"), layout, bands, disk, files, tiers, db };
        for n in 0..2_000_u32 {
            store.db.default_keyspace().put(n.to_be_bytes(), [7; 300]).unwrap();
        }
        store.db.flush().unwrap();
        let text = screen(&store);
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!((16..=40).contains(&text.lines().count()) && longest <= 80, "{text}");
        for line in ["1 sorted run\n", "  user writes ", "written per user byte, with log"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let is_zero = |cell: &str| ["0", "0 B"].contains(&cell.trim());
        assert!(!text.lines().any(|line| line.split("  ").any(is_zero)), "{text}");
    }
}
