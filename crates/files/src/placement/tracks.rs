//! Placement on interlaced tracks: the part that all policies of tracks share.
//!
//! ```text
//!   a table of 3.5 tracks   | track | track | track | half |      a track belongs to one table
//!   logs, small files       pieces of top tracks; with some policies the ends of tables that move freely, too
//!   nearly full             whatever is free, in pieces: top tracks first; last what the same plan left of a track
//! ```
//!
//! A policy chooses the next empty track. This module fills the tracks, and keeps top tracks for
//! logs: logs grow by pieces, and a piece in a bottom track would need a rewrite each time. A drive with
//! a flash drive beside it keeps none, because its logs are there. The map
//! decides which tracks may be handed out at all (`space::tracks`).

use super::policy::{FileRequest, Placement, Planned, Rewriting, UNITS_NEEDED, admit};
use crate::extent::fill;
use crate::hints::{FileKind, Hints};
use crate::room::CommitKind;
use crate::space::{Claim, NoSpace, SpaceMap, TrackMap, TrackTier};
use imbrex_disk::{BlockRange, Blocks, Geometry, Lba, Rule, TrackId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// The first piece of a log of unknown length: 1 MiB.
const LOG_PIECE_BLOCKS_MIN: u64 = 256;
/// The longest piece: 64 MiB, so that no more than that is idle.
const LOG_PIECE_BLOCKS_MAX: u64 = 16_384;
/// How many broken tracks are tried for a short file.
const LOOK_COUNT_MAX: usize = 64;
/// How many are tried for the cheapest piece of a table, once one is found.
const PIECE_LOOK_COUNT: usize = 4096;

/// A policy that fills interlaced tracks. It chooses the tracks of tables.
pub(super) trait TrackPolicy: Send + Sync + Debug {
    /// See [`Placement::name`].
    fn name(&self) -> &'static str;

    /// The length of a table.
    fn unit_len(&self) -> Blocks;

    /// See [`Placement::rewriting`].
    fn rewriting(&self) -> Rewriting;

    /// See [`Placement::plan`].
    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace>;
}

/// The placement that a [`TrackPolicy`] makes.
#[derive(Debug)]
pub(super) struct OnTracks<P>(pub(super) P);

impl<P: TrackPolicy> Placement for OnTracks<P> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn suits(&self, geometry: &Geometry) -> Result<(), String> {
        suits(geometry)
    }

    fn room_needed(&self, geometry: &Geometry) -> Blocks {
        room_needed(geometry, UNITS_NEEDED, self.0.unit_len())
    }

    fn rewriting(&self) -> Rewriting {
        self.0.rewriting()
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace> {
        self.0.plan(space, files)
    }

    fn plan_log_pieces(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        owned: Blocks,
    ) -> Result<Vec<BlockRange>, NoSpace> {
        plan_log(space, hints, owned)
    }
}

/// Whether a policy of tracks suits the disk.
fn suits(geometry: &Geometry) -> Result<(), String> {
    match geometry.rule() {
        Rule::Neighbours(_) => Ok(()),
        other => {
            let instead = match other {
                Rule::Anywhere => "first-fit or sets",
                Rule::AtPointer(_) => "zone-per-level or log-structured",
                _ => "dynamic-bands",
            };
            Err(format!(
                "the drive is {}, and its tracks are not interlaced; use {instead}",
                other.name()
            ))
        }
    }
}

/// The room for files that a drive needs for a few tables of `unit_len`, with the unused rests of
/// their last tracks.
fn room_needed(geometry: &Geometry, unit_count: u64, unit_len: Blocks) -> Blocks {
    let Some(tracks) = geometry.interlaced() else { return Blocks::ZERO };
    let pair = tracks.bottom_track_len.get().saturating_add(tracks.top_track_len.get());
    Blocks::new(unit_count.saturating_mul(unit_len.get().saturating_add(pair)))
}

/// A plan in progress.
pub(super) struct TrackDraft<'a> {
    space: &'a SpaceMap,
    tracks: &'a TrackMap,
    /// Tracks that the plan has taken.
    used: BTreeSet<u64>,
    /// Free pieces that it has taken part of: the end of each, and where the rest begins.
    cut: BTreeMap<Lba, Lba>,
    /// The rests of the empty tracks that it has taken, by tier.
    rests: [Vec<BlockRange>; 2],
    /// How many blocks of top tracks tables may still take.
    tops_left: Blocks,
    last: [u64; 2],
    last_of_all: u64,
}

/// A free piece of a broken track, how much of it would be used, and how much that would move.
struct FreePiece {
    range: BlockRange,
    len: Blocks,
    moved: Blocks,
}

