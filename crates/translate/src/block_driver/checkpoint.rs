//! Checkpoints: the mapping and the journal's copies of the write buffer, as of one moment.
//!
//! ```text
//!     begin     take the mapping, shared with the host, the copies, and the journal zones that become idle
//!     step      encode 4 MiB of it and write it to zones of the pool while the host goes on; then the second copy
//!     end       flush; superblock; flush: now this checkpoint counts, and the previous one does not
//! ```
//!
//! Source: ours; the paper keeps the map in memory only.

use super::data_zones::DataZones;
use super::error::no_room;
use super::format::{
    CHECKPOINT_ZONE_COUNT_MAX, Checkpoint, CheckpointBytes, PART_LEN_BYTES, Run, Stored,
    checkpoint_len, encode_part,
};
use super::mapping::{FrozenNodes, MapRun};
use super::pool::Use;
use super::step::STEP_LEN;
use imbrex_disk::{Blocks, DiskError, Persist, ZoneId};

/// A checkpoint that is being written.
#[derive(Debug)]
pub(super) struct CheckpointWriter {
    bytes: CheckpointBytes<FrozenNodes>,
    /// The length of a copy in blocks, once everything is encoded. The length in `stored` is final
    /// then too.
    copy_len: Option<u64>,
    pub(super) stored: Stored,
    /// How many blocks are written, of the first copy and then of the second.
    written: u64,
    /// Journal zones that are not needed once the checkpoint is durable.
    pub(super) idle: Vec<ZoneId>,
    /// Data zones whose lost blocks the checkpoint names.
    pub(super) abandoned: Vec<ZoneId>,
}

impl CheckpointWriter {
    /// A writer for `checkpoint` with the `nodes` of the mapping; `number` is that of its
    /// superblock.
    pub(super) fn new(
        id: u64,
        number: u64,
        checkpoint: &Checkpoint,
        node_count: usize,
        nodes: FrozenNodes,
    ) -> CheckpointWriter {
        let bytes = CheckpointBytes::new(id, checkpoint, node_count, nodes);
        let stored = Stored { copies: [Vec::new(), Vec::new()], len_bytes: 0, number };
        let (idle, abandoned) = (Vec::new(), Vec::new());
        CheckpointWriter { bytes, copy_len: None, stored, written: 0, idle, abandoned }
    }

    /// How many zones the checkpoint has taken.
    pub(super) fn taken_zone_count(&self) -> usize {
        self.stored.copies.iter().map(Vec::len).sum()
    }

    /// Whether both copies are written.
    pub(super) fn is_whole(&self) -> bool {
        self.copy_len.is_some_and(|copy_len| self.written == 2 * copy_len)
    }

    /// Writes a piece of the checkpoint; returns its length in blocks.
    pub(super) fn step(&mut self, id: u64, zones: &mut DataZones) -> Result<u64, DiskError> {
        loop {
            let written = self.written;
            let place = |len: u64| (written / len, written % len);
            let (copy, first) = self.copy_len.map_or((0, written), place);
            let zone = self.zone(copy as usize, zones)?;
            let slot = *zones.pool.get(zone).expect("one of the pool");
            let (at, room) = (slot.start + slot.pointer, slot.capacity - slot.pointer);
            let mut count = room.get().min(STEP_LEN);
            if let Some(len) = self.bytes.make((first + count) as usize * PART_LEN_BYTES) {
                self.stored.len_bytes = len as u64;
                let copy_len = checkpoint_len(len as u64).get();
                self.copy_len = Some(copy_len);
                count = count.min(copy_len - first);
            }
            let parts = self.bytes.made().chunks(PART_LEN_BYTES).skip(first as usize);
            let mut data = Vec::with_capacity(Blocks::new(count).bytes() as usize);
            for (index, part) in (first..first + count).zip(parts) {
                data.extend_from_slice(&encode_part(id, self.stored.number, index, part));
            }
            match zones.disk.write(at, &data, Persist::Cached) {
                Err(error) if zones.passes_over(zone, &error) => {
                    self.stored.copies[copy as usize].pop();
                    continue;
                }
                written => written?,
            }
            zones.pool.advance(zone, Blocks::new(count));
            self.written += count;
            return Ok(count);
        }
    }

    /// The zone that takes the next piece of a copy.
    fn zone(&mut self, copy: usize, zones: &mut DataZones) -> Result<ZoneId, DiskError> {
        let last = self.stored.copies[copy].last().and_then(|&zone| zones.pool.get(zone));
        if let Some(slot) = last.filter(|slot| !slot.is_full()) {
            return Ok(slot.zone);
        }
        // A superblock cannot name more zones: the checkpoint on the drive stays.
        if CHECKPOINT_ZONE_COUNT_MAX <= self.taken_zone_count() {
            return Err(no_room("the map takes too many zones of the drive".to_owned()));
        }
        let taken = zones.take(Use::Checkpoint)?;
        let zone = taken
            .ok_or_else(|| no_room("no zone of the drive is free for a checkpoint".to_owned()))?;
        self.stored.copies[copy].push(zone);
        Ok(zone)
    }
}

impl From<MapRun> for Run {
    fn from(run: MapRun) -> Run {
        Run { range: run.range(), at: run.at }
    }
}
