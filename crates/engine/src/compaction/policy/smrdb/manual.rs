//! Manual compaction: the tables go down to level 1, and level 1 becomes one sorted run.
//!
//! ```text
//!   newest   |=====a=====|   |==b==|      a heap: tables connected by overlaps
//!            |==c==|==d==|==e==|
//!   oldest      |=====f=====|==g==|
//!            |-- a piece --|until         what is before `until` is merged; c and f go on behind it
//! ```
//!
//! One merge of a heap would need room for all of it twice, and a crash would lose all of it. So a
//! heap of more tables than one merge may take, or than the drive has room for, goes in steps, and
//! each step is one commit:
//!
//!   - A *piece* takes all tables of the heap from its first key up to a key where a table begins. A
//!     table that goes on behind that key gets a front there (V5).
//!   - A *window* is what neighbouring runs have in the heap. Its output takes the place of the
//!     newest of them. The newest windows go first.
//!
//! Invariants
//!   M1  Before the end of a piece there are only its outputs. Until a table that goes on ends, it
//!       keeps its space. So while pieces run, a heap takes at most the length of the tables over
//!       one key more than before, and the piece itself. If the room is less than that, windows make
//!       long tables into many short ones, and fewer of these are over one key.
//!   M2  Between the runs of a window there is no other table of the heap, and no other table overlaps
//!       the heap. So the output is as old as its newest input (V2), and hides nothing that is newer.
//!   M3  Each step ends tables, or moves fronts to a key where another table of the heap begins.
//!
//! Not here: how a merge stops before the end of its inputs (`work::compact`).

use crate::compaction::plan::{Reason, Stop, Work};
use crate::compaction::policy::closure::{Placed, TableClosure, placed};
use crate::compaction::policy::smrdb::INPUT_TABLE_COUNT_MAX;
use crate::compaction::policy::smrdb::making::{build, make, unless_busy};
use crate::compaction::situation::{ManualPlan, ManualRange, Situation};
use crate::version::cover::by_key;
use crate::version::{KeyRange, Level, RunId};
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The largest number of tables that change their run in one commit. It bounds the length of the
/// edit.
const MOVE_TABLE_COUNT_MAX: usize = 64;

/// Manual compaction of level 0: the oldest run moves above level 1. Only tables on flash are
/// rewritten.
pub(super) fn take_down(situation: &Situation<'_>, range: &ManualRange) -> ManualPlan {
    let level_0 = &situation.version.levels[0];
    let mut wanted = TableClosure::default();
    for (run, table) in placed(level_0) {
        if level_0.runs[run].id <= range.run_max && range.overlaps(&table) {
            wanted.close_over_older(level_0, (run, table));
        }
    }
    let Some(oldest) = wanted.tables.iter().map(|(run, _)| *run).max() else {
        return ManualPlan::LevelDone;
    };
    wanted.tables.retain(|(run, _)| *run == oldest);
    wanted.ids = wanted.metas().map(|meta| meta.id).collect();
    let work = if wanted.is_on_flash() { Work::Merge } else { Work::Move };
    // If the plan does not fit, run it anyway: its error reports to the caller how much space is
    // missing.
    let plan = unless_busy(situation, &wanted, &TableClosure::default(), work, Reason::Manual);
    plan.map_or(ManualPlan::Wait, |plan| ManualPlan::Run(Box::new(plan)))
}

/// Manual compaction of level 1: merges the tables of each heap, step by step. When no overlaps are
/// left, all tables join one run.
pub(super) fn put_in_order(
    situation: &Situation<'_>,
    range: &ManualRange,
    from: Option<&[u8]>,
) -> ManualPlan {
    let heaps = heaps(&situation.version.levels[1]);
    for (at, heap) in heaps.iter().enumerate() {
        let reaches = heap.tables.iter().any(|(_, table)| range.overlaps(table));
        let is_next = from.is_none_or(|from| heap.metas().all(|meta| meta.smallest >= *from));
        let has_deletes = heap.metas().any(|meta| meta.has_deletes());
        // The file of a table with a front has entries that only take space.
        let has_front = heap.metas().any(|meta| meta.has_front);
        let is_in_order = heap.tables.len() == 1 && !has_front;
        if reaches && (!is_in_order || is_next && has_deletes) {
            let before = at.checked_sub(1).map(|before| &heaps[before]);
            return next_step(situation, before, heap);
        }
    }
    unite_runs(situation)
}

