//! Snapshots: points in the order of writes at which reads are made.

use crate::key::Seq;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sequence numbers of the snapshots held, each with its holders.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    held: Mutex<BTreeMap<Seq, Holders>>,
}

#[derive(Debug)]
struct Holders {
    count: usize,
    /// How much had been written to the store, at most, when the first of them came.
    at_bytes: u64,
}

impl Snapshots {
    /// Takes a snapshot at the number that `visible` returns. `visible` is called under the lock,
    /// so a compaction that listed the snapshots earlier has seen no write newer than that number.
    /// `written_bytes` is how much had been written to the store before.
    pub(crate) fn take(
        self: &Arc<Self>,
        written_bytes: u64,
        visible: impl FnOnce() -> Seq,
    ) -> Snapshot {
        let mut held = self.held.lock();
        let seq = visible();
        held.entry(seq).or_insert(Holders { count: 0, at_bytes: written_bytes }).count += 1;
        Snapshot { seq, owner: Arc::clone(self) }
    }

    /// The sequence numbers of all snapshots held, ascending.
    pub(crate) fn list(&self) -> Vec<Seq> {
        self.held.lock().keys().copied().collect()
    }

    /// How many snapshots are held.
    pub(crate) fn count(&self) -> usize {
        self.held.lock().values().map(|holders| holders.count).sum()
    }

    /// How much had been written when the oldest snapshot was taken; `None` if none is held.
    pub(crate) fn oldest_at_bytes(&self) -> Option<u64> {
        self.held.lock().values().next().map(|holders| holders.at_bytes)
    }
}

/// A point in the order of writes. A reader sees the same data at it for as long as it is held.
/// Data that only the snapshot needs are kept until it is dropped.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) seq: Seq,
    owner: Arc<Snapshots>,
}

impl Snapshot {
    /// The sequence number of the last write that the snapshot sees.
    pub fn sequence(&self) -> u64 {
        self.seq.0
    }

    /// Whether the snapshot belongs to the store with these snapshots.
    pub(crate) fn is_of(&self, owner: &Arc<Snapshots>) -> bool {
        Arc::ptr_eq(&self.owner, owner)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut held = self.owner.held.lock();
        if let Some(holders) = held.get_mut(&self.seq) {
            holders.count -= 1;
            if holders.count == 0 {
                held.remove(&self.seq);
            }
        }
    }
}
