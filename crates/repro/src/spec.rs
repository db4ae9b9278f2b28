//! What a figure runs: a drive, a layout, and a list of phases; plain data that can be compared.
//!
//! Figures name runs and never perform them, so that two figures that need the same run share one:
//! a load of 100 GB has milestones at 10 and 40 GB, and three figures are read off it.

use crate::client_phase::ClientPhase;
use crate::replays::GivenTrace;
use imbrex_bench::emulated::DriveSpec;
use imbrex_workload::ycsb::presets::YcsbWorkload;
use serde::Serialize;

/// One run: everything that decides its outcome but the seed, which all runs share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RunSpec {
    /// The layout's name.
    pub layout: &'static str,
    /// The drive.
    pub drive: DriveSpec,
    /// What differs from the layout's own options.
    pub tune: Tune,
    /// What is done, in order, on one store.
    pub phases: Vec<Phase>,
}

/// Deviations from a layout's own options; `None` leaves the layout's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Tune {
    /// One memtable.
    pub memtable_len_bytes: Option<u64>,
    /// One table.
    pub table_len_bytes: Option<u64>,
    /// How much a compaction reads at a time.
    pub compaction_read_len_bytes: Option<u64>,
    /// How much of the log is kept before it is written.
    pub log_frame_len_bytes: Option<u64>,
    /// Filter bits a key.
    pub filter_bits_per_key: Option<u32>,
    /// One block of a table.
    pub block_len_bytes: Option<u32>,
    /// Which tables go down first, and how many together.
    pub victims: Option<Victims>,
    /// Level 1's length.
    pub base_level_len_bytes: Option<u64>,
    /// Level 0: compact, slow down, stop.
    pub l0_run_counts: Option<(u32, u32, u32)>,
    /// The length of a fixed band of a translated drive.
    pub band_len_bytes: Option<u64>,
    /// Whether a translated drive rewrites all of a band, not only what follows the write.
    pub reads_whole_band: bool,
    /// Whether a translated drive survives a power cut in a rewrite, as no published emulation does.
    pub is_staged: bool,
    /// Whether tables are compressed, and values made to shrink to half, as db_bench's are.
    pub compresses: bool,
    /// Whether phases follow each other at once, while the compactions that a load leaves behind go
    /// on; else a phase begins when the store is at rest.
    pub without_rest: bool,
    /// Whether writes stay on the drive of a layout that offloads them.
    pub keeps_writes: bool,
    /// How long each write waits while many files lie on flash.
    pub offload_delay_ns: Option<u64>,
    /// How long a drive is idle before it compacts ahead.
    pub eager_after_ns: Option<u64>,
}

/// How compaction chooses what goes down: the names of [`imbrex_engine::VictimOrder`] and
/// [`imbrex_engine::VictimGrowth`], paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Victims {
    /// LevelDB's: round and round by key, one at a time.
    RoundRobin,
    /// Neighbours that overlap least of the next level, several at a time.
    MinOverlap,
}

impl Tune {
    /// With another read unit of compaction.
    pub fn compaction_reads(self, len_bytes: u64) -> Tune {
        Tune { compaction_read_len_bytes: Some(len_bytes), ..self }
    }

    /// With so many filter bits a key.
    pub fn filters(self, bits_per_key: u32) -> Tune {
        Tune { filter_bits_per_key: Some(bits_per_key), ..self }
    }

    /// With phases that do not wait for what the one before left to do.
    pub fn without_rest(self) -> Tune {
        Tune { without_rest: true, ..self }
    }

    /// The deviations in words; none for none.
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
            kib("level 1", self.base_level_len_bytes),
            self.l0_run_counts.map(|(start, _, _)| format!("level 0 down at {start}")),
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

/// In which order a load writes its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadOrder {
    /// From the first key to the last.
    Sequential,
    /// Each key drawn anew, as db_bench's `fillrandom`: about 37 % are never drawn, others twice.
    Random,
    /// Every key once, in random order: as YCSB loads.
    Once,
    /// The keys of a load of [`LoadOrder::Once`], each drawn anew: what is there is overwritten.
    Again,
}

/// One phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Puts, then the background work that they caused.
    Load {
        /// In which order.
        order: LoadOrder,
        /// How many, over as many keys.
        count: u64,
        /// Bytes a value.
        value_len_bytes: usize,
        /// A sync after so many puts; 0 for none.
        sync_every: u64,
        /// State is noted so many times, evenly over the load.
        milestone_count: u32,
    },
    /// Gets of random keys of the load.
    ReadRandom {
        /// How many.
        count: u64,
    },
    /// One iterator from the first key on.
    ReadSequential {
        /// How many entries at most.
        count: u64,
        /// How far each sorted run is read ahead once the iterator moves on steadily.
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
    /// What clients ask.
    Clients(ClientPhase),
}

impl Phase {
    /// A load without syncs.
    pub fn load(order: LoadOrder, bytes: u64, value_len_bytes: usize) -> Phase {
        let count = (bytes / (KEY_LEN_BYTES + value_len_bytes) as u64).max(1);
        Phase::Load { order, count, value_len_bytes, sync_every: 0, milestone_count: 40 }
    }

    /// The same load with a sync after every so many puts.
    pub fn synced(self, every: u64) -> Phase {
        match self {
            Phase::Load { order, count, value_len_bytes, milestone_count, .. } => {
                Phase::Load { order, count, value_len_bytes, sync_every: every, milestone_count }
            }
            other => other,
        }
    }

    /// Sequential reads of `count` entries, by the file's read-ahead and then by whole tables.
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

    /// How many operations it has: what progress counts.
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

/// How far Linux reads a file ahead when nobody tells it otherwise: what the papers' stores that go
/// through a file system read at a time.
pub(super) const FILE_READ_AHEAD_LEN_BYTES: usize = 128 << 10;

/// Reading ahead by whole tables.
pub(super) const TABLE_READ_AHEAD_LEN_BYTES: usize = 4 << 20;

/// Bytes a key in all three papers.
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

    /// What its first load writes: keys and values.
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

/// How large and from which seed figures are run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Size {
    /// Share of the paper's sizes, above 0 and at most 1.
    pub scale: f64,
    /// The seed of every run.
    pub seed: u64,
    /// Traces that the user has, for the figures of the block driver.
    #[serde(skip_serializing_if = "<[GivenTrace]>::is_empty")]
    pub traces: &'static [GivenTrace],
    /// Names of the traces that these figures are of; empty: all.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub only: &'static [String],
}

impl Size {
    /// The same with no less of the paper's sizes than `scale_least`.
    pub fn at_least(self, scale_least: f64) -> Size {
        Size { scale: self.scale.max(scale_least), ..self }
    }

    /// `bytes` of the paper's at this scale, whole megabytes and at least four.
    pub fn bytes(&self, bytes: u64) -> u64 {
        const MB: u64 = 1_000_000;
        let scaled = bytes as f64 * self.scale / MB as f64;
        (scaled.round() as u64).max(4) * MB
    }

    /// `count` of the paper's at this scale, at least `min`.
    pub fn count(&self, count: u64, min: u64) -> u64 {
        ((count as f64 * self.scale).round() as u64).max(min)
    }
}
