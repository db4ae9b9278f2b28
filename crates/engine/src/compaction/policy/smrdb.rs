//! SMRDB's compaction: two levels, both of overlapping tables as long as a band.
//!
//! ```text
//!   L0   |=========9=========|         the oldest table, and newer ones that overlap it
//!        |======7======|
//!   L1   |---5---|      |---6---|      of those that overlap them, the least ordered, and the
//!              |-----4-----|           newer ones that overlap it: here 3 with 4, 5 and 6;
//!     |--1--|  |---3---|    |--2--|    1 and 2 stay, and overlap the outputs
//! ```
//!
//! A table that is mostly in order already is not copied only because a few keys fall into its
//! range: the outputs become the newest run of level 1, above it. A read searches every table that
//! overlaps its key, from the newest to the oldest. When too many tables cover one key, tables of
//! level 1 are merged with one another.
//!
//! Invariants (besides P1 to P4)
//!   B1  An output is the newest run of level 1. So if a table of level 1 is an input, all newer
//!       tables of level 1 that overlap it are inputs too, transitively. Otherwise a stale value
//!       would be above a newer one.
//!   B2  If a table of level 0 is an input, all older tables of level 0 that overlap it are inputs
//!       too, transitively (P3).
//!   B3  A delete disappears at each key that no staying table of level 1 has in its range. Those
//!       tables are the only older data (B1).
//!
//! Source: the thesis on SMRDB, 3.2.3 ("SMR-friendly organization and compaction"). Where it leaves
//! something open, `docs/decisions/0013-smrdb.md` decides. Manual compaction is ours (`manual`).

mod making;
mod manual;

use crate::compaction::plan::{Plan, Reason, Work};
use crate::compaction::policy::closure::{Placed, TableClosure, placed};
use crate::compaction::policy::leveled;
use crate::compaction::policy::sequentiality::{Per1024, Spread, sequentiality};
use crate::compaction::policy::smrdb::making::build;
use crate::compaction::situation::{ManualPlan, ManualRange, Policy, Pressure, Situation};
use crate::options::KeyspaceOptions;
use crate::table::Histogram;
use crate::version::{Level, TableId, TableMeta, TableSlot, Version};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest number of level 1 tables in one merge. It bounds the space that is held twice and
/// the memory for read buffers.
const INPUT_TABLE_COUNT_MAX: usize = 40;

/// How many tables, those with the most overlaps first, are tried as the start of a merge.
const START_COUNT_MAX: usize = 8;

/// Tables whose sequentialities fall into one class of this width count as equally in order.
const CLASS_LEN: Per1024 = 128;

/// The SMRDB policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Smrdb;

impl Policy for Smrdb {
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan> {
        let run_count = situation.version.levels[0].runs.len();
        let options = situation.options;
        let full = options.l0_compact_run_count.min(options.l0_slowdown_run_count);
        let (due_count, overlap_count_max) = match situation.is_eager {
            true => (1, (options.overlap_count_max / 2).max(1)),
            false => (full, options.overlap_count_max),
        };
        let down = |due_count: u32| {
            let reason = Reason::Runs { run_count };
            (run_count >= due_count as usize).then(|| plan_down(situation, reason)).flatten()
        };
        let overlaps = |count_max: u32| plan_overlaps(situation, count_max as usize);
        if situation.is_space_short {
            // Tables over one key hide what is in the older ones. Those with the most overlaps free
            // most for each byte moved.
            return overlaps(1)
                .or_else(|| down(1))
                .or_else(|| plan_deletes(situation))
                .or_else(|| plan_joins(situation));
        }
        down(due_count).or_else(|| overlaps(overlap_count_max)).or_else(|| plan_deletes(situation))
    }

    fn plan_manual(
        &self,
        situation: &Situation<'_>,
        level: u8,
        range: &ManualRange,
        from: Option<&[u8]>,
    ) -> ManualPlan {
        match level {
            0 => manual::take_down(situation, range),
            1 => manual::put_in_order(situation, range, from),
            _ => ManualPlan::LevelDone,
        }
    }

    fn pressure(&self, version: &Version, options: &KeyspaceOptions, slack_bytes: u64) -> Pressure {
        leveled::Leveled.pressure(version, options, slack_bytes)
    }
}

/// The tables of `level` that overlap any of `chosen`.
fn overlapping(level: &Level, chosen: &TableClosure) -> Vec<Placed> {
    let ranges: Vec<_> = chosen.metas().map(TableMeta::range).collect();
    placed(level).filter(|(_, t)| ranges.iter().any(|r| r.overlaps_table(&t.meta))).collect()
}

