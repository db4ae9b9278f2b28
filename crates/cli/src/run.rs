//! `run`: runs an unmodified program of a foreign database on a drive.
//!
//! ```text
//!   check the drive: does it open, and is it empty or does it hold a file system?
//!   check the program: found? dynamic? loads librocksdb, libleveldb or libhyperleveldb of the adapter's version?
//!   run LD_PRELOAD=adapter IMBREX_URI=imbrex://DRIVE PROGRAM ARGS, and pass signals on to it
//!   check the adapter's report: it exists only if the program opened a database on the drive
//! ```

mod child;
mod program;

use crate::count::grouped;
use crate::error::{CliError, Context, Exit};
use crate::output::{Report, note};
use crate::session::Session;
use crate::store::DriveArgs;
use crate::target::Target;
use child::Signals;
use imbrex_clockwork::Runtime;
use imbrex_disk::ByteSize;
use program::Program;
use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// The databases with an adapter.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Rocksdb,
    Leveldb,
    Hyperleveldb,
}

impl Database {
    /// All databases, in the order of the search.
    pub(crate) const ALL: [Database; 3] =
        [Database::Rocksdb, Database::Leveldb, Database::Hyperleveldb];

    /// The prefix of the database's library names.
    pub(crate) fn library(self) -> &'static str {
        match self {
            Database::Rocksdb => "librocksdb.so",
            Database::Leveldb => "libleveldb.so",
            Database::Hyperleveldb => "libhyperleveldb.so",
        }
    }

    fn adapter(self) -> &'static str {
        match self {
            Database::Rocksdb => "libimbrex_rocksdb.so",
            Database::Leveldb => "libimbrex_leveldb.so",
            Database::Hyperleveldb => "libimbrex_hyperleveldb.so",
        }
    }
}

/// Programs of RocksDB that take the file system as an argument.
const TAKE_FS_URI: [&str; 3] = ["db_bench", "ldb", "sst_dump"];

/// Commands of `ldb` that refuse every argument but the path of the database. The adapter finds the drive
/// in the environment.
const TAKE_PATH_ONLY: [&str; 2] = ["create_column_family", "drop_column_family"];

/// Whether the program `name` takes the file system as an argument, which `args` do not give yet.
fn takes_uri(name: &str, args: &[OsString]) -> bool {
    let has = |is: &dyn Fn(&str) -> bool| args.iter().any(|arg| is(&arg.to_string_lossy()));
    let is_given = has(&|arg| arg.starts_with("--fs_uri") || arg.starts_with("--env_uri"));
    let takes_path_only = name == "ldb" && has(&|arg| TAKE_PATH_ONLY.contains(&arg));
    TAKE_FS_URI.contains(&name) && !is_given && !takes_path_only
}

/// Arguments of `imbrex run`.
#[derive(clap::Args, Debug)]
pub(crate) struct RunArgs {
    /// The drive, prepared by `imbrex drive create --no-store` or `imbrex drive format --no-store`
    #[arg(long, value_name = "DRIVE")]
    drive: PathBuf,
    /// Require this layout, and refuse a drive with another one
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// The program's database, if it loads the library only while it runs, as Python does
    #[arg(long, value_enum)]
    database: Option<Database>,
    /// The adapter to preload [default: libimbrex_rocksdb.so, libimbrex_leveldb.so or
    /// libimbrex_hyperleveldb.so in the directory of this program, in ../adapters or in ../lib]
    #[arg(long, value_name = "FILE", env = "IMBREX_ADAPTER")]
    adapter: Option<PathBuf>,
    /// Afterwards print the drive's counters, and how often the level of a table was known in time
    #[arg(long)]
    stats: bool,
    /// Write the same counters to this file, as one JSON object; empty if no database was opened
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The program and its arguments; paths of databases are paths on the drive
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

impl RunArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        // An output format that does not fit fails before the program runs.
        session.out.is_json()?;
        let (name, args) = self.program.split_first().expect("clap requires a program");
        let signals = Signals::hold().context(|| "cannot hold signals back")?;
        let target = self.report.as_ref().map(|path| Target::new(path, &[&self.drive]));
        let target = target.transpose()?;
        let drive = self.check_drive()?;
        let program = Program::find(name)?;
        let (database, library) = program.database(self.database)?;
        let adapter = self.find_adapter(database)?;
        program.check_preload(&adapter, database, library.as_deref())?;
        let report =
            tempfile::NamedTempFile::new().context(|| "cannot create the file of the report")?;
        let uri = match &self.layout {
            Some(layout) => format!("imbrex://{}?layout={layout}", drive.display()),
            None => format!("imbrex://{}", drive.display()),
        };
        let mut command = Command::new(program.path());
        command.args(args);
        if database == Database::Rocksdb && takes_uri(program.name(), args) {
            command.arg(format!("--fs_uri={uri}"));
        }
        command.env("LD_PRELOAD", program::with_preload(&adapter));
        command.env("IMBREX_RUN", "1").env("IMBREX_URI", &uri);
        command.env("IMBREX_REPORT", report.path());
        let status = signals.run(&command);
        let status = status.context(|| format!("cannot run {}", program.shown()))?;
        let text = std::fs::read_to_string(report.path()).unwrap_or_default();
        // `pass_on` may exit the process, which runs no destructor; the file must be removed before.
        drop(report);
        if let Some(target) = target {
            target.write(&text)?;
        }
        match serde_json::from_str::<Value>(&text) {
            Ok(found) if self.stats => session.out.report(&stats(&found))?,
            Ok(_) => {}
            Err(_) => note(format!(
                "imbrex: {} ended without opening a database on the drive, or was killed",
                program.shown()
            )),
        }
        pass_on(status, session)
    }

    /// Opens the drive and closes it again, so that its errors are reported before the program runs.
    fn check_drive(&self) -> Result<PathBuf, CliError> {
        let args = DriveArgs::new(self.drive.clone(), self.layout.clone());
        args.open_file_system(&Runtime::threads(1))?;
        self.drive.canonicalize().context(|| format!("cannot find {}", args.shown()))
    }

    fn find_adapter(&self, database: Database) -> Result<PathBuf, CliError> {
        let missing = |places: String| {
            let message = format!(
                "cannot find the adapter {} (looked for {places}); build it with `cargo xtask adapters`{}, \
                 or name it with --adapter",
                database.adapter(),
                match database {
                    Database::Hyperleveldb => " where HyperLevelDB is installed",
                    Database::Rocksdb | Database::Leveldb => "",
                }
            );
            CliError::new(Exit::Store, message)
        };
        let here = std::env::current_exe().context(|| "cannot find this program")?;
        let dir = here.parent().unwrap_or(Path::new("."));
        let places: Vec<PathBuf> = match &self.adapter {
            Some(adapter) => vec![adapter.clone()],
            None => [".", "../adapters", "../lib"]
                .map(|to| dir.join(to).join(database.adapter()))
                .to_vec(),
        };
        let found = places.iter().find_map(|place| place.canonicalize().ok());
        let shown = |place: &PathBuf| place.display().to_string();
        found.ok_or_else(|| missing(places.iter().map(shown).collect::<Vec<_>>().join(", ")))
    }
}

