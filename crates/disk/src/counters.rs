//! What a disk has done so far.

use crate::{ActivityCounters, ByActivity};
use std::ops::Sub;

/// Running totals of one disk or one translation layer. Subtract two readings to get an interval.
///
/// `added_*` counts what the layer did on its own initiative: read-modify-write, cleaning, backup
/// and move-back of tracks. The other totals include it, so device write amplification is
/// `written_bytes / (written_bytes - added_written_bytes)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Flush requests.
    pub flushes: u64,
    /// Requests that had to move the head to another track.
    pub seeks: u64,
    /// Zone resets.
    pub zone_resets: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read by the layer itself.
    pub added_read_bytes: u64,
    /// Bytes written by the layer itself.
    pub added_written_bytes: u64,
    /// Bytes of valid data that writes to overlapping tracks destroyed.
    pub destroyed_bytes: u64,
    /// Time the modelled disk was busy, in nanoseconds; 0 on a disk without mechanics.
    pub busy_ns: u64,
    /// Part of `busy_ns`: the head moved to another track.
    pub seek_ns: u64,
    /// Part of `busy_ns`: the head waited for the platter to turn.
    pub turn_ns: u64,
    /// Part of `busy_ns`: blocks passed below the head.
    pub transfer_ns: u64,
    /// Bytes and times by what the requests served.
    pub by_activity: ByActivity<ActivityCounters>,
}

impl Sub for Counters {
    type Output = Counters;
    fn sub(self, before: Counters) -> Counters {
        Counters {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            flushes: self.flushes - before.flushes,
            seeks: self.seeks - before.seeks,
            zone_resets: self.zone_resets - before.zone_resets,
            read_bytes: self.read_bytes - before.read_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
            added_read_bytes: self.added_read_bytes - before.added_read_bytes,
            added_written_bytes: self.added_written_bytes - before.added_written_bytes,
            destroyed_bytes: self.destroyed_bytes - before.destroyed_bytes,
            busy_ns: self.busy_ns - before.busy_ns,
            seek_ns: self.seek_ns - before.seek_ns,
            turn_ns: self.turn_ns - before.turn_ns,
            transfer_ns: self.transfer_ns - before.transfer_ns,
            by_activity: self.by_activity - before.by_activity,
        }
    }
}
