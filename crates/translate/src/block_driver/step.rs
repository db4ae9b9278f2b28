//! How much is read, moved or cleaned at a time, in blocks.

/// How much is read at a time.
pub(super) const READ_LEN: u64 = 1024;

/// The most that one step of work moves: 4 MiB, some 30 ms of a disk. Cleaning for a long write
/// takes longer steps.
pub(super) const STEP_LEN: u64 = 1024;
/// The most that cleaning reads before it writes: on a disk, moving between the two places takes as
/// long as transferring some MiB.
pub(super) const CLEAN_STEP_LEN_MAX: u64 = 4 * STEP_LEN;
/// The most that cleaning reads while another request waits: 1 MiB, which takes a disk little longer
/// than finding it.
pub(super) const WAITED_STEP_LEN: u64 = STEP_LEN / 4;
