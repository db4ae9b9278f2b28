//! HyperLevelDB, which no distribution packages: its adapter is built where somebody installed it.

use super::{Session, check_levels};
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the prefix under which it is installed.
pub(super) const PREFIX: &str = "IMBREX_HYPERLEVELDB";

const THREADS: usize = 4;

/// The prefix under which it is installed; `None`, and says so, where it is not.
///
/// # Errors
/// What [`PREFIX`] names is none.
pub(super) fn find() -> Result<Option<PathBuf>> {
    if let Some(prefix) = std::env::var_os(PREFIX).map(PathBuf::from) {
        let is_there = is_installed(&prefix);
        ensure!(is_there, "{PREFIX}={}: no HyperLevelDB is installed there", prefix.display());
        return Ok(Some(prefix));
    }
    let asked = Command::new("pkg-config").args(["--variable=prefix", "libhyperleveldb"]).output();
    let told = asked.ok().filter(|output| output.status.success());
    let told = told.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let places = told.into_iter().chain(["/usr/local".to_owned(), "/usr".to_owned()]);
    let found = places.map(PathBuf::from).find(|prefix| is_installed(prefix));
    if found.is_none() {
        println!(
            "SKIPPED: the adapter for HyperLevelDB was neither built nor tested; there is none"
        );
        println!("         by pkg-config, in /usr/local or in /usr; {PREFIX}=PREFIX names one");
    }
    Ok(found)
}

fn is_installed(prefix: &Path) -> bool {
    prefix.join("include/hyperleveldb/env.h").exists()
        && prefix.join("lib/libhyperleveldb.so").exists()
}

impl Session {
    /// Threads that load it together, killed three times; what was synced is there, of the rest a prefix
    /// for each thread, and levels are right. Then its own `db_bench`, if it is installed too.
    pub(super) fn hyperleveldb_story(&self, prefix: &Path) -> Result<()> {
        let program = &self.program("threads_program")?;
        let threads = &THREADS.to_string();
        let said = self.run(&[program, "/hyper", threads, "60000"], "synced 0 59976")?;
        check_levels(&said)?;
        let mut synced = vec![0; THREADS];
        note_synced(&said, &mut synced)?;
        self.verify_threads(program, &synced)?;
        for kill_after_ms in ["300", "1500", "700"] {
            let write = [program, "/hyper", threads, "10000000", kill_after_ms];
            let (code, said) = self.try_run(&[], &write)?;
            ensure!(code == 137, "expected to be killed, ended with {code}:\n{said}");
            note_synced(&said, &mut synced)?;
            self.verify_threads(program, &synced)?;
        }
        // Closed before anything was flushed: all of it comes from a log that has its writer's hole.
        // On HyperLevelDB's own Env this finds none of the 51 writes.
        self.run(&[program, "/skip", "1", "60"], "synced 0 51")?;
        self.run(&[program, "/skip", "1", "verify", "60"], "verified 60 writes")?;
        let sum: u64 = synced.iter().sum();
        println!("  {:<18} killed 3 times, {sum} writes synced, none lost", "");
        self.hyperleveldb_bench(prefix)
    }

    fn verify_threads(&self, program: &str, synced: &[u64]) -> Result<()> {
        let threads = THREADS.to_string();
        let synced: Vec<String> = synced.iter().map(u64::to_string).collect();
        let mut verify = vec![program, "/hyper", &threads, "verify"];
        verify.extend(synced.iter().map(String::as_str));
        self.run(&verify, "verified").map(drop)
    }

    fn hyperleveldb_bench(&self, prefix: &Path) -> Result<()> {
        let bench = prefix.join("bin/db_bench");
        if !bench.exists() {
            println!(
                "SKIPPED: its db_bench, which its build leaves in its tree: copy it to {}",
                bench.display()
            );
            return Ok(());
        }
        let bench = &bench.display().to_string();
        let benchmarks = "--benchmarks=fillrandom,overwrite,readrandom,readseq,compact,readreverse";
        let more =
            ["--num=300000", "--threads=1", "--value_size=200", "--write_buffer_size=131072"];
        let said =
            self.run(&[&[bench, benchmarks, "--db=/bench"][..], &more].concat(), "readreverse")?;
        check_levels(&said)?;
        let synced = [bench, "--benchmarks=fillsync", "--num=20000", "--threads=4", "--db=/sync"];
        self.run(&synced, "fillsync").map(drop)
    }
}

/// Takes over what each thread said last.
fn note_synced(said: &str, synced: &mut [u64]) -> Result<()> {
    for line in said.lines().filter_map(|line| line.strip_prefix("synced ")) {
        let (thread, count) = line.split_once(' ').unwrap_or((line, ""));
        // The last line of a program that was killed may be cut.
        let Ok(count) = count.parse::<u64>() else { continue };
        let place = thread.parse::<usize>().ok().and_then(|thread| synced.get_mut(thread));
        let Some(place) = place else { continue };
        *place = count.max(*place);
    }
    ensure!(synced.iter().all(|count| *count > 0), "no thread synced anything:\n{said}");
    Ok(())
}
