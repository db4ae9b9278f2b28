//! What is worth emptying where guards are, so that more can be written: spans, and islands.
//!
//! ```text
//!   together   | gap | 1 | gap | 2 | gap |      no two of the gaps hold more than a guard: both islands move
//!              | free ............ |guard|      at once, to a run elsewhere
//!
//!   in pieces  | hole .. | 1a  1b  1c | gap |   longer than any hole: what comes first goes to the hole
//!              | 1a 1b | hole . | 1c | gap |    before it, and the hole wanders, until it meets the gap
//!              | 1a 1b 1c | hole ........ |
//! ```
//!
//! What can be written afterwards is counted, not what is dead or blank: the space of a set that dies is worth
//! nothing while a guard fills it.
//!
//! Invariants
//!   K1  Emptying ends with more to be written than before, or is a piece of one that will. It never takes
//!       what it does not bring back: else many of them would use up what is kept for it.
//!   K2  It comes to an end if nothing else changes: each one leaves fewer islands (J2), or moves files to
//!       lower addresses. A first piece that makes a hole moves only where the others will find room in it, and
//!       what is left is worth more than before, so it is next.
//!   K3  What cannot be moved is not chosen again: for good if it cannot be read, and otherwise until
//!       something has been given back.
//!   K4  Nothing is copied before all files that move have been planned, as the map is. What is chosen here
//!       may not fit: this counts blocks, and a file takes the whole rest of a run that is too short for
//!       another.
//!   K5  If nothing is worth emptying, what is kept for it goes to the tables of flushes and compactions, which
//!       are placed alone, as moved files are, and to logs. A merge gives back more than it takes, a flush gives
//!       back a log, and a log is for deletes: the caller leaves half to a merge. A part stays, with
//!       which an island moves once there is a hole. Else a full drive could be compacted no more.
//!
//! Not here: the moving (`clean`), and when it is due (`placement`).

use super::islands::Island;
use super::unzoned::Unzoned;
use super::{Fit, SpaceMap};
use imbrex_disk::{BlockRange, Blocks, Lba};
use std::cmp::Reverse;

/// How many islands and spans a search looks at, and how many islands are moved together.
const LOOK_COUNT_MAX: usize = 32;
const MOVED_COUNT_MAX: usize = 32;

/// Gains are compared in this share of what moves.
const GAIN_SCALE: u64 = 1024;

/// Of a file that is placed alone, no more than this part is lost to the rest of a run: a crumb of a table.
const LOST_PER_MOVED: u64 = 4;

/// An island is moved in pieces if it is no longer than so many guards: each brings back one.
pub(super) const GUARDS_PER_ISLAND: u64 = 8;

/// What cleaning empties.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub(crate) range: BlockRange,
    /// A run that takes all of it, if there is one; and not the one that emptying makes.
    pub(crate) to: Option<BlockRange>,
    /// The least and the most that is moved, from the start on. What is left is moved later.
    moved_min: Blocks,
    moved_max: Blocks,
    /// The runs beside an island that is moved in pieces, if nothing may go there: what comes first makes a
    /// hole of the one before it, and all will end at the one after it.
    left: [Option<BlockRange>; 2],
}

impl Victim {
    /// The runs that take nothing of what is moved in pieces. They may have become shorter.
    pub(crate) fn left(&self) -> impl Iterator<Item = BlockRange> {
        self.left.into_iter().flatten()
    }

    /// What is moved first of the files that have `extents` in it: those at the start, as many as there is room
    /// for. `None` if that is too little, or if one of the others would find no room in the hole that is there
    /// then, or is made: `hole` is as long now, and keeps `guard` free (K2).
    fn first_piece(
        &self,
        extents: &[BlockRange],
        hole: Blocks,
        guard: Blocks,
    ) -> Option<BlockRange> {
        let start = self.range.start;
        let within = |extent: &&BlockRange| extent.end() - start <= self.moved_max;
        let (now, later) = extents.split_at(extents.iter().take_while(within).count());
        let piece = BlockRange::new(start, now.last()?.end() - start);
        // A piece that goes into the hole makes as much behind it.
        let goes_elsewhere = !self.moved_min.is_zero();
        let made = if goes_elsewhere { hole + piece.len } else { hole };
        let longest = later.iter().map(|extent| extent.len).max().unwrap_or_default();
        (self.moved_min <= piece.len && longest + guard <= made).then_some(piece)
    }
}

