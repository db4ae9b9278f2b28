//! Range tombstones cut at each other's bounds, as tables store them.
//!
//! ```text
//!   written      a---------------#9-------m            fragmented   a--#9--c--#9 #4--m--#4--t
//!                      c------#4--------------t
//! ```
//!
//! Fragments do not overlap, so one binary search finds the tombstones over a key.
//!
//! Invariants
//!   R1  Fragments are in order of `start`, do not overlap, are not empty; neighbours that touch
//!       have different sequence numbers.
//!   R2  A fragment has at least one sequence number; they descend without repeating.
//!
//! n nested ranges have n^2/2 numbers if all are kept. A flush and a compaction keep only the
//! numbers that readers can distinguish ([`FragmentedTombstones::for_snapshots`]).
//! Not here: the tombstones of a memtable, which keeps all numbers (`history`).

use super::{Cover, RangeTombstone, count_step};
use crate::key::Seq;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Range;

/// One fragment by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment<'a> {
    pub(crate) start: &'a Bytes,
    pub(crate) end: &'a Bytes,
    /// Descending (R2).
    pub(crate) seqs: &'a [Seq],
}

/// Range tombstones cut at each other's bounds, ready for look-ups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FragmentedTombstones {
    fragments: Vec<Stored>,
    seqs: Vec<Seq>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    start: Bytes,
    end: Bytes,
    seqs: Range<usize>,
}

impl FragmentedTombstones {
    /// Fragments `tombstones`, given in any order, and keeps every sequence number.
    pub(crate) fn new(tombstones: &[RangeTombstone]) -> FragmentedTombstones {
        Self::build(tombstones, &mut |active, out| out.extend(active.iter().rev()))
    }

    /// Fragments `tombstones` and keeps what readers at the `snapshots` (ascending) or at the
    /// newest state can tell apart: in each fragment, the newest number at or below each snapshot.
    pub(crate) fn for_snapshots(
        tombstones: &[RangeTombstone],
        snapshots: &[Seq],
    ) -> FragmentedTombstones {
        Self::build(tombstones, &mut |active, out| {
            let first = out.len();
            for &snapshot in [Seq::MAX].iter().chain(snapshots.iter().rev()) {
                let Some(&seq) = active.range(..=snapshot).next_back() else { break };
                if out.len() == first || out.last() != Some(&seq) {
                    out.push(seq);
                }
            }
        })
    }

    fn build(
        tombstones: &[RangeTombstone],
        choose: &mut dyn FnMut(&BTreeSet<Seq>, &mut Vec<Seq>),
    ) -> FragmentedTombstones {
        let mut built = FragmentedTombstones::default();
        let mut starts: Vec<&RangeTombstone> =
            tombstones.iter().filter(|t| t.start < t.end).collect();
        let mut ends = starts.clone();
        starts.sort_by(|a, b| a.start.cmp(&b.start));
        ends.sort_by(|a, b| a.end.cmp(&b.end));
        // A number may occur twice: a tombstone was cut in two, and the parts were joined again.
        let mut repeats: Vec<Seq> = Vec::new();
        let mut active: BTreeSet<Seq> = BTreeSet::new();
        let mut chosen = Vec::new();
        let (mut next_start, mut next_end) = (0, 0);
        while let Some(ending) = ends.get(next_end) {
            let at = starts.get(next_start).map_or(&ending.end, |t| (&t.start).min(&ending.end));
            while let Some(ending) = ends.get(next_end).filter(|t| t.end == *at) {
                match repeats.iter().position(|&seq| seq == ending.seq) {
                    Some(repeat) => _ = repeats.swap_remove(repeat),
                    None => _ = active.remove(&ending.seq),
                }
                next_end += 1;
            }
            while let Some(starting) = starts.get(next_start).filter(|t| t.start == *at) {
                if !active.insert(starting.seq) {
                    repeats.push(starting.seq);
                }
                next_start += 1;
            }
            let after_start = starts.get(next_start).map(|t| &t.start);
            let after_end = ends.get(next_end).map(|t| &t.end);
            let Some(until) = after_start.into_iter().chain(after_end).min() else { break };
            if active.is_empty() {
                continue;
            }
            chosen.clear();
            choose(&active, &mut chosen);
            built.push(at.clone(), until.clone(), &chosen);
        }
        built
    }

