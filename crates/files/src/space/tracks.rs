//! The tracks of an interlaced disk: which are empty, and which lie on top of which.
//!
//! ```text
//!   top      1 |files |  3 | log > |  5 |        |  7 |        |
//!   bottom        2 |      |  4 |      |  6 |       |   8 |  ...
//!                   |         |         |             ` quiet: nothing lies above it
//!                   |         |         ` blocked: an open log is being written above it, or what
//!                   |         |           lies there cannot be read
//!                   |         ` blocked
//!                   ` empty, but a write destroys what is in 1: it must be backed up and moved back
//! ```
//!
//! An index over the free runs, so that a policy finds the next track in the logarithm of their
//! number. It decides nothing.
//!
//! Invariants
//!   I1  The lists agree with the free runs: a track is empty if all of it is free.
//!   I2  No bottom track is handed out while an open log is written above it: a log does not wait
//!       for tables, and data that are being appended are never moved.
//!   I3  No bottom track is handed out below a block that was found unreadable, until that block is
//!       given back, because it cannot be moved away and back.
//!
//! Source: KVIMR, section 3.1 (the bitmap of tracks).

use super::FreeRuns;
use imbrex_disk::{BlockRange, Blocks, Geometry, Lba, TrackId};
use std::collections::{BTreeMap, BTreeSet};

/// The tier of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrackTier {
    /// Even tracks: a write destroys the data on top.
    Bottom,
    /// Odd tracks: written freely.
    Top,
}

impl TrackTier {
    pub(crate) fn of(track: TrackId) -> TrackTier {
        if track.is_top() { TrackTier::Top } else { TrackTier::Bottom }
    }
}

/// The levels of all tables, as far as the placement of the next files needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Those of the streams that the next files belong to.
    pub(crate) of_streams: BTreeMap<u32, LevelsOfStream>,
    /// The largest that a table of any stream was written for.
    pub(crate) largest: u8,
}

impl Levels {
    pub(crate) fn of(&self, stream: u32) -> LevelsOfStream {
        self.of_streams.get(&stream).copied().unwrap_or_default()
    }
}

/// The levels of the tables of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelsOfStream {
    /// The largest that a table was written for.
    pub(crate) largest: u8,
    /// The level with the most tables.
    pub(crate) fullest: u8,
}

/// The tracks that files may use.
#[derive(Clone, Debug)]
pub struct TrackMap {
    geometry: Geometry,
    usable: BlockRange,
    empty_bottoms: BTreeSet<u64>,
    /// Every other top track, and the remaining ones.
    empty_tops: [BTreeSet<u64>; 2],
    quiet_bottoms: BTreeSet<u64>,
    partial_bottoms: BTreeSet<u64>,
    partial_tops: BTreeSet<u64>,
    /// The blocks that open logs own, by their start.
    open_logs: BTreeMap<Lba, Blocks>,
    /// Blocks of files in top tracks that could not be read.
    unreadable: BTreeSet<Lba>,
    /// Free blocks of blocked bottom tracks, by track.
    blocked: BTreeMap<u64, Blocks>,
    blocked_free: Blocks,
    free_tops: Blocks,
    /// The track of the youngest file of each tier; below, of all; and which file is the youngest.
    last: [u64; 2],
    last_of_all: u64,
    youngest: u64,
    levels: Levels,
}

impl TrackMap {
    /// The tracks of `usable`, which begins and ends with a track. Nothing in it is free yet.
    pub(crate) fn new(geometry: &Geometry, usable: BlockRange) -> Option<TrackMap> {
        let first = geometry.track_of(usable.start)?.0;
        Some(TrackMap {
            geometry: *geometry,
            usable,
            empty_bottoms: BTreeSet::new(),
            empty_tops: [BTreeSet::new(), BTreeSet::new()],
            quiet_bottoms: BTreeSet::new(),
            partial_bottoms: BTreeSet::new(),
            partial_tops: BTreeSet::new(),
            open_logs: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            blocked: BTreeMap::new(),
            blocked_free: Blocks::ZERO,
            free_tops: Blocks::ZERO,
            last: [first; 2],
            last_of_all: first,
            youngest: 0,
            levels: Levels::default(),
        })
    }

    /// The part of a track that files may use.
    pub fn range(&self, track: TrackId) -> Option<BlockRange> {
        let range = self.geometry.track_range(track)?;
        let start = range.start.max(self.usable.start);
        let end = range.end().min(self.usable.end());
        (start < end).then(|| BlockRange::new(start, end - start))
    }

    /// The track of block `at`.
    pub(crate) fn at(&self, at: Lba) -> u64 {
        self.geometry.track_of(at).map_or(self.last_of_all, |track| track.0)
    }

    /// Empty bottom tracks, without blocked ones.
    pub fn empty_bottoms(&self) -> &BTreeSet<u64> {
        &self.empty_bottoms
    }

