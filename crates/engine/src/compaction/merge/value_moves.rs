//! What a merge does with values apart: it leaves them in the files of its inputs, or drops them.

use crate::iter::InternalIter;
use crate::key::ApartEntry;
use crate::table::ApartPlace;
use crate::version::TableId;
use std::collections::BTreeMap;

/// The values that a merge leaves in the files of its inputs, and those that it drops, by the table that has them
/// (`table::apart`).
#[derive(Debug, Default)]
pub(crate) struct ValueMoves {
    pub(crate) placed: BTreeMap<TableId, u64>,
    pub(crate) released: BTreeMap<TableId, u64>,
}

impl ValueMoves {
    /// Counts a dropped `entry`.
    #[cold]
    pub(super) fn release(&mut self, entry: &[u8]) {
        if let Some(place) = ApartPlace::decode(entry) {
            *self.released.entry(TableId(place.origin)).or_default() += place.len_bytes();
        }
    }

    /// The entry that leaves the value of `iter` where it is, if the value is long enough and in a log.
    #[inline]
    pub(super) fn place(
        &mut self,
        iter: &impl InternalIter,
        len_bytes_min: usize,
    ) -> Option<ApartEntry> {
        if len_bytes_min == 0 || iter.value_len() < len_bytes_min {
            return None;
        }
        let entry = iter.apart()?;
        let place = ApartPlace::decode(&entry)?;
        *self.placed.entry(TableId(place.origin)).or_default() += place.len_bytes();
        Some(entry)
    }
}
