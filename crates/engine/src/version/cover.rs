//! An index over a level of many overlapping runs: the tables that cover each key, and the level as
//! few sorted lists for scans.
//!
//! ```text
//!   run 9   |------a------|       |---b---|        pieces:   a | a c | c | b c | b | d
//!   run 7          |--------c-------|              lanes:    a b d,  c
//!   run 4                                  |--d--|
//! ```
//!
//! A get searches only the tables of one piece. A scan merges lanes. There are as many lanes as
//! tables at the most crowded key, however many runs the level has.
//!
//! Invariants
//!   C1  Pieces are in ascending key order. A piece lists the tables whose ranges contain its keys,
//!       those of newer runs first.
//!   C2  The tables of a lane are sorted and disjoint. A lane mixes runs, so it has no age relative
//!       to other lanes; sequence numbers decide which entry is newer.

use super::{Run, TableMeta, TableSlot};
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The number of runs above which reads use the cover.
const CROWDED_RUN_COUNT: usize = 4;

/// The tables of a level, indexed by key.
#[derive(Debug, Default)]
pub(crate) struct Cover {
    /// All tables, those of newer runs first.
    tables: Vec<Arc<TableSlot>>,
    /// For each piece, its first key and where its tables begin in `lists`. They end where those of
    /// the next piece begin.
    pieces: Vec<(Bytes, u32)>,
    lists: Vec<u32>,
    lanes: Vec<Vec<Arc<TableSlot>>>,
}

/// Whether reads of these runs use the cover.
#[inline]
pub(crate) fn is_crowded(runs: &[Run]) -> bool {
    runs.len() > CROWDED_RUN_COUNT
}

impl Cover {
    /// Builds the cover.
    ///
    /// Cost: the sum of the number of tables over each piece.
    pub(crate) fn new(runs: &[Run]) -> Cover {
        let tables: Vec<_> = runs.iter().flat_map(|run| &run.tables).cloned().collect();
        let mut borders: Vec<(Bytes, bool, u32)> = Vec::with_capacity(2 * tables.len());
        for (index, table) in tables.iter().enumerate() {
            borders.push((table.meta.smallest.clone(), true, index as u32));
            borders.push((table.meta.range().end(), false, index as u32));
        }
        borders.sort_unstable();
        let (mut pieces, mut lists) = (Vec::new(), Vec::new());
        let mut open = BTreeSet::new();
        let mut borders = borders.into_iter().peekable();
        while let Some((key, begins, index)) = borders.next() {
            if begins {
                open.insert(index)
            } else {
                open.remove(&index)
            };
            if borders.peek().is_none_or(|(next, ..)| *next != key) {
                pieces.push((key, lists.len() as u32));
                lists.extend(open.iter().copied());
            }
        }
        let lanes = lanes(tables.clone());
        Cover { tables, pieces, lists, lanes }
    }

    /// The tables whose range contains `user_key`, those of newer runs first.
    ///
    /// Cost: one binary search.
    #[inline]
    pub(crate) fn at(&self, user_key: &[u8]) -> impl Iterator<Item = &Arc<TableSlot>> {
        let next = self.pieces.partition_point(|(start, _)| &start[..] <= user_key);
        let list = match next.checked_sub(1) {
            None => &[],
            Some(piece) => {
                let to = self.pieces.get(next).map_or(self.lists.len(), |(_, at)| *at as usize);
                &self.lists[self.pieces[piece].1 as usize..to]
            }
        };
        list.iter().map(|&index| &self.tables[index as usize])
    }

    /// All tables in the smallest number of sorted, disjoint lists.
    pub(crate) fn lanes(&self) -> &[Vec<Arc<TableSlot>>] {
        &self.lanes
    }
}

/// Divides `tables` into the smallest number of sorted, disjoint lists.
pub(crate) fn lanes(mut tables: Vec<Arc<TableSlot>>) -> Vec<Vec<Arc<TableSlot>>> {
    tables.sort_by(|a, b| by_key(&a.meta, &b.meta));
    let mut lanes: Vec<Vec<Arc<TableSlot>>> = Vec::new();
    for table in tables {
        let ends = |lane: &&mut Vec<Arc<TableSlot>>| {
            lane.last().is_some_and(|last| last.meta.ends_before(&table.meta.smallest))
        };
        match lanes.iter_mut().find(ends) {
            Some(lane) => lane.push(table),
            None => lanes.push(vec![table]),
        }
    }
    lanes
}

/// Orders tables by their smallest key, then by id, so that no two are equal.
pub(crate) fn by_key(a: &TableMeta, b: &TableMeta) -> Ordering {
    (&a.smallest, a.id).cmp(&(&b.smallest, b.id))
}

#[cfg(test)]
mod tests;
