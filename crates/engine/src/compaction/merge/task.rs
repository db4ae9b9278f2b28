//! A merge in progress: reads sorted entries, writes tables, and does so in bounded steps.
//!
//! ```text
//!   user key k:   #90 Put   #80 Put   #75 Del   #60 Put   #20 Put
//!   snapshots           85                 70         50
//!                 stripe 3  stripe 2  ~~2~~     stripe 1   stripe 0      one entry a stripe survives
//! ```
//!
//! Invariants
//!   J1  A reader at a held snapshot, or at the newest state, sees the same before and after the
//!       merge.
//!   J2  A delete disappears only if it is older than every snapshot and nothing below remains for
//!       it to hide. With several output levels, each stretch of keys has its own bottom. Older
//!       inputs cannot reappear: J3 drops their entries of the key.
//!   J3  An entry is dropped if the merge has seen a newer one of its key and stripe. It does not
//!       matter which output took the newer one, or whether that one disappeared: it went no deeper
//!       (O1).
//!   J4  Of the range tombstones that cover a key, the merge keeps the newest of each stripe and
//!       drops the others. Otherwise n nested tombstones would keep n^2/2 sequence numbers; a queue
//!       that repeatedly deletes its own head writes such tombstones.

use crate::EngineError;
use crate::compaction::merge::output::TableHome;
use crate::compaction::merge::output::{OutputSpec, Outputs};
use crate::compaction::merge::sinks::Sinks;
use crate::compaction::merge::value_moves::ValueMoves;
use crate::compaction::routes::{Route, Router};
use crate::iter::InternalIter;
use crate::key::{Kind, Seq, Trailer};
use crate::memtable::MemtableIter;
use crate::merge::MergingIter;
use crate::range_del::{FragmentedTombstones, RangeTombstone};
use bytes::Bytes;

/// A cursor that knows which input its current entry comes from.
pub(crate) trait SourcedIter: InternalIter {
    /// The index of that input. Valid only while the cursor is `valid`.
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

/// What a merge needs besides its entries.
#[derive(Debug)]
pub(crate) struct MergeSpec {
    /// The sequence numbers of the held snapshots, ascending.
    pub(crate) snapshots: Vec<Seq>,
    /// The range tombstones of the inputs, each with its level.
    pub(crate) tombstones: Vec<(u8, RangeTombstone)>,
    /// The outputs. The merge fills in the `tombstones` of each.
    pub(crate) outputs: Vec<OutputSpec>,
    /// Without a router, all entries go to the first output.
    pub(crate) router: Option<Router>,
    /// The first key that is not merged. Without it, the merge ends with its inputs.
    pub(crate) until: Option<Bytes>,
    /// Values from this length on stay in the files of tables that began as logs; 0 if none do.
    pub(crate) apart_len_bytes: usize,
}

/// The rules by which entries may be dropped.
#[derive(Debug)]
struct Rules {
    snapshots: Vec<Seq>,
}

impl Rules {
    /// The stripe of `seq`. Within a stripe, readers can see only the newest entry of a key.
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

    /// Gives each output the `tombstones` that it must keep, cut where routes change.
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
    /// The range tombstones of the inputs, reduced to the newest of each stripe (J4). The merge
    /// drops the entries that they cover.
    cover: FragmentedTombstones,
    router: Option<Router>,
    /// The route of all entries if there is no router.
    route: Route,
    sinks: Sinks,
    until: Option<Bytes>,
    user_key: Vec<u8>,
    /// The stripe of the last entry seen of `user_key`; `None` before the first.
    stripe: Option<usize>,
    is_started: bool,
    entry_count: u64,
    dropped_count: u64,
    apart_len_bytes: usize,
    values: ValueMoves,
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
    /// Starts a merge of `iter`, whose sources are the inputs in their order.
    pub(crate) fn new(iter: I, spec: MergeSpec) -> MergeTask<I> {
        let MergeSpec { snapshots, tombstones, mut outputs, router, until, apart_len_bytes } = spec;
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
            until,
            user_key: Vec::new(),
            stripe: None,
            is_started: false,
            entry_count: 0,
            dropped_count: 0,
            apart_len_bytes,
            values: ValueMoves::default(),
        }
    }

    /// Merges about `len_bytes` of entries. Returns true if none are left.
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
        while self.iter.valid() && !self.is_over() {
            if done_bytes >= len_bytes {
                return Ok(false);
            }
            done_bytes += self.merge_one(home)?;
            self.iter.next()?;
        }
        Ok(true)
    }

    /// Whether the next entry is not merged any more.
    #[inline]
    fn is_over(&self) -> bool {
        self.until.as_ref().is_some_and(|until| self.iter.key().user_key >= until)
    }

    /// The cursor over the inputs.
    pub(crate) fn iter(&self) -> &I {
        &self.iter
    }

    /// Keeps or drops the current entry. Returns its length plus the bytes that loading its value
    /// cost.
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
            if key.trailer.kind() == Some(Kind::PutApart) {
                self.values.release(self.iter.value());
            }
            return Ok(len_bytes);
        }
        let is_oldest = route.is_bottom && stripe == 0;
        // With routes, the bottom differs from segment to segment, so a range tombstone older than
        // this entry may survive over its key. The entry keeps its sequence number, or that
        // tombstone would hide it.
        let may_lose_age = self.router.is_none() || self.cover.is_empty();
        let trailer = match (is_oldest, key.trailer.kind()) {
            (true, Some(Kind::Delete)) => {
                self.dropped_count += 1;
                return Ok(len_bytes);
            }
            // No snapshot is older and nothing is below, so the sequence number no longer
            // matters.
            (true, Some(kind @ (Kind::Put | Kind::PutApart))) if may_lose_age => {
                Trailer::new(Seq(0), kind)
            }
            _ => key.trailer,
        };
        if trailer.kind() == Some(Kind::Put)
            && let Some(entry) = self.values.place(&self.iter, self.apart_len_bytes)
        {
            let trailer = Trailer::new(trailer.seq(), Kind::PutApart);
            let user_key = &self.user_key;
            self.sinks.add(home, route, (user_key, trailer), &entry)?;
            return Ok((self.user_key.len() + entry.len()) as u64);
        }
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

    /// The number of entries read, and how many of them were dropped.
    pub(crate) fn entry_counts(&self) -> (u64, u64) {
        (self.entry_count, self.dropped_count)
    }

    /// Ends the last table of each output.
    pub(crate) fn finish(self, home: &dyn TableHome) -> Result<Outputs, EngineError> {
        let mut outputs = self.sinks.finish(home)?;
        outputs.values = self.values;
        Ok(outputs)
    }
}

#[cfg(test)]
mod tests;
