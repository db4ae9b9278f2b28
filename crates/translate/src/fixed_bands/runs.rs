//! A set of blocks, kept as runs.
//!
//! Invariants
//!   R1  Runs do not overlap and never touch, so the set has as few as possible.

use imbrex_disk::{BlockRange, Blocks, Lba};
use std::collections::BTreeMap;

/// A set of blocks; memory is proportional to its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    ends: BTreeMap<u64, u64>,
}

impl Runs {
    /// How many runs.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// All runs, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = BlockRange> + '_ {
        self.ends.iter().map(|(&start, &end)| run(start, end))
    }

    /// The parts of `range` in the set, in order.
    pub(crate) fn within(&self, range: BlockRange) -> impl Iterator<Item = BlockRange> + '_ {
        let (start, end) = (range.start.get(), range.end().get());
        let before = self.ends.range(..start).next_back();
        let inside = self.ends.range(start..end.max(start));
        before.into_iter().chain(inside).filter_map(move |(&run_start, &run_end)| {
            let (from, to) = (run_start.max(start), run_end.min(end));
            (from < to).then(|| run(from, to))
        })
    }

    /// The parts of `range` not in the set, in order.
    pub(crate) fn gaps(&self, range: BlockRange) -> Vec<BlockRange> {
        let mut gaps = Vec::new();
        let mut at = range.start.get();
        for held in self.within(range) {
            if at < held.start.get() {
                gaps.push(run(at, held.start.get()));
            }
            at = held.end().get();
        }
        if at < range.end().get() {
            gaps.push(run(at, range.end().get()));
        }
        gaps
    }

    /// Whether a block of `range` is in the set.
    pub(crate) fn touches(&self, range: BlockRange) -> bool {
        self.within(range).next().is_some()
    }

    /// Whether all of `range` is in the set.
    pub(crate) fn holds(&self, range: BlockRange) -> bool {
        range.len.is_zero() || self.within(range).next() == Some(range)
    }

    /// The end of the last block of `range` in the set.
    pub(crate) fn end_within(&self, range: BlockRange) -> Option<Lba> {
        let (&start, &end) = self.ends.range(..range.end().get()).next_back()?;
        let last = run(start, end.min(range.end().get()));
        (last.end() > range.start).then(|| last.end())
    }

    /// Adds `range`.
    pub(crate) fn insert(&mut self, range: BlockRange) {
        if range.len.is_zero() {
            return;
        }
        let (mut start, mut end) = (range.start.get(), range.end().get());
        if let Some((&left, &left_end)) = self.ends.range(..start).next_back()
            && left_end >= start
        {
            start = left;
            end = end.max(left_end);
        }
        while let Some((&next, &next_end)) = self.ends.range(start..=end).next() {
            end = end.max(next_end);
            self.ends.remove(&next);
        }
        self.ends.insert(start, end);
    }

    /// Removes `range`.
    pub(crate) fn remove(&mut self, range: BlockRange) {
        let held: Vec<BlockRange> = self.within(range).collect();
        for part in held {
            let (from, to) = (part.start.get(), part.end().get());
            let Some((&start, &end)) = self.ends.range(..=from).next_back() else { continue };
            self.ends.remove(&start);
            if start < from {
                self.ends.insert(start, from);
            }
            if to < end {
                self.ends.insert(to, end);
            }
        }
    }

    /// The gaps between runs, shortest first.
    pub(crate) fn gaps_by_len(&self) -> Vec<BlockRange> {
        let ends = self.ends.values();
        let mut gaps: Vec<BlockRange> =
            ends.zip(self.ends.keys().skip(1)).map(|(&end, &next)| run(end, next)).collect();
        gaps.sort_by_key(|gap| gap.len);
        gaps
    }
}

fn run(start: u64, end: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(end - start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::Prng;

    #[test]
    fn the_shortest_gaps_come_first() {
        let mut runs = Runs::default();
        assert_eq!(runs.gaps_by_len(), []);
        [(0, 2), (4, 5), (6, 9), (12, 13)].iter().for_each(|&(a, b)| runs.insert(run(a, b)));
        assert_eq!(runs.gaps_by_len(), [run(5, 6), run(2, 4), run(9, 12)]);
    }

    #[test]
    fn runs_agree_with_an_array() {
        const LEN: u64 = 120;
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let (mut runs, mut model) = (Runs::default(), [false; LEN as usize]);
            for _ in 0..300 {
                let start = prng.below(LEN);
                let range = run(start, (start + prng.below(15)).min(LEN));
                let blocks = start as usize..range.end().get() as usize;
                let is_in = prng.chance(1, 2);
                if is_in {
                    runs.insert(range);
                } else {
                    runs.remove(range);
                }
                model[blocks].fill(is_in);
                let all: Vec<BlockRange> = runs.iter().collect();
                assert!(
                    all.windows(2).all(|w| w[0].end() < w[1].start),
                    "R1, seed {seed}: {all:?}"
                );
                let from = prng.below(LEN);
                let window = run(from, from + prng.below(LEN - from));
                let slice = &model[from as usize..window.end().get() as usize];
                let held: Blocks = runs.within(window).map(|r| r.len).sum();
                assert_eq!(held.get(), slice.iter().filter(|&&b| b).count() as u64);
                let gaps: Blocks = runs.gaps(window).iter().map(|r| r.len).sum();
                assert_eq!(held + gaps, window.len);
                assert_eq!(runs.touches(window), slice.contains(&true));
                assert_eq!(runs.holds(window), !slice.contains(&false));
                let last = slice.iter().rposition(|&b| b).map(|i| from + i as u64 + 1);
                assert_eq!(runs.end_within(window).map(Lba::get), last);
            }
        }
    }
}
