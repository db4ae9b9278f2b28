//! Which of the tables on a drive were alive, from what the tables say about their origin. Pure.
//!
//! ```text
//!   roster, newest   L0: 9 | L1: 4 7 | L2: 1 2        alive at that commit, the rest was dead
//!   younger tables   10: flush of logs 8..9           alive as well
//!                    11 12: merge of 4 1              replace their inputs, if all of them are whole
//!   alive            L0: 10 9 | L1: 7 | L2: 11 12 2
//! ```
//!
//! A merge drops deletes that hide nothing any more, and takes the sequence numbers from entries of
//! the last level. So a dead table must not be read together with its successors: what it holds
//! could win.
//!
//! Invariants
//!   A1  A table that the newest roster does not list, and that was finished before it, was dead by
//!       then, unless its commit came later: then its inputs, or its logs, were still needed.
//!   A2  A merge counts if all its tables are whole, or if a later table names one of them as an
//!       input. Otherwise its inputs count, while all of them are whole: it may never have been
//!       committed.
//!   A3  A table that should be alive and was not found leaves a gap: the keys between its
//!       neighbours in its run. Keys there are missing, and entries of older runs in the gap are in
//!       doubt. A roster also names the newest table of each keyspace, which it may not list yet.
//!   A4  Without a roster, every table counts that no whole table names as an input, and everything
//!       is in doubt.

use crate::table::{Origin, Roster, RosterRun, Stamp, StopMark};
use std::collections::{BTreeMap, BTreeSet};

/// What a found table says.
#[derive(Clone, Debug, Default)]
pub(super) struct TableFact {
    pub(super) origin: Option<Origin>,
    pub(super) roster: Option<Roster>,
    /// The smallest and the largest key, if they are known.
    pub(super) range: Option<(Vec<u8>, Vec<u8>)>,
}

/// A table that should be alive and was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// Its number, if it is known.
    pub(super) table: Option<u64>,
    pub(super) level: u8,
    /// The largest key of its left neighbour.
    pub(super) above: Option<Vec<u8>>,
    /// The smallest key of its right neighbour.
    pub(super) below: Option<Vec<u8>>,
    /// Whether older runs may hold outdated entries of the gap.
    pub(super) has_older: bool,
}

/// A keyspace as it can be put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyspacePlan {
    pub(super) id: u32,
    pub(super) name: String,
    /// The first log that may hold writes of it that are in no table.
    pub(super) log_floor: u64,
    /// The newest first.
    pub(super) runs: Vec<RosterRun>,
    pub(super) gaps: Vec<Gap>,
    /// The keys from which tables are read that a merge has read up to there.
    pub(super) fronts: BTreeMap<u64, Vec<u8>>,
    /// Whether a roster says which tables were alive (A4).
    pub(super) has_roster: bool,
}

/// The name of a keyspace whose name is on no table.
pub(super) fn unknown_name(id: u32) -> String {
    match id {
        0 => "default".to_owned(),
        _ => format!("keyspace-{id}"),
    }
}

/// Puts together all keyspaces of the store whose tables are `facts`, by table number. `is_whole`
/// returns whether every block of a table can be read.
pub(super) fn plan(
    facts: &BTreeMap<u64, TableFact>,
    is_whole: &mut dyn FnMut(u64) -> bool,
) -> Vec<KeyspacePlan> {
    let newest = rosters(facts).max_by_key(|(origin, _)| origin.stamp);
    let directory = newest.map(|(_, roster)| roster);
    let mut ids: BTreeSet<u32> =
        facts.values().filter_map(|f| Some(f.origin.as_ref()?.keyspace)).collect();
    if let Some(directory) = directory {
        let is_dropped = |id: &u32| {
            u64::from(*id) < directory.next_keyspace
                && directory.keyspaces.iter().all(|keyspace| keyspace.id != *id)
        };
        ids.retain(|id| !is_dropped(id));
        ids.extend(directory.keyspaces.iter().map(|keyspace| keyspace.id));
    }
    let mut plans: Vec<KeyspacePlan> = Vec::new();
    for id in ids {
        let own = rosters(facts).filter(|(origin, _)| origin.keyspace == id);
        let own = own.max_by_key(|(origin, _)| origin.stamp);
        let mut planner = Planner { facts, id, is_whole };
        let mut plan = match own {
            Some((origin, roster)) => planner.by_roster(origin.stamp, roster),
            None => planner.by_numbers(),
        };
        for roster in own.map(|(_, roster)| roster).into_iter().chain(directory) {
            if let Some(entry) = roster.keyspaces.iter().find(|keyspace| keyspace.id == id) {
                plan.name.clone_from(&entry.name);
                plan.log_floor = plan.log_floor.max(entry.log_floor);
                planner.note_newest(&mut plan, entry.newest_table);
            }
        }
        plans.push(plan);
    }
    plans
}

