//! A cleaning that is running, and its debt for the host's writes.

use super::batch::Batch;
use super::mapping::MapRun;
use imbrex_disk::{Blocks, ZoneId};
use std::collections::{BTreeMap, BTreeSet};

/// How far cleaning is behind the host.
#[derive(Debug, Default)]
pub(super) struct Debt {
    /// Blocks to move.
    pub(super) blocks: u64,
    /// Zones that the cleaning under way has taken for what it moves.
    pub(super) taken_zones: usize,
    /// How much the host writes before cleaning reads again after a failure, and how often reads
    /// failed in a row.
    pub(super) pause: u64,
    pub(super) failed_reads: u32,
}

/// A cleaning that is running.
#[derive(Debug)]
pub(super) struct Cleaning {
    /// The zones with their generations: the host may empty a zone and fill it anew meanwhile.
    pub(super) zones: BTreeMap<ZoneId, u64>,
    /// How much of the zones was valid when they were chosen, and how much was not.
    pub(super) valid: Blocks,
    pub(super) garbage: Blocks,
    /// The valid runs of the zones, by LBA or, where only space counts, in disk order. The run at
    /// `next` is cut to what is left of it.
    pub(super) runs: Vec<MapRun>,
    pub(super) next: usize,
    /// What is read and not yet written, or to be read.
    pub(super) batch: Option<Batch>,
    /// The total length of the batch and of `runs` from `next` on.
    pub(super) left: Blocks,
    /// Those of `zones` that have blocks that cannot be read.
    pub(super) unreadable: BTreeSet<ZoneId>,
}
