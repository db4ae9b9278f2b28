//! Leveled compaction: level 0 of overlapping runs, and one run in each level below it.
//!
//! ```text
//!   L0  |----------| |------|          a flush makes a run; at `l0_compact_run_count` all go down
//!          |-----------|
//!   L1  [   ][   ][   ]                base_level_len_bytes
//!   L2  [   ][   ][   ][   ][   ] ...  times level_factor, and so on; the last has no limit
//! ```
//!
//! A table that overlaps nothing moves without a rewrite, so a sequential load is moves alone. The
//! exception is a table on flash: it is rewritten to the main drive, or flash would fill up for
//! good. Several neighbours go down together while the whole compaction stays below
//! [`COMPACTION_TABLE_COUNT_MAX`] tables' worth of bytes. The reason: each compaction also rewrites
//! the two tables that overlap its ends, and a longer one pays for them less often.
//!
//! If space is short, the victims are those that free most for each byte moved (`gain`), down to the
//! last level.
//!
//! With [`VictimGrowth::Single`] one victim goes down at a time, from level 0 on, as in LevelDB 1.19 and
//! RocksDB, the baselines that the papers compare with. What LevelDB does besides has options of its own
//! (`as_leveldb`).

use crate::compaction::plan::{Input, Output, Plan, Reason, Work};
use crate::compaction::policy::closure::{Placed, TableClosure, placed};
use crate::compaction::policy::{as_leveldb, gain, sets};
use crate::compaction::situation::{ManualPlan, ManualRange, Policy, Pressure, Situation};
use crate::options::{KeyspaceOptions, VictimGrowth, VictimOrder};
use crate::version::{KeyRange, LEVEL_COUNT, Level, Run, RunId, TableSlot, Version};
use std::cmp::Reverse;
use std::sync::Arc;

/// An approximate limit on what a compaction below level 0 reads, in tables' worth of bytes. It
/// bounds the space that is held twice while the compaction runs.
const COMPACTION_TABLE_COUNT_MAX: u64 = 50;

/// The same limit for a victim that grows by its neighbours. The value is LevelDB's.
const EXPANDED_TABLE_COUNT_MAX: u64 = 25;

/// The largest number of tables in one move. It bounds the length of the edit.
const MOVE_TABLE_COUNT_MAX: usize = 64;

/// The same limit for the tables of a unit of the placement, which only move together: a zone of 256 MiB
/// has 64 of LevelDB's.
const MOVE_UNIT_TABLE_COUNT_MAX: usize = 1024;

/// The leveled policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leveled;

impl Policy for Leveled {
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan> {
        plan_for_space(situation)
            .or_else(|| {
                urgent_levels(situation).into_iter().find_map(|level| match level {
                    0 => plan_runs(situation),
                    _ => plan_len(situation, level),
                })
            })
            .or_else(|| {
                let waits = is_single(situation) && !situation.is_space_short;
                if waits { None } else { plan_deletes(situation) }
            })
            .or_else(|| as_leveldb::plan_missed(situation))
            .or_else(|| {
                let reason = Reason::Runs { run_count: situation.version.levels[0].runs.len() };
                let is_due = situation.is_space_short;
                if is_due { plan_within_level_0(situation, reason) } else { None }
            })
    }

    fn plan_manual(
        &self,
        situation: &Situation<'_>,
        level: u8,
        range: &ManualRange,
        from: Option<&[u8]>,
    ) -> ManualPlan {
        let runs = situation.version.levels[usize::from(level)].runs.iter();
        let wanted: Vec<_> = runs
            .filter(|run| level > 0 || run.id <= range.run_max)
            .flat_map(|run| &run.tables)
            .filter(|t| range.overlaps(t) && from.is_none_or(|key| t.meta.smallest >= *key))
            .cloned()
            .collect();
        if wanted.is_empty() {
            return ManualPlan::LevelDone;
        }
        let is_last = level > 0
            && situation.version.levels[usize::from(level) + 1..]
                .iter()
                .all(|below| below.runs.is_empty());
        if is_last {
            return rewrite_last(situation, level, wanted);
        }
        let plan = if level == 0 {
            // If no plan fits, run this one anyway: its error reports to the caller how much space
            // is missing.
            plan_level_0(situation, wanted.clone(), Reason::Manual).or_else(|| {
                let victims = close_level_0(&situation.version.levels[0], wanted);
                build(situation, 0, victims, Reason::Manual)
            })
        } else {
            let len = fitting(situation, level, &wanted, u64::MAX);
            build(situation, level, wanted[..len].to_vec(), Reason::Manual)
        };
        plan.map_or(ManualPlan::Wait, |plan| ManualPlan::Run(Box::new(plan)))
    }

