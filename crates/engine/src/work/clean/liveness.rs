//! Which values of the files to clean are live.
//!
//! ```text
//!   values, by user key     a   c   d       k   m         z
//!   a run of the version    a b . . d e f | g . . l m n | o p        each table is read once, in order
//! ```
//!
//! The values are sorted by the keys of their entries and looked for in one run after another. Where a table has many of
//! those keys, it is read in long pieces; a block between two seeks costs the disk less than the second seek.
//!
//! Invariants
//!   V1  A value is live if an entry of the version names its place, whatever newer entries its key has: a snapshot may
//!       see it.

use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::{InternalKey, Kind, Seq, Trailer};
use crate::store::Store;
use crate::table::{
    ApartPlace, MOVED_KEYS, MovedKey, Table, TableIter, TableReadOptions, key_hash,
};
use crate::version::{TableId, TableSlot, Version};
use imbrex_files::Activity;
use std::cmp::Ordering;
use std::sync::Arc;

/// If a table has a key for so many of its bytes, it is read in pieces of this length: a disk seeks as long as it reads
/// about 2 MiB.
const PIECE_LEN_BYTES: usize = 1 << 20;

/// So many keys are looked up in a step: a reader waits for no more seeks than this.
const LOOKUP_COUNT_MAX: usize = 8;

/// A value in a file to clean.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) user_key: Vec<u8>,
    /// Its key in a file that cleaning writes.
    pub(super) moved: MovedKey,
    /// Where it is, in the file of its origin; `None` in a file that an earlier cleaning wrote.
    pub(super) place: Option<ApartPlace>,
    pub(super) slot: Arc<TableSlot>,
    /// Its length, once an entry was found that names it.
    pub(super) live_bytes: Option<u64>,
}

/// A search for the entries of values, in progress.
#[derive(Debug)]
pub(super) struct Liveness {
    version: Arc<Version>,
    /// By user key, once they are all there.
    values: Vec<Value>,
    is_sorted: bool,
    /// The level and the run that are looked into, and the next value to look for there.
    run: (usize, usize),
    next: usize,
    open: Option<OpenTable>,
}

/// The table that is looked into.
#[derive(Debug)]
struct OpenTable {
    id: TableId,
    table: Arc<Table>,
    entries: TableIter,
}

impl Liveness {
    pub(super) fn new(version: Arc<Version>) -> Liveness {
        let (values, open) = Default::default();
        Liveness { version, values, is_sorted: false, run: (0, 0), next: 0, open }
    }

    /// Lists the values of a file.
    ///
    /// # Errors
    /// The file is damaged.
    pub(super) fn list(&mut self, store: &Store, slot: &Arc<TableSlot>) -> Result<(), EngineError> {
        let read = TableReadOptions { fill_cache: false, ..for_cleaning() };
        let mut entries = slot.open(&store.cache)?.iter(read);
        let is_moved = !slot.meta.is_logged;
        if is_moved {
            entries.seek(InternalKey::new(MOVED_KEYS, Trailer::seek(Seq::MAX)))?;
        } else {
            entries.seek_to_first()?;
        }
        while entries.valid() {
            let key = entries.key();
            let found = if is_moved {
                let Some(moved) = MovedKey::of_key_entry(key.user_key) else { break };
                entries.load_value()?;
                Some((moved, entries.value().to_vec(), None))
            } else {
                let place = entries.apart().and_then(|entry| ApartPlace::decode(&entry));
                place.map(|place| (place.moved_key(), key.user_key.to_vec(), Some(place)))
            };
            if let Some((moved, user_key, place)) = found {
                let slot = Arc::clone(slot);
                self.values.push(Value { user_key, moved, place, slot, live_bytes: None });
            }
            entries.next()?;
        }
        Ok(())
    }

    /// Looks for some of the values; returns the live ones once all were looked for.
    ///
    /// # Errors
    /// A table of the version cannot be read.
    pub(super) fn step(&mut self, store: &Store) -> Result<Option<Vec<Value>>, EngineError> {
        if !self.is_sorted {
            self.values.sort_by(|a, b| (&a.user_key, a.moved).cmp(&(&b.user_key, b.moved)));
            self.is_sorted = true;
        }
        let mut lookup_count = 0;
        while lookup_count < LOOKUP_COUNT_MAX {
            let (level, run) = self.run;
            if level == self.version.levels.len() {
                let mut values = std::mem::take(&mut self.values);
                values.retain(|value| value.live_bytes.is_some());
                return Ok(Some(values));
            }
            if run == self.version.levels[level].runs.len() {
                self.run = (level + 1, 0);
            } else if self.next == self.values.len() {
                (self.run, self.next, self.open) = ((level, run + 1), 0, None);
            } else {
                lookup_count += usize::from(self.look_up(store)?);
                self.next += 1;
            }
        }
        Ok(None)
    }

    /// Looks for the next value in the run; returns whether that took a seek in a table.
    fn look_up(&mut self, store: &Store) -> Result<bool, EngineError> {
        let (level, run) = self.run;
        let value = &self.values[self.next];
        let slot = self.version.levels[level].runs[run].find(&value.user_key);
        let Some(slot) = slot.filter(|_| value.live_bytes.is_none()) else { return Ok(false) };
        let open = match self.open.take() {
            Some(open) if open.id == slot.meta.id => open,
            _ => open(store, slot, &self.values[self.next..])?,
        };
        let open = self.open.insert(open);
        if !open.table.may_contain(key_hash(&value.user_key)) {
            return Ok(false);
        }
        let entries = &mut open.entries;
        entries.seek(InternalKey::new(&value.user_key, Trailer::seek(Seq::MAX)))?;
        let mut live_bytes = None;
        while live_bytes.is_none() && entries.valid() && entries.key().user_key == value.user_key {
            if entries.key().trailer.kind() == Some(Kind::PutApart) {
                let place = ApartPlace::decode(entries.value());
                let place = place.filter(|place| place.moved_key() == value.moved);
                live_bytes = place.map(ApartPlace::len_bytes);
            }
            entries.next()?;
        }
        self.values[self.next].live_bytes = live_bytes;
        Ok(true)
    }
}

/// Opens a table in which `values` are looked for, as far as it goes.
fn open(store: &Store, slot: &Arc<TableSlot>, values: &[Value]) -> Result<OpenTable, EngineError> {
    let table = slot.open(&store.cache)?;
    let inside = values
        .iter()
        .take_while(|value| slot.meta.place(&value.user_key) != Ordering::Greater)
        .filter(|value| value.live_bytes.is_none() && table.may_contain(key_hash(&value.user_key)));
    // Of a table that began as a log, only the end is read.
    let len_bytes = if slot.meta.is_logged { 0 } else { slot.meta.len_bytes };
    let is_dense = len_bytes <= PIECE_LEN_BYTES as u64 * inside.count() as u64;
    let ahead_bytes = if is_dense { PIECE_LEN_BYTES } else { 0 };
    let read = TableReadOptions {
        // The blocks that a read of the whole table passes would evict those that readers need.
        fill_cache: !is_dense,
        read_ahead_bytes: ahead_bytes,
        read_ahead_bytes_min: ahead_bytes,
        ..for_cleaning()
    };
    let entries = table.iter(read);
    Ok(OpenTable { id: slot.meta.id, table: Arc::clone(table), entries })
}

fn for_cleaning() -> TableReadOptions {
    TableReadOptions { activity: Activity::Cleaning, ..TableReadOptions::default() }
}
