//! Checkpoints: the mapping and the journal's copies of the write buffer, as of one moment.
//!
//! ```text
//!     begin     take the mapping, shared with the host, the copies, and the journal zones that become idle
//!     step      encode 4 MiB of it and write it to zones of the pool while the host goes on, then the same to the second copy
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

use super::base::BaseBuilder;
use super::checkpoint_format::{
    Checkpoint, CheckpointBytes, DELTA_INDEX, PART_LEN_BYTES, checkpoint_len, encode_delta,
    encode_part,
};
use super::data_zones::DataZones;
use super::error::no_room;
use super::format::{CHECKPOINT_ZONE_COUNT_MAX, Stored, ZONE_COUNT_WITH_DELTAS_MAX};
use super::layered::{NodeSource, WholeNodes};
use super::pool::Use;
use imbrex_disk::{BlockRange, Blocks, DiskError, Persist, ZoneId};

/// What a checkpoint consists of.
#[derive(Debug)]
enum Content {
    /// The whole mapping, which is encoded step by step.
    Base(Box<CheckpointBytes<NodeSource>>),
    /// What changed, with the header of a delta.
    Delta(Vec<u8>),
}

/// A checkpoint that is being written.
#[derive(Debug)]
pub(super) struct CheckpointWriter {
    content: Content,
    /// Where the nodes of a base are, if it is to be that of the map.
    noted: Option<BaseBuilder>,
    /// The length of a copy in blocks, once everything is encoded. The length in `stored` is final
    /// then too.
    copy_len: Option<u64>,
    pub(super) stored: Stored,
    /// How many blocks of each copy are written. The second follows the first step by step, so that
    /// the bytes in memory are those of a step.
    written: [u64; 2],
    /// Whether the nodes could not be read to their end: what was written is no checkpoint.
    pub(super) has_failed: bool,
    /// Journal zones that are not needed once the checkpoint is durable.
    pub(super) idle: Vec<ZoneId>,
    /// Data zones whose lost blocks the checkpoint names.
    pub(super) abandoned: Vec<ZoneId>,
}

/// A checkpoint that is written.
pub(super) struct Written {
    pub(super) stored: Stored,
    /// Where its nodes are, if it is to be the base of the map.
    pub(super) noted: Option<BaseBuilder>,
}

impl CheckpointWriter {
    /// A writer for `checkpoint` with the `whole` nodes of the mapping; `number` is that of its
    /// superblock.
    pub(super) fn base(
        id: u64,
        number: u64,
        checkpoint: &Checkpoint,
        whole: WholeNodes,
    ) -> CheckpointWriter {
        let WholeNodes { count, nodes, noted } = whole;
        let bytes = CheckpointBytes::new(id, checkpoint, count, nodes);
        let stored = Stored { number, is_open_ended: count.is_none(), ..Stored::default() };
        let content = Content::Base(Box::new(bytes));
        CheckpointWriter { noted, ..CheckpointWriter::new(content, stored) }
    }

    /// A writer for `delta`, which follows the checkpoint in `stored`.
    pub(super) fn delta(id: u64, delta: &Checkpoint, stored: Stored) -> CheckpointWriter {
        CheckpointWriter::new(Content::Delta(encode_delta(id, delta)), stored)
    }

    fn new(content: Content, stored: Stored) -> CheckpointWriter {
        let (idle, abandoned) = (Vec::new(), Vec::new());
        CheckpointWriter {
            content,
            noted: None,
            copy_len: None,
            stored,
            written: [0; 2],
            has_failed: false,
            idle,
            abandoned,
        }
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
        self.copy_len.is_some_and(|copy_len| self.written == [copy_len; 2])
    }

    /// The blocks whose nodes could not be read. They are not in it.
    pub(super) fn lost(&self) -> Vec<BlockRange> {
        match &self.content {
            Content::Base(bytes) => bytes.mapped().lost().to_vec(),
            Content::Delta(_) => Vec::new(),
        }
    }

    /// The checkpoint, once it is whole.
    pub(super) fn finish(self) -> Written {
        let mut stored = self.stored;
        match self.content {
            Content::Delta(_) => {
                stored.deltas.len += self.copy_len.unwrap_or(0);
                stored.deltas.count += 1;
                Written { stored, noted: None }
            }
            Content::Base(bytes) => {
                let mut noted = self.noted;
                if let Some(noted) = &mut noted {
                    noted.end(bytes.runs_end().unwrap_or(0));
                }
                Written { stored, noted }
            }
        }
    }

    /// Writes a piece of the checkpoint, of at most `len_max`; returns its length in blocks.
    pub(super) fn step(
        &mut self,
        id: u64,
        zones: &mut DataZones,
        len_max: u64,
    ) -> Result<u64, DiskError> {
        loop {
            let copy = usize::from(self.written[1] < self.written[0]);
            let first = self.written[copy];
            let zone = self.zone(copy, zones)?;
            let slot = *zones.pool.get(zone).expect("one of the pool");
            let (at, room) = (slot.start + slot.pointer, slot.capacity - slot.pointer);
            let most = room.get().min(len_max);
            let count = match copy {
                0 => self.encode(first, most)?,
                _ => most.min(self.written[0] - first),
            };
            let data = self.blocks(id, first, count);
            match zones.disk.write(at, &data, Persist::Cached) {
                Err(error) if zones.passes_over(zone, &error) => {
                    self.zones_of(copy).pop();
                    continue;
                }
                written => written?,
            }
            zones.pool.advance(zone, Blocks::new(count));
            self.written[copy] += count;
            if let Content::Base(bytes) = &mut self.content {
                bytes.drop_before(self.written[1] as usize * PART_LEN_BYTES);
            }
            return Ok(count);
        }
    }

    /// Encodes `count` blocks from block `first` of a copy on; returns how many of them there are.
    fn encode(&mut self, first: u64, count: u64) -> Result<u64, DiskError> {
        let total = match &mut self.content {
            Content::Base(bytes) => {
                let noted = &mut self.noted;
                let mut note = |run, coder, offset| {
                    noted.iter_mut().for_each(|noted| noted.note(run, coder, offset));
                };
                let total = bytes.make((first + count) as usize * PART_LEN_BYTES, &mut note);
                if let Some(failure) = bytes.mapped_mut().take_failure() {
                    self.has_failed = true;
                    return Err(failure);
                }
                self.stored.len_bytes = total.map_or(self.stored.len_bytes, |len| len as u64);
                total
            }
            Content::Delta(bytes) => Some(bytes.len()),
        };
        let Some(total) = total else { return Ok(count) };
        let copy_len = checkpoint_len(total as u64).get();
        self.copy_len = Some(copy_len);
        Ok(count.min(copy_len - first))
    }

    /// Blocks `first..first + count` of a copy, as they are stored.
    fn blocks(&self, id: u64, first: u64, count: u64) -> Vec<u8> {
        let at = first as usize * PART_LEN_BYTES;
        let (bytes, number_of_first) = match &self.content {
            Content::Base(bytes) => (bytes.made_from(at), first),
            Content::Delta(bytes) => {
                (&bytes[at.min(bytes.len())..], DELTA_INDEX | (self.stored.deltas.len + first))
            }
        };
        let mut data = Vec::with_capacity(Blocks::new(count).bytes() as usize);
        let parts = bytes.chunks(PART_LEN_BYTES);
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
