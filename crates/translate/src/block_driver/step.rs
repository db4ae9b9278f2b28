//! How much is read, moved or cleaned at a time, in blocks, and how long a step may take.
//!
//! ```text
//!     a step      a request of the drive, as long as the drive serves in 15 ms: measured, not assumed
//!     a flush     after so many blocks as the drive makes durable in 15 ms, while the host reads
//! ```
//!
//! A drive with a write cache takes a write at once, and reads wait for it when it is flushed. So the
//! measure of a write is the flush behind it.

use imbrex_clockwork::Clock;
use imbrex_disk::Blocks;
use std::fmt;
use std::sync::Arc;

/// How much is read at a time.
pub(super) const READ_LEN: u64 = 1024;

/// The most that one step of work writes, and the least that cleaning reads before it writes: 4 MiB,
/// some 30 ms of a disk.
pub(super) const STEP_LEN: u64 = 1024;
/// The most that cleaning reads before it writes: on a disk, moving between the two places takes as
/// long as transferring some MiB.
pub(super) const CLEAN_STEP_LEN_MAX: u64 = 4 * STEP_LEN;
/// What cleaning reads in one piece.
pub(super) const BATCH_PIECE_LEN_MAX: u64 = 256;

/// How long a step should take: less than a read at random places alone takes at most, some 22 ms.
const STEP_NS: u64 = 15_000_000;
/// The least and the most of a step.
const BUDGET_MIN: u64 = 64;
const BUDGET_MAX: u64 = STEP_LEN;
/// Finding a place takes a disk as long as transferring this much.
const SEEK_COST: u64 = 128;
/// After the host has read, so many blocks are written in short steps.
const CALM_LEN: u64 = (64 << 20) / 4096;

/// What is left of the work that a write of the host asks for.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) written: Blocks,
    /// Blocks to move for the write buffer and the journal.
    pub(super) memory: u64,
    /// The most that is left to clean; `None` before it is known.
    pub(super) cleaning: Option<u64>,
}

impl Pace {
    /// What a write of that length asks for.
    pub(super) fn of(written: Blocks) -> Pace {
        Pace { written, memory: (3 * written.get()).max(64), cleaning: None }
    }
}

/// What reading a piece costs, in the unit of [`Budget`]: blocks transferred. `is_next`: it is right
/// behind the piece before it.
pub(super) fn positioned_cost(len: Blocks, is_next: bool) -> u64 {
    len.get() + if is_next { 0 } else { SEEK_COST }
}

/// How much one step may ask of the drive. It follows the times that steps took.
#[derive(Debug)]
struct Budget(u64);

impl Budget {
    /// A step took `ns`; `is_whole`: it used up the budget.
    fn took(&mut self, ns: u64, is_whole: bool) {
        if STEP_NS < ns {
            self.0 = (self.0 / 2).max(BUDGET_MIN);
        } else if is_whole && ns < STEP_NS / 2 {
            self.0 = (self.0 + self.0 / 8).min(BUDGET_MAX);
        }
    }
}

/// How long steps may be.
pub(super) struct Steps {
    clock: Option<Arc<dyn Clock>>,
    reading: Budget,
    flushing: Budget,
    /// All blocks written when the host last read.
    written_at_read: Option<u64>,
}

impl Steps {
    pub(super) fn new() -> Steps {
        let (reading, flushing) = (Budget(2 * SEEK_COST), Budget(2 * SEEK_COST));
        Steps { clock: None, reading, flushing, written_at_read: None }
    }

    pub(super) fn set_clock(&mut self, clock: Arc<dyn Clock>) {
        self.clock = Some(clock);
    }

    /// The time, for [`Self::note_reading`] and [`Self::note_flush`]; 0 without a clock.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.as_ref().map_or(0, |clock| clock.now_ns())
    }

    /// What one read of cleaning may cost when `written` blocks are written; see [`positioned_cost`]. No
    /// bound if there is no clock, or if the host has not read for long: a drive orders what it is
    /// asked for at once.
    pub(super) fn reading_cost(&self, written: u64) -> u64 {
        if self.is_host_reading(written) { self.reading.0 } else { u64::MAX }
    }

    /// A read of cleaning began at `from_ns`; `is_whole`: it cost as much as it may.
    pub(super) fn note_reading(&mut self, from_ns: u64, is_whole: bool) {
        let ns = self.now_ns().saturating_sub(from_ns);
        self.reading.took(ns, is_whole);
    }

    /// The host reads when `written` blocks are written.
    pub(super) fn note_read(&mut self, written: u64) {
        self.written_at_read = Some(written);
    }

    /// Whether the host has read shortly before `written` blocks were written, by a driver with a clock.
    fn is_host_reading(&self, written: u64) -> bool {
        let is_near = |at_read: u64| written.saturating_sub(at_read) < CALM_LEN;
        self.clock.is_some() && self.written_at_read.is_some_and(is_near)
    }

    /// How much the drive's cache may hold, and how much one step may write, when `written` blocks are
    /// written; `None` if there is no clock, or if the host has not read for long.
    pub(super) fn cached_len(&self, written: u64) -> Option<u64> {
        self.is_host_reading(written).then_some(self.flushing.0)
    }

    /// A flush of so much began at `from_ns`.
    pub(super) fn note_flush(&mut self, from_ns: u64) {
        let ns = self.now_ns().saturating_sub(from_ns);
        self.flushing.took(ns, true);
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps")
            .field("reading", &self.reading)
            .field("flushing", &self.flushing)
            .finish_non_exhaustive()
    }
}
