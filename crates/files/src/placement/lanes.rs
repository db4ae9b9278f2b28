//! Lanes: placement in zones, where the files of a lane fill one open zone after another.
//!
//! ```text
//!   lane L1   [ zone 4: aaaabbbbcc|      ]      cc spills into the next empty zone when full
//!   lane L2   [ zone 7: dddd|            ]
//!   alone L2  [ zone 8: eeeeeeeeeeeeee|  ]      its rest is a last resort, or is given up for a slot
//!   lane Log  [ zone 2: wal |            ]      an open log keeps its zone for itself
//! ```
//!
//! A file goes to its lane's open zone. The part that does not fit goes to an empty zone, which
//! becomes the lane's. A file that is long compared to a zone begins one, and nothing follows it
//! there: if it straddled two zones, neither could be reset before its neighbours are dead.
//!
//! If no empty zone is left, or the drive's limit on active zones forbids another, a file goes into
//! the zones of other lanes: those of near lanes first, those of logs last. A plan that fills a
//! zone may begin another one in its slot (A1 of `space::active_zones`). The last spare zone
//! belongs to cleaning (S5 of `space`).
//!
//! Conventional zones are few and can be rewritten: logs take them first, tables last.

use super::policy::{FileRequest, Placement, Planned, Urgency, admit};
use crate::extent::fill;
use crate::hints::{Hints, position_in};
use crate::region::{Region, regions};
use crate::space::{Lane, NoSpace, SpaceMap, ZoneSpace, slot_count};
use imbrex_disk::ZoneKind::{self, Conventional, SequentialRequired};
use imbrex_disk::{BlockRange, Blocks, Geometry, Lba, Rule};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// How many active zones must remain besides those of the catalog: for a log, its successor, and a
/// table.
const ACTIVE_ZONES_LEAST: u32 = 3;

/// A policy that fills zones by lanes. It chooses the lane of each file, and the zone to clean.
pub(super) trait LanePolicy: Send + Sync + Debug {
    /// See [`Placement::name`].
    fn name(&self) -> &'static str;

    /// See [`Placement::lane`].
    fn lane(&self, file: &FileRequest, zone: Blocks) -> Lane;

    /// Whether a lane continues near the position of its files, in the part of the drive that is used. Otherwise
    /// it continues in the empty zone with the lowest address.
    fn is_by_position(&self) -> bool {
        false
    }

    /// See [`Placement::plan_reclaim`].
    fn plan_reclaim(&self, space: &SpaceMap, urgency: Urgency) -> Option<BlockRange>;
}

/// The placement that a [`LanePolicy`] makes.
#[derive(Debug)]
pub(super) struct InLanes<P>(pub(super) P);

impl<P: LanePolicy> Placement for InLanes<P> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn suits(&self, geometry: &Geometry) -> Result<(), String> {
        suits(geometry)
    }

    fn reads(&self, geometry: &Geometry) -> Result<(), String> {
        reads(geometry)
    }

    fn lane(&self, file: &FileRequest, zone: Blocks) -> Lane {
        self.0.lane(file, zone)
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace> {
        plan(space, files, self.0.is_by_position(), &|file| {
            self.0.lane(file, space.zone_capacity())
        })
    }

    fn plan_log_pieces(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        _owned: Blocks,
    ) -> Result<Vec<BlockRange>, NoSpace> {
        plan_log(space, hints).map(|run| vec![run])
    }

    fn plan_reclaim(&self, space: &SpaceMap, urgency: Urgency) -> Option<BlockRange> {
        self.0.plan_reclaim(space, urgency)
    }
}

/// Whether a policy of lanes suits the disk.
pub(super) fn suits(geometry: &Geometry) -> Result<(), String> {
    reads(geometry)?;
    let catalog_zones = |regions: [Region; 2]| regions.iter().map(|r| r.zones().len()).sum();
    let catalog_zones: usize = regions(geometry).map_or(0, catalog_zones);
    let least = ACTIVE_ZONES_LEAST + catalog_zones as u32;
    match geometry.zones().and_then(slot_count) {
        Some(limit) if limit < least => {
            Err(format!("it allows {limit} active zones; at least {least} are needed"))
        }
        _ => Ok(()),
    }
}

/// Whether such a policy can have written the disk.
pub(super) fn reads(geometry: &Geometry) -> Result<(), String> {
    match geometry.rule() {
        Rule::AtPointer(_) => Ok(()),
        other => {
            let instead = match other {
                Rule::IsolationDistance(_) => "dynamic-bands",
                Rule::Neighbours(_) => "track-tiers",
                _ => "first-fit",
            };
            Err(format!("the drive is {} and has no zones; use {instead}", other.name()))
        }
    }
}