    fn pressure(
        &self,
        version: &Version,
        options: &KeyspaceOptions,
        _slack_bytes: u64,
    ) -> Pressure {
        let run_count = version.levels[0].runs.len();
        if run_count >= options.l0_stop_run_count as usize {
            Pressure::Stop
        } else if run_count >= options.l0_slowdown_run_count as usize {
            Pressure::SLOWDOWN
        } else {
            Pressure::None
        }
    }
}

/// If space is short, the tables that consist mostly of deletes, and after them what frees most for
/// each byte moved.
pub(super) fn plan_for_space(situation: &Situation<'_>) -> Option<Plan> {
    if !situation.is_space_short {
        return None;
    }
    plan_deletes(&situation.with_space()).or_else(|| gain::plan(situation))
}

/// Whether one victim at a time goes down.
fn is_single(situation: &Situation<'_>) -> bool {
    situation.options.victim_growth == VictimGrowth::Single
}

/// A manual compaction of the last level. The level stays where it is. Only tables with deletes are
/// rewritten, to drop the deletes, and tables on flash, to move them to the main drive.
pub(super) fn rewrite_last(
    situation: &Situation<'_>,
    level: u8,
    wanted: Vec<Arc<TableSlot>>,
) -> ManualPlan {
    let is_victim = |t: &Arc<TableSlot>| t.meta.has_deletes() || t.is_on_flash();
    let Some(victim) = wanted.into_iter().find(is_victim) else {
        return ManualPlan::LevelDone;
    };
    if situation.busy.has_table(&victim) {
        return ManualPlan::Wait;
    }
    let mut plan = make(situation, Work::Merge, level, vec![victim], Vec::new(), Reason::Manual);
    plan.outputs[0].level = level;
    plan.outputs[0].grandparents.clear();
    if situation.busy.writes_to(level, &plan.range) {
        return ManualPlan::Wait;
    }
    ManualPlan::Run(Box::new(plan))
}

/// The levels that are due, the most urgent first.
pub(crate) fn urgent_levels(situation: &Situation<'_>) -> Vec<u8> {
    let mut urgent = scores(situation);
    // Scores are in units of 1/1024, because no choice depends on a float.
    urgent.retain(|&(score, _)| score >= 1024);
    urgent.sort_by_key(|&(score, level)| (Reverse(score), level));
    urgent.into_iter().map(|(_, level)| level).collect()
}

/// The score of each level. A level is due from 1024 on.
fn scores(situation: &Situation<'_>) -> Vec<(u64, u8)> {
    let levels = &situation.version.levels;
    let mut scores = vec![(runs_score(situation), 0)];
    for (level, tables) in levels.iter().enumerate().take(LEVEL_COUNT - 1).skip(1) {
        let idle_len_bytes: u64 = tables
            .tables()
            .filter(|table| !situation.busy.has_table(table))
            .map(|table| table.meta.len_bytes)
            .sum();
        let full = target_len_bytes(situation.options, level as u8);
        let target = if situation.is_eager { (full / 2).max(1) } else { full };
        let score = u128::from(idle_len_bytes) * 1024 / u128::from(target);
        // A level that is exactly full is not too long.
        let score = if idle_len_bytes > target { score } else { 0 };
        scores.push((u64::try_from(score).unwrap_or(u64::MAX), level as u8));
    }
    scores
}

