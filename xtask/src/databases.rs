//! Unmodified databases on emulated drives: the drive's time for a load.
//!
//! ```text
//!   imbrex drive create DRIVE --layout ...        one drive a run, deleted afterwards
//!   imbrex run --drive DRIVE --report FILE -- db_bench ...
//!                                        \--> counters of the drive and of the file layer --> Markdown
//! ```
//!
//! Threads decide the order in which tables are written, so no two runs are equal. `--runs` sets their number,
//! and a rate is shown with its minimum and maximum. All times are the emulated drive's. The speed of this
//! machine only affects how far compaction lags behind the load.
//!
//! A small measurement of each is part of `cargo xtask adapters`.

mod interlaced;
mod mixes;
mod zoned;

use crate::adapters::{self, Built, Database, Session};
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};

/// The measurements.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// KVIMR's load: each database on interlaced tracks in four schemes, and on a drive without overlap.
    Interlaced,
    /// KVIMR's mixed reads and writes after the load, by RocksDB on interlaced tracks.
    Mixes,
    /// KVIMR's load by RocksDB with tables up to eight times as long.
    LongerTables,
    /// RocksDB on host-managed zones: a zone per level, compared with one log of zones, at several fills.
    Zoned,
    /// Small loads with a known outcome: the last step of `cargo xtask adapters`.
    Test,
}

/// The length of RocksDB's tables on zones.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    /// A quarter of a zone.
    Short,
    /// As long as a zone.
    Long,
}

/// Arguments of `cargo xtask databases`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    figure: Figure,
    /// Measure only this database.
    #[arg(long, value_name = "DATABASE")]
    only: Option<Database>,
    /// Number of runs of each load.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Capacity of the zoned drive in MiB, in zones of 8 MiB.
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    zoned_mib: u64,
    /// On zones, use only this table length [default: both, one after the other].
    #[arg(long, value_name = "LENGTH")]
    tables: Option<Tables>,
    /// Directory for the drives of 2 to 4 GB each, which are removed at the end [default: under target].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Measures and prints Markdown.
pub(crate) fn run(root: &Path, args: &Args) -> Result<()> {
    ensure!(args.runs > 0, "--runs is 0, so there is nothing to do");
    let is_of_rocksdb = matches!(args.figure, Figure::Zoned | Figure::Mixes | Figure::LongerTables);
    let only = if is_of_rocksdb { Some(Database::Rocksdb) } else { args.only };
    let is_rocksdb = args.only.is_none_or(|only| only == Database::Rocksdb);
    ensure!(!is_of_rocksdb || is_rocksdb, "{:?} is measured with RocksDB only", args.figure);
    let is_once = matches!(args.figure, Figure::Mixes | Figure::LongerTables);
    ensure!(!is_once || args.runs == 1, "{:?} is run once; omit --runs", args.figure);
    let Some(built) = adapters::build(root, false, only)? else { return Ok(()) };
    let dir = args.dir.clone().unwrap_or_else(|| root.join("target/adapters/databases"));
    match args.figure {
        Figure::Interlaced => interlaced::run(&built, &dir, args.runs),
        Figure::Mixes => mixes::run(&built, &dir),
        Figure::LongerTables => mixes::run_longer_tables(&built, &dir),
        Figure::Zoned => zoned::run(&built, &dir, args.runs, args.zoned_mib, args.tables),
        Figure::Test => test(&built, &dir),
    }
}

/// Runs small loads with a known outcome.
pub(crate) fn test(built: &Built, dir: &Path) -> Result<()> {
    interlaced::test(built, dir)?;
    if built.rocksdb {
        mixes::test(built, dir)?;
        zoned::test(built, dir)?;
    }
    Ok(())
}

/// A pair has 1 KB, including a key of 16 bytes.
const PAIR_LEN_BYTES: u64 = 1024;

/// `db_bench` on `/db` with pairs of 1 KB, with KVIMR's settings of RocksDB.
fn db_bench(table_len_bytes: u64, base_level_len_bytes: u64, more: &[String]) -> Vec<String> {
    let usual = [
        "db_bench",
        "--db=/db",
        "--key_size=16",
        "--value_size=1008",
        "--compression_type=none",
        "--bloom_bits=10",
        "--compaction_readahead_size=2097152",
        // The paper's 20 and 36 memtables would fill these small drives.
        "--level0_file_num_compaction_trigger=4",
        "--level0_slowdown_writes_trigger=8",
        "--level0_stop_writes_trigger=12",
    ];
    let lens = [
        format!("--write_buffer_size={table_len_bytes}"),
        format!("--target_file_size_base={table_len_bytes}"),
        format!("--max_bytes_for_level_base={base_level_len_bytes}"),
    ];
    usual.iter().map(|&arg| arg.to_owned()).chain(lens).chain(more.iter().cloned()).collect()
}

/// The data length of a table that fits `len_bytes` with its index and filter.
fn within(len_bytes: u64) -> u64 {
    len_bytes - len_bytes / 32
}

fn measure(session: &Session, program: &[String]) -> Result<adapters::counters::Counters> {
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    session.measure(&program)
}

/// A row of a Markdown table.
fn row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

fn header(cells: &[&str]) {
    row(&cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>());
    println!("|{}", "---|".repeat(cells.len()));
}

/// The mean of `values`.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The mean of `values`, with the minimum and the maximum if there are several.
fn with_range(values: &[f64]) -> String {
    let fold = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap_or(0.0);
    match values {
        [only] => format!("{only:.0}"),
        _ => format!("{:.0} ({:.0} to {:.0})", mean(values), fold(f64::min), fold(f64::max)),
    }
}
