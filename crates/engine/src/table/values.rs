//! The values of a table that began as a log (`band`): they are still in the log, earlier in the
//! same file.
//!
//! ```text
//!   | frames of a log ............................. | 0 | data blocks | index | ... | footer |
//!          ^ value of "b"        ^ value of "a"           a -> place, b -> place
//! ```
//!
//! Instead of a value, an entry of such a table has a place: frame u32, offset in it u32, length
//! u32, checksum u32. The checksum covers value and key, so that a value of another key or of
//! another time is noticed.
//!
//! Cost: one read per value, unless all values are read at once.

use super::format::{FOOTER_LEN_BYTES, Footer, corrupt};
use super::reading::{cannot_read, find_footer, read_what_reads, with_cause};
use crate::EngineError;
use imbrex_files::{Activity, FileReader, FilesError};
use imbrex_record_log::{BLOCK_LEN_BYTES, Decoder, End, LogBounds, Position, log_id_of};
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

/// The longest value that is stored with its key.
pub(crate) const INLINE_LEN_BYTES_MAX: usize = 64;

/// The length of each read when all values are read.
const PIECE_LEN_BYTES: u64 = 1 << 20;

/// The place of a value, as an entry stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValuePlace {
    place: Position,
    pub(crate) len_bytes: u32,
    crc: u32,
}

/// The length of an encoded place.
pub(crate) const PLACE_LEN_BYTES: usize = 16;

impl ValuePlace {
    /// The place of `user_key`'s `value`; `None` if the log is too long for the encoding.
    pub(crate) fn of(user_key: &[u8], value: &[u8], place: Position) -> Option<ValuePlace> {
        u32::try_from(place.frame_blocks).ok()?;
        let len_bytes = u32::try_from(value.len()).ok()?;
        Some(ValuePlace { place, len_bytes, crc: crc_of(user_key, value) })
    }

    /// Where the value begins.
    pub(super) fn position(self) -> Position {
        self.place
    }

    /// Whether `value` of `user_key` is the one that was written.
    pub(super) fn is_of(self, user_key: &[u8], value: &[u8]) -> bool {
        value.len() as u64 == u64::from(self.len_bytes) && crc_of(user_key, value) == self.crc
    }

