//! Reads of an iterator: exactly one block after a seek, more and more while it goes on in order.
//!
//! A seek of the disk costs as much as about 2 MB of transfer, but a short scan must not pay for
//! blocks it never reaches: so the first block is read alone, the next one with 16 KiB behind it, and
//! from there reads double up to the limit. Where that meets damage, only what is asked for is read: what
//! lies ahead may never be reached, and before it everything is good.

use imbrex_files::{FileReader, FilesError};
use std::cell::Cell;
use std::ops::Range;

const FIRST_AHEAD_LEN_BYTES: usize = 16 << 10;
const GROWTH: usize = 2;

thread_local! {
    /// The longest buffer of iterators that were dropped. A fresh one would cost more than a short
    /// scan: the system has to clear every page of it.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A longer buffer is not kept.
const SPARE_LEN_BYTES_MAX: usize = 1 << 20;

/// A window of the file that was read, and what will be read next.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    scratch: Vec<u8>,
    /// The part of the file that lies in `scratch`, and where it starts there.
    window: Range<u64>,
    window_at: usize,
    /// The block asked for last.
    last: Range<u64>,
    ahead_len_bytes: usize,
    ahead_len_bytes_min: usize,
    ahead_len_bytes_max: usize,
    /// Nothing is read ahead until the next seek: there is damage in that direction.
    is_halted: bool,
}

impl ReadAhead {
    /// Reads ahead `ahead_len_bytes_min` at once, and up to `ahead_len_bytes_max` later.
    pub(crate) fn new(ahead_len_bytes_min: usize, ahead_len_bytes_max: usize) -> ReadAhead {
        ReadAhead {
            scratch: SPARE.take(),
            window: 0..0,
            window_at: 0,
            last: u64::MAX..u64::MAX,
            ahead_len_bytes: ahead_len_bytes_min,
            ahead_len_bytes_min,
            ahead_len_bytes_max: ahead_len_bytes_max.max(ahead_len_bytes_min),
            is_halted: false,
        }
    }

    /// Reads `offset..offset + len_bytes` of the file and says where [`ReadAhead::bytes`] has it,
    /// until the next read; nothing from `limit` on is read ahead.
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

    /// What was read.
    #[inline]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.scratch[range]
    }

    fn fill(
        &mut self,
        file: &dyn FileReader,
        wanted: &Range<u64>,
        limit: u64,
    ) -> Result<(), FilesError> {
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
        let range = if goes_back {
            wanted.end.saturating_sub(ahead).min(wanted.start)..wanted.end
        } else {
            wanted.start..wanted.start.saturating_add(ahead).min(limit).max(wanted.end)
        };
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

    /// Makes `range` the window.
    fn load(&mut self, file: &dyn FileReader, range: &Range<u64>) -> Result<(), FilesError> {
        self.window = 0..0;
        let len_bytes = (range.end - range.start) as usize;
        let got = file.read_at(range.start, len_bytes, &mut self.scratch)?;
        // The part asked for lies somewhere in `scratch`: the read starts at a whole block.
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

    /// The block at `range` was found elsewhere: what follows it still goes on in order.
    pub(crate) fn skip(&mut self, range: Range<u64>) {
        self.last = range;
    }

    /// A seek elsewhere: reading ahead starts small again.
    pub(crate) fn restart(&mut self) {
        self.ahead_len_bytes = self.ahead_len_bytes_min;
        self.is_halted = false;
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if self.scratch.capacity() <= SPARE_LEN_BYTES_MAX {
            let scratch = std::mem::take(&mut self.scratch);
            // When the thread is ending there is nobody to keep it for.
            let _ = SPARE.try_with(|spare| {
                let kept = spare.take();
                spare.set(if kept.capacity() < scratch.capacity() { scratch } else { kept });
            });
        }
    }
}
