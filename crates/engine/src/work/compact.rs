//! Compactions: the background job that carries out plans.
//!
//! ```text
//!   step:  no plan in hand -> ask the policies -> a plan, or wait
//!          a plan in hand  -> merge a stretch  -> more, or commit and release
//! ```

use crate::EngineError;
use crate::compaction::busy::KeyspacePlans;
use crate::compaction::merge::output::{OutputSpec, Outputs, Replaced, Source};
use crate::compaction::merge::streams::Streams;
use crate::compaction::merge::task::{MergeSpec, MergeTask};
use crate::compaction::plan::Output;
use crate::compaction::plan::{Plan, Work};
use crate::compaction::policy::{policy, sets};
use crate::compaction::routes::Router;
use crate::compaction::situation::{ManualPlan, ManualRange};
use crate::error::DAMAGE_ADVICE;
use crate::merge::MergingIter;
use crate::metrics::CompactionLine;
use crate::options::CompactionKind;
use crate::range_del::{FragmentedTombstones, RangeTombstone};
use crate::read::run::RunView;
use crate::store::commit::Change;
use crate::store::due;
use crate::store::job_count::Counted;
use crate::store::keyspace::KeyspaceState;
use crate::store::{Store, gate};
use crate::table::{LevelIter, StopMark, TableReadOptions};
use crate::version::edit::{TableAdd, ValuesPlaced, VersionEdit};
use crate::version::partitions::BASE_LEVEL;
use crate::version::{KeyRange, TableId, TableSlot};
use crate::watch::Watch;
use crate::work::manual_progress::ManualProgress;
use bytes::Bytes;
use imbrex_clockwork::{Budget, Job, Step};
use imbrex_files::{Activity, CommitKind, GroupId, Tier};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How a compaction failed.
#[derive(Debug)]
pub(crate) struct Failure {
    error: EngineError,
    /// The input that could not be read, if that was the failure. In that case nothing is in doubt.
    unread: Option<TableId>,
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        Failure { error, unread: None }
    }
}

/// A running compaction.
#[derive(Debug)]
pub(crate) struct Running {
    keyspace: Arc<KeyspaceState>,
    plan: Plan,
    group: GroupId,
    /// `None` for a move.
    task: Option<MergeTask<MergingIter<LevelIter<RunView>>>>,
    start_ns: u64,
    /// The first input of a merge that has not read all entries (P6).
    miscounted: Option<TableId>,
}

impl Running {
    fn start(store: &Store, keyspace: Arc<KeyspaceState>, plan: Plan) -> Result<Running, Failure> {
        let group = GroupId(store.new_id());
        let start_ns = store.runtime.clock.now_ns();
        let mut running = Running { keyspace, plan, group, task: None, start_ns, miscounted: None };
        if running.plan.work == Work::Merge {
            running.task = Some(running.merge(store)?);
        }
        Ok(running)
    }

    fn merge(&self, store: &Store) -> Result<MergeTask<MergingIter<LevelIter<RunView>>>, Failure> {
        let read = TableReadOptions {
            fill_cache: false,
            read_ahead_bytes: store.options.compaction_read_len_bytes,
            sequential: true,
            activity: Activity::Compaction,
            until: self.until().cloned(),
            ..TableReadOptions::default()
        };
        let mut tombstones = Vec::new();
        for input in &self.plan.inputs {
            for slot in input.tables.iter().filter(|slot| slot.meta.range_tombstone_count > 0) {
                let mut list = Vec::new();
                let own = slot.range_tombstones(&store.cache);
                let own = own.map_err(|error| Failure { error, unread: Some(slot.meta.id) })?;
                match self.until() {
                    Some(until) => list_tombstones(&own.truncate(None, Some(until)), &mut list),
                    None => list_tombstones(&own, &mut list),
                }
                tombstones.extend(list.into_iter().map(|tombstone| (input.level, tombstone)));
            }
        }
        let sources = self.plan.inputs.iter().map(|input| {
            let cache = Arc::clone(&store.cache);
            LevelIter::new(RunView { tables: input.tables.clone(), cache }, read.clone())
        });
        let levels = self.plan.inputs.iter().map(|input| input.level).collect();
        let gone = self.plan.tables().filter(|slot| !self.plan.keeps_rest_of(slot));
        let replaced: Arc<[u64]> = gone.map(|slot| slot.meta.id.0).collect();
        let spec = MergeSpec {
            snapshots: store.snapshots.list(),
            tombstones,
            outputs: self
                .plan
                .outputs
                .iter()
                .map(|output| self.output_spec(store, output, &replaced))
                .collect(),
            router: self.plan.routes.clone().map(|routes| Router::new(routes, levels)),
            until: self.until().cloned(),
            // The flash drive is for what waits there, not for what stays.
            apart_len_bytes: if self.plan.tables().any(|slot| slot.is_on_flash()) {
                0
            } else {
                self.keyspace.fitted.values_apart_from_bytes as usize
            },
        };
        Ok(MergeTask::new(MergingIter::new(sources.collect()), spec))
    }

