//! Read-ahead of an iterator: one block after a seek, or as much as its owner expects to need, then
//! more and more while the iterator moves in order.
//!
//! A seek of the disk costs as much as about 2 MB of transfer, but a short scan must not pay for
//! blocks that it never reaches. So without an expectation the first read fetches one block. The
//! second fetches at least 64 KiB, and from there each read is four times as long, up to the limit. A scan that goes on in the next
//! table of a run goes on with the length that it had. If read-ahead meets damage, only the requested
//! block is read: the iterator may never reach the damage, and the blocks before it are good.

use imbrex_files::{FileReader, FilesError};
use std::cell::Cell;
use std::ops::Range;

const FIRST_AHEAD_LEN_BYTES: usize = 64 << 10;
const GROWTH: usize = 4;

thread_local! {
    /// The longest buffer of a dropped iterator. A new one would cost more than a short scan: the
    /// system has to clear every page of it.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The longest buffer to keep.
const SPARE_LEN_BYTES_MAX: usize = 1 << 20;

/// A window of the file that was read, and the plan for the next read.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    scratch: Vec<u8>,
    /// The range of the file in `scratch`. It begins at `window_at` there.
    window: Range<u64>,
    window_at: usize,
    /// The block that was requested last.
    last: Range<u64>,
    ahead_len_bytes: usize,
    ahead_len_bytes_min: usize,
    ahead_len_bytes_max: usize,
    /// With what the next seek begins, if that is more than the minimum.
    next_len_bytes: usize,
    /// Whether the iterator was moved to go backward.
    is_backward: bool,
    /// Read-ahead is off until the next seek, because there is damage in its direction.
    is_halted: bool,
}

impl ReadAhead {
    /// Creates a reader that reads ahead `ahead_len_bytes_min` at first and grows up to
    /// `ahead_len_bytes_max`.
    pub(crate) fn new(ahead_len_bytes_min: usize, ahead_len_bytes_max: usize) -> ReadAhead {
        ReadAhead {
            scratch: SPARE.take(),
            window: 0..0,
            window_at: 0,
            last: u64::MAX..u64::MAX,
            ahead_len_bytes: ahead_len_bytes_min,
            ahead_len_bytes_min,
            ahead_len_bytes_max: ahead_len_bytes_max.max(ahead_len_bytes_min),
            next_len_bytes: 0,
            is_backward: false,
            is_halted: false,
        }
    }

    /// Reads `offset..offset + len_bytes` of the file, and returns the range to pass to
    /// [`ReadAhead::bytes`]. The range is valid until the next read. Read-ahead stops before
    /// `limit`.
    pub(crate) fn read(
        &mut self,
        file: &dyn FileReader,
        offset: u64,
        len_bytes: usize,
        limit: u64,
    ) -> Result<Range<usize>, FilesError> {
        let wanted = offset..offset + len_bytes as u64;
        if wanted.start < self.window.start || self.window.end < wanted.end {
            self.fill(file, &wanted, limit)?;
        } else {
            self.last = wanted.clone();
        }
        let at = self.window_at + (wanted.start - self.window.start) as usize;
        Ok(at..at + len_bytes)
    }

    /// The bytes of a range that `read` returned.
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.scratch[range]
    }

    /// The read with which a seek to the block at `wanted` begins; `None` if the block is in the
    /// window.
    pub(crate) fn first_range(&mut self, wanted: &Range<u64>, limit: u64) -> Option<Range<u64>> {
        let is_there = self.window.start <= wanted.start && wanted.end <= self.window.end;
        if is_there { None } else { Some(self.next_range(wanted, limit)) }
    }

    /// Makes `bytes`, which are at `offset` of the file, the window.
    pub(crate) fn accept(&mut self, offset: u64, bytes: &[u8]) {
        if self.scratch.len() < bytes.len() {
            self.scratch.resize(bytes.len(), 0);
        }
        self.scratch[..bytes.len()].copy_from_slice(bytes);
        self.window = offset..offset + bytes.len() as u64;
        self.window_at = 0;
    }

    /// What to read for the block at `wanted`.
    fn next_range(&mut self, wanted: &Range<u64>, limit: u64) -> Range<u64> {
        let goes_on = wanted.start == self.last.end;
        let goes_back = wanted.end == self.last.start;
        if goes_on || goes_back {
            self.ahead_len_bytes = self
                .ahead_len_bytes
                .saturating_mul(GROWTH)
                .max(FIRST_AHEAD_LEN_BYTES)
                .min(self.ahead_len_bytes_max);
        }
        let ahead = if self.is_halted { 0 } else { self.ahead_len_bytes as u64 };
        if goes_back || (self.is_backward && !goes_on) {
            wanted.end.saturating_sub(ahead).min(wanted.start)..wanted.end
        } else {
            wanted.start..wanted.start.saturating_add(ahead).min(limit).max(wanted.end)
        }
    }

    fn fill(
        &mut self,
        file: &dyn FileReader,
        wanted: &Range<u64>,
        limit: u64,
    ) -> Result<(), FilesError> {
        let range = self.next_range(wanted, limit);
        match self.load(file, &range) {
            Err(error) if error.is_damage() && range != *wanted => {
                self.is_halted = true;
                self.load(file, wanted)?;
            }
            loaded => loaded?,
        }
        self.last = wanted.clone();
        Ok(())
    }

    /// Reads `range` as the new window.
    fn load(&mut self, file: &dyn FileReader, range: &Range<u64>) -> Result<(), FilesError> {
        self.window = 0..0;
        let len_bytes = (range.end - range.start) as usize;
        let got = file.read_at(range.start, len_bytes, &mut self.scratch)?;
        // The requested part is somewhere in `scratch`, because a read starts at a whole block.
        let (got_at, got_len_bytes) = (got.as_ptr().addr(), got.len());
        let at = got_at.wrapping_sub(self.scratch.as_ptr().addr());
        assert!(
            got_len_bytes == len_bytes && at <= self.scratch.len() - len_bytes,
            "read_at returns the part of `scratch` that was asked for"
        );
        self.window = range.clone();
        self.window_at = at;
        Ok(())
    }

    /// The block at `range` came from elsewhere. A read of the block after it still counts as in
    /// order.
    pub(crate) fn skip(&mut self, range: Range<u64>) {
        self.last = range;
    }

    /// Called on a seek: read-ahead restarts at its minimum, in the direction of the seek.
    pub(crate) fn restart(&mut self, is_backward: bool) {
        self.is_backward = is_backward;
        let next_len_bytes = std::mem::take(&mut self.next_len_bytes);
        self.ahead_len_bytes = self.ahead_len_bytes_min.max(next_len_bytes);
        self.is_halted = false;
    }

    /// The next seek continues the scan of `before`, which read another file.
    pub(crate) fn go_on_from(&mut self, before: &ReadAhead) {
        let len_bytes = before.ahead_len_bytes.saturating_mul(GROWTH);
        let is_going = before.ahead_len_bytes > before.ahead_len_bytes_min && !before.is_halted;
        self.next_len_bytes = if is_going { len_bytes.min(self.ahead_len_bytes_max) } else { 0 };
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if self.scratch.capacity() <= SPARE_LEN_BYTES_MAX {
            let scratch = std::mem::take(&mut self.scratch);
            // A thread that is ending has no later iterator to keep the buffer for.
            let _ = SPARE.try_with(|spare| {
                let kept = spare.take();
                spare.set(if kept.capacity() < scratch.capacity() { scratch } else { kept });
            });
        }
    }
}
