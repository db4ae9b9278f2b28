//! The byte order mark, U+FEFF in UTF-8, which some programs write in front of a text file.
//!
//! Every reader of text skips it at the start of a file. Anywhere else it is part of the text.

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The length of the mark.
pub(crate) const BYTE_ORDER_MARK_LEN_BYTES: usize = BYTE_ORDER_MARK.len();

/// The start of a file without its mark.
pub(crate) fn without_byte_order_mark(start: &[u8]) -> &[u8] {
    start.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(start)
}
