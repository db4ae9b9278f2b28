//! [`SimDisk`]: rule, mechanics, backing and faults behind the trait `Disk`.
//!
//! ```text
//!                    gate (power, poison)
//!                       |
//!        plain? --------+-------- ordered?
//!          |                        | the desk's lock: one request at a time
//!        rule                     rule, faults
//!        backing                  cache, backing
//!        counters                 mechanics, event log, counters
//! ```
//!
//! A disk is *plain* while nothing requires an order between requests: it has no mechanics, no
//! write cache and no event log, and no fault was ever set. On a plain disk reads run in parallel
//! without a lock, and a write waits only for writes to the same zone.

mod ordered;

use crate::backing::ImageInfo;
use crate::backing::{Backing, Durable, OverlappingBacking};
use crate::build_error::BuildError;
use crate::cache::PowerCycle;
use crate::cache::{Sectors, WriteCache};
use crate::event_log::{Event, EventHash, EventLog};
use crate::fault::{FaultPlan, FaultState};
use crate::mechanics::Mechanics;
use crate::rule::{Mark, RuleState};
use imbrex_clockwork::{Clock, Prng};
use imbrex_disk::{
    Activity, ActivityHandle, BLOCK_LEN_BYTES, BlockRange, Blocks, Counters, CountsActivities,
    Disk, DiskError, Geometry, Known, Lba, Pba, Persist, ReadRequest, Readable, Rule, Tally,
    ZoneAction, ZoneId, ZoneInfo, ZoneMark, ZoneRecord,
};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a drive gives up a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneFailure {
    /// Readable, never writable again.
    ReadOnly,
    /// Neither readable nor writable.
    Offline,
}

const HEALTH_GOOD: u8 = 0;
const HEALTH_POISONED: u8 = 1;
const HEALTH_NO_POWER: u8 = 2;

/// A simulated disk; see the crate's documentation for its parts.
#[derive(Debug)]
pub struct SimDisk {
    geometry: Geometry,
    clock: Arc<dyn Clock>,
    rule: RuleState,
    backing: Box<dyn Backing>,
    tally: Tally,
    health: AtomicU8,
    ordered: AtomicBool,
    refuse_destroying: bool,
    is_read_only: bool,
    desk: Mutex<Desk>,
}

/// The state that requires an order between requests.
#[derive(Debug)]
struct Desk {
    cache: WriteCache,
    faults: FaultState,
    mechanics: Option<Mechanics>,
    log: EventLog,
    /// Decides at the power cut itself which unflushed writes are on the platter. Without it the
    /// next power cycle decides.
    at_cut: Option<Prng>,
}

/// The parts of a disk.
pub(crate) struct Parts {
    pub(crate) geometry: Geometry,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) write_cache: Blocks,
    pub(crate) sectors: Sectors,
    pub(crate) mechanics: Option<Mechanics>,
    pub(crate) event_log: bool,
    pub(crate) refuse_destroying: bool,
    pub(crate) is_read_only: bool,
    pub(crate) backing: Box<dyn Backing>,
}

impl SimDisk {
    pub(crate) fn from_parts(parts: Parts) -> Result<SimDisk, BuildError> {
        // A refusal inspects the platter before it writes, and no other request may run in between.
        let is_ordered = parts.event_log
            || !parts.write_cache.is_zero()
            || parts.mechanics.is_some()
            || parts.refuse_destroying;
        let rule = RuleState::new(&parts.geometry)?;
        let backing: Box<dyn Backing> = match rule.tracks() {
            None => parts.backing,
            Some(table) => Box::new(
                OverlappingBacking::new(parts.backing, Arc::clone(table))
                    .map_err(BuildError::Tracks)?,
            ),
        };
        let disk = SimDisk {
            rule,
            geometry: parts.geometry,
            clock: parts.clock,
            backing,
            tally: Tally::default(),
            health: AtomicU8::new(HEALTH_GOOD),
            ordered: AtomicBool::new(is_ordered),
            refuse_destroying: parts.refuse_destroying,
            is_read_only: parts.is_read_only,
            desk: Mutex::new(Desk {
                cache: WriteCache::new(parts.write_cache, parts.geometry, parts.sectors),
                faults: FaultState::default(),
                mechanics: parts.mechanics,
                log: EventLog::new(parts.event_log),
                at_cut: None,
            }),
        };
        disk.load_zones().map_err(BuildError::Zones)?;
        Ok(disk)
    }

