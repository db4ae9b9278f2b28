//! Write-offloading (Pitchumani, thesis, chapter 5): the runs that its figures share.
//!
//! Setting of the thesis: a 160 GB 7200 rpm disk in bands of 64 MB, of which 10, 10 and 100 are the first three
//! levels; flash of 16 GB beside it; keys of 16 bytes, values of 1 KB. Stand-in here: the mechanics of the disk
//! of chapter 3, a SATA drive of 120 GB, and layout `smrdb-offload`.
//!
//! Levels are counted in bands, so here bands shrink with the data, and so do flash and whatever the thesis
//! says in seconds. Rates stay: a second of load is as hard as there, and a run is shorter.
//!
//! A compaction of unsorted bands reads each of them in one go, from figure 5.6 on. The thesis says that values
//! are read one by one; its own table 5.1 says that this cannot be all: 21 million values in 4,300 seconds,
//! each read and written fifteen times. Decision 31 has the arithmetic. Figure 5.5 has both.

pub(in super::super) mod bursts;
pub(in super::super) mod clients;
pub(in super::super) mod life;
pub(in super::super) mod micro;
pub(in super::super) mod poisson;

use crate::client_phase::{ClientPhase, OpenLoop};
use crate::figures::measures::over;
use crate::figures::measures::{GB, MIB};
use crate::results::PhaseResult;
use crate::spec::Phase;
use crate::spec::{RunSpec, Size, Tune};
use imbrex_bench::emulated::{DriveRule, DriveSpec};
use imbrex_workload::ycsb::presets::YcsbWorkload;

const DRIVE_BYTES: u64 = 160 * GB;
const FLASH_BYTES: u64 = 16 * GB;
const BAND_LEN_BYTES: u64 = 64 * MIB;
/// The layout's own, for bands of 64 MB; "a while" in the thesis.
const EAGER_AFTER_NS: u64 = 5_000_000_000;
const DISK: &str = "st1000dm003";
const FLASH: &str = "ssd120";
/// Bytes a value from figure 5.6 on.
const VALUE_LEN_BYTES: usize = 1024;
/// Clients where the thesis does not say: its most.
pub(super) const CLIENT_COUNT: u32 = 8;
/// What YCSB and MapKeeper add to each call: assumed. The thesis says only that it is what a single client
/// waits for.
const CALL_NS: u64 = 50_000;
/// From here on a request is a slow one: longer than anything a disk does at once.
pub(super) const SLOW_MS: f64 = 100.0;

/// Where writes go while a compaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offload {
    Nowhere,
    Disk,
    Flash,
    /// Flash, and each write waits so long while many files lie there.
    DelayedFlash {
        delay_ns: u64,
    },
}

impl Offload {
    pub(super) fn name(self) -> String {
        match self {
            Offload::Nowhere => "no offload".to_owned(),
            Offload::Disk => "to disk".to_owned(),
            Offload::Flash => "to flash".to_owned(),
            Offload::DelayedFlash { delay_ns } => {
                format!("to flash, {} us", delay_ns / 1000)
            }
        }
    }
}

/// How a compaction reads a band that lies in the order of its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bands {
    /// In one go.
    AtOnce,
    /// Value by value.
    ByValue,
}

impl Bands {
    pub(super) fn name(self) -> &'static str {
        match self {
            Bands::AtOnce => "bands at once",
            Bands::ByValue => "value by value",
        }
    }
}

/// What its claims come to under [`Bands::ByValue`].
pub(super) const BY_VALUE: &str = "values of unsorted bands are read one by one";
/// And under [`Bands::AtOnce`].
pub(super) const AT_ONCE: &str = "each unsorted band is read in one go";

/// A load that is over sooner leaves compaction less time: what it moved in each second of it.
const A_SECOND: &str = "by the second of the load instead of by the load";

/// Bytes that compactions read in a second of a phase.
fn moved_a_second(phase: &PhaseResult) -> f64 {
    over(phase.totals_at_last_op.compaction_in_bytes as f64, phase.elapsed_ns as f64 / 1e9)
}

/// The sizes of this chapter's figures.
pub(super) fn size(asked: &Size) -> Size {
    Size { scale: (asked.scale * 6.25).min(1.0), ..*asked }
}

/// A run of the chapter's store.
pub(super) fn store(size: &Size, offload: Offload, bands: Bands, phases: Vec<Phase>) -> RunSpec {
    let band_len_bytes = band_len_bytes(size);
    let (profile, len_bytes) = match offload {
        // Not used, and there all the same: the layout has one.
        Offload::Nowhere | Offload::Flash | Offload::DelayedFlash { .. } => (FLASH, FLASH_BYTES),
        Offload::Disk => (DISK, DRIVE_BYTES),
    };
    let rule = DriveRule::Zoned { zone_len_bytes: band_len_bytes };
    let drive = DriveSpec::whole(DISK, rule, drive_bytes(size))
        .beside(profile, size.bytes(len_bytes).max(32 * band_len_bytes));
    let tune = Tune {
        // A sixteenth of a band is the layout's own unit, with its bands of 64 MB.
        compaction_read_len_bytes: Some(match bands {
            Bands::AtOnce => band_len_bytes,
            Bands::ByValue => band_len_bytes / 16,
        }),
        keeps_writes: offload == Offload::Nowhere,
        offload_delay_ns: match offload {
            Offload::DelayedFlash { delay_ns } => Some(delay_ns),
            _ => None,
        },
        eager_after_ns: Some(shorter(EAGER_AFTER_NS, size)),
        ..Tune::default().without_rest()
    };
    RunSpec::new("smrdb-offload", drive, phases).tuned(tune)
}

/// Enough bands for all levels.
pub(super) fn drive_bytes(size: &Size) -> u64 {
    size.bytes(DRIVE_BYTES).max(256 * band_len_bytes(size))
}

/// Bands shrink with the data, down to a megabyte.
pub(super) fn band_len_bytes(size: &Size) -> u64 {
    ((BAND_LEN_BYTES as f64 * size.scale) as u64 / MIB).max(1) * MIB
}

/// A time of the thesis at this size.
pub(super) fn shorter(ns: u64, size: &Size) -> u64 {
    ((ns as f64 * size.scale) as u64).max(1_000_000)
}

/// What clients do, as they come.
pub(super) fn offer(workload: YcsbWorkload, count: u64, arrivals: Option<OpenLoop>) -> ClientPhase {
    ClientPhase {
        workload,
        count,
        value_len_bytes: VALUE_LEN_BYTES,
        client_count: CLIENT_COUNT,
        arrivals,
        call_ns: CALL_NS,
        scans_in_memory: false,
    }
}

/// The columns of the thesis' tables: what compactions read and rewrote, what lay unsorted, and what was
/// offloaded, in percent of what was written, when the last write ended.
pub(super) const STATE: [&str; 4] = ["% read", "% rewritten", "% unsorted", "% offloaded"];

pub(super) fn state(phase: &PhaseResult) -> [f64; 4] {
    let totals = &phase.totals_at_last_op;
    let percent = |bytes: u64| 100.0 * over(bytes as f64, totals.user_bytes as f64);
    [
        percent(totals.compaction_in_bytes),
        percent(totals.compaction_out_bytes),
        percent(phase.tiers.unsorted_bytes),
        percent(totals.offloaded_bytes),
    ]
}