impl FreePiece {
    /// Whether it moves less for its length. Of equals, the longer one is cheaper.
    fn is_cheaper_than(&self, other: &FreePiece) -> bool {
        let price = |of: &FreePiece, against: &FreePiece| {
            u128::from((of.moved + of.len).get()) * u128::from(against.len.get())
        };
        let (own, theirs) = (price(self, other), price(other, self));
        own < theirs || own == theirs && other.len < self.len
    }
}

/// Plans `files`: each takes the track that `next` returns, repeatedly.
pub(super) fn plan(
    space: &SpaceMap,
    files: &[FileRequest],
    next: &dyn Fn(&TrackDraft<'_>, &FileRequest) -> Option<u64>,
) -> Result<Vec<Planned>, NoSpace> {
    plan_sharing(space, files, next, &|_, _| None)
}

/// As [`plan`], for files that may share top tracks. If the rest of a file is shorter than a broken top
/// track has room for, it goes there: to the one nearest to the track that `near` returns.
pub(super) fn plan_sharing(
    space: &SpaceMap,
    files: &[FileRequest],
    next: &dyn Fn(&TrackDraft<'_>, &FileRequest) -> Option<u64>,
    near: &dyn Fn(&TrackDraft<'_>, &FileRequest) -> Option<u64>,
) -> Result<Vec<Planned>, NoSpace> {
    admit(space, files)?;
    let mut draft = TrackDraft::new(space);
    files
        .iter()
        .map(|file| {
            let near = near(&draft, file);
            let ranges = draft
                .place(file, next, near)
                .ok_or_else(|| NoSpace { needed: file.blocks(), free: draft.left() })?;
            Ok(Planned::alone(fill(&ranges, file.len_bytes)))
        })
        .collect()
}

impl<'a> TrackDraft<'a> {
    fn new(space: &'a SpaceMap) -> TrackDraft<'a> {
        let tracks = space.tracks();
        TrackDraft {
            space,
            tracks,
            used: BTreeSet::new(),
            cut: BTreeMap::new(),
            rests: [Vec::new(), Vec::new()],
            tops_left: tracks.free_tops().saturating_sub(space.kept_for_logs()),
            last: [tracks.last(TrackTier::Bottom), tracks.last(TrackTier::Top)],
            last_of_all: tracks.last_of_all(),
        }
    }

    /// The last track taken, by this plan or before it.
    pub(super) fn last(&self, tier: TrackTier) -> u64 {
        self.last[tier as usize]
    }

    pub(super) fn last_of_all(&self) -> u64 {
        self.last_of_all
    }

    pub(super) fn map(&self) -> &TrackMap {
        self.tracks
    }

    /// Whether a table may take a top track.
    pub(super) fn may_take_tops(&self) -> bool {
        !self.tops_left.is_zero()
    }

    /// The first track of `set` after `after`, or else the first of all.
    pub(super) fn next_in(&self, set: &BTreeSet<u64>, after: u64) -> Option<u64> {
        let is_left = |track: &&u64| !self.used.contains(track);
        let behind = set.range(after..).find(is_left);
        behind.or_else(|| set.range(..after).find(is_left)).copied()
    }

    /// The first track after `after` in any of `sets`, or else the first of all.
    pub(super) fn next_of(&self, sets: &[&BTreeSet<u64>], after: u64) -> Option<u64> {
        let found = sets.iter().filter_map(|set| self.next_in(set, after));
        found.min_by_key(|&track| (track < after, track))
    }

    /// The track of `set` nearest to `to`.
    pub(super) fn nearest_in(&self, set: &BTreeSet<u64>, to: u64) -> Option<u64> {
        let is_left = |track: &&u64| !self.used.contains(track);
        let above = set.range(to..).find(is_left).copied();
        let below = set.range(..to).rev().find(is_left).copied();
        above.into_iter().chain(below).min_by_key(|track| track.abs_diff(to))
    }

    fn place(
        &mut self,
        file: &FileRequest,
        next: &dyn Fn(&TrackDraft<'_>, &FileRequest) -> Option<u64>,
        near: Option<u64>,
    ) -> Option<Vec<BlockRange>> {
        let mut left = file.blocks();
        let mut ranges = Vec::new();
        while !left.is_zero() {
            let is_short = file.hints.kind != FileKind::Table && ranges.is_empty();
            let range = None
                .or_else(|| if is_short { self.short(left) } else { None })
                .or_else(|| self.share(near?, left))
                .or_else(|| self.whole(next(self, file)?, left))
                .or_else(|| self.piece(TrackTier::Top, left))
                .or_else(|| self.piece(TrackTier::Bottom, left))
                .or_else(|| self.rest(TrackTier::Top, left))
                .or_else(|| self.rest(TrackTier::Bottom, left))?;
            left -= range.len;
            ranges.push(range);
        }
        Some(ranges)
    }

    /// The start of an empty track.
    fn whole(&mut self, track: u64, left: Blocks) -> Option<BlockRange> {
        let whole = self.tracks.range(TrackId(track))?;
        let mut range = BlockRange::new(whole.start, whole.len.min(left));
        let tier = TrackTier::of(TrackId(track));
        if tier == TrackTier::Top {
            range.len = range.len.min(self.tops_left);
            self.tops_left -= range.len;
        }
        if range.len < whole.len {
            self.rests[tier as usize].push(BlockRange::new(range.end(), whole.len - range.len));
        }
        self.used.insert(track);
        self.last[tier as usize] = track;
        self.last_of_all = track;
        Some(range)
    }

    /// A piece of a broken top track that holds the whole of a short file.
    fn short(&mut self, len: Blocks) -> Option<BlockRange> {
        if self.tops_left < len {
            return None;
        }
        let broken = self.tracks.partial(TrackTier::Top).iter().take(LOOK_COUNT_MAX);
        let free = broken.flat_map(|&track| self.free_in(track));
        let found = free.filter(|piece| len <= piece.len).min_by_key(|piece| piece.len)?;
        self.tops_left -= len;
        Some(self.cut(found, len))
    }

    /// A piece of a top track near `to` that holds all of `len`: of a broken track, or of one that this plan
    /// began.
    fn share(&mut self, to: u64, len: Blocks) -> Option<BlockRange> {
        if self.tops_left < len {
            return None;
        }
        let broken = self.tracks.partial(TrackTier::Top);
        let above = broken.range(to..).take(LOOK_COUNT_MAX);
        let below = broken.range(..to).rev().take(LOOK_COUNT_MAX);
        let pieces_of = |&track: &u64| {
            let pieces = self.free_in(track).into_iter();
            pieces.map(move |piece| (track.abs_diff(to), piece))
        };
        let found = above.chain(below).flat_map(pieces_of).filter(|(_, piece)| len <= piece.len);
        let found = found.min_by_key(|(distance, piece)| (*distance, piece.len));
        let range = match found {
            Some((_, piece)) => self.cut(piece, len),
            None => self.start_of_rest(len)?,
        };
        self.tops_left -= len;
        Some(range)
    }

    /// The start of a rest of a top track that this plan began, if one holds all of `len`.
    fn start_of_rest(&mut self, len: Blocks) -> Option<BlockRange> {
        let rests = &mut self.rests[TrackTier::Top as usize];
        let rest = rests.iter_mut().find(|rest| len <= rest.len)?;
        let range = BlockRange::new(rest.start, len);
        *rest = BlockRange::new(range.end(), rest.len - len);
        rests.retain(|rest| !rest.len.is_zero());
        Some(range)
    }

    /// The track at `position`, in the part of the drive that is used.
    pub(super) fn at_position(&self, position: u16) -> u64 {
        self.tracks.at(self.space.at_position(position))
    }

    /// How much of `left` may go to a tier.
    fn allowed(&self, tier: TrackTier, left: Blocks) -> Blocks {
        match tier {
            TrackTier::Top => left.min(self.tops_left),
            TrackTier::Bottom => left,
        }
    }

    /// A piece of a broken track, up to `left`: the longest one of top tracks, or the bottom piece
    /// whose write moves least for its length. A bottom piece costs the tracks above it, however
    /// short it is.
    fn piece(&mut self, tier: TrackTier, left: Blocks) -> Option<BlockRange> {
        let wanted = self.allowed(tier, left);
        if wanted.is_zero() {
            return None;
        }
        let mut best: Option<FreePiece> = None;
        for (looked_at, &track) in self.tracks.partial(tier).iter().enumerate() {
            let moved = match tier {
                TrackTier::Top => Blocks::ZERO,
                TrackTier::Bottom => self.moved_for(track),
            };
            for range in self.free_in(track) {
                let found = FreePiece { range, len: range.len.min(wanted), moved };
                if best.as_ref().is_none_or(|best| found.is_cheaper_than(best)) {
                    best = Some(found);
                }
            }
            let is_whole = |best: &FreePiece| tier == TrackTier::Top && best.len == wanted;
            if best.as_ref().is_some_and(|best| is_whole(best) || PIECE_LOOK_COUNT <= looked_at) {
                break;
            }
        }
        let FreePiece { range, len, .. } = best?;
        if tier == TrackTier::Top {
            self.tops_left -= len;
        }
        Some(self.cut(range, len))
    }

    /// Up to `left` of the rest of a track that this plan began: two tables in a track are better
    /// than no room.
    fn rest(&mut self, tier: TrackTier, left: Blocks) -> Option<BlockRange> {
        let wanted = self.allowed(tier, left);
        if wanted.is_zero() {
            return None;
        }
        let rests = &mut self.rests[tier as usize];
        let rest = rests.pop()?;
        let len = rest.len.min(wanted);
        if len < rest.len {
            rests.push(BlockRange::new(rest.start + len, rest.len - len));
        }
        if tier == TrackTier::Top {
            self.tops_left -= len;
        }
        Some(BlockRange::new(rest.start, len))
    }

    /// How much a write to a bottom track would move away and back, as of before the plan.
    fn moved_for(&self, track: u64) -> Blocks {
        let range = self.tracks.range(TrackId(track)).unwrap_or_default();
        self.space.live_above(range).iter().map(|live| live.len).sum()
    }

    /// The free pieces of a track that are left.
    fn free_in(&self, track: u64) -> Vec<BlockRange> {
        let range = self.tracks.range(TrackId(track)).unwrap_or_default();
        let left = |piece: BlockRange| {
            let start = self.cut.get(&piece.end()).copied().unwrap_or(piece.start);
            BlockRange::new(start, piece.end() - start)
        };
        let pieces = self.space.runs().parts_in(range).map(left);
        pieces.filter(|piece| !piece.len.is_zero()).collect()
    }

    fn cut(&mut self, piece: BlockRange, len: Blocks) -> BlockRange {
        self.cut.insert(piece.end(), piece.start + len);
        BlockRange::new(piece.start, len)
    }

    /// How much is left, roughly.
    fn left(&self) -> Blocks {
        self.space.free_for(Claim::Reserve)
    }
}

/// Chooses pieces of top tracks for a log that owns `owned` blocks: the lowest empty tracks, so
/// that logs stay together and block few bottom tracks, and broken tracks if no track is empty.
/// Pieces that need not wait for a table below them come first.
fn plan_log(space: &SpaceMap, hints: &Hints, owned: Blocks) -> Result<Vec<BlockRange>, NoSpace> {
    let claim = match hints.purpose {
        CommitKind::Ordinary => Claim::Normal,
        CommitKind::Upkeep | CommitKind::Recovery => Claim::Cleaning,
    };
    let tracks = space.tracks();
    let expected = Blocks::holding(hints.expected_len_bytes.unwrap_or(0)).saturating_sub(owned);
    // Doubling keeps the number of runs, and so of catalog records, logarithmic.
    let wanted = expected.get().max(owned.get()).clamp(LOG_PIECE_BLOCKS_MIN, LOG_PIECE_BLOCKS_MAX);
    let free = space.free_for(claim).min(tracks.free_tops());
    let mut missing = Blocks::new(wanted.min(free.get() / 4).max(1));
    space.admit(missing, claim)?;
    let [even, odd] = tracks.empty_tops();
    let mut empty = (even.iter().peekable(), odd.iter().peekable());
    let in_order = std::iter::from_fn(|| match (empty.0.peek(), empty.1.peek()) {
        (Some(a), Some(b)) if a < b => empty.0.next(),
        (_, Some(_)) => empty.1.next(),
        _ => empty.0.next(),
    });
    let candidates = in_order.chain(tracks.partial(TrackTier::Top));
    let mut ranges = Vec::new();
    let mut later = Vec::new();
    for &track in candidates {
        if missing.is_zero() {
            break;
        }
        let range = tracks.range(TrackId(track)).unwrap_or_default();
        for piece in space.runs().parts_in(range) {
            if space.is_turn_of(piece) != Some(true) {
                later.push(piece);
            } else {
                take_piece(piece, &mut missing, &mut ranges);
            }
        }
    }
    later.into_iter().for_each(|piece| take_piece(piece, &mut missing, &mut ranges));
    if ranges.is_empty() {
        return Err(NoSpace { needed: missing, free: tracks.free_tops() });
    }
    Ok(ranges)
}

fn take_piece(piece: BlockRange, missing: &mut Blocks, ranges: &mut Vec<BlockRange>) {
    let len = piece.len.min(*missing);
    if !len.is_zero() {
        *missing -= len;
        ranges.push(BlockRange::new(piece.start, len));
    }
}
