//! Band per table: each table has a band, which is a zone, for itself.
//!
//! ```text
//!   zone 4 [ table 17 ......|  ]   zone 5 [ table 18 .......| ]   zone 6 [ log .. >     ]
//!   table 17 is removed: zone 4 is reset as a whole, nothing is ever moved
//! ```
//!
//! Tables are made as long as a zone, so little is lost. The part of a zone that a table leaves
//! over stays unused while the table lives. A longer table takes as many zones as it needs. A log
//! takes whole zones, one after the other. Conventional zones are few: logs take them first, tables
//! last.
//!
//! Source: SMRDB (thesis, chapter 3): one table in each band, bands of 40 to 80 MB.

use super::lanes;
use super::policy::{FileRequest, Placement, Planned};
use crate::extent::fill;
use crate::hints::{FileKind, Hints};
use crate::room::CommitKind;
use crate::space::{Claim, NoSpace, SpaceMap, ZoneSpace};
use imbrex_disk::ZoneKind::{Conventional, SequentialRequired};
use imbrex_disk::{BlockRange, Blocks, Geometry};

pub(super) const NAME: &str = "band-per-table";

/// Half for live data, half for concurrent writes.
const ZONES_NEEDED: usize = 8;

/// The last zones, reserved for logs.
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
        // A zone is finished as soon as its table is written. The drive's limit on active zones
        // therefore counts only zones that are being written, however many tables a plan has. A
        // write waits for its slot.
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
                // A zone that is begun is used up: its whole capacity must be free, not only the
                // part that is written.
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
        let allowed = space.has_slot_for_log();
        let sequential = || space.empty_zones(SequentialRequired).next().filter(|_| allowed);
        match space.empty_zones(Conventional).next().or_else(sequential).map(rest) {
            Some(range) if range.len <= free => Ok(vec![range]),
            Some(range) => Err(NoSpace { needed: range.len, free }),
            // No slot: the free zones cannot be begun.
            None => Err(NoSpace { needed: Blocks::new(1), free: Blocks::ZERO }),
        }
    }
}

/// The space that a file may use. This policy cleans nothing, so the reserve for cleaning goes to
/// writes that cannot wait. Opening a store needs tables of level 0 that replace its logs, and
/// begins no log. A delete needs a log first of all.
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
