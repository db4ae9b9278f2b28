//! The lines of a recording: the head, and what changed from one moment to the next.
//!
//! ```text
//!   {"head":{"version":1,"id":0,"name":"imbrex-zones", ...}}
//!   {"frame":{"id":0,"at_ns":250000000,"drive":{...},"store":{...},"files":[...],"zones":[...]}}
//! ```
//!
//! Unknown fields are skipped, and absent ones have their default, so views and recordings of different age agree on
//! what both know. Block addresses count blocks of 4,096 bytes.

use imbrex_disk::{Activity, ActivityCounters, ByActivity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of these lines. A reader refuses a higher one.
pub const FRAME_VERSION: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// What is watched; before its first frame.
    Head(Box<Head>),
    /// What changed.
    Frame(Box<Frame>),
}

/// What is watched: one store on one drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Head {
    /// [`FRAME_VERSION`].
    pub version: u32,
    /// Which of several stores that are watched together.
    pub id: u32,
    /// A name for people.
    pub name: String,
    /// The layout of the store.
    pub layout: String,
    /// The rule that the drive writes under: `conventional`, `zoned`, `shingled`, `interlaced`.
    pub rule: String,
    /// The rule of the drive below a translation layer, if there is one: then addresses are the layer's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub below: String,
    /// Length of the drive, or of the layer over it.
    pub len_blocks: u64,
    /// Length of a zone; 0 on a drive without zones.
    pub zone_len_blocks: u64,
    /// The number of zones.
    pub zone_count: u32,
    /// How many zones may be open at a time; 0 without a limit.
    pub open_zone_count_max: u32,
    /// On interlaced tracks: length of a bottom track.
    pub bottom_track_blocks: u64,
    /// On interlaced tracks: length of a top track.
    pub top_track_blocks: u64,
    /// On shingled tracks: how many blocks after a write it destroys.
    pub guard_blocks: u64,
    /// Over fixed bands: how many blocks of the layer lie in a band; 0 without them.
    #[serde(skip_serializing_if = "is_zero")]
    pub band_blocks: u64,
    /// Over fixed bands: the guard after each band, in blocks of the drive, which are none of the layer's.
    #[serde(skip_serializing_if = "is_zero")]
    pub band_guard_blocks: u64,
    /// The blocks that the catalog keeps from files: first block and number of blocks of each piece.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub catalog: Vec<(u64, u64)>,
    /// Whether times are of a modelled drive.
    pub is_virtual: bool,
}

/// What changed since the frame before, and all totals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// The store, as in its head.
    pub id: u32,
    /// The moment, by the store's clock.
    pub at_ns: u64,
    /// What the drive did.
    pub drive: DriveTotals,
    /// What the store did.
    pub store: StoreTotals,
    /// What the store is and does at this moment.
    pub now: Now,
    /// Latencies of operations since the frame before, if somebody measured them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<OpTimes>,
    /// Files that came, changed or went.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// Zones that changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneChange>,
    /// On a drive without zones: runs without data that came, changed or went.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<GapChange>,
    /// Compactions that ended since the frame before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedCompaction>,
    /// What happened, in words: a power cut, a recovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Frame {
    /// This frame and the next as one: the totals of `next`, the changes of both.
    pub(crate) fn followed_by(self, next: Frame) -> Frame {
        let mut files: BTreeMap<String, FileChange> = BTreeMap::new();
        for change in self.files.into_iter().chain(next.files) {
            files.insert(change.name.clone(), change);
        }
        let mut zones: BTreeMap<u32, ZoneChange> = BTreeMap::new();
        for change in self.zones.into_iter().chain(next.zones) {
            zones.insert(change.zone, change);
        }
        let mut gaps: BTreeMap<u64, GapChange> = BTreeMap::new();
        for change in self.gaps.into_iter().chain(next.gaps) {
            gaps.insert(change.start_block, change);
        }
        let notes: Vec<String> = self.note.into_iter().chain(next.note).collect();
        Frame {
            files: files.into_values().collect(),
            zones: zones.into_values().collect(),
            gaps: gaps.into_values().collect(),
            ended: self.ended.into_iter().chain(next.ended).collect(),
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            ops: next.ops.or(self.ops),
            ..next
        }
    }
}

/// What the drive did since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveTotals {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Moves of the head to another track.
    pub seeks: u64,
    /// Zones reset.
    pub zone_resets: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Part of `written_bytes`: by a translation layer on its own.
    pub added_written_bytes: u64,
    /// How long the drive was busy.
    pub busy_ns: u64,
    /// Part of it: seeks.
    pub seek_ns: u64,
    /// Part of it: waits for the platter to turn.
    pub turn_ns: u64,
    /// Part of it: transfer.
    pub transfer_ns: u64,
    /// The block below the head, if a model knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_block: Option<u64>,
    /// Bytes and times by what the requests served.
    pub activities: Activities,
}

