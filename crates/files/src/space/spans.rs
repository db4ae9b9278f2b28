//! Spans: runs of blocks that are given back as a whole, when their last block is dead.
//!
//! ```text
//!   span      | table | table (dead) | table |      one set: written together, read together
//!             ^ 2/3 held: the dead third stays until the other two are dead or moved
//!   dissolved | table |     free     | table |      on a full drive: the other two stay, on their own
//! ```
//!
//! A file that was placed in a span names it in the catalog. After a power cut the space of its
//! dead neighbours is therefore still known to be taken.
//!
//! Invariants
//!   P1  No two spans overlap; a file that names a span lies in it, and no other file does.
//!   P2  A span in which nothing is held no longer exists.

use super::FreeRuns;
use imbrex_disk::{BlockRange, Blocks, Lba};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// How many spans with dead blocks, and how many fragments, a search for a span worth moving looks at.
const LOOK_COUNT_MAX: usize = 32;

/// Gains are compared in this share of what moves.
const GAIN_SCALE: u64 = 1024;

/// The spans of one disk without zones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    by_start: BTreeMap<Lba, Span>,
    /// Spans with dead blocks: how many, and where.
    by_dead: BTreeSet<(Blocks, Reverse<Lba>)>,
    len: Blocks,
    dead: Blocks,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    len: Blocks,
    held: Blocks,
    named: Blocks,
    cleaning: bool,
    pinned: bool,
}

impl Span {
    fn dead(&self) -> Blocks {
        self.len - self.held
    }

    /// Whether its files can all be moved and take no more than `free`.
    fn is_movable(&self, free: Blocks) -> bool {
        self.held == self.named && self.held <= free && !self.cleaning && !self.pinned
    }
}

