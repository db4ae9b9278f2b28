//! Range tombstones with every number: a segment tree over the spans between their bounds.
//!
//! ```text
//!   written     a------#1------e           node 1   a.........i            -
//!                  c-----#2------g              2   a....e       #1    3   e....i      -
//!               a-----------#3------i            4 a.c   5 c.e         6 e.g   7 g.i
//!   spans       a..c  c..e  e..g  g..i            -       #2           #2       -      #3 at node 1
//! ```
//!
//! The tombstones over a key are those of the nodes from its span up to the root. A tombstone is
//! stored at the few largest nodes that its range consists of, so n nested ranges need n log n
//! numbers, and not n^2/2 like fragments with all of theirs.
//!
//! Invariants
//!   H1  `bounds` ascend without repeating. Span i is `bounds[i]..bounds[i + 1]`, and its leaf is
//!       node `span_count + i`. The parent of node v is v / 2; node 1 is the last one on the way up.
//!   H2  The numbers of a node ascend. Each tombstone over a span is at exactly one node between
//!       the leaf of the span and node 1.
//!
//! Source: segment trees (Bentley, 1977), in the form without recursion, which needs no power of
//! two.

use super::{Cover, RangeTombstone, count_step};
use crate::key::Seq;
use bytes::Bytes;

/// Range tombstones ready for look-ups at any snapshot. Nothing changes any more.
#[derive(Debug)]
pub(crate) struct TombstoneHistory {
    bounds: Vec<Bytes>,
    /// Where the numbers of each node begin in `seqs`; one more entry ends those of the last node.
    first_of_node: Vec<u32>,
    seqs: Vec<Seq>,
}

impl TombstoneHistory {
    /// Prepares `tombstones`: at least one, in ascending order of their numbers, none of them empty.
    ///
    /// Cost: one sort of their bounds, and O(log n) steps each.
    pub(crate) fn new(tombstones: &[RangeTombstone]) -> TombstoneHistory {
        debug_assert!(tombstones.is_sorted_by(|a, b| a.seq < b.seq), "H2: numbers ascend");
        let (bounds, ranges) = bounds(tombstones);
        let span_count = bounds.len() - 1;
        let mut count_of_node = vec![0_u32; 2 * span_count + 1];
        for &range in &ranges {
            for_each_node(span_count, range, |node| count_of_node[node] += 1);
        }
        let mut total = 0;
        for count in &mut count_of_node {
            total += std::mem::replace(count, total);
        }
        let first_of_node = count_of_node;
        let mut seqs = vec![Seq(0); total as usize];
        let mut next_of_node = first_of_node.clone();
        for (tombstone, &range) in tombstones.iter().zip(&ranges) {
            for_each_node(span_count, range, |node| {
                seqs[next_of_node[node] as usize] = tombstone.seq;
                next_of_node[node] += 1;
            });
        }
        TombstoneHistory { bounds, first_of_node, seqs }
    }

    /// The newest tombstone at or below `snapshot` that covers `user_key`.
    #[inline]
    pub(crate) fn max_seq_covering(&self, user_key: &[u8], snapshot: Seq) -> Option<Seq> {
        let after = self.count_until(user_key);
        if after == 0 || after == self.bounds.len() {
            return None;
        }
        self.newest(after - 1, snapshot)
    }

    /// Like [`Self::max_seq_covering`], with a run of keys around `user_key` that has the same
    /// answer.
    pub(crate) fn cover_around(&self, user_key: &[u8], snapshot: Seq) -> Cover {
        let after = self.count_until(user_key);
        let start = after.checked_sub(1).map(|before| self.bounds[before].clone());
        let end = self.bounds.get(after).cloned();
        let seq = match (&start, &end) {
            (Some(_), Some(_)) => self.newest(after - 1, snapshot),
            _ => None,
        };
        Cover { start, end, seq }
    }

    /// The number of bounds at or before `user_key`.
    #[inline]
    fn count_until(&self, user_key: &[u8]) -> usize {
        self.bounds.partition_point(|bound| {
            count_step();
            bound <= user_key
        })
    }

    /// The largest number at or below `snapshot` on the way from the leaf of `span` to the root.
    #[inline]
    fn newest(&self, span: usize, snapshot: Seq) -> Option<Seq> {
        let mut node = self.bounds.len() - 1 + span;
        let mut newest = None;
        while node > 0 {
            count_step();
            let numbers = self.first_of_node[node] as usize..self.first_of_node[node + 1] as usize;
            let numbers = &self.seqs[numbers];
            // Most readers see every number, so the last one is tried first.
            let seen = match numbers.last() {
                Some(&last) if last <= snapshot => Some(last),
                Some(_) => {
                    let count = numbers.partition_point(|&seq| seq <= snapshot);
                    count.checked_sub(1).map(|at| numbers[at])
                }
                None => None,
            };
            newest = newest.max(seen);
            node /= 2;
        }
        newest
    }

    /// The number of stored numbers.
    #[cfg(test)]
    pub(crate) fn number_count(&self) -> usize {
        self.seqs.len()
    }
}

/// The spans `from..to` that a tombstone consists of.
type Spans = (u32, u32);

/// The distinct bounds of `tombstones` in order, and the spans of each tombstone.
fn bounds(tombstones: &[RangeTombstone]) -> (Vec<Bytes>, Vec<Spans>) {
    let key = |end: u32| {
        let tombstone = &tombstones[end as usize / 2];
        if end.is_multiple_of(2) { &tombstone.start } else { &tombstone.end }
    };
    let count = u32::try_from(2 * tombstones.len()).expect("a memtable has fewer tombstones");
    let mut ends: Vec<u32> = (0..count).collect();
    // A stable sort takes linear time if the ranges were deleted in order.
    ends.sort_by(|&a, &b| key(a).cmp(key(b)));
    let mut bounds: Vec<Bytes> = Vec::new();
    let mut spans = vec![(0, 0); tombstones.len()];
    for end in ends {
        if bounds.last() != Some(key(end)) {
            bounds.push(key(end).clone());
        }
        let bound = bounds.len() as u32 - 1;
        let (from, to) = &mut spans[end as usize / 2];
        *(if end.is_multiple_of(2) { from } else { to }) = bound;
    }
    (bounds, spans)
}

/// Calls `visit` for the largest nodes that the spans consist of (H2).
fn for_each_node(span_count: usize, (from, to): Spans, mut visit: impl FnMut(usize)) {
    let (mut from, mut to) = (from as usize + span_count, to as usize + span_count);
    while from < to {
        if !from.is_multiple_of(2) {
            visit(from);
            from += 1;
        }
        if !to.is_multiple_of(2) {
            to -= 1;
            visit(to);
        }
        (from, to) = (from / 2, to / 2);
    }
}