/// The part of a drive's totals that served one activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActivityTotals {
    /// Bytes read.
    #[serde(skip_serializing_if = "is_zero")]
    pub read_bytes: u64,
    /// Bytes written.
    #[serde(skip_serializing_if = "is_zero")]
    pub written_bytes: u64,
    /// How long the drive was busy; 0 on a drive without mechanics.
    #[serde(skip_serializing_if = "is_zero")]
    pub busy_ns: u64,
    /// Part of it: seeks.
    #[serde(skip_serializing_if = "is_zero")]
    pub seek_ns: u64,
    /// Part of it: waits for the platter to turn.
    #[serde(skip_serializing_if = "is_zero")]
    pub turn_ns: u64,
    /// Part of it: transfer.
    #[serde(skip_serializing_if = "is_zero")]
    pub transfer_ns: u64,
}

impl ActivityTotals {
    fn is_nothing(&self) -> bool {
        *self == ActivityTotals::default()
    }
}

impl From<ActivityCounters> for ActivityTotals {
    fn from(counters: ActivityCounters) -> ActivityTotals {
        ActivityTotals {
            read_bytes: counters.read_bytes,
            written_bytes: counters.written_bytes,
            busy_ns: counters.busy_ns,
            seek_ns: counters.seek_ns,
            turn_ns: counters.turn_ns,
            transfer_ns: counters.transfer_ns,
        }
    }
}

/// The totals of all activities, by the names of [`Activity`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "an activity is documented where it is declared")]
pub struct Activities {
    #[serde(skip_serializing_if = "ActivityTotals::is_nothing")]
    pub user: ActivityTotals,
    #[serde(skip_serializing_if = "ActivityTotals::is_nothing")]
    pub log: ActivityTotals,
    #[serde(skip_serializing_if = "ActivityTotals::is_nothing")]
    pub flush: ActivityTotals,
    #[serde(skip_serializing_if = "ActivityTotals::is_nothing")]
    pub compaction: ActivityTotals,
    #[serde(skip_serializing_if = "ActivityTotals::is_nothing")]
    pub cleaning: ActivityTotals,
    #[serde(skip_serializing_if = "ActivityTotals::is_nothing")]
    pub catalog: ActivityTotals,
    #[serde(skip_serializing_if = "ActivityTotals::is_nothing")]
    pub other: ActivityTotals,
}

impl Activities {
    /// The totals of `counters`.
    pub fn of(counters: &ByActivity<ActivityCounters>) -> Activities {
        let of = |activity| ActivityTotals::from(counters[activity]);
        Activities {
            user: of(Activity::User),
            log: of(Activity::Log),
            flush: of(Activity::Flush),
            compaction: of(Activity::Compaction),
            cleaning: of(Activity::Cleaning),
            catalog: of(Activity::Catalog),
            other: of(Activity::Other),
        }
    }

    /// Each activity with its totals.
    pub fn each(&self) -> [(Activity, ActivityTotals); 7] {
        Activity::ALL.map(|activity| {
            let totals = match activity {
                Activity::User => self.user,
                Activity::Log => self.log,
                Activity::Flush => self.flush,
                Activity::Compaction => self.compaction,
                Activity::Cleaning => self.cleaning,
                Activity::Catalog => self.catalog,
                Activity::Other => self.other,
            };
            (activity, totals)
        })
    }
}

/// Waits of writers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// How long together.
    pub total_ns: u64,
}

/// What the store did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreTotals {
    /// Operations written by the user.
    pub user_ops: u64,
    /// Keys and values written by the user.
    pub user_bytes: u64,
    /// Written to logs.
    pub log_bytes: u64,
    /// Written by flushes.
    pub flush_bytes: u64,
    /// How many flushes.
    pub flushes: u64,
    /// Read by compactions.
    pub compaction_read_bytes: u64,
    /// Written by compactions.
    pub compaction_written_bytes: u64,
    /// How many compactions, moves included.
    pub compactions: u64,
    /// Moved by cleaning.
    pub cleaning_bytes: u64,
    /// Written to the catalog.
    pub catalog_bytes: u64,
    /// Block cache: look-ups that found the block.
    pub cache_hits: u64,
    /// Block cache: look-ups that did not.
    pub cache_misses: u64,
    /// Writers that waited for a flush or for space.
    pub stopped: Stalls,
    /// Writers that were slowed to the pace of compaction.
    pub slowed: Stalls,
    /// Writers that waited because of the flash drive.
    pub offload: Stalls,
}

