//! Options: of a store, of a keyspace, of one read or write.
//!
//! An option of a keyspace that decides how its tables look or how they are arranged is written
//! down in the store when the keyspace is created; the options of a store are its opener's affair
//! and may differ from one opening to the next.
//!
//! The defaults aim at low CPU per operation and low write amplification while a scan has a few
//! sorted runs to merge at most; `docs/decisions` has the figures.

mod presets;

use crate::EngineError;
use crate::read::prefix_end;
use crate::snapshot::Snapshot;
use crate::table::HISTOGRAM_LEN_BYTES_MIN;
use bytes::Bytes;
use imbrex_record_log::{BLOCK_LEN_BYTES, FRAME_LEN_BYTES_MAX};
use std::ops::{Bound, RangeBounds};

/// Well within what a memtable can address; see `memtable::arena`.
const MEMTABLE_LEN_BYTES_MAX: u64 = 4 << 30;
/// How long a data block may be asked to be; a value longer than that has one of its own length.
pub(crate) const DATA_BLOCK_LEN_BYTES_MAX: u32 = 16 << 20;

/// Options of an open store; none of them is written down.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether an empty file layer is made into an empty store, or refused.
    pub create_if_missing: bool,
    /// A memtable that holds this much is frozen and flushed. The log of a crash that must be
    /// replayed is about as long.
    pub memtable_len_bytes: u64,
    /// Frozen memtables of one keyspace that may wait for their flush before writes wait too.
    pub immutable_memtable_count_max: usize,
    /// When all logs together get longer, the keyspaces that keep the oldest one are flushed. It is looked at when a log
    /// ends, and one that keyspaces share ends when it alone is longer than this and than a memtable: all
    /// together may be twice as long, and longer where flushes lag.
    pub log_len_bytes_max: u64,
    /// How much of the log is kept in memory before it goes to its file. Of the writes that were not synced a crash of
    /// the program alone takes less than that and the last one; and, whole, the one of which only the end was there.
    pub log_frame_len_bytes: usize,
    /// Whether a log that is full becomes a table of level 0 as it lies, instead of its memtable being
    /// written again: writes cost half until the first compaction, reads of what was not
    /// compacted yet cost a seek for every value. For stores with one keyspace: a log with the writes of several is
    /// flushed as usual.
    pub logs_are_tables: bool,
    /// Whether logs go to the flash drive while a compaction runs (`offload`): for files on two drives.
    pub offloads: bool,
    /// How long each write waits while more than [`Options::offloaded_file_count_max`] files lie on the flash drive;
    /// 0 for never. It lets compaction take the files down before they fill flash.
    pub offload_delay_ns: u64,
    /// So many files may accumulate on the flash drive before writes are delayed; the log that is written is one.
    pub offloaded_file_count_max: usize,
    /// When no compaction has run for so long, what is not due yet is compacted too; 0 for never.
    pub eager_after_ns: u64,
    /// Memory for cached data blocks.
    pub block_cache_len_bytes: u64,
    /// Compactions that may run at a time, besides one flush. A disk has one head: two would send it
    /// to and fro; and each holds a table in memory.
    pub max_background_jobs: usize,
    /// How much a compaction reads at a time: on a disk, a seek costs as much as about 2 MB.
    pub compaction_read_len_bytes: usize,
    /// Writes are refused while the file layer has less user space than this times
    /// [`Options::memtable_len_bytes`]: what is in memory already must still find its place.
    pub free_memtable_count_min: u64,
    /// How many of the last compactions [`crate::Metrics::compactions`] tells of.
    pub compaction_line_count_max: usize,
    /// Whether the store is opened to be written to, or only to be read.
    pub open_mode: OpenMode,
    /// Whether the background jobs start by themselves; a tool that only looks switches it off.
    pub background_work: bool,
    /// The options of the default keyspace when the store is created.
    pub keyspace: KeyspaceOptions,
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenMode {
    /// Reads and writes.
    #[default]
    ReadWrite,
    /// Reads alone: no file changes, and what the logs hold stays in memory. What lies below the files may write
    /// when it is opened, to recover.
    ReadOnly,
    /// As [`OpenMode::ReadOnly`], without the tables and logs on a flash drive that is not there: reads find what lies
    /// on the drive, which may be an older value, or one that was deleted. For what can be saved of a store
    /// whose flash drive is lost; [`crate::Recovery::missing`] says what was left out.
    ReadOnlyInPart,
    /// As [`OpenMode::ReadOnlyInPart`], and what is damaged is passed over too, when the store is opened and by
    /// cursors; [`crate::Db::losses`] says what. Opening opens all tables. For what can be saved from a failing drive.
    Salvage,
}

