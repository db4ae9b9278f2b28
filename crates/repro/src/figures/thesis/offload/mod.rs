//! Write-offloading (Pitchumani, thesis, chapter 5): the runs that its figures share.
//!
//! The setting of the thesis: a 160 GB disk of 7200 rpm in bands of 64 MB, whose first three levels
//! have 10, 10 and 100 bands, and 16 GB of flash next to it. Keys have 16 bytes and values 1 KB.
//! Here the mechanics are those of the disk of chapter 3 and of a SATA drive of 120 GB, and the
//! layout is `smrdb-offload`.
//!
//! Levels are counted in bands. So bands shrink with the data here, and so do flash and every
//! duration that the thesis gives. Rates stay the same: a second of load is as demanding as in the
//! thesis, and a run is shorter.
//!
//! From figure 5.6 on, a compaction reads each unsorted band in one go. The thesis says that values
//! are read one by one, but its own table 5.1 contradicts that: 21 million values in 4,300 seconds,
//! each read and written fifteen times. Decision 31 has the arithmetic. Figure 5.5 shows both.

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
/// The layout's value for bands of 64 MB; the thesis says "a while".
const EAGER_AFTER_NS: u64 = 5_000_000_000;
const DISK: &str = "st1000dm003";
const FLASH: &str = "ssd120";
/// Bytes per value from figure 5.6 on.
const VALUE_LEN_BYTES: usize = 1024;
/// The number of clients where the thesis gives none: its maximum.
pub(super) const CLIENT_COUNT: u32 = 8;
/// The time that YCSB and MapKeeper add to each call, an assumption. The thesis says only that a
/// single client is bound by it.
const CALL_NS: u64 = 50_000;
/// A slower request counts as slow: no single disk operation takes this long.
pub(super) const SLOW_MS: f64 = 100.0;

/// Where writes go during a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offload {
    Nowhere,
    Disk,
    Flash,
    /// To flash; each write is delayed by `delay_ns` while many files are on flash.
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
                format!("to flash, delay {} us", delay_ns / 1000)
            }
        }
    }
}

/// How a compaction reads an unsorted band.
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
            Bands::AtOnce => "whole bands",
            Bands::ByValue => "value by value",
        }
    }
}

/// The condition of [`Bands::ByValue`].
pub(super) const BY_VALUE: &str = "values of unsorted bands are read one by one";
/// The condition of [`Bands::AtOnce`].
pub(super) const AT_ONCE: &str = "each unsorted band is read in one go";

/// A shorter load leaves compactions less time, so this condition compares per second of load.
const A_SECOND: &str = "per second of the load";

/// Bytes that compactions read per second of a phase.
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
        // Unused, but the layout requires one.
        Offload::Nowhere | Offload::Flash | Offload::DelayedFlash { .. } => (FLASH, FLASH_BYTES),
        Offload::Disk => (DISK, DRIVE_BYTES),
    };
    let rule = DriveRule::Zoned { zone_len_bytes: band_len_bytes };
    let drive = DriveSpec::whole(DISK, rule, drive_bytes(size))
        .beside(profile, size.bytes(len_bytes).max(32 * band_len_bytes));
    let tune = Tune {
        // The layout's own unit is a sixteenth of its bands of 64 MB.
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

/// A duration of the thesis at this size.
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

/// The columns of the thesis' tables: the bytes that compactions read and wrote, the unsorted bytes
/// and the offloaded bytes at the end of the last write, in percent of the bytes written.
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
