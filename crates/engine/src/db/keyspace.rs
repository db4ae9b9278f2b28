//! A keyspace's handle: reading and writing keys.

use crate::EngineError;
use crate::batch::{KeyspaceId, check_key, check_range, check_value};
use crate::compaction::policy::as_leveldb::counts_misses;
use crate::compaction::situation::ManualRange;
use crate::db::Db;
use crate::db::shared::Shared;
use crate::iter::IterBounds;
use crate::key::{Kind, Seq};
use crate::options::{KeyspaceOptions, ReadOptions, WriteOptions};
use crate::read::get::get;
use crate::read::range::{ReadAheadTotals, sources};
use crate::read::together::get_together;
use crate::read::{Entries, Iter, IterSources, ReadApart};
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::store::keyspace::KeyspaceState;
use crate::store::view::SuperVersion;
use crate::table::{ApartPlace, TableReadOptions, no_place};
use crate::version::{KeyRange, RunId};
use crate::watch::{Watch, unwatched};
use crate::work::compact;
use crate::work::flush;
use crate::work::write;
use bytes::Bytes;
use std::ops::{Range, RangeBounds};
use std::sync::Arc;

/// An ordered map of keys to values in a store. Cheap to clone; keeps the store open.
#[derive(Clone, Debug)]
pub struct Keyspace {
    shared: Arc<Shared>,
    state: Arc<KeyspaceState>,
}

impl AsRef<KeyspaceId> for Keyspace {
    fn as_ref(&self) -> &KeyspaceId {
        &self.state.id
    }
}

impl Keyspace {
    /// Whether `self` and `other` are keyspaces of one open store, by whichever handles.
    pub fn shares_store_with(&self, other: &Keyspace) -> bool {
        Arc::ptr_eq(self.store(), other.store())
    }

    pub(crate) fn new(shared: Arc<Shared>, state: Arc<KeyspaceState>) -> Keyspace {
        Keyspace { shared, state }
    }

    fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// The store, or the checkpoint of one, that it is of.
    pub fn db(&self) -> Db {
        Db { shared: Arc::clone(&self.shared) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The options it was created with.
    pub fn options(&self) -> &KeyspaceOptions {
        &self.state.options
    }

    /// Sets the value of `key`. Not durable until a sync; a crash that loses the write also loses
    /// everything written after it.
    ///
    /// # Errors
    /// [`EngineError::KeyLen`], [`EngineError::ValueLen`], [`EngineError::NoSpace`],
    /// [`EngineError::NoKeyspace`], [`EngineError::Poisoned`], [`EngineError::Closed`],
    /// [`EngineError::Files`], [`EngineError::Stalled`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), EngineError> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// Like [`Keyspace::put`], with options. After a no-space error ([`EngineError::is_no_space`])
    /// nothing was written: a sync alone never fails for want of space.
    ///
    /// # Errors
    /// The errors of [`Keyspace::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<(), EngineError> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        check_value(value)?;
        write::write_one(self.store(), &self.state, Kind::Put, key, value, options)
    }

    /// Deletes the value of `key`, if it has one.
    ///
    /// # Errors
    /// The errors of [`Keyspace::put`]. A delete may still succeed when puts are refused for want
    /// of space.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), EngineError> {
        self.delete_with(key, WriteOptions::default())
    }

