//! The map of a device in bounded memory: what changed lately, over a base on the drive.
//!
//! ```text
//!     newest    |   |-- 7 --|  none  |                   nodes in memory; what was unmapped since
//!     base      |--- 500 ---------------|   |-- 90 --|   nodes on the drive: the last whole checkpoint
//!     the map   |500|-- 7 --|        |--|   |-- 90 --|
//! ```
//!
//! While all nodes fit the bound, there is no base, and `newest` is the map. When they do not, the next
//! whole checkpoint becomes the base, and `newest` keeps what has changed since that checkpoint began.
//! From then on a whole checkpoint merges `newest` and the base into the next base, each time `newest`
//! has grown long. This is a log-structured tree of two levels. Its upper level is in the journal and in
//! deltas, and its lower level is a checkpoint that is written anyway.
//!
//! A write changes `newest` without reading the base. So nobody knows yet whether its blocks had another
//! place, and the zone of that place seems fuller than it is. The next merge knows. Cleaning learns the
//! same of the zones that it empties.
//!
//! Invariants
//!   L1  A run of the base counts where neither `newest` nor `unmapped` has its blocks.
//!   L2  All places of the base that count are in `live`. A place in `live` that does not count is one
//!       whose block was written or unmapped since.
//!   L3  A zone is written anew only if none of its places is in `live`, except while a device is being
//!       opened.
//!   L4  `unmapped` is empty without a base.
//!
//! Cost: a base of n nodes is read and written, in both copies, for each `newest_most` bytes of changes.
//! Decision 78 has figures.
//!
//! Source: ours; the paper keeps the map in memory. Not here: cleaning and opening with a base
//! (`paging`, `read_checkpoint`), the parts of a base (`base`).

use super::base::{Base, BaseBuilder, BasePlace, BaseRuns, Chunk, pieces_of};
use super::checkpoint_format::Run;
use super::mapping::{FrozenNodes, MapRun, MapSpec, Mapping, MappingError, PbaRange, Piece};
use super::overlay::{Overlay, overlay};
use super::regions::{EvictionOrder, Regions};
use imbrex_disk::{BlockRange, Blocks, Disk, DiskError, Lba, Pba, ZoneId};
use std::iter::Peekable;
use std::sync::Arc;

/// The least memory that `newest` may take, whatever the bound: a few hundred nodes.
const NEWEST_BYTES_MIN: u64 = 2 << 10;

/// The map of a device; see the module.
#[derive(Debug)]
pub(super) struct LayeredMap {
    newest: Mapping,
    unmapped: Regions,
    base: Option<Base>,
    /// What changed since the last checkpoint began.
    changes: Regions,
    /// While a base is being written: places that died since it began.
    deaths: Option<Vec<PbaRange>>,
    bound_bytes: u64,
}

/// The nodes of a whole checkpoint, and what is to be noted of them.
pub(super) struct WholeNodes {
    /// How many there are, if that is known.
    pub(super) count: Option<u64>,
    pub(super) nodes: NodeSource,
    /// To note where the nodes are, if the checkpoint is to be a base.
    pub(super) noted: Option<BaseBuilder>,
}

/// Why a lookup has no answer.
pub(super) enum Unknown {
    /// The base must be read first.
    Missing(MissingChunks),
    /// The base cannot be read.
    Failed(DiskError),
}

/// Chunks of a base that a lookup needs.
#[derive(Debug)]
pub(super) struct MissingChunks {
    place: Arc<BasePlace>,
    chunks: Vec<usize>,
}

/// Chunks that were read.
pub(super) struct FoundChunks {
    number: u64,
    chunks: Result<Vec<(usize, Chunk)>, DiskError>,
}

impl From<DiskError> for Unknown {
    fn from(error: DiskError) -> Unknown {
        Unknown::Failed(error)
    }
}

