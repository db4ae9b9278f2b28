//! A B+ tree over the arena's records: nodes in two vectors, linked by index.
//!
//! ```text
//!   inner   prefixes  [ .. 128 .. ]  places [ .. 128 .. ]  children [ .. 129 .. ]
//!                         |
//!   leaf    prefixes  [ .. 128 .. ]  places [ .. 128 .. ]  next, prev
//!                                      |
//!   arena                            trailer | key | value
//! ```
//!
//! A search compares 8-byte prefixes, which are adjacent in the node. It reads a key only if
//! prefixes are equal. Prefixes leave out the leading bytes that all keys share.
//!
//! Invariants
//!   T1  Along the leaves, entries are in internal-key order; nothing is ever removed.
//!   T2  A separator is the first key that its right subtree had when it was split off: keys in the
//!       subtree are at or above it, keys to its left are below.
//!   T3  Every key starts with `shared`, and every prefix is the 8 bytes after it, padded with 0.

use super::arena::{Arena, Place, Value};
use crate::key::InternalKey;

/// The number of entries per node. It was measured; see `docs/decisions/0006-memtable.md`.
pub(super) const NODE_LEN: usize = 128;

/// The number of records that a walk requests from memory at once.
const TOUCH_LEN: usize = 16;

/// The height limit. A tree this high would have 64^7 entries, more than the 32 bits of a place can
/// address.
const HEIGHT_MAX: usize = 7;

/// Below this number of entries, shortening `shared` is too cheap to count.
const REBUILD_FREE_ENTRIES: usize = 4096;

/// The number of prefixes per cache line.
const LINE_LEN: usize = 8;
const _: () = assert!(NODE_LEN.is_multiple_of(LINE_LEN));

/// The sorted part of a node, leaf or inner.
#[derive(Debug)]
#[repr(align(64))]
struct Slots {
    /// Prefixes from `len` on are `u64::MAX`, so that a search can compare all of them without
    /// reading `len`.
    prefixes: [u64; NODE_LEN],
    places: [Place; NODE_LEN],
    len: u32,
}

/// Whether slots equal to a target count as before it or after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Equal {
    After,
    Before,
}

impl Slots {
    const EMPTY: Slots =
        Slots { prefixes: [u64::MAX; NODE_LEN], places: [Place::ZERO; NODE_LEN], len: 0 };

    fn len(&self) -> usize {
        self.len as usize
    }

    fn is_full(&self) -> bool {
        self.len() == NODE_LEN
    }

    /// The number of prefixes less than `prefix`.
    ///
    /// This is no binary search. It first compares the last prefix of each line, then one whole
    /// line. These loads are independent, so a node that is not cached costs one wait for memory
    /// instead of three.
    #[inline]
    fn count_below(&self, prefix: u64) -> usize {
        let lines = self.prefixes.as_chunks::<LINE_LEN>().0;
        let line: usize = lines.iter().map(|line| usize::from(line[LINE_LEN - 1] < prefix)).sum();
        let within = lines
            .get(line)
            .map_or(0, |line| line.iter().map(|&other| usize::from(other < prefix)).sum::<usize>());
        line * LINE_LEN + within
    }

    /// The number of slots before `target`.
    #[inline]
    fn rank(&self, target: Target<'_>, equal: Equal, arena: &Arena) -> usize {
        let low = self.count_below(target.prefix);
        let prefixes = &self.prefixes[..self.len()];
        if prefixes.get(low) != Some(&target.prefix) {
            return low;
        }
        let run = prefixes[low..].partition_point(|&prefix| prefix == target.prefix);
        low + self.places[low..low + run].partition_point(|&place| {
            let key = arena.key(place);
            key < target.key || equal == Equal::Before && key == target.key
        })
    }

    #[inline]
    fn insert(&mut self, at: usize, prefix: u64, place: Place) {
        let len = self.len();
        self.prefixes.copy_within(at..len, at + 1);
        self.places.copy_within(at..len, at + 1);
        self.prefixes[at] = prefix;
        self.places[at] = place;
        self.len += 1;
    }

