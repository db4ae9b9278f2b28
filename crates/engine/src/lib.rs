//! An ordered, durable key-value store for disks whose tracks overlap.
#![allow(dead_code, reason = "the parts land before the store that puts them together")]

mod batch;
mod cache;
mod compaction;
mod compression;
mod error;
mod iter;
mod key;
mod memtable;
mod merge;
mod options;
mod range_del;
mod read;
mod snapshot;
#[allow(unused_imports, reason = "the parts land before the store that puts them together")]
mod table;
mod version;
mod wal;

pub use batch::{KEY_LEN_BYTES_MAX, KeyspaceId, VALUE_LEN_BYTES_MAX, WriteBatch};
pub use error::EngineError;
pub use options::{
    CompactionKind, Compression, KeyspaceOptions, Options, ReadOptions, VictimOrder, WriteOptions,
};
pub use snapshot::Snapshot;

/// The inside of tables, for the micro-benchmark.
#[cfg(feature = "micro-bench")]
pub mod micro {
    pub use crate::table::micro::Fixture;
}
