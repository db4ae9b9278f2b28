//! A plan in progress on a disk without zones: how much of each free run it has taken.
//!
//! ```text
//!   free run     | taken by this plan | left ............ |
//!                ^ files are placed at the start of a run, one after another
//! ```
//!
//! Planners must not change the map, and a copy of its runs for every table would cost more than
//! the plan. A draft remembers only how much of the start of each run is taken.

use crate::space::{Fit, FreeRuns, SpaceMap};
use imbrex_disk::{BlockRange, Blocks, Lba};
use std::collections::BTreeMap;

/// What a plan has taken from runs that it must not change.
pub(super) struct RunDraft<'a> {
    runs: &'a FreeRuns,
    fit: Fit,
    used: BTreeMap<Lba, Blocks>,
    /// The run that is taken from first.
    to: Option<BlockRange>,
}

impl<'a> RunDraft<'a> {
    pub(super) fn new(space: &'a SpaceMap, fit: Fit) -> RunDraft<'a> {
        RunDraft { runs: space.runs(), fit, used: BTreeMap::new(), to: None }
    }

    /// Takes nothing from the runs within what is being emptied, nor from the one after it: they will be one
    /// run (J2 of `space::islands`). What moves goes to the run that takes all of it, if there is one, so that
    /// not each file leaves the rest of a run.
    pub(super) fn leave_victim(&mut self, space: &SpaceMap) {
        let Some(victim) = space.victim() else { return };
        let after = self.runs.beside(victim.range)[1];
        let beside = victim.left().filter_map(|run| self.what_is_left_of(run));
        let left: Vec<_> = self.runs.parts_in(victim.range).chain(after).chain(beside).collect();
        self.used.extend(left.into_iter().map(|run| (run.start, run.len)));
        self.to = victim.to;
    }

    /// How much less can be written with what was taken. That is more than its length where the rest of a run
    /// is too short.
    pub(super) fn cost(&self) -> Blocks {
        let cost = |(&start, &taken): (&Lba, &Blocks)| {
            let run = self.runs.holding(BlockRange::new(start, Blocks::new(1)))?;
            let rest = BlockRange::new(start + taken, run.len - taken);
            Some(self.runs.size_of(run) - self.runs.size_of(rest))
        };
        self.used.iter().filter_map(cost).sum()
    }

    /// Takes `len` blocks of one run.
    pub(super) fn whole(&mut self, len: Blocks) -> Option<BlockRange> {
        if let Some(run) =
            self.to.and_then(|to| self.rest_of(to)).filter(|run| len <= self.runs.size_of(*run))
        {
            return Some(self.take(run, len));
        }
        let run = self.runs.find(len, self.fit, &self.used)?;
        Some(self.take(run, len))
    }

    /// The free run that was `run` once: it is taken from its start on.
    fn what_is_left_of(&self, run: BlockRange) -> Option<BlockRange> {
        let last = BlockRange::new(Lba::new(run.end().get() - 1), Blocks::new(1));
        self.runs.holding(last)
    }

    /// What this plan may still take of a run that was `to` once.
    fn rest_of(&self, to: BlockRange) -> Option<BlockRange> {
        let run = self.what_is_left_of(to)?;
        let taken = self.used.get(&run.start).copied().unwrap_or_default().min(run.len);
        Some(BlockRange::new(run.start + taken, run.len - taken))
    }

    /// The longest piece that [`RunDraft::whole`] would find room for.
    pub(super) fn longest(&self) -> Blocks {
        self.runs.largest(&self.used).map_or(Blocks::ZERO, |(_, size)| size)
    }

    /// Takes `len` blocks of one run; if no run holds them, of as few runs, or as near ones, as
    /// possible.
    pub(super) fn pieces(&mut self, len: Blocks) -> Option<Vec<BlockRange>> {
        if len.is_zero() {
            return Some(Vec::new());
        }
        if let Some(range) = self.whole(len) {
            return Some(vec![range]);
        }
        let mut left = len;
        let mut ranges = Vec::new();
        while !left.is_zero() {
            let (run, size) = match self.fit {
                Fit::Lowest => {
                    let run = self.runs.find(Blocks::new(1), Fit::Lowest, &self.used)?;
                    (run, self.runs.size_of(run))
                }
                Fit::Tightest => self.runs.largest(&self.used)?,
            };
            let range = self.take(run, size.min(left));
            left -= range.len;
            ranges.push(range);
        }
        Some(ranges)
    }

    fn take(&mut self, run: BlockRange, len: Blocks) -> BlockRange {
        let range = BlockRange::new(run.start, len);
        let whole = self.runs.holding(range).expect("the run was found among the free ones");
        *self.used.entry(whole.start).or_default() += len;
        range
    }
}
