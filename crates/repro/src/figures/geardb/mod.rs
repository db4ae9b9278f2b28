//! GearDB (Yao et al., FAST 2019; the talk's slides): the runs that its figures share.
//!
//! The paper's setting: a Seagate ST13125NM007 (13 TB, zones of 256 MiB), of which a restricted
//! part is used. Keys have 16 bytes, values 4 KB, tables 4 MB. The load is 80 GB, and cleaning
//! starts below 20 % free space.
//!
//! The authors published their program. Its sizes are ours here: a write buffer of 8 MiB, tables of 4
//! MiB, a level 1 of 20 MiB, tables read whole. So is its rule of how deep a compaction goes
//! (`GearDepth::FullLevels`); ours is a condition. Its baselines are not published; they have the same
//! sizes, and read as through a file system.
//!
//! The slides do not give the size of the restricted part. With 100 GB, cleaning below 20 % free
//! keeps 80 GB occupied. A load that draws its keys at random leaves 63 % of 80 GB valid, and that
//! is the utilisation of 60 % that the slides report. So the evaluation uses 100 GB and random
//! keys. In the motivation, valid data reach 70 to 80 % of the space, so it writes every key once
//! into 110 GB.
//!
//! At a small scale there would be too few zones of 256 MiB to draw. They shrink, down to 32 MiB.
//! Below a fiftieth of the paper's sizes even those are too few, so that is the smallest scale.

pub(super) mod breakdown;
pub(super) mod compaction;
pub(super) mod load;
pub(super) mod motivation;
pub(super) mod zones;

use crate::figures::measures::{GB, MIB, merges, seconds};
use crate::results::RunResult;
use crate::spec::{LoadOrder, Phase, RunSpec, Size, Tune};
use imbrex_bench::emulated::{DriveRule, DriveSpec};

const STORES: [&str; 3] = ["gear", "leveldb-greedy", "leveldb-cb"];

const VALUE_LEN_BYTES: usize = 4096;
const LOAD_BYTES: u64 = 80 * GB;
const PART_BYTES: u64 = 100 * GB;
/// The length of the whole drive. Seeks within the used part are as short as on the real drive.
const DRIVE_BYTES: u64 = 13_000 * GB;
const READS: u64 = 100_000;

const SCALE_LEAST: f64 = 0.02;

/// The sizes of this paper's figures.
fn sized(asked: &Size) -> Size {
    asked.at_least(SCALE_LEAST)
}

fn zone_len_bytes(size: &Size) -> u64 {
    let size = sized(size);
    let wanted = 256.0 * size.scale * 4.0;
    let mib = [32, 64, 128].into_iter().find(|&mib| mib as f64 >= wanted).unwrap_or(256);
    mib * MIB
}

/// The part used for a load that overwrites nothing.
const CROWDED_PART_BYTES: u64 = 110 * GB;

fn drive(size: &Size, part_bytes: u64) -> DriveSpec {
    drive_in_zones(size, part_bytes, zone_len_bytes(size))
}

fn drive_in_zones(size: &Size, part_bytes: u64, zone_len_bytes: u64) -> DriveSpec {
    let size = &sized(size);
    let rule = DriveRule::Zoned { zone_len_bytes };
    let whole = DriveSpec::whole("st13125nm007", rule, size.bytes(DRIVE_BYTES));
    whole.part(size.bytes(part_bytes))
}

/// The sizes of the published program, and for GearDB its rule.
fn setting(layout: &str) -> Tune {
    Tune {
        memtable_len_bytes: Some(8 * MIB),
        table_len_bytes: Some(4 * MIB),
        base_level_len_bytes: Some(20 * MIB),
        full_levels: layout == "gear",
        ..Tune::default()
    }
}

/// The condition at which the stores read alike.
const EQUAL_READS: &str = "both read 128 KB at a time in compactions";

/// The time of all compactions of a run together.
fn compaction_s(run: &RunResult) -> f64 {
    merges(&run.lines).map(|line| seconds(line.end_ns - line.start_ns)).sum()
}

/// The condition of [`deep`].
const DEEP: &str = "GearDB goes as deep as tables overlap, with several victims at a time";

/// GearDB that goes as deep as tables overlap, as the layout does by itself.
fn deep(size: &Size) -> RunSpec {
    random(size, "gear").tuned(Tune { full_levels: false, ..setting("gear") })
}

fn random(size: &Size, layout: &'static str) -> RunSpec {
    let size = &sized(size);
    let mut phases = vec![
        Phase::load(LoadOrder::Random, size.bytes(LOAD_BYTES), VALUE_LEN_BYTES),
        Phase::ReadRandom { count: size.count(READS, 2_000) },
    ];
    phases.extend(Phase::read_sequential(size.count(READS, 20_000)));
    RunSpec::new(layout, drive(size, PART_BYTES), phases).tuned(setting(layout))
}

/// The same load without reads, with a tenth more space.
fn roomy(size: &Size, layout: &'static str) -> RunSpec {
    let mut spec = random(size, layout);
    spec.phases.truncate(1);
    RunSpec { drive: drive(size, CROWDED_PART_BYTES), ..spec }
}

/// GearDB's load with zones a quarter as long, so that a small scale has as many zones as the
/// paper.
fn many_zones(size: &Size) -> RunSpec {
    let mut spec = random(size, "gear");
    spec.phases.truncate(1);
    RunSpec { drive: drive_in_zones(size, PART_BYTES, zone_len_bytes(size) / 4), ..spec }
}

/// Each store with the other's read unit in compactions, and with filters, which do not affect
/// puts.
fn equal_reads(size: &Size) -> [RunSpec; 2] {
    let reads = |layout, bytes| {
        random(size, layout).tuned(setting(layout).compaction_reads(bytes).filters(10))
    };
    [reads("gear", 128 << 10), reads("leveldb-greedy", 8 * MIB)]
}

fn sequential(size: &Size, layout: &'static str) -> RunSpec {
    let size = &sized(size);
    let load = Phase::load(LoadOrder::Sequential, size.bytes(LOAD_BYTES), VALUE_LEN_BYTES);
    RunSpec::new(layout, drive(size, PART_BYTES), vec![load]).tuned(setting(layout))
}

fn conditions(size: &Size) -> String {
    let size = &sized(size);
    format!(
        "Zones of {} MiB; {} MB of the drive in use; cleaning below 20 % free space; {} MB loaded. \
         Write buffers of 8 MiB and a level 1 of 20 MiB, as in the published program. The paper does not say how much space it left. Our value is a guess that brings LevelDB's \
         utilisation close to its 60 %.",
        zone_len_bytes(size) / MIB,
        size.bytes(PART_BYTES) / 1_000_000,
        size.bytes(LOAD_BYTES) / 1_000_000
    )
}

/// The baseline that the paper omits.
fn by_level(size: &Size) -> RunSpec {
    random(size, "leveldb-zones")
}