/// Ends this process like the program: with its exit code, or 128 plus the signal that ended it.
fn pass_on(status: ExitStatus, session: &mut Session) -> Result<(), CliError> {
    if status.success() {
        return Ok(());
    }
    match session.out.flush() {
        Err(error) if error.exit() != Exit::ReaderGone => return Err(error),
        _ => {}
    }
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    std::process::exit(code.unwrap_or(1));
}

fn stats(found: &Value) -> Report {
    let number = |name: &str| found[name].as_u64().unwrap_or(0);
    let bytes = |name: &str| ByteSize(number(name)).to_string();
    let mut report = Report::default();
    report.section("levels known when tables were placed");
    for (name, key) in [
        ("tables", "tables"),
        ("other tables, from flushes", "flushed"),
        ("right", "right"),
        ("wrong", "wrong"),
        ("unknown", "unknown"),
        ("moved afterwards", "moved"),
    ] {
        report.row(name, grouped(number(key)), number(key));
    }
    report.section("drive");
    for (name, key) in [
        ("read", "read_bytes"),
        ("written", "written_bytes"),
        ("added by the recording", "added_written_bytes"),
        ("held by files", "live_bytes"),
        ("capacity", "capacity_bytes"),
    ] {
        report.row(name, bytes(key), number(key));
    }
    for name in ["reads", "writes", "flushes", "seeks"] {
        report.row(name, grouped(number(name)), number(name));
    }
    let busy_s = number("busy_ns") as f64 / 1e9;
    report.row("busy", format!("{busy_s:.1} s"), number("busy_ns"));
    report.section("files");
    report.row("written", bytes("file_written_bytes"), number("file_written_bytes"));
    let moved = "cleaning_moved_bytes";
    report.row("moved by cleaning", bytes(moved), number(moved));
    for (name, key) in [
        ("zones cleaned", "cleaned_zones"),
        ("zones reset", "reset_zones"),
        ("tracks rewritten", "rewritten_tracks"),
        ("syncs for rewrites", "track_syncs"),
        ("commits", "commits"),
    ] {
        report.row(name, grouped(number(key)), number(key));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::takes_uri;
    use std::ffi::OsString;

    #[test]
    fn only_programs_and_commands_that_take_the_file_system_get_it() {
        let takes = |line: &str| {
            let mut words = line.split(' ');
            let name = words.next().unwrap();
            takes_uri(name, &words.map(OsString::from).collect::<Vec<_>>())
        };
        assert!(takes("ldb --db=/db put a b"));
        assert!(takes("ldb --db=/db list_column_families"));
        assert!(takes("db_bench --benchmarks=fillseq"));
        assert!(!takes("ldb --db=/db create_column_family one"));
        assert!(!takes("ldb drop_column_family one --db=/db"));
        assert!(!takes("ldb --db=/db --fs_uri=imbrex://other scan"));
        assert!(!takes("db_bench --env_uri=imbrex://other"));
        assert!(!takes("db_stress --ops_per_thread=9"));
        // For another program, the word is a key or a value.
        assert!(takes("db_bench create_column_family"));
    }
}
