//! What a layout is made of, as data: the parts that [`super::Stack`] puts together.
//!
//! A recipe is taken from its layout ([`super::Layout::recipe`]), fitted to the drive, and may be
//! adjusted before it is used: a figure asks for another read unit, a test for small tables.
//!
//! The engine's part comes from its presets (`imbrex_engine::Options::leveldb_1_19()` and its like); here is
//! only what depends on the drive. How much compaction reads at a time is part of a layout because
//! on a disk it decides much: 128 KB where a file system's read-ahead does it, whole tables where
//! the store knows where its tables lie.

use imbrex_disk::{Blocks, Geometry, Rule};
use imbrex_engine::{CompactionKind, KeyspaceOptions, Options};
use imbrex_files::PlacementOptions;
use imbrex_files::tiers::FlashOptions;
use imbrex_translate::BandOptions;

/// Of a drive, the share that one memtable may be long: a store keeps free what it holds in memory.
const MEMTABLE_SHARE: u64 = 64;
const MEMTABLE_LEN_BYTES_MIN: u64 = 64 << 10;

/// A table with its index and footer, in one read.
const WHOLE_TABLE_LEN_BYTES: usize = 8 << 20;

/// A table as SEALDB has it.
const LEVELDB_TABLE_LEN_BYTES: u64 = 4 << 20;

/// On a drive shorter than this, level 0 of 36 memtables would be most of it.
const KVIMR_LEN_BYTES_MIN: u64 = 8 << 30;

/// What is kept of tracks for a table's end: a share of them, but at least 16 KiB.
const TABLE_END_SHARE: u64 = 512;
const TABLE_END_LEN_BYTES_MIN: u64 = 16 << 10;

/// The placement whose tables are as long as the drive's zones.
const BAND_PER_TABLE: &str = "band-per-table";

/// The bands of write-offloading, and how many of them level 0 and level 1 each may have; a level is at
/// most so small a share of the drive. Source: the thesis, section 5.3.
pub(crate) const OFFLOAD_BAND_LEN_BYTES: u64 = 64 << 20;

/// How long a drive is idle before it compacts ahead; the thesis on offloading only says "a while".
const EAGER_AFTER_NS: u64 = 5_000_000_000;
const OFFLOAD_LEVEL_BAND_COUNT: u64 = 10;
const OFFLOAD_SHARE: u64 = 20;

/// How many partitions of the usual length a full drive has, with lazy leveling, and their least length.
const PARTITIONS_PER_DRIVE: u64 = 16;
const PARTITION_LEN_BYTES_MIN: u64 = 16 << 20;
/// How many tables a full drive has at least, with lazy leveling: of a table that is being merged, the
/// part that is merged comes back only with the rest.
const LAZY_TABLES_PER_DRIVE_MIN: u64 = 512;
/// A table is written in one turn at the disk, which a put may have to wait for.
const LAZY_TABLE_LEN_BYTES: u64 = 8 << 20;
/// Each table takes 2 KB of memory, so those of long drives are longer.
const LAZY_TABLES_PER_DRIVE_MAX: u64 = 64 << 10;
/// A merge of a partition reads from a score of places in turn.
const LAZY_READ_LEN_BYTES: usize = 4 << 20;
const LAZY_TABLE_LEN_BYTES_MIN: u64 = 1 << 20;
const LAZY_TABLE_LEN_BYTES_MAX: u64 = 32 << 20;

/// SMRDB's bands, where the drive does not say.
const BAND_LEN_BYTES: u64 = 40 << 20;

/// Which kind of drive a layout is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recording {
    /// Written anywhere.
    Conventional,
    /// Host-managed zones.
    Zoned,
    /// Raw shingled tracks.
    Shingled,
    /// Raw interlaced tracks.
    Interlaced,
}