impl Spans {
    /// The spans in order of address, each with the number of its dead blocks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockRange, Blocks)> + '_ {
        self.by_start.iter().map(|(&start, span)| (BlockRange::new(start, span.len), span.dead()))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.by_start.len()
    }

    /// The total length of all spans.
    pub(crate) fn len(&self) -> Blocks {
        self.len
    }

    /// The total number of their dead blocks.
    pub(crate) fn dead(&self) -> Blocks {
        self.dead
    }

    /// The span that holds `at`.
    pub(crate) fn holding(&self, at: Lba) -> Option<BlockRange> {
        self.at(at).map(|(range, _)| range)
    }

    /// The span with the most dead blocks whose files can all be moved and take no more than
    /// `free`, and that is none of `kept`. Ties go to the lower one.
    pub(crate) fn deadest(&self, free: Blocks, kept: &[BlockRange]) -> Option<BlockRange> {
        let mut spans = self.by_dead().filter(|(range, _)| !kept.contains(range));
        spans.find(|(_, span)| span.is_movable(free)).map(|(range, _)| range)
    }

    /// The spans with dead blocks whose files can all be moved and take no more than `free`, those with most
    /// first, each with the number of its held blocks.
    pub(crate) fn movable(&self, free: Blocks) -> impl Iterator<Item = (BlockRange, Blocks)> + '_ {
        let spans = self.by_dead().filter(move |(_, span)| span.is_movable(free));
        spans.filter(|(_, span)| !span.held.is_zero()).map(|(range, span)| (range, span.held))
    }

    /// The spans with dead blocks that may be dissolved, those with most first, each with the number
    /// of its held blocks.
    pub(crate) fn dissolvable(&self) -> impl Iterator<Item = (BlockRange, Blocks)> + '_ {
        let spans = self.by_dead().filter(|(_, span)| span.held == span.named && !span.cleaning);
        spans.map(|(range, span)| (range, span.held))
    }

    /// Whether `range` is a span in which files of the catalog hold all that is held.
    pub(crate) fn is_all_named(&self, range: BlockRange) -> bool {
        let span = self.by_start.get(&range.start).filter(|span| span.len == range.len);
        span.is_some_and(|span| span.held == span.named)
    }

    /// The spans in `range` that may be dissolved, each with the number of its held blocks.
    pub(crate) fn dissolvable_in(
        &self,
        range: BlockRange,
    ) -> impl Iterator<Item = (BlockRange, Blocks)> + '_ {
        let spans = self.by_start.range(range.start..range.end());
        let spans = spans.filter(|(_, span)| span.held == span.named && !span.cleaning);
        spans.map(|(&start, span)| (BlockRange::new(start, span.len), span.held))
    }

    /// The span whose files are most worth moving to free space, if one is worth it: for each block that
    /// moves, at least one comes back that holds no set now. That is what is dead in the span, and the
    /// fragments of `runs` beside it, which it joins. Ties go to the lower span. None of `kept` is chosen.
    pub(crate) fn most_worth_moving(
        &self,
        free: Blocks,
        runs: &FreeRuns,
        kept: &[BlockRange],
    ) -> Option<BlockRange> {
        let mean_len = Blocks::new(self.len.get().checked_div(self.by_start.len() as u64)?);
        let fragments = || runs.shorter_than(mean_len).take(LOOK_COUNT_MAX);
        let beside = fragments().flat_map(|run| {
            let before = run.start.get().checked_sub(1).and_then(|at| self.at(Lba::new(at)));
            before.into_iter().chain(self.at(run.end()))
        });
        let gain = |range: BlockRange, span: &Span| {
            let beside = runs.beside(range).into_iter().flatten();
            span.dead() + beside.map(|run| run.len).filter(|len| *len < mean_len).sum()
        };
        let all = self.by_dead().take(LOOK_COUNT_MAX).chain(beside);
        let all = all.filter(|(_, span)| span.is_movable(free) && !span.held.is_zero());
        let all = all.filter(|(range, _)| !kept.contains(range));
        let gains = all.map(|(range, span)| (range, span.held, gain(range, span)));
        let best =
            gains.filter(|(_, held, gain)| held <= gain).max_by_key(|(range, held, gain)| {
                (gain.get().saturating_mul(GAIN_SCALE) / held.get(), Reverse(range.start))
            });
        best.map(|(range, ..)| range)
    }

    /// The span around `at`.
    fn at(&self, at: Lba) -> Option<(BlockRange, &Span)> {
        let (&start, span) = self.by_start.range(..=at).next_back()?;
        let range = BlockRange::new(start, span.len);
        range.contains(at).then_some((range, span))
    }

    fn by_dead(&self) -> impl Iterator<Item = (BlockRange, &Span)> + '_ {
        self.by_dead.iter().rev().map(|(_, Reverse(start))| {
            let span = &self.by_start[start];
            (BlockRange::new(*start, span.len), span)
        })
    }

    /// Forgets the span `range`, in which `living` are all held blocks, in order. They are no longer part
    /// of one. Returns the dead runs, which are the caller's.
    pub(crate) fn dissolve(&mut self, range: BlockRange, living: &[BlockRange]) -> Vec<BlockRange> {
        let span = self.by_start.remove(&range.start).expect("the caller looked the span up");
        self.by_dead.remove(&(span.dead(), Reverse(range.start)));
        self.len -= span.len;
        self.dead -= span.dead();
        let mut dead = Vec::new();
        let mut at = range.start;
        let end = BlockRange::new(range.end(), Blocks::ZERO);
        for run in living.iter().chain([&end]) {
            assert!(at <= run.start, "P1: the files of span {range} overlap");
            if at < run.start {
                dead.push(BlockRange::new(at, run.start - at));
            }
            at = run.end();
        }
        dead
    }

    /// Adds a span in which nothing is held yet.
    pub(crate) fn open(&mut self, range: BlockRange) {
        assert!(!range.len.is_zero(), "a span has blocks");
        let (len, held, named) = (range.len, Blocks::ZERO, Blocks::ZERO);
        let span = Span { len, held, named, cleaning: false, pinned: false };
        let before = self.by_start.insert(range.start, span);
        assert!(before.is_none(), "P1: two spans at {}", range.start);
        self.len += len;
        self.dead += len;
        self.by_dead.insert((len, Reverse(range.start)));
    }

    /// Holds `range` for a file, in the span around it.
    pub(crate) fn hold(&mut self, range: BlockRange, named: bool) {
        self.change(range, |span| {
            span.held += range.len;
            if named {
                span.named += range.len;
            }
            assert!(span.held <= span.len, "P1: the files of span {range} lie apart");
        });
    }

    /// Gives up `range`. Returns the whole span if that was its last hold (P2).
    pub(crate) fn give(&mut self, range: BlockRange, named: bool) -> Option<BlockRange> {
        let (whole, is_dead) = self.change(range, |span| {
            span.held -= range.len;
            if named {
                span.named -= range.len;
            }
            span.held.is_zero()
        });
        if !is_dead {
            return None;
        }
        self.by_start.remove(&whole.start);
        self.by_dead.remove(&(whole.len, Reverse(whole.start)));
        self.dead -= whole.len;
        self.len -= whole.len;
        Some(whole)
    }

    pub(crate) fn set_named(&mut self, range: BlockRange, named: bool) {
        self.change(range, |span| {
            if named {
                span.named += range.len;
            } else {
                span.named -= range.len;
            }
        });
    }

    pub(crate) fn set_cleaning(&mut self, victim: BlockRange, cleaning: bool) {
        if let Some(span) = self.by_start.get_mut(&victim.start) {
            span.cleaning = cleaning;
        }
    }

    pub(crate) fn set_pinned(&mut self, victim: BlockRange) {
        if let Some(span) = self.by_start.get_mut(&victim.start)
            && span.len == victim.len
        {
            span.pinned = true;
        }
    }

    /// Changes the span around `range`, and returns that span.
    fn change<T>(
        &mut self,
        range: BlockRange,
        edit: impl FnOnce(&mut Span) -> T,
    ) -> (BlockRange, T) {
        let found = self.by_start.range_mut(..=range.start).next_back();
        let (&start, span) = found.expect("the caller looked the span up");
        let whole = BlockRange::new(start, span.len);
        assert!(range.end() <= whole.end(), "P1: blocks {range} leave their span {whole}");
        let before = span.dead();
        let result = edit(span);
        let after = span.dead();
        if before != after {
            self.by_dead.remove(&(before, Reverse(start)));
            if !after.is_zero() {
                self.by_dead.insert((after, Reverse(start)));
            }
            self.dead += after;
            self.dead -= before;
        }
        (whole, result)
    }

    /// Returns the first violation of P1 and P2, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut end = Lba::new(0);
        for (&start, span) in &self.by_start {
            if start < end {
                return Err(format!("P1: the span at {start} begins inside the one before"));
            }
            end = start + span.len;
            if span.named > span.held || span.held > span.len {
                let Span { len, held, named, .. } = span;
                return Err(format!("P1: span {start}: {named} named of {held} held of {len}"));
            }
        }
        let dead: Blocks = self.by_start.values().map(Span::dead).sum();
        let listed: Blocks = self.by_dead.iter().map(|(dead, _)| *dead).sum();
        if (dead, listed) != (self.dead, self.dead) {
            return Err(format!("spans: {dead} dead, {listed} listed, not {}", self.dead));
        }
        Ok(())
    }
}
