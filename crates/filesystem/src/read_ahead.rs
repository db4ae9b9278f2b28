//! Read-ahead, as a kernel does for a file that is read from front to back. Databases rely on it.
//!
//! ```text
//!   stream    ... | used | ahead ........ |       128 KiB, when a read continues the one before it
//!   reads elsewhere in between are served directly, and leave the stream alone
//! ```
//!
//! A disk takes as long to find 4 KiB as to read two megabytes; LevelDB compacts by blocks of 4 KiB.

use crate::error::FsError;
use crate::log_cursor::LogCursor;
use crate::node::{Segment, read_stored};

/// How much is read at once. Source: Linux's default for a block device.
const AHEAD_LEN_BYTES: u64 = 128 << 10;
/// The number of reads elsewhere after which the stream ends and its memory is freed.
const STRAYS_MAX: u32 = 64;

/// The state that a reader keeps between reads.
#[derive(Debug, Default)]
pub(crate) struct ReadState {
    cursor: Option<LogCursor>,
    /// Data read ahead, from `start` on, of the file as it was in `generation`.
    ahead: Vec<u8>,
    start: u64,
    generation: u64,
    /// Where the stream continues, and where the last read ended.
    next: u64,
    last_end: u64,
    strays: u32,
}

impl ReadState {
    /// Fills `out` from `offset` of the stored bytes in `segments`, which are long enough.
    pub(crate) fn read(
        &mut self,
        segments: &[Segment],
        generation: u64,
        path: &str,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), FsError> {
        let end = offset + out.len() as u64;
        if self.generation != generation {
            // The stream's position means nothing in another generation, which may be shorter.
            *self = ReadState { generation, ..ReadState::default() };
        }
        let is_stream = offset == self.next || offset == self.last_end;
        self.last_end = end;
        if self.start <= offset && end <= self.start + self.ahead.len() as u64 {
            let inside = (offset - self.start) as usize;
            out.copy_from_slice(&self.ahead[inside..][..out.len()]);
            if is_stream {
                self.next = end;
                self.strays = 0;
            }
            return Ok(());
        }
        let cursor = &mut self.cursor;
        if !is_stream || out.len() as u64 >= AHEAD_LEN_BYTES {
            self.strays += 1;
            if self.strays > STRAYS_MAX {
                self.ahead = Vec::new();
            }
            return read_stored(segments, path, offset, out, cursor);
        }
        let stored_len_bytes = segments.last().map_or(0, Segment::end);
        let len_bytes = AHEAD_LEN_BYTES.min(stored_len_bytes.saturating_sub(offset));
        // The buffer holds nothing valid while the read may fail.
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.resize(len_bytes as usize, 0);
        let read = read_stored(segments, path, offset, &mut ahead, cursor);
        if read.is_err() {
            // Data behind the requested bytes may be damaged.
            return read_stored(segments, path, offset, out, &mut None);
        }
        out.copy_from_slice(&ahead[..out.len()]);
        (self.ahead, self.start, self.next, self.strays) = (ahead, offset, end, 0);
        Ok(())
    }

    /// How much memory it holds, not counting a log's cursor.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.ahead.capacity()
    }
}
