//! An iterator over one table, in both directions.
//!
//! Cached blocks come from the cache. Other blocks are read with growing read-ahead. Index
//! partitions are read ahead too: reading them one by one would move the head away from the data
//! each time. If the options allow it, the iterator offers the blocks it reads to the cache, but
//! only the first 256 KiB after a seek: a long scan would evict blocks that point reads need.
//! Blocks that the cache does not take go through reused buffers, and an uncompressed one is not
//! copied at all.

use super::apart::ApartPlace;
use super::block::{BlockCursor, Damage};
use super::format::BlockHandle;
use super::index::IndexPartition;
use super::read_ahead::ReadAhead;
use super::reader::Table;
use super::reading::cannot_read;
use super::values::{ValuePlace, Values};
use crate::EngineError;
use crate::first_reads::{FirstRead, SeekTo};
use crate::iter::InternalIter;
use crate::key::{ApartEntry, InternalKey, Kind, Trailer};
use crate::losses::{Losses, LostKeys, keys_between};
use bytes::Bytes;
use imbrex_files::{Activity, FileReader};
use std::ops::Range;
use std::sync::Arc;

/// How an iterator reads.
#[derive(Clone, Debug)]
pub(crate) struct TableReadOptions {
    /// Whether the blocks that are read go into the cache.
    pub(crate) fill_cache: bool,
    /// The limit of read-ahead.
    pub(crate) read_ahead_bytes: usize,
    /// How much the first read after a seek fetches; 0 for one block.
    pub(crate) read_ahead_bytes_min: usize,
    /// The whole table will be read in order, as in a compaction. The iterator then reads ahead
    /// from the first block on and does not look into the cache.
    pub(crate) sequential: bool,
    /// What the reads serve, for the drive's counters.
    pub(crate) activity: Activity,
    /// The first key that will not be read. Read-ahead stops there.
    pub(crate) until: Option<Bytes>,
    /// The record of skipped damage. With it, unreadable blocks and partitions are left out instead
    /// of failing the move.
    pub(crate) losses: Option<Arc<Losses>>,
}

impl TableReadOptions {
    /// The same options, but damage is skipped. Read-ahead is off, so that as little as possible is
    /// skipped with the damage.
    pub(crate) fn passing(self, losses: &Arc<Losses>) -> TableReadOptions {
        let losses = Some(Arc::clone(losses));
        TableReadOptions { losses, read_ahead_bytes: 0, read_ahead_bytes_min: 0, ..self }
    }
}

impl Default for TableReadOptions {
    fn default() -> TableReadOptions {
        TableReadOptions {
            fill_cache: true,
            read_ahead_bytes_min: 0,
            read_ahead_bytes: 256 << 10,
            sequential: false,
            activity: Activity::User,
            until: None,
            losses: None,
        }
    }
}

/// The read-ahead limit for the index: enough for about 40 MB of data.
const INDEX_AHEAD_LEN_BYTES: usize = 256 << 10;

/// The cost of reading one value alone: half a rotation of a disk, as bytes of transfer.
const APART_COST_BYTES: u64 = 512 << 10;

/// How much a scan may insert into the cache after a seek.
const CACHED_SCAN_LEN_BYTES: u64 = 256 << 10;

/// Where the bytes of the current block are.
#[derive(Clone, Debug)]
enum Place {
    /// In `shared`, which the cache shares.
    Shared,
    /// In `owned`, decompressed for this iterator alone.
    Owned,
    /// In `read_ahead`, because the block is not compressed.
    Window(Range<usize>),
}

/// Which of the two makes the read with which a seek begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstReadBy {
    /// The iterator, during the seek.
    Iterator,
    /// The caller, together with those of other iterators. The seek stops and returns the read.
    Caller,
}

/// How loading a partition or a block went.
#[derive(Debug)]
enum Loaded {
    Done,
    /// There is none.
    Nothing,
    /// The caller reads it first.
    Needs(FirstRead),
}

