//! The inside of an open store: the state that handles, the write path and background jobs share.
//!
//! ```text
//!   Db, Keyspace            handles of the user, cheap to clone                         (`db`)
//!        |
//!      Store --- Writer         one at a time: sequence numbers, the log                (`writer`)
//!        |  \--- KeyspaceState  memtables and version, replaced as a whole              (`keyspace`)
//!        |  \--- VersionSet     the durable state; changed by one commit at a time      (`durable`, `commit`)
//!        |  \--- Plans          which compactions run                                   (`compaction::busy`)
//!        |  \--- Admission      which writes are admitted, by the space left            (`space`, `admission`)
//!        |
//!   writes, flushes, compactions   functions over the store, and jobs on the scheduler  (`work`)
//! ```
//!
//! Invariants
//!   S1  A change of the store is one commit of the file layer: tables, logs and edit together. The
//!       state in memory follows only once the commit is durable.
//!   S2  Locks are taken in this order: `writer`, `versions`, `plans`, a keyspace's `swap`. None is
//!       held while the scheduler waits or yields.
//!   S3  After a failure that leaves unknown how much was written, the store writes nothing more.
//!       If puts and deletes are refused because tables cannot be read, nothing is in doubt:
//!       acknowledged writes become durable, and every operation that can end the refusal is
//!       allowed.
//!   S4  The gate is recomputed and stored under one lock, so a stale reading cannot overwrite a
//!       newer one: a writer never stalls for what is over.
//!   S5  After a close has returned, the store does not change any more, whatever calls still run.

pub(crate) mod admission;
pub(crate) mod cleaning;
pub(crate) mod commit;
pub(crate) mod compacting;
pub(crate) mod due;
pub(crate) mod durable;
pub(crate) mod gate;
pub(crate) mod job_count;
pub(crate) mod keyspace;
mod lifetime;
pub(crate) mod limits;
pub(crate) mod missed;
mod moment;
mod pinned;
mod slices;
pub(crate) mod space;
mod tables;
pub(crate) mod tally;
pub(crate) mod view;
pub(crate) mod waits;
pub(crate) mod writer;

use crate::EngineError;
use crate::batch::KeyspaceId;
use crate::compaction::busy::Plans;
use crate::error::REOPEN_ADVICE;
use crate::key::Seq;
use crate::losses::Losses;
use crate::options::Options;
use crate::snapshot::Snapshots;
use crate::store::compacting::Compacting;
use crate::store::durable::{LogInfo, RecordLens, VersionSet};
use crate::store::job_count::JobCount;
use crate::store::keyspace::KeyspaceState;
use crate::store::limits::Limits;
use crate::store::moment::History;
use crate::store::space::{BlockedWriteAt, CompactionTriedAt};
use crate::store::tally::Tally;
use crate::store::writer::Writer;
use crate::table::cache::BlockCache;
use crate::totals::{Totals, TotalsBefore};
use crate::version::edit::LogId;
use crate::version::names::names_prefix;
use crate::version::state::StoreState;
use imbrex_clockwork::Runtime;
use imbrex_files::Tier;
use imbrex_files::{Files, FilesError};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The inside of an open store.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) runtime: Runtime,
    pub(crate) options: Options,
    /// Whether logs become tables whatever the keyspaces say.
    places_all_values: bool,
    /// The lengths that the drive has room for.
    pub(crate) limits: Limits,
    checkpoint: Option<String>,
    pub(crate) losses: Option<Arc<Losses>>,
    pub(crate) lost: BTreeMap<String, String>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) tally: Tally,
    totals: TotalsBefore,
    /// Whether there was a commit since the opening: a close then makes one more.
    has_committed: AtomicBool,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) plans: Mutex<Plans>,
    pub(crate) keyspaces: RwLock<BTreeMap<KeyspaceId, Arc<KeyspaceState>>>,
    versions: Mutex<VersionSet>,
    logs: Mutex<Vec<LogInfo>>,
    /// The existing logs are from before the opening: no log is written until all of them are
    /// removed (O3).
    are_logs_kept: AtomicBool,
    /// Whether there is a checkpoint, which may hold the inputs of compactions. A copy of what
    /// `versions` knows, for callers that hold `plans` and so must not lock `versions` (S2).
    has_checkpoint: AtomicBool,
    gate: AtomicUsize,
    /// Held while the gate is recomputed (S4).
    gate_refresh: Mutex<()>,
    poison: Mutex<Option<String>>,
    visible: AtomicU64,
    next_id: AtomicU64,
    /// The order of this opening and of its commits, for what tables record.
    history: History,
    /// After a background write was blocked for want of space: how much was free then.
    pub(crate) blocked_write_at: Mutex<Option<BlockedWriteAt>>,
    /// After a compaction failed for want of space: how large the next one may be.
    pub(crate) room_max_bytes: AtomicU64,
    /// Writers would stall for a compaction that the drive has no room for.
    pub(crate) is_compaction_blocked: AtomicBool,
    /// The space at that moment, or before the last compaction began.
    pub(crate) compaction_tried_at: Mutex<Option<CompactionTriedAt>>,
    /// The space when a cleaning of values found too little.
    pub(crate) cleaning_blocked_at: Mutex<Option<CompactionTriedAt>>,
    /// Whether values are being cleaned.
    pub(crate) is_cleaning: AtomicBool,
    /// The number of background jobs; a close waits for them.
    pub(crate) jobs: JobCount,
    pub(crate) is_closing: AtomicBool,
    pub(crate) compacting: Compacting,
    /// While writers slow down: how many bytes compaction processes for each byte written.
    pub(crate) slowdown_bytes_per_byte: AtomicU64,
}

