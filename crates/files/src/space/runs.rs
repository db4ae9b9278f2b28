//! Free runs of a disk without zones: kept apart, merged where they touch.

use imbrex_disk::{BlockRange, Blocks, Lba};
use std::collections::BTreeMap;

/// The free runs, by address. No two of them touch.
#[derive(Clone, Debug, Default)]
pub struct FreeRuns {
    by_start: BTreeMap<Lba, Blocks>,
    len: Blocks,
}

impl FreeRuns {
    /// The runs in order of address.
    pub fn iter(&self) -> impl Iterator<Item = BlockRange> + '_ {
        self.by_start.iter().map(|(&start, &len)| BlockRange::new(start, len))
    }

    /// How many blocks are free.
    pub fn len(&self) -> Blocks {
        self.len
    }

    /// Whether nothing is free.
    pub fn is_empty(&self) -> bool {
        self.len.is_zero()
    }

    /// The run that holds all of `range`.
    pub fn holding(&self, range: BlockRange) -> Option<BlockRange> {
        let (&start, &len) = self.by_start.range(..=range.start).next_back()?;
        let run = BlockRange::new(start, len);
        (range.end() <= run.end()).then_some(run)
    }

    /// Takes `range` out of the run that holds it.
    ///
    /// # Panics
    /// If no run holds it: the planner chose what is not free.
    pub(crate) fn take(&mut self, range: BlockRange) {
        let run = self.holding(range).expect("a plan takes only what is free");
        self.by_start.remove(&run.start);
        if run.start < range.start {
            self.by_start.insert(run.start, range.start - run.start);
        }
        if range.end() < run.end() {
            self.by_start.insert(range.end(), run.end() - range.end());
        }
        self.len -= range.len;
    }

    /// Adds `range`, merged with the runs that it touches.
    ///
    /// # Panics
    /// If a block of it is free already: it was given back twice.
    pub(crate) fn give(&mut self, range: BlockRange) {
        if range.len.is_zero() {
            return;
        }
        let mut merged = range;
        if let Some((&start, &len)) = self.by_start.range(..=range.start).next_back() {
            let before = BlockRange::new(start, len);
            assert!(before.end() <= range.start, "S4: blocks {range} were free already");
            if before.end() == range.start {
                self.by_start.remove(&start);
                merged = BlockRange::new(start, len + range.len);
            }
        }
        if let Some((&start, &len)) = self.by_start.range(range.start..).next() {
            assert!(range.end() <= start, "S4: blocks {range} were free already");
            if start == range.end() {
                self.by_start.remove(&start);
                merged.len += len;
            }
        }
        self.by_start.insert(merged.start, merged.len);
        self.len += range.len;
    }

    /// The first violation, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut end = None;
        for run in self.iter() {
            if end.is_some_and(|end| run.start <= end) {
                return Err(format!("free runs touch or overlap at {}", run.start));
            }
            end = Some(run.end());
        }
        let sum: Blocks = self.iter().map(|r| r.len).sum();
        if sum == self.len { Ok(()) } else { Err(format!("free runs: {sum}, not {}", self.len)) }
    }
}
