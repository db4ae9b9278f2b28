//! Cleaning: the live values of files that hold few of them move to another file, and the old files go.
//!
//! ```text
//!   file 12   [ a . . . b . . ]            77   | k: places -> keys | v: places -> values |
//!   file 31   [ . c . . . . . ]   ---->         a b c
//!   origins   12 in 12, 31 in 31                12 in 77, 31 in 77      entries of tables keep their places
//!
//!   list the files' values | which are live? one pass over the tables | read | write, commit | read | write, ...
//!                            `liveness`                                 `reading`, an output at a time
//! ```
//!
//! A value is live if an entry of the version names its place. Merges only drop such entries: a file that is alone
//! gets no values any more (H3). What is dead at the start stays dead, whatever is committed meanwhile.
//!
//! Files are taken by benefit and cost, as LFS does: (1 - u) * age / (1 + u), where u is their live share. The pass over
//! the tables costs the same for many files as for few, so on a large drive it is made for several outputs.
//!
//! Invariants
//!   C1  One commit replaces the files of an output by it. Readers with an older version keep the old files (F3).
//!   C2  A file with damage is left as it is, and not tried again while the store is open.
//!   C3  Without pressure, only files that are half dead are cleaned, and only while no compaction runs.
//!   C4  A step makes a few seeks, or one read of several values, or it writes one output. So no writer waits longer.
//!   C5  Cleaning comes to rest (E1): it does not take what it wrote before values of that have died; except once, if
//!       others died beside it in a zone.
//!
//! Cost: the live values of an output are in memory.
//!
//! Source: Rosenblum and Ousterhout, The design and implementation of a log-structured file system, section 3.5; that
//! entries need no change is as in TerarkDB. Not here: which files, and when (`store::cleaning`), which bytes are live
//! (`version::holders`), which files are at rest (`version::rested`).

mod liveness;
mod reading;

use self::liveness::{Liveness, Value};
use self::reading::Reading;
use crate::EngineError;
use crate::compaction::merge::output::TableHome;
use crate::compaction::plan::GivesBack;
use crate::key::{Kind, Seq, Trailer};
use crate::options::Compression;
use crate::store::cleaning::DueCleaning;
use crate::store::commit::Change;
use crate::store::job_count::Counted;
use crate::store::keyspace::KeyspaceState;
use crate::store::{Store, gate};
use crate::table::{TableBuilder, TableOptions};
use crate::version::edit::TableAdd;
use crate::version::holders::{HOLDER_LEVEL, Holders};
use crate::version::{RunId, TableId, TableMeta, TableSlot};
use imbrex_clockwork::{Budget, Job, Step};
use imbrex_files::{Activity, CommitKind, FileBuffer, FileKind, GroupId, Hints};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A cleaning in progress.
#[derive(Debug)]
struct Cleaning {
    keyspace: Arc<KeyspaceState>,
    files: Vec<Arc<TableSlot>>,
    output_len_bytes: u64,
    /// Files whose values are not listed yet.
    unlisted: Vec<Arc<TableSlot>>,
    /// `None` once it is known which values are live.
    liveness: Option<Liveness>,
    /// What is still to be written.
    outputs: VecDeque<Output>,
    current: Option<(Output, Reading)>,
    /// The file that could not be read.
    unread: Option<TableId>,
}

/// Files whose values move to one file.
#[derive(Debug, Default)]
struct Output {
    files: Vec<Arc<TableSlot>>,
    values: Vec<Value>,
}

impl Cleaning {
    fn new(due: DueCleaning) -> Cleaning {
        let DueCleaning { keyspace, files, output_len_bytes } = due;
        let liveness = Some(Liveness::new(Arc::clone(&keyspace.view().version)));
        Cleaning {
            keyspace,
            unlisted: files.clone(),
            files,
            output_len_bytes,
            liveness,
            outputs: VecDeque::new(),
            current: None,
            unread: None,
        }
    }