impl Recording {
    /// The rule's name, as [`Rule::name`] says it.
    pub fn name(self) -> &'static str {
        match self {
            Recording::Conventional => "conventional",
            Recording::Zoned => "zoned",
            Recording::Shingled => "shingled",
            Recording::Interlaced => "interlaced",
        }
    }

    /// All kinds.
    pub fn all() -> [Recording; 4] {
        [Recording::Conventional, Recording::Zoned, Recording::Shingled, Recording::Interlaced]
    }

    /// Whether a drive under `rule` is one.
    pub fn matches(self, rule: &Rule) -> bool {
        self.name() == rule.name()
    }

    /// Which kind a drive under `rule` is; `None` for one that no layout is for.
    pub fn of(rule: &Rule) -> Option<Recording> {
        Recording::all().into_iter().find(|recording| recording.matches(rule))
    }
}

/// The parts of a layout, fitted to one drive.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Fixed bands over the drive, where the layout has them.
    pub bands: Option<BandOptions>,
    /// What the flash drive must be, where the layout has one or logs go to one.
    pub flash: Option<FlashOptions>,
    /// The placement policy, by name.
    pub placement: &'static str,
    /// The policy's numbers, written down at format.
    pub placement_options: PlacementOptions,
    /// The engine's options; those of its default keyspace are written down at format.
    pub options: Options,
}

impl Recipe {
    /// The same with logs, and nothing else, on a flash drive beside the drive, which
    /// [`super::Layout::format_with`] then takes. Not for layouts with fixed bands.
    #[must_use]
    pub fn with_logs_on_flash(mut self) -> Recipe {
        self.options.logs_on_flash = true;
        let log_len_bytes_max = self.options.memtable_len_bytes;
        self.flash = Some(FlashOptions { log_len_bytes_max });
        self
    }

    /// The same with every length divided by `divisor`, for small drives in tests; lengths stay
    /// above what the parts need to work at all.
    pub fn shrunk(mut self, divisor: u64) -> Recipe {
        let by = |len_bytes: u64, min: u64| (len_bytes / divisor.max(1)).max(min);
        if let Some(bands) = &mut self.bands {
            bands.band_len = Blocks::holding(by(bands.band_len.bytes(), 64 << 10));
        }
        if self.placement == BAND_PER_TABLE {
            // Tables are as long as the drive's bands: they shrink with the drive, not here.
            return self;
        }
        let options = &mut self.options;
        options.memtable_len_bytes = by(options.memtable_len_bytes, 16 << 10);
        options.log_len_bytes_max = by(options.log_len_bytes_max, 64 << 10);
        options.block_cache_len_bytes = by(options.block_cache_len_bytes, 64 << 10);
        let read = by(options.compaction_read_len_bytes as u64, 4096);
        options.compaction_read_len_bytes = usize::try_from(read).unwrap_or(usize::MAX);
        let keyspace = &mut options.keyspace;
        keyspace.table_len_bytes = by(keyspace.table_len_bytes, 16 << 10);
        keyspace.base_level_len_bytes = by(keyspace.base_level_len_bytes, 32 << 10);
        self.placement_options.unit_len = Blocks::holding(keyspace.table_len_bytes);
        self
    }

    /// Fits what depends on how much there is to a drive of `geometry`.
    pub(crate) fn fitted(mut self, geometry: &Geometry) -> Recipe {
        let share = (geometry.len().bytes() / MEMTABLE_SHARE).max(MEMTABLE_LEN_BYTES_MIN);
        let memtable = &mut self.options.memtable_len_bytes;
        *memtable = share.min(*memtable);
        let memtable_len_bytes = *memtable;
        if let Some(flash) = &mut self.flash {
            // A log is as long as its memtable, and takes a band if it goes to the drive. Of a flush, some tables
            // may go there.
            let band_len_bytes = match self.options.offloads {
                true => band_len_bytes(geometry).min(OFFLOAD_BAND_LEN_BYTES),
                false => 0,
            };
            flash.log_len_bytes_max = band_len_bytes.max(memtable_len_bytes);
        }
        self
    }
}

/// What makes the engine's options of a layout, given the drive.
pub(crate) type EngineOptions = fn(&Geometry) -> Options;

