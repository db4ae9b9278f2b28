//! Range tombstones: "no key in `[start, end)` has a value from sequence number n on".
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
//!   R3  An entry with sequence number s is deleted for a reader at `snapshot` if a tombstone over
//!       its key has a number t with s < t <= `snapshot`.
//!
//! Source: fragmented range tombstones (RocksDB, Pebble). A memtable fragments them in pieces of
//! [`PIECE_LEN`], because n nested ranges fragmented together have n^2/2 numbers. That growth ends
//! only if just the numbers that readers can tell apart are kept
//! ([`FragmentedTombstones::for_snapshots`]). Not here: which tombstones a compaction may drop.

use crate::key::Seq;
use bytes::Bytes;
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// A range tombstone as it was written. `start < end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeTombstone {
    pub(crate) start: Bytes,
    pub(crate) end: Bytes,
    pub(crate) seq: Seq,
}

impl RangeTombstone {
    pub(crate) fn new(start: &[u8], end: &[u8], seq: Seq) -> RangeTombstone {
        let (start, end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        RangeTombstone { start, end, seq }
    }
}

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
        for fragment in self.fragments() {
            let below = lower.is_some_and(|lower| fragment.end <= lower);
            let above = upper.is_some_and(|upper| fragment.start >= upper);
            if below || above {
                continue;
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
        self.fragments.iter().map(|f| Fragment {
            start: &f.start,
            end: &f.end,
            seqs: &self.seqs[f.seqs.clone()],
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
        let after = self.fragments.partition_point(|f| f.start <= user_key);
        let fragment = self.fragments[..after].last().filter(|f| user_key < &f.end[..])?;
        self.newest(fragment, snapshot)
    }

    /// Like [`Self::max_seq_covering`], with the run of keys around `user_key` that has the same
    /// answer.
    pub(crate) fn cover_around(&self, user_key: &[u8], snapshot: Seq) -> Cover {
        let after = self.fragments.partition_point(|f| f.start <= user_key);
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
        let seqs = &self.seqs[fragment.seqs.clone()];
        seqs.get(seqs.partition_point(|&seq| seq > snapshot)).copied()
    }
}

/// A run of keys, `start..end` with `None` for unbounded, and the newest tombstone over all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cover {
    pub(crate) start: Option<Bytes>,
    pub(crate) end: Option<Bytes>,
    pub(crate) seq: Option<Seq>,
}

impl Cover {
    pub(crate) fn contains(&self, user_key: &[u8]) -> bool {
        self.start.as_ref().is_none_or(|start| start <= user_key)
            && self.end.as_ref().is_none_or(|end| user_key < end)
    }

    /// The keys in both runs, with the newer of the two tombstones.
    pub(crate) fn intersect(self, other: Cover) -> Cover {
        let end = match (self.end, other.end) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Cover { start: self.start.max(other.start), end, seq: self.seq.max(other.seq) }
    }
}

/// How many tombstones of a memtable are fragmented together. A read after a write fragments at
/// most this many again, and a look-up costs one binary search per piece.
const PIECE_LEN: usize = 128;

/// The range tombstones of a memtable.
#[derive(Debug, Default)]
pub(crate) struct MemTombstones {
    /// Outside the lock, so that a look-up without any tombstones costs one load.
    count: AtomicUsize,
    len_bytes: AtomicUsize,
    lists: RwLock<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    /// The tombstones as written, in order of sequence number.
    written: Vec<RangeTombstone>,
    /// The first tombstones of `written`, fragmented in pieces of [`PIECE_LEN`].
    pieces: Vec<Arc<FragmentedTombstones>>,
    /// The remaining tombstones, fragmented by the first reader that needs them.
    tail: OnceLock<Arc<FragmentedTombstones>>,
}

impl Lists {
    fn tail(&self) -> &Arc<FragmentedTombstones> {
        self.tail.get_or_init(|| {
            let from = self.pieces.len() * PIECE_LEN;
            Arc::new(FragmentedTombstones::new(&self.written[from..]))
        })
    }
}

impl MemTombstones {
    /// Adds a tombstone; `seq` is above all earlier ones. An empty range adds nothing.
    pub(crate) fn insert(&self, start: &[u8], end: &[u8], seq: Seq) {
        if start >= end {
            return;
        }
        let mut lists = self.lists.write();
        assert!(lists.written.last().is_none_or(|t| t.seq < seq), "tombstones out of order");
        lists.written.push(RangeTombstone::new(start, end, seq));
        lists.tail = OnceLock::new();
        if lists.written.len().is_multiple_of(PIECE_LEN) {
            let piece = Arc::clone(lists.tail());
            lists.pieces.push(piece);
            lists.tail = OnceLock::new();
        }
        // Counted twice: as written, and as fragments, which share the keys.
        let added = start.len() + end.len() + size_of::<RangeTombstone>() + size_of::<Stored>();
        self.len_bytes.fetch_add(added, Ordering::Relaxed);
        self.count.store(lists.written.len(), Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The memory in use, approximately; nested ranges use more.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn max_seq_covering(&self, user_key: &[u8], snapshot: Seq) -> Option<Seq> {
        if self.is_empty() {
            return None;
        }
        // Later pieces have higher numbers, so the first answer is the highest.
        let lists = self.lists.read();
        let pieces = lists.pieces.iter().rev();
        std::iter::once(lists.tail())
            .chain(pieces)
            .find_map(|piece| piece.max_seq_covering(user_key, snapshot))
    }

    /// The tombstones in pieces, in no particular order; no pieces if there are no tombstones.
    pub(crate) fn views(&self) -> Vec<Arc<FragmentedTombstones>> {
        if self.is_empty() {
            return Vec::new();
        }
        let lists = self.lists.read();
        let tail = lists.tail();
        let tail = (!tail.is_empty()).then(|| Arc::clone(tail));
        lists.pieces.iter().cloned().chain(tail).collect()
    }

    /// The tombstones as they were written.
    pub(crate) fn list(&self) -> Vec<RangeTombstone> {
        self.lists.read().written.clone()
    }
}

#[cfg(test)]
mod tests;