impl MissingChunks {
    /// Reads the chunks. It uses nothing that other threads may change, but the base's zones may be
    /// written anew meanwhile: then what was found, or the error, means nothing.
    pub(super) fn fetch(self, disk: &dyn Disk) -> FoundChunks {
        let read = |chunk: usize| self.place.read(disk, chunk).map(|found| (chunk, found));
        let chunks = self.chunks.iter().copied().map(read).collect();
        FoundChunks { number: self.place.number(), chunks }
    }
}

impl LayeredMap {
    /// A map that is wholly in memory so far. It takes about `bound_bytes` at most.
    pub(super) fn new(newest: Mapping, bound_bytes: u64) -> LayeredMap {
        LayeredMap {
            newest,
            unmapped: Regions::new(EvictionOrder::LargestRegion),
            base: None,
            changes: Regions::new(EvictionOrder::LargestRegion),
            deaths: None,
            bound_bytes,
        }
    }

    /// A map over a base: `newer` has the runs since, some of them unmapped.
    ///
    /// # Errors
    /// A run that the map refuses.
    pub(super) fn over(
        base: Base,
        newer: Vec<Run>,
        spec: MapSpec,
        bound_bytes: u64,
    ) -> Result<LayeredMap, MappingError> {
        let mut unmapped = Regions::new(EvictionOrder::LargestRegion);
        for gone in newer.iter().filter(|run| !run.is_mapped()) {
            unmapped.insert(gone.range);
        }
        let mapped = newer.into_iter().filter(Run::is_mapped).map(MapRun::from);
        let newest = Mapping::from_sorted(spec, mapped)?;
        let base = Some(base);
        Ok(LayeredMap { base, unmapped, ..LayeredMap::new(newest, bound_bytes) })
    }

    pub(super) fn spec(&self) -> MapSpec {
        self.newest.spec()
    }

    /// How many nodes; with a base, at most.
    pub(super) fn node_count(&self) -> u64 {
        self.newest.node_count() as u64 + self.base_node_count()
    }

    /// How many nodes the base has.
    pub(super) fn base_node_count(&self) -> u64 {
        self.base.as_ref().map_or(0, Base::node_count)
    }

    /// How many blocks are mapped; with a base, at most.
    pub(super) fn mapped(&self) -> Blocks {
        self.newest.mapped() + Blocks::new(self.base.as_ref().map_or(0, |base| base.live.total()))
    }

    /// How many blocks of a zone are mapped; with a base, at most.
    pub(super) fn valid(&self, zone: ZoneId) -> Blocks {
        let of_base = self.base.as_ref().map_or(0, |base| base.live.valid(zone));
        self.newest.valid(zone) + Blocks::new(of_base)
    }

