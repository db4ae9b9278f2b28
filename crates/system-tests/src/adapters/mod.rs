//! The adapters: built against the system's databases, and tested with the programs they ship.
//!
//! ```text
//!   build     imbrex, the C API, adapters/{rocksdb,leveldb,hyperleveldb}
//!   session   imbrex drive create DRIVE; imbrex run --drive DRIVE -- PROGRAM ...
//!               rocksdb, leveldb, hyperleveldb    each database's programs on one drive
//! ```

pub(crate) mod build;
pub(crate) mod counters;
mod hyperleveldb;
mod leveldb;
mod output;
mod rocksdb;
pub(crate) mod session;

use crate::databases;
use crate::scratch::Scratch;
use crate::stress;
use anyhow::{Context, Result};
pub use build::Database;
use build::build;
use session::Session;
use std::path::Path;

/// A layout for each kind of drive, and how its drive is made.
const DRIVES: [(&str, &[&str]); 4] = [
    ("leveled-zones", &["--capacity", "4GiB", "--zone-len", "64MiB"]),
    ("leveled-first-fit", &["--capacity", "4GiB", "--rule", "conventional"]),
    ("sealdb", &["--capacity", "4GiB"]),
    ("imr-m", &["--capacity", "4GiB"]),
];

/// Builds the adapters, or only that of `only`, and tests them. Missing packages are an error unless `may_skip` is set
/// (T2). HyperLevelDB, which is no package, is skipped if it is not installed.
pub fn run(root: &Path, may_skip: bool, only: Option<Database>) -> Result<()> {
    let Some(built) = build(root, may_skip, only)? else { return Ok(()) };
    let scratch = Scratch::new(root, "adapters-test")?;
    let dir = scratch.path().join("test");
    for (layout, options) in DRIVES {
        let mut session = Session::new(root, &dir, layout, options)?;
        if built.rocksdb {
            rocksdb::story(&session).with_context(|| format!("RocksDB on {layout}"))?;
            stress::shortly(root, &dir, stress::Database::Rocksdb, layout)?;
        }
        if built.leveldb {
            leveldb::story(&session).with_context(|| format!("LevelDB on {layout}"))?;
            stress::shortly(root, &dir, stress::Database::Leveldb, layout)?;
        }
        if let Some(prefix) = &built.hyperleveldb {
            session.libraries = Some(prefix.join("lib"));
            let story = hyperleveldb::story(&session, prefix);
            story.with_context(|| format!("HyperLevelDB on {layout}"))?;
        }
    }
    let session = |dir: &Path| Session::new(root, dir, DRIVES[0].0, DRIVES[0].1);
    let levels = &dir.join("levels");
    if built.rocksdb {
        session(levels)?.placed_by_level("levels_program", &["/long", "long"], 2)?;
        session(levels)?.placed_by_level("levels_program", &["/shared", "shared"], 1)?;
        session(levels)?.placed_by_level("levels_program", &["/back", "back"], 1)?;
    }
    if built.leveldb {
        session(levels)?.placed_by_level("load_program", &["/long", "long", "300"], 2)?;
    }
    databases::test(&built, &dir)
}
