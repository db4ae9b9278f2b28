//! Options of a store, of a keyspace, and of one read or write.
//!
//! A keyspace is created with its options, which decide how its tables look and how they are
//! arranged. The store records them. A store's options are not recorded: each open gives its own.
//!
//! The defaults aim at low CPU use per operation and low write amplification, while a scan merges
//! only a few sorted runs. The figures are in `docs/decisions`.

mod presets;

use crate::EngineError;
use crate::read::prefix_end;
use crate::snapshot::Snapshot;
use crate::table::HISTOGRAM_LEN_BYTES_MIN;
use bytes::Bytes;
use imbrex_record_log::{BLOCK_LEN_BYTES, FRAME_LEN_BYTES_MAX};
use std::ops::{Bound, RangeBounds};

/// A memtable can address more than this; see `memtable::arena`.
const MEMTABLE_LEN_BYTES_MAX: u64 = 4 << 30;
const BACKGROUND_JOBS_MAX: usize = 256;
/// The largest length that a keyspace may ask for its data blocks. A longer value has a block for
/// itself.
pub(crate) const DATA_BLOCK_LEN_BYTES_MAX: u32 = 16 << 20;

/// Options of an open store. None of them is recorded in the store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether opening an empty file layer creates a store. If not, it is an error.
    pub create_if_missing: bool,
    /// The length at which a memtable is frozen and flushed, but at most a sixteenth of the drive
    /// where tables share zones. The log to replay after a crash is about as long, or a
    /// thirty-second of the drive if writes are small and synced.
    pub memtable_len_bytes: u64,
    /// The number of frozen memtables per keyspace that may wait for their flush. With more, writes
    /// wait too.
    pub immutable_memtable_count_max: usize,
    /// The length of all logs together at which the keyspaces that keep the oldest log are flushed,
    /// but at most an eighth of the drive. The check runs when a log ends, so all logs together may
    /// be longer by one.
    pub log_len_bytes_max: u64,
    /// How much of the log is buffered in memory before it goes to its file. A crash of the program
    /// alone loses the unsynced writes in this buffer: fewer bytes than this, plus the last write.
    /// A write that is only partly in the buffer is lost whole.
    pub log_frame_len_bytes: usize,
    /// Whether a full log becomes a table of level 0 in place. Otherwise its memtable is written as
    /// a new table. With this option, a write costs half until the first compaction, and a read of
    /// data not yet compacted costs a seek per value. The option is for stores with one keyspace: a
    /// log with writes of several is flushed as usual.
    pub logs_are_tables: bool,
    /// Whether logs are written to the flash drive while a compaction runs (`offload`). It needs
    /// files on two drives.
    pub offloads: bool,
    /// Whether all logs are written to the flash drive, and nothing else. It needs files on two drives. A
    /// log for which flash has no room goes to the main drive.
    pub logs_on_flash: bool,
    /// Whether flushes write their tables to the flash drive while it has room (`store::slices`). It needs
    /// files on two drives and lazy leveling, which moves the tables to the main drive later.
    pub flushes_to_flash: bool,
    /// How long each write waits while the flash drive holds more than
    /// [`Options::offloaded_file_count_max`] files; 0 for no wait. The delay lets compaction move
    /// the files to the main drive before flash fills up.
    pub offload_delay_ns: u64,
    /// How many files the flash drive may hold before writes are delayed. The current log counts as
    /// one.
    pub offloaded_file_count_max: usize,
    /// The time without a compaction after which compactions start early, before they are due; 0
    /// for never.
    pub eager_after_ns: u64,
    /// Memory for cached data blocks.
    pub block_cache_len_bytes: u64,
    /// How much a seek of an iterator reads at once, from all sorted runs together: each run has a part by
    /// its length. 0 for one block of each. On a disk, a seek costs as much time as reading about 2 MB, so
    /// a scan of some hundred kilobytes should seek once in each run.
    pub seek_read_len_bytes: usize,
    /// The number of compactions that may run at a time, besides one flush. A disk has one head,
    /// which two compactions would move to and fro, and each holds a table in memory.
    pub max_background_jobs: usize,
    /// How much a compaction reads at a time. On a disk, a seek costs as much time as reading about
    /// 2 MB.
    pub compaction_read_len_bytes: usize,
    /// Writes are refused while the file layer has less user space than this number times
    /// [`Options::memtable_len_bytes`], because the data in memory must still fit on the drive.
    pub free_memtable_count_min: u64,
    /// How many of the most recent compactions [`crate::Metrics::compactions`] lists.
    pub compaction_line_count_max: usize,
    /// Whether the store is opened for writing or only for reading.
    pub open_mode: OpenMode,
    /// Whether background jobs start by themselves. Tools that only inspect a store switch this
    /// off.
    pub background_work: bool,
    /// The options of the default keyspace, used when the store is created.
    pub keyspace: KeyspaceOptions,
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenMode {
    /// Reads and writes.
    #[default]
    ReadWrite,
    /// Reads only: no file changes, and the content of the logs stays in memory. The layer below
    /// the files may write during open, in order to recover. Where the drive must not change, a
    /// layer in memory takes these writes.
    ReadOnly,
    /// Like [`OpenMode::ReadOnly`], but tables and logs on a missing flash drive are left out.
    /// Reads find the data on the main drive, which may be an older value or one that was deleted.
    /// Use it to save data from a store whose flash drive is lost; [`crate::Recovery::missing`]
    /// lists the missing files.
    ReadOnlyInPart,
    /// Like [`OpenMode::ReadOnlyInPart`], but the open and all cursors also skip damaged data;
    /// [`crate::Db::losses`] lists it. Opening the store opens every table. Use it to save data from
    /// a failing drive.
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
            logs_on_flash: false,
            flushes_to_flash: false,
            offload_delay_ns: 0,
            offloaded_file_count_max: 10,
            eager_after_ns: 0,
            block_cache_len_bytes: 64 << 20,
            seek_read_len_bytes: 0,
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
    /// Checks every option.
    ///
    /// # Errors
    /// [`EngineError::BadOption`], with the option and the rule that it breaks.
    pub fn check(&self) -> Result<(), EngineError> {
        let memtable = self.memtable_len_bytes;
        let is_memtable = (4096..=MEMTABLE_LEN_BYTES_MAX).contains(&memtable);
        require(is_memtable, "memtable_len_bytes", "4096 to 4 GiB")?;
        require(self.immutable_memtable_count_max >= 1, "immutable_memtable_count_max", ">= 1")?;
        let are_jobs = (1..=BACKGROUND_JOBS_MAX).contains(&self.max_background_jobs);
        require(are_jobs, "max_background_jobs", "1 to 256")?;
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
    /// No compression.
    None = 1,
    /// LZ4: compresses a few hundred MB/s, decompresses several GB/s.
    #[default]
    Lz4 = 2,
    /// Zstandard, level 3: smaller and slower than LZ4.
    Zstd = 3,
}

/// The policy that arranges a keyspace's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CompactionKind {
    /// Level 0 of overlapping runs, and one sorted run in each level below, each longer than the
    /// one above by a factor.
    #[default]
    Leveled = 1,
    /// Like leveled, but the tables that one compaction writes to level 2 or below are stored as a
    /// set. Victims come first from the sets with the most dead tables. This is SEALDB's policy,
    /// made for placements that store sets contiguously.
    SetAware = 2,
    /// Two levels of overlapping tables, merged only where they are out of order. This is SMRDB's
    /// policy. It works best with tables as long as a band and with
    /// [`KeyspaceOptions::histogram_len_bytes`].
    Smrdb = 3,
    /// Like leveled, but deeper levels are compacted one window of zones at a time, so that whole
    /// zones empty themselves. Made for the placement `zone-per-level`.
    Gear = 4,
    /// A base of one sorted run, which holds most of the data, and overlapping runs above it. The key
    /// space is divided into partitions, and one partition after another is merged into the base,
    /// when space is needed. This policy fills a drive to 90 %.
    Lazy = 5,
}

