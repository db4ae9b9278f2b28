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

    /// Sees to it that [`InternalIter::value`] has the entry's value, and says what that cost: 0, or for a
    /// read of its own as much transfer as takes as long. Only while `valid`.
    fn load_value(&mut self) -> Result<u64, EngineError> {
        Ok(0)
    }

    /// The entry's value. Only after [`InternalIter::load_value`].
    fn value(&self) -> &[u8];

    /// How long the entry's value is.
    fn value_len(&self) -> usize {
        self.value().len()
    }
}