    /// Sets the faults to inject from now on. They replace those set before.
    pub fn set_faults(&self, plan: FaultPlan) {
        self.ordered.store(true, Ordering::Release);
        self.desk().faults.set_plan(plan);
    }

    /// Device events (writes, flushes, resets, finishes) since the faults were last set. A plain
    /// disk, on which no faults were ever set, counts none. A run with an empty plan counts the
    /// moments at which the power can fail.
    pub fn fault_event_count(&self) -> u64 {
        self.desk().faults.event_count()
    }

    /// Reads, writes and flushes that the faults have failed since they were last set.
    pub fn fault_hit_count(&self) -> u64 {
        self.desk().faults.hit_count()
    }

    /// Makes `range` unreadable on the platter until it is written again.
    pub fn damage(&self, range: BlockRange) {
        self.ordered.store(true, Ordering::Release);
        let mut desk = self.desk();
        desk.heal_stored();
        desk.faults.damage(range);
    }

    /// Flips one stored bit of block `at`, without any sign of it. Bits count from the lowest bit
    /// of the first byte.
    ///
    /// # Errors
    /// [`DiskError::OutOfRange`]; [`DiskError::Host`].
    pub fn flip_bit(&self, at: Lba, bit: u32) -> Result<(), DiskError> {
        let range = BlockRange::new(at, Blocks::new(1));
        self.geometry.check(range)?;
        let mut desk = self.desk();
        desk.cache.destage_touching(range, self.sequential_zone(at), &*self.backing)?;
        let mut block = vec![0; BLOCK_LEN_BYTES];
        self.backing.read(at, &mut block)?;
        let bit = bit as usize % (8 * BLOCK_LEN_BYTES);
        block[bit / 8] ^= 1 << (bit % 8);
        self.backing.overwrite_unnoticed(at, &block)
    }

    /// Gives up a zone, as a failing drive does.
    ///
    /// # Errors
    /// [`DiskError::NoSuchZone`]; [`DiskError::Host`].
    pub fn fail_zone(&self, zone: ZoneId, failure: ZoneFailure) -> Result<(), DiskError> {
        let (Some(table), Some(_)) = (self.rule.zones(), self.zone(zone)) else {
            return Err(self.no_such_zone(zone, ZoneAction::Close));
        };
        let mut desk = self.desk();
        desk.cache.destage_all(&*self.backing)?;
        let _turn = table.turnstile(zone);
        table.give_up(
            zone,
            match failure {
                ZoneFailure::ReadOnly => ZoneMark::ReadOnly,
                ZoneFailure::Offline => ZoneMark::Offline,
            },
        );
        self.backing.set_zone(zone, table.record(zone), Durable::Now)
    }

    /// Cuts the power now. Every request fails until [`SimDisk::power_cycle`].
    pub fn cut_power(&self) {
        self.ordered.store(true, Ordering::Release);
        let mut desk = self.desk();
        self.health.store(HEALTH_NO_POWER, Ordering::Release);
        desk.log.event(Event::PowerCut, 0, 0, self.clock.now_ns());
    }

    /// Cuts the power for good after `event_count` device events have completed, while the next one
    /// is under way. `prng` decides at that moment which unflushed writes are on the platter. A
    /// process that opens the image afterwards finds a drive after a power cut.
    ///
    /// Replaces the faults that were set before. For tests of a process that knows nothing of the
    /// fault.
    pub fn lose_power_after(&self, event_count: u64, prng: Prng) {
        self.ordered.store(true, Ordering::Release);
        let mut desk = self.desk();
        let power_cut_after = Some(event_count);
        desk.faults.set_plan(FaultPlan { power_cut_after, ..FaultPlan::default() });
        desk.at_cut = Some(prng);
    }

    /// Cuts the power if it is on, decides which unflushed writes survive, and turns the power on
    /// again. All faults end except latent sector errors, and open zones are closed. What the host
    /// has lost stays lost: after a failed sync an image must be opened again.
    ///
    /// # Errors
    /// [`DiskError::Host`]: the host's own storage failed; the power stays off.
    pub fn power_cycle(&self, prng: &mut Prng) -> Result<PowerCycle, DiskError> {
        let mut desk = self.desk();
        self.health.store(HEALTH_NO_POWER, Ordering::Release);
        let outcome = desk.settle_cut(&*self.backing, prng)?;
        self.load_zones()?;
        desk.faults.set_plan(FaultPlan::default());
        if let Some(mechanics) = &mut desk.mechanics {
            mechanics.power_cut();
        }
        let (survived, lost) = (outcome.survived.get(), outcome.lost.get());
        desk.log.event(Event::PowerOn, survived, lost, self.clock.now_ns());
        self.health.store(HEALTH_GOOD, Ordering::Release);
        Ok(outcome)
    }

