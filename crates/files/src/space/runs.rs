//! Free runs of a disk without zones: disjoint, merged where they touch, listed by size.
//!
//! ```text
//!   by address    [40..90]  [200..204]  [500..4000]  [9000..end
//!   by size       class 0: 40, 200        class 3: 500        class 70: 9000
//! ```
//!
//! The *size* of a run is how much can be written from its start. On a drive whose tracks overlap
//! that is less than its length, because the write must not reach the valid data after the run. A
//! run at the end of the disk has nothing after it.
//!
//! ```text
//!   | free run                              | valid
//!   | can be written        | guard: k tracks and the rest of the last one |
//!   ^ start                 ^ start of the track that lies k before that of the run's end
//! ```
//!
//! The runs of one size class, a multiple of the length of a table, are a list in order of address.
//! A run without a size is in no list: a search that looks at a part of a list would find only such runs.
//! Both searches visit classes in order. They cost the logarithm of the number of runs, plus the
//! length of one list of runs that may or may not be large enough.
//!
//! The stretch of data between two runs is an *island*. Moving it joins the two, and one guard protects what
//! comes after them instead of two: see `islands`.
//!
//! Source: the free space list of SEALDB (section III-B), an array of lists by size in units of a
//! table, found by binary search.

use super::islands::{Island, Islands};
use imbrex_disk::{BlockRange, Blocks, Geometry, Lba, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// The length of a size class unless the format says otherwise: 4 MiB, a table of LevelDB.
pub(crate) const CLASS_LEN: Blocks = Blocks::new(1024);

/// A run shorter than this fraction of a class is not worth an extent.
const CLASS_PER_CRUMB: u64 = 4;

/// How many runs of a class are tried before a larger class is used.
const LIST_LOOK_COUNT_MAX: usize = 32;

/// The free runs, by address and by size. No two touch.
#[derive(Clone, Debug)]
pub struct FreeRuns {
    by_start: BTreeMap<Lba, Blocks>,
    classes: BTreeMap<u64, BTreeSet<Lba>>,
    class_len: Blocks,
    overlap: Option<Overlap>,
    /// Between runs with guards.
    islands: Islands,
    len: Blocks,
    size: Blocks,
}

/// The geometry of overlapping tracks.
#[derive(Clone, Copy, Debug)]
struct Overlap {
    track_len: u64,
    overlap_tracks: u64,
    disk_end: Lba,
}

/// The choice among the runs that are large enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The one with the lowest address.
    Lowest,
    /// One of the smallest class with such a run; the run at the end of the disk comes last.
    Tightest,
}

impl FreeRuns {
    /// An empty set of runs, for a disk of `geometry`.
    pub(crate) fn new(geometry: &Geometry, class_len: Blocks) -> FreeRuns {
        let overlap = match geometry.rule() {
            Rule::IsolationDistance(shingle) => Some(Overlap {
                track_len: shingle.track_len.get(),
                overlap_tracks: u64::from(shingle.overlap_tracks),
                disk_end: Lba::new(geometry.len().get()),
            }),
            _ => None,
        };
        let class_len = if class_len.is_zero() { CLASS_LEN } else { class_len };
        FreeRuns {
            by_start: BTreeMap::new(),
            classes: BTreeMap::new(),
            class_len,
            overlap,
            islands: Islands::default(),
            len: Blocks::ZERO,
            size: Blocks::ZERO,
        }
    }