    /// The first key that is not merged, if the plan stops before the end of its inputs.
    fn until(&self) -> Option<&Bytes> {
        self.plan.stop.as_ref().map(|stop| &stop.until)
    }

    fn output_spec(&self, store: &Store, output: &Output, replaced: &Arc<[u64]>) -> OutputSpec {
        let grain_bytes = store.files.space().grain_bytes;
        let table_len_bytes = self.keyspace.fitted.table_len_bytes;
        let gives_back = self.plan.gives_back(grain_bytes, table_len_bytes, store);
        let (streams, cuts) = self.streams_of(output);
        OutputSpec {
            source: Source::Tables { gives_back },
            keyspace: self.keyspace.id,
            level: output.level,
            run: output.run,
            group: self.group,
            options: self.keyspace.fitted.clone(),
            is_bottom: output.is_bottom,
            grandparents: output.grandparents.clone(),
            borders: borders(&output.staying, &cuts),
            streams,
            tombstones: FragmentedTombstones::default(),
            is_together: self.plan.outputs_together,
            tier: Tier::Main,
            band: None,
            replaces: Replaced {
                tables: Arc::clone(replaced),
                stop: self.plan.stop.as_ref().map(|stop| StopMark {
                    until: stop.until.to_vec(),
                    kept: stop.rest.iter().map(|(_, _, meta)| meta.id.0).collect(),
                }),
                ..Replaced::default()
            },
        }
    }

    /// The streams of an output, and where partitions begin: tables above the base end there.
    fn streams_of(&self, output: &Output) -> (Streams, Vec<Bytes>) {
        let (id, view) = (self.keyspace.id, self.keyspace.view());
        let version = &view.version;
        if self.keyspace.fitted.compaction != CompactionKind::Lazy {
            (Streams::one(id), Vec::new())
        } else if output.level == BASE_LEVEL {
            (Streams::of_base(id, version, &self.plan.range), Vec::new())
        } else {
            (Streams::of_partitions(id, version), version.partitions.cuts.clone())
        }
    }

    /// Works on about `len_bytes`; returns true once the compaction is durable.
    fn step(&mut self, store: &Store, len_bytes: u64) -> Result<bool, Failure> {
        let went = self.go_on(store, len_bytes);
        went.map_err(|error| Failure { error, unread: self.unread().or(self.miscounted) })
    }

    fn go_on(&mut self, store: &Store, len_bytes: u64) -> Result<bool, EngineError> {
        let Some(task) = &mut self.task else {
            let change = self.move_tables();
            store.commit(change)?;
            self.report(store, &Outputs::default(), (0, 0));
            return Ok(true);
        };
        let is_merged = task.step(store, len_bytes)?;
        store.tally.background_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        if !is_merged {
            let entry_count = task.entry_counts().0;
            let mut plans = store.plans.lock();
            if let Some(state) = plans.keyspaces.get_mut(&self.keyspace.id) {
                state.busy.note_progress(&self.plan, entry_count);
            }
            drop(plans);
            // Slowed writers wait for this much progress.
            if store.gate() & gate::SLOWDOWN != 0 {
                store.runtime.scheduler.notify();
            }
            return Ok(false);
        }
        let counts = task.entry_counts();
        self.check_count(counts.0)?;
        let Some(task) = self.task.take() else { return Ok(true) };
        let outputs = task.finish(store)?;
        self.report(store, &outputs, counts);
        let kind = CommitKind::Upkeep;
        let mut change =
            Change { add: outputs.files, ends: outputs.ends, kind, ..Change::default() };
        change.edit.tables_added = outputs.added;
        let keyspace = self.keyspace.id;
        let placed = outputs.values.placed.into_iter();
        change.edit.values_placed = placed
            .map(|(origin, len_bytes)| ValuesPlaced { keyspace, origin, file: origin, len_bytes })
            .collect();
        let released = outputs.values.released.into_iter();
        change.edit.values_released =
            released.map(|(origin, len_bytes)| (keyspace, origin, len_bytes)).collect();
        for slot in self.plan.tables() {
            change.edit.tables_removed.push((self.keyspace.id, slot.meta.id));
        }
        let gone = self.plan.tables().filter(|slot| !self.plan.keeps_rest_of(slot));
        change.remove.extend(gone.map(|slot| slot.meta.id.file_name()));
        let rest = self.plan.stop.iter().flat_map(|stop| stop.rest.iter().cloned());
        change.edit.tables_added.extend(rest.map(|(level, run, meta)| TableAdd {
            keyspace: self.keyspace.id,
            level,
            run,
            meta,
        }));
        self.change_partitions(&mut change.edit);
        store.commit(change)?;
        Ok(true)
    }