/// What a store is built from.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) runtime: Runtime,
    pub(crate) options: Options,
    /// Whether logs become tables whatever the keyspaces say.
    pub(crate) places_all_values: bool,
    pub(crate) state: StoreState,
    /// The lengths of the state's records in the catalog.
    pub(crate) lens: RecordLens,
    pub(crate) is_read_only: bool,
    /// The name of the checkpoint, if the store is one.
    pub(crate) checkpoint: Option<String>,
    /// Where skipped damage is recorded, in a salvage.
    pub(crate) losses: Option<Arc<Losses>>,
    /// The tables that the store leaves out because they cannot be opened, and why.
    pub(crate) lost: BTreeMap<String, String>,
}

impl Store {
    /// A store over a state whose tables are attached, without a log and without jobs.
    pub(crate) fn new(start: Start) -> Store {
        let Start { files, runtime, options, state, lens, is_read_only, .. } = start;
        let Start { checkpoint, losses, lost, places_all_values, .. } = start;
        let last_seq = state.counters.last_seq;
        let totals = TotalsBefore {
            recorded: state.totals.clone(),
            of_files: Totals::of_files(&files.work()),
        };
        let limits = Limits::new(&options, &files.space());
        let keyspaces: BTreeMap<_, _> = state
            .keyspaces
            .iter()
            .map(|(&id, entry)| (id, Arc::new(KeyspaceState::new(entry, &limits))))
            .collect();
        Store {
            cache: Arc::new(BlockCache::new(options.block_cache_len_bytes)),
            snapshots: Arc::default(),
            tally: Tally::default(),
            totals,
            has_committed: AtomicBool::new(false),
            writer: Mutex::new(Writer::new(Seq(last_seq + 1))),
            plans: Mutex::default(),
            keyspaces: RwLock::new(keyspaces),
            logs: Mutex::default(),
            are_logs_kept: AtomicBool::new(false),
            has_checkpoint: AtomicBool::new(!state.checkpoints.is_empty()),
            gate_refresh: Mutex::default(),
            gate: AtomicUsize::new(if is_read_only { gate::READ_ONLY } else { 0 }),
            poison: Mutex::default(),
            visible: AtomicU64::new(last_seq),
            next_id: AtomicU64::new(state.counters.next_id),
            history: History::new(state.counters.next_id),
            versions: Mutex::new(VersionSet { state, lens }),
            blocked_write_at: Mutex::default(),
            room_max_bytes: AtomicU64::new(u64::MAX),
            is_compaction_blocked: AtomicBool::new(false),
            compaction_tried_at: Mutex::default(),
            cleaning_blocked_at: Mutex::default(),
            is_cleaning: AtomicBool::new(false),
            jobs: JobCount::default(),
            is_closing: AtomicBool::new(false),
            compacting: Compacting::default(),
            slowdown_bytes_per_byte: AtomicU64::new(0),
            files,
            runtime,
            options,
            places_all_values,
            limits,
            checkpoint,
            losses,
            lost,
        }
    }

    /// Whether a value of `len_bytes` of `keyspace` may stay in the log when the log becomes a table. Shorter ones
    /// are written again, beside their keys: a merge would read each by itself.
    #[inline]
    pub(crate) fn may_stay_in_log(&self, keyspace: &KeyspaceState, len_bytes: usize) -> bool {
        match keyspace.fitted.values_apart_from_bytes {
            0 => self.places_all_values,
            from_bytes => len_bytes >= from_bytes as usize,
        }
    }

