//! The block cache: raw blocks of open tables, within a budget of bytes.
//!
//! The key of a cached block is the number that the cache gave its table at open, plus the block's
//! offset. The number of shards depends on the budget and not on the machine, so that the same run
//! evicts the same blocks everywhere.
//!
//! A full cache admits a data block only on its second miss within a limited time. Admitting every
//! block would cost a third of a random read: it writes memory that no CPU cache holds, and it
//! evicts another block. Most blocks of a large store are evicted before they are read again. A
//! block that is not admitted is read in a buffer that stays hot. Among admitted blocks, the policy
//! (`quick_cache`, a relative of Clock-Pro) keeps those that are read again.
//!
//! Source: the doorkeeper of Einziger, Friedman, Manes, "TinyLFU" (2017).
//!
//! Not here: filters and top indexes, which stay in memory while their table is open.

use crate::table::IndexPartition;
use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The memory of a cached block besides its bytes: key, value, links and allocation header.
const ENTRY_OVERHEAD_BYTES: u64 = 128;
const SHARD_COUNT_MAX: u64 = 16;
/// The smallest shard. A smaller one would refuse blocks for which the whole cache has room.
const SHARD_LEN_BYTES_MIN: u64 = 4 << 20;
/// The assumed mean length of a block. It only sets the initial size of the cache's own tables.
const BLOCK_LEN_BYTES_GUESS: u64 = 4 << 10;

/// How many misses the doorkeeper remembers per block that fits into the cache. It must remember a
/// block longer than the cache would have kept it.
/// must remember longer than the cache itself would have kept a block.
const REMEMBERED_PER_BLOCK: u64 = 4;
const REMEMBERED_COUNT_MAX: u64 = 1 << 20;

/// The number of an open table in the cache. Each open of a table gets a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheId(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BlockKey {
    table: u64,
    offset: u64,
}

#[derive(Clone, Debug)]
enum CachedBlock {
    Data(Bytes),
    Index(Arc<IndexPartition>),
}

#[derive(Clone, Debug)]
struct BlockWeight;

impl Weighter<BlockKey, CachedBlock> for BlockWeight {
    fn weight(&self, _: &BlockKey, block: &CachedBlock) -> u64 {
        let len_bytes = match block {
            CachedBlock::Data(data) => data.len(),
            CachedBlock::Index(index) => index.memory_len_bytes(),
        };
        len_bytes as u64 + ENTRY_OVERHEAD_BYTES
    }
}

/// Mixes the two numbers of a key. No adversary chooses them.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product =
            u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

type Blocks = Cache<
    BlockKey,
    CachedBlock,
    BlockWeight,
    BuildHasherDefault<KeyHasher>,
    DefaultLifecycle<BlockKey, CachedBlock>,
>;

/// The cache's counters and its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheMetrics {
    pub(crate) hit_count: u64,
    pub(crate) miss_count: u64,
    pub(crate) used_bytes: u64,
    pub(crate) capacity_bytes: u64,
    pub(crate) block_count: u64,
}

/// The cached blocks, shared by all tables of a store.
#[derive(Debug)]
pub(crate) struct BlockCache {
    blocks: Blocks,
    next_id: AtomicU64,
    /// All bytes ever inserted. Below the capacity, there is still room.
    inserted_bytes: AtomicU64,
    capacity_bytes: u64,
    /// Fingerprints of missed blocks. A newer one replaces an older one in the same slot.
    missed: Box<[AtomicU32]>,
}

