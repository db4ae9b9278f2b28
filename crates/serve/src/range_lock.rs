//! A lock on runs of blocks. The holder of a run keeps other holders away from its blocks, and from no others.
//!
//! Invariants
//!   R1  The runs of two holders share no block.
//!   R2  Overlapping requests are served in order of arrival, so short runs cannot starve a long one.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct RangeLock {
    line: Mutex<Line>,
    left: Condvar,
}

/// All requests, in order of arrival. A request without an earlier overlapping one holds its run.
#[derive(Debug, Default)]
struct Line {
    next_ticket: u64,
    waiting_count: usize,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    ticket: u64,
    blocks: Range<u64>,
}

/// A held run; dropping it releases the run.
#[derive(Debug)]
pub(crate) struct RangeGuard<'a> {
    lock: &'a RangeLock,
    ticket: u64,
}

impl RangeLock {
    /// Waits until no earlier request overlaps `blocks`, then holds them.
    pub(crate) fn lock(&self, blocks: Range<u64>) -> RangeGuard<'_> {
        let mut line = self.line();
        let ticket = line.next_ticket;
        line.next_ticket += 1;
        line.entries.push(Entry { ticket, blocks });
        while !line.is_first(ticket) {
            line.waiting_count += 1;
            line = self.left.wait(line).unwrap_or_else(PoisonError::into_inner);
            line.waiting_count -= 1;
        }
        RangeGuard { lock: self, ticket }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn is_first(&self, ticket: u64) -> bool {
        let own = self.entries.iter().position(|entry| entry.ticket == ticket);
        let own = own.expect("an entry stays until its guard is dropped");
        let blocks = &self.entries[own].blocks;
        let overlaps = |e: &Entry| e.blocks.start < blocks.end && blocks.start < e.blocks.end;
        !self.entries[..own].iter().any(overlaps)
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let mut line = self.lock.line();
        line.entries.retain(|entry| entry.ticket != self.ticket);
        if line.waiting_count > 0 {
            self.lock.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_first(runs: &[Range<u64>]) -> Vec<bool> {
        let entries = runs.iter().cloned().zip(0..);
        let entries = entries.map(|(blocks, ticket)| Entry { ticket, blocks }).collect();
        let line = Line { next_ticket: 0, waiting_count: 0, entries };
        (0..runs.len() as u64).map(|ticket| line.is_first(ticket)).collect()
    }

    #[test]
    fn overlapping_requests_are_served_in_order_and_neighbours_do_not_wait() {
        assert_eq!(is_first(&[0..4, 4..8, 3..5]), [true, true, false], "R1");
        assert_eq!(is_first(&[0..4, 2..9, 8..10]), [true, false, false], "R2: behind who waits");
        let lock = RangeLock::default();
        let (first, other) = (lock.lock(0..4), lock.lock(4..5));
        drop(first);
        drop(lock.lock(0..2));
        drop(other);
        assert!(lock.line().entries.is_empty());
    }
}