    /// A number for a table, a log or a group that was never used before.
    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Marks all numbers below `id` as used.
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

    /// The current durable state; versions are shared, not copied.
    pub(crate) fn state(&self) -> StoreState {
        let mut state = self.versions.lock().state.clone();
        state.counters.next_id = self.next_id.load(Ordering::Relaxed);
        state
    }

    /// The durable state and the names of its files at one moment. A store returns all files. A
    /// checkpoint returns only its own, without the prefix of their names.
    ///
    /// # Errors
    /// [`EngineError::NoCheckpoint`] if the checkpoint was deleted.
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

    /// Poisons the store if it is unknown how far the file layer got. Without space nothing has
    /// happened: puts check the free space again, and background jobs retry by their own rule (R2).
    pub(crate) fn files_failed(&self, what: &str, source: FilesError) -> EngineError {
        let error = EngineError::Files { what: what.to_owned(), source };
        self.failed(error)
    }

    /// Like [`Store::files_failed`], for an error that is already wrapped.
    pub(crate) fn failed(&self, error: EngineError) -> EngineError {
        if error.is_no_space() {
            self.set_gate(gate::PUTS_REFUSED);
        } else if !matches!(
            error,
            EngineError::Poisoned { .. } | EngineError::Closed | EngineError::Stopped { .. }
        ) {
            self.poison(&error.to_string());
        }
        error
    }

