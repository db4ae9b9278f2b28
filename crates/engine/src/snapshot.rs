//! Snapshots: a point in the order of writes that somebody reads as of.

use crate::key::Seq;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sequence numbers that somebody reads at, each with how many do.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    held: Mutex<BTreeMap<Seq, usize>>,
}

impl Snapshots {
    /// Holds the number that `visible` returns, which is asked under the lock: a compaction that
    /// lists the snapshots before has seen no newer write than that.
    pub(crate) fn take(self: &Arc<Self>, visible: impl FnOnce() -> Seq) -> Snapshot {
        let mut held = self.held.lock();
        let seq = visible();
        *held.entry(seq).or_default() += 1;
        Snapshot { seq, owner: Arc::clone(self) }
    }

    /// All numbers held, ascending.
    pub(crate) fn list(&self) -> Vec<Seq> {
        self.held.lock().keys().copied().collect()
    }

    /// How many snapshots are held.
    pub(crate) fn count(&self) -> usize {
        self.held.lock().values().sum()
    }
}

/// A point in the order of writes. What a reader sees at it does not change while it lives; data
/// that only it needs are kept until it is dropped.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) seq: Seq,
    owner: Arc<Snapshots>,
}

impl Snapshot {
    /// The number of the last write that it sees.
    pub fn sequence(&self) -> u64 {
        self.seq.0
    }

    /// Whether it belongs to the store with these snapshots.
    pub(crate) fn is_of(&self, owner: &Arc<Snapshots>) -> bool {
        Arc::ptr_eq(&self.owner, owner)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut held = self.owner.held.lock();
        if let Some(count) = held.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.seq);
            }
        }
    }
}
