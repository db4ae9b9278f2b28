//! Leveled compaction when space is short: the merge that frees most for each byte that it moves.
//!
//! ```text
//!   L1      [ v ]                 moved: v + o
//!   L2    [   o   ]               freed: the part of v whose keys are in o as well
//!   L3  [      u      ]           u holds almost all keys of the range: about o / u of v is in o
//! ```
//!
//! Garbage is an older version of a key in a lower level. No level knows how much of it another one
//! hides, so it is estimated: each run holds a random sample of the keys of the longest run in the
//! range. An estimate that is wrong costs one merge. Every merge takes data down a level, so the
//! merges end when all of it is in the last level that overlaps it.
//!
//! Not here: which tables go along, and whether the drive has room (`leveled`).

use crate::compaction::plan::{Plan, Reason};
use crate::compaction::policy::leveled;
use crate::compaction::situation::Situation;
use crate::version::{KeyRange, LEVEL_COUNT, TableMeta, TableSlot, Version};
use std::sync::Arc;

/// How many victims are tried, those that free most first. Others overlap them or find no room
/// either.
const VICTIM_COUNT_MAX: usize = 64;

/// What a merge would free and move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gain {
    pub(super) freed_bytes: u64,
    pub(super) moved_bytes: u64,
}

impl Gain {
    const NONE: Gain = Gain { freed_bytes: 0, moved_bytes: 1 };

    /// How many bytes it frees for each MiB that it moves.
    fn per_mib(self) -> u64 {
        let per_mib = (u128::from(self.freed_bytes) << 20) / u128::from(self.moved_bytes.max(1));
        u64::try_from(per_mib).unwrap_or(u64::MAX)
    }
}

/// The merge that frees most for each byte that it moves, of those that the drive has room for.
pub(super) fn plan(situation: &Situation<'_>) -> Option<Plan> {
    order(situation).into_iter().find_map(|(level, at)| match level {
        0 => leveled::plan_runs(situation),
        _ => plan_from(situation, level as u8, at),
    })
}

/// The victims in the order of [`plan`], each with its level. For level 0 these are the tables of its
/// oldest run.
pub(super) fn victims(situation: &Situation<'_>) -> Vec<(u8, Arc<TableSlot>)> {
    let mut victims = Vec::new();
    for (level, at) in order(situation) {
        let Some(oldest) = situation.version.levels[level].runs.last() else { continue };
        let tables = &oldest.tables[..];
        let chosen = if level == 0 { tables } else { tables.get(at..=at).unwrap_or_default() };
        victims.extend(chosen.iter().map(|slot| (level as u8, Arc::clone(slot))));
    }
    victims
}

/// The levels and indexes of the victims, those that free most for each byte first.
fn order(situation: &Situation<'_>) -> Vec<(usize, usize)> {
    let version = situation.version;
    let mut victims = vec![(level_0(version).per_mib(), 0, 0)];
    for level in 1..LEVEL_COUNT - 1 {
        let tables = version.levels[level].runs.iter().flat_map(|run| &run.tables).enumerate();
        let free = tables.filter(|(_, table)| !situation.busy.has_table(table));
        victims
            .extend(free.map(|(at, t)| (of_table(version, level, &t.meta).per_mib(), level, at)));
    }
    victims.retain(|(per_mib, ..)| *per_mib > 0);
    victims.sort_by_key(|&(per_mib, level, at)| (std::cmp::Reverse(per_mib), level, at));
    victims.truncate(VICTIM_COUNT_MAX);
    victims.into_iter().map(|(_, level, at)| (level, at)).collect()
}

/// Table `at` of `level`, with as many of its neighbours as the drive has room for.
fn plan_from(situation: &Situation<'_>, level: u8, at: usize) -> Option<Plan> {
    let tables = &situation.version.levels[usize::from(level)].runs.first()?.tables[at..];
    let len = leveled::fitting(situation, level, tables, u64::MAX);
    let build = |len: usize| {
        let victims = tables[..len].to_vec();
        let plan = leveled::build(situation, level, victims, Reason::Space { level })?;
        situation.fits(&plan).then_some(plan)
    };
    build(len).or_else(|| build(1))
}

