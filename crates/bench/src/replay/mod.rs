//! Replays a block trace on the block driver over an emulated zoned drive, in virtual time.
//!
//! ```text
//!   trace --> survey: the blocks touched, and those read before they are written
//!     |          |
//!     |          +--> drive and device of sufficient length; blocks that are read first are written, in order
//!     |                                                       -- the clock starts --
//!     +--> each request at its own time:  quiet until then?  BlockDriver::work
//!                                         the disk works?    it waits, and its latency counts
//! ```
//!
//! By default an open loop: requests arrive at the trace's times, independent of the drive's speed.
//! They are served one after another. Only the modelled disk's work moves time.
//!
//! The same trace on the bare conventional drive shows what of a latency is the zones' and what the
//! disk's ([`replay_bare`]).
//!
//! By default a block of the driver is a block of the drive. It can stand for a sector of 512 bytes instead
//! ([`ReplayUnit::Sector`]), on a drive whose tracks have eight times as many. Then a trace of sectors is
//! replayed as it is. A step of the driver's work, and a block of its own metadata, then stand for an
//! eighth: latencies are those of a driver with steps of 512 KiB.
//!
//! Offsets and sizes that are not whole blocks of 4096 bytes are widened to blocks; a write then
//! first reads the blocks at its edges. If most requests start at the same odd offset within a
//! block (as on a partition that starts at sector 63), all requests are shifted to block boundaries
//! first. The report has the shift.
//!
//! Invariants
//!   R1  Same trace, same options: the same report.
//!   R2  Each block that is read is the requested one, verified by a mark in its data.
//!
//! Source: section III of "On the Design of SMR HDD Block Device Driver".
//! Not here: the formats of traces (`trace`).

mod options;
mod play;
mod report;
mod survey;

pub use options::{ReplayOptions, ReplayUnit};
pub use report::{BareReport, BytesWritten, ReplayReport, RequestFigures, TableFigures};
pub use survey::Survey;

use crate::error::BenchError;
use imbrex_workload::trace::TraceSource;

/// Replays a trace. Calls `watch` from time to time with the number of requests done and the total,
/// and continues while it returns true. The report of a stopped replay covers the work up to that
/// moment.
///
/// # Errors
/// [`BenchError`]: the trace cannot be read, the options contradict it, or the driver fails;
/// [`BenchError::Stopped`] before the first request.
pub fn replay(
    options: &ReplayOptions,
    watch: &mut dyn FnMut(u64, Option<u64>) -> bool,
) -> Result<ReplayReport, BenchError> {
    check(options)?;
    let (survey, plan) = survey::survey(options, watch)?;
    play::play(options.trace.open()?, survey, &plan, options, watch)
}

/// Replays a trace on a conventional drive of the same mechanics and length, without a block driver: what
/// is left of a latency there is not the zones'. Otherwise like [`replay`].
///
/// # Errors
/// As [`replay`].
pub fn replay_bare(
    options: &ReplayOptions,
    watch: &mut dyn FnMut(u64, Option<u64>) -> bool,
) -> Result<BareReport, BenchError> {
    check(options)?;
    let (survey, plan) = survey::survey(options, watch)?;
    play::play_bare(options.trace.open()?, &survey, &plan, options, watch)
}

fn check(options: &ReplayOptions) -> Result<(), BenchError> {
    if options.zone_len_bytes < 1 << 20 || options.zone_len_bytes > 1 << 34 {
        let message =
            format!("--zone-len is {} bytes; from 1 MiB to 16 GiB", options.zone_len_bytes);
        return Err(BenchError::Options(message));
    }
    if !(20..=95).contains(&options.fill_percent) {
        let message = format!("--fill is {}; from 20 to 95 percent", options.fill_percent);
        return Err(BenchError::Options(message));
    }
    Ok(())
}

/// Reads a whole trace and describes it.
///
/// # Errors
/// [`BenchError::Trace`]; [`BenchError::Options`]: it has no requests.
pub fn survey(trace: &TraceSource) -> Result<Survey, BenchError> {
    let options = ReplayOptions::new(trace.clone());
    survey::survey(&options, &mut |_, _| true).map(|(survey, _)| survey)
}

#[cfg(test)]
mod tests;
