//! Merging: several cursors combined into one, in internal-key order, in both directions.
//!
//! ```text
//!   sources   [0] .. k3        heap of the valid ones, each with its key's first 8 bytes
//!             [1] .. k1  <-    top: the current entry
//!             [2] .. k2        runner-up: compared with the top after a step
//! ```
//!
//! A step moves the top source and compares it with the runner-up. While one source stays ahead of
//! all others, as in most compactions of sorted levels, a step costs one comparison of two numbers.
//! With a single source it costs none.
//!
//! A seek moves every source. Those that have to read files first read them together
//! (`first_reads`). A source whose next entry is in a table that begins further on stays at that bound and
//! reads nothing, until the bound is at the top.
//!
//! Invariants
//!   G1  Going forward, every source stands on its first entry at or after the current entry; going
//!       backward, on its last entry at or before it. The source of the current entry stands on
//!       that entry.
//!   G2  The heap holds each valid source once; its top is the current entry.
//!   G3  The top is never at a bound. A source at a bound counts as standing on it.
//!   G4  Entries with equal keys (which K1 forbids in a sound store) come in the order of their
//!       sources.
//!
//! Not here: what a reader may see (`read`), what a compaction may drop (`compaction`).

use crate::EngineError;
use crate::first_reads::{BATCH_COUNT_MAX, FirstRead, SeekTo, read_all};
use crate::iter::InternalIter;
use crate::key::{ApartEntry, InternalKey};
use std::cmp::Ordering;

impl<I: InternalIter + ?Sized> InternalIter for Box<I> {
    fn seek_to_first(&mut self) -> Result<(), EngineError> {
        (**self).seek_to_first()
    }
    fn seek_to_last(&mut self) -> Result<(), EngineError> {
        (**self).seek_to_last()
    }
    fn seek(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        (**self).seek(target)
    }
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        (**self).seek_before(target)
    }
    fn begin(&mut self, to: SeekTo<'_>) -> Result<Option<FirstRead>, EngineError> {
        (**self).begin(to)
    }
    fn accept(&mut self, offset: u64, bytes: &[u8]) {
        (**self).accept(offset, bytes);
    }
    fn is_at_bound(&self) -> bool {
        (**self).is_at_bound()
    }
    fn leave_bound(&mut self) -> Result<(), EngineError> {
        (**self).leave_bound()
    }
    fn next(&mut self) -> Result<(), EngineError> {
        (**self).next()
    }
    fn prev(&mut self) -> Result<(), EngineError> {
        (**self).prev()
    }
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn key(&self) -> InternalKey<'_> {
        (**self).key()
    }
    fn load_value(&mut self) -> Result<u64, EngineError> {
        (**self).load_value()
    }
    fn value(&self) -> &[u8] {
        (**self).value()
    }
    fn value_len(&self) -> usize {
        (**self).value_len()
    }
    fn apart(&self) -> Option<ApartEntry> {
        (**self).apart()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A source that stands on an entry.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// The first 8 bytes of the entry's user key, as a number with the same order.
    prefix: u64,
    source: u32,
}

/// The union of its sources, as a cursor.
pub(crate) struct MergingIter<I> {
    sources: Vec<I>,
    /// A binary heap: the parent of `i` is `(i - 1) / 2`.
    heap: Vec<Head>,
    /// The smaller child of the top, if the heap has more than one entry.
    runner_up: usize,
    direction: Direction,
    /// The number of sources at a bound.
    bound_count: usize,
    /// Holds the current key while the direction changes.
    scratch: Vec<u8>,
    /// The source that failed last.
    failed: Option<usize>,
}

impl<I> std::fmt::Debug for MergingIter<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergingIter")
            .field("source_count", &self.sources.len())
            .field("heap", &self.heap)
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}

impl<I: InternalIter> MergingIter<I> {
    /// Merges `sources`. If they have equal keys, the earlier source comes first.
    pub(crate) fn new(sources: Vec<I>) -> MergingIter<I> {
        let heap = Vec::with_capacity(sources.len());
        let direction = Direction::Forward;
        let scratch = Vec::new();
        MergingIter {
            sources,
            heap,
            runner_up: 1,
            direction,
            bound_count: 0,
            scratch,
            failed: None,
        }
    }

