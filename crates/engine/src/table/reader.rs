//! A table open for reading: the parts that stay in memory, and point look-ups.

use super::apart::{ApartPlace, no_place};
use super::block::BlockCursor;
use super::filter::Filter;
use super::format::{
    BLOCK_TRAILER_LEN_BYTES, BlockHandle, FOOTER_LEN_BYTES, Footer, StoredBlock, corrupt,
};
use super::index::IndexPartition;
use super::iter::{TableIter, TableReadOptions};
use super::properties::TableProperties;
use super::read_ahead::ReadAhead;
use super::reading::{cannot_read, find_footer, read_range, read_what_reads, with_cause};
use super::tombstones;
use super::values::{self, Values};
use crate::EngineError;
use crate::key::{InternalKey, Kind, Seq, Trailer};
use crate::losses::{Losses, LostKeys};
use crate::range_del::FragmentedTombstones;
use crate::table::cache::{BlockCache, CacheId};
use bytes::Bytes;
use imbrex_files::{Activity, FileReader};
use imbrex_record_log::BLOCK_LEN_BYTES;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// The share of the file, within the bounds below, that the first read fetches from its end. For
/// most tables this covers footer, top index, properties and filter. A second read would cost a
/// disk another rotation.
const TAIL_SHARE: u64 = 64;
const TAIL_LEN_BYTES_MIN: u64 = 8 << 10;
const TAIL_LEN_BYTES_MAX: u64 = 1 << 20;

/// The result of a look-up in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableLookup {
    /// The table has no visible entry of the key.
    Missing,
    /// The key was deleted at `seq`.
    Deleted {
        /// The sequence number of the delete.
        seq: Seq,
    },
    /// The key has had this value since `seq`.
    Value {
        /// The value, a slice of its block.
        value: Bytes,
        /// The sequence number of the put.
        seq: Seq,
    },
    /// The key has had a value since `seq`, which is in the file of another table.
    Apart {
        /// Where it is.
        place: ApartPlace,
        /// The sequence number of the put.
        seq: Seq,
    },
}

/// A table open for reading.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) file: Arc<dyn FileReader>,
    cache: Arc<BlockCache>,
    cache_id: CacheId,
    pub(super) footer: Footer,
    pub(super) top_index: IndexPartition,
    /// The only partition of a small table, kept in memory.
    sole_partition: Option<Arc<IndexPartition>>,
    pub(super) filter: Option<Filter>,
    /// Shared with the cursors that read the table.
    tombstones: Arc<FragmentedTombstones>,
    pub(super) properties: TableProperties,
    /// The values in the log at the beginning of the file, if the table began as a log.
    pub(super) values: Option<Arc<Values>>,
}

