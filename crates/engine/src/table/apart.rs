//! Values apart: an entry of one table whose value is in the file of another, its *holder*.
//!
//! ```text
//!   000012.tbl   | frames of a log ... value of "b" ... | keys and places |      the holder (`band`)
//!   000040.tbl   | a -> its value | b -> holder, place | c -> its value |        written by a merge
//! ```
//!
//! A merge of a table that began as a log takes the places of long values instead of the values. The file
//! stays, and is no longer read for its keys (`version::holders`). So a long value is written once, however often its
//! key is merged.
//!
//! Instead of a value, an entry has the holder's number u64, a place as in `values`, and the length of the holder's
//! frames u32.
//!
//! Cost: one read of the drive for each value.

use super::format::{corrupt, read_u32, read_u64};
use super::reading::read_range;
use super::values::{PLACE_LEN_BYTES, ValuePlace, Values};
use crate::EngineError;
use crate::key::ApartEntry;
use imbrex_files::{Activity, FileReader};
use std::ops::Range;
use std::sync::Arc;

const PLACE_AT: usize = 8;
const FRAME_LEN_AT: usize = PLACE_AT + PLACE_LEN_BYTES;

const _: () = assert!(size_of::<ApartEntry>() == FRAME_LEN_AT + 4);

/// Where a value is that is not in its entry's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ApartPlace {
    /// The number of the table that had it first (`version::holders`).
    pub(crate) origin: u64,
    place: ValuePlace,
    frame_len_bytes: u32,
}

impl ApartPlace {
    pub(super) fn new(origin: u64, place: ValuePlace, frame_len_bytes: usize) -> ApartPlace {
        ApartPlace { origin, place, frame_len_bytes: frame_len_bytes as u32 }
    }

    /// The length of the value.
    pub(crate) fn len_bytes(self) -> u64 {
        self.place.len_bytes.into()
    }

    pub(crate) fn encode(self) -> ApartEntry {
        let mut out = ApartEntry::default();
        out[..PLACE_AT].copy_from_slice(&self.origin.to_le_bytes());
        out[PLACE_AT..FRAME_LEN_AT].copy_from_slice(&self.place.encode());
        out[FRAME_LEN_AT..].copy_from_slice(&self.frame_len_bytes.to_le_bytes());
        out
    }

    /// The place as a key of a file that cleaning writes.
    pub(crate) fn moved_key(self) -> MovedKey {
        let mut key = [0; PLACE_KEY_LEN_BYTES];
        let place = self.place.position();
        key[..8].copy_from_slice(&self.origin.to_be_bytes());
        key[8..12].copy_from_slice(&(place.frame_blocks as u32).to_be_bytes());
        key[12..].copy_from_slice(&place.offset_bytes.to_be_bytes());
        MovedKey(key)
    }

    /// Checks a value that was read from a file that cleaning wrote, for `user_key`.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`]: it is another value.
    pub(crate) fn check(
        self,
        table: &str,
        user_key: &[u8],
        value: &[u8],
    ) -> Result<(), EngineError> {
        if self.place.is_of(user_key, value) {
            return Ok(());
        }
        Err(corrupt("value", table, 0, "its checksum does not match"))
    }

    pub(crate) fn decode(entry: &[u8]) -> Option<ApartPlace> {
        let entry: &ApartEntry = entry.try_into().ok()?;
        let place = ValuePlace::decode(&entry[PLACE_AT..FRAME_LEN_AT])?;
        let frame_len_bytes = read_u32(entry, FRAME_LEN_AT).filter(|&len| len > 0)?;
        Some(ApartPlace { origin: read_u64(entry, 0)?, place, frame_len_bytes })
    }

    /// Where the holder's file has the value, with what lies between its parts.
    pub(crate) fn range(self) -> Range<u64> {
        let at = self.place.position().offset();
        let ranges = self.place.position().ranges(self.len_bytes(), self.frame_len_bytes as usize);
        at..ranges.last().map_or(at, |range| range.end)
    }

    /// The value of `user_key` from the bytes of [`ApartPlace::range`] in the holder's file, which is called `name`.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`]: the value is not the one that was written.
    pub(crate) fn value_in(
        self,
        name: &str,
        user_key: &[u8],
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        out.clear();
        let at = self.place.position().offset();
        let ranges = self.place.position().ranges(self.len_bytes(), self.frame_len_bytes as usize);
        for range in ranges {
            let part = bytes.get((range.start - at) as usize..(range.end - at) as usize);
            out.extend_from_slice(part.unwrap_or_default());
        }
        self.check(name, user_key, out)
    }

    /// Reads the value of `user_key` from the holder's `file`, for `activity`.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`]: the value is not the one that was written. [`EngineError::Files`].
    pub(crate) fn read(
        self,
        file: &Arc<dyn FileReader>,
        user_key: &[u8],
        activity: Activity,
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        let file = file.for_activity(activity).unwrap_or_else(|| Arc::clone(file));
        let len_bytes = file.len_bytes();
        let values = Values::new(file, len_bytes, self.frame_len_bytes as usize);
        values.read(user_key, &self.place.encode(), None, out)
    }
}

/// Reads `range` of a `file` with values.
///
/// # Errors
/// [`EngineError::Corrupt`]: the file is shorter. [`EngineError::Files`].
pub(crate) fn read_values<'a>(
    file: &dyn FileReader,
    range: Range<u64>,
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], EngineError> {
    if range.is_empty() || file.len_bytes() < range.end {
        return if range.is_empty() { Ok(&[]) } else { Err(no_place(file.name())) };
    }
    read_range(file, "value", range, scratch)
}

/// The first keys of a file that cleaning wrote: from here on it has keys, by place.
pub(crate) const MOVED_KEYS: &[u8] = b"k";
const MOVED_VALUES: u8 = b'v';
const PLACE_KEY_LEN_BYTES: usize = 16;
/// The length of the keys of both entries for a value.
pub(crate) const MOVED_KEY_LEN_BYTES: u64 = 1 + PLACE_KEY_LEN_BYTES as u64;

/// A place as a key: by origin, and in the order of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MovedKey([u8; PLACE_KEY_LEN_BYTES]);

impl MovedKey {
    fn entry(self, kind: u8) -> [u8; 1 + PLACE_KEY_LEN_BYTES] {
        let mut out = [kind; 1 + PLACE_KEY_LEN_BYTES];
        out[1..].copy_from_slice(&self.0);
        out
    }

    /// The key of the entry that has the user key.
    pub(crate) fn key_entry(self) -> [u8; 1 + PLACE_KEY_LEN_BYTES] {
        self.entry(MOVED_KEYS[0])
    }

    /// The key of the entry that has the value.
    pub(crate) fn value_entry(self) -> [u8; 1 + PLACE_KEY_LEN_BYTES] {
        self.entry(MOVED_VALUES)
    }

    /// The number of the table that had the value first.
    pub(super) fn origin(self) -> u64 {
        u64::from_be_bytes(std::array::from_fn(|at| self.0[at]))
    }

    /// The place in the key of an entry that has a user key; `None` for any other entry.
    pub(crate) fn of_key_entry(key: &[u8]) -> Option<MovedKey> {
        key.strip_prefix(MOVED_KEYS)?.try_into().ok().map(MovedKey)
    }
}

/// The error for an entry that does not name a place in a holder.
#[cold]
pub(crate) fn no_place(table: &str) -> EngineError {
    corrupt("value", table, 0, "the entry is not a place in the file of another table")
}
