//! The space of a disk without zones: free runs, spans, and the blocks between them that must stay
//! blank.
//!
//! ```text
//!   | table | span: table, table | log .....> | guard |  free run  | table |  free: the frontier
//!                                  ^ an open log grows to its end, so its guard is not free
//! ```
//!
//! Where tracks overlap, a write destroys the blocks in its *reach*: the next `overlap_tracks`
//! tracks and the rest of its last track. Three rules keep valid data out of every reach:
//!
//!   U1  A file takes no more of a free run than its size ([`FreeRuns::size_of`]): its reach ends
//!       before the data after the run, which are valid or about to be.
//!   U2  An open log holds the reach of its last block too, as its guard, because that block is
//!       written later than the data placed after it.
//!   U3  A file is written after every file that was placed earlier and whose reach touches it.
//!       Data directly after a file are placed later, so they are written later.
//!
//! A run that is given back is discarded before it is free. For the drive its old content is valid
//! until then, and a drive that refuses to destroy valid data would refuse the next write near it.
//!
//! On interlaced tracks a write reaches the tracks on top, which may hold anything. The writer
//! backs up the live data there and moves them back (`rewrite`). This adds two rules:
//!
//!   U4  Data that a writer has promised to move back are not discarded, and so their blocks are
//!       not reused, before the writer is done, even if the data die meanwhile.
//!   U5  An open log is written after the tables below it that were placed before it, and no table
//!       is placed below it (I2 of `tracks`).

use super::emptying::Victim;
use super::tracks::TrackMap;
use super::{FreeRuns, spans::Spans};
use imbrex_disk::{BlockRange, Blocks, Geometry, Lba, Rule};
use std::collections::BTreeMap;

/// The space of a disk without zones.
#[derive(Clone, Debug)]
pub(crate) struct Unzoned {
    geometry: Geometry,
    /// The first block that files may use.
    start: Lba,
    pub(super) runs: FreeRuns,
    pub(super) spans: Spans,
    /// Runs that were given back and wait to be discarded.
    pub(super) given_back: Vec<BlockRange>,
    given_back_size: Blocks,
    /// The guards of open logs, by the start of the log's run (U2).
    pub(super) guards: BTreeMap<Lba, BlockRange>,
    guarded: Blocks,
    /// Data that are placed and not written yet, on a drive where the order matters (U3).
    pub(super) under_way: BTreeMap<Lba, Blocks>,
    /// Runs that are being discarded.
    pub(super) discarding: Vec<BlockRange>,
    /// Data that are being moved away and back (U4).
    pinned: Vec<BlockRange>,
    /// What cleaning empties now.
    pub(super) victim: Option<Victim>,
    /// Data that cannot be read, and so not be moved.
    pub(super) staying: Vec<BlockRange>,
    /// What cleaning does not empty before something has been given back: anything but files is held there, or
    /// there is no room for its files elsewhere.
    pub(super) kept: Vec<BlockRange>,
    pub(super) tracks: Option<TrackMap>,
}

impl Unzoned {
    pub(super) fn new(geometry: Geometry, usable: BlockRange, class_len: Blocks) -> Unzoned {
        let mut unzoned = Unzoned {
            geometry,
            start: usable.start,
            runs: FreeRuns::new(&geometry, class_len),
            spans: Spans::default(),
            given_back: Vec::new(),
            given_back_size: Blocks::ZERO,
            guards: BTreeMap::new(),
            guarded: Blocks::ZERO,
            under_way: BTreeMap::new(),
            discarding: Vec::new(),
            pinned: Vec::new(),
            victim: None,
            staying: Vec::new(),
            kept: Vec::new(),
            tracks: TrackMap::new(&geometry, usable),
        };
        unzoned.give_run(usable);
        unzoned
    }

    /// Whether a write destroys more than the blocks that it replaces.
    fn is_raw(&self) -> bool {
        matches!(self.geometry.rule(), Rule::IsolationDistance(_) | Rule::Neighbours(_))
    }

    fn take_run(&mut self, range: BlockRange) {
        self.runs.take(range);
        if let Some(tracks) = self.tracks.as_mut().filter(|_| !range.len.is_zero()) {
            tracks.changed(range, false, &self.runs);
        }
    }

    fn give_run(&mut self, range: BlockRange) {
        self.runs.give(range);
        if let Some(tracks) = self.tracks.as_mut().filter(|_| !range.len.is_zero()) {
            tracks.changed(range, true, &self.runs);
        }
    }

    /// The blocks that can be written.
    pub(super) fn free(&self) -> Blocks {
        let blocked = self.tracks.as_ref().map_or(Blocks::ZERO, TrackMap::blocked_free);
        (self.runs.size() + self.given_back_size).saturating_sub(blocked)
    }

