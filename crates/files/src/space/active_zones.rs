//! Active zones: how many may be active at a time, which writers may begin one, and which one is
//! finished to free its slot.
//!
//! ```text
//!   a limit of 3    log w1 [ ...>     ]   log w2 [ ..>      ]   L1 [ ........|  ]
//!   a table of L1 continues there:                              L1 [ ........|xx]  full: its slot is free
//!                                                               L1 [ xxxx|      ]  takes the slot
//! ```
//!
//! The drive counts a zone from its first write to its last block. A plan also counts the zones
//! that it takes, though nothing is written there yet. Otherwise two plans could both begin the
//! last zone allowed.
//!
//! Invariants
//!   A1  A plan or a log that begins a zone while all slots are taken has itself filled another
//!       zone before: the drive never counts more zones than its limit, and no writer waits.

use super::{Claim, Lane, SpaceMap, ZoneRole, ZoneSpace};
use imbrex_disk::{BlockRange, Blocks, ZoneId, ZoneKind, ZoneSpec};

/// How many zones should be left to begin, because several compactions write at a time.
const ACTIVE_ZONES_SPARE: usize = 16;

/// How many zones the drive allows to be active, including the catalog's. A zone that is being
/// written is also open, so the lower limit counts.
pub(crate) fn slot_count(zones: &ZoneSpec) -> Option<u32> {
    match (zones.open_zone_limit, zones.active_zone_limit) {
        (Some(open), Some(active)) => Some(open.min(active)),
        (open, active) => open.or(active),
    }
}

impl SpaceMap {
    fn active_zones(&self) -> impl Iterator<Item = &ZoneSpace> {
        self.active.iter().map(|&id| &self.zones[id as usize])
    }

    /// How many more zones may be begun before the drive's limit on active zones is reached. A zone
    /// that a log fills before it begins the next one does not count; the next one does.
    pub fn zones_to_begin(&self) -> u32 {
        let counts = |zone: &&ZoneSpace| !(zone.owned && zone.filling);
        let left =
            |budget: u32| budget.saturating_sub(self.active_zones().filter(counts).count() as u32);
        self.active_zone_budget.map_or(u32::MAX, left)
    }

    /// Whether a log that continues at `range` begins a zone there that the drive counts.
    pub(crate) fn takes_slot(&self, range: BlockRange) -> bool {
        self.zone_at(range.start).is_some_and(|zone| {
            zone.kind == ZoneKind::SequentialRequired && zone.start == range.start
        })
    }

    /// Whether there are `needed` blocks for `claim` but no slot in which to write them.
    pub(crate) fn lacks_slot(&self, needed: Blocks, claim: Claim) -> bool {
        self.grain.is_zero() && self.zones_to_begin() == 0 && needed <= self.free_for(claim)
    }

    /// Whether a slot becomes free without the caller's help: a zone is being filled.
    pub(crate) fn is_filling(&self) -> bool {
        self.active_zones().any(ZoneSpace::is_being_filled)
    }

    /// Whether a log may begin another zone where files share none. The log keeps the zone active
    /// for long, and tables need a slot besides.
    pub fn has_slot_for_log(&self) -> bool {
        let kept = self.active_zones().filter(|zone| zone.keeps_its_slot());
        self.active_zone_budget.is_none_or(|budget| kept.count() + 2 <= budget as usize)
    }

    /// Whether a write that begins the zone of `range` keeps within the drive's limit on active
    /// zones. Only where files share no zone; elsewhere plans ensure it (A1).
    pub(crate) fn has_slot_for(&self, range: BlockRange) -> bool {
        let (Some(budget), false) = (self.active_zone_budget, self.grain.is_zero()) else {
            return true;
        };
        let Some(zone) = self.zone_at(range.start) else { return true };
        let is_taken =
            |other: &&ZoneSpace| other.id != zone.id && (other.owned || other.is_counted());
        let others = self.active_zones().filter(is_taken);
        zone.kind == ZoneKind::Conventional || zone.begun || others.count() < budget as usize
    }

    /// Whether a slot becomes free without the caller's help, where files share no zone: another
    /// writer ends a zone.
    pub(crate) fn will_have_slot(&self) -> bool {
        self.active_zones().any(ZoneSpace::is_being_written) || self.is_finishing()
    }

    /// Whether a zone is being finished.
    pub(crate) fn is_finishing(&self) -> bool {
        self.active_zones().any(|zone| zone.finishing)
    }

    /// Records that the zone of `range` is about to be written.
    pub(crate) fn begin_zone(&mut self, range: BlockRange) {
        if self.zone_at(range.start).is_some_and(|zone| !zone.begun) {
            self.change(range.start, |zone| zone.begun = true);
        }
    }

    /// The zone to finish because the active zones have reached the drive's limit, or nearly. The
    /// first choice is a sealed zone, which takes no more anyway, or one whose file is alone in it.
    /// Beyond the limit it is any zone: a power cut undoes writes that were not flushed, so zones
    /// that were full become partly written again.
    pub(crate) fn zone_to_finish(&self) -> Option<ZoneId> {
        let budget = self.active_zone_budget? as usize;
        let is_quiet = |zone: &&ZoneSpace| zone.written == zone.next && zone.start < zone.next;
        if budget < self.active.len() + ACTIVE_ZONES_SPARE {
            let is_done = |zone: &&ZoneSpace| {
                zone.role == ZoneRole::Data
                    && (zone.sealed || zone.lane.is_some_and(Lane::is_alone))
                    && !(zone.owned || zone.finishing || zone.failed)
            };
            if let Some(zone) = self.active_zones().filter(is_quiet).find(is_done) {
                return Some(zone.id);
            }
        }
        // A zone that is only planned is begun when another zone is full (A1).
        let counted = |zone: &&ZoneSpace| zone.is_counted() && !zone.finishing;
        if self.active_zones().filter(counted).count() <= budget {
            return None;
        }
        let quiet = self.active_zones().filter(|zone| zone.takes_more()).filter(is_quiet);
        quiet.min_by_key(|zone| zone.room()).map(|zone| zone.id)
    }

    /// Takes the zone of [`SpaceMap::zone_to_finish`] out of use until [`SpaceMap::was_finished`]
    /// or [`SpaceMap::give_up`]. A late finish would otherwise end writes that were begun there
    /// since.
    pub(crate) fn begin_finish(&mut self) -> Option<ZoneId> {
        let zone = self.zone_to_finish()?;
        let start = self.zones[zone.0 as usize].start;
        self.change(start, |zone| zone.finishing = true);
        Some(zone)
    }

    /// Records that the zone takes no more writes.
    pub(crate) fn was_finished(&mut self, zone: ZoneId) {
        let start = self.zones[zone.0 as usize].start;
        self.change(start, |zone| {
            zone.finishing = false;
            zone.next = zone.end();
            zone.written = zone.end();
        });
    }
}
