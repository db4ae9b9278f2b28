//! SMRDB (Pitchumani, thesis, chapter 3; SYSTOR 2015): the runs that its figures share; and arrivals and
//! write-offloading, chapters 4 and 5, which share none with them.
//!
//! Setting of the thesis: a 3 TB 7200 rpm disk behind USB 3, written in bands of 80 MB; keys of 16
//! bytes, values of 4 KB, memtables of 80 MB for all stores. Stand-in here: the mechanics of the
//! 1 TB disk of the same make. SOC is `smrdb`, LOC is `smrdb-leveled`.
//!
//! The thesis loads a tenth of what SEALDB loads, into bands twice as long: at one scale for all
//! papers there would be a handful of bands, too few for a second level. Its figures are run at 25
//! times the scale asked for, and at no more than the thesis' own sizes.
//!
//! The thesis says that the kernel's read-ahead was left as it is, which is 128 KB, and SMRDB has no
//! reads of its own: so the thesis' conditions are 128 KB for all, and the layouts' own 4 MB beside
//! them. (Through a block device the kernel may have read less.)

pub(super) mod arrivals;
pub(super) mod band_len;
pub(super) mod delay;
pub(super) mod demonstration;
pub(super) mod hurst;
pub(super) mod offload;
pub(super) mod random_get;
pub(super) mod random_put;
pub(super) mod sequential_put;
pub(super) mod ycsb;

use crate::figures::measures::{GB, MIB};
use crate::spec::{LoadOrder, Phase, RunSpec, Size, Tune};
use imbrex_bench::emulated::{DriveRule, DriveSpec};

const STORES: [&str; 3] = ["leveldb-cmr", "smrdb-leveled", "smrdb"];

const VALUE_LEN_BYTES: usize = 4096;
const LOAD_BYTES: u64 = 11 * GB;
const DRIVE_BYTES: u64 = 1000 * GB;
const BAND_LEN_BYTES: u64 = 80 * MIB;
const READS: u64 = 100_000;

/// The sizes of this paper's figures.
fn size(asked: &Size) -> Size {
    Size { scale: (asked.scale * 25.0).min(1.0), ..*asked }
}

fn drive(size: &Size, layout: &str, band_len_bytes: u64) -> DriveSpec {
    let rule = match layout {
        "leveldb-cmr" => DriveRule::Conventional,
        _ => DriveRule::Zoned { zone_len_bytes: band_len_bytes },
    };
    DriveSpec::whole("st1000dm003", rule, size.bytes(DRIVE_BYTES))
}

/// The same memtable for all: LevelDB's grows to a band.
fn tune(layout: &str) -> Tune {
    match layout {
        "leveldb-cmr" => Tune { memtable_len_bytes: Some(BAND_LEN_BYTES), ..Tune::default() },
        _ => Tune::default(),
    }
}

/// A random load of 11 GB, then reads.
fn random(asked: &Size, layout: &'static str, band_len_bytes: u64) -> RunSpec {
    let size = size(asked);
    let mut phases = vec![Phase::load(LoadOrder::Random, size.bytes(LOAD_BYTES), VALUE_LEN_BYTES)];
    phases.extend(Phase::read_sequential(size.count(READS, 20_000)));
    phases.push(Phase::ReadRandom { count: size.count(READS / 10, 2_000) });
    RunSpec::new(layout, drive(&size, layout, band_len_bytes), phases).tuned(tune(layout))
}

/// SMRDB of either kind that compacts 128 KB at a time, as it did in the thesis.
fn file_reads(asked: &Size, layout: &'static str) -> RunSpec {
    let spec = random(asked, layout, BAND_LEN_BYTES);
    // Filters change no put, and the unit no get: one run shows what the lack of either does.
    let tune = spec.tune.compaction_reads(128 << 10).filters(0);
    spec.tuned(tune)
}

/// LevelDB that compacts 4 MB at a time, as SMRDB does here; and has filters.
fn large_reads(asked: &Size) -> RunSpec {
    let spec = random(asked, "leveldb-cmr", BAND_LEN_BYTES);
    let tune = spec.tune.compaction_reads(4 * MIB).filters(10);
    spec.tuned(tune)
}