    /// Moves the slots from `at` on to a new node.
    fn split_off(&mut self, at: usize) -> Slots {
        let (len, mut right) = (self.len(), Slots::EMPTY);
        right.prefixes[..len - at].copy_from_slice(&self.prefixes[at..len]);
        right.places[..len - at].copy_from_slice(&self.places[at..len]);
        right.len = (len - at) as u32;
        self.prefixes[at..].fill(u64::MAX);
        self.len = at as u32;
        right
    }
}

#[derive(Debug)]
struct Leaf {
    slots: Slots,
    next: Option<u32>,
    prev: Option<u32>,
}

#[derive(Debug)]
struct Inner {
    separators: Slots,
    children: [u32; NODE_LEN + 1],
}

/// A key to search for, with its prefix.
#[derive(Clone, Copy, Debug)]
struct Target<'a> {
    prefix: u64,
    key: InternalKey<'a>,
}

/// A position in the tree. It is valid until the next insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    leaf: u32,
    slot: u32,
}

#[derive(Default)]
pub(super) struct Tree {
    arena: Arena,
    leaves: Vec<Leaf>,
    inners: Vec<Inner>,
    /// A leaf if `height` is 0, else an inner node.
    root: u32,
    height: usize,
    last_leaf: u32,
    /// The last prefix of the last leaf. It identifies an insert in ascending order.
    last_prefix: u64,
    entry_count: usize,
    shared: Vec<u8>,
    /// The number of entries that received new prefixes so far because `shared` became shorter.
    rebuilt_count: usize,
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree")
            .field("entry_count", &self.entry_count)
            .field("len_bytes", &self.len_bytes())
            .field("height", &self.height)
            .finish_non_exhaustive()
    }
}

impl Tree {
    pub(super) fn entry_count(&self) -> usize {
        self.entry_count
    }

    /// The memory in use, nodes included.
    pub(super) fn len_bytes(&self) -> usize {
        self.arena.len_bytes()
            + self.leaves.len() * size_of::<Leaf>()
            + self.inners.len() * size_of::<Inner>()
    }

    pub(super) fn insert(&mut self, key: InternalKey<'_>, value: &[u8]) {
        if self.leaves.is_empty() {
            self.shared = key.user_key.to_vec();
            self.leaves.push(Leaf { slots: Slots::EMPTY, next: None, prev: None });
        }
        if !key.user_key.starts_with(&self.shared) {
            self.shorten_shared(key.user_key);
        }
        let place = self.arena.push(key, value);
        let target = Target { prefix: prefix_of(key.user_key, self.shared.len()), key };
        self.entry_count += 1;
        if self.is_after_all(target) {
            self.last_prefix = target.prefix;
            let last = &mut self.leaves[self.last_leaf as usize].slots;
            if !last.is_full() {
                last.insert(last.len(), target.prefix, place);
                return;
            }
        }
        let mut path = [(0, 0); HEIGHT_MAX];
        let leaf = self.descend(target, Equal::Before, &mut path);
        let slots = &mut self.leaves[leaf as usize].slots;
        let at = slots.rank(target, Equal::After, &self.arena);
        if slots.is_full() {
            self.split_leaf(leaf, at, target.prefix, place, &path);
        } else {
            slots.insert(at, target.prefix, place);
        }
    }

    fn is_after_all(&self, target: Target<'_>) -> bool {
        if target.prefix != self.last_prefix {
            return target.prefix > self.last_prefix;
        }
        let last = &self.leaves[self.last_leaf as usize].slots;
        let Some(at) = last.len().checked_sub(1) else { return true };
        self.arena.key(last.places[at]) < target.key
    }

    /// Descends to the leaf for `target`. For each level, `path[level]` records an inner node and
    /// the index of the child taken.
    fn descend(
        &self,
        target: Target<'_>,
        equal: Equal,
        path: &mut [(u32, usize); HEIGHT_MAX],
    ) -> u32 {
        let mut node = self.root;
        for step in &mut path[..self.height] {
            let inner = &self.inners[node as usize];
            let child = inner.separators.rank(target, equal, &self.arena);
            *step = (node, child);
            node = inner.children[child];
        }
        node
    }

