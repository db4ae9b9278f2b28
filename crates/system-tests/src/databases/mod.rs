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

mod db_bench;
mod interlaced;
mod mixes;
mod zoned;

use crate::adapters::build::{Built, Database, build};
use crate::report::{DataArgs, Report};
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use zoned::Tables;

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

/// Arguments of `cargo xtask databases`.
#[derive(clap::Args, Debug)]
pub struct Args {
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
    #[command(flatten)]
    data: DataArgs,
}

/// Measures and prints Markdown.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    ensure!(args.runs > 0, "--runs is 0, so there is nothing to do");
    let is_of_rocksdb = matches!(args.figure, Figure::Zoned | Figure::Mixes | Figure::LongerTables);
    let only = if is_of_rocksdb { Some(Database::Rocksdb) } else { args.only };
    let is_rocksdb = args.only.is_none_or(|only| only == Database::Rocksdb);
    ensure!(!is_of_rocksdb || is_rocksdb, "{:?} is measured with RocksDB only", args.figure);
    let is_once = matches!(args.figure, Figure::Mixes | Figure::LongerTables);
    ensure!(!is_once || args.runs == 1, "{:?} is run once; omit --runs", args.figure);
    let mut report = Report::new(&args.data)?;
    let Some(built) = build(root, false, only)? else { return Ok(()) };
    let dir = args.dir.clone().unwrap_or_else(|| root.join("target/adapters/databases"));
    match args.figure {
        Figure::Interlaced => interlaced::run(&built, &dir, args.runs, &mut report)?,
        Figure::Mixes => mixes::run(&built, &dir, &mut report)?,
        Figure::LongerTables => mixes::run_longer_tables(&built, &dir, &mut report)?,
        Figure::Zoned => {
            let (runs, drive_len_mib) = (args.runs, args.zoned_mib);
            zoned::run(&built, &dir, runs, drive_len_mib, args.tables, &mut report)?;
        }
        Figure::Test => return test(&built, &dir),
    }
    report.write(root)
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
