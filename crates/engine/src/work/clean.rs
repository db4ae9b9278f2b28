//! Cleaning: the live values of files that hold few of them move to another file, and the old files go.
//!
//! ```text
//!   file 12   [ a . . . b . . ]            77   | k: places -> keys | v: places -> values |
//!   file 31   [ . c . . . . . ]   ---->         a b c
//!   origins   12 in 12, 31 in 31                12 in 77, 31 in 77      entries of tables keep their places
//! ```
//!
//! A value is live if an entry of the version names its place. Merges only drop such entries: a file that is alone
//! gets no values any more (H3). What is dead at the start stays dead, whatever is committed meanwhile.
//!
//! Files are taken by benefit and cost, as LFS does: (1 - u) * age / (1 + u), where u is their live share.
//!
//! Invariants
//!   C1  One commit replaces the files by the new one. Readers with an older version keep the old files (F3).
//!   C2  A file with damage is left as it is, and not tried again while the store is open.
//!   C3  Without pressure, only files that are half dead are cleaned, and only while no compaction runs.
//!
//! Source: Rosenblum and Ousterhout, The design and implementation of a log-structured file system, section 3.5; that
//! entries need no change is as in TerarkDB. Not here: which bytes are live (`version::holders`).

use crate::EngineError;
use crate::compaction::merge::output::TableHome;
use crate::iter::InternalIter;
use crate::key::{InternalKey, Kind, Seq, Trailer};
use crate::options::Compression;
use crate::store::commit::Change;
use crate::store::job_count::Counted;
use crate::store::keyspace::KeyspaceState;
use crate::store::{Store, gate};
use crate::table::cache::BlockCache;
use crate::table::{
    ApartPlace, MOVED_KEYS, MovedKey, TableBuilder, TableOptions, TableReadOptions, key_hash,
};
use crate::version::edit::TableAdd;
use crate::version::holders::{HOLDER_LEVEL, Holders};
use crate::version::{RunId, TableId, TableMeta, TableSlot, Version};
use imbrex_clockwork::{Budget, Job, Step};
use imbrex_files::{Activity, CommitKind, FileBuffer, FileKind, GroupId, Hints};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A value that moves.
#[derive(Debug)]
struct LiveValue {
    user_key: Vec<u8>,
    /// Where it is, in the file of its origin; `None` in a file that an earlier cleaning wrote.
    place: Option<ApartPlace>,
    slot: Arc<TableSlot>,
}

/// A cleaning in progress.
#[derive(Debug)]
struct Cleaning {
    keyspace: Arc<KeyspaceState>,
    files: Vec<Arc<TableSlot>>,
    /// Files whose entries are not listed yet.
    unlisted: Vec<Arc<TableSlot>>,
    version: Arc<Version>,
    /// What moves, by its key in the new file.
    live: BTreeMap<MovedKey, LiveValue>,
    table: TableId,
    builder: Option<TableBuilder>,
    /// The length of the values that were read.
    moved_bytes: u64,
    /// The file that could not be read.
    unread: Option<TableId>,
}

impl Cleaning {
    fn new(store: &Store, keyspace: Arc<KeyspaceState>, files: Vec<Arc<TableSlot>>) -> Cleaning {
        let version = Arc::clone(&keyspace.view().version);
        let table = TableId(store.new_id());
        let (unlisted, live) = (files.clone(), BTreeMap::new());
        Cleaning {
            keyspace,
            files,
            unlisted,
            version,
            live,
            table,
            builder: None,
            moved_bytes: 0,
            unread: None,
        }
    }

    /// Works on about `len_bytes`; returns true once the cleaning is durable.
    fn step(&mut self, store: &Store, len_bytes: u64) -> Result<bool, EngineError> {
        if let Some(slot) = self.unlisted.pop() {
            self.list(store, &slot).inspect_err(|_| self.unread = Some(slot.meta.id))?;
            return Ok(false);
        }
        if self.builder.is_none() {
            self.builder = Some(self.begin());
        }
        let mut done_bytes = 0;
        while done_bytes < len_bytes {
            let Some((key, value)) = self.live.pop_first() else {
                self.finish(store)?;
                return Ok(true);
            };
            done_bytes += self.move_one(store, key, &value)?;
        }
        Ok(false)
    }

