//! What the drive's write cache still owes the platter: extents by address and by age.

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

    /// Adds `block ..+ len`, and joins it with every extent it overlaps or touches.
    pub(crate) fn add(&mut self, block: u64, len: u64) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::Prng;
    use std::collections::BTreeSet;

    #[test]
    fn extents_agree_with_a_set_of_blocks() {
        let mut prng = Prng::new(5);
        let mut extents = DirtyExtents::default();
        let mut model: BTreeSet<u64> = BTreeSet::new();
        for _ in 0..5_000 {
            let (block, len) = (prng.below(500), 1 + prng.below(20));
            if prng.chance(3, 5) {
                extents.add(block, len);
                model.extend(block..block + len);
            } else {
                extents.remove(block, len);
                model.retain(|&b| b < block || block + len <= b);
            }
            let blocks: BTreeSet<u64> =
                extents.oldest().flat_map(|(first, len)| first..first + len).collect();
            assert_eq!(blocks, model);
            assert_eq!(extents.len_blocks(), model.len() as u64);
            let whole = (block..block + len).all(|b| model.contains(&b));
            assert_eq!(extents.holds(block, len), whole);
        }
    }
}
