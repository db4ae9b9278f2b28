//! `stress`: RocksDB and LevelDB on emulated drives, through many kills and power cuts.
//!
//! ```text
//!   seed, layout:  a new drive, then lives of adapters/{rocksdb,leveldb}/stress_program.cc; a life ends
//!     killed    by signal 9 after the program has reported a number of batches; half of the time the drive
//!               also loses the unflushed part of its cache
//!     cut       because the drive loses its power at a device event and keeps a part of its cache; every
//!               later call of the program fails, and it ends
//!     closed    by itself
//!     full      because the drive is full; on a small drive a life may end early, or not begin
//!   Each life first judges the state that the previous one left. If a drive is too full to be opened for
//!   writing, its last life only reads; a database that must write to open (LevelDB) is reported as not judged.
//! ```
//!
//! A seed decides the options, the batches and the kinds of death, but not how threads interleave. A failure may
//! not recur, so the drive is kept as it was before the life that failed.
//!
//! Not here: the expected state of the database (`adapters/stress/state.h`), the state after a power cut
//! (`disk-sim`).

mod life;

use crate::adapters::build::{self, build};
use crate::cargo;
use crate::program::make_drive;
use crate::random::Random;
use crate::report::{DataArgs, Report};
use anyhow::{Context, Result, bail, ensure};
use imbrex_results::Table;
use life::{Death, Life};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The layouts, with the capacity of their drives in MiB and further options. The drives are so small that their
/// space is reused many times. Every fourth seed has a quarter of the capacity, which its writes may fill.
const DRIVES: [(&str, u64, &[&str]); 6] = [
    ("leveled-zones", 256, &["--zone-len", "1MiB"]),
    ("leveled-first-fit", 128, &["--rule", "conventional"]),
    // Tables here are 1/100 of SEALDB's, so the guards between them must be too.
    ("sealdb", 512, &["--track-len", "64KiB", "--overlap-tracks", "4"]),
    ("imr-m", 256, &[]),
    ("imr-3phase", 256, &[]),
    ("leveled-log", 256, &["--zone-len", "1MiB"]),
];

/// The number of lives of one drive.
const LIVES: u64 = 16;

/// The databases with a stress program.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Rocksdb,
    Leveldb,
}

impl Database {
    /// The program and the library of its adapter.
    fn programs(self) -> (&'static str, &'static str) {
        match self {
            Database::Rocksdb => ("stress_program", "libimbrex_rocksdb.so"),
            Database::Leveldb => ("leveldb_stress", "libimbrex_leveldb.so"),
        }
    }

    /// The directory of its adapter.
    fn adapter(self) -> build::Database {
        match self {
            Database::Rocksdb => build::Database::Rocksdb,
            Database::Leveldb => build::Database::Leveldb,
        }
    }
}

/// Arguments of `cargo xtask stress`.
#[derive(clap::Args, Debug)]
pub struct StressArgs {
    /// Number of seeds for each layout
    #[arg(long, default_value_t = 5, conflicts_with_all = ["minutes", "seed"])]
    seeds: u64,
    /// Run seeds until this many minutes have passed
    #[arg(long, conflicts_with = "seed")]
    minutes: Option<u64>,
    /// First seed
    #[arg(long, default_value_t = 1, conflicts_with = "seed")]
    first_seed: u64,
    /// Run only this seed
    #[arg(long)]
    seed: Option<u64>,
    /// Database to test
    #[arg(long, value_enum, default_value = "rocksdb")]
    database: Database,
    /// Test only this layout
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// Directory for the drives, best in memory [default: target/stress]
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    data: DataArgs,
}