/// Buffers for a thread's point reads. They are small and constantly reused, and therefore hot.
#[derive(Debug, Default)]
struct Scratch {
    stored: Vec<u8>,
    raw: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

/// The longest block to read into the thread's buffers, which never shrink.
const SCRATCH_LEN_BYTES_MAX: usize = 128 << 10;

/// Where the first read of a table that is opened begins. Most tables need no second one.
pub(super) fn tail_start(len_bytes: u64) -> u64 {
    let tail_len_bytes = (len_bytes / TAIL_SHARE).clamp(TAIL_LEN_BYTES_MIN, TAIL_LEN_BYTES_MAX);
    len_bytes.saturating_sub(tail_len_bytes)
}

impl Table {
    /// Opens a table: reads its footer, top index, filter, tombstones and properties.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`], [`EngineError::Files`].
    pub(crate) fn open(
        file: Arc<dyn FileReader>,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Table>, EngineError> {
        Table::open_alone(file, cache, None)
    }

    /// Opens a table without its damaged parts, if it can be used without them: filter, tombstones,
    /// properties.
    ///
    /// # Errors
    /// Like [`Table::open`], if another part is damaged.
    pub(crate) fn open_in_part(
        file: Arc<dyn FileReader>,
        cache: Arc<BlockCache>,
        is_logged: bool,
        losses: &Losses,
    ) -> Result<Arc<Table>, EngineError> {
        let open = if is_logged { Table::open_behind_log } else { Table::open_alone };
        open(file, cache, Some(losses))
    }

    fn open_alone(
        file: Arc<dyn FileReader>,
        cache: Arc<BlockCache>,
        losses: Option<&Losses>,
    ) -> Result<Arc<Table>, EngineError> {
        let table = Table::open_file(file, cache, losses)?;
        if table.log_frame_len_bytes() > 0 {
            return Err(corrupt(
                "table",
                table.name(),
                0,
                "the values are in a log, but the file has none",
            ));
        }
        Ok(Arc::new(table))
    }

    /// Opens a table that may or may not be at the end of a log.
    ///
    /// # Errors
    /// Like [`Table::open`].
    pub(crate) fn open_any(
        file: Arc<dyn FileReader>,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Table>, EngineError> {
        let (values_len_bytes, _) = values::tail_of(Arc::clone(&file))?;
        if values_len_bytes == 0 {
            Table::open(file, cache)
        } else {
            Table::open_logged(file, cache)
        }
    }

    /// Opens a table at the end of a log that has its values.
    ///
    /// # Errors
    /// Like [`Table::open`].
    pub(crate) fn open_logged(
        file: Arc<dyn FileReader>,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Table>, EngineError> {
        Table::open_behind_log(file, cache, None)
    }

    fn open_behind_log(
        file: Arc<dyn FileReader>,
        cache: Arc<BlockCache>,
        losses: Option<&Losses>,
    ) -> Result<Arc<Table>, EngineError> {
        let (values_len_bytes, tail) = values::tail_of(Arc::clone(&file))?;
        let mut table = Table::open_file(tail, cache, losses)?;
        let frame_len_bytes = table.log_frame_len_bytes() as usize;
        if !frame_len_bytes.is_multiple_of(BLOCK_LEN_BYTES) || frame_len_bytes == 0 {
            let reason = format!("the log with the values has frames of {frame_len_bytes} bytes");
            return Err(corrupt("table", table.name(), 0, reason));
        }
        let file = for_user(file);
        table.values = Some(Arc::new(Values::new(file, values_len_bytes, frame_len_bytes)));
        Ok(Arc::new(table))
    }

    pub(super) fn open_file(
        file: Arc<dyn FileReader>,
        cache: Arc<BlockCache>,
        losses: Option<&Losses>,
    ) -> Result<Table, EngineError> {
        with_cause(|unread| Table::open_what_reads(file, cache, losses, unread))
    }

    /// See [`with_cause`] for `unread`.
    fn open_what_reads(
        file: Arc<dyn FileReader>,
        cache: Arc<BlockCache>,
        losses: Option<&Losses>,
        unread: &mut Option<EngineError>,
    ) -> Result<Table, EngineError> {
        let len_bytes = file.len_bytes();
        let mut scratch = Vec::new();
        let mut tail_at = tail_start(len_bytes);
        let range = tail_at..len_bytes;
        let mut tail = match read_range(&*file, "table footer", range.clone(), &mut scratch) {
            // The damage may be in parts that opening does not need.
            Err(error) if error.is_damage() => {
                read_what_reads(&*file, "table footer", range, &mut scratch, unread)?
            }
            tail => tail?,
        };
        let footer = read_footer(&*file, tail)?;
        let is_small = footer.index_len_bytes <= TAIL_LEN_BYTES_MIN;
        let start = if is_small { footer.data_len_bytes } else { footer.filter().offset };
        if start < tail_at {
            tail_at = start;
            let range = tail_at..len_bytes;
            tail = match read_range(&*file, "table metadata", range.clone(), &mut scratch) {
                Err(error) if error.is_damage() => {
                    read_what_reads(&*file, "table metadata", range, &mut scratch, unread)?
                }
                tail => tail?,
            };
        }
        let open = Opening { file: &*file, table_id: footer.table_id, tail, tail_at, losses };
        let top_index = open.copied_part(
            "table top index",
            [footer.top_index(), footer.top_index_copy()],
            IndexPartition::decode,
        )?;
        check_top_index(&footer, &top_index)
            .map_err(|e| corrupt("table top index", file.name(), footer.top_index().offset, e))?;
        let filter = match footer.filter_len_bytes {
            0 => None,
            _ => open.hint("table filter", footer.filter(), Filter::decode)?,
        };
        let tombstones = match footer.tombstones_len_bytes {
            0 => None,
            _ => open.spare(
                "range tombstones",
                [footer.tombstones(), footer.tombstones_copy()],
                "which ranges were deleted",
                |bytes| tombstones::decode(bytes).map(|list| FragmentedTombstones::new(&list)),
            )?,
        };
        let properties = footer.properties();
        let properties = open.hint("table properties", properties, TableProperties::decode)?;
        let cache_id = cache.new_id();
        let mut table = Table {
            cache,
            cache_id,
            footer,
            top_index,
            sole_partition: None,
            filter,
            tombstones: Arc::new(tombstones.unwrap_or_default()),
            properties: properties.unwrap_or_default(),
            values: None,
            file: for_user(file),
        };
        if table.top_index.len() == 1 && losses.is_none() {
            let handle = table.top_index.handle(0);
            table.sole_partition = Some(Arc::new(table.read_partition(handle, &mut scratch)?));
        }
        Ok(table)
    }

    /// The length of the frames of the log with the values; 0 without one.
    fn log_frame_len_bytes(&self) -> u64 {
        match self.footer.has_copies {
            true => self.footer.log_frame_len_bytes.into(),
            false => self.properties.log_frame_len_bytes,
        }
    }

    /// The properties that the writer recorded; empty if they are damaged.
    pub(crate) fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// A key at or above all keys of the table; empty if it has none.
    pub(crate) fn last_separator(&self) -> Vec<u8> {
        let last = self.top_index.len().checked_sub(1);
        last.map_or_else(Vec::new, |last| self.top_index.separator(last).user_key.to_vec())
    }

    /// The range tombstones of the table.
    pub(crate) fn range_tombstones(&self) -> &Arc<FragmentedTombstones> {
        &self.tombstones
    }

    /// The name of the table's file.
    pub(crate) fn name(&self) -> &str {
        self.file.name()
    }

    /// The length of the table's file.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    /// The memory that the table uses while it is open.
    pub(crate) fn memory_len_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, Filter::memory_len_bytes)
            + self.top_index.memory_len_bytes()
            + self.sole_partition.as_ref().map_or(0, |partition| partition.memory_len_bytes())
            + self.tombstones.len_bytes()
            + self.properties.histogram.as_ref().map_or(0, |h| h.memory_len_bytes())
    }

    /// Whether the table may have the key with this hash.
    ///
    /// Cost: one cache line.
    #[inline]
    pub(crate) fn may_contain(&self, key_hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(key_hash))
    }

