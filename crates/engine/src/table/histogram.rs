//! The byte histogram of a table: keys that divide its bytes into shares of about the same length.
//!
//! ```text
//!   keys     a.......................f..k......m..............................z
//!   bytes    |  100 KB   |  101 KB   |   100 KB   |  100 KB   |  100 KB   | 40 |
//!   starts              "ac"        "b"          "k"        "t"         "w"       of shares 1 to 5
//! ```
//!
//! Many shares in a stretch of keys mean that most of the table's bytes are there, which its
//! smallest and largest key do not show. The histogram is built in one pass while the table is
//! written. A share ends when it is long enough. Whenever the starts take too much room,
//! neighbouring shares are united and the target length doubles. So the number of shares is between
//! half of what the room allows and all of it.
//!
//! Invariants
//!   H1  Starts ascend strictly. All keys of a share are at or above its start, and all keys of the
//!       share before are below it: a start is the shortest prefix that differs from the previous
//!       key. If that prefix would be longer than [`START_LEN_BYTES_MAX`], the share continues.
//!   H2  The lengths are exact: each is the sum of the keys and values in its share, before
//!       compression.
//!
//! Source: the equi-depth histograms of SMRDB (3.2.3 of the thesis), which SMRDB builds from the
//! index.

use super::varint::{put_varint, read_len, read_varint};

/// The length limit of a start.
pub(crate) const START_LEN_BYTES_MAX: usize = 256;

/// The length that every share reaches, except the last one.
const SHARE_LEN_BYTES_MIN: u64 = 512;

/// The longest varint of a length here. Lengths of tables are far below 2^49.
const LEN_LEN_BYTES_MAX: usize = 7;

/// The bytes of a share besides its start: the length of the start, and that of the share.
const SHARE_HEAD_LEN_BYTES: usize = 2 + LEN_LEN_BYTES_MAX;

/// The smallest room for a histogram: three shares with starts of any length.
pub(crate) const HISTOGRAM_LEN_BYTES_MIN: usize =
    2 + 2 * LEN_LEN_BYTES_MAX + 2 * (START_LEN_BYTES_MAX + SHARE_HEAD_LEN_BYTES);

/// The shares of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// The length of each share. A table without entries has none.
    lens_bytes: Vec<u64>,
    /// The starts of all shares but the first, concatenated. `start_ends` has the end of each.
    starts: Vec<u8>,
    start_ends: Vec<u32>,
}

impl Histogram {
    /// A histogram with one share of `len_bytes`, for a table that has no histogram.
    pub(crate) fn whole(len_bytes: u64) -> Histogram {
        Histogram { lens_bytes: vec![len_bytes], ..Histogram::default() }
    }

    /// The number of shares.
    pub(crate) fn share_count(&self) -> usize {
        self.lens_bytes.len()
    }

    /// The length of share `index`.
    pub(crate) fn share_len_bytes(&self, index: usize) -> u64 {
        self.lens_bytes[index]
    }

    /// The start of share `index`. The first share has none: it starts with the table.
    pub(crate) fn start(&self, index: usize) -> Option<&[u8]> {
        let index = index.checked_sub(1)?;
        let end = *self.start_ends.get(index)? as usize;
        let from = index.checked_sub(1).map_or(0, |before| self.start_ends[before] as usize);
        Some(&self.starts[from..end])
    }

    /// The memory in use.
    pub(crate) fn memory_len_bytes(&self) -> usize {
        self.starts.len() + self.start_ends.len() * 4 + self.lens_bytes.len() * 8
    }

    fn push_start(&mut self, start: &[u8]) {
        self.starts.extend_from_slice(start);
        self.start_ends.push(self.starts.len() as u32);
    }