/// What a seek reads at once: a scan of a hundred entries of 4 KB then seeks once in each run. Reading so
/// much takes as long as a third of a seek.
const SEEK_READ_LEN_BYTES: usize = 512 << 10;

/// The store's own defaults.
pub(crate) fn default_engine(_: &Geometry) -> Options {
    Options { seek_read_len_bytes: SEEK_READ_LEN_BYTES, ..Options::default() }
}

/// The base of one run, and lazy levels above it: a partition is a sixteenth of the drive, at least 16
/// MiB and eight zones.
pub(crate) fn lazy(geometry: &Geometry) -> Options {
    let mut options = Options {
        compaction_read_len_bytes: LAZY_READ_LEN_BYTES,
        // Puts wait for pieces of a merge, not for memtables.
        free_memtable_count_min: 1,
        seek_read_len_bytes: SEEK_READ_LEN_BYTES,
        ..Options::default()
    };
    let zone_len_bytes = geometry.zones().map_or(0, |zones| zones.zone_capacity.bytes());
    let partition_len_bytes = geometry.len().bytes() / PARTITIONS_PER_DRIVE;
    let keyspace = &mut options.keyspace;
    keyspace.compaction = CompactionKind::Lazy;
    keyspace.base_level_len_bytes =
        partition_len_bytes.max(8 * zone_len_bytes).max(PARTITION_LEN_BYTES_MIN);
    keyspace.table_len_bytes = lazy_table_len_bytes(geometry.len().bytes());
    keyspace.l0_compact_run_count = 4;
    // What puts leave free for a merge is the length of a piece.
    keyspace.grandparent_table_count_max = 3;
    // Of one partition. More runs would mean that compaction lags behind.
    keyspace.l0_slowdown_run_count = 12;
    keyspace.l0_stop_run_count = 24;
    options
}

/// The length of a table on a drive of `drive_len_bytes`.
fn lazy_table_len_bytes(drive_len_bytes: u64) -> u64 {
    let usual = LAZY_TABLE_LEN_BYTES.min(drive_len_bytes / LAZY_TABLES_PER_DRIVE_MIN);
    let least = LAZY_TABLE_LEN_BYTES_MIN.max(drive_len_bytes / LAZY_TABLES_PER_DRIVE_MAX);
    usual.max(least).min(LAZY_TABLE_LEN_BYTES_MAX)
}

/// As [`lazy`], with flushes to a flash drive.
pub(crate) fn lazy_flash(geometry: &Geometry) -> Options {
    Options { flushes_to_flash: true, ..lazy(geometry) }
}

/// As [`lazy`], with tables that fill their bottom tracks.
pub(crate) fn lazy_tracks(geometry: &Geometry) -> Options {
    let mut options = lazy(geometry);
    let Some(tracks) = geometry.interlaced() else { return options };
    let track_len_bytes = tracks.bottom_track_len.bytes().max(1);
    let table_len_bytes = &mut options.keyspace.table_len_bytes;
    let track_count = (*table_len_bytes / track_len_bytes).max(1);
    *table_len_bytes = table_len_bytes_in(track_count * track_len_bytes);
    options
}

/// LevelDB 1.19 through a file system.
pub(crate) fn leveldb(_: &Geometry) -> Options {
    Options::leveldb_1_19()
}

/// KVIMR's RocksDB: tables and memtables of 64 MB, level 1 of 256 MB, filters of 10 bits, 2 MB read at a
/// time; on a small drive tables of a thousandth of it, and all else in proportion. One victim goes down at
/// a time, as in LevelDB; flushes stay in level 0, and gets start no compaction.
///
/// Source: KVIMR, section 4.1.
pub(crate) fn kvimr(geometry: &Geometry) -> Options {
    let tracks_len_bytes = (geometry.len().bytes() / 1024).clamp(2 << 20, 64 << 20);
    // With its index and filter a table still fits its tracks, each of which belongs to one table.
    let table_len_bytes = table_len_bytes_in(tracks_len_bytes);
    let mut options = Options::leveldb_1_19();
    options.memtable_len_bytes = table_len_bytes;
    options.log_len_bytes_max = 4 * table_len_bytes;
    options.compaction_read_len_bytes = 2 << 20;
    let keyspace = &mut options.keyspace;
    keyspace.table_len_bytes = table_len_bytes;
    keyspace.base_level_len_bytes = 4 * table_len_bytes;
    keyspace.filter_bits_per_key = 10;
    keyspace.flushes_pass_levels = false;
    keyspace.missed_tables_go_down = false;
    if KVIMR_LEN_BYTES_MIN <= geometry.len().bytes() {
        keyspace.l0_slowdown_run_count = 20;
        keyspace.l0_stop_run_count = 36;
    }
    options
}

