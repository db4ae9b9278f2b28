//! Which blocks are free, held, or dead: the map that placements plan on, and its bookkeeping.
//!
//! ```text
//!   zone     | held | dead | held |  free: only from `next` on  |
//!            start                next                          end
//!   no zones | held |  free run  | held | free run | ...
//! ```
//!
//! A block is *held* while anything may read or write it: a file of the catalog, a reader, a file
//! that is persisted but not committed. A [`Hold`] is that claim as a value: dropped, the blocks
//! are dead (in a zone) or free (without zones). A zone whose last hold is gone is reset as a whole.
//!
//! Invariants
//!   S1  `start <= written <= next <= end` in every zone; nobody writes but at `written`.
//!   S2  A zone's held blocks are at most `next - start`; its named blocks at most its held ones.
//!   S3  The sums (`free`, `held`) equal what the zones and runs add up to.
//!   S4  A zone is reset, and a run used again, only when nothing holds a block of it (F3).
//!
//! Conventional zones of a zoned disk that the catalog leaves over are used as zones too, with
//! `next` kept by us instead of the drive.
//!
//! Not here: choosing (`placement`), writing (`persist`), moving (`clean`).

mod hold;
mod runs;
mod zones;

pub(crate) use hold::{Hold, Space};
pub(crate) use runs::FreeRuns;
pub(crate) use zones::{Lane, ZoneRole, ZoneSpace};

use imbrex_disk::{BlockRange, Blocks, Lba, ZoneId, ZoneKind};
use std::collections::BTreeSet;

/// Who asks for space, and how deep into the reserve it may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// An ordinary write: leaves the whole reserve.
    Normal,
    /// A write that helps to make room (deletes, compaction): leaves what cleaning needs.
    Reserve,
    /// Cleaning itself.
    Cleaning,
}

/// A plan did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpace {
    /// What was asked for.
    pub needed: Blocks,
    /// What this claim may use.
    pub free: Blocks,
}

/// The space of one disk.
#[derive(Clone, Debug)]
pub struct SpaceMap {
    zone_len: Blocks,
    zones: Vec<ZoneSpace>,
    runs: FreeRuns,
    /// Runs given back, waiting to be discarded before they are free.
    given_back: Vec<BlockRange>,
    /// Conventional zones come first; this many are.
    conventional_count: u32,
    now: u64,
    empty: BTreeSet<u32>,
    partial: BTreeSet<u32>,
    active: BTreeSet<u32>,
    dead: BTreeSet<u32>,
    active_zone_budget: Option<u32>,
    capacity: Blocks,
    reserve: Blocks,
    cleaning_floor: Blocks,
    free: Blocks,
    held: Blocks,
}

impl SpaceMap {
    /// The map of a disk without zones whose blocks in `usable` are all free.
    ///
    /// The reserve is 2 % of the space, at least 1 MiB and at most an eighth.
    pub fn without_zones(usable: BlockRange) -> SpaceMap {
        let mut runs = FreeRuns::default();
        runs.give(usable);
        let least = Blocks::holding(1 << 20).get().max(usable.len.get() / 50);
        SpaceMap {
            zone_len: Blocks::ZERO,
            zones: Vec::new(),
            runs,
            given_back: Vec::new(),
            conventional_count: 0,
            now: 0,
            empty: BTreeSet::new(),
            partial: BTreeSet::new(),
            active: BTreeSet::new(),
            dead: BTreeSet::new(),
            active_zone_budget: None,
            capacity: usable.len,
            reserve: Blocks::new(least.min(usable.len.get() / 8)),
            cleaning_floor: Blocks::ZERO,
            free: usable.len,
            held: Blocks::ZERO,
        }
    }

