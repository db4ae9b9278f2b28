//! The trait of everything that yields internal keys in order: memtables, tables, merges.

use crate::EngineError;
use crate::key::InternalKey;

/// A cursor over internal entries in internal-key order. It starts without a position (`valid()` is
/// false), and has none after an error.
///
/// Range tombstones are not among the entries; each source returns them separately.
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

    /// Moves to the previous entry. Only while `valid`.
    fn prev(&mut self) -> Result<(), EngineError>;

    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;

    /// The entry's key.
    fn key(&self) -> InternalKey<'_>;

    /// Loads the entry's value for [`InternalIter::value`] and returns what that cost: 0, or for a
    /// separate read the number of bytes whose transfer takes as long. Only while `valid`.
    fn load_value(&mut self) -> Result<u64, EngineError> {
        Ok(0)
    }

    /// The entry's value. Only after [`InternalIter::load_value`].
    fn value(&self) -> &[u8];

    /// The length of the entry's value.
    fn value_len(&self) -> usize {
        self.value().len()
    }
}
