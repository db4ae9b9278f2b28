//! The inside of an open store: what the handles, the write path and the background jobs share.
//!
//! ```text
//!   Db, Keyspace           handles of the user, cheap to clone
//!        |
//!      Store --- Writer        one at a time: sequence numbers, the log          (`write`)
//!        |  \--- KeyspaceState  memtables and version, swapped whole             (`keyspace`)
//!        |  \--- StoreState     what is durable; changed by one commit at a time (here)
//!        |  \--- Plans          which compactions run                            (`compaction`)
//!        |
//!   FlushJob, CompactionJob    steps on the scheduler
//! ```
//!
//! Invariants
//!   S1  A change of the store is one commit of the file layer: tables, logs and edit together. The
//!       state in memory follows only when it is durable.
//!   S2  Locks are taken in this order: `writer`, `versions`, `plans`, a keyspace's `swap`; none is
//!       held while the scheduler is asked to wait or yield.
//!   S3  Once something failed of which nobody knows how far it got, nothing is written any more. Where puts
//!       and deletes are refused because tables cannot be read nothing is in doubt: what was acknowledged
//!       becomes durable, and all that helps out of it is done.
//!   S4  What holds writes up is looked at and said under one lock: who looked before a flush or a
//!       compaction ended never has the last word, or writers would wait for what is over.
//!   S5  When a close has returned the store does not change any more, whoever is still at it.

use crate::EngineError;
use crate::batch::KeyspaceId;
use crate::cache::BlockCache;
use crate::checkpoint::names_prefix;
use crate::compaction::Plans;
use crate::error::REOPEN_ADVICE;
use crate::job_count::JobCount;
use crate::key::Seq;
use crate::keyspace::{KeyspaceState, MemSlot};
use crate::losses::Losses;
use crate::metrics::Tally;
use crate::offload::Compacting;
use crate::options::Options;
use crate::room::{FullAt, TightAt};
use crate::snapshot::Snapshots;
use crate::version::TableId;
use crate::version::edit::{Counters, LogId, VersionEdit};
use crate::version::format::{self, RecordKind};
use crate::version::state::StoreState;
use crate::write::Writer;
use imbrex_clockwork::Runtime;
use imbrex_files::{AppRecord, CatalogUse, Commit, CommitKind, Files, FilesError, Persisted};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What holds writes up, a bit each.
pub(crate) mod gate {
    /// Something failed: S3.
    pub(crate) const POISONED: usize = 1;
    /// The store is closed or closing.
    pub(crate) const CLOSED: usize = 2;
    /// The drive is nearly full.
    pub(crate) const LOW_SPACE: usize = 4;
    /// Writes go no faster than compaction.
    pub(crate) const SLOWDOWN: usize = 8;
    /// Writes wait for a flush or for compaction.
    pub(crate) const STOP: usize = 16;
    /// A view for reading only.
    pub(crate) const READ_ONLY: usize = 32;
    /// So many files lie on the flash drive that each write is delayed.
    pub(crate) const CROWDED: usize = 64;
    /// Writes would wait for tables that cannot be read (P5).
    pub(crate) const REFUSED: usize = 128;
    /// What no write passes, however long it waits.
    pub(crate) const ENDS: usize = POISONED | CLOSED | REFUSED;
}

/// Edits this long may pile up before a new snapshot replaces them, however short the snapshot is.
const EDITS_LEN_BYTES_MIN: u64 = 16 << 10;
/// With less room than this in the catalog every commit writes a snapshot: it takes no more than
/// what it replaces.
const CATALOG_ROOM_LEN_BYTES_MIN: u64 = 8 << 10;

