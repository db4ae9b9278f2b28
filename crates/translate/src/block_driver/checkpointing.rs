//! When a checkpoint begins, what it takes, and what it frees once it counts.
//!
//! Not here: writing it (`checkpoint`), its bytes (`format`), when one is due (`state`).

use super::checkpoint::CheckpointWriter;
use super::format::{Checkpoint, Run, checkpoint_len};
use super::journal::{JournalUse, JournalZone};
use super::pool::Use;
use super::state::DriverState;
use imbrex_disk::{BlockRange, Blocks, DiskError, Lba, ZoneState};

impl DriverState {
    pub(super) fn begin_checkpoint(&mut self) {
        let everything = BlockRange::new(Lba::new(0), self.superblock.len);
        let copies = self.copies.copies_of(everything);
        let copies: Vec<Run> =
            copies.map(|(range, place)| Run { range, at: place.start }).collect();
        let places =
            copies.iter().flat_map(|run| (0..run.range.len.get()).map(|n| run.at + Blocks::new(n)));
        let living = self.zones.pool.iter().filter(|slot| slot.generation != 0);
        let living = living.map(|slot| (slot.zone, slot.generation));
        // Only copies can be needed of a zone that is not open, and they are in memory.
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
            sums: self.zones.summaries.open_sums(&self.zones.pool),
            mapped: Vec::new(),
        };
        let (id, number) = (self.superblock.id, self.superblock.number + 1);
        let (node_count, nodes) = (self.map.node_count(), self.map.frozen());
        let mut writing = CheckpointWriter::new(id, number, &checkpoint, node_count, nodes);
        // A zone that becomes idle later stays: this checkpoint refers to its data.
        let is_idle = |zone: &&JournalZone| self.copies.active(zone.zone).is_zero();
        writing.idle = self.journal.sealed().filter(is_idle).map(|zone| zone.zone).collect();
        let abandoned = self.zones.pool.iter().filter(|slot| slot.used == Use::Abandoned);
        writing.abandoned = abandoned.map(|slot| slot.zone).collect();
        self.journal.has_unrecorded_loss = false;
        self.writing = Some(writing);
    }

    /// Writes a piece of the checkpoint that is being written; returns its length in blocks.
    pub(super) fn checkpoint_step(&mut self) -> Result<u64, DiskError> {
        let Some(writing) = &mut self.writing else { return Ok(0) };
        let count = writing.step(self.superblock.id, &mut self.zones)?;
        self.counters.checkpoint_blocks += count;
        if let Some(writing) = self.writing.take_if(|writing| writing.is_whole()) {
            self.end_checkpoint(writing)?;
        }
        Ok(count)
    }

    /// How many zones both copies of the next checkpoint may take: it may be half as long again as
    /// the last.
    pub(super) fn checkpoint_zone_count(&self) -> usize {
        let len_bytes = self.superblock.checkpoint.len_bytes;
        let len = checkpoint_len(len_bytes + len_bytes / 2).get();
        2 * len.div_ceil(self.journal.zone_len().get()).max(1) as usize
    }

    pub(super) fn write_superblock(&mut self) -> Result<(), DiskError> {
        self.counters.checkpoint_blocks +=
            self.superblocks.write(&self.superblock, &mut self.zones)?;
        Ok(())
    }

    fn end_checkpoint(&mut self, writing: CheckpointWriter) -> Result<(), DiskError> {
        // Everything that the superblock points to must be durable before it. The flush makes no
        // zone resettable: writing the superblock may need a free zone, and structures that the
        // previous superblock names must not change yet (K7).
        self.disk.flush()?;
        let before = std::mem::replace(&mut self.superblock.checkpoint, writing.stored);
        self.superblock.number += 1;
        self.write_superblock()?;
        for zone in before.zones().chain(writing.abandoned) {
            self.zones.pool.clear(&*self.disk, zone);
        }
        for zone in
            self.superblock.checkpoint.copies.clone().iter().filter_map(|zones| zones.last())
        {
            self.zones.pool.finish(&*self.disk, *zone)?;
        }
        self.counters.checkpoints += 1;
        self.journal.free(&writing.idle);
        Ok(())
    }

    pub(super) fn checkpoint_now(&mut self) -> Result<(), DiskError> {
        // A checkpoint that is already being written is older than the latest events.
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
