//! What needs hours: fresh seeds, long sweeps and all seeds of the unit tests, until a set time is over.
//!
//! ```text
//!   round 1   tests   torture   sweeps   stress rocksdb   stress leveldb   filesystems   zoned   package   book
//!   round 2           torture   sweeps   ...                    each round with seeds that no round had
//!   the end           torture, for what is left
//! ```
//!
//! A job begins only if it is known to end in time; torture stops at any moment, so it takes what is left. A job that
//! fails does not end the soak: its output is kept, and the log says how to do it again.
//!
//! Not here: what the gate runs (`ci`).

use crate::cargo::{self, Cargo};
use anyhow::{Context, Result, ensure};
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Arguments of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct SoakArgs {
    /// How long; parts of an hour are allowed, such as 0.5.
    #[arg(long)]
    hours: f64,
    /// Where to write what was run and how it ended [default: target/soak/log.txt]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The first seed [default: one that nobody chose]
    #[arg(long)]
    first_seed: Option<u64>,
}

/// One thing that is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Tests,
    Torture,
    Sweeps,
    StressRocksdb,
    StressLeveldb,
    Filesystems,
    Zoned,
    Package,
    Book,
}

/// A round, in its order.
const ROUND: [Job; 9] = [
    Job::Tests,
    Job::Torture,
    Job::Sweeps,
    Job::StressRocksdb,
    Job::StressLeveldb,
    Job::Filesystems,
    Job::Zoned,
    Job::Package,
    Job::Book,
];

/// How long torture runs before something else has its turn, and at least.
const TORTURE_S: u64 = 1200;
const TORTURE_S_MIN: u64 = 5;

impl Job {
    /// No more than this on a slow machine of two cores; torture takes what it is given.
    fn seconds_max(self) -> u64 {
        match self {
            Job::Torture => TORTURE_S_MIN,
            Job::Package | Job::Book => 900,
            Job::Tests | Job::Sweeps => 1800,
            Job::StressRocksdb | Job::StressLeveldb | Job::Filesystems | Job::Zoned => 2400,
        }
    }

    /// Whether a second time would show nothing new.
    fn is_once(self) -> bool {
        matches!(self, Job::Tests | Job::Zoned | Job::Package | Job::Book)
    }

    /// What is typed after `cargo xtask`.
    fn arguments(self, seed: u64, seconds: u64) -> String {
        match self {
            Job::Tests => "ci --step tests-in-full".to_owned(),
            Job::Torture => format!("torture --budget {seconds}s --first-seed {seed}"),
            Job::Sweeps => {
                format!("torture --seeds 120 --every 7 --cuts-max 60 --first-seed {seed}")
            }
            Job::StressRocksdb => format!("stress --seeds 2 --first-seed {seed}"),
            Job::StressLeveldb => {
                format!("stress --seeds 2 --database leveldb --first-seed {seed}")
            }
            Job::Filesystems => format!("filesystems --cuts 40 --first-seed {seed}"),
            Job::Zoned => "zoned --may-skip".to_owned(),
            Job::Package => "package".to_owned(),
            Job::Book => "book".to_owned(),
        }
    }
}

/// What comes next, with `left_s` left, after `done_count` jobs of the rounds: pure, so that a test needs no hours.
/// `None` where nothing fits any more.
fn next_job(done_count: &mut usize, left_s: u64) -> Option<(Job, u64)> {
    for _ in ROUND {
        let (round, at) = (*done_count / ROUND.len(), *done_count % ROUND.len());
        let job = ROUND[at];
        *done_count += 1;
        if job.seconds_max() <= left_s && !(round > 0 && job.is_once()) {
            return Some((job, TORTURE_S.min(left_s)));
        }
    }
    None
}