    /// Splits a full leaf and inserts the entry, which belongs at `at` of the old leaf.
    fn split_leaf(
        &mut self,
        leaf: u32,
        at: usize,
        prefix: u64,
        place: Place,
        path: &[(u32, usize); HEIGHT_MAX],
    ) {
        let right = self.leaves.len() as u32;
        let left = &mut self.leaves[leaf as usize];
        // Ascending keys keep their leaves full: the new leaf gets only the new entry.
        let ascends = at == NODE_LEN && left.next.is_none();
        let middle = if ascends { NODE_LEN } else { NODE_LEN / 2 };
        let mut slots = left.slots.split_off(middle);
        if at < middle {
            left.slots.insert(at, prefix, place);
        } else {
            slots.insert(at - middle, prefix, place);
        }
        let next = left.next.replace(right);
        match next {
            Some(next) => self.leaves[next as usize].prev = Some(right),
            None => self.last_leaf = right,
        }
        let separator = (slots.prefixes[0], slots.places[0]);
        self.leaves.push(Leaf { slots, next, prev: Some(leaf) });
        self.add_child(separator, right, path);
    }

    /// Inserts a node that was split off into its parent, splitting ancestors as needed.
    fn add_child(
        &mut self,
        mut separator: (u64, Place),
        mut child: u32,
        path: &[(u32, usize); HEIGHT_MAX],
    ) {
        for &(node, at) in path[..self.height].iter().rev() {
            let fresh = self.inners.len() as u32;
            let inner = &mut self.inners[node as usize];
            if !inner.separators.is_full() {
                inner.add(at, separator, child);
                return;
            }
            let (up, mut right) = inner.split();
            let left_len = inner.separators.len();
            if at <= left_len {
                inner.add(at, separator, child);
            } else {
                right.add(at - left_len - 1, separator, child);
            }
            self.inners.push(right);
            (separator, child) = (up, fresh);
        }
        let mut root = Inner { separators: Slots::EMPTY, children: [0; NODE_LEN + 1] };
        root.children[0] = self.root;
        root.add(0, separator, child);
        self.root = self.inners.len() as u32;
        self.inners.push(root);
        self.height += 1;
        assert!(self.height <= HEIGHT_MAX, "a memtable outgrew its places first");
    }

    /// Shortens `shared` to fit one more key, which changes all prefixes (T3).
    ///
    /// Decimal counters as keys shorten it once for every tenfold growth, random keys only while
    /// there are few. If the total cost becomes larger than that, `shared` is emptied for good.
    /// while there are few. Where it would cost more than that, `shared` is given up.
    #[cold]
    fn shorten_shared(&mut self, user_key: &[u8]) {
        let common = self.shared.iter().zip(user_key).take_while(|(a, b)| a == b).count();
        self.rebuilt_count += self.entry_count;
        let is_cheap = self.rebuilt_count <= self.entry_count * 2 + REBUILD_FREE_ENTRIES;
        self.shared.truncate(if is_cheap { common } else { 0 });
        let (arena, skip) = (&self.arena, self.shared.len());
        let inners = self.inners.iter_mut().map(|inner| &mut inner.separators);
        for slots in self.leaves.iter_mut().map(|leaf| &mut leaf.slots).chain(inners) {
            let len = slots.len();
            for (prefix, &place) in slots.prefixes[..len].iter_mut().zip(&slots.places) {
                *prefix = prefix_of(arena.key(place).user_key, skip);
            }
        }
        let last = &self.leaves[self.last_leaf as usize].slots;
        self.last_prefix = last.prefixes[..last.len()].last().copied().unwrap_or(0);
    }

    /// The first entry at or after `key`.
    pub(super) fn lower_bound(&self, key: InternalKey<'_>) -> Option<Cursor> {
        if self.entry_count == 0 {
            return None;
        }
        if !key.user_key.starts_with(&self.shared) {
            return if key.user_key < &self.shared[..] { self.first() } else { None };
        }
        let target = Target { prefix: prefix_of(key.user_key, self.shared.len()), key };
        let leaf = self.descend(target, Equal::Before, &mut [(0, 0); HEIGHT_MAX]);
        let slots = &self.leaves[leaf as usize].slots;
        let slot = slots.rank(target, Equal::After, &self.arena);
        if slot < slots.len() {
            return Some(Cursor { leaf, slot: slot as u32 });
        }
        self.leaves[leaf as usize].next.map(|leaf| Cursor { leaf, slot: 0 })
    }