    /// Like [`Keyspace::delete`], with options.
    ///
    /// # Errors
    /// The errors of [`Keyspace::delete`].
    pub fn delete_with(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<(), EngineError> {
        check_key(key.as_ref())?;
        write::write_one(self.store(), &self.state, Kind::Delete, key.as_ref(), &[], options)
    }

    /// Deletes the values of all keys in `range`. Costs as much as one delete.
    ///
    /// # Errors
    /// The errors of [`Keyspace::delete`], and [`EngineError::RangeOrder`].
    pub fn delete_range(&self, range: Range<impl AsRef<[u8]>>) -> Result<(), EngineError> {
        self.delete_range_with(range, WriteOptions::default())
    }

    /// Like [`Keyspace::delete_range`], with options.
    ///
    /// # Errors
    /// The errors of [`Keyspace::delete_range`].
    pub fn delete_range_with(
        &self,
        range: Range<impl AsRef<[u8]>>,
        options: WriteOptions,
    ) -> Result<(), EngineError> {
        let (start, end) = (range.start.as_ref(), range.end.as_ref());
        if !check_range(start, end)? {
            // As with an empty batch, a sync makes earlier writes durable.
            self.state.check_exists()?;
            return if options.sync { write::sync(self.store()) } else { Ok(()) };
        }
        write::write_one(self.store(), &self.state, Kind::RangeDelete, start, end, options)
    }

    /// The value of `key`.
    ///
    /// Cost: memory only if the key is in a memtable, or if the filters show that no table has it.
    /// Otherwise one read of one block, unless it is cached.
    ///
    /// # Errors
    /// [`EngineError::KeyLen`], [`EngineError::NoKeyspace`], [`EngineError::Corrupt`],
    /// [`EngineError::Files`].
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, EngineError> {
        let key = key.as_ref();
        let store = self.store();
        store.runtime.scheduler.yield_now();
        check_key(key)?;
        // Y2: load the view first, the number second.
        let view = self.state.view();
        let seq = store.visible();
        self.state.check_exists()?;
        self.get_in(&view, key, seq)
    }

    /// The value that `key` had at `snapshot`.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`], and [`EngineError::ForeignSnapshot`].
    pub fn get_at(
        &self,
        snapshot: &Snapshot,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>, EngineError> {
        let store = self.store();
        store.runtime.scheduler.yield_now();
        check_key(key.as_ref())?;
        let seq = self.check_snapshot(snapshot)?;
        // Load the view before the check: a dropped keyspace has an empty view.
        let view = self.state.view();
        self.state.check_exists()?;
        self.get_in(&view, key.as_ref(), seq)
    }

    /// The value of `key` in `view`, as of `seq`.
    #[inline]
    fn get_in(
        &self,
        view: &SuperVersion,
        key: &[u8],
        seq: Seq,
    ) -> Result<Option<Bytes>, EngineError> {
        let store = self.store();
        let mut missed = None;
        let value = get(view, key, seq, &store.cache, &mut missed)?;
        if let Some((level, slot)) = missed
            && counts_misses(&self.state.fitted)
            && self.state.missed.count(&view.version, level, slot)
        {
            store.runtime.scheduler.notify();
        }
        Ok(value)
    }

    /// The values that `keys` had at `snapshot`, in the order of `keys`. Values that are apart are read with one batch,
    /// and neighbours on the drive with one read.
    ///
    /// Cost: a look-up for each key; memory for all values, and for the bytes that were read for them.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get_at`], for any of the keys. It does not show for which: get them one by one then.
    pub fn get_together_at<K: AsRef<[u8]>>(
        &self,
        snapshot: &Snapshot,
        keys: &[K],
    ) -> Result<Vec<Option<Bytes>>, EngineError> {
        let store = self.store();
        store.runtime.scheduler.yield_now();
        for key in keys {
            check_key(key.as_ref())?;
        }
        let seq = self.check_snapshot(snapshot)?;
        // Load the view before the check: a dropped keyspace has an empty view.
        let view = self.state.view_arc();
        self.state.check_exists()?;
        get_together(&view, keys, seq, &store.cache)
    }

    /// The values of all `keys` at one moment, in the order of `keys`.
    ///
    /// Cost: less than one get per key. Keys are looked up in key order, so that neighbours share
    /// blocks.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>, EngineError> {
        let store = self.store();
        store.runtime.scheduler.yield_now();
        for key in keys {
            check_key(key.as_ref())?;
        }
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by(|&a, &b| keys[a].as_ref().cmp(keys[b].as_ref()));
        let view = self.state.view_arc();
        let seq = store.visible();
        self.state.check_exists()?;
        let mut values = vec![None; keys.len()];
        for at in order {
            values[at] = self.get_in(&view, keys[at].as_ref(), seq)?;
        }
        Ok(values)
    }

    /// A cursor over the keys, from `options.lower` to `options.upper`.
    ///
    /// # Errors
    /// [`EngineError::NoKeyspace`], [`EngineError::ForeignSnapshot`], [`EngineError::Corrupt`],
    /// [`EngineError::Files`].
    pub fn iter(&self, options: ReadOptions<'_>) -> Result<Iter, EngineError> {
        let store = self.store();
        store.runtime.scheduler.yield_now();
        let view = self.state.view_arc();
        let seq = match options.snapshot {
            Some(snapshot) => self.check_snapshot(snapshot)?,
            None => store.visible(),
        };
        self.state.check_exists()?;
        let bounds = IterBounds { lower: options.lower, upper: options.upper };
        let read = TableReadOptions {
            until: bounds.upper.clone(),
            fill_cache: options.fill_cache,
            read_ahead_bytes_min: options.read_ahead_bytes_min,
            read_ahead_bytes: options.read_ahead_bytes,
            ..TableReadOptions::default()
        };
        let read = match &store.losses {
            Some(losses) => read.passing(losses),
            None => read,
        };
        let skips_damage = read.losses.is_some();
        let totals = ReadAheadTotals {
            most_bytes: options.read_ahead_bytes_total,
            first_bytes: if skips_damage { 0 } else { store.options.seek_read_len_bytes },
        };
        let (entries, tombstones) = sources(&view, seq, &store.cache, &read, totals, &bounds)?;
        let (version, cache) = (Arc::clone(&view.version), Arc::clone(&store.cache));
        let read_apart = Arc::new(move |key: &[u8], entry: &[u8], out: &mut Vec<u8>| {
            let place = ApartPlace::decode(entry).ok_or_else(|| no_place("a table"))?;
            version.read_apart(place, key, &cache, out)
        });
        let pin = Some(Box::new((view, Arc::clone(&self.shared))) as Box<_>);
        let losses = store.losses.clone();
        let read_apart = Some(read_apart as Arc<ReadApart>);
        let sources = IterSources { entries, tombstones, read_apart, losses, pin };
        Ok(Iter::new(sources, seq, bounds))
    }

    /// The entries in `range` in key order, from either end.
    ///
    /// # Errors
    /// The errors of [`Keyspace::iter`]; errors while iterating are items.
    pub fn range<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<Entries, EngineError> {
        let options = ReadOptions::default().within(range);
        Ok(Entries::from(self.iter(options)?))
    }

    /// The entries whose keys start with `prefix` in key order, from either end.
    ///
    /// # Errors
    /// The errors of [`Keyspace::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Entries, EngineError> {
        let options = ReadOptions::default().with_prefix(prefix);
        Ok(Entries::from(self.iter(options)?))
    }

