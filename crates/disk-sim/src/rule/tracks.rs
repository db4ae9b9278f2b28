//! Raw tracks, shingled or interlaced: which blocks hold data, and which a write to an overlapping
//! track destroyed.
//!
//! ```text
//!     track 0        track 1        track 2        track 3        (overlap_tracks = 1)
//!     vvvvvvvvvvvv   vvvvvvvvvvvv   vvvvvvvvvvvv   ............
//!                       ^ write of one block
//!     vvvvvvvvvvvv   vvvWvvvvvvvv   xxxxxxxxxxxx   ............   v valid, x destroyed, . blank
//!
//!     bottom 0       top 1          bottom 2       top 3          interlaced
//!     vvvvvvvvvvvv   vvvvvvvvvv     vvvvvvvvvvvv   vvvvvvvvvv
//!                                      ^ write of one block
//!     vvvvvvvvvvvv   xxxxxxxxxx     vvvWvvvvvvvv   xxxxxxxxxx     a write to a top track spares all
//! ```
//!
//! A block is *blank* (never written, or discarded since: it reads as zeros), *valid*, or
//! *destroyed* (reading it is an error). Only valid blocks can be destroyed: a blank block has
//! nothing to lose. A write makes its blocks valid, a discard makes them blank.
//!
//! Invariants
//!   T1  Runs do not overlap, and two runs of one mark never touch: the table is as short as
//!       possible.
//!   T2  After a write within one track, no valid block lies in its reach
//!       ([`Geometry::reach_around`]). A write over several tracks acts as one write for each, in
//!       ascending order.
//!
//! Memory: one entry per run, whatever its length. Source: SEALDB, section II-A; Caveat-Scriptor;
//! for interlaced tracks KVIMR, section 2.2.
//! Not here: when a write reaches the platter (`cache`), the order of its steps
//! (`backing::overlapping`).

use imbrex_disk::{BlockRange, Blocks, DiskError, Geometry, Lba};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How many destructions keep the write that caused them, for error messages.
const CULPRIT_COUNT_MAX: usize = 64;

/// The mark of a block that is not blank. The numbers are on disk: never renumber. Any two of them,
/// and zero for blank, differ in four bits, so that a flipped bit is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Written, readable.
    Valid = 0x0F,
    /// Lost to a write to an overlapping track.
    Destroyed = 0x33,
}

/// The tracks of one drive, shared by the rule and the platter.
#[derive(Debug)]
pub(crate) struct TrackTable {
    geometry: Geometry,
    tracks: RwLock<Tracks>,
}

/// What is on the tracks now.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    /// Start of a run -> its end and mark; blank blocks lie between the runs.
    runs: BTreeMap<u64, (u64, Mark)>,
    /// The most recent destructions: which blocks were lost, and to which write.
    culprits: VecDeque<(BlockRange, BlockRange)>,
    destroyed: Blocks,
}

impl TrackTable {
    /// All blank.
    pub(crate) fn new(geometry: Geometry) -> TrackTable {
        TrackTable { geometry, tracks: RwLock::default() }
    }

