//! Several keys read at once: their values are looked up one by one, and those that are apart are then read together.
//!
//! ```text
//!   keys       a      b          c  (beside its key)      d
//!   places     12:0   12:1 MiB                            31:7 MiB
//!   reads      | 12: 0 .. 2 MiB |                         | 31: 7 MiB .. |     one batch, which the disk orders
//! ```
//!
//! Values that follow one another in a file are one read: between two reads the platter turns on.
//!
//! Cost: the values and the bytes that were read for them are in memory at the same time.

use super::get::{Found, find};
use crate::EngineError;
use crate::key::Seq;
use crate::store::view::SuperVersion;
use crate::table::cache::BlockCache;
use crate::table::{ApartPlace, no_place};
use crate::version::TableSlot;
use bytes::Bytes;
use imbrex_files::{FileRange, FileReader, read_together};
use std::ops::Range;
use std::sync::Arc;

/// Two values with a gap of at most this length are one read.
const GAP_LEN_BYTES_MAX: u64 = 64 << 10;

/// A value that is apart.
struct Apart<'a> {
    /// The number of its key.
    at: usize,
    place: ApartPlace,
    slot: &'a Arc<TableSlot>,
    file: &'a Arc<dyn FileReader>,
    range: Range<u64>,
}

/// The values of `keys` as of `snapshot`, in their order.
///
/// # Errors
/// Those of [`super::get::get`], for one of the keys. A batch that fails does not show which of its values is damaged.
pub(crate) fn get_together(
    view: &SuperVersion,
    keys: &[impl AsRef<[u8]>],
    snapshot: Seq,
    cache: &Arc<BlockCache>,
) -> Result<Vec<Option<Bytes>>, EngineError> {
    let mut values = vec![None; keys.len()];
    let mut apart = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        match find(view, key.as_ref(), snapshot, cache, &mut None)? {
            None => {}
            Some(Found::Value(value)) => values[at] = Some(value),
            Some(Found::Apart(place)) => {
                let (slot, file) = view.version.holder_of(place, key.as_ref())?;
                let range = match slot.meta.id.0 == place.origin {
                    true => place.range(),
                    false => slot.open(cache)?.moved_range(place.moved_key())?,
                };
                if file.len_bytes() < range.end {
                    return Err(no_place(file.name()));
                }
                apart.push(Apart { at, place, slot, file, range });
            }
        }
    }
    apart.sort_by_key(|one| (one.slot.meta.id, one.range.start));
    let pieces = pieces(&apart);
    let ranges = pieces.iter().map(|(parts, range)| range_of(&apart[parts.start], range));
    let read = read_together(&ranges.collect::<Vec<_>>());
    let read = read.map_err(EngineError::files("reading values together"))?;
    for ((parts, piece), bytes) in pieces.into_iter().zip(read) {
        for one in &apart[parts] {
            let start = (one.range.start - piece.start) as usize;
            let end = (one.range.end - piece.start) as usize;
            let value = one.value(keys[one.at].as_ref(), &bytes[start..end], cache)?;
            values[one.at] = Some(Bytes::from(value));
        }
    }
    Ok(values)
}

/// The reads for `apart`, which are in the order of their files: which of them each is for, and what it reads.
fn pieces(apart: &[Apart<'_>]) -> Vec<(Range<usize>, Range<u64>)> {
    let mut pieces: Vec<(Range<usize>, Range<u64>)> = Vec::new();
    for (at, one) in apart.iter().enumerate() {
        match pieces.last_mut() {
            Some((parts, piece))
                if apart[parts.start].slot.meta.id == one.slot.meta.id
                    && one.range.start <= piece.end + GAP_LEN_BYTES_MAX =>
            {
                parts.end = at + 1;
                piece.end = piece.end.max(one.range.end);
            }
            _ => pieces.push((at..at + 1, one.range.clone())),
        }
    }
    pieces
}

fn range_of<'a>(first: &Apart<'a>, range: &Range<u64>) -> FileRange<'a> {
    let len_bytes = (range.end - range.start) as usize;
    FileRange { file: &**first.file, offset: range.start, len_bytes }
}

impl Apart<'_> {
    /// The value from the bytes of its range.
    fn value(
        &self,
        user_key: &[u8],
        bytes: &[u8],
        cache: &Arc<BlockCache>,
    ) -> Result<Vec<u8>, EngineError> {
        let mut value = Vec::new();
        if self.slot.meta.id.0 == self.place.origin {
            self.place.value_in(self.file.name(), user_key, bytes, &mut value)?;
            return Ok(value);
        }
        let table = self.slot.open(cache)?;
        table.moved_value(self.place.moved_key(), &self.range, bytes, &mut value)?;
        self.place.check(table.name(), user_key, &value)?;
        Ok(value)
    }
}