    fn push(&mut self, start: Bytes, end: Bytes, seqs: &[Seq]) {
        if let Some(last) = self.fragments.last_mut()
            && last.end == start
            && self.seqs[last.seqs.clone()] == *seqs
        {
            last.end = end;
            return;
        }
        let first = self.seqs.len();
        self.seqs.extend_from_slice(seqs);
        self.fragments.push(Stored { start, end, seqs: first..self.seqs.len() });
    }

    /// The part of the tombstones inside `lower..upper`; `None` means unbounded.
    pub(crate) fn truncate(
        &self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> FragmentedTombstones {
        let mut cut = FragmentedTombstones::default();
        let from = lower.map_or(0, |lower| self.fragments.partition_point(|f| f.end <= lower));
        for fragment in self.fragments_from(from) {
            if upper.is_some_and(|upper| fragment.start >= upper) {
                break;
            }
            let start = lower.filter(|lower| fragment.start < lower).map(Bytes::copy_from_slice);
            let end = upper.filter(|upper| fragment.end > upper).map(Bytes::copy_from_slice);
            cut.push(
                start.unwrap_or_else(|| fragment.start.clone()),
                end.unwrap_or_else(|| fragment.end.clone()),
                fragment.seqs,
            );
        }
        cut
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The fragments in order.
    pub(crate) fn fragments(&self) -> impl DoubleEndedIterator<Item = Fragment<'_>> {
        self.fragments_from(0)
    }

    fn fragments_from(&self, from: usize) -> impl DoubleEndedIterator<Item = Fragment<'_>> {
        self.fragments[from..].iter().map(|f| Fragment {
            start: &f.start,
            end: &f.end,
            seqs: &self.seqs[f.seqs.clone()],
        })
    }

    /// The first key and the end of the last fragment.
    pub(crate) fn bounds(&self) -> Option<(&Bytes, &Bytes)> {
        Some((&self.fragments.first()?.start, &self.fragments.last()?.end))
    }

    /// The number of fragments that start at or before `user_key`.
    #[inline]
    fn count_until(&self, user_key: &[u8]) -> usize {
        self.fragments.partition_point(|f| {
            count_step();
            f.start <= user_key
        })
    }

    /// The memory in use.
    pub(crate) fn len_bytes(&self) -> usize {
        let keys: usize = self.fragments.iter().map(|f| f.start.len() + f.end.len()).sum();
        keys + self.fragments.len() * size_of::<Stored>() + self.seqs.len() * size_of::<Seq>()
    }

    /// The newest tombstone at or below `snapshot` that covers `user_key`.
    #[inline]
    pub(crate) fn max_seq_covering(&self, user_key: &[u8], snapshot: Seq) -> Option<Seq> {
        if self.fragments.is_empty() {
            return None;
        }
        let after = self.count_until(user_key);
        let fragment = self.fragments[..after].last().filter(|f| user_key < &f.end[..])?;
        self.newest(fragment, snapshot)
    }

    /// Like [`Self::max_seq_covering`], with the run of keys around `user_key` that has the same
    /// answer.
    pub(crate) fn cover_around(&self, user_key: &[u8], snapshot: Seq) -> Cover {
        let after = self.count_until(user_key);
        let (before, rest) = self.fragments.split_at(after);
        match before.last() {
            Some(fragment) if user_key < &fragment.end[..] => Cover {
                start: Some(fragment.start.clone()),
                end: Some(fragment.end.clone()),
                seq: self.newest(fragment, snapshot),
            },
            last => Cover {
                start: last.map(|f| f.end.clone()),
                end: rest.first().map(|f| f.start.clone()),
                seq: None,
            },
        }
    }

    fn newest(&self, fragment: &Stored, snapshot: Seq) -> Option<Seq> {
        count_step();
        let seqs = &self.seqs[fragment.seqs.clone()];
        seqs.get(seqs.partition_point(|&seq| seq > snapshot)).copied()
    }
}
