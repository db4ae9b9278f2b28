//! What a checkpoint takes when it begins, and what it frees once it counts.
//!
//! A checkpoint is a delta if the last base is long and the deltas since are not: together about twice
//! as long at most, with as many runs of the mapping as the base. So a base is paid for by what
//! changed, however long the map is, and opening reads some three times the base at most.
//!
//! Not here: writing it (`checkpoint`), its bytes (`format`), when one is due (`state`).

use super::checkpoint::{CheckpointWriter, Written};
use super::checkpoint_format::{Checkpoint, Run, checkpoint_len};
use super::format::{Deltas, ZONE_COUNT_WITH_DELTAS_MAX};
use super::journal::{JournalUse, JournalZone};
use super::pool::Use;
use super::regions::Regions;
use super::state::DriverState;
use imbrex_disk::{BlockRange, Blocks, DiskError, Lba, ZoneId, ZoneState};
use std::collections::{BTreeMap, BTreeSet};

/// Deltas are at most this many times as long as their base.
const DELTA_SHARE: u64 = 2;
/// How often the nodes of a base may be unreadable in a row before the host gets the error.
const FAILED_READ_COUNT_MAX: u32 = 3;
/// One zone of the pool in this many may hold deltas, and at least one for each copy.
const DELTA_ZONE_SHARE: usize = 64;

/// What the checkpoint on the drive says, as far as the next delta depends on it.
#[derive(Debug, Default)]
pub(super) struct Checkpointed {
    /// The generations of the data zones.
    generations: BTreeMap<ZoneId, u64>,
    /// How many runs of the mapping the base has, and all of its deltas.
    base_runs: u64,
    delta_runs: u64,
    /// How often in a row the nodes of a base could not be read.
    failed_reads: u32,
}

impl Checkpointed {
    /// Takes over `generations`, and returns those that a delta must list: others than before, 0 for
    /// zones that have none any more, and every 0.
    fn change(&mut self, generations: &[(ZoneId, u64)]) -> Vec<(ZoneId, u64)> {
        let now: BTreeMap<ZoneId, u64> = generations.iter().copied().collect();
        let ended = self.generations.keys().filter(|zone| !now.contains_key(zone));
        let ended = ended.map(|&zone| (zone, 0));
        let is_new = |&(zone, generation): &(&ZoneId, &u64)| {
            *generation == 0 || self.generations.get(zone) != Some(generation)
        };
        let new = now.iter().filter(is_new).map(|(&zone, &generation)| (zone, generation));
        let changed = ended.chain(new).collect();
        self.generations = now;
        changed
    }
}

impl DriverState {
    /// Begins a checkpoint, of what changed if that is enough.
    pub(super) fn begin_checkpoint(&mut self) -> Result<(), DiskError> {
        let changes = self.may_be_delta().then(|| self.map.take_changes());
        self.begin(changes)
    }

    /// Begins a checkpoint of everything.
    pub(super) fn begin_whole(&mut self) -> Result<(), DiskError> {
        self.begin(None)
    }

    /// Begins a checkpoint of `changes`, or of everything.
    fn begin(&mut self, changes: Option<Regions>) -> Result<(), DiskError> {
        match changes {
            Some(changes) => self.begin_delta(&changes),
            None => self.begin_base()?,
        }
        let writing = self.writing.as_mut().expect("begun above");
        // A zone that becomes idle later stays: this checkpoint refers to its data.
        let is_idle = |zone: &&JournalZone| self.copies.active(zone.zone).is_zero();
        writing.idle = self.journal.sealed().filter(is_idle).map(|zone| zone.zone).collect();
        let abandoned = self.zones.pool.iter().filter(|slot| slot.used == Use::Abandoned);
        writing.abandoned = abandoned.map(|slot| slot.zone).collect();
        self.journal.has_unrecorded_loss = false;
        Ok(())
    }

