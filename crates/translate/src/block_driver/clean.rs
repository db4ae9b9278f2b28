//! Cleaning: moves the valid data of chosen zones elsewhere, in the order of its LBAs.
//!
//! ```text
//!     zone 3   aaa.....cc......      zone 7   ...bb....          chosen by `choose`
//!     read     aaa bb cc             piece by piece, up to 16 MiB (`moving`)
//!     write    aaabbcc               to a zone of cleaning's own: one node where three were
//! ```
//!
//! Cleaning keeps pace with the host, so that the host never waits for a whole zone at once:
//!
//! ```text
//!     room      what the host can evict, once the cleaning under way is over, before it is down to the reserve
//!     price     valid / garbage of the zones being cleaned: blocks moved for each block of room
//!     a write of n blocks owes   n * price * (room at which cleaning begins / room)
//! ```
//!
//! With just enough room, a block pays for the room that it takes; with less room, it pays more. A
//! debt is paid in whole steps, and later writes pay the rest of a large one. If all writes are
//! long and each cleaning gains little, the upper limit on what they pay is too low, and the host
//! does wait.
//!
//! Where space is short, gaining a zone takes a dozen cleanings. The host need not wait for a whole
//! zone: it continues in the zone that cleaning was writing.
//!
//! ```text
//!     cleaning's zone   |  moved         |  to be moved  |  what cleaning gained       |
//!                                        ^ lent: the host's from here, and cleaning takes another zone
//!                                           shared: so much of it  <-------------------> is the host's
//! ```
//!
//! The zone is lent only if, once the cleaning is over, as many zones will be free as K5 requires.
//! It is shared if that holds only when cleaning takes no further zone. The host waits only where
//! neither is possible. A power cut makes no difference: records do not name the stream of an open
//! zone, and recovery continues in it for either.
//!
//! A block that cannot be read stays where it is, and its zone is left alone while there is room: a
//! later read may succeed, or the host may write the block again. If too many zones are left alone,
//! their unreadable blocks are given up: the next checkpoint names them as lost, and their zones
//! become free. A read that fails for a reason other than the medium ends the cleaning. The next
//! one begins after a pause, so that failing reads are not repeated without end.
//!
//! Blocks that the host has written to a data zone again meanwhile are skipped. A block whose newer
//! version is in the write buffer is moved all the same: the buffer's copy may not be in the
//! journal yet.

use super::choose::{CleaningOrder, ZoneContent, ZoneFill, candidates, choose};
use super::cleaning::Cleaning;
use super::data_zones::Stream;
use super::mapping::MapRun;
use super::pool::{PoolZone, Use};
use super::state::DriverState;
use super::step::{CLEAN_STEP_LEN_MAX, STEP_LEN};
use super::zones::is_given_up;
use imbrex_disk::{BlockRange, Blocks, DiskError, Pba, ZoneId};
use std::collections::{BTreeMap, BTreeSet};

/// Cleaning begins when the free zones exceed the reserve by no more than this.
const CLEAN_AHEAD_ZONE_COUNT: usize = 1;
/// The most that cleaning does for a short write.
const PAID_LEN_MAX: u64 = 5 * STEP_LEN;
/// If even the best zone has less garbage than this, only space counts: the zone is then read in
/// disk order, which takes a disk a third of the time.
const RARE_GARBAGE_PERMILLE: u64 = 250;
/// One zone in this many, and at least one, is left alone because some of it cannot be read. A
/// spare of one percent has five times as many zones.
const UNREADABLE_ZONE_SHARE: usize = 512;
/// How much the host writes between a cleaning whose reads failed and the next cleaning.
const PAUSE_LEN: u64 = STEP_LEN / 4;
/// How many reads may fail in a row before a host that waits for the room gets the error.
const FAILED_READ_COUNT_MAX: u32 = 3;

impl DriverState {
    /// Adds what `written` blocks of the host owe; see the module. Returns the most that their write
    /// pays.
    pub(super) fn owe(&mut self, written: Blocks) -> Result<u64, DiskError> {
        self.debt.pause = self.debt.pause.saturating_sub(written.get());
        let Some(cleaning) = &self.cleaning else {
            self.room_step()?;
            return Ok(0);
        };
        let zone_len = self.superblock.zone_len.get();
        let room = u128::from(self.room_after(cleaning)).max(1);
        let room_at_start = u128::from(CLEAN_AHEAD_ZONE_COUNT as u64 * zone_len);
        let garbage = u128::from(cleaning.garbage.get()).max(1);
        let owed = u128::from(written.get()) * u128::from(cleaning.valid.get()) * room_at_start
            / (garbage * room);
        // The most that a long write pays, by the room in quarters of a zone.
        let factor = match 4 * room / u128::from(zone_len) {
            0 => 40,
            1 => 28,
            _ => 20,
        };
        let most = PAID_LEN_MAX.max(factor * written.get());
        self.debt.blocks = self.debt.blocks.saturating_add(u64::try_from(owed).unwrap_or(u64::MAX));
        if self.zones.pool.free() <= self.reserve() && !self.can_lend() {
            // No other zone is available, so the cleaning should end before the host's zone is
            // full.
            let rest = (self.zones.rest_of(Stream::Host) + self.shared_room()).max(1);
            self.debt.blocks = self.debt.blocks.max(written.get() * cleaning.left.get() / rest);
        }
        Ok(most)
    }

