//! The adapters: built against the system's databases, and tested with the programs they ship.

pub(crate) mod counters;
mod hyperleveldb;

use crate::cargo;
use crate::databases;
use crate::packages::{self, Need};
use crate::stress;
use anyhow::{Context, Result, bail, ensure};
use counters::Counters;
use regex::Regex;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the adapters and their tests need.
const NEEDS: [Need; 6] = [
    ("/usr/include/rocksdb/file_system.h", "librocksdb-dev"),
    ("/usr/include/leveldb/env.h", "libleveldb-dev"),
    ("/usr/bin/db_bench", "rocksdb-tools"),
    ("/usr/lib/python3/dist-packages/plyvel", "python3-plyvel"),
    ("/usr/bin/c++", "g++"),
    ("/usr/bin/make", "make"),
];

/// A layout for each kind of drive, and how its drive is made.
const DRIVES: [(&str, &[&str]); 4] = [
    ("leveled-zones", &["--capacity", "4GiB", "--zone-len", "64MiB"]),
    ("leveled-first-fit", &["--capacity", "4GiB", "--rule", "conventional"]),
    ("sealdb", &["--capacity", "4GiB"]),
    ("imr-m", &["--capacity", "4GiB"]),
];

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

/// The databases that there are adapters for.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Rocksdb,
    Leveldb,
    Hyperleveldb,
}

/// What was built, and for which databases.
pub(crate) struct Built {
    pub(crate) root: PathBuf,
    pub(crate) rocksdb: bool,
    pub(crate) leveldb: bool,
    /// Where HyperLevelDB is installed.
    pub(crate) hyperleveldb: Option<PathBuf>,
}

/// Builds the adapters, all or that of `only`, and tests them; `may_skip` decides whether missing
/// packages end the run. HyperLevelDB, which is no package, is skipped where it is not installed.
pub(crate) fn run(root: &Path, may_skip: bool, only: Option<Database>) -> Result<()> {
    let Some(built) = build(root, may_skip, only)? else { return Ok(()) };
    let dir = root.join("target/adapters/test");
    for (layout, options) in DRIVES {
        let mut session = Session::new(root, &dir, layout, options)?;
        if built.rocksdb {
            session.story().with_context(|| format!("RocksDB on {layout}"))?;
            stress::shortly(root, &dir, stress::Database::Rocksdb, layout)?;
        }
        if built.leveldb {
            session.leveldb_story().with_context(|| format!("LevelDB on {layout}"))?;
            stress::shortly(root, &dir, stress::Database::Leveldb, layout)?;
        }
        if let Some(prefix) = &built.hyperleveldb {
            session.libraries = Some(prefix.join("lib"));
            let story = session.hyperleveldb_story(prefix);
            story.with_context(|| format!("HyperLevelDB on {layout}"))?;
        }
    }
    let session = |dir: &str| Session::new(root, &root.join(dir), DRIVES[0].0, DRIVES[0].1);
    let levels = "target/adapters/test/levels";
    if built.rocksdb {
        session(levels)?.placed_by_level("levels_program", &["/long", "long"], 2)?;
        session(levels)?.placed_by_level("levels_program", &["/shared", "shared"], 1)?;
        session(levels)?.placed_by_level("levels_program", &["/back", "back"], 1)?;
    }
    if built.leveldb {
        session(levels)?.placed_by_level("load_program", &["/long", "long", "300"], 2)?;
    }
    databases::test(&built, &dir)?;
    std::fs::remove_dir_all(&dir).context("cannot remove the test drives")
}

