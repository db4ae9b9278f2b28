//! Versions: which tables form which level. A version is immutable and belongs to one keyspace.
//!
//! ```text
//!   L0   run 9   [b....m]  [n......x]      newest run first; the tables of a run are disjoint
//!        run 7   [a..........q]
//!   L1   run 0   [a...e][f....k][l...z]    a level below 0 is one run (`leveled`), or several
//!   L2   run 0   [a.b][c.d][e...g] ...     (policies that keep more)
//! ```
//!
//! Invariants
//!   V1  The tables of a run are sorted by key and disjoint. All entries of one user key in a run
//!       are in one of its tables.
//!   V2  For one user key, everything in a newer run is newer than everything in an older run of
//!       the same level, and everything in a level is newer than everything in the levels below it.
//!   V3  A table is in one place of one version; its id was never used before.
//!   V4  The ids of the runs of a level are distinct and descend.
//!   V5  A table with a *front* is read only from that key on. What its file has before the front was
//!       merged into an older run, which may have newer writes since. A front never moves back.
//!
//! Not here: how edits become durable (`set`), how compactions are chosen (`compaction`).

pub(crate) mod cover;
pub(crate) mod edit;
pub(crate) mod format;
pub(crate) mod holders;
pub(crate) mod names;
pub(crate) mod partitions;
pub(crate) mod rested;
pub(crate) mod set_counts;
pub(crate) mod shape;
pub(crate) mod state;
#[cfg(test)]
mod tests;

use crate::EngineError;
use crate::key::Seq;
use crate::losses::Losses;
use crate::metrics::ValuesApartMetrics;
use crate::range_del::{FragmentedTombstones, TombstoneLane};
use crate::table::cache::BlockCache;
use crate::table::{ApartPlace, Table, TableProperties, WrittenEnd};
use bytes::Bytes;
use cover::Cover;
use holders::Holders;
use imbrex_files::{Activity, FileReader, Files, GroupId};
pub(crate) use names::TableId;
use partitions::Partitions;
use set_counts::SetCounts;
use std::cmp::Ordering;
use std::fmt;
use std::sync::atomic::{self, AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

/// The number of levels.
pub(crate) const LEVEL_COUNT: usize = 7;

/// The age of a run within its level. A larger number is newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId(pub(crate) u64);

impl RunId {
    /// The id of the run in a level that has only one.
    pub(crate) const ONLY: RunId = RunId(0);
}

/// The facts about a table that are known without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableMeta {
    pub(crate) id: TableId,
    pub(crate) len_bytes: u64,
    /// The smallest user key, range tombstones included; or the front, if the table has one.
    pub(crate) smallest: Bytes,
    /// The largest user key, or the end of the last range tombstone.
    pub(crate) largest: Bytes,
    /// `largest` is the end of a range tombstone, so the key itself is not in the table.
    pub(crate) largest_excluded: bool,
    pub(crate) seq_min: Seq,
    pub(crate) seq_max: Seq,
    pub(crate) entry_count: u64,
    pub(crate) delete_count: u64,
    pub(crate) range_tombstone_count: u64,
    /// The length of keys and values before compression.
    pub(crate) raw_len_bytes: u64,
    /// The flush or compaction that wrote the table.
    pub(crate) group: GroupId,
    /// The number of tables that the same flush or compaction wrote. Minus those still in the
    /// version, this gives the number of dead ones.
    pub(crate) group_table_count: u32,
    /// The table began as a log, and the log has its values (`band`).
    pub(crate) is_logged: bool,
    /// `smallest` is the table's front (V5). The counts and lengths are still those of the file.
    pub(crate) has_front: bool,
}

impl TableMeta {
    /// Whether it may hide data below it.
    pub(crate) fn has_deletes(&self) -> bool {
        self.delete_count > 0 || self.range_tombstone_count > 0
    }

    /// What `properties` say of the table `id`; the rest is that of a table of its own.
    pub(crate) fn of(id: TableId, len_bytes: u64, properties: TableProperties) -> TableMeta {
        TableMeta {
            id,
            len_bytes,
            has_front: false,
            smallest: Bytes::from(properties.smallest_user_key),
            largest: Bytes::from(properties.largest_user_key),
            largest_excluded: false,
            seq_min: properties.smallest_seq,
            seq_max: properties.largest_seq,
            entry_count: properties.entry_count,
            delete_count: properties.delete_count,
            range_tombstone_count: properties.range_tombstone_count,
            raw_len_bytes: properties.raw_key_len_bytes + properties.raw_value_len_bytes,
            group: GroupId(0),
            group_table_count: 0,
            is_logged: false,
        }
    }

