//! Checkpoints: the mapping, and what of the write buffer the journal has, as of one moment.
//!
//! ```text
//!     begin     all of it as bytes in memory, and which journal zones nothing needs any more
//!     step      4 MiB of it to zones of the pool, while the host goes on
//!     end       flush; superblock; flush: now it counts, the one before it does not
//! ```
//!
//! Source: ours; the paper keeps the map in memory only.

use super::format::{Checkpoint, Run, Stored, encode_checkpoint};
use super::journal::{JournalUse, JournalZone};
use super::pool::Use;
use super::state::{STEP_LEN, SUPERBLOCK_COUNT, State, no_room};
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, Lba, Persist, ZoneAction, ZoneId, ZoneKind,
    ZoneState,
};

/// A checkpoint under way.
#[derive(Debug)]
pub(super) struct Writing {
    bytes: Vec<u8>,
    stored: Stored,
    /// How many blocks are written.
    written: u64,
    /// Journal zones that nothing needs once it is durable.
    idle: Vec<ZoneId>,
}

impl State {
    pub(super) fn begin_checkpoint(&mut self) {
        let mapped = self.map.iter().map(|run| Run { range: run.range(), at: run.at });
        let everything = BlockRange::new(Lba::new(0), self.superblock.len);
        let copies = self.copies.copies_of(everything);
        let copies: Vec<Run> =
            copies.map(|(range, place)| Run { range, at: place.start }).collect();
        let places =
            copies.iter().flat_map(|run| (0..run.range.len.get()).map(|n| run.at + Blocks::new(n)));
        let living = self.pool.iter().filter(|slot| slot.generation != 0);
        let living = living.map(|slot| (slot.zone, slot.generation));
        // Nothing but copies is needed of a zone that is not open, and they are in memory.
        let is_gone = |zone: &&JournalZone| {
            let state = self.disk.zone(zone.zone).map(|info| info.state);
            zone.used != JournalUse::Open && state == Some(ZoneState::Offline)
        };
        let given_up = self.journal.zones.iter().filter(is_gone);
        let given_up = given_up.map(|zone| (zone.zone, 0));
        let checkpoint = Checkpoint {
            seq: self.seq,
            next: self.journal.next(),
            copy_crcs: places.map(|at| self.journal.crc(at)).collect(),
            copies,
            lost: self.lost.iter().collect(),
            generations: living.chain(given_up).collect(),
            sums: self.summaries.open_sums(&self.pool),
            mapped: Vec::new(),
        };
        let bytes =
            encode_checkpoint(self.superblock.id, &checkpoint, (self.map.node_count(), mapped));
        let crc = crc32c::crc32c(&bytes);
        let stored = Stored { zones: Vec::new(), len_bytes: bytes.len() as u64, crc };
        // A zone that becomes idle later is not among them: this checkpoint speaks of its data.
        let is_idle = |zone: &&JournalZone| self.copies.active(zone.zone).is_zero();
        let idle = self.journal.sealed().filter(is_idle).map(|zone| zone.zone).collect();
        self.writing = Some(Writing { bytes, stored, written: 0, idle });
    }

