//! Opening a store: records become versions, logs become tables, leftovers are removed.
//!
//! ```text
//!   records of the catalog -> state -> tables attached
//!   logs, oldest first     -> memtables -> tables of level 0 -.
//!                                      one commit: + tables, - logs, + edit
//! ```
//!
//! Invariants
//!   O1  Recovery changes the drive in one commit, so a power cut during it leaves the previous
//!       state. If the drive has no room for all tables in addition to all logs, recovery makes one
//!       commit per log. Each of them leaves a store that is recovered as if the removed logs had
//!       been flushed in time. A store opened for reading changes nothing: the content of its logs
//!       stays in memory.
//!   O2  When a store is written to, no log from before the opening is left. So a torn log is never
//!       continued (W4), and no log is ever replayed twice into different tables.
//!   O3  If the drive has no room even for the tables of one log in addition to that log, the
//!       content of the logs stays in memory, and the logs stay on the drive unchanged. They are
//!       synced first, so that a power cut cannot take back what was read. Nothing is written to
//!       the store before flushes have found room for all of it. A caller whose write is refused
//!       can drop a checkpoint or a keyspace.

use crate::EngineError;
use crate::batch::{BatchView, KeyspaceId};
use crate::compaction::merge::output::{Outputs, Source};
use crate::key::Seq;
use crate::losses::{Losses, LostKeys, keys_between};
use crate::options::{OpenMode, Options};
use crate::store::commit::Change;
use crate::store::durable::RecordLens;
use crate::store::view::MemSlot;
use crate::store::{Start, Store};
use crate::table::cache::BlockCache;
use crate::version::TableId;
use crate::version::edit::{Counters, KeyspaceRecord, LogId, VersionEdit};
use crate::version::format::{self, FORMAT_VERSION_KNOWN, Malformed, RecordKind};
use crate::version::state::StoreState;
use crate::wal::{Before, LogSource, Replayed, Tear, replay, salvage};
use crate::work::flush::flush_task;
use imbrex_clockwork::Runtime;
use imbrex_files::tiers::FlashError;
use imbrex_files::{AppRecord, Commit, CommitKind, FileInfo, Files, FilesError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name of the keyspace that every store has.
pub(crate) const DEFAULT_KEYSPACE: &str = "default";

/// What a recovery found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Recovery {
    /// Whether the store was created by this opening.
    pub created: bool,
    /// The number of logs replayed.
    pub log_count: usize,
    /// The number of batches in them.
    pub batch_count: u64,
    /// The number of tables written from them.
    pub table_count: usize,
    /// Where the newest log was torn, in words. Data after that point were never acknowledged with
    /// `sync`. If logs are left out ([`OpenMode::ReadOnlyInPart`]), this lists every torn log.
    pub torn: Option<String>,
    /// Files that belonged to nothing and were removed.
    pub leftover_count: usize,
    /// The tables and logs that were left out ([`OpenMode::ReadOnlyInPart`]). The newest logs may
    /// be known only to the flash drive; they are not listed.
    pub missing: Vec<String>,
    /// The number of logs for whose tables the drive had no room. Their content can be read, and
    /// nothing can be written before there is room.
    pub kept_log_count: usize,
}

impl Recovery {
    fn note(&mut self, replayed: &Replayed) {
        self.batch_count += replayed.batch_count;
        let torn = replayed.cut.as_ref();
        let words =
            |cut: &Tear| format!("{} was torn at offset {}: {}", cut.file, cut.offset, cut.reason);
        let told = self.torn.take().into_iter().chain(torn.map(words));
        self.torn = told.reduce(|told, more| format!("{told}; {more}"));
    }
}