/// The next step for a heap, and for the heap `before` it if that is short.
fn next_step(
    situation: &Situation<'_>,
    before: Option<&TableClosure>,
    heap: &TableClosure,
) -> ManualPlan {
    let is_small = heap.tables.len() <= INPUT_TABLE_COUNT_MAX;
    let len_bytes: u64 = heap.metas().map(|meta| meta.len_bytes).sum();
    if is_small && len_bytes <= len_bytes_max(situation, 0) {
        return Step::whole(with_short(situation, before, heap)).plan(situation);
    }
    let cuts = Cuts::of(heap);
    let open_bytes = cuts.open_bytes_max(heap, situation.room.grain_bytes);
    let piece = |until: usize| {
        let (until, len_bytes) = (cuts.keys[until].clone(), cuts.len_bytes_before[until]);
        let begun = heap.tables.iter().filter(|(_, table)| table.meta.smallest < until);
        let begun = closure_of(begun.cloned());
        let stop = Some((until, len_bytes));
        Step { chosen: with_short(situation, before, &begun), stop, run: None }
    };
    let step = cuts.last_within(len_bytes_max(situation, open_bytes)).map(piece);
    let step = step.or_else(|| window(situation, heap));
    // If nothing fits, the smallest step runs anyway: its error reports to the caller how much space
    // is missing.
    let step = step.or_else(|| (!cuts.keys.is_empty()).then(|| piece(0)));
    step.unwrap_or_else(|| Step::whole(heap.clone())).plan(situation)
}

/// How much one step may merge while `held_bytes` of the room are spoken for.
fn len_bytes_max(situation: &Situation<'_>, held_bytes: u64) -> u64 {
    let table_len_bytes = situation.options.table_len_bytes;
    // Of the outputs, the last one is short, and another one is cut short by a border.
    let short_bytes = 2 * situation.room.grain_bytes;
    let room_bytes = situation.room.len_bytes.saturating_sub(held_bytes);
    let all_bytes = table_len_bytes.saturating_mul(INPUT_TABLE_COUNT_MAX as u64);
    room_bytes.saturating_sub(short_bytes).min(all_bytes)
}

/// `chosen` with the table before it, if that takes much more space than it fills: the last output of
/// a step is short, and the next step makes it long.
fn with_short(
    situation: &Situation<'_>,
    before: Option<&TableClosure>,
    chosen: &TableClosure,
) -> TableClosure {
    let mut all = chosen.clone();
    if let Some([placed]) = before.map(|before| &before.tables[..])
        && placed.1.meta.len_bytes * 2 <= situation.room.grain_bytes
        && chosen.tables.len() < INPUT_TABLE_COUNT_MAX
        && !situation.busy.has_table(&placed.1)
    {
        all.ids.insert(placed.1.meta.id);
        all.tables.push(placed.clone());
    }
    all
}

fn closure_of(tables: impl Iterator<Item = Placed>) -> TableClosure {
    let tables: Vec<_> = tables.collect();
    let ids = tables.iter().map(|(_, table)| table.meta.id).collect();
    TableClosure { tables, ids }
}

/// One commit of a manual compaction.
struct Step {
    chosen: TableClosure,
    /// The key before which the merge stops, and about how many bytes it merges.
    stop: Option<(Bytes, u64)>,
    /// The run of the output; `None` if nothing else overlaps it.
    run: Option<RunId>,
}

impl Step {
    fn whole(chosen: TableClosure) -> Step {
        Step { chosen, stop: None, run: None }
    }

    fn plan(self, situation: &Situation<'_>) -> ManualPlan {
        let Step { chosen, stop, run } = self;
        let Some(mut range) = KeyRange::of(chosen.metas()) else { return ManualPlan::LevelDone };
        if let Some((until, _)) = &stop {
            (range.largest, range.largest_excluded) = (until.clone(), true);
        }
        if !chosen.is_free(situation) || situation.busy.writes_to(1, &range) {
            return ManualPlan::Wait;
        }
        let none = TableClosure::default();
        let mut plan = make(situation, &none, &chosen, Work::Merge, Reason::Manual, range);
        let runs = &situation.version.levels[1].runs;
        // What overlaps nothing has no age to preserve, so it joins the newest run.
        let joins =
            run.or_else(|| runs.first().map(|run| run.id).filter(|_| plan.output().is_bottom));
        if let (Some(joins), Some(output)) = (joins, plan.outputs.first_mut()) {
            output.run = RunId(joins.0.max(1));
        }
        plan.stop = stop.and_then(|(until, len_bytes)| {
            let rest = chosen.tables.iter().filter_map(|(run, table)| {
                Some((1, runs[*run].id, table.meta.with_front_at(&until)?))
            });
            let rest: Vec<_> = rest.collect();
            (!rest.is_empty()).then_some(Stop { until, rest, len_bytes })
        });
        ManualPlan::Run(Box::new(plan))
    }
}

/// Where a piece of a heap may stop.
struct Cuts {
    /// The keys at which tables begin, but for the first.
    keys: Vec<Bytes>,
    /// For each key: about how many bytes of the heap are before it, as if each table were spread evenly over
    /// the keys inside it.
    len_bytes_before: Vec<u64>,
}

impl Cuts {
    fn of(heap: &TableClosure) -> Cuts {
        let starts: BTreeSet<_> = heap.metas().map(|meta| meta.smallest.clone()).collect();
        let keys: Vec<_> = starts.into_iter().skip(1).collect();
        let mut len_bytes_before = vec![0; keys.len()];
        for meta in heap.metas() {
            let inside = inside(&keys, &meta.range());
            let share_bytes = meta.len_bytes / (inside.len() as u64 + 1);
            let (first, end) = (inside.start, inside.end);
            for (at, sum) in len_bytes_before.iter_mut().enumerate().skip(first) {
                let is_whole = at >= end;
                let part = share_bytes * (at - first + 1) as u64;
                *sum += if is_whole { meta.len_bytes } else { part };
            }
        }
        Cuts { keys, len_bytes_before }
    }