/// Which table of a level that is too long goes down first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VictimOrder {
    /// Round-robin by key, like LevelDB.
    RoundRobin = 1,
    /// The table that overlaps the fewest bytes of the next level for its length; round-robin by
    /// key among equals.
    #[default]
    MinOverlap = 2,
    /// With set-aware compaction, from level 2 on, a table of the set with the most dead members;
    /// round-robin by key among equals, and everywhere else.
    DeadFirst = 3,
}

/// How many tables of a level that is too long go down together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VictimGrowth {
    /// As many neighbours as stay, with the tables they overlap, below 50 tables' worth of bytes.
    /// Each compaction also rewrites the tables that overlap its two ends, and a longer one pays
    /// for them less often.
    #[default]
    Neighbours = 1,
    /// One, like LevelDB and RocksDB. Its neighbours join only if that adds no table of the next level and
    /// the whole stays below 25 tables' worth of bytes. Tables with deletes do not go down early.
    Single = 2,
}

/// How far gear compaction goes down in one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum GearDepth {
    /// As far as tables overlap, with as many victims as make the level short enough.
    #[default]
    Overlaps = 0,
    /// Like the program that GearDB's authors published: one victim, and past a level only if it is full
    /// and the next one has a quarter of its target. What the merge writes goes no deeper than that.
    FullLevels = 1,
}