    /// Lists the live values of a file.
    fn list(&mut self, store: &Store, slot: &Arc<TableSlot>) -> Result<(), EngineError> {
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
            let (found, place) = if is_moved {
                let Some(moved) = MovedKey::of_key_entry(key.user_key) else { break };
                entries.load_value()?;
                (Some((moved, entries.value().to_vec())), None)
            } else {
                let place = entries.apart().and_then(|entry| ApartPlace::decode(&entry));
                (place.map(|place| (place.moved_key(), key.user_key.to_vec())), place)
            };
            if let Some((moved, user_key)) = found
                && is_live(&self.version, &store.cache, &user_key, moved)?
            {
                let slot = Arc::clone(slot);
                self.live.insert(moved, LiveValue { user_key, place, slot });
            }
            entries.next()?;
        }
        Ok(())
    }

    /// Begins the new file, with the keys of all values.
    fn begin(&self) -> TableBuilder {
        let hints = Hints {
            group: Some(GroupId(self.table.0)),
            stream: self.keyspace.id.0,
            purpose: CommitKind::Upkeep,
            activity: Activity::Cleaning,
            ..Hints::new(FileKind::Table)
        };
        let options = TableOptions {
            table_id: self.table.0,
            // Values follow one another in the order of their places.
            compression: Compression::None,
            ..TableOptions::default()
        };
        let mut builder =
            TableBuilder::new(FileBuffer::new(self.table.file_name(), hints), options);
        for (moved, value) in &self.live {
            builder.add(&moved.key_entry(), Trailer::new(Seq(0), Kind::Put), &value.user_key);
        }
        builder
    }

    fn move_one(
        &mut self,
        store: &Store,
        moved: MovedKey,
        value: &LiveValue,
    ) -> Result<u64, EngineError> {
        let LiveValue { user_key, place, slot } = value;
        let mut bytes = Vec::new();
        let read = match (place, slot.file()) {
            (Some(place), Some(file)) => place.read(file, user_key, Activity::Cleaning, &mut bytes),
            _ => slot.open(&store.cache).and_then(|table| table.read_moved(moved, &mut bytes)),
        };
        read.inspect_err(|_| self.unread = Some(slot.meta.id))?;
        let builder = self.builder.as_mut().expect("it was begun before the first value");
        self.moved_bytes += bytes.len() as u64;
        builder.add(&moved.value_entry(), Trailer::new(Seq(0), Kind::Put), &bytes);
        Ok(bytes.len() as u64)
    }

    /// Writes the new file, and commits it in the place of the old ones (C1).
    fn finish(&mut self, store: &Store) -> Result<(), EngineError> {
        let mut builder = self.builder.take().expect("it was begun before");
        let keyspace = self.keyspace.id;
        let mut add = Vec::new();
        let mut meta = None;
        if !builder.is_empty() {
            builder.set_origin(store.origin_of_moved(keyspace, self.table), None);
            let (file, properties) = builder.finish();
            store.check_room(std::slice::from_ref(&file), true)?;
            let len_bytes = file.len_bytes();
            let what = format!("write {}", file.name());
            add = store.files.persist(vec![file]).map_err(EngineError::files(what))?;
            let group = GroupId(self.table.0);
            let of = TableMeta::of(self.table, len_bytes, properties);
            meta = Some(TableMeta { group, group_table_count: 1, ..of });
        }
        let table = self.table;
        let out_len_bytes = meta.as_ref().map_or(0, |meta: &TableMeta| meta.len_bytes);
        store.commit_with(|state| {
            let mut change = Change { kind: CommitKind::Upkeep, ..Change::default() };
            let Some(entry) = state.keyspaces.get(&keyspace) else { return Ok(change) };
            let origins = origins_in(&entry.version.holders, &self.files);
            let Some(meta) = meta.filter(|_| !origins.is_empty()) else { return Ok(change) };
            change.edit.tables_added.push(TableAdd {
                keyspace,
                level: HOLDER_LEVEL,
                run: RunId::ONLY,
                meta,
            });
            change.edit.values_moved =
                origins.into_iter().map(|origin| (keyspace, origin, table)).collect();
            change.add = add;
            Ok(change)
        })?;
        store.tally.values_moved_bytes.fetch_add(self.moved_bytes, Ordering::Relaxed);
        store.tally.compactions.lock().note_cleaning(self.moved_bytes, out_len_bytes);
        Ok(())
    }
}

