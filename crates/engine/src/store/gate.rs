//! What holds writes up, a bit each.

/// Something failed: S3.
pub(crate) const POISONED: usize = 1;
/// The store is closed or closing.
pub(crate) const CLOSED: usize = 2;
/// The drive is nearly full.
pub(crate) const LOW_SPACE: usize = 4;
/// Writes go no faster than compaction.
pub(crate) const SLOWDOWN: usize = 8;
/// Writes wait for a flush or for compaction.
pub(crate) const STOP: usize = 16;
/// A view for reading only.
pub(crate) const READ_ONLY: usize = 32;
/// So many files lie on the flash drive that each write is delayed.
pub(crate) const CROWDED: usize = 64;
/// Writes would wait for tables that cannot be read (P5).
pub(crate) const REFUSED: usize = 128;
/// What no write passes, however long it waits.
pub(crate) const ENDS: usize = POISONED | CLOSED | REFUSED;
