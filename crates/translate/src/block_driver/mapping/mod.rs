//! The mapping from LBA to PBA, one node for each run that is contiguous in both.
//!
//! ```text
//!     LBA   100                 200        320       420 430
//!            |------ node ------|           |-- node --|  |-- node --|
//!     PBA   5000 .. 5099                   900 .. 999     7000 ..
//!
//!     set 120..170 -> 8100
//!
//!     LBA   100  120    170     200
//!            |----|------|------|          three nodes where one was;
//!     PBA   5000  8100   5070              displaced: 5020..5070
//! ```
//!
//! Its memory depends on how fragmented the mapping is, not on the size of the drive. Nodes are
//! kept in two orders: by LBA to translate, and by PBA so that cleaning finds the valid data of a
//! zone.
//!
//! The paper's tree is a red-black tree of nodes with a key, a length and an address. With
//! pointers, colour and the allocator's header, a node takes 56 bytes or so, in one order. Here
//! both orders together take about 35 bytes a node (`packed`). 30 million nodes, written in random
//! order, are accounted as 1.07 GB; the process grew by 1.2 GB, since growing leaves leave holes.
//!
//! A node is in one zone: a run that is contiguous across the end of a zone stays two nodes. This
//! is the only deviation from the paper's count of nodes, at most one for each zone.
//!
//! Invariants
//!   M1  No LBA has two nodes, and no PBA has two.
//!   M2  Nodes that are contiguous in LBA, and in PBA within a zone, are one.
//!   M3  Both orders have the same nodes.
//!   M4  A zone's counts of valid blocks and of nodes match its nodes.
//!
//! Cost: O(log n) for a node, and for each node that it displaces.
//! Source: section II-B of the paper; its figure 4 is in the tests.
//! Not here: how the mapping survives a power cut (`checkpoint`, `journal`), newer content in the
//! write buffer (`buffer`).

mod packed;
mod table;

pub use table::{SectorRange, TableMapping, TableWrite};

use imbrex_disk::{BlockRange, Blocks, Lba, Pba, ZoneId};
use packed::{ADDRESS_END, Builder, FrozenRuns, PackedRuns, Run};
use std::fmt;

/// A half-open run of blocks on the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PbaRange {
    /// The first block.
    pub start: Pba,
    /// How many blocks.
    pub len: Blocks,
}

impl PbaRange {
    /// The first block after the run.
    pub fn end(self) -> Pba {
        self.start + self.len
    }
}

impl fmt::Display for PbaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start.get(), self.end().get())
    }
}

/// A node of the mapping: a run contiguous in LBA and in PBA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapRun {
    /// The first block, as the host names it.
    pub start: Lba,
    /// Its place on the drive.
    pub at: Pba,
    /// How many blocks.
    pub len: Blocks,
}

impl MapRun {
    /// The run as the host names it.
    pub fn range(self) -> BlockRange {
        BlockRange::new(self.start, self.len)
    }

    /// The run on the drive.
    pub fn place(self) -> PbaRange {
        PbaRange { start: self.at, len: self.len }
    }
}

impl fmt::Display for MapRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without ends: the run may come from a damaged checkpoint and have any numbers.
        write!(f, "{} from {} at {}", self.len, self.start, self.at)
    }
}

/// A part of a range that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which blocks.
    pub range: BlockRange,
    /// The place of the first block; `None` if the part is not mapped.
    pub at: Option<Pba>,
}

/// The dimensions of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapSpec {
    /// How many LBAs there are.
    pub len: Blocks,
    /// The length of a zone of the drive below.
    pub zone_len: Blocks,
    /// How many zones that drive has.
    pub zone_count: u32,
}

impl MapSpec {
    /// M2: whether `right` continues `left` in both addresses and in the same zone.
    pub(super) fn is_one_run(self, left: MapRun, right: MapRun) -> bool {
        let zone = |at: Pba| at.get() / self.zone_len.get();
        left.range().end() == right.start
            && left.place().end() == right.at
            && zone(left.at) == zone(right.at)
    }
}