/// The score of level 0. It is due when it has `l0_compact_run_count` runs, or as many as slow
/// writers down if that is fewer. Otherwise writers would wait for a compaction that never becomes
/// due. It is due with fewer runs if the drive would soon have no room to merge all of it: smaller
/// merges write level 1 more often.
///
/// Little room raises no score above what the runs ask for. Level 1 takes that room as well, and gives
/// it back only by going down. If level 0 always went first, level 1 would grow until the two no longer
/// fitted together, and each run would then be merged with all of level 1 by itself.
fn runs_score(situation: &Situation<'_>) -> u64 {
    let options = situation.options;
    let full = u64::from(options.l0_compact_run_count.min(options.l0_slowdown_run_count)).max(1);
    let run_count = situation.version.levels[0].runs.len() as u64;
    if situation.is_eager {
        return run_count * 1024;
    }
    let score = run_count * 1024 / full;
    let is_early = run_count > 0 && is_room_tight(situation);
    if is_early { score.max(1024) } else { score }
}

/// Whether levels 0 and 1 together take more than half of the room of a merge.
fn is_room_tight(situation: &Situation<'_>) -> bool {
    let [level_0, level_1, ..] = &situation.version.levels;
    situation.room.len_bytes / 2 < level_0.len_bytes() + level_1.len_bytes()
}

/// The length up to which a level is not too long.
pub(crate) fn target_len_bytes(options: &KeyspaceOptions, level: u8) -> u64 {
    let growth = u64::from(options.level_factor).saturating_pow(u32::from(level.saturating_sub(1)));
    options.base_level_len_bytes.saturating_mul(growth)
}

/// Level 0 into level 1. Tables that overlap nothing move; if there are none, everything is merged.
/// If a table set aside prevents that, the tables that it does not block are merged.
pub(super) fn plan_runs(situation: &Situation<'_>) -> Option<Plan> {
    let reason = Reason::Runs { run_count: situation.version.levels[0].runs.len() };
    let plan = if is_single(situation) {
        plan_single_of_level_0(situation, reason)
    } else {
        plan_all_of_level_0(situation, reason)
    };
    plan.or_else(|| plan_beside_set_aside(situation, reason))
}

fn plan_all_of_level_0(situation: &Situation<'_>, reason: Reason) -> Option<Plan> {
    let level_0 = &situation.version.levels[0];
    let lonely: Vec<_> = level_0
        .tables()
        .filter(|table| is_lonely(situation, table))
        .take(MOVE_TABLE_COUNT_MAX)
        .cloned()
        .collect();
    if !lonely.is_empty() {
        return Some(make(situation, Work::Move, 0, lonely, Vec::new(), reason));
    }
    plan_level_0(situation, level_0.tables().cloned().collect(), reason)
}

/// The table of level 0 that is next in key order, with the tables it overlaps there.
fn plan_single_of_level_0(situation: &Situation<'_>, reason: Reason) -> Option<Plan> {
    let level_0 = &situation.version.levels[0];
    let mut tables: Vec<_> = level_0.tables().collect();
    tables.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
    let victim = tables.iter().find(|t| t.meta.largest > situation.cursors[0]);
    plan_single(situation, 0, Arc::clone(victim.or(tables.first())?), reason)
}

/// One table of `level` into the next level: in level 0 with the tables it overlaps there.
pub(super) fn plan_single(
    situation: &Situation<'_>,
    level: u8,
    victim: Arc<TableSlot>,
    reason: Reason,
) -> Option<Plan> {
    if level > 0 {
        return build(situation, level, expanded(situation, level, vec![victim]), reason);
    }
    let victims = close_level_0(&situation.version.levels[0], vec![victim]);
    plan_level_0(situation, expanded(situation, 0, victims), reason)
}

