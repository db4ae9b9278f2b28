//! Checkpoints: the mapping, and what of the write buffer the journal has, as of one moment.
//!
//! ```text
//!     begin     what all of it is, the mapping shared with the host, and which journal zones nothing needs any more
//!     step      4 MiB of it as bytes, to zones of the pool, while the host goes on; then the same again to other zones
//!     end       flush; superblock; flush: now it counts, the one before it does not
//! ```
//!
//! Source: ours; the paper keeps the map in memory only.

use super::error::no_room;
use super::format::{
    CHECKPOINT_ZONE_COUNT_MAX, Checkpoint, CheckpointBytes, PART_LEN_BYTES, Run, Stored,
    checkpoint_len, encode_part,
};
use super::journal::{JournalUse, JournalZone};
use super::mapping::{FrozenNodes, MapRun};
use super::pool::Use;
use super::state::State;
use super::step::STEP_LEN;
use imbrex_disk::{BlockRange, Blocks, DiskError, Lba, Persist, ZoneId, ZoneState};

/// A checkpoint under way.
#[derive(Debug)]
pub(super) struct Writing {
    bytes: CheckpointBytes<FrozenNodes>,
    /// How many blocks a copy takes, once all bytes are made; then the length in `stored` is right, too.
    copy_len: Option<u64>,
    pub(super) stored: Stored,
    /// How many blocks are written, of the first copy and then of the second.
    written: u64,
    /// Journal zones that nothing needs once it is durable.
    idle: Vec<ZoneId>,
    /// Data zones of whose losses it tells.
    abandoned: Vec<ZoneId>,
}

impl Writing {
    /// How many zones it has.
    pub(super) fn taken_zone_count(&self) -> usize {
        self.stored.copies.iter().map(Vec::len).sum()
    }
}

impl From<MapRun> for Run {
    fn from(run: MapRun) -> Run {
        Run { range: run.range(), at: run.at }
    }
}

impl State {
    pub(super) fn begin_checkpoint(&mut self) {
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
            let is_given_up = matches!(state, Some(ZoneState::Offline | ZoneState::ReadOnly));
            zone.used != JournalUse::Open && is_given_up
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
        let (id, node_count) = (self.superblock.id, self.map.node_count());
        let bytes = CheckpointBytes::new(id, &checkpoint, node_count, self.map.frozen());
        let stored = Stored {
            copies: [Vec::new(), Vec::new()],
            len_bytes: 0,
            number: self.superblock.number + 1,
        };
        // A zone that becomes idle later is not among them: this checkpoint speaks of its data.
        let is_idle = |zone: &&JournalZone| self.copies.active(zone.zone).is_zero();
        let idle = self.journal.sealed().filter(is_idle).map(|zone| zone.zone).collect();
        let abandoned = self.pool.iter().filter(|slot| slot.used == Use::Abandoned);
        let abandoned = abandoned.map(|slot| slot.zone).collect();
        self.journal.has_untold_loss = false;
        self.writing = Some(Writing { bytes, copy_len: None, stored, written: 0, idle, abandoned });
    }

    /// Writes a piece of the checkpoint; says how many blocks.
    pub(super) fn checkpoint_step(&mut self) -> Result<u64, DiskError> {
        let Some(mut writing) = self.writing.take() else { return Ok(0) };
        let written = writing.written;
        let place = |len: u64| (written / len, written % len);
        let (copy, first) = writing.copy_len.map_or((0, written), place);
        let zone_count = writing.taken_zone_count();
        let zones = &mut writing.stored.copies[copy as usize];
        let last = zones.last().and_then(|&zone| self.pool.get(zone));
        let zone = match last.filter(|slot| !slot.is_full()) {
            Some(slot) => slot.zone,
            None => {
                // More than a superblock names: what is on the drive stays as it is.
                if CHECKPOINT_ZONE_COUNT_MAX <= zone_count {
                    return Err(no_room("the map takes too many zones of the drive".to_owned()));
                }
                let taken = self.pool.take(&*self.disk, Use::Checkpoint)?;
                let zone = taken.ok_or_else(|| no_room("no zone for a checkpoint".to_owned()))?;
                self.summaries.forget(zone);
                zones.push(zone);
                zone
            }
        };
        let slot = *self.pool.get(zone).expect("one of the pool");
        let (at, room) = (slot.start + slot.pointer, slot.capacity - slot.pointer);
        let mut count = room.get().min(STEP_LEN);
        if let Some(len) = writing.bytes.make((first + count) as usize * PART_LEN_BYTES) {
            writing.stored.len_bytes = len as u64;
            let copy_len = checkpoint_len(len as u64).get();
            writing.copy_len = Some(copy_len);
            count = count.min(copy_len - first);
        }
        let parts = writing.bytes.made().chunks(PART_LEN_BYTES).skip(first as usize);
        let (id, number) = (self.superblock.id, writing.stored.number);
        let mut data = Vec::with_capacity(Blocks::new(count).bytes() as usize);
        for (index, part) in (first..first + count).zip(parts) {
            data.extend_from_slice(&encode_part(id, number, index, part));
        }
        match self.disk.write(at, &data, Persist::Cached) {
            Err(error) if self.passes_over(zone, &error) => {
                writing.stored.copies[copy as usize].pop();
                self.writing = Some(writing);
                return self.checkpoint_step();
            }
            written => written?,
        }
        self.pool.advance(zone, Blocks::new(count));
        self.counters.checkpoint_blocks += count;
        writing.written += count;
        if writing.copy_len.is_some_and(|copy_len| writing.written == 2 * copy_len) {
            self.end_checkpoint(writing)?;
        } else {
            self.writing = Some(writing);
        }
        Ok(count)
    }

    /// How many zones both copies of the next checkpoint may take: it may be half as long again as the last.
    pub(super) fn checkpoint_zone_count(&self) -> usize {
        let len_bytes = self.superblock.checkpoint.len_bytes;
        let len = checkpoint_len(len_bytes + len_bytes / 2).get();
        2 * len.div_ceil(self.journal.zone_len().get()).max(1) as usize
    }

    fn end_checkpoint(&mut self, writing: Writing) -> Result<(), DiskError> {
        // What it points to must be durable before it is. No zone becomes resettable by that: the superblock may need
        // one, and what the one before names is not to be touched yet (K7).
        self.disk.flush()?;
        let before = std::mem::replace(&mut self.superblock.checkpoint, writing.stored);
        self.superblock.number += 1;
        self.write_superblock()?;
        for zone in before.zones().chain(writing.abandoned) {
            self.pool.clear(&*self.disk, zone);
        }
        for zone in
            self.superblock.checkpoint.copies.clone().iter().filter_map(|zones| zones.last())
        {
            self.pool.finish(&*self.disk, *zone)?;
        }
        self.counters.checkpoints += 1;
        self.journal.free(&writing.idle);
        Ok(())
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