/// How long a table may get so that it fits `tracks_len_bytes` with its last entry, the list of its
/// partitions and its properties, which are not counted before it ends. What it leaves of its last
/// track is lost: a piece of a track is not worth what its rewrite costs.
pub fn table_len_bytes_in(tracks_len_bytes: u64) -> u64 {
    tracks_len_bytes - (tracks_len_bytes / TABLE_END_SHARE).max(TABLE_END_LEN_BYTES_MIN)
}

/// The unit of placement on interlaced tracks: those that a table of `table_len_bytes` takes. The backup
/// region holds two, so that a table needs one rewrite at most; on other drives a table's length.
pub fn unit_len(geometry: &Geometry, table_len_bytes: u64) -> Blocks {
    let len = Blocks::holding(table_len_bytes);
    let top_len = geometry.interlaced().map_or(1, |tracks| tracks.top_track_len.get());
    Blocks::new(len.get().next_multiple_of(top_len.max(1)))
}

/// The unit of placement for sets: the published one, a table of LevelDB, or a shorter table.
pub(crate) fn set_unit_len(table_len_bytes: u64) -> Blocks {
    Blocks::holding(table_len_bytes.min(LEVELDB_TABLE_LEN_BYTES))
}

/// How much a product's compaction reads of each input at a time. That takes three times as long as the
/// seek before it, and inputs are a score at most.
const PRODUCT_READ_LEN_BYTES: usize = 4 << 20;

/// How many tables of SMRDB may cover one key, in the product: each costs a scan a seek.
const PRODUCT_OVERLAP_COUNT_MAX: u32 = 8;

/// A published compaction with what a user expects around it: filters, compression, tables and memtables of
/// the default store, scans that begin with a long read, and compaction ahead of need on an idle drive.
fn as_product(keyspace: KeyspaceOptions, geometry: &Geometry) -> Options {
    Options {
        compaction_read_len_bytes: PRODUCT_READ_LEN_BYTES,
        eager_after_ns: EAGER_AFTER_NS,
        keyspace,
        ..default_engine(geometry)
    }
}

/// GearDB's windows in the default store.
pub(crate) fn gear(geometry: &Geometry) -> Options {
    let keyspace = KeyspaceOptions {
        compaction: CompactionKind::Gear,
        // A table that overlaps nothing then needs no turn of its own to leave level 0.
        flushes_pass_levels: true,
        ..KeyspaceOptions::default()
    };
    as_product(keyspace, geometry)
}

/// GearDB as published: LevelDB's sizes, compaction in windows, whole tables read.
pub(crate) fn gear_paper(_: &Geometry) -> Options {
    let mut options = Options::leveldb_1_19();
    options.compaction_read_len_bytes = WHOLE_TABLE_LEN_BYTES;
    options.keyspace.compaction = CompactionKind::Gear;
    options
}

/// How many tables a drive has at least, with sets: a set is about ten, and gives its space back whole.
const SET_TABLES_PER_DRIVE_MIN: u64 = 1024;
const SET_TABLE_LEN_BYTES_MIN: u64 = 1 << 20;