/// A table of level 0 with the older ones there that overlap it (P3), plus as many others, chosen
/// in the same way, as possible: the key range of all contains no table that was set aside. Tables
/// over such a table stay. All others go down, because level 0 would otherwise grow without limit
/// (P5).
fn plan_beside_set_aside(situation: &Situation<'_>, reason: Reason) -> Option<Plan> {
    let [level_0, level_1, ..] = &situation.version.levels;
    let is_set_aside = |table: &Arc<TableSlot>| situation.busy.is_set_aside(table);
    if !level_0.tables().chain(level_1.tables()).any(is_set_aside) {
        return None;
    }
    // The oldest tables bring the fewest others along.
    let mut starts: Vec<_> = placed(level_0).collect();
    starts.sort_by_key(|(run, _)| Reverse(*run));
    let with = |chosen: &TableClosure, start: &Placed| {
        let mut wider = chosen.clone();
        wider.close_over_older(level_0, start.clone());
        let range = KeyRange::of(wider.metas())?;
        let is_busy = |table: &Arc<TableSlot>| situation.busy.has_table(table);
        let is_free = wider.is_free(situation) && !level_1.overlapping(&range).iter().any(is_busy);
        is_free.then_some(wider)
    };
    starts.iter().find_map(|start| {
        let alone = with(&TableClosure::default(), start)?;
        let all = starts.iter().fold(alone.clone(), |all, other| with(&all, other).unwrap_or(all));
        [all, alone].into_iter().find_map(|chosen| {
            let victims = chosen.tables.into_iter().map(|(_, table)| table).collect();
            build(situation, 0, victims, reason).filter(|plan| situation.fits(plan))
        })
    })
}

/// `victims` of `level`, grown by its other tables in the same stretch of keys if that adds no
/// table of the next level. The tables below are rewritten anyway, so each rewrite serves more
/// victims.
fn expanded(
    situation: &Situation<'_>,
    level: u8,
    victims: Vec<Arc<TableSlot>>,
) -> Vec<Arc<TableSlot>> {
    let (beside, below) = {
        let levels = &situation.version.levels;
        (&levels[usize::from(level)], &levels[usize::from(level) + 1])
    };
    let range = |tables: &[Arc<TableSlot>]| KeyRange::of(tables.iter().map(|table| &table.meta));
    let Some(mut stretch) = range(&victims) else { return victims };
    let overlapped = below.overlapping(&stretch);
    let Some(overlapped_range) = range(&overlapped) else { return victims };
    stretch.extend(&overlapped_range);
    let mut wider = beside.overlapping(&stretch);
    if level == 0 {
        wider = close_level_0(beside, wider);
    }
    let len_bytes: u64 = wider.iter().chain(&overlapped).map(|t| t.meta.len_bytes).sum();
    let limit = situation.options.table_len_bytes.saturating_mul(EXPANDED_TABLE_COUNT_MAX);
    let adds_nothing_below =
        range(&wider).is_some_and(|range| below.overlapping(&range).len() == overlapped.len());
    let is_free = !wider.iter().any(|table| situation.busy.has_table(table));
    let is_better = wider.len() > victims.len() && len_bytes < limit;
    if is_better && adds_nothing_below && is_free { wider } else { victims }
}

/// `victims` of level 0 with all tables they overlap there. If the drive has no room for that, one
/// table of the oldest run: no older one prevents it (P3), and it needs the least space. If even
/// that does not fit, adjacent runs are merged into one, provided that this frees zones.
fn plan_level_0(
    situation: &Situation<'_>,
    victims: Vec<Arc<TableSlot>>,
    reason: Reason,
) -> Option<Plan> {
    let level_0 = &situation.version.levels[0];
    let whole = build(situation, 0, close_level_0(level_0, victims), reason)?;
    if situation.fits(&whole) {
        return Some(whole);
    }
    let oldest = &level_0.runs.last()?.tables;
    let mut small =
        oldest.iter().filter_map(|table| build(situation, 0, vec![Arc::clone(table)], reason));
    small.find(|plan| situation.fits(plan)).or_else(|| plan_within_level_0(situation, reason))
}

/// Merges the oldest adjacent runs of level 0 into one whose merge frees zones.
fn plan_within_level_0(situation: &Situation<'_>, reason: Reason) -> Option<Plan> {
    let runs = &situation.version.levels[0].runs;
    let merged = |from: usize, to: usize| {
        let victims: Vec<_> = runs[from..to].iter().flat_map(|run| &run.tables).cloned().collect();
        let mut plan = make(situation, Work::Merge, 0, victims, Vec::new(), reason);
        let output = &mut plan.outputs[0];
        (output.level, output.run, output.is_bottom) = (0, runs[from].id, false);
        output.grandparents.clear();
        plan
    };
    let is_busy = |run: &Run| run.tables.iter().any(|table| situation.busy.has_table(table));
    // Runs are ordered from newest to oldest.
    (1..=runs.len()).rev().find_map(|to| {
        let free_count = runs[..to].iter().rev().take_while(|run| !is_busy(run)).count();
        let plans = (2..=free_count).map(|count| merged(to - count, to));
        plans
            .take_while(|plan| situation.fits(plan))
            .filter(|plan| situation.is_gaining(plan))
            .last()
    })
}