    /// Encodes the histogram as a property.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.share_count() as u64);
        for (index, &len_bytes) in self.lens_bytes.iter().enumerate() {
            if let Some(start) = self.start(index) {
                put_varint(&mut out, start.len() as u64);
                out.extend_from_slice(start);
            }
            put_varint(&mut out, len_bytes);
        }
        out
    }

    /// Decodes the bytes that [`Histogram::encode`] returned.
    ///
    /// # Errors
    /// A description of the defect.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Histogram, String> {
        let cut = || "the byte histogram is cut off".to_owned();
        let mut at = 0;
        let share_count = read_len(bytes, &mut at).ok_or_else(cut)?;
        let mut histogram = Histogram::default();
        let mut before: &[u8] = &[];
        for index in 0..share_count {
            if index > 0 {
                let len_bytes = read_len(bytes, &mut at).ok_or_else(cut)?;
                let end = at.checked_add(len_bytes).ok_or_else(cut)?;
                let start = bytes.get(at..end).ok_or_else(cut)?;
                if start <= before || start.len() > START_LEN_BYTES_MAX {
                    return Err(format!(
                        "H1: start {index} of the byte histogram is out of order or too long"
                    ));
                }
                histogram.push_start(start);
                (before, at) = (start, end);
            }
            histogram.lens_bytes.push(read_varint(bytes, &mut at).ok_or_else(cut)?);
        }
        if at != bytes.len() {
            return Err(format!("{} bytes behind the byte histogram", bytes.len() - at));
        }
        Ok(histogram)
    }
}

/// Builds a histogram from entries in key order. It uses about as much memory as the histogram may
/// take on the disk.
#[derive(Debug)]
pub(crate) struct HistogramBuilder {
    /// The finished shares. The current share has a start, but no length yet.
    done: Histogram,
    open_len_bytes: u64,
    share_len_bytes: u64,
    stored_len_bytes: usize,
    stored_len_bytes_max: usize,
}

impl HistogramBuilder {
    /// Creates a builder for a histogram of at most `len_bytes_max` when stored.
    pub(crate) fn new(len_bytes_max: usize) -> HistogramBuilder {
        assert!(len_bytes_max >= HISTOGRAM_LEN_BYTES_MIN, "a histogram of {len_bytes_max} bytes");
        HistogramBuilder {
            done: Histogram::default(),
            open_len_bytes: 0,
            share_len_bytes: SHARE_LEN_BYTES_MIN,
            stored_len_bytes: 0,
            // Minus the share count and the length of the last share.
            stored_len_bytes_max: len_bytes_max - 2 - LEN_LEN_BYTES_MAX,
        }
    }

    /// Adds an entry with `len_bytes` of key and value. Its key has the first `shared_len_bytes` in
    /// common with the previous key; with `is_version`, it is the same key.
    #[inline]
    pub(crate) fn add(
        &mut self,
        user_key: &[u8],
        shared_len_bytes: usize,
        is_version: bool,
        len_bytes: u64,
    ) {
        if self.open_len_bytes >= self.share_len_bytes && !is_version {
            self.cut(user_key, shared_len_bytes);
        }
        self.open_len_bytes += len_bytes;
    }

    #[cold]
    fn cut(&mut self, user_key: &[u8], shared_len_bytes: usize) {
        let Some(start) = user_key.get(..=shared_len_bytes) else { return };
        if start.len() > START_LEN_BYTES_MAX {
            return;
        }
        self.done.lens_bytes.push(std::mem::take(&mut self.open_len_bytes));
        self.done.push_start(start);
        self.stored_len_bytes += start.len() + SHARE_HEAD_LEN_BYTES;
        while self.stored_len_bytes > self.stored_len_bytes_max {
            self.unite_neighbours();
        }
    }

    /// Removes every other start, and so unites the shares on both sides of it.
    fn unite_neighbours(&mut self) {
        let mut united = Histogram::default();
        self.stored_len_bytes = 0;
        let ended_count = self.done.share_count();
        for index in (0..ended_count).step_by(2) {
            let is_pair = index + 1 < ended_count;
            let len_bytes = self.done.lens_bytes[index];
            if !is_pair {
                // Its neighbour is the current share, which therefore grows.
                self.open_len_bytes += len_bytes;
                break;
            }
            united.lens_bytes.push(len_bytes + self.done.lens_bytes[index + 1]);
            let start = self.done.start(index + 2).expect("a start follows each share that ended");
            united.push_start(start);
            self.stored_len_bytes += start.len() + SHARE_HEAD_LEN_BYTES;
        }
        self.done = united;
        self.share_len_bytes *= 2;
    }

    /// The histogram of everything that was added.
    pub(crate) fn finish(mut self) -> Histogram {
        if self.open_len_bytes > 0 {
            self.done.lens_bytes.push(self.open_len_bytes);
        }
        self.done
    }
}

#[cfg(test)]
mod tests;