/// A cursor over the entries of a table.
#[derive(Debug)]
pub(crate) struct TableIter {
    table: Arc<Table>,
    /// The file and the values of the table, for reads that serve the activity of the options.
    file: Arc<dyn FileReader>,
    values: Option<Arc<Values>>,
    options: TableReadOptions,
    partition_index: usize,
    partition: Option<Arc<IndexPartition>>,
    block_index: usize,
    /// The offset of the loaded block.
    loaded: Option<u64>,
    /// Where the bytes of that block are.
    place: Place,
    shared: Bytes,
    owned: Vec<u8>,
    cursor: BlockCursor,
    read_ahead: ReadAhead,
    index_read_ahead: ReadAhead,
    /// The offset of a partition or block that was just not found in the cache. It is not looked up
    /// a second time when the caller has read it.
    missing: Option<u64>,
    /// The stored length of the blocks loaded since the last seek.
    scanned_len_bytes: u64,
    /// The part of that length that was not in the cache.
    missed_len_bytes: u64,
    /// The current value, if it was loaded from the log.
    logged: Vec<u8>,
    /// The whole log, if it was read in one go.
    log: Option<Vec<u8>>,
    /// The iterator returns no entry before this key (V5 of `version`).
    front: Option<Bytes>,
    /// Read-ahead stops at this offset.
    data_end: u64,
}

impl TableIter {
    pub(super) fn new(table: Arc<Table>, options: TableReadOptions) -> TableIter {
        let index_ahead_len_bytes =
            if options.losses.is_some() { 0 } else { INDEX_AHEAD_LEN_BYTES };
        let (file, values) = table.sources_for(options.activity);
        TableIter {
            table,
            file,
            values,
            partition_index: 0,
            partition: None,
            block_index: 0,
            loaded: None,
            place: Place::Shared,
            shared: Bytes::new(),
            owned: Vec::new(),
            cursor: BlockCursor::default(),
            read_ahead: ReadAhead::new(
                if options.sequential {
                    options.read_ahead_bytes
                } else {
                    options.read_ahead_bytes_min
                },
                options.read_ahead_bytes,
            ),
            index_read_ahead: ReadAhead::new(
                if options.sequential { index_ahead_len_bytes } else { 0 },
                index_ahead_len_bytes,
            ),
            missing: None,
            scanned_len_bytes: 0,
            missed_len_bytes: 0,
            logged: Vec::new(),
            log: None,
            front: None,
            data_end: 0,
            options,
        }
    }

    /// The same iterator, which returns no entry before `front`.
    pub(crate) fn starting_at_front(self, front: Option<&Bytes>) -> TableIter {
        TableIter { front: front.cloned(), ..self }
    }

    /// The next seek continues the scan of `before`, which read another table: read-ahead goes on as
    /// far as it had come.
    pub(crate) fn go_on_from(&mut self, before: &TableIter) {
        self.read_ahead.go_on_from(&before.read_ahead);
        self.index_read_ahead.go_on_from(&before.index_read_ahead);
    }

    /// Moves to `to`, or returns the read that the move needs first. Then the iterator has no
    /// position.
    pub(super) fn seek_to(
        &mut self,
        to: SeekTo<'_>,
        read_by: FirstReadBy,
    ) -> Result<Option<FirstRead>, EngineError> {
        let reads_alone = self.options.sequential || self.options.losses.is_some();
        let read_by = if reads_alone { FirstReadBy::Iterator } else { read_by };
        let front = self.front.clone();
        let to = match (to, &front) {
            (SeekTo::First, Some(front)) => SeekTo::AtOrAfter(before_all(front)),
            (SeekTo::AtOrAfter(target), Some(front)) if target.user_key < front => {
                SeekTo::AtOrAfter(before_all(front))
            }
            _ => to,
        };
        let is_forward = matches!(to, SeekTo::First | SeekTo::AtOrAfter(_));
        let read = match self.try_seek(to, read_by) {
            Ok(read) => read,
            Err(error) => {
                let go_on = if is_forward { TableIter::next_block } else { TableIter::prev_block };
                self.pass_over(error, go_on)?;
                None
            }
        };
        if !is_forward {
            self.stop_at_front();
        }
        Ok(read)
    }