/// Whether nothing in levels 0 and 1 overlaps `table`, and no running compaction writes to its
/// range.
fn is_lonely(situation: &Situation<'_>, table: &Arc<TableSlot>) -> bool {
    let range = table.meta.range();
    let levels = &situation.version.levels;
    // A table that was a log stores its values in write order. It is rewritten in key order before
    // it goes down.
    !table.meta.is_logged
        && !table.meta.has_front
        && !situation.busy.has_table(table)
        && !situation.busy.writes_to(1, &range)
        && levels[0]
            .runs
            .iter()
            .all(|run| run.overlapping(&range).iter().all(|other| other.meta.id == table.meta.id))
        && levels[1].runs.iter().all(|run| run.overlapping(&range).is_empty())
        && is_light_on_grandparents(situation.version, situation.options, 0, &range)
}

/// Neighbouring tables of a level that is too long, into the next level.
fn plan_len(situation: &Situation<'_>, level: u8) -> Option<Plan> {
    let tables = &situation.version.levels[usize::from(level)].runs.first()?.tables;
    let len_bytes: u64 = tables.iter().map(|table| table.meta.len_bytes).sum();
    let excess = len_bytes.saturating_sub(target_len_bytes(situation.options, level));
    let reason = Reason::Len { level };
    for from in victim_order(situation, level, tables) {
        let plan = if is_single(situation) {
            plan_single(situation, level, Arc::clone(&tables[from]), reason)
        } else {
            let len = fitting(situation, level, &tables[from..], excess);
            build(situation, level, tables[from..from + len].to_vec(), reason)
        };
        if let Some(plan) = plan.filter(|plan| situation.fits(plan)) {
            return Some(plan);
        }
    }
    None
}

/// The indexes of a level's tables, in the order in which to try them as victims.
fn victim_order(situation: &Situation<'_>, level: u8, tables: &[Arc<TableSlot>]) -> Vec<usize> {
    let cursor = &situation.cursors[usize::from(level)];
    let start = tables.partition_point(|table| match situation.options.victim_growth {
        VictimGrowth::Neighbours => table.meta.smallest <= *cursor,
        VictimGrowth::Single => table.meta.largest <= *cursor,
    });
    let round = (start..tables.len()).chain(0..start);
    let mut order: Vec<_> = round.filter(|&at| !situation.busy.has_table(&tables[at])).collect();
    match situation.options.victim_order {
        VictimOrder::RoundRobin => {}
        VictimOrder::MinOverlap => {
            let below = &situation.version.levels[usize::from(level) + 1];
            order.sort_by_cached_key(|&at| {
                let meta = &tables[at].meta;
                overlap_len_bytes(below, &meta.range()).saturating_mul(1024) / meta.len_bytes.max(1)
            });
        }
        VictimOrder::DeadFirst if sets::is_set(situation.options, level) => {
            order.sort_by_cached_key(|&at| Reverse(sets::dead_count(situation, &tables[at])));
        }
        VictimOrder::DeadFirst => {}
    }
    order
}

fn overlap_len_bytes(level: &Level, range: &KeyRange) -> u64 {
    let runs = level.runs.iter();
    runs.flat_map(|run| run.overlapping(range)).map(|table| table.meta.len_bytes).sum()
}

