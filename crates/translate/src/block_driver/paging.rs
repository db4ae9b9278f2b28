//! A device whose map is partly on the drive: what lookups, cleaning and checkpoints do about it.
//!
//! ```text
//!     read       newest, then the base: a chunk that is not in memory is read without the lock
//!     clean      zone 7:  summaries say whose block each is;  of those, `live` and not written since
//!     checkpoint whole: newest over base = the next base; then zones turn out to be empty
//! ```
//!
//! With a base, the nodes of a zone are not in memory. Cleaning reads the zone's summaries, some 500
//! blocks of a zone of 256 MiB. So it looks at no more zones than it takes: it takes those with the most
//! garbage, and merges their nodes.
//!
//! Invariant
//!   A6  A checkpoint counts only if all blocks are in its list of lost ones whose nodes it had to leave
//!       out. A power cut after it would make them blank otherwise. If it does not have them, it is
//!       given up, and the next one has them. Until that counts, opening refuses the damaged base.
//!
//! Not here: the map itself (`layered`), the choice of zones without a base (`choose`).

use super::base::BaseBuilder;
use super::error::broken;
use super::format::{STRETCH_LEN, decode_summary};
use super::mapping::{MapRun, PbaRange, Piece};
use super::pool::{PoolZone, Use};
use super::state::DriverState;
use imbrex_disk::{
    Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, ReadRequest, ZoneId,
};
use std::sync::Arc;

/// How many summaries are read at once.
const SUMMARY_COUNT_MAX: usize = 256;

impl DriverState {
    /// The places of the blocks of `range`, read from the drive where they are not in memory.
    pub(super) fn pieces(&self, range: BlockRange) -> Result<Vec<Piece>, DiskError> {
        self.map.lookup_on(&**self.zones.disks.of(Activity::Catalog), range)
    }

    /// Places of blocks from the start of `range`, as far as one read of the map tells.
    pub(super) fn known_pieces(&self, range: BlockRange) -> Vec<Piece> {
        let part = self.map.first_chunk(range);
        self.pieces(part).unwrap_or_default()
    }

    /// The nodes in a zone, in the order of their places.
    ///
    /// # Errors
    /// [`DiskError`]. Where a summary cannot be read, the whole base is read instead.
    pub(super) fn runs_in(&self, zone: ZoneId) -> Result<Vec<MapRun>, DiskError> {
        let mut runs: Vec<MapRun> = self.map.newest().runs_in(zone).collect();
        let Some(slot) = self.zones.pool.get(zone).filter(|_| self.map.has_base()) else {
            return Ok(runs);
        };
        let own = match self.summarized_runs(slot)? {
            Some(own) => own,
            None => self.scanned_runs(slot)?,
        };
        if !own.is_empty() {
            runs.extend(own);
            runs.sort_unstable_by_key(|run| run.at);
        }
        Ok(runs)
    }

    /// The base's nodes in a zone by its summaries; `None` if one that is needed cannot be read.
    fn summarized_runs(&self, slot: &PoolZone) -> Result<Option<Vec<MapRun>>, DiskError> {
        let disk = self.zones.disks.of(Activity::Cleaning);
        let stretches = 0..slot.written().get().div_ceil(STRETCH_LEN);
        let is_live = |stretch: &u64| {
            let end = ((stretch + 1) * STRETCH_LEN).min(slot.len().get());
            (stretch * STRETCH_LEN..end).any(|index| self.map.is_live(slot.pba(index)))
        };
        let wanted: Vec<u64> = stretches.filter(is_live).collect();
        let mut runs: Vec<MapRun> = Vec::new();
        for batch in wanted.chunks(SUMMARY_COUNT_MAX) {
            let place = |stretch: u64| slot.summary_of(slot.pba(stretch * STRETCH_LEN));
            let mut bytes = vec![0; batch.len() * BLOCK_LEN_BYTES];
            let blocks = bytes.chunks_exact_mut(BLOCK_LEN_BYTES);
            let requests = batch.iter().zip(blocks);
            let mut requests: Vec<ReadRequest<'_>> =
                requests.map(|(&stretch, buf)| ReadRequest { at: place(stretch), buf }).collect();
            match disk.read_batch(&mut requests) {
                Ok(()) => {}
                Err(
                    DiskError::Medium { .. }
                    | DiskError::Offline { .. }
                    | DiskError::ReadAbovePointer { .. },
                ) => return Ok(None),
                Err(error) => return Err(error),
            }
            for (&stretch, block) in batch.iter().zip(bytes.chunks_exact(BLOCK_LEN_BYTES)) {
                let (id, at) = (self.superblock.id, place(stretch));
                let Some(sums) = decode_summary(id, at, slot.generation, block) else {
                    return Ok(None);
                };
                for (index, sum) in (stretch * STRETCH_LEN..).zip(sums) {
                    let (at, len) = (slot.pba(index), Blocks::new(1));
                    if !self.map.is_live(at) || self.map.covers(sum.lba) {
                        continue;
                    }
                    match runs.last_mut() {
                        Some(last) if last.range().end() == sum.lba && last.place().end() == at => {
                            last.len += len;
                        }
                        _ => runs.push(MapRun { start: sum.lba, at, len }),
                    }
                }
            }
        }
        Ok(Some(runs))
    }

