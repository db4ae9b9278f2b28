//! What a replay measured.

use super::survey::Survey;
use crate::latency::LatencySummary;
use serde::Serialize;

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
    pub written: BytesWritten,
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

impl ReplayReport {
    /// By how much later than the last request came it was done, in percent of the trace's time. A drive that
    /// keeps up is late by a request; one that does not has a queue that grows until the trace ends, and a
    /// latency is how far it has grown.
    pub fn late_percent(&self) -> f64 {
        let late_ns = self.elapsed_ns.saturating_sub(self.survey.duration_ns);
        100.0 * late_ns as f64 / self.survey.duration_ns.max(1) as f64
    }
}

/// Bytes written, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BytesWritten {
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

impl BytesWritten {
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
