//! What the drive's write cache still owes the platter: extents by address and by age.

use imbrex_disk::Activity;
use std::collections::BTreeMap;

/// Disjoint extents that do not touch (E3). Each is as old as its oldest part.
#[derive(Debug, Default)]
pub(crate) struct DirtyExtents {
    /// First block -> (blocks, age).
    by_block: BTreeMap<u64, (u64, u64)>,
    /// Age -> first block.
    by_age: BTreeMap<u64, u64>,
    next_age: u64,
    len_blocks: u64,
    writers: Writers,
}

impl DirtyExtents {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_block.is_empty()
    }

    pub(crate) fn len_blocks(&self) -> u64 {
        self.len_blocks
    }

    /// Whether one extent holds all of `block ..+ len`.
    pub(crate) fn holds(&self, block: u64, len: u64) -> bool {
        self.by_block
            .range(..=block)
            .next_back()
            .is_some_and(|(&start, &(extent_len, _))| start + extent_len >= block + len)
    }

    /// The extents `(first block, blocks)`, oldest first.
    pub(crate) fn oldest(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_age.values().map(|block| (*block, self.by_block[block].0))
    }

    /// What the data at `block` were written for.
    pub(crate) fn activity_at(&self, block: u64) -> Activity {
        self.writers.at(block)
    }

    /// Adds `block ..+ len`, which `activity` wrote, and joins it with every extent it overlaps or
    /// touches.
    pub(crate) fn add(&mut self, block: u64, len: u64, activity: Activity) {
        self.writers.set(block, block + len, activity);
        let (mut start, mut end) = (block, block + len);
        let mut age = self.next_age;
        self.next_age += 1;
        while let Some((&first, &(extent_len, extent_age))) =
            self.by_block.range(..=end).next_back()
            && first + extent_len >= start
        {
            self.take(first);
            start = start.min(first);
            end = end.max(first + extent_len);
            age = age.min(extent_age);
        }
        self.put(start, end - start, age);
    }

    /// Removes `block ..+ len`.
    pub(crate) fn remove(&mut self, block: u64, len: u64) {
        let end = block + len;
        self.writers.forget(block, end);
        while let Some((&first, &(extent_len, age))) = self.by_block.range(..end).next_back()
            && first + extent_len > block
        {
            self.take(first);
            let extent_end = first + extent_len;
            if first < block {
                self.put(first, block - first, age);
            }
            if end < extent_end {
                // One age, one extent: if the left part kept the age, the right part is younger.
                let age = if first < block { self.fresh_age() } else { age };
                self.put(end, extent_end - end, age);
            }
        }
    }

    fn fresh_age(&mut self) -> u64 {
        self.next_age += 1;
        self.next_age - 1
    }

    fn take(&mut self, first: u64) {
        if let Some((len, age)) = self.by_block.remove(&first) {
            self.by_age.remove(&age);
            self.len_blocks -= len;
        }
    }

    fn put(&mut self, first: u64, len: u64, age: u64) {
        let old = self.by_block.insert(first, (len, age));
        assert!(old.is_none(), "E3: extents do not overlap");
        let old = self.by_age.insert(age, first);
        assert!(old.is_none(), "E3: one age, one extent");
        self.len_blocks += len;
    }
}

/// Which activity wrote which blocks. An extent may hold data of several.
#[derive(Debug, Default)]
struct Writers {
    /// First block -> (end, activity). Neighbours of one activity are one run.
    runs: BTreeMap<u64, (u64, Activity)>,
}

impl Writers {
    fn at(&self, block: u64) -> Activity {
        let before = self.runs.range(..=block).next_back();
        before.filter(|(_, (end, _))| block < *end).map_or(Activity::Other, |(_, run)| run.1)
    }

    fn set(&mut self, mut start: u64, mut end: u64, activity: Activity) {
        self.forget(start, end);
        if let Some((&first, &(before, other))) = self.runs.range(..start).next_back()
            && before == start
            && other == activity
        {
            start = first;
        }
        if let Some(&(after, other)) = self.runs.get(&end)
            && other == activity
        {
            self.runs.remove(&end);
            end = after;
        }
        self.runs.insert(start, (end, activity));
    }

    fn forget(&mut self, start: u64, end: u64) {
        while let Some((&first, &(last, activity))) = self.runs.range(..end).next_back()
            && last > start
        {
            self.runs.remove(&first);
            if first < start {
                self.runs.insert(first, (start, activity));
            }
            if end < last {
                self.runs.insert(end, (last, activity));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::Prng;

    #[test]
    fn extents_agree_with_a_set_of_blocks() {
        let mut prng = Prng::new(5);
        let mut extents = DirtyExtents::default();
        let mut model: BTreeMap<u64, Activity> = BTreeMap::new();
        for _ in 0..5_000 {
            let (block, len) = (prng.below(500), 1 + prng.below(20));
            if prng.chance(3, 5) {
                let activity = Activity::ALL[prng.below(3) as usize];
                extents.add(block, len, activity);
                model.extend((block..block + len).map(|block| (block, activity)));
            } else {
                extents.remove(block, len);
                model.retain(|&b, _| b < block || block + len <= b);
            }
            let blocks = extents.oldest().flat_map(|(first, len)| first..first + len);
            let blocks: BTreeMap<u64, Activity> =
                blocks.map(|block| (block, extents.activity_at(block))).collect();
            assert_eq!(blocks, model);
            assert_eq!(extents.len_blocks(), model.len() as u64);
            let whole = (block..block + len).all(|b| model.contains_key(&b));
            assert_eq!(extents.holds(block, len), whole);
            let runs: Vec<_> = extents.writers.runs.iter().collect();
            let are_apart = |pair: &[(&u64, &(u64, Activity))]| {
                let [(_, (end, first)), (start, (_, second))] = pair else { return true };
                end < *start || end == *start && first != second
            };
            assert!(runs.windows(2).all(are_apart), "{runs:?}");
        }
    }
}
