//! A block device that is written anywhere, over a host-managed zoned drive.
//!
//! ```text
//!     write ---> write buffer ---- evict ----> data zones ---- clean ----> data zones
//!                regions, buffer               mapping        choose
//!                    |  group                     |
//!                    +--------> journal zones <---+ records of what moved where
//!                                    |
//!                                    +---- superseded by ----> checkpoint: mapping, buffer's copies
//! ```
//!
//! The host's writes gather in memory until contiguous regions grow, and long and old ones are evicted
//! first: so the map from [`Lba`] to [`Pba`](imbrex_disk::Pba) stays short, and it
//! has one node for each run. Cleaning picks the zones whose valid data merge the most nodes.
//!
//! A write is durable after a flush, as on any disk with a cache: a flush writes to the journal what is
//! not yet there, and flushes the drive. The paper leaves out how the map survives a power cut; here
//! the journal tells of evictions and moves too, and a checkpoint of the map frees its zones.
//!
//! Invariants
//!   K1  What was flushed is in the journal, or in a data zone of which the journal or a checkpoint tells.
//!   K2  A journal zone is reset only when no data in it are active and a durable checkpoint is
//!       younger than its last entry.
//!   K3  A data zone is reset only when nothing valid is in it and a durable record or checkpoint says so.
//!   K4  A checkpoint counts from its superblock on, which is written when all it speaks of is durable.
//!   K5  The host never gets the last free zones: cleaning, checkpoints and a full journal have them. They are blank:
//!       what is still to be reset may turn out to be given up. A full journal cleans until there are enough of them
//!       for the next time.
//!   K6  What is read is what was written, or an error: all that is stored has checksums, the host's data in
//!       `summaries` and `journal`.
//!   K7  Opening needs no one block: superblocks, checkpoints and headers of the journal are there twice. What an older
//!       superblock tells of is changed when the newer one is there twice, not before.
//!   K8  A read of the host waits for the drive without the lock. It looks at the map under the lock, and under the lock
//!       again at the generations of the zones that it read: if none was begun anew in between, what it read is what
//!       its blocks were when it looked, since a block of a zone is written once. Else it is done again, the last time
//!       under the lock.
//!
//! Work is done in steps of 4 MiB, as many as the host's writes ask for ([`Disk::work`] does more when
//! nobody asks for anything).
//!
//! Source: "On the Design of SMR HDD Block Device Driver" (Hao and others). Ours is all that makes it
//! survive power cuts.

mod broken;
mod buffer;
mod check;
mod checkpoint;
mod choose;
mod clean;
mod create;
mod error;
mod format;
mod journal;
mod mapping;
mod open;
mod options;
mod pool;
mod read_only;
mod regions;
mod state;
mod summaries;
mod superblocks;
#[cfg(test)]
mod tests;

pub use check::{DeviceZone, DeviceZoneUse, DriverCheck};
pub use choose::{Cleaning, CleaningOrder, ZoneContent, ZoneFill, candidates, choose};
pub use create::{POOL_ZONE_COUNT_MIN, SPARE_ZONE_COUNT_MIN, spare_zone_count};
pub use error::DriverError;
pub use mapping::{
    MapRun, MapSpec, Mapping, MappingError, PbaRange, Piece, SectorRange, TableMapping, TableWrite,
};
pub use options::{DriverCounters, DriverOptions};
pub use pool::data_len as zone_data_len;
pub use regions::{EvictionOrder, Regions};

use imbrex_disk::{
    BlockRange, Blocks, Counters, Disk, DiskError, Geometry, GeometrySpec, Known, Lba, Persist,
    ReadRequest, Rule, ZoneAction, ZoneId, ZoneInfo,
};
use state::State;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often a read is tried without the lock.
const READ_ATTEMPT_COUNT: usize = 3;

/// A block device; see the module.
#[derive(Debug)]
pub struct BlockDriver {
    geometry: Geometry,
    disk: Arc<dyn Disk>,
    state: Mutex<State>,
}

impl BlockDriver {
    /// Makes an empty device on `disk`; what was there is lost.
    ///
    /// # Errors
    /// [`DriverError`]: a disk without zones or with too few, an impossible option, a failing disk.
    pub fn format(
        disk: Arc<dyn Disk>,
        options: &DriverOptions,
    ) -> Result<BlockDriver, DriverError> {
        BlockDriver::of(create::format(disk, options)?)
    }

    /// Opens the device on `disk`, whatever a power cut left.
    ///
    /// Cost: the map and what the write buffer held are read, and a checkpoint is written.
    ///
    /// # Errors
    /// [`DriverError`]: no device, one of another version or drive, a damaged one, a failing disk.
    pub fn open(disk: Arc<dyn Disk>, options: &DriverOptions) -> Result<BlockDriver, DriverError> {
        BlockDriver::of(open::open(disk, options)?)
    }

    /// Whether a device was made on `disk`, as far as its superblocks can be read; it may be of another version, or
    /// damaged.
    pub fn is_on(disk: &dyn Disk) -> bool {
        matches!(disk.geometry().rule(), Rule::AtPointer(_)) && superblocks::are_on(disk)
    }

    /// Makes a device whose checkpoint has `nodes`, none of which holds data: for measuring what opening
    /// one costs. It must not be written.
    ///
    /// # Errors
    /// As [`BlockDriver::format`], and nodes that no map takes.
    #[cfg(feature = "micro-bench")]
    pub fn format_with_map(
        disk: Arc<dyn Disk>,
        options: &DriverOptions,
        nodes: impl IntoIterator<Item = MapRun>,
    ) -> Result<(), DriverError> {
        let mut state = create::format(disk, options)?;
        state.map = Mapping::from_sorted(state.map.spec(), nodes).map_err(error::damaged("map"))?;
        state.checkpoint_now().map_err(error::during("writing the checkpoint"))
    }