/// Opens the store in `files`, or creates one.
pub(crate) fn recover(
    files: Arc<dyn Files>,
    runtime: Runtime,
    mut options: Options,
) -> Result<(Store, Recovery), EngineError> {
    let mut recovery = Recovery::default();
    let is_read_only = options.open_mode != OpenMode::ReadWrite;
    if files.is_in_part() && !options.open_mode.is_in_part() {
        return Err(EngineError::files("open the store")(FlashError::InPart.into()));
    }
    let mut records = files.app_records();
    if records.is_empty() {
        if !options.create_if_missing || is_read_only {
            return Err(EngineError::NoStore);
        }
        create(&*files, &options)?;
        recovery.created = true;
        records = files.app_records();
    }
    let mut state = decode_records(&records)?;
    let places_all_values = options.logs_are_tables;
    let mut all = state.keyspaces.values();
    options.logs_are_tables |= all.any(|entry| entry.record.options.values_apart_from_bytes > 0);
    let losses = (options.open_mode == OpenMode::Salvage).then(Arc::<Losses>::default);
    let mut lost = BTreeMap::new();
    if options.open_mode.is_in_part() {
        let (name, cache_len_bytes) = (TableId::file_name, options.block_cache_len_bytes);
        let left_out = leave_out(&mut state, &*files, &name, losses.as_deref(), cache_len_bytes)?;
        (recovery.missing, lost) = (left_out.missing, left_out.lost);
    }
    attach(&state, &*files, &|id| id.file_name())?;
    let lens = RecordLens::of(&records);
    let checkpoint = None;
    let start = Start {
        files,
        runtime,
        options,
        places_all_values,
        state,
        lens,
        is_read_only,
        checkpoint,
        losses,
        lost,
    };
    let store = Store::new(start);
    match is_read_only {
        true => read_logs(&store, &mut recovery)?,
        false => replay_logs(&store, &mut recovery)?,
    }
    store.refresh_space();
    store.refresh_gate();
    Ok((store, recovery))
}

/// Writes the first record of an empty store.
fn create(files: &dyn Files, options: &Options) -> Result<(), EngineError> {
    let edit = VersionEdit {
        counters: Some(Counters { next_id: 1, next_keyspace_id: 1, last_seq: 0 }),
        keyspaces_created: vec![KeyspaceRecord {
            id: KeyspaceId(0),
            name: DEFAULT_KEYSPACE.to_owned(),
            options: options.keyspace.clone(),
        }],
        ..VersionEdit::default()
    };
    let record = AppRecord::Replace(format::encode(RecordKind::Snapshot, &edit));
    let commit = Commit { app: Some(record), ..Commit::default() };
    files.commit(commit).map_err(EngineError::files("create the store"))
}

/// The state that `records` add up to.
pub(crate) fn decode_records(records: &[Vec<u8>]) -> Result<StoreState, EngineError> {
    let mut state = StoreState::default();
    for (index, record) in records.iter().enumerate() {
        let damaged = |offset: usize, reason: String| EngineError::Corrupt {
            structure: "version edit",
            file: format!("record {index} of the catalog"),
            offset: offset as u64,
            reason,
        };
        let (kind, edit) = format::decode(record).map_err(|malformed| match malformed {
            Malformed::Version { got } => {
                EngineError::Version { what: "the version edit", got, known: FORMAT_VERSION_KNOWN }
            }
            Malformed::At { offset, reason } => damaged(offset, reason),
        })?;
        if (kind == RecordKind::Snapshot) != (index == 0) {
            return Err(damaged(6, format!("a record of kind {kind:?} in place {index}")));
        }
        state.apply(&edit).map_err(|reason| damaged(0, reason))?;
    }
    for entry in state.keyspaces.values() {
        entry.version.check().map_err(|reason| EngineError::Corrupt {
            structure: "version",
            file: format!("the catalog, keyspace {:?}", entry.record.name),
            offset: 0,
            reason,
        })?;
    }
    Ok(state)
}

/// Opens the files of all tables of `state`.
pub(crate) fn attach(
    state: &StoreState,
    files: &dyn Files,
    name: &dyn Fn(TableId) -> String,
) -> Result<(), EngineError> {
    for entry in state.keyspaces.values() {
        for slot in entry.version.files() {
            slot.attach(files, &name(slot.meta.id))?;
        }
    }
    Ok(())
}

/// The tables that a store or one of its checkpoints leaves out, by their names in the store.
#[derive(Default)]
pub(crate) struct LeftOut {
    /// Tables on a flash drive that is not present.
    pub(crate) missing: Vec<String>,
    /// Tables that exist but cannot be opened because they are damaged, each with its damage.
    pub(crate) lost: BTreeMap<String, String>,
}

