//! The memtable: the newest writes of one keyspace, sorted, in memory.
//!
//! ```text
//!   live      RwLock<Tree>      one writer at a time; readers take the lock for a moment
//!     | freeze
//!   frozen    Arc<Tree>         nothing changes any more: readers take no lock
//! ```
//!
//! Invariants
//!   M1  A reader sees an entry whole or not at all: the writer links it in under the write lock.
//!   M2  Entries are only added, so a snapshot always sees the same ones. An iterator over a live
//!       memtable may therefore release the lock between batches and find its position again by
//!       key.
//!   M3  After `freeze` nothing is inserted.
//!
//! Source: the tree is a B+ tree of fixed-size nodes instead of the usual skip list. A search in 64
//! MiB touches the prefixes of about 4 nodes instead of 20 keys all over memory.
//! Not here: range tombstones (`range_del`), which a memtable keeps apart from its entries.

mod arena;
mod iter;
mod tree;

pub(crate) use iter::MemtableIter;

use crate::key::{InternalKey, Kind, Seq, Trailer};
use crate::range_del::{MemTombstones, RangeTombstone, TombstoneHistory};
use bytes::Bytes;
use parking_lot::{RwLock, RwLockWriteGuard};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tree::Tree;

/// The result of a look-up in a memtable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemLookup {
    /// The sequence number of the newest write that the reader sees.
    pub(crate) seq: Seq,
    /// The effect of that write. Range tombstones are not considered.
    pub(crate) state: MemState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemState {
    Value(Bytes),
    Deleted,
}

/// The newest writes of one keyspace, sorted.
#[derive(Debug)]
pub(crate) struct Memtable {
    id: u64,
    live: RwLock<Tree>,
    frozen: OnceLock<Arc<Tree>>,
    /// Stored outside the lock, so that checking for an empty memtable costs one load.
    entry_count: AtomicUsize,
    entries_len_bytes: AtomicUsize,
    tombstones: MemTombstones,
}

impl Memtable {
    /// Creates an empty memtable.
    pub(crate) fn new(id: u64) -> Memtable {
        Memtable {
            id,
            live: RwLock::new(Tree::default()),
            frozen: OnceLock::new(),
            entry_count: AtomicUsize::new(0),
            entries_len_bytes: AtomicUsize::new(0),
            tombstones: MemTombstones::default(),
        }
    }

    /// Adds a put or a delete.
    ///
    /// Cost: one search, one copy of key and value.
    pub(crate) fn insert(&self, user_key: &[u8], trailer: Trailer, value: &[u8]) {
        self.writer().insert(user_key, trailer, value);
    }

    /// Takes the write lock once for several inserts.
    pub(crate) fn writer(&self) -> MemtableWriter<'_> {
        let tree = self.live.write();
        assert!(self.frozen.get().is_none(), "M3: insert into a frozen memtable");
        MemtableWriter { memtable: self, tree }
    }

    /// Adds a range tombstone: keys in `start..end` have no value from `seq` on. Calls must be in
    /// order of `seq`.
    pub(crate) fn insert_range_tombstone(&self, start: &[u8], end: &[u8], seq: Seq) {
        assert!(self.frozen.get().is_none(), "M3: range delete in a frozen memtable");
        self.tombstones.insert(start, end, seq);
    }

    /// The newest entry of `user_key` that a reader at `snapshot` sees.
    #[inline]
    pub(crate) fn get(&self, user_key: &[u8], snapshot: Seq) -> Option<MemLookup> {
        if self.entry_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.with_tree(|tree| {
            let cursor = tree.lower_bound(InternalKey::new(user_key, Trailer::seek(snapshot)))?;
            if tree.is_elsewhere(cursor, user_key) {
                return None;
            }
            let (key, value) = tree.entry(cursor);
            if key.user_key != user_key {
                return None;
            }
            let state = match key.trailer.kind() {
                Some(Kind::Put) => MemState::Value(value.to_bytes()),
                _ => MemState::Deleted,
            };
            Some(MemLookup { seq: key.trailer.seq(), state })
        })
    }

    /// The newest range tombstone at or below `snapshot` that covers `user_key`.
    #[inline]
    pub(crate) fn max_seq_covering(&self, user_key: &[u8], snapshot: Seq) -> Option<Seq> {
        self.tombstones.max_seq_covering(user_key, snapshot)
    }

    /// The range tombstones that a reader at `snapshot` sees, in pieces, for iterators. Empty if
    /// there are none.
    pub(crate) fn tombstone_views(&self, snapshot: Seq) -> Vec<Arc<TombstoneHistory>> {
        self.tombstones.views(snapshot)
    }

    /// The range tombstones as they were written, for a flush.
    pub(crate) fn range_tombstones(&self) -> Vec<RangeTombstone> {
        self.tombstones.list()
    }

    /// The memory in use: entries, nodes and range tombstones.
    pub(crate) fn len_bytes(&self) -> usize {
        self.entries_len_bytes.load(Ordering::Relaxed) + self.tombstones.len_bytes()
    }

    /// The number of entries, without range tombstones.
    pub(crate) fn entry_count(&self) -> usize {
        self.entry_count.load(Ordering::Acquire)
    }

    /// Whether the memtable has no entry and no range tombstone.
    pub(crate) fn is_empty(&self) -> bool {
        self.entry_count() == 0 && self.tombstones.is_empty()
    }

    /// Ends inserting (M3): from now on, readers take no lock. A second call has no effect.
    pub(crate) fn freeze(&self) {
        let mut live = self.live.write();
        if self.frozen.get().is_none() {
            // Set under the write lock, because a reader that takes the lock must find either the
            // live tree or the frozen one.
            let _ = self.frozen.set(Arc::new(std::mem::take(&mut *live)));
        }
    }

    /// A cursor over the entries. On a live memtable it may also return entries that are inserted
    /// later.
    pub(crate) fn iter(self: &Arc<Self>) -> MemtableIter {
        MemtableIter::new(Arc::clone(self))
    }

    #[inline]
    fn with_tree<T>(&self, look: impl FnOnce(&Tree) -> T) -> T {
        if let Some(tree) = self.frozen.get() {
            return look(tree);
        }
        let live = self.live.read();
        match self.frozen.get() {
            Some(tree) => look(tree),
            None => look(&live),
        }
    }
}

/// The write lock of a memtable.
pub(crate) struct MemtableWriter<'a> {
    memtable: &'a Memtable,
    tree: RwLockWriteGuard<'a, Tree>,
}

impl MemtableWriter<'_> {
    /// Like [`Memtable::insert`].
    #[inline]
    pub(crate) fn insert(&mut self, user_key: &[u8], trailer: Trailer, value: &[u8]) {
        self.tree.insert(InternalKey::new(user_key, trailer), value);
        let memtable = self.memtable;
        memtable.entries_len_bytes.store(self.tree.len_bytes(), Ordering::Relaxed);
        memtable.entry_count.store(self.tree.entry_count(), Ordering::Release);
    }
}

impl std::fmt::Debug for MemtableWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemtableWriter").field("memtable", &self.memtable.id).finish()
    }
}

#[cfg(test)]
mod tests;
