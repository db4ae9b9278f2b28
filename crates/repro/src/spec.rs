//! The specification of a run: a drive, a layout, and a list of phases. Plain data that can be
//! compared.
//!
//! Figures name runs but do not execute them, so two figures that need the same run share it: a
//! load of 100 GB has milestones at 10 and 40 GB and serves three figures.

use crate::client_phase::ClientPhase;
use crate::replays::GivenTrace;
use imbrex_bench::emulated::DriveSpec;
use imbrex_workload::ycsb::presets::YcsbWorkload;
use serde::Serialize;

/// One run: everything that decides its outcome, except the seed, which all runs share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RunSpec {
    /// The layout's name.
    pub layout: &'static str,
    /// The drive.
    pub drive: DriveSpec,
    /// Deviations from the layout's own options.
    pub tune: Tune,
    /// The phases, in order, on one store.
    pub phases: Vec<Phase>,
}

/// Deviations from a layout's own options; `None` leaves the layout's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Tune {
    /// The length of a memtable.
    pub memtable_len_bytes: Option<u64>,
    /// The length of a table.
    pub table_len_bytes: Option<u64>,
    /// The read unit of compactions.
    pub compaction_read_len_bytes: Option<u64>,
    /// The part of the log that is buffered before it is written.
    pub log_frame_len_bytes: Option<u64>,
    /// Filter bits per key.
    pub filter_bits_per_key: Option<u32>,
    /// The length of a block.
    pub block_len_bytes: Option<u32>,
    /// The choice of victims, and how many go together.
    pub victims: Option<Victims>,
    /// The order of victims and the cuts of set-aware compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sets: Option<Sets>,
    /// Below which share of free space the drive is cleaned in the background, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleans_below_percent: Option<u8>,
    /// Whether gear compaction goes down only below full levels.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub full_levels: bool,
    /// Whether flushes pass levels and missed tables go down, as in LevelDB, on a layout that stands for
    /// RocksDB.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_leveldbs_habits: bool,
    /// The length of level 1.
    pub base_level_len_bytes: Option<u64>,
    /// Runs in level 0 that trigger a compaction, slow writers down, and stop them.
    pub l0_run_counts: Option<(u32, u32, u32)>,
    /// How many tables of level 1 may overlap at a key in `smrdb`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_count_max: Option<u32>,
    /// The length of a fixed band of a translated drive.
    pub band_len_bytes: Option<u64>,
    /// Whether a translated drive rewrites the whole band instead of the part after the write.
    pub reads_whole_band: bool,
    /// Whether rewrites of a translated drive survive a power cut, which no published emulation
    /// does.
    pub is_staged: bool,
    /// Whether tables are compressed, with values that compress to half, like db_bench's.
    pub compresses: bool,
    /// Whether a phase starts right after the one before, while the compactions of a load still
    /// run. Otherwise it starts when the store is at rest.
    pub without_rest: bool,
    /// Whether writes stay on the main drive in a layout that offloads them.
    pub keeps_writes: bool,
    /// The delay of each write while many files are on flash.
    pub offload_delay_ns: Option<u64>,
    /// The idle time after which compaction works ahead.
    pub eager_after_ns: Option<u64>,
}

/// The choice of victims: [`imbrex_engine::tuning::VictimOrder`] and
/// [`imbrex_engine::tuning::VictimGrowth`] in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Victims {
    /// LevelDB's: round-robin by key, one table at a time.
    RoundRobin,
    /// Neighbours that overlap least with the next level, several at a time.
    MinOverlap,
}

/// What set-aware compaction does with sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Sets {
    /// Whether tables end where a set of the level below does.
    pub cuts: bool,
    /// Whether victims are taken round-robin by key. Otherwise those of the set with most dead
    /// members come first.
    pub by_key: bool,
}

impl Tune {
    /// With another order of victims, or other cuts.
    pub fn sets(self, cuts: bool, by_key: bool) -> Tune {
        Tune { sets: Some(Sets { cuts, by_key }), ..self }
    }

    /// With cleaning in the background while less than this share of the space is free.
    pub fn cleans_below(self, percent: u8) -> Tune {
        Tune { cleans_below_percent: Some(percent), ..self }
    }

    /// With another read unit of compactions.
    pub fn compaction_reads(self, len_bytes: u64) -> Tune {
        Tune { compaction_read_len_bytes: Some(len_bytes), ..self }
    }

    /// With this number of filter bits per key.
    pub fn filters(self, bits_per_key: u32) -> Tune {
        Tune { filter_bits_per_key: Some(bits_per_key), ..self }
    }

