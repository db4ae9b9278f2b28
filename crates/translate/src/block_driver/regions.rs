//! The ranges in the write buffer: which one to evict next, and which ones cover a range.
//!
//! ```text
//!     LargestRegion                       LeastRecentlyWritten
//!     held    ....rrrrrrrr......rrr..     ....1114444.......233..
//!     write          wwww                        wwww
//!     held    ....rrrrrrrrrrr...rrr..     ....1115555.......233..   the victim is 1
//!                 ^ the victim                           (and nothing is left of 4)
//! ```
//!
//! [`EvictionOrder::LargestRegion`] is the paper's LBA-size tree: ranges that overlap or touch form
//! one region, and the victim is the longest region. Here it is two B-trees, by start and by
//! length, instead of one red-black tree with sizes in it: the longest is then found without a
//! walk.
//!
//! [`EvictionOrder::LongestAndOldest`] corrects the faults of that order in a buffer that could
//! hold what is used again. `LargestRegion` evicts a file that was just written in one piece; of a
//! region that keeps growing it evicts the newest end with the rest; and a short region never
//! leaves. Here a region ends at each 4 MiB of the address space, which is long enough for a write
//! and for a node of the map. The victim is the region with the lowest *rank*: the clock at its
//! last write, plus a gain of one over its length. The clock moves towards each victim's rank, by a
//! sixteenth of the difference. So length decides between regions of the same age, age decides
//! between full parts, and a short region leaves late, but it leaves.
//!
//! [`EvictionOrder::LeastRecentlyWritten`] is the baseline that results are compared with, defined
//! as follows. The data of each write is an entry, however close its neighbours are; the entry
//! written last is the newest. Overwritten blocks leave the older entries, and the rest keeps its
//! age; an entry cut in two becomes two entries of the same age. The victim is the oldest entry,
//! and of two equally old ones the one with the lower address. Reads do not make an entry newer.
//! Neighbouring entries that are evicted one after another are stored next to each other on the
//! drive, and the mapping merges them. So the baseline does not suffer from requests that a
//! sequential writer split.
//!
//! Invariants
//!   E1  Entries do not overlap. With `LargestRegion` they do not touch either; with
//!       `LongestAndOldest` they touch only where a part ends, and none crosses that end.
//!   E2  Each entry is in the order of eviction once, and nothing else is.
//!   E3  The total is the sum of the entries.
//!   E4  With `LongestAndOldest` no rank is below the clock: the clock never passes the rank that
//!       it moves towards.
//!
//! Cost: O(log n) for a write, and for each entry that it merges or cuts.
//! Source: section II-A of the paper; sizes of its figure 2 are in the tests. The clock is that of
//! GreedyDual-Size with equal costs (Cao and Irani, 1997), slowed down. The slowing and the parts
//! are ours.
//! Not here: the content of blocks (`buffer`), the capacity, and when to evict.

use imbrex_disk::{BlockRange, Blocks, Lba};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The greatest length of a region of [`EvictionOrder::LongestAndOldest`], and where it ends: 4
/// MiB. Decision 35 has measurements of other lengths and clocks.
pub(super) const PART_LEN: u64 = 1024;
/// The gain of a region of one block.
const GAIN: u64 = 1 << 32;
/// The clock moves this fraction of the way towards a victim's rank. 1 would be GreedyDual-Size,
/// with which short regions leave a small buffer too soon.
const CLOCK_SHARE: u64 = 16;
/// The clock is set back here. From 0 that takes at least 2^34 victims of one block.
const CLOCK_MAX: u64 = 1 << 62;

/// The order in which regions leave the write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvictionOrder {
    /// The longest region; of equally long ones, the one with the lowest address.
    LargestRegion,
    /// Of parts of at most 4 MiB, the longest, unless it was written much later than another.
    LongestAndOldest,
    /// The data written longest ago, request by request: the baseline.
    LeastRecentlyWritten,
}

/// The ranges in the write buffer; the module defines an entry.
#[derive(Clone, Debug)]
pub struct Regions {
    order: EvictionOrder,
    entries: BTreeMap<u64, Entry>,
    /// `(rank, start)`: the lowest is evicted first.
    by_rank: BTreeSet<(u64, u64)>,
    total: u64,
    /// Counts writes with `LeastRecentlyWritten`; for `LongestAndOldest` see the module.
    clock: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    len: u64,
    rank: u64,
}

impl Regions {
    /// No ranges yet.
    pub fn new(order: EvictionOrder) -> Regions {
        Regions { order, entries: BTreeMap::new(), by_rank: BTreeSet::new(), total: 0, clock: 0 }
    }

    /// The order of eviction.
    pub fn order(&self) -> EvictionOrder {
        self.order
    }

    /// How many blocks all entries have together.
    pub fn total(&self) -> Blocks {
        Blocks::new(self.total)
    }

