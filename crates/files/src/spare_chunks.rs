//! Chunks of written files, kept for the next file.
//!
//! The system clears every page of a fresh megabyte, which takes longer than a table's writer needs
//! to fill it. Tables are written one after the other, so their chunks are reused.

use parking_lot::Mutex;

/// The length of the chunks that a file is buffered and written in: long enough for a disk to
/// stream, short enough for reads not to wait.
pub(crate) const CHUNK_LEN_BYTES: usize = 1 << 20;

/// How many chunks are kept: those of a table of the default length.
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
