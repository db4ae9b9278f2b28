//! The reserve, and how much of it only some writers may take, where a policy or a second drive decides that.
//!
//! ```text
//!   free   |  everyone  |  compactions  |  kept: cleaning, or logs  |
//!                       '---------- the reserve ---------------------'
//! ```

use super::emptying::GUARDS_PER_ISLAND;
use super::{Claim, SpaceMap};
use imbrex_disk::Blocks;

/// The reserve in zones, where files share no zone; a fifth of it is for logs alone. The engine
/// counts in zones how much of the rest its memtables and compactions may take.
const APART_ZONES_RESERVED: u64 = 10;
const APART_FLOOR_PERCENT: u64 = 20;

/// The mean number of tables in a set; a half-dead set has fewer live ones. Source: SEALDB, figure
/// 10 (27.48 MB, of tables of 4 MB).
const SET_UNITS_KEPT: u64 = 7;

/// So many guards, or this part of the drive, are kept for moving islands together.
const GUARDS_KEPT: u64 = 8;
const CAPACITY_PER_KEPT: u64 = 32;

/// Of what is kept for cleaning, this part is not lent.
const FLOOR_PARTS_KEPT: u64 = 4;

impl SpaceMap {
    /// Makes the reserve coarse enough for a policy that gives every file zones of its own.
    /// Compaction uses some of it, and leaves the rest to logs and to the tables that replace them.
    pub(crate) fn reserve_whole_zones(&mut self) {
        let zone = self.zone_capacity;
        self.grain = zone;
        let wanted = Blocks::new((APART_ZONES_RESERVED * zone.get()).min(self.capacity.get() / 4));
        self.reserve = self.reserve.max(wanted);
        self.cleaning_floor = Blocks::new(self.reserve.get() * APART_FLOOR_PERCENT / 100);
    }

    /// Keeps some of the reserve for moving the live members of a set: seven tables, or half of the
    /// reserve. Where guards separate what is written, it keeps the length of eight guards more, or a part of
    /// the drive: islands of that length are moved at once, and longer ones in pieces.
    ///
    /// The caller has taken nothing yet.
    pub(crate) fn keep_room_for_sets(&mut self) {
        let wanted = Blocks::new(SET_UNITS_KEPT * self.runs().class_len().get());
        self.cleaning_floor = wanted.min(Blocks::new(self.reserve.get() / 2));
        let guards = GUARDS_KEPT * self.runs().guard_len().get();
        let more = Blocks::new(guards.min(self.capacity.get() / CAPACITY_PER_KEPT));
        self.cleaning_floor += more;
        self.reserve += more;
        let len_max = Blocks::new(GUARDS_PER_ISLAND * self.runs().guard_len().get());
        if let Some(unzoned) = &mut self.unzoned {
            unzoned.runs.count_islands_up_to(len_max);
        }
    }

    /// Whether what is kept for cleaning may go to `needed` blocks of other writes: a part stays, with which a
    /// first island moves (K5 of `emptying`).
    pub(crate) fn lends(&self, needed: Blocks) -> bool {
        needed + self.kept_when_lent() <= self.free()
    }

    /// What other writes may use once all is cleaned, and what is kept for it is lent.
    pub(crate) fn lent_once_clean(&self) -> Blocks {
        self.free_once_clean(Claim::Cleaning).saturating_sub(self.kept_when_lent())
    }

    fn kept_when_lent(&self) -> Blocks {
        Blocks::new(self.cleaning_floor.get() / FLOOR_PARTS_KEPT)
    }

    /// Keeps no top tracks for logs: the drive has a flash drive beside it, and they are there. A log for
    /// which flash has no room takes top tracks that are free, or waits for them.
    pub(crate) fn leave_logs_to_flash(&mut self) {
        self.cleaning_floor = Blocks::ZERO;
    }
}
