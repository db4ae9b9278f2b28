//! Our store in process.
//!
//! In a store on threads a write waits for the one before it, and whoever waits for a flush holds all writers up. In virtual
//! time clients take turns and meet at the drive alone: who waits has the store work until the flush is done, and
//! the next client, whose time is earlier, would find it done and never wait. So there a write begins when the
//! one before it has ended ([`WriteTurns`]).

use super::encoded::{EachEntry, KeyValue};
use super::store::StoreError;
use bytes::Bytes;
use imbrex_clockwork::Clock;
use imbrex_engine::{EngineError, Keyspace, ReadOptions, WriteOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A table of ours: a keyspace.
#[derive(Debug)]
pub(crate) struct OwnTable {
    pub(crate) keyspace: Keyspace,
    pub(crate) write: WriteOptions,
    /// In virtual time: shared by all clients.
    pub(crate) turns: Option<Arc<WriteTurns>>,
}

/// When the last write ended.
#[derive(Debug)]
pub(crate) struct WriteTurns {
    clock: Arc<dyn Clock>,
    ended_ns: AtomicU64,
}

impl WriteTurns {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> WriteTurns {
        WriteTurns { clock, ended_ns: AtomicU64::new(0) }
    }

    /// Does `write` when the one before it has ended.
    pub(crate) fn in_turn<T>(&self, write: impl FnOnce() -> T) -> T {
        self.clock.advance_to_ns(self.ended_ns.load(Ordering::Relaxed));
        let written = write();
        self.ended_ns.store(self.clock.now_ns(), Ordering::Relaxed);
        written
    }

    /// The same in virtual time; at once on threads, which have no `turns`.
    pub(crate) fn maybe<T>(turns: Option<&WriteTurns>, write: impl FnOnce() -> T) -> T {
        match turns {
            Some(turns) => turns.in_turn(write),
            None => write(),
        }
    }
}

impl OwnTable {
    fn in_turn<T>(&self, write: impl FnOnce() -> T) -> T {
        WriteTurns::maybe(self.turns.as_deref(), write)
    }
}

impl KeyValue for OwnTable {
    type Error = EngineError;

    fn get(&self, key: &str) -> Result<Option<Bytes>, EngineError> {
        self.keyspace.get(key)
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), EngineError> {
        self.in_turn(|| self.keyspace.put_with(key, value, self.write))
    }

    fn delete(&self, key: &str) -> Result<(), EngineError> {
        self.in_turn(|| self.keyspace.delete_with(key, self.write))
    }

    fn scan(&self, start: &str, each: &mut EachEntry<'_>) -> Result<(), EngineError> {
        let mut cursor = self.keyspace.iter(ReadOptions::default())?;
        cursor.seek(start)?;
        while cursor.valid() {
            if each(cursor.key(), cursor.value()).is_break() {
                return Ok(());
            }
            cursor.next()?;
        }
        Ok(())
    }

    fn failed(what: &'static str, key: &str, error: EngineError) -> StoreError {
        match error {
            EngineError::KeyLen { .. }
            | EngineError::ValueLen { .. }
            | EngineError::Corrupt { .. } => StoreError::refused(what, key, error),
            error => StoreError::lost(what, key, error),
        }
    }
}