    /// Looks up `user_key` as of `snapshot`. Range tombstones are not considered.
    ///
    /// Cost: one cache line for most absent keys. For other keys: a search of the index and one
    /// data block, which takes one disk read if it is not cached.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`], [`EngineError::Files`].
    #[inline]
    pub(crate) fn get(
        &self,
        user_key: &[u8],
        key_hash: u64,
        snapshot: Seq,
    ) -> Result<TableLookup, EngineError> {
        if !self.may_contain(key_hash) {
            return Ok(TableLookup::Missing);
        }
        self.get_unfiltered(user_key, snapshot)
    }

    fn get_unfiltered(&self, user_key: &[u8], snapshot: Seq) -> Result<TableLookup, EngineError> {
        let target = InternalKey::new(user_key, Trailer::seek(snapshot));
        let Some((trailer, value)) = self.find_entry(target)? else {
            return Ok(TableLookup::Missing);
        };
        let seq = trailer.seq();
        match (trailer.kind(), &self.values) {
            (Some(Kind::Put), _) => Ok(TableLookup::Value { value, seq }),
            (Some(Kind::Delete), _) => Ok(TableLookup::Deleted { seq }),
            (Some(Kind::PutApart), _) => match ApartPlace::decode(&value) {
                Some(place) => Ok(TableLookup::Apart { place, seq }),
                None => Err(no_place(self.name())),
            },
            (Some(Kind::PutAt), Some(values)) => {
                let mut loaded = Vec::new();
                values.read(user_key, &value, None, &mut loaded)?;
                Ok(TableLookup::Value { value: Bytes::from(loaded), seq })
            }
            (kind, _) => {
                let reason = format!("an entry of kind {kind:?}, which the table cannot have");
                Err(corrupt("data block", self.name(), 0, reason))
            }
        }
    }