/// What emptying a victim costs and brings.
#[derive(Clone, Copy, Debug)]
struct Emptying {
    victim: Victim,
    /// The blocks that are moved, in all pieces.
    moved: Blocks,
    /// How much more can be written afterwards.
    gain: Blocks,
}

impl Emptying {
    /// The more the better: its gain for what moves. Ties go to the lower one.
    fn rank(&self) -> (u64, Reverse<Lba>) {
        let gain = self.gain.get().saturating_mul(GAIN_SCALE) / self.moved.get().max(1);
        (gain, Reverse(self.victim.range.start))
    }
}

impl Unzoned {
    /// How much more can be written if what lies between guards is moved together: what all islands spare that
    /// are not too long. A log spares nothing while it is open. Nothing counts where holes are lost because
    /// they are too short, and not to their guards: there the rests of runs take what islands spare.
    pub(super) fn surely_joinable(&self) -> Blocks {
        if self.runs.guard_len() < self.runs.crumb() {
            return Blocks::ZERO;
        }
        let logs = Blocks::new(self.guards.len() as u64 * self.runs.guard_len().get());
        self.runs.joinable().saturating_sub(logs)
    }

    /// The span or the islands most worth emptying: what can be written afterwards is more than before.
    /// `None` if nothing is, and where no guards are.
    pub(super) fn most_worth_emptying(&self) -> Option<Victim> {
        let around = |island| {
            let at_once = self.best_around(island).filter(|emptying| self.is_gain(emptying));
            at_once.or_else(|| self.in_pieces(island))
        };
        self.most_worth(|emptying| self.is_gain(emptying), around)
    }

    /// The same for what pays at once: what moves is no more than what it brings.
    pub(super) fn paying_emptying(&self) -> Option<Victim> {
        let pays = |emptying: &Emptying| emptying.moved.max(self.runs.crumb()) <= emptying.gain;
        self.most_worth(pays, |island| self.best_around(island))
    }

    fn most_worth(
        &self,
        pays: impl Fn(&Emptying) -> bool,
        around: impl Fn(Island) -> Option<Emptying>,
    ) -> Option<Victim> {
        if !self.runs.is_shingled() {
            return None;
        }
        let islands = self.runs.islands().filter(|island| self.is_movable(island.range()));
        let islands = islands.take(LOOK_COUNT_MAX).filter_map(around);
        let spans = self.spans.movable(self.free()).take(LOOK_COUNT_MAX);
        let spans = spans.filter(|(span, _)| self.is_movable(*span));
        let spans = spans.filter_map(|(span, held)| self.of_span(span, held));
        let best = islands.chain(spans).filter(pays).max_by_key(Emptying::rank);
        best.map(|emptying| emptying.victim)
    }

    /// Whether it is worth it at all (K1). A little is: what moves makes one island of two, and the next move may
    /// bring back the guard behind it.
    fn is_gain(&self, emptying: &Emptying) -> bool {
        !emptying.gain.is_zero()
    }

    /// The emptying of a span, in which `held` blocks live, if they fit elsewhere.
    fn of_span(&self, span: BlockRange, held: Blocks) -> Option<Emptying> {
        let [before, after] = self.runs.beside(span);
        let before = before.unwrap_or(BlockRange::new(span.start, Blocks::ZERO));
        let after = after.unwrap_or(BlockRange::new(span.end(), Blocks::ZERO));
        self.at_once(Island { before, after }, held, self.runs.size_of(after))
    }

    /// Of the islands around `island`, those that are most worth moving with it.
    fn best_around(&self, island: Island) -> Option<Emptying> {
        let (mut first, mut last) = (island.before, island.after);
        let mut moved = island.range().len;
        // The gaps beyond the first will be one, so that nothing is moved there.
        let mut inner = self.runs.size_of(last);
        let mut best: Option<Emptying> = None;
        for _ in 0..MOVED_COUNT_MAX {
            let all = Island { before: first, after: last };
            let Some(emptying) = self.at_once(all, moved, inner) else { break };
            if best.as_ref().is_none_or(|best| best.rank() < emptying.rank()) {
                best = Some(emptying);
            }
            let left = self.runs.island_before(first.start);
            let sides = [left, self.runs.island_after(last)].into_iter().flatten();
            let sides = sides.filter(|side| self.is_movable(side.range()));
            let Some(next) = sides.max_by_key(Island::worth) else { break };
            moved += next.range().len;
            if next.after == first {
                inner += self.runs.size_of(first);
                first = next.before;
            } else {
                inner += self.runs.size_of(next.after);
                last = next.after;
            }
        }
        best
    }

