//! Zone per stream: each level of each stream fills zones of its own.
//!
//! ```text
//!   level 0, stream 7   [ zone 4: aaabb|   ]     files of one level and stream die together, and in the
//!   level 0, stream 9   [ zone 5: cc|      ]     order in which they were written: zones empty themselves
//!   level 6, stream 0   [ zone 6: dddddddd ]
//! ```
//!
//! A writer that works on one key range at a time gives each range a stream. What it gives up together
//! is then in zones without anything else. A long file begins no zone: the files of a stream die one
//! after another, so a zone that two of them share is dead soon after the first.
//!
//! Each lane leaves half a zone unused on average, so there should be several zones for each stream.
//! If none may be begun, a file goes to a zone of its level.
//!
//! Cleaning is the fallback, when a write does not fit otherwise. In the background only a zone that is
//! mostly dead is cleaned, when little more than the reserve is free: the writer's own work gives back
//! more for less.
//!
//! Source: ours, after `zone-per-level`.

use super::lanes::{self, LanePolicy};
use super::options::PlacementOptions;
use super::policy::{FileRequest, Urgency};
use crate::space::{Lane, SpaceMap};
use imbrex_disk::{BlockRange, Blocks};

pub(super) const NAME: &str = "zone-per-stream";

/// Cleaning starts when fewer zones than this are free beyond the reserve.
const FREE_ZONES_LEAST: u64 = 2;

/// The bits of a lane's number that hold the stream. Those above hold the level.
const STREAM_BITS: u32 = 28;
const LEVEL_MAX: u32 = (1 << (u32::BITS - STREAM_BITS)) - 1;

#[derive(Debug)]
pub(super) struct ZonePerStream {
    free_percent_least: u8,
}

impl ZonePerStream {
    pub(super) fn new(options: &PlacementOptions) -> ZonePerStream {
        ZonePerStream { free_percent_least: options.free_percent_or(0) }
    }
}

/// The number of the lane: the nearest lane is one of the same level.
fn number(file: &FileRequest) -> u32 {
    let level = u32::from(file.hints.level).min(LEVEL_MAX);
    level << STREAM_BITS | file.hints.stream & ((1 << STREAM_BITS) - 1)
}

impl LanePolicy for ZonePerStream {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lane(&self, file: &FileRequest, _zone: Blocks) -> Lane {
        if file.is_moved { Lane::Cold(number(file)) } else { Lane::Fresh(number(file)) }
    }

    fn is_by_position(&self) -> bool {
        true
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
                lanes::greediest(space, Blocks::new((zone.get() / 2).max(1)))
            }
        }
    }
}
