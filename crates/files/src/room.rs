//! Room in the catalog: who may fill it how far, so that it never fills up for good.
//!
//! ```text
//!   what a region holds besides its header:
//!
//!   | names, extents, application records |        |        |        |        |
//!   0                                    5/8      6/8      7/8      8/8
//!                        nothing new is begun |        |        |        |
//!                        ordinary commits end here ----|        |        |
//!                        upkeep ends here ----------------------|        |
//!                        recovery may take the rest ---------------------|
//! ```
//!
//! A checkpoint of the whole namespace must always fit a region: a log that is full is replaced by
//! one. So what the namespace takes is counted, and a commit that would make it too long is refused
//! before anything is written. Who is refused when is a ladder: what fills the catalog stops before
//! what empties it, and that before what brings a store back after a crash.
//!
//! Invariants
//!   L1  The namespace takes at most the whole capacity: a checkpoint can always be written.
//!   L2  What does not make the namespace longer is never refused: removals, moves between levels, and
//!       an [`AppRecord::Replace`](crate::AppRecord::Replace) no longer than what it replaces.
//!   L3  Each kind of commit stops below the next: whatever the one above has filled, the one below
//!       it has an eighth of the capacity left.
//!
//! What an application owes in return: to begin nothing new while [`CatalogUse::is_crowded`] but what it cannot be
//! emptied without, to replace its records by one when they have piled up, and to keep what a recovery would have
//! to add within [`CatalogUse::free_bytes`] of [`CommitKind::Recovery`].
//!
//! Not here: room for the files themselves (`space`).

/// What a commit is for, and so how far it may fill the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommitKind {
    /// Something new: the first to be refused.
    #[default]
    Ordinary,
    /// What must go on so that space comes back: flushes, compaction, deletes, cleaning.
    Upkeep,
    /// What an application cannot be opened without.
    Recovery,
}

/// How full the catalog is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CatalogUse {
    /// How long a checkpoint may be.
    pub capacity_bytes: u64,
    /// How long one would be now: names, extents and application records.
    pub used_bytes: u64,
}

impl CatalogUse {
    /// How much longer the namespace may get by commits of this kind.
    pub fn free_bytes(&self, kind: CommitKind) -> u64 {
        let eighths = match kind {
            CommitKind::Ordinary => 6,
            CommitKind::Upkeep => 7,
            CommitKind::Recovery => 8,
        };
        (self.capacity_bytes / 8 * eighths).saturating_sub(self.used_bytes)
    }

    /// Whether it comes near what ordinary commits may use: what is under way may still be
    /// committed, but nothing new should be begun.
    pub fn is_crowded(&self) -> bool {
        self.used_bytes > self.capacity_bytes / 8 * 5
    }
}

#[cfg(test)]
mod tests {
    use super::{CatalogUse, CommitKind};

    #[test]
    fn each_kind_of_commit_leaves_the_next_an_eighth() {
        let kinds = [CommitKind::Ordinary, CommitKind::Upkeep, CommitKind::Recovery];
        let full_for = |kind| {
            let empty = CatalogUse { capacity_bytes: 800, used_bytes: 0 };
            CatalogUse { used_bytes: empty.free_bytes(kind), ..empty }
        };
        for pair in kinds.windows(2) {
            assert_eq!(full_for(pair[0]).free_bytes(pair[0]), 0);
            assert_eq!(full_for(pair[0]).free_bytes(pair[1]), 100);
        }
        assert!(full_for(CommitKind::Ordinary).is_crowded());
        assert_eq!(full_for(CommitKind::Recovery).used_bytes, 800);
    }
}
