//! Chunks of written files, kept for the next file.
//!
//! A fresh megabyte costs the system more time (it clears every page) than filling it costs a
//! table's writer, and tables are written one after the other.

use parking_lot::Mutex;

/// How long the pieces are in which a file is buffered and then written: long enough that a
/// disk streams, short enough that reads are not kept waiting.
pub(crate) const CHUNK_LEN_BYTES: usize = 1 << 20;

/// How many are kept: a table of the default length.
const CHUNK_COUNT_MAX: usize = 9;

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// An empty chunk with room for [`CHUNK_LEN_BYTES`].
pub(crate) fn take() -> Vec<u8> {
    SPARE.lock().pop().unwrap_or_else(|| Vec::with_capacity(CHUNK_LEN_BYTES))
}

/// Takes back the chunks of a file that was written.
pub(crate) fn give(chunks: Vec<Vec<u8>>) {
    let mut spare = SPARE.lock();
    for mut chunk in chunks {
        if spare.len() == CHUNK_COUNT_MAX {
            break;
        }
        if chunk.capacity() == CHUNK_LEN_BYTES {
            chunk.clear();
            spare.push(chunk);
        }
    }
}
