//! Our store in process. In virtual time its writes wait for each other ([`WriteTurns`]).

use super::encoded::{EachEntry, KeyValue};
use super::store::StoreError;
use crate::write_turns::WriteTurns;
use bytes::Bytes;
use imbrex_engine::{EngineError, Keyspace, ReadOptions, WriteOptions};
use std::sync::Arc;

/// A table of our store: a keyspace.
#[derive(Debug)]
pub(crate) struct OwnTable {
    pub(crate) keyspace: Keyspace,
    pub(crate) write: WriteOptions,
    /// In virtual time, shared by all clients.
    pub(crate) turns: Option<Arc<WriteTurns>>,
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
