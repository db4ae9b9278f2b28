//! Band per table: a table has its band, which is a zone, for itself.
//!
//! ```text
//!   zone 4 [ table 17 ......|  ]   zone 5 [ table 18 .......| ]   zone 6 [ log .. >     ]
//!   table 17 is removed: zone 4 is reset as a whole, nothing is ever moved
//! ```
//!
//! Tables are made as long as a zone, so that little is lost; what a table leaves of its zone stays
//! unused as long as it lives. A longer table takes as many zones as it needs, a log whole zones, one
//! after the other. Conventional zones are few: logs take them first, tables last.
//!
//! Source: SMRDB (thesis, chapter 3): one table a band, bands of 40 to 80 MB.

use super::lanes;
use super::policy::{FileRequest, Placement, Planned};
use crate::extent::fill;
use crate::hints::{FileKind, Hints};
use crate::room::CommitKind;
use crate::space::{Claim, NoSpace, SpaceMap, ZoneSpace};
use imbrex_disk::ZoneKind::{Conventional, SequentialRequired};
use imbrex_disk::{BlockRange, Blocks, Geometry};

pub(super) const NAME: &str = "band-per-table";

/// Half for what lives, half for what is written meanwhile.
const ZONES_NEEDED: usize = 8;

/// So many of the last zones take logs only.
const ZONES_FOR_LOGS: u64 = 2;

#[derive(Debug)]
pub(super) struct BandPerTable;

impl Placement for BandPerTable {
    fn name(&self) -> &'static str {
        NAME
    }

    fn suits(&self, geometry: &Geometry) -> Result<(), String> {
        lanes::suits(geometry)
    }

    fn reads(&self, geometry: &Geometry) -> Result<(), String> {
        lanes::reads(geometry)
    }

    fn zones_needed(&self) -> usize {
        ZONES_NEEDED
    }

    fn keeps_files_apart(&self) -> bool {
        true
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace> {
        // A zone is finished as soon as its table is written, so that the drive's limit on active
        // zones counts those being written only, however many tables a plan has; a write waits for its
        // place among them.
        let sequential = space.empty_zones(SequentialRequired);
        let mut zones = sequential.chain(space.empty_zones(Conventional));
        let mut taken = Blocks::ZERO;
        let mut plan = Vec::with_capacity(files.len());
        for file in files {
            let mut left = file.blocks();
            let mut ranges = Vec::new();
            while !left.is_zero() {
                let free = free_for(space, &file.hints);
                let needed = taken + left;
                let zone = zones.next().ok_or(NoSpace { needed, free })?;
                // A zone that is begun is used up: that much must be free, not just what is written.
                taken += zone.capacity;
                if free < taken {
                    return Err(NoSpace { needed: needed.max(taken), free });
                }
                let range = BlockRange::new(zone.next, zone.room().min(left));
                left -= range.len;
                ranges.push(range);
            }
            plan.push(Planned::alone(fill(&ranges, file.len_bytes)));
        }
        Ok(plan)
    }

    fn plan_log_pieces(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        _owned: Blocks,
    ) -> Result<Vec<BlockRange>, NoSpace> {
        let free = free_for(space, hints);
        let rest = |zone: &ZoneSpace| BlockRange::new(zone.next, zone.room());
        let allowed = space.has_place_for_log();
        let sequential = || space.empty_zones(SequentialRequired).next().filter(|_| allowed);
        match space.empty_zones(Conventional).next().or_else(sequential).map(rest) {
            Some(range) if range.len <= free => Ok(vec![range]),
            Some(range) => Err(NoSpace { needed: range.len, free }),
            // No place: what is free cannot be begun.
            None => Err(NoSpace { needed: Blocks::new(1), free: Blocks::ZERO }),
        }
    }
}

/// What a file may use. Nothing is cleaned, so that what cleaning would keep goes to those who cannot
/// wait: a store is opened only with tables of level 0 in its logs' place, which begins no log, and a
/// delete needs a log before all.
fn free_for(space: &SpaceMap, hints: &Hints) -> Blocks {
    match (hints.purpose, hints.kind, hints.level) {
        (CommitKind::Ordinary, ..) => space.free_for(Claim::Normal),
        (CommitKind::Recovery, ..) | (_, FileKind::Log, _) => space.free_for(Claim::Cleaning),
        (CommitKind::Upkeep, _, 0) => {
            let for_logs = Blocks::new(ZONES_FOR_LOGS * space.zone_capacity().get());
            space.free_for(Claim::Cleaning).saturating_sub(for_logs)
        }
        (CommitKind::Upkeep, ..) => space.free_for(Claim::Reserve),
    }
}
