//! One log over all zones, with greedy cleaning when less than 20 % of the space is free.
//!
//! ```text
//!   zone 3: a b c d | zone 4: e f g .      every table goes to the end, whatever its level
//!   cleaning: the zone with most dead blocks; what lives moves to a zone of cold data
//! ```
//!
//! Source: the baseline of GearDB (LevelDB over one log of zones, greedy cleaning below 20 % free).

use super::{FileRequest, Placement, Urgency, lanes};
use crate::api::Hints;
use crate::extent::Extent;
use crate::space::{Lane, NoSpace, SpaceMap};
use imbrex_disk::{BlockRange, Blocks, Geometry};

pub(super) const NAME: &str = "log-structured";

/// Cleaning starts below this share of free space, in percent. Source: GearDB's evaluation setup.
const FREE_PERCENT_LEAST: u64 = 20;

/// In the background a zone is worth moving only if this share of it is dead, in percent: below,
/// the same blocks would be moved over and over for nothing.
const DEAD_PERCENT_LEAST: u64 = 5;

#[derive(Debug)]
pub(super) struct LogStructured;

impl Placement for LogStructured {
    fn name(&self) -> &'static str {
        NAME
    }

    fn suits(&self, geometry: &Geometry) -> Result<(), String> {
        lanes::suits(geometry)
    }

    fn lane(&self, file: &FileRequest) -> Lane {
        if file.is_moved { Lane::Cold(0) } else { Lane::Fresh(0) }
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Vec<Extent>>, NoSpace> {
        lanes::plan(space, files, &|file| self.lane(file))
    }

    fn plan_log(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        _owned: Blocks,
    ) -> Result<BlockRange, NoSpace> {
        lanes::plan_log(space, hints)
    }

    fn plan_reclaim(&self, space: &SpaceMap, urgency: Urgency) -> Option<BlockRange> {
        match urgency {
            Urgency::NoSpace => lanes::greediest(space, Blocks::new(1)),
            Urgency::Background => {
                let enough = space.capacity().get() * FREE_PERCENT_LEAST / 100;
                if enough <= space.free().get() {
                    return None;
                }
                let zone = space.zones().iter().map(|z| z.capacity).max()?;
                lanes::greediest(space, Blocks::new((zone.get() * DEAD_PERCENT_LEAST / 100).max(1)))
            }
        }
    }
}
