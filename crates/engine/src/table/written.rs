//! Tables that were just written: their ends are still in memory, so opening one reads nothing.
//!
//! ```text
//!   data blocks ............ | index partitions | top index, filter, properties, footer |
//!                            ^ the kept end begins here
//! ```
//!
//! The index partitions enter the block cache, where those that nobody uses are the first to go. So a
//! get from a young table is one read, as from an old one, and a scan begins in a young run with one.

use super::cache::BlockCache;
use super::reader::{Table, for_user, tail_start};
use crate::EngineError;
use imbrex_files::{FileBuffer, FileReader, with_known_end};
use std::sync::Arc;

/// The end of a written table: from its index on, or more if an opening reads more.
#[derive(Clone, Debug)]
pub(crate) struct WrittenEnd {
    at: u64,
    bytes: Arc<[u8]>,
}

impl WrittenEnd {
    /// Keeps what an opening reads of `file`, whose data end at `data_len_bytes`.
    pub(crate) fn of(file: &FileBuffer, data_len_bytes: u64) -> WrittenEnd {
        let at = data_len_bytes.min(tail_start(file.len_bytes()));
        let mut skipped_bytes = at as usize;
        let mut bytes = Vec::with_capacity(file.len_bytes() as usize - skipped_bytes);
        for chunk in file.chunks() {
            let skip = skipped_bytes.min(chunk.len());
            bytes.extend_from_slice(&chunk[skip..]);
            skipped_bytes -= skip;
        }
        WrittenEnd { at, bytes: bytes.into() }
    }
}

impl Table {
    /// Opens a table that was just written, from its end in memory.
    ///
    /// # Errors
    /// Like [`Table::open`].
    pub(crate) fn open_written(
        file: &Arc<dyn FileReader>,
        end: WrittenEnd,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Table>, EngineError> {
        let with_end = with_known_end(Arc::clone(file), end.at, end.bytes);
        let mut table = Table::open_file(with_end, cache, None)?;
        for index in 0..table.top_index.len() {
            table.partition(index)?;
        }
        table.file = for_user(Arc::clone(file));
        Ok(Arc::new(table))
    }
}
