//! An ordered, durable key-value store for disks whose tracks overlap.

#[cfg_attr(not(test), expect(dead_code, reason = "first used by the store"))]
mod batch;
mod error;
mod iter;
#[cfg_attr(not(test), expect(dead_code, reason = "first used by the store"))]
mod key;
#[cfg_attr(not(test), expect(dead_code, reason = "first used by the store"))]
mod memtable;
#[cfg_attr(not(test), expect(dead_code, reason = "first used by the store"))]
mod merge;
#[cfg_attr(not(test), expect(dead_code, reason = "first used by the store"))]
mod range_del;

pub use batch::{KEY_LEN_BYTES_MAX, KeyspaceId, VALUE_LEN_BYTES_MAX, WriteBatch};
pub use error::EngineError;
