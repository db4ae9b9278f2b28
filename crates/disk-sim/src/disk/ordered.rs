//! The ordered path of a [`SimDisk`]: one request at a time through faults, cache and mechanics.

use super::{Desk, HEALTH_NO_POWER, SimDisk};
use crate::backing::{Backing, Durable};
use crate::cache::{Pending, PowerCycle};
use crate::event_log::Event;
use crate::fault::{Fate, injected};
use crate::mechanics::Mechanics;
use imbrex_clockwork::Prng;
use imbrex_disk::{
    Activity, BlockRange, Blocks, DiskError, Lba, Persist, ReadRequest, Readable, ZoneAction,
    ZoneId, ZoneMark, ZoneRecord, ZoneTable,
};
use std::sync::atomic::Ordering;

impl SimDisk {
    pub(super) fn read_ordered(
        &self,
        activity: Activity,
        requests: &mut [ReadRequest<'_>],
    ) -> Result<(), DiskError> {
        let mut desk = self.desk();
        self.gate_read()?;
        for request in requests.iter_mut() {
            let range = range_of(request);
            let readable = self.rule.check_read(range)?;
            desk.faults.on_read(range)?;
            desk.check_latent(range)?;
            self.read_platter(&desk, range, readable, request.buf)?;
            desk.cache.overlay(request.at, request.buf);
            self.tally.read(activity, request.buf.len());
        }
        let end_ns = self.serve(&mut desk, activity, |mechanics, now_ns| {
            let queue = requests.iter().map(|r| block_and_len(range_of(r))).collect();
            mechanics.read_queue(now_ns, queue)
        });
        for request in requests.iter() {
            desk.log.event(Event::Read, request.at.get(), range_of(request).len.get(), end_ns);
        }
        self.clock.advance_to_ns(end_ns);
        Ok(())
    }

    /// Reads stored data. Where tracks overlap, skips what the cache holds: a destroyed block that
    /// was written again is readable before it is on the platter.
    fn read_platter(
        &self,
        desk: &Desk,
        range: BlockRange,
        readable: Readable,
        buf: &mut [u8],
    ) -> Result<(), DiskError> {
        if self.rule.tracks().is_none() {
            return self.read_stored(range, readable, buf);
        }
        for part in desk.cache.not_held(range) {
            let from = (part.start - range.start).bytes() as usize;
            let to = from + part.len.bytes() as usize;
            self.backing.read(part.start, &mut buf[from..to])?;
        }
        Ok(())
    }

    pub(super) fn write_ordered(
        &self,
        activity: Activity,
        range: BlockRange,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError> {
        let mut desk = self.desk();
        self.gate_write()?;
        desk.faults.check_len(range)?;
        let turnstile = self.sequential_zone(range.start).zip(self.rule.zones());
        let _turn = turnstile.map(|(zone, table)| table.turnstile(zone));
        self.check_destroys_nothing(range, &desk)?;
        let zone = self.rule.begin_write(range)?;
        self.write_begun(&mut desk, range, zone, data, persist)
            .inspect_err(|_| self.rule.abandon_write(zone))?;
        self.tally.write(activity, data.len());
        let end_ns = self.serve(&mut desk, activity, |mechanics, now_ns| {
            let (block, len) = block_and_len(range);
            mechanics.write(now_ns, block, len, persist == Persist::Through)
        });
        desk.log.event_of(Event::Write, range.start.get(), range.len.get(), data, end_ns);
        self.clock.advance_to_ns(end_ns);
        Ok(())
    }

    /// The second half of a write that the rule has allowed.
    fn write_begun(
        &self,
        desk: &mut Desk,
        range: BlockRange,
        zone: Option<ZoneId>,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError> {
        let is_killed = persist == Persist::Through && desk.faults.on_sync();
        let persist = if is_killed { Persist::Cached } else { persist };
        let shift = match desk.faults.on_write() {
            Fate::Proceed => Blocks::ZERO,
            Fate::Misdirected(shift) => shift,
            Fate::Fail => {
                self.write_part(desk, range, zone, data, persist)?;
                return Err(injected("write", range));
            }
            Fate::PowerCut => {
                let operation = self.pending_write(range, zone, data);
                return Err(self.lose_power(desk, Some(operation)));
            }
        };
        if !shift.is_zero() {
            self.write_elsewhere(desk, range, zone, data, shift)?;
        } else {
            self.write_here(desk, range, zone, data, persist)?;
        }
        if is_killed { Err(DiskError::Poisoned) } else { Ok(()) }
    }

    /// Writes the part that a failed write leaves.
    fn write_part(
        &self,
        desk: &mut Desk,
        range: BlockRange,
        zone: Option<ZoneId>,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError> {
        let persist = if desk.faults.stays_in_cache() { Persist::Cached } else { persist };
        for part in desk.faults.written_part(range, zone.is_some()) {
            let from = (part.start - range.start).bytes() as usize;
            let data = &data[from..from + part.len.bytes() as usize];
            if !data.is_empty() {
                self.write_here(desk, part, zone, data, persist)?;
                let (at, len) = block_and_len(part);
                desk.log.event_of(Event::Write, at, len, data, self.clock.now_ns());
            }
        }
        Ok(())
    }

    fn write_here(
        &self,
        desk: &mut Desk,
        range: BlockRange,
        zone: Option<ZoneId>,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError> {
        if desk.cache.is_on() && persist == Persist::Cached {
            let operation = self.pending_write(range, zone, data);
            desk.cache.push(operation);
            if let (Some(zone), Some(table)) = (zone, self.rule.zones()) {
                table.commit_write(zone, range.end());
            }
            desk.cache.make_room(&*self.backing)?;
        } else {
            desk.cache.destage_touching(range, zone, &*self.backing)?;
            let durable = match persist {
                Persist::Cached => Durable::Later,
                Persist::Through => Durable::Now,
            };
            self.write_stored(range, zone, data, durable)?;
            desk.faults.heal(range);
        }
        desk.heal_stored();
        Ok(())
    }

    /// A misdirected write: the pointer moves, the bytes land `shift` further on.
    fn write_elsewhere(
        &self,
        desk: &mut Desk,
        range: BlockRange,
        zone: Option<ZoneId>,
        data: &[u8],
        shift: Blocks,
    ) -> Result<(), DiskError> {
        desk.cache.destage_all(&*self.backing)?;
        let len = self.geometry.len().get();
        let highest_start = len - range.len.get();
        let landed = (range.start.get() + shift.get() % len) % (highest_start + 1);
        self.backing.write(Lba::new(landed), data, Durable::Later)?;
        desk.faults.heal(BlockRange::new(Lba::new(landed), range.len));
        self.move_pointer(range, zone, Durable::Later)
    }

    /// When the mechanics finish a request that arrives now. Without mechanics, now.
    fn serve(
        &self,
        desk: &mut Desk,
        activity: Activity,
        work: impl FnOnce(&mut Mechanics, u64) -> u64,
    ) -> u64 {
        let now_ns = self.clock.now_ns();
        desk.mechanics.as_mut().map_or(now_ns, |mechanics| {
            mechanics.serve(activity);
            work(mechanics, now_ns)
        })
    }

    fn pending_write(&self, range: BlockRange, zone: Option<ZoneId>, data: &[u8]) -> Pending {
        let (at, data) = (range.start, data.into());
        match zone {
            None => Pending::Anywhere { at, data },
            Some(zone) => {
                let (start, capacity) = self.zone_bounds(zone);
                Pending::AtPointer { zone, start, capacity, at, data }
            }
        }
    }

    fn lose_power(&self, desk: &mut Desk, on_its_way: Option<Pending>) -> DiskError {
        if let Some(operation) = on_its_way {
            desk.cache.push(operation);
        }
        self.health.store(HEALTH_NO_POWER, Ordering::Release);
        desk.log.event(Event::PowerCut, 0, 0, self.clock.now_ns());
        let at_cut = desk.at_cut.take();
        let settled = at_cut.map(|mut prng| desk.settle_cut(&*self.backing, &mut prng));
        settled.and_then(Result::err).unwrap_or(DiskError::PowerLost)
    }

    pub(super) fn flush_ordered(&self, activity: Activity) -> Result<(), DiskError> {
        let mut desk = self.desk();
        self.gate_write()?;
        if desk.faults.on_sync() {
            return Err(DiskError::Poisoned);
        }
        match desk.faults.on_flush() {
            Fate::PowerCut => return Err(self.lose_power(&mut desk, None)),
            Fate::Fail => {
                let everything = BlockRange::new(Lba::new(0), self.geometry.len());
                return Err(self.poison(injected("flush", everything)));
            }
            Fate::Proceed | Fate::Misdirected(_) => {}
        }
        desk.cache
            .destage_all(&*self.backing)
            .and_then(|()| self.backing.flush())
            .map_err(|error| self.poison(error))?;
        desk.heal_stored();
        self.tally.flush();
        let end_ns = self.serve(&mut desk, activity, |mechanics, now_ns| mechanics.flush(now_ns));
        desk.log.event(Event::Flush, 0, 0, end_ns);
        self.clock.advance_to_ns(end_ns);
        Ok(())
    }

    pub(super) fn discard_ordered(&self, range: BlockRange) -> Result<(), DiskError> {
        let mut desk = self.desk();
        self.gate_write()?;
        desk.faults.check_len(range)?;
        for part in self.discardable(range) {
            desk.cache.destage_touching(part, None, &*self.backing)?;
            self.backing.zero(part)?;
        }
        desk.log.event(Event::Discard, range.start.get(), range.len.get(), self.clock.now_ns());
        Ok(())
    }

    pub(super) fn manage_ordered(
        &self,
        activity: Activity,
        table: &ZoneTable,
        zone: ZoneId,
        action: ZoneAction,
    ) -> Result<(), DiskError> {
        let mut desk = self.desk();
        self.gate_write()?;
        let _turn = table.turnstile(zone);
        if !table.check_action(zone, action)? {
            return Ok(());
        }
        match action {
            ZoneAction::Reset => {
                let range = self.geometry.zone_range(zone).expect("checked by the rule");
                desk.faults.check_len(range)?;
                if desk.faults.on_event() == Fate::PowerCut {
                    return Err(self.lose_power(&mut desk, Some(Pending::Reset { zone, range })));
                }
                desk.cache.drop_zone(zone);
                self.reset_zone(zone)?;
                desk.faults.heal(range);
            }
            ZoneAction::Finish => {
                if desk.faults.on_event() == Fate::PowerCut {
                    return Err(self.lose_power(&mut desk, Some(Pending::Finish { zone })));
                }
                if desk.cache.is_on() {
                    desk.cache.push(Pending::Finish { zone });
                } else {
                    let record = ZoneRecord { mark: ZoneMark::Full, ..table.record(zone) };
                    self.backing.set_zone(zone, record, Durable::Later)?;
                }
            }
            ZoneAction::Open | ZoneAction::Close => {}
        }
        let forgotten = match action {
            ZoneAction::Reset => self.geometry.zone_range(zone).map_or((0, 0), block_and_len),
            _ => (0, 0),
        };
        let end_ns = self.serve(&mut desk, activity, |mechanics, now_ns| {
            mechanics.command(now_ns, forgotten.0, forgotten.1)
        });
        desk.log.event(Event::Zone, u64::from(zone.0), action_number(action), end_ns);
        self.clock.advance_to_ns(end_ns);
        table.apply_action(zone, action)
    }
}

impl Desk {
    /// Makes written blocks readable again once they have left the cache for the platter. Call this
    /// before asking what is readable.
    pub(super) fn heal_stored(&mut self) {
        for range in self.cache.take_stored() {
            self.faults.heal(range);
        }
    }

    /// Applies a power cut: decides which unflushed writes are on the platter, and which of them
    /// can be read.
    pub(super) fn settle_cut(
        &mut self,
        backing: &dyn Backing,
        prng: &mut Prng,
    ) -> Result<PowerCycle, DiskError> {
        let outcome = self.cache.power_cut(backing, prng)?;
        self.heal_stored();
        if let Some(broken) = outcome.broken {
            self.faults.damage(BlockRange::new(broken, Blocks::new(1)));
        }
        Ok(outcome)
    }

    /// Checks that the part of `range` that is not in the cache can be read.
    fn check_latent(&mut self, range: BlockRange) -> Result<(), DiskError> {
        self.heal_stored();
        if !self.faults.has_latent() {
            return Ok(());
        }
        let mut parts = self.cache.not_held(range).into_iter();
        parts.try_for_each(|part| self.faults.check_platter(part))
    }
}

fn range_of(request: &ReadRequest<'_>) -> BlockRange {
    BlockRange::new(request.at, Blocks::holding(request.buf.len() as u64))
}

fn block_and_len(range: BlockRange) -> (u64, u64) {
    (range.start.get(), range.len.get())
}

fn action_number(action: ZoneAction) -> u64 {
    match action {
        ZoneAction::Open => 1,
        ZoneAction::Close => 2,
        ZoneAction::Finish => 3,
        ZoneAction::Reset => 4,
    }
}
