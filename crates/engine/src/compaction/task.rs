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
//!       than every snapshot.

use super::output::{OutputSpec, OutputWriter, Outputs};
use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::{Kind, Seq, Trailer};
use crate::range_del::{FragmentedTombstones, RangeTombstone};
use crate::store::Store;

/// What may be dropped.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The sequence numbers that somebody reads at, ascending.
    pub(crate) snapshots: Vec<Seq>,
    /// Nothing below the outputs overlaps them (J2).
    pub(crate) is_bottom: bool,
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

    /// Of `tombstones`, what the outputs must still say.
    pub(crate) fn kept_tombstones(&self, tombstones: &[RangeTombstone]) -> FragmentedTombstones {
        let still_hide = |t: &&RangeTombstone| !(self.is_bottom && self.stripe(t.seq) == 0);
        let kept: Vec<_> = tombstones.iter().filter(still_hide).cloned().collect();
        FragmentedTombstones::for_snapshots(&kept, &self.snapshots)
    }
}

/// A merge in progress.
pub(crate) struct MergeTask<I> {
    iter: I,
    rules: Rules,
    /// All range tombstones of the inputs: what they cover is dropped.
    cover: FragmentedTombstones,
    output: OutputWriter,
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

impl<I: InternalIter> MergeTask<I> {
    /// A merge of `iter` and `tombstones`; `spec.tombstones` is filled in here.
    pub(crate) fn new(
        iter: I,
        tombstones: &[RangeTombstone],
        rules: Rules,
        mut spec: OutputSpec,
    ) -> MergeTask<I> {
        spec.tombstones = rules.kept_tombstones(tombstones);
        MergeTask {
            iter,
            cover: FragmentedTombstones::new(tombstones),
            rules,
            output: OutputWriter::new(spec),
            user_key: Vec::new(),
            stripe: None,
            is_started: false,
            entry_count: 0,
            dropped_count: 0,
        }
    }

    /// Merges about `len_bytes` of entries; true when there are no more.
    pub(crate) fn step(&mut self, store: &Store, len_bytes: u64) -> Result<bool, EngineError> {
        if !self.is_started {
            self.iter.seek_to_first()?;
            self.is_started = true;
        }
        let mut done_bytes = 0;
        while self.iter.valid() {
            if done_bytes >= len_bytes {
                return Ok(false);
            }
            done_bytes += self.merge_one(store)?;
            self.iter.next()?;
        }
        Ok(true)
    }

    /// Keeps or drops the current entry; returns its length.
    #[inline]
    fn merge_one(&mut self, store: &Store) -> Result<u64, EngineError> {
        let key = self.iter.key();
        let len_bytes = (key.user_key.len() + self.iter.value().len()) as u64;
        self.entry_count += 1;
        if self.entry_count == 1 || key.user_key != &self.user_key[..] {
            self.user_key.clear();
            self.user_key.extend_from_slice(key.user_key);
            self.stripe = None;
            self.output.begin_key(store, key.user_key)?;
        }
        let seq = key.trailer.seq();
        let stripe = self.rules.stripe(seq);
        let is_shadowed = self.stripe == Some(stripe);
        self.stripe = Some(stripe);
        if is_shadowed || self.is_covered(key.user_key, seq, stripe) {
            self.dropped_count += 1;
            return Ok(len_bytes);
        }
        let is_oldest = self.rules.is_bottom && stripe == 0;
        let trailer = match (is_oldest, key.trailer.kind()) {
            (true, Some(Kind::Delete)) => {
                self.dropped_count += 1;
                return Ok(len_bytes);
            }
            // Nobody reads before it and nothing is below it: its age no longer matters.
            (true, Some(Kind::Put)) => Trailer::new(Seq(0), Kind::Put),
            _ => key.trailer,
        };
        self.output.add(store, key.user_key, trailer, self.iter.value());
        Ok(len_bytes)
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
    pub(crate) fn finish(self, store: &Store) -> Result<Outputs, EngineError> {
        self.output.finish(store)
    }
}
