//! Flushing: a frozen memtable becomes tables of level 0, or of a level below where that is LevelDB's
//! rule (`policy::as_leveldb`), and its logs are removed.
//!
//! Flushes run one memtable at a time, and the oldest of a keyspace first: a run in level 0 is
//! newer than those flushed before it (V2).
//!
//! Keyspaces fill at different speeds. At most moments the tables therefore hold the newest writes
//! of one keyspace, but not yet older writes of another. A checkpoint or copy without logs needs a
//! moment at which that is not so:
//!
//! ```text
//!   logs        | 7 | 8 | 9 |          the cut is before log 9
//!   keyspace A   ====   ====~~~        ~~~ begins at log 9: not flushed while the cut stands
//!   keyspace B     =========~~~        === flushed: then the tables hold all before log 9 and no more
//! ```
//!
//! Invariants
//!   U1  While a [`Cut`] stands, the tables hold every write to the logs before it and no write to
//!       a later log. The counters of the durable state agree.
//!   U2  No keyspace is created and no drop of one begins while a cut stands: the reason for either
//!       may have been written after the cut.

use crate::EngineError;
use crate::compaction::busy::Plans;
use crate::compaction::merge::output::{OutputSpec, Replaced, Source};
use crate::compaction::merge::streams::Streams;
use crate::compaction::merge::task::{MergeSpec, MergeTask};
use crate::compaction::policy::as_leveldb::flush_level;
use crate::compaction::policy::sets;
use crate::first_reads::SeekTo;
use crate::iter::InternalIter;
use crate::memtable::{Memtable, MemtableIter};
use crate::options::CompactionKind;
use crate::range_del::FragmentedTombstones;
use crate::store::commit::Change;
use crate::store::due;
use crate::store::job_count::Counted;
use crate::store::keyspace::KeyspaceState;
use crate::store::view::MemSlot;
use crate::store::writer::Writer;
use crate::store::{Store, gate};
use crate::version::edit::LogId;
use crate::version::{KeyRange, RunId, TableSlot};
use crate::work::logs;
use bytes::Bytes;
use imbrex_clockwork::{Budget, Job, Step};
use imbrex_files::{CommitKind, GroupId, Tier};
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A running flush.
#[derive(Debug)]
pub(crate) struct Flush {
    keyspace: Arc<KeyspaceState>,
    slot: Arc<MemSlot>,
    task: Option<MergeTask<MemtableIter>>,
    /// Whether the task turns the log into a table.
    is_banded: bool,
    /// The level that the tables go to.
    level: u8,
    start_ns: u64,
}

/// The merge that writes a memtable to `level`.
pub(crate) fn flush_task(
    store: &Store,
    keyspace: &KeyspaceState,
    slot: &MemSlot,
    source: Source,
    level: u8,
) -> MergeTask<MemtableIter> {
    let group = store.new_id();
    let band = slot.band().filter(|_| source == Source::Memory).cloned();
    let version = Arc::clone(&keyspace.view().version);
    let spec = OutputSpec {
        keyspace: keyspace.id,
        level,
        run: if level == 0 { RunId(group) } else { RunId::ONLY },
        group: GroupId(group),
        options: keyspace.fitted.clone(),
        is_bottom: false,
        grandparents: match band {
            Some(_) => Vec::new(),
            None => next_level(store, keyspace, level),
        },
        borders: if band.is_some() { Vec::new() } else { version.partitions.cuts.clone() },
        streams: Streams::of_partitions(keyspace.id, &version),
        tombstones: FragmentedTombstones::default(),
        is_together: sets::is_set(&keyspace.fitted, level),
        tier: match source {
            Source::Memory => store.flush_tier(&version, slot),
            // A recovery adds its tables in one commit, for which the main drive has kept room.
            Source::Logs | Source::Tables { .. } => Tier::Main,
        },
        source,
        band,
        replaces: Replaced {
            logs: slot.first_log().zip(Some(slot.end_log())).filter(|(first, end)| first < end),
            ..Replaced::default()
        },
    };
    let tombstones = slot.mem.range_tombstones().into_iter().map(|t| (0, t)).collect();
    let snapshots = store.snapshots.list();
    let outputs = vec![spec];
    let merge =
        MergeSpec { snapshots, tombstones, outputs, router: None, until: None, apart_len_bytes: 0 };
    MergeTask::new(slot.mem.iter(), merge)
}

/// The tables of the level below `level`, if tables share zones and it is one run. A table over much of
/// them could go down only with all of that. With lazy leveling the level below is no obstacle.
fn next_level(store: &Store, keyspace: &KeyspaceState, level: u8) -> Vec<Arc<TableSlot>> {
    if keyspace.fitted.compaction == CompactionKind::Lazy {
        return Vec::new();
    }
    let takes_zones = store.files.space().grain_bytes > 0;
    match &keyspace.view().version.levels[usize::from(level) + 1].runs[..] {
        [run] if !takes_zones => run.tables.clone(),
        _ => Vec::new(),
    }
}

