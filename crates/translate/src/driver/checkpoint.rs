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
use super::journal::JournalZone;
use super::pool::Use;
use super::state::{STEP_LEN, SUPERBLOCK_COUNT, Slot, State, no_room};
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, Lba, Persist, ZoneAction, ZoneId, ZoneKind,
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
        let checkpoint = Checkpoint {
            seq: self.seq,
            next: self.journal.next(),
            copy_crcs: places.map(|at| self.journal.crc(at)).collect(),
            copies,
            lost: self.lost.iter().collect(),
            generations: self
                .pool
                .iter()
                .filter(|slot| slot.generation != 0)
                .map(|slot| (slot.zone, slot.generation))
                .collect(),
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

    fn write_superblock(&mut self) -> Result<(), DiskError> {
        let geometry = *self.disk.geometry();
        let mut range = geometry.zone_range(ZoneId(self.slot.zone)).unwrap_or_default();
        let capacity = geometry.zone_capacity(ZoneId(self.slot.zone)).unwrap_or_default();
        if SUPERBLOCK_COUNT.min(capacity.get()) <= self.slot.next {
            self.slot = Slot { zone: 1 - self.slot.zone, next: 0 };
            range = geometry.zone_range(ZoneId(self.slot.zone)).unwrap_or_default();
            self.reset_superblocks(ZoneId(self.slot.zone))?;
        }
        let at = range.start + Blocks::new(self.slot.next);
        self.disk.write(at, &self.superblock.encode()[..], Persist::Cached)?;
        self.slot.next += 1;
        self.counters.checkpoint_blocks += 1;
        self.flush_drive()
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
