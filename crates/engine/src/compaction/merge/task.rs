//! A merge in progress: entries in, tables out, a stretch at a time.
//!
//! ```text
//!   user key k:   #90 Put   #80 Put   #75 Del   #60 Put   #20 Put
//!   snapshots           85                 70         50
//!                 stripe 3  stripe 2  ~~2~~     stripe 1   stripe 0      one entry a stripe survives
//! ```
//!
//! Invariants
//!   J1  What a reader at any held snapshot or at the newest state sees does not change.
//!   J2  A delete disappears only where nothing below can be hidden by it: at the bottom, and older
//!       than every snapshot. Where outputs go to several levels, each stretch of keys has its own
//!       bottom; what older inputs have of the key is dropped by J3.
//!   J3  An entry is dropped if a newer one of its key and stripe came in, whichever output that one
//!       went to or whether it disappeared: it went no deeper (O1).
//!   J4  Of the range tombstones over a key the newest of each stripe is kept and no other: n nested ones
//!       would have n^2/2 numbers, as a queue writes them that cuts its own head off again and again.

use crate::EngineError;
use crate::compaction::merge::output::TableHome;
use crate::compaction::merge::output::{OutputSpec, Outputs};
use crate::compaction::merge::sinks::Sinks;
use crate::compaction::routes::{Route, Router};
use crate::iter::InternalIter;
use crate::key::{Kind, Seq, Trailer};
use crate::memtable::MemtableIter;
use crate::merge::MergingIter;
use crate::range_del::{FragmentedTombstones, RangeTombstone};

/// A cursor that knows which of the inputs its current entry is from.
pub(crate) trait SourcedIter: InternalIter {
    /// The input's index. Only while `valid`.
    fn source(&self) -> usize;
}

impl SourcedIter for MemtableIter {
    fn source(&self) -> usize {
        0
    }
}

impl<I: InternalIter> SourcedIter for MergingIter<I> {
    #[inline]
    fn source(&self) -> usize {
        self.current_source()
    }
}

/// What to merge, besides the entries.
#[derive(Debug)]
pub(crate) struct MergeSpec {
    /// The sequence numbers that somebody reads at, ascending.
    pub(crate) snapshots: Vec<Seq>,
    /// The range tombstones of the inputs, with the level of each.
    pub(crate) tombstones: Vec<(u8, RangeTombstone)>,
    /// `tombstones` of each is filled in here.
    pub(crate) outputs: Vec<OutputSpec>,
    /// Without, all goes to the first output.
    pub(crate) router: Option<Router>,
}

/// What may be dropped.
#[derive(Debug)]
struct Rules {
    snapshots: Vec<Seq>,
}

impl Rules {
    /// Readers cannot tell apart two entries of a key in one stripe, except that the newer wins.
    #[inline]
    fn stripe(&self, seq: Seq) -> usize {
        match self.snapshots.last() {
            None => 0,
            Some(&newest) if seq > newest => self.snapshots.len(),
            _ => self.snapshots.partition_point(|&snapshot| snapshot < seq),
        }
    }

    /// The newest sequence number of `stripe`.
    fn stripe_end(&self, stripe: usize) -> Seq {
        self.snapshots.get(stripe).copied().unwrap_or(Seq::MAX)
    }

    /// Gives each output those of `tombstones` that it must still say, cut where routes change.
    fn share_tombstones(
        &self,
        tombstones: &[(u8, RangeTombstone)],
        router: Option<&Router>,
        outputs: &mut [OutputSpec],
    ) {
        let mut kept: Vec<Vec<RangeTombstone>> = outputs.iter().map(|_| Vec::new()).collect();
        for (level, tombstone) in tombstones {
            let is_oldest = self.stripe(tombstone.seq) == 0;
            let Some(router) = router else {
                if !(is_oldest && outputs[0].is_bottom) {
                    kept[0].push(tombstone.clone());
                }
                continue;
            };
            let segments = router.routes().of_level(*level);
            let from = segments.partition_point(|s| s.start <= tombstone.start).max(1) - 1;
            for (index, segment) in segments.iter().enumerate().skip(from) {
                if segment.start >= tombstone.end {
                    break;
                }
                let until = segments.get(index + 1).map_or(&tombstone.end, |next| &next.start);
                let piece = RangeTombstone {
                    start: tombstone.start.clone().max(segment.start.clone()),
                    end: tombstone.end.clone().min(until.clone()),
                    seq: tombstone.seq,
                };
                if !(is_oldest && segment.route.is_bottom) {
                    kept[segment.route.output].push(piece);
                }
            }
        }
        for (output, kept) in outputs.iter_mut().zip(&kept) {
            output.tombstones = FragmentedTombstones::for_snapshots(kept, &self.snapshots);
        }
    }
}

