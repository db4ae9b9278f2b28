//! The space map: which blocks are free, held or dead, for placements to plan on.
//!
//! ```text
//!   zone     | held | dead | held |  free: only from `next` on  |
//!            start                next                          end
//!   no zones | held |  free run  | held | free run | ...         see `unzoned`
//! ```
//!
//! A block is *held* while anything may read or write it: a file of the catalog, a reader, or a
//! file that is persisted but not committed. A [`Hold`] is that claim as a value. When it is
//! dropped, its blocks are dead (in a zone or a span) or free. A zone or a span becomes free as a
//! whole when its last hold is dropped.
//!
//! Invariants
//!   S1  `start <= written <= next <= end` in every zone; every write starts at `written`.
//!   S2  A zone's held blocks are at most `next - start`; its named blocks at most its held ones.
//!   S3  The sums (`free`, `held`) equal the totals of the zones and runs.
//!   S4  A zone is reset, and a run used again, only when nothing holds a block of it (F3).
//!   S5  A *spare* zone is empty, or holds only copies that cleaning has made. Plans leave the last
//!       spare zone to cleaning. The live data of any zone fit there, and a cleaning that breaks
//!       off, for example because of a power cut, leaves it as it was.
//!
//! The parts of conventional zones that the catalog leaves over, on a zoned disk, are used as zones
//! too. For them this module keeps `next`, instead of the drive.
//!
//! Not here: choosing (`placement`), writing (`persist`), moving (`clean`).

mod active_zones;
mod emptying;
mod hold;
mod islands;
mod reserve;
mod runs;
mod spans;
mod tracks;
mod unzoned;
mod zones;

pub(crate) use active_zones::slot_count;
pub(crate) use hold::{Hold, Space};
pub(crate) use runs::{CLASS_LEN, Fit, FreeRuns};
pub(crate) use tracks::{Levels, LevelsOfStream, TrackMap, TrackTier};
use unzoned::Unzoned;
pub(crate) use zones::{Lane, ZoneRole, ZoneSpace};

use crate::error::FilesError;
use crate::hints::position_in;
use crate::invariants;
use imbrex_disk::{BlockRange, Blocks, Geometry, Lba, ZoneId, ZoneKind};
use std::collections::BTreeSet;

/// The purpose of a request for space, which decides how deep into the reserve it may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// An ordinary write: leaves the whole reserve.
    Normal,
    /// A write that helps to make room (deletes, compaction): leaves what cleaning needs.
    Reserve,
    /// Cleaning itself.
    Cleaning,
}

/// A plan does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpace {
    /// How much was requested.
    pub needed: Blocks,
    /// How much this claim may use.
    pub free: Blocks,
}

impl From<NoSpace> for FilesError {
    fn from(no_space: NoSpace) -> FilesError {
        FilesError::NoSpace {
            needed_bytes: no_space.needed.bytes(),
            free_bytes: no_space.free.bytes(),
        }
    }
}

/// The space of one disk.
#[derive(Clone, Debug)]
pub struct SpaceMap {
    zone_len: Blocks,
    zone_capacity: Blocks,
    zones: Vec<ZoneSpace>,
    /// `None` on a disk with zones.
    unzoned: Option<Unzoned>,
    /// How many conventional zones there are; they come first.
    conventional_count: u32,
    now: u64,
    empty: BTreeSet<u32>,
    partial: BTreeSet<u32>,
    active: BTreeSet<u32>,
    dead: BTreeSet<u32>,
    active_zone_budget: Option<u32>,
    capacity: Blocks,
    reserve: Blocks,
    /// The least that a file takes where files share no zone.
    grain: Blocks,
    cleaning_floor: Blocks,
    /// The least length of a zone that holds the live data of any sequential zone.
    spare_len: Blocks,
    free: Blocks,
    held: Blocks,
    /// Dead blocks in zones that also hold something.
    dead_held: Blocks,
    gains: u64,
}