    /// How many entries.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// About how much memory this takes: the items of both trees at the fill of random inserts.
    pub fn memory_bytes(&self) -> u64 {
        const ENTRY_BYTES: u64 = (size_of::<(u64, Entry)>() + size_of::<(u64, u64)>()) as u64;
        // A node of the standard B-tree is 69 % full on average.
        self.entries.len() as u64 * ENTRY_BYTES * 100 / 69
    }

    /// Adds the range of a write; returns how many of its blocks are new.
    pub fn insert(&mut self, written: BlockRange) -> Blocks {
        if written.len.is_zero() {
            return Blocks::ZERO;
        }
        let before = self.total;
        let (start, end) = (written.start.get(), written.end().get());
        match self.order {
            EvictionOrder::LargestRegion => self.join(start..end, 0..u64::MAX),
            EvictionOrder::LongestAndOldest => {
                // A tick: of two full parts that were written between two evictions, the older one
                // leaves first.
                if self.by_rank.first().is_none_or(|&(rank, _)| self.clock < rank) {
                    self.clock += 1;
                }
                let parts = start / PART_LEN..end.div_ceil(PART_LEN);
                for part in parts.map(|part| part * PART_LEN..(part + 1) * PART_LEN) {
                    self.join(start.max(part.start)..end.min(part.end), part);
                }
            }
            EvictionOrder::LeastRecentlyWritten => {
                self.remove(written);
                self.put(start, end, self.clock);
                self.clock += 1;
            }
        }
        // Blocks that `LeastRecentlyWritten` removed above are back: the difference is the new
        // ones.
        Blocks::new(self.total - before)
    }

    /// Adds `written` as one entry, together with every entry inside `within` that it overlaps or
    /// touches.
    fn join(&mut self, written: Range<u64>, within: Range<u64>) {
        let Range { mut start, mut end } = written;
        if let Some((&left, entry)) = self.entries.range(within.start..start).next_back()
            && start <= left + entry.len
        {
            start = left;
        }
        while let Some((&next, entry)) = self.entries.range(start..within.end.min(end + 1)).next() {
            end = end.max(next + entry.len);
            self.take(next);
        }
        self.put(start, end, self.clock);
    }

    /// Drops a range that was evicted or trimmed; returns how many of its blocks were held.
    pub fn remove(&mut self, range: BlockRange) -> Blocks {
        if range.len.is_zero() {
            return Blocks::ZERO;
        }
        let before = self.total;
        let (start, end) = (range.start.get(), range.end().get());
        if let Some((&left, &entry)) = self.entries.range(..start).next_back()
            && start < left + entry.len
        {
            self.take(left);
            self.put(left, start, self.age_of(entry));
            self.put(end, left + entry.len, self.age_of(entry));
        }
        while let Some((&next, &entry)) = self.entries.range(start..end).next() {
            self.take(next);
            self.put(end, next + entry.len, self.age_of(entry));
        }
        Blocks::new(before - self.total)
    }

    /// The next range to evict. With [`EvictionOrder::LongestAndOldest`] the clock moves.
    pub fn victim(&mut self) -> Option<BlockRange> {
        let &(rank, _) = self.by_rank.first()?;
        if self.order == EvictionOrder::LongestAndOldest {
            self.clock += (rank - self.clock) / CLOCK_SHARE;
            if CLOCK_MAX <= self.clock {
                self.set_clock_back();
            }
        }
        self.victims().next()
    }