/// Runs jobs until the time is over.
pub(crate) fn run(root: &Path, args: &SoakArgs) -> Result<()> {
    ensure!(args.hours > 0.0, "--hours is not positive: there is nothing to do");
    let start = now();
    let dir = root.join("target/soak");
    std::fs::create_dir_all(&dir).context("cannot make a directory for logs")?;
    let path = args.log.clone().unwrap_or_else(|| dir.join("log.txt"));
    let log = File::options().create(true).append(true).open(&path);
    let log = log.with_context(|| format!("cannot write {}", path.display()))?;
    let mut soak = Soak { root, dir, log, start, failed_count: 0, job_count: 0 };
    cargo::whole_build(Cargo::new(root)).run()?;
    soak.note(&format!("a soak of {} hours begins", args.hours))?;
    let total_s = (args.hours * 3600.0) as u64;
    let (mut seed, mut done_count) = (args.first_seed.unwrap_or_else(fresh_seed), 0);
    while let Some((job, seconds)) =
        next_job(&mut done_count, total_s.saturating_sub(start.elapsed().as_secs()))
    {
        soak.job(job, seed, seconds)?;
        // Further than any job goes.
        seed = seed.wrapping_add(1 << 20);
    }
    let (failed, all) = (soak.failed_count, soak.job_count);
    soak.note(&format!("the soak ends: {failed} of {all} jobs failed"))?;
    ensure!(failed == 0, "{failed} of {all} jobs failed; see {}", path.display());
    Ok(())
}

struct Soak<'a> {
    root: &'a Path,
    dir: PathBuf,
    log: File,
    start: Instant,
    failed_count: usize,
    job_count: usize,
}

impl Soak<'_> {
    fn note(&mut self, what: &str) -> Result<()> {
        let line = format!("{:>8} s  {what}\n", self.start.elapsed().as_secs());
        print!("{line}");
        self.log.write_all(line.as_bytes()).context("cannot write the log")
    }

    fn job(&mut self, job: Job, seed: u64, seconds: u64) -> Result<()> {
        let arguments = job.arguments(seed, seconds);
        self.note(&format!("cargo xtask {arguments}"))?;
        self.job_count += 1;
        let kept = self.dir.join(format!("{:04}.txt", self.job_count));
        let said = File::create(&kept).context("cannot keep what a job says")?;
        let mut command = match job {
            // Without cargo between, which would build anew what is built.
            Job::Torture | Job::Sweeps => Command::new(self.root.join("target/ci/imbrex-torture")),
            _ => Command::new(std::env::current_exe().context("cannot find xtask")?),
        };
        let skipped = usize::from(matches!(job, Job::Torture | Job::Sweeps));
        let status = command
            .args(arguments.split(' ').skip(skipped))
            .env(cargo::BUILT, "1")
            .current_dir(self.root)
            .stdin(Stdio::null())
            .stdout(said.try_clone().context("cannot share a file")?)
            .stderr(said)
            .status()
            .context("cannot start a job")?;
        if status.success() {
            let said = std::fs::read_to_string(&kept).unwrap_or_default();
            let skipped = said.lines().filter(|line| line.starts_with("SKIPPED: "));
            for line in skipped.map(str::to_owned).collect::<Vec<_>>() {
                self.note(&line)?;
            }
            return self.note("passed");
        }
        self.failed_count += 1;
        self.note(&format!("FAILED ({status}); what it said is in {}", kept.display()))
    }
}

#[expect(clippy::disallowed_methods, reason = "seeds that no soak has had: nobody chooses them")]
fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[expect(clippy::disallowed_methods, reason = "a person says how long to go on")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The jobs of so many seconds, each taking as long as it may.
    fn jobs(mut left_s: u64) -> Vec<Job> {
        let mut done_count = 0;
        let mut jobs = Vec::new();
        while let Some((job, seconds)) = next_job(&mut done_count, left_s) {
            let taken_s = if job == Job::Torture { seconds } else { job.seconds_max() };
            assert!(taken_s <= left_s, "{job:?} takes {taken_s} s of {left_s}");
            left_s -= taken_s;
            jobs.push(job);
        }
        assert!(left_s < TORTURE_S_MIN, "{left_s} s are left unused");
        jobs
    }

    #[test]
    fn a_few_seconds_are_for_torture() {
        assert_eq!(jobs(20), [Job::Torture]);
        assert!(jobs(3).is_empty());
    }

    #[test]
    fn every_job_has_its_turn_and_the_rest_is_torture() {
        let jobs = jobs(8 * 3600);
        for job in ROUND {
            let count = jobs.iter().filter(|&&done| done == job).count();
            assert!(if job.is_once() { count == 1 } else { count > 1 }, "{job:?}: {count}");
        }
        assert_eq!(jobs.last(), Some(&Job::Torture));
    }
}