    /// The first entry of `target`'s user key at or after `target`, with its value bytes as the
    /// block has them.
    fn find_entry(&self, target: InternalKey<'_>) -> Result<Option<(Trailer, Bytes)>, EngineError> {
        let Some(handle) = self.find_block(target)? else { return Ok(None) };
        let shared = |block: Bytes| {
            let found = self.search(handle, &block, target)?;
            Ok(found.map(|(trailer, value)| (trailer, block.slice(value))))
        };
        if let Some(block) = self.cached_data_block(handle.offset) {
            return shared(block);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { stored, raw } = scratch;
            let range = handle.offset..handle.end();
            let bytes = read_range(&*self.file, "data block", range, stored)?;
            let block = self.stored_data_block(handle.offset, bytes)?;
            // A long block is kept instead of copying from it, because its value is most of it.
            let is_long = block.raw_len_bytes > SCRATCH_LEN_BYTES_MAX;
            if is_long || self.cache.admits(self.cache_id, handle.offset) {
                let block = self.raw_data_block(handle.offset, block)?;
                if is_long {
                    *stored = Vec::new();
                }
                self.cache_data_block(handle.offset, block.clone());
                return shared(block);
            }
            let block = self.borrow_raw(handle.offset, block, raw)?;
            let found = self.search(handle, block, target)?;
            Ok(found.map(|(trailer, value)| (trailer, Bytes::copy_from_slice(&block[value]))))
        })
    }

    /// The entry of `block` that `target` asks for.
    #[inline]
    pub(super) fn search(
        &self,
        handle: BlockHandle,
        block: &[u8],
        target: InternalKey<'_>,
    ) -> Result<Option<(Trailer, Range<usize>)>, EngineError> {
        let mut cursor = BlockCursor::default();
        cursor
            .open(block)
            .and_then(|()| cursor.seek(block, target))
            .map_err(|damage| self.damaged_block(handle.offset, damage.0))?;
        if !cursor.valid() || cursor.user_key(block) != target.user_key {
            return Ok(None);
        }
        Ok(Some((cursor.trailer(), cursor.value_range())))
    }

    /// The position of the first block that could have `target` or a later key.
    pub(super) fn find_block(
        &self,
        target: InternalKey<'_>,
    ) -> Result<Option<BlockHandle>, EngineError> {
        let find = |partition: &IndexPartition| {
            let index = partition.find(target);
            (index < partition.len()).then(|| partition.handle(index))
        };
        match &self.sole_partition {
            Some(partition) => Ok(find(partition)),
            None => {
                let index = self.top_index.find(target);
                if index == self.top_index.len() {
                    return Ok(None);
                }
                Ok(find(&*self.partition(index)?))
            }
        }
    }

    /// An iterator over the entries, without range tombstones.
    pub(crate) fn iter(self: &Arc<Self>, options: TableReadOptions) -> TableIter {
        TableIter::new(Arc::clone(self), options)
    }

    /// The file and the values, for reads that serve `activity`.
    pub(super) fn sources_for(
        &self,
        activity: Activity,
    ) -> (Arc<dyn FileReader>, Option<Arc<Values>>) {
        let (file, values) = (Arc::clone(&self.file), self.values.clone());
        if activity == Activity::User {
            return (file, values);
        }
        let values = values.map(|own| own.for_activity(activity).map_or(own, Arc::new));
        (file.for_activity(activity).unwrap_or(file), values)
    }

    /// The approximate offset in the data at which `user_key` is or would be. It serves size
    /// estimates.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`], [`EngineError::Files`].
    pub(crate) fn approximate_offset(&self, user_key: &[u8]) -> Result<u64, EngineError> {
        let target = InternalKey::new(user_key, Trailer(u64::MAX));
        let found = self.find_block(target)?;
        Ok(found.map_or(self.footer.data_len_bytes, |handle| handle.offset))
    }

    /// Index partition `index`, read from the file if it is not in memory.
    pub(super) fn partition(&self, index: usize) -> Result<Arc<IndexPartition>, EngineError> {
        if let Some(partition) = self.partition_in_memory(index) {
            return Ok(partition);
        }
        let handle = self.top_index.handle(index);
        let partition =
            SCRATCH.with_borrow_mut(|scratch| self.read_partition(handle, &mut scratch.stored))?;
        Ok(self.cache_partition(handle, partition))
    }

    /// Index partition `index`, if it is in memory.
    pub(super) fn partition_in_memory(&self, index: usize) -> Option<Arc<IndexPartition>> {
        let cached = || self.cache.get_index(self.cache_id, self.top_index.handle(index).offset);
        self.sole_partition.clone().or_else(cached)
    }

    fn cache_partition(
        &self,
        handle: BlockHandle,
        partition: IndexPartition,
    ) -> Arc<IndexPartition> {
        let partition = Arc::new(partition);
        self.cache.insert_index(self.cache_id, handle.offset, Arc::clone(&partition));
        partition
    }

