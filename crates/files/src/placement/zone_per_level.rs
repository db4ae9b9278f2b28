//! Zone per level: each level of the tree fills zones of its own.
//!
//! ```text
//!   level 1   [ zone 4: aaaabb|    ]     tables of one level die together: most zones
//!   level 2   [ zone 5: cccccccccc ]     empty themselves and are reset without a copy
//!   level 2   [ zone 9: cc|        ]
//! ```
//!
//! Cleaning is the fallback: only when a write does not fit otherwise. What it moves stays in zones
//! of its level, apart from fresh files.
//! Source: GearDB ("each zone only serves tables from one level").

use super::{FileRequest, Placement, Urgency, lanes};
use crate::api::Hints;
use crate::extent::Extent;
use crate::space::{Lane, NoSpace, SpaceMap};
use imbrex_disk::{BlockRange, Blocks, Geometry};

pub(super) const NAME: &str = "zone-per-level";

#[derive(Debug)]
pub(super) struct ZonePerLevel;

impl Placement for ZonePerLevel {
    fn name(&self) -> &'static str {
        NAME
    }

    fn suits(&self, geometry: &Geometry) -> Result<(), String> {
        lanes::suits(geometry)
    }

    fn lane(&self, file: &FileRequest) -> Lane {
        let level = u32::from(file.hints.level);
        if file.is_moved { Lane::Cold(level) } else { Lane::Fresh(level) }
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
            Urgency::Background => None,
            Urgency::NoSpace => lanes::greediest(space, Blocks::new(1)),
        }
    }
}
