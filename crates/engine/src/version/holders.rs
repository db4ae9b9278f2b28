//! Holders: files with the values of other tables' entries (`table::apart`).
//!
//! ```text
//!   level 0       12  13                    logs that became tables
//!   a merge       12 -> 40                  40 has keys, and places in 12
//!   levels 40     origin 12: 61 MiB live    in file 12, which is read for values only
//!   cleaning      12, 20, 31 -> 77          origins 12, 20 and 31 are in file 77; entries keep their places
//!   a merge       40 -> 52, and drops one   origin 12: 60 MiB live; a file without origins goes
//! ```
//!
//! An entry names the table that had its value first, the *origin*. Cleaning moves the values of several origins to
//! another file, and no entry changes.
//!
//! Invariants
//!   H1  An origin's live bytes are the length of the values that entries of the version's tables have of it. Entries
//!       before a front do not count. An origin without live bytes is forgotten.
//!   H2  A file is there as long as it is in a level or has an origin.
//!   H3  A file that is in a level has no other origin than itself: while a merge has read only a part of it (V5). A
//!       file that is in none is *alone*, and gets no values any more.
//!
//! Not here: how merges place and release values (`compaction::merge`), the job that cleans (`work::clean`).

use super::names::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The level that the catalog records for a table that is alone.
pub(crate) const HOLDER_LEVEL: u8 = u8::MAX;

/// The values of one origin. `S` is a file of the version.
#[derive(Debug)]
pub(crate) struct Held<S> {
    /// The number of the file that has them.
    pub(crate) file: TableId,
    /// That file.
    pub(crate) slot: Arc<S>,
    /// Their length (H1).
    pub(crate) live_bytes: u64,
}

#[derive(Debug)]
struct Alone<S> {
    slot: Arc<S>,
    origin_count: usize,
}

/// The holders of a keyspace.
#[derive(Debug)]
pub(crate) struct Holders<S> {
    /// By origin.
    held: BTreeMap<TableId, Held<S>>,
    /// The files that are in no level (H3), by their own number.
    alone: BTreeMap<TableId, Alone<S>>,
}

impl<S> Default for Holders<S> {
    fn default() -> Holders<S> {
        Holders { held: BTreeMap::new(), alone: BTreeMap::new() }
    }
}

impl<S> Clone for Holders<S> {
    fn clone(&self) -> Holders<S> {
        let held = self.held.iter().map(|(&origin, held)| {
            let Held { file, live_bytes, .. } = *held;
            (origin, Held { file, slot: Arc::clone(&held.slot), live_bytes })
        });
        let alone = self.alone.iter().map(|(&file, alone)| {
            let Alone { origin_count, .. } = *alone;
            (file, Alone { slot: Arc::clone(&alone.slot), origin_count })
        });
        Holders { held: held.collect(), alone: alone.collect() }
    }
}

impl<S> Holders<S> {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The values of `origin`.
    pub(crate) fn get(&self, origin: TableId) -> Option<&Held<S>> {
        self.held.get(&origin)
    }

    /// All origins, with their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TableId, &Held<S>)> {
        self.held.iter().map(|(&origin, held)| (origin, held))
    }

    /// The length of the live values in each file that has some.
    pub(crate) fn live_bytes(&self) -> BTreeMap<TableId, u64> {
        let mut live: BTreeMap<TableId, u64> = BTreeMap::new();
        for held in self.held.values() {
            *live.entry(held.file).or_default() += held.live_bytes;
        }
        live
    }

    /// The files that are in no level.
    pub(crate) fn alone(&self) -> impl Iterator<Item = &Arc<S>> {
        self.alone.values().map(|alone| &alone.slot)
    }

    pub(crate) fn is_alone(&self, file: TableId) -> bool {
        self.alone.contains_key(&file)
    }

    /// Adds a file that is in no level.
    pub(super) fn insert_alone(&mut self, file: TableId, slot: Arc<S>) {
        self.alone.insert(file, Alone { slot, origin_count: 0 });
    }

    /// Counts `len_bytes` more values of `origin`, in the file that `slot` finds if the origin is new.
    ///
    /// # Errors
    /// There is no such file.
    pub(super) fn place(
        &mut self,
        origin: TableId,
        file: TableId,
        len_bytes: u64,
        in_level: impl FnOnce() -> Option<Arc<S>>,
    ) -> Result<(), String> {
        if let Some(held) = self.held.get_mut(&origin) {
            held.live_bytes += len_bytes;
            return Ok(());
        }
        let slot = match self.alone.get_mut(&file) {
            Some(alone) => {
                alone.origin_count += 1;
                Some(Arc::clone(&alone.slot))
            }
            None => in_level(),
        };
        let slot =
            slot.ok_or_else(|| format!("H2: values are in table {file}, which is not there"))?;
        self.held.insert(origin, Held { file, slot, live_bytes: len_bytes });
        Ok(())
    }

    /// Counts `len_bytes` fewer values of `origin`.
    ///
    /// # Errors
    /// It has fewer (H1).
    pub(super) fn release(&mut self, origin: TableId, len_bytes: u64) -> Result<(), String> {
        let held = self.held.get_mut(&origin).filter(|held| len_bytes <= held.live_bytes);
        let held = held.ok_or_else(|| {
            format!(
                "H1: {len_bytes} bytes of values of table {origin} are released, and it has fewer"
            )
        })?;
        held.live_bytes -= len_bytes;
        if held.live_bytes == 0 {
            let file = held.file;
            self.held.remove(&origin);
            self.leave_file(file);
        }
        Ok(())
    }

    /// The values of `origin` are in another file now, which is alone. Nothing happens if it has none any more.
    ///
    /// # Errors
    /// There is no such file.
    pub(super) fn move_to(&mut self, origin: TableId, file: TableId) -> Result<(), String> {
        let Some(held) = self.held.get_mut(&origin) else { return Ok(()) };
        let to = self.alone.get_mut(&file);
        let to =
            to.ok_or_else(|| format!("H2: values move to table {file}, which is not there"))?;
        to.origin_count += 1;
        held.slot = Arc::clone(&to.slot);
        let from = std::mem::replace(&mut held.file, file);
        self.leave_file(from);
        Ok(())
    }

    fn leave_file(&mut self, file: TableId) {
        if let Some(alone) = self.alone.get_mut(&file) {
            alone.origin_count -= 1;
        }
    }

    /// The file has left its level.
    pub(super) fn leave_level(&mut self, file: TableId) {
        if let Some(held) = self.held.get(&file) {
            let alone = Alone { slot: Arc::clone(&held.slot), origin_count: 1 };
            self.alone.insert(file, alone);
        }
    }

    /// Forgets files without origins (H2).
    pub(super) fn sweep(&mut self) {
        self.alone.retain(|_, alone| alone.origin_count > 0);
    }
}