    /// All entries in the order of their eviction, if no write comes in between.
    pub fn victims(&self) -> impl Iterator<Item = BlockRange> + '_ {
        self.by_rank.iter().map(|&(_, start)| run(start, start + self.entries[&start].len))
    }

    /// All entries by address.
    pub fn iter(&self) -> impl Iterator<Item = BlockRange> + '_ {
        self.entries.iter().map(|(&start, entry)| run(start, start + entry.len))
    }

    /// The entries that share a block with `range`, whole and by address.
    pub fn touching(&self, range: BlockRange) -> impl Iterator<Item = BlockRange> + '_ {
        let (start, end) = (range.start.get(), range.end().get());
        let left = self.entries.range(..start).next_back();
        let left = left.filter(|&(&left, entry)| start < left + entry.len && start < end);
        let inside = self.entries.range(start..end.max(start));
        left.into_iter().chain(inside).map(|(&start, entry)| run(start, start + entry.len))
    }

    /// The parts of `range` that are held, by address. Neighbours are not merged.
    pub fn within(&self, range: BlockRange) -> impl Iterator<Item = BlockRange> + '_ {
        self.touching(range).map(move |entry| {
            let (start, end) = (entry.start.max(range.start), entry.end().min(range.end()));
            BlockRange::new(start, end - start)
        })
    }

    /// The parts of `range` that are not held, by address.
    pub(super) fn gaps(&self, range: BlockRange) -> Vec<BlockRange> {
        let held: Vec<BlockRange> = self.within(range).collect();
        let ends = held.iter().map(|run| run.start).chain([range.end()]);
        let starts = [range.start].into_iter().chain(held.iter().map(|run| run.end()));
        let gaps = starts.zip(ends).filter(|(start, end)| start < end);
        gaps.map(|(start, end)| BlockRange::new(start, end - start)).collect()
    }

    /// The fewest entries that hold all held blocks of `ranges`, each once and by address: evicting
    /// them frees a journal zone with the copies of `ranges`.
    pub fn covering(&self, ranges: impl IntoIterator<Item = BlockRange>) -> Vec<BlockRange> {
        let starts: BTreeSet<Lba> = ranges
            .into_iter()
            .flat_map(|range| self.touching(range))
            .map(|entry| entry.start)
            .collect();
        let whole = |start: Lba| run(start.get(), start.get() + self.entries[&start.get()].len);
        starts.into_iter().map(whole).collect()
    }

    /// Checks E1 to E4.
    ///
    /// # Errors
    /// The first violation, in words.
    pub fn check(&self) -> Result<(), String> {
        let mut previous_end: Option<Lba> = None;
        for entry in self.iter() {
            let is_apart = match (previous_end, self.order) {
                (None, _) => true,
                (Some(end), EvictionOrder::LargestRegion) => end < entry.start,
                (Some(end), EvictionOrder::LongestAndOldest) => {
                    end < entry.start || end == entry.start && end.get().is_multiple_of(PART_LEN)
                }
                (Some(end), EvictionOrder::LeastRecentlyWritten) => end <= entry.start,
            };
            let last = entry.end().get().saturating_sub(1);
            let crosses = self.order == EvictionOrder::LongestAndOldest
                && entry.start.get() / PART_LEN != last / PART_LEN;
            if !is_apart || crosses || entry.len.is_zero() {
                return Err(format!("E1: entry {entry} follows one that ends at {previous_end:?}"));
            }
            previous_end = Some(entry.end());
        }
        for (&start, entry) in &self.entries {
            let is_right = match self.order {
                EvictionOrder::LargestRegion => entry.rank == u64::MAX - entry.len,
                EvictionOrder::LongestAndOldest => {
                    let gain = GAIN / entry.len;
                    self.clock <= entry.rank && entry.rank <= self.clock + gain
                }
                EvictionOrder::LeastRecentlyWritten => entry.rank < self.clock,
            };
            if !is_right || !self.by_rank.contains(&(entry.rank, start)) {
                return Err(format!(
                    "E2, E4: the entry at {start} has the wrong rank {}",
                    entry.rank
                ));
            }
        }
        if self.by_rank.len() != self.entries.len() {
            let (ranks, entries) = (self.by_rank.len(), self.entries.len());
            return Err(format!("E2: {ranks} ranks of {entries} entries"));
        }
        let sum: Blocks = self.iter().map(|entry| entry.len).sum();
        if sum != self.total() {
            return Err(format!("E3: the entries have {sum}, but the total is {}", self.total()));
        }
        Ok(())
    }

    fn take(&mut self, start: u64) {
        if let Some(entry) = self.entries.remove(&start) {
            self.by_rank.remove(&(entry.rank, start));
            self.total -= entry.len;
        }
    }

    /// The age for [`put`](Self::put) that keeps the age of an entry's rest.
    fn age_of(&self, entry: Entry) -> u64 {
        match self.order {
            EvictionOrder::LargestRegion => 0,
            EvictionOrder::LongestAndOldest => entry.rank.saturating_sub(GAIN / entry.len),
            EvictionOrder::LeastRecentlyWritten => entry.rank,
        }
    }

    /// Sets the clock to 0, and lowers all ranks by as much.
    fn set_clock_back(&mut self) {
        let clock = std::mem::take(&mut self.clock);
        self.entries.values_mut().for_each(|entry| entry.rank -= clock);
        self.by_rank = self.by_rank.iter().map(|&(rank, start)| (rank - clock, start)).collect();
    }

    /// Adds the entry `start..end` unless it is empty. `age` is the time of its last write: a
    /// number of writes, or the clock.
    fn put(&mut self, start: u64, end: u64, age: u64) {
        if end <= start {
            return;
        }
        let len = end - start;
        let rank = match self.order {
            EvictionOrder::LargestRegion => u64::MAX - len,
            EvictionOrder::LongestAndOldest => age + GAIN / len,
            EvictionOrder::LeastRecentlyWritten => age,
        };
        self.entries.insert(start, Entry { len, rank });
        self.by_rank.insert((rank, start));
        self.total += len;
    }
}

fn run(start: u64, end: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(end - start))
}

#[cfg(test)]
mod tests;