/// SEALDB's sets in the default store, with shorter tables on a short drive. A set is what one victim merges,
/// as published: it is in memory until it is placed.
pub(crate) fn sets(geometry: &Geometry) -> Options {
    let (sets, usual) = (KeyspaceOptions::set_aware(), KeyspaceOptions::default());
    let table_len_bytes = geometry.len().bytes() / SET_TABLES_PER_DRIVE_MIN;
    let table_len_bytes = table_len_bytes.clamp(SET_TABLE_LEN_BYTES_MIN, usual.table_len_bytes);
    let keyspace = KeyspaceOptions {
        table_len_bytes,
        base_level_len_bytes: usual.base_level_len_bytes / usual.table_len_bytes * table_len_bytes,
        compaction: sets.compaction,
        victim_order: sets.victim_order,
        victim_growth: sets.victim_growth,
        flushes_pass_levels: sets.flushes_pass_levels,
        missed_tables_go_down: sets.missed_tables_go_down,
        ..KeyspaceOptions::default()
    };
    as_product(keyspace, geometry)
}

/// SEALDB's sets as published, on whatever they are placed.
pub(crate) fn sets_paper(_: &Geometry) -> Options {
    Options::set_aware()
}

/// SMRDB: a table a band, two levels of overlapping runs. Its memtable stays as long as a band.
pub(crate) fn smrdb(geometry: &Geometry) -> Options {
    let band = smrdb_paper(geometry);
    let keyspace = KeyspaceOptions {
        compression: KeyspaceOptions::default().compression,
        overlap_count_max: PRODUCT_OVERLAP_COUNT_MAX,
        ..band.keyspace
    };
    Options {
        memtable_len_bytes: band.memtable_len_bytes,
        log_len_bytes_max: band.log_len_bytes_max,
        ..as_product(keyspace, geometry)
    }
}

/// SMRDB as published.
pub(crate) fn smrdb_paper(geometry: &Geometry) -> Options {
    Options::smrdb(band_len_bytes(geometry))
}

/// SMRDB with LevelDB's levels.
pub(crate) fn smrdb_leveled(geometry: &Geometry) -> Options {
    Options::smrdb_leveled(band_len_bytes(geometry))
}

/// SMRDB with three levels of bands, of 10, 10 and 100, and a memtable as long as a band; level 0
/// neither slows writes down nor stops them. On a drive of fewer bands the levels are shorter, and it
/// does.
///
/// Source: the thesis, section 5.3.
pub(crate) fn offload(geometry: &Geometry) -> Options {
    let band_len_bytes = band_len_bytes(geometry);
    let memtable_band_len_bytes = band_len_bytes.min(OFFLOAD_BAND_LEN_BYTES);
    let usual = Options::smrdb_leveled(memtable_band_len_bytes);
    let mut options =
        Options { keyspace: Options::smrdb_leveled(band_len_bytes).keyspace, ..usual };
    let band_count = u64::from(geometry.zone_count());
    let level_band_count = (band_count / OFFLOAD_SHARE).clamp(1, OFFLOAD_LEVEL_BAND_COUNT);
    let keyspace = &mut options.keyspace;
    keyspace.base_level_len_bytes = level_band_count * keyspace.table_len_bytes;
    keyspace.level_factor = 10;
    keyspace.l0_compact_run_count = level_band_count as u32;
    if level_band_count == OFFLOAD_LEVEL_BAND_COUNT {
        keyspace.l0_slowdown_run_count = u32::MAX;
        keyspace.l0_stop_run_count = u32::MAX;
    } else {
        // LevelDB's own ratio.
        keyspace.l0_slowdown_run_count = 2 * keyspace.l0_compact_run_count;
        keyspace.l0_stop_run_count = 3 * keyspace.l0_compact_run_count;
    }
    // What a memtable leaves of a band is for the index behind its log.
    options.logs_are_tables = true;
    options.offloads = true;
    options.eager_after_ns = EAGER_AFTER_NS;
    options
}

/// What a table of a band of its own may be long.
fn band_len_bytes(geometry: &Geometry) -> u64 {
    geometry.zones().map_or(BAND_LEN_BYTES, |zones| zones.zone_capacity.bytes())
}
