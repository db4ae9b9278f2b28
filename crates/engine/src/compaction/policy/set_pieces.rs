//! Pieces: how the merge of a table with the tables that it overlaps goes on in steps when the drive has
//! no room for all of it at once.
//!
//! ```text
//!   L2     [        v        ]                   [    v    ]   v has a front at c
//!   L3   [  a  ][  b  ][  c  ][  d  ]   -->   [a'][b'][  c  ][  d  ]
//!        |-- a piece --|                      a and b give their space back, v does not yet
//! ```
//!
//! A set-aware merge writes all its outputs before it gives an input back. On a short drive that is
//! more than there is room for, although what it frees is garbage. So if a merge does not fit, only its
//! first victim is merged, as far as there is room.
//!
//! Invariants
//!   N1  A piece has one victim. It takes whole tables of the next level, from the first that the victim
//!       overlaps, and stops where the next one begins. Only the victim gets a front. No older table of
//!       level 0 overlaps a victim there (P3).
//!   N2  The tables that a piece takes, the whole victim included, are no longer than the room. So are
//!       its outputs.
//!   N3  In the background, no victim is cut while another one has a front or a compaction runs, except
//!       one that cannot go on because of a table set aside. A victim with a front comes before all
//!       other work. A manual compaction ends the victim that it has cut before it takes another.
//!
//! Why pieces suffice
//!   - Space: a piece writes no more than the tables that it takes from the next level and its part of
//!     the victim. It gives those tables back. So all pieces of a victim together hold at most the
//!     length of the victim more than before, and the last one gives that back. By N3 this is one
//!     table in all.
//!   - Room: the shortest piece takes two tables. Puts leave that much (`Limits::merge_len_bytes`).
//!   - End: each piece moves the front past a table of the next level, and its outputs are before the
//!     front. After as many pieces as the victim overlaps tables, it is one level down.
//!   - A given-back table that is part of a set comes back when a write needs it: the file layer then
//!     dissolves the set (`placement::sets` in `files`).
//!
//! Not here: the rest of the plan (`leveled`), how a merge stops before the end of its inputs
//! (`work::compact`).

use crate::compaction::plan::{Plan, Reason, Stop, Work};
use crate::compaction::policy::gain;
use crate::compaction::policy::leveled::{self, Leveled};
use crate::compaction::situation::{Policy, Room, Situation};
use crate::version::{LEVEL_COUNT, RunId, TableSlot};
use std::sync::Arc;

/// The next piece of a victim that has a front, or all that is left of it (N3).
pub(super) fn go_on(situation: &Situation<'_>) -> Option<Plan> {
    under_way(situation).find_map(|(level, victim)| {
        piece(situation, level, Arc::clone(victim), Reason::Rest { level })
    })
}

/// The first piece of the merge that would be planned if the drive had more room.
pub(super) fn begin(situation: &Situation<'_>) -> Option<Plan> {
    let may_begin = situation.busy.is_idle()
        && under_way(situation).all(|(level, victim)| is_stuck(situation, level, victim));
    if !may_begin {
        return None;
    }
    let room = Room::unbounded(situation.room.grain_bytes);
    let wanted = Leveled.plan(&Situation { room, ..*situation })?;
    first_piece(situation, &wanted).or_else(|| {
        let others = other_victims(situation, &wanted);
        others.into_iter().find_map(|(level, victim)| {
            let reason = match situation.is_space_short {
                true => Reason::Space { level },
                false => wanted.reason,
            };
            piece(situation, level, victim, reason)
        })
    })
}

/// If the victims of `wanted` do not fit even in part: those that free most if space is short, or the
/// other tables of their level.
fn other_victims(situation: &Situation<'_>, wanted: &Plan) -> Vec<(u8, Arc<TableSlot>)> {
    if situation.is_space_short {
        return gain::victims(situation);
    }
    let level = wanted.inputs.first().map_or(0, |input| input.level);
    let oldest = situation.version.levels[usize::from(level)].runs.last();
    oldest.into_iter().flat_map(|run| &run.tables).map(|slot| (level, Arc::clone(slot))).collect()
}

