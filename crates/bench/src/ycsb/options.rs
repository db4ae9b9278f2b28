//! The flags of `imbrex ycsb`, under YCSB's names if it has them.

use crate::options::{Mode, TestbedOptions};
use imbrex_workload::ycsb::properties::{Properties, PropertyError};
use std::path::{Path, PathBuf};

/// The options of one `imbrex ycsb load` or `run`.
#[derive(Clone, Debug, clap::Args)]
pub struct YcsbOptions {
    /// One of YCSB's core workloads, a to f, with 1000 records and 1000 operations; property files and
    /// properties override it
    #[arg(long, value_name = "LETTER", ignore_case = true)]
    #[arg(value_parser = ["a", "b", "c", "d", "e", "f"], hide_possible_values = true)]
    pub workload: Option<String>,

    /// A property file; may be repeated, and later files override earlier ones
    #[arg(short = 'P', long = "properties", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// A property such as recordcount=100000, which overrides the files; may be repeated
    #[arg(short = 'p', long = "property", value_name = "KEY=VALUE")]
    pub assignments: Vec<String>,

    /// Print a status line every ten seconds, or at the interval of the property status.interval
    #[arg(short = 's', long)]
    pub status: bool,

    /// Text at the beginning of status lines
    #[arg(short = 'l', long)]
    pub label: Option<String>,

    /// Number of concurrent clients; the property threadcount
    #[arg(long)]
    pub threads: Option<u32>,

    /// Operations per second of all clients together; the property target [default: unlimited]
    #[arg(long)]
    pub target: Option<u64>,

    /// The store; the property db [default: imbrex]
    ///
    /// imbrex; redis://HOST:PORT or unix:///PATH for a Redis server (feature redis); rocksdb:///PATH or
    /// leveldb:///PATH for a database opened with the system's RocksDB or LevelDB (feature foreign); basic
    /// for a store that does nothing.
    #[arg(long, value_name = "STORE")]
    pub db: Option<String>,

    /// Seed: in virtual time the same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Clock: virtual (a modelled disk, deterministic) or threads (this machine's time)
    /// [default: virtual, or threads for another store]
    #[arg(long)]
    pub mode: Option<Mode>,

    /// Sync the log after every write
    #[arg(long)]
    pub sync: bool,

    /// After the last operation, flush and wait for the background work
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub settle: bool,

    /// The drive, the layout and the options of an Imbrex store
    #[command(flatten)]
    pub testbed: TestbedOptions,
}

impl YcsbOptions {
    /// The options with every flag at its default.
    pub fn new() -> YcsbOptions {
        #[derive(Debug, clap::Parser)]
        struct Only {
            #[command(flatten)]
            options: YcsbOptions,
        }
        <Only as clap::Parser>::parse_from(["ycsb"]).options
    }

    /// All properties: those of the core workload, overridden by those of the files, then by the flags.
    ///
    /// # Errors
    /// [`PropertyError`]: a file cannot be read, or is not a property file; an argument is not a property.
    pub fn read_properties(&self) -> Result<Properties, PropertyError> {
        let mut properties = Properties::new();
        if let Some(letter) = &self.workload {
            let letter = letter.to_ascii_lowercase();
            let name = format!("workload {letter}");
            properties.read(Path::new(&name), core_workload(&letter).as_bytes())?;
        }
        for file in &self.files {
            properties.read_file(file)?;
        }
        for assignment in &self.assignments {
            properties.assign(assignment)?;
        }
        if self.status {
            properties.set("status", "true");
        }
        let flags = [
            ("label", self.label.clone()),
            ("threadcount", self.threads.map(|count| count.to_string())),
            ("target", self.target.map(|rate| rate.to_string())),
            ("db", self.db.clone()),
        ];
        for (key, value) in flags {
            if let Some(value) = value {
                properties.set(key, value);
            }
        }
        Ok(properties)
    }
}

impl Default for YcsbOptions {
    fn default() -> YcsbOptions {
        YcsbOptions::new()
    }
}

/// The properties of a core workload, whose operations are those of
/// [`YcsbWorkload`](imbrex_workload::ycsb::presets::YcsbWorkload).
fn core_workload(letter: &str) -> String {
    let shares = match letter {
        "a" => "readproportion=0.5\nupdateproportion=0.5\n",
        "b" => "readproportion=0.95\nupdateproportion=0.05\n",
        "c" => "readproportion=1\nupdateproportion=0\n",
        "d" => "readproportion=0.95\nupdateproportion=0\ninsertproportion=0.05\n",
        "e" => "readproportion=0\nupdateproportion=0\nscanproportion=0.95\ninsertproportion=0.05\n",
        _ => "readproportion=0.5\nupdateproportion=0\nreadmodifywriteproportion=0.5\n",
    };
    let distribution = if letter == "d" { "latest" } else { "zipfian" };
    format!(
        "recordcount=1000\noperationcount=1000\n{shares}requestdistribution={distribution}\n\
         maxscanlength=100\nscanlengthdistribution=uniform\n"
    )
}

/// The six core workloads as property files for YCSB and for `imbrex ycsb -P`: name and text of each.
pub fn core_workload_files() -> impl Iterator<Item = (String, String)> {
    let workloads = [
        ("a", "update heavy: half reads, half updates"),
        ("b", "read mostly: 95 % reads, 5 % updates"),
        ("c", "read only"),
        ("d", "read latest: 95 % reads, most of them of what came last, 5 % inserts"),
        ("e", "short ranges: 95 % scans, 5 % inserts"),
        ("f", "read-modify-write: half reads, half reads that are followed by an update"),
    ];
    workloads.into_iter().map(|(letter, about)| {
        let properties = core_workload(letter);
        let text = format!(
            "# YCSB's core workload {}, {about}; written by `imbrex ycsb workloads`.\n\
             workload=site.ycsb.workloads.CoreWorkload\n{properties}",
            letter.to_ascii_uppercase()
        );
        (format!("workload{letter}"), text)
    })
}
