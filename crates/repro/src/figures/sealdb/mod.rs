//! SEALDB (Yao et al., MSST 2018): the runs that its figures share.
//!
//! The paper's setting: a Seagate ST1000DM003 provides the mechanics of every emulated drive. Keys
//! have 16 bytes, values 4 KB, tables 4 MB, bands 40 MB. The load is 25 million entries (100 GB).
//!
//! SEALDB's tables end where a set of the level below ends, so that the members of a set are "valid or
//! invalid at the same time" (III-A), and the set with more invalid members goes first (III-C).
//! `sealdb-sets` measures other readings, among them ours, which takes victims by key.
//!
//! Each figure also runs under equal conditions for all stores. Some runs change two things at
//! once, where the two cannot affect the same measurement: filters do not change puts, and the read
//! unit of a compaction does not change gets.

pub(super) mod amplification;
pub(super) mod bands;
pub(super) mod compaction;
pub(super) mod fragments;
pub(super) mod micro;
pub(super) mod parts;
pub(super) mod placement;
pub(super) mod sets;
pub(super) mod table_2;
pub(super) mod ycsb;

use crate::figures::measures::{GB, MIB, over};
use crate::spec::{LoadOrder, Phase, RunSpec, Size, Tune};
use imbrex_bench::emulated::{DriveRule, DriveSpec};
use imbrex_workload::ycsb::presets::YcsbWorkload;

/// The three stores of most figures.
const STORES: [&str; 3] = ["leveldb-banded", "smrdb", "sealdb"];

const VALUE_LEN_BYTES: usize = 4096;
const LOAD_BYTES: u64 = 100 * GB;
const DRIVE_BYTES: u64 = 1000 * GB;
const GUARD_LEN_BYTES: u64 = 4 * MIB;
const BAND_LEN_BYTES: u64 = 40 * MIB;
const READS: u64 = 100_000;

/// A figure of a prefix of the load uses at least this much of it. A shorter load has no third
/// level.
const PREFIX_BYTES_MIN: u64 = GB;

/// Filter bits per key, as in SMRDB.
const FILTER_BITS_PER_KEY: u32 = 10;

/// Data that does not compress stays in the memory of the emulating machine, so a compressed run
/// loads no more than this.
const COMPRESSED_BYTES_MAX: u64 = 10 * GB;

/// The drive for `layout`.
fn drive(size: &Size, layout: &str) -> DriveSpec {
    let rule = match layout {
        "leveldb-cmr" => DriveRule::Conventional,
        "smrdb" | "smrdb-leveled" => DriveRule::Zoned { zone_len_bytes: BAND_LEN_BYTES },
        _ => DriveRule::Shingled { isolation_len_bytes: GUARD_LEN_BYTES },
    };
    drive_by(size, rule)
}

fn drive_by(size: &Size, rule: DriveRule) -> DriveSpec {
    DriveSpec::whole("st1000dm003", rule, size.bytes(DRIVE_BYTES))
}

/// What the paper says of sets, for the stores that have them.
fn setting(layout: &str) -> Tune {
    match layout {
        "sealdb" | "sets-banded" => Tune::default().sets(true, false),
        _ => Tune::default(),
    }
}

/// The random load of 100 GB, followed by reads.
fn random(size: &Size, layout: &'static str) -> RunSpec {
    random_of(size, layout, size.bytes(LOAD_BYTES))
}

fn random_of(size: &Size, layout: &'static str, bytes: u64) -> RunSpec {
    let mut phases = vec![
        Phase::load(LoadOrder::Random, bytes, VALUE_LEN_BYTES),
        Phase::ReadRandom { count: size.count(READS, 2_000) },
    ];
    phases.extend(Phase::read_sequential(size.count(READS, 20_000)));
    RunSpec::new(layout, drive(size, layout), phases).tuned(setting(layout))
}

/// The random load of SEALDB with victims by key, as the layout has them by itself.
fn by_key(size: &Size) -> RunSpec {
    random(size, "sealdb").tuned(Tune::default().sets(true, true))
}

/// The random load of SEALDB on a drive that is cleaned in the background all the time.
fn cleaned(size: &Size) -> RunSpec {
    random(size, "sealdb").tuned(setting("sealdb").cleans_below(100))
}

/// The sequential load of 100 GB.
fn sequential(size: &Size, layout: &'static str) -> RunSpec {
    let load = Phase::load(LoadOrder::Sequential, size.bytes(LOAD_BYTES), VALUE_LEN_BYTES);
    RunSpec::new(layout, drive(size, layout), vec![load]).tuned(setting(layout))
}

/// A load that writes every key once, followed by the six core workloads.
fn ycsb_run(size: &Size, layout: &'static str) -> RunSpec {
    ycsb_run_of(size, layout, size.bytes(LOAD_BYTES))
}