    /// With a compaction of level 0 for each run, so that a rest leaves none there. Writers are slowed
    /// down and stopped as in LevelDB.
    pub fn empty_level_0(self) -> Tune {
        Tune { l0_run_counts: Some((1, 8, 12)), ..self }
    }

    /// With phases that do not wait for the background work of the one before.
    pub fn without_rest(self) -> Tune {
        Tune { without_rest: true, ..self }
    }

    /// The deviations in words; empty if there are none.
    fn words(&self) -> Vec<String> {
        let kib = |what: &str, bytes: Option<u64>| bytes.map(|b| format!("{what} {} KB", b >> 10));
        let flag = |what: &str, is: bool| is.then(|| what.to_owned());
        let words = [
            kib("memtable", self.memtable_len_bytes),
            kib("tables", self.table_len_bytes),
            kib("compaction reads", self.compaction_read_len_bytes),
            kib("log frames", self.log_frame_len_bytes),
            self.filter_bits_per_key.map(|bits| format!("filters of {bits} bits")),
            kib("blocks", self.block_len_bytes.map(u64::from)),
            self.victims.map(|victims| match victims {
                Victims::RoundRobin => "victims by key".to_owned(),
                Victims::MinOverlap => "victims that overlap least".to_owned(),
            }),
            self.sets.map(|sets| {
                let cuts = if sets.cuts { "tables end with sets" } else { "tables cross sets" };
                let order = if sets.by_key { "victims by key" } else { "dead sets first" };
                format!("{cuts}, {order}")
            }),
            self.cleans_below_percent.map(|percent| format!("cleaned below {percent} % free")),
            flag("no deeper than full levels", self.full_levels),
            flag("LevelDB's flushes and misses", self.has_leveldbs_habits),
            kib("level 1", self.base_level_len_bytes),
            self.l0_run_counts.map(|(start, _, _)| format!("level 0 down at {start}")),
            self.overlap_count_max.map(|count| format!("at most {count} tables deep")),
            kib("bands", self.band_len_bytes),
            flag("rewrites whole bands", self.reads_whole_band),
            flag("rewrites safely", self.is_staged),
            flag("compressed", self.compresses),
            flag("without rest", self.without_rest),
            flag("nothing offloaded", self.keeps_writes),
            self.offload_delay_ns.map(|ns| format!("delayed by {} us", ns / 1000)),
            self.eager_after_ns.map(|ns| format!("idle after {} ms", ns / 1_000_000)),
        ];
        words.into_iter().flatten().collect()
    }
}

/// The order in which a load writes its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadOrder {
    /// Ascending.
    Sequential,
    /// Each key drawn at random, as in db_bench's `fillrandom`: about 37 % are never drawn, others
    /// more than once.
    Random,
    /// Every key once, in random order, as YCSB loads.
    Once,
    /// Random keys of a load of [`LoadOrder::Once`], which are overwritten.
    Again,
}

/// One phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Puts, followed by the background work that they caused.
    Load {
        /// The order.
        order: LoadOrder,
        /// The number of puts, and of keys.
        count: u64,
        /// Bytes per value.
        value_len_bytes: usize,
        /// Puts per sync; 0 for no syncs.
        sync_every: u64,
        /// The number of milestones, evenly spaced.
        milestone_count: u32,
    },
    /// Gets of random keys of the load.
    ReadRandom {
        /// How many.
        count: u64,
    },
    /// One forward iterator from the first key.
    ReadSequential {
        /// The maximum number of entries.
        count: u64,
        /// The read-ahead of each sorted run during steady iteration.
        read_ahead_len_bytes: usize,
    },
    /// A core workload over a load of [`LoadOrder::Once`].
    Ycsb {
        /// Which.
        workload: YcsbWorkload,
        /// How many operations.
        count: u64,
        /// Whether each write is synced.
        sync: bool,
    },
    /// A load by clients.
    Clients(ClientPhase),
}

impl Phase {
    /// A load without syncs.
    pub fn load(order: LoadOrder, bytes: u64, value_len_bytes: usize) -> Phase {
        let count = (bytes / (KEY_LEN_BYTES + value_len_bytes) as u64).max(1);
        Phase::Load { order, count, value_len_bytes, sync_every: 0, milestone_count: 40 }
    }

    /// The same load with a sync after every `every` puts.
    pub fn synced(self, every: u64) -> Phase {
        match self {
            Phase::Load { order, count, value_len_bytes, milestone_count, .. } => {
                Phase::Load { order, count, value_len_bytes, sync_every: every, milestone_count }
            }
            other => other,
        }
    }