/// A run that a mapping refuses. The mapping is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MappingError {
    /// A drive that is too large, or without zones.
    #[error("{what} is {got}; a mapping takes from 1 to {max}")]
    Spec {
        /// The field, or what follows from several.
        what: &'static str,
        /// Its value.
        got: u64,
        /// The greatest allowed value.
        max: u64,
    },
    /// A run that has no block, or exceeds the disk or the drive.
    #[error(
        "node of {run} is empty, or exceeds the disk of {len} blocks or the drive of {drive_len}"
    )]
    OutOfRange {
        /// The run.
        run: MapRun,
        /// How many LBAs there are.
        len: u64,
        /// How many PBAs there are.
        drive_len: u64,
    },
    /// A node that is in two zones.
    #[error("node of {run} crosses the end of a zone; zones have {zone_len} blocks")]
    ZoneBoundary {
        /// The run.
        run: MapRun,
        /// The length of a zone.
        zone_len: u64,
    },
    /// A node that does not follow the one before it.
    #[error("node of {run} does not follow the previous one, which ends at lba {previous_end}")]
    OutOfOrder {
        /// The run.
        run: MapRun,
        /// Where the run before it ends.
        previous_end: u64,
    },
    /// Two LBAs would have one PBA.
    #[error("node of {run} overlaps the place of {owner}")]
    PbaTaken {
        /// The run.
        run: MapRun,
        /// The node at that place.
        owner: MapRun,
    },
}

/// The mapping of a drive; see the module.
#[derive(Clone, Debug)]
pub struct Mapping {
    spec: MapSpec,
    by_lba: PackedRuns,
    by_pba: PackedRuns,
    zones: Vec<ZoneCount>,
    mapped: u64,
    /// Kept between calls, so that an overwrite allocates nothing for it.
    scratch: Vec<Run>,
}

/// The nodes of a mapping at one moment, in the order of LBAs.
#[derive(Debug)]
pub struct FrozenNodes(FrozenRuns);

impl Iterator for FrozenNodes {
    type Item = MapRun;

