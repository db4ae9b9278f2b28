//! Gear compaction: levels as in `leveled`, but compactions stay within windows, so that whole
//! zones empty themselves.
//!
//! ```text
//!   L1  [ window: all of it ]
//!   L2  [ window: all of it             ]
//!   L3  |zone|zone|  zone | zone | zone | ...     window: the oldest quarter of its zones
//!        ^^^^^^^^^ taken table by table, until none is left; then the next quarter
//! ```
//!
//! A gear is a level, its window the sector that meshes with the level above. A level that is too
//! long is turned: some of its tables are merged with what they overlap in the window of the level
//! below, and that goes on into the window of the next, as far as something overlaps (`gear_turn`). What
//! would have to go into tables outside the windows stays above them. So tables die in windows only,
//! and a zone that was once in a window is soon wholly dead: nothing has to be cleaned.
//!
//! Invariants
//!   X1  A window changes only by losing tables, until it has none; then it is chosen anew from the
//!       oldest reclaim units. It grows by the next oldest unit only where nothing above overlaps
//!       it: compaction would stand still.
//!   X2  One turn runs at a time, and no other compaction of the keyspace beside it.
//!
//! A window is kept in memory as a set of tables, not of zones: zones are reused. After reopening it
//! is chosen anew; the rest of the old one is the oldest there is, so it is about the same.
//!
//! Source: GearDB (FAST 2019). Deviations: docs/decisions/0010-gear-compaction.md.

use crate::compaction::plan::{Plan, Reason, Windows};
use crate::compaction::policy::gear_turn::{GearTurn, has_below};
use crate::compaction::policy::leveled::{self, Leveled};
use crate::compaction::situation::{ManualPlan, ManualRange, Policy, Pressure, Situation};
use crate::options::KeyspaceOptions;
use crate::version::{Level, TableId, TableSlot, Version};
use imbrex_files::UnitId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A window is one part in so many of a level's units.
const WINDOW_SHARE: usize = 4;

/// The windows of the levels up to this one are the whole level.
const WHOLE_LEVEL_MAX: u8 = 2;

/// About how many tables' worth the victims of a turn and what they overlap in the first window come
/// to at most.
const VICTIMS_TABLE_COUNT_MAX: u64 = 50;

/// Where the placement has no units, tables count as one if their numbers are about so near: what
/// was written together, about as many tables as a zone has in the paper. Single tables would make
/// windows with holes everywhere, and turns that hardly move anything.
const AGE_UNIT_LEN: u64 = 64;

/// What empties as a whole, of the placement or in its stead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Of(UnitId),
    Age(u64),
}

/// The policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gear;

impl Policy for Gear {
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan> {
        // X2.
        if !situation.busy.is_idle() {
            return None;
        }
        leveled::urgent_levels(situation)
            .into_iter()
            .find_map(|level| match level {
                0 => leveled::plan_runs(situation),
                _ => plan_turn(situation, level),
            })
            .or_else(|| leveled::plan_deletes(situation))
    }

    /// As leveled, whatever the windows: it ends in one run.
    fn plan_manual(
        &self,
        situation: &Situation<'_>,
        level: u8,
        range: &ManualRange,
        from: Option<&[u8]>,
    ) -> ManualPlan {
        if !situation.busy.is_idle() {
            return ManualPlan::Wait;
        }
        Leveled.plan_manual(situation, level, range, from)
    }

    fn pressure(&self, version: &Version, options: &KeyspaceOptions) -> Pressure {
        Leveled.pressure(version, options)
    }
}

/// Tables of a level that is too long, into the window below and on.
fn plan_turn(situation: &Situation<'_>, level: u8) -> Option<Plan> {
    let tables = &situation.version.levels[usize::from(level)].runs.first()?.tables;
    let below = &situation.version.levels[usize::from(level) + 1];
    let mut windows = current_windows(situation);
    let cursor = &situation.cursors[usize::from(level)];
    let start = tables.partition_point(|table| table.meta.smallest <= *cursor);
    loop {
        let window = &windows[usize::from(level) + 1];
        for at in (start..tables.len()).chain(0..start) {
            if below.overlapping(&tables[at].meta.range()).is_empty() {
                match move_down(situation, level, at) {
                    None => continue,
                    down => return down,
                }
            }
            let plan = turn_from(situation, level, at, window, &windows);
            if let Some(mut plan) = plan {
                plan.windows = Some(Box::new(windows));
                return Some(plan);
            }
        }
        // Nothing above overlaps the window, or nothing fits: X1.
        let wider = widened(situation, below, window)?;
        windows[usize::from(level) + 1] = wider;
    }
}

/// A table over which the next level has nothing, with its neighbours of that kind.
fn move_down(situation: &Situation<'_>, level: u8, at: usize) -> Option<Plan> {
    let tables = &situation.version.levels[usize::from(level)].runs.first()?.tables[at..];
    let excess = excess_len_bytes(situation, level);
    let len = leveled::fitting(situation, level, tables, excess);
    leveled::build(situation, level, tables[..len].to_vec(), Reason::Len { level })
        .filter(|plan| situation.fits(plan))
}