    /// Checks that the merge has read every entry of its inputs, before they go (P6).
    fn check_count(&mut self, read_count: u64) -> Result<(), EngineError> {
        let is_partial =
            self.plan.stop.is_some() || self.plan.tables().any(|slot| slot.meta.has_front);
        let expected: u64 = self.plan.tables().map(|slot| slot.meta.entry_count).sum();
        if is_partial || read_count == expected {
            return Ok(());
        }
        self.miscounted = self.plan.tables().next().map(|slot| slot.meta.id);
        Err(EngineError::Corrupt {
            structure: "compaction",
            file: self.miscounted.map(TableId::file_name).unwrap_or_default(),
            offset: 0,
            reason: format!(
                "{read_count} entries were read in \"{}\", whose tables have {expected}",
                self.plan
            ),
        })
    }

    /// Adds the plan's new partitions to `edit`.
    fn change_partitions(&self, edit: &mut VersionEdit) {
        let Some(new) = &self.plan.partitions else { return };
        let id = self.keyspace.id;
        let old = &self.keyspace.view().version.partitions;
        if new.cuts != old.cuts {
            edit.cuts.push((id, new.cuts.clone()));
        }
        if new.merge != old.merge {
            edit.base_merges.push((id, new.merge.clone()));
        }
    }

    /// The input that could not be read.
    fn unread(&self) -> Option<TableId> {
        let (run, at) = self.task.as_ref()?.iter().failed_source()?.place();
        run.tables.get(at).map(|slot| slot.meta.id)
    }

    /// The number of entries merged so far.
    fn entry_count(&self) -> u64 {
        self.task.as_ref().map_or(0, |task| task.entry_counts().0)
    }

    fn move_tables(&self) -> Change {
        let mut edit = VersionEdit::default();
        let mut level = Vec::new();
        let output = self.plan.output();
        for slot in self.plan.tables() {
            assert!(
                !slot.is_on_flash(),
                "table {} would stay on flash below level 0",
                slot.meta.id
            );
            edit.tables_removed.push((self.keyspace.id, slot.meta.id));
            edit.tables_added.push(TableAdd {
                keyspace: self.keyspace.id,
                level: output.level,
                run: output.run,
                meta: slot.meta.clone(),
            });
            level.push((slot.meta.id.file_name(), output.level));
        }
        Change { edit, level, kind: CommitKind::Upkeep, ..Change::default() }
    }

    fn report(&self, store: &Store, outputs: &Outputs, (entries, dropped): (u64, u64)) {
        // Values that stay where they are were not read.
        let placed_bytes: u64 = outputs.values.placed.values().sum();
        let in_len_bytes = match self.plan.work {
            Work::Move => 0,
            Work::Merge => self.plan.len_bytes().saturating_sub(placed_bytes),
        };
        let line = CompactionLine {
            start_ns: self.start_ns,
            end_ns: store.runtime.clock.now_ns(),
            keyspace: self.keyspace.name.clone(),
            plan: self.plan.to_string(),
            level: self.plan.inputs.first().map_or(0, |input| input.level),
            output_level: self.plan.output().level,
            input_table_count: self.plan.tables().count(),
            output_table_count: outputs.added.len(),
            set_count: self.set_count(),
            in_len_bytes,
            out_len_bytes: outputs.len_bytes(),
            outputs: outputs.lines(),
            entry_count: entries,
            dropped_count: dropped,
        };
        store.tally.compactions.lock().note(line, store.options.compaction_line_count_max);
    }