    /// Whether `user_key` is before the front.
    #[inline]
    fn is_before_front(&self, user_key: &[u8]) -> bool {
        self.front.as_ref().is_some_and(|front| user_key < front)
    }

    /// Called after a move backward. The iterator has no position before the front.
    #[inline]
    fn stop_at_front(&mut self) {
        if self.front.is_some()
            && self.cursor.valid()
            && self.is_before_front(self.cursor.key(self.block()).user_key)
        {
            self.cursor.invalidate();
        }
    }

    /// The value bytes of the entry: the value itself, or its place in the log.
    #[inline]
    fn entry(&self) -> &[u8] {
        &self.block()[self.cursor.value_range()]
    }

    /// Whether those bytes are a place in the log.
    #[inline]
    fn is_logged(&self) -> bool {
        self.table.values.is_some() && self.cursor.trailer().kind() == Some(Kind::PutAt)
    }

    #[cold]
    fn load_logged(&mut self) -> Result<u64, EngineError> {
        let Some(values) = &self.values else { return Ok(0) };
        let is_at_once =
            self.options.sequential && values.len_bytes() <= self.options.read_ahead_bytes as u64;
        if is_at_once && self.log.is_none() {
            self.log = Some(values.read_all()?);
        }
        let block = bytes_of(&self.place, &self.shared, &self.owned, &self.read_ahead);
        let key = self.cursor.key(block).user_key;
        let entry = &block[self.cursor.value_range()];
        values.read(key, entry, self.log.as_deref(), &mut self.logged)?;
        Ok(if is_at_once { 0 } else { APART_COST_BYTES })
    }

    #[inline]
    fn block(&self) -> &[u8] {
        bytes_of(&self.place, &self.shared, &self.owned, &self.read_ahead)
    }

    /// Applies `step` to the cursor and its block.
    #[inline]
    fn step(
        &mut self,
        step: impl FnOnce(&mut BlockCursor, &[u8]) -> Result<(), Damage>,
    ) -> Result<(), EngineError> {
        let block = bytes_of(&self.place, &self.shared, &self.owned, &self.read_ahead);
        match step(&mut self.cursor, block) {
            Ok(()) => Ok(()),
            Err(damage) => Err(self.damaged(damage)),
        }
    }

    #[cold]
    fn damaged(&mut self, damage: Damage) -> EngineError {
        self.cursor.invalidate();
        self.table.damaged_block(self.loaded.take().unwrap_or(0), damage.0)
    }

    /// Loads index partition `index`.
    fn load_partition(
        &mut self,
        index: usize,
        read_by: FirstReadBy,
    ) -> Result<Loaded, EngineError> {
        if index >= self.table.top_index.len() {
            return Ok(Loaded::Nothing);
        }
        if self.partition.is_some() && self.partition_index == index {
            return Ok(Loaded::Done);
        }
        // If the read fails, the iterator is at a partition without blocks.
        (self.partition, self.partition_index, self.block_index) = (None, index, 0);
        let table = &self.table;
        let handle = table.top_index.handle(index);
        let range = handle.offset..handle.end();
        let is_missing = self.missing.take() == Some(handle.offset);
        let known = if is_missing { None } else { table.partition_in_memory(index) };
        let ahead = &mut self.index_read_ahead;
        let partition = if let Some(partition) = known {
            ahead.skip(range);
            partition
        } else {
            if read_by == FirstReadBy::Caller
                && let Some(range) = ahead.first_range(&range, table.index_end())
            {
                self.missing = Some(handle.offset);
                return Ok(Loaded::Needs(FirstRead { file: Arc::clone(&self.file), range }));
            }
            let fill_cache = self.options.fill_cache && !self.options.sequential;
            table.partition_ahead(&*self.file, index, fill_cache, ahead)?
        };
        self.partition = Some(partition);
        self.data_end = self.data_end_in_partition();
        Ok(Loaded::Done)
    }

    /// The end of the last block of the partition that will be read; the end of all data if that
    /// block is in a later partition.
    fn data_end_in_partition(&self) -> u64 {
        let last = match (&self.options.until, &self.partition) {
            (Some(until), Some(partition)) => {
                let at = partition.find(before_all(until));
                (at < partition.len()).then(|| partition.handle(at).end())
            }
            _ => None,
        };
        last.unwrap_or(self.table.footer.data_len_bytes)
    }