/// Level 0 into level 1.
fn plan_down(situation: &Situation<'_>, reason: Reason) -> Option<Plan> {
    let [level_0, level_1, ..] = &situation.version.levels;
    let mut oldest_first: Vec<_> = placed(level_0).collect();
    oldest_first.sort_by(|a, b| {
        (Reverse(a.0), &a.1.meta.smallest).cmp(&(Reverse(b.0), &b.1.meta.smallest))
    });
    oldest_first.into_iter().find_map(|start| {
        let from_0 = choose_level_0(situation, start)?;
        let candidates = overlapping(level_1, &from_0);
        let merge = |from_1: &TableClosure| build(situation, &from_0, from_1, Work::Merge, reason);
        let victims = by_sequentiality(situation, candidates, &from_0);
        // The tables may always go above the existing ones. That costs only reads. One alone would
        // come out as it went in, so it moves.
        let is_lone = from_0.tables.len() == 1 && !from_0.is_on_flash();
        let work = if is_lone { Work::Move } else { Work::Merge };
        let above = || build(situation, &from_0, &TableClosure::default(), work, reason);
        first_that(level_1, victims, merge).or_else(above)
    })
}

/// `start`, then newer tables that overlap it, up to `l0_compact_run_count` tables, each with every
/// table that must accompany it. Returns `None` if a running compaction prevents it.
fn choose_level_0(situation: &Situation<'_>, start: Placed) -> Option<TableClosure> {
    let level_0 = &situation.version.levels[0];
    let mut chosen = TableClosure::default();
    let range = start.1.meta.range();
    let start_run = start.0;
    chosen.close_over_older(level_0, start);
    if !chosen.is_free(situation) {
        return None;
    }
    let count_max = (situation.options.l0_compact_run_count as usize).max(chosen.tables.len());
    for run in (0..start_run).rev() {
        for table in level_0.runs[run].overlapping(&range) {
            let mut wider = chosen.clone();
            wider.close_over_older(level_0, (run, Arc::clone(table)));
            if wider.tables.len() <= count_max && wider.is_free(situation) {
                chosen = wider;
            }
        }
    }
    Some(chosen)
}

/// `candidates` of level 1, the least in order first. `others` count as inserts besides the tables
/// of level 1.
fn by_sequentiality(
    situation: &Situation<'_>,
    candidates: Vec<Placed>,
    others: &TableClosure,
) -> Vec<(Per1024, Placed)> {
    let level_1 = &situation.version.levels[1];
    let mut histograms: BTreeMap<TableId, Arc<Histogram>> = BTreeMap::new();
    let mut load = |table: &Arc<TableSlot>| {
        let made = || {
            let known = situation.facts.properties(table).and_then(|said| said.histogram);
            known.unwrap_or_else(|| Arc::new(Histogram::whole(table.meta.raw_len_bytes)))
        };
        Arc::clone(histograms.entry(table.meta.id).or_insert_with(made))
    };
    let mut judged: Vec<_> = candidates
        .into_iter()
        .map(|(run, table)| {
            let range = table.meta.range();
            let beside = level_1.runs.iter().flat_map(|run| run.overlapping(&range));
            let others: Vec<_> = beside
                .filter(|other| other.meta.id != table.meta.id)
                .chain(others.tables.iter().map(|(_, other)| other))
                .map(|other| (&other.meta, load(other)))
                .collect();
            let others: Vec<_> = others.iter().map(|(meta, made)| spread(meta, made)).collect();
            let made = load(&table);
            let class = sequentiality(spread(&table.meta, &made), &others) / CLASS_LEN;
            (class, (run, table))
        })
        .collect();
    judged.sort_by_key(|(class, (_, table))| (*class, table.meta.id));
    judged
}

/// The first plan that `plan` makes of one of `victims` with every table that must accompany it.
/// Among victims equally in order, the one that brings the most tables along goes first, because it
/// puts the most data in order at once.
fn first_that(
    level_1: &Level,
    victims: Vec<(Per1024, Placed)>,
    mut plan: impl FnMut(&TableClosure) -> Option<Plan>,
) -> Option<Plan> {
    victims.chunk_by(|a, b| a.0 == b.0).find_map(|equals| {
        let closed = equals.iter().map(|(_, victim)| {
            let mut chosen = TableClosure::default();
            chosen.close_over_newer(level_1, victim.clone());
            chosen
        });
        let mut closed: Vec<_> =
            closed.filter(|chosen| chosen.tables.len() <= INPUT_TABLE_COUNT_MAX).collect();
        closed.sort_by_key(|chosen| Reverse(chosen.tables.len()));
        closed.iter().find_map(&mut plan)
    })
}

fn spread<'a>(meta: &'a TableMeta, histogram: &'a Histogram) -> Spread<'a> {
    Spread { smallest: &meta.smallest, largest: &meta.largest, histogram }
}

