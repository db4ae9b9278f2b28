//! An ordered, durable key-value store for disks whose tracks overlap.

mod error;
#[expect(dead_code, reason = "first used by the memtable and the tables")]
mod iter;
#[expect(dead_code, reason = "first used by the memtable and the tables")]
mod key;

pub use error::EngineError;