    /// One step of cleaning for a write that still pays `most`; returns how much it paid, 0 if nothing
    /// is owed. What was read is written too, whatever is owed: the arm is there.
    pub(super) fn pay_step(&mut self, most: u64) -> Result<u64, DiskError> {
        let Some(cleaning) = &self.cleaning else { return Ok(0) };
        if cleaning.batch.is_none() && (self.debt.blocks < STEP_LEN || most == 0) {
            return Ok(0);
        }
        let len = self.debt.blocks.min(most).clamp(STEP_LEN, CLEAN_STEP_LEN_MAX);
        let done = self.clean_step(false, len)?;
        self.debt.blocks = self.debt.blocks.saturating_sub(done);
        Ok(done)
    }

    /// How much the host can evict between the end of this cleaning and the next one.
    fn room_after(&self, cleaning: &Cleaning) -> u64 {
        let zone_len = self.superblock.zone_len.get();
        let (left, rest) = (cleaning.left.get(), self.zones.rest_of(Stream::Cleaning));
        let to_take = left.saturating_sub(rest).div_ceil(zone_len);
        let lendable = (rest + to_take * zone_len).saturating_sub(left);
        let free = (self.zones.pool.free() + cleaning.zones.len()) as u64;
        let kept = self.reserve_between_cleanings() as u64;
        self.zones.rest_of(Stream::Host) + lendable + free.saturating_sub(kept + to_take) * zone_len
    }

    /// How much the host may write before it needs another zone.
    pub(super) fn host_room(&self) -> u64 {
        let rest = self.zones.rest_of(Stream::Host);
        if self.can_lend() {
            return rest + self.zones.rest_of(Stream::Cleaning);
        }
        rest + self.shared_room()
    }

    /// Whether enough zones will be free at the end of the cleaning even without the one that it is
    /// writing.
    fn can_lend(&self) -> bool {
        let (coming, left) =
            self.cleaning.as_ref().map_or((0, 0), |c| (c.zones.len(), c.left.get()));
        let to_take = left.div_ceil(self.superblock.zone_len.get()) as usize;
        self.reserve_between_cleanings() + to_take <= self.zones.pool.free() + coming
    }

    /// Gives the host the zone that cleaning is writing, if the host has none; see the module.
    pub(super) fn lend_zone(&mut self) -> bool {
        if self.zones.open[Stream::Host as usize].is_none()
            && self.can_lend()
            && let Some(zone) = self.zones.open[Stream::Cleaning as usize].take()
        {
            self.zones.open[Stream::Host as usize] = Some(zone);
            return true;
        }
        false
    }

    /// How much of the zone that cleaning is writing the host may use: the part that this cleaning
    /// does not need, if as many zones will be free at its end as K5 requires.
    pub(super) fn shared_room(&self) -> u64 {
        let Some(cleaning) = &self.cleaning else { return 0 };
        if self.zones.pool.free() + cleaning.zones.len() < self.reserve_between_cleanings() {
            return 0;
        }
        self.zones.rest_of(Stream::Cleaning).saturating_sub(cleaning.left.get())
    }

    /// Where the host may write in the zone that cleaning is writing, and how much fits; see the
    /// module.
    pub(super) fn share_zone(&self) -> Option<(ZoneId, Pba, Blocks)> {
        let room = Blocks::new(self.shared_room());
        let zone = self.zones.open[Stream::Cleaning as usize].filter(|_| !room.is_zero())?;
        Some((zone, self.zones.pool.rest(zone).0, room))
    }

    /// One step towards more free zones, if few are free.
    pub(super) fn room_step(&mut self) -> Result<u64, DiskError> {
        if self.reserve() + CLEAN_AHEAD_ZONE_COUNT < self.zones.pool.free() {
            self.debt.blocks = 0;
            return Ok(0);
        }
        if self.zones.pool.count(Use::Emptied) > 0 {
            self.reclaim()?;
            return Ok(1);
        }
        if self.debt.pause > 0 {
            return Ok(0);
        }
        self.clean_step(false, STEP_LEN)
    }

