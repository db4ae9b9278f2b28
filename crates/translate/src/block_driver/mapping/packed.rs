//! Runs in the order of one address, 16 bytes each: the container of both orders of a mapping.
//!
//! ```text
//!     index   base 0        base 4100              base 90000
//!               |             |                      |
//!     leaf    [3 9 40 ..]   [4100 4180 5000 ...]   [90020 ...]     up to 128 runs each, sorted
//! ```
//!
//! In a map written in random order, a standard B-tree takes 40 bytes (measured) for a run in one
//! order. Here leaves grow by eight runs at a time, so nearly all of a leaf is used: about 17.5
//! bytes a run. A run is two words: 48 bits for each address, 32 for the length.
//!
//! A checkpoint needs the runs of one moment and takes long to write them. It shares the leaves,
//! and a later change to a shared leaf changes a copy of it.
//!
//! Invariants
//!   K1  The runs of a leaf ascend, and are at or above the leaf's base and below the next base.
//!   K2  No leaf is empty or longer than [`LEAF_LEN_MAX`].
//!   K3  The count, and the room of all leaves, match the leaves.

use std::collections::{BTreeMap, btree_map};
use std::mem;
use std::sync::Arc;

/// The first address that does not fit.
pub(super) const ADDRESS_END: u64 = 1 << 48;

const LEAF_LEN_MAX: usize = 128;
/// A leaf this short joins a neighbour if the two are no longer than [`LEAF_LEN_JOINED_MAX`].
const LEAF_LEN_LOW: usize = 32;
const LEAF_LEN_JOINED_MAX: usize = 96;
/// How full a bulk build makes a leaf, so that the first inserts find room.
const LEAF_LEN_BUILT: usize = 112;
const GROWTH: usize = 8;
/// An entry of the index at 69 % fill, and the parts before the runs: the reference count, the
/// vector, and the allocator's headers of both.
const LEAF_OVERHEAD_BYTES: usize =
    (size_of::<u64>() + size_of::<Leaf>()) * 100 / 69 + 16 + size_of::<Vec<Packed>>() + 2 * 16;

/// A run: `len` blocks from `key` in the order's address, from `value` in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) len: u32,
}

impl Run {
    pub(super) fn end(self) -> u64 {
        self.key + u64::from(self.len)
    }

    /// The same run in the other order.
    pub(super) fn flipped(self) -> Run {
        Run { key: self.value, value: self.key, len: self.len }
    }
}

#[derive(Clone, Copy, Debug)]
struct Packed([u64; 2]);

impl Packed {
    fn new(run: Run) -> Packed {
        let len = u64::from(run.len);
        Packed([run.key << 16 | len >> 16, run.value << 16 | len & 0xffff])
    }

    fn key(self) -> u64 {
        self.0[0] >> 16
    }

    fn run(self) -> Run {
        let len = (self.0[0] & 0xffff) << 16 | self.0[1] & 0xffff;
        Run { key: self.key(), value: self.0[1] >> 16, len: len as u32 }
    }
}

type Leaf = Arc<Vec<Packed>>;

/// Runs by key; keys differ.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedRuns {
    leaves: BTreeMap<u64, Leaf>,
    count: usize,
    /// The sum of the leaves' capacities.
    room: usize,
}