    /// Works for a while (C4); returns true once all outputs are durable.
    fn step(&mut self, store: &Store) -> Result<bool, EngineError> {
        if let Some(liveness) = &mut self.liveness {
            if let Some(slot) = self.unlisted.pop() {
                let listed = liveness.list(store, &slot);
                listed.inspect_err(|_| self.unread = Some(slot.meta.id))?;
            } else if let Some(values) = liveness.step(store)? {
                self.liveness = None;
                self.outputs = outputs(&self.files, values, self.output_len_bytes);
            }
            return Ok(false);
        }
        let Some((_, reading)) = &mut self.current else {
            let Some(mut output) = self.outputs.pop_front() else { return Ok(true) };
            let values = std::mem::take(&mut output.values);
            let reading = Reading::new(store, values).map_err(|failure| self.failed(failure))?;
            self.current = Some((output, reading));
            return Ok(false);
        };
        let moved_bytes = match reading.step(store) {
            Ok(Some(read_bytes)) => read_bytes,
            Ok(None) => {
                let (output, reading) = self.current.take().expect("it was matched above");
                self.write(store, &output, reading)?
            }
            Err(failure) => return Err(self.failed(failure)),
        };
        store.tally.background_bytes.fetch_add(moved_bytes, Ordering::Relaxed);
        // Slowed writers wait for this much progress.
        if store.gate() & gate::SLOWDOWN != 0 {
            store.runtime.scheduler.notify();
        }
        Ok(self.current.is_none() && self.outputs.is_empty())
    }

    fn failed(&mut self, (file, error): (TableId, EngineError)) -> EngineError {
        self.unread = Some(file);
        error
    }

    /// Begins the file `table`.
    fn begin(&self, table: TableId) -> TableBuilder {
        let hints = Hints {
            group: Some(GroupId(table.0)),
            stream: self.keyspace.id.0,
            purpose: CommitKind::Upkeep,
            activity: Activity::Cleaning,
            ..Hints::new(FileKind::Table)
        };
        let options = TableOptions {
            table_id: table.0,
            // Values follow one another in the order of their places.
            compression: Compression::None,
            ..TableOptions::default()
        };
        TableBuilder::new(FileBuffer::new(table.file_name(), hints), options)
    }

    /// Writes the values to a file, and commits it in the place of those of `output` (C1). Returns its length.
    fn write(
        &self,
        store: &Store,
        output: &Output,
        mut reading: Reading,
    ) -> Result<u64, EngineError> {
        let keyspace = self.keyspace.id;
        let table = TableId(store.new_id());
        let mut moved_bytes = 0;
        let (mut add, mut meta) = (Vec::new(), None);
        if !reading.read.is_empty() {
            let mut builder = self.begin(table);
            let put = Trailer::new(Seq(0), Kind::Put);
            for (moved, value) in &reading.read {
                builder.add(&moved.key_entry(), put, &value.user_key);
            }
            while let Some((moved, value)) = reading.read.pop_first() {
                moved_bytes += value.bytes.len() as u64;
                builder.add(&moved.value_entry(), put, &value.bytes);
            }
            builder.set_origin(store.origin_of_moved(keyspace, table), None);
            let (file, properties) = builder.finish();
            store.check_room(std::slice::from_ref(&file), GivesBack::Zones)?;
            let len_bytes = file.len_bytes();
            let what = format!("write {}", file.name());
            add = store.files.persist(vec![file]).map_err(EngineError::files(what))?;
            let of = TableMeta::of(table, len_bytes, properties);
            meta = Some(TableMeta { group: GroupId(table.0), group_table_count: 1, ..of });
        }
        let out_len_bytes = meta.as_ref().map_or(0, |meta: &TableMeta| meta.len_bytes);
        let mut live = BTreeMap::new();
        let mut is_moved = false;
        store.commit_with(|state| {
            let mut change = Change { kind: CommitKind::Upkeep, ..Change::default() };
            let Some(entry) = state.keyspaces.get(&keyspace) else { return Ok(change) };
            live = entry.version.holders.live_bytes();
            let origins = origins_in(&entry.version.holders, &output.files);
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
            is_moved = true;
            Ok(change)
        })?;
        let files: Vec<_> = output.files.iter().map(|slot| slot.meta.id).collect();
        let rested = &mut store.plans.lock().rested;
        match is_moved {
            true => rested.note(table, &files, &live),
            false => rested.note_nothing(&files, &live),
        }
        store.tally.values_moved_bytes.fetch_add(moved_bytes, Ordering::Relaxed);
        store.tally.compactions.lock().note_cleaning(moved_bytes, out_len_bytes);
        Ok(out_len_bytes)
    }
}

