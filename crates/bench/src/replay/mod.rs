//! A block trace, played to the block driver over an emulated zoned drive, in virtual time.
//!
//! ```text
//!   trace --> survey: which blocks, which are read before they are written
//!     |          |
//!     |          +--> drive and device as large as needed; what is read first is written, in sequence
//!     |                                                       -- the clock starts --
//!     +--> each request at its own time:  quiet until then?  BlockDriver::work
//!                                         the disk works?    it waits, and its latency counts
//! ```
//!
//! Open loop, unless asked otherwise: requests come when the trace says, however slow the drive is. They are
//! served one after another. Time moves only when the modelled disk works.
//!
//! Offsets and sizes that are not whole blocks of 4096 bytes are widened to blocks; a write then reads
//! its edges first. Where most requests begin at the same odd offset within a block (a partition that
//! begins at sector 63), all are moved to whole blocks before that, and the report says by how much.
//!
//! Invariants
//!   R1  Same trace, same options: the same report.
//!   R2  Each block that is read is the one asked for, by a mark that was written in it.
//!
//! Source: section III of "On the Design of SMR HDD Block Device Driver".
//! Not here: the formats of traces (`trace`).

mod options;
mod play;
mod report;
mod survey;

pub use options::ReplayOptions;
pub use report::{BytesWritten, ReplayReport, TableFigures};
pub use survey::Survey;

use crate::error::BenchError;
use imbrex_workload::trace::TraceSource;

/// Replays a trace. `watch` hears how many requests are done and of how many, now and then, and says
/// whether to go on: the report of a replay that was stopped tells what was measured by then.
///
/// # Errors
/// [`BenchError`]: a trace that cannot be read, options that contradict it, a failing driver;
/// [`BenchError::Stopped`] before the first request.
pub fn replay(
    options: &ReplayOptions,
    watch: &mut dyn FnMut(u64, Option<u64>) -> bool,
) -> Result<ReplayReport, BenchError> {
    if options.zone_len_bytes < 1 << 20 || options.zone_len_bytes > 1 << 34 {
        let message =
            format!("--zone-len is {} bytes; from 1 MiB to 16 GiB", options.zone_len_bytes);
        return Err(BenchError::Options(message));
    }
    if !(20..=95).contains(&options.fill_percent) {
        let message = format!("--fill is {}; from 20 to 95 percent", options.fill_percent);
        return Err(BenchError::Options(message));
    }
    let (survey, plan) = survey::survey(options, watch)?;
    play::play(options.trace.open()?, survey, &plan, options, watch)
}

/// Reads a trace through, and says what it is.
///
/// # Errors
/// [`BenchError::Trace`]; [`BenchError::Options`]: it has no requests.
pub fn survey(trace: &TraceSource) -> Result<Survey, BenchError> {
    let options = ReplayOptions::new(trace.clone());
    survey::survey(&options, &mut |_, _| true).map(|(survey, _)| survey)
}

#[cfg(test)]
mod tests;