impl Flush {
    fn new(store: &Store, keyspace: Arc<KeyspaceState>, slot: Arc<MemSlot>, level: u8) -> Flush {
        let is_banded = slot.band().is_some();
        let task = Some(flush_task(store, &keyspace, &slot, Source::Memory, level));
        Flush { keyspace, slot, task, is_banded, level, start_ns: store.runtime.clock.now_ns() }
    }

    /// Works on about `len_bytes`; returns true once the flush is durable. A failed flush releases
    /// what it wrote.
    fn step(&mut self, store: &Store, len_bytes: u64) -> Result<bool, EngineError> {
        let stepped = self.advance(store, len_bytes);
        let Err(error) = &stepped else { return stepped };
        self.task = None;
        if self.is_banded && error.is_no_space() {
            // Flush from memory instead (B3).
            self.slot.band().into_iter().for_each(|band| band.spoil());
            *self = Flush {
                start_ns: self.start_ns,
                ..Flush::new(store, Arc::clone(&self.keyspace), Arc::clone(&self.slot), self.level)
            };
            return Ok(false);
        }
        stepped
    }

    fn advance(&mut self, store: &Store, len_bytes: u64) -> Result<bool, EngineError> {
        let Some(task) = &mut self.task else { return Ok(true) };
        if !task.step(store, len_bytes)? {
            return Ok(false);
        }
        let Some(task) = self.task.take() else { return Ok(true) };
        let outputs = task.finish(store)?;
        let out_len_bytes = outputs.len_bytes();
        // It adds what a recovery would add instead, and writes were admitted for that.
        let kind = CommitKind::Recovery;
        let mut change =
            Change { add: outputs.files, bands: outputs.bands, kind, ..Change::default() };
        change.ends = outputs.ends;
        change.edit.tables_added = outputs.added;
        let floor: LogId = self.slot.end_log();
        change.edit.log_floors.push((self.keyspace.id, floor));
        change.flushed.push((self.keyspace.id, Arc::clone(&self.slot)));
        store.commit(change)?;
        let took_ns = store.runtime.clock.now_ns().saturating_sub(self.start_ns);
        store.tally.flush_ns.fetch_add(took_ns, Ordering::Relaxed);
        store.tally.flush_count.fetch_add(1, Ordering::Relaxed);
        store.tally.flush_out_bytes.fetch_add(out_len_bytes, Ordering::Relaxed);
        Ok(true)
    }
}

/// The next memtable to flush, marked as being flushed. With `at_all_costs` it is returned even if
/// the last try failed for want of space and nothing has changed.
fn next_flush(store: &Store, at_all_costs: bool) -> Option<Flush> {
    let mut plans = store.plans.lock();
    let is_poisoned = store.gate() & gate::POISONED != 0;
    if is_poisoned || !(at_all_costs || store.may_try_to_write()) {
        return None;
    }
    let (keyspace, slot) = flush_candidate(store, &plans)?;
    // Under the same lock as the check that the keyspace is not dropped: a drop checks for running
    // flushes under it.
    plans.flushing = Some(keyspace.id);
    let level = reserve_level(store, &keyspace, &slot, &mut plans);
    drop(plans);
    Some(Flush::new(store, keyspace, slot, level))
}

/// The level that `slot` goes to. Until the flush ends, no compaction writes to its range there.
fn reserve_level(store: &Store, keyspace: &KeyspaceState, slot: &MemSlot, plans: &mut Plans) -> u8 {
    // Loaded under the lock: a finished plan has installed its version (P2).
    let version = Arc::clone(&keyspace.view().version);
    let stays = slot.band().is_some() || store.flush_tier(&version, slot) != Tier::Main;
    let Some(range) = key_range(&slot.mem).filter(|_| !stays) else { return 0 };
    let busy = &mut plans.keyspaces.entry(keyspace.id).or_default().busy;
    let level = flush_level(&version, &keyspace.fitted, busy, &range);
    busy.flush = (level > 0).then_some((level, range));
    level
}

/// The range of all keys of a frozen memtable, and of all that its range tombstones cover.
fn key_range(mem: &Arc<Memtable>) -> Option<KeyRange> {
    let mut entries = mem.iter();
    let mut range: Option<KeyRange> = None;
    let mut extend = |smallest: &[u8], largest: &[u8]| {
        let [smallest, largest] = [smallest, largest].map(Bytes::copy_from_slice);
        let more = KeyRange { smallest, largest, largest_excluded: false };
        match &mut range {
            Some(range) => range.extend(&more),
            None => range = Some(more),
        }
    };
    for to in [SeekTo::First, SeekTo::Last] {
        entries.go_to(to).ok()?;
        if entries.valid() {
            let key = entries.key().user_key;
            extend(key, key);
        }
    }
    for tombstone in mem.range_tombstones() {
        extend(&tombstone.start, &tombstone.end);
    }
    range
}