/// All rosters, each with the origin of its table.
fn rosters(facts: &BTreeMap<u64, TableFact>) -> impl Iterator<Item = (&Origin, &Roster)> + use<'_> {
    facts.values().filter_map(|fact| fact.origin.as_ref().zip(fact.roster.as_ref()))
}

/// The tables of one flush or compaction that were found.
#[derive(Debug)]
struct Group {
    stamp: Stamp,
    inputs: BTreeSet<u64>,
    /// Where it stopped before the end of others.
    stop: Option<StopMark>,
    logs: Option<(u64, u64)>,
    tables: Vec<u64>,
    is_complete: bool,
}

struct Planner<'a, 'b> {
    facts: &'a BTreeMap<u64, TableFact>,
    id: u32,
    is_whole: &'b mut dyn FnMut(u64) -> bool,
}

impl<'a> Planner<'a, '_> {
    fn origin(&self, table: u64) -> Option<&'a Origin> {
        self.facts.get(&table)?.origin.as_ref()
    }

    /// The tables of the keyspace that say so themselves, but those in `without`.
    fn own_tables(&self, without: &BTreeSet<u64>) -> Vec<u64> {
        let is_own = |table: &u64| self.origin(*table).is_some_and(|o| o.keyspace == self.id);
        self.facts.keys().copied().filter(is_own).filter(|table| !without.contains(table)).collect()
    }

    fn empty_plan(&self, has_roster: bool) -> KeyspacePlan {
        KeyspacePlan {
            id: self.id,
            name: unknown_name(self.id),
            log_floor: 0,
            runs: Vec::new(),
            gaps: Vec::new(),
            fronts: BTreeMap::new(),
            has_roster,
        }
    }

    /// Without a roster (A4).
    fn by_numbers(&mut self) -> KeyspacePlan {
        let mut plan = self.empty_plan(false);
        let own = self.own_tables(&BTreeSet::new());
        let mut dead = BTreeSet::new();
        for &table in &own {
            let Some(origin) = self.origin(table) else { continue };
            if !origin.inputs.is_empty() && (self.is_whole)(table) {
                dead.extend(origin.inputs.iter().copied());
            }
        }
        for table in own.into_iter().rev().filter(|table| !dead.contains(table)) {
            plan.runs.push(RosterRun { level: 0, run: table, tables: vec![table] });
        }
        plan
    }

    fn by_roster(&mut self, stamp: Stamp, roster: &Roster) -> KeyspacePlan {
        let mut plan = self.empty_plan(true);
        plan.runs.clone_from(&roster.runs);
        plan.fronts.extend(roster.fronts.iter().cloned());
        let floor = roster.keyspaces.iter().find(|keyspace| keyspace.id == self.id);
        plan.log_floor = floor.map_or(0, |keyspace| keyspace.log_floor);
        let listed: BTreeSet<u64> = roster.tables().collect();
        let groups = self.younger(stamp, plan.log_floor, &listed);
        for (index, group) in groups.iter().enumerate() {
            if group.inputs.is_empty() && group.stop.is_none() {
                self.add(&mut plan, &group.tables);
                if let Some((_, end)) = group.logs.filter(|_| group.is_complete) {
                    plan.log_floor = plan.log_floor.max(end);
                }
                continue;
            }
            let later = &groups[index + 1..];
            let is_named = |table: &u64| later.iter().any(|group| group.inputs.contains(table));
            let is_committed = group.is_complete || group.tables.iter().any(is_named);
            let mut inputs = group.inputs.iter();
            if !is_committed
                && inputs.all(|input| self.facts.contains_key(input) && (self.is_whole)(*input))
            {
                continue; // A2
            }
            if !group.is_complete {
                plan.gaps.push(self.hull(group));
            }
            for run in &mut plan.runs {
                run.tables.retain(|table| !group.inputs.contains(table));
            }
            if let Some(StopMark { until, kept }) = &group.stop {
                plan.fronts.extend(kept.iter().map(|&table| (table, until.clone())));
            }
            self.add(&mut plan, &group.tables);
        }
        plan.runs.retain(|run| !run.tables.is_empty());
        self.find_gaps(&mut plan);
        plan
    }

    /// The groups that were committed after a roster, or may have been, in the order in which they
    /// were written (A1).
    fn younger(&mut self, stamp: Stamp, floor: u64, listed: &BTreeSet<u64>) -> Vec<Group> {
        // A crash may give the number of a group that was not committed to another one.
        let mut by_group: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
        for table in self.own_tables(listed) {
            if let Some(origin) = self.origin(table) {
                by_group.entry((origin.stamp.epoch, origin.group)).or_default().push(table);
            }
        }
        let mut groups: Vec<Group> = by_group.into_values().filter_map(|t| self.group(t)).collect();
        groups.sort_by_key(|group| (group.stamp, group.tables.first().copied()));
        let mut alive = listed.clone();
        groups.retain(|group| {
            let is_younger = stamp <= group.stamp
                || group.inputs.iter().any(|input| alive.contains(input))
                || group.logs.is_some_and(|(_, end)| floor < end);
            if is_younger {
                alive.extend(group.tables.iter().copied());
            }
            is_younger
        });
        // Reading all blocks is only worth it for these.
        for group in &mut groups {
            group.is_complete &= group.tables.iter().all(|table| (self.is_whole)(*table));
        }
        groups
    }

    fn group(&self, tables: Vec<u64>) -> Option<Group> {
        let origins: Vec<&Origin> = tables.iter().filter_map(|table| self.origin(*table)).collect();
        let first = origins.first()?;
        let output_count = first.part.output_count.max(1);
        let is_output_complete = |output: u64| {
            let mut parts: Vec<_> = origins.iter().map(|origin| origin.part).collect();
            parts.retain(|part| part.output == output);
            parts.sort_by_key(|part| part.number);
            let is_gapless = (0..).zip(&parts).all(|(number, part)| part.number == number);
            is_gapless && parts.last().is_some_and(|part| part.is_last)
        };
        let is_complete = (0..output_count).all(is_output_complete);
        Some(Group {
            stamp: origins.iter().map(|origin| origin.stamp).min()?,
            inputs: origins.iter().flat_map(|origin| origin.inputs.iter().copied()).collect(),
            stop: first.stop.clone(),
            logs: first.logs,
            is_complete,
            tables,
        })
    }

    fn range(&self, table: u64) -> Option<&'a (Vec<u8>, Vec<u8>)> {
        self.facts.get(&table)?.range.as_ref()
    }

    /// Adds `tables` to the runs that they name.
    fn add(&self, plan: &mut KeyspacePlan, tables: &[u64]) {
        for &table in tables {
            let Some(origin) = self.origin(table) else { continue };
            let (level, id) = (origin.level, origin.run);
            let at = plan.runs.partition_point(|run| {
                (run.level, std::cmp::Reverse(run.run)) < (level, std::cmp::Reverse(id))
            });
            if plan.runs.get(at).is_none_or(|run| (run.level, run.run) != (level, id)) {
                plan.runs.insert(at, RosterRun { level, run: id, tables: Vec::new() });
            }
            let run = &mut plan.runs[at].tables;
            let smallest = self.range(table).map(|range| &range.0);
            let follows = |other: &u64| self.range(*other).map(|range| &range.0) > smallest;
            let place = run.iter().position(follows).unwrap_or(run.len());
            run.insert(place, table);
        }
    }

    /// Adds a gap if `table`, the newest of the keyspace when a roster was written, was not found and
    /// no table replaces it.
    fn note_newest(&self, plan: &mut KeyspacePlan, table: u64) {
        let is_replaced = || {
            let mut origins = self.facts.values().filter_map(|fact| fact.origin.as_ref());
            origins.any(|origin| origin.inputs.contains(&table))
        };
        let is_known = plan.gaps.iter().any(|gap| gap.table == Some(table));
        if table == 0 || is_known || self.facts.contains_key(&table) || is_replaced() {
            return;
        }
        let (above, below) = (None, None);
        plan.gaps.push(Gap { table: Some(table), level: 0, above, below, has_older: true });
    }

    /// The key range in which a group that is not complete may miss tables.
    fn hull(&self, group: &Group) -> Gap {
        let all = group.inputs.iter().chain(&group.tables);
        let ranges: Vec<_> = all.map(|table| self.range(*table)).collect();
        let is_known = ranges.iter().all(Option::is_some);
        let known = || ranges.iter().flatten();
        let level =
            group.tables.first().and_then(|table| self.origin(*table)).map_or(0, |o| o.level);
        Gap {
            table: None,
            level,
            above: known().map(|range| range.0.clone()).min().filter(|_| is_known),
            below: known().map(|range| range.1.clone()).max().filter(|_| is_known),
            has_older: true,
        }
    }

    /// Takes the tables that were not found out of the plan (A3).
    fn find_gaps(&self, plan: &mut KeyspacePlan) {
        for index in 0..plan.runs.len() {
            let has_older = index + 1 < plan.runs.len();
            let run = &plan.runs[index];
            for (at, &table) in run.tables.iter().enumerate() {
                if self.facts.contains_key(&table) {
                    continue;
                }
                let before = run.tables[..at].iter().rev().find_map(|other| self.range(*other));
                let after = run.tables[at..].iter().find_map(|other| self.range(*other));
                plan.gaps.push(Gap {
                    table: Some(table),
                    level: run.level,
                    above: before.map(|range| range.1.clone()),
                    below: after.map(|range| range.0.clone()),
                    has_older,
                });
            }
        }
        for run in &mut plan.runs {
            run.tables.retain(|table| self.facts.contains_key(table));
        }
        plan.runs.retain(|run| !run.tables.is_empty());
    }
}

#[cfg(test)]
mod tests;