    /// Begins a checkpoint of everything.
    fn begin_base(&mut self) -> Result<(), DiskError> {
        // A drive allows only a limited number of zones that are written in part, and nothing follows
        // these deltas.
        let last =
            self.superblock.checkpoint.deltas.copies.each_ref().map(|zones| zones.last().copied());
        for zone in last.into_iter().flatten() {
            self.zones.pool.finish(&*self.disk, zone)?;
        }
        let generations = self.generations();
        let base_runs = self.map.node_count();
        let whole = self.map.begin_whole(&self.map_disk());
        self.checkpointed = Checkpointed {
            generations: generations.iter().copied().collect(),
            base_runs,
            delta_runs: 0,
            failed_reads: self.checkpointed.failed_reads,
        };
        let checkpoint = self.checkpoint_without_map(generations);
        let (id, number) = (self.superblock.id, self.superblock.number + 1);
        self.writing = Some(CheckpointWriter::base(id, number, &checkpoint, whole));
        Ok(())
    }

    /// Begins a checkpoint of the LBAs in `changes`.
    ///
    /// Cost: a lookup for each of them, at once.
    fn begin_delta(&mut self, changes: &Regions) {
        let mapped = self.map.runs_of(changes);
        let generations = self.generations();
        let changed = self.checkpointed.change(&generations);
        self.checkpointed.delta_runs =
            self.checkpointed.delta_runs.saturating_add(mapped.len() as u64);
        let delta = Checkpoint { mapped, ..self.checkpoint_without_map(changed) };
        let stored = self.superblock.checkpoint.clone();
        self.writing = Some(CheckpointWriter::delta(self.superblock.id, &delta, stored));
    }

    /// Whether the next checkpoint may be a delta.
    fn may_be_delta(&self) -> bool {
        let stored = &self.superblock.checkpoint;
        let base_len = checkpoint_len(stored.len_bytes).get();
        let zone_len = self.superblock.zone_len.get().max(1);
        let zone_count = 2 * (DELTA_SHARE * base_len).div_ceil(zone_len) as usize;
        let most = (self.zones.pool.iter().count() / DELTA_ZONE_SHARE).max(2);
        stored.len_bytes >= self.options.delta_from_bytes.max(1)
            && zone_count <= most
            && stored.deltas.len < DELTA_SHARE * base_len
            && self.checkpointed.delta_runs <= self.checkpointed.base_runs
            && stored.zones().count() + 2 <= ZONE_COUNT_WITH_DELTAS_MAX
            && self.reserve() <= self.zones.pool.free()
            && !self.map.is_long()
    }

    /// Whether a checkpoint of everything would free zones that deltas take.
    pub(super) fn has_deltas(&self) -> bool {
        self.superblock.checkpoint.deltas != Deltas::default()
    }

    /// The generations of data zones, and 0 for zones of the journal that are given up: only copies
    /// can be needed of a zone that is not open, and they are in memory.
    fn generations(&self) -> Vec<(ZoneId, u64)> {
        let living = self.zones.pool.iter().filter(|slot| slot.generation != 0);
        let living = living.map(|slot| (slot.zone, slot.generation));
        let is_gone = |zone: &&JournalZone| {
            let state = self.disk.zone(zone.zone).map(|info| info.state);
            let is_given_up = matches!(state, Some(ZoneState::Offline | ZoneState::ReadOnly));
            zone.used != JournalUse::Open && is_given_up
        };
        let given_up = self.journal.zones.iter().filter(is_gone);
        living.chain(given_up.map(|zone| (zone.zone, 0))).collect()
    }

    /// Everything of a checkpoint but the mapping.
    fn checkpoint_without_map(&self, generations: Vec<(ZoneId, u64)>) -> Checkpoint {
        let everything = BlockRange::new(Lba::new(0), self.superblock.len);
        let copies = self.copies.copies_of(everything);
        let copies: Vec<Run> =
            copies.map(|(range, place)| Run { range, at: place.start }).collect();
        let places =
            copies.iter().flat_map(|run| (0..run.range.len.get()).map(|n| run.at + Blocks::new(n)));
        Checkpoint {
            seq: self.seq,
            next: self.journal.next(),
            copy_crcs: places.map(|at| self.journal.crc(at)).collect(),
            copies,
            lost: self.lost.iter().collect(),
            generations,
            sums: self.zones.summaries.open_sums(&self.zones.pool),
            mapped: Vec::new(),
        }
    }