    fn block_count(&self) -> usize {
        self.partition.as_ref().map_or(0, |partition| partition.len())
    }

    /// Loads block `index` of the partition.
    fn load_block(&mut self, index: usize, read_by: FirstReadBy) -> Result<Loaded, EngineError> {
        self.cursor.invalidate();
        let Some(partition) = &self.partition else { return Ok(Loaded::Nothing) };
        let handle = partition.handle(index);
        self.block_index = index;
        if self.loaded == Some(handle.offset) {
            return Ok(Loaded::Done);
        }
        self.loaded = None;
        // If the read fails, `place` must not point into a buffer that has changed.
        self.place = Place::Shared;
        self.shared = Bytes::new();
        let is_missing = self.missing.take() == Some(handle.offset) || self.streams();
        let cached = if is_missing { None } else { self.table.cached_data_block(handle.offset) };
        if let Some(block) = cached {
            self.shared = block;
            self.place = Place::Shared;
            self.read_ahead.skip(handle.offset..handle.end());
        } else {
            let wanted = handle.offset..handle.end();
            if read_by == FirstReadBy::Caller
                && let Some(range) = self.read_ahead.first_range(&wanted, self.data_end)
            {
                self.missing = Some(handle.offset);
                return Ok(Loaded::Needs(FirstRead { file: Arc::clone(&self.file), range }));
            }
            let is_short = self.scanned_len_bytes < CACHED_SCAN_LEN_BYTES;
            self.read_block(handle, self.options.fill_cache && is_short)?;
            self.missed_len_bytes += handle.len_bytes;
        }
        self.scanned_len_bytes += handle.len_bytes;
        self.loaded = Some(handle.offset);
        self.step(|cursor, block| cursor.open(block))?;
        Ok(Loaded::Done)
    }

    /// Whether to bypass the cache. In a long scan that had to read a quarter of its blocks,
    /// read-ahead has fetched the cached blocks as well, and its copy is warmer.
    fn streams(&self) -> bool {
        let is_long = self.scanned_len_bytes >= CACHED_SCAN_LEN_BYTES;
        self.options.sequential || is_long && self.missed_len_bytes * 4 >= self.scanned_len_bytes
    }

    /// Reads a block that is not cached.
    fn read_block(&mut self, handle: BlockHandle, may_fill: bool) -> Result<(), EngineError> {
        let table = &self.table;
        let (offset, len_bytes) = (handle.offset, handle.len_bytes as usize);
        let range = self
            .read_ahead
            .read(&*self.file, offset, len_bytes, self.data_end)
            .map_err(|e| cannot_read("data block", table.name(), offset, e))?;
        let block = table.stored_data_block(offset, self.read_ahead.bytes(range.clone()))?;
        self.place = if may_fill && table.cache_admits(offset) {
            self.shared = table.raw_data_block(offset, block)?;
            table.cache_data_block(offset, self.shared.clone());
            Place::Shared
        } else if block.is_raw() {
            Place::Window(range.start..range.start + block.payload.len())
        } else {
            table.raw_data_block_into(offset, block, &mut self.owned)?;
            Place::Owned
        };
        Ok(())
    }

    /// Moves to the first entry of the next block, if there is one.
    fn next_block(&mut self) -> Result<(), EngineError> {
        let next = self.block_index + 1;
        if next < self.block_count() {
            self.load_block(next, FirstReadBy::Iterator)?;
        } else if self.has_partition(self.partition_index + 1)? {
            self.load_block(0, FirstReadBy::Iterator)?;
        } else {
            self.cursor.invalidate();
            return Ok(());
        }
        self.step(BlockCursor::seek_to_first)
    }

    /// Moves to the last entry of the previous block, if there is one.
    fn prev_block(&mut self) -> Result<(), EngineError> {
        if self.block_index > 0 {
            self.load_block(self.block_index - 1, FirstReadBy::Iterator)?;
        } else if self.partition_index > 0 && self.has_partition(self.partition_index - 1)? {
            self.load_block(self.block_count() - 1, FirstReadBy::Iterator)?;
        } else {
            self.cursor.invalidate();
            return Ok(());
        }
        self.step(BlockCursor::seek_to_last)
    }

