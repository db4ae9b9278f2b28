//! HyperLevelDB, which no distribution packages: its adapter is built where somebody installed it.

use super::{Session, check_levels, last_behind};
use crate::packages;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the prefix under which it is installed.
pub(super) const PREFIX: &str = "IMBREX_HYPERLEVELDB";

/// What is so without it.
pub(super) const NONE: &str = "the adapter for HyperLevelDB was neither built nor tested; none is known to \
                               pkg-config, in /usr/local or in /usr";

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
        packages::skip(NONE, &format!("{PREFIX}=PREFIX names it"));
    }
    Ok(found)
}

fn is_installed(prefix: &Path) -> bool {
    prefix.join("include/hyperleveldb/env.h").exists()
        && prefix.join("lib/libhyperleveldb.so").exists()
}

impl Session {
    /// Four threads that load it together: levels are right. One that is killed three times: what was
    /// synced is there, and of the rest a prefix. Then its own `db_bench`, if it is installed too.
    ///
    /// Two threads lose writes on HyperLevelDB's own Env, closed cleanly: nothing is held against that.
    pub(super) fn hyperleveldb_story(&self, prefix: &Path) -> Result<()> {
        let program = &self.program("threads_program")?;
        let said = self.run(&[program, "/many", "4", "60000"], "synced 0 59976")?;
        check_levels(&said)?;
        self.run(&[program, "/many", "4", "100"], "synced 3 60")?;
        let said = self.run(&[program, "/hyper", "1", "60000"], "synced 0 59976")?;
        let mut synced = last_behind(&said, "synced 0 ").unwrap_or_default();
        self.run(&[program, "/hyper", "1", "verify", &synced], "verified 60000")?;
        for kill_after_ms in ["300", "1500", "700"] {
            let write = [program, "/hyper", "1", "10000000", kill_after_ms];
            let (code, said) = self.try_run(&[], &write)?;
            ensure!(code == 137, "expected to be killed, ended with {code}:\n{said}");
            synced = last_behind(&said, "synced 0 ").unwrap_or(synced);
            self.run(&[program, "/hyper", "1", "verify", &synced], "verified")?;
        }
        println!("  {:<18} killed 3 times, {synced} writes synced, none lost", "");
        // Closed before anything was flushed: all of it comes from a log that has its writer's hole.
        // On HyperLevelDB's own Env this finds none of the 51 writes.
        self.run(&[program, "/skip", "1", "60"], "synced 0 51")?;
        self.run(&[program, "/skip", "1", "verify", "60"], "verified 60 writes")?;
        self.hyperleveldb_bench(prefix)
    }

    fn hyperleveldb_bench(&self, prefix: &Path) -> Result<()> {
        let bench = prefix.join("bin/db_bench");
        if !bench.exists() {
            packages::skip(
                "HyperLevelDB's db_bench, which its build leaves in its tree",
                &format!("copy it to {}", bench.display()),
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