    /// The map of a zoned disk, every zone of it in order of address, as found on the disk.
    ///
    /// The reserve is 2 % of the space and at least two zones, of which cleaning keeps one.
    pub fn with_zones(
        zone_len: Blocks,
        zones: Vec<ZoneSpace>,
        active_zone_budget: Option<u32>,
    ) -> SpaceMap {
        let mut map = SpaceMap::without_zones(BlockRange::default());
        map.zone_len = zone_len;
        map.active_zone_budget = active_zone_budget;
        let usable = || zones.iter().filter(|z| z.role == ZoneRole::Data).map(|z| z.capacity);
        map.capacity = usable().sum();
        map.cleaning_floor = usable().max().unwrap_or_default();
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

    /// Zones of `kind` that nothing is written in, in order of address.
    pub fn empty_zones(&self, kind: ZoneKind) -> impl Iterator<Item = &ZoneSpace> {
        let ids = match kind {
            ZoneKind::Conventional => self.empty.range(..self.conventional_count),
            ZoneKind::SequentialRequired => self.empty.range(self.conventional_count..),
        };
        ids.map(|&z| &self.zones[z as usize])
    }

    /// The number of the piece of disk that holds `at` and is given back as a whole, if it is in one.
    pub fn unit_at(&self, at: Lba) -> Option<u64> {
        self.zone_at(at).map(|zone| u64::from(zone.id.0))
    }

    /// The drive's own time: how many files were begun on it. No clock says how long that took.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Zones partly written that take more, in order of address.
    pub fn partial_zones(&self) -> impl Iterator<Item = &ZoneSpace> {
        self.partial.iter().map(|&z| &self.zones[z as usize])
    }

    /// How many more zones may be begun before the drive's limit on active zones is reached.
    pub fn zones_to_begin(&self) -> u32 {
        let active = self.active.len() as u32;
        self.active_zone_budget.map_or(u32::MAX, |budget| budget.saturating_sub(active))
    }

    /// The free runs of a disk without zones.
    pub fn runs(&self) -> &FreeRuns {
        &self.runs
    }

    /// All that files could ever use.
    pub fn capacity(&self) -> Blocks {
        self.capacity
    }

    /// What can be written, the reserve included.
    pub fn free(&self) -> Blocks {
        self.free
    }

    /// What is held.
    pub fn held(&self) -> Blocks {
        self.held
    }

    /// What is kept for writes that make room.
    pub fn reserve(&self) -> Blocks {
        self.reserve
    }

    /// Dead blocks in zones that still hold something.
    pub fn dead(&self) -> Blocks {
        self.zones.iter().filter(|z| !z.held.is_zero()).map(ZoneSpace::dead).sum()
    }

    /// What `claim` may use.
    pub fn free_for(&self, claim: Claim) -> Blocks {
        self.free.saturating_sub(match claim {
            Claim::Normal => self.reserve,
            Claim::Reserve => self.cleaning_floor,
            Claim::Cleaning => Blocks::ZERO,
        })
    }

    /// Whether `needed` blocks are there for `claim`.
    ///
    /// # Errors
    /// [`NoSpace`] with both numbers.
    pub fn admit(&self, needed: Blocks, claim: Claim) -> Result<(), NoSpace> {
        let free = self.free_for(claim);
        if needed <= free { Ok(()) } else { Err(NoSpace { needed, free }) }
    }

    /// Takes `range` as a plan chose it: from a zone's `next` on, or out of a free run.
    ///
    /// `born` is when the file was begun that goes there, in the time of [`SpaceMap::now`].
    pub(crate) fn take(&mut self, range: BlockRange, lane: Lane, born: u64) {
        self.now = self.now.max(born);
        if self.zone_len.is_zero() {
            self.runs.take(range);
            self.free -= range.len;
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

    /// Gives back a range that was held.
    pub(crate) fn give(&mut self, range: BlockRange, named: bool) {
        if range.len.is_zero() {
            return;
        }
        self.held -= range.len;
        if self.zone_len.is_zero() {
            self.given_back.push(range);
            self.free += range.len;
            return;
        }
        self.change(range.start, |zone| {
            zone.held -= range.len;
            if named {
                zone.named -= range.len;
            }
        });
    }

    /// Adds to or takes from the named blocks of the zone that holds `range`.
    pub(crate) fn set_named(&mut self, range: BlockRange, named: bool) {
        if range.len.is_zero() || self.zone_len.is_zero() {
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

    /// Gives back `rest`, the unwritten tail of a run that starts at `start`: a zone's pointer moves
    /// back to where the writes ended.
    pub(crate) fn shrink(&mut self, start: Lba, rest: BlockRange, named: bool) {
        if self.zone_len.is_zero() {
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
            zone.written = rest.start;
        });
    }

    /// Says whether an open log keeps the zone of `range` for itself.
    pub(crate) fn set_owned(&mut self, range: BlockRange, owned: bool) {
        if !self.zone_len.is_zero() {
            self.change(range.start, |zone| zone.owned = owned);
        }
    }

    /// Says whether cleaning is emptying the zone of `range`.
    pub(crate) fn set_cleaning(&mut self, range: BlockRange, cleaning: bool) {
        if !self.zone_len.is_zero() {
            self.change(range.start, |zone| zone.cleaning = cleaning);
        }
    }

    /// Says that something in the zone of `range` cannot be moved, until the zone is reset.
    pub(crate) fn set_pinned(&mut self, range: BlockRange) {
        if !self.zone_len.is_zero() {
            self.change(range.start, |zone| zone.pinned = true);
        }
    }

    /// Changes the zone that holds `at` and files it anew.
    pub(crate) fn change<T>(&mut self, at: Lba, edit: impl FnOnce(&mut ZoneSpace) -> T) -> T {
        let id = (at.get() / self.zone_len.get()) as u32;
        let zone = &mut self.zones[id as usize];
        let free_before = zone.free();
        let result = edit(zone);
        let free_after = zone.free();
        self.free += free_after;
        self.free -= free_before;
        self.refile(id);
        result
    }

    /// A zone that nothing holds and that can be reset; it is taken out of use until
    /// [`SpaceMap::was_reset`].
    pub(crate) fn begin_reset(&mut self) -> Option<(ZoneId, ZoneKind, BlockRange)> {
        let id = *self.dead.first()?;
        let zone = &mut self.zones[id as usize];
        zone.resetting = true;
        let found = (zone.id, zone.kind, BlockRange::new(zone.start, zone.capacity));
        self.refile(id);
        Some(found)
    }

    /// The zone is empty now; or it failed to become so and is given up.
    pub(crate) fn was_reset(&mut self, zone: ZoneId, done: bool) {
        let start = self.zones[zone.0 as usize].start;
        self.change(start, |zone| {
            zone.resetting = false;
            if done {
                zone.failed = false;
                zone.pinned = false;
                zone.next = zone.start;
                zone.written = zone.start;
                zone.lane = None;
            } else {
                zone.role = ZoneRole::Unusable;
            }
        });
    }

    /// A zone to be finished because more zones are active than the drive allows: a power cut takes
    /// back what was not flushed, so that zones that were full are partly written again.
    pub(crate) fn zone_to_finish(&self) -> Option<ZoneId> {
        let budget = self.active_zone_budget? as usize;
        if self.active.len() <= budget {
            return None;
        }
        let quiet = self.partial_zones().filter(|zone| zone.written == zone.next);
        quiet.min_by_key(|zone| zone.room()).map(|zone| zone.id)
    }

    /// The zone takes no more.
    pub(crate) fn was_finished(&mut self, zone: ZoneId) {
        let start = self.zones[zone.0 as usize].start;
        self.change(start, |zone| {
            zone.next = zone.end();
            zone.written = zone.end();
        });
    }

    /// Runs that were given back and may be discarded; the caller returns them with
    /// [`SpaceMap::was_discarded`].
    pub(crate) fn begin_discard(&mut self) -> Vec<BlockRange> {
        std::mem::take(&mut self.given_back)
    }

    /// The runs are free to be used again.
    pub(crate) fn was_discarded(&mut self, ranges: &[BlockRange]) {
        ranges.iter().for_each(|&range| self.runs.give(range));
    }

    /// The first violation of S1 to S3, in words.
    pub fn check(&self) -> Result<(), String> {
        for zone in &self.zones {
            zone.check()?;
        }
        let zone_free: Blocks = self.zones.iter().map(ZoneSpace::free).sum();
        let back: Blocks = self.given_back.iter().map(|r| r.len).sum();
        let free = zone_free + back + self.runs.len();
        // Runs on their way through a discard are counted as free but are in neither list.
        if free > self.free || (!self.zone_len.is_zero() && free != self.free) {
            return Err(format!("S3: free is {}, but the parts add up to {free}", self.free));
        }
        let held: Blocks = self.zones.iter().map(|z| z.held).sum();
        if !self.zone_len.is_zero() && held != self.held {
            return Err(format!("S3: held is {}, but the zones hold {held}", self.held));
        }
        self.runs.check()
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
        #[cfg(feature = "invariants")]
        if let Err(broken) = self.zones[id as usize].check() {
            panic!("{broken}");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