    fn next(&mut self) -> Option<MapRun> {
        self.0.next().map(node)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ZoneCount {
    valid: u32,
    nodes: u32,
}

impl Mapping {
    /// Maps nothing.
    ///
    /// # Errors
    /// [`MappingError::Spec`]: `zone_len` is 2^32 blocks or more, or the disk or the drive 2^48.
    pub fn new(spec: MapSpec) -> Result<Mapping, MappingError> {
        check_spec(spec)?;
        Ok(Mapping {
            spec,
            by_lba: PackedRuns::default(),
            by_pba: PackedRuns::default(),
            zones: vec![ZoneCount::default(); spec.zone_count as usize],
            mapped: 0,
            scratch: Vec::new(),
        })
    }

    /// Builds the mapping of `nodes`, which ascend by LBA. Neighbours that form one run become one
    /// node.
    ///
    /// # Errors
    /// The first node that the mapping refuses; of two at one PBA, the later one in the zone.
    pub fn from_sorted(
        spec: MapSpec,
        nodes: impl IntoIterator<Item = MapRun>,
    ) -> Result<Mapping, MappingError> {
        let mut mapping = Mapping::new(spec)?;
        let mut zones: Vec<Vec<Run>> = vec![Vec::new(); spec.zone_count as usize];
        let mut builder = Builder::default();
        for given in nodes {
            let run = mapping.node_of(given)?;
            let previous_end = builder.last().map_or(0, Run::end);
            if run.key < previous_end {
                return Err(MappingError::OutOfOrder { run: given, previous_end });
            }
            let zone = mapping.zone_index(run.value);
            match builder.last().filter(|&last| mapping.is_one_run(last, run)) {
                Some(last) => {
                    builder.lengthen_last(last.len + run.len);
                    zones[zone].pop();
                    zones[zone].push(Run { len: last.len + run.len, ..last }.flipped());
                }
                None => {
                    builder.push(run);
                    zones[zone].push(run.flipped());
                }
            }
            mapping.mapped += u64::from(run.len);
        }
        mapping.by_lba = builder.finish();
        let mut builder = Builder::default();
        for (count, mut runs) in mapping.zones.iter_mut().zip(zones) {
            runs.sort_unstable();
            for run in runs {
                if let Some(owner) = builder.last().filter(|last| run.key < last.end()) {
                    let (run, owner) = (node(run.flipped()), node(owner.flipped()));
                    return Err(MappingError::PbaTaken { run, owner });
                }
                builder.push(run);
                count.valid += run.len;
                count.nodes += 1;
            }
        }
        mapping.by_pba = builder.finish();
        Ok(mapping)
    }

    /// Its dimensions.
    pub fn spec(&self) -> MapSpec {
        self.spec
    }

    /// How many nodes.
    pub fn node_count(&self) -> usize {
        self.by_lba.count()
    }

    /// How many blocks are mapped.
    pub fn mapped(&self) -> Blocks {
        Blocks::new(self.mapped)
    }

    /// How many blocks of a zone are mapped; 0 past the last zone.
    pub fn valid(&self, zone: ZoneId) -> Blocks {
        Blocks::new(self.zones.get(zone.0 as usize).map_or(0, |count| u64::from(count.valid)))
    }

    /// How many nodes are in a zone; 0 past the last zone.
    pub fn nodes_in(&self, zone: ZoneId) -> usize {
        self.zones.get(zone.0 as usize).map_or(0, |count| count.nodes as usize)
    }

    /// How much memory it takes: the capacity of the leaves of both orders with the allocator's
    /// header of each, the index above them at the usual fill of a B-tree, and the counts of the
    /// zones.
    pub fn memory_bytes(&self) -> u64 {
        self.node_bytes()
            + (self.zones.capacity() * size_of::<ZoneCount>()) as u64
            + (self.scratch.capacity() * size_of::<Run>()) as u64
    }

    /// The part of it that grows with the nodes.
    pub(super) fn node_bytes(&self) -> u64 {
        self.by_lba.memory_bytes() + self.by_pba.memory_bytes()
    }

    /// Maps `range` to the blocks from `at`; returns its previous places in the order of LBAs. A
    /// run across the end of a zone becomes a node in each zone.
    ///
    /// # Errors
    /// [`MappingError::OutOfRange`], and [`MappingError::PbaTaken`] if LBAs outside `range` are
    /// mapped to blocks from `at`. Repeating a mapping is no error: replaying a journal twice does
    /// it.
    pub fn set(&mut self, range: BlockRange, at: Pba) -> Result<Vec<PbaRange>, MappingError> {
        let run = MapRun { start: range.start, at, len: range.len };
        self.check_range(run)?;
        if let Some(owner) = self.other_owner(run) {
            return Err(MappingError::PbaTaken { run, owner: node(owner.flipped()) });
        }
        let displaced = self.unset(range);
        let (mut lba, mut pba, end) = (range.start.get(), at.get(), range.end().get());
        while lba < end {
            let zone_end = (self.zone_index(pba) as u64 + 1) * self.spec.zone_len.get();
            let len = (end - lba).min(zone_end - pba);
            self.add(Run { key: lba, value: pba, len: short(len) });
            (lba, pba) = (lba + len, pba + len);
        }
        Ok(displaced)
    }

    /// Unmaps `range`; returns its places in the order of LBAs.
    pub fn unset(&mut self, range: BlockRange) -> Vec<PbaRange> {
        let mut displaced = Vec::new();
        if range.len.is_zero() {
            return displaced;
        }
        let (start, end) = (range.start.get(), range.end().get());
        if self.by_lba.last_at(end - 1).is_none_or(|last| last.end() <= start) {
            return displaced;
        }
        if let Some(left) = self.by_lba.last_at(start)
            && left.key < start
            && start < left.end()
        {
            let kept = short(start - left.key);
            self.by_lba.set_len(left.key, kept);
            self.by_pba.set_len(left.value, kept);
            let cut = Run { key: start, value: left.value + u64::from(kept), len: left.len - kept };
            self.count_out(cut, 0);
            displaced.push(self.cut_off(cut, end));
        }
        let mut taken = std::mem::take(&mut self.scratch);
        self.by_lba.take(start, end, &mut taken);
        for run in taken.drain(..) {
            self.by_pba.remove(run.value);
            self.count_out(run, 1);
            displaced.push(self.cut_off(run, end));
        }
        taken.shrink_to(SCRATCH_LEN_KEPT);
        self.scratch = taken;
        displaced
    }

    /// The places of the blocks of `range`: all of it, in order, split at the ends of nodes.
    pub fn lookup(&self, range: BlockRange) -> impl Iterator<Item = Piece> + '_ {
        let (start, end) = (range.start.get(), range.end().get());
        let left = self.by_lba.last_at(start).filter(|run| run.key < start && start < run.end());
        let is_all = left.is_some_and(|left| end <= left.end());
        let inside = (!is_all).then(|| self.by_lba.range(start, end)).into_iter().flatten();
        let mut runs = left.into_iter().chain(inside).peekable();
        let mut lba = start;
        std::iter::from_fn(move || {
            if end <= lba {
                return None;
            }
            let (at, piece_end) = match runs.next_if(|run| run.key <= lba) {
                Some(run) => (Some(Pba::new(run.value + (lba - run.key))), run.end().min(end)),
                None => (None, runs.peek().map_or(end, |run| run.key)),
            };
            let range = BlockRange::new(Lba::new(lba), Blocks::new(piece_end - lba));
            lba = piece_end;
            Some(Piece { range, at })
        })
    }

    /// All nodes, in the order of LBAs.
    pub fn iter(&self) -> impl Iterator<Item = MapRun> + '_ {
        self.by_lba.range(0, ADDRESS_END).map(node)
    }

