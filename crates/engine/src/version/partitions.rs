//! The partitions of a keyspace: key ranges that are merged into the base one after another, and the
//! merge that is under way.
//!
//! ```text
//!   cuts                 g                    p
//!   partitions  | ...... | .................. | ...... |       a flush begins a new table at each cut
//!   upper levels          ~~~~~~~|-----------|                 ~ merged, and gone or before a front
//!   base        [== old ==][= new =][== old =========]
//!                        ^start  ^next        ^end             a base merge under way
//! ```
//!
//! The *base* is the last level, which has one run. A base merge takes everything above the base that
//! it found in its key range, and commits piece by piece: `next` moves forward with each. It goes on
//! from there after a crash. Flushes add newer runs meanwhile, which stay above.
//!
//! Cuts are only where flushes end tables. A table may lie across a cut that is newer than the table.
//!
//! Invariants
//!   Q1  Cuts ascend and are not empty.
//!   Q2  Of a base merge, `start <= next < end`. No table above the base, of a run up to `run_max`,
//!       has a key in `start..next`.
//!
//! Not here: when a merge begins and how far a piece goes (`compaction::policy::lazy`).

use super::{KeyRange, LEVEL_COUNT, Level, RunId, TableSlot, Version};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// The level of the base.
pub const BASE_LEVEL: u8 = LEVEL_COUNT as u8 - 1;

/// A merge of a key range into the base, which commits piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseMerge {
    /// The newest run that takes part.
    pub(crate) run_max: RunId,
    /// The first key of the range; empty if it is unbounded.
    pub(crate) start: Bytes,
    /// The first key that is not merged yet.
    pub(crate) next: Bytes,
    /// The first key after the range, if it is bounded.
    pub(crate) end: Option<Bytes>,
}

impl BaseMerge {
    /// Whether the whole merge, including its finished part, has keys of `range`.
    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        !range.ends_before(&self.start) && self.end.as_ref().is_none_or(|end| range.smallest < *end)
    }

    /// The tables that it still has to merge, with their places; those of newer runs first.
    pub(crate) fn left<'a>(
        &'a self,
        version: &'a Version,
    ) -> impl Iterator<Item = (u8, RunId, &'a Arc<TableSlot>)> {
        version.places().take_while(|(level, ..)| *level < BASE_LEVEL).filter(|(_, run, slot)| {
            *run <= self.run_max
                && !slot.meta.ends_before(&self.next)
                && self.end.as_ref().is_none_or(|end| slot.meta.smallest < *end)
        })
    }
}

/// The partitions of a keyspace. Without cuts there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partitions {
    pub(crate) cuts: Vec<Bytes>,
    pub(crate) merge: Option<BaseMerge>,
}

impl Partitions {
    /// The index of the partition that has `user_key`.
    pub(crate) fn find(&self, user_key: &[u8]) -> usize {
        self.cuts.partition_point(|cut| &cut[..] <= user_key)
    }

    /// The first key of partition `index`; empty if it is unbounded.
    pub(crate) fn start(&self, index: usize) -> Bytes {
        index.checked_sub(1).map_or_else(Bytes::new, |before| self.cuts[before].clone())
    }

    /// The first key after partition `index`, if it is bounded.
    pub(crate) fn end(&self, index: usize) -> Option<Bytes> {
        self.cuts.get(index).cloned()
    }

    /// The number of partitions.
    pub(crate) fn count(&self) -> usize {
        self.cuts.len() + 1
    }

    /// Checks Q1 and Q2. Returns the first violation as text.
    pub(super) fn check(&self, levels: &[Level]) -> Result<(), String> {
        let are_sorted = self.cuts.is_sorted_by(|a, b| a < b);
        if !are_sorted || self.cuts.first().is_some_and(Bytes::is_empty) {
            return Err("Q1: the cuts of partitions do not ascend".to_owned());
        }
        let Some(merge) = &self.merge else { return Ok(()) };
        let is_in_order =
            merge.start <= merge.next && merge.end.as_ref().is_none_or(|end| merge.next < *end);
        if !is_in_order {
            return Err("Q2: a base merge continues outside its range".to_owned());
        }
        for level in &levels[..usize::from(BASE_LEVEL)] {
            for run in level.runs.iter().filter(|run| run.id <= merge.run_max) {
                let merged = |meta: &super::TableMeta| {
                    meta.smallest < merge.next && !meta.ends_before(&merge.start)
                };
                if let Some(table) = run.tables.iter().find(|table| merged(&table.meta)) {
                    let id = table.meta.id;
                    return Err(format!("Q2: table {id} has keys that the base merge passed"));
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Partitions {
    /// For example `cuts: g p` and `base merge: g..p at k, runs up to 9`; nothing without either.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.cuts.is_empty() {
            f.write_str("cuts:")?;
            self.cuts.iter().try_for_each(|cut| write!(f, " {}", cut.escape_ascii()))?;
            writeln!(f)?;
        }
        let Some(BaseMerge { run_max, start, next, end }) = &self.merge else { return Ok(()) };
        let end = end.as_deref().unwrap_or_default().escape_ascii();
        let (start, next) = (start.escape_ascii(), next.escape_ascii());
        writeln!(f, "base merge: {start}..{end} at {next}, runs up to {}", run_max.0)
    }
}