impl BlockCache {
    /// Creates a cache for at most `capacity_bytes`, which includes the overhead of each block.
    pub(crate) fn new(capacity_bytes: u64) -> BlockCache {
        let remembered = (capacity_bytes / BLOCK_LEN_BYTES_GUESS * REMEMBERED_PER_BLOCK)
            .clamp(1, REMEMBERED_COUNT_MAX)
            .next_power_of_two();
        let shards = (capacity_bytes / SHARD_LEN_BYTES_MIN).clamp(1, SHARD_COUNT_MAX);
        let options = OptionsBuilder::new()
            .shards(shards as usize)
            .weight_capacity(capacity_bytes)
            .estimated_items_capacity((capacity_bytes / BLOCK_LEN_BYTES_GUESS).max(1) as usize)
            .build()
            .expect("all that the builder needs is set");
        BlockCache {
            blocks: Cache::with_options(
                options,
                BlockWeight,
                BuildHasherDefault::default(),
                DefaultLifecycle::default(),
            ),
            next_id: AtomicU64::new(0),
            inserted_bytes: AtomicU64::new(0),
            capacity_bytes,
            missed: (0..remembered).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Whether a data block that was just missed and read should be cached. If not, the cache
    /// remembers the miss.
    #[inline]
    pub(crate) fn admits(&self, table: CacheId, offset: u64) -> bool {
        if self.inserted_bytes.load(Ordering::Relaxed) < self.capacity_bytes {
            return true;
        }
        let mut hasher = KeyHasher::default();
        hasher.write_u64(table.0);
        hasher.write_u64(offset);
        let hash = hasher.finish();
        let fingerprint = (hash >> 32) as u32;
        let place = &self.missed[hash as usize & (self.missed.len() - 1)];
        if place.load(Ordering::Relaxed) == fingerprint {
            return true;
        }
        place.store(fingerprint, Ordering::Relaxed);
        false
    }

    /// Returns a number for a table that is being opened.
    pub(crate) fn new_id(&self) -> CacheId {
        CacheId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// The data block at `offset`.
    #[inline]
    pub(crate) fn get_data(&self, table: CacheId, offset: u64) -> Option<Bytes> {
        match self.blocks.get(&BlockKey { table: table.0, offset }) {
            Some(CachedBlock::Data(block)) => Some(block),
            _ => None,
        }
    }

    /// Inserts a data block.
    pub(crate) fn insert_data(&self, table: CacheId, offset: u64, block: Bytes) {
        let weight = block.len() as u64 + ENTRY_OVERHEAD_BYTES;
        self.inserted_bytes.fetch_add(weight, Ordering::Relaxed);
        self.blocks.insert(BlockKey { table: table.0, offset }, CachedBlock::Data(block));
    }

    /// The index partition at `offset`.
    #[inline]
    pub(crate) fn get_index(&self, table: CacheId, offset: u64) -> Option<Arc<IndexPartition>> {
        match self.blocks.get(&BlockKey { table: table.0, offset }) {
            Some(CachedBlock::Index(index)) => Some(index),
            _ => None,
        }
    }

    /// Inserts an index partition.
    pub(crate) fn insert_index(&self, table: CacheId, offset: u64, index: Arc<IndexPartition>) {
        self.blocks.insert(BlockKey { table: table.0, offset }, CachedBlock::Index(index));
    }

    /// The cache's counters and its content.
    pub(crate) fn metrics(&self) -> CacheMetrics {
        CacheMetrics {
            hit_count: self.blocks.hits(),
            miss_count: self.blocks.misses(),
            used_bytes: self.blocks.weight(),
            capacity_bytes: self.blocks.capacity(),
            block_count: self.blocks.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_within_its_budget() {
        let cache = BlockCache::new(1 << 20);
        let id = cache.new_id();
        for offset in 0..1000 {
            cache.insert_data(id, offset * 4096, Bytes::from(vec![1; 4096]));
        }
        let metrics = cache.metrics();
        assert!(metrics.used_bytes <= 1 << 20, "{metrics:?}");
        assert!(metrics.used_bytes > 1 << 19, "{metrics:?}");
        let found = (0..1000).filter(|i| cache.get_data(id, i * 4096).is_some()).count() as u64;
        assert_eq!(found, metrics.block_count);
        assert_eq!(cache.metrics().hit_count, found);
    }

    #[test]
    fn a_full_cache_admits_what_is_missed_twice() {
        let cache = BlockCache::new(1 << 20);
        let id = cache.new_id();
        let mut offset = 0;
        while cache.admits(id, offset) {
            cache.insert_data(id, offset, Bytes::from(vec![1; 4096]));
            offset += 4096;
        }
        assert!(offset >= (1 << 20) - (64 << 10), "admits all while there is room");
        assert!(cache.admits(id, offset));
        let other = cache.new_id();
        assert!(!cache.admits(other, offset));
        let forgotten = (0..100_000).filter(|i| cache.admits(other, offset + 1 + i)).count();
        assert!(forgotten < 10, "different blocks are taken for each other {forgotten} times");
    }

    #[test]
    fn tables_do_not_see_each_other() {
        let cache = BlockCache::new(1 << 20);
        let (a, b) = (cache.new_id(), cache.new_id());
        cache.insert_data(a, 0, Bytes::from_static(b"a"));
        assert_eq!(cache.get_data(b, 0), None);
        assert!(cache.get_index(a, 0).is_none());
    }
}