/// The inside of an open store.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) runtime: Runtime,
    pub(crate) options: Options,
    checkpoint: Option<String>,
    pub(crate) losses: Option<Arc<Losses>>,
    pub(crate) lost: BTreeMap<String, String>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) tally: Tally,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) plans: Mutex<Plans>,
    pub(crate) keyspaces: RwLock<BTreeMap<KeyspaceId, Arc<KeyspaceState>>>,
    versions: Mutex<VersionSet>,
    logs: Mutex<Vec<LogInfo>>,
    /// Those are the logs of before: none is written as long as one is left (O3).
    are_logs_kept: AtomicBool,
    /// Whether there is a checkpoint, which may hold what compactions replace: of `versions`, whose lock nobody takes
    /// who holds the plans (S2).
    has_checkpoint: AtomicBool,
    gate: AtomicUsize,
    /// Held while the gate is computed anew (S4).
    gate_turn: Mutex<()>,
    poison: Mutex<Option<String>>,
    visible: AtomicU64,
    next_id: AtomicU64,
    /// After a background write failed for want of space: what was free then.
    pub(crate) full_at: Mutex<Option<FullAt>>,
    /// After a compaction failed for want of space: how large the next one may be.
    pub(crate) room_max_bytes: AtomicU64,
    /// Writes wait for a compaction that the drive has no room for.
    pub(crate) is_blocked: AtomicBool,
    /// What there was then, or before the last compaction began.
    pub(crate) tight_at: Mutex<Option<TightAt>>,
    /// How many background jobs there are; a close waits for them.
    pub(crate) jobs: JobCount,
    pub(crate) is_closing: AtomicBool,
    pub(crate) compacting: Compacting,
}

/// A log that still exists.
#[derive(Clone, Copy, Debug)]
struct LogInfo {
    id: LogId,
    /// The first sequence number in it or after it.
    first_seq: Seq,
    /// How long it got, once it is finished.
    len_bytes: u64,
}

#[derive(Debug)]
struct VersionSet {
    state: StoreState,
    lens: RecordLens,
}

/// How long the records in the catalog are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordLens {
    /// The first, which stands for all before it.
    pub(crate) snapshot_bytes: u64,
    /// Those after it.
    pub(crate) edits_bytes: u64,
}

impl RecordLens {
    /// The lengths of `records`, as the catalog has them.
    pub(crate) fn of(records: &[Vec<u8>]) -> RecordLens {
        let all_bytes: u64 = records.iter().map(|record| record.len() as u64).sum();
        let snapshot_bytes = records.first().map_or(0, |record| record.len() as u64);
        RecordLens { snapshot_bytes, edits_bytes: all_bytes - snapshot_bytes }
    }
}

/// A change of the store: an edit and what happens to files together with it.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) edit: VersionEdit,
    pub(crate) add: Vec<Box<dyn Persisted>>,
    pub(crate) remove: Vec<String>,
    pub(crate) link: Vec<(String, String)>,
    pub(crate) level: Vec<(String, u8)>,
    /// Logs that become tables.
    pub(crate) bands: Vec<(LogId, TableId)>,
    /// Memtables that are in tables with this change.
    pub(crate) flushed: Vec<(KeyspaceId, Arc<MemSlot>)>,
    /// Logs that are removed end with this write at the latest.
    pub(crate) last_seq: Seq,
    /// Keyspaces whose memtables begin with this change.
    pub(crate) created: Vec<Arc<KeyspaceState>>,
    /// How far it may fill the catalog.
    pub(crate) kind: CommitKind,
}

/// What a store starts from.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) runtime: Runtime,
    pub(crate) options: Options,
    pub(crate) state: StoreState,
    /// How long the records of the state are in the catalog.
    pub(crate) lens: RecordLens,
    pub(crate) is_read_only: bool,
    /// The checkpoint that is read, if it is one.
    pub(crate) checkpoint: Option<String>,
    /// Where damage is noted that is passed over.
    pub(crate) losses: Option<Arc<Losses>>,
    /// The tables that it does without because they cannot be opened, and why.
    pub(crate) lost: BTreeMap<String, String>,
}

