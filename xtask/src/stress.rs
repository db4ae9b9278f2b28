//! `stress`: RocksDB and LevelDB on emulated drives, killed and cut off from its power again and again.
//!
//! ```text
//!   seed, layout:  a new drive, then life after life of adapters/{rocksdb,leveldb}/stress_program.cc
//!     killed    by signal 9 once it has said that it did so many batches; half of the time with what the
//!               drive's cache had not flushed
//!     cut       the drive loses its power at a device event, some of its cache kept; the program sees
//!               every call fail, and ends
//!     closed    the program ends by itself
//!     full      the drive is, which on a tight one may end a life before its time, or not let it begin
//!   each life first judges what the one before left; the last of a drive too full to open it only reads, and
//!   a database that must write to be opened (LevelDB) is then told as not judged
//! ```
//!
//! A seed decides the options, the batches and the kinds of death, not how threads interleave: a failure
//! need not come again, so the drive is kept as it was before the life that failed.
//!
//! Not here: what is expected of the database (`adapters/stress/state.h`), what a power cut leaves (`disk-sim`).

mod life;

use crate::adapters;
use crate::random::Random;
use anyhow::{Context, Result, bail, ensure};
use life::{Death, Life};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The layouts, how many MiB their drives have, and how else they are made: so small that their space is
/// used again and again. Every fourth seed has a quarter of it: what is written may fill it.
const DRIVES: [(&str, u64, &[&str]); 6] = [
    ("leveled-zones", 256, &["--zone-len", "1MiB"]),
    ("leveled-first-fit", 128, &["--rule", "conventional"]),
    // Tables here are a hundredth of SEALDB's, and so must be the guards between them.
    ("sealdb", 512, &["--track-len", "64KiB", "--overlap-tracks", "4"]),
    ("imr-m", 256, &[]),
    ("imr-3phase", 256, &[]),
    ("leveled-log", 256, &["--zone-len", "1MiB"]),
];

/// How often a program is started on one drive.
const LIVES: u64 = 16;

/// The databases that there is a program for.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Rocksdb,
    Leveldb,
}

impl Database {
    /// The program, and the adapter's library that it is run with.
    fn programs(self) -> (&'static str, &'static str) {
        match self {
            Database::Rocksdb => ("stress_program", "libimbrex_rocksdb.so"),
            Database::Leveldb => ("leveldb_stress", "libimbrex_leveldb.so"),
        }
    }

    /// Whose adapter it needs.
    fn adapter(self) -> adapters::Database {
        match self {
            Database::Rocksdb => adapters::Database::Rocksdb,
            Database::Leveldb => adapters::Database::Leveldb,
        }
    }
}

/// Arguments of `cargo xtask stress`.
#[derive(clap::Args)]
pub(crate) struct StressArgs {
    /// How many seeds to run on each layout
    #[arg(long, default_value_t = 5, conflicts_with_all = ["minutes", "seed"])]
    seeds: u64,
    /// Run seeds until so many minutes have passed
    #[arg(long, conflicts_with = "seed")]
    minutes: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 1, conflicts_with = "seed")]
    first_seed: u64,
    /// Only this seed
    #[arg(long)]
    seed: Option<u64>,
    /// The database
    #[arg(long, value_enum, default_value = "rocksdb")]
    database: Database,
    /// Only this layout
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// Where the drives lie; best in memory [default: target/stress]
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// What was done on one layout.
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
    /// Lives among these that could not open the database, and judged nothing.
    full_unjudged: u64,
    /// Seeds whose last life could not judge what was there.
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

/// Builds what is needed and runs what `args` ask for.
pub(crate) fn run(root: &Path, args: &StressArgs) -> Result<()> {
    adapters::build(root, false, Some(args.database.adapter()))?;
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
    for (layout, tally) in tallies {
        println!("  {layout:<18} {tally}");
    }
    std::fs::remove_dir_all(&dir).context("cannot remove the test drives")
}

/// A few lives on one layout, as a part of `cargo xtask adapters`.
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

/// What a seed is run on.
struct Drive<'a> {
    root: &'a Path,
    dir: &'a Path,
    database: Database,
    /// A line of [`DRIVES`].
    kind: (&'static str, u64, &'static [&'static str]),
}

impl Drive<'_> {
    /// Makes the drive, empty, and a directory for what is expected of it.
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
        let status = Command::new(self.root.join("target/release/imbrex"))
            .args(["drive", "create", "--no-store", "--layout", layout, "--seed", "1"])
            .args(["--capacity", &capacity])
            .args(options)
            .arg(&drive)
            .stdout(Stdio::null())
            .status()
            .context("cannot start imbrex")?;
        ensure!(status.success(), "cannot make a drive for {layout}");
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
