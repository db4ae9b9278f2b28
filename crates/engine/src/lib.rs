//! Imbrex: an ordered, durable key-value store for disks whose tracks overlap.
//!
//! ```
//! use imbrex_engine::{Db, Options, WriteBatch, WriteOptions};
//! use imbrex_clockwork::Runtime;
//! use imbrex_disk::Blocks;
//! use imbrex_disk_sim::SimDisk;
//! use imbrex_files::{FileLayer, FormatOptions, PlacementKind};
//! use std::sync::Arc;
//!
//! // A zoned drive in memory, files on it, a store in them. A real program formats once and then
//! // opens with `FileLayer::open`.
//! let runtime = Runtime::threads(2);
//! let disk = Arc::new(SimDisk::tiny_zoned(64, Blocks::new(256)));
//! let placement = PlacementKind::by_name("log-structured").ok_or("no such placement")?;
//! let files = FileLayer::format(disk, &FormatOptions::new(placement), &runtime)?;
//! let options = Options { memtable_len_bytes: 1 << 20, ..Options::default() };
//! let db = Db::open(Arc::new(files), runtime, options)?;
//!
//! let fruit = db.default_keyspace();
//! fruit.put("apple", "red")?;
//! fruit.put("banana", "yellow")?;
//! let before = db.snapshot();
//!
//! let mut batch = WriteBatch::new();
//! batch.delete(&fruit, "apple")?;
//! batch.put(&fruit, "cherry", "dark red")?;
//! db.write(batch, WriteOptions::SYNC)?; // all of it, durable
//!
//! assert_eq!(fruit.get("apple")?, None);
//! assert_eq!(fruit.get_at(&before, "apple")?.as_deref(), Some(&b"red"[..]));
//! for entry in fruit.range("b"..)?.rev() {
//!     let (key, value) = entry?;
//!     println!("{key:?} is {value:?}"); // cherry, then banana
//! }
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it is
//!
//! A log-structured merge-tree over the file layer `imbrex-files`. It knows levels and groups, and
//! never sees a zone or a track. One `put` passes through these steps:
//!
//! ```text
//!   db         Keyspace::put                 checks the key
//!   write      gate, sequence number         stalls while the store lags, refuses while it is full
//!   wal        record in the log             the only thing a sync has to make durable
//!   memtable   sorted in memory              where reads look first
//!   ---------- acknowledged ------------------------------------------------------------------
//!   flush      a table of level 0            tables, logs and version change in one commit
//!   compaction merged down, level by level   a policy plans, a job merges, one commit each
//! ```
//!
//! A `get` reads the memtables from the newest to the oldest, then the levels from the top. In each
//! sorted run at most one table can hold the key. The table's filter excludes most absent keys
//! without a read.
//!
//! # Reading the code
//!
//! From the bottom up; each folder imports only those before it:
//!
//! ```text
//!   key, batch, merge, options ...     ground: vocabulary that all others share
//!   wal  memtable  table               logs, the newest writes in memory, sorted files
//!   totals                             counters over the store's lifetime
//!   version                            which tables form which level; the records in the catalog
//!   compaction                         policies plan (pure), merges write tables
//!   store                              the state of an open store, and the commit that changes it
//!   read                               point reads, cursors, ranges
//!   work                               writes, flushes, compactions: they execute, and decide nothing
//!   open                               whole-store procedures: recovery, check, dump
//!   db                                 the handles: Db, Keyspace
//!   salvage                            a store from a drive whose catalog is lost
//! ```
//!
//! Background work runs as [`Job`](imbrex_clockwork::Job)s: flushes, compactions, and a look-out
//! for idle periods. With a virtual runtime, jobs are interleaved with the foreground on one
//! thread, in an order that a seed decides.
//!
//! # When not to use it
//!
//! Transactions that both read and write are not provided: a batch is atomic, but the store does
//! not detect that another writer changed a key after this one read it. Only one process at a time
//! can write a drive.
//!
//! # Durability
#![doc = include_str!("../docs/durability.md")]

mod band;
mod batch;
mod compaction;
mod db;
mod error;
mod first_reads;
mod iter;
mod key;
mod losses;
mod memtable;
mod merge;
mod metrics;
mod open;
mod options;
mod pins;
mod range_del;
mod read;
pub mod salvage;
mod snapshot;
mod store;
mod table;
mod totals;
mod version;
mod wal;
mod watch;
mod work;

pub use batch::{KEY_LEN_BYTES_MAX, KeyspaceId, VALUE_LEN_BYTES_MAX, WriteBatch};
pub use db::Db;
pub use db::keyspace::Keyspace;
pub use db::pin::{PinnedStore, PinnedTable, verify_table};
pub use db::replica::ReplicaReport;
pub use error::EngineError;
pub use metrics::Metrics;
pub use open::check::CheckReport;
pub use open::recover::Recovery;
pub use open::scrub::{MendedFrom, ScrubbedTable, mend_table};
pub use options::{
    CompactionKind, Compression, KeyspaceOptions, OpenMode, Options, ReadOptions, WriteOptions,
};
pub use pins::{CheckpointPins, Pins};
pub use read::{Entries, Iter, prefix_end};
pub use snapshot::Snapshot;
pub use totals::{Total, Totals};
pub use watch::{Progress, Watch};

/// What a store consists of and what it did, for people and for measurements. Not stable.
pub mod inspect {
    pub use crate::metrics::{
        BaseMergeMetrics, CompactionLine, KeyspaceMetrics, LevelMetrics, MergeWait, OutputTable,
        PartitionMetrics, PartitionShape, PartitionTotals, RunningCompaction, StallMetrics,
        ValuesApartMetrics,
    };
    pub use crate::open::dump::{DumpSink, dump_log, dump_records, dump_table};
    pub use crate::open::parts::{KeyspaceParts, TablePart, store_parts};
    pub use crate::version::partitions::BASE_LEVEL;
}

/// Choices of a compaction that only comparisons of policies need. Not stable.
pub mod tuning {
    pub use crate::options::{GearDepth, VictimGrowth, VictimOrder};
}

/// The inside of tables, for the micro-benchmark.
#[cfg(feature = "micro-bench")]
pub mod micro {
    pub use crate::table::micro::Fixture;
}