impl SpaceMap {
    /// The map of a disk without zones whose blocks in `usable` are all free. Free runs are listed
    /// by size in units of `class_len`.
    ///
    /// The reserve is 2 % of the space, at least 1 MiB and at most an eighth. Where tracks are
    /// interlaced, logs keep half of it ([`SpaceMap::leave_logs_to_flash`] is the exception).
    pub fn without_zones(geometry: &Geometry, usable: BlockRange, class_len: Blocks) -> SpaceMap {
        let class_len = if class_len.is_zero() { CLASS_LEN } else { class_len };
        let unzoned = Unzoned::new(*geometry, usable, class_len);
        let mut map = SpaceMap::empty();
        let least = Blocks::holding(1 << 20).get().max(usable.len.get() / 50);
        map.capacity = usable.len;
        map.reserve = Blocks::new(least.min(usable.len.get() / 8));
        if unzoned.tracks.is_some() {
            // For logs, which can use only top tracks. Tables leave it alone, including those of
            // compactions.
            map.cleaning_floor = Blocks::new(map.reserve.get() / 2);
        }
        map.unzoned = Some(unzoned);
        map
    }

    fn empty() -> SpaceMap {
        SpaceMap {
            zone_len: Blocks::ZERO,
            zone_capacity: Blocks::ZERO,
            zones: Vec::new(),
            unzoned: None,
            conventional_count: 0,
            now: 0,
            empty: BTreeSet::new(),
            partial: BTreeSet::new(),
            active: BTreeSet::new(),
            dead: BTreeSet::new(),
            active_zone_budget: None,
            capacity: Blocks::ZERO,
            reserve: Blocks::ZERO,
            grain: Blocks::ZERO,
            cleaning_floor: Blocks::ZERO,
            spare_len: Blocks::ZERO,
            free: Blocks::ZERO,
            held: Blocks::ZERO,
            dead_held: Blocks::ZERO,
            gains: 0,
        }
    }

    /// The map of a zoned disk, from all its zones in order of address, as found on the disk.
    ///
    /// The reserve is 2 % of the space and at least two zones, of which cleaning keeps one.
    pub fn with_zones(
        zone_len: Blocks,
        zones: Vec<ZoneSpace>,
        active_zone_budget: Option<u32>,
    ) -> SpaceMap {
        let mut map = SpaceMap::empty();
        map.zone_len = zone_len;
        map.active_zone_budget = active_zone_budget;
        let usable = || zones.iter().filter(|z| z.role == ZoneRole::Data).map(|z| z.capacity);
        map.capacity = usable().sum();
        map.zone_capacity = usable().max().unwrap_or_default();
        map.cleaning_floor = map.zone_capacity;
        let is_sequential = |zone: &&ZoneSpace| zone.kind == ZoneKind::SequentialRequired;
        let is_data = |zone: &&ZoneSpace| zone.role == ZoneRole::Data;
        let sequential = zones.iter().filter(is_data).filter(is_sequential);
        map.spare_len = sequential.map(|zone| zone.capacity).max().unwrap_or(map.zone_capacity);
        let two_zones = map.cleaning_floor.get() * 2;
        map.reserve = Blocks::new(two_zones.max(map.capacity.get() / 50));
        for zone in zones {
            let id = map.zones.len() as u32;
            assert!(zone.id == ZoneId(id), "zones come in order");
            if zone.kind == ZoneKind::Conventional {
                map.conventional_count = id + 1;
            }
            map.now = map.now.max(zone.youngest);
            map.held += zone.held;
            map.free += zone.free();
            map.dead_held += zone.dead_held();
            map.zones.push(zone);
            map.refile(id);
        }
        map
    }

    /// All zones, in order of address; empty on a disk without zones.
    pub fn zones(&self) -> &[ZoneSpace] {
        &self.zones
    }

    /// The zone that holds `at`, on a disk with zones.
    pub fn zone_at(&self, at: Lba) -> Option<&ZoneSpace> {
        if self.zone_len.is_zero() {
            return None;
        }
        self.zones.get((at.get() / self.zone_len.get()) as usize)
    }

    /// Empty zones of `kind`, in order of address.
    pub fn empty_zones(&self, kind: ZoneKind) -> impl Iterator<Item = &ZoneSpace> {
        let ids = match kind {
            ZoneKind::Conventional => self.empty.range(..self.conventional_count),
            ZoneKind::SequentialRequired => self.empty.range(self.conventional_count..),
        };
        ids.map(|&z| &self.zones[z as usize])
    }

    /// The number of zones up to the last one that is not empty.
    pub(crate) fn used_zone_count(&self) -> usize {
        let from_end = (0..self.zones.len()).rev().zip(self.empty.iter().rev());
        let is_empty = |(at, empty): &(usize, &u32)| *at == **empty as usize;
        self.zones.len() - from_end.take_while(is_empty).count()
    }

