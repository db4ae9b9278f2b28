//! Files that cleaning wrote: tables whose keys are places of values, with the user keys first.
//!
//! ```text
//!   | k 12:0:300 -> "b" | k 12:17:40 -> "f" | ... | v 12:0:300 -> value of "b" | v 12:17:40 -> value of "f" | ...
//! ```
//!
//! Not here: the job that writes them (`work::clean`).

use super::apart::{MOVED_KEYS, MovedKey};
use super::filter::key_hash;
use super::format::{BlockHandle, corrupt};
use super::iter::TableReadOptions;
use super::reader::{Table, TableLookup};
use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::{InternalKey, Kind, Seq, Trailer};
use std::ops::Range;
use std::sync::Arc;

impl Table {
    /// The origins whose values are in the file, ascending; none if cleaning did not write it.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`], [`EngineError::Files`].
    pub(crate) fn moved_origins(self: &Arc<Table>) -> Result<Vec<u64>, EngineError> {
        let mut origins = Vec::new();
        let read = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
        let mut entries = self.iter(read);
        entries.seek(InternalKey::new(MOVED_KEYS, Trailer::seek(Seq::MAX)))?;
        while entries.valid()
            && let Some(key) = MovedKey::of_key_entry(entries.key().user_key)
        {
            if origins.last() != Some(&key.origin()) {
                origins.push(key.origin());
            }
            entries.next()?;
        }
        Ok(origins)
    }

    /// Where a file that cleaning wrote has a value, with what is beside it in its block.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`], [`EngineError::Files`].
    pub(crate) fn moved_range(&self, key: MovedKey) -> Result<Range<u64>, EngineError> {
        let entry = key.value_entry();
        let handle = self.find_block(InternalKey::new(&entry, Trailer::seek(Seq::MAX)))?;
        let handle = handle.ok_or_else(|| self.no_value())?;
        Ok(handle.offset..handle.end())
    }

    /// The value of `key` from `bytes`, which are at `range` in the file: [`Table::moved_range`] of the key.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`].
    pub(crate) fn moved_value(
        &self,
        key: MovedKey,
        range: &Range<u64>,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        let entry = key.value_entry();
        let target = InternalKey::new(&entry, Trailer::seek(Seq::MAX));
        let handle = BlockHandle { offset: range.start, len_bytes: range.end - range.start };
        let block = self.stored_data_block(handle.offset, bytes)?;
        let mut unpacked = Vec::new();
        let block = self.borrow_raw(handle.offset, block, &mut unpacked)?;
        match self.search(handle, block, target)? {
            Some((trailer, value)) if trailer.kind() == Some(Kind::Put) => {
                out.clear();
                out.extend_from_slice(&block[value]);
                Ok(())
            }
            _ => Err(self.no_value()),
        }
    }

    /// Reads a value from a file that cleaning wrote.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`], [`EngineError::Files`].
    pub(crate) fn read_moved(&self, key: MovedKey, out: &mut Vec<u8>) -> Result<(), EngineError> {
        let entry = key.value_entry();
        match self.get(&entry, key_hash(&entry), Seq::MAX)? {
            TableLookup::Value { value, .. } => {
                out.clear();
                out.extend_from_slice(&value);
                Ok(())
            }
            _ => Err(self.no_value()),
        }
    }

    #[cold]
    fn no_value(&self) -> EngineError {
        corrupt("value", self.name(), 0, "the file has no value of this place")
    }
}