    /// The emptying of all between two runs at once, if its `moved` blocks fit elsewhere: not into the `inner`
    /// ones that can be written in and after it.
    fn at_once(&self, all: Island, moved: Blocks, inner: Blocks) -> Option<Emptying> {
        let range = all.range();
        let to = self.run_for(range, moved, None);
        let lost = self.lost(range, moved, to);
        let joined = BlockRange::new(all.before.start, all.after.end() - all.before.start);
        let apart = self.runs.size_of(all.before) + inner + moved + lost;
        let gain = self.runs.size_of(joined).saturating_sub(apart);
        let victim =
            Victim { range, to, moved_min: Blocks::ZERO, moved_max: range.len, left: [None; 2] };
        let fits = moved + inner + lost <= self.free();
        fits.then_some(Emptying { victim, moved, gain })
    }

    /// A piece of the emptying of `island`: what fits into the hole before it, or else what makes one there.
    fn in_pieces(&self, island: Island) -> Option<Emptying> {
        let Island { before, after } = island;
        let (range, guard) = (island.range(), self.runs.guard_len());
        if guard.get() * GUARDS_PER_ISLAND < range.len.get() {
            return None;
        }
        let joined = BlockRange::new(before.start, after.end() - before.start);
        let (hole, rest) = (self.runs.size_of(before), self.runs.size_of(after));
        let joined = self.runs.size_of(joined);
        let gain = |lost| joined.saturating_sub(hole + rest + range.len + lost);
        // For a table, which may be a little longer than the unit.
        let hole_min = self.runs.class_len() + self.runs.crumb();
        let emptying = if hole_min <= hole {
            let (moved_max, left) = (hole.min(range.len), [None, Some(after)]);
            let victim =
                Victim { range, to: Some(before), moved_min: Blocks::ZERO, moved_max, left };
            Emptying { victim, moved: range.len, gain: gain(self.runs.crumb()) }
        } else {
            // What makes such a hole, in front of data that need a guard.
            let moved_min = (hole_min + guard).saturating_sub(before.len);
            let moved_min = moved_min.clamp(Blocks::new(1), range.len);
            let moved_max = (moved_min + self.runs.class_len()).min(range.len);
            let to = self.run_for(range, moved_max, Some(before));
            // Whether the first files end where so much fits is known when they are looked up.
            let elsewhere = self.free().saturating_sub(hole + rest);
            let moved_max = if to.is_some() { moved_max } else { moved_max.min(elsewhere) };
            if moved_max < moved_min {
                return None;
            }
            let lost = self.lost(range, moved_max, to);
            let left = [Some(before), Some(after)];
            let victim = Victim { range, to, moved_min, moved_max, left };
            Emptying { victim, moved: range.len, gain: gain(lost) }
        };
        Some(emptying)
    }

    /// Begins or ends the emptying of `range`.
    pub(super) fn set_cleaning(&mut self, range: BlockRange, cleaning: bool) {
        self.victim = cleaning.then(|| self.victim_of(range));
        self.spans.set_cleaning(range, cleaning);
    }

    /// How `range` is emptied: at once if it fits elsewhere, and else in pieces.
    fn victim_of(&self, range: BlockRange) -> Victim {
        let emptying = match self.runs.beside(range) {
            [Some(before), Some(after)] if self.spans.holding(range.start) != Some(range) => {
                let island = Island { before, after };
                let within = || self.runs.parts_in(range);
                let blank: Blocks = within().map(|run| run.len).sum();
                let inner = within().chain([after]).map(|run| self.runs.size_of(run)).sum();
                let at_once = self.at_once(island, range.len - blank, inner);
                let at_once = at_once.filter(|emptying| self.is_gain(emptying));
                at_once.or_else(|| self.in_pieces(island))
            }
            _ => None,
        };
        let whole = || Victim {
            range,
            to: None,
            moved_min: Blocks::ZERO,
            moved_max: range.len,
            left: [None; 2],
        };
        emptying.map_or_else(whole, |emptying| emptying.victim)
    }

    /// At most how much becomes too short to be written where `moved` blocks of `victim` go: the rest of a
    /// run, or of one for each file.
    fn lost(&self, victim: BlockRange, moved: Blocks, to: Option<BlockRange>) -> Blocks {
        match to {
            // Its rest becomes a part of what is made.
            Some(run) if run.end() == victim.start => Blocks::ZERO,
            Some(_) => self.runs.crumb(),
            None => self.runs.crumb() + Blocks::new(moved.get().div_ceil(LOST_PER_MOVED)),
        }
    }

