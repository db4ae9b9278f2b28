//! SMRDB (Pitchumani, thesis, chapter 3; SYSTOR 2015): the runs that its figures share. Arrivals
//! and write-offloading (chapters 4 and 5) are in folders below and share no run with it.
//!
//! The setting of the thesis: a 3 TB disk of 7200 rpm, attached by USB 3 and written in bands of 80
//! MB. Keys have 16 bytes and values 4 KB; every store has memtables of 80 MB. Here the mechanics
//! are those of the 1 TB disk of the same manufacturer. SOC is `smrdb`, LOC is `smrdb-leveled`.
//!
//! The thesis loads a tenth of SEALDB's data into bands that are twice as long. At one scale for
//! all papers, only a handful of bands would be left, too few for a second level. Therefore its
//! figures run at 25 times the requested scale, up to the thesis' own sizes.
//!
//! The thesis left the kernel's read-ahead at its default, which is 128 KB, and SMRDB has no read
//! unit of its own. So 128 KB for all stores are the thesis' conditions; the layouts' own 4 MB are
//! the alternative. (Through a block device the kernel may have read less.)

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

/// The same memtable for all stores: LevelDB's is as long as a band.
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

/// SOC or LOC whose compactions read 128 KB at a time, as in the thesis.
fn file_reads(asked: &Size, layout: &'static str) -> RunSpec {
    let spec = random(asked, layout, BAND_LEN_BYTES);
    // Filters do not affect puts, and the read unit does not affect gets, so one run shows the
    // effect of each.
    let tune = spec.tune.compaction_reads(128 << 10).filters(0);
    spec.tuned(tune)
}

/// LevelDB with filters, whose compactions read 4 MB at a time, as SMRDB's do here.
fn large_reads(asked: &Size) -> RunSpec {
    let spec = random(asked, "leveldb-cmr", BAND_LEN_BYTES);
    let tune = spec.tune.compaction_reads(4 * MIB).filters(10);
    spec.tuned(tune)
}