impl PackedRuns {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.room * size_of::<Packed>() + self.leaves.len() * LEAF_OVERHEAD_BYTES) as u64
    }

    /// All runs of this moment, even if the runs change meanwhile. Cost: a pointer for each leaf.
    pub(super) fn frozen(&self) -> FrozenRuns {
        FrozenRuns { leaves: self.leaves.clone().into_values(), leaf: Leaf::default(), next: 0 }
    }

    /// The run with the highest key at or below `key`.
    pub(super) fn last_at(&self, key: u64) -> Option<Run> {
        // At most two leaves: a leaf with a base below `key` may begin above `key`.
        self.leaves.range(..=key).rev().find_map(|(_, leaf)| {
            let count = leaf.partition_point(|packed| packed.key() <= key);
            count.checked_sub(1).map(|index| leaf[index].run())
        })
    }

    /// The runs with keys from `start` up to `end`, in order.
    pub(super) fn range(&self, start: u64, end: u64) -> impl Iterator<Item = Run> + '_ {
        let base = self.leaves.range(..=start).next_back().map_or(start, |(&base, _)| base);
        let leaves = self.leaves.range(base..end.max(base));
        leaves
            .flat_map(move |(_, leaf)| {
                let from = leaf.partition_point(|packed| packed.key() < start);
                leaf[from..].iter().map(|packed| packed.run())
            })
            .take_while(move |run| run.key < end)
    }

    /// Adds a run whose key is new.
    pub(super) fn insert(&mut self, run: Run) {
        self.count += 1;
        let Some((&base, leaf)) = self.leaves.range_mut(..=run.key).next_back() else {
            self.insert_first(run);
            return;
        };
        let index = leaf.partition_point(|packed| packed.key() < run.key);
        if leaf.len() < LEAF_LEN_MAX {
            put(leaf, index, run, &mut self.room);
        } else if index == LEAF_LEN_MAX {
            self.insert_behind(base, run);
        } else if index == 0 {
            self.insert_before(base, run);
        } else {
            let left = own(leaf, &mut self.room);
            let room = left.capacity();
            let right = left.split_off(LEAF_LEN_MAX / 2);
            left.shrink_to(LEAF_LEN_MAX / 2 + GROWTH);
            self.room = self.room + left.capacity() + right.capacity() - room;
            let mut right = Arc::new(right);
            match index.checked_sub(LEAF_LEN_MAX / 2) {
                Some(index) if index > 0 => put(&mut right, index, run, &mut self.room),
                _ => put(leaf, index, run, &mut self.room),
            }
            self.leaves.insert(right[0].key(), right);
        }
    }

    /// Adds a run below all bases, or the first of all: the first leaf then extends down to 0.
    fn insert_first(&mut self, run: Run) {
        match self.leaves.first_entry().filter(|first| first.get().len() < LEAF_LEN_MAX) {
            Some(first) => {
                let mut leaf = first.remove();
                put(&mut leaf, 0, run, &mut self.room);
                self.leaves.insert(0, leaf);
            }
            None => self.add_leaf(0, run),
        }
    }

    /// Adds a run after a full leaf: to the front of the next leaf if that has room. So runs that
    /// come in ascending order fill their leaves.
    fn insert_behind(&mut self, base: u64, run: Run) {
        let next = self.leaves.range(base + 1..).next();
        match next.filter(|(_, leaf)| leaf.len() < LEAF_LEN_MAX).map(|(&next, _)| next) {
            Some(next) => {
                let mut leaf = self.leaves.remove(&next).expect("the base was just found");
                put(&mut leaf, 0, run, &mut self.room);
                self.leaves.insert(run.key, leaf);
            }
            None => self.add_leaf(run.key, run),
        }
    }

    /// Adds a run before the first of a full leaf: to the end of the previous leaf if that has
    /// room. So runs that come in descending order fill their leaves.
    fn insert_before(&mut self, base: u64, run: Run) {
        let full = self.leaves.remove(&base).expect("the base was just found");
        self.leaves.insert(full[0].key(), full);
        match self.leaves.range_mut(..base).next_back() {
            Some((_, leaf)) if leaf.len() < LEAF_LEN_MAX => {
                put(leaf, leaf.len(), run, &mut self.room);
            }
            _ => self.add_leaf(base, run),
        }
    }

    fn add_leaf(&mut self, base: u64, run: Run) {
        let mut leaf = Leaf::default();
        put(&mut leaf, 0, run, &mut self.room);
        self.leaves.insert(base, leaf);
    }

    /// Sets the length of the run at `key`, which must exist.
    pub(super) fn set_len(&mut self, key: u64, len: u32) {
        let (_, leaf) = self.leaves.range_mut(..=key).next_back().expect("the run is there");
        let index = leaf.binary_search_by_key(&key, |packed| packed.key());
        let packed = &mut own(leaf, &mut self.room)[index.expect("the run is there")];
        *packed = Packed::new(Run { len, ..packed.run() });
    }

    /// Removes the run at `key`, which must exist.
    pub(super) fn remove(&mut self, key: u64) {
        let (&base, leaf) = self.leaves.range_mut(..=key).next_back().expect("the run is there");
        let index = leaf.binary_search_by_key(&key, |packed| packed.key());
        own(leaf, &mut self.room).remove(index.expect("the run is there"));
        self.count -= 1;
        self.tidy(base);
    }

    /// Removes the runs with keys from `start` up to `end`, and appends them to `taken`.
    pub(super) fn take(&mut self, start: u64, end: u64, taken: &mut Vec<Run>) {
        let before = taken.len();
        let mut from = self.leaves.range(..=start).next_back().map_or(start, |(&base, _)| base);
        // Only the first and the last leaf can keep runs.
        let mut kept = [None; 2];
        while let Some((&base, leaf)) = self.leaves.range_mut(from..end.max(from)).next() {
            let low = leaf.partition_point(|packed| packed.key() < start);
            let high = leaf.partition_point(|packed| packed.key() < end);
            taken.extend(leaf[low..high].iter().map(|packed| packed.run()));
            if high - low == leaf.len() {
                self.drop_leaf(base);
            } else if low < high {
                own(leaf, &mut self.room).drain(low..high);
                kept = [kept[1], Some(base)];
            }
            from = base + 1;
        }
        self.count -= taken.len() - before;
        for base in kept.into_iter().flatten() {
            self.tidy(base);
        }
    }

    /// Drops the leaf at `base` if it is empty, joins it with a neighbour if it is short, and frees
    /// memory that it does not need.
    fn tidy(&mut self, base: u64) {
        let Some(len) = self.leaves.get(&base).map(|leaf| leaf.len()) else { return };
        if len == 0 {
            self.drop_leaf(base);
            return;
        }
        if len < LEAF_LEN_LOW {
            let fits = |&(_, leaf): &(&u64, &Leaf)| leaf.len() + len <= LEAF_LEN_JOINED_MAX;
            let next = self.leaves.range(base + 1..).next().filter(fits).map(|(&next, _)| next);
            let left = self.leaves.range(..base).next_back().filter(fits).map(|(&left, _)| left);
            if let Some((left, right)) = next.map(|next| (base, next)).or(left.map(|l| (l, base))) {
                let behind = self.drop_leaf(right);
                let leaf = self.leaves.get_mut(&left).expect("the base was just found");
                let leaf = own(leaf, &mut self.room);
                let room = leaf.capacity();
                if room < leaf.len() + behind.len() {
                    leaf.reserve_exact(behind.len() + GROWTH);
                }
                leaf.extend_from_slice(&behind);
                self.room = self.room + leaf.capacity() - room;
            }
        }
        if let Some(leaf) = self.leaves.get_mut(&base)
            && leaf.len() + 2 * GROWTH < leaf.capacity()
        {
            let leaf = own(leaf, &mut self.room);
            let room = leaf.capacity();
            leaf.shrink_to(leaf.len() + GROWTH);
            self.room = self.room + leaf.capacity() - room;
        }
    }

    fn drop_leaf(&mut self, base: u64) -> Leaf {
        let leaf = self.leaves.remove(&base).expect("the base was just found");
        self.room -= leaf.capacity();
        leaf
    }

    /// Checks K1 to K3.
    pub(super) fn check(&self) -> Result<(), String> {
        let (mut count, mut room) = (0, 0);
        let mut previous = None;
        for (&base, leaf) in &self.leaves {
            if leaf.is_empty() || LEAF_LEN_MAX < leaf.len() {
                return Err(format!("K2: the leaf at {base} has {} runs", leaf.len()));
            }
            if previous.is_some_and(|previous| base <= previous) {
                return Err(format!(
                    "K1: a run at {previous:?} is below the base {base} of its leaf"
                ));
            }
            for packed in &**leaf {
                let key = packed.key();
                if key < base || previous.is_some_and(|previous| key <= previous) {
                    return Err(format!("K1: a run at {key} follows one at {previous:?}"));
                }
                previous = Some(key);
            }
            count += leaf.len();
            room += leaf.capacity();
        }
        if (count, room) != (self.count, self.room) {
            let counted = (self.count, self.room);
            return Err(format!("K3: runs and room are {:?}, counted {counted:?}", (count, room)));
        }
        Ok(())
    }
}

