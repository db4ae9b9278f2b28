//! Zone per level: each level of the tree fills zones of its own.
//!
//! ```text
//!   level 1   [ zone 4: aaaabb|    ]     tables of one level die together: most zones
//!   level 2   [ zone 5: cccccccccc ]     empty themselves and are reset without a copy
//!   level 2   [ zone 9: cc|        ]
//!   level 2   [ zone 6: dddddddddd|]     a table of more than three quarters has a zone to itself
//! ```
//!
//! A compaction takes the tables that overlap least, wherever they lie. If a table is nearly as
//! long as a zone and straddles two, it keeps parts of both from being reset. Alone in its zone it
//! empties the zone by itself.
//!
//! Cleaning is the fallback, when a write does not fit otherwise. It begins earlier, when little
//! more than the reserve is free, because a store that minds its reserve stops writing at that
//! point. Moved files stay in zones of their level, apart from new ones.
//! Source: GearDB ("each zone only serves tables from one level").

use super::lanes::{self, LanePolicy};
use super::options::PlacementOptions;
use super::policy::{FileRequest, Urgency};
use crate::space::{Lane, SpaceMap};
use imbrex_disk::{BlockRange, Blocks};

pub(super) const NAME: &str = "zone-per-level";

/// Cleaning starts when fewer zones than this are free beyond the reserve: a log and some tables.
const FREE_ZONES_LEAST: u64 = 4;

/// A file longer than this share of a zone begins one, in percent: it leaves less than a quarter
/// over.
const ALONE_PERCENT: u64 = 75;

#[derive(Debug)]
pub(super) struct ZonePerLevel {
    free_percent_least: u8,
}

impl ZonePerLevel {
    pub(super) fn new(options: &PlacementOptions) -> ZonePerLevel {
        ZonePerLevel { free_percent_least: options.free_percent_or(0) }
    }
}

impl LanePolicy for ZonePerLevel {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lane(&self, file: &FileRequest, zone: Blocks) -> Lane {
        let level = u32::from(file.hints.level);
        let is_long = zone.get() * ALONE_PERCENT < file.blocks().get() * 100;
        match (file.is_moved, is_long) {
            (true, _) => Lane::Cold(level),
            (false, true) => Lane::Alone(level),
            (false, false) => Lane::Fresh(level),
        }
    }

    fn plan_reclaim(&self, space: &SpaceMap, urgency: Urgency) -> Option<BlockRange> {
        match urgency {
            Urgency::NoSpace => lanes::greediest(space, Blocks::new(1)),
            Urgency::Background => {
                let zone = space.zone_capacity();
                let enough = space.reserve().get() + FREE_ZONES_LEAST * zone.get();
                let percent = u64::from(self.free_percent_least);
                if enough <= space.free().get() && percent <= lanes::percent_free(space) {
                    return None;
                }
                // Little room is better than none, but a zone that is nearly all live is not worth
                // it.
                lanes::greediest(space, Blocks::new((zone.get() / 8).max(1)))
            }
        }
    }
}