/// Plans `files`, each in the lane that `lane_of` gives it.
fn plan(
    space: &SpaceMap,
    files: &[FileRequest],
    is_by_position: bool,
    lane_of: &dyn Fn(&FileRequest) -> Lane,
) -> Result<Vec<Planned>, NoSpace> {
    admit(space, files)?;
    let mut draft = LaneDraft::new(space, is_by_position);
    files
        .iter()
        .map(|file| {
            let ranges = draft.place(file, lane_of).map_err(|found| {
                // The remaining free space is in zones that must not be begun.
                NoSpace { needed: file.blocks(), free: found }
            })?;
            Ok(Planned::alone(fill(&ranges, file.len_bytes)))
        })
        .collect()
}

/// Chooses the rest of a zone for a log: one that earlier logs began, or else an empty one. Either
/// must be no longer than the log may use.
fn plan_log(space: &SpaceMap, hints: &Hints) -> Result<BlockRange, NoSpace> {
    let claim = FileRequest { len_bytes: 1, hints: *hints, is_moved: false }.claim();
    let free = space.free_for(claim);
    let rest = |zone: &ZoneSpace| BlockRange::new(zone.next, zone.room());
    let open = || space.partial_zones().filter(|zone| !zone.holds_copies());
    let begun = || open().filter(|zone| zone.lane == Some(Lane::Log)).map(rest);
    let empty = |kind| space.empty_zones(kind).find(|zone| space.leaves_a_spare(zone, 0));
    let fresh = || {
        let sequential = empty(SequentialRequired).filter(|_| space.zones_to_begin() > 0);
        empty(Conventional).into_iter().chain(sequential).map(rest)
    };
    let fits = |range: &BlockRange| range.len <= free;
    // A log after tables is better than no log, because nothing can be deleted without one.
    let any = || open().map(rest).filter(fits).max_by_key(|range| range.len);
    begun().chain(fresh()).find(fits).or_else(any).ok_or_else(|| {
        let least = open().map(rest).chain(fresh()).map(|range| range.len).min();
        least.map_or(NoSpace { needed: Blocks::new(1), free: Blocks::ZERO }, |needed| NoSpace {
            needed,
            free,
        })
    })
}

/// The share of the space that is free, in percent, rounded down.
pub(super) fn percent_free(space: &SpaceMap) -> u64 {
    space.free().get() * 100 / space.capacity().get().max(1)
}

/// Whether a zone can be cleaned, gains that many blocks, and has live data that fit elsewhere.
pub(super) fn is_worth(space: &SpaceMap, zone: &ZoneSpace, dead_at_least: Blocks) -> bool {
    let fits = || zone.held + zone.free() <= space.free();
    zone.is_cleanable() && dead_at_least <= zone.dead() && fits()
}

/// The zone with the most dead blocks, whose live blocks would be moved.
///
/// Ties go to the lower zone. Source: greedy cleaning, as the baseline of GearDB uses it.
pub(super) fn greediest(space: &SpaceMap, dead_at_least: Blocks) -> Option<BlockRange> {
    space
        .zones()
        .iter()
        .filter(|zone| is_worth(space, zone, dead_at_least))
        .max_by_key(|zone| (zone.dead(), std::cmp::Reverse(zone.id)))
        .map(|zone| BlockRange::new(zone.start, zone.capacity))
}

/// What a plan has taken so far, over a map that it must not change.
struct LaneDraft<'a> {
    space: &'a SpaceMap,
    is_by_position: bool,
    /// Partly written zones, from before or from this plan, with their next block.
    open: BTreeMap<u32, (Lane, Lba)>,
    /// The empty zones that the plan has begun.
    begun: BTreeSet<u32>,
    /// How many of them are spare zones.
    begun_spare: usize,
    /// How many more zones the drive's limit on active zones allows.
    slots: u32,
}