    /// The key from which the table is read, if its file has dead entries before that (V5).
    pub(crate) fn front(&self) -> Option<&Bytes> {
        self.has_front.then_some(&self.smallest)
    }

    /// The same table, read only from `key` on; `None` if nothing of it is left.
    pub(crate) fn with_front_at(&self, key: &Bytes) -> Option<TableMeta> {
        if self.ends_before(key) {
            return None;
        }
        if *key <= self.smallest {
            return Some(self.clone());
        }
        Some(TableMeta { smallest: key.clone(), has_front: true, ..self.clone() })
    }

    /// Compares `user_key` with the table's range: `Less` is before it, `Equal` in it, `Greater`
    /// behind it.
    pub(crate) fn place(&self, user_key: &[u8]) -> Ordering {
        if user_key < &self.smallest[..] {
            return Ordering::Less;
        }
        match user_key.cmp(&self.largest[..]) {
            Ordering::Less => Ordering::Equal,
            Ordering::Equal if !self.largest_excluded => Ordering::Equal,
            _ => Ordering::Greater,
        }
    }

    /// Whether the whole table is before `start`.
    pub(crate) fn ends_before(&self, start: &[u8]) -> bool {
        &self.largest[..] < start || (self.largest_excluded && self.largest[..] == *start)
    }

    /// The key range of the table.
    pub(crate) fn range(&self) -> KeyRange {
        KeyRange {
            smallest: self.smallest.clone(),
            largest: self.largest.clone(),
            largest_excluded: self.largest_excluded,
        }
    }
}

/// A range of user keys, such as the range that some tables span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) smallest: Bytes,
    pub(crate) largest: Bytes,
    pub(crate) largest_excluded: bool,
}

impl KeyRange {
    /// The smallest range that contains all of `tables`; `None` if there are none.
    pub(crate) fn of<'a>(tables: impl IntoIterator<Item = &'a TableMeta>) -> Option<KeyRange> {
        let mut tables = tables.into_iter();
        let mut range = tables.next()?.range();
        for table in tables {
            range.extend(&table.range());
        }
        Some(range)
    }

    pub(crate) fn extend(&mut self, other: &KeyRange) {
        if other.smallest < self.smallest {
            self.smallest = other.smallest.clone();
        }
        match other.largest.cmp(&self.largest) {
            Ordering::Greater => {
                self.largest = other.largest.clone();
                self.largest_excluded = other.largest_excluded;
            }
            Ordering::Equal => self.largest_excluded &= other.largest_excluded,
            Ordering::Less => {}
        }
    }

    pub(crate) fn ends_before(&self, start: &[u8]) -> bool {
        &self.largest[..] < start || (self.largest_excluded && self.largest[..] == *start)
    }

    /// The first key after the range.
    pub(crate) fn end(&self) -> Bytes {
        match self.largest_excluded {
            true => self.largest.clone(),
            false => [&self.largest, &[0][..]].concat().into(),
        }
    }

    pub(crate) fn overlaps(&self, other: &KeyRange) -> bool {
        !self.ends_before(&other.smallest) && !other.ends_before(&self.smallest)
    }

    pub(crate) fn overlaps_table(&self, table: &TableMeta) -> bool {
        !self.ends_before(&table.smallest) && !table.ends_before(&self.smallest)
    }
}

/// A table of a version: its metadata, and the open table after its first use.
pub(crate) struct TableSlot {
    pub(crate) meta: TableMeta,
    file: OnceLock<Arc<dyn FileReader>>,
    table: OnceLock<Arc<Table>>,
    /// Reading the properties found damage, so `properties` does not try again.
    is_silent: AtomicBool,
    /// Whether the attached file is on the flash drive.
    is_on_flash: AtomicBool,
    /// How many gets have looked in the table and then in another.
    miss_count: AtomicU64,
}