    /// The last entry before `key`.
    pub(super) fn last_before(&self, key: InternalKey<'_>) -> Option<Cursor> {
        match self.lower_bound(key) {
            Some(cursor) => self.prev(cursor),
            None => self.last(),
        }
    }

    pub(super) fn first(&self) -> Option<Cursor> {
        // A split keeps the left half in place, so the first leaf stays the first.
        (self.entry_count > 0).then_some(Cursor { leaf: 0, slot: 0 })
    }

    pub(super) fn last(&self) -> Option<Cursor> {
        let slot = self.leaves.get(self.last_leaf as usize)?.slots.len.checked_sub(1)?;
        Some(Cursor { leaf: self.last_leaf, slot })
    }

    #[inline]
    pub(super) fn next(&self, cursor: Cursor) -> Option<Cursor> {
        let leaf = &self.leaves[cursor.leaf as usize];
        if cursor.slot + 1 < leaf.slots.len {
            return Some(Cursor { slot: cursor.slot + 1, ..cursor });
        }
        leaf.next.map(|leaf| Cursor { leaf, slot: 0 })
    }

    /// Like [`Tree::next`], for a walk over many entries.
    #[inline]
    pub(super) fn next_of_many(&self, cursor: Cursor) -> Option<Cursor> {
        let next = self.next(cursor)?;
        if (next.slot as usize).is_multiple_of(TOUCH_LEN) {
            let places = &self.leaves[next.leaf as usize].slots.places;
            let end = (next.slot as usize + TOUCH_LEN).min(NODE_LEN);
            self.arena.touch(&places[next.slot as usize..end]);
        }
        Some(next)
    }

    #[inline]
    pub(super) fn prev(&self, cursor: Cursor) -> Option<Cursor> {
        if cursor.slot > 0 {
            return Some(Cursor { slot: cursor.slot - 1, ..cursor });
        }
        let leaf = self.leaves[cursor.leaf as usize].prev?;
        Some(Cursor { leaf, slot: self.leaves[leaf as usize].slots.len - 1 })
    }

    #[inline]
    pub(super) fn entry(&self, cursor: Cursor) -> (InternalKey<'_>, Value<'_>) {
        let slots = &self.leaves[cursor.leaf as usize].slots;
        self.arena.entry(slots.places[cursor.slot as usize])
    }

    /// Whether the entry's prefix proves that its user key is not `user_key`. `user_key` starts
    /// with `shared` if `lower_bound` found an entry close to it. The check does not read the
    /// arena.
    #[inline]
    pub(super) fn is_elsewhere(&self, cursor: Cursor, user_key: &[u8]) -> bool {
        let slots = &self.leaves[cursor.leaf as usize].slots;
        slots.prefixes[cursor.slot as usize] != prefix_of(user_key, self.shared.len())
    }
}

impl Inner {
    fn add(&mut self, at: usize, (prefix, place): (u64, Place), child: u32) {
        let len = self.separators.len();
        self.separators.insert(at, prefix, place);
        self.children.copy_within(at + 1..len + 1, at + 2);
        self.children[at + 1] = child;
    }

    /// Splits a full node in the middle. The separator there moves up.
    fn split(&mut self) -> ((u64, Place), Inner) {
        let middle = NODE_LEN / 2;
        let up = (self.separators.prefixes[middle], self.separators.places[middle]);
        let separators = self.separators.split_off(middle + 1);
        self.separators.len -= 1;
        self.separators.prefixes[middle] = u64::MAX;
        let mut children = [0; NODE_LEN + 1];
        children[..NODE_LEN - middle].copy_from_slice(&self.children[middle + 1..]);
        (up, Inner { separators, children })
    }
}

/// The 8 bytes after the first `skip`, as a number with the same order.
#[inline]
fn prefix_of(user_key: &[u8], skip: usize) -> u64 {
    let rest = user_key.get(skip..).unwrap_or(&[]);
    if let Some(chunk) = rest.first_chunk() {
        return u64::from_be_bytes(*chunk);
    }
    let mut padded = [0; 8];
    padded[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(padded)
}