/// The counts of one layout.
#[derive(Default)]
struct Tally {
    seeds: u64,
    batches: u64,
    killed: u64,
    killed_with_cache: u64,
    cut: u64,
    cut_in_recovery: u64,
    closed: u64,
    full: u64,
    /// Lives among these that could not open the database and judged nothing.
    full_unjudged: u64,
    /// Seeds whose last life could not judge the database.
    seeds_unjudged: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { seeds, batches, killed, killed_with_cache, cut, .. } = self;
        let Tally { cut_in_recovery, closed, full, full_unjudged, seeds_unjudged, .. } = self;
        write!(
            f,
            "{seeds} seeds, {batches} batches there at the end, killed {killed} times, with the \
             drive's cache {killed_with_cache}, power cut {cut} times, {cut_in_recovery} of them while \
             opening, closed {closed} times, full {full} times, {full_unjudged} of them \
             before anything was judged; {seeds_unjudged} seeds not judged at their end"
        )
    }
}

impl Tally {
    const COLUMNS: [&str; 11] = [
        "layout",
        "drives",
        "batches there at the end",
        "killed",
        "killed with the cache",
        "power cuts",
        "of them while opening",
        "closed",
        "full",
        "of them not judged",
        "drives not judged at the end",
    ];

    fn row(&self, layout: &str) -> Vec<String> {
        let counts = [
            self.seeds,
            self.batches,
            self.killed,
            self.killed_with_cache,
            self.cut,
            self.cut_in_recovery,
            self.closed,
            self.full,
            self.full_unjudged,
            self.seeds_unjudged,
        ];
        let counts = counts.map(|count| count.to_string());
        [&[layout.to_owned()], &counts[..]].concat()
    }
}

/// Builds the programs and runs the seeds that `args` ask for.
pub fn run(root: &Path, args: &StressArgs) -> Result<()> {
    let mut report = Report::new(&args.data)?;
    build(root, false, Some(args.database.adapter()))?;
    let drives: Vec<_> = DRIVES
        .into_iter()
        .filter(|(name, ..)| args.layout.as_deref().is_none_or(|only| only == *name))
        .collect();
    let names = DRIVES.map(|(name, ..)| name).join(", ");
    ensure!(!drives.is_empty(), "no such layout here; there are {names}");
    let dir = args.dir.clone().unwrap_or_else(|| root.join("target/stress"));
    let first_seed = args.seed.unwrap_or(args.first_seed);
    let end_seed = match (args.seed, args.minutes) {
        (Some(seed), _) => seed + 1,
        (None, Some(_)) => u64::MAX,
        (None, None) => first_seed + args.seeds,
    };
    let limit = args.minutes.map(|minutes| Duration::from_secs(minutes * 60));
    let start = now();
    let mut tallies: Vec<_> = drives.iter().map(|drive| (drive.0, Tally::default())).collect();
    'seeds: for seed in first_seed..end_seed {
        for (&kind, (_, tally)) in drives.iter().zip(&mut tallies) {
            if limit.is_some_and(|limit| start.elapsed() >= limit) {
                break 'seeds;
            }
            let drive = Drive { root, dir: &dir, database: args.database, kind };
            drive.run(seed, LIVES, tally)?;
        }
        if seed % 10 == 0 {
            println!("seed {seed}, {} s: nothing found", start.elapsed().as_secs());
        }
    }
    let mut table = Table::new(format!("{:?}: what happened", args.database), Tally::COLUMNS);
    for (layout, tally) in tallies {
        println!("  {layout:<18} {tally}");
        table.row(tally.row(&format!("`{layout}`")));
    }
    report.keep(table);
    std::fs::remove_dir_all(&dir).context("cannot remove the test drives")?;
    report.write(root)
}

/// A few lives on one layout; a step of `cargo xtask adapters`.
pub(crate) fn shortly(root: &Path, dir: &Path, database: Database, layout: &str) -> Result<()> {
    let kind = DRIVES.into_iter().find(|(name, ..)| *name == layout);
    let kind = kind.context("a layout without a drive")?;
    let mut tally = Tally::default();
    let drive = Drive { root, dir: &dir.join("stress"), database, kind };
    for seed in 1..=2 {
        drive.run(seed, 6, &mut tally)?;
    }
    println!("  {layout:<18} {database:?}: {tally}");
    Ok(())
}