impl OpenMode {
    /// Whether tables and logs may be missing.
    pub(crate) fn is_in_part(self) -> bool {
        matches!(self, OpenMode::ReadOnlyInPart | OpenMode::Salvage)
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: true,
            open_mode: OpenMode::ReadWrite,
            memtable_len_bytes: 64 << 20,
            immutable_memtable_count_max: 1,
            log_len_bytes_max: 256 << 20,
            log_frame_len_bytes: 64 << 10,
            logs_are_tables: false,
            offloads: false,
            offload_delay_ns: 0,
            offloaded_file_count_max: 10,
            eager_after_ns: 0,
            block_cache_len_bytes: 64 << 20,
            max_background_jobs: 1,
            compaction_read_len_bytes: 1 << 20,
            free_memtable_count_min: 2,
            compaction_line_count_max: 1024,
            background_work: true,
            keyspace: KeyspaceOptions::default(),
        }
    }
}

impl Options {
    /// Refuses what cannot work.
    ///
    /// # Errors
    /// [`EngineError::BadOption`], naming the option and the rule.
    pub fn check(&self) -> Result<(), EngineError> {
        let memtable = self.memtable_len_bytes;
        let is_memtable = (4096..=MEMTABLE_LEN_BYTES_MAX).contains(&memtable);
        require(is_memtable, "memtable_len_bytes", "4096 to 4 GiB")?;
        require(self.immutable_memtable_count_max >= 1, "immutable_memtable_count_max", ">= 1")?;
        require(self.max_background_jobs >= 1, "max_background_jobs", "at least 1")?;
        let frame = self.log_frame_len_bytes;
        let is_frame = frame.is_multiple_of(BLOCK_LEN_BYTES)
            && (BLOCK_LEN_BYTES..=FRAME_LEN_BYTES_MAX).contains(&frame);
        require(is_frame, "log_frame_len_bytes", "a multiple of 4096, up to 1 MiB")?;
        require(self.compaction_read_len_bytes >= 4096, "compaction_read_len_bytes", ">= 4096")?;
        self.keyspace.check()
    }
}

fn require(holds: bool, option: &'static str, rule: &'static str) -> Result<(), EngineError> {
    if holds { Ok(()) } else { Err(EngineError::BadOption { option, rule }) }
}

/// How data blocks are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Compression {
    /// Not at all.
    None = 1,
    /// LZ4: a few hundred MB/s in, several GB/s out.
    #[default]
    Lz4 = 2,
    /// Zstandard, level 3: smaller and slower.
    Zstd = 3,
}

/// Which policy arranges a keyspace's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CompactionKind {
    /// Level 0 of overlapping runs, below it one sorted run a level, each larger by a factor.
    #[default]
    Leveled = 1,
    /// As leveled, but tables that one compaction wrote to level 2 or below are stored as a set, and
    /// victims come first from sets of which more is dead: SEALDB's. Made for placements that lay
    /// sets contiguously.
    SetAware = 2,
    /// Two levels of overlapping tables, merged only where they are out of order: SMRDB's. Wants
    /// tables as long as a band and [`KeyspaceOptions::histogram_len_bytes`].
    Smrdb = 3,
    /// As leveled, but deeper levels are compacted a window of zones at a time, so that whole zones
    /// empty themselves; made for the placement `zone-per-level`.
    Gear = 4,
}

/// Which table of a level that is too long goes down first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VictimOrder {
    /// Round and round by key, as LevelDB does.
    RoundRobin = 1,
    /// The one that overlaps least of the next level for its length; by key where that is equal.
    #[default]
    MinOverlap = 2,
}

/// How many tables of a level that is too long go down together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VictimGrowth {
    /// Neighbours, as many as stay with what they overlap below 50 tables' worth: each compaction
    /// pays once for the tables at its two ends.
    #[default]
    Neighbours = 1,
    /// One, as LevelDB does; its neighbours go along only if that adds nothing of the next level and
    /// all stays below 25 tables' worth. Nothing goes down early because of deletes.
    Single = 2,
}

/// Options of a keyspace, written down when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// How long a table gets.
    pub table_len_bytes: u64,
    /// How long a data block gets before compression.
    pub block_len_bytes: u32,
    /// How its data blocks are compressed.
    pub compression: Compression,
    /// Bits of filter a key; 0 for none. 10 let one miss in a hundred through.
    pub filter_bits_per_key: u32,
    /// The policy.
    pub compaction: CompactionKind,
    /// Runs in level 0 that start a compaction.
    pub l0_compact_run_count: u32,
    /// Runs in level 0 from which on writes advance only as fast as compaction does.
    pub l0_slowdown_run_count: u32,
    /// Runs in level 0 at which writes wait.
    pub l0_stop_run_count: u32,
    /// How long level 1 may get.
    pub base_level_len_bytes: u64,
    /// How much longer each level may get than the one above.
    pub level_factor: u32,
    /// A table may overlap this many tables' worth of the level after next.
    pub grandparent_table_count_max: u32,
    /// Which table of a level that is too long goes down first.
    pub victim_order: VictimOrder,
    /// How many go down together.
    pub victim_growth: VictimGrowth,
    /// How long the byte histogram in each table may get; 0 for none. Only SMRDB's compaction asks
    /// for it, and it stays in memory while the table is open.
    pub histogram_len_bytes: u32,
    /// How many tables of level 1 may lie over one key before SMRDB's compaction merges some there.
    pub overlap_count_max: u32,
}

