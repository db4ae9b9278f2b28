//! Writes that wait for each other in virtual time, as they do on threads.
//!
//! On threads a write waits for the one before it, and a writer that waits for a flush holds up all writers. In
//! virtual time clients take turns and meet at the drive alone: a client that waits lets the store work until the
//! flush is done, and the next client, whose time is earlier, would find the flush done and never wait. In virtual
//! time a write therefore begins only when the write before it has ended.

use imbrex_clockwork::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time at which the last write ended.
#[derive(Debug)]
pub struct WriteTurns {
    clock: Arc<dyn Clock>,
    ended_ns: AtomicU64,
}

impl WriteTurns {
    /// Turns by `clock`, before the first write.
    pub fn new(clock: Arc<dyn Clock>) -> WriteTurns {
        WriteTurns { clock, ended_ns: AtomicU64::new(0) }
    }

    /// Does `write` after the write before it has ended.
    pub fn in_turn<T>(&self, write: impl FnOnce() -> T) -> T {
        self.clock.advance_to_ns(self.ended_ns.load(Ordering::Relaxed));
        let written = write();
        self.ended_ns.store(self.clock.now_ns(), Ordering::Relaxed);
        written
    }

    /// Like [`WriteTurns::in_turn`] in virtual time; without `turns`, as on threads, does `write`
    /// at once.
    pub fn maybe<T>(turns: Option<&WriteTurns>, write: impl FnOnce() -> T) -> T {
        match turns {
            Some(turns) => turns.in_turn(write),
            None => write(),
        }
    }
}
