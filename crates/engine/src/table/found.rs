//! A table that was found by its footer, before it is known where all of it is stored.
//!
//! Every block has a checksum over its bytes, its table and its offset. So a salvage can assume a
//! place for a block, read there, and ask whether it is the right one.

use super::format::{BlockHandle, FOOTER_LEN_BYTES, Footer, StoredBlock};
use super::index::IndexPartition;
use super::origin::{Origin, Roster};
use super::properties::TableProperties;

/// A footer, or the copy of one, that has a valid checksum.
#[derive(Clone, Debug)]
pub(crate) struct FoundFooter {
    footer: Footer,
    is_copy: bool,
}

impl FoundFooter {
    /// All footers in `bytes`, each with its offset there. One that is cut off is left out.
    pub(crate) fn all_in(bytes: &[u8]) -> Vec<(usize, FoundFooter)> {
        let starts = bytes.windows(FOOTER_LEN_BYTES).enumerate();
        let candidates = starts.filter(|(_, window)| Footer::has_magic(window));
        let parse = |(at, window): (usize, &[u8])| {
            let of = |is_copy| Footer::parse_either(window, is_copy).ok().zip(Some(is_copy));
            let (footer, is_copy) = of(false).or_else(|| of(true))?;
            footer.file_len_bytes().ok()?;
            Some((at, FoundFooter { footer, is_copy }))
        };
        candidates.filter_map(parse).collect()
    }

    /// How many bytes of a footer may be missing at the end of what [`FoundFooter::all_in`] sees.
    pub(crate) const OVERLAP_LEN_BYTES: usize = FOOTER_LEN_BYTES - 1;

    pub(crate) fn table_id(&self) -> u64 {
        self.footer.table_id
    }

    /// The length of the table.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.footer.file_len_bytes().unwrap_or(0)
    }

    /// The end of the table, if this footer is stored at `at` and nothing is missing in between.
    pub(crate) fn end(&self, at: u64) -> Option<u64> {
        match self.is_copy {
            false => at.checked_add(FOOTER_LEN_BYTES as u64),
            true => {
                let start = at.checked_sub(self.footer.footer_copy().offset)?;
                start.checked_add(self.len_bytes())
            }
        }
    }

    /// Whether both describe the same table.
    pub(crate) fn is_like(&self, other: &FoundFooter) -> bool {
        self.footer == other.footer
    }

    /// Whether the values are in a log before the table. Unknown of a table of version 1.
    pub(crate) fn is_logged(&self) -> bool {
        self.footer.log_frame_len_bytes > 0
    }

    /// The parts after the index, in the order of the file.
    pub(crate) fn metadata(&self) -> Vec<BlockHandle> {
        let footer = &self.footer;
        let mut parts = vec![
            footer.tombstones_copy(),
            footer.top_index_copy(),
            footer.filter(),
            footer.tombstones(),
            footer.properties(),
            footer.top_index(),
        ];
        parts.retain(|part| part.len_bytes > 0);
        parts.sort_by_key(|part| part.offset);
        parts
    }

    /// The top index, and its copy if there is one.
    pub(crate) fn top_indexes(&self) -> impl Iterator<Item = BlockHandle> {
        let both = [self.footer.top_index(), self.footer.top_index_copy()];
        both.into_iter().filter(|part| part.len_bytes > 0)
    }

    pub(crate) fn properties(&self) -> BlockHandle {
        self.footer.properties()
    }

    /// Whether `stored` is the block at `handle`.
    pub(crate) fn is_block(&self, handle: BlockHandle, stored: &[u8]) -> bool {
        StoredBlock::parse(self.footer.table_id, handle.offset, stored).is_ok()
    }

    fn raw(&self, handle: BlockHandle, stored: &[u8]) -> Option<Vec<u8>> {
        let block = StoredBlock::parse(self.footer.table_id, handle.offset, stored).ok()?;
        let mut raw = Vec::new();
        block.decompress_into(&mut raw).ok()?;
        Some(raw)
    }

    /// The blocks that the top index or an index partition lists.
    pub(crate) fn listed(&self, handle: BlockHandle, stored: &[u8]) -> Option<Vec<BlockHandle>> {
        let partition = IndexPartition::decode(&self.raw(handle, stored)?).ok()?;
        Some((0..partition.len()).map(|index| partition.handle(index)).collect())
    }

    /// The properties, and what the table says about its origin.
    pub(crate) fn decode_properties(
        &self,
        stored: &[u8],
    ) -> Option<(TableProperties, Option<Origin>, Option<Roster>)> {
        let raw = self.raw(self.properties(), stored)?;
        TableProperties::decode_with_origin(&raw).ok()
    }
}