    /// Merges everything in `range` down to the last level that holds any of it. A bound of `None`
    /// is unbounded.
    ///
    /// Overwritten and deleted data are dropped, unless a snapshot still sees them. If data were
    /// overwritten while a snapshot saw them and are in the last level already, they are dropped
    /// when that part is next rewritten.
    ///
    /// Cost: reads and writes the range about once per level.
    ///
    /// # Errors
    /// [`EngineError::NoKeyspace`], [`EngineError::Poisoned`], [`EngineError::Files`],
    /// [`EngineError::Corrupt`], [`EngineError::Stalled`].
    pub fn compact_range(
        &self,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<(), EngineError> {
        self.compact_range_with(start, end, &mut unwatched)
    }

    /// Like [`Keyspace::compact_range`], with a watch. The call reports its progress to `watch`
    /// after every step, and `watch` may stop it. What was merged before that stays merged.
    ///
    /// # Errors
    /// The errors of [`Keyspace::compact_range`], and [`EngineError::Stopped`].
    pub fn compact_range_with(
        &self,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        watch: &mut Watch<'_>,
    ) -> Result<(), EngineError> {
        let store = self.store();
        store.check_writable()?;
        self.state.check_exists()?;
        flush::flush_all(store)?;
        let range = ManualRange {
            start: start.map(Bytes::copy_from_slice),
            end: end.map(Bytes::copy_from_slice),
            run_max: RunId(store.new_id()),
        };
        compact::compact_range(store, &self.state, &range, watch)
    }

    /// The approximate length of the tables' data in `range`; data in memtables are not counted.
    ///
    /// # Errors
    /// [`EngineError::NoKeyspace`], [`EngineError::Corrupt`], [`EngineError::Files`].
    pub fn approximate_size(&self, range: Range<impl AsRef<[u8]>>) -> Result<u64, EngineError> {
        let view = self.state.view_arc();
        self.state.check_exists()?;
        let (start, end) = (range.start.as_ref(), range.end.as_ref());
        if start >= end {
            return Ok(0);
        }
        let range = KeyRange {
            smallest: Bytes::copy_from_slice(start),
            largest: Bytes::copy_from_slice(end),
            largest_excluded: true,
        };
        let mut len_bytes = 0;
        for level in &view.version.levels {
            for slot in level.overlapping(&range) {
                let is_inside = &slot.meta.smallest[..] >= start && slot.meta.ends_before(end);
                if is_inside && !slot.meta.has_front {
                    len_bytes += slot.meta.len_bytes;
                    continue;
                }
                let table = slot.open(&self.store().cache)?;
                let to = table.approximate_offset(end)?;
                let from = table.approximate_offset(start.max(&slot.meta.smallest))?;
                len_bytes += to.saturating_sub(from);
            }
        }
        Ok(len_bytes)
    }

    fn check_snapshot(&self, snapshot: &Snapshot) -> Result<Seq, EngineError> {
        if !snapshot.is_of(&self.store().snapshots) {
            return Err(EngineError::ForeignSnapshot);
        }
        Ok(snapshot.seq)
    }
}
