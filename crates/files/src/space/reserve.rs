//! The reserve, and how much of it only some writers may take, where a policy or a second drive decides that.
//!
//! ```text
//!   free   |  everyone  |  compactions  |  kept: cleaning, or logs  |
//!                       '---------- the reserve ---------------------'
//! ```

use super::SpaceMap;
use imbrex_disk::Blocks;

/// The reserve in zones, where files share no zone; a fifth of it is for logs alone. The engine
/// counts in zones how much of the rest its memtables and compactions may take.
const APART_ZONES_RESERVED: u64 = 10;
const APART_FLOOR_PERCENT: u64 = 20;

/// The mean number of tables in a set; a half-dead set has fewer live ones. Source: SEALDB, figure
/// 10 (27.48 MB, of tables of 4 MB).
const SET_UNITS_KEPT: u64 = 7;

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
    /// reserve.
    pub(crate) fn keep_room_for_sets(&mut self) {
        let wanted = Blocks::new(SET_UNITS_KEPT * self.runs().class_len().get());
        self.cleaning_floor = wanted.min(Blocks::new(self.reserve.get() / 2));
    }

    /// Keeps no top tracks for logs: the drive has a flash drive beside it, and they are there. A log for
    /// which flash has no room takes top tracks that are free, or waits for them.
    pub(crate) fn leave_logs_to_flash(&mut self) {
        self.cleaning_floor = Blocks::ZERO;
    }
}
