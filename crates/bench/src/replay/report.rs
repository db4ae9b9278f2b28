//! The results of a replay.

use super::survey::Survey;
use crate::latency::LatencySummary;
use serde::Serialize;

/// The results of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// Whether it reached the end of the trace.
    pub is_complete: bool,
    /// The whole trace.
    pub survey: Survey,
    /// Bytes that the host may address.
    pub device_bytes: u64,
    /// The length of the drive below.
    pub drive_bytes: u64,
    /// Bytes written before the clock started, for reads that precede their first write.
    pub prefilled_bytes: u64,
    /// The requests.
    #[serde(flatten)]
    pub requests: RequestFigures,
    /// Bytes evicted because the journal was full, and not because the write buffer was.
    pub journal_evicted_bytes: u64,
    /// Bytes written to the drive, by reason.
    pub written: BytesWritten,
    /// Nodes of the mapping at the end.
    pub mapping_nodes: u64,
    /// Memory of the mapping at the end.
    pub mapping_bytes: u64,
    /// Timely cleanings, in the requested order.
    pub timely_cleanings: u64,
    /// Urgent cleanings, started when hardly any zone was free; they choose by garbage alone.
    pub urgent_cleanings: u64,
    /// Mapping nodes that a timely cleaning merged, on average (table II).
    pub merged_nodes_mean: f64,
    /// Garbage in the zones of timely cleanings, in percent (table III).
    pub garbage_percent: f64,
    /// The writes of mapping tables instead of the tree (figures 7 and 8).
    pub tables: Vec<TableFigures>,
}

impl ReplayReport {
    /// The delay of the last request: from its arrival to its end, in percent of the trace's
    /// duration. For a drive that keeps up this is about one request. Otherwise the queue grows
    /// until the trace ends, and a latency is the length of that queue.
    pub fn late_percent(&self) -> f64 {
        let late_ns = self.requests.elapsed_ns.saturating_sub(self.survey.duration_ns);
        100.0 * late_ns as f64 / self.survey.duration_ns.max(1) as f64
    }
}

/// The same trace on the bare conventional drive: the same mechanics, without zones and without a block
/// driver.
#[derive(Clone, Debug, Serialize)]
pub struct BareReport {
    /// Whether it reached the end of the trace.
    pub is_complete: bool,
    /// The length of the drive.
    pub drive_bytes: u64,
    /// The requests.
    #[serde(flatten)]
    pub requests: RequestFigures,
}

/// How requests were served.
#[derive(Clone, Debug, Serialize)]
pub struct RequestFigures {
    /// Reads done.
    pub reads: u64,
    /// Their bytes, in whole blocks.
    pub read_bytes: u64,
    /// Writes done.
    pub writes: u64,
    /// Their bytes, in whole blocks.
    pub written_bytes: u64,
    /// Blocks at the edges of writes that were read first.
    pub edge_blocks: u64,
    /// From the arrival of the first request to the end of the last.
    pub elapsed_ns: u64,
    /// Latency of reads, from their arrival.
    pub read_latency: LatencySummary,
    /// Latency of writes, from their arrival.
    pub write_latency: LatencySummary,
    /// The longest write, from the moment when the disk was free for it.
    pub write_stall_ns_max: u64,
}

impl RequestFigures {
    /// Bytes of the host a second, in MB.
    pub fn megabytes_per_s(&self) -> f64 {
        (self.read_bytes + self.written_bytes) as f64 / 1e6 / (self.elapsed_ns.max(1) as f64 / 1e9)
    }
}

/// Bytes written, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BytesWritten {
    /// By the host, in whole blocks.
    pub host_bytes: u64,
    /// To the journal.
    pub journal_bytes: u64,
    /// From the write buffer, or bypassing it, to data zones.
    pub evicted_bytes: u64,
    /// By cleaning.
    pub moved_bytes: u64,
    /// Checkpoints.
    pub checkpoint_bytes: u64,
    /// Summaries of data zones, including their checksums.
    pub summary_bytes: u64,
}

impl BytesWritten {
    /// Bytes written per byte from the host.
    pub fn amplification(&self) -> f64 {
        let all = self.journal_bytes
            + self.evicted_bytes
            + self.moved_bytes
            + self.checkpoint_bytes
            + self.summary_bytes;
        if self.host_bytes == 0 { 0.0 } else { all as f64 / self.host_bytes as f64 }
    }
}

/// The writes of a mapping table with entries of this length, for the evicted runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TableFigures {
    /// Sectors of 512 bytes per entry.
    pub entry_sectors: u64,
    /// Sectors evicted.
    pub evicted_sectors: u64,
    /// Sectors of whole entries that were written for them.
    pub written_sectors: u64,
    /// The table's memory.
    pub memory_bytes: u64,
}

impl TableFigures {
    /// Sectors written per evicted sector.
    pub fn amplification(&self) -> f64 {
        if self.evicted_sectors == 0 {
            return 0.0;
        }
        self.written_sectors as f64 / self.evicted_sectors as f64
    }
}
