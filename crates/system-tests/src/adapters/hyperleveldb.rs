//! HyperLevelDB, which no distribution packages: its adapter is built and tested where it is installed.

use super::output::{check_levels, last_after};
use super::session::Session;
use crate::packages;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the prefix under which it is installed.
pub(super) const PREFIX: &str = "IMBREX_HYPERLEVELDB";

/// The report if none is found.
pub(super) const NONE: &str = "the adapter for HyperLevelDB was neither built nor tested; none is known to \
                               pkg-config, in /usr/local or in /usr";

/// The prefix under which it is installed, or `None` after a report.
///
/// # Errors
/// [`PREFIX`] is set and no HyperLevelDB is installed there.
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

/// Four threads load it together: levels are right. One thread is killed three times: all that it synced is there, and
/// a prefix of the rest. Then its own `db_bench` runs, if it is installed.
///
/// Two threads lose writes even on HyperLevelDB's own Env after a clean close, so several threads are not judged.
pub(super) fn story(session: &Session, prefix: &Path) -> Result<()> {
    let program = &session.program("threads_program")?;
    let said = session.run(&[program, "/many", "4", "60000"], "synced 0 59976")?;
    check_levels(&said)?;
    session.run(&[program, "/many", "4", "100"], "synced 3 60")?;
    let said = session.run(&[program, "/hyper", "1", "60000"], "synced 0 59976")?;
    let mut synced = last_after(&said, "synced 0 ").unwrap_or_default();
    session.run(&[program, "/hyper", "1", "verify", &synced], "verified 60000")?;
    for kill_after_ms in ["300", "1500", "700"] {
        let write = [program, "/hyper", "1", "10000000", kill_after_ms];
        let (code, said) = session.try_run(&[], &write)?;
        ensure!(code == 137, "expected to be killed, ended with {code}:\n{said}");
        synced = last_after(&said, "synced 0 ").unwrap_or(synced);
        session.run(&[program, "/hyper", "1", "verify", &synced], "verified")?;
    }
    println!("  {:<18} killed 3 times, {synced} writes synced, none lost", "");
    // Closed before the first flush, so all of it comes from a log with a hole that HyperLevelDB's writer left.
    // On HyperLevelDB's own Env this finds none of the 51 writes.
    session.run(&[program, "/skip", "1", "60"], "synced 0 51")?;
    session.run(&[program, "/skip", "1", "verify", "60"], "verified 60 writes")?;
    bench(session, prefix)
}

fn bench(session: &Session, prefix: &Path) -> Result<()> {
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
    let more = ["--num=300000", "--threads=1", "--value_size=200", "--write_buffer_size=131072"];
    let said =
        session.run(&[&[bench, benchmarks, "--db=/bench"][..], &more].concat(), "readreverse")?;
    check_levels(&said)?;
    let synced = [bench, "--benchmarks=fillsync", "--num=20000", "--threads=4", "--db=/sync"];
    session.run(&synced, "fillsync").map(drop)
}
