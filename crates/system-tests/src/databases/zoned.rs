//! RocksDB on host-managed zones: the bytes that the drive writes in addition to the database's.
//!
//! A load writes every key once, then overwrites the same number of random keys, at several fills. Two placements are
//! compared: *a zone per level*, and *one log of zones* that is cleaned when less than a fifth of it is free. Two of
//! RocksDB's compaction orders are compared, because they decide which tables die together. The same is then measured
//! with tables as long as a zone, in RocksDB's default order only, because such a table dies with its zone.

use super::db_bench::{PAIR_LEN_BYTES, db_bench, measure, within};
use crate::adapters::build::Built;
use crate::adapters::counters::Counters;
use crate::adapters::session::Session;
use crate::report::Report;
use anyhow::{Result, ensure};
use std::path::Path;

/// The length of RocksDB's tables on zones.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    /// A quarter of a zone.
    Short,
    /// As long as a zone.
    Long,
}

const LAYOUTS: [(&str, &str); 2] =
    [("zone per level", "leveled-zones"), ("one log of zones", "leveled-log")];

/// RocksDB's `compaction_pri`, and its number on `db_bench`'s command line.
const ORDERS: [(&str, u32); 2] = [("round robin", 4), ("min overlap", 3)];

/// The shares of the file space that the pairs take. Level 0, overwritten pairs that are not merged yet, and logs come
/// on top.
const PAIR_PERCENTS: [u64; 5] = [42, 58, 66, 70, 74];

/// With tables as long as a zone there is room for more, because no zone stays half dead.
const LONG_PAIR_PERCENTS: [u64; 4] = [58, 65, 68, 70];

/// A zoned drive, with tables of a quarter of a zone (like 64 MB of 256 MB) or of a whole zone.
struct Scale {
    drive_len_mib: u64,
    zone_len: &'static str,
    table_len_bytes: u64,
    base_level_len_bytes: u64,
    /// Further options of RocksDB.
    options: Vec<String>,
}

const MIB: u64 = 1 << 20;

impl Scale {
    /// A drive with zones of 8 MiB; a longer one has more of them.
    fn run(drive_len_mib: u64) -> Scale {
        Scale {
            drive_len_mib,
            zone_len: "8MiB",
            table_len_bytes: 2_000_000,
            // So that three levels hold what fits.
            base_level_len_bytes: drive_len_mib * MIB / 128,
            options: Vec::new(),
        }
    }

    /// A small drive for the test.
    fn test() -> Scale {
        Scale {
            drive_len_mib: 256,
            zone_len: "2MiB",
            table_len_bytes: 500_000,
            base_level_len_bytes: 2 * MIB,
            options: Vec::new(),
        }
    }

    /// The same drive with tables as long as a zone of `zone_len_mib`.
    fn with_long_tables(self, zone_len_mib: u64) -> Scale {
        let zone_len_bytes = zone_len_mib * MIB;
        // Data that waits for compaction takes room. RocksDB's own bounds of 64 and 256 GB are longer than these drives.
        let options = vec![
            "--level_compaction_dynamic_level_bytes=true".to_owned(),
            format!("--soft_pending_compaction_bytes_limit={}", 4 * zone_len_bytes),
            format!("--hard_pending_compaction_bytes_limit={}", 16 * zone_len_bytes),
        ];
        Scale {
            table_len_bytes: within(zone_len_bytes),
            base_level_len_bytes: 4 * zone_len_bytes,
            options,
            ..self
        }
    }
}

/// The result of a load and its overwrites.
struct Outcome {
    load: Counters,
    overwrite: Counters,
}

/// The drive's written bytes over the file system's, and the work of cleaning.
struct Amplification {
    device: f64,
    cleaned_zones: f64,
    moved_bytes: f64,
}

impl Amplification {
    fn of(counters: &Counters) -> Result<Amplification> {
        Ok(Amplification {
            device: counters.get("written_bytes")? / counters.get("file_written_bytes")?,
            cleaned_zones: counters.get("cleaned_zones")?,
            moved_bytes: counters.get("cleaning_moved_bytes")?,
        })
    }
}

impl Outcome {
    fn fill_percent(of: &Counters) -> Result<f64> {
        Ok(100.0 * of.get("live_bytes")? / of.get("capacity_bytes")?)
    }
}

fn load(
    built: &Built,
    dir: &Path,
    scale: &Scale,
    layout: &'static str,
    order: u32,
    pairs: u64,
    run: u32,
) -> Result<Outcome> {
    let capacity = format!("{}MiB", scale.drive_len_mib);
    let options = ["--capacity", &capacity, "--zone-len", scale.zone_len, "--seed", "1"];
    let session = Session::new(&built.root, dir, layout, &options)?;
    let part = |benchmark: &str, is_old: u32, seed: u32| {
        let mut more = vec![
            format!("--benchmarks={benchmark}"),
            format!("--num={pairs}"),
            format!("--use_existing_db={is_old}"),
            format!("--seed={seed}"),
            format!("--compaction_pri={order}"),
        ];
        more.extend(scale.options.iter().cloned());
        measure(&session, &db_bench(scale.table_len_bytes, scale.base_level_len_bytes, &more))
    };
    let load = part("filluniquerandom,waitforcompaction", 0, 1 + 2 * run)?;
    let overwrite = part("overwrite,waitforcompaction", 1, 2 + 2 * run)?;
    session.remove_drive()?;
    Ok(Outcome { load, overwrite })
}