/// How many of the neighbouring `tables` go down together. At least one; after the first, no busy
/// one, no more bytes than wanted, and no more than the limit together with the tables they
/// overlap.
pub(super) fn fitting(
    situation: &Situation<'_>,
    level: u8,
    tables: &[Arc<TableSlot>],
    wanted_len_bytes: u64,
) -> usize {
    let limit = situation.options.table_len_bytes.saturating_mul(COMPACTION_TABLE_COUNT_MAX);
    let limit = limit.min(situation.room.len_bytes);
    let below = &situation.version.levels[usize::from(level) + 1];
    let mut range = tables[0].meta.range();
    let mut len_bytes = tables[0].meta.len_bytes;
    let moves_over =
        |overlap_len_bytes: u64, table: &TableSlot| overlap_len_bytes == 0 && !table.is_on_flash();
    let moves = moves_over(overlap_len_bytes(below, &range), &tables[0]);
    let mut count = 1;
    for table in &tables[1..] {
        range.extend(&table.meta.range());
        let overlap = overlap_len_bytes(below, &range);
        let enough = len_bytes >= wanted_len_bytes
            || count == MOVE_TABLE_COUNT_MAX
            || situation.busy.has_table(table)
            || moves != moves_over(overlap, table)
            || (!moves && len_bytes + table.meta.len_bytes + overlap > limit);
        if enough {
            break;
        }
        len_bytes += table.meta.len_bytes;
        count += 1;
    }
    count
}

/// Tables that consist mostly of deletes, or have a range tombstone, go down to the data they hide.
pub(super) fn plan_deletes(situation: &Situation<'_>) -> Option<Plan> {
    let is_worth_it = |table: &TableSlot| situation.is_mostly_deletes(&table.meta);
    (0..LEVEL_COUNT as u8 - 1).find_map(|level| {
        let tables = situation.version.levels[usize::from(level)].tables();
        tables
            .filter(|table| is_worth_it(table) && has_something_to_hide(situation, level, table))
            .find_map(|table| {
                let (victims, reason) = (vec![Arc::clone(table)], Reason::Deletes { level });
                match level {
                    0 => plan_level_0(situation, victims, reason),
                    _ => {
                        build(situation, level, victims, reason).filter(|plan| situation.fits(plan))
                    }
                }
            })
    })
}

fn has_something_to_hide(situation: &Situation<'_>, level: u8, table: &Arc<TableSlot>) -> bool {
    let range = table.meta.range();
    let beside = level == 0
        && situation.version.levels[0]
            .runs
            .iter()
            .any(|run| run.overlapping(&range).iter().any(|other| other.meta.id != table.meta.id));
    beside || situation.version.has_overlap_below(level, &range)
}

/// `victims` and every table of level 0 that overlaps one of them, transitively (P3).
fn close_level_0(level_0: &Level, victims: Vec<Arc<TableSlot>>) -> Vec<Arc<TableSlot>> {
    let mut closed = victims;
    loop {
        let ranges: Vec<_> = closed.iter().map(|table| table.meta.range()).collect();
        let wider: Vec<_> = level_0
            .tables()
            .filter(|table| ranges.iter().any(|range| range.overlaps_table(&table.meta)))
            .cloned()
            .collect();
        if wider.len() == closed.len() {
            return wider;
        }
        closed = wider;
    }
}

/// The plan for `victims` of `level` with the tables they overlap in the next level. Returns `None`
/// if a running compaction prevents it.
pub(super) fn build(
    situation: &Situation<'_>,
    level: u8,
    victims: Vec<Arc<TableSlot>>,
    reason: Reason,
) -> Option<Plan> {
    let range = KeyRange::of(victims.iter().map(|table| &table.meta))?;
    let below = situation.version.levels[usize::from(level) + 1].overlapping(&range);
    let in_the_way = |table: &Arc<TableSlot>| situation.busy.has_table(table);
    if victims.iter().any(in_the_way) || below.iter().any(in_the_way) {
        return None;
    }
    let disjoint = level > 0 || are_disjoint(&victims);
    let moves = below.is_empty()
        && disjoint
        && victims.iter().all(|t| may_go_unwritten(situation, level, t));
    let work = if moves { Work::Move } else { Work::Merge };
    let plan = make(situation, work, level, victims, below, reason);
    (!situation.busy.writes_to(plan.output().level, &plan.range)).then_some(plan)
}

