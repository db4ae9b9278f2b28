//! Mending a table from itself: a damaged part that has a copy gets the bytes of the other one.
//!
//! ```text
//!   | data | index | tombstones' | top index' | footer' | filter | properties | gap | tombstones | top index | footer |
//!                      '------------'------------'------- each the copy of ---------'------------'-----------'
//! ```
//!
//! Not here: whether the result is sound (`verify`), where else the bytes may come from (`open::scrub`).

use super::format::{BlockHandle, FOOTER_LEN_BYTES, Footer, StoredBlock};
use std::ops::Range;

/// Replaces damaged parts of the table at the end of `file` by their copies, and damaged copies by
/// the parts. Returns whether anything changed. Parts without copies stay as they are.
pub(crate) fn mend_from_copies(file: &mut [u8]) -> bool {
    let file_len_bytes = file.len() as u64;
    let last = file.len().checked_sub(FOOTER_LEN_BYTES);
    let original = last.and_then(|at| Footer::parse(&file[at..]).ok());
    let found = original.or_else(|| Footer::find_copy(file, 0, file_len_bytes));
    let Some(footer) = found.filter(|footer| footer.has_copies) else { return false };
    let start = footer.file_len_bytes().ok().and_then(|len| file_len_bytes.checked_sub(len));
    let Some(start) = start else { return false };
    let table = &mut file[start as usize..];
    let mut is_changed = false;
    for pair in [
        [footer.tombstones(), footer.tombstones_copy()],
        [footer.top_index(), footer.top_index_copy()],
    ] {
        is_changed |= mend_pair(table, footer.table_id, pair);
    }
    let gap = footer.gap();
    let footer_at = table.len() as u64 - FOOTER_LEN_BYTES as u64;
    for (at, bytes) in [
        (gap.offset, vec![0; gap.len_bytes as usize]),
        (footer.footer_copy().offset, footer.encode(true).to_vec()),
        (footer_at, footer.encode(false).to_vec()),
    ] {
        is_changed |= put(table, at, &bytes);
    }
    is_changed
}

/// Writes the sound block of the two over the damaged one.
fn mend_pair(table: &mut [u8], table_id: u64, [part, copy]: [BlockHandle; 2]) -> bool {
    for (from, to) in [(part, copy), (copy, part)] {
        let is_sound = StoredBlock::parse(table_id, to.offset, &table[range(to)]).is_ok();
        if part.len_bytes == 0 || is_sound {
            continue;
        }
        // The checksum covers the place, so the bytes differ.
        let found = StoredBlock::parse(table_id, from.offset, &table[range(from)]);
        let bytes = found.map(|block| block.stored_at(table_id, to.offset));
        if let Ok(bytes) = bytes {
            return put(table, to.offset, &bytes);
        }
    }
    false
}

fn range(handle: BlockHandle) -> Range<usize> {
    handle.offset as usize..handle.end() as usize
}

fn put(table: &mut [u8], at: u64, bytes: &[u8]) -> bool {
    let to = &mut table[at as usize..at as usize + bytes.len()];
    let is_changed = to != bytes;
    to.copy_from_slice(bytes);
    is_changed
}