/// Builds `imbrex` and the adapters, all or that of `only`. `None`, and says so, where packages are
/// missing and `may_skip`.
pub(crate) fn build(root: &Path, may_skip: bool, only: Option<Database>) -> Result<Option<Built>> {
    let what = "the adapters were neither built nor tested";
    if !packages::provide(&NEEDS, what, may_skip)? {
        return Ok(None);
    }
    cargo::build(root)?;
    let is_asked = |database| only.is_none_or(|only| only == database);
    let (rocksdb, leveldb) = (is_asked(Database::Rocksdb), is_asked(Database::Leveldb));
    let hyperleveldb = if is_asked(Database::Hyperleveldb) { hyperleveldb::find()? } else { None };
    if rocksdb {
        make(root, "adapters/rocksdb", None)?;
    }
    if leveldb {
        make(root, "adapters/leveldb", None)?;
    }
    if let Some(prefix) = &hyperleveldb {
        make(root, "adapters/hyperleveldb", Some(prefix))?;
    } else if only == Some(Database::Hyperleveldb) {
        bail!("{}; {}=PREFIX names it", hyperleveldb::NONE, hyperleveldb::PREFIX);
    }
    Ok(Some(Built { root: root.to_owned(), rocksdb, leveldb, hyperleveldb }))
}

/// Builds an adapter, against what is installed under `prefix` where that must be said.
fn make(root: &Path, adapter: &str, prefix: Option<&Path>) -> Result<()> {
    let mut make = Command::new("make");
    // What a chore prints on standard output is its result.
    make.args(["-C", adapter, "-j2"]).current_dir(root).stdout(std::io::stderr());
    make.arg(format!("CAPI={}", cargo::target(root).display()));
    if let Some(prefix) = prefix {
        make.arg(format!("HYPERLEVELDB={}", prefix.display()));
    }
    ensure!(make.status().context("cannot start make")?.success(), "building {adapter} failed");
    Ok(())
}

/// A drive, and the programs run on it.
pub(crate) struct Session {
    root: PathBuf,
    imbrex: PathBuf,
    /// Where the adapters are, and the programs for tests.
    adapters: PathBuf,
    drive: PathBuf,
    layout: &'static str,
    /// Where a library lies that the system does not know of.
    pub(crate) libraries: Option<PathBuf>,
}

impl Session {
    /// With an empty drive for `layout` in `dir`, made as `options` of `imbrex drive create` say.
    pub(crate) fn new(
        root: &Path,
        dir: &Path,
        layout: &'static str,
        options: &[&str],
    ) -> Result<Session> {
        std::fs::create_dir_all(dir).context("cannot make a directory for test drives")?;
        let imbrex = cargo::imbrex(root);
        let drive = dir.join(layout);
        let _ = std::fs::remove_file(&drive);
        let status = Command::new(&imbrex)
            .args(["drive", "create", "--no-store", "--layout", layout])
            .args(options)
            .arg(&drive)
            .stdout(Stdio::null())
            .status()
            .context("cannot start imbrex")?;
        ensure!(status.success(), "cannot make a drive for {layout}");
        let adapters = root.join("target/adapters");
        let root = root.to_owned();
        Ok(Session { root, imbrex, adapters, drive, layout, libraries: None })
    }

    /// Runs a program on the drive; returns its exit code and all that it said.
    fn try_run(&self, options: &[&str], program: &[&str]) -> Result<(i32, String)> {
        let mut command = Command::new(&self.imbrex);
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        let output = command
            .args(["run", "--layout", self.layout, "--drive"])
            .arg(&self.drive)
            .args(options)
            .arg("--")
            .args(program)
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", program.join(" ")))?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned()))
    }

    /// Runs a program that must succeed and say `expected`.
    fn run(&self, program: &[&str], expected: &str) -> Result<String> {
        let (code, said) = self.try_run(&["--stats"], program)?;
        if code != 0 || !said.contains(expected) {
            bail!("`{}` ended with {code}, expected {expected:?}:\n{said}", program.join(" "));
        }
        println!("  {:<18} {}", self.layout, program[..program.len().min(4)].join(" "));
        Ok(said)
    }

    /// Runs a program that must succeed; returns what the drive did for it.
    pub(crate) fn measure(&self, program: &[&str]) -> Result<Counters> {
        let report = self.drive.with_extension("report");
        let shown = report.display().to_string();
        let (code, said) = self.try_run(&["--report", &shown], program)?;
        ensure!(code == 0, "`{}` ended with {code}:\n{said}", program.join(" "));
        let text = std::fs::read_to_string(&report);
        Counters::parse(&text.with_context(|| format!("cannot read {shown}"))?)
    }