impl TableSlot {
    pub(crate) fn new(meta: TableMeta) -> Arc<TableSlot> {
        let (file, table) = Default::default();
        let (is_silent, is_on_flash) = Default::default();
        let miss_count = AtomicU64::default();
        Arc::new(TableSlot { meta, file, table, is_silent, is_on_flash, miss_count })
    }

    /// A table whose file is on the flash drive.
    #[cfg(test)]
    pub(crate) fn new_on_flash(meta: TableMeta) -> Arc<TableSlot> {
        let slot = TableSlot::new(meta);
        slot.is_on_flash.store(true, atomic::Ordering::Relaxed);
        slot
    }

    /// The same table, file and all, with a later front.
    fn with_front(&self, meta: TableMeta) -> Arc<TableSlot> {
        let copy = |flag: &AtomicBool| AtomicBool::new(flag.load(atomic::Ordering::Relaxed));
        Arc::new(TableSlot {
            meta,
            file: self.file.clone(),
            table: self.table.clone(),
            is_silent: copy(&self.is_silent),
            is_on_flash: copy(&self.is_on_flash),
            miss_count: AtomicU64::default(),
        })
    }

    /// Counts a get that looked in the table and then in another. Returns how many there were.
    pub(crate) fn note_miss(&self) -> u64 {
        self.miss_count.fetch_add(1, atomic::Ordering::Relaxed) + 1
    }

    pub(crate) fn forget_misses(&self) {
        self.miss_count.store(0, atomic::Ordering::Relaxed);
    }

    /// This slot with the metadata `meta`, which may only have a later front (V5).
    ///
    /// # Errors
    /// The contradiction, as text.
    pub(crate) fn moved_to(self: Arc<Self>, meta: &TableMeta) -> Result<Arc<TableSlot>, String> {
        if self.meta == *meta {
            return Ok(self);
        }
        if self.meta.with_front_at(&meta.smallest).as_ref() != Some(meta) {
            return Err(format!("V5: table {} comes back changed", meta.id));
        }
        Ok(self.with_front(meta.clone()))
    }

    /// The range tombstones that the table has for readers (V5).
    pub(crate) fn range_tombstones(
        &self,
        cache: &Arc<BlockCache>,
    ) -> Result<Arc<FragmentedTombstones>, EngineError> {
        let all = self.open(cache)?.range_tombstones();
        Ok(match self.meta.front() {
            Some(front) => Arc::new(all.truncate(Some(front), None)),
            None => Arc::clone(all),
        })
    }

    /// Opens the file `name`, so that its bytes exist while this slot does (F3).
    pub(crate) fn attach(&self, files: &dyn Files, name: &str) -> Result<(), EngineError> {
        if self.file.get().is_none() {
            let what = format!("open table {name}");
            let file = files.open(name).map_err(EngineError::files(what))?;
            let got_bytes = file.len_bytes();
            // The recorded length of a log may be shorter than the file.
            let is_rough = self.meta.is_logged && self.meta.len_bytes <= got_bytes;
            if !is_rough && got_bytes != self.meta.len_bytes {
                return Err(EngineError::Corrupt {
                    structure: "table",
                    file: name.to_owned(),
                    offset: 0,
                    reason: format!(
                        "the file has {got_bytes} bytes, its version says {}",
                        self.meta.len_bytes
                    ),
                });
            }
            let is_longer = self.meta.len_bytes < got_bytes;
            let part = |file| imbrex_files::part_of(file, 0..self.meta.len_bytes);
            self.is_on_flash.store(files.is_on_flash(name), atomic::Ordering::Relaxed);
            let _ = self.file.set(if is_longer { part(file) } else { file });
        }
        Ok(())
    }

    /// Whether the table is on the flash drive, which is for level 0. To go down, it must be written to the
    /// main drive. A file never changes its drive.
    pub(crate) fn is_on_flash(&self) -> bool {
        self.is_on_flash.load(atomic::Ordering::Relaxed)
    }

    /// The file, if attached.
    pub(crate) fn file(&self) -> Option<&Arc<dyn FileReader>> {
        self.file.get()
    }