    /// The live ranges on top of a write to `range`, which must be backed up before it and moved
    /// back after it. Empty except on interlaced tracks.
    pub(super) fn live_above(&self, range: BlockRange) -> Vec<BlockRange> {
        if self.tracks.is_none() {
            return Vec::new();
        }
        let reach = self.geometry.reach_around(range);
        reach.into_iter().flat_map(|top| self.live_in(top)).collect()
    }

    /// The parts of `range` that are neither free nor about to be.
    fn live_in(&self, range: BlockRange) -> Vec<BlockRange> {
        let dying = self.given_back.iter().chain(&self.discarding).filter_map(|dead| {
            let start = dead.start.max(range.start);
            let end = dead.end().min(range.end());
            (start < end).then(|| BlockRange::new(start, end - start))
        });
        let mut blank: Vec<BlockRange> = self.runs.parts_in(range).chain(dying).collect();
        blank.sort();
        let mut live = Vec::new();
        let mut at = range.start;
        for part in blank {
            if at < part.start {
                live.push(BlockRange::new(at, part.start - at));
            }
            at = at.max(part.end());
        }
        if at < range.end() {
            live.push(BlockRange::new(at, range.end() - at));
        }
        live
    }

    /// Bars placement on the tracks below block `at`. Returns false if that was known.
    pub(super) fn avoid(&mut self, at: Lba) -> bool {
        self.tracks.as_mut().is_some_and(|tracks| tracks.avoid(at, &self.runs))
    }

    pub(super) fn pin(&mut self, ranges: &[BlockRange]) {
        self.pinned.extend(ranges);
    }

    pub(super) fn unpin(&mut self, ranges: &[BlockRange]) {
        for range in ranges {
            if let Some(index) = self.pinned.iter().position(|pinned| pinned == range) {
                self.pinned.swap_remove(index);
            }
        }
    }

    /// Records whether an open log owns `range`.
    pub(super) fn set_owned(&mut self, range: BlockRange, owned: bool) {
        match &mut self.tracks {
            Some(tracks) if owned => tracks.open_log(range, &self.runs),
            Some(tracks) => tracks.close_log(range.start, &self.runs),
            None if owned => {}
            None => self.drop_guard(range.start),
        }
    }

    /// The blocks that open logs keep blank after them.
    pub(super) fn guarded(&self) -> Blocks {
        self.guarded
    }

    /// The first block that files may use.
    pub(super) fn first(&self) -> Lba {
        self.start
    }

    /// From the first block that files may use to the end of the last one in use.
    pub(super) fn address_len(&self) -> Blocks {
        let disk_end = Lba::new(self.geometry.len().get());
        let last = self.runs.last().filter(|run| run.end() == disk_end);
        last.map_or(disk_end, |run| run.start) - self.start
    }

    /// The first block that files may use.
    pub(crate) fn start(&self) -> Lba {
        self.start
    }

    /// The runs without data in order of address, each with the length of the guard at its end. None
    /// where tracks lie on tracks.
    pub(crate) fn gaps(&self) -> Vec<(BlockRange, Blocks)> {
        if self.tracks.is_some() {
            return Vec::new();
        }
        let free = self.runs.iter().map(|run| match self.runs.is_frontier(run) {
            true => (run, Blocks::ZERO),
            false => (run, self.runs.guard_of(run).min(run.len)),
        });
        // The guard of an open log is in no free run.
        let guards = self.guards.values().filter(|guard| !guard.len.is_zero());
        let mut gaps: Vec<_> = free.chain(guards.map(|guard| (*guard, guard.len))).collect();
        gaps.sort_unstable_by_key(|(range, _)| range.start);
        gaps
    }

    /// The blank runs: free ones, those about to become free, and guards.
    pub(super) fn blank_runs(&self) -> Vec<BlockRange> {
        let back = self.given_back.iter().copied();
        self.runs.iter().chain(back).chain(self.guards.values().copied()).collect()
    }

    /// The end of the reach of a write of `range`.
    fn reach_end(&self, range: BlockRange) -> Lba {
        let reach = self.geometry.reach(range);
        if reach.len.is_zero() { range.end() } else { reach.end() }
    }

    pub(super) fn open_span(&mut self, range: BlockRange) {
        self.take_run(range);
        self.spans.open(range);
    }

    /// Takes the blocks of a file that existed when the disk was opened.
    pub(super) fn restore(&mut self, range: BlockRange, born: u64) {
        if self.spans.holding(range.start).is_some() {
            self.spans.hold(range, true);
        } else {
            self.take_run(range);
        }
        if let Some(tracks) = &mut self.tracks {
            tracks.note_taken(range, born);
        }
    }