    /// The runs in order of address.
    pub fn iter(&self) -> impl Iterator<Item = BlockRange> + '_ {
        self.by_start.iter().map(|(&start, &len)| BlockRange::new(start, len))
    }

    /// How many blocks are free.
    pub fn len(&self) -> Blocks {
        self.len
    }

    /// How many blocks can be written: the sizes of all runs.
    pub fn size(&self) -> Blocks {
        self.size
    }

    /// The length of a size class.
    pub(crate) fn class_len(&self) -> Blocks {
        self.class_len
    }

    /// The run with the highest address.
    pub(crate) fn last(&self) -> Option<BlockRange> {
        self.by_start.last_key_value().map(|(&start, &len)| BlockRange::new(start, len))
    }

    /// The runs that can be written and are shorter than `len`, the longest classes first.
    pub(crate) fn shorter_than(&self, len: Blocks) -> impl Iterator<Item = BlockRange> + '_ {
        let lists = self.classes.range(..=self.class_of(len)).rev();
        let starts = lists.flat_map(|(_, list)| list);
        let runs = starts.map(|start| BlockRange::new(*start, self.by_start[start]));
        runs.filter(move |run| run.len < len)
    }

    /// The runs that end and begin where `range` begins and ends.
    pub(crate) fn beside(&self, range: BlockRange) -> [Option<BlockRange>; 2] {
        let before = self.by_start.range(..range.start).next_back();
        let after = self.by_start.get_key_value(&range.end());
        let run = |(&start, &len): (&Lba, &Blocks)| BlockRange::new(start, len);
        [before.map(run).filter(|run| run.end() == range.start), after.map(run)]
    }

    /// The islands, those first beside which most is free for their length.
    pub(super) fn islands(&self) -> impl Iterator<Item = Island> + '_ {
        self.islands.by_worth().filter_map(|start| self.island_at(start))
    }

    /// The island that begins at `start`.
    fn island_at(&self, start: Lba) -> Option<Island> {
        let (&before_start, &before_len) = self.by_start.range(..start).next_back()?;
        let (&after_start, &after_len) = self.by_start.range(start..).next()?;
        let before = BlockRange::new(before_start, before_len);
        Some(Island { before, after: BlockRange::new(after_start, after_len) })
    }

    /// The island whose `after` is the run that begins at `start`.
    pub(super) fn island_before(&self, start: Lba) -> Option<Island> {
        let before = self.by_start.range(..start).next_back()?;
        self.island_at(*before.0 + *before.1)
    }

    /// The island whose `before` is `run`.
    pub(super) fn island_after(&self, run: BlockRange) -> Option<Island> {
        self.island_at(run.end())
    }

    /// See [`Islands::joinable`].
    pub(super) fn joinable(&self) -> Blocks {
        self.islands.joinable()
    }

    /// Sets the length of the longest island that [`FreeRuns::joinable`] counts.
    ///
    /// # Panics
    /// If there are islands already.
    pub(super) fn count_islands_up_to(&mut self, len_max: Blocks) {
        assert!(
            self.islands.by_worth().next().is_none(),
            "the limit is set before anything is taken"
        );
        self.islands = Islands::up_to(len_max);
    }

    /// What the guard of a run of usual length takes: the tracks that a write destroys, and the rest of its
    /// own. Zero where nothing overlaps.
    pub(super) fn guard_len(&self) -> Blocks {
        let len = |overlap: &Overlap| overlap.track_len * (overlap.overlap_tracks + 1);
        Blocks::new(self.overlap.as_ref().map_or(0, len))
    }

    /// How much more could be written if `island` alone were moved, before what it takes elsewhere: the guard
    /// that is spared, but for what is too short to be worth it.
    fn spared(&self, island: Island) -> Blocks {
        let Island { before, after } = island;
        let joined = BlockRange::new(before.start, after.end() - before.start);
        let apart = self.size_of(before) + self.size_of(after) + island.range().len;
        self.size_of(joined).saturating_sub(apart + self.crumb())
    }

    /// Lists the island between two runs, or removes it.
    fn note_island(&mut self, island: Island, is_there: bool) {
        let spared = self.spared(island);
        if is_there {
            self.islands.add(island, spared);
        } else {
            self.islands.remove(island, spared);
        }
    }

    /// Whether a write reaches beyond its end.
    pub(super) fn is_shingled(&self) -> bool {
        self.overlap.is_some()
    }

    /// How much of `run` can be written from its start on; zero if that is a crumb.
    pub(crate) fn size_of(&self, run: BlockRange) -> Blocks {
        let size = run.len - self.guard_of(run);
        if self.is_shingled() && size < self.crumb() { Blocks::ZERO } else { size }
    }

    /// How much of `run`, at its end, must stay blank to protect the data after it.
    pub(crate) fn guard_of(&self, run: BlockRange) -> Blocks {
        let Some(overlap) = self.overlap else { return Blocks::ZERO };
        if overlap.disk_end <= run.end() {
            return Blocks::ZERO;
        }
        let track = (run.end().get() / overlap.track_len).saturating_sub(overlap.overlap_tracks);
        let guard_start = Lba::new(track * overlap.track_len);
        if run.start < guard_start { run.end() - guard_start } else { run.len }
    }

    /// Whether nothing is after `run`, because it ends with the disk.
    pub(crate) fn is_frontier(&self, run: BlockRange) -> bool {
        self.overlap.is_some_and(|overlap| overlap.disk_end <= run.end())
    }

    /// A run of fewer blocks is not worth an extent.
    pub(super) fn crumb(&self) -> Blocks {
        Blocks::new((self.class_len.get() / CLASS_PER_CRUMB).max(1))
    }

    /// The free parts of `range`, in order.
    pub fn parts_in(&self, range: BlockRange) -> impl Iterator<Item = BlockRange> + '_ {
        let before = self.by_start.range(..range.start).next_back();
        let inside = self.by_start.range(range.start..range.end().max(range.start));
        before.into_iter().chain(inside).filter_map(move |(&start, &len)| {
            let (from, to) = (start.max(range.start), (start + len).min(range.end()));
            (from < to).then(|| BlockRange::new(from, to - from))
        })
    }

    /// The run that holds all of `range`.
    pub fn holding(&self, range: BlockRange) -> Option<BlockRange> {
        let (&start, &len) = self.by_start.range(..=range.start).next_back()?;
        let run = BlockRange::new(start, len);
        (range.end() <= run.end()).then_some(run)
    }

    /// A run of at least `size`. `used` gives how much of the start of each run is taken.
    pub(crate) fn find(
        &self,
        size: Blocks,
        fit: Fit,
        used: &BTreeMap<Lba, Blocks>,
    ) -> Option<BlockRange> {
        let left = |start: Lba| {
            let run = BlockRange::new(start, self.by_start[&start]);
            let skip = used.get(&start).copied().unwrap_or_default().min(run.len);
            BlockRange::new(start + skip, run.len - skip)
        };
        let fits = |run: &BlockRange| size <= self.size_of(*run) && !run.len.is_zero();
        let least_class = size.get() / self.class_len.get();
        let mut lists = self.classes.range(least_class..);
        match fit {
            Fit::Lowest => lists
                .filter_map(|(_, list)| list.iter().map(|&start| left(start)).find(fits))
                .min_by_key(|run| run.start),
            Fit::Tightest => {
                let in_list = |list: &BTreeSet<Lba>| {
                    let runs = list.iter().take(LIST_LOOK_COUNT_MAX).map(|&start| left(start));
                    runs.filter(|run| !self.is_frontier(*run)).find(fits)
                };
                let frontier = || {
                    let (&start, _) = self.by_start.last_key_value()?;
                    Some(left(start)).filter(fits)
                };
                lists.find_map(|(_, list)| in_list(list)).or_else(frontier)
            }
        }
    }

    /// The run of the largest class with room left, and how much.
    pub(crate) fn largest(&self, used: &BTreeMap<Lba, Blocks>) -> Option<(BlockRange, Blocks)> {
        let left = |(&start, &len): (&Lba, &Blocks)| {
            let skip = used.get(&start).copied().unwrap_or_default().min(len);
            let run = BlockRange::new(start + skip, len - skip);
            (run, self.size_of(run))
        };
        let in_list = |list: &BTreeSet<Lba>| {
            let runs = list.iter().filter_map(|start| self.by_start.get_key_value(start)).map(left);
            let key = |(run, size): &(BlockRange, Blocks)| (*size, std::cmp::Reverse(run.start));
            runs.filter(|(_, size)| !size.is_zero()).max_by_key(key)
        };
        // After deductions the runs of the largest class may be smaller than those of the next one.
        let untouched = self.classes.values().rev().find_map(in_list);
        let touched = used.keys().filter_map(|start| self.by_start.get_key_value(start)).map(left);
        let touched = touched.filter(|(_, size)| !size.is_zero()).max_by_key(|(_, size)| *size);
        match (untouched, touched) {
            (Some(a), Some(b)) => Some(if a.1 < b.1 { b } else { a }),
            (a, b) => a.or(b),
        }
    }

    /// Takes `range` out of the run that holds it.
    ///
    /// # Panics
    /// If no run holds it: the planner chose a block that is not free.
    pub(crate) fn take(&mut self, range: BlockRange) {
        if range.len.is_zero() {
            return;
        }
        let run = self.holding(range).expect("a plan takes only what is free");
        self.remove(run);
        if run.start < range.start {
            self.insert(BlockRange::new(run.start, range.start - run.start));
        }
        if range.end() < run.end() {
            self.insert(BlockRange::new(range.end(), run.end() - range.end()));
        }
    }

    /// Adds `range`, merged with adjacent runs.
    ///
    /// # Panics
    /// If a block of it is free already: it was given back twice.
    pub(crate) fn give(&mut self, range: BlockRange) {
        if range.len.is_zero() {
            return;
        }
        let mut merged = range;
        if let Some((&start, &len)) = self.by_start.range(..=range.start).next_back() {
            let before = BlockRange::new(start, len);
            assert!(before.end() <= range.start, "S4: blocks {range} were free already");
            if before.end() == range.start {
                self.remove(before);
                merged = BlockRange::new(start, len + range.len);
            }
        }
        if let Some((&start, &len)) = self.by_start.range(range.start..).next() {
            assert!(range.end() <= start, "S4: blocks {range} were free already");
            if start == range.end() {
                self.remove(BlockRange::new(start, len));
                merged.len += len;
            }
        }
        self.insert(merged);
    }

    /// The runs before and after `run`.
    fn around(&self, run: BlockRange) -> [Option<BlockRange>; 2] {
        let as_run = |(&start, &len): (&Lba, &Blocks)| BlockRange::new(start, len);
        let before = self.by_start.range(..run.start).next_back().map(as_run);
        [before, self.by_start.range(run.end()..).next().map(as_run)]
    }

    /// Lists the islands around `run`, which is being inserted, or joins them, if it is being removed.
    fn split_island(&mut self, run: BlockRange, is_split: bool) {
        if !self.is_shingled() {
            return;
        }
        let [before, after] = self.around(run);
        let whole = before.zip(after).map(|(before, after)| Island { before, after });
        let parts = [
            before.map(|before| Island { before, after: run }),
            after.map(|after| Island { before: run, after }),
        ];
        let parts = parts.into_iter().flatten();
        // What goes is removed first: an island and a part of it have the same start.
        if is_split {
            whole.into_iter().for_each(|island| self.note_island(island, false));
            parts.for_each(|island| self.note_island(island, true));
        } else {
            parts.for_each(|island| self.note_island(island, false));
            whole.into_iter().for_each(|island| self.note_island(island, true));
        }
    }

    fn insert(&mut self, run: BlockRange) {
        let size = self.size_of(run);
        self.split_island(run, true);
        self.by_start.insert(run.start, run.len);
        if !size.is_zero() {
            self.classes.entry(self.class_of(size)).or_default().insert(run.start);
        }
        self.len += run.len;
        self.size += size;
    }

    fn remove(&mut self, run: BlockRange) {
        let size = self.size_of(run);
        self.by_start.remove(&run.start);
        self.split_island(run, false);
        self.len -= run.len;
        self.size -= size;
        if size.is_zero() {
            return;
        }
        let class = self.class_of(size);
        let list = self.classes.get_mut(&class).expect("a run that can be written is listed");
        list.remove(&run.start);
        if list.is_empty() {
            self.classes.remove(&class);
        }
    }

    fn class_of(&self, size: Blocks) -> u64 {
        size.get() / self.class_len.get()
    }

    /// Returns the first violation, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut end = None;
        let mut writable_count = 0;
        for run in self.iter() {
            if end.is_some_and(|end| run.start <= end) {
                return Err(format!("free runs touch or overlap at {}", run.start));
            }
            end = Some(run.end());
            let size = self.size_of(run);
            let class = self.class_of(size);
            let is_listed = self.classes.get(&class).is_some_and(|list| list.contains(&run.start));
            if is_listed == size.is_zero() {
                let listed = if is_listed { "in the list" } else { "not in the list" };
                return Err(format!("free run {run} of size {size} is {listed} of class {class}"));
            }
            writable_count += usize::from(!size.is_zero());
        }
        let listed: usize = self.classes.values().map(BTreeSet::len).sum();
        if listed != writable_count {
            return Err(format!(
                "{listed} free runs are listed, but {writable_count} can be written"
            ));
        }
        if self.is_shingled() {
            let runs: Vec<BlockRange> = self.iter().collect();
            let islands = runs.windows(2).map(|pair| Island { before: pair[0], after: pair[1] });
            self.islands.check(islands, |island| self.spared(*island))?;
        }
        let len: Blocks = self.iter().map(|r| r.len).sum();
        let size: Blocks = self.iter().map(|r| self.size_of(r)).sum();
        if (len, size) != (self.len, self.size) {
            return Err(format!("free runs: {len} and {size}, not {} and {}", self.len, self.size));
        }
        Ok(())
    }
}