    /// Like [`Mapping::iter`], with the nodes of this moment, even if the mapping changes
    /// meanwhile.
    ///
    /// Cost: copies a pointer for each hundred nodes at once. Leaves that change later are copied
    /// first, once.
    pub fn frozen(&self) -> FrozenNodes {
        FrozenNodes(self.by_lba.frozen())
    }

    /// The nodes in `zone`, in the order of PBAs.
    pub fn runs_in(&self, zone: ZoneId) -> impl Iterator<Item = MapRun> + '_ {
        let zone_len = self.spec.zone_len.get();
        let start = u64::from(zone.0) * zone_len;
        self.by_pba.range(start, start + zone_len).map(|run| node(run.flipped()))
    }

    /// The first node, by PBA, with blocks of `place`.
    pub fn owner(&self, place: PbaRange) -> Option<MapRun> {
        let (start, end) = (place.start.get(), place.end().get());
        let left = self.by_pba.last_at(start).filter(|run| start < run.end());
        let first = left.or_else(|| self.by_pba.range(start, end).next());
        first.filter(|_| start < end).map(|run| node(run.flipped()))
    }

    /// Checks M1 to M4, and the containers.
    ///
    /// # Errors
    /// The first violation, in words.
    pub fn check(&self) -> Result<(), String> {
        self.by_lba.check()?;
        self.by_pba.check()?;
        let mut previous: Option<Run> = None;
        for run in self.by_lba.range(0, ADDRESS_END) {
            self.node_of(node(run)).map_err(|error| format!("M1: {error}"))?;
            if let Some(previous) = previous {
                if run.key < previous.end() {
                    return Err(format!("M1: {} overlaps {}", node(run), node(previous)));
                }
                if self.is_one_run(previous, run) {
                    return Err(format!("M2: {} and {} are one run", node(previous), node(run)));
                }
            }
            if self.by_pba.last_at(run.value) != Some(run.flipped()) {
                return Err(format!("M3: {} is not in the order of PBAs", node(run)));
            }
            previous = Some(run);
        }
        if self.by_lba.count() != self.by_pba.count() {
            let counts = (self.by_lba.count(), self.by_pba.count());
            return Err(format!("M3: the orders have {counts:?} nodes"));
        }
        let mut zones = vec![ZoneCount::default(); self.zones.len()];
        let mut previous_end = 0;
        for run in self.by_pba.range(0, ADDRESS_END) {
            if run.key < previous_end {
                return Err(format!(
                    "M1: {} overlaps the place of the node before it",
                    node(run.flipped())
                ));
            }
            previous_end = run.end();
            let count = &mut zones[self.zone_index(run.key)];
            *count = ZoneCount { valid: count.valid + run.len, nodes: count.nodes + 1 };
        }
        if let Some(zone) = (0..zones.len()).find(|&zone| zones[zone] != self.zones[zone]) {
            let (got, counted) = (zones[zone], self.zones[zone]);
            return Err(format!("M4: zone {zone} has {got:?}, counted {counted:?}"));
        }
        let sum: u64 = zones.iter().map(|count| u64::from(count.valid)).sum();
        if sum != self.mapped {
            return Err(format!("M4: {sum} blocks are mapped, but the count is {}", self.mapped));
        }
        Ok(())
    }

    /// Adds a run within a zone at an unmapped place, and merges it with its neighbours.
    fn add(&mut self, run: Run) {
        self.count_in(run);
        let mut run = run;
        let mut left = self.by_lba.last_at(run.end());
        if let Some(right) = left.filter(|right| right.key == run.end()) {
            left = run.key.checked_sub(1).and_then(|before| self.by_lba.last_at(before));
            if self.is_one_run(run, right) {
                self.by_lba.remove(right.key);
                self.by_pba.remove(right.value);
                let zone = self.zone_index(right.value);
                self.zones[zone].nodes -= 1;
                run.len += right.len;
            }
        }
        match left.filter(|&left| self.is_one_run(left, run)) {
            Some(left) => {
                self.by_lba.set_len(left.key, left.len + run.len);
                self.by_pba.set_len(left.value, left.len + run.len);
            }
            None => self.insert(run),
        }
    }

    /// Adds a node to both orders.
    fn insert(&mut self, run: Run) {
        self.by_lba.insert(run);
        self.by_pba.insert(run.flipped());
        let zone = self.zone_index(run.value);
        self.zones[zone].nodes += 1;
    }

    /// Puts back the part of `run`, which was just taken out, after `end`; returns the place of the
    /// rest.
    fn cut_off(&mut self, run: Run, end: u64) -> PbaRange {
        let len = short(run.end().min(end) - run.key);
        if len < run.len {
            let rest = Run { key: end, value: run.value + u64::from(len), len: run.len - len };
            self.count_in(rest);
            self.insert(rest);
        }
        PbaRange { start: Pba::new(run.value), len: Blocks::new(u64::from(len)) }
    }

    fn count_in(&mut self, run: Run) {
        let zone = self.zone_index(run.value);
        self.zones[zone].valid += run.len;
        self.mapped += u64::from(run.len);
    }

    fn count_out(&mut self, run: Run, nodes: u32) {
        let zone = self.zone_index(run.value);
        let count = &mut self.zones[zone];
        count.valid -= run.len;
        count.nodes -= nodes;
        self.mapped -= u64::from(run.len);
    }

    /// As [`MapSpec::is_one_run`].
    fn is_one_run(&self, left: Run, right: Run) -> bool {
        self.spec.is_one_run(node(left), node(right))
    }

    /// A node at the place of `run` that belongs to LBAs outside `run`; the first by PBA.
    fn other_owner(&self, run: MapRun) -> Option<Run> {
        let (start, end) = (run.at.get(), run.place().end().get());
        let (lba_start, lba_end) = (run.start.get(), run.range().end().get());
        self.by_pba.last_at(end - 1).filter(|last| start < last.end())?;
        let left = self.by_pba.last_at(start).filter(|left| left.key < start && start < left.end());
        left.into_iter().chain(self.by_pba.range(start, end)).find(|owner| {
            let (from, to) = (owner.key.max(start), owner.end().min(end));
            let lba = owner.value + (from - owner.key);
            lba < lba_start || lba_end < lba + (to - from)
        })
    }

    fn zone_index(&self, pba: u64) -> usize {
        (pba / self.spec.zone_len.get()) as usize
    }

    fn check_range(&self, run: MapRun) -> Result<(), MappingError> {
        let (len, drive_len) = (self.spec.len.get(), drive_len(self.spec));
        let fits =
            |start: u64, len: u64| start.checked_add(run.len.get()).is_some_and(|end| end <= len);
        if run.len.is_zero() || !fits(run.start.get(), len) || !fits(run.at.get(), drive_len) {
            return Err(MappingError::OutOfRange { run, len, drive_len });
        }
        Ok(())
    }

    /// Checks that a node is on the disk and the drive, and in one zone.
    ///
    /// # Errors
    /// [`MappingError`].
    pub(super) fn check_node(&self, run: MapRun) -> Result<(), MappingError> {
        self.node_of(run).map(drop)
    }

    /// Checks a node that the mapping is to have, and returns its run.
    fn node_of(&self, run: MapRun) -> Result<Run, MappingError> {
        self.check_range(run)?;
        let (pba, len) = (run.at.get(), run.len.get());
        if self.zone_index(pba) != self.zone_index(pba + len - 1) {
            return Err(MappingError::ZoneBoundary { run, zone_len: self.spec.zone_len.get() });
        }
        Ok(Run { key: run.start.get(), value: pba, len: short(len) })
    }
}

