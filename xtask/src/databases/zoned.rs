//! RocksDB on host-managed zones: what the drive writes beyond what the database does.
//!
//! A load of every key once, then as many overwrites of random keys, at several fills. What is compared: *a
//! zone per level*, and *one log of zones* that is cleaned when less than a fifth of it is free; and two
//! of RocksDB's own orders in which tables go down, because they decide which tables die together.

use super::{db_bench, header, measure, row};
use crate::adapters::counters::Counters;
use crate::adapters::{Built, Session};
use anyhow::{Result, ensure};
use std::path::Path;

const LAYOUTS: [(&str, &str); 2] =
    [("zone per level", "leveled-zones"), ("one log of zones", "leveled-log")];

/// RocksDB's `compaction_pri`, and its number on `db_bench`'s command line.
const ORDERS: [(&str, u32); 2] = [("round robin", 4), ("min overlap", 3)];

/// Of what files may use, the shares that pairs take. Level 0, what is overwritten and not yet
/// merged, and logs come on top.
const PAIR_PERCENTS: [u64; 5] = [42, 58, 66, 70, 74];

/// A drive in zones, and tables of a quarter of one, as 64 MB are of 256 MB.
struct Scale {
    drive_len_mib: u64,
    zone_len: &'static str,
    table_len_bytes: u64,
    base_level_len_bytes: u64,
}

const MIB: u64 = 1 << 20;

impl Scale {
    /// In zones of 8 MiB, of which a longer drive has more.
    fn run(drive_len_mib: u64) -> Scale {
        Scale {
            drive_len_mib,
            zone_len: "8MiB",
            table_len_bytes: 2_000_000,
            // So that three levels hold what fits.
            base_level_len_bytes: drive_len_mib * MIB / 128,
        }
    }
}

const TEST: Scale = Scale {
    drive_len_mib: 256,
    zone_len: "2MiB",
    table_len_bytes: 500_000,
    base_level_len_bytes: 2 * MIB,
};

/// What a load and its overwrites came to.
struct Outcome {
    load: Counters,
    overwrite: Counters,
}

/// What the drive wrote over what the file system was given, and what cleaning did.
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
        let more = [
            format!("--benchmarks={benchmark}"),
            format!("--num={pairs}"),
            format!("--use_existing_db={is_old}"),
            format!("--seed={seed}"),
            format!("--compaction_pri={order}"),
        ];
        measure(&session, &db_bench(scale.table_len_bytes, scale.base_level_len_bytes, &more))
    };
    let load = part("filluniquerandom,waitforcompaction", 0, 1 + 2 * run)?;
    let overwrite = part("overwrite,waitforcompaction", 1, 2 + 2 * run)?;
    session.remove_drive()?;
    Ok(Outcome { load, overwrite })
}

/// How many pairs take `percent` of the drive.
fn pairs(scale: &Scale, percent: u64) -> u64 {
    scale.drive_len_mib * MIB / super::PAIR_LEN_BYTES * percent / 100
}

/// Every layout, order and fill, as one table.
pub(super) fn run(built: &Built, dir: &Path, runs: u32, drive_len_mib: u64) -> Result<()> {
    let scale = Scale::run(drive_len_mib);
    println!(
        "\nRocksDB on a drive of {} MiB in zones of {}.\n",
        scale.drive_len_mib, scale.zone_len
    );
    header(&[
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
    ]);
    for (placement, layout) in LAYOUTS {
        for (order_name, order) in ORDERS {
            for percent in PAIR_PERCENTS {
                for run in 0..runs {
                    let count = pairs(&scale, percent);
                    let name = [placement, order_name].map(str::to_owned);
                    let found = load(built, dir, &scale, layout, order, count, run);
                    let cells = match &found {
                        Ok(outcome) => cells(outcome, count)?,
                        // What does not fit ends the program: the row says so.
                        Err(error) => vec![format!("failed: {}", last_line(&format!("{error:#}")))],
                    };
                    row(&[&name[..], &[percent.to_string()], &cells].concat());
                }
            }
        }
    }
    Ok(())
}

fn last_line(text: &str) -> String {
    // `db_bench` overwrites its progress.
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

/// On a small drive: a zone per level cleans nothing where one log of zones does.
pub(super) fn test(built: &Built, dir: &Path) -> Result<()> {
    let count = pairs(&TEST, 45);
    let of = |layout| {
        let outcome = load(built, dir, &TEST, layout, ORDERS[0].1, count, 0)?;
        Amplification::of(&outcome.load.then(&outcome.overwrite))
    };
    let (zones, log) = (of("leveled-zones")?, of("leveled-log")?);
    println!(
        "  RocksDB on zones: device WA {:.3}, {} zones cleaned; on one log of them {:.3}, {}",
        zones.device, zones.cleaned_zones, log.device, log.cleaned_zones
    );
    // The catalog is what is left above 1.
    ensure!(
        zones.cleaned_zones == 0.0,
        "{} zones were cleaned though the drive was not full",
        zones.cleaned_zones
    );
    ensure!(zones.device < 1.03, "the drive wrote {:.3} times what it was given", zones.device);
    ensure!(log.cleaned_zones > 0.0, "one log of zones cleaned none: the test tests nothing");
    Ok(())
}