    /// How much memory it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let counts = self.newest.memory_bytes() - self.newest.node_bytes();
        counts + self.newest_bytes() + self.base.as_ref().map_or(0, Base::memory_bytes)
    }

    /// What grows with the changes.
    fn newest_bytes(&self) -> u64 {
        self.newest.node_bytes() + self.unmapped.memory_bytes() + self.changes.memory_bytes()
    }

    /// The part of it that is in memory whatever is on the drive.
    pub(super) fn newest(&self) -> &Mapping {
        &self.newest
    }

    /// Whether a part of it is on the drive.
    pub(super) fn has_base(&self) -> bool {
        self.base.is_some()
    }

    /// How many blocks were written or unmapped whose place in the base, if they had one, nobody
    /// knows yet.
    pub(super) fn hidden(&self) -> Blocks {
        match &self.base {
            Some(_) => self.newest.mapped() + self.unmapped.total(),
            None => Blocks::ZERO,
        }
    }

    // The bound.

    /// How much `newest` may take before it is merged into the next base. While that is being
    /// written, `newest` and a copy of what changes are in memory.
    fn newest_most(&self) -> u64 {
        match &self.base {
            None => self.bound_bytes / 8 * 7,
            Some(base) => {
                let left = self.bound_bytes.saturating_sub(base.fixed_bytes());
                (left / 3).max(self.bound_bytes / 16)
            }
        }
        .max(NEWEST_BYTES_MIN)
    }

    /// Whether the next whole checkpoint is due because the map takes too much memory.
    pub(super) fn is_long(&self) -> bool {
        self.newest_most() < self.newest_bytes()
    }

    /// Whether writes have to wait for the checkpoint that is being written.
    pub(super) fn is_full(&self) -> bool {
        self.newest_most().saturating_mul(2) < self.newest_bytes() && self.deaths.is_some()
    }

    // Changes.

    /// Maps `range` to the blocks from `at`; returns its previous places, as far as they are known.
    ///
    /// # Errors
    /// As [`Mapping::set`].
    pub(super) fn set(
        &mut self,
        range: BlockRange,
        at: Pba,
    ) -> Result<Vec<PbaRange>, MappingError> {
        let displaced = self.newest.set(range, at)?;
        self.unmapped.remove(range);
        self.changes.insert(range);
        self.note_deaths(&displaced);
        Ok(displaced)
    }

    /// Unmaps `range`; returns its places, as far as they are known.
    pub(super) fn unset(&mut self, range: BlockRange) -> Vec<PbaRange> {
        let displaced = self.newest.unset(range);
        if self.base.is_some() {
            self.unmapped.insert(range);
        }
        if self.base.is_some() || !displaced.is_empty() {
            self.changes.insert(range);
        }
        self.note_deaths(&displaced);
        displaced
    }

    fn note_deaths(&mut self, places: &[PbaRange]) {
        if let Some(deaths) = &mut self.deaths {
            deaths.extend_from_slice(places);
        }
        if let Some(base) = &mut self.base {
            places.iter().for_each(|&place| base.live.remove(place));
        }
    }

    /// The base's blocks at `place` are known to be elsewhere now.
    pub(super) fn forget_place(&mut self, place: PbaRange) {
        self.note_deaths(&[place]);
    }

    /// The LBAs that changed since the last call.
    pub(super) fn take_changes(&mut self) -> Regions {
        std::mem::replace(&mut self.changes, Regions::new(EvictionOrder::LargestRegion))
    }

    /// The present runs of what changed since the last checkpoint.
    pub(super) fn runs_of(&self, changes: &Regions) -> Vec<Run> {
        let pieces = changes.iter().flat_map(|range| self.newest.lookup(range));
        let run = |piece: Piece| match piece.at {
            Some(at) => Run { range: piece.range, at },
            None => Run::unmapped(piece.range),
        };
        pieces.map(run).collect()
    }

    // Lookups.

    /// The places of the blocks of `range`: all of it, in order.
    ///
    /// # Errors
    /// What is missing for that.
    pub(super) fn lookup(&self, range: BlockRange) -> Result<Vec<Piece>, Unknown> {
        let mut missing = Vec::new();
        let pieces = self.lookup_with(range, &mut |base, chunk| {
            let kept = base.kept(chunk);
            if kept.is_none() && missing.last() != Some(&chunk) {
                missing.push(chunk);
            }
            kept.flatten()
        });
        match &self.base {
            Some(base) if !missing.is_empty() => {
                let place = Arc::clone(&base.place);
                Err(Unknown::Missing(MissingChunks { place, chunks: missing }))
            }
            _ => Ok(check_pieces(range, pieces)?),
        }
    }

    /// The same, and reads what is not in memory.
    ///
    /// # Errors
    /// [`DiskError`]. Where the base cannot be read, [`DiskError::Medium`].
    pub(super) fn lookup_on(
        &self,
        disk: &dyn Disk,
        range: BlockRange,
    ) -> Result<Vec<Piece>, DiskError> {
        let mut failure = None;
        let pieces = self.lookup_with(range, &mut |base, chunk| {
            let read = base.kept(chunk).map_or_else(|| base.place.read(disk, chunk), Ok);
            read.unwrap_or_else(|error| {
                failure.get_or_insert(error);
                None
            })
        });
        failure.map_or_else(|| check_pieces(range, pieces), Err)
    }

    /// The places of the blocks of `range`, with chunks from `chunk`. Blocks in a chunk that it does
    /// not have are left out.
    fn lookup_with(
        &self,
        range: BlockRange,
        chunk: &mut dyn FnMut(&Base, usize) -> Chunk,
    ) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for piece in self.newest.lookup(range) {
            match (&self.base, piece.at) {
                (Some(base), None) => {
                    let mut at = piece.range.start;
                    let gone: Vec<BlockRange> = self.unmapped.within(piece.range).collect();
                    for gone in gone {
                        base_pieces(base, until(at, gone.start), chunk, &mut pieces);
                        pieces.push(Piece { range: gone, at: None });
                        at = gone.end();
                    }
                    base_pieces(base, until(at, piece.range.end()), chunk, &mut pieces);
                }
                _ => pieces.push(piece),
            }
        }
        pieces
    }

    /// The start of `range` that is in one chunk of the base.
    pub(super) fn first_chunk(&self, range: BlockRange) -> BlockRange {
        let Some(base) = &self.base else { return range };
        let chunk = base.place.chunks_of(range).next();
        let end = chunk.map_or(range.end(), |chunk| base.place.range_of(chunk).end());
        until(range.start, end.min(range.end()))
    }

    /// Keeps chunks that were read, if the base is still that one.
    ///
    /// # Errors
    /// Why they could not be read.
    pub(super) fn keep(&mut self, found: FoundChunks) -> Result<(), DiskError> {
        if let Some(base) = self.base.as_mut().filter(|base| base.place.number() == found.number) {
            found.chunks?.into_iter().for_each(|(chunk, runs)| base.keep(chunk, runs));
        }
        Ok(())
    }

    /// The parts of `run`, a node of some earlier moment, whose blocks are still at one of the places
    /// that `is_wanted`, where they are now.
    pub(super) fn still_at(
        &self,
        run: MapRun,
        is_wanted: &mut dyn FnMut(Pba) -> bool,
    ) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for piece in self.newest.lookup(run.range()) {
            match (piece.at, &self.base) {
                (Some(at), _) => pieces.extend(is_wanted(at).then_some(piece)),
                (None, None) => {}
                (None, Some(base)) => {
                    let mut part: Option<Piece> = None;
                    for index in 0..piece.range.len.get() {
                        let lba = piece.range.start + Blocks::new(index);
                        let at = run.at + (lba - run.start);
                        let one = BlockRange::new(lba, Blocks::new(1));
                        let counts = base.live.has(at)
                            && self.unmapped.within(one).next().is_none()
                            && is_wanted(at);
                        match &mut part {
                            Some(part) if counts => part.range.len += Blocks::new(1),
                            _ => {
                                pieces.extend(part.take());
                                part = counts.then_some(Piece { range: one, at: Some(at) });
                            }
                        }
                    }
                    pieces.extend(part);
                }
            }
        }
        pieces
    }

    /// Whether `newest` or `unmapped` has the block.
    pub(super) fn covers(&self, lba: Lba) -> bool {
        self.uncovered(BlockRange::new(lba, Blocks::new(1))).is_empty()
    }

    /// The parts of `range` that neither `newest` nor `unmapped` has, in order.
    pub(super) fn uncovered(&self, range: BlockRange) -> Vec<BlockRange> {
        let unmapped = self.newest.lookup(range).filter(|piece| piece.at.is_none());
        unmapped.flat_map(|piece| self.unmapped.gaps(piece.range)).collect()
    }

    /// Whether the base has something at the place.
    pub(super) fn is_live(&self, at: Pba) -> bool {
        self.base.as_ref().is_some_and(|base| base.live.has(at))
    }

    /// Whether a block is mapped to the place; with a base, whether one may be.
    pub(super) fn is_taken(&self, place: PbaRange) -> bool {
        let of_base = self.base.as_ref().is_some_and(|base| base.live.has_any(place));
        of_base || self.newest.owner(place).is_some()
    }

    /// All runs of the base that count, in order.
    ///
    /// # Errors
    /// [`DiskError`].
    pub(super) fn each_of_base(
        &self,
        disk: &Arc<dyn Disk>,
        with: &mut dyn FnMut(MapRun),
    ) -> Result<(), DiskError> {
        let Some(base) = &self.base else { return Ok(()) };
        let mut runs = BaseRuns::new(Arc::clone(&base.place), Arc::clone(disk));
        for run in &mut runs {
            let run = MapRun::from(run);
            for BlockRange { start, len } in self.uncovered(run.range()) {
                with(MapRun { start, at: run.at + (start - run.start), len });
            }
        }
        runs.failure.map_or(Ok(()), Err)
    }

    // Bases.

    /// The nodes of a whole checkpoint that begins now. `disk` has the base.
    pub(super) fn begin_whole(&mut self, disk: &Arc<dyn Disk>) -> WholeNodes {
        let is_base = self.base.is_some() || self.is_long();
        drop(self.take_changes());
        let noted = is_base.then(|| BaseBuilder::new(self.spec()));
        self.deaths = noted.is_some().then(Vec::new);
        let frozen = self.newest.frozen();
        match &self.base {
            None => {
                let count = Some(self.newest.node_count() as u64);
                WholeNodes { count, nodes: NodeSource::Memory(frozen), noted }
            }
            Some(base) => {
                let older = BaseRuns::new(Arc::clone(&base.place), Arc::clone(disk));
                let newer = NewerRuns {
                    nodes: frozen.peekable(),
                    unmapped: self.unmapped.iter().collect::<Vec<_>>().into_iter().peekable(),
                };
                let merge = Merge { runs: overlay(newer, older), spec: self.spec(), next: None };
                WholeNodes { count: None, nodes: NodeSource::Merged(Box::new(merge)), noted }
            }
        }
    }

    /// The checkpoint that began last counts, and `base` is its map.
    ///
    /// Cost: a lookup for each change since that checkpoint began, at once.
    ///
    /// # Errors
    /// Never, if the map is consistent.
    pub(super) fn adopt(&mut self, mut base: Base) -> Result<(), MappingError> {
        let mut newest = Mapping::new(self.spec())?;
        let mut unmapped = Regions::new(EvictionOrder::LargestRegion);
        for range in self.changes.iter() {
            for piece in self.newest.lookup(range) {
                match piece.at {
                    Some(at) => _ = newest.set(piece.range, at)?,
                    None => _ = unmapped.insert(piece.range),
                }
            }
        }
        for place in self.deaths.take().unwrap_or_default() {
            base.live.remove(place);
        }
        (self.newest, self.unmapped, self.base) = (newest, unmapped, Some(base));
        Ok(())
    }

    /// How much memory the cache of the next base may take.
    pub(super) fn cache_bytes(&self) -> u64 {
        LayeredMap::cache_bytes_of(self.bound_bytes)
    }

    /// The same for a map of this bound.
    pub(super) fn cache_bytes_of(bound_bytes: u64) -> u64 {
        bound_bytes / 8
    }

    /// The checkpoint that began last counts; the map stays as it is.
    pub(super) fn end_whole(&mut self) {
        self.deaths = None;
    }

    /// Checks the invariants of the parts, and L4.
    ///
    /// # Errors
    /// The first violation, in words.
    #[cfg(test)]
    pub(super) fn check(&self) -> Result<(), String> {
        self.newest.check()?;
        self.unmapped.check()?;
        if self.base.is_none() && !self.unmapped.is_empty() {
            return Err("L4: without a base, blocks are unmapped".to_owned());
        }
        let both = self
            .unmapped
            .iter()
            .find(|&range| self.newest.lookup(range).any(|piece| piece.at.is_some()));
        both.map_or(Ok(()), |range| Err(format!("L1: {range} is mapped and unmapped")))
    }
}

