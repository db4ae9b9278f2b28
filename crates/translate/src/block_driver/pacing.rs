//! Pace: how much work a write of the host asks for, and which work is due.
//!
//! Not here: what cleaning owes (`clean`), how long a step may be (`step`).

use super::journal::JournalUse;
use super::pool::Use;
use super::state::DriverState;
use super::step::{CLEAN_STEP_LEN_MAX, Pace, STEP_LEN};
use imbrex_disk::{Blocks, DiskError};

/// Work begins when more than this share of the write buffer or of the journal is in use (the
/// paper's 90 %).
const WATERMARK_PERMILLE: u64 = 900;
/// So much of a zone that cleaning is writing is room enough for a step.
const SHARED_LEN: u64 = 64;

impl DriverState {
    /// The most that one step writes.
    pub(super) fn step_len(&self) -> u64 {
        self.steps.cached_len(self.written.all()).unwrap_or(STEP_LEN)
    }

    /// K11: whether the drive's cache holds as much as it may.
    pub(super) fn is_flush_due(&self) -> bool {
        let most = self.steps.cached_len(self.written.all());
        most.is_some_and(|most| most <= self.written.unflushed())
    }

    /// One step of the work that a write of the host asks for; returns whether there is more.
    pub(super) fn pace_step(&mut self, pace: &mut Pace) -> Result<bool, DiskError> {
        if self.map.is_full() {
            return self.paced_checkpoint_step().map(|_| true);
        }
        if self.room_ahead_step(Blocks::ZERO)? {
            return Ok(true);
        }
        if pace.memory > 0 {
            let done = self.memory_step()?;
            pace.memory = if done == 0 { 0 } else { pace.memory.saturating_sub(done) };
            return Ok(true);
        }
        let most = match pace.cleaning {
            Some(most) => most,
            None => self.owe(pace.written)?,
        };
        let paid = self.pay_step(most)?;
        pace.cleaning = Some(most.saturating_sub(paid));
        Ok(paid > 0)
    }

    /// K10: one step towards a zone for the host, before a request that writes `len` blocks, or as much as
    /// a step writes, needs it. Returns false if there is room, or if the host does not read: the request
    /// then makes the room itself (`make_room`), as it does where no step helps.
    ///
    /// Others use the room while it is made, so no request waits until there is more than 4 MiB.
    pub(super) fn room_ahead_step(&mut self, len: Blocks) -> Result<bool, DiskError> {
        let Some(step_len) = self.steps.cached_len(self.written.all()) else { return Ok(false) };
        // Where space is short, gaining as much as a step writes at most may take a dozen cleanings.
        let least = if self.shared_room() > 0 { step_len.min(SHARED_LEN) } else { step_len };
        let wanted = len.get().min(STEP_LEN).max(least).min(self.superblock.zone_len.get());
        let room = self.host_room();
        if wanted <= room || self.reserve() < self.zones.pool.free() {
            return Ok(false);
        }
        if self.debt.pause > 0 && room > 0 {
            // Reads of cleaning failed, and this request may do without.
            return Ok(false);
        }
        if self.zones.pool.count(Use::Emptied) + self.zones.pool.count(Use::Recorded) > 0 {
            self.reclaim()?;
            return Ok(true);
        }
        Ok(self.clean_step(true, CLEAN_STEP_LEN_MAX)? > 0)
    }

    /// The same for a flush of the host, which writes what is held of streams.
    pub(super) fn room_for_streams_step(&mut self) -> Result<bool, DiskError> {
        let held = self.streams.held.total();
        if held.is_zero() { Ok(false) } else { self.room_ahead_step(held) }
    }

    /// One step of due work; returns the number of blocks moved, 0 if nothing is due.
    pub(super) fn work_step(&mut self) -> Result<u64, DiskError> {
        match self.memory_step()? {
            0 => self.room_step(),
            done => Ok(done),
        }
    }

    /// One step of due work for the write buffer and the journal.
    fn memory_step(&mut self) -> Result<u64, DiskError> {
        if self.writing.is_some() {
            return self.paced_checkpoint_step();
        }
        if self.map.is_long() || self.map_is_stale {
            self.map_is_stale = false;
            self.save_copies()?;
            self.begin_whole()?;
            return self.paced_checkpoint_step();
        }
        let sealed = self.journal.count(JournalUse::Sealed);
        let free = self.journal.count(JournalUse::Free);
        let zone_count = self.journal.zones.len();
        if free * 2 <= zone_count {
            let idle = self.journal.sealed().filter(|z| self.copies.active(z.zone).is_zero());
            if idle.count() > 0 {
                self.save_copies()?;
                self.begin_checkpoint()?;
                return self.checkpoint_step();
            }
        }
        if !self.buffer.excess(self.regions.total(), WATERMARK_PERMILLE).is_zero() {
            return self.evict_step();
        }
        if WATERMARK_PERMILLE * zone_count as u64 <= 1000 * (sealed as u64 + 2)
            && let Some(zone) = self.least_active()
            && !self.copies.active(zone).is_zero()
        {
            return self.recycle_step(zone);
        }
        Ok(0)
    }
}