impl StoreTotals {
    /// Both together.
    pub(crate) fn plus(self, more: StoreTotals) -> StoreTotals {
        let stalls = |a: Stalls, b: Stalls| Stalls {
            count: a.count + b.count,
            total_ns: a.total_ns + b.total_ns,
        };
        StoreTotals {
            user_ops: self.user_ops + more.user_ops,
            user_bytes: self.user_bytes + more.user_bytes,
            log_bytes: self.log_bytes + more.log_bytes,
            flush_bytes: self.flush_bytes + more.flush_bytes,
            flushes: self.flushes + more.flushes,
            compaction_read_bytes: self.compaction_read_bytes + more.compaction_read_bytes,
            compaction_written_bytes: self.compaction_written_bytes + more.compaction_written_bytes,
            compactions: self.compactions + more.compactions,
            cleaning_bytes: self.cleaning_bytes + more.cleaning_bytes,
            catalog_bytes: self.catalog_bytes + more.catalog_bytes,
            cache_hits: self.cache_hits + more.cache_hits,
            cache_misses: self.cache_misses + more.cache_misses,
            stopped: stalls(self.stopped, more.stopped),
            slowed: stalls(self.slowed, more.slowed),
            offload: stalls(self.offload, more.offload),
        }
    }
}

/// What the store is and does at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Now {
    /// Memory in use by memtables.
    pub memtable_bytes: u64,
    /// Memory in use by the block cache.
    pub cache_bytes: u64,
    /// Memory in use by filters and indexes.
    pub table_memory_bytes: u64,
    /// Snapshots held.
    pub snapshots: u64,
    /// Bytes of live files on the drive.
    pub live_bytes: u64,
    /// Bytes that are dead and not yet free.
    pub dead_bytes: u64,
    /// Bytes that can be written now.
    pub free_bytes: u64,
    /// How much may be written before puts are refused, without any cleaning.
    pub slack_bytes: u64,
    /// The levels that have tables.
    pub levels: Vec<LevelNow>,
    /// The compactions that run.
    pub running: Vec<RunningNow>,
    /// The compaction that is due next, in words, with its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What the base merge waits for, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_merge_waits: Option<String>,
}

/// One level of one keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LevelNow {
    /// The keyspace.
    pub keyspace: String,
    /// The level; the base of lazy leveling is the last.
    pub level: u8,
    /// Sorted runs.
    pub runs: u64,
    /// Tables.
    pub tables: u64,
    /// Their length.
    pub len_bytes: u64,
}

/// A compaction that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunningNow {
    /// The plan in words: tables, levels, reason.
    pub plan: String,
    /// Bytes that it reads, about.
    pub len_bytes: u64,
    /// How many of them are merged.
    pub done_bytes: u64,
}

/// A compaction that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndedCompaction {
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The plan in words: tables, levels, reason.
    pub plan: String,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// Latencies of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpTimes {
    /// How many operations.
    pub count: u64,
    /// Half took at most this long.
    pub p50_ns: u64,
    /// 99 of 100 took at most this long.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A file that came, changed or went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileChange {
    /// Its name.
    pub name: String,
    /// It went; nothing else is then given.
    #[serde(skip_serializing_if = "is_false")]
    pub is_gone: bool,
    /// `log`, `level 2`, `base` or `other`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// The level, for colours; 255 for a log.
    #[serde(skip_serializing_if = "is_zero_level")]
    pub level: u8,
    /// Whether it lies on the flash drive.
    #[serde(skip_serializing_if = "is_false")]
    pub is_on_flash: bool,
    /// Its length.
    #[serde(skip_serializing_if = "is_zero")]
    pub len_bytes: u64,
    /// Where it lies: first block and number of blocks of each piece.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extents: Vec<(u64, u64)>,
    /// A table's keyspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyspace: Option<String>,
    /// A table's partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// A table's first key, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_key: Option<String>,
    /// A table's last key, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_key: Option<String>,
    /// A table's entries.
    #[serde(skip_serializing_if = "is_zero")]
    pub entries: u64,
}

/// The state of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneNow {
    /// Written anywhere.
    Conventional,
    /// Nothing is written.
    #[default]
    Empty,
    /// Being written.
    Open,
    /// Written in part.
    Closed,
    /// Written to its end.
    Full,
    /// Takes no more writes.
    ReadOnly,
    /// Lost.
    Offline,
}

/// A zone that changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ZoneChange {
    /// Its number.
    pub zone: u32,
    /// Its state.
    pub state: ZoneNow,
    /// How many of its blocks lie before the write pointer.
    pub written_blocks: u64,
}

/// A run without data that changed, on a drive without zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GapChange {
    /// Its first block.
    pub start_block: u64,
    /// Its length; 0 if there is no such run any more.
    #[serde(skip_serializing_if = "is_zero")]
    pub len_blocks: u64,
    /// How many blocks at its end must stay blank: a guard.
    #[serde(skip_serializing_if = "is_zero")]
    pub guard_blocks: u64,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_zero_level(value: &u8) -> bool {
    *value == 0
}