/// A leaf for a change: a copy if the leaf is shared.
fn own<'a>(leaf: &'a mut Leaf, room: &mut usize) -> &'a mut Vec<Packed> {
    let before = leaf.capacity();
    let owned = Arc::make_mut(leaf);
    *room = *room + owned.capacity() - before;
    owned
}

/// Inserts into a leaf with room.
fn put(leaf: &mut Leaf, index: usize, run: Run, room: &mut usize) {
    let leaf = own(leaf, room);
    let before = leaf.capacity();
    if leaf.len() == before {
        leaf.reserve_exact(GROWTH.min(LEAF_LEN_MAX - before));
    }
    leaf.insert(index, Packed::new(run));
    *room += leaf.capacity() - before;
}

/// The runs of one moment, in order. The iterator releases leaves as it proceeds.
#[derive(Debug)]
pub(super) struct FrozenRuns {
    leaves: btree_map::IntoValues<u64, Leaf>,
    leaf: Leaf,
    next: usize,
}

impl Iterator for FrozenRuns {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if self.next == self.leaf.len() {
            (self.leaf, self.next) = (self.leaves.next()?, 0);
        }
        self.next += 1;
        self.leaf.get(self.next - 1).map(|packed| packed.run())
    }
}

/// Builds the container from runs that come in order.
#[derive(Debug, Default)]
pub(super) struct Builder {
    built: PackedRuns,
    leaf: Vec<Packed>,
}

impl Builder {
    pub(super) fn push(&mut self, run: Run) {
        if self.leaf.len() == LEAF_LEN_BUILT {
            self.end_leaf();
        }
        if self.leaf.is_empty() {
            self.leaf.reserve_exact(LEAF_LEN_BUILT);
        }
        self.leaf.push(Packed::new(run));
    }

    /// The run pushed last, to be inspected or extended.
    pub(super) fn last(&self) -> Option<Run> {
        self.leaf.last().map(|packed| packed.run())
    }

    pub(super) fn lengthen_last(&mut self, len: u32) {
        if let Some(packed) = self.leaf.last_mut() {
            *packed = Packed::new(Run { len, ..packed.run() });
        }
    }

    fn end_leaf(&mut self) {
        let mut leaf = mem::take(&mut self.leaf);
        leaf.shrink_to_fit();
        if let Some(first) = leaf.first() {
            self.built.count += leaf.len();
            self.built.room += leaf.capacity();
            self.built.leaves.insert(first.key(), Arc::new(leaf));
        }
    }

    pub(super) fn finish(mut self) -> PackedRuns {
        self.end_leaf();
        self.built
    }
}

#[cfg(test)]
mod tests;
