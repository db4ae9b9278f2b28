//! LevelDB on a drive: a load that is killed, and a Python program that loads LevelDB while it runs.

use super::output::{check_levels, count, last_after};
use super::session::Session;
use anyhow::{Result, ensure};

/// A load that is killed three times: what was synced is there, and levels are right.
pub(super) fn story(session: &Session) -> Result<()> {
    let program = &session.program("load_program")?;
    check_levels(&session.run(&[program, "/level", "40000"], "synced 39951")?)?;
    session.run(&[program, "/level", "verify", "40000"], "verified 40000")?;
    let mut synced = "40000".to_owned();
    for kill_after_ms in ["200", "900", "500"] {
        let (code, said) = session.try_run(&[], &[program, "/level", "1000000", kill_after_ms])?;
        ensure!(code == 137, "expected to be killed, ended with {code}:\n{said}");
        synced = last_after(&said, "synced ").unwrap_or(synced);
        session.run(&[program, "/level", "verify", &synced], "verified")?;
    }
    reused_manifest(session, program)?;
    session.crowded("load_program")?;
    // Python loads LevelDB only while it runs, so `imbrex run` cannot see which database it uses.
    let python = ["/usr/bin/python3", "adapters/leveldb/plyvel_program.py"];
    let (code, said) = session.try_run(&["--database", "leveldb"], &python)?;
    ensure!(code == 0 && said.contains("plyvel: "), "plyvel: {code}:\n{said}");
    Ok(())
}

/// With `reuse_logs` the second run appends to the first run's MANIFEST, and the adapter still reads the levels in it.
fn reused_manifest(session: &Session, program: &str) -> Result<()> {
    session.run(&[program, "/reuse", "reuse", "500"], "made")?;
    let said = session.run(&[program, "/reuse", "reuse", "10000"], "made")?;
    let (made, tables) = (count(&said, "made")?, count(&said, "tables")?);
    let told = tables + count(&said, "other tables, from flushes")?;
    // The tables of a compaction that the end of the program broke off have no level.
    ensure!(made > 100 && told * 10 >= made * 9, "{told} of {made} tables have a level");
    println!("  {:<18} a MANIFEST is reused: {told} of {made} tables have a level", "");
    Ok(())
}