    /// The parts of a write, in the order in which they destroy.
    pub(crate) fn parts(&self, write: BlockRange) -> impl Iterator<Item = BlockRange> + '_ {
        self.geometry.write_parts(write)
    }

    /// The blocks that a part of a write destroys besides its own.
    pub(crate) fn reach(&self, part: BlockRange) -> [BlockRange; 2] {
        self.geometry.reach_around(part)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Tracks> {
        self.tracks.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Tracks> {
        self.tracks.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tracks {
    /// The runs that touch `range`, cut to it, in order.
    pub(crate) fn runs_in(
        &self,
        range: BlockRange,
    ) -> impl Iterator<Item = (BlockRange, Mark)> + '_ {
        let (start, end) = (range.start.get(), range.end().get());
        let before = self.runs.range(..start).next_back();
        let inside = self.runs.range(start..end.max(start));
        before.into_iter().chain(inside).filter_map(move |(&run_start, &(run_end, mark))| {
            let (from, to) = (run_start.max(start), run_end.min(end));
            (from < to).then(|| (blocks(from, to), mark))
        })
    }

    /// The parts of `range` with `mark`.
    pub(crate) fn marked(&self, range: BlockRange, mark: Mark) -> Vec<BlockRange> {
        self.runs_in(range).filter(|&(_, m)| m == mark).map(|(run, _)| run).collect()
    }

    /// The parts of `range` without `mark`.
    pub(crate) fn not_marked(&self, range: BlockRange, mark: Mark) -> Vec<BlockRange> {
        let mut gaps = Vec::new();
        let mut at = range.start.get();
        for run in self.marked(range, mark) {
            if at < run.start.get() {
                gaps.push(blocks(at, run.start.get()));
            }
            at = run.end().get();
        }
        if at < range.end().get() {
            gaps.push(blocks(at, range.end().get()));
        }
        gaps
    }

    /// Fails if a block of `range` is destroyed.
    pub(crate) fn check_read(&self, range: BlockRange) -> Result<(), DiskError> {
        let mut destroyed = self.runs_in(range).filter(|&(_, mark)| mark == Mark::Destroyed);
        let Some((range, _)) = destroyed.next() else { return Ok(()) };
        let newest = self.culprits.iter().rev().find(|(lost, _)| lost.overlaps(range));
        Err(DiskError::Destroyed { range, by: newest.map(|&(_, write)| write) })
    }

    /// Gives every block of `range` one mark, or none.
    pub(crate) fn set(&mut self, range: BlockRange, mark: Option<Mark>) {
        if range.len.is_zero() {
            return;
        }
        let (mut start, mut end) = (range.start.get(), range.end().get());
        self.cut_at(start);
        self.cut_at(end);
        while let Some((&run, _)) = self.runs.range(start..end).next() {
            self.runs.remove(&run);
        }
        let Some(mark) = mark else { return };
        if let Some((&left, &(left_end, left_mark))) = self.runs.range(..start).next_back()
            && (left_end, left_mark) == (start, mark)
        {
            self.runs.remove(&left);
            start = left;
        }
        if let Some(&(right_end, right_mark)) = self.runs.get(&end)
            && right_mark == mark
        {
            self.runs.remove(&end);
            end = right_end;
        }
        self.runs.insert(start, (end, mark));
    }

    /// Records that `write` destroyed `lost`, which was valid.
    pub(crate) fn destroy(&mut self, lost: BlockRange, write: BlockRange) {
        self.set(lost, Some(Mark::Destroyed));
        self.destroyed += lost.len;
        if self.culprits.len() == CULPRIT_COUNT_MAX {
            self.culprits.pop_front();
        }
        self.culprits.push_back((lost, write));
    }

    /// How many valid blocks have been destroyed so far.
    pub(crate) fn destroyed(&self) -> Blocks {
        self.destroyed
    }

    /// Splits a run that crosses `at`.
    fn cut_at(&mut self, at: u64) {
        if let Some((&start, &(end, mark))) = self.runs.range(..at).next_back()
            && at < end
        {
            self.runs.insert(start, (at, mark));
            self.runs.insert(at, (end, mark));
        }
    }

    /// The first violation of T1.
    #[cfg(test)]
    fn check(&self) -> Option<String> {
        let mut before: Option<(u64, Mark)> = None;
        for (&start, &(end, mark)) in &self.runs {
            if start >= end || before.is_some_and(|(e, m)| e > start || (e == start && m == mark)) {
                return Some(format!("T1: run {start}..{end} after {before:?}"));
            }
            before = Some((end, mark));
        }
        None
    }
}

fn blocks(start: u64, end: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(end - start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::Prng;

    #[test]
    fn runs_agree_with_an_array() {
        const LEN: u64 = 200;
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let (mut tracks, mut model) = (Tracks::default(), vec![None; LEN as usize]);
            for _ in 0..300 {
                let start = prng.below(LEN);
                let range = blocks(start, (start + prng.below(20)).min(LEN));
                let mark = [None, Some(Mark::Valid), Some(Mark::Destroyed)][prng.below(3) as usize];
                tracks.set(range, mark);
                model[start as usize..range.end().get() as usize].fill(mark);
                assert_eq!(tracks.check(), None, "seed {seed}");
                let window = blocks(prng.below(100), 100 + prng.below(100));
                let mut found = vec![None; LEN as usize];
                for (run, mark) in tracks.runs_in(window) {
                    found[run.start.get() as usize..run.end().get() as usize].fill(Some(mark));
                }
                let window = window.start.get() as usize..window.end().get() as usize;
                assert_eq!(found[window.clone()], model[window], "seed {seed}");
                let whole = blocks(0, LEN);
                let valid: Blocks = tracks.marked(whole, Mark::Valid).iter().map(|r| r.len).sum();
                let rest = tracks.not_marked(whole, Mark::Valid);
                let rest: Blocks = rest.iter().map(|r| r.len).sum();
                assert_eq!(valid + rest, Blocks::new(LEN));
            }
        }
    }
}