    /// A hash of every stored block, every zone's durable state, every mark of an overlapping track and
    /// the unflushed writes.
    ///
    /// # Errors
    /// [`DiskError::Host`].
    pub fn image_hash(&self) -> Result<u64, DiskError> {
        let desk = self.desk();
        let mut hash = EventHash::new();
        self.backing.for_each_block(&mut |at, block| {
            hash.words(&[at.get(), u64::from(crc32c::crc32c(block))]);
        })?;
        if let Some(table) = self.rule.zones() {
            for zone in 0..self.geometry.zone_count() {
                let record = table.record(ZoneId(zone));
                hash.words(&[record.mark as u64, record.written.get()]);
            }
        }
        self.backing.for_each_mark(&mut |range, mark| {
            hash.words(&[mark as u64, range.start.get(), range.len.get()]);
        })?;
        for (at, data) in desk.cache.pending_blocks() {
            hash.words(&[at.get(), u64::from(crc32c::crc32c(data))]);
        }
        Ok(hash.get())
    }

    /// The running hash over all requests, the data written and the times of service. `None` if the
    /// disk keeps none (see [`SimDiskBuilder::event_log`]).
    ///
    /// [`SimDiskBuilder::event_log`]: crate::SimDiskBuilder::event_log
    pub fn event_log_hash(&self) -> Option<u64> {
        self.desk().log.get()
    }

    /// The disk's image as its header describes it. `None` for a disk in memory.
    pub fn image(&self) -> Option<&ImageInfo> {
        self.backing.image()
    }

    /// How much of the host's memory or storage the blocks take.
    ///
    /// # Errors
    /// [`DiskError::Host`].
    pub fn stored_bytes(&self) -> Result<u64, DiskError> {
        self.backing.stored_bytes()
    }

