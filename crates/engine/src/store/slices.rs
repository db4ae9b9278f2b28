//! Slices: what a flush wrote to the flash drive, where it waits as level 0 until flash is full.
//!
//! ```text
//!   flash    | slice | slice | slice | slice | headroom |      more than that: the policy plans destages
//!                '---- merged into level 1 or the base, on the disk
//!   disk     | runs, base                               |
//! ```
//!
//! Flash is memory with a longer life: updates of one key meet there before either reaches the disk. A flush
//! that finds no room on flash goes to the disk (`imbrex_files::tiers`), where its room was kept all along
//! (R1). So nothing waits for flash, and nothing is refused because flash is full.
//!
//! A flush behind all keys goes to the disk at once. It overlaps nothing, so it becomes base without being
//! written again, which it could not do from flash.
//!
//! Not here: which slices leave flash first (`compaction::policy::lazy`).

use super::Store;
use crate::iter::InternalIter;
use crate::store::view::MemSlot;
use crate::version::Version;
use imbrex_files::{SpaceUse, Tier};

/// Of the flash drive, one part in so many is headroom, for flushes while a destage runs.
const PARTS_PER_HEADROOM: u64 = 9;

/// The headroom holds the tables of a memtable, which are this share longer than it.
const TABLES_PER_EXTRA: u64 = 16;

impl Store {
    /// The drive that should hold the tables of `slot`.
    pub(crate) fn flush_tier(&self, version: &Version, slot: &MemSlot) -> Tier {
        if !self.options.flushes_to_flash || is_behind_all(version, slot) {
            return Tier::Main;
        }
        Tier::Fast
    }

    /// How much the flash drive holds beyond what it should; 0 without slices.
    pub(crate) fn flash_excess_bytes(&self) -> u64 {
        if !self.options.flushes_to_flash {
            return 0;
        }
        let space = self.files.flash_space();
        space.map_or(0, |space| excess_bytes(&space, self.limits.memtable_len_bytes))
    }
}

/// Whether every key of the memtable comes after all keys of the version.
fn is_behind_all(version: &Version, slot: &MemSlot) -> bool {
    let mut entries = slot.mem.iter();
    let is_found = entries.seek_to_first().is_ok() && entries.valid();
    if !is_found || !slot.mem.range_tombstones().is_empty() {
        return false;
    }
    let first = entries.key();
    let mut runs = version.levels.iter().flat_map(|level| &level.runs);
    runs.all(|run| run.tables.last().is_none_or(|table| table.meta.ends_before(first.user_key)))
}

/// What is on flash beyond all of it but the headroom. A drive of few memtables has less than half as
/// headroom.
fn excess_bytes(space: &SpaceUse, memtable_len_bytes: u64) -> u64 {
    let tables_len_bytes = memtable_len_bytes + memtable_len_bytes / TABLES_PER_EXTRA;
    let headroom_bytes = tables_len_bytes.max(space.capacity_bytes / PARTS_PER_HEADROOM);
    let kept_bytes = space.capacity_bytes - headroom_bytes.min(space.capacity_bytes / 2);
    let used_bytes = space.capacity_bytes.saturating_sub(space.free_bytes);
    used_bytes.saturating_sub(kept_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ninth_of_flash_or_a_memtable_is_headroom() {
        let excess = |capacity_bytes, free_bytes, memtable_len_bytes| {
            let space = SpaceUse { capacity_bytes, free_bytes, ..SpaceUse::default() };
            excess_bytes(&space, memtable_len_bytes)
        };
        assert_eq!([excess(900, 101, 16), excess(900, 100, 16), excess(900, 40, 16)], [0, 0, 60]);
        assert_eq!([excess(900, 170, 160), excess(900, 160, 160)], [0, 10], "a memtable is more");
        assert_eq!([excess(900, 450, 4096), excess(900, 0, 4096)], [0, 450], "at most a half");
    }
}
