//! How much of a drive and of its catalog writes and compactions may take.

use crate::key::Kind;
use imbrex_files::SpaceUse;

/// Keys longer than this are counted one by one, because tables are named by their keys.
pub(crate) const LONG_KEY_LEN_BYTES: usize = 256;

/// How much was free when a background write failed for want of space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FullAt {
    pub(super) free_bytes: u64,
    pub(super) catalog_used_bytes: u64,
}

impl FullAt {
    /// Whether there is more now.
    pub(super) fn is_over(&self, space: &SpaceUse) -> bool {
        self.free_bytes < space.free_bytes || space.catalog.used_bytes < self.catalog_used_bytes
    }
}

/// What there was when a compaction was last found to have no room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TightAt {
    pub(super) free_bytes: u64,
    /// What is dead is no more free until it is cleaned, but it may be.
    pub(super) live_bytes: u64,
}

/// The keys of an operation that are counted one by one; a range delete has two.
pub(crate) fn long_key_len_bytes(kind: Kind, key: &[u8], value: &[u8]) -> u64 {
    let end: &[u8] = if kind == Kind::RangeDelete { value } else { &[] };
    let len_bytes = |key: &[u8]| if key.len() > LONG_KEY_LEN_BYTES { key.len() as u64 } else { 0 };
    len_bytes(key) + len_bytes(end)
}
