//! RocksDB on a drive: its benchmark, its tools, and programs that are killed.

use super::output::{check_levels, last_after};
use super::session::Session;
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Tables by the thousand in seconds: everything small, two jobs side by side, subcompactions.
const LOAD: [&str; 10] = [
    "--value_size=200",
    "--write_buffer_size=262144",
    "--target_file_size_base=131072",
    "--max_bytes_for_level_base=1048576",
    "--max_background_jobs=4",
    "--subcompactions=2",
    "--compression_type=none",
    "--num=150000",
    "--reads=2000",
    "--seed=7",
];

/// Everyday use of a database, then what must not go wrong.
pub(super) fn story(session: &Session) -> Result<()> {
    let said = bench(session, "/db", "fillrandom,readrandom,deleterandom", &[], "fillrandom")?;
    check_levels(&said)?;
    let old = ["--use_existing_db=1"];
    let said = bench(session, "/db", "overwrite,readseq,seekrandom", &old, "readseq")?;
    check_levels(&said)?;
    let universal = ["--compaction_style=1"];
    check_levels(&bench(session, "/deep/universal", "fillrandom", &universal, "fillrandom")?)?;
    bench(session, "/sync", "fillsync", &["--num=2000"], "fillsync")?;
    let uri = format!("--backup_fs_uri=imbrex://{}", session.drive.display());
    for db in ["--db=/db", "--db=/deep/universal"] {
        session.run(&["ldb", db, "checkconsistency"], "OK")?;
    }
    session.run(&["ldb", "--db=/db", "checkpoint", "--checkpoint_dir=/ck"], "OK")?;
    session.run(&["ldb", "--db=/db", "backup", "--backup_dir=/bk", &uri], "OK")?;
    session.run(&["ldb", "--db=/rs", "restore", "--backup_dir=/bk", &uri], "OK")?;
    for db in ["--db=/ck", "--db=/rs"] {
        session.run(&["ldb", db, "checkconsistency"], "OK")?;
        session.run(&["ldb", db, "scan", "--max_keys=3", "--hex"], "0x")?;
    }
    session.run(&["sst_dump", "--file=/ck", "--command=verify"], "The file is ok")?;
    by_name(session)?;
    paths(session)?;
    ended(session)?;
    session.crowded("names_program")?;
    killed(session)?;
    // The kind of drive does not matter for what the adapter reports of damage.
    if session.layout == "leveled-first-fit" {
        damaged_log(session)?;
    }
    bad_input(session)
}

fn bench(
    session: &Session,
    db: &str,
    benchmarks: &str,
    more: &[&str],
    expected: &str,
) -> Result<String> {
    let db = format!("--db={db}");
    let benchmarks = format!("--benchmarks={benchmarks}");
    let mut program = vec!["db_bench", &benchmarks, &db];
    program.extend(LOAD);
    program.extend(more);
    session.run(&program, expected)
}

/// Every use of a database's name happens on the drive. On the host the same name is a directory of another owner,
/// which stays as it was.
fn by_name(session: &Session) -> Result<()> {
    let twin = session.drive.with_extension("twin");
    let name = twin.to_str().context("the test directory is not UTF-8")?;
    let _ = std::fs::remove_dir_all(&twin);
    std::fs::create_dir(&twin).context("cannot make a directory")?;
    std::fs::write(twin.join("CURRENT"), "another's").context("cannot write a file")?;
    let program = &session.program("names_program")?;
    session.run(&[program, name], "all on the drive")?;
    session.run(&[program, name, "null"], "all on the drive")?;
    let left: Vec<_> = std::fs::read_dir(&twin).context("cannot list a directory")?.collect();
    ensure!(left.len() == 1, "the host's directory was touched: {left:?}");
    std::fs::remove_dir_all(&twin).context("cannot remove a directory")
}

/// Tables outside the database's directory (`db_paths`) have levels too.
fn paths(session: &Session) -> Result<()> {
    let counters = session.destroys(&[&session.program("names_program")?, "/paths", "paths"])?;
    let (tables, right) = (counters.get("tables")?, counters.get("right")?);
    ensure!(tables > 100.0 && right >= tables * 0.999, "levels right: {right} of {tables}");
    println!("  {:<18} db_paths: levels right: {right} of {tables}", "");
    Ok(())
}