    /// The same of a program that destroys its database: nothing keeps tables in mind that are gone, nor such as could
    /// not be created.
    fn destroys(&self, program: &[&str]) -> Result<Counters> {
        let counters = self.measure(program)?;
        let kept = counters.get("kept_in_mind")?;
        ensure!(
            kept == 0.0,
            "`{}`: {kept} tables that are gone are kept in mind",
            program.join(" ")
        );
        Ok(counters)
    }

    /// Ends with the drive.
    pub(crate) fn remove_drive(self) -> Result<()> {
        std::fs::remove_file(&self.drive).context("cannot remove a drive")?;
        let _ = std::fs::remove_file(self.drive.with_extension("report"));
        Ok(())
    }

    fn bench(&self, db: &str, benchmarks: &str, more: &[&str], expected: &str) -> Result<String> {
        let db = format!("--db={db}");
        let benchmarks = format!("--benchmarks={benchmarks}");
        let mut program = vec!["db_bench", &benchmarks, &db];
        program.extend(LOAD);
        program.extend(more);
        self.run(&program, expected)
    }

    /// What a user of RocksDB does with a database, and what must not go wrong.
    fn story(&self) -> Result<()> {
        let said = self.bench("/db", "fillrandom,readrandom,deleterandom", &[], "fillrandom")?;
        check_levels(&said)?;
        let old = ["--use_existing_db=1"];
        let said = self.bench("/db", "overwrite,readseq,seekrandom", &old, "readseq")?;
        check_levels(&said)?;
        let universal = ["--compaction_style=1"];
        check_levels(&self.bench("/deep/universal", "fillrandom", &universal, "fillrandom")?)?;
        self.bench("/sync", "fillsync", &["--num=2000"], "fillsync")?;
        let uri = format!("--backup_fs_uri=imbrex://{}", self.drive.display());
        for db in ["--db=/db", "--db=/deep/universal"] {
            self.run(&["ldb", db, "checkconsistency"], "OK")?;
        }
        self.run(&["ldb", "--db=/db", "checkpoint", "--checkpoint_dir=/ck"], "OK")?;
        self.run(&["ldb", "--db=/db", "backup", "--backup_dir=/bk", &uri], "OK")?;
        self.run(&["ldb", "--db=/rs", "restore", "--backup_dir=/bk", &uri], "OK")?;
        for db in ["--db=/ck", "--db=/rs"] {
            self.run(&["ldb", db, "checkconsistency"], "OK")?;
            self.run(&["ldb", db, "scan", "--max_keys=3", "--hex"], "0x")?;
        }
        self.run(&["sst_dump", "--file=/ck", "--command=verify"], "The file is ok")?;
        self.by_name()?;
        self.paths()?;
        self.ended()?;
        self.crowded("names_program")?;
        self.killed()?;
        // What the adapter says of damage hangs on no kind of drive.
        if self.layout == "leveled-first-fit" {
            self.damaged_log()?;
        }
        self.bad_input()
    }

    /// All that RocksDB does with a database's name happens on the drive, and nothing on the host, where
    /// that name is another's.
    fn by_name(&self) -> Result<()> {
        let twin = self.drive.with_extension("twin");
        let name = twin.to_str().context("the test directory is not UTF-8")?;
        let _ = std::fs::remove_dir_all(&twin);
        std::fs::create_dir(&twin).context("cannot make a directory")?;
        std::fs::write(twin.join("CURRENT"), "another's").context("cannot write a file")?;
        let program = &self.program("names_program")?;
        self.run(&[program, name], "all on the drive")?;
        self.run(&[program, name, "null"], "all on the drive")?;
        let left: Vec<_> = std::fs::read_dir(&twin).context("cannot list a directory")?.collect();
        ensure!(left.len() == 1, "the host's directory was touched: {left:?}");
        std::fs::remove_dir_all(&twin).context("cannot remove a directory")
    }

