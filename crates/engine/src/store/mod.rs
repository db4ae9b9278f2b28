//! The inside of an open store: what the handles, the write path and the background jobs share.
//!
//! ```text
//!   Db, Keyspace            handles of the user, cheap to clone                          (`db`)
//!        |
//!      Store --- Writer         one at a time: sequence numbers, the log                (`writer`)
//!        |  \--- KeyspaceState  memtables and version, swapped whole                    (`keyspace`)
//!        |  \--- VersionSet     what is durable; changed by one commit at a time        (`durable`, `commit`)
//!        |  \--- Plans          which compactions run                                   (`compaction::busy`)
//!        |  \--- Admission      who may write, by the space that is left                (`space`, `admission`)
//!        |
//!   writes, flushes, compactions   functions over the store, and jobs on the scheduler  (`work`)
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
//!   S4  The gate is recomputed and stored under one lock, so a stale reading cannot overwrite a newer one: a writer
//!       never stalls for what is over.
//!   S5  When a close has returned the store does not change any more, whoever is still at it.

pub(crate) mod admission;
pub(crate) mod commit;
pub(crate) mod compacting;
pub(crate) mod due;
pub(crate) mod durable;
pub(crate) mod gate;
pub(crate) mod job_count;
pub(crate) mod keyspace;
pub(crate) mod space;
mod tables;
pub(crate) mod tally;
pub(crate) mod view;
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
use crate::store::space::{BlockedWriteAt, CompactionTriedAt};
use crate::store::tally::Tally;
use crate::store::writer::Writer;
use crate::table::cache::BlockCache;
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
    gate_refresh: Mutex<()>,
    poison: Mutex<Option<String>>,
    visible: AtomicU64,
    next_id: AtomicU64,
    /// After a background write was blocked for want of space: what was free then.
    pub(crate) blocked_write_at: Mutex<Option<BlockedWriteAt>>,
    /// After a compaction failed for want of space: how large the next one may be.
    pub(crate) room_max_bytes: AtomicU64,
    /// Writers would stall for a compaction that the drive has no room for.
    pub(crate) is_compaction_blocked: AtomicBool,
    /// What there was then, or before the last compaction began.
    pub(crate) compaction_tried_at: Mutex<Option<CompactionTriedAt>>,
    /// How many background jobs there are; a close waits for them.
    pub(crate) jobs: JobCount,
    pub(crate) is_closing: AtomicBool,
    pub(crate) compacting: Compacting,
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
            gate_refresh: Mutex::default(),
            gate: AtomicUsize::new(if is_read_only { gate::READ_ONLY } else { 0 }),
            poison: Mutex::default(),
            visible: AtomicU64::new(last_seq),
            next_id: AtomicU64::new(state.counters.next_id),
            versions: Mutex::new(VersionSet { state, lens }),
            blocked_write_at: Mutex::default(),
            room_max_bytes: AtomicU64::new(u64::MAX),
            is_compaction_blocked: AtomicBool::new(false),
            compaction_tried_at: Mutex::default(),
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

    /// Poisons the store where how far the file layer got is unknown. Without space nothing happened:
    /// puts look at what is free, and the background tries for itself (R2).
    pub(crate) fn files_failed(&self, what: &str, source: FilesError) -> EngineError {
        let error = EngineError::Files { what: what.to_owned(), source };
        self.failed(error)
    }

    /// As [`Store::files_failed`] for an error that is wrapped already.
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
        self.set_gate(gate::WRITES_REFUSED);
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
            self.clear_gate(gate::WRITES_REFUSED);
        }
    }

    /// # Errors
    /// [`EngineError::Poisoned`], where all is refused or puts and deletes are.
    pub(crate) fn check_not_refused(&self) -> Result<(), EngineError> {
        self.check_poison()?;
        if self.gate() & gate::WRITES_REFUSED == 0 {
            return Ok(());
        }
        // None where the refusal has just ended.
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

    /// The bits of [`gate`] now.
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

    /// Computes anew whether writers stall.
    pub(crate) fn refresh_gate(&self) {
        let _turn = self.gate_refresh.lock();
        let mut bits = 0;
        for keyspace in self.keyspaces.read().values() {
            bits |= keyspace.pressure(&self.options);
        }
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

    /// Where a log should be begun now.
    pub(crate) fn wanted_tier(&self) -> Tier {
        let is_running = self.compacting.is_running.load(Ordering::Acquire);
        if self.options.offloads && is_running { Tier::Fast } else { Tier::Main }
    }

    /// Whether more files lie on flash than writes should go on adding to at full speed.
    pub(crate) fn is_flash_crowded(&self) -> bool {
        let options = &self.options;
        options.offloads
            && options.offload_delay_ns > 0
            && options.offloaded_file_count_max < self.files.flash_file_count()
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
}