/// The first piece of `plan`, for which the drive has no room; `None` if there is none that fits.
pub(super) fn first_piece(situation: &Situation<'_>, plan: &Plan) -> Option<Plan> {
    let level = plan.inputs.first()?.level;
    if plan.work != Work::Merge || plan.output().level == level {
        return None;
    }
    // The tables of the oldest run that takes part have no older one below them in their level.
    let victims = &plan.inputs.iter().rev().find(|input| input.level == level)?.tables;
    let begun = victims.iter().filter(|victim| victim.meta.has_front);
    let others = victims.iter().filter(|victim| !victim.meta.has_front);
    begun.chain(others).find_map(|v| piece(situation, level, Arc::clone(v), plan.reason))
}

/// How much the shortest piece of `plan` takes.
pub(crate) fn least_len_bytes(plan: &Plan) -> u64 {
    let len_bytes = |table: &Arc<TableSlot>| table.meta.len_bytes;
    plan.inputs.iter().map(|input| input.tables.first().map_or(0, len_bytes)).sum()
}

/// The tables with a front, each with its level.
fn under_way<'a>(
    situation: &Situation<'a>,
) -> impl Iterator<Item = (u8, &'a Arc<TableSlot>)> + use<'a> {
    let version = situation.version;
    let begun = version.places().filter(|(_, _, slot)| slot.meta.has_front);
    begun.map(|(level, _, slot)| (level, slot)).filter(|(level, _)| !is_last(*level))
}

fn is_last(level: u8) -> bool {
    usize::from(level) + 1 == LEVEL_COUNT
}

/// Whether the merge of `victim` into the next level needs a table that is set aside.
fn is_stuck(situation: &Situation<'_>, level: u8, victim: &TableSlot) -> bool {
    let below = situation.version.levels[usize::from(level) + 1].overlapping(&victim.meta.range());
    situation.busy.is_set_aside(victim) || below.iter().any(|t| situation.busy.is_set_aside(t))
}

/// The merge of `victim` into the next level, or as much of it from its beginning as the drive has
/// room for.
fn piece(
    situation: &Situation<'_>,
    level: u8,
    victim: Arc<TableSlot>,
    reason: Reason,
) -> Option<Plan> {
    let run = run_of(situation, level, &victim)?;
    let whole = leveled::build(situation, level, vec![victim], reason)?;
    if situation.fits(&whole) { Some(whole) } else { cut(situation, whole, run) }
}

/// The run of `victim`; `None` if an older run of the level has keys in its range (P3).
fn run_of(situation: &Situation<'_>, level: u8, victim: &TableSlot) -> Option<RunId> {
    let runs = &situation.version.levels[usize::from(level)].runs;
    let range = victim.meta.range();
    let last = runs.iter().rev().find(|run| !run.overlapping(&range).is_empty())?;
    let is_its_own = last.tables.iter().any(|table| table.meta.id == victim.meta.id);
    is_its_own.then_some(last.id)
}

/// Shortens a plan with one victim to what fits (N1, N2). The victim is in `run`.
fn cut(situation: &Situation<'_>, mut plan: Plan, run: RunId) -> Option<Plan> {
    let room_bytes = situation.room_for(&plan);
    let [upper, lower] = &mut plan.inputs[..] else { return None };
    let [victim] = &upper.tables[..] else { return None };
    // Where tables take whole zones, a piece would leave its last zone almost empty.
    if situation.room.grain_bytes > 0 {
        return None;
    }
    let mut taken_bytes = victim.meta.len_bytes;
    let fitting = lower.tables.iter().take_while(|table| {
        taken_bytes = taken_bytes.saturating_add(table.meta.len_bytes);
        taken_bytes <= room_bytes
    });
    let (count, all_count) = (fitting.count(), lower.tables.len());
    let until = lower.tables.get(count).filter(|_| count > 0)?.meta.smallest.clone();
    lower.tables.truncate(count);
    let rest = victim.meta.with_front_at(&until)?;
    // As if the victim were spread evenly over the tables below it.
    let share_bytes = victim.meta.len_bytes / all_count as u64 * count as u64;
    let lower_len_bytes: u64 = lower.tables.iter().map(|table| table.meta.len_bytes).sum();
    let rest = vec![(upper.level, run, rest)];
    (plan.range.largest, plan.range.largest_excluded) = (until.clone(), true);
    let output = plan.outputs.first_mut()?;
    let range = &plan.range;
    output.grandparents.retain(|table| range.overlaps_table(&table.meta));
    output.is_bottom = !situation.version.has_overlap_below(output.level, range);
    plan.stop = Some(Stop { until, rest, len_bytes: lower_len_bytes + share_bytes });
    Some(plan)
}