    /// The number of sets among the inputs that are in the level of the output.
    fn set_count(&self) -> usize {
        let level = self.plan.output().level;
        if !sets::is_set(&self.keyspace.fitted, level) {
            return 0;
        }
        let inputs = self.plan.inputs.iter().filter(|input| input.level == level);
        let tables = inputs.flat_map(|input| &input.tables);
        tables.map(|slot| slot.meta.group).collect::<BTreeSet<_>>().len()
    }
}

/// Where tables end: before those that stay, and at cuts.
fn borders(staying: &[Arc<TableSlot>], cuts: &[Bytes]) -> Vec<Bytes> {
    let mut borders: Vec<_> = staying.iter().map(|slot| slot.meta.smallest.clone()).collect();
    borders.extend_from_slice(cuts);
    borders.sort();
    borders.dedup();
    borders
}

/// The first key of the level that comes after a step of a manual compaction; `None` if the step leaves
/// something to do before its end.
fn reach(plan: &Plan) -> Option<Bytes> {
    let input = plan.inputs.first()?;
    if plan.inputs.iter().all(|input| input.level == plan.output().level) {
        // With routes, older tables over the same keys are still to do.
        return plan.routes.is_none().then(|| plan.range.end());
    }
    if plan.stop.is_some() {
        // The rest of the table is still to do.
        return None;
    }
    KeyRange::of(input.tables.iter().map(|slot| &slot.meta)).map(|range| range.end())
}

/// Adds the range tombstones of a table to a list.
pub(crate) fn list_tombstones(from: &FragmentedTombstones, into: &mut Vec<RangeTombstone>) {
    for fragment in from.fragments() {
        for &seq in fragment.seqs {
            let (start, end) = (fragment.start.clone(), fragment.end.clone());
            into.push(RangeTombstone { start, end, seq });
        }
    }
}

/// A plan that the caller runs. It ends when dropped, even if the watch panics.
struct CallerPlan<'a> {
    store: &'a Store,
    keyspace: &'a KeyspaceState,
    plan: Option<Plan>,
}

impl Drop for CallerPlan<'_> {
    fn drop(&mut self) {
        let Some(plan) = self.plan.take() else { return };
        end_compaction(self.store, self.keyspace, plan);
        if self.store.plans.lock().is_idle() && self.store.compacting.rest() {
            self.store.refresh_gate();
        }
    }
}

/// The most urgent compaction of all keyspaces, marked as running.
fn next_compaction(store: &Store) -> Option<(Arc<KeyspaceState>, Plan)> {
    let mut plans = store.plans.lock();
    if store.gate() & gate::ENDS != 0 {
        return None;
    }
    let is_first = !plans.is_compacting();
    let mut is_blocked = false;
    let mut blocked_by = None;
    let room = store.room();
    for keyspace in due::compacted_keyspaces(store) {
        let state = plans.keyspaces.entry(keyspace.id).or_default();
        if let Some(plan) = due::plan(store, &keyspace, state, room) {
            begin_compaction(store, state, &plan, is_first);
            store.is_compaction_blocked.store(false, Ordering::Release);
            return Some((keyspace, plan));
        }
        // A memtable that waits for its flush does not concern compaction: the flush may only not
        // have begun yet.
        if state.busy.is_idle() && keyspace.is_stalled_by_compaction() {
            // If there were a plan with more room on the drive or in the catalog, then room is
            // missing.
            let is_for_room =
                || due::due(store, &keyspace, state, due::boundless_room(store)).is_some();
            match state.busy.blocked_by().filter(|_| !is_for_room()) {
                Some(why) => blocked_by = Some(why.to_owned()),
                None => is_blocked = true,
            }
        }
    }
    let is_idle = plans.is_idle();
    if is_idle && store.compacting.rest() && store.minds_slack() {
        // Writers no longer wait for space that only a compaction would bring back.
        store.refresh_gate();
        store.runtime.scheduler.notify();
    }
    if let Some(why) = blocked_by.filter(|_| is_idle) {
        store.refuse_writes(plans, why);
        return None;
    }
    let is_blocked = is_blocked && is_idle;
    let was_blocked = store.is_compaction_blocked.swap(is_blocked, Ordering::AcqRel);
    drop(plans);
    // Only when it begins: a job that wakes itself at every look would never rest.
    if is_blocked && !was_blocked {
        // If a compaction failed for want of space, the space before that one counts.
        if store.room_max_bytes.load(Ordering::Acquire) == u64::MAX {
            store.note_compaction_try();
        }
        store.refresh_space();
        store.runtime.scheduler.notify();
    }
    None
}

