//! Reading the live values of the files to clean.
//!
//! ```text
//!   file 12   | a . . b . c d . . . . . . . . e |
//!   reads       [--------------]              [-]
//! ```
//!
//! The values of a file are read in its order, several with one read. What is dead between two of them is read as well if
//! that takes no longer than to pass over it: the platter turns on below the head in any case.

use super::liveness::Value;
use crate::EngineError;
use crate::store::Store;
use crate::table::{MovedKey, read_values};
use crate::version::TableId;
use imbrex_files::Activity;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The longest read of several values: other readers wait for no more than this.
const PIECE_LEN_BYTES: u64 = 4 << 20;

/// What is dead between two values is read if it is no longer than this, which passes below the head in a turn of the
/// platter.
const GAP_LEN_BYTES_MAX: u64 = 2 << 20;

/// A value with its bytes.
#[derive(Debug)]
pub(super) struct MovingValue {
    pub(super) user_key: Vec<u8>,
    pub(super) bytes: Vec<u8>,
}

/// Values that are read.
#[derive(Debug)]
pub(super) struct Reading {
    /// In the order of the reads, each with its place in its file.
    left: VecDeque<(Range<u64>, Value)>,
    pub(super) read: BTreeMap<MovedKey, MovingValue>,
    scratch: Vec<u8>,
}

impl Reading {
    /// # Errors
    /// The index of a file is damaged; the number is that of the file.
    pub(super) fn new(
        store: &Store,
        values: Vec<Value>,
    ) -> Result<Reading, (TableId, EngineError)> {
        let mut left = Vec::with_capacity(values.len());
        for value in values {
            let range = match value.place {
                Some(place) => Ok(place.range()),
                None => {
                    let table = value.slot.open(&store.cache);
                    table.and_then(|table| table.moved_range(value.moved))
                }
            };
            left.push((range.map_err(|error| (value.slot.meta.id, error))?, value));
        }
        left.sort_by_key(|(range, value)| (value.slot.meta.id, range.start, value.moved));
        Ok(Reading { left: left.into(), read: BTreeMap::new(), scratch: Vec::new() })
    }

    /// Makes one read; returns its length, or `None` if all values are read.
    ///
    /// # Errors
    /// A file cannot be read; the number is that of the file.
    pub(super) fn step(&mut self, store: &Store) -> Result<Option<u64>, (TableId, EngineError)> {
        let Some((first, value)) = self.left.front() else { return Ok(None) };
        let slot = Arc::clone(&value.slot);
        let mut piece = first.clone();
        let count = self.left.iter().take_while(|(range, value)| {
            let end = piece.end.max(range.end);
            let is_near = value.slot.meta.id == slot.meta.id
                && range.start <= piece.end.saturating_add(GAP_LEN_BYTES_MAX)
                && (range.end <= piece.end || end - piece.start <= PIECE_LEN_BYTES);
            if is_near {
                piece.end = end;
            }
            is_near
        });
        let values: Vec<_> = {
            let count = count.count();
            self.left.drain(..count.max(1)).collect()
        };
        let read = self.take(store, &piece, values);
        read.map_err(|error| (slot.meta.id, error))?;
        Ok(Some(piece.end - piece.start))
    }

    /// Reads `piece` of the file of all `values`, and takes them from it.
    fn take(
        &mut self,
        store: &Store,
        piece: &Range<u64>,
        values: Vec<(Range<u64>, Value)>,
    ) -> Result<(), EngineError> {
        let Some((_, first)) = values.first() else { return Ok(()) };
        let file = first.slot.file().expect("a version's tables are attached when it is installed");
        let file = file.for_activity(Activity::Cleaning).unwrap_or_else(|| Arc::clone(file));
        let bytes = read_values(&*file, piece.clone(), &mut self.scratch)?;
        for (range, value) in values {
            let part = (range.start - piece.start) as usize..(range.end - piece.start) as usize;
            let part = &bytes[part];
            let mut out = Vec::new();
            match value.place {
                Some(place) => place.value_in(file.name(), &value.user_key, part, &mut out)?,
                None => {
                    let table = value.slot.open(&store.cache)?;
                    table.moved_value(value.moved, &range, part, &mut out)?;
                }
            }
            let moving = MovingValue { user_key: value.user_key, bytes: out };
            self.read.insert(value.moved, moving);
        }
        Ok(())
    }
}