    /// Refuses all writes from now on, because it is unknown how far one got (S3). The first reason
    /// is kept.
    pub(crate) fn poison(&self, reason: &str) -> EngineError {
        let mut poison = self.poison.lock();
        let is_first = poison.is_none();
        let reason = poison.get_or_insert_with(|| format!("{reason}; {REOPEN_ADVICE}")).clone();
        drop(poison);
        self.set_gate(gate::POISONED);
        if is_first {
            // A caller that waits for background work waits for work that will not be done.
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

    /// Refuses puts and deletes because of tables that cannot be read. The refusal lasts until
    /// [`Store::forget_keyspace`] finds that compaction may be possible again. The first reason is
    /// kept.
    pub(crate) fn refuse_writes(&self, mut plans: MutexGuard<'_, Plans>, reason: String) {
        let is_first = plans.refusal.is_none();
        plans.refusal.get_or_insert(reason);
        // Under the lock, so that it cannot overwrite the end of a refusal at the same time.
        self.set_gate(gate::WRITES_REFUSED);
        drop(plans);
        if is_first {
            self.runtime.scheduler.notify();
        }
    }

    /// Discards the plans and the damage of a dropped keyspace. If its tables were the reason why
    /// writes are refused, compaction goes on; if not, the next attempt to plan refuses writes
    /// again.
    pub(crate) fn forget_keyspace(&self, id: KeyspaceId) {
        let mut plans = self.plans.lock();
        plans.keyspaces.remove(&id);
        if !plans.is_drive_failing() {
            plans.refusal = None;
            self.clear_gate(gate::WRITES_REFUSED);
        }
    }

    /// # Errors
    /// [`EngineError::Poisoned`] if all writes, or puts and deletes, are refused.
    pub(crate) fn check_not_refused(&self) -> Result<(), EngineError> {
        self.check_poison()?;
        if self.gate() & gate::WRITES_REFUSED == 0 {
            return Ok(());
        }
        // `None` if the refusal has just ended.
        let refusal = self.plans.lock().refusal.clone();
        refusal.map_or(Ok(()), |reason| Err(EngineError::Poisoned { reason }))
    }

    /// # Errors
    /// [`EngineError::ReadOnly`], [`EngineError::Closed`], [`EngineError::Poisoned`].
    pub(crate) fn check_writable(&self) -> Result<(), EngineError> {
        let now = self.gate();
        if now & gate::READ_ONLY != 0 {
            return Err(EngineError::ReadOnly);
        }
        if now & gate::CLOSED != 0 {
            return Err(EngineError::Closed);
        }
        self.check_poison()
    }

    /// # Errors
    /// [`EngineError::Closed`].
    pub(crate) fn check_open(&self) -> Result<(), EngineError> {
        if self.gate() & gate::CLOSED == 0 { Ok(()) } else { Err(EngineError::Closed) }
    }

    /// Checks that a caller that waited for a lock may still write.
    ///
    /// # Errors
    /// [`EngineError::Closed`], [`EngineError::Poisoned`].
    #[inline]
    pub(crate) fn check_going(&self) -> Result<(), EngineError> {
        self.check_open()?;
        self.check_poison()
    }

    /// Ends everything that writes (S5): refuses new writes, and waits for those that have begun.
    pub(crate) fn shut(&self) {
        self.set_gate(gate::CLOSED);
        drop(self.versions.lock());
    }

    /// The current bits of [`gate`].
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

    /// Recomputes whether writers stall.
    pub(crate) fn refresh_gate(&self) {
        let _turn = self.gate_refresh.lock();
        // Without a compaction, waiting brings back no space.
        let is_running = self.compacting.is_running.load(Ordering::Acquire);
        let slack_bytes = if is_running {
            self.slack_bytes() + self.compacting.written_bytes.load(Ordering::Relaxed)
        } else {
            u64::MAX
        };
        let (mut bits, mut slowdown) = (0, 0);
        for keyspace in self.keyspaces.read().values() {
            let own = keyspace.pressure(&self.options, &self.limits, slack_bytes);
            bits |= own.0;
            slowdown = slowdown.max(own.1);
        }
        if let Some(own) = self.cleaning_slowdown() {
            bits |= gate::SLOWDOWN;
            slowdown = slowdown.max(own);
        }
        self.slowdown_bytes_per_byte.store(slowdown, Ordering::Relaxed);
        if self.is_flash_crowded() {
            bits |= gate::FLASH_CROWDED;
        }
        if !self.options.background_work {
            bits = 0;
        }
        let all = gate::SLOWDOWN | gate::STOP | gate::FLASH_CROWDED;
        let update = |now: usize| Some(now & !all | bits);
        let _ = self.gate.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
    }

    /// The drive on which a new log should be created now.
    pub(crate) fn wanted_tier(&self) -> Tier {
        let is_running = self.compacting.is_running.load(Ordering::Acquire);
        let is_fast = self.options.logs_on_flash || self.options.offloads && is_running;
        if is_fast { Tier::Fast } else { Tier::Main }
    }

    /// Whether flash holds more files than full-speed writing allows.
    pub(crate) fn is_flash_crowded(&self) -> bool {
        let options = &self.options;
        options.offloads
            && options.offload_delay_ns > 0
            && options.offloaded_file_count_max < self.files.flash_file_count()
    }

    /// Records a log that was created; its first write will be `first_seq`.
    pub(crate) fn add_log(&self, id: LogId, first_seq: Seq) {
        self.logs.lock().push(LogInfo { id, first_seq, len_bytes: 0, end_seq: None });
    }

    /// Marks the recorded logs as logs from before the opening. They stay until flushes have found
    /// room for everything that they hold.
    pub(crate) fn keep_logs(&self) {
        if let Some(last) = self.newest_log() {
            self.writer.lock().begin_behind(last.id);
        }
        self.are_logs_kept.store(true, Ordering::Release);
    }

    /// Whether the store has background jobs; a store opened for reading has none.
    pub(crate) fn works_in_background(&self) -> bool {
        self.options.background_work && self.gate() & gate::READ_ONLY == 0
    }

    /// Whether a memtable holds anything.
    pub(crate) fn has_memory(&self) -> bool {
        self.keyspaces.read().values().any(|keyspace| {
            let view = keyspace.view();
            !view.active.mem.is_empty() || !view.immutables.is_empty()
        })
    }

    /// Whether logs from before the opening are left.
    pub(crate) fn are_logs_kept(&self) -> bool {
        self.are_logs_kept.load(Ordering::Acquire)
    }

    /// Whether a checkpoint may keep the inputs of compactions.
    pub(crate) fn has_checkpoint(&self) -> bool {
        self.has_checkpoint.load(Ordering::Acquire)
    }

    /// The newest of the existing logs.
    fn newest_log(&self) -> Option<LogInfo> {
        self.logs.lock().last().copied()
    }

    /// Records the length of a log that has ended, and the first write after it.
    pub(crate) fn end_log(&self, id: LogId, len_bytes: u64, end_seq: Seq) {
        for log in self.logs.lock().iter_mut().filter(|log| log.id == id) {
            (log.len_bytes, log.end_seq) = (len_bytes, Some(end_seq));
        }
    }

    /// The oldest log that is not removed yet, and the length of all logs together that have ended.
    pub(crate) fn oldest_log(&self) -> Option<(LogId, u64)> {
        let logs = self.logs.lock();
        Some((logs.first()?.id, logs.iter().map(|log| log.len_bytes).sum()))
    }
}
