//! Room in the catalog: how far each kind of commit may fill it, so that it never fills up for
//! good.
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
//! A checkpoint of the whole namespace must always fit a region, because a checkpoint replaces a
//! full log. The size of the namespace is therefore counted, and a commit that would make it too
//! long is refused before anything is written. The kinds of commit form a ladder: commits that fill
//! the catalog stop first, then those that empty it, then those that bring a store back after a
//! crash.
//!
//! Invariants
//!   L1  The namespace takes at most the whole capacity: a checkpoint can always be written.
//!   L2  A commit that does not lengthen the namespace is never refused: removals, moves between
//!       levels, and an [`AppRecord::Replace`](crate::AppRecord::Replace) no longer than the
//!       records that it replaces.
//!   L3  Each kind of commit stops before the next: however far the first has filled the catalog,
//!       the next has an eighth of the capacity left.
//!
//! An application has three duties in return. While [`CatalogUse::is_crowded`] it begins nothing
//! new, except what it needs in order to be emptied. It replaces its records by one when many have
//! accumulated. It keeps the records that a recovery would add within [`CatalogUse::free_bytes`] of
//! [`CommitKind::Recovery`].
//!
//! Not here: room for the files themselves (`space`).

/// The purpose of a commit, which decides how far it may fill the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommitKind {
    /// Something new: the first kind to be refused.
    #[default]
    Ordinary,
    /// Work that brings space back: flushes, compaction, deletes, cleaning.
    Upkeep,
    /// Commits without which an application cannot be opened, and those that add the same in time.
    Recovery,
}

/// How full the catalog is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CatalogUse {
    /// The longest possible checkpoint.
    pub capacity_bytes: u64,
    /// The present length of a checkpoint: names, extents and application records.
    pub used_bytes: u64,
}

impl CatalogUse {
    /// How much longer commits of this kind may make the namespace.
    pub fn free_bytes(&self, kind: CommitKind) -> u64 {
        let eighths = match kind {
            CommitKind::Ordinary => 6,
            CommitKind::Upkeep => 7,
            CommitKind::Recovery => 8,
        };
        (self.capacity_bytes / 8 * eighths).saturating_sub(self.used_bytes)
    }

    /// Whether the catalog is close to the limit of ordinary commits. Work in progress may still be
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