    /// Tables in directories of their own (`db_paths`) have levels too.
    fn paths(&self) -> Result<()> {
        let counters = self.destroys(&[&self.program("names_program")?, "/paths", "paths"])?;
        let (tables, right) = (counters.get("tables")?, counters.get("right")?);
        ensure!(tables > 100.0 && right >= tables * 0.999, "levels right: {right} of {tables}");
        println!("  {:<18} db_paths: levels right: {right} of {tables}", "");
        Ok(())
    }

    /// What a program that ends has not synced is synced for it, whatever other drives it has opened and given back; and
    /// if that fails, it is told.
    fn ended(&self) -> Result<()> {
        let program = &self.program("names_program")?;
        self.run(&[program, "/again", "again"], "written")?;
        self.run(&["ldb", "--db=/again", "get", "key"], "value")?;
        let (_, said) = self.try_run(&[], &[program, "/lost", "lost"])?;
        let expected = ["written", "imbrex: cannot sync the drive at the end: "];
        ensure!(expected.iter().all(|text| said.contains(text)), "a lost write: {said}");
        println!("  {:<18} what cannot be synced at the end is told", "");
        Ok(())
    }

    /// Names that have filled the catalog do not keep a database from being opened, compacted and emptied.
    fn crowded(&self, program: &str) -> Result<()> {
        let db = format!("/crowded/{program}");
        self.destroys(&[&self.program(program)?, &db, "crowded"])?;
        println!("  {:<18} a crowded catalog: opened and emptied", "");
        Ok(())
    }

    /// A database whose log has rotten is not opened without what was synced behind that place.
    fn damaged_log(&self) -> Result<()> {
        let program = &self.program("crash_program")?;
        let marked = "a text that is nowhere else on this drive";
        let (code, said) = self.try_run(&[], &[program, "/rot", "5", "mark", marked])?;
        ensure!(code == 137, "expected to be killed, ended with {code}:\n{said}");
        rot(&self.drive, marked.as_bytes())?;
        let (code, said) = self.try_run(&[], &[program, "/rot", "5", "verify", "0"])?;
        ensure!(code == 1 && said.contains("open: IO error"), "a rotten log: {code}:\n{said}");
        println!("  {:<18} a database with a rotten log is not opened", "");
        Ok(())
    }

    /// A program that is killed while it writes, flushes and compacts finds what it had synced, and of
    /// the rest a prefix.
    fn killed(&self) -> Result<()> {
        let program = &self.program("crash_program")?;
        let mut synced = "0".to_owned();
        for kill_after_ms in ["150", "700", "400", "1500", "2500", "1000"] {
            let write = [program, "/crash", "5", "1000000", kill_after_ms];
            let (code, said) = self.try_run(&[], &write)?;
            ensure!(code == 137, "expected to be killed, ended with {code}:\n{said}");
            synced = last_behind(&said, "synced ").unwrap_or(synced);
            self.run(&[program, "/crash", "5", "verify", &synced], "verified")?;
        }
        ensure!(synced != "0", "no life was long enough to sync anything");
        println!("  {:<18} killed 6 times, {synced} writes synced, none lost", "");
        Ok(())
    }

    /// The path of a program for tests.
    pub(crate) fn program(&self, name: &str) -> Result<String> {
        let path = self.adapters.join(name).into_os_string().into_string();
        path.map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
    }

    /// LevelDB: a load, killed now and then; what was synced is there, levels are right.
    fn leveldb_story(&self) -> Result<()> {
        let program = &self.program("load_program")?;
        check_levels(&self.run(&[program, "/level", "40000"], "synced 39951")?)?;
        self.run(&[program, "/level", "verify", "40000"], "verified 40000")?;
        let mut synced = "40000".to_owned();
        for kill_after_ms in ["200", "900", "500"] {
            let (code, said) = self.try_run(&[], &[program, "/level", "1000000", kill_after_ms])?;
            ensure!(code == 137, "expected to be killed, ended with {code}:\n{said}");
            synced = last_behind(&said, "synced ").unwrap_or(synced);
            self.run(&[program, "/level", "verify", &synced], "verified")?;
        }
        self.reused_manifest(program)?;
        self.crowded("load_program")?;
        // Python loads LevelDB only while it runs, so it must be told.
        let python = ["/usr/bin/python3", "adapters/leveldb/plyvel_program.py"];
        let (code, said) = self.try_run(&["--database", "leveldb"], &python)?;
        ensure!(code == 0 && said.contains("plyvel: "), "plyvel: {code}:\n{said}");
        Ok(())
    }