/// A merge in progress.
pub(crate) struct MergeTask<I> {
    iter: I,
    rules: Rules,
    /// The range tombstones of the inputs, as far as stripes can tell them apart (J4): what they cover
    /// is dropped.
    cover: FragmentedTombstones,
    router: Option<Router>,
    /// The route of all entries where there is no router.
    route: Route,
    sinks: Sinks,
    user_key: Vec<u8>,
    /// The stripe of the newest entry of `user_key` that was met last.
    stripe: Option<usize>,
    is_started: bool,
    entry_count: u64,
    dropped_count: u64,
}

impl<I> std::fmt::Debug for MergeTask<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergeTask")
            .field("entry_count", &self.entry_count)
            .field("dropped_count", &self.dropped_count)
            .finish_non_exhaustive()
    }
}

impl<I: SourcedIter> MergeTask<I> {
    /// A merge of `iter`, whose sources are the inputs in their order.
    pub(crate) fn new(iter: I, spec: MergeSpec) -> MergeTask<I> {
        let MergeSpec { snapshots, tombstones, mut outputs, router } = spec;
        let rules = Rules { snapshots };
        rules.share_tombstones(&tombstones, router.as_ref(), &mut outputs);
        let all: Vec<_> = tombstones.into_iter().map(|(_, tombstone)| tombstone).collect();
        let route = Route { output: 0, is_bottom: outputs[0].is_bottom, short_to: None };
        MergeTask {
            iter,
            cover: FragmentedTombstones::for_snapshots(&all, &rules.snapshots),
            rules,
            router,
            route,
            sinks: Sinks::new(outputs, all.is_empty()),
            user_key: Vec::new(),
            stripe: None,
            is_started: false,
            entry_count: 0,
            dropped_count: 0,
        }
    }

    /// Merges about `len_bytes` of entries; true when there are no more.
    pub(crate) fn step(
        &mut self,
        home: &dyn TableHome,
        len_bytes: u64,
    ) -> Result<bool, EngineError> {
        if !self.is_started {
            self.iter.seek_to_first()?;
            self.is_started = true;
        }
        let mut done_bytes = 0;
        while self.iter.valid() {
            if done_bytes >= len_bytes {
                return Ok(false);
            }
            done_bytes += self.merge_one(home)?;
            self.iter.next()?;
        }
        Ok(true)
    }

    /// What is merged.
    pub(crate) fn iter(&self) -> &I {
        &self.iter
    }

    /// Keeps or drops the current entry; returns its length, and what reading it cost besides.
    #[inline]
    fn merge_one(&mut self, home: &dyn TableHome) -> Result<u64, EngineError> {
        let key = self.iter.key();
        let route = match &mut self.router {
            None => self.route,
            Some(router) => router.route(self.iter.source(), key.user_key),
        };
        let len_bytes = (key.user_key.len() + self.iter.value_len()) as u64;
        self.entry_count += 1;
        if self.entry_count == 1 || key.user_key != &self.user_key[..] {
            self.user_key.clear();
            self.user_key.extend_from_slice(key.user_key);
            self.stripe = None;
            self.sinks.begin_key(home, key.user_key)?;
        }
        let seq = key.trailer.seq();
        let stripe = self.rules.stripe(seq);
        let is_shadowed = self.stripe == Some(stripe);
        self.stripe = Some(stripe);
        if is_shadowed || self.is_covered(key.user_key, seq, stripe) {
            self.dropped_count += 1;
            return Ok(len_bytes);
        }
        let is_oldest = route.is_bottom && stripe == 0;
        // Bottoms that differ from key to key do not drop whole tombstones: an entry keeps its age
        // so that one that is older than it does not hide it.
        let may_lose_age = self.router.is_none() || self.cover.is_empty();
        let trailer = match (is_oldest, key.trailer.kind()) {
            (true, Some(Kind::Delete)) => {
                self.dropped_count += 1;
                return Ok(len_bytes);
            }
            // Nobody reads before it and nothing is below it: its age no longer matters.
            (true, Some(Kind::Put)) if may_lose_age => Trailer::new(Seq(0), Kind::Put),
            _ => key.trailer,
        };
        let cost_bytes = self.iter.load_value()?;
        let key = self.iter.key();
        self.sinks.add(home, route, (key.user_key, trailer), self.iter.value())?;
        Ok(len_bytes + cost_bytes)
    }

    #[inline]
    fn is_covered(&self, user_key: &[u8], seq: Seq, stripe: usize) -> bool {
        !self.cover.is_empty()
            && self.cover.max_seq_covering(user_key, self.rules.stripe_end(stripe)) > Some(seq)
    }

    /// How many entries came in, and how many of them were dropped.
    pub(crate) fn entry_counts(&self) -> (u64, u64) {
        (self.entry_count, self.dropped_count)
    }

    /// Ends the last table.
    pub(crate) fn finish(self, home: &dyn TableHome) -> Result<Outputs, EngineError> {
        self.sinks.finish(home)
    }
}

#[cfg(test)]
mod tests;