impl Store {
    /// A store over a state whose tables are attached; without a log yet, and without jobs.
    pub(crate) fn new(start: Start) -> Store {
        let Start { files, runtime, options, state, lens, is_read_only, .. } = start;
        let Start { checkpoint, losses, lost, .. } = start;
        let last_seq = state.counters.last_seq;
        let keyspaces: BTreeMap<_, _> = state
            .keyspaces
            .iter()
            .map(|(&id, entry)| (id, Arc::new(KeyspaceState::new(entry))))
            .collect();
        Store {
            cache: Arc::new(BlockCache::new(options.block_cache_len_bytes)),
            snapshots: Arc::default(),
            tally: Tally::default(),
            writer: Mutex::new(Writer::new(Seq(last_seq + 1))),
            plans: Mutex::default(),
            keyspaces: RwLock::new(keyspaces),
            logs: Mutex::default(),
            are_logs_kept: AtomicBool::new(false),
            has_checkpoint: AtomicBool::new(!state.checkpoints.is_empty()),
            gate_turn: Mutex::default(),
            gate: AtomicUsize::new(if is_read_only { gate::READ_ONLY } else { 0 }),
            poison: Mutex::default(),
            visible: AtomicU64::new(last_seq),
            next_id: AtomicU64::new(state.counters.next_id),
            versions: Mutex::new(VersionSet { state, lens }),
            full_at: Mutex::default(),
            room_max_bytes: AtomicU64::new(u64::MAX),
            is_blocked: AtomicBool::new(false),
            tight_at: Mutex::default(),
            jobs: JobCount::default(),
            is_closing: AtomicBool::new(false),
            compacting: Compacting::default(),
            files,
            runtime,
            options,
            checkpoint,
            losses,
            lost,
        }
    }

    /// A number that was never used before, for a table, a log or a group.
    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Numbers below `id` are taken.
    pub(crate) fn reserve_ids(&self, id: u64) {
        self.next_id.fetch_max(id, Ordering::Relaxed);
    }

    /// The newest write that readers may see.
    #[inline]
    pub(crate) fn visible(&self) -> Seq {
        Seq(self.visible.load(Ordering::Acquire))
    }

    pub(crate) fn publish(&self, seq: Seq) {
        self.visible.store(seq.0, Ordering::Release);
    }

    /// The keyspace with number `id`, unless it was dropped.
    pub(crate) fn keyspace(&self, id: KeyspaceId) -> Option<Arc<KeyspaceState>> {
        self.keyspaces.read().get(&id).cloned()
    }

    /// All keyspaces, by number.
    pub(crate) fn all_keyspaces(&self) -> Vec<Arc<KeyspaceState>> {
        self.keyspaces.read().values().cloned().collect()
    }

    /// The durable state now; versions are shared, not copied.
    pub(crate) fn state(&self) -> StoreState {
        let mut state = self.versions.lock().state.clone();
        state.counters.next_id = self.next_id.load(Ordering::Relaxed);
        state
    }

    /// The durable state and the names of its files, of one moment: all files there are, or of a
    /// checkpoint its own, without what they begin with.
    ///
    /// # Errors
    /// [`EngineError::NoCheckpoint`] once the checkpoint was deleted.
    pub(crate) fn state_and_files(&self) -> Result<(StoreState, Vec<String>), EngineError> {
        let versions = self.versions.lock();
        let mut state = versions.state.clone();
        let prefix = self.checkpoint.as_deref().map(names_prefix).unwrap_or_default();
        let files = self.files.list(&prefix).into_iter();
        let names: Vec<String> = files.map(|file| file.name[prefix.len()..].to_owned()).collect();
        state.counters.next_id = self.next_id.load(Ordering::Relaxed);
        match &self.checkpoint {
            Some(name) if names.is_empty() && state.has_tables() => {
                Err(EngineError::NoCheckpoint { name: name.clone() })
            }
            _ => Ok((state, names)),
        }
    }

    /// Makes `change` durable, then visible (S1).
    ///
    /// # Errors
    /// [`EngineError::Files`]: without space nothing changed; else the store is poisoned (S3).
    pub(crate) fn commit(&self, change: Change) -> Result<(), EngineError> {
        self.commit_with(|_| Ok(change))
    }