    /// Loads index partition `index`. Returns false if it does not exist.
    fn has_partition(&mut self, index: usize) -> Result<bool, EngineError> {
        let loaded = self.load_partition(index, FirstReadBy::Iterator)?;
        Ok(matches!(loaded, Loaded::Done))
    }

    /// Loads the block in which the move to `to` begins: for a key the first block that could have
    /// it or a later key.
    fn load_block_of(
        &mut self,
        to: SeekTo<'_>,
        read_by: FirstReadBy,
    ) -> Result<Loaded, EngineError> {
        self.start_seek(to);
        let top = &self.table.top_index;
        let index = match to {
            SeekTo::First => 0,
            SeekTo::Last => top.len().saturating_sub(1),
            SeekTo::AtOrAfter(target) | SeekTo::Before(target) => top.find(target),
        };
        match self.load_partition(index, read_by)? {
            Loaded::Done => {}
            other => return Ok(other),
        }
        let index = match (to, &self.partition) {
            (SeekTo::Last, Some(partition)) => partition.len() - 1,
            (SeekTo::AtOrAfter(target) | SeekTo::Before(target), Some(partition)) => {
                partition.find(target)
            }
            _ => 0,
        };
        if index >= self.block_count() {
            // By the top index, the partition reaches at least as far as the key.
            self.block_index = index;
            let offset = self.table.top_index.handle(self.partition_index).offset;
            return Err(super::format::corrupt(
                "index partition",
                self.table.name(),
                offset,
                "it ends before its separator in the top index",
            ));
        }
        self.load_block(index, read_by)
    }

    /// Like `seek_to`, but damage is an error, and the front is ignored.
    fn try_seek(
        &mut self,
        to: SeekTo<'_>,
        read_by: FirstReadBy,
    ) -> Result<Option<FirstRead>, EngineError> {
        match (self.load_block_of(to, read_by)?, to) {
            (Loaded::Needs(read), _) => return Ok(Some(read)),
            (Loaded::Nothing, SeekTo::Before(_)) => return self.try_seek(SeekTo::Last, read_by),
            (Loaded::Nothing, _) => return Ok(None),
            (Loaded::Done, _) => {}
        }
        match to {
            SeekTo::First => self.step(BlockCursor::seek_to_first)?,
            SeekTo::Last => self.step(BlockCursor::seek_to_last)?,
            SeekTo::AtOrAfter(target) => {
                self.step(|cursor, block| cursor.seek(block, target))?;
                if !self.cursor.valid() {
                    self.next_block()?;
                }
            }
            SeekTo::Before(target) => {
                self.step(|cursor, block| cursor.seek_before(block, target))?;
                if !self.cursor.valid() {
                    self.prev_block()?;
                }
            }
        }
        Ok(None)
    }

    /// Handles the error of a move. If it is damage to skip, continues with `go_on`.
    #[cold]
    fn pass_over(
        &mut self,
        error: EngineError,
        go_on: fn(&mut TableIter) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.pass(error)?;
        while let Err(error) = go_on(self) {
            self.pass(error)?;
        }
        Ok(())
    }

    /// Records the current block or partition as lost, if damage may be skipped.
    fn pass(&self, error: EngineError) -> Result<(), EngineError> {
        let Some(losses) = &self.options.losses else { return Err(error) };
        let top = &self.table.top_index;
        let before = self.partition_index.checked_sub(1).map(|index| top.separator(index));
        let whole = (before, top.separator(self.partition_index));
        let (lower, upper) = match &self.partition {
            Some(partition) if self.block_index < partition.len() => {
                let before = self.block_index.checked_sub(1).map(|at| partition.separator(at));
                (before.or(whole.0), partition.separator(self.block_index))
            }
            _ => whole,
        };
        let (lower, upper) = (lower.map(|key| key.user_key), upper.user_key);
        losses.pass(error, &keys_between(lower, upper))?;
        losses.note_keys(LostKeys {
            file: Some(self.table.name().to_owned()),
            from: lower.map(<[u8]>::to_vec),
            upto: Some(upper.to_vec()),
            ..LostKeys::default()
        });
        Ok(())
    }