    pub(crate) fn encode(self) -> [u8; PLACE_LEN_BYTES] {
        let fields =
            [self.place.frame_blocks as u32, self.place.offset_bytes, self.len_bytes, self.crc];
        let mut out = [0; PLACE_LEN_BYTES];
        for (at, field) in out.chunks_exact_mut(4).zip(fields) {
            at.copy_from_slice(&field.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<ValuePlace> {
        let bytes: &[u8; PLACE_LEN_BYTES] = bytes.try_into().ok()?;
        let field = |at| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let place = Position { frame_blocks: u64::from(field(0)), offset_bytes: field(4) };
        Some(ValuePlace { place, len_bytes: field(8), crc: field(12) })
    }
}

fn crc_of(user_key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(value), user_key)
}

/// The values of one table.
#[derive(Debug)]
pub(crate) struct Values {
    file: Arc<dyn FileReader>,
    /// The offset at which the table itself begins.
    len_bytes: u64,
    frame_len_bytes: usize,
}

impl Values {
    /// The values in the first `len_bytes` of `file`, in frames of `frame_len_bytes`.
    pub(super) fn new(file: Arc<dyn FileReader>, len_bytes: u64, frame_len_bytes: usize) -> Values {
        Values { file, len_bytes, frame_len_bytes }
    }

    /// The same values, for reads that serve `activity`; `None` if those are not counted.
    pub(super) fn for_activity(&self, activity: Activity) -> Option<Values> {
        let file = self.file.for_activity(activity)?;
        Some(Values { file, ..*self })
    }

    /// The length of the log's frames.
    pub(super) fn frame_len_bytes(&self) -> usize {
        self.frame_len_bytes
    }

    /// The length of all values together with the log's other bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Reads all values.
    ///
    /// # Errors
    /// [`EngineError::Files`].
    pub(super) fn read_all(&self) -> Result<Vec<u8>, EngineError> {
        let mut all = Vec::with_capacity(self.len_bytes as usize);
        let mut scratch = Vec::new();
        while (all.len() as u64) < self.len_bytes {
            let at = all.len() as u64;
            let len = PIECE_LEN_BYTES.min(self.len_bytes - at) as usize;
            let read = self.file.read_at(at, len, &mut scratch);
            all.extend_from_slice(read.map_err(|source| self.cannot_read(at, source))?);
        }
        Ok(all)
    }

    /// Checks every byte of `all`, which [`Values::read_all`] returned: whole frames, and zeros
    /// behind them.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`].
    pub(super) fn verify(&self, all: &[u8]) -> Result<(), EngineError> {
        let damaged = |at: u64, reason: &str| Err(corrupt("log", self.file.name(), at, reason));
        let (frames, zeros) = all.split_at(all.len() - all.len() % BLOCK_LEN_BYTES);
        if zeros.iter().any(|&byte| byte != 0) {
            return damaged(frames.len() as u64, "the bytes between log and table are not zero");
        }
        let Some(log_id) = log_id_of(frames) else {
            return if frames.is_empty() {
                Ok(())
            } else {
                damaged(0, "the first block has no frame")
            };
        };
        let len_blocks = (frames.len() / BLOCK_LEN_BYTES) as u64;
        let read = |offset: u64, buf: &mut [u8]| -> Result<(), Infallible> {
            buf.copy_from_slice(&frames[offset as usize..][..buf.len()]);
            Ok(())
        };
        let extent = LogBounds { log_id, len_blocks, durable_blocks: len_blocks };
        let mut decoder = Decoder::new(extent, read);
        while let Ok(Some(_)) = decoder.next_record() {}
        match decoder.end() {
            Some(End::Clean { at_blocks }) if *at_blocks == len_blocks => Ok(()),
            Some(end) => damaged(0, &end.to_string()),
            None => damaged(0, "the log has no end"),
        }
    }

    /// Reads the value of `user_key` into `out`, from `all` if the values were read at once, else
    /// from the file.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`]: the value is not the one that was written. [`EngineError::Files`].
    pub(super) fn read(
        &self,
        user_key: &[u8],
        entry: &[u8],
        all: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        out.clear();
        let damaged = |at, reason: &str| corrupt("value", self.file.name(), at, reason);
        let Some(value) = ValuePlace::decode(entry) else {
            return Err(damaged(0, "the entry is not a place in the log"));
        };
        let at = value.place.offset();
        let len_bytes = u64::from(value.len_bytes);
        if self.len_bytes < at || self.len_bytes - at < len_bytes {
            return Err(damaged(at, "the entry points outside the log"));
        }
        let ranges: Vec<Range<u64>> = value.place.ranges(len_bytes, self.frame_len_bytes).collect();
        let end = ranges.last().map_or(at, |range| range.end);
        if self.len_bytes < end {
            return Err(damaged(at, "the entry points outside the log"));
        }
        let mut scratch = Vec::new();
        let bytes = match all {
            Some(all) => &all[at as usize..end as usize],
            None if at == end => &[],
            None => {
                let read = self.file.read_at(at, (end - at) as usize, &mut scratch);
                read.map_err(|source| self.cannot_read(at, source))?
            }
        };
        for range in ranges {
            out.extend_from_slice(&bytes[(range.start - at) as usize..(range.end - at) as usize]);
        }
        if crc_of(user_key, out) != value.crc {
            return Err(damaged(at, "its checksum does not match"));
        }
        Ok(())
    }

    fn cannot_read(&self, at: u64, source: FilesError) -> EngineError {
        cannot_read("value", self.file.name(), at, source)
    }
}

/// The offset at which the table at the end of `file` begins, and that table as a separate file.
///
/// # Errors
/// [`EngineError::Corrupt`], [`EngineError::Files`].
pub(super) fn tail_of(
    file: Arc<dyn FileReader>,
) -> Result<(u64, Arc<dyn FileReader>), EngineError> {
    with_cause(|unread| tail_of_what_reads(file, unread))
}

fn tail_of_what_reads(
    file: Arc<dyn FileReader>,
    unread: &mut Option<EngineError>,
) -> Result<(u64, Arc<dyn FileReader>), EngineError> {
    let len_bytes = file.len_bytes();
    let damaged = |reason: String| corrupt("table footer", file.name(), len_bytes, reason);
    let at = len_bytes.checked_sub(FOOTER_LEN_BYTES as u64);
    let at = at.ok_or_else(|| damaged(format!("a file of {len_bytes} bytes")))?;
    let mut scratch = Vec::new();
    let bytes = read_what_reads(&*file, "table footer", at..len_bytes, &mut scratch, unread)?;
    let table_len = match Footer::parse(bytes).and_then(|footer| footer.file_len_bytes()) {
        Ok(table_len) => table_len,
        Err(reason) => {
            let copy = find_footer(&*file)?.map(|copy| copy.file_len_bytes());
            copy.unwrap_or(Err(reason)).map_err(damaged)?
        }
    };
    let start = len_bytes.checked_sub(table_len);
    let start = start
        .ok_or_else(|| damaged(format!("a table of {table_len} bytes in a file of {len_bytes}")))?;
    Ok((start, imbrex_files::part_of(file, start..len_bytes)))
}