    /// As [`Store::commit`], with a change that follows from the state it is applied to.
    ///
    /// # Errors
    /// As [`Store::commit`]; what `plan` says, and then nothing changed.
    pub(crate) fn commit_with(
        &self,
        plan: impl FnOnce(&StoreState) -> Result<Change, EngineError>,
    ) -> Result<(), EngineError> {
        self.check_poison()?;
        let mut versions = self.versions.lock();
        // Under the lock: a close waits for it (S5), and the store may have been given up before it was free (S3).
        self.check_going()?;
        let change = plan(&versions.state)?;
        let mut edit = change.edit;
        let mut remove = change.remove;
        let (first_kept, last_seq) = self.release_logs(&change.flushed, &edit, &mut remove);
        let next_keyspace_id = edit
            .keyspaces_created
            .iter()
            .map(|record| record.id.0 + 1)
            .fold(versions.state.counters.next_keyspace_id, u32::max);
        edit.counters = Some(Counters {
            next_id: self.next_id.load(Ordering::Relaxed),
            next_keyspace_id,
            last_seq: last_seq.max(change.last_seq).0.max(versions.state.counters.last_seq),
        });
        let mut state = versions.state.clone();
        if let Err(reason) = state.apply(&edit) {
            return Err(self.poison(&format!("an edit does not fit the state: {reason}")));
        }
        let (record, lens) =
            versions.record(&edit, &state, &self.files.space().catalog, change.kind);
        let (mut rename, mut link) = (Vec::new(), change.link);
        for (log, table) in change.bands {
            let names = (log.file_name(), table.file_name());
            // Who replays logs needs all of them, also those that hold nothing for him.
            let is_needed = !remove.contains(&names.0);
            remove.retain(|name| *name != names.0);
            if is_needed { &mut link } else { &mut rename }.push(names);
        }
        let commit = Commit {
            remove,
            rename,
            link,
            add: change.add,
            level: change.level,
            app: Some(record),
            kind: change.kind,
        };
        self.files.commit(commit).map_err(|source| self.files_failed("commit", source))?;
        for add in &edit.tables_added {
            let entry = &state.keyspaces[&add.keyspace];
            let tables = entry.version.levels[usize::from(add.level)].tables();
            for slot in tables.filter(|slot| slot.meta.id == add.meta.id) {
                let attached = slot.attach(&*self.files, &add.meta.id.file_name());
                attached.map_err(|error| self.poison(&error.to_string()))?;
            }
        }
        self.has_checkpoint.store(!state.checkpoints.is_empty(), Ordering::Release);
        versions.state = state;
        versions.lens = lens;
        let was_full = self.full_at.lock().take().is_some();
        let mut logs = self.logs.lock();
        logs.retain(|log| log.id >= first_kept);
        if logs.is_empty() {
            self.are_logs_kept.store(false, Ordering::Release);
        }
        drop(logs);
        self.room_max_bytes.store(u64::MAX, Ordering::Release);
        self.install(&versions.state, &edit, &change.flushed, change.created);
        drop(versions);
        self.refresh_gate();
        if was_full {
            self.runtime.scheduler.notify();
        }
        Ok(())
    }

    /// Swaps in what the edit changed.
    fn install(
        &self,
        state: &StoreState,
        edit: &VersionEdit,
        flushed: &[(KeyspaceId, Arc<MemSlot>)],
        created: Vec<Arc<KeyspaceState>>,
    ) {
        let mut keyspaces = self.keyspaces.write();
        for keyspace in created {
            keyspaces.insert(keyspace.id, keyspace);
        }
        for id in &edit.keyspaces_dropped {
            if let Some(keyspace) = keyspaces.remove(id) {
                keyspace.drop_data();
            }
        }
        for (id, entry) in &state.keyspaces {
            let keyspace = &keyspaces[id];
            let flushed = flushed.iter().filter(|(of, _)| of == id).map(|(_, slot)| slot);
            keyspace.install(&entry.version, flushed.collect());
        }
    }

    /// Poisons the store where how far the file layer got is unknown. Without space nothing happened:
    /// puts look at what is free, and the background tries for itself (R2).
    pub(crate) fn files_failed(&self, what: &str, source: FilesError) -> EngineError {
        let error = EngineError::Files { what: what.to_owned(), source };
        self.failed(error)
    }

    /// As [`Store::files_failed`] for an error that is wrapped already.
    pub(crate) fn failed(&self, error: EngineError) -> EngineError {
        if error.is_no_space() {
            self.set_gate(gate::LOW_SPACE);
        } else if !matches!(
            error,
            EngineError::Poisoned { .. } | EngineError::Closed | EngineError::Stopped { .. }
        ) {
            self.poison(&error.to_string());
        }
        error
    }

    /// Refuses all writes from now on, as how far one got is unknown (S3); the first reason stays.
    pub(crate) fn poison(&self, reason: &str) -> EngineError {
        let mut poison = self.poison.lock();
        let is_first = poison.is_none();
        let reason = poison.get_or_insert_with(|| format!("{reason}; {REOPEN_ADVICE}")).clone();
        drop(poison);
        self.set_gate(gate::POISONED);
        if is_first {
            // Who waits for background work waits for what will not be done any more.
            self.runtime.scheduler.notify();
        }
        EngineError::Poisoned { reason }
    }

