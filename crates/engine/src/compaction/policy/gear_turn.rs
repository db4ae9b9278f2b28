//! A turn: tables of one level and the tables they overlap in the windows below, as one merge.
//!
//! ```text
//!   L2      [ victim .................... ]      taken
//!   L3   [taken][ stays ][taken]      [ ...      of these, those in the window are taken
//!   L4         [stays][stays]  [stays]
//!                 in    out    in   gap          an entry of the victim goes to
//!          L3 or L4 or   |     "     L3          the deepest level it can reach
//!          where the     L2
//!          same decides
//! ```
//!
//! An entry of level m starts at level j = m and looks at level j + 1. If a taken table there has
//! its key in range, the entry goes down to j + 1 and looks again. If no table there has the key,
//! the entry goes down to j + 1 and stops. If a staying table has it, the entry stops in level j.
//! So everything older in the levels it passed is part of the merge (P4), deeper data is older
//! (V2), and the outputs overlap no staying table (P1).
//!
//! Source: gear compaction (GearDB) merges level by level and holds back the entries not yet
//! written. This merge does the same in one sweep in key order, with one table per level in memory.

use crate::compaction::plan::{Input, Output, Plan, Reason, Work};
use crate::compaction::routes::{Route, Routes, Segment};
use crate::compaction::situation::Situation;
use crate::version::{KeyRange, LEVEL_COUNT, RunId, TableMeta, TableSlot};
use bytes::Bytes;
use std::sync::Arc;

/// The tables that a turn takes, from its first level downward.
#[derive(Clone, Debug)]
pub(crate) struct GearTurn {
    pub(crate) level: u8,
    /// One list per level, each in key order; the first list is that of `level`. No entry goes
    /// below the level of the last list.
    pub(crate) taken: Vec<Vec<Arc<TableSlot>>>,
}

/// The kind of table that a level has in a stretch of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Gap,
    Taken,
    Stays,
}

impl GearTurn {
    /// The taken tables of all levels.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableSlot>> {
        self.taken.iter().flatten()
    }

    /// The number of bytes that the turn reads.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.tables().map(|table| table.meta.len_bytes).sum()
    }

    fn end_level(&self) -> u8 {
        self.level + self.taken.len() as u8 - 1
    }

    fn takes(&self, level: u8, table: &TableSlot) -> bool {
        let taken = level.checked_sub(self.level).and_then(|at| self.taken.get(usize::from(at)));
        taken.is_some_and(|tables| {
            tables.binary_search_by(|t| t.meta.smallest.cmp(&table.meta.smallest)).is_ok()
        })
    }

    /// The merge that performs the turn.
    pub(crate) fn plan(&self, situation: &Situation<'_>, reason: Reason) -> Plan {
        let all = self.tables().map(|table| &table.meta);
        let range = KeyRange::of(all).expect("a turn begins with a table");
        let levels = self.level..=self.end_level();
        let inputs = levels.clone().zip(&self.taken).filter(|(_, tables)| !tables.is_empty());
        let inputs = inputs.map(|(level, tables)| Input { level, tables: tables.clone() });
        let outputs = levels.map(|level| self.output(situation, &range, level));
        Plan {
            reason,
            work: Work::Merge,
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            routes: Some(self.routes(situation, &range)),
            range,
            outputs_together: false,
            windows: None,
            stop: None,
            partitions: None,
        }
    }

    fn output(&self, situation: &Situation<'_>, range: &KeyRange, level: u8) -> Output {
        let levels = &situation.version.levels;
        let mut staying = levels[usize::from(level)].overlapping(range);
        staying.retain(|table| !self.takes(level, table));
        let below = levels.get(usize::from(level) + 1);
        Output {
            level,
            run: RunId::ONLY,
            is_bottom: !situation.version.has_overlap_below(level, range),
            grandparents: below.map_or_else(Vec::new, |below| below.overlapping(range)),
            staying,
        }
    }

    fn routes(&self, situation: &Situation<'_>, range: &KeyRange) -> Routes {
        // The keys at which the state of some level below the first changes.
        let tables: Vec<Vec<_>> = situation.version.levels[usize::from(self.level) + 1..]
            .iter()
            .map(|level| level.overlapping(range))
            .collect();
        let ends = tables.iter().flatten();
        let ends = ends.flat_map(|table| [table.meta.smallest.clone(), after(&table.meta)]);
        let mut starts: Vec<_> = ends.chain([Bytes::new()]).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut at = vec![0; tables.len()];
        let mut segments: Vec<Vec<Segment>> = vec![Vec::new(); self.taken.len()];
        for start in starts {
            let states: Vec<_> = (self.level + 1..)
                .zip(tables.iter().zip(&mut at))
                .map(|(level, (tables, at))| self.state(level, tables, at, &start))
                .collect();
            for (from, segments) in segments.iter_mut().enumerate() {
                segments.push(Segment { start: start.clone(), route: self.route(from, &states) });
            }
        }
        let mut routes = Routes::default();
        for (level, segments) in (self.level..).zip(segments) {
            routes.set(level, segments);
        }
        routes
    }

    /// The state of `level` at `key`. `at` is a cursor into `tables`; it moves past tables that end
    /// before `key`.
    fn state(&self, level: u8, tables: &[Arc<TableSlot>], at: &mut usize, key: &[u8]) -> State {
        while tables.get(*at).is_some_and(|table| table.meta.ends_before(key)) {
            *at += 1;
        }
        match tables.get(*at) {
            Some(table) if table.meta.smallest <= *key => {
                if self.takes(level, table) {
                    State::Taken
                } else {
                    State::Stays
                }
            }
            _ => State::Gap,
        }
    }

    /// The route for entries of level `self.level + from`, given the states of the levels below the
    /// first.
    fn route(&self, from: usize, states: &[State]) -> Route {
        let end = self.taken.len() - 1;
        let (mut output, mut short_to) = (from, None);
        while output < end {
            match states[output] {
                State::Taken => output += 1,
                State::Stays => break,
                State::Gap => {
                    short_to = Some(output);
                    output += 1;
                    break;
                }
            }
        }
        let is_bottom = !states[output..].contains(&State::Stays);
        Route { output, is_bottom, short_to }
    }
}

/// The first key after all keys of a table.
fn after(meta: &TableMeta) -> Bytes {
    if meta.largest_excluded {
        return meta.largest.clone();
    }
    let mut key = meta.largest.to_vec();
    key.push(0);
    key.into()
}

/// Whether a level exists below this one.
pub(crate) fn has_below(level: u8) -> bool {
    usize::from(level) + 1 < LEVEL_COUNT
}
