//! How much is read, moved or cleaned at a time, in blocks.

/// How much is read at a time.
pub(super) const READ_LEN: u64 = 1024;

/// What one step of work moves at most: 4 MiB, some 30 ms of a disk. Cleaning that a write pays for takes longer ones.
pub(super) const STEP_LEN: u64 = 1024;
/// What cleaning reads and then writes at a time: on a disk the way from one to the other takes as long as
/// some MiB.
pub(super) const CLEAN_STEP_LEN_MAX: u64 = 4 * STEP_LEN;