    /// The end of the index partitions.
    pub(super) fn index_end(&self) -> u64 {
        self.footer.data_len_bytes + self.footer.index_len_bytes
    }

    /// Reads a partition that is not in memory, for an iterator that moves through the table in
    /// order: one read fetches several partitions. `file` is the table's, or another handle of it.
    pub(super) fn partition_ahead(
        &self,
        file: &dyn FileReader,
        index: usize,
        fill_cache: bool,
        read_ahead: &mut ReadAhead,
    ) -> Result<Arc<IndexPartition>, EngineError> {
        let handle = self.top_index.handle(index);
        let (offset, len_bytes) = (handle.offset, handle.len_bytes as usize);
        let range = read_ahead
            .read(file, offset, len_bytes, self.index_end())
            .map_err(|e| cannot_read("index partition", self.name(), offset, e))?;
        let partition = self.decode_partition(handle, read_ahead.bytes(range))?;
        if fill_cache {
            return Ok(self.cache_partition(handle, partition));
        }
        Ok(Arc::new(partition))
    }

    pub(super) fn read_partition(
        &self,
        handle: BlockHandle,
        scratch: &mut Vec<u8>,
    ) -> Result<IndexPartition, EngineError> {
        let range = handle.offset..handle.end();
        let stored = read_range(&*self.file, "index partition", range, scratch)?;
        self.decode_partition(handle, stored)
    }

    fn decode_partition(
        &self,
        handle: BlockHandle,
        stored: &[u8],
    ) -> Result<IndexPartition, EngineError> {
        let damaged = |reason| corrupt("index partition", self.name(), handle.offset, reason);
        let partition = decode_part(self.footer.table_id, handle, stored, IndexPartition::decode)
            .map_err(damaged)?;
        if partition.len() == 0 || partition.end() > self.footer.data_len_bytes {
            return Err(damaged("it points outside the data".into()));
        }
        Ok(partition)
    }

    /// The data block at `offset`, if it is cached.
    #[inline]
    pub(super) fn cached_data_block(&self, offset: u64) -> Option<Bytes> {
        self.cache.get_data(self.cache_id, offset)
    }

    /// Inserts a data block into the cache.
    pub(super) fn cache_data_block(&self, offset: u64, block: Bytes) {
        self.cache.insert_data(self.cache_id, offset, block);
    }

    /// Whether the cache wants the data block at `offset`, which it just missed.
    pub(super) fn cache_admits(&self, offset: u64) -> bool {
        self.cache.admits(self.cache_id, offset)
    }

    /// Verifies a stored data block.
    #[inline]
    pub(super) fn stored_data_block<'a>(
        &self,
        offset: u64,
        stored: &'a [u8],
    ) -> Result<StoredBlock<'a>, EngineError> {
        StoredBlock::parse(self.footer.table_id, offset, stored)
            .map_err(|reason| corrupt("data block", self.name(), offset, reason))
    }

    /// The raw bytes of a data block, in a new allocation.
    pub(super) fn raw_data_block(
        &self,
        offset: u64,
        block: StoredBlock<'_>,
    ) -> Result<Bytes, EngineError> {
        let mut raw = Vec::new();
        self.raw_data_block_into(offset, block, &mut raw)?;
        Ok(Bytes::from(raw))
    }

    /// The raw bytes of a data block: in place if the block is not compressed, else in `raw`.
    #[inline]
    pub(super) fn borrow_raw<'a>(
        &self,
        offset: u64,
        block: StoredBlock<'a>,
        raw: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], EngineError> {
        if block.is_raw() {
            return Ok(block.payload);
        }
        self.raw_data_block_into(offset, block, raw)?;
        Ok(raw)
    }

    /// Writes the raw bytes of a data block to `out`.
    #[inline]
    pub(super) fn raw_data_block_into(
        &self,
        offset: u64,
        block: StoredBlock<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        block
            .decompress_into(out)
            .map_err(|reason| corrupt("data block", self.name(), offset, reason))
    }

    #[cold]
    pub(super) fn damaged_block(&self, offset: u64, reason: &str) -> EngineError {
        corrupt("data block", self.name(), offset, reason)
    }
}