    /// The same load with another number of milestones.
    pub fn measured(self, milestone_count: u32) -> Phase {
        match self {
            Phase::Load { order, count, value_len_bytes, sync_every, .. } => {
                Phase::Load { order, count, value_len_bytes, sync_every, milestone_count }
            }
            other => other,
        }
    }

    /// Sequential reads of `count` entries, with the read-ahead of files and then of whole tables.
    pub fn read_sequential(count: u64) -> [Phase; 2] {
        [FILE_READ_AHEAD_LEN_BYTES, TABLE_READ_AHEAD_LEN_BYTES]
            .map(|read_ahead_len_bytes| Phase::ReadSequential { count, read_ahead_len_bytes })
    }

    /// The phase in two words.
    pub fn label(&self) -> String {
        match self {
            Phase::Load { order: LoadOrder::Sequential, .. } => "sequential load".to_owned(),
            Phase::Load { order: LoadOrder::Again, .. } => "overwriting".to_owned(),
            Phase::Load { .. } => "random load".to_owned(),
            Phase::ReadRandom { .. } => "random reads".to_owned(),
            Phase::ReadSequential { .. } => "sequential reads".to_owned(),
            Phase::Ycsb { workload, .. } => format!("YCSB {workload}"),
            Phase::Clients(offer) => offer.label(),
        }
    }

    /// The number of operations, for progress.
    pub fn op_count(&self) -> u64 {
        match *self {
            Phase::Load { count, .. }
            | Phase::ReadRandom { count }
            | Phase::ReadSequential { count, .. }
            | Phase::Ycsb { count, .. }
            | Phase::Clients(ClientPhase { count, .. }) => count,
        }
    }
}

/// Linux's default read-ahead of files, which is the read unit of the papers' stores on a file
/// system.
pub(super) const FILE_READ_AHEAD_LEN_BYTES: usize = 128 << 10;

/// Reading ahead by whole tables.
pub(super) const TABLE_READ_AHEAD_LEN_BYTES: usize = 4 << 20;

/// Bytes per key in all papers.
pub(super) const KEY_LEN_BYTES: usize = 16;

impl RunSpec {
    /// A run of `layout` on `drive` with the layout's own options.
    pub fn new(layout: &'static str, drive: DriveSpec, phases: Vec<Phase>) -> RunSpec {
        RunSpec { layout, drive, tune: Tune::default(), phases }
    }

    /// The same run with these deviations.
    pub fn tuned(self, tune: Tune) -> RunSpec {
        RunSpec { tune, ..self }
    }

    /// How many operations it has.
    pub fn op_count(&self) -> u64 {
        self.phases.iter().map(Phase::op_count).sum()
    }

    /// The bytes of keys and values in its first load.
    pub fn loaded_bytes(&self) -> u64 {
        let loads = self.phases.iter().filter_map(|phase| match *phase {
            Phase::Load { count, value_len_bytes, .. } => {
                Some(count * (KEY_LEN_BYTES + value_len_bytes) as u64)
            }
            _ => None,
        });
        loads.take(1).sum()
    }

    /// The run in a few words, for progress and messages.
    pub fn label(&self) -> String {
        let phases: Vec<String> = self.phases.iter().map(Phase::label).collect();
        let words = [self.drive.words(), self.tune.words()].concat();
        let tune =
            if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
        format!("{}{tune}: {}", self.layout, phases.join(", "))
    }
}

/// The scale and the seed of figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Size {
    /// The share of the paper's sizes, above 0 and at most 1.
    pub scale: f64,
    /// The seed of every run.
    pub seed: u64,
    /// The user's traces, for the figures of the block driver.
    #[serde(skip_serializing_if = "<[GivenTrace]>::is_empty")]
    pub traces: &'static [GivenTrace],
    /// Names of the traces to use; empty for all.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub only: &'static [String],
}

impl Size {
    /// The same size, with a scale of at least `scale_least`.
    pub fn at_least(self, scale_least: f64) -> Size {
        Size { scale: self.scale.max(scale_least), ..self }
    }

    /// The paper's `bytes` at this scale, in whole megabytes, at least four.
    pub fn bytes(&self, bytes: u64) -> u64 {
        const MB: u64 = 1_000_000;
        let scaled = bytes as f64 * self.scale / MB as f64;
        (scaled.round() as u64).max(4) * MB
    }

    /// The paper's `count` at this scale, at least `min`.
    pub fn count(&self, count: u64, min: u64) -> u64 {
        ((count as f64 * self.scale).round() as u64).max(min)
    }
}