    /// The open table. The first call reads footer, index and filter.
    pub(crate) fn open(&self, cache: &Arc<BlockCache>) -> Result<&Arc<Table>, EngineError> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let file = self.file.get().expect("a version's tables are attached when it is installed");
        let open = if self.meta.is_logged { Table::open_logged } else { Table::open };
        let table = open(Arc::clone(file), Arc::clone(cache))?;
        Ok(self.table.get_or_init(|| table))
    }

    /// Opens the table from its end, which its writer has kept. If that fails, the first reader opens it.
    pub(crate) fn open_written(&self, end: WrittenEnd, cache: &Arc<BlockCache>) {
        let Some(file) = self.file.get().filter(|_| self.table.get().is_none()) else { return };
        if let Ok(table) = Table::open_written(file, end, Arc::clone(cache)) {
            let _ = self.table.set(table);
        }
    }

    /// The table's properties, for callers that ask often and can do without them. After damage,
    /// the table is not tried again, because a drive may spend many seconds on a bad sector.
    pub(crate) fn properties(&self, cache: &Arc<BlockCache>) -> Option<TableProperties> {
        if self.opened().is_none() && self.is_silent.load(atomic::Ordering::Relaxed) {
            return None;
        }
        match self.open(cache) {
            Ok(table) => Some(table.properties().clone()),
            Err(error) => {
                self.is_silent.fetch_or(error.is_damage(), atomic::Ordering::Relaxed);
                None
            }
        }
    }

    /// Opens the table without its damaged parts, if it can be used without them.
    pub(crate) fn open_in_part(
        &self,
        cache: &Arc<BlockCache>,
        losses: &Losses,
    ) -> Result<(), EngineError> {
        let file = Arc::clone(self.file.get().expect("the file is attached"));
        let table = Table::open_in_part(file, Arc::clone(cache), self.meta.is_logged, losses)?;
        self.table.get_or_init(|| table);
        Ok(())
    }

    /// The open table, if it has been used before.
    pub(crate) fn opened(&self) -> Option<&Arc<Table>> {
        self.table.get()
    }
}

impl fmt::Debug for TableSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.meta.fmt(f)
    }
}

/// Disjoint tables in key order (V1).
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) tables: Vec<Arc<TableSlot>>,
}

impl Run {
    /// The table whose range contains `user_key`.
    ///
    /// Cost: one binary search.
    pub(crate) fn find(&self, user_key: &[u8]) -> Option<&Arc<TableSlot>> {
        let at =
            self.tables.partition_point(|table| table.meta.place(user_key) == Ordering::Greater);
        self.tables.get(at).filter(|table| table.meta.place(user_key) == Ordering::Equal)
    }

    /// The tables that overlap `range`, in key order.
    pub(crate) fn overlapping(&self, range: &KeyRange) -> &[Arc<TableSlot>] {
        let from = self.tables.partition_point(|t| t.meta.ends_before(&range.smallest));
        let len = self.tables[from..].partition_point(|t| !range.ends_before(&t.meta.smallest));
        &self.tables[from..from + len]
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta.len_bytes).sum()
    }
}

/// The runs of one level, newest first (V4).
#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    pub(crate) runs: Vec<Run>,
    /// Built on first use, and discarded when a table is added or removed.
    cover: OnceLock<Arc<Cover>>,
}

impl Level {
    /// The cover, if the level has enough runs for reads to use it.
    #[inline]
    pub(crate) fn cover(&self) -> Option<&Cover> {
        if !cover::is_crowded(&self.runs) {
            return None;
        }
        Some(self.cover.get_or_init(|| Arc::new(Cover::new(&self.runs))))
    }

    /// All tables, run by run.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableSlot>> {
        self.runs.iter().flat_map(|run| &run.tables)
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.runs.iter().map(Run::len_bytes).sum()
    }

    pub(crate) fn table_count(&self) -> usize {
        self.runs.iter().map(|run| run.tables.len()).sum()
    }

    /// The tables that overlap `range`, run by run.
    pub(crate) fn overlapping(&self, range: &KeyRange) -> Vec<Arc<TableSlot>> {
        self.runs.iter().flat_map(|run| run.overlapping(range)).cloned().collect()
    }

    fn insert(&mut self, run: RunId, slot: Arc<TableSlot>) {
        self.cover = OnceLock::new();
        let at = self.runs.partition_point(|r| r.id > run);
        if self.runs.get(at).is_none_or(|r| r.id != run) {
            self.runs.insert(at, Run { id: run, tables: Vec::new() });
        }
        let tables = &mut self.runs[at].tables;
        let place = tables.partition_point(|t| t.meta.smallest < slot.meta.smallest);
        tables.insert(place, slot);
    }

    fn remove(&mut self, id: TableId) -> Option<Arc<TableSlot>> {
        self.cover = OnceLock::new();
        for run_at in 0..self.runs.len() {
            let tables = &mut self.runs[run_at].tables;
            if let Some(at) = tables.iter().position(|t| t.meta.id == id) {
                let slot = tables.remove(at);
                if tables.is_empty() {
                    self.runs.remove(run_at);
                }
                return Some(slot);
            }
        }
        None
    }
}

