//! What a table says of itself: its number, and the store that wrote it.

use super::format::StoredBlock;
use super::properties::TableProperties;
use super::reader::Table;
use super::reading::read_range;
use crate::EngineError;

impl Table {
    /// The table's number.
    pub(crate) fn id(&self) -> u64 {
        self.footer.table_id
    }

    /// The store that wrote the table; `None` if it does not say so, or if that part is damaged.
    ///
    /// Cost: a read of the properties, which keep this out of memory.
    ///
    /// # Errors
    /// [`EngineError::Files`], for another reason than damage.
    pub(crate) fn store_id(&self) -> Result<Option<u64>, EngineError> {
        let handle = self.footer.properties();
        let range = handle.offset..handle.end();
        let mut scratch = Vec::new();
        let stored = match read_range(&*self.file, "table properties", range, &mut scratch) {
            Err(error) if error.is_damage() => return Ok(None),
            stored => stored?,
        };
        let mut raw = Vec::new();
        let decoded = StoredBlock::parse(self.footer.table_id, handle.offset, stored)
            .and_then(|block| block.decompress_into(&mut raw))
            .and_then(|()| TableProperties::decode_with_origin(&raw));
        Ok(decoded.ok().and_then(|(_, origin, _)| origin).map(|origin| origin.store_id))
    }
}