    /// One step of cleaning: a request of the drive. A batch of `len` blocks of the zones' valid data is
    /// moved before the next batch begins. Returns how many blocks this step began to move, at least 1;
    /// 0 if there is nothing to clean.
    pub(super) fn clean_step(&mut self, is_urgent: bool, len: u64) -> Result<u64, DiskError> {
        if self.cleaning.is_none() {
            match self.begin_cleaning(is_urgent) {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(error @ DiskError::Host { .. }) => {
                    return self.note_failed_read(error, is_urgent, 1);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(mut cleaning) = self.cleaning.take() else { return Ok(0) };
        let (mut batch, begun) = match cleaning.batch.take() {
            Some(batch) => (batch, 0),
            None => self.begin_batch(&mut cleaning, len),
        };
        // A zone may turn out to be empty (`paging`).
        let begun = begun.max(1);
        if !batch.is_read() {
            match self.read_of_batch(&mut batch) {
                Ok(unreadable) => cleaning.unreadable.extend(unreadable),
                Err(DiskError::Offline { zone }) => {
                    self.set_unreadable(&cleaning, zone);
                    self.abort_cleaning();
                    return Ok(begun);
                }
                // Nothing is in doubt: the data stays where it is.
                Err(error @ DiskError::Host { .. }) => {
                    return self.note_failed_read(error, is_urgent, begun);
                }
                Err(error) => return Err(error),
            }
        } else if !self.write_of_batch(&mut cleaning, &mut batch)? {
            self.abort_cleaning();
            return Ok(begun);
        } else {
            // Only what is moved counts: a batch whose first half can be read is read again and again.
            self.debt.failed_reads = 0;
        }
        if !batch.is_moved() {
            cleaning.batch = Some(batch);
        }
        if cleaning.batch.is_some() || cleaning.next < cleaning.runs.len() {
            self.cleaning = Some(cleaning);
        } else {
            self.end_cleaning(&cleaning)?;
        }
        Ok(begun)
    }

    /// What `cleaning` could move is moved.
    fn end_cleaning(&mut self, cleaning: &Cleaning) -> Result<(), DiskError> {
        for (&zone, &generation) in &cleaning.zones {
            let slot = self.zones.pool.get(zone);
            if cleaning.unreadable.contains(&zone) {
                self.set_unreadable(cleaning, zone);
            } else if slot.is_some_and(|slot| slot.generation == generation) {
                self.forget_zone(zone);
            }
        }
        self.counters.cleanings += 1;
        self.counters.cleaned_zones += (cleaning.zones.len() - cleaning.unreadable.len()) as u64;
        self.debt.taken_zones = 0;
        self.commit()?;
        let kept_count = (self.zones.pool.iter().count() / UNREADABLE_ZONE_SHARE).max(1);
        if kept_count < self.unreadable_zones().len() {
            self.abandon_unreadable()?;
        }
        Ok(())
    }

    /// Finishes the cleaning that is running, or does a whole one; returns false if nothing was
    /// moved. Stops where reads fail: the host gets that error when it needs the room itself.
    pub(super) fn clean_one(&mut self) -> Result<bool, DiskError> {
        let mut has_moved = false;
        while self.debt.failed_reads == 0 && self.clean_step(true, CLEAN_STEP_LEN_MAX)? > 0 {
            has_moved = true;
            if self.cleaning.is_none() {
                break;
            }
        }
        Ok(has_moved)
    }

    /// The valid data left in a cleaned zone cannot be read, unless the host has written all of it
    /// again.
    fn set_unreadable(&mut self, cleaning: &Cleaning, zone: ZoneId) {
        let life = cleaning.zones.get(&zone).copied();
        let slot = self.zones.pool.get(zone);
        if slot.is_some_and(|slot| slot.used == Use::Sealed && Some(slot.generation) == life) {
            self.zones.pool.set(zone, Use::Unreadable);
        }
    }

    /// A read of cleaning failed that says nothing about the medium. Ends the cleaning, which has
    /// `moved` blocks, and tells a host that waits for the room only if it happens again and again.
    fn note_failed_read(
        &mut self,
        error: DiskError,
        is_urgent: bool,
        moved: u64,
    ) -> Result<u64, DiskError> {
        self.abort_cleaning();
        self.debt.pause = PAUSE_LEN;
        self.debt.failed_reads += 1;
        let is_told = is_urgent && FAILED_READ_COUNT_MAX <= self.debt.failed_reads;
        if is_told { Err(error) } else { Ok(moved) }
    }

    /// Ends the running cleaning early.
    fn abort_cleaning(&mut self) {
        self.debt.taken_zones = 0;
    }

    pub(super) fn has_abandoned(&self) -> bool {
        self.zones.pool.count(Use::Abandoned) > 0
    }

    /// The zones that were left alone and that the drive still lets be written.
    fn unreadable_zones(&self) -> Vec<ZoneId> {
        let slots = self.zones.pool.iter().filter(|slot| slot.used == Use::Unreadable);
        slots.map(|slot| slot.zone).filter(|&zone| !is_given_up(&*self.disk, zone)).collect()
    }

    /// Gives up the unreadable blocks of zones that were left alone. The blocks are lost, and the
    /// zones become free after the next checkpoint. Returns false if there are no such zones.
    pub(super) fn abandon_unreadable(&mut self) -> Result<bool, DiskError> {
        // The journal must not repeat records of these zones after the checkpoint.
        self.commit()?;
        let zones = self.unreadable_zones();
        for &zone in &zones {
            let runs = self.runs_in(zone)?;
            for run in runs.into_iter().map(MapRun::range) {
                self.map.unset(run);
                self.lost.insert(run);
                // The write buffer still has what a stream wrote: the journal takes it next.
                let kept: Vec<BlockRange> = self.streams.kept.within(run).collect();
                for range in kept {
                    self.streams.kept.remove(range);
                    self.regions.insert(range);
                    self.pending.insert(range);
                }
                // The journal has a newer copy.
                let copied: Vec<BlockRange> =
                    self.copies.copies_of(run).map(|(range, _)| range).collect();
                for range in copied {
                    self.lost.remove(range);
                }
            }
            self.forget_zone(zone);
            self.zones.pool.set(zone, Use::Abandoned);
            self.zones.summaries.forget(zone);
        }
        Ok(!zones.is_empty())
    }

    fn begin_cleaning(&mut self, is_urgent: bool) -> Result<bool, DiskError> {
        // Cleaning does not regain a zone that the drive has given up.
        let sealed = self
            .zones
            .pool
            .iter()
            .filter(|slot| slot.used == Use::Sealed && !is_given_up(&*self.disk, slot.zone));
        let fills = sealed.map(|slot| ZoneFill {
            zone: slot.zone,
            written: slot.written(),
            valid: self.map.valid(slot.zone),
        });
        let fills: Vec<ZoneFill> = fills.filter(|fill| fill.valid < fill.written).collect();
        let has_garbage = |fill: &ZoneFill| {
            RARE_GARBAGE_PERMILLE * fill.written.get() <= 1000 * (fill.written - fill.valid).get()
        };
        let is_rare = !fills.iter().any(has_garbage);
        self.map_is_stale =
            is_rare && 2 * self.superblock.zone_len.get() <= self.map.hidden().get();
        let is_urgent = is_urgent || is_rare;
        let order = match self.options.cleaning {
            _ if is_urgent => CleaningOrder::MostGarbage { chosen_count: 1 },
            // The nodes of a candidate cost a read of its summaries (`paging`).
            order if self.map.has_base() => {
                CleaningOrder::MostGarbage { chosen_count: order.chosen_count() }
            }
            order => order,
        };
        let mut nodes: BTreeMap<ZoneId, Vec<MapRun>> = BTreeMap::new();
        let mut contents = Vec::new();
        for zone in candidates(order, fills) {
            let runs = self.runs_in(zone)?;
            let written = self.zones.pool.get(zone).map_or(Blocks::ZERO, PoolZone::written);
            let ranges = runs.iter().map(|run| run.range()).collect();
            contents.push(ZoneContent { zone, written, runs: ranges });
            nodes.insert(zone, runs);
        }
        let chosen = choose(order, &contents);
        if chosen.zones.is_empty() {
            return Ok(false);
        }
        nodes.retain(|zone, _| chosen.zones.contains(zone));
        let mut runs: Vec<MapRun> = match is_urgent {
            true => chosen.zones.iter().filter_map(|zone| nodes.remove(zone)).flatten().collect(),
            false => nodes.into_values().flatten().collect(),
        };
        if is_urgent {
            self.counters.urgent_cleanings += 1;
        } else {
            runs.sort_unstable();
            self.counters.timely_cleanings += 1;
            self.counters.merged_nodes += chosen.merged_nodes;
            self.counters.cleaned_written_blocks += chosen.written.get();
            self.counters.cleaned_garbage_blocks += chosen.garbage().get();
        }
        let (valid, garbage) = (chosen.valid, chosen.garbage());
        let life =
            |zone: ZoneId| (zone, self.zones.pool.get(zone).map_or(0, |slot| slot.generation));
        self.cleaning = Some(Cleaning {
            zones: chosen.zones.into_iter().map(life).collect(),
            valid,
            garbage,
            runs,
            next: 0,
            left: valid,
            batch: None,
            unreadable: BTreeSet::new(),
        });
        Ok(true)
    }
}