    /// Empty top tracks: every other one, and the remaining ones.
    pub fn empty_tops(&self) -> [&BTreeSet<u64>; 2] {
        self.empty_tops.each_ref()
    }

    /// Empty bottom tracks that can be written without a rewrite.
    pub fn quiet_bottoms(&self) -> &BTreeSet<u64> {
        &self.quiet_bottoms
    }

    /// Tracks of a tier that are free in part.
    pub fn partial(&self, tier: TrackTier) -> &BTreeSet<u64> {
        match tier {
            TrackTier::Bottom => &self.partial_bottoms,
            TrackTier::Top => &self.partial_tops,
        }
    }

    /// The track of a tier that a table took last.
    pub fn last(&self, tier: TrackTier) -> u64 {
        self.last[tier as usize]
    }

    /// The track that a table took last.
    pub fn last_of_all(&self) -> u64 {
        self.last_of_all
    }

    /// Free blocks of top tracks.
    pub fn free_tops(&self) -> Blocks {
        self.free_tops
    }

    /// Free blocks that may not be used because of the data above them.
    pub(crate) fn blocked_free(&self) -> Blocks {
        self.blocked_free
    }

    /// The levels of the present tables.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    pub(crate) fn set_levels(&mut self, levels: Levels) {
        self.levels = levels;
    }

    /// Records the track of a table that was begun as the `born`th file.
    pub(crate) fn note_taken(&mut self, range: BlockRange, born: u64) {
        if born < self.youngest {
            return;
        }
        self.youngest = born;
        if let Some(track) = self.geometry.track_of(range.start) {
            self.last[TrackTier::of(track) as usize] = track.0;
            self.last_of_all = track.0;
        }
    }

    /// Records that an open log owns `range`, in one top track.
    pub(crate) fn open_log(&mut self, range: BlockRange, runs: &FreeRuns) {
        self.open_logs.insert(range.start, range.len);
        self.refile(range, runs);
    }

    /// Records that the open log no longer owns the run from `start` on.
    pub(crate) fn close_log(&mut self, start: Lba, runs: &FreeRuns) {
        if let Some(len) = self.open_logs.remove(&start) {
            self.refile(BlockRange::new(start, len.max(Blocks::new(1))), runs);
        }
    }

    /// Records that block `at` of a file cannot be read. Returns false if that was known.
    pub(crate) fn avoid(&mut self, at: Lba, runs: &FreeRuns) -> bool {
        let is_new = self.unreadable.insert(at);
        self.refile(BlockRange::new(at, Blocks::new(1)), runs);
        is_new
    }

    /// Records that `range` was taken from the free runs, or given back to them.
    pub(crate) fn changed(&mut self, range: BlockRange, is_free: bool, runs: &FreeRuns) {
        for part in self.geometry.write_parts(range) {
            if self.geometry.track_of(part.start).is_some_and(TrackId::is_top) {
                if is_free {
                    self.free_tops += part.len;
                } else {
                    self.free_tops -= part.len;
                }
            }
        }
        if is_free {
            // The next file writes these blocks anew.
            self.unreadable.retain(|at| *at < range.start || range.end() <= *at);
        }
        self.refile(range, runs);
    }

    /// Updates the lists for the tracks of `range` and their neighbours.
    fn refile(&mut self, range: BlockRange, runs: &FreeRuns) {
        let last = Lba::new(range.end().get().saturating_sub(1));
        let (Some(first), Some(last)) =
            (self.geometry.track_of(range.start), self.geometry.track_of(last))
        else {
            return;
        };
        for track in first.0.saturating_sub(1)..=last.0 + 1 {
            if self.range(TrackId(track)).is_some() {
                self.refile_track(TrackId(track), runs);
            }
        }
    }

    fn refile_track(&mut self, track: TrackId, runs: &FreeRuns) {
        let free_in = |range| runs.parts_in(range).map(|part| part.len).sum();
        let Listing { is_empty, is_partial, is_quiet, blocked_free } =
            self.look(track, free_in, |top| self.blocks_below(top));
        let file = |set: &mut BTreeSet<u64>, is_in: bool| {
            if is_in {
                set.insert(track.0);
            } else {
                set.remove(&track.0);
            }
        };
        if track.is_top() {
            file(&mut self.empty_tops[parity(track)], is_empty);
            file(&mut self.partial_tops, is_partial);
            return;
        }
        file(&mut self.empty_bottoms, is_empty);
        file(&mut self.partial_bottoms, is_partial);
        file(&mut self.quiet_bottoms, is_quiet);
        let before = match blocked_free {
            Some(free) => self.blocked.insert(track.0, free),
            None => self.blocked.remove(&track.0),
        };
        self.blocked_free += blocked_free.unwrap_or_default();
        self.blocked_free -= before.unwrap_or_default();
    }

    /// Whether nothing may be written below `top`.
    fn blocks_below(&self, top: BlockRange) -> bool {
        let range = top.start..top.end();
        self.open_logs.range(range.clone()).next().is_some()
            || self.unreadable.range(range).next().is_some()
    }

    /// The state of a track, from the free blocks in it and above it, and from the tracks above
    /// that block it.
    fn look(
        &self,
        track: TrackId,
        free_in: impl Fn(BlockRange) -> Blocks,
        blocks_below: impl Fn(BlockRange) -> bool,
    ) -> Listing {
        let Some(range) = self.range(track) else { return Listing::default() };
        let free = free_in(range);
        let is_empty = free == range.len;
        let is_partial = !free.is_zero() && !is_empty;
        let above = || self.geometry.tracks_above(track).into_iter().filter(|r| !r.len.is_zero());
        if above().any(blocks_below) {
            return Listing { blocked_free: Some(free), ..Listing::default() };
        }
        let is_quiet = is_empty && above().all(|top| free_in(top) == top.len);
        Listing { is_empty, is_partial, is_quiet, blocked_free: None }
    }

    /// How each of the disk's `count` tracks is listed, or the first track that is in a wrong list.
    fn listed(&self, count: u64) -> Result<Vec<Listing>, String> {
        let mut listed = vec![Listing::default(); count as usize];
        let mut file = |set: &BTreeSet<u64>, is_of: fn(TrackId) -> bool, note: fn(&mut Listing)| {
            let mut strange = set.iter().filter(|&&at| at >= count || !is_of(TrackId(at)));
            if let Some(at) = strange.next() {
                return Err(format!("I1: {} is in a list of other tracks", TrackId(*at)));
            }
            set.iter().for_each(|&at| note(&mut listed[at as usize]));
            Ok(())
        };
        let is_bottom = |track: TrackId| !track.is_top();
        file(&self.empty_bottoms, is_bottom, |track| track.is_empty = true)?;
        file(&self.partial_bottoms, is_bottom, |track| track.is_partial = true)?;
        file(&self.quiet_bottoms, is_bottom, |track| track.is_quiet = true)?;
        file(&self.partial_tops, TrackId::is_top, |track| track.is_partial = true)?;
        let [even, odd] = &self.empty_tops;
        file(even, |at| at.is_top() && parity(at) == 0, |track| track.is_empty = true)?;
        file(odd, |at| at.is_top() && parity(at) == 1, |track| track.is_empty = true)?;
        for (&at, &free) in &self.blocked {
            let track = listed.get_mut(at as usize);
            track.ok_or_else(|| format!("I1: {} is no track", TrackId(at)))?.blocked_free =
                Some(free);
        }
        Ok(listed)
    }

    /// Returns the first violation of I1, in words.
    pub(crate) fn check(&self, runs: &FreeRuns) -> Result<(), String> {
        let count = self.geometry.track_count();
        let track_of = |at| {
            let track = self.geometry.track_of(at);
            track.map(|track| track.0 as usize).ok_or_else(|| format!("I1: {at} is in no track"))
        };
        // The free blocks of each track, and whether it blocks the tracks below: in one pass,
        // instead of a search for each.
        let mut free_of = vec![Blocks::ZERO; count as usize];
        for part in runs.iter().flat_map(|run| self.geometry.write_parts(run)) {
            free_of[track_of(part.start)?] += part.len;
        }
        let mut blocks = vec![false; count as usize];
        for &at in self.open_logs.keys().chain(&self.unreadable) {
            blocks[track_of(at)?] = true;
        }
        let free_in =
            |range: BlockRange| track_of(range.start).map_or(Blocks::ZERO, |at| free_of[at]);
        let blocks_below = |top: BlockRange| track_of(top.start).is_ok_and(|at| blocks[at]);
        let listed = self.listed(count)?;
        let mut free_tops = Blocks::ZERO;
        for track in (0..count).map(TrackId) {
            let Some(range) = self.range(track) else { continue };
            let listed = listed[track.0 as usize];
            let expected = self.look(track, free_in, blocks_below);
            let expected = Listing { is_quiet: expected.is_quiet && !track.is_top(), ..expected };
            if listed != expected {
                return Err(format!("I1: {track} is {expected:?}, but listed as {listed:?}"));
            }
            if track.is_top() {
                free_tops += free_in(range);
            }
        }
        if free_tops != self.free_tops {
            return Err(format!("I1: {free_tops} of top tracks are free, not {}", self.free_tops));
        }
        Ok(())
    }
}

/// The state of a track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Listing {
    is_empty: bool,
    is_partial: bool,
    is_quiet: bool,
    /// Its free blocks, if nothing may be written to it.
    blocked_free: Option<Blocks>,
}

/// Alternates between 0 and 1 for successive top tracks.
fn parity(top: TrackId) -> usize {
    (top.0 / 2 % 2) as usize
}

#[cfg(test)]
mod tests;
