//! The block device that the host uses: one lock over the driver's state.

use super::create;
use super::error::DriverError;
use super::open;
use super::options::DriverCounters;
use super::options::DriverOptions;
use super::state::{Begun, DriverState};
use super::superblocks;
use crate::error::FormatFault;
use imbrex_clockwork::Clock;
use imbrex_disk::{
    Activity, BlockRange, Blocks, Counters, Disk, DiskError, Geometry, GeometrySpec, Known, Lba,
    Pba, Persist, ReadRequest, Rule, ZoneAction, ZoneId, ZoneInfo,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often a read is tried without the lock (K8).
pub(super) const READ_ATTEMPT_COUNT: usize = 3;
/// How often the parts of the map that a read needs are read without the lock.
const LOOKUP_ATTEMPT_COUNT: usize = 3;

/// A block device; see the documentation of the parent module.
#[derive(Debug)]
pub struct BlockDriver {
    geometry: Geometry,
    /// The disk, for reads of the host.
    pub(super) disk: Arc<dyn Disk>,
    /// The disk, for flushes that the host asks for.
    log_disk: Arc<dyn Disk>,
    /// The disk, for the map.
    map_disk: Arc<dyn Disk>,
    pub(super) state: Mutex<DriverState>,
    /// K10: a request holds this while it waits for `state`. So it gets `state` between two steps of a
    /// write, before the next step.
    pub(super) turn: Mutex<()>,
    /// K11: held during a flush that no host asked for.
    pub(super) early: Mutex<()>,
    /// Whether the disk gets reads alone.
    pub(super) is_read_only: bool,
}

impl BlockDriver {
    /// Makes an empty device on `disk`, and discards its content.
    ///
    /// # Errors
    /// [`DriverError`]: the disk has no zones or too few, an option is out of range, or the disk
    /// fails.
    pub fn format(
        disk: Arc<dyn Disk>,
        options: &DriverOptions,
    ) -> Result<BlockDriver, DriverError> {
        BlockDriver::of(create::format(disk, options)?)
    }

    /// Opens the device on `disk` in whatever state a power cut left it.
    ///
    /// Cost: reads the map and the contents of the write buffer, and writes a checkpoint.
    ///
    /// # Errors
    /// [`DriverError`]: there is no device, it belongs to another version or drive, it is damaged,
    /// or the disk fails.
    pub fn open(disk: Arc<dyn Disk>, options: &DriverOptions) -> Result<BlockDriver, DriverError> {
        BlockDriver::of(open::open(disk, options)?)
    }

    /// Opens the device on `disk` to read it, in whatever state a power cut left it. Nothing is written,
    /// now or later: `disk` gets reads alone. What would change the device is refused with
    /// [`DiskError::ReadOnly`]; a flush succeeds and [`Disk::work`] finds nothing to do.
    ///
    /// Nothing may write to `disk` meanwhile. Cost: reads the map and the contents of the write buffer,
    /// which stay in memory.
    ///
    /// # Errors
    /// As [`BlockDriver::open`].
    pub fn open_read_only(
        disk: Arc<dyn Disk>,
        options: &DriverOptions,
    ) -> Result<BlockDriver, DriverError> {
        let driver = BlockDriver::of(open::open_read_only(disk, options)?)?;
        Ok(BlockDriver { is_read_only: true, ..driver })
    }

    /// Whether `disk` holds a device, judged by the superblocks that can be read. The device may be
    /// of another version, or damaged.
    pub fn is_on(disk: &dyn Disk) -> bool {
        matches!(disk.geometry().rule(), Rule::AtPointer(_)) && superblocks::are_on(disk)
    }

    /// Makes a device whose checkpoint has `nodes` without data, to measure the cost of opening it.
    /// The device must not be written.
    ///
    /// # Errors
    /// As [`BlockDriver::format`]; also nodes that a map refuses.
    #[cfg(feature = "micro-bench")]
    pub fn format_with_map(
        disk: Arc<dyn Disk>,
        options: &DriverOptions,
        nodes: impl IntoIterator<Item = super::mapping::MapRun>,
    ) -> Result<(), DriverError> {
        let mut state = create::format(disk, options)?;
        let map = super::mapping::Mapping::from_sorted(state.map.spec(), nodes)
            .map_err(super::error::damaged("map"))?;
        state.map = super::layered::LayeredMap::new(map, options.map_memory_bytes);
        state.base_now().map_err(super::error::during("writing the checkpoint"))
    }

    /// Writes a checkpoint in steps, as the driver does while it serves the host, and calls
    /// `between` after each step. A benchmark measures with it how long the host waits.
    ///
    /// # Errors
    /// As [`Disk::flush`].
    #[cfg(feature = "micro-bench")]
    pub fn checkpoint_in_steps(&self, mut between: impl FnMut()) -> Result<(), DiskError> {
        self.change(|state| state.begin_checkpoint())?;
        between();
        while self.state().writing.is_some() {
            self.change(DriverState::checkpoint_step)?;
            between();
        }
        Ok(())
    }

    /// As [`Disk::write`]. Calls `between` after each step, without the lock: in virtual time, the
    /// requests that wait for the lock are served there.
    ///
    /// # Errors
    /// As [`Disk::write`].
    pub fn write_in_steps(
        &self,
        at: Lba,
        data: &[u8],
        persist: Persist,
        between: &mut dyn FnMut(),
    ) -> Result<(), DiskError> {
        self.geometry.request(at, data.len())?;
        // K10: room for the write itself.
        let len = Blocks::holding(data.len() as u64);
        let write = |state: &mut DriverState| match state.room_ahead_step(len)? {
            true => Ok(None),
            false => Ok(Some((state.write(at, data)?, state.is_flush_due()))),
        };
        let (mut pace, is_flush_due) = loop {
            match self.change(write)? {
                Some(taken) => break taken,
                None => between(),
            }
        };
        self.flush_early(is_flush_due)?;
        between();
        // K10: each step takes the lock anew.
        loop {
            let (has_more, is_flush_due) =
                self.change(|state| Ok((state.pace_step(&mut pace)?, state.is_flush_due())))?;
            self.flush_early(is_flush_due)?;
            if !has_more {
                break;
            }
            between();
        }
        if persist == Persist::Through { self.flush() } else { Ok(()) }
    }

    fn of(state: DriverState) -> Result<BlockDriver, DriverError> {
        let len = state.superblock.len;
        let geometry = Geometry::new(GeometrySpec { len, rule: Rule::Anywhere });
        let geometry =
            geometry.map_err(|error| FormatFault::damaged("superblock", error.to_string()))?;
        let disk = Arc::clone(state.zones.disks.of(Activity::User));
        let log_disk = Arc::clone(&state.disk);
        let map_disk = state.map_disk();
        Ok(BlockDriver {
            geometry,
            disk,
            log_disk,
            map_disk,
            state: Mutex::new(state),
            turn: Mutex::new(()),
            early: Mutex::new(()),
            is_read_only: false,
        })
    }

    /// Measures with `clock` how long the drive takes, and keeps reads of the host from waiting long (K10,
    /// K11). Without a clock the lengths of steps are fixed, and the drive's cache is left to the drive.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> BlockDriver {
        self.state().steps.set_clock(clock);
        self
    }

    /// Sets the capacity of the write buffer. Later writes and [`Disk::work`] evict the excess.
    pub fn set_buffer_len(&self, len: Blocks) {
        let mut state = self.state();
        state.buffer.set_capacity(len.max(Blocks::new(1)));
        state.shed_kept();
    }

    /// Writes a checkpoint, so that the next opening has little to replay. The checkpoint is
    /// durable on return.
    ///
    /// # Errors
    /// As [`Disk::flush`].
    pub fn checkpoint(&self) -> Result<(), DiskError> {
        self.flush()?;
        self.change(DriverState::checkpoint_now)
    }

    /// What the device did since it was opened.
    pub fn driver_counters(&self) -> DriverCounters {
        let state = self.state();
        DriverCounters {
            mapping_nodes: state.map.node_count(),
            mapping_nodes_on_drive: state.map.base_node_count(),
            mapping_bytes: state.map.memory_bytes(),
            buffered_blocks: state.regions.total().get(),
            clean_blocks: state.streams.kept.total().get(),
            buffer_bytes: state.buffer.memory_bytes()
                + state.regions.memory_bytes()
                + state.pending.memory_bytes()
                + state.streams.memory_bytes()
                + state.copies.memory_bytes()
                + state.journal.memory_bytes()
                + state.zones.summaries.memory_bytes(),
            lost_blocks: state.lost.total().get(),
            free_zones: state.zones.pool.free() as u64,
            ..state.counters
        }
    }

    /// Returns the blocks that left memory for data zones since the last call, in order: evictions,
    /// in pieces of at most 4 MiB, and writes that bypassed the write buffer, cut only at the ends
    /// of zones. Empty unless [`DriverOptions::lists_evictions`].
    pub fn take_evictions(&self) -> Vec<BlockRange> {
        std::mem::take(&mut self.state().evictions)
    }

    /// K11: empties the drive's cache before it holds much. One request does it; the others would wait
    /// for its flush, and take that time for the time of their own.
    fn flush_early(&self, is_due: bool) -> Result<(), DiskError> {
        if !is_due {
            return Ok(());
        }
        let Ok(_flushing) = self.early.try_lock() else { return Ok(()) };
        if !self.state().is_flush_due() {
            return Ok(());
        }
        let from_ns = self.state().steps.now_ns();
        self.flush_drive()?;
        self.state().steps.note_flush(from_ns);
        Ok(())
    }

    /// K9: without the lock, so that others are served meanwhile.
    fn flush_drive(&self) -> Result<(), DiskError> {
        self.log_disk.flush().inspect_err(|_| self.state().is_poisoned = true)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, DriverState> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state. After an error it is unknown what is durable, so the state is poisoned.
    /// Everything that writes to the disk goes through here.
    pub(super) fn change<T>(
        &self,
        what: impl FnOnce(&mut DriverState) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        if self.is_read_only {
            return Err(DiskError::ReadOnly);
        }
        let mut state = self.state();
        if state.is_poisoned {
            return Err(DiskError::Poisoned);
        }
        // A panic in `what` leaves the state poisoned as well.
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
        let mut attempts = 0;
        let mut lookups = 0;
        while attempts < READ_ATTEMPT_COUNT && lookups < LOOKUP_ATTEMPT_COUNT {
            let begun = self.state().begin_read(requests)?;
            let reading = match begun {
                Begun::Reading(reading) => reading,
                Begun::Missing(chunks) => {
                    lookups += 1;
                    let found = chunks.fetch(&*self.map_disk);
                    self.state().map.keep(found)?;
                    continue;
                }
            };
            attempts += 1;
            let fetched = reading.fetch(&*self.disk);
            match self.state().end_read(fetched) {
                // The data may have moved to another zone meanwhile.
                None | Some(Err(DiskError::Offline { .. })) => {}
                Some(outcome) => return outcome,
            }
        }
        // Zones are begun anew faster than the drive reads, or the map's cache is too small for the
        // request. The last attempt keeps the lock.
        let mut state = self.state();
        let fetched = state.begin_read_here(requests)?.fetch(&*self.disk);
        state.end_read(fetched).expect("K8: the lock is held")
    }

    fn write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.write_in_steps(at, data, persist, &mut || {})
    }

    fn flush(&self) -> Result<(), DiskError> {
        if self.is_read_only {
            return Ok(());
        }
        // K10: room for what is held of streams.
        let begin = |state: &mut DriverState| match state.room_for_streams_step()? {
            true => Ok(None),
            false => state.begin_flush().map(Some),
        };
        let seq = loop {
            if let Some(seq) = self.change(begin)? {
                break seq;
            }
        };
        self.flush_drive()?;
        self.change(|state| state.end_flush(seq))
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
        if self.is_read_only {
            return Ok(false);
        }
        let (has_more, is_flush_due) =
            self.change(|state| Ok((state.work_step()? > 0, state.is_flush_due())))?;
        self.flush_early(is_flush_due)?;
        Ok(has_more)
    }

    /// Nothing is written: an unmapped block reads as zeros.
    fn zeroes_are_cheap(&self) -> bool {
        true
    }

    fn known(&self, range: BlockRange) -> (Known, Blocks) {
        let state = self.state();
        state.newest().known(range, &mut |range| state.known_pieces(range))
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

    fn head(&self) -> Option<Pba> {
        self.state().disk.head()
    }
}