    /// # Errors
    /// [`EngineError::Poisoned`].
    pub(crate) fn check_poison(&self) -> Result<(), EngineError> {
        if self.gate() & gate::POISONED == 0 {
            return Ok(());
        }
        let reason = self.poison.lock().clone().unwrap_or_default();
        Err(EngineError::Poisoned { reason })
    }

    /// Refuses puts and deletes because of tables that cannot be read, until [`Store::forget_keyspace`]
    /// finds that there may be a way again; the first reason stays.
    pub(crate) fn refuse_writes(&self, mut plans: MutexGuard<'_, Plans>, reason: String) {
        let is_first = plans.refusal.is_none();
        plans.refusal.get_or_insert(reason);
        // Under the lock, or who ends the refusal meanwhile would not have the last word.
        self.set_gate(gate::REFUSED);
        drop(plans);
        if is_first {
            self.runtime.scheduler.notify();
        }
    }

    /// Forgets what was planned for a keyspace that was dropped, and what was wrong with its tables. If that
    /// was why writes are refused, compaction goes on; if not, its next look for a plan says so.
    pub(crate) fn forget_keyspace(&self, id: KeyspaceId) {
        let mut plans = self.plans.lock();
        plans.keyspaces.remove(&id);
        if !plans.is_drive_failing() {
            plans.refusal = None;
            self.clear_gate(gate::REFUSED);
        }
    }

    /// # Errors
    /// [`EngineError::Poisoned`], where all is refused or puts and deletes are.
    pub(crate) fn check_not_refused(&self) -> Result<(), EngineError> {
        self.check_poison()?;
        if self.gate() & gate::REFUSED == 0 {
            return Ok(());
        }
        // None where the refusal has just ended.
        let refusal = self.plans.lock().refusal.clone();
        refusal.map_or(Ok(()), |reason| Err(EngineError::Poisoned { reason }))
    }

    /// # Errors
    /// [`EngineError::Closed`].
    pub(crate) fn check_open(&self) -> Result<(), EngineError> {
        if self.gate() & gate::CLOSED == 0 { Ok(()) } else { Err(EngineError::Closed) }
    }

    /// Whether who waited for a lock may still write.
    ///
    /// # Errors
    /// [`EngineError::Closed`], [`EngineError::Poisoned`].
    #[inline]
    pub(crate) fn check_going(&self) -> Result<(), EngineError> {
        self.check_open()?;
        self.check_poison()
    }

    /// Ends everything that writes (S5): what begins from here on is refused, what has begun is
    /// waited for.
    pub(crate) fn shut(&self) {
        self.set_gate(gate::CLOSED);
        drop(self.versions.lock());
    }

    /// What holds writes up now.
    #[inline]
    pub(crate) fn gate(&self) -> usize {
        self.gate.load(Ordering::Acquire)
    }

    pub(crate) fn set_gate(&self, bits: usize) {
        self.gate.fetch_or(bits, Ordering::AcqRel);
    }

    pub(crate) fn clear_gate(&self, bits: usize) {
        self.gate.fetch_and(!bits, Ordering::AcqRel);
    }

    /// Computes anew whether writes go slower or wait.
    pub(crate) fn refresh_gate(&self) {
        let _turn = self.gate_turn.lock();
        let mut bits = 0;
        for keyspace in self.keyspaces.read().values() {
            bits |= keyspace.pressure(&self.options);
        }
        if self.is_flash_crowded() {
            bits |= gate::CROWDED;
        }
        if !self.options.background_work {
            bits = 0;
        }
        let all = gate::SLOWDOWN | gate::STOP | gate::CROWDED;
        let update = |now: usize| Some(now & !all | bits);
        let _ = self.gate.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
    }

    /// Notes a log that was created; its first write will be `first_seq`.
    pub(crate) fn add_log(&self, id: LogId, first_seq: Seq) {
        self.logs.lock().push(LogInfo { id, first_seq, len_bytes: 0 });
    }

    /// The logs that were noted are of before, and stay until flushes have found room for all they hold.
    pub(crate) fn keep_logs(&self) {
        if let Some(last) = self.newest_log() {
            self.writer.lock().begin_behind(last);
        }
        self.are_logs_kept.store(true, Ordering::Release);
    }

