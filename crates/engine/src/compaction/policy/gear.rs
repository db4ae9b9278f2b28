//! Gear compaction: leveled, but merges stay within *windows*, so that whole zones empty
//! themselves.
//!
//! ```text
//!   L1  [ window: all of it ]
//!   L2  [ window: all of it             ]
//!   L3  |zone|zone|  zone | zone | zone | ...     window: the oldest quarter of its zones
//!        ^^^^^^^^^ merged table by table until none is left; then the next quarter
//! ```
//!
//! A level is a gear, and its window is the sector that meshes with the level above. When a level
//! is too long, it turns: some of its tables are merged with the tables they overlap in the window
//! of the level below. The merge continues into the window of the next level, as far as tables
//! overlap (`gear_turn`). Entries that would need tables outside the windows stay above them. So
//! tables die only in windows, and a zone that was once in a window is soon entirely dead: it needs
//! no cleaning.
//!
//! Invariants
//!   X1  A window only loses tables until it is empty; then the oldest reclaim units form the next
//!       one. Exception: it grows by the next oldest unit if no table above overlaps it, because
//!       compaction would otherwise stop.
//!   X2  One turn runs at a time, and no other compaction of the keyspace runs meanwhile.
//!   X3  A turn reads about [`TURN_TABLE_COUNT_MAX`] tables' worth of bytes at most. It goes less deep if
//!       it would read more.
//!   X4  Where the placement has units, such as zones, a level has all tables of a unit or none. So
//!       tables move down without a write only with all of their unit, once the unit is full. Others
//!       wait for that below level 0, and are written to the next level otherwise.
//!       Exceptions: a manual compaction, a drive without room, a store that an older program wrote.
//!
//! If space is short, windows do not count: what frees most for each byte moved goes down.
//!
//! A window is a set of tables rather than zones, because zones are reused. It exists only in
//! memory. After reopening, it is chosen again; the tables left from the old one are the oldest, so
//! the new one is almost the same.
//!
//! Source: GearDB (FAST 2019). Deviations: docs/decisions/0012-gear-compaction.md and
//! docs/decisions/0081-gear-as-published.md.

use crate::compaction::plan::{Plan, Reason, Windows, Work};
use crate::compaction::policy::gear_turn::{GearTurn, has_below};
use crate::compaction::policy::leveled::{self, Leveled};
use crate::compaction::situation::{ManualPlan, ManualRange, Policy, Pressure, Situation};
use crate::options::{GearDepth, KeyspaceOptions};
use crate::version::{Level, TableId, TableSlot, Version};
use imbrex_files::UnitId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A window is 1 / `WINDOW_SHARE` of a level's units.
const WINDOW_SHARE: usize = 4;

/// Up to this level, a window is the whole level.
const WHOLE_LEVEL_MAX: u8 = 2;

/// An approximate limit, in tables' worth of bytes, on the victims of a turn plus the tables they
/// overlap in the first window.
const VICTIMS_TABLE_COUNT_MAX: u64 = 50;

/// With [`GearDepth::FullLevels`], the next level must have this share of its target, as one part of so
/// many. Source: the published program, `need_gear_com`.
const NEXT_LEVEL_SHARE: u64 = 4;

/// A turn goes no deeper if it would read more than so many tables' worth of bytes. Nothing else is
/// compacted meanwhile, its outputs need that much room, and a crash repeats it.
const TURN_TABLE_COUNT_MAX: u64 = 75;

/// If the placement has no units, tables whose numbers are this close form one unit: they were
/// written together, and a zone of the paper holds about as many. With single tables as units,
/// windows would have holes everywhere, and turns would move hardly anything.
const AGE_UNIT_LEN: u64 = 64;

/// A reclaim unit of the placement, or tables of similar age in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Of(UnitId),
    Age(u64),
}

/// The gear policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gear;

impl Policy for Gear {
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan> {
        // (X2) One turn at a time. A turn may write to any level, so a flush below level 0 ends first.
        if !situation.busy.is_idle() || situation.busy.flush.is_some() {
            return None;
        }
        let written = |plan: Plan| written_unless_whole(situation, plan);
        leveled::plan_for_space(situation)
            .map(written)
            .or_else(|| {
                leveled::urgent_levels(situation).into_iter().find_map(|level| match level {
                    0 => leveled::plan_runs(situation).map(written),
                    _ => plan_turn(situation, level),
                })
            })
            .or_else(|| leveled::plan_deletes(situation).map(written))
    }