    fn load_zones(&self) -> Result<(), DiskError> {
        let Some(table) = self.rule.zones() else { return Ok(()) };
        let mut failed = None;
        table.load(|zone| {
            self.backing.zone(zone).unwrap_or_else(|error| {
                failed.get_or_insert(error);
                ZoneRecord::EMPTY
            })
        });
        failed.map_or(Ok(()), Err)
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::Acquire)
    }

    fn gate_read(&self) -> Result<(), DiskError> {
        match self.health.load(Ordering::Acquire) {
            HEALTH_NO_POWER => Err(DiskError::PowerLost),
            _ => Ok(()),
        }
    }

    fn gate_write(&self) -> Result<(), DiskError> {
        if self.is_read_only {
            return Err(DiskError::ReadOnly);
        }
        match self.health.load(Ordering::Acquire) {
            HEALTH_NO_POWER => Err(DiskError::PowerLost),
            HEALTH_POISONED => Err(DiskError::Poisoned),
            _ if self.backing.has_lost() => Err(DiskError::Poisoned),
            _ => Ok(()),
        }
    }

    fn sequential_zone(&self, at: Lba) -> Option<ZoneId> {
        let zone = self.geometry.zone_of(at)?;
        let is_conventional = self.rule.zones().is_none_or(|table| table.is_conventional(zone));
        (!is_conventional).then_some(zone)
    }

    fn no_such_zone(&self, zone: ZoneId, action: ZoneAction) -> DiskError {
        let reason = match self.geometry.zone_count() {
            0 => "the disk has no zones".to_owned(),
            count => format!("the disk has {count} zones"),
        };
        DiskError::NoSuchZone { zone, action, reason }
    }

    /// Reads `range` of a plain disk.
    fn read_plain(
        &self,
        activity: Activity,
        range: BlockRange,
        buf: &mut [u8],
    ) -> Result<(), DiskError> {
        let readable = self.rule.check_read(range)?;
        self.read_stored(range, readable, buf)?;
        self.tally.read(activity, buf.len());
        Ok(())
    }

    /// Reads stored data. Blocks above a write pointer read as zeros.
    fn read_stored(
        &self,
        range: BlockRange,
        readable: Readable,
        buf: &mut [u8],
    ) -> Result<(), DiskError> {
        match (readable, self.rule.zones()) {
            (Readable::InPart, Some(table)) => {
                table.read_written(range, buf, |at, buf| self.backing.read(at, buf))
            }
            _ => self.backing.read(range.start, buf),
        }
    }

    /// Stores blocks and moves the pointer of their zone.
    fn write_stored(
        &self,
        range: BlockRange,
        zone: Option<ZoneId>,
        data: &[u8],
        durable: Durable,
    ) -> Result<(), DiskError> {
        self.backing.write(range.start, data, durable)?;
        self.move_pointer(range, zone, durable)
    }

    fn move_pointer(
        &self,
        range: BlockRange,
        zone: Option<ZoneId>,
        durable: Durable,
    ) -> Result<(), DiskError> {
        let (Some(zone), Some(table)) = (zone, self.rule.zones()) else { return Ok(()) };
        let (start, capacity) = self.zone_bounds(zone);
        let record = ZoneRecord::at_pointer(range.end() - start, capacity);
        self.backing.set_zone(zone, record, durable)?;
        table.commit_write(zone, range.end());
        Ok(())
    }

    fn zone_bounds(&self, zone: ZoneId) -> (Lba, Blocks) {
        let range = self.geometry.zone_range(zone).expect("the rule named a zone of this disk");
        let capacity = self.geometry.zone_capacity(zone).expect("as above");
        (range.start, capacity)
    }

    /// If the host asked for it, refuses a write that would destroy data that the host may still
    /// read, on the platter or in the cache.
    fn check_destroys_nothing(&self, write: BlockRange, desk: &Desk) -> Result<(), DiskError> {
        let (true, Some(table)) = (self.refuse_destroying, self.rule.tracks()) else {
            return Ok(());
        };
        let tracks = table.read();
        for part in table.parts(write) {
            // Blocks that the same write wrote before this part are destroyed like any others.
            let own = BlockRange::new(write.start, part.start - write.start);
            for reach in table.reach(part) {
                let is_readable = |run: &BlockRange| !desk.faults.is_unreadable(*run);
                let on_platter = tracks.marked(reach, Mark::Valid).into_iter().find(is_readable);
                let in_cache = || desk.cache.first_held(reach);
                let in_write = || own.overlaps(reach).then_some(own);
                if let Some(valid) = on_platter.or_else(in_cache).or_else(in_write) {
                    return Err(DiskError::WouldDestroy { write, valid });
                }
            }
        }
        Ok(())
    }

    fn poison(&self, error: DiskError) -> DiskError {
        self.health.store(HEALTH_POISONED, Ordering::Release);
        error
    }

    fn reset_zone(&self, zone: ZoneId) -> Result<(), DiskError> {
        let range = self.geometry.zone_range(zone).expect("checked by the rule");
        // The pointer first: a crash in between leaves stale bytes above the pointer, where no
        // reader sees them.
        self.backing.set_zone(zone, ZoneRecord::EMPTY, Durable::Now)?;
        self.backing.zero(range)?;
        self.tally.reset();
        Ok(())
    }

    /// The parts of `range` that a discard frees. Only a reset frees a sequential zone, and its
    /// cached writes keep their order (W2).
    fn discardable(&self, range: BlockRange) -> Vec<BlockRange> {
        let Some(table) = self.rule.zones() else { return vec![range] };
        let parts = table.parts(range).filter(|&(zone, _)| table.is_conventional(zone));
        parts.map(|(_, part)| part).collect()
    }
}

