//! The space of a disk without zones: free runs, spans, and what must stay blank between them.
//!
//! ```text
//!   | table | span: table, table | log .....> | guard |  free run  | table |  free: the frontier
//!                                  ^ an open log grows to its end, so its guard is not free
//! ```
//!
//! Where tracks overlap, a write destroys what lies in its *reach*: the next `overlap_tracks` tracks
//! and the rest of its last track. Three rules keep all that is valid out of every reach:
//!
//!   U1  A file takes no more of a free run than its size ([`FreeRuns::size_of`]): its reach ends
//!       before what lies behind the run. What lies there is valid, or about to be.
//!   U2  An open log holds the reach of its last block too, as its guard: it is written later than
//!       what is placed behind it.
//!   U3  A file is written after those that were placed in reach of it: what lies directly behind a
//!       file is placed later, so it is written later.
//!
//! A run given back is discarded before it is free: for the drive its old content is valid until
//! then, and a drive that refuses to destroy valid data would refuse the next write near it.

use super::{FreeRuns, spans::Spans};
use imbrex_disk::{BlockRange, Blocks, Geometry, Lba};
use std::collections::BTreeMap;

/// The space of a disk without zones.
#[derive(Clone, Debug)]
pub(crate) struct Unzoned {
    geometry: Geometry,
    /// The first block that files may use.
    start: Lba,
    pub(super) runs: FreeRuns,
    pub(super) spans: Spans,
    /// Runs given back, waiting to be discarded, and on their way through it.
    given_back: Vec<BlockRange>,
    given_back_size: Blocks,
    /// The guards of open logs, by the start of the log's run (U2).
    guards: BTreeMap<Lba, BlockRange>,
    guarded: Blocks,
    /// What is placed and not yet written, on a drive where that matters (U3).
    under_way: BTreeMap<Lba, Blocks>,
}

impl Unzoned {
    pub(super) fn new(geometry: Geometry, usable: BlockRange, class_len: Blocks) -> Unzoned {
        let mut runs = FreeRuns::new(&geometry, class_len);
        runs.give(usable);
        Unzoned {
            geometry,
            start: usable.start,
            runs,
            spans: Spans::default(),
            given_back: Vec::new(),
            given_back_size: Blocks::ZERO,
            guards: BTreeMap::new(),
            guarded: Blocks::ZERO,
            under_way: BTreeMap::new(),
        }
    }

    /// What can be written.
    pub(super) fn free(&self) -> Blocks {
        self.runs.size() + self.given_back_size
    }

    /// What open logs keep blank behind them.
    pub(super) fn guarded(&self) -> Blocks {
        self.guarded
    }

    /// From the first block that files may use to the end of the last that they do.
    pub(super) fn address_len(&self) -> Blocks {
        let disk_end = Lba::new(self.geometry.len().get());
        let last = self.runs.last().filter(|run| run.end() == disk_end);
        last.map_or(disk_end, |run| run.start) - self.start
    }

    /// Where nothing lies: free runs, those on their way to become free, and guards.
    pub(super) fn blank_runs(&self) -> Vec<BlockRange> {
        let back = self.given_back.iter().copied();
        self.runs.iter().chain(back).chain(self.guards.values().copied()).collect()
    }

    /// The end of what a write of `range` destroys.
    fn reach_end(&self, range: BlockRange) -> Lba {
        let reach = self.geometry.reach(range);
        if reach.len.is_zero() { range.end() } else { reach.end() }
    }

    pub(super) fn open_span(&mut self, range: BlockRange) {
        self.runs.take(range);
        self.spans.open(range);
    }

    /// A file that was there when the disk was opened.
    pub(super) fn restore(&mut self, range: BlockRange) {
        if self.spans.holding(range.start).is_some() {
            self.spans.hold(range, true);
        } else {
            self.runs.take(range);
        }
    }

    /// Whatever is free may hold what a power cut left: it is discarded before it is used.
    pub(super) fn distrust_free_runs(&mut self) {
        if self.runs.is_shingled() {
            let runs: Vec<BlockRange> = self.runs.iter().collect();
            for run in runs {
                self.runs.take(run);
                self.give_back(run);
            }
        }
    }

    pub(super) fn take(&mut self, range: BlockRange, is_log: bool) {
        if range.len.is_zero() {
            return;
        }
        if self.spans.holding(range.start).is_some() {
            self.spans.hold(range, false);
        } else {
            self.runs.take(range);
        }
        if !self.runs.is_shingled() {
            return;
        }
        if is_log {
            let end = self.reach_end(range);
            let guard = BlockRange::new(range.end(), end - range.end());
            self.runs.take(guard);
            self.guarded += guard.len;
            self.guards.insert(range.start, guard);
        } else {
            self.under_way.insert(range.start, range.len);
        }
    }

    /// The open log that began at `start` ended: nothing is written to its end any more.
    pub(super) fn drop_guard(&mut self, start: Lba) {
        if let Some(guard) = self.guards.remove(&start) {
            self.guarded -= guard.len;
            self.runs.give(guard);
        }
    }

    /// Whether nothing that is not yet written may destroy a block of `range` (U3).
    pub(super) fn is_turn_of(&self, range: BlockRange) -> bool {
        self.under_way
            .range(..range.start)
            .all(|(&start, &len)| self.reach_end(BlockRange::new(start, len)) <= range.start)
    }

    pub(super) fn end_turn(&mut self, range: BlockRange) {
        self.under_way.remove(&range.start);
    }

    pub(super) fn give(&mut self, range: BlockRange, named: bool) {
        if self.spans.holding(range.start).is_none() {
            self.give_back(range);
        } else if let Some(whole) = self.spans.give(range, named) {
            self.give_back(whole);
        }
    }

    fn give_back(&mut self, range: BlockRange) {
        self.given_back_size += self.runs.size_of(range);
        self.given_back.push(range);
    }

    pub(super) fn begin_discard(&mut self) -> Vec<BlockRange> {
        std::mem::take(&mut self.given_back)
    }

    pub(super) fn was_discarded(&mut self, ranges: &[BlockRange]) {
        for &range in ranges {
            self.given_back_size -= self.runs.size_of(range);
            self.runs.give(range);
        }
    }

    /// The first violation, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        self.runs.check()?;
        self.spans.check()?;
        let free = || self.runs.iter().chain(self.given_back.iter().copied());
        let covered = |range: BlockRange| free().any(|run| run.overlaps(range));
        if let Some((span, _)) = self.spans.iter().find(|(span, _)| covered(*span)) {
            return Err(format!("P1: a part of span {span} is free"));
        }
        if let Some(guard) = self.guards.values().find(|guard| covered(**guard)) {
            return Err(format!("U2: a part of guard {guard} is free"));
        }
        Ok(())
    }
}
