//! Builds `imbrex` and the adapters, with make, against the databases that are installed.

use super::hyperleveldb;
use crate::cargo;
use crate::packages::{self, Need};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the adapters and their tests need.
const NEEDS: [Need; 6] = [
    ("/usr/include/rocksdb/file_system.h", "librocksdb-dev"),
    ("/usr/include/leveldb/env.h", "libleveldb-dev"),
    ("/usr/bin/db_bench", "rocksdb-tools"),
    ("/usr/lib/python3/dist-packages/plyvel", "python3-plyvel"),
    ("/usr/bin/c++", "g++"),
    ("/usr/bin/make", "make"),
];

/// The databases with an adapter.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// Of the distribution.
    Rocksdb,
    /// Of the distribution.
    Leveldb,
    /// Where IMBREX_HYPERLEVELDB or pkg-config names it.
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

/// Builds `imbrex` and the adapters, or only that of `only`. Returns `None` if packages are missing and `may_skip` is set
/// (T2).
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

/// Builds an adapter. `prefix` names the installation of a database that is no package.
fn make(root: &Path, adapter: &str, prefix: Option<&Path>) -> Result<()> {
    let mut make = Command::new("make");
    // Standard output is for the result of the command.
    make.args(["-C", adapter, "-j2"]).current_dir(root).stdout(std::io::stderr());
    make.arg(format!("CAPI={}", cargo::target(root).display()));
    if let Some(prefix) = prefix {
        make.arg(format!("HYPERLEVELDB={}", prefix.display()));
    }
    ensure!(make.status().context("cannot start make")?.success(), "building {adapter} failed");
    Ok(())
}