/// The outputs for `files`, in this order, with their live `values`: each as long as `len_bytes`, about.
fn outputs(files: &[Arc<TableSlot>], values: Vec<Value>, len_bytes: u64) -> VecDeque<Output> {
    let mut by_file: BTreeMap<TableId, Vec<Value>> = BTreeMap::new();
    for value in values {
        by_file.entry(value.slot.meta.id).or_default().push(value);
    }
    let mut outputs = VecDeque::new();
    let mut output = Output::default();
    let mut live_bytes = 0;
    for file in files {
        let values = by_file.remove(&file.meta.id).unwrap_or_default();
        let own_bytes: u64 = values.iter().filter_map(|value| value.live_bytes).sum();
        if len_bytes < live_bytes + own_bytes && !output.files.is_empty() {
            outputs.push_back(std::mem::take(&mut output));
            live_bytes = 0;
        }
        live_bytes += own_bytes;
        output.files.push(Arc::clone(file));
        output.values.extend(values);
    }
    outputs.push_back(output);
    outputs
}

/// The origins whose values are in `files`.
fn origins_in(holders: &Holders<TableSlot>, files: &[Arc<TableSlot>]) -> Vec<TableId> {
    let is_in = |id: TableId| files.iter().any(|file| file.meta.id == id);
    holders.iter().filter(|(_, held)| is_in(held.file)).map(|(origin, _)| origin).collect()
}

/// Marks the files to clean now as being cleaned.
fn next_cleaning(store: &Store) -> Option<Cleaning> {
    let mut plans = store.plans.lock();
    if store.gate() & gate::ENDS != 0 {
        return None;
    }
    let due = store.due_cleaning(&plans)?;
    plans.cleaning = Some(due.keyspace.id);
    drop(plans);
    store.is_cleaning.store(true, Ordering::Release);
    store.refresh_gate();
    Some(Cleaning::new(due))
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
            self.store.is_cleaning.store(false, Ordering::Release);
            self.store.refresh_space();
            self.store.refresh_gate();
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

    fn step(&mut self, _: Budget) -> Step {
        if self.store.is_closing.load(Ordering::Acquire) {
            self.let_go();
            return Step::Done;
        }
        if self.current.is_none() {
            self.current = next_cleaning(&self.store);
        }
        let Some(cleaning) = &mut self.current else { return Step::Wait };
        match cleaning.step(&self.store) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::cleaning::reckoned_len_bytes;
    use crate::table::{MOVED_KEYS, MovedKey};

    /// A gain is measured against what the output takes: a file with all its values live must not seem to gain.
    #[test]
    fn an_output_is_as_long_as_it_was_reckoned() {
        for len_bytes in [64, 200, 1000, 5000, 60_000] {
            let count = 3_000_000 / len_bytes;
            let hints = Hints::new(FileKind::Table);
            let options = TableOptions {
                table_id: 9,
                compression: Compression::None,
                ..TableOptions::default()
            };
            let mut builder = TableBuilder::new(FileBuffer::new("9.tbl", hints), options);
            let put = Trailer::new(Seq(0), Kind::Put);
            let place = |number: u64| {
                let key = [MOVED_KEYS, &7_u64.to_be_bytes(), &number.to_be_bytes()].concat();
                MovedKey::of_key_entry(&key).unwrap()
            };
            let places: Vec<_> = (0..count).map(|number| place(number * len_bytes)).collect();
            for (number, place) in places.iter().enumerate() {
                builder.add(&place.key_entry(), put, format!("key{number:09}").as_bytes());
            }
            for place in &places {
                builder.add(&place.value_entry(), put, &vec![7; len_bytes as usize]);
            }
            let (file, properties) = builder.finish();
            let meta = TableMeta::of(TableId(9), file.len_bytes(), properties);
            let reckoned_bytes = reckoned_len_bytes(&meta, count * len_bytes, 12);
            let (least, most) = (meta.len_bytes, meta.len_bytes + meta.len_bytes / 4 + (16 << 10));
            assert!(
                (least..=most).contains(&reckoned_bytes),
                "{len_bytes}: {reckoned_bytes}, {least}"
            );
        }
    }
}
