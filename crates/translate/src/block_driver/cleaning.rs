//! A cleaning under way, and what it owes the host's writes.

use imbrex_disk::{BlockRange, Blocks, ZoneId};
use std::collections::{BTreeMap, BTreeSet};

/// How far cleaning is behind the host.
#[derive(Debug, Default)]
pub(super) struct Debt {
    /// Blocks to move.
    pub(super) blocks: u64,
    /// Zones that the cleaning under way has taken for what it moves.
    pub(super) taken_zones: usize,
    /// What the host has yet to write before reading for cleaning is tried again, and how often it failed.
    pub(super) pause: u64,
    pub(super) failed_reads: u32,
}

/// A cleaning under way.
#[derive(Debug)]
pub(super) struct Cleaning {
    /// And which of their lives was chosen: the host may empty one and fill it anew meanwhile.
    pub(super) zones: BTreeMap<ZoneId, u64>,
    /// What was valid in them when they were chosen, and what not.
    pub(super) valid: Blocks,
    pub(super) garbage: Blocks,
    /// What was valid in them, by LBA or, where only space counts, as it lies; of the next one, what is left.
    pub(super) runs: Vec<BlockRange>,
    pub(super) next: usize,
    /// What `runs` come to from `next` on.
    pub(super) left: Blocks,
    /// Of `zones`, those with blocks that cannot be read.
    pub(super) unreadable: BTreeSet<ZoneId>,
}
