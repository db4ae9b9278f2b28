//! SEALDB (Yao et al., MSST 2018): the runs that its figures share.
//!
//! Setting of the paper: a Seagate ST1000DM003 as the mechanics of every emulated drive; keys of 16
//! bytes, values of 4 KB, tables of 4 MB, bands of 40 MB; 25 million entries (100 GB) loaded.

pub(super) mod amplification;
pub(super) mod bands;
pub(super) mod compaction;
pub(super) mod fragments;
pub(super) mod micro;
pub(super) mod parts;
pub(super) mod placement;
pub(super) mod table_2;
pub(super) mod ycsb;

use super::{GB, MIB};
use crate::repro::spec::{DriveRule, DriveSpec, LoadOrder, Phase, RunSpec, Size, Tune};
use crate::ycsb::YcsbWorkload;

/// The three stores of most figures.
const STORES: [&str; 3] = ["leveldb-banded", "smrdb", "sealdb"];

const VALUE_LEN_BYTES: usize = 4096;
const LOAD_BYTES: u64 = 100 * GB;
const DRIVE_BYTES: u64 = 1000 * GB;
const GUARD_LEN_BYTES: u64 = 4 * MIB;
const BAND_LEN_BYTES: u64 = 40 * MIB;
const READS: u64 = 100_000;

/// Figures of a part of the load take at least this much of it: less has no third level.
const PREFIX_BYTES_MIN: u64 = GB;

/// The drive that `layout` lives on, `band_len_bytes` a band.
fn drive(size: &Size, layout: &str) -> DriveSpec {
    let rule = match layout {
        "leveldb-cmr" => DriveRule::Conventional,
        "smrdb" | "smrdb-leveled" => DriveRule::Zoned { zone_len_bytes: BAND_LEN_BYTES },
        _ => DriveRule::Shingled { isolation_len_bytes: GUARD_LEN_BYTES },
    };
    DriveSpec::whole("st1000dm003", rule, size.bytes(DRIVE_BYTES))
}

/// The random load of 100 GB, then reads over it.
fn random(size: &Size, layout: &'static str) -> RunSpec {
    let phases = vec![
        Phase::load(LoadOrder::Random, size.bytes(LOAD_BYTES), VALUE_LEN_BYTES),
        Phase::ReadRandom { count: size.count(READS, 2_000) },
        Phase::ReadSequential { count: size.count(READS, 20_000) },
    ];
    RunSpec::new(layout, drive(size, layout), phases)
}

/// The sequential load of 100 GB.
fn sequential(size: &Size, layout: &'static str) -> RunSpec {
    let load = Phase::load(LoadOrder::Sequential, size.bytes(LOAD_BYTES), VALUE_LEN_BYTES);
    RunSpec::new(layout, drive(size, layout), vec![load])
}

/// A load of every key once, then the six core workloads.
fn ycsb_run(size: &Size, layout: &'static str) -> RunSpec {
    let mut phases = vec![Phase::load(LoadOrder::Once, size.bytes(LOAD_BYTES), VALUE_LEN_BYTES)];
    let count = size.count(READS, 2_000);
    phases.extend(YcsbWorkload::ALL.map(|workload| Phase::Ycsb { workload, count, sync: false }));
    RunSpec::new(layout, drive(size, layout), phases)
}

/// LevelDB as no paper runs it: compaction reads whole tables, as SEALDB's does.
fn equal_reads(size: &Size) -> RunSpec {
    let tune = Tune { compaction_read_len_bytes: Some(4 * MIB), ..Tune::default() };
    random(size, "leveldb-banded").tuned(tune)
}

/// The share of the load of [`random`] that a figure of its first `bytes` is read off.
fn prefix(size: &Size, bytes: u64) -> f64 {
    let least = PREFIX_BYTES_MIN as f64 / size.bytes(LOAD_BYTES) as f64;
    (bytes as f64 / LOAD_BYTES as f64).max(least).min(1.0)
}
