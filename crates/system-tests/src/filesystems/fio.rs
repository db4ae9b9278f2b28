//! fio on a file system: its data is verified, or the requests that reach the device are recorded.
//!
//! ```text
//!   seconds 0 .. S/4      a file of S MiB is written, at 4 MiB per second
//!           S/4 .. 5S/4   database   4 and 16 KiB anywhere in it, past the page cache: 36 reads, 24 writes per second
//!                         log        8 KiB appended and synced, 10 per second
//!                         files      32 new files in all, 1 MiB per second through the page cache
//!   then                  everything is read again and verified; trimmed, unmounted, checked
//! ```
//!
//! A disk can keep up with these rates, because a trace has the times of this machine and a replay keeps to them.
//! A recording ends before the verification, which runs at full speed.

use super::Drives;
use super::kind::Shape;
use super::stand::{LARGE, Stand};
use crate::program::said;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// The counts of fio on one file system.
pub(super) struct FioRun {
    cleaned_zones: u64,
    reads: u64,
    writes: u64,
}

impl std::fmt::Display for FioRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FioRun { cleaned_zones, reads, writes } = self;
        write!(f, "{reads} reads, {writes} writes of the device, {cleaned_zones} zones cleaned")
    }
}

impl Drives<'_> {
    /// Runs fio for about `seconds` and verifies its data, or records its requests into the directory `record`.
    pub(super) fn fio(&self, seconds: u64, record: Option<&Path>) -> Result<FioRun> {
        ensure!(seconds >= 4, "fio needs at least 4 seconds");
        self.clear()?;
        let mut stand = Stand::new(self.root, &self.dir, Shape::usual(self.kind), &LARGE, 1)?;
        if let Some(dir) = record {
            std::fs::create_dir_all(dir).context("cannot make the directory of traces")?;
            stand.record_to(dir.join(format!("{}.csv.zst", self.kind.name())));
        }
        stand.serve(None)?;
        stand.attach()?;
        stand.make()?;
        stand.mount()?;
        let at = stand.mount_point();
        run_fio(&at, &laid_out(seconds))?;
        run_fio(&at, &loads(seconds, record.is_none()))?;
        if record.is_none() {
            stand.trim()?;
            stand.unmount()?;
            stand.check()?;
        }
        let ended = stand.take_down()?;
        ensure!(ended.is_closed, "the server did not close its drive:\n{}", ended.said);
        let told =
            |name: &str| ended.told(name).with_context(|| format!("no {name}: {}", ended.said));
        let run = FioRun {
            cleaned_zones: told("cleaned zones")?,
            reads: told("reads")?,
            writes: told("writes")?,
        };
        drop(stand);
        std::fs::remove_dir_all(&self.dir).context("cannot remove the test drive")?;
        Ok(run)
    }
}

fn args(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// The file of the database.
fn laid_out(seconds: u64) -> Vec<String> {
    let file = "--name=lay --filename=database --rw=write --bs=64k --rate=,4m --end_fsync=1";
    args(&format!("{file} --size={seconds}m"))
}

/// The jobs that run at the same time.
fn loads(seconds: u64, verifies: bool) -> Vec<String> {
    let do_verify = u8::from(verifies);
    let verify = format!("--verify=crc32c --verify_fatal=1 --do_verify={do_verify}");
    // fio cannot verify mixed jobs, so reads and writes are separate jobs.
    let database = "--filename=database --bssplit=4k/70:16k/30 --direct=1";
    let (reads, writes) = (36 * seconds, 24 * seconds);
    let mut all = args(&format!(
        "--name=reads {database} --size={seconds}m --rw=randread --rate_iops=36 --number_ios={reads} --norandommap"
    ));
    // Half of the file is enough for this many writes without overlap.
    all.extend(args(&format!(
        "--name=writes {database} --size={seconds}m --rw=randwrite --rate_iops=,24 --number_ios={writes} {verify}"
    )));
    let log = format!("--size={}k --rate_iops=,10", 80 * seconds);
    all.extend(args(&format!("--name=log --rw=write --bs=8k --fsync=1 {log} {verify}")));
    let files = format!("--nrfiles=32 --size={seconds}m --rate=,1m --end_fsync=1");
    all.extend(args(&format!("--name=files --rw=write --bs=128k {files} {verify}")));
    all
}

fn run_fio(at: &Path, jobs: &[String]) -> Result<()> {
    let mut fio = Command::new("fio");
    fio.args(["--ioengine=psync", "--fallocate=none", "--randseed=1", "--verify_state_save=0"])
        .arg("--directory")
        .arg(at);
    let told = said(fio.args(jobs))?;
    ensure!(!told.contains("verify:") && !told.contains("bad "), "fio found wrong bytes:\n{told}");
    Ok(())
}