/// The number of pairs that take `percent` of the drive.
fn pairs(scale: &Scale, percent: u64) -> u64 {
    scale.drive_len_mib * MIB / PAIR_LEN_BYTES * percent / 100
}

/// Every layout, order and fill, as one table for each length of tables.
pub(super) fn run(
    built: &Built,
    dir: &Path,
    runs: u32,
    drive_len_mib: u64,
    tables: Option<Tables>,
    report: &mut Report,
) -> Result<()> {
    let is_asked = |of| tables.is_none_or(|asked| asked == of);
    if is_asked(Tables::Short) {
        let scale = Scale::run(drive_len_mib);
        table(built, dir, runs, &scale, &ORDERS, &PAIR_PERCENTS, report)?;
    }
    if is_asked(Tables::Long) {
        let scale = Scale::run(drive_len_mib).with_long_tables(8);
        table(built, dir, runs, &scale, &ORDERS[1..], &LONG_PAIR_PERCENTS, report)?;
    }
    Ok(())
}

fn table(
    built: &Built,
    dir: &Path,
    runs: u32,
    scale: &Scale,
    orders: &[(&str, u32)],
    percents: &[u64],
    report: &mut Report,
) -> Result<()> {
    let title = format!(
        "RocksDB on a drive of {} MiB in zones of {}, tables of {} bytes",
        scale.drive_len_mib, scale.zone_len, scale.table_len_bytes
    );
    report.table(
        &title,
        &[
            "placement",
            "tables go down by",
            "pairs, % of the drive",
            "full after load, overwrites, %",
            "device WA, load",
            "overwrites",
            "zones cleaned",
            "moved, MB",
            "zones reset",
            "pairs/s of the drive's time",
        ],
    );
    for (placement, layout) in LAYOUTS {
        for &(order_name, order) in orders {
            for &percent in percents {
                for run in 0..runs {
                    let count = pairs(scale, percent);
                    let name = [placement, order_name].map(str::to_owned);
                    let found = load(built, dir, scale, layout, order, count, run);
                    let cells = match &found {
                        Ok(outcome) => cells(outcome, count)?,
                        // What does not fit ends the program: the row says so.
                        Err(error) => vec![format!("failed: {}", last_line(&format!("{error:#}")))],
                    };
                    report.row([&name[..], &[percent.to_string()], &cells].concat());
                }
            }
        }
    }
    Ok(())
}

fn last_line(text: &str) -> String {
    // `db_bench` overwrites its progress line.
    let mut lines = text.split(['\n', '\r']).map(str::trim);
    lines.rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

fn cells(outcome: &Outcome, pairs: u64) -> Result<Vec<String>> {
    let all = outcome.load.then(&outcome.overwrite);
    let (first, later) =
        (Amplification::of(&outcome.load)?, Amplification::of(&outcome.overwrite)?);
    let both = Amplification::of(&all)?;
    Ok(vec![
        format!(
            "{:.0}, {:.0}",
            Outcome::fill_percent(&outcome.load)?,
            Outcome::fill_percent(&outcome.overwrite)?
        ),
        format!("{:.3}", first.device),
        format!("{:.3}", later.device),
        format!("{:.0}", both.cleaned_zones),
        format!("{:.0}", both.moved_bytes / 1e6),
        format!("{:.0}", all.get("reset_zones")?),
        format!("{:.0}", 2.0 * pairs as f64 / (all.get("busy_ns")? / 1e9)),
    ])
}

/// On a small drive: a zone per level needs no cleaning where one log of zones does, in round robin with short tables
/// and in RocksDB's default order with tables as long as a zone.
pub(super) fn test(built: &Built, dir: &Path) -> Result<()> {
    let [(_, round_robin), (_, usual)] = ORDERS;
    // The excess over 1 is the catalog's; it is smaller for long tables.
    let short = ("tables of a quarter", Scale::test(), round_robin, 45, 1.03);
    let long = ("tables of a zone", Scale::test().with_long_tables(2), usual, 60, 1.01);
    for (what, scale, order, percent, device_most) in [short, long] {
        let of = |layout| {
            let outcome = load(built, dir, &scale, layout, order, pairs(&scale, percent), 0)?;
            Amplification::of(&outcome.load.then(&outcome.overwrite))
        };
        let (zones, log) = (of("leveled-zones")?, of("leveled-log")?);
        println!(
            "  RocksDB on zones, {what}: device WA {:.3}, {} zones cleaned; on one log {:.3}, {}",
            zones.device, zones.cleaned_zones, log.device, log.cleaned_zones
        );
        ensure!(
            zones.cleaned_zones == 0.0,
            "{what}: {} zones were cleaned though the drive was not full",
            zones.cleaned_zones
        );
        ensure!(
            zones.device < device_most,
            "{what}: the drive wrote {:.3} times what it was given",
            zones.device
        );
        ensure!(log.cleaned_zones > 0.0, "one log of zones cleaned none: the test tests nothing");
    }
    Ok(())
}