    /// The base's nodes in a zone, found by reading all of it.
    fn scanned_runs(&self, slot: &PoolZone) -> Result<Vec<MapRun>, DiskError> {
        let mut runs = Vec::new();
        self.map.each_of_base(self.zones.disks.of(Activity::Catalog), &mut |run| {
            if slot.holds(run.at) {
                runs.push(run);
            }
        })?;
        Ok(runs)
    }

    /// What cleaning has moved is no longer where the base has it.
    pub(super) fn forget_moved(&mut self, pieces: &[Piece]) {
        if !self.map.has_base() {
            return;
        }
        for piece in pieces {
            let now = self.map.newest().lookup(piece.range).collect::<Vec<_>>();
            for now in now.into_iter().filter(|now| now.at.is_some()) {
                let offset = now.range.start - piece.range.start;
                if let Some(at) = piece.at.map(|at| at + offset).filter(|&at| now.at != Some(at)) {
                    self.map.forget_place(PbaRange { start: at, len: now.range.len });
                }
            }
        }
    }

    /// All of the base's blocks in a zone that cleaning has emptied are elsewhere: those that it did
    /// not move were written or unmapped since.
    pub(super) fn forget_zone(&mut self, zone: ZoneId) {
        if let Some(slot) = self.zones.pool.get(zone).filter(|_| self.map.has_base()) {
            let place = PbaRange { start: slot.pba(0), len: slot.len() };
            self.map.forget_place(place);
            self.note_displaced(&[place]);
        }
    }

    /// The checkpoint that counts now is whole, and `noted` says where its nodes are. The map is
    /// over it from now on.
    pub(super) fn adopt_base(&mut self, noted: BaseBuilder) -> Result<(), DiskError> {
        let stored = &self.superblock.checkpoint;
        let base = noted.finish(self.superblock.id, stored, self.map.cache_bytes());
        self.map.adopt(base).map_err(|error| broken(&error))?;
        self.note_empty_zones();
        Ok(())
    }

    /// The nodes of `ranges` cannot be read, from either copy of the base. What was neither written
    /// nor unmapped since is lost. Returns whether some of it was not known to be.
    pub(super) fn lose_unknown(&mut self, ranges: Vec<BlockRange>) -> bool {
        let before = self.lost.total();
        for range in ranges {
            for range in self.map.uncovered(range) {
                self.lost.insert(range);
                let held: Vec<BlockRange> = self.regions.within(range).collect();
                for range in held {
                    self.lost.remove(range);
                }
            }
        }
        before < self.lost.total()
    }

    /// Zones of which it turned out that nothing in them is valid.
    fn note_empty_zones(&mut self) {
        let slots = self.zones.pool.iter().filter(|slot| {
            matches!(slot.used, Use::Sealed | Use::Unreadable)
                && self.map.valid(slot.zone).is_zero()
        });
        let zones: Vec<ZoneId> = slots.map(|slot| slot.zone).collect();
        zones.into_iter().for_each(|zone| self.zones.pool.set(zone, Use::Emptied));
    }

    /// The disk for the map.
    pub(super) fn map_disk(&self) -> Arc<dyn Disk> {
        Arc::clone(self.zones.disks.of(Activity::Catalog))
    }
}