/// The tables of one keyspace, by level and run.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) levels: [Level; LEVEL_COUNT],
    pub(crate) partitions: Partitions,
    /// Tables whose files have values of other tables' entries. Shared until it changes.
    pub(crate) holders: Arc<Holders<TableSlot>>,
    /// How many tables of each set are left.
    pub(crate) set_counts: SetCounts,
    /// The tables with range tombstones.
    tombstoned: Vec<Arc<TableSlot>>,
    /// Their tombstones, prepared by the first cursor and shared by all.
    tombstone_lanes: OnceLock<Vec<Arc<TombstoneLane>>>,
}

impl Default for Version {
    fn default() -> Version {
        Version {
            levels: std::array::from_fn(|_| Level::default()),
            partitions: Partitions::default(),
            holders: Arc::default(),
            set_counts: SetCounts::default(),
            tombstoned: Vec::new(),
            tombstone_lanes: OnceLock::new(),
        }
    }
}

impl Version {
    /// All tables, from the newest run to the oldest.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableSlot>> {
        self.levels.iter().flat_map(Level::tables)
    }

    /// All tables whose files the version needs: those of the levels, and those that only hold values.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<TableSlot>> {
        self.tables().chain(self.holders.alone())
    }

    /// The number and lengths of the files that only hold values.
    pub(crate) fn values_apart(&self) -> ValuesApartMetrics {
        let holders = &self.holders;
        let held = holders.iter().filter(|(_, held)| holders.is_alone(held.file));
        ValuesApartMetrics {
            file_count: holders.alone().count(),
            len_bytes: holders.alone().map(|slot| slot.meta.len_bytes).sum(),
            live_bytes: held.map(|(_, held)| held.live_bytes).sum(),
        }
    }

    /// The file that has a value of `user_key` now.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`]: there is no such holder.
    pub(crate) fn holder_of(
        &self,
        place: ApartPlace,
        user_key: &[u8],
    ) -> Result<(&Arc<TableSlot>, &Arc<dyn FileReader>), EngineError> {
        let held = self.holders.get(TableId(place.origin));
        held.and_then(|held| Some((&held.slot, held.slot.file()?))).ok_or_else(|| {
            EngineError::Corrupt {
                structure: "value",
                file: TableId(place.origin).file_name(),
                offset: 0,
                reason: format!(
                    "the value of key {} is in it, but the store has no such file",
                    user_key.escape_ascii()
                ),
            }
        })
    }

    /// Reads a value that is in the file of another table than its entry, of `user_key`.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`]: there is no such holder, or the value is not the one that was written.
    /// [`EngineError::Files`].
    pub(crate) fn read_apart(
        &self,
        place: ApartPlace,
        user_key: &[u8],
        cache: &Arc<BlockCache>,
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        let (slot, file) = self.holder_of(place, user_key)?;
        if slot.meta.id.0 == place.origin {
            return place.read(file, user_key, Activity::User, out);
        }
        let table = slot.open(cache)?;
        table.read_moved(place.moved_key(), out)?;
        place.check(table.name(), user_key, out)
    }

    /// All tables with their places: level, run, table.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u8, RunId, &Arc<TableSlot>)> {
        self.levels.iter().enumerate().flat_map(|(level, l)| {
            l.runs
                .iter()
                .flat_map(move |run| run.tables.iter().map(move |t| (level as u8, run.id, t)))
        })
    }

    pub(crate) fn insert(&mut self, level: u8, run: RunId, slot: Arc<TableSlot>) {
        if slot.meta.range_tombstone_count > 0 {
            self.tombstoned.push(Arc::clone(&slot));
            self.tombstone_lanes = OnceLock::new();
        }
        self.set_counts.add(slot.meta.group, slot.meta.group_table_count);
        self.levels[usize::from(level)].insert(run, slot);
    }

    pub(crate) fn remove(&mut self, id: TableId) -> Option<Arc<TableSlot>> {
        let old_count = self.tombstoned.len();
        self.tombstoned.retain(|slot| slot.meta.id != id);
        if self.tombstoned.len() < old_count {
            self.tombstone_lanes = OnceLock::new();
        }
        let slot = self.levels.iter_mut().find_map(|level| level.remove(id))?;
        self.set_counts.remove(slot.meta.group, slot.meta.group_table_count);
        Some(slot)
    }

    /// The range tombstones of all tables, as the smallest number of lists.
    ///
    /// # Errors
    /// Those of [`TableSlot::open`].
    pub(crate) fn tombstone_lanes(
        &self,
        cache: &Arc<BlockCache>,
    ) -> Result<&[Arc<TombstoneLane>], EngineError> {
        if let Some(lanes) = self.tombstone_lanes.get() {
            return Ok(lanes);
        }
        let opened = |slot: &Arc<TableSlot>| slot.range_tombstones(cache);
        let tables = self.tombstoned.iter().map(opened).collect::<Result<Vec<_>, EngineError>>()?;
        Ok(self.tombstone_lanes.get_or_init(|| TombstoneLane::divide(tables)))
    }

    /// Whether any level below `level` has a table in `range`. `level` may be the last one.
    pub(crate) fn has_overlap_below(&self, level: u8, range: &KeyRange) -> bool {
        self.levels
            .iter()
            .skip(usize::from(level) + 1)
            .any(|l| l.runs.iter().any(|run| !run.overlapping(range).is_empty()))
    }

    /// Checks the whole structure. Returns the first violation of V1, V3, V4, Q1 or Q2, or a
    /// miscounted set, as text.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut ids = std::collections::BTreeSet::new();
        for (number, level) in self.levels.iter().enumerate() {
            for pair in level.runs.windows(2) {
                if pair[0].id <= pair[1].id {
                    return Err(format!(
                        "V4: L{number} run {:?} before {:?}",
                        pair[0].id, pair[1].id
                    ));
                }
            }
            for run in &level.runs {
                if run.tables.is_empty() {
                    return Err(format!("V4: L{number} run {} is empty", run.id.0));
                }
                for pair in run.tables.windows(2) {
                    if !pair[0].meta.ends_before(&pair[1].meta.smallest) {
                        let (a, b) = (pair[0].meta.id, pair[1].meta.id);
                        return Err(format!("V1: L{number} tables {a} and {b} overlap"));
                    }
                }
            }
            for table in level.tables() {
                if !ids.insert(table.meta.id) {
                    return Err(format!("V3: table {} is in two places", table.meta.id));
                }
                if table.meta.largest < table.meta.smallest {
                    return Err(format!("V1: table {} ends before it starts", table.meta.id));
                }
            }
        }
        for table in self.holders.alone() {
            if !ids.insert(table.meta.id) {
                return Err(format!("H3: table {} is in a level and alone", table.meta.id));
            }
        }
        let groups = self.tables().map(|slot| (slot.meta.group, slot.meta.group_table_count));
        self.set_counts.check(groups)?;
        self.partitions.check(&self.levels)
    }
}

impl fmt::Display for Version {
    /// One line per run: `L1 run 0: 000004[a..f] 000005[g..m) 000006|n..z]`, where `|` is a front.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, level) in self.levels.iter().enumerate() {
            for run in &level.runs {
                write!(f, "L{number} run {}:", run.id.0)?;
                for table in &run.tables {
                    let meta = &table.meta;
                    let (from, to) = (meta.smallest.escape_ascii(), meta.largest.escape_ascii());
                    let start = if meta.has_front { '|' } else { '[' };
                    let end = if meta.largest_excluded { ')' } else { ']' };
                    write!(f, " {}{start}{from}..{to}{end}", meta.id)?;
                }
                writeln!(f)?;
            }
        }
        self.partitions.fmt(f)
    }
}