    /// Spare zones (S5), empty ones first.
    pub fn spare_zones(&self) -> impl Iterator<Item = &ZoneSpace> {
        let copies = self.partial_zones().filter(|zone| zone.holds_copies());
        let empty = self.empty.iter().map(|&z| &self.zones[z as usize]);
        empty.chain(copies).filter(|zone| self.can_be_spare(zone))
    }

    /// Whether writers other than cleaning may begin the empty `zone`, after `begun` spare ones
    /// (S5).
    pub fn leaves_a_spare(&self, zone: &ZoneSpace, begun: usize) -> bool {
        !self.can_be_spare(zone) || self.spare_zones().nth(begun + 1).is_some()
    }

    /// Whether the live data of any sequential zone fit into `zone`.
    pub fn can_be_spare(&self, zone: &ZoneSpace) -> bool {
        self.spare_len <= zone.capacity
    }

    /// The number of the unit that holds `at`, if `at` is in one.
    pub fn unit_at(&self, at: Lba) -> Option<u64> {
        match &self.unzoned {
            None => self.zone_at(at).map(|zone| u64::from(zone.id.0)),
            Some(unzoned) => unzoned.spans.holding(at).map(|span| span.start.get()),
        }
    }

    /// Whether further files begin in a unit.
    pub(crate) fn takes_more(&self, unit: u64) -> bool {
        let is_shared = |zone: &ZoneSpace| !zone.lane.is_some_and(Lane::is_alone);
        self.zones.get(unit as usize).is_some_and(|zone| zone.takes_more() && is_shared(zone))
    }

    /// The drive's own time: how many files were begun on it. It is not related to any clock.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Partly written zones that take more writes, in order of address.
    pub fn partial_zones(&self) -> impl Iterator<Item = &ZoneSpace> {
        self.partial.iter().map(|&z| &self.zones[z as usize])
    }

    /// The free runs of a disk without zones.
    ///
    /// # Panics
    /// On a disk with zones: a policy was used on a disk that it does not suit.
    pub fn runs(&self) -> &FreeRuns {
        &self.unzoned.as_ref().expect("the policy suits the disk").runs
    }

    /// The tracks of an interlaced disk.
    ///
    /// # Panics
    /// On another disk: a policy was used on a disk that it does not suit.
    pub fn tracks(&self) -> &TrackMap {
        let tracks = self.unzoned.as_ref().and_then(|unzoned| unzoned.tracks.as_ref());
        tracks.expect("the policy suits the disk")
    }

    /// The space of a disk without zones.
    pub(crate) fn unzoned(&self) -> Option<&Unzoned> {
        self.unzoned.as_ref()
    }

    /// How much of the top tracks of an interlaced disk tables leave for logs.
    pub fn kept_for_logs(&self) -> Blocks {
        self.cleaning_floor
    }

    /// The live ranges on top of a write to `range`, on an interlaced disk.
    pub(crate) fn live_above(&self, range: BlockRange) -> Vec<BlockRange> {
        self.unzoned.as_ref().map_or_else(Vec::new, |unzoned| unzoned.live_above(range))
    }

    /// Records that `ranges` will be moved back to where they are, whatever happens to them
    /// meanwhile (U4).
    pub(crate) fn pin(&mut self, ranges: &[BlockRange]) {
        if let Some(unzoned) = &mut self.unzoned {
            unzoned.pin(ranges);
        }
    }

    /// Reverses [`SpaceMap::pin`].
    pub(crate) fn unpin(&mut self, ranges: &[BlockRange]) {
        if let Some(unzoned) = &mut self.unzoned {
            unzoned.unpin(ranges);
        }
    }

    /// Records that block `at` of a file cannot be read, so that no track below it may be written.
    /// Returns false if that was known.
    pub(crate) fn avoid(&mut self, at: Lba) -> bool {
        self.unzoned.as_mut().is_some_and(|unzoned| unzoned.avoid(at))
    }

    /// Records the levels of the present tables.
    pub(crate) fn set_levels(&mut self, levels: Levels) {
        if let Some(tracks) = self.unzoned.as_mut().and_then(|unzoned| unzoned.tracks.as_mut()) {
            tracks.set_levels(levels);
        }
    }