    fn start_seek(&mut self, to: SeekTo<'_>) {
        let is_backward = matches!(to, SeekTo::Last | SeekTo::Before(_));
        self.cursor.invalidate();
        self.scanned_len_bytes = 0;
        self.missed_len_bytes = 0;
        self.read_ahead.restart(is_backward);
        self.index_read_ahead.restart(is_backward);
    }
}

/// A seek target before every version of `user_key`.
fn before_all(user_key: &[u8]) -> InternalKey<'_> {
    InternalKey::new(user_key, Trailer(u64::MAX))
}

#[inline]
fn bytes_of<'a>(
    place: &Place,
    shared: &'a Bytes,
    owned: &'a [u8],
    read_ahead: &'a ReadAhead,
) -> &'a [u8] {
    match place {
        Place::Owned => owned,
        Place::Shared => shared,
        Place::Window(range) => read_ahead.bytes(range.clone()),
    }
}

impl InternalIter for TableIter {
    fn seek_to_first(&mut self) -> Result<(), EngineError> {
        self.seek_to(SeekTo::First, FirstReadBy::Iterator).map(|_| ())
    }

    fn seek_to_last(&mut self) -> Result<(), EngineError> {
        self.seek_to(SeekTo::Last, FirstReadBy::Iterator).map(|_| ())
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.seek_to(SeekTo::AtOrAfter(target), FirstReadBy::Iterator).map(|_| ())
    }

    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.seek_to(SeekTo::Before(target), FirstReadBy::Iterator).map(|_| ())
    }

    fn begin(&mut self, to: SeekTo<'_>) -> Result<Option<FirstRead>, EngineError> {
        self.seek_to(to, FirstReadBy::Caller)
    }

    fn accept(&mut self, offset: u64, bytes: &[u8]) {
        let is_data = offset < self.table.footer.data_len_bytes;
        let ahead = if is_data { &mut self.read_ahead } else { &mut self.index_read_ahead };
        ahead.accept(offset, bytes);
    }

    #[inline]
    fn next(&mut self) -> Result<(), EngineError> {
        let moved = match self.step(BlockCursor::next) {
            Ok(()) if self.cursor.valid() => return Ok(()),
            Ok(()) => self.next_block(),
            failed => failed,
        };
        moved.or_else(|error| self.pass_over(error, TableIter::next_block))
    }

    #[inline]
    fn prev(&mut self) -> Result<(), EngineError> {
        let moved = match self.step(BlockCursor::prev) {
            Ok(()) if self.cursor.valid() => Ok(()),
            Ok(()) => self.prev_block(),
            failed => failed,
        };
        moved.or_else(|error| self.pass_over(error, TableIter::prev_block))?;
        self.stop_at_front();
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.cursor.valid()
    }

    #[inline]
    fn key(&self) -> InternalKey<'_> {
        let key = self.cursor.key(self.block());
        if self.table.values.is_some() && key.trailer.kind() == Some(Kind::PutAt) {
            return InternalKey::new(key.user_key, Trailer::new(key.trailer.seq(), Kind::Put));
        }
        key
    }

    #[inline]
    fn load_value(&mut self) -> Result<u64, EngineError> {
        if self.is_logged() { self.load_logged() } else { Ok(0) }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        if self.is_logged() { &self.logged } else { self.entry() }
    }

    #[inline]
    fn value_len(&self) -> usize {
        if self.is_logged() {
            ValuePlace::decode(self.entry()).map_or(0, |value| value.len_bytes as usize)
        } else {
            self.entry().len()
        }
    }

    fn apart(&self) -> Option<ApartEntry> {
        let values = self.table.values.as_ref().filter(|_| self.is_logged())?;
        let place = ValuePlace::decode(self.entry())?;
        Some(ApartPlace::new(self.table.id(), place, values.frame_len_bytes()).encode())
    }
}
