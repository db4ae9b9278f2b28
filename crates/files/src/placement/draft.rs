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
}

impl<'a> RunDraft<'a> {
    pub(super) fn new(space: &'a SpaceMap, fit: Fit) -> RunDraft<'a> {
        RunDraft { runs: space.runs(), fit, used: BTreeMap::new() }
    }

    /// Takes `len` blocks of one run.
    pub(super) fn whole(&mut self, len: Blocks) -> Option<BlockRange> {
        let run = self.runs.find(len, self.fit, &self.used)?;
        Some(self.take(run, len))
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
