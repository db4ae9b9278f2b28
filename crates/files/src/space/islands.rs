//! Islands: the stretches of data between free runs, on a drive where each run needs a guard at its end.
//!
//! ```text
//!            |<---- island ---->|
//!   | before | table | table    | after | table |        two guards: nothing can be written in either
//!   |guard...|                  |guard..|
//!
//!   |  free .................... |guard..| table |        moved: what was free twice has one guard
//! ```
//!
//! Guards are what a drive loses to holes: with tables of 1 MiB and guards of 4 MiB, half of a drive can
//! be blank without a hole that takes a table. Moving an island *spares* a guard, and costs what the island
//! takes elsewhere.
//!
//! Invariants
//!   J1  The lists hold the island between any two neighbouring runs, and no other.
//!   J2  A move ends with fewer islands: what moves is placed directly after other data. So joining comes to
//!       an end, even if nothing else changes.
//!
//! Not here: which island is moved (`emptying`), and the moving (`clean`).

use imbrex_disk::{BlockRange, Blocks, Lba};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Islands are compared by this share of their length.
const WORTH_SCALE: u64 = 1024;

/// The data between two neighbouring runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Island {
    pub(super) before: BlockRange,
    pub(super) after: BlockRange,
}

impl Island {
    /// Its blocks.
    pub(super) fn range(&self) -> BlockRange {
        BlockRange::new(self.before.end(), self.after.start - self.before.end())
    }

    /// How much is blank around it for its length.
    pub(super) fn worth(&self) -> u64 {
        let blank = (self.before.len + self.after.len).get();
        blank.saturating_mul(WORTH_SCALE) / self.range().len.get().max(1)
    }
}

/// The islands of a drive, by their worth.
#[derive(Clone, Debug, Default)]
pub(super) struct Islands {
    by_worth: BTreeSet<(u64, Reverse<Lba>)>,
    len_max: Blocks,
    joinable: Blocks,
}

impl Islands {
    /// None, of which those up to `len_max` will count.
    pub(super) fn up_to(len_max: Blocks) -> Islands {
        Islands { len_max, ..Islands::default() }
    }

    /// Their starts, those with most blank space around them for their length first.
    pub(super) fn by_worth(&self) -> impl Iterator<Item = Lba> + '_ {
        self.by_worth.iter().rev().map(|(_, Reverse(start))| *start)
    }

    /// How much more could be written if all islands were moved that are not too long. No more than that, as
    /// it is the sum of what each spares alone.
    pub(super) fn joinable(&self) -> Blocks {
        self.joinable
    }

    fn counted(&self, island: Island, spared: Blocks) -> Blocks {
        if island.range().len <= self.len_max { spared } else { Blocks::ZERO }
    }

    /// Adds an island that spares so much.
    pub(super) fn add(&mut self, island: Island, spared: Blocks) {
        self.by_worth.insert((island.worth(), Reverse(island.range().start)));
        self.joinable += self.counted(island, spared);
    }

    /// Removes an island that spares so much.
    pub(super) fn remove(&mut self, island: Island, spared: Blocks) {
        self.by_worth.remove(&(island.worth(), Reverse(island.range().start)));
        self.joinable -= self.counted(island, spared);
    }

    /// Returns the first violation of J1, in words.
    pub(super) fn check(
        &self,
        islands: impl Iterator<Item = Island>,
        spared: impl Fn(&Island) -> Blocks,
    ) -> Result<(), String> {
        let mut expected = Islands::up_to(self.len_max);
        islands.for_each(|island| expected.add(island, spared(&island)));
        if expected.by_worth != self.by_worth {
            let (is, should) = (&self.by_worth, &expected.by_worth);
            return Err(format!("J1: the islands {is:?} are listed, and {should:?} are there"));
        }
        if expected.joinable != self.joinable {
            let (is, should) = (self.joinable, expected.joinable);
            return Err(format!("J1: {is} can be joined, but the islands add up to {should}"));
        }
        Ok(())
    }
}