    /// Ignores the windows and plans like `leveled`, because a manual compaction must end in one
    /// run.
    fn plan_manual(
        &self,
        situation: &Situation<'_>,
        level: u8,
        range: &ManualRange,
        from: Option<&[u8]>,
    ) -> ManualPlan {
        if !situation.busy.is_idle() || situation.busy.flush.is_some() {
            return ManualPlan::Wait;
        }
        Leveled.plan_manual(situation, level, range, from)
    }

    fn pressure(&self, version: &Version, options: &KeyspaceOptions, slack_bytes: u64) -> Pressure {
        Leveled.pressure(version, options, slack_bytes)
    }
}

/// Moves tables of a level that is too long into the window below and onward.
fn plan_turn(situation: &Situation<'_>, level: u8) -> Option<Plan> {
    let tables = &situation.version.levels[usize::from(level)].runs.first()?.tables;
    let below = &situation.version.levels[usize::from(level) + 1];
    let mut windows = current_windows(situation);
    let mut units = None;
    let cursor = &situation.cursors[usize::from(level)];
    let start = tables.partition_point(|table| table.meta.smallest <= *cursor);
    loop {
        let window = &windows[usize::from(level) + 1];
        for at in (start..tables.len()).chain(0..start) {
            if below.overlapping(&tables[at].meta.range()).is_empty() {
                let units = units.get_or_insert_with(|| LevelUnits::of(situation, level));
                match move_down(situation, level, at, units) {
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
        // No table above overlaps the window, or no turn fits: the window grows (X1).
        let wider = widened(situation, below, window)?;
        windows[usize::from(level) + 1] = wider;
    }
}

/// The units of the tables of a level, and those that were found to wait.
#[derive(Debug, Default)]
struct LevelUnits {
    members: BTreeMap<UnitId, Vec<Arc<TableSlot>>>,
    of_table: BTreeMap<TableId, UnitId>,
    waiting: BTreeSet<UnitId>,
}

impl LevelUnits {
    fn of(situation: &Situation<'_>, level: u8) -> LevelUnits {
        let mut units = LevelUnits::default();
        for table in situation.version.levels[usize::from(level)].tables() {
            if let Some(unit) = situation.facts.unit_of(table) {
                units.of_table.insert(table.meta.id, unit);
                units.members.entry(unit).or_default().push(Arc::clone(table));
            }
        }
        units
    }

    /// The tables of `unit`, if nothing more will begin in it and all may move down (X4).
    fn whole(
        &mut self,
        situation: &Situation<'_>,
        level: u8,
        unit: UnitId,
    ) -> Option<&[Arc<TableSlot>]> {
        if self.waiting.contains(&unit) {
            return None;
        }
        let members = self.members.get(&unit)?;
        let may_move = |table: &Arc<TableSlot>| leveled::may_move(situation, level, table);
        if situation.facts.is_filling(unit) || !members.iter().all(may_move) {
            self.waiting.insert(unit);
            return None;
        }
        Some(members)
    }
}

/// Moves down table `at`, which overlaps nothing in the next level, with those of its neighbours
/// that overlap nothing either; or with all tables of its unit (X4). `None` if it must wait.
fn move_down(
    situation: &Situation<'_>,
    level: u8,
    at: usize,
    units: &mut LevelUnits,
) -> Option<Plan> {
    let tables = &situation.version.levels[usize::from(level)].runs.first()?.tables[at..];
    let reason = Reason::Len { level };
    let Some(&unit) = units.of_table.get(&tables[0].meta.id) else {
        let excess = excess_len_bytes(situation, level);
        let len = leveled::fitting(situation, level, tables, excess);
        return leveled::build(situation, level, tables[..len].to_vec(), reason)
            .filter(|plan| situation.fits(plan));
    };
    let members = units.whole(situation, level, unit)?;
    leveled::build_move(situation, level, members.to_vec(), reason)
}

/// The same plan, written instead of moved if it would tear units apart (X4). Without room for that it
/// moves.
fn written_unless_whole(situation: &Situation<'_>, plan: Plan) -> Plan {
    let level = plan.inputs.first().map_or(0, |input| input.level);
    let is_whole = || {
        let moved: BTreeSet<_> = plan.tables().map(|table| table.meta.id).collect();
        let mut units = LevelUnits::of(situation, level);
        let touched: BTreeSet<_> =
            moved.iter().filter_map(|id| units.of_table.get(id).copied()).collect();
        touched.into_iter().all(|unit| {
            let members = units.whole(situation, level, unit);
            members.is_some_and(|all| all.iter().all(|table| moved.contains(&table.meta.id)))
        })
    };
    if plan.work == Work::Merge || is_whole() {
        return plan;
    }
    let mut written = Plan { work: Work::Merge, ..plan.clone() };
    // Tables that move lie in gaps of the next level. One that is written may not span such a table (P1).
    let output = &mut written.outputs[0];
    output.staying = situation.version.levels[usize::from(output.level)].overlapping(&plan.range);
    if situation.fits(&written) { written } else { plan }
}

/// Plans a turn that begins with table `at` of `level`. Returns `None` if the table overlaps
/// nothing in the window, or if the drive has no room.
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
    let takes_one = situation.options.gear_depth == GearDepth::FullLevels;
    while let Some(next) = tables.get(at + len).filter(|_| !takes_one) {
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

/// The tables of a turn that begins with `victims`: those they overlap in the window below, those
/// that these overlap in the next, and so on, until the turn is long enough (X3). A shallow turn stops
/// after one level.
fn take(
    situation: &Situation<'_>,
    level: u8,
    victims: &[Arc<TableSlot>],
    windows: &Windows,
    is_shallow: bool,
) -> GearTurn {
    let len_of = |tables: &[Arc<TableSlot>]| tables.iter().map(|t| t.meta.len_bytes).sum::<u64>();
    let limit = situation.options.table_len_bytes.saturating_mul(TURN_TABLE_COUNT_MAX);
    let mut len_bytes = len_of(victims);
    let mut taken = vec![victims.to_vec()];
    let mut reached = level;
    while has_below(reached) {
        let from = &taken[usize::from(reached - level)];
        let is_first = reached == level;
        if from.is_empty() || !(is_first || may_pass(situation, reached)) {
            break;
        }
        let next = usize::from(reached) + 1;
        let below = overlapped(&situation.version.levels[next], from, &windows[next]);
        len_bytes += len_of(&below);
        if !is_first && len_bytes > limit {
            break;
        }
        taken.push(below);
        reached += 1;
        if is_shallow {
            break;
        }
    }
    GearTurn { level, taken }
}

/// Whether a turn that has reached `level` may go on to the next.
fn may_pass(situation: &Situation<'_>, level: u8) -> bool {
    let (levels, options) = (&situation.version.levels, situation.options);
    let has = |level: u8, share: u64| {
        let len_bytes = levels[usize::from(level)].len_bytes();
        leveled::target_len_bytes(options, level) / share <= len_bytes
    };
    match options.gear_depth {
        GearDepth::Overlaps => true,
        GearDepth::FullLevels => has(level, 1) && has(level + 1, NEXT_LEVEL_SHARE),
    }
}

/// The number of bytes by which a level is too long.
fn excess_len_bytes(situation: &Situation<'_>, level: u8) -> u64 {
    let len_bytes = situation.version.levels[usize::from(level)].len_bytes();
    len_bytes.saturating_sub(leveled::target_len_bytes(situation.options, level))
}

/// The tables of `level` that are in `window` and overlap any of `tables`, in key order.
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

/// The current windows. Where one is empty, the next one is chosen (X1).
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

/// `window` plus the oldest unit that it does not contain entirely; `None` if there is no such
/// unit.
fn widened(
    situation: &Situation<'_>,
    level: &Level,
    window: &BTreeSet<TableId>,
) -> Option<BTreeSet<TableId>> {
    let units = units_by_age(situation, level);
    let next = units.into_iter().find(|unit| !unit.is_subset(window))?;
    Some(window.union(&next).copied().collect())
}

/// The tables of a level grouped by unit. The unit with the oldest table comes first.
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