/// Marks `plan` as running; `is_first` if no other plan runs.
fn begin_compaction(store: &Store, state: &mut KeyspacePlans, plan: &Plan, is_first: bool) {
    if is_first {
        store.note_compaction_try();
    }
    state.start(plan);
    store.compacting.begin(is_first);
    if store.minds_slack() {
        store.refresh_gate();
    }
}

fn end_compaction(store: &Store, keyspace: &KeyspaceState, plan: Plan) {
    let mut plans = store.plans.lock();
    plans.keyspaces.entry(keyspace.id).or_default().busy.finish(&plan);
    plans.ended_count += 1;
    let is_last = !plans.is_compacting();
    drop(plans);
    drop(plan);
    store.compacting.note_end(store.runtime.clock.now_ns(), is_last);
    store.refresh_space();
    store.runtime.scheduler.notify();
}

/// Merges all of `range` down to the last level that holds any of it. The caller does the work.
pub(crate) fn compact_range(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    range: &ManualRange,
    watch: &mut Watch<'_>,
) -> Result<(), EngineError> {
    let mut progress = ManualProgress::new(watch);
    // Including the last level: its data cannot go further down, but it may hold deletes.
    for level in 0..crate::version::LEVEL_COUNT as u8 {
        let mut from: Option<Bytes> = None;
        progress.enter_level(&keyspace.view().version, range, level);
        loop {
            store.check_poison()?;
            store.check_open()?;
            store.runtime.scheduler.yield_now();
            progress.waiting()?;
            let (next, ended_count) = next_manual(store, keyspace, range, level, from.as_deref())?;
            match next {
                ManualPlan::LevelDone => break,
                ManualPlan::Wait => wait_for_plans(store, ended_count, &mut progress)?,
                ManualPlan::Run(plan) => {
                    // Never moves back: a part that was rewritten once is done.
                    from = from.max(reach(&plan).filter(|_| level > 0));
                    run_here(store, keyspace, *plan, &mut progress)?;
                    // The next step is planned with the space of these inputs. An error meets the next
                    // write as well.
                    let _ = store.files.reclaim();
                }
            }
        }
    }
    Ok(())
}

fn next_manual(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    range: &ManualRange,
    level: u8,
    from: Option<&[u8]>,
) -> Result<(ManualPlan, u64), EngineError> {
    let mut plans = store.plans.lock();
    // Under the lock: a drop of the keyspace checks under it for running plans.
    keyspace.check_exists()?;
    let is_first = !plans.is_compacting();
    let ended_count = plans.ended_count;
    let state = plans.keyspaces.entry(keyspace.id).or_default();
    let view = keyspace.view_arc();
    let situation = due::situation(store, keyspace, &view.version, state, store.room());
    let policy = policy(keyspace.fitted.compaction);
    let next = policy.plan_manual(&situation, level, range, from);
    match &next {
        ManualPlan::Run(plan) => begin_compaction(store, state, plan, is_first),
        // No plan runs that this call could wait for.
        ManualPlan::Wait if state.busy.is_idle() && state.busy.flush.is_none() => {
            if let Some(why) = state.busy.blocked_by() {
                return Err(EngineError::SetAside { reason: why.to_owned() });
            }
        }
        ManualPlan::Wait | ManualPlan::LevelDone => {}
    }
    Ok((next, ended_count))
}

