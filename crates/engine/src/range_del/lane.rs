//! The range tombstones of tables as few sorted lists, which all cursors over a version share.
//!
//! ```text
//!   table 4            table 7                   table 9
//!   [a--#9--c--#4--f]  [h-#9-k]                  [p---#2---t]
//!                          ^ key: table 7 by a search, its fragment by another one
//! ```
//!
//! Invariants
//!   L1  The parts are in key order and disjoint, and each has a fragment.

use super::{Cover, FragmentedTombstones, count_step};
use crate::key::Seq;
use bytes::Bytes;
use std::sync::Arc;

/// The range tombstones of tables that do not overlap.
#[derive(Debug)]
pub(crate) struct TombstoneLane {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    start: Bytes,
    end: Bytes,
    tombstones: Arc<FragmentedTombstones>,
}

impl TombstoneLane {
    /// Divides the tombstones of `tables`, given in any order, into the smallest number of lanes.
    pub(crate) fn divide(
        tables: impl IntoIterator<Item = Arc<FragmentedTombstones>>,
    ) -> Vec<Arc<TombstoneLane>> {
        let part = |tombstones: Arc<FragmentedTombstones>| {
            let (start, end) = tombstones.bounds()?;
            Some(Part { start: start.clone(), end: end.clone(), tombstones })
        };
        let mut parts: Vec<Part> = tables.into_iter().filter_map(part).collect();
        parts.sort_by(|a, b| a.start.cmp(&b.start));
        let mut lanes: Vec<TombstoneLane> = Vec::new();
        for part in parts {
            let has_ended = |lane: &&mut TombstoneLane| {
                lane.parts.last().is_some_and(|last| last.end <= part.start)
            };
            match lanes.iter_mut().find(has_ended) {
                Some(lane) => lane.parts.push(part),
                None => lanes.push(TombstoneLane { parts: vec![part] }),
            }
        }
        lanes.into_iter().map(Arc::new).collect()
    }

    /// The newest tombstone at or below `snapshot` that covers `user_key`, with a run of keys
    /// around it that has the same answer.
    pub(crate) fn cover_around(&self, user_key: &[u8], snapshot: Seq) -> Cover {
        let after = self.parts.partition_point(|part| {
            count_step();
            part.start <= user_key
        });
        let (before, rest) = self.parts.split_at(after);
        match before.last() {
            Some(part) if user_key < &part.end[..] => {
                part.tombstones.cover_around(user_key, snapshot)
            }
            last => Cover {
                start: last.map(|part| part.end.clone()),
                end: rest.first().map(|part| part.start.clone()),
                seq: None,
            },
        }
    }
}