/// Removes the tables from `state` whose files are on a flash drive that is not present, and
/// returns them. With `losses` it also removes tables that cannot be opened. `file_name` returns
/// the name of a table's file.
pub(crate) fn leave_out(
    state: &mut StoreState,
    files: &dyn Files,
    file_name: &dyn Fn(TableId) -> String,
    losses: Option<&Losses>,
    cache_len_bytes: u64,
) -> Result<LeftOut, EngineError> {
    let mut left_out = LeftOut::default();
    let mut edit = VersionEdit::default();
    // A table that is already open keeps its cache, and does not use the store's.
    let cache = Arc::new(BlockCache::new(cache_len_bytes));
    for entry in state.keyspaces.values() {
        for slot in entry.version.tables() {
            let (name, file_name) = (slot.meta.id.file_name(), file_name(slot.meta.id));
            if files.open(&file_name).err().is_some_and(|error| is_on_missing_flash(&error)) {
                edit.tables_removed.push((entry.record.id, slot.meta.id));
                left_out.missing.push(name);
                continue;
            }
            let Some(losses) = losses else { continue };
            let attached = slot.attach(files, &file_name);
            if let Err(error) = attached.and_then(|()| slot.open_in_part(&cache, losses)) {
                let meta = &slot.meta;
                let keys = keys_between(Some(&meta.smallest), &meta.largest);
                let what = format!("table {} of keyspace {:?}, {keys}", meta.id, entry.record.name);
                left_out.lost.insert(name.clone(), error.to_string());
                losses.pass(error, &what)?;
                losses.note_keys(LostKeys {
                    file: Some(name),
                    keyspace: Some(entry.record.name.clone()),
                    from: Some(meta.smallest.to_vec()),
                    upto: Some(meta.largest.to_vec()),
                });
                edit.tables_removed.push((entry.record.id, meta.id));
            }
        }
    }
    let damaged = |reason| EngineError::Corrupt {
        structure: "version",
        file: "the catalog".to_owned(),
        offset: 0,
        reason,
    };
    state.apply(&edit).map_err(damaged)?;
    let edit = leave_out_holders(state, files, file_name, losses, &mut left_out)?;
    state.apply(&edit).map_err(damaged)?;
    Ok(left_out)
}

/// An edit without the files that only hold values and cannot be opened. A table that was left out of its level may
/// be such a file from then on.
fn leave_out_holders(
    state: &StoreState,
    files: &dyn Files,
    file_name: &dyn Fn(TableId) -> String,
    losses: Option<&Losses>,
    left_out: &mut LeftOut,
) -> Result<VersionEdit, EngineError> {
    let mut edit = VersionEdit::default();
    for entry in state.keyspaces.values() {
        for slot in entry.version.holders.alone() {
            let (name, file_name) = (slot.meta.id.file_name(), file_name(slot.meta.id));
            let error = match slot.attach(files, &file_name) {
                Ok(()) => continue,
                Err(error) => error,
            };
            match (&error, losses) {
                (EngineError::Files { source, .. }, _) if is_on_missing_flash(source) => {
                    left_out.missing.push(name);
                }
                (_, None) => continue,
                (_, Some(losses)) => {
                    left_out.lost.insert(name.clone(), error.to_string());
                    losses.pass(error, &format!("the values in {name}"))?;
                }
            }
            let held = entry.version.holders.iter();
            let lost = held.filter(|(_, held)| held.file == slot.meta.id);
            let id = entry.record.id;
            edit.values_released.extend(lost.map(|(origin, held)| (id, origin, held.live_bytes)));
        }
    }
    Ok(edit)
}

/// Whether a file cannot be opened because it is on a flash drive that is not present.
pub(crate) fn is_on_missing_flash(error: &FilesError) -> bool {
    matches!(error, FilesError::Flash(FlashError::OnFlash { .. }))
}

/// Loads the content of the logs into memtables, and leaves the drive unchanged.
fn read_logs(store: &Store, recovery: &mut Recovery) -> Result<(), EngineError> {
    let is_in_part = store.options.open_mode.is_in_part();
    let state = store.state();
    let (logs, missing) = find_logs(store, is_in_part)?;
    recovery.log_count = logs.ids.len();
    recovery.missing.extend(missing);
    let flushed = Seq(state.counters.last_seq);
    let floors = floors(&state);
    let mut apply = |index: usize, batch: BatchView<'_>| {
        apply_in_memory(store, &floors, logs.ids[index], batch);
        Ok(())
    };
    let mut last_seq = flushed;
    if is_in_part {
        // Tables may be newer than the remaining logs.
        let tables = state.keyspaces.values().flat_map(|entry| entry.version.tables());
        last_seq = tables.map(|slot| slot.meta.seq_max).fold(last_seq, Seq::max);
        let replayed = match &store.losses {
            None => replay_apart(&logs.sources, &mut apply)?,
            Some(losses) => {
                // Logs on a missing flash drive leave gaps. Any other gap is a loss.
                let is_whole = !store.files.is_in_part();
                let before =
                    if is_whole { Before::Flushed(flushed) } else { Before::After(Seq(0)) };
                salvage(&logs.sources, before, losses, &mut apply)?
            }
        };
        for one in replayed {
            recovery.note(&one);
            last_seq = last_seq.max(one.last_seq.unwrap_or(last_seq));
        }
    } else {
        let replayed = replay(&logs.sources, Before::Flushed(flushed), &mut apply)?;
        recovery.note(&replayed);
        last_seq = last_seq.max(replayed.last_seq.unwrap_or(flushed));
    }
    store.publish(last_seq);
    store.writer.lock().next_seq = Seq(last_seq.0 + 1);
    Ok(())
}