    /// The number of spans, and their total length.
    pub fn sets(&self) -> (u64, Blocks) {
        self.unzoned.as_ref().map_or((0, Blocks::ZERO), |unzoned| {
            (unzoned.spans.count() as u64, unzoned.spans.len())
        })
    }

    /// All spans in order of address, each with the number of its dead blocks.
    pub fn spans(&self) -> impl Iterator<Item = (BlockRange, Blocks)> + '_ {
        self.unzoned.iter().flat_map(|unzoned| unzoned.spans.iter())
    }

    /// The blocks that open logs keep blank after them.
    pub fn guarded(&self) -> Blocks {
        self.unzoned.as_ref().map_or(Blocks::ZERO, Unzoned::guarded)
    }

    /// The blank runs of a disk without zones, where nothing is and nothing is about to be written.
    pub fn blank_runs(&self) -> Vec<BlockRange> {
        self.unzoned.as_ref().map(Unzoned::blank_runs).unwrap_or_default()
    }

    /// The block at `position`, in the part of a disk without zones that is used.
    pub(crate) fn at_position(&self, position: u16) -> Lba {
        let offset = Blocks::new(position_in(self.address_len().get(), position));
        self.unzoned.as_ref().map_or(Lba::new(0), Unzoned::first) + offset
    }

    /// From the first block that files may use to the end of the last one in use, without zones.
    pub fn address_len(&self) -> Blocks {
        self.unzoned.as_ref().map_or(Blocks::ZERO, Unzoned::address_len)
    }

    /// See `Spans::most_worth_moving`.
    pub(crate) fn span_worth_moving(&self) -> Option<BlockRange> {
        let unzoned = self.unzoned.as_ref()?;
        unzoned.spans.most_worth_moving(self.free(), self.runs(), &unzoned.kept)
    }

    /// See `Spans::dissolvable`.
    pub(crate) fn dissolvable_spans(&self) -> Vec<(BlockRange, Blocks)> {
        let spans = self.unzoned.iter().flat_map(|unzoned| unzoned.spans.dissolvable());
        spans.collect()
    }

    /// Dissolves the span `range`, in which `living` are all held blocks, in order. Returns its dead
    /// runs. They are held, and the caller gives them back once no catalog names the span.
    pub(crate) fn dissolve_span(
        &mut self,
        range: BlockRange,
        living: &[BlockRange],
    ) -> Vec<BlockRange> {
        let unzoned = self.unzoned.as_mut().expect("only disks without zones have spans");
        let dead = unzoned.spans.dissolve(range, living);
        self.held += dead.iter().map(|run| run.len).sum();
        dead
    }

    /// Everything that files could ever use.
    pub fn capacity(&self) -> Blocks {
        self.capacity
    }

    /// The space that can be written, including the reserve.
    pub fn free(&self) -> Blocks {
        self.unzoned.as_ref().map_or(self.free, Unzoned::free)
    }

    /// The blocks that are held.
    pub fn held(&self) -> Blocks {
        self.held
    }

    /// The capacity of the largest zone for files.
    pub fn zone_capacity(&self) -> Blocks {
        self.zone_capacity
    }

    /// The space that is kept for writes that make room.
    pub fn reserve(&self) -> Blocks {
        self.reserve
    }

    /// The least that a new file takes, however short it is, where files share no zone; otherwise
    /// zero.
    pub fn grain(&self) -> Blocks {
        self.grain
    }

    /// Dead blocks in zones and spans that still hold something.
    pub fn dead(&self) -> Blocks {
        if let Some(unzoned) = &self.unzoned {
            return unzoned.spans.dead();
        }
        self.dead_held
    }

    /// How often room to write came back, or a slot for an active zone. A plan that did not fit
    /// before may fit after. Free space that is not writable yet does not count.
    pub(crate) fn gains(&self) -> u64 {
        self.gains
    }

    /// How much `claim` may use.
    pub fn free_for(&self, claim: Claim) -> Blocks {
        self.free().saturating_sub(self.kept_from(claim))
    }

    /// How much `claim` leaves free.
    fn kept_from(&self, claim: Claim) -> Blocks {
        match claim {
            Claim::Normal => self.reserve,
            Claim::Reserve => self.cleaning_floor,
            Claim::Cleaning => Blocks::ZERO,
        }
    }

    /// How much `claim` may use once everything dead is cleaned, and what lies between guards is moved
    /// together.
    pub(crate) fn free_once_clean(&self, claim: Claim) -> Blocks {
        let joinable = self.unzoned.as_ref().map_or(Blocks::ZERO, Unzoned::surely_joinable);
        (self.free() + self.dead() + joinable).saturating_sub(self.kept_from(claim))
    }

    /// At most how much cleaning can bring back.
    pub(crate) fn cleanable(&self) -> Blocks {
        let unwritable = |unzoned: &Unzoned| unzoned.runs.len() - unzoned.runs.size();
        self.dead() + self.unzoned.as_ref().map_or(Blocks::ZERO, unwritable)
    }

    /// Checks that `claim` may use `needed` blocks.
    ///
    /// # Errors
    /// [`NoSpace`] with both numbers.
    pub fn admit(&self, needed: Blocks, claim: Claim) -> Result<(), NoSpace> {
        let free = self.free_for(claim);
        if needed <= free { Ok(()) } else { Err(NoSpace { needed, free }) }
    }

    /// How much less can be written while an open log owns `range`, part of a free run: that, and its guard.
    pub(crate) fn cost_of_log(&self, range: BlockRange) -> Blocks {
        self.unzoned.as_ref().map_or(range.len, |unzoned| unzoned.cost_of_log(range))
    }

    /// Takes `range` as planned: from a zone's `next` on, or out of a free run.
    ///
    /// `born` is the time at which the file was begun, in the units of [`SpaceMap::now`].
    pub(crate) fn take(&mut self, range: BlockRange, lane: Lane, born: u64) {
        self.now = self.now.max(born);
        if let Some(unzoned) = &mut self.unzoned {
            unzoned.take(range, lane == Lane::Log, born);
            self.held += range.len;
            return;
        }
        self.change(range.start, |zone| {
            assert!(zone.next == range.start, "S1: {} is planned from its pointer", zone.id);
            assert!(range.end() <= zone.end(), "S1: {} holds the plan", zone.id);
            if zone.next == zone.start {
                zone.lane = Some(lane);
                zone.youngest = born;
            }
            zone.youngest = zone.youngest.max(born);
            zone.next = range.end();
            zone.held += range.len;
        });
        self.held += range.len;
    }

    /// Makes `range`, part of a free run, a span: files are taken in it, and it is given back as a
    /// whole.
    ///
    /// The caller takes at least one file in it before it releases the lock.
    pub(crate) fn open_span(&mut self, range: BlockRange) {
        self.unzoned.as_mut().expect("only disks without zones have spans").open_span(range);
    }

    /// Takes `range` for a file that existed when the disk was opened.
    pub(crate) fn restore(&mut self, range: BlockRange, born: u64) {
        self.now = self.now.max(born);
        self.unzoned.as_mut().expect("zones are made with what they hold").restore(range, born);
        self.held += range.len;
    }

    /// Ends the restoring of files. The content of the free runs is unknown.
    pub(crate) fn distrust_free_runs(&mut self) {
        if let Some(unzoned) = &mut self.unzoned {
            unzoned.distrust_free_runs();
        }
    }

    /// Gives back a range that was held.
    pub(crate) fn give(&mut self, range: BlockRange, named: bool) {
        if range.len.is_zero() {
            return;
        }
        self.held -= range.len;
        if let Some(unzoned) = &mut self.unzoned {
            return unzoned.give(range, named);
        }
        self.change(range.start, |zone| {
            zone.held -= range.len;
            if named {
                zone.named -= range.len;
            }
        });
    }

    /// Adds to the named blocks of the zone that holds `range`, or subtracts from them.
    pub(crate) fn set_named(&mut self, range: BlockRange, named: bool) {
        if range.len.is_zero() {
            return;
        }
        if let Some(unzoned) = &mut self.unzoned {
            if unzoned.spans.holding(range.start).is_some() {
                unzoned.spans.set_named(range, named);
            }
            return;
        }
        self.change(range.start, |zone| {
            if named {
                zone.named += range.len;
            } else {
                zone.named -= range.len;
            }
        });
    }

    /// Gives back `rest`, the unwritten tail of a run that begins at `start`. A zone's pointer
    /// moves back to the end of the writes.
    pub(crate) fn shrink(&mut self, start: Lba, rest: BlockRange, named: bool) {
        if self.unzoned.is_some() {
            return self.give(rest, named);
        }
        self.held -= rest.len;
        self.change(start, |zone| {
            zone.held -= rest.len;
            if named {
                zone.named -= rest.len;
            }
            assert!(zone.next == rest.end(), "S1: only the last run of {} shrinks", zone.id);
            zone.next = rest.start;
            // If nothing of the run was written, it is unknown whether the blocks before it were.
            zone.written = if rest.start == start { zone.written.min(start) } else { rest.start };
            zone.sealed &= zone.start < zone.next;
        });
    }

    /// Records whether an open log keeps the zone of `range`, or the guard after it, for itself.
    pub(crate) fn set_owned(&mut self, range: BlockRange, owned: bool) {
        match &mut self.unzoned {
            None => self.change(range.start, |zone| zone.owned = owned),
            Some(unzoned) => {
                unzoned.set_owned(range, owned);
                self.gains += u64::from(!owned);
            }
        }
    }

    /// Records whether an open log fills the zone of `range` before it begins another one.
    pub(crate) fn set_filling(&mut self, range: BlockRange, filling: bool) {
        if self.unzoned.is_none() {
            self.change(range.start, |zone| zone.filling = filling);
        }
    }

    /// Records that nothing more goes into the zone of `range` until it is reset.
    pub(crate) fn seal(&mut self, range: BlockRange) {
        if self.unzoned.is_none() && !range.len.is_zero() {
            self.change(range.start, |zone| zone.sealed = true);
        }
    }

    /// Records whether cleaning is emptying the zone or span of `range`.
    pub(crate) fn set_cleaning(&mut self, range: BlockRange, cleaning: bool) {
        match &mut self.unzoned {
            None => self.change(range.start, |zone| zone.cleaning = cleaning),
            Some(unzoned) => unzoned.set_cleaning(range, cleaning),
        }
    }

    /// Records that `unmoved`, in the zone or span of `range`, cannot be moved, until all of it is dead.
    pub(crate) fn set_pinned(&mut self, range: BlockRange, unmoved: BlockRange) {
        match &mut self.unzoned {
            None => self.change(range.start, |zone| zone.pinned = true),
            Some(unzoned) => {
                unzoned.spans.set_pinned(range);
                unzoned.staying.push(unmoved);
            }
        }
    }

    /// Changes the zone that holds `at`, and updates the lists and sums.
    pub(crate) fn change<T>(&mut self, at: Lba, edit: impl FnOnce(&mut ZoneSpace) -> T) -> T {
        let id = (at.get() / self.zone_len.get()) as u32;
        let zone = &mut self.zones[id as usize];
        let (free_before, dead_before) = (zone.free(), zone.dead_held());
        let (usable_before, was_active) = (zone.usable_room(), zone.is_active());
        let result = edit(zone);
        if usable_before < zone.usable_room() || (was_active && !zone.is_active()) {
            self.gains += 1;
        }
        self.free += zone.free();
        self.free -= free_before;
        self.dead_held += zone.dead_held();
        self.dead_held -= dead_before;
        self.refile(id);
        result
    }

    /// A zone that nothing holds and that can be reset. It is out of use until
    /// [`SpaceMap::was_reset`] or [`SpaceMap::give_up`].
    pub(crate) fn begin_reset(&mut self) -> Option<(ZoneId, ZoneKind, BlockRange)> {
        let id = *self.dead.first()?;
        let zone = &mut self.zones[id as usize];
        zone.resetting = true;
        let found = (zone.id, zone.kind, BlockRange::new(zone.start, zone.capacity));
        self.refile(id);
        Some(found)
    }

    /// Records that the zone is empty.
    pub(crate) fn was_reset(&mut self, zone: ZoneId) {
        let start = self.zones[zone.0 as usize].start;
        self.change(start, |zone| {
            zone.resetting = false;
            zone.failed = false;
            zone.lost_from = None;
            zone.pinned = false;
            zone.sealed = false;
            zone.filling = false;
            zone.begun = false;
            zone.next = zone.start;
            zone.written = zone.start;
            zone.lane = None;
        });
    }

    /// Takes the zone out of use until the disk is opened again. `is_active`: the drive counts it
    /// among the active zones. It must have no writer.
    pub(crate) fn give_up(&mut self, zone: ZoneId, is_active: bool) {
        let ZoneSpace { role, start, capacity, .. } = self.zones[zone.0 as usize];
        if role == ZoneRole::Data {
            self.capacity = self.capacity.saturating_sub(capacity);
        }
        self.change(start, |zone| {
            zone.resetting = false;
            zone.finishing = false;
            zone.role = ZoneRole::Unusable;
            if !is_active {
                zone.next = zone.end();
                zone.written = zone.end();
            }
        });
    }

    /// Runs that were given back and may be discarded. The caller returns them through
    /// [`SpaceMap::was_discarded`].
    pub(crate) fn begin_discard(&mut self) -> Vec<BlockRange> {
        self.unzoned.as_mut().map(Unzoned::begin_discard).unwrap_or_default()
    }

    /// Records that the runs are free again.
    pub(crate) fn was_discarded(&mut self, ranges: &[BlockRange]) {
        if let Some(unzoned) = &mut self.unzoned {
            unzoned.was_discarded(ranges);
            self.gains += u64::from(!ranges.is_empty());
        }
    }

    /// Records that the runs were not discarded, and are given back as before.
    pub(crate) fn was_not_discarded(&mut self, ranges: &[BlockRange]) {
        if let Some(unzoned) = &mut self.unzoned {
            unzoned.was_not_discarded(ranges);
        }
    }

    /// Whether the data placed at `range` may be written now. No data that were placed earlier and
    /// are not written yet may be able to destroy them, and in a zone the pointer must be there.
    /// `None` if that will never be so, because an earlier write in the zone failed.
    pub(crate) fn is_turn_of(&self, range: BlockRange) -> Option<bool> {
        if let Some(unzoned) = &self.unzoned {
            return Some(unzoned.is_turn_of(range));
        }
        match self.zone_at(range.start) {
            Some(zone) if zone.kind == ZoneKind::SequentialRequired => {
                let is_lost = zone.lost_from.is_some_and(|from| from <= range.start);
                (!is_lost).then_some(zone.written == range.start)
            }
            _ => Some(true),
        }
    }

    /// Whether nothing was planned after `range` in its zone.
    pub(crate) fn is_last(&self, range: BlockRange) -> bool {
        self.zone_at(range.start).is_some_and(|zone| zone.next == range.end())
    }

    /// Records that the data placed at `range` are written, or were given up. In the latter case
    /// data that were placed after them in the zone are lost.
    pub(crate) fn end_turn(&mut self, range: BlockRange, done: bool) {
        if let Some(unzoned) = &mut self.unzoned {
            return unzoned.end_turn(range);
        }
        if self.zone_at(range.start).is_some() {
            self.change(range.start, |zone| {
                if done {
                    zone.written = zone.written.max(range.end());
                } else {
                    zone.failed = true;
                    let from = zone.lost_from.map_or(range.start, |from| from.min(range.start));
                    zone.lost_from = Some(from);
                }
            });
        }
    }

    /// Returns the first violation of S1 to S3, in words.
    pub fn check(&self) -> Result<(), String> {
        if let Some(unzoned) = &self.unzoned {
            return unzoned.check();
        }
        for zone in &self.zones {
            zone.check()?;
        }
        let zone_free: Blocks = self.zones.iter().map(ZoneSpace::free).sum();
        if zone_free != self.free {
            return Err(format!("S3: free is {}, but the zones add up to {zone_free}", self.free));
        }
        let dead: Blocks = self.zones.iter().map(ZoneSpace::dead_held).sum();
        if dead != self.dead_held {
            let expected = self.dead_held;
            return Err(format!("S3: {expected} are dead, but the zones add up to {dead}"));
        }
        let held: Blocks = self.zones.iter().map(|z| z.held).sum();
        if held != self.held {
            return Err(format!("S3: held is {}, but the zones hold {held}", self.held));
        }
        Ok(())
    }

    fn refile(&mut self, id: u32) {
        let zone = &self.zones[id as usize];
        let file = |set: &mut BTreeSet<u32>, is_in: bool| {
            if is_in {
                set.insert(id);
            } else {
                set.remove(&id);
            }
        };
        file(&mut self.empty, zone.is_empty());
        file(&mut self.partial, zone.takes_more());
        file(&mut self.active, zone.is_active());
        file(&mut self.dead, zone.is_dead());
        if invariants::are_checked()
            && let Err(broken) = self.zones[id as usize].check()
        {
            panic!("{broken}");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