/// A turn that begins with table `at` of `level`; `None` if it overlaps nothing of the window, or
/// if the drive has no room.
fn turn_from(
    situation: &Situation<'_>,
    level: u8,
    at: usize,
    window: &BTreeSet<TableId>,
    windows: &Windows,
) -> Option<Plan> {
    let tables = &situation.version.levels[usize::from(level)].runs.first()?.tables;
    let below = &situation.version.levels[usize::from(level) + 1];
    if overlapped(below, &tables[at..=at], window).is_empty() {
        return None;
    }
    let excess = excess_len_bytes(situation, level);
    let limit = situation.options.table_len_bytes.saturating_mul(VICTIMS_TABLE_COUNT_MAX);
    let len_of = |tables: &[Arc<TableSlot>]| -> u64 {
        let taken = overlapped(below, tables, window);
        tables.iter().chain(&taken).map(|table| table.meta.len_bytes).sum()
    };
    let mut len = 1;
    let mut victims_len_bytes = tables[at].meta.len_bytes;
    while let Some(next) = tables.get(at + len) {
        if victims_len_bytes >= excess
            || overlapped(below, std::slice::from_ref(next), window).is_empty()
            || len_of(&tables[at..=at + len]) > limit
        {
            break;
        }
        victims_len_bytes += next.meta.len_bytes;
        len += 1;
    }
    let reason = Reason::Len { level };
    let several = take(situation, level, &tables[at..at + len], windows, false);
    let one = || take(situation, level, &tables[at..=at], windows, false);
    let shallow = || take(situation, level, &tables[at..=at], windows, true);
    let is_free = |turn: &GearTurn| !turn.tables().any(|table| situation.busy.has_table(table));
    let fits = |turn: &GearTurn| turn.len_bytes() <= situation.room.len_bytes && is_free(turn);
    let turn = Some(several)
        .filter(fits)
        .or_else(|| Some(one()).filter(fits))
        .or_else(|| Some(shallow()).filter(fits))?;
    Some(turn.plan(situation, reason))
}

/// What a turn takes that begins with `victims`: what they overlap in the window below, what that
/// overlaps in the next, and so on; or one level only.
fn take(
    situation: &Situation<'_>,
    level: u8,
    victims: &[Arc<TableSlot>],
    windows: &Windows,
    is_shallow: bool,
) -> GearTurn {
    let mut taken = vec![victims.to_vec()];
    let mut reached = level;
    while has_below(reached) {
        let from = &taken[usize::from(reached - level)];
        if from.is_empty() {
            break;
        }
        let next = usize::from(reached) + 1;
        let below = overlapped(&situation.version.levels[next], from, &windows[next]);
        taken.push(below);
        reached += 1;
        if is_shallow {
            break;
        }
    }
    GearTurn { level, taken }
}

/// By how much a level is too long.
fn excess_len_bytes(situation: &Situation<'_>, level: u8) -> u64 {
    let len_bytes = situation.version.levels[usize::from(level)].len_bytes();
    len_bytes.saturating_sub(leveled::target_len_bytes(situation.options, level))
}

/// The tables of `level` in `window` that overlap any of `tables`, in key order.
fn overlapped(
    level: &Level,
    tables: &[Arc<TableSlot>],
    window: &BTreeSet<TableId>,
) -> Vec<Arc<TableSlot>> {
    let mut found: Vec<Arc<TableSlot>> = Vec::new();
    for table in tables {
        for other in level.overlapping(&table.meta.range()) {
            let is_new = found.last().is_none_or(|last| last.meta.id != other.meta.id);
            if is_new && window.contains(&other.meta.id) {
                found.push(other);
            }
        }
    }
    found
}

/// The windows as they are; where one is empty, the next (X1).
fn current_windows(situation: &Situation<'_>) -> Windows {
    let mut windows = Windows::default();
    for (number, window) in windows.iter_mut().enumerate() {
        let level = &situation.version.levels[number];
        *window = level
            .tables()
            .map(|table| table.meta.id)
            .filter(|id| {
                number <= usize::from(WHOLE_LEVEL_MAX) || situation.windows[number].contains(id)
            })
            .collect();
        if window.is_empty() {
            let units = units_by_age(situation, level);
            let count = units.len().div_ceil(WINDOW_SHARE);
            *window = units.into_iter().take(count).flatten().collect();
        }
    }
    windows
}

/// `window` and the oldest unit that is not wholly in it; `None` if there is none.
fn widened(
    situation: &Situation<'_>,
    level: &Level,
    window: &BTreeSet<TableId>,
) -> Option<BTreeSet<TableId>> {
    let units = units_by_age(situation, level);
    let next = units.into_iter().find(|unit| !unit.is_subset(window))?;
    Some(window.union(&next).copied().collect())
}

/// The tables of a level by the units they lie in, the unit with the oldest table first.
fn units_by_age(situation: &Situation<'_>, level: &Level) -> Vec<BTreeSet<TableId>> {
    let mut units: BTreeMap<Unit, BTreeSet<TableId>> = BTreeMap::new();
    for table in level.tables() {
        let id = table.meta.id;
        let unit = match situation.facts.unit_of(table) {
            Some(unit) => Unit::Of(unit),
            None => Unit::Age(id.0 / AGE_UNIT_LEN),
        };
        units.entry(unit).or_default().insert(id);
    }
    let mut units: Vec<_> = units.into_values().collect();
    units.sort_by_key(|unit| unit.first().copied());
    units
}