    /// The index of the source of the current entry. Only while valid.
    #[inline]
    pub(crate) fn current_source(&self) -> usize {
        self.heap[0].source as usize
    }

    /// The source that failed last, if any.
    pub(crate) fn failed_source(&self) -> Option<&I> {
        self.failed.map(|source| &self.sources[source])
    }

    /// Moves every source to `to`, then finds out which one comes first.
    fn start(&mut self, direction: Direction, to: SeekTo<'_>) -> Result<(), EngineError> {
        self.heap.clear();
        self.direction = direction;
        let mut waiting = Vec::new();
        for (index, source) in self.sources.iter_mut().enumerate() {
            let read = source.begin(to).inspect_err(|_| self.failed = Some(index))?;
            waiting.extend(read.map(|read| (index, read)));
        }
        if !waiting.is_empty() {
            self.move_waiting(waiting, to)?;
        }
        self.build_heap()
    }

    /// Moves the sources that wait for a read.
    fn move_waiting(
        &mut self,
        mut waiting: Vec<(usize, FirstRead)>,
        to: SeekTo<'_>,
    ) -> Result<(), EngineError> {
        for _ in 0..BATCH_COUNT_MAX {
            let Some(bytes) = read_all(&waiting) else { break };
            for ((index, read), bytes) in std::mem::take(&mut waiting).into_iter().zip(bytes) {
                let source = &mut self.sources[index];
                source.accept(read.range.start, &bytes);
                let read = source.begin(to).inspect_err(|_| self.failed = Some(index))?;
                waiting.extend(read.map(|read| (index, read)));
            }
        }
        waiting.into_iter().try_for_each(|(index, _)| {
            self.sources[index].go_to(to).inspect_err(|_| self.failed = Some(index))
        })
    }