/// Handles the failure of a compaction. Without space, the next try is smaller. An input that could
/// not be read is read again: a drive error may pass, and a compaction that only read has changed
/// nothing. A permanently damaged table is set aside (P5).
fn compaction_failed(
    store: &Store,
    keyspace: &KeyspaceState,
    plan: &Plan,
    failure: Failure,
) -> EngineError {
    store.tally.compactions.lock().note_failure(plan.to_string());
    let Failure { error, unread } = failure;
    if let Some(table) = unread {
        let mut plans = store.plans.lock();
        if plans.may_read_again(table) {
            store.tally.read_failure_count.fetch_add(1, Ordering::Relaxed);
            return error;
        }
        if error.is_damage() {
            let why = format!("{error}; {DAMAGE_ADVICE}");
            plans.set_aside(keyspace.id, table, why.clone());
            if plans.is_drive_failing() {
                let why = format!("too many tables cannot be read; the last one: {why}");
                store.refuse_writes(plans, why);
            }
            return error;
        }
    }
    let error = store.failed(error);
    if !error.is_no_space() {
        return error;
    }
    if plan.work == Work::Move {
        store.note_blocked_write();
        return error;
    }
    let grain_bytes = store.files.space().grain_bytes;
    let half = plan.cost_bytes(grain_bytes, keyspace.fitted.table_len_bytes) / 2;
    store.room_max_bytes.fetch_min(half, Ordering::AcqRel);
    error
}

fn run_here(
    store: &Store,
    keyspace: &Arc<KeyspaceState>,
    plan: Plan,
    progress: &mut ManualProgress<'_, '_>,
) -> Result<(), EngineError> {
    let held = CallerPlan { store, keyspace, plan: Some(plan) };
    let plan = held.plan.as_ref().expect("it is held until then");
    let done = Running::start(store, Arc::clone(keyspace), plan.clone()).and_then(|mut run| {
        while !run.step(store, imbrex_clockwork::BUDGET_DEFAULT.io_bytes)? {
            store.check_open()?;
            store.runtime.scheduler.yield_now();
            progress.within(plan, run.entry_count())?;
        }
        progress.passed(plan);
        Ok(())
    });
    done.map_err(|failure| compaction_failed(store, keyspace, plan, failure))
}

/// Waits until the number of ended compactions of the store differs from `ended_count`.
fn wait_for_plans(
    store: &Store,
    ended_count: u64,
    progress: &mut ManualProgress<'_, '_>,
) -> Result<(), EngineError> {
    let mut stopped = Ok(());
    let mut ready = || {
        stopped = progress.waiting();
        let plans = store.plans.lock();
        stopped.is_err()
            || plans.ended_count != ended_count
            || plans.is_idle()
            || store.gate() & gate::POISONED != 0
    };
    let waited = store.runtime.scheduler.wait_until(&mut ready);
    waited.map_err(|_| EngineError::Stalled { what: "a running compaction" })?;
    stopped
}

/// Runs compactions until the store closes.
#[derive(Debug)]
pub(crate) struct CompactionJob {
    store: Counted<Arc<Store>>,
    current: Option<Running>,
}

impl CompactionJob {
    pub(crate) fn new(store: Arc<Store>) -> CompactionJob {
        CompactionJob { store: store.jobs.count(Arc::clone(&store)), current: None }
    }

    fn let_go(&mut self) {
        if let Some(run) = self.current.take() {
            let Running { keyspace, plan, task, .. } = run;
            // The readers of the inputs are dropped first, so that a caller woken by the end can
            // reclaim their space.
            drop(task);
            end_compaction(&self.store, &keyspace, plan);
        }
    }

    fn advance(&mut self, budget: Budget) -> Result<Step, Failure> {
        let store = &self.store;
        if self.current.is_none() {
            let Some((keyspace, plan)) = next_compaction(store) else { return Ok(Step::Wait) };
            let started = Running::start(store, Arc::clone(&keyspace), plan.clone());
            match started {
                Ok(run) => self.current = Some(run),
                Err(failure) => {
                    let _ = compaction_failed(store, &keyspace, &plan, failure);
                    end_compaction(store, &keyspace, plan);
                }
            }
            return Ok(Step::More);
        }
        let Some(run) = &mut self.current else { return Ok(Step::More) };
        if run.step(store, budget.io_bytes)? {
            self.let_go();
        }
        Ok(Step::More)
    }
}

impl Job for CompactionJob {
    fn name(&self) -> &'static str {
        "compact"
    }

    fn step(&mut self, budget: Budget) -> Step {
        if self.store.is_closing.load(Ordering::Acquire) {
            self.let_go();
            return Step::Done;
        }
        match self.advance(budget) {
            Ok(step) => step,
            Err(failure) => {
                let store = Arc::clone(&self.store);
                if let Some(run) = &self.current {
                    let _ = compaction_failed(&store, &run.keyspace, &run.plan, failure);
                }
                self.let_go();
                Step::Wait
            }
        }
    }
}

impl Drop for CompactionJob {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[cfg(test)]
mod tests;
