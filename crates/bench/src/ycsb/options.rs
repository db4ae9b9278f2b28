//! The flags of `imbrex ycsb`, with YCSB's names where it has them.

use crate::options::{Mode, TestbedOptions};
use imbrex_workload::ycsb::properties::{Properties, PropertyError};
use std::path::PathBuf;

/// The options of one `imbrex ycsb load` or `run`.
#[derive(Clone, Debug, clap::Args)]
pub struct YcsbOptions {
    /// A property file; later files override earlier ones
    #[arg(short = 'P', long = "properties", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// A property, which overrides the files: recordcount=100000
    #[arg(short = 'p', long = "property", value_name = "KEY=VALUE")]
    pub assignments: Vec<String>,

    /// Print a status line every ten seconds, or at the interval of the property status.interval
    #[arg(short = 's', long)]
    pub status: bool,

    /// Prefix of status lines
    #[arg(short = 'l', long)]
    pub label: Option<String>,

    /// Number of concurrent clients; the property threadcount
    #[arg(long)]
    pub threads: Option<u32>,

    /// Operations per second of all clients together; the property target [default: unlimited]
    #[arg(long)]
    pub target: Option<u64>,

    /// The store: imbrex; a Redis server as redis://HOST:PORT or unix:///PATH (feature redis); a
    /// database of the system's RocksDB or LevelDB as rocksdb:///PATH or leveldb:///PATH (feature
    /// foreign); basic, which does nothing; the property db [default: imbrex]
    #[arg(long, value_name = "STORE")]
    pub db: Option<String>,

    /// Random seed: in virtual time the same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Time: virtual (a modelled disk, deterministic) or threads (this machine) [default: virtual;
    /// threads for other stores]
    #[arg(long)]
    pub mode: Option<Mode>,

    /// Sync the log at every write
    #[arg(long)]
    pub sync: bool,

    /// After the last operation, flush and wait for the background work
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub settle: bool,

    /// The drive, the layout and the options of our own store
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

    /// All properties: those of the files, overridden by those of the flags.
    ///
    /// # Errors
    /// [`PropertyError`]: a file cannot be read or is not a property file; an argument is not a
    /// property.
    pub fn read_properties(&self) -> Result<Properties, PropertyError> {
        let mut properties = Properties::new();
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