/// Whether a table of `level` that overlaps nothing in the next may go there without a write.
fn may_go_unwritten(situation: &Situation<'_>, level: u8, table: &TableSlot) -> bool {
    let range = table.meta.range();
    // The dead part of a table with a front comes back only when the table is rewritten.
    !table.meta.has_front
        && !table.is_on_flash()
        && is_light_on_grandparents(situation.version, situation.options, level, &range)
}

/// Whether `table` of `level` may move into the next level by itself.
pub(super) fn may_move(situation: &Situation<'_>, level: u8, table: &Arc<TableSlot>) -> bool {
    let range = table.meta.range();
    let levels = &situation.version.levels;
    let overlaps = |level: u8| levels[usize::from(level)].overlapping(&range);
    let is_alone = || level > 0 || overlaps(0).iter().all(|other| other.meta.id == table.meta.id);
    !situation.busy.has_table(table)
        && !situation.busy.writes_to(level + 1, &range)
        && overlaps(level + 1).is_empty()
        && is_alone()
        && may_go_unwritten(situation, level, table)
}

/// The move of `tables` of `level`, for each of which [`may_move`] is true, into the next level.
/// They need not be neighbours. `None` if there are too many for one edit.
pub(super) fn build_move(
    situation: &Situation<'_>,
    level: u8,
    tables: Vec<Arc<TableSlot>>,
    reason: Reason,
) -> Option<Plan> {
    let is_short = !tables.is_empty() && tables.len() <= MOVE_UNIT_TABLE_COUNT_MAX;
    is_short.then(|| make(situation, Work::Move, level, tables, Vec::new(), reason))
}

fn are_disjoint(tables: &[Arc<TableSlot>]) -> bool {
    let mut sorted: Vec<_> = tables.iter().map(|table| &table.meta).collect();
    sorted.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    sorted.windows(2).all(|pair| pair[0].ends_before(&pair[1].smallest))
}

/// Whether a table over `range`, moved from `level` into the next, would overlap little of the
/// level after that. Otherwise the move would prepare an expensive merge.
pub(super) fn is_light_on_grandparents(
    version: &Version,
    options: &KeyspaceOptions,
    level: u8,
    range: &KeyRange,
) -> bool {
    let Some(grandparents) = version.levels.get(usize::from(level) + 2) else {
        return true;
    };
    let count_max = u64::from(options.grandparent_table_count_max);
    let limit = options.table_len_bytes.saturating_mul(count_max);
    overlap_len_bytes(grandparents, range) <= limit
}

fn make(
    situation: &Situation<'_>,
    work: Work,
    level: u8,
    victims: Vec<Arc<TableSlot>>,
    below: Vec<Arc<TableSlot>>,
    reason: Reason,
) -> Plan {
    let output_level = level + 1;
    let all = victims.iter().chain(&below).map(|table| &table.meta);
    let range = KeyRange::of(all).expect("a compaction has a victim");
    let grandparents = situation
        .version
        .levels
        .get(usize::from(output_level) + 1)
        .map_or_else(Vec::new, |l| l.overlapping(&range));
    let mut inputs = by_run(&situation.version.levels[usize::from(level)], level, &victims);
    if !below.is_empty() {
        inputs.push(Input { level: output_level, tables: below });
    }
    let is_bottom = !situation.version.has_overlap_below(output_level, &range);
    let output = Output {
        level: output_level,
        run: RunId::ONLY,
        is_bottom,
        grandparents,
        staying: Vec::new(),
    };
    Plan {
        reason,
        work,
        inputs,
        outputs: vec![output],
        routes: None,
        range,
        outputs_together: false,
        windows: None,
        stop: None,
        partitions: None,
    }
}

/// `victims` grouped by run, newest first.
fn by_run(level: &Level, number: u8, victims: &[Arc<TableSlot>]) -> Vec<Input> {
    let is_victim = |table: &&Arc<TableSlot>| victims.iter().any(|v| v.meta.id == table.meta.id);
    let inputs = level.runs.iter().map(|run| {
        let tables = run.tables.iter().filter(is_victim).cloned().collect();
        Input { level: number, tables }
    });
    inputs.filter(|input: &Input| !input.tables.is_empty()).collect()
}