/// The footer, which ends `tail`, the end of the file; or its copy.
/// `file`, for reads that a user waits for. What opening it reads serves nothing in particular.
pub(super) fn for_user(file: Arc<dyn FileReader>) -> Arc<dyn FileReader> {
    file.for_activity(Activity::User).unwrap_or(file)
}

fn read_footer(file: &dyn FileReader, tail: &[u8]) -> Result<Footer, EngineError> {
    let len_bytes = file.len_bytes();
    let Some(bytes) = tail.last_chunk::<FOOTER_LEN_BYTES>() else {
        let reason = format!("a file of {len_bytes} bytes");
        return Err(corrupt("table footer", file.name(), 0, reason));
    };
    Footer::decode(bytes, len_bytes).or_else(|reason| {
        let copy = find_footer(file)?.filter(|copy| copy.file_len_bytes() == Ok(len_bytes));
        let footer_at = len_bytes - FOOTER_LEN_BYTES as u64;
        copy.ok_or_else(|| corrupt("table footer", file.name(), footer_at, reason))
    })
}

/// Checks that the partitions fill the whole index and nothing else.
fn check_top_index(footer: &Footer, top_index: &IndexPartition) -> Result<(), String> {
    let got = top_index.start()..top_index.end();
    let expected = footer.data_len_bytes..footer.data_len_bytes + footer.index_len_bytes;
    if got != expected || (top_index.len() == 0) != (footer.data_len_bytes == 0) {
        return Err(format!("partitions at {got:?}, {expected:?} expected"));
    }
    Ok(())
}

/// The metadata that is read when a table is opened.
struct Opening<'a> {
    file: &'a dyn FileReader,
    table_id: u64,
    tail: &'a [u8],
    tail_at: u64,
    losses: Option<&'a Losses>,
}

impl Opening<'_> {
    fn part<T>(
        &self,
        structure: &'static str,
        handle: BlockHandle,
        decode: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, EngineError> {
        let at = (handle.offset - self.tail_at) as usize;
        let stored = &self.tail[at..at + handle.len_bytes as usize];
        decode_part(self.table_id, handle, stored, decode)
            .map_err(|reason| corrupt(structure, self.file.name(), handle.offset, reason))
    }

    /// Reads a part without which the table has all its keys. If the part is damaged, the table is
    /// read without it; the check names it.
    fn hint<T>(
        &self,
        structure: &'static str,
        handle: BlockHandle,
        decode: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, EngineError> {
        match (self.part(structure, handle, decode), self.losses) {
            (Err(error), Some(losses)) => losses.pass(error, "no key").map(|()| None),
            (Err(error), None) if error.is_damage() => Ok(None),
            (part, _) => part.map(Some),
        }
    }

    /// Reads a part from its place or, if it is damaged there, from its copy.
    fn copied_part<T>(
        &self,
        structure: &'static str,
        [handle, copy]: [BlockHandle; 2],
        decode: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<T, EngineError> {
        match self.part(structure, handle, &decode) {
            Err(error) if error.is_damage() && copy.len_bytes > 0 => {
                let mut scratch = Vec::new();
                let stored =
                    read_range(self.file, structure, copy.offset..copy.end(), &mut scratch);
                match stored.map(|stored| decode_part(self.table_id, copy, stored, &decode)) {
                    Ok(Ok(part)) => Ok(part),
                    Ok(Err(_)) => Err(error),
                    Err(unread) if unread.is_damage() => Err(error),
                    Err(unread) => Err(unread),
                }
            }
            part => part,
        }
    }

    /// Like `copied_part`, for a part whose loss can be passed over. `what` describes the loss.
    fn spare<T>(
        &self,
        structure: &'static str,
        handles: [BlockHandle; 2],
        what: &str,
        decode: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, EngineError> {
        match (self.copied_part(structure, handles, decode), self.losses) {
            (Err(error), Some(losses)) => {
                losses.pass(error, what)?;
                let file = Some(self.file.name().to_owned());
                losses.note_keys(LostKeys { file, ..LostKeys::default() });
                Ok(None)
            }
            (part, _) => part.map(Some),
        }
    }
}

fn decode_part<T>(
    table_id: u64,
    handle: BlockHandle,
    stored: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, String> {
    let block = StoredBlock::parse(table_id, handle.offset, stored)?;
    let mut raw = Vec::new();
    block.decompress_into(&mut raw)?;
    decode(&raw)
}

const _: () = assert!(BLOCK_TRAILER_LEN_BYTES < FOOTER_LEN_BYTES);