/// How many runs of scratch space a mapping keeps.
const SCRATCH_LEN_KEPT: usize = 1024;

fn check_spec(spec: MapSpec) -> Result<(), MappingError> {
    for (what, got, max) in [
        ("len", spec.len.get(), ADDRESS_END - 1),
        ("zone_len", spec.zone_len.get(), u64::from(u32::MAX)),
        ("zone_count", u64::from(spec.zone_count), u64::from(u32::MAX)),
    ] {
        if got == 0 || max < got {
            return Err(MappingError::Spec { what, got, max });
        }
    }
    let (got, max) = (drive_len(spec), ADDRESS_END - 1);
    let what = "zone_len * zone_count";
    if max < got { Err(MappingError::Spec { what, got, max }) } else { Ok(()) }
}

/// How many PBAs there are; neither factor has more than 32 bits.
fn drive_len(spec: MapSpec) -> u64 {
    spec.zone_len.get() * u64::from(spec.zone_count)
}

fn short(len: u64) -> u32 {
    u32::try_from(len).expect("a run within a zone has less than 2^32 blocks")
}

fn node(run: Run) -> MapRun {
    MapRun {
        start: Lba::new(run.key),
        at: Pba::new(run.value),
        len: Blocks::new(u64::from(run.len)),
    }
}

#[cfg(test)]
mod tests;