    fn build_heap(&mut self) -> Result<(), EngineError> {
        self.heap.clear();
        self.bound_count = 0;
        for (index, source) in self.sources.iter().enumerate() {
            if source.valid() {
                let prefix = prefix_of(source.key().user_key);
                self.heap.push(Head { prefix, source: index as u32 });
                self.bound_count += usize::from(source.is_at_bound());
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
        self.find_runner_up();
        self.leave_bounds()
    }

    /// Moves the top to an entry, while it is at a bound (G3).
    #[inline]
    fn leave_bounds(&mut self) -> Result<(), EngineError> {
        if self.bound_count == 0 { Ok(()) } else { self.leave_top_bounds() }
    }

    #[inline(never)]
    fn leave_top_bounds(&mut self) -> Result<(), EngineError> {
        while let Some(&top) = self.heap.first()
            && self.sources[top.source as usize].is_at_bound()
        {
            let index = top.source as usize;
            let source = &mut self.sources[index];
            if let Err(error) = source.leave_bound() {
                self.failed = Some(index);
                self.heap.clear();
                return Err(error);
            }
            self.bound_count -= 1;
            if source.valid() {
                self.heap[0].prefix = prefix_of(source.key().user_key);
            } else {
                self.heap.swap_remove(0);
            }
            self.sift_down(0);
            self.find_runner_up();
        }
        Ok(())
    }

    #[inline]
    fn find_runner_up(&mut self) {
        let has_two = self.heap.len() > 2;
        self.runner_up = if has_two && self.is_before(self.heap[2], self.heap[1]) { 2 } else { 1 };
    }

    /// Whether `a` comes before `b` in the direction of travel.
    #[inline]
    fn is_before(&self, a: Head, b: Head) -> bool {
        if a.prefix != b.prefix {
            return (a.prefix < b.prefix) == (self.direction == Direction::Forward);
        }
        self.is_before_by_key(a, b)
    }

    #[inline(never)]
    fn is_before_by_key(&self, a: Head, b: Head) -> bool {
        let (key_a, key_b) =
            (self.sources[a.source as usize].key(), self.sources[b.source as usize].key());
        let order = key_a.cmp(&key_b).then(a.source.cmp(&b.source));
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                return;
            }
            if child + 1 < self.heap.len() && self.is_before(self.heap[child + 1], self.heap[child])
            {
                child += 1;
            }
            if !self.is_before(self.heap[child], self.heap[at]) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }

    /// Steps the current source in the direction of travel and restores the heap (G2).
    #[inline]
    fn step(&mut self) -> Result<(), EngineError> {
        let index = self.heap[0].source as usize;
        let source = &mut self.sources[index];
        let moved = match self.direction {
            Direction::Forward => source.next(),
            Direction::Backward => source.prev(),
        };
        if let Err(error) = moved {
            self.failed = Some(index);
            self.heap.clear();
            return Err(error);
        }
        if !source.valid() {
            self.heap.swap_remove(0);
        } else if self.heap.len() > 1 {
            self.heap[0].prefix = prefix_of(source.key().user_key);
            if self.is_before(self.heap[0], self.heap[self.runner_up]) {
                return Ok(());
            }
        } else {
            return Ok(());
        }
        self.sift_down(0);
        self.find_runner_up();
        self.leave_bounds()
    }

    /// Reverses the direction at the current entry: moves every other source to the other side of
    /// it (G1).
    #[cold]
    fn turn(&mut self, direction: Direction) -> Result<(), EngineError> {
        let Some(&current) = self.heap.first() else { return Ok(()) };
        let key = self.sources[current.source as usize].key();
        let trailer = key.trailer;
        self.scratch.clear();
        self.scratch.extend_from_slice(key.user_key);
        self.heap.clear();
        self.direction = direction;
        for (index, source) in self.sources.iter_mut().enumerate() {
            if index == current.source as usize {
                continue;
            }
            let key = InternalKey::new(&self.scratch, trailer);
            let sought = match direction {
                Direction::Forward => source.seek(key),
                Direction::Backward => source.seek_before(key),
            };
            sought.inspect_err(|_| self.failed = Some(index))?;
        }
        self.build_heap()
    }
}

impl<I: InternalIter> InternalIter for MergingIter<I> {
    fn seek_to_first(&mut self) -> Result<(), EngineError> {
        self.start(Direction::Forward, SeekTo::First)
    }

    fn seek_to_last(&mut self) -> Result<(), EngineError> {
        self.start(Direction::Backward, SeekTo::Last)
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.start(Direction::Forward, SeekTo::AtOrAfter(target))
    }

    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.start(Direction::Backward, SeekTo::Before(target))
    }

    #[inline]
    fn next(&mut self) -> Result<(), EngineError> {
        if self.direction == Direction::Backward {
            self.turn(Direction::Forward)?;
        }
        self.step()
    }

    #[inline]
    fn prev(&mut self) -> Result<(), EngineError> {
        if self.direction == Direction::Forward {
            self.turn(Direction::Backward)?;
        }
        self.step()
    }

    #[inline]
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    #[inline]
    fn key(&self) -> InternalKey<'_> {
        self.sources[self.heap[0].source as usize].key()
    }

    #[inline]
    fn load_value(&mut self) -> Result<u64, EngineError> {
        let index = self.heap[0].source as usize;
        self.sources[index].load_value().inspect_err(|_| self.failed = Some(index))
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.sources[self.heap[0].source as usize].value()
    }

    #[inline]
    fn value_len(&self) -> usize {
        self.sources[self.heap[0].source as usize].value_len()
    }

    fn apart(&self) -> Option<ApartEntry> {
        self.sources[self.heap[0].source as usize].apart()
    }
}

#[inline]
fn prefix_of(user_key: &[u8]) -> u64 {
    if let Some(chunk) = user_key.first_chunk() {
        return u64::from_be_bytes(*chunk);
    }
    let mut padded = [0; 8];
    padded[..user_key.len()].copy_from_slice(user_key);
    u64::from_be_bytes(padded)
}

#[cfg(test)]
pub(crate) mod tests;