/// The memtable that may be flushed now. Of those before every cut it is the one with the oldest
/// log, because that log can then be removed.
fn flush_candidate(store: &Store, plans: &Plans) -> Option<(Arc<KeyspaceState>, Arc<MemSlot>)> {
    if plans.flushing.is_some() {
        return None;
    }
    let cut = plans.cuts.iter().min();
    let mut keyspaces = store.all_keyspaces();
    keyspaces.retain(|keyspace| !keyspace.is_dropped.load(Ordering::Acquire));
    let waiting = keyspaces.into_iter().filter_map(|keyspace| {
        let slot = keyspace.view().immutables.last().cloned()?;
        let first_log = slot.first_log()?;
        cut.is_none_or(|cut| first_log < *cut).then_some((first_log, keyspace, slot))
    });
    let oldest = waiting.min_by_key(|(log, keyspace, _)| (*log, keyspace.id));
    oldest.map(|(_, keyspace, slot)| (keyspace, slot))
}

fn flush_failed(store: &Store, error: EngineError) -> EngineError {
    let error = store.failed(error);
    // The current log may own a whole zone, most of it blank. It gives that back when it ends, and
    // the job tries again.
    if error.is_no_space() && !logs::give_back_room(store) {
        store.note_blocked_write();
    }
    error
}

fn end_flush(store: &Store) {
    let mut plans = store.plans.lock();
    if let Some(id) = plans.flushing.take()
        && let Some(state) = plans.keyspaces.get_mut(&id)
    {
        state.busy.flush = None;
    }
    drop(plans);
    store.refresh_space();
    store.runtime.scheduler.notify();
}

/// Whether a memtable waits for a flush that no job tries: the last one failed for want of space,
/// there is no more space since, and no running or due work could make some.
pub(crate) fn is_flush_blocked(store: &Store) -> bool {
    due::has_flush_due(store) && !store.may_try_to_write() && due::is_at_rest(store)
}

/// Flushes a memtable in the caller if the background does not try (R2).
///
/// # Errors
/// [`EngineError::Files`] if there is still no space.
pub(crate) fn flush_blocked(store: &Store) -> Result<(), EngineError> {
    flush_here(store, &|| !is_flush_blocked(store))
}

/// Flushes everything written so far.
pub(crate) fn flush_all(store: &Store) -> Result<(), EngineError> {
    let (_, frozen) = freeze_all(store)?;
    flush_frozen(store, &frozen)
}

/// Flushes everything written so far, and nothing written later while the cut stands (U1).
///
/// A writer that fills a memtable meanwhile may have to wait. Hold the cut only to look at the
/// state or to commit a name for it.
pub(crate) fn flush_to_cut(store: &Store) -> Result<Cut<'_>, EngineError> {
    let (writer, frozen) = freeze_all(store)?;
    let cut = Cut::before(store, writer.log());
    drop(writer);
    flush_frozen(store, &frozen)?;
    Ok(cut)
}

/// Locks the writer while no cut stands; cuts cannot be made while it is held (U2).
pub(crate) fn writer_without_cut(store: &Store) -> Result<MutexGuard<'_, Writer>, EngineError> {
    let has_cut = || !store.plans.lock().cuts.is_empty();
    let ends = gate::POISONED | gate::CLOSED;
    loop {
        let mut ready = || !has_cut() || store.gate() & ends != 0;
        let waited = store.runtime.scheduler.wait_until(&mut ready);
        waited.map_err(|_| EngineError::Stalled { what: "a checkpoint or backup" })?;
        let writer = store.writer.lock();
        store.check_going()?;
        if !has_cut() {
            return Ok(writer);
        }
    }
}

/// Freezes all memtables that are not empty. Returns the locked writer and the memtables to flush.
fn freeze_all(store: &Store) -> Result<(MutexGuard<'_, Writer>, Vec<Frozen>), EngineError> {
    store.runtime.scheduler.yield_now();
    store.check_poison()?;
    // A memtable that has found no room waits. Another one would only wait with it.
    while due::has_flush_due(store) && store.has_blocked_write() {
        store.check_open()?;
        flush_here(store, &|| !due::has_flush_due(store))?;
    }
    let mut writer = store.writer.lock();
    store.check_going()?;
    let all = store.all_keyspaces();
    if all.iter().any(|keyspace| !keyspace.view().active.mem.is_empty()) {
        logs::end(store, &mut writer, &|_| true)?;
    }
    let frozen = |keyspace: Arc<KeyspaceState>| {
        let slots = keyspace.view().immutables.clone();
        slots.into_iter().map(move |slot| (Arc::clone(&keyspace), slot))
    };
    Ok((writer, all.into_iter().flat_map(frozen).collect()))
}

