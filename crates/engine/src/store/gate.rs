//! The gate before writes, with one bit for each reason to stall or refuse.
//!
//! A writer *stalls*: it waits. A write is *refused*: it gets an error. A background job is
//! *blocked*: it cannot run until there is space, or until the tables that cannot be read are gone.

/// Something failed, and it is unknown which writes are durable (S3).
pub(crate) const POISONED: usize = 1;
/// The store is closed or closing.
pub(crate) const CLOSED: usize = 2;
/// The drive or its catalog is nearly full: puts are refused, deletes may stall for room.
pub(crate) const PUTS_REFUSED: usize = 4;
/// Writers stall: they go no faster than compaction.
pub(crate) const SLOWDOWN: usize = 8;
/// Writers stall until a flush or a compaction has ended.
pub(crate) const STOP: usize = 16;
/// The handle is open for reading only.
pub(crate) const READ_ONLY: usize = 32;
/// The flash drive holds so many files that each writer stalls for a while.
pub(crate) const FLASH_CROWDED: usize = 64;
/// Writers would stall for tables that cannot be read (P5), so puts and deletes are refused.
pub(crate) const WRITES_REFUSED: usize = 128;
/// The reasons that no write can wait out.
pub(crate) const ENDS: usize = POISONED | CLOSED | WRITES_REFUSED;