impl Disk for SimDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.gate_read()?;
        let range = self.geometry.request(at, buf.len())?;
        if self.is_ordered() {
            return self.read_ordered(Activity::Other, &mut [ReadRequest { at, buf }]);
        }
        self.read_plain(Activity::Other, range, buf)
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.read_batch_as(Activity::Other, requests)
    }

    fn write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.write_as(Activity::Other, at, data, persist)
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.flush_as(Activity::Other)
    }

    fn discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.gate_write()?;
        self.geometry.check(range)?;
        if range.len.is_zero() {
            return Ok(());
        }
        if self.is_ordered() {
            return self.discard_ordered(range);
        }
        self.discardable(range).into_iter().try_for_each(|part| self.backing.zero(part))
    }

    fn known(&self, range: BlockRange) -> (Known, Blocks) {
        if *self.geometry.rule() != Rule::Anywhere {
            return (Known::Nothing, range.len);
        }
        let mut range = range;
        if self.is_ordered()
            && let Some(held) = self.desk().cache.first_held(range)
        {
            // The backing does not know what the write cache holds.
            if held.start <= range.start {
                return (Known::Nothing, held.end().min(range.end()) - range.start);
            }
            range.len = held.start - range.start;
        }
        match self.backing.stored(range) {
            (true, len) => (Known::Nothing, len),
            (false, len) => (Known::Unwritten, len),
        }
    }

    fn zone(&self, zone: ZoneId) -> Option<ZoneInfo> {
        self.rule.zones()?.info(zone)
    }

    fn manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        self.manage_zone_as(Activity::Other, zone, action)
    }

    fn counters(&self) -> Counters {
        let mut counters = self.tally.counters();
        if let Some(table) = self.rule.tracks() {
            counters.destroyed_bytes = table.read().destroyed().bytes();
        }
        let desk = self.is_ordered().then(|| self.desk());
        if let Some(mechanics) = desk.as_ref().and_then(|desk| desk.mechanics.as_ref()) {
            counters.seeks = mechanics.seek_count();
            for (activity, times) in mechanics.times().iter() {
                counters.busy_ns += times.busy_ns;
                counters.seek_ns += times.seek_ns;
                counters.turn_ns += times.turn_ns;
                counters.transfer_ns += times.transfer_ns;
                let own = &mut counters.by_activity[activity];
                own.busy_ns = times.busy_ns;
                (own.seek_ns, own.turn_ns) = (times.seek_ns, times.turn_ns);
                own.transfer_ns = times.transfer_ns;
            }
        }
        counters
    }

    fn head(&self) -> Option<Pba> {
        let desk = self.is_ordered().then(|| self.desk())?;
        desk.mechanics.as_ref().map(|mechanics| Pba::new(mechanics.head_block()))
    }

    fn for_activity(self: Arc<Self>, activity: Activity) -> Option<Arc<dyn Disk>> {
        Some(Arc::new(ActivityHandle::new(self, activity)))
    }
}

impl CountsActivities for SimDisk {
    fn read_batch_as(
        &self,
        activity: Activity,
        requests: &mut [ReadRequest<'_>],
    ) -> Result<(), DiskError> {
        self.gate_read()?;
        for request in requests.iter() {
            self.geometry.request(request.at, request.buf.len())?;
        }
        if self.is_ordered() {
            return self.read_ordered(activity, requests);
        }
        requests.iter_mut().try_for_each(|request| {
            let range = self.geometry.request(request.at, request.buf.len())?;
            self.read_plain(activity, range, request.buf)
        })
    }

    fn write_as(
        &self,
        activity: Activity,
        at: Lba,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError> {
        self.gate_write()?;
        let range = self.geometry.request(at, data.len())?;
        if self.is_ordered() {
            return self.write_ordered(activity, range, data, persist);
        }
        let durable = match persist {
            Persist::Cached => Durable::Later,
            Persist::Through => Durable::Now,
        };
        let turnstile = self.sequential_zone(at).zip(self.rule.zones());
        let _turn = turnstile.map(|(zone, table)| table.turnstile(zone));
        let zone = self.rule.begin_write(range)?;
        self.write_stored(range, zone, data, durable)
            .inspect_err(|_| self.rule.abandon_write(zone))?;
        self.tally.write(activity, data.len());
        Ok(())
    }

    fn flush_as(&self, activity: Activity) -> Result<(), DiskError> {
        self.gate_write()?;
        if self.is_ordered() {
            return self.flush_ordered(activity);
        }
        self.backing.flush().map_err(|error| self.poison(error))?;
        self.tally.flush();
        Ok(())
    }

    fn manage_zone_as(
        &self,
        activity: Activity,
        zone: ZoneId,
        action: ZoneAction,
    ) -> Result<(), DiskError> {
        self.gate_write()?;
        let Some(table) = self.rule.zones() else { return Err(self.no_such_zone(zone, action)) };
        if self.is_ordered() {
            return self.manage_ordered(activity, table, zone, action);
        }
        let _turn = table.turnstile(zone);
        if !table.check_action(zone, action)? {
            return Ok(());
        }
        match action {
            ZoneAction::Reset => self.reset_zone(zone)?,
            ZoneAction::Finish => {
                let record = ZoneRecord { mark: ZoneMark::Full, ..table.record(zone) };
                self.backing.set_zone(zone, record, Durable::Later)?;
            }
            ZoneAction::Open | ZoneAction::Close => {}
        }
        table.apply_action(zone, action)
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod model_tests;

#[cfg(test)]
mod overlay_tests;

#[cfg(test)]
mod overlapping_model_tests;
