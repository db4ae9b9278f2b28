//! Pace: how much work a write of the host asks for, and which work is due.
//!
//! Not here: what cleaning owes (`clean`), how long a step may be (`step`).

use super::journal::JournalUse;
use super::state::DriverState;
use super::step::{Pace, STEP_LEN};
use imbrex_disk::DiskError;

/// Work begins when more than this share of the write buffer or of the journal is in use (the
/// paper's 90 %).
const WATERMARK_PERMILLE: u64 = 900;

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