    /// A run for `moved` blocks of `victim`, which is not in it nor after it, and is not `before`.
    fn run_for(
        &self,
        victim: BlockRange,
        moved: Blocks,
        before: Option<BlockRange>,
    ) -> Option<BlockRange> {
        let after = self.runs.beside(victim)[1];
        let left = self.runs.parts_in(victim).chain(after).chain(before);
        let left = left.map(|run| (run.start, run.len)).collect();
        self.runs.find(moved, Fit::Tightest, &left)
    }

    /// Whether all of `range` lies in files that can be moved, as far as the map knows.
    fn is_movable(&self, range: BlockRange) -> bool {
        let is_there = |ranges: &[BlockRange]| ranges.iter().any(|other| other.overlaps(range));
        self.guards.range(range.start..range.end()).next().is_none()
            && self.under_way.range(range.start..range.end()).next().is_none()
            && !is_there(&self.given_back)
            && !is_there(&self.discarding)
            && !is_there(&self.staying)
            && !is_there(&self.kept)
    }

    /// Whether files with `named` blocks are all that is held in `range`.
    fn is_all_of(&self, range: BlockRange, named: Blocks) -> bool {
        let blank: Blocks = self.runs.parts_in(range).map(|run| run.len).sum();
        let spans = self.spans.iter().filter(|(span, _)| span.overlaps(range));
        let dead: Blocks = spans.map(|(_, dead)| dead).sum();
        named + blank + dead == range.len
    }

    /// See [`SpaceMap::take_victim`].
    fn take_victim(&mut self, extents: &[BlockRange]) -> Option<BlockRange> {
        let victim = self.victim.as_mut()?;
        let range = victim.range;
        if self.spans.is_all_named(range) {
            return Some(range);
        }
        let named = extents.iter().map(|extent| extent.len).sum();
        let mut taken = Some(range);
        if victim.moved_max < range.len {
            let hole = self.runs.beside(range)[0].map_or(Blocks::ZERO, |run| run.len);
            taken = victim.first_piece(extents, hole, self.runs.guard_len());
            victim.range = taken.unwrap_or(range);
        }
        if taken.is_some() && self.is_all_of(range, named) {
            return taken;
        }
        self.kept.push(range);
        None
    }
}

impl SpaceMap {
    /// What is emptied when a write does not fit: see `Unzoned::most_worth_emptying` where guards are, and
    /// `Spans::deadest` elsewhere.
    pub(crate) fn span_in_need(&self) -> Option<BlockRange> {
        let unzoned = self.unzoned.as_ref()?;
        match unzoned.runs.guard_len() {
            Blocks::ZERO => unzoned.spans.deadest(self.free(), &unzoned.kept),
            _ => Some(unzoned.most_worth_emptying()?.range),
        }
    }

    /// See `Unzoned::paying_emptying`.
    pub(crate) fn paying_emptying(&self) -> Option<BlockRange> {
        Some(self.unzoned.as_ref()?.paying_emptying()?.range)
    }

    /// What is being emptied without zones.
    pub(crate) fn victim(&self) -> Option<Victim> {
        self.unzoned.as_ref()?.victim
    }

    /// The spans in the victim for a write that does not fit, if that is moved in pieces: each with the number
    /// of its held blocks.
    pub(crate) fn spans_in_pieces(&self) -> Vec<(BlockRange, Blocks)> {
        let Some(unzoned) = &self.unzoned else { return Vec::new() };
        let victim = unzoned.most_worth_emptying();
        let in_pieces = victim.filter(|victim| victim.moved_max < victim.range.len);
        let spans = in_pieces.map(|victim| unzoned.spans.dissolvable_in(victim.range));
        spans.into_iter().flatten().collect()
    }

    /// Records that `victim` is no victim before something has been given back (K3), without zones.
    pub(crate) fn keep(&mut self, victim: BlockRange) {
        if let Some(unzoned) = &mut self.unzoned {
            unzoned.kept.push(victim);
        }
    }

    /// Takes the victim that is being cleaned, whose files have `extents` in it, in order. Returns what is
    /// emptied of it: all, or what comes first. `None` if anything else is held there; then it is no victim
    /// before something has been given back (K3).
    pub(crate) fn take_victim(
        &mut self,
        victim: BlockRange,
        extents: &[BlockRange],
    ) -> Option<BlockRange> {
        match &mut self.unzoned {
            None => Some(victim),
            Some(unzoned) => unzoned.take_victim(extents),
        }
    }
}

#[cfg(test)]
mod tests;
