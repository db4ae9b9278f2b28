//! Checkpoints: the mapping and the journal's copies of the write buffer, as of one moment.
//!
//! ```text
//!     begin     take the mapping, shared with the host, the copies, and the journal zones that become idle
//!     step      encode 4 MiB of it and write it to zones of the pool while the host goes on; then the second copy
//!     end       flush; superblock; flush: now this checkpoint counts, and the previous one does not
//! ```
//!
//! A long map is not written each time. A *delta* has what changed since the checkpoint before it, and
//! everything but the mapping whole. A *base* is followed by its deltas:
//!
//! ```text
//!     base     | mapping, copies, ... |        zones of its own; both copies are finished
//!     deltas   | 1 | 2 | 3 | 4 |               one behind the other in zones of theirs, which stay open
//!                             ^ the superblock says how far they count
//! ```
//!
//! The next base begins when the deltas are long (`checkpointing`). Opening reads the base and all of
//! its deltas, and ends with a new base: so no delta follows one that a power cut tore.
//!
//! Source: ours; the paper keeps the map in memory only.

use super::data_zones::DataZones;
use super::error::no_room;
use super::format::{
    CHECKPOINT_ZONE_COUNT_MAX, Checkpoint, CheckpointBytes, DELTA_INDEX, PART_LEN_BYTES, Run,
    Stored, ZONE_COUNT_WITH_DELTAS_MAX, checkpoint_len, encode_delta, encode_part,
};
use super::mapping::{FrozenNodes, MapRun};
use super::pool::Use;
use super::step::STEP_LEN;
use imbrex_disk::{Blocks, DiskError, Persist, ZoneId};

/// What a checkpoint consists of.
#[derive(Debug)]
enum Content {
    /// The whole mapping, which is encoded step by step.
    Base(CheckpointBytes<FrozenNodes>),
    /// What changed, with the header of a delta.
    Delta(Vec<u8>),
}

/// A checkpoint that is being written.
#[derive(Debug)]
pub(super) struct CheckpointWriter {
    content: Content,
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
    pub(super) fn base(
        id: u64,
        number: u64,
        checkpoint: &Checkpoint,
        node_count: usize,
        nodes: FrozenNodes,
    ) -> CheckpointWriter {
        let content = Content::Base(CheckpointBytes::new(id, checkpoint, node_count, nodes));
        CheckpointWriter::new(content, Stored { number, ..Stored::default() })
    }

    /// A writer for `delta`, which follows the checkpoint in `stored`.
    pub(super) fn delta(id: u64, delta: &Checkpoint, stored: Stored) -> CheckpointWriter {
        CheckpointWriter::new(Content::Delta(encode_delta(id, delta)), stored)
    }

    fn new(content: Content, stored: Stored) -> CheckpointWriter {
        let (idle, abandoned) = (Vec::new(), Vec::new());
        CheckpointWriter { content, copy_len: None, stored, written: 0, idle, abandoned }
    }

    /// Whether it is a delta.
    pub(super) fn is_delta(&self) -> bool {
        matches!(self.content, Content::Delta(_))
    }

    /// How many zones a base has taken; none for a delta, whose zones are not those of the next base.
    pub(super) fn taken_zone_count(&self) -> usize {
        if self.is_delta() { 0 } else { self.stored.copies.iter().map(Vec::len).sum() }
    }

    /// Whether both copies are written.
    pub(super) fn is_whole(&self) -> bool {
        self.copy_len.is_some_and(|copy_len| self.written == 2 * copy_len)
    }

    /// Where the checkpoint is, once it is whole.
    pub(super) fn into_stored(self) -> Stored {
        let mut stored = self.stored;
        if let (Content::Delta(_), Some(copy_len)) = (&self.content, self.copy_len) {
            stored.deltas.len += copy_len;
            stored.deltas.count += 1;
        }
        stored
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
            let count = self.encode(first, room.get().min(STEP_LEN));
            let data = self.blocks(id, first, count);
            match zones.disk.write(at, &data, Persist::Cached) {
                Err(error) if zones.passes_over(zone, &error) => {
                    self.zones_of(copy as usize).pop();
                    continue;
                }
                written => written?,
            }
            zones.pool.advance(zone, Blocks::new(count));
            self.written += count;
            return Ok(count);
        }
    }

    /// Encodes `count` blocks from block `first` of a copy on; returns how many of them there are.
    fn encode(&mut self, first: u64, count: u64) -> u64 {
        let total = match &mut self.content {
            Content::Base(bytes) => {
                let total = bytes.make((first + count) as usize * PART_LEN_BYTES);
                self.stored.len_bytes = total.map_or(self.stored.len_bytes, |len| len as u64);
                total
            }
            Content::Delta(bytes) => Some(bytes.len()),
        };
        let Some(total) = total else { return count };
        let copy_len = checkpoint_len(total as u64).get();
        self.copy_len = Some(copy_len);
        count.min(copy_len - first)
    }

    /// Blocks `first..first + count` of a copy, as they are stored.
    fn blocks(&self, id: u64, first: u64, count: u64) -> Vec<u8> {
        let (bytes, number_of_first) = match &self.content {
            Content::Base(bytes) => (bytes.made(), first),
            Content::Delta(bytes) => (&bytes[..], DELTA_INDEX | (self.stored.deltas.len + first)),
        };
        let parts = bytes.chunks(PART_LEN_BYTES).skip(first as usize);
        let mut data = Vec::with_capacity(Blocks::new(count).bytes() as usize);
        for (index, part) in (number_of_first..number_of_first + count).zip(parts) {
            data.extend_from_slice(&encode_part(id, self.stored.number, index, part));
        }
        data
    }

    /// The zones of a copy.
    fn zones_of(&mut self, copy: usize) -> &mut Vec<ZoneId> {
        match self.content {
            Content::Base(_) => &mut self.stored.copies[copy],
            Content::Delta(_) => &mut self.stored.deltas.copies[copy],
        }
    }

    /// The zone that takes the next piece of a copy.
    fn zone(&mut self, copy: usize, zones: &mut DataZones) -> Result<ZoneId, DiskError> {
        let last = self.zones_of(copy).last().and_then(|&zone| zones.pool.get(zone));
        if let Some(slot) = last.filter(|slot| !slot.is_full()) {
            return Ok(slot.zone);
        }
        // A superblock cannot name more zones: the checkpoint on the drive stays.
        let most =
            if self.is_delta() { ZONE_COUNT_WITH_DELTAS_MAX } else { CHECKPOINT_ZONE_COUNT_MAX };
        if most <= self.stored.zones().count() {
            return Err(no_room("the map takes too many zones of the drive".to_owned()));
        }
        let taken = zones.take(Use::Checkpoint)?;
        let zone = taken
            .ok_or_else(|| no_room("no zone of the drive is free for a checkpoint".to_owned()))?;
        self.zones_of(copy).push(zone);
        Ok(zone)
    }
}

impl From<MapRun> for Run {
    fn from(run: MapRun) -> Run {
        Run { range: run.range(), at: run.at }
    }
}