/// Refuses pieces that do not cover `range`: the map of the rest cannot be read.
fn check_pieces(range: BlockRange, pieces: Vec<Piece>) -> Result<Vec<Piece>, DiskError> {
    let mut at = range.start;
    for piece in &pieces {
        if piece.range.start != at {
            return Err(DiskError::Medium { at });
        }
        at = piece.range.end();
    }
    if at == range.end() { Ok(pieces) } else { Err(DiskError::Medium { at }) }
}

fn until(start: Lba, end: Lba) -> BlockRange {
    BlockRange::new(start, end - start)
}

/// Appends the pieces of `range` by the base; those in chunks that cannot be read are left out.
fn base_pieces(
    base: &Base,
    range: BlockRange,
    chunk: &mut dyn FnMut(&Base, usize) -> Chunk,
    pieces: &mut Vec<Piece>,
) {
    if range.len.is_zero() {
        return;
    }
    let mut at = range.start;
    let fill = |at: Lba, end, pieces: &mut Vec<Piece>| {
        if at < end {
            pieces.push(Piece { range: until(at, end), at: None });
        }
    };
    for number in base.place.chunks_of(range) {
        let of_chunk = base.place.range_of(number);
        let (start, end) = (of_chunk.start.max(range.start), of_chunk.end().min(range.end()));
        // Only before the first chunk.
        fill(at, start, pieces);
        at = end;
        let Some(runs) = chunk(base, number) else { continue };
        let mut found = Vec::new();
        pieces_of(&runs, until(start, end), &mut found);
        let mut next = start;
        for piece in found {
            fill(next, piece.range.start, pieces);
            next = piece.range.end();
            pieces.push(piece);
        }
        fill(next, end, pieces);
    }
    fill(at, range.end(), pieces);
}