fn for_cleaning() -> TableReadOptions {
    TableReadOptions { activity: Activity::Cleaning, ..TableReadOptions::default() }
}

/// The origins whose values are in `files`.
fn origins_in(holders: &Holders<TableSlot>, files: &[Arc<TableSlot>]) -> Vec<TableId> {
    let is_in = |id: TableId| files.iter().any(|file| file.meta.id == id);
    holders.iter().filter(|(_, held)| is_in(held.file)).map(|(origin, _)| origin).collect()
}

/// Whether an entry of `version` says that the value of `user_key` is at `moved`.
///
/// Cost: a read of each table with the key that is not cached; the filters exclude most others.
fn is_live(
    version: &Version,
    cache: &Arc<BlockCache>,
    user_key: &[u8],
    moved: MovedKey,
) -> Result<bool, EngineError> {
    let hash = key_hash(user_key);
    for run in version.levels.iter().flat_map(|level| &level.runs) {
        let Some(slot) = run.find(user_key) else { continue };
        let table = slot.open(cache)?;
        if !table.may_contain(hash) {
            continue;
        }
        let mut entries = table.iter(for_cleaning());
        entries.seek(InternalKey::new(user_key, Trailer::seek(Seq::MAX)))?;
        while entries.valid() && entries.key().user_key == user_key {
            if entries.key().trailer.kind() == Some(Kind::PutApart) {
                let place = ApartPlace::decode(entries.value());
                if place.is_some_and(|place| place.moved_key() == moved) {
                    return Ok(true);
                }
            }
            entries.next()?;
        }
    }
    Ok(false)
}

/// Marks the files to clean now as being cleaned.
fn next_cleaning(store: &Store) -> Option<Cleaning> {
    let mut plans = store.plans.lock();
    if store.gate() & gate::ENDS != 0 {
        return None;
    }
    let (keyspace, files) = store.due_cleaning(&plans)?;
    plans.cleaning = Some(keyspace.id);
    drop(plans);
    Some(Cleaning::new(store, keyspace, files))
}

/// Cleans until the store closes.
#[derive(Debug)]
pub(crate) struct CleanJob {
    store: Counted<Arc<Store>>,
    current: Option<Cleaning>,
}

impl CleanJob {
    pub(crate) fn new(store: Arc<Store>) -> CleanJob {
        CleanJob { store: store.jobs.count(Arc::clone(&store)), current: None }
    }

    fn let_go(&mut self) {
        if self.current.take().is_some() {
            self.store.plans.lock().cleaning = None;
            self.store.refresh_space();
            self.store.runtime.scheduler.notify();
        }
    }

    fn failed(&self, error: EngineError, unread: Option<TableId>) {
        let mut plans = self.store.plans.lock();
        if let Some(file) = unread
            && (plans.may_read_again(file) || error.is_damage())
        {
            // C2. A drive error may pass, and the file is tried again then.
            if error.is_damage() {
                plans.unclean.insert(file);
            }
            return;
        }
        drop(plans);
        let error = self.store.failed(error);
        if error.is_no_space() {
            self.store.note_cleaning_blocked();
        }
    }
}

impl Job for CleanJob {
    fn name(&self) -> &'static str {
        "clean values"
    }

    fn step(&mut self, budget: Budget) -> Step {
        if self.store.is_closing.load(Ordering::Acquire) {
            self.let_go();
            return Step::Done;
        }
        if self.current.is_none() {
            self.current = next_cleaning(&self.store);
        }
        let Some(cleaning) = &mut self.current else { return Step::Wait };
        match cleaning.step(&self.store, budget.io_bytes) {
            Ok(false) => Step::More,
            Ok(true) => {
                self.let_go();
                Step::More
            }
            Err(error) => {
                let unread = cleaning.unread;
                self.failed(error, unread);
                self.let_go();
                Step::Wait
            }
        }
    }
}

impl Drop for CleanJob {
    fn drop(&mut self) {
        self.let_go();
    }
}