    /// Whether it has jobs: what is only read has none.
    pub(crate) fn works_in_background(&self) -> bool {
        self.options.background_work && self.gate() & gate::READ_ONLY == 0
    }

    /// Whether logs of before are left.
    pub(crate) fn are_logs_kept(&self) -> bool {
        self.are_logs_kept.load(Ordering::Acquire)
    }

    /// Whether what compactions replace may stay.
    pub(crate) fn has_checkpoint(&self) -> bool {
        self.has_checkpoint.load(Ordering::Acquire)
    }

    /// The newest of the logs that there are.
    fn newest_log(&self) -> Option<LogId> {
        self.logs.lock().last().map(|log| log.id)
    }

    /// Notes how long a finished log got.
    pub(crate) fn end_log(&self, id: LogId, len_bytes: u64) {
        for log in self.logs.lock().iter_mut().filter(|log| log.id == id) {
            log.len_bytes = len_bytes;
        }
    }

    /// The oldest log that is not removed yet, and how long all finished ones are together.
    pub(crate) fn oldest_log(&self) -> Option<(LogId, u64)> {
        let logs = self.logs.lock();
        Some((logs.first()?.id, logs.iter().map(|log| log.len_bytes).sum()))
    }

    /// Which logs nothing needs any more once `flushed` are in tables: added to `remove`. Returns
    /// the first log that stays, and the last write of what was released.
    fn release_logs(
        &self,
        flushed: &[(KeyspaceId, Arc<MemSlot>)],
        edit: &VersionEdit,
        remove: &mut Vec<String>,
    ) -> (LogId, Seq) {
        // The newest log is asked for first: what is written after this look goes there or later.
        let Some(newest) = self.newest_log() else { return (LogId(0), Seq(0)) };
        let is_kept = self.are_logs_kept();
        let is_flushed =
            |slot: &Arc<MemSlot>| flushed.iter().any(|(_, other)| Arc::ptr_eq(slot, other));
        // The newest log is written, but for one of before.
        let mut needed = if is_kept { LogId(newest.0 + 1) } else { newest };
        for keyspace in self.keyspaces.read().values() {
            if edit.keyspaces_dropped.contains(&keyspace.id) {
                continue;
            }
            let view = keyspace.view();
            let slots = view.immutables.iter().chain([&view.active]);
            let oldest = slots.filter(|slot| !is_flushed(slot)).filter_map(|s| s.first_log()).min();
            needed = needed.min(oldest.unwrap_or(needed));
        }
        let logs = self.logs.lock();
        remove.extend(logs.iter().filter(|log| log.id < needed).map(|log| log.id.file_name()));
        let first_kept = logs.iter().find(|log| log.id >= needed);
        // By number, not by sequence: an empty log begins with the same write as its successor.
        let all = if is_kept { self.visible() } else { Seq(0) };
        (needed, first_kept.map_or(all, |log| Seq(log.first_seq.0 - 1)))
    }
}

impl VersionSet {
    /// The record that makes `edit` durable: the edit alone, or everything when edits have piled up,
    /// sooner in a crowded catalog, and always in one that has hardly any room. Also how long the
    /// records are once it is durable.
    fn record(
        &self,
        edit: &VersionEdit,
        state: &StoreState,
        catalog: &CatalogUse,
        kind: CommitKind,
    ) -> (AppRecord, RecordLens) {
        let RecordLens { snapshot_bytes, edits_bytes } = self.lens;
        let bytes = format::encode(RecordKind::Edit, edit);
        let limit = if catalog.is_crowded() {
            snapshot_bytes / 8
        } else {
            snapshot_bytes.max(EDITS_LEN_BYTES_MIN)
        };
        let has_room =
            catalog.free_bytes(kind) >= 4 * bytes.len() as u64 + CATALOG_ROOM_LEN_BYTES_MIN;
        let edits_bytes = edits_bytes + bytes.len() as u64;
        if has_room && edits_bytes <= limit {
            return (AppRecord::Append(bytes), RecordLens { snapshot_bytes, edits_bytes });
        }
        let snapshot = format::encode(RecordKind::Snapshot, &state.to_edit());
        let lens = RecordLens { snapshot_bytes: snapshot.len() as u64, edits_bytes: 0 };
        (AppRecord::Replace(snapshot), lens)
    }
}