/// What `newest` and `unmapped` were when a checkpoint began, in order.
#[derive(Debug)]
pub(super) struct NewerRuns {
    nodes: Peekable<FrozenNodes>,
    unmapped: Peekable<std::vec::IntoIter<BlockRange>>,
}

impl Iterator for NewerRuns {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let is_mapped = match (self.nodes.peek(), self.unmapped.peek()) {
            (Some(node), Some(gone)) => node.start < gone.start,
            (node, _) => node.is_some(),
        };
        match is_mapped {
            true => self.nodes.next().map(Run::from),
            false => self.unmapped.next().map(Run::unmapped),
        }
    }
}

/// The nodes of the next base: those of the last one, with what changed since.
#[derive(Debug)]
pub(super) struct Merge {
    runs: Overlay<NewerRuns, BaseRuns>,
    spec: MapSpec,
    next: Option<Run>,
}

impl Iterator for Merge {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let mut run = self.next.take();
        for found in self.runs.by_ref().filter(Run::is_mapped) {
            match &mut run {
                None => run = Some(found),
                Some(last) if self.spec.is_one_run((*last).into(), found.into()) => {
                    last.range.len += found.range.len;
                }
                Some(_) => {
                    self.next = Some(found);
                    break;
                }
            }
        }
        run
    }
}

/// Where the nodes of a whole checkpoint come from.
#[derive(Debug)]
pub(super) enum NodeSource {
    Memory(FrozenNodes),
    Merged(Box<Merge>),
}

impl NodeSource {
    /// The error that ended the nodes early.
    pub(super) fn take_failure(&mut self) -> Option<DiskError> {
        match self {
            NodeSource::Memory(_) => None,
            NodeSource::Merged(merge) => merge.runs.older_mut().failure.take(),
        }
    }

    /// The blocks whose nodes cannot be read.
    pub(super) fn lost(&self) -> &[BlockRange] {
        match self {
            NodeSource::Memory(_) => &[],
            NodeSource::Merged(merge) => &merge.runs.older().lost,
        }
    }
}

impl Iterator for NodeSource {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        match self {
            NodeSource::Memory(nodes) => nodes.next().map(Run::from),
            NodeSource::Merged(merge) => merge.next(),
        }
    }
}
