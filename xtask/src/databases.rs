//! The databases themselves, unmodified, on emulated drives: what a load takes of the drive's time.
//!
//! ```text
//!   imbrex drive create DRIVE --layout ...        one drive a run, deleted afterwards
//!   imbrex run --drive DRIVE --report FILE -- db_bench ...
//!                                        \--> counters of the drive and of the file layer --> Markdown
//! ```
//!
//! Threads decide in which order tables are written, so no two runs are the same: `--runs` says how often,
//! and a rate is shown with the least and the most. All times are the emulated drive's; how fast this
//! machine is changes only how far compaction lags behind the load.
//!
//! A small one of each is part of `cargo xtask adapters`.

mod interlaced;
mod mixes;
mod zoned;

use crate::adapters::{self, Built, Database, Session};
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};

/// What to measure.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// KVIMR's load: each database on interlaced tracks in four schemes, and where nothing overlaps.
    Interlaced,
    /// KVIMR's reads and writes mixed after the load, by RocksDB on interlaced tracks.
    Mixes,
    /// KVIMR's load by RocksDB with tables up to eight times as long.
    LongerTables,
    /// RocksDB on host-managed zones: a zone per level beside one log of zones, at several fills.
    Zoned,
    /// Small ones of both, whose outcome is known: what `cargo xtask adapters` ends with.
    Test,
}

/// How long RocksDB's tables are on zones.
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
    /// Only this database.
    #[arg(long, value_name = "DATABASE")]
    only: Option<Database>,
    /// How often each load is run.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// How long the zoned drive is, in MiB: in zones of 8 MiB, so a longer one has more of them.
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    zoned_mib: u64,
    /// On zones, only tables of this length [default: one after the other].
    #[arg(long, value_name = "LENGTH")]
    tables: Option<Tables>,
    /// Where to make the drives, of 2 to 4 GB each; nothing is left there [default: under target].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Measures and prints Markdown.
pub(crate) fn run(root: &Path, args: &Args) -> Result<()> {
    ensure!(args.runs > 0, "--runs is 0: there is nothing to do");
    let is_of_rocksdb = matches!(args.figure, Figure::Zoned | Figure::Mixes | Figure::LongerTables);
    let only = if is_of_rocksdb { Some(Database::Rocksdb) } else { args.only };
    let is_rocksdb = args.only.is_none_or(|only| only == Database::Rocksdb);
    ensure!(!is_of_rocksdb || is_rocksdb, "{:?} is measured with RocksDB alone", args.figure);
    let is_once = matches!(args.figure, Figure::Mixes | Figure::LongerTables);
    ensure!(
        !is_once || args.runs == 1,
        "{:?} is run once; --runs does not go with it",
        args.figure
    );
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

/// Small ones, whose outcome is known.
pub(crate) fn test(built: &Built, dir: &Path) -> Result<()> {
    interlaced::test(built, dir)?;
    if built.rocksdb {
        mixes::test(built, dir)?;
        zoned::test(built, dir)?;
    }
    Ok(())
}

/// A pair is 1 KB, 16 bytes of it the key.
const PAIR_LEN_BYTES: u64 = 1024;

/// `db_bench` on `/db` with pairs of 1 KB, as KVIMR sets RocksDB up.
fn db_bench(table_len_bytes: u64, base_level_len_bytes: u64, more: &[String]) -> Vec<String> {
    let usual = [
        "db_bench",
        "--db=/db",
        "--key_size=16",
        "--value_size=1008",
        "--compression_type=none",
        "--bloom_bits=10",
        "--compaction_readahead_size=2097152",
        // The paper's 20 and 36 memtables would fill a drive as small as these.
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

/// What a table may hold so that with its index and filter it fits `len_bytes`.
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

/// The mean of `values`, and the least and the most where there are several.
fn with_range(values: &[f64]) -> String {
    let fold = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap_or(0.0);
    match values {
        [only] => format!("{only:.0}"),
        _ => format!("{:.0} ({:.0} to {:.0})", mean(values), fold(f64::min), fold(f64::max)),
    }
}