    /// Writes a piece of the checkpoint; says how many blocks.
    pub(super) fn checkpoint_step(&mut self) -> Result<u64, DiskError> {
        let Some(mut writing) = self.writing.take() else { return Ok(0) };
        let block_count = Blocks::holding(writing.bytes.len() as u64).get();
        let last = writing.stored.zones.last().and_then(|&zone| self.pool.get(zone));
        let zone = match last.filter(|slot| !slot.is_full()) {
            Some(slot) => slot.zone,
            None => {
                let taken = self.pool.take(&*self.disk, Use::Checkpoint)?;
                let zone = taken.ok_or_else(|| no_room("no zone for a checkpoint".to_owned()))?;
                self.summaries.forget(zone);
                writing.stored.zones.push(zone);
                zone
            }
        };
        let slot = *self.pool.get(zone).expect("one of the pool");
        let (at, room) = (slot.start + slot.pointer, slot.capacity - slot.pointer);
        let count = (block_count - writing.written).min(room.get()).min(STEP_LEN);
        let from = writing.written as usize * BLOCK_LEN_BYTES;
        let to = (from + count as usize * BLOCK_LEN_BYTES).min(writing.bytes.len());
        let mut data = writing.bytes[from..to].to_vec();
        data.resize(count as usize * BLOCK_LEN_BYTES, 0);
        self.disk.write(at, &data, Persist::Cached)?;
        self.pool.advance(zone, Blocks::new(count));
        self.counters.checkpoint_blocks += count;
        writing.written += count;
        if writing.written < block_count {
            self.writing = Some(writing);
        } else {
            self.end_checkpoint(writing)?;
        }
        Ok(count)
    }

    fn end_checkpoint(&mut self, writing: Writing) -> Result<(), DiskError> {
        // What it points to must be durable before it is.
        self.flush_drive()?;
        let before = std::mem::replace(&mut self.superblock.checkpoint, writing.stored);
        self.superblock.number += 1;
        self.write_superblock()?;
        for zone in before.zones {
            self.pool.set(zone, Use::Resettable);
        }
        if let Some(&last) = self.superblock.checkpoint.zones.last() {
            self.pool.finish(&*self.disk, last)?;
        }
        self.counters.checkpoints += 1;
        self.journal.free(&writing.idle);
        Ok(())
    }

    /// Writes the superblock to both zones, one after the other: at any moment one of them has a whole one.
    fn write_superblock(&mut self) -> Result<(), DiskError> {
        let bytes = self.superblock.encode();
        for index in 0..self.slots.len() {
            let Some(next) = self.slots[index] else { continue };
            match self.write_to_slot(ZoneId(index as u32), next, &bytes[..]) {
                Ok(next) => {
                    self.slots[index] = Some(next);
                    self.counters.checkpoint_blocks += 1;
                    self.flush_drive()?;
                }
                Err(DiskError::ZoneNotWritable { .. } | DiskError::Offline { .. }) => {
                    self.slots[index] = None;
                }
                Err(error) => return Err(error),
            }
        }
        if self.slots == [None; 2] {
            return Err(no_room("the drive has given up both zones of superblocks".to_owned()));
        }
        Ok(())
    }

    /// Writes a superblock to a slot, or to the first one if the zone is full; says which comes next.
    fn write_to_slot(&self, zone: ZoneId, next: u64, bytes: &[u8]) -> Result<u64, DiskError> {
        let geometry = self.disk.geometry();
        let start = geometry.zone_range(zone).unwrap_or_default().start;
        let capacity = geometry.zone_capacity(zone).unwrap_or_default();
        let mut slot = next;
        if SUPERBLOCK_COUNT.min(capacity.get()) <= next {
            if self.slots.contains(&None) {
                let what = "the last zone of superblocks is full, and the other one is gone";
                return Err(no_room(what.to_owned()));
            }
            self.reset_superblocks(zone)?;
            slot = 0;
        }
        self.disk.write(start + Blocks::new(slot), bytes, Persist::Cached)?;
        Ok(slot + 1)
    }

    fn reset_superblocks(&self, zone: ZoneId) -> Result<(), DiskError> {
        let is_sequential =
            self.disk.zone(zone).is_some_and(|info| info.kind == ZoneKind::SequentialRequired);
        if is_sequential { self.disk.manage_zone(zone, ZoneAction::Reset) } else { Ok(()) }
    }

    pub(super) fn checkpoint_now(&mut self) -> Result<(), DiskError> {
        // One under way is older than what happened since.
        while self.writing.is_some() {
            self.checkpoint_step()?;
        }
        self.begin_checkpoint();
        while self.writing.is_some() {
            self.checkpoint_step()?;
        }
        Ok(())
    }
}
