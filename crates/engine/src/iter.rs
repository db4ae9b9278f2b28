//! The trait of everything that yields internal keys in order: memtables, tables, merges.

use crate::EngineError;
use crate::key::InternalKey;

/// A cursor over internal entries in internal-key order; starts nowhere (`valid()` is false).
///
/// After an error the cursor is nowhere. `key` and `value` may be called only while `valid`.
/// Range tombstones are not among the entries: they are asked for apart.
pub(crate) trait InternalIter: Send {
    /// Moves to the first entry.
    fn seek_to_first(&mut self) -> Result<(), EngineError>;

    /// Moves to the last entry.
    fn seek_to_last(&mut self) -> Result<(), EngineError>;

    /// Moves to the first entry at or after `target`.
    fn seek(&mut self, target: InternalKey<'_>) -> Result<(), EngineError>;

    /// Moves to the last entry before `target` (strictly).
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<(), EngineError>;

    /// Moves to the next entry. Only while `valid`.
    fn next(&mut self) -> Result<(), EngineError>;

    /// Moves to the entry before. Only while `valid`.
    fn prev(&mut self) -> Result<(), EngineError>;

    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;

    /// The entry's key.
    fn key(&self) -> InternalKey<'_>;

    /// Sees to it that [`InternalIter::value`] has the entry's value. Only while `valid`.
    fn load_value(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// The entry's value. Only after [`InternalIter::load_value`].
    fn value(&self) -> &[u8];

    /// How long the entry's value is.
    fn value_len(&self) -> usize {
        self.value().len()
    }

    /// How much transfer it costs to load the value, by time; 0 if that needs no read of its own.
    fn load_cost_bytes(&self) -> u64 {
        0
    }
}
