//! Reads of ranges of a table's file.

use super::format::{FOOTER_LEN_BYTES, Footer};
use crate::EngineError;
use imbrex_files::{FileReader, FilesError};
use imbrex_record_log::BLOCK_LEN_BYTES;
use std::ops::Range;

/// The length of each read of a search.
const PIECE_LEN_BYTES: u64 = 1 << 20;

/// Reads `range` of `file`.
pub(super) fn read_range<'a>(
    file: &dyn FileReader,
    structure: &'static str,
    range: Range<u64>,
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], EngineError> {
    let len_bytes = (range.end - range.start) as usize;
    file.read_at(range.start, len_bytes, scratch)
        .map_err(|source| cannot_read(structure, file.name(), range.start, source))
}

/// The result of a reader that was lent a place for the error of a read that failed. Blocks that cannot
/// be read become zeros, and a structure is called damaged for them: the failed read says more, such as
/// which zone is offline.
pub(super) fn with_cause<T>(
    read: impl FnOnce(&mut Option<EngineError>) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let mut unread = None;
    read(&mut unread).map_err(|error| match unread {
        Some(cause) if error.is_damage() => cause,
        _ => error,
    })
}

/// Like [`read_range`], but blocks that cannot be read become zeros. The checksums notice them, and
/// `unread` holds the first error.
pub(super) fn read_what_reads<'a>(
    file: &dyn FileReader,
    structure: &'static str,
    range: Range<u64>,
    scratch: &'a mut Vec<u8>,
    unread: &mut Option<EngineError>,
) -> Result<&'a [u8], EngineError> {
    let mut bytes = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let end = (at + 1).next_multiple_of(BLOCK_LEN_BYTES as u64).min(range.end);
        match read_range(file, structure, at..end, scratch) {
            Ok(block) => bytes.extend_from_slice(block),
            Err(error) if error.is_damage() => {
                bytes.resize((end - range.start) as usize, 0);
                unread.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
        at = end;
    }
    *scratch = bytes;
    Ok(scratch)
}

#[cold]
pub(super) fn cannot_read(
    structure: &'static str,
    file: &str,
    offset: u64,
    source: FilesError,
) -> EngineError {
    EngineError::Files { what: format!("reading a {structure} of {file} at {offset}"), source }
}

/// Searches `file` from its end for the copy of a table's footer, for a table whose footer is damaged.
///
/// # Errors
/// [`EngineError::Files`].
pub(super) fn find_footer(file: &dyn FileReader) -> Result<Option<Footer>, EngineError> {
    let len_bytes = file.len_bytes();
    let mut scratch = Vec::new();
    let mut end = len_bytes;
    while end > 0 {
        let start = end.saturating_sub(PIECE_LEN_BYTES);
        // The copy may lie across the border of two pieces.
        let upto = len_bytes.min(end + FOOTER_LEN_BYTES as u64 - 1);
        let bytes = read_what_reads(file, "table footer", start..upto, &mut scratch, &mut None)?;
        if let Some(footer) = Footer::find_copy(bytes, start, len_bytes) {
            return Ok(Some(footer));
        }
        end = start;
    }
    Ok(None)
}
