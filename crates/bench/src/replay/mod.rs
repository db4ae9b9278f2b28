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

mod play;
mod survey;

pub use survey::Survey;

use crate::error::BenchError;
use crate::latency::LatencySummary;
use imbrex_translate::{CleaningOrder, EvictionOrder};
use imbrex_workload::trace::TraceSource;
use serde::Serialize;

/// What to replay, and on what.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The trace.
    pub trace: TraceSource,
    /// How much the write buffer may hold; 0 for none.
    pub buffer_bytes: u64,
    /// What leaves it first.
    pub eviction: EvictionOrder,
    /// Which zones are cleaned.
    pub cleaning: CleaningOrder,
    /// A zone of the drive.
    pub zone_len_bytes: u64,
    /// Whose mechanics.
    pub profile: &'static str,
    /// How long the drive is; `None`: as the trace's addresses need at `fill_percent`.
    pub drive_len_bytes: Option<u64>,
    /// How much of the data zones the host's addresses may fill; the rest is for cleaning.
    pub fill_percent: u64,
    /// Whether addresses that the trace never touches are left out.
    pub squeezes: bool,
    /// The trace's times, in percent: 50 plays twice as fast.
    pub time_percent: u64,
    /// Whether a request comes when the one before is done, and not at its own time: then nothing waits.
    pub is_closed_loop: bool,
    /// Whether each write must be durable before it returns.
    pub writes_through: bool,
    /// No more requests than this.
    pub request_count_max: u64,
}

impl ReplayOptions {
    /// The paper's: 512 MiB by the largest region, two of twenty zones of 256 MiB, all of the trace at
    /// its own times, on a drive of which it fills four fifths.
    pub fn new(trace: TraceSource) -> ReplayOptions {
        ReplayOptions {
            trace,
            buffer_bytes: 512 << 20,
            eviction: EvictionOrder::LargestRegion,
            cleaning: CleaningOrder::MostMerged { candidate_count: 20, chosen_count: 2 },
            zone_len_bytes: 256 << 20,
            profile: "st1000dm003",
            drive_len_bytes: None,
            fill_percent: 80,
            squeezes: false,
            time_percent: 100,
            is_closed_loop: false,
            writes_through: false,
            request_count_max: u64::MAX,
        }
    }
}

impl ReplayReport {
    /// By how much later than the last request came it was done, in percent of the trace's time. A drive that
    /// keeps up is late by a request; one that does not has a queue that grows until the trace ends, and a
    /// latency is how far it has grown.
    pub fn late_percent(&self) -> f64 {
        let late_ns = self.elapsed_ns.saturating_sub(self.survey.duration_ns);
        100.0 * late_ns as f64 / self.survey.duration_ns.max(1) as f64
    }
}

/// What a replay came to.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// Whether it went to the end of the trace.
    pub is_complete: bool,
    /// What the whole trace is.
    pub survey: Survey,
    /// Blocks that the host may address.
    pub device_bytes: u64,
    /// The drive below.
    pub drive_bytes: u64,
    /// Written before the clock started: what the trace reads before it writes it.
    pub prefilled_bytes: u64,
    /// Reads done.
    pub reads: u64,
    /// Writes done.
    pub writes: u64,
    /// Blocks at the edges of writes that were read first.
    pub edge_blocks: u64,
    /// From the first request's arrival to the last one's end.
    pub elapsed_ns: u64,
    /// Of reads, from their arrival.
    pub read_latency: LatencySummary,
    /// Of writes, from their arrival.
    pub write_latency: LatencySummary,
    /// The longest that a write took once the disk was free for it.
    pub write_stall_ns_max: u64,
    /// Bytes written to the drive, by reason.
    pub written: Written,
    /// Nodes of the mapping at the end.
    pub mapping_nodes: u64,
    /// Memory of the mapping at the end.
    pub mapping_bytes: u64,
    /// Cleanings begun in time, by the order asked for.
    pub timely_cleanings: u64,
    /// Cleanings begun because hardly a zone was free: by garbage alone.
    pub urgent_cleanings: u64,
    /// Mapping nodes that a timely cleaning merged, in the mean (table II).
    pub merged_nodes_mean: f64,
    /// Garbage in the zones that timely cleanings chose, in percent (table III).
    pub garbage_percent: f64,
    /// What tables instead of the tree would have written (figures 7 and 8).
    pub tables: Vec<TableFigures>,
}

/// Bytes written, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Written {
    /// By the host, in whole blocks.
    pub host_bytes: u64,
    /// To the journal.
    pub journal_bytes: u64,
    /// From the write buffer, or past it, to data zones.
    pub evicted_bytes: u64,
    /// By cleaning.
    pub moved_bytes: u64,
    /// Checkpoints.
    pub checkpoint_bytes: u64,
    /// Summaries of data zones, with their checksums.
    pub summary_bytes: u64,
}

impl Written {
    /// Bytes written for each byte of the host's.
    pub fn amplification(&self) -> f64 {
        let all = self.journal_bytes
            + self.evicted_bytes
            + self.moved_bytes
            + self.checkpoint_bytes
            + self.summary_bytes;
        if self.host_bytes == 0 { 0.0 } else { all as f64 / self.host_bytes as f64 }
    }
}

/// What a table of so many sectors an entry would have written for what was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TableFigures {
    /// Sectors of 512 bytes an entry.
    pub entry_sectors: u64,
    /// Sectors evicted.
    pub evicted_sectors: u64,
    /// Sectors of whole entries written for them.
    pub written_sectors: u64,
    /// The table's memory.
    pub memory_bytes: u64,
}

impl TableFigures {
    /// Sectors written for each that was evicted.
    pub fn amplification(&self) -> f64 {
        if self.evicted_sectors == 0 {
            return 0.0;
        }
        self.written_sectors as f64 / self.evicted_sectors as f64
    }
}

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