/// Options of a keyspace. The store records them when the keyspace is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// The length at which a table ends, but at most 1/256 of the drive where tables share zones, and
    /// at least 64 KiB there. A table of keys of several KiB may be longer.
    pub table_len_bytes: u64,
    /// The length at which a data block ends, before compression.
    pub block_len_bytes: u32,
    /// How data blocks are compressed.
    pub compression: Compression,
    /// Filter bits per key; 0 for no filter. With 10 bits, about one lookup of a missing key in a
    /// hundred passes the filter. With lazy leveling, tables above the base have six more, because a
    /// lookup passes the filters of all runs.
    pub filter_bits_per_key: u32,
    /// The compaction policy.
    pub compaction: CompactionKind,
    /// The number of runs in level 0 that starts a compaction.
    pub l0_compact_run_count: u32,
    /// The number of runs in level 0 at which writes slow down to the speed of compaction.
    pub l0_slowdown_run_count: u32,
    /// The number of runs in level 0 at which writes wait.
    pub l0_stop_run_count: u32,
    /// The length of level 1 above which it is compacted, but at most a thirty-second of the drive or
    /// four tables, where tables share zones.
    pub base_level_len_bytes: u64,
    /// The ratio between the length limits of a level and of the level above it.
    pub level_factor: u32,
    /// The number of tables' worth of bytes that a table may overlap in the level after next.
    pub grandparent_table_count_max: u32,
    /// Which table of a level that is too long goes down first.
    pub victim_order: VictimOrder,
    /// How many tables go down together.
    pub victim_growth: VictimGrowth,
    /// Whether a flush may write below level 0, as in LevelDB: to level 2 at most, and only if no table
    /// there or above overlaps it. RocksDB's flushes stay in level 0. Leveled, set-aware and gear
    /// compaction obey this option.
    pub flushes_pass_levels: bool,
    /// Whether a table goes down after many gets have looked in it for nothing, as in LevelDB. RocksDB
    /// has no such compactions. Leveled and set-aware compaction obey this option.
    pub missed_tables_go_down: bool,
    /// Whether set-aware compaction also ends a table where the next key enters tables of another
    /// set in the level below, if the table has a quarter of its length. A table then overlaps few
    /// sets, and the tables of a set die together.
    pub cuts_at_sets: bool,
    /// How far gear compaction goes down in one turn.
    pub gear_depth: GearDepth,
    /// The length limit of the byte histogram in each table; 0 for no histogram. Only SMRDB's
    /// compaction uses it. It stays in memory while the table is open.
    pub histogram_len_bytes: u32,
    /// The number of tables of level 1 that may cover one key before SMRDB's compaction merges some
    /// of them.
    pub overlap_count_max: u32,
    /// Values from this length on are written once: compactions leave them in the file of the log, and merge the
    /// keys alone. The space of values that were overwritten or deleted comes back when a file holds none that is
    /// live, or is cleaned. 0 for no such values. The store's logs become tables then, as with
    /// [`Options::logs_are_tables`]; if the keyspace is created in a store that is open and no other has such values, from
    /// the next opening on.
    pub values_apart_from_bytes: u32,
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
            flushes_pass_levels: false,
            missed_tables_go_down: false,
            cuts_at_sets: false,
            gear_depth: GearDepth::default(),
            histogram_len_bytes: 0,
            overlap_count_max: 16,
            values_apart_from_bytes: 0,
        }
    }
}

impl KeyspaceOptions {
    /// Checks every option.
    ///
    /// # Errors
    /// [`EngineError::BadOption`], with the option and the rule that it breaks.
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
    /// Whether the write returns only after it is durable.
    pub sync: bool,
}

impl WriteOptions {
    /// A write that is durable on return.
    pub const SYNC: WriteOptions = WriteOptions { sync: true };
}

/// Options of an iterator.
#[derive(Clone, Debug)]
pub struct ReadOptions<'a> {
    /// The snapshot to read at. Without one, the iterator reads the newest state.
    pub snapshot: Option<&'a Snapshot>,
    /// The smallest key that the iterator may return.
    pub lower: Option<Bytes>,
    /// The first key that the iterator may no longer return.
    pub upper: Option<Bytes>,
    /// Whether the blocks that are read go into the cache.
    pub fill_cache: bool,
    /// How far to read ahead in each sorted run once the iterator moves steadily in one direction; 0
    /// for no read-ahead.
    pub read_ahead_bytes: usize,
    /// How far to read ahead in all sorted runs together, in memory as well. Each has a part by the
    /// square root of its length: that way the disk seeks least.
    pub read_ahead_bytes_total: usize,
    /// How much the first read after a seek fetches from each sorted run; 0 for one block. For a
    /// scan that is known to be long, a larger value saves seeks of the disk.
    pub read_ahead_bytes_min: usize,
}

impl<'a> ReadOptions<'a> {
    /// The same options, limited to the keys in `range`.
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

    /// The same options, limited to the keys that start with `prefix`.
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
            read_ahead_bytes: 8 << 20,
            read_ahead_bytes_total: 32 << 20,
            read_ahead_bytes_min: 0,
        }
    }
}