    /// With `reuse_logs` the second run goes on with the first one's MANIFEST, and what it says there of
    /// levels is understood.
    fn reused_manifest(&self, program: &str) -> Result<()> {
        self.run(&[program, "/reuse", "reuse", "500"], "made")?;
        let said = self.run(&[program, "/reuse", "reuse", "10000"], "made")?;
        let (made, tables) = (count(&said, "made")?, count(&said, "tables")?);
        let told = tables + count(&said, "other tables, from flushes")?;
        // A compaction that the end came upon has made tables for nothing.
        ensure!(made > 100 && told * 10 >= made * 9, "{told} of {made} tables have a level");
        println!("  {:<18} a MANIFEST is reused: {told} of {made} tables have a level", "");
        Ok(())
    }

    /// A program on an empty drive leaves one table, in so many pieces at least, and each is of the level that
    /// the program says.
    fn placed_by_level(&self, name: &str, arguments: &[&str], pieces: usize) -> Result<()> {
        let program = &self.program(name)?;
        let said = self.run(&[&[program.as_str()], arguments].concat(), "level ")?;
        let level = last_behind(&said, "level ").with_context(|| format!("no level in {said}"))?;
        let mut dump = Command::new(&self.imbrex);
        let dump = dump.args(["--format", "json", "dump"]).arg(&self.drive).output();
        let dump = String::from_utf8(dump.context("cannot start imbrex")?.stdout)?;
        let table = Regex::new(r#""kind":\s*"table"[^{}]*?"level":\s*(\d+)"#)?;
        let found: Vec<&str> =
            table.captures_iter(&dump).map(|found| found.extract::<1>().1[0]).collect();
        let is_right = found.len() >= pieces && found.iter().all(|&of_piece| of_piece == level);
        ensure!(is_right, "a table of level {level} is placed as of {found:?}:\n{dump}");
        println!("  {:<18} a table in {} pieces, each of level {level}", "", found.len());
        Ok(())
    }

    /// What cannot work must say why.
    fn bad_input(&self) -> Result<()> {
        for (program, expected) in [
            (["ldb", "--db=/nowhere", "scan"], "/nowhere"),
            (["true", "", ""], "does not load librocksdb, libleveldb or"),
            (["no-such-program", "", ""], "cannot find the program"),
        ] {
            let (code, said) = self.try_run(&[], &program)?;
            ensure!(code != 0 && said.contains(expected), "{program:?}: {code}: {said}");
        }
        let (code, said) = self.try_run(&["--adapter", "/nowhere"], &["ldb", "--help"])?;
        ensure!(code == 4 && said.contains("cannot find the adapter"), "{code}: {said}");
        Ok(())
    }
}

/// Changes a byte of the one place of an image where `marked` lies.
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

/// What stands behind `words` in the last line that begins with them; the last of a program that was killed may be
/// cut, and counts only if it is ended.
fn last_behind(said: &str, words: &str) -> Option<String> {
    let whole = said.rsplit_once('\n').map_or("", |(lines, _)| lines);
    whole.lines().filter_map(|line| line.strip_prefix(words)).next_back().map(str::to_owned)
}

/// The number in the line that begins with `name`.
fn count(said: &str, name: &str) -> Result<u64> {
    let line = said.lines().find(|line| line.trim_start().starts_with(name));
    let digits: String = line.unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    digits.parse().with_context(|| format!("no count of {name} in:\n{said}"))
}

/// At least 99.9 % of the tables were of the level that was known when they were placed.
fn check_levels(said: &str) -> Result<()> {
    let (tables, right) = (count(said, "tables")?, count(said, "right")?);
    ensure!(tables > 100, "only {tables} tables were made");
    ensure!(right * 1000 >= tables * 999, "levels right: {right} of {tables}");
    println!("  {:<18} levels right: {right} of {tables}", "");
    Ok(())
}