impl<'a> LaneDraft<'a> {
    fn new(space: &'a SpaceMap, is_by_position: bool) -> LaneDraft<'a> {
        let open = space
            .partial_zones()
            .map(|zone| (zone.id.0, (zone.lane.unwrap_or(Lane::Cold(0)), zone.next)))
            .collect();
        let slots = space.zones_to_begin();
        LaneDraft { space, is_by_position, open, begun: BTreeSet::new(), begun_spare: 0, slots }
    }

    /// # Errors
    /// The length of the part that fits.
    fn place(
        &mut self,
        file: &FileRequest,
        lane_of: &dyn Fn(&FileRequest) -> Lane,
    ) -> Result<Vec<BlockRange>, Blocks> {
        let mut left = file.blocks();
        let mut ranges = Vec::new();
        while !left.is_zero() {
            let lane = lane_of(&file.piece(left.bytes()));
            let zone = self
                .of_lane(lane)
                .or_else(|| self.begin(file, lane))
                .or_else(|| {
                    self.any(file, lane, |kind, of| kind == SequentialRequired && of != Lane::Log)
                })
                .or_else(|| self.begin_conventional(file, lane))
                .or_else(|| self.any(file, lane, |_, _| true));
            ranges.push(self.take(zone.ok_or(file.blocks() - left)?, &mut left));
        }
        Ok(ranges)
    }

    /// The open zone of `lane` with the least room, so that zones fill up instead of staying open.
    /// `None` for a lane whose files are alone.
    fn of_lane(&self, lane: Lane) -> Option<u32> {
        if lane.is_alone() {
            return None;
        }
        self.open
            .iter()
            .filter(|(_, (of, _))| *of == lane)
            .min_by_key(|(id, (_, next))| (self.end(**id) - *next, **id))
            .map(|(&id, _)| id)
    }

    fn begin(&mut self, file: &FileRequest, lane: Lane) -> Option<u32> {
        if self.slots == 0 {
            return None;
        }
        let zone = self.empty(SequentialRequired, file)?;
        self.slots -= 1;
        Some(self.open(zone, lane))
    }

    fn begin_conventional(&mut self, file: &FileRequest, lane: Lane) -> Option<u32> {
        let zone = self.empty(Conventional, file)?;
        Some(self.open(zone, lane))
    }

    /// An empty zone of a kind that the file may begin: the one nearest to its position, or else the
    /// first. There may be a short one after the last spare one.
    fn empty(&self, kind: ZoneKind, file: &FileRequest) -> Option<&'a ZoneSpace> {
        let zones = self.space.empty_zones(kind).filter(|z| !self.begun.contains(&z.id.0));
        let mut zones =
            zones.filter(|zone| file.is_moved || self.space.leaves_a_spare(zone, self.begun_spare));
        let Some(position) = file.hints.position.filter(|_| self.is_by_position) else {
            return zones.next();
        };
        // On a drive that is nearly empty the arm stays in the part that is used.
        let last_begun = self.begun.last().map_or(0, |&id| id as usize + 1);
        let used_count = self.space.used_zone_count().max(last_begun);
        let at = self.space.zones()[position_in(used_count as u64, position) as usize].start;
        zones.min_by_key(|zone| zone.start.get().abs_diff(at.get()))
    }

    fn open(&mut self, zone: &ZoneSpace, lane: Lane) -> u32 {
        self.begun.insert(zone.id.0);
        self.begun_spare += usize::from(self.space.can_be_spare(zone));
        self.open.insert(zone.id.0, (lane, zone.next));
        zone.id.0
    }

    /// The zone whose lane is nearest to `lane`, among those of a kind and lane that `allowed`
    /// permits.
    fn any(
        &self,
        file: &FileRequest,
        lane: Lane,
        allowed: impl Fn(ZoneKind, Lane) -> bool,
    ) -> Option<u32> {
        let zone = |id: u32| &self.space.zones()[id as usize];
        let distance = |of: Lane| match (lane, of) {
            (_, Lane::Log) => (2, 0),
            (Lane::Log, _) => (1, 0),
            _ => (u32::from(lane.is_cold() != of.is_cold()), lane.number().abs_diff(of.number())),
        };
        self.open
            .iter()
            .filter(|(id, _)| file.is_moved || !zone(**id).holds_copies())
            .filter(|(id, (of, _))| allowed(zone(**id).kind, *of))
            .min_by_key(|(id, (of, _))| (distance(*of), **id))
            .map(|(&id, _)| id)
    }

    fn take(&mut self, id: u32, left: &mut Blocks) -> BlockRange {
        let end = self.end(id);
        let (_, next) = self.open.get_mut(&id).expect("the zone was chosen among the open ones");
        let range = BlockRange::new(*next, (end - *next).min(*left));
        *next = range.end();
        *left -= range.len;
        if *next == end {
            self.open.remove(&id);
            // It is full before anything that is planned later is written.
            let is_counted = self.space.zones()[id as usize].kind == SequentialRequired;
            self.slots = self.slots.saturating_add(u32::from(is_counted));
        }
        range
    }

    fn end(&self, id: u32) -> Lba {
        self.space.zones()[id as usize].end()
    }
}