/// Replays each log by itself: logs may be missing between two others.
fn replay_apart(
    sources: &[LogSource],
    apply: &mut dyn FnMut(usize, BatchView<'_>) -> Result<(), EngineError>,
) -> Result<Vec<Replayed>, EngineError> {
    let mut log_end = Seq(0);
    let mut replayed = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let mut apply = |_, batch: BatchView<'_>| apply(index, batch);
        let one = replay(std::slice::from_ref(source), Before::After(log_end), &mut apply)?;
        log_end = one.last_seq.unwrap_or(log_end);
        replayed.push(one);
    }
    Ok(replayed)
}

/// Adds the operations of `batch` in `log` to memtables, except those that are in tables.
fn apply_in_memory(
    store: &Store,
    floors: &BTreeMap<KeyspaceId, LogId>,
    log: LogId,
    batch: BatchView<'_>,
) {
    for (seq, op) in batch.ops() {
        let is_kept = floors.get(&op.keyspace).is_some_and(|&floor| log >= floor);
        if let Some(keyspace) = store.keyspace(op.keyspace).filter(|_| is_kept) {
            let view = keyspace.view();
            view.active.note_log(log);
            view.active.insert(op.kind, op.key, seq, op.value);
        }
    }
}

/// Writes the content of the logs to tables. Removes the logs, and files that belong to nothing.
fn replay_logs(store: &Store, recovery: &mut Recovery) -> Result<(), EngineError> {
    let state = store.state();
    let (logs, remove) = find_files(store, &state)?;
    recovery.log_count = logs.ids.len();
    recovery.leftover_count = remove.len() - logs.ids.len();
    let flushed = Seq(state.counters.last_seq);
    let replayed = match into_tables(store, &logs.ids, &logs.sources, remove.clone(), flushed) {
        Err(error) if error.is_no_space() => {
            replay_one_by_one(store, logs, remove, flushed, recovery)?
        }
        done => {
            let (table_count, replayed) = done?;
            recovery.table_count = table_count;
            replayed
        }
    };
    recovery.note(&replayed);
    let last_seq = replayed.last_seq.unwrap_or(flushed).max(flushed);
    store.publish(last_seq);
    store.writer.lock().next_seq = Seq(last_seq.0 + 1);
    Ok(())
}

/// Writes the logs to tables and removes `remove`, in one commit. Returns the number of tables, and
/// what was replayed.
fn into_tables(
    store: &Store,
    ids: &[LogId],
    sources: &[LogSource],
    remove: Vec<String>,
    before: Seq,
) -> Result<(usize, Replayed), EngineError> {
    let mut rebuild = Rebuild::new(store);
    let replayed = replay(sources, Before::Flushed(before), &mut |index, batch| {
        rebuild.apply_batch(ids[index], batch)
    })?;
    let outputs = rebuild.finish()?;
    let last_seq = replayed.last_seq.unwrap_or(before).max(before);
    let end_log = ids.last().map_or(LogId(0), |last| LogId(last.0 + 1));
    Ok((commit_tables(store, outputs, remove, (last_seq, end_log))?, replayed))
}

