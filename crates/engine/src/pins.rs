//! What is kept although the newest state of the store does not need it: tables of checkpoints, and
//! what snapshots may still read.
//!
//! ```text
//!   the store       1  2  .  .  5        tables
//!   checkpoint a    1  2  3  .           3 is given back with a alone
//!   checkpoint b       2     4           4 with b alone; a table in both, with the last of them
//! ```
//!
//! Invariants
//!   N1  A table that the store has counts for no checkpoint.
//!   N2  What checkpoints hold together is at least the sum of what each gives back.
//!
//! Not here: how it is collected (`store::pinned`).

use imbrex_files::ByteSize;

/// What is kept although the newest state of the store does not need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// The checkpoints, by name.
    pub checkpoints: Vec<CheckpointPins>,
    /// The length of the tables that only checkpoints have, each counted once.
    pub checkpoints_len_bytes: u64,
    /// How many snapshots are held.
    pub snapshot_count: usize,
    /// How many bytes of keys and values were written since the oldest of them. What is kept for snapshots
    /// is at most as long.
    pub since_snapshot_bytes: u64,
}

/// What one checkpoint keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPins {
    /// Its name.
    pub name: String,
    /// How many tables it has.
    pub table_count: usize,
    /// Their length.
    pub len_bytes: u64,
    /// The length of the tables that neither the store nor another checkpoint has: deleting the checkpoint
    /// gives it back.
    pub own_len_bytes: u64,
}

impl Pins {
    /// What is kept, as a clause of a refusal; `None` if nothing is.
    pub(crate) fn clause(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.checkpoints_len_bytes > 0 {
            let largest = self.checkpoints.iter().max_by_key(|kept| kept.own_len_bytes);
            let largest = largest.filter(|kept| kept.own_len_bytes > 0);
            let of_largest = largest.map(|kept| {
                format!(" (deleting {:?} gives back {})", kept.name, ByteSize(kept.own_len_bytes))
            });
            parts.push(format!(
                "{} are live only for checkpoints{}",
                ByteSize(self.checkpoints_len_bytes),
                of_largest.unwrap_or_default()
            ));
        }
        if self.since_snapshot_bytes > 0 {
            parts.push(format!(
                "snapshots that are open keep up to {}",
                ByteSize(self.since_snapshot_bytes)
            ));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