impl Default for KeyspaceOptions {
    fn default() -> KeyspaceOptions {
        KeyspaceOptions {
            table_len_bytes: 8 << 20,
            block_len_bytes: 4096,
            compression: Compression::Lz4,
            filter_bits_per_key: 10,
            compaction: CompactionKind::Leveled,
            l0_compact_run_count: 5,
            l0_slowdown_run_count: 12,
            l0_stop_run_count: 20,
            base_level_len_bytes: 256 << 20,
            level_factor: 10,
            grandparent_table_count_max: 10,
            victim_order: VictimOrder::default(),
            victim_growth: VictimGrowth::default(),
            histogram_len_bytes: 0,
            overlap_count_max: 16,
        }
    }
}

impl KeyspaceOptions {
    /// Refuses what cannot work.
    ///
    /// # Errors
    /// [`EngineError::BadOption`], naming the option and the rule.
    pub fn check(&self) -> Result<(), EngineError> {
        require(self.table_len_bytes >= 4096, "table_len_bytes", "at least 4096")?;
        let block = self.block_len_bytes;
        require(
            (512..=DATA_BLOCK_LEN_BYTES_MAX).contains(&block),
            "block_len_bytes",
            "512 to 16 MiB",
        )?;
        require(self.filter_bits_per_key <= 100, "filter_bits_per_key", "at most 100")?;
        require(self.l0_compact_run_count >= 1, "l0_compact_run_count", "at least 1")?;
        let ordered = self.l0_compact_run_count <= self.l0_slowdown_run_count
            && self.l0_slowdown_run_count <= self.l0_stop_run_count;
        require(ordered, "l0_stop_run_count", "compact <= slowdown <= stop")?;
        require(self.base_level_len_bytes >= 1, "base_level_len_bytes", "at least 1")?;
        require(self.level_factor >= 2, "level_factor", "at least 2")?;
        let histogram = self.histogram_len_bytes as usize;
        let fits = histogram == 0 || (HISTOGRAM_LEN_BYTES_MIN..=1 << 20).contains(&histogram);
        require(fits, "histogram_len_bytes", "0, or 546 to 1 MiB")?;
        require(self.overlap_count_max >= 1, "overlap_count_max", "at least 1")
    }
}

/// Options of one write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether the write returns only when it is durable.
    pub sync: bool,
}

impl WriteOptions {
    /// Durable on return.
    pub const SYNC: WriteOptions = WriteOptions { sync: true };
}

/// Options of an iterator.
#[derive(Clone, Debug)]
pub struct ReadOptions<'a> {
    /// Read as of this snapshot; of now without.
    pub snapshot: Option<&'a Snapshot>,
    /// The first key that may be seen.
    pub lower: Option<Bytes>,
    /// The first key that may not be seen any more.
    pub upper: Option<Bytes>,
    /// Whether blocks read go into the cache.
    pub fill_cache: bool,
    /// How far to read ahead once the iterator moves on steadily; 0 for not at all.
    pub read_ahead_bytes: usize,
    /// How much the first read after a seek fetches of each sorted run; 0 for one block. On a disk a
    /// scan known to be long gains by saying so: each further read costs a seek.
    pub read_ahead_bytes_min: usize,
}

impl<'a> ReadOptions<'a> {
    /// The same options for the keys in `range` alone.
    #[must_use]
    pub fn within<K: AsRef<[u8]>>(self, range: impl RangeBounds<K>) -> ReadOptions<'a> {
        let after = |key: &K| Bytes::from([key.as_ref(), &[0]].concat());
        let at = |key: &K| Bytes::copy_from_slice(key.as_ref());
        ReadOptions {
            lower: match range.start_bound() {
                Bound::Included(key) => Some(at(key)),
                Bound::Excluded(key) => Some(after(key)),
                Bound::Unbounded => None,
            },
            upper: match range.end_bound() {
                Bound::Included(key) => Some(after(key)),
                Bound::Excluded(key) => Some(at(key)),
                Bound::Unbounded => None,
            },
            ..self
        }
    }

    /// The same options for the keys that start with `prefix` alone.
    #[must_use]
    pub fn with_prefix(self, prefix: impl AsRef<[u8]>) -> ReadOptions<'a> {
        ReadOptions {
            lower: Some(Bytes::copy_from_slice(prefix.as_ref())),
            upper: prefix_end(prefix.as_ref()).map(Bytes::from),
            ..self
        }
    }
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions {
            snapshot: None,
            lower: None,
            upper: None,
            fill_cache: true,
            read_ahead_bytes: 256 << 10,
            read_ahead_bytes_min: 0,
        }
    }
}