/// Replays with one commit per log, oldest first, when the drive has no room for the tables of all
/// logs in addition to the logs. Each commit makes room for the next (O1). Logs that still find no
/// room stay (O3).
fn replay_one_by_one(
    store: &Store,
    mut logs: Logs,
    remove: Vec<String>,
    flushed: Seq,
    recovery: &mut Recovery,
) -> Result<Replayed, EngineError> {
    // Every log is read before any is removed, because a torn log must be the last.
    let replayed = replay(&logs.sources, Before::Flushed(flushed), &mut |_, _| Ok(()))?;
    let mut leftovers = remove;
    leftovers.retain(|name| LogId::of_file_name(name).is_none());
    let mut last_seq = flushed;
    while let (Some(id), Some(source)) = (logs.ids.first(), logs.sources.first()) {
        let mut remove = leftovers.clone();
        remove.push(id.file_name());
        let (ids, sources) = (std::slice::from_ref(id), std::slice::from_ref(source));
        let (table_count, one) = match into_tables(store, ids, sources, remove, last_seq) {
            // With one log, this is the step that was just tried.
            Err(error) if error.is_no_space() => {
                keep_logs(store, &logs, last_seq)?;
                recovery.kept_log_count = logs.ids.len();
                break;
            }
            done => done?,
        };
        leftovers.clear();
        // The blocks of an open log are not free.
        logs.ids.remove(0);
        logs.sources.remove(0);
        recovery.table_count += table_count;
        last_seq = one.last_seq.unwrap_or(last_seq).max(last_seq);
    }
    Ok(replayed)
}

/// Loads the content of the logs into memtables that wait for their flush. Each log has its own
/// memtables, so that the logs can be removed one by one (O3).
fn keep_logs(store: &Store, logs: &Logs, before: Seq) -> Result<(), EngineError> {
    let floors = floors(&store.state());
    let mut last_seq = before;
    for (index, (&id, source)) in logs.ids.iter().zip(&logs.sources).enumerate() {
        store.add_log(id, Seq(last_seq.0 + 1));
        let sources = std::slice::from_ref(source);
        let one = replay(sources, Before::Flushed(last_seq), &mut |_, batch| {
            apply_in_memory(store, &floors, id, batch);
            Ok(())
        })?;
        last_seq = one.last_seq.unwrap_or(last_seq).max(last_seq);
        store.end_log(id, source.file.len_bytes(), Seq(last_seq.0 + 1));
        let next = logs.ids.get(index + 1).copied().unwrap_or(LogId(id.0 + 1));
        for keyspace in store.all_keyspaces() {
            keyspace.rotate(next);
        }
    }
    store.keep_logs();
    // Readers, and commits that refer to the logs, rely on them.
    store.files.sync().map_err(EngineError::files("sync the logs"))
}

/// Commits the tables made from the logs before `end_log` together with the removal of the logs.
/// Returns the number of tables.
fn commit_tables(
    store: &Store,
    outputs: Vec<Outputs>,
    remove: Vec<String>,
    (last_seq, end_log): (Seq, LogId),
) -> Result<usize, EngineError> {
    if remove.is_empty() && outputs.is_empty() {
        // A caller may rely on a keyspace that a killed process left in the drive's cache, and no
        // commit makes it durable.
        return store.files.sync().map(|()| 0).map_err(EngineError::files("sync what was found"));
    }
    let kind = CommitKind::Recovery;
    let mut change = Change { remove, last_seq, kind, ..Change::default() };
    for output in outputs {
        change.edit.tables_added.extend(output.added);
        change.add.extend(output.files);
    }
    // The logs are gone, but their frames may stay on the drive: the floor says that they are old.
    let written: BTreeSet<KeyspaceId> =
        change.edit.tables_added.iter().map(|add| add.keyspace).collect();
    change.edit.log_floors.extend(written.into_iter().map(|keyspace| (keyspace, end_log)));
    let table_count = change.add.len();
    store.commit(change)?;
    Ok(table_count)
}

/// The logs found at the opening, oldest first.
struct Logs {
    ids: Vec<LogId>,
    sources: Vec<LogSource>,
}

/// The logs to replay, oldest first, and all files that are not needed afterwards.
fn find_files(store: &Store, state: &StoreState) -> Result<(Logs, Vec<String>), EngineError> {
    let tables: BTreeSet<String> = state
        .keyspaces
        .values()
        .flat_map(|entry| entry.version.files().map(|slot| slot.meta.id.file_name()))
        .collect();
    let (logs, _) = find_logs(store, false)?;
    let mut remove: Vec<String> = logs.ids.iter().map(|id| id.file_name()).collect();
    let is_leftover =
        |name: &String| name.ends_with(".tbl") && !name.contains('/') && !tables.contains(name);
    let names = store.files.list("").into_iter().map(|info| info.name);
    remove.extend(names.filter(is_leftover));
    Ok((logs, remove))
}