    /// Free runs may hold data that a power cut left, so they are discarded before they are used.
    pub(super) fn distrust_free_runs(&mut self) {
        if self.is_raw() {
            let runs: Vec<BlockRange> = self.runs.iter().collect();
            for run in runs {
                self.take_run(run);
                self.give_back(run);
            }
        }
    }

    pub(super) fn take(&mut self, range: BlockRange, is_log: bool, born: u64) {
        if range.len.is_zero() {
            return;
        }
        if self.spans.holding(range.start).is_some() {
            self.spans.hold(range, false);
        } else {
            self.take_run(range);
        }
        if !self.is_raw() {
            return;
        }
        if let Some(tracks) = &mut self.tracks {
            if !is_log {
                self.under_way.insert(range.start, range.len);
                tracks.note_taken(range, born);
            }
        } else if is_log {
            let end = self.reach_end(range);
            let guard = BlockRange::new(range.end(), end - range.end());
            self.take_run(guard);
            self.guarded += guard.len;
            self.guards.insert(range.start, guard);
        } else {
            self.under_way.insert(range.start, range.len);
        }
    }

    /// See [`super::SpaceMap::cost_of_log`].
    pub(super) fn cost_of_log(&self, range: BlockRange) -> Blocks {
        let Some(run) = self.runs.holding(range).filter(|_| self.runs.is_shingled()) else {
            return range.len;
        };
        let end = self.reach_end(range).min(run.end());
        let left = [
            BlockRange::new(run.start, range.start - run.start),
            BlockRange::new(end, run.end() - end),
        ];
        let left: Blocks = left.iter().map(|run| self.runs.size_of(*run)).sum();
        self.runs.size_of(run).saturating_sub(left)
    }

    /// Frees the guard of the log that began at `start`: the log has ended and writes no more up to
    /// its end.
    pub(super) fn drop_guard(&mut self, start: Lba) {
        if let Some(guard) = self.guards.remove(&start) {
            self.guarded -= guard.len;
            self.give_run(guard);
        }
    }

    /// Whether no write that is still to come may destroy a block of `range` (U3).
    pub(super) fn is_turn_of(&self, range: BlockRange) -> bool {
        if self.tracks.is_some() {
            let reach = |(&start, &len)| self.geometry.reach_around(BlockRange::new(start, len));
            return !self.under_way.iter().flat_map(reach).any(|top| top.overlaps(range));
        }
        self.under_way
            .range(..range.start)
            .all(|(&start, &len)| self.reach_end(BlockRange::new(start, len)) <= range.start)
    }

    pub(super) fn end_turn(&mut self, range: BlockRange) {
        self.under_way.remove(&range.start);
    }

    pub(super) fn give(&mut self, range: BlockRange, named: bool) {
        let is_under_way = self.under_way.contains_key(&range.start);
        assert!(!is_under_way, "U3: {range} is given back after its turn");
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
        let is_pinned = |range: &BlockRange| self.pinned.iter().any(|pin| pin.overlaps(*range));
        let (later, now): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.given_back).into_iter().partition(is_pinned);
        self.given_back = later;
        self.discarding.extend(&now);
        now
    }

    pub(super) fn was_not_discarded(&mut self, ranges: &[BlockRange]) {
        self.discarding.retain(|range| !ranges.contains(range));
        self.given_back.extend(ranges);
    }

    pub(super) fn was_discarded(&mut self, ranges: &[BlockRange]) {
        for &range in ranges {
            self.given_back_size -= self.runs.size_of(range);
            self.give_run(range);
        }
        self.discarding.retain(|range| !ranges.contains(range));
        if !ranges.is_empty() {
            self.kept.clear();
        }
        // What is dead need not be read.
        self.staying.retain(|stays| !ranges.iter().any(|range| range.overlaps(*stays)));
    }

    /// Returns the first violation, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        self.runs.check()?;
        self.spans.check()?;
        if let Some(tracks) = &self.tracks {
            tracks.check(&self.runs)?;
        }
        let covered = |range: BlockRange| {
            self.runs.parts_in(range).next().is_some()
                || self.given_back.iter().any(|run| run.overlaps(range))
        };
        if let Some((span, _)) = self.spans.iter().find(|(span, _)| covered(*span)) {
            return Err(format!("P1: a part of span {span} is free"));
        }
        if let Some(guard) = self.guards.values().find(|guard| covered(**guard)) {
            return Err(format!("U2: a part of guard {guard} is free"));
        }
        Ok(())
    }
}