    /// Writes a checkpoint as the driver does beside its host, and calls `between` where the host would go on: for
    /// measuring how long it waits.
    ///
    /// # Errors
    /// As [`Disk::flush`].
    #[cfg(feature = "micro-bench")]
    pub fn checkpoint_in_steps(&self, mut between: impl FnMut()) -> Result<(), DiskError> {
        self.change(|state| {
            state.begin_checkpoint();
            Ok(())
        })?;
        between();
        while self.state().writing.is_some() {
            self.change(State::checkpoint_step)?;
            between();
        }
        Ok(())
    }

    fn of(state: State) -> Result<BlockDriver, DriverError> {
        let len = state.superblock.len;
        let geometry = Geometry::new(GeometrySpec { len, rule: Rule::Anywhere });
        let geometry = geometry.map_err(|error| DriverError::Damaged {
            structure: "superblock",
            detail: error.to_string(),
        })?;
        Ok(BlockDriver { geometry, disk: Arc::clone(&state.disk), state: Mutex::new(state) })
    }

    /// Sets how much the write buffer may hold from now on; what is too much is evicted as the host
    /// writes on, or by [`Disk::work`].
    pub fn set_buffer_len(&self, len: Blocks) {
        self.state().buffer.set_capacity(len.max(Blocks::new(1)));
    }

    /// Writes a checkpoint, so that opening has little to replay; durable on return.
    ///
    /// # Errors
    /// As [`Disk::flush`].
    pub fn checkpoint(&self) -> Result<(), DiskError> {
        self.change(|state| {
            state.flush()?;
            state.checkpoint_now()
        })
    }

    /// What it did since it was opened.
    pub fn driver_counters(&self) -> DriverCounters {
        let state = self.state();
        DriverCounters {
            mapping_nodes: state.map.node_count() as u64,
            mapping_bytes: state.map.memory_bytes(),
            buffered_blocks: state.buffer.len().get(),
            buffer_bytes: state.buffer.memory_bytes()
                + state.regions.memory_bytes()
                + state.pending.memory_bytes()
                + state.copies.memory_bytes()
                + state.journal.memory_bytes()
                + state.summaries.memory_bytes(),
            lost_blocks: state.lost.total().get(),
            free_zones: state.pool.free() as u64,
            ..state.counters
        }
    }

    /// What was evicted, in pieces of at most 4 MiB, or went past the write buffer, as it was written but for the ends of
    /// zones, since the last call: in order. Empty unless [`DriverOptions::lists_evictions`].
    pub fn take_evictions(&self) -> Vec<BlockRange> {
        std::mem::take(&mut self.state().evictions)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state; after an error nobody knows what is durable.
    fn change<T>(
        &self,
        what: impl FnOnce(&mut State) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        let mut state = self.state();
        if state.is_poisoned {
            return Err(DiskError::Poisoned);
        }
        // A panic on the way leaves it poisoned too.
        state.is_poisoned = true;
        let outcome = what(&mut state);
        state.is_poisoned = outcome.is_err();
        outcome
    }
}

impl Disk for BlockDriver {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.read_batch(&mut [ReadRequest { at, buf }])
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        for request in requests.iter() {
            self.geometry.request(request.at, request.buf.len())?;
        }
        for _ in 0..READ_ATTEMPT_COUNT {
            let reading = self.state().begin_read(requests)?;
            let fetched = reading.fetch(&*self.disk);
            match self.state().end_read(fetched) {
                // It may lie elsewhere by now.
                None | Some(Err(DiskError::Offline { .. })) => {}
                Some(outcome) => return outcome,
            }
        }
        // Zones change faster than the drive reads: then they wait.
        let mut state = self.state();
        let fetched = state.begin_read(requests)?.fetch(&*self.disk);
        state.end_read(fetched).expect("K8: nobody else has the state")
    }

    fn write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.geometry.request(at, data.len())?;
        self.change(|state| {
            state.write(at, data)?;
            if persist == Persist::Through { state.flush() } else { Ok(()) }
        })
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.change(State::flush)
    }

    fn discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.geometry.check(range)?;
        if range.len.is_zero() {
            return Ok(());
        }
        self.change(|state| state.trim(range))
    }

    fn write_zeroes(&self, range: BlockRange, persist: Persist) -> Result<(), DiskError> {
        self.discard(range)?;
        if persist == Persist::Through { self.flush() } else { Ok(()) }
    }

    fn work(&self) -> Result<bool, DiskError> {
        self.change(|state| state.work_step().map(|done| done > 0))
    }

    /// Nothing is written for them: what is not mapped reads as zeros.
    fn zeroes_are_cheap(&self) -> bool {
        true
    }

    fn known(&self, range: BlockRange) -> (Known, Blocks) {
        self.state().known(range)
    }

    fn zone(&self, _zone: ZoneId) -> Option<ZoneInfo> {
        None
    }

    fn manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        Err(DiskError::NoSuchZone { zone, action, reason: "the disk has no zones".to_owned() })
    }

    fn counters(&self) -> Counters {
        let state = self.state();
        let mut counters = state.disk.counters();
        let own = &state.counters;
        let added =
            own.journal_blocks + own.checkpoint_blocks + own.summary_blocks + own.moved_blocks;
        counters.added_written_bytes += Blocks::new(added).bytes();
        counters.added_read_bytes += Blocks::new(own.moved_blocks).bytes();
        counters
    }
}