/// Merges tables of level 1 with one another if more than `count_max` cover one key, starting with the
/// table that overlaps the most others.
fn plan_overlaps(situation: &Situation<'_>, count_max: usize) -> Option<Plan> {
    let level_1 = &situation.version.levels[1];
    let depth = depth(level_1);
    if depth <= count_max {
        return None;
    }
    let reason = Reason::Overlaps { table_count: depth };
    let mut starts = overlap_counts(level_1);
    starts.sort_by_key(|(count, (_, table))| (Reverse(*count), table.meta.id));
    starts.into_iter().take(START_COUNT_MAX).find_map(|(_, (_, start))| {
        let range = start.meta.range();
        let beside = placed(level_1).filter(|(_, other)| range.overlaps_table(&other.meta));
        let victims = by_sequentiality(situation, beside.collect(), &TableClosure::default());
        first_that(level_1, victims, |chosen| {
            // One alone would come out as it went in.
            let is_worth_it = chosen.tables.len() > 1;
            let merge = || build(situation, &TableClosure::default(), chosen, Work::Merge, reason);
            is_worth_it.then(merge).flatten()
        })
    })
}

/// The largest number of tables whose ranges share one key.
fn depth(level: &Level) -> usize {
    let mut borders: Vec<_> = level
        .tables()
        .flat_map(|table| [(table.meta.smallest.clone(), true), (table.meta.range().end(), false)])
        .collect();
    // At equal keys, ends sort before starts.
    borders.sort_unstable();
    let (mut open, mut most) = (0, 0);
    for (_, begins) in borders {
        open = if begins { open + 1 } else { open - 1 };
        most = most.max(open);
    }
    most
}

/// Each table of a level with the number of others that overlap it.
///
/// Cost: two sorts.
fn overlap_counts(level: &Level) -> Vec<(usize, Placed)> {
    let tables: Vec<_> = placed(level).collect();
    let mut by_start: Vec<_> = tables.iter().map(|(_, t)| &t.meta).collect();
    by_start.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let mut by_end = by_start.clone();
    by_end
        .sort_by(|a, b| (&a.largest, !a.largest_excluded).cmp(&(&b.largest, !b.largest_excluded)));
    let counts: Vec<_> = tables
        .iter()
        .map(|(_, table)| {
            let meta = &table.meta;
            let begun = by_start.partition_point(|other| !meta.ends_before(&other.smallest));
            let ended = by_end.partition_point(|other| other.ends_before(&meta.smallest));
            begun - ended - 1
        })
        .collect();
    counts.into_iter().zip(tables).collect()
}

/// A table of deletes goes down to the data it hides: from level 0 in the usual way, in level 1 by
/// a merge with the older tables below it.
fn plan_deletes(situation: &Situation<'_>) -> Option<Plan> {
    let is_worth_it = |meta: &TableMeta| situation.is_mostly_deletes(meta);
    let [level_0, level_1, ..] = &situation.version.levels;
    let hides_below = |(run, table): &Placed| {
        let range = table.meta.range();
        let older = level_0.runs[run + 1..].iter().chain(&level_1.runs);
        older.clone().any(|run| !run.overlapping(&range).is_empty())
    };
    if placed(level_0).any(|placed| is_worth_it(&placed.1.meta) && hides_below(&placed))
        && let Some(plan) = plan_down(situation, Reason::Deletes { level: 0 })
    {
        return Some(plan);
    }
    placed(level_1).filter(|(_, table)| is_worth_it(&table.meta)).find_map(|(run, table)| {
        let range = table.meta.range();
        let mut chosen = TableClosure::default();
        for (older, tables) in level_1.runs.iter().enumerate().skip(run + 1) {
            for table in tables.overlapping(&range) {
                chosen.close_over_newer(level_1, (older, Arc::clone(table)));
            }
        }
        let is_small = chosen.tables.len() <= INPUT_TABLE_COUNT_MAX;
        let hides_some = !chosen.tables.is_empty() && (is_small || situation.is_space_short);
        let reason = Reason::Deletes { level: 1 };
        let none = TableClosure::default();
        hides_some.then(|| build(situation, &none, &chosen, Work::Merge, reason)).flatten()
    })
}

/// Merges neighbours of level 1 that fill fewer zones than they take.
fn plan_joins(situation: &Situation<'_>) -> Option<Plan> {
    let level_1 = &situation.version.levels[1];
    let grain_bytes = situation.room.grain_bytes;
    let mut by_key: Vec<Placed> = placed(level_1).collect();
    by_key.sort_by(|a, b| a.1.meta.smallest.cmp(&b.1.meta.smallest));
    let is_short = |placed: &Placed| placed.1.meta.len_bytes * 2 <= grain_bytes;
    let (reason, none) = (Reason::Space { level: 1 }, TableClosure::default());
    (0..by_key.len()).filter(|from| is_short(&by_key[*from])).find_map(|from| {
        let mut chosen = TableClosure::default();
        let mut best = None;
        for next in by_key[from..].iter().take_while(|next| is_short(next)) {
            chosen.close_over_newer(level_1, next.clone());
            if chosen.tables.len() > INPUT_TABLE_COUNT_MAX {
                break;
            }
            let Some(plan) = build(situation, &none, &chosen, Work::Merge, reason) else { break };
            best = Some(plan).filter(|plan| situation.is_gaining(plan)).or(best);
        }
        best
    })
}

#[cfg(test)]
mod tests;
