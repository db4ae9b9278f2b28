//! Checksums and ends of data zones, from the checkpoint and the journal.

use super::format::Sum;
use super::pool::PoolZone;
use imbrex_disk::{Blocks, Pba, ZoneId};
use std::collections::BTreeMap;

/// What recovery knows about stretches without a summary.
#[derive(Debug, Default)]
pub(super) struct JournaledSums {
    pub(super) sums: BTreeMap<Pba, Sum>,
    /// Zones that end in a block that is not there.
    pub(super) broken: BTreeMap<ZoneId, BrokenEnd>,
}

impl JournaledSums {
    /// Whether the drive has the blocks from `at`, and their checksums are known.
    pub(super) fn has(&self, slot: &PoolZone, at: Pba, len: Blocks) -> bool {
        let (start, end) = (slot.index(at), slot.index(at).saturating_add(len.get()));
        let mut unsummed = slot.summed().get().max(start)..end;
        let broken = self.broken.get(&slot.zone).and_then(|broken| broken.block);
        end <= slot.written().get()
            && unsummed.all(|n| self.sums.contains_key(&slot.pba(n)))
            && !broken.is_some_and(|block| at <= block && block < at + len)
    }

    /// Drops the checksums of a zone that was emptied.
    pub(super) fn forget(&mut self, slot: &PoolZone) {
        let inside = self.sums.range(slot.pba(0)..slot.pba(slot.len().get()));
        let inside: Vec<Pba> = inside.map(|(&at, _)| at).collect();
        for at in inside {
            self.sums.remove(&at);
        }
    }

    /// The number of the last block of a zone with a known checksum.
    pub(super) fn last_of(&self, slot: &PoolZone) -> Option<u64> {
        let inside = self.sums.range(slot.pba(0)..slot.pba(slot.len().get()));
        inside.last().map(|(&at, _)| slot.index(at))
    }
}

/// The missing end of a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct BrokenEnd {
    /// The missing data block. `None` if a summary is missing: then the blocks of its stretch
    /// without a known checksum are missing.
    pub(super) block: Option<Pba>,
    /// The power may have gone while it was written. Otherwise it was flushed, and its loss is
    /// damage.
    pub(super) may_be_torn: bool,
}