    /// The space of the tables that are begun but not ended at a key, at most. Each takes a multiple of
    /// `grain_bytes`.
    fn open_bytes_max(&self, heap: &TableClosure, grain_bytes: u64) -> u64 {
        let mut steps = vec![0_i128; self.keys.len() + 1];
        for meta in heap.metas() {
            let inside = inside(&self.keys, &meta.range());
            let space_bytes = meta.len_bytes.next_multiple_of(grain_bytes.max(1));
            steps[inside.start] += i128::from(space_bytes);
            steps[inside.end] -= i128::from(space_bytes);
        }
        let open = steps.iter().scan(0, |open, step| {
            *open += step;
            Some(*open)
        });
        u64::try_from(open.max().unwrap_or(0)).unwrap_or(u64::MAX)
    }

    /// The index of the last key with no more than `len_bytes` before it.
    fn last_within(&self, len_bytes: u64) -> Option<usize> {
        self.len_bytes_before.partition_point(|before| *before <= len_bytes).checked_sub(1)
    }
}

/// The indexes of the `keys` inside `range`, but for its first key.
fn inside(keys: &[Bytes], range: &KeyRange) -> Range<usize> {
    let first = keys.partition_point(|key| *key <= range.smallest);
    let end = keys.partition_point(|key| !range.ends_before(key));
    first..end.max(first)
}

/// The window with the most runs that a step may take; of several, the newest. `None` if no two
/// neighbouring runs are short enough.
fn window(situation: &Situation<'_>, heap: &TableClosure) -> Option<Step> {
    let mut runs: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
    for (run, table) in &heap.tables {
        let (count, len_bytes) = runs.entry(*run).or_default();
        (*count, *len_bytes) = (*count + 1, *len_bytes + table.meta.len_bytes);
    }
    let runs: Vec<_> = runs.into_iter().collect();
    let bytes_max = len_bytes_max(situation, 0);
    let fits = |runs: &[(usize, (usize, u64))]| {
        let count: usize = runs.iter().map(|(_, (count, _))| count).sum();
        let len_bytes: u64 = runs.iter().map(|(_, (_, len_bytes))| len_bytes).sum();
        count <= INPUT_TABLE_COUNT_MAX && len_bytes <= bytes_max
    };
    let longest = |first: usize| {
        let counts = (2..=runs.len() - first).take_while(|count| fits(&runs[first..first + count]));
        counts.last().map(|count| first..first + count)
    };
    let windows = (0..runs.len()).filter_map(longest);
    let best = windows.min_by_key(|window| (Reverse(window.len()), window.start))?;
    let (newest, oldest) = (runs[best.start].0, runs[best.end - 1].0);
    let chosen = heap.tables.iter().filter(|(run, _)| (newest..=oldest).contains(run));
    let run = Some(situation.version.levels[1].runs[newest].id);
    Some(Step { chosen: closure_of(chosen.cloned()), stop: None, run })
}

/// The tables of `level` grouped by chains of overlaps, in key order.
fn heaps(level: &Level) -> Vec<TableClosure> {
    let mut tables: Vec<_> = placed(level).collect();
    tables.sort_by(|(_, a), (_, b)| by_key(&a.meta, &b.meta));
    let mut heaps: Vec<(KeyRange, TableClosure)> = Vec::new();
    for (run, table) in tables {
        match heaps.last_mut() {
            Some((range, heap)) if range.overlaps_table(&table.meta) => {
                range.extend(&table.meta.range());
                heap.ids.insert(table.meta.id);
                heap.tables.push((run, table));
            }
            _ => {
                let (range, ids) = (table.meta.range(), BTreeSet::from([table.meta.id]));
                heaps.push((range, TableClosure { tables: vec![(run, table)], ids }));
            }
        }
    }
    heaps.into_iter().map(|(_, heap)| heap).collect()
}

/// Moves tables of older runs to the newest run. Tables that overlap nothing have no age to
/// preserve.
fn unite_runs(situation: &Situation<'_>) -> ManualPlan {
    let level_1 = &situation.version.levels[1];
    let is_in_order = heaps(level_1).iter().all(|heap| heap.tables.len() == 1);
    let older = placed(level_1).filter(|(run, table)| *run > 0 && !situation.busy.has_table(table));
    let tables: Vec<_> = older.take(MOVE_TABLE_COUNT_MAX).collect();
    if !is_in_order || tables.is_empty() {
        return ManualPlan::LevelDone;
    }
    let ids = tables.iter().map(|(_, table)| table.meta.id).collect();
    let (none, chosen) = (TableClosure::default(), TableClosure { tables, ids });
    let Some(mut plan) = build(situation, &none, &chosen, Work::Move, Reason::Manual) else {
        return ManualPlan::LevelDone;
    };
    plan.outputs[0].run = level_1.runs[0].id;
    ManualPlan::Run(Box::new(plan))
}