/// Waits until all of `frozen` are in tables, or their keyspaces are dropped.
fn flush_frozen(store: &Store, frozen: &[Frozen]) -> Result<(), EngineError> {
    let is_done = || {
        frozen.iter().all(|(keyspace, slot)| {
            !keyspace.view().immutables.iter().any(|other| Arc::ptr_eq(slot, other))
        })
    };
    let ends = gate::POISONED | gate::CLOSED;
    while !is_done() {
        store.check_poison()?;
        store.check_open()?;
        if store.options.background_work {
            // There may be space again without an event that the background job sees.
            let mut ready = || is_done() || store.gate() & ends != 0 || store.has_blocked_write();
            let waited = store.runtime.scheduler.wait_until(&mut ready);
            waited.map_err(|_| EngineError::Stalled { what: "a flush" })?;
            if !is_done() && store.has_blocked_write() {
                flush_here(store, &is_done)?;
            }
        } else {
            flush_here(store, &is_done)?;
        }
    }
    store.check_poison()
}

/// Flushes one memtable in the caller. If a job is flushing, or a cut holds back all memtables,
/// waits until one can be flushed or `is_over` returns true.
fn flush_here(store: &Store, is_over: &dyn Fn() -> bool) -> Result<(), EngineError> {
    store.check_poison()?;
    let Some(mut flush) = next_flush(store, true) else {
        let ends = gate::POISONED | gate::CLOSED;
        let has_candidate = || flush_candidate(store, &store.plans.lock()).is_some();
        let mut ready = || is_over() || store.gate() & ends != 0 || has_candidate();
        let waited = store.runtime.scheduler.wait_until(&mut ready);
        return waited.map_err(|_| EngineError::Stalled { what: "a flush" });
    };
    let _turn = CallerFlush { store };
    loop {
        match flush.step(store, imbrex_clockwork::BUDGET_DEFAULT.io_bytes) {
            Ok(false) => {}
            Ok(true) => return Ok(()),
            Err(error) => return Err(flush_failed(store, error)),
        }
    }
}

/// A flush that the caller runs. It ends when dropped, even after a panic.
struct CallerFlush<'a> {
    store: &'a Store,
}

impl Drop for CallerFlush<'_> {
    fn drop(&mut self) {
        end_flush(self.store);
    }
}

/// A memtable that waits for its flush, with its keyspace.
type Frozen = (Arc<KeyspaceState>, Arc<MemSlot>);

/// A moment in the order of writes at which the tables are held (U1).
#[derive(Debug)]
#[must_use = "the cut stands as long as this lives"]
pub(crate) struct Cut<'a> {
    store: &'a Store,
    log: LogId,
}

impl Cut<'_> {
    /// The caller holds the writer, so no later write goes to an older log.
    fn before(store: &Store, log: LogId) -> Cut<'_> {
        store.plans.lock().cuts.push(log);
        Cut { store, log }
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        let mut plans = self.store.plans.lock();
        let at = plans.cuts.iter().position(|log| *log == self.log);
        plans.cuts.swap_remove(at.expect("a cut is in the list as long as it lives"));
        drop(plans);
        self.store.runtime.scheduler.notify();
    }
}

/// Flushes memtables until the store closes.
#[derive(Debug)]
pub(crate) struct FlushJob {
    store: Counted<Arc<Store>>,
    current: Option<Flush>,
}

impl FlushJob {
    pub(crate) fn new(store: Arc<Store>) -> FlushJob {
        FlushJob { store: store.jobs.count(Arc::clone(&store)), current: None }
    }

    fn let_go(&mut self) {
        if self.current.take().is_some() {
            end_flush(&self.store);
        }
    }
}

impl Job for FlushJob {
    fn name(&self) -> &'static str {
        "flush"
    }

    fn step(&mut self, budget: Budget) -> Step {
        if self.store.is_closing.load(Ordering::Acquire) {
            self.let_go();
            return Step::Done;
        }
        if self.current.is_none() {
            self.current = next_flush(&self.store, false);
        }
        let Some(flush) = &mut self.current else { return Step::Wait };
        match flush.step(&self.store, budget.io_bytes) {
            Ok(false) => Step::More,
            Ok(true) => {
                self.let_go();
                Step::More
            }
            Err(error) => {
                let _ = flush_failed(&self.store, error);
                self.let_go();
                Step::Wait
            }
        }
    }
}

impl Drop for FlushJob {
    fn drop(&mut self) {
        self.let_go();
    }
}