    /// Writes a piece of the checkpoint that is being written; returns its length in blocks.
    pub(super) fn checkpoint_step(&mut self) -> Result<u64, DiskError> {
        let len_max = self.step_len();
        let Some(writing) = &mut self.writing else { return Ok(0) };
        let count = match writing.step(self.superblock.id, &mut self.zones, len_max) {
            // The drive has given up a zone that deltas were written to. A base takes zones of its own.
            Err(DiskError::ZoneNotWritable { .. } | DiskError::Offline { .. })
                if writing.is_delta() =>
            {
                self.begin(None)?;
                return self.checkpoint_step();
            }
            Err(error) if writing.has_failed => {
                self.drop_checkpoint();
                self.checkpointed.failed_reads += 1;
                return Err(error);
            }
            written => written?,
        };
        self.counters.checkpoint_blocks += count;
        if let Some(writing) = self.writing.take_if(|writing| writing.is_whole()) {
            if self.lose_unknown(writing.lost()) {
                // A6: it does not say what is lost. Another one does.
                self.writing = Some(writing);
                self.drop_checkpoint();
                self.begin(None)?;
            } else {
                self.end_checkpoint(writing)?;
            }
        }
        Ok(count)
    }

    /// A step of a checkpoint that nobody waits for. If the map cannot be read, it is tried again: the
    /// host gets the error if that happens again and again.
    pub(super) fn paced_checkpoint_step(&mut self) -> Result<u64, DiskError> {
        let before = self.checkpointed.failed_reads;
        match self.checkpoint_step() {
            // Not after any other error: it may leave in doubt what is durable.
            Err(DiskError::Host { .. })
                if (before + 1..FAILED_READ_COUNT_MAX)
                    .contains(&self.checkpointed.failed_reads) =>
            {
                Ok(1)
            }
            outcome => outcome,
        }
    }

    /// Gives up the checkpoint that is being written. The one on the drive counts; what changed since
    /// is in the map, and no longer known as a change.
    fn drop_checkpoint(&mut self) {
        if let Some(writing) = self.writing.take() {
            for zone in writing.stored.zones() {
                self.zones.pool.clear(&*self.disk, zone);
            }
        }
        self.map.end_whole();
        self.checkpointed.delta_runs = u64::MAX;
        // It may have been the one that would have recorded a loss.
        self.journal.has_unrecorded_loss = true;
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
        let (idle, abandoned) = (writing.idle.clone(), writing.abandoned.clone());
        self.counters.delta_checkpoints += u64::from(writing.is_delta());
        let Written { stored, noted } = writing.finish();
        let before = std::mem::replace(&mut self.superblock.checkpoint, stored);
        self.superblock.number += 1;
        self.write_superblock()?;
        let stored: BTreeSet<ZoneId> = self.superblock.checkpoint.zones().collect();
        for zone in before.zones().filter(|zone| !stored.contains(zone)).chain(abandoned) {
            self.zones.pool.clear(&*self.disk, zone);
        }
        let base = self.superblock.checkpoint.copies.each_ref().map(|zones| zones.last().copied());
        for zone in base.into_iter().flatten() {
            self.zones.pool.finish(&*self.disk, zone)?;
        }
        self.counters.checkpoints += 1;
        self.checkpointed.failed_reads = 0;
        self.journal.free(&idle);
        match noted {
            Some(noted) => {
                self.checkpointed.base_runs = noted.node_count();
                self.adopt_base(noted)
            }
            None => {
                self.map.end_whole();
                Ok(())
            }
        }
    }

    /// Writes a checkpoint of the present state.
    pub(super) fn checkpoint_now(&mut self) -> Result<(), DiskError> {
        // A checkpoint that is already being written is older than the latest events.
        self.write_checkpoint()?;
        self.begin_checkpoint()?;
        self.write_checkpoint()
    }

    /// Writes a checkpoint of the present state that no delta precedes.
    pub(super) fn base_now(&mut self) -> Result<(), DiskError> {
        self.write_checkpoint()?;
        self.begin(None)?;
        self.write_checkpoint()
    }

    /// Writes the rest of the checkpoint that has begun.
    fn write_checkpoint(&mut self) -> Result<(), DiskError> {
        while self.writing.is_some() {
            self.checkpoint_step()?;
        }
        Ok(())
    }
}
