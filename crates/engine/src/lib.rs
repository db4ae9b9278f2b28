//! An ordered, durable key-value store for disks whose tracks overlap.

mod batch;
mod cache;
mod check;
mod checkpoint;
mod compaction;
mod compression;
mod db;
mod dump;
mod error;
mod flush;
mod handle;
mod iter;
mod key;
mod keyspace;
mod memtable;
mod merge;
mod metrics;
mod options;
mod range_del;
mod read;
mod recover;
mod snapshot;
mod store;
mod table;
mod version;
mod wal;
mod write;

pub use batch::{KEY_LEN_BYTES_MAX, KeyspaceId, VALUE_LEN_BYTES_MAX, WriteBatch};
pub use check::CheckReport;
pub use db::Db;
pub use dump::{DumpSink, dump_log, dump_records, dump_table};
pub use error::EngineError;
pub use handle::Keyspace;
pub use metrics::{CompactionLine, KeyspaceMetrics, LevelMetrics, Metrics, StallMetrics};
pub use options::{
    CompactionKind, Compression, KeyspaceOptions, Options, ReadOptions, VictimOrder, WriteOptions,
};
pub use read::{Entries, Iter, prefix_end};
pub use recover::Recovery;
pub use snapshot::Snapshot;

/// The inside of tables, for the micro-benchmark.
#[cfg(feature = "micro-bench")]
pub mod micro {
    pub use crate::table::micro::Fixture;
}