/// What the tables of level 0 would free in level 1.
fn level_0(version: &Version) -> Gain {
    let level_0 = &version.levels[0];
    let Some(range) = KeyRange::of(level_0.tables().map(|table| &table.meta)) else {
        return Gain::NONE;
    };
    let runs: Vec<u64> = level_0.runs.iter().map(|run| len_bytes(&run.tables)).collect();
    let hidden = hidden_by_deletes(version, 0, &range, level_0.tables().map(|table| &table.meta));
    of_runs(version, 0, &range, &runs, hidden)
}

/// What a table of `level` would free in the next level that it overlaps.
fn of_table(version: &Version, level: usize, meta: &TableMeta) -> Gain {
    let range = meta.range();
    let hidden = hidden_by_deletes(version, level, &range, std::iter::once(meta));
    of_runs(version, level, &range, &[meta.len_bytes], hidden)
}

/// What runs of `level` of these lengths would free if they were merged with one another and with
/// the next level that has keys in their range.
fn of_runs(
    version: &Version,
    level: usize,
    range: &KeyRange,
    runs: &[u64],
    hidden_bytes: u64,
) -> Gain {
    let below: Vec<u64> = version.levels[level + 1..]
        .iter()
        .map(|below| len_bytes(&below.overlapping(range)))
        .collect();
    let next = below.iter().position(|len_bytes| *len_bytes > 0);
    let next_len_bytes = next.map_or(0, |at| below[at]);
    let all: Vec<u64> = runs.iter().copied().chain([next_len_bytes]).collect();
    let longest = all.iter().chain(&below).copied().max().unwrap_or(0);
    let sum: u64 = all.iter().sum();
    // A table that overlaps nothing in between is rewritten once a level, at most.
    let level_count = next.map_or(1, |at| at as u64 + 1);
    let moved_bytes = runs.iter().sum::<u64>() * level_count + next_len_bytes;
    let freed_bytes =
        sum.saturating_sub(union_len_bytes(&all, longest)).saturating_add(hidden_bytes);
    Gain { freed_bytes: freed_bytes.min(sum), moved_bytes }
}

/// The length of the union of random samples of these lengths from keys of length `all`.
fn union_len_bytes(samples: &[u64], all: u64) -> u64 {
    let all = u128::from(all.max(1));
    let missed = samples.iter().fold(all, |missed, len| missed * (all - u128::from(*len)) / all);
    u64::try_from(all - missed).unwrap_or(u64::MAX)
}

/// The length of what the deletes in tables of `level` hide in the next level that they overlap.
fn hidden_by_deletes<'a>(
    version: &Version,
    level: usize,
    range: &KeyRange,
    metas: impl Iterator<Item = &'a TableMeta>,
) -> u64 {
    let mut delete_count = 0;
    let mut has_range_deletes = false;
    for meta in metas {
        delete_count += meta.delete_count;
        has_range_deletes |= meta.range_tombstone_count > 0;
    }
    if delete_count == 0 && !has_range_deletes {
        return 0;
    }
    let mut below = version.levels[level + 1..].iter().map(|below| below.overlapping(range));
    let Some(next) = below.find(|tables| !tables.is_empty()) else { return 0 };
    let next_len_bytes = len_bytes(&next);
    if has_range_deletes {
        return next_len_bytes;
    }
    let entry_count: u64 = next.iter().map(|table| table.meta.entry_count).sum();
    let share = u128::from(next_len_bytes) * u128::from(delete_count);
    u64::try_from(share / u128::from(entry_count.max(1))).unwrap_or(u64::MAX).min(next_len_bytes)
}

fn len_bytes(tables: &[Arc<TableSlot>]) -> u64 {
    tables.iter().map(|table| table.meta.len_bytes).sum()
}
