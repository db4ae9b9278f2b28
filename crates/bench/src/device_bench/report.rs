//! What a block device did, day by day.

use crate::latency::LatencySummary;
use crate::report::Bytes;
use imbrex_disk::Blocks;
use serde::Serialize;

/// The results of all days.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceBenchReport {
    /// The length of the drive.
    pub drive_bytes: u64,
    /// What the host sees of it.
    pub device_bytes: u64,
    /// The seed.
    pub seed: u64,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Before the first day.
    pub filling: FillingFigures,
    /// The days, in order.
    pub days: Vec<DeviceDay>,
    /// The error that ended the run.
    pub refusal: Option<String>,
}

/// What it took to write the whole device and to make it an old one.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct FillingFigures {
    /// Files at the first share.
    pub files: u64,
    /// The host's blocks.
    pub host_blocks: u64,
    /// The drive's time.
    pub drive_s: f64,
    /// The program's.
    pub program_s: f64,
    /// Nodes of the map behind it.
    pub nodes: u64,
}

/// One simulated day.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceDay {
    /// The share of the data area that is in files, in percent.
    pub fill_percent: u64,
    /// The load.
    pub load: &'static str,
    /// The day of this load at this share, from 1.
    pub day: u64,
    /// What the device wrote.
    pub written: WrittenFigures,
    /// Its map, and what else it keeps in memory.
    pub memory: MemoryFigures,
    /// How long requests took, in the drive's time.
    pub waits: WaitFigures,
    /// The opening after the power cut that ends the day.
    pub opening: OpeningFigures,
    /// The program's own time, which is not the same in every run.
    pub program: ProgramFigures,
}

/// What a device wrote on a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WrittenFigures {
    /// Blocks that the host wrote.
    pub host_blocks: u64,
    /// Blocks that the host discarded.
    pub trimmed_blocks: u64,
    /// All blocks that the drive wrote for each of the host's.
    pub all: f64,
    /// Of those, blocks of the journal, with its headers.
    pub journal: f64,
    /// Blocks that cleaning moved.
    pub moved: f64,
    /// Blocks of checkpoints.
    pub checkpoint: f64,
    /// Summaries.
    pub summary: f64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Of those, checkpoints of what had changed.
    pub delta_checkpoints: u64,
    /// Cleanings.
    pub cleanings: u64,
    /// Of those, cleanings begun because hardly a zone was free.
    pub urgent_cleanings: u64,
}

/// What a device keeps in memory at the end of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MemoryFigures {
    /// Nodes of the map.
    pub nodes: u64,
    /// The map's memory.
    pub map_bytes: u64,
    /// The memory of the write buffer and all indices.
    pub buffer_bytes: u64,
    /// Zones that could take data.
    pub free_zones: u64,
    /// The memory of the model of the drive, which no device has.
    pub model_bytes: u64,
}

/// How long requests took, from the call to its return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WaitFigures {
    /// Writes.
    pub writes: u64,
    /// Their times.
    pub write: LatencySummary,
    /// Times of flushes.
    pub flush: LatencySummary,
    /// Times of reads of one block.
    pub read: LatencySummary,
    /// The longest time by which the load came late, because requests before took longer than planned.
    pub late_ns: u64,
}

/// An opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OpeningFigures {
    /// The drive's time.
    pub drive_ns: u64,
    /// What the drive read.
    pub read_bytes: u64,
    /// What it wrote: a checkpoint of everything, twice.
    pub written_bytes: u64,
    /// How often its head moved.
    pub seeks: u64,
    /// Entries of the journal that were replayed.
    pub replayed_entries: u64,
    /// Blocks in the write buffer that opening read back.
    pub buffered_blocks: u64,
    /// Blocks read and compared right after it.
    pub probes: u64,
}

/// The program's processor time: of the driver, the emulated drive and the load together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ProgramFigures {
    /// Of the day, without the opening.
    pub day_ns: u64,
    /// The longest of one call of the driver: a write, a flush, a discard or a step of idle work.
    pub longest_call_ns: u64,
    /// Of the opening.
    pub opening_ns: u64,
}

impl DeviceBenchReport {
    /// What was measured, in one line.
    pub fn title(&self) -> String {
        format!(
            "A block device of {} on a drive of {}, filled with {} files, day by day",
            Bytes(self.device_bytes),
            Bytes(self.drive_bytes),
            self.filling.files
        )
    }

    /// The titles of its tables, with the names of their columns.
    pub fn tables() -> [(&'static str, &'static [&'static str]); 2] {
        [
            ("What was written, and the map", &WRITTEN_COLUMNS),
            ("How long requests and openings took, in the drive's time", &WAIT_COLUMNS),
        ]
    }
}

const WRITTEN_COLUMNS: [&str; 13] = [
    "full, %",
    "load",
    "day",
    "host, GB",
    "written for each block",
    "journal",
    "moved",
    "checkpoints, %",
    "summaries, %",
    "nodes",
    "map, MB",
    "free zones",
    "cleanings",
];

const WAIT_COLUMNS: [&str; 14] = [
    "full, %",
    "load",
    "day",
    "write p99, ms",
    "longest write, ms",
    "longest flush, ms",
    "read p50, ms",
    "longest read, ms",
    "late, s",
    "opening, s",
    "entries replayed",
    "blocks read back",
    "opening, program's s",
    "longest call, program's ms",
];

impl DeviceDay {
    /// Its rows in the tables.
    pub fn rows(&self) -> [Vec<String>; 2] {
        let DeviceDay { written, memory, waits, opening, program, .. } = self;
        let ms = |ns: u64| format!("{:.1}", ns as f64 / 1e6);
        let s = |ns: u64| format!("{:.2}", ns as f64 / 1e9);
        let name = [self.fill_percent.to_string(), self.load.to_owned(), self.day.to_string()];
        let host_bytes = Blocks::new(written.host_blocks).bytes();
        let of_written = [
            format!("{:.1}", host_bytes as f64 / 1e9),
            format!("{:.2}", written.all),
            format!("{:.2}", written.journal),
            format!("{:.2}", written.moved),
            format!("{:.2}", 100.0 * written.checkpoint),
            format!("{:.2}", 100.0 * written.summary),
            memory.nodes.to_string(),
            format!("{:.0}", memory.map_bytes as f64 / 1e6),
            memory.free_zones.to_string(),
            written.cleanings.to_string(),
        ];
        let of_waits = [
            ms(waits.write.p99_ns),
            ms(waits.write.max_ns),
            ms(waits.flush.max_ns),
            ms(waits.read.p50_ns),
            ms(waits.read.max_ns),
            format!("{:.1}", waits.late_ns as f64 / 1e9),
            s(opening.drive_ns),
            opening.replayed_entries.to_string(),
            opening.buffered_blocks.to_string(),
            s(program.opening_ns),
            ms(program.longest_call_ns),
        ];
        [
            name.iter().cloned().chain(of_written).collect(),
            name.into_iter().chain(of_waits).collect(),
        ]
    }
}