/// The drive and the database of a seed.
struct Drive<'a> {
    root: &'a Path,
    dir: &'a Path,
    database: Database,
    /// A line of [`DRIVES`].
    kind: (&'static str, u64, &'static [&'static str]),
}

impl Drive<'_> {
    /// Creates the empty drive, and a directory for the expected state.
    fn make(&self, seed: u64) -> Result<PathBuf> {
        let (layout, capacity_mib, options) = self.kind;
        let share = if seed.is_multiple_of(4) { 4 } else { 1 };
        let capacity = format!("{}MiB", capacity_mib / share);
        let dir = self.dir;
        if dir.exists() {
            std::fs::remove_dir_all(dir)
                .with_context(|| format!("cannot empty {}", dir.display()))?;
        }
        std::fs::create_dir_all(dir.join("expected"))
            .context("cannot make a directory for drives")?;
        let drive = dir.join("drive");
        let options = [&["--seed", "1", "--capacity", &capacity], options].concat();
        make_drive(&cargo::imbrex(self.root), &drive, layout, &options)?;
        Ok(drive)
    }

    fn run(&self, seed: u64, lives: u64, tally: &mut Tally) -> Result<()> {
        let drive = self.make(seed)?;
        let mut random = Random::new(seed);
        let mut batches = 0;
        let mut before = Vec::new();
        for number in 0..lives {
            let death = if number + 1 == lives { Death::AtOnce } else { Death::draw(&mut random) };
            copy(&[&drive, &self.dir.join("expected")], &self.dir.join("before"))?;
            let (dir, layout) = (self.dir, self.kind.0);
            let programs = self.database.programs();
            let life = Life { root: self.root, dir, layout, programs, seed, death: death.clone() };
            let end = life.live()?;
            if let Some(reason) = end.failure {
                bail!(
                    "{:?} on {layout}, seed {seed}, life {number} ({death:?}): {reason}\n{}\n\
                 before: {}\n\
                 kept: {} as it was before this life, the drive, what was expected and what it said\n\
                 again, if threads interleave alike: cargo xtask stress --seed {seed} --layout {layout} \
                 --database {}",
                    self.database,
                    end.said,
                    before.join(", "),
                    dir.join("before").display(),
                    format!("{:?}", self.database).to_lowercase(),
                );
            }
            batches = end.verified.unwrap_or(batches);
            if number + 1 == lives && end.verified.is_none() {
                tally.seeds_unjudged += 1;
                println!("  {layout}, seed {seed}: too full to open at its end, and not judged");
            }
            let how = if end.is_full { "full" } else { death.name() };
            before.push(if end.is_closed { "closed" } else { how });
            match death {
                _ if end.is_closed => tally.closed += 1,
                _ if end.is_full => {
                    tally.full += 1;
                    tally.full_unjudged += u64::from(end.verified.is_none());
                }
                Death::Cut { .. } if end.verified.is_none() => {
                    tally.cut += 1;
                    tally.cut_in_recovery += 1;
                }
                Death::Cut { .. } => tally.cut += 1,
                Death::Killed { has_cache: true, .. } => tally.killed_with_cache += 1,
                Death::Killed { .. } | Death::Closed { .. } | Death::AtOnce => tally.killed += 1,
            }
        }
        tally.seeds += 1;
        tally.batches += batches;
        Ok(())
    }
}

/// Copies files and directories, sparse, into the directory `to`.
fn copy(from: &[&Path], to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to).with_context(|| format!("cannot empty {}", to.display()))?;
    }
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let mut cp = Command::new("cp");
    let status = cp.args(["-r", "--sparse=always"]).args(from).arg(to).status();
    ensure!(status.context("cannot start cp")?.success(), "cannot copy to {}", to.display());
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a person says how long to go on")]
fn now() -> Instant {
    Instant::now()
}