fn ycsb_run_of(size: &Size, layout: &'static str, bytes: u64) -> RunSpec {
    let mut phases = vec![Phase::load(LoadOrder::Once, bytes, VALUE_LEN_BYTES)];
    // All of the paper's operations at any scale: fewer fill a single memtable, and then the runs that a
    // load leaves in level 0 decide.
    let of = |workload| Phase::Ycsb { workload, count: READS, sync: false };
    phases.extend(YcsbWorkload::ALL.map(of));
    RunSpec::new(layout, drive(size, layout), phases).tuned(setting(layout))
}

/// LevelDB with two changes that the paper does not make: a compaction reads whole tables, as in
/// SEALDB, and tables have filters.
fn large_reads(size: &Size, layout: &'static str) -> RunSpec {
    let tune = Tune::default().compaction_reads(4 * MIB).filters(FILTER_BITS_PER_KEY);
    random(size, layout).tuned(tune)
}

/// SEALDB with filters.
fn filtered(size: &Size) -> RunSpec {
    random(size, "sealdb").tuned(setting("sealdb").filters(FILTER_BITS_PER_KEY))
}

/// The random load with a compaction for each run of level 0, so that gets find none there.
fn level_0_empty(size: &Size, layout: &'static str) -> RunSpec {
    random(size, layout).tuned(setting(layout).empty_level_0())
}

/// The random load, then gets that start as soon as the last put returns.
fn restless(size: &Size, layout: &'static str) -> RunSpec {
    restless_of(random(size, layout))
}

fn restless_of(mut spec: RunSpec) -> RunSpec {
    spec.tune = spec.tune.without_rest();
    spec.phases.truncate(2);
    spec
}

/// The random load of SEALDB on a drive with half the isolation distance.
fn narrow_guards(size: &Size) -> RunSpec {
    let mut spec = random(size, "sealdb");
    spec.phases.truncate(1);
    let rule = DriveRule::Shingled { isolation_len_bytes: GUARD_LEN_BYTES / 2 };
    RunSpec { drive: drive_by(size, rule), ..spec }
}

/// SMRDB without filters, whose compactions read 128 KB at a time, as through a file system.
fn file_reads_smrdb(size: &Size) -> RunSpec {
    random(size, "smrdb").tuned(Tune::default().compaction_reads(128 << 10).filters(0))
}

/// SMRDB whose compactions read one block after another, as without a file system and without a
/// read buffer.
fn block_reads_smrdb(size: &Size) -> RunSpec {
    random(size, "smrdb").tuned(Tune::default().compaction_reads(4 << 10))
}

/// The length of a compressed load.
fn compressed_bytes(size: &Size) -> u64 {
    size.bytes(LOAD_BYTES).min(COMPRESSED_BYTES_MAX)
}

/// A rate of a compressed run over the rate of another store. NaN if the compressed run loads less:
/// it would be ahead for that reason alone.
fn compressed_over(size: &Size, compressed: f64, other: f64) -> f64 {
    match compressed_bytes(size) == size.bytes(LOAD_BYTES) {
        true => over(compressed, other),
        false => f64::NAN,
    }
}

/// The note for pages that leave out the compressed run; `None` if they include it.
fn left_out(size: &Size) -> Option<String> {
    (compressed_bytes(size) < size.bytes(LOAD_BYTES)).then(|| {
        format!(
            "The compressed run loads only {} GB, because data that does not compress stays in \
             this machine's memory. It is not compared with longer loads.",
            COMPRESSED_BYTES_MAX / GB
        )
    })
}

/// SEALDB with compressed tables; values compress to half.
fn compressed(size: &Size) -> RunSpec {
    let bytes = compressed_bytes(size);
    random_of(size, "sealdb", bytes).tuned(Tune { compresses: true, ..setting("sealdb") })
}

/// SEALDB with compressed tables and filters, running YCSB.
fn ycsb_compressed(size: &Size) -> RunSpec {
    let bytes = compressed_bytes(size);
    let tune = Tune { compresses: true, ..setting("sealdb") }.filters(FILTER_BITS_PER_KEY);
    ycsb_run_of(size, "sealdb", bytes).tuned(tune)
}

/// The share of [`random`]'s load that a figure of the first `bytes` uses.
fn prefix(size: &Size, bytes: u64) -> f64 {
    prefix_of(size.bytes(LOAD_BYTES), (bytes as f64 * size.scale) as u64)
}

/// The share of a load of `loaded_bytes` that covers its first `bytes`, or the minimum that a third
/// level needs.
fn prefix_of(loaded_bytes: u64, bytes: u64) -> f64 {
    (bytes.max(PREFIX_BYTES_MIN) as f64 / loaded_bytes.max(1) as f64).min(1.0)
}