/// All logs, oldest first. With `is_in_part`, logs on a flash drive that is not present are left
/// out and their names are returned separately.
fn find_logs(store: &Store, is_in_part: bool) -> Result<(Logs, Vec<String>), EngineError> {
    let (mut logs, mut missing) = (Vec::new(), Vec::new());
    let infos = store.files.list("");
    for info in &infos {
        let Some(id) = LogId::of_file_name(&info.name) else { continue };
        // A log is created without a commit, so the counter in the catalog may be lower.
        store.reserve_ids(id.0.saturating_add(1));
        let file = match store.files.open(&info.name) {
            Err(error) if is_in_part && is_on_missing_flash(&error) => {
                missing.push(info.name.clone());
                continue;
            }
            Err(source) => {
                let error = EngineError::files(format!("open log {}", info.name))(source);
                match &store.losses {
                    Some(losses) => losses.pass(error, "its writes")?,
                    None => return Err(error),
                }
                continue;
            }
            Ok(file) => file,
        };
        let log_id = id.frame_id(store.files.format_id());
        let is_finished = is_finished(info, &infos, &store.options);
        logs.push((id, LogSource { file, log_id, is_finished }));
    }
    logs.sort_by_key(|(id, _)| *id);
    let (ids, sources) = logs.into_iter().unzip();
    Ok((Logs { ids, sources }, missing))
}

/// Whether the file `log` is as long as its log. The log was then finished, and a later log was
/// created on the same drive, which made its length durable (W2). A log that may become a table is
/// only closed, or is longer. Its group marks such a log; for logs older than that mark the options
/// decide.
fn is_finished(log: &FileInfo, files: &[FileInfo], options: &Options) -> bool {
    let id = LogId::of_file_name(&log.name);
    let is_later = |other: &FileInfo| id < LogId::of_file_name(&other.name);
    log.group.is_none()
        && !options.logs_are_tables
        && files.iter().any(|other| other.tier == log.tier && is_later(other))
}

/// The first log of each keyspace that recovery needs.
fn floors(state: &StoreState) -> BTreeMap<KeyspaceId, LogId> {
    state.keyspaces.iter().map(|(&id, entry)| (id, entry.log_floor)).collect()
}

/// Memtables that are filled from logs, and the tables of those that became full.
struct Rebuild<'a> {
    store: &'a Store,
    /// The first log of each keyspace that recovery needs.
    floors: BTreeMap<KeyspaceId, LogId>,
    slots: BTreeMap<KeyspaceId, Arc<MemSlot>>,
    /// At least the drive's space for one table: a store opened with smaller memtables than before
    /// finds no room for more tables.
    memtable_len_bytes: u64,
    outputs: Vec<Outputs>,
}

impl<'a> Rebuild<'a> {
    fn new(store: &'a Store) -> Rebuild<'a> {
        let floors = floors(&store.state());
        let grain_bytes = store.files.space().grain_bytes;
        let memtable_len_bytes = store.limits.memtable_len_bytes.max(grain_bytes);
        Rebuild { store, floors, slots: BTreeMap::new(), memtable_len_bytes, outputs: Vec::new() }
    }

    fn apply_batch(&mut self, log: LogId, batch: BatchView<'_>) -> Result<(), EngineError> {
        for (seq, op) in batch.ops() {
            // A keyspace without a floor was dropped; writes in logs below the floor are in tables.
            if self.floors.get(&op.keyspace).is_some_and(|&floor| log >= floor) {
                self.apply(op.keyspace, |slot| slot.insert(op.kind, op.key, seq, op.value))?;
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        keyspace: KeyspaceId,
        insert: impl FnOnce(&MemSlot),
    ) -> Result<(), EngineError> {
        let slot = self.slots.entry(keyspace).or_insert_with(MemSlot::new);
        insert(slot);
        if slot.mem.len_bytes() as u64 >= self.memtable_len_bytes {
            self.flush(keyspace)?;
        }
        Ok(())
    }

    fn flush(&mut self, id: KeyspaceId) -> Result<(), EngineError> {
        let Some(slot) = self.slots.remove(&id) else { return Ok(()) };
        let Some(keyspace) = self.store.keyspace(id) else { return Ok(()) };
        slot.mem.freeze();
        let mut task = flush_task(self.store, &keyspace, &slot, Source::Logs, 0);
        while !task.step(self.store, u64::MAX)? {}
        self.outputs.push(task.finish(self.store)?);
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Outputs>, EngineError> {
        while let Some((&id, _)) = self.slots.first_key_value() {
            self.flush(id)?;
        }
        Ok(self.outputs)
    }
}