/// At the end of a program the adapter syncs what the program has not, also if the program has opened and closed other
/// drives. It reports a failure of that sync.
fn ended(session: &Session) -> Result<()> {
    let program = &session.program("names_program")?;
    session.run(&[program, "/again", "again"], "written")?;
    session.run(&["ldb", "--db=/again", "get", "key"], "value")?;
    let (_, said) = session.try_run(&[], &[program, "/lost", "lost"])?;
    let expected = ["written", "imbrex: cannot sync the drive at the end: "];
    ensure!(expected.iter().all(|text| said.contains(text)), "a lost write: {said}");
    println!("  {:<18} a failed sync at the end is reported", "");
    Ok(())
}

/// A database with a damaged log is not opened, because that would drop what was synced after the damage.
fn damaged_log(session: &Session) -> Result<()> {
    let program = &session.program("crash_program")?;
    let marked = "a text that is nowhere else on this drive";
    let (code, said) = session.try_run(&[], &[program, "/rot", "5", "mark", marked])?;
    ensure!(code == 137, "expected to be killed, ended with {code}:\n{said}");
    rot(&session.drive, marked.as_bytes())?;
    let (code, said) = session.try_run(&[], &[program, "/rot", "5", "verify", "0"])?;
    ensure!(code == 1 && said.contains("open: IO error"), "a damaged log: {code}:\n{said}");
    println!("  {:<18} a database with a damaged log is not opened", "");
    Ok(())
}

/// A program that is killed while it writes, flushes and compacts finds all that it had synced, and a prefix of the
/// rest.
fn killed(session: &Session) -> Result<()> {
    let program = &session.program("crash_program")?;
    let mut synced = "0".to_owned();
    for kill_after_ms in ["150", "700", "400", "1500", "2500", "1000"] {
        let write = [program, "/crash", "5", "1000000", kill_after_ms];
        let (code, said) = session.try_run(&[], &write)?;
        ensure!(code == 137, "expected to be killed, ended with {code}:\n{said}");
        synced = last_after(&said, "synced ").unwrap_or(synced);
        session.run(&[program, "/crash", "5", "verify", &synced], "verified")?;
    }
    ensure!(synced != "0", "no life was long enough to sync anything");
    println!("  {:<18} killed 6 times, {synced} writes synced, none lost", "");
    Ok(())
}

/// A command that cannot work says why.
fn bad_input(session: &Session) -> Result<()> {
    for (program, expected) in [
        (["ldb", "--db=/nowhere", "scan"], "/nowhere"),
        (["true", "", ""], "does not load librocksdb, libleveldb or"),
        (["no-such-program", "", ""], "cannot find the program"),
    ] {
        let (code, said) = session.try_run(&[], &program)?;
        ensure!(code != 0 && said.contains(expected), "{program:?}: {code}: {said}");
    }
    let (code, said) = session.try_run(&["--adapter", "/nowhere"], &["ldb", "--help"])?;
    ensure!(code == 4 && said.contains("cannot find the adapter"), "{code}: {said}");
    Ok(())
}

/// Changes one byte of an image, where `marked` is stored.
fn rot(image: &Path, marked: &[u8]) -> Result<()> {
    const PIECE_LEN: u64 = 1 << 20;
    let file = File::options().read(true).write(true).open(image).context("cannot open a drive")?;
    let len = file.metadata().context("cannot look at a drive")?.len();
    let mut piece = vec![0; PIECE_LEN as usize + marked.len()];
    for start in (0..len).step_by(PIECE_LEN as usize) {
        let wanted = (len - start).min(piece.len() as u64) as usize;
        file.read_exact_at(&mut piece[..wanted], start).context("cannot read a drive")?;
        if let Some(at) = piece[..wanted].windows(marked.len()).position(|part| part == marked) {
            let byte = [piece[at] ^ 1];
            return file.write_all_at(&byte, start + at as u64).context("cannot write to a drive");
        }
    }
    bail!("what was written is not on the drive")
}
