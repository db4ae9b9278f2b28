//! The base of a map that is longer than its memory: its nodes as the last whole checkpoint has them
//! on the drive.
//!
//! ```text
//!     checkpoint    | fields | runs ....... | runs ....... | runs ..... | copies, lost, ...
//!     chunks                 ^ lba 0        ^ lba 81,920   ^ lba 90,112                      in memory, 32 bytes each
//!     live          .##..####.....#.......##########....   one bit for each block of the drive, in memory
//! ```
//!
//! A chunk is 16 KiB of the runs, some 2,000 of them. A lookup reads one, from either copy of the
//! checkpoint, and keeps it in a cache.
//!
//! `live` has the places that the base's runs lead to. So the driver knows how full a zone is, and which
//! of its blocks to move, without the order by place: the summaries of a zone tell whose block each is.
//! What dies without its run being read stays in `live` until the next base (`layered`).
//!
//! Invariants
//!   A1  A base never changes on the drive. Its zones are freed when the next one counts.
//!   A2  No place has two runs of a base.
//!
//! Cost: a node of the base takes about 8 bytes of the drive in each copy, and one bit or less of memory
//! for each of its blocks. A lookup outside the cache takes one read of 16 KiB.
//!
//! Source: ours. Not here: which of its runs count (`layered`), its bytes (`checkpoint_format`).

use super::checkpoint_format::{PART_LEN_BYTES, Run, RunCoder};
use super::error::DriverError;
use super::format::Stored;
use super::mapping::{MapSpec, PbaRange, Piece};
use super::part_reader::PartReader;
use imbrex_disk::{BlockRange, Blocks, Disk, DiskError, Lba, Pba, ZoneId};
use quick_cache::UnitWeighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use roaring::RoaringBitmap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::sync::Arc;

/// The length of a chunk, in bytes of the checkpoint.
const CHUNK_LEN_BYTES: u64 = 4 * PART_LEN_BYTES as u64;
/// What a chunk takes in the cache: runs of 8 bytes become 24.
const CHUNK_MEMORY_BYTES: u64 = 3 * CHUNK_LEN_BYTES;
/// How much is read at a time where all chunks are read in order.
const SPAN_LEN_BYTES: u64 = 1 << 20;

/// The runs of a chunk; `None` if neither copy of it can be read.
pub(super) type Chunk = Option<Arc<[Run]>>;

/// Where a chunk begins.
#[derive(Clone, Copy, Debug)]
struct ChunkStart {
    /// The first block of its first run.
    lba: u64,
    /// The number of its first byte.
    offset: u64,
    /// How its first run is encoded.
    coder: RunCoder,
}

/// Places on the drive, zone by zone.
#[derive(Clone, Debug)]
pub(super) struct Live {
    /// The data blocks of each zone. A zone of long runs takes a few bytes, any other at most one bit
    /// for each block.
    zones: Vec<RoaringBitmap>,
    zone_len: u64,
}

impl Live {
    fn new(spec: MapSpec) -> Live {
        let zones = vec![RoaringBitmap::new(); spec.zone_count as usize];
        Live { zones, zone_len: spec.zone_len.get() }
    }

    /// The parts of a place that are in one zone each, counted from its start.
    fn by_zone(&self, place: PbaRange) -> impl Iterator<Item = (usize, Range<u32>)> + use<> {
        let (zone_len, end) = (self.zone_len, place.end().get());
        let mut start = place.start.get();
        std::iter::from_fn(move || {
            let zone = start / zone_len;
            let zone_start = zone * zone_len;
            let part = start..end.min(zone_start + zone_len);
            start = part.end;
            let part =
                (part.start - zone_start) as u32..(part.end.max(zone_start) - zone_start) as u32;
            (!part.is_empty()).then_some((zone as usize, part))
        })
    }

    /// Returns how many of its blocks are new.
    fn insert(&mut self, place: PbaRange) -> u64 {
        let mut added = 0;
        for (zone, part) in self.by_zone(place) {
            let Some(blocks) = self.zones.get_mut(zone) else { continue };
            let is_long = LONG_RUN_LEN <= part.len();
            added += match part.len() {
                1 => u64::from(blocks.insert(part.start)),
                _ => blocks.insert_range(part),
            };
            if is_long {
                blocks.optimize();
            }
        }
        added
    }

    /// The place holds nothing of the base any more.
    pub(super) fn remove(&mut self, place: PbaRange) {
        for (zone, part) in self.by_zone(place) {
            if let Some(blocks) = self.zones.get_mut(zone) {
                blocks.remove_range(part);
            }
        }
    }

    pub(super) fn valid(&self, zone: ZoneId) -> u64 {
        self.zones.get(zone.0 as usize).map_or(0, RoaringBitmap::len)
    }

    pub(super) fn has(&self, at: Pba) -> bool {
        let blocks = self.zones.get((at.get() / self.zone_len) as usize);
        blocks.is_some_and(|blocks| blocks.contains((at.get() % self.zone_len) as u32))
    }

    /// Whether some of the place is live.
    pub(super) fn has_any(&self, place: PbaRange) -> bool {
        self.by_zone(place).any(|(zone, part)| {
            self.zones.get(zone).is_some_and(|blocks| blocks.range_cardinality(part) > 0)
        })
    }

    pub(super) fn total(&self) -> u64 {
        self.zones.iter().map(RoaringBitmap::len).sum()
    }

    fn memory_bytes(&self) -> u64 {
        let blocks: usize = self.zones.iter().map(RoaringBitmap::serialized_size).sum();
        (blocks + self.zones.capacity() * size_of::<RoaringBitmap>()) as u64
    }
}

/// A run of this length makes its zone's blocks worth another encoding.
const LONG_RUN_LEN: usize = 256;

/// Notes where the runs of a checkpoint are while it is written or read.
#[derive(Debug)]
pub(super) struct BaseBuilder {
    spec: MapSpec,
    chunks: Vec<ChunkStart>,
    end: u64,
    live: Live,
    node_count: u64,
}

impl BaseBuilder {
    pub(super) fn new(spec: MapSpec) -> BaseBuilder {
        BaseBuilder { spec, chunks: Vec::new(), end: 0, live: Live::new(spec), node_count: 0 }
    }

    /// The next run of the mapping, encoded by `coder` at byte `offset`.
    pub(super) fn note(&mut self, run: Run, coder: RunCoder, offset: u64) {
        self.note_place(run, coder, offset);
        let is_new = self.note_live(PbaRange { start: run.at, len: run.range.len });
        debug_assert!(is_new, "M1: no place has two nodes");
    }

    /// The same, if not all of the run counts: the parts that do are noted by [`Self::note_live`].
    pub(super) fn note_place(&mut self, run: Run, coder: RunCoder, offset: u64) {
        if self.chunks.last().is_none_or(|last| CHUNK_LEN_BYTES <= offset - last.offset) {
            self.chunks.push(ChunkStart { lba: run.range.start.get(), offset, coder });
        }
        self.node_count += 1;
    }

    /// A part of a run that counts; returns false if another run has some of the place.
    pub(super) fn note_live(&mut self, place: PbaRange) -> bool {
        self.live.insert(place) == place.len.get()
    }

    /// The mapping ends before byte `offset`.
    pub(super) fn end(&mut self, offset: u64) {
        self.end = offset;
    }

    pub(super) fn node_count(&self) -> u64 {
        self.node_count
    }

    /// The base that was noted, of the checkpoint at `stored`. Its cache takes about `cache_bytes`.
    pub(super) fn finish(self, id: u64, stored: &Stored, cache_bytes: u64) -> Base {
        let BaseBuilder { spec, mut chunks, end, mut live, node_count } = self;
        chunks.shrink_to_fit();
        for blocks in &mut live.zones {
            blocks.optimize();
        }
        live.zones.shrink_to_fit();
        let place = BasePlace {
            id,
            number: stored.number,
            copies: stored.copies.clone(),
            chunks,
            end,
            len: spec.len,
        };
        let kept_count = (cache_bytes / CHUNK_MEMORY_BYTES).max(4);
        let (weigher, hasher) = (UnitWeighter, BuildHasherDefault::default());
        let lifecycle = DefaultLifecycle::default();
        let kept = Cache::with(kept_count as usize, kept_count, weigher, hasher, lifecycle);
        let live_bytes = live.memory_bytes();
        Base { place: Arc::new(place), live, live_bytes, node_count, kept }
    }
}

/// Where a base is on the drive.
#[derive(Debug)]
pub(super) struct BasePlace {
    id: u64,
    number: u64,
    copies: [Vec<ZoneId>; 2],
    chunks: Vec<ChunkStart>,
    /// The byte behind the last run.
    end: u64,
    /// The length of the device.
    len: Blocks,
}

impl BasePlace {
    /// Identifies the base.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// The chunks with runs that may share a block with `range`.
    pub(super) fn chunks_of(&self, range: BlockRange) -> Range<usize> {
        let first = self.chunks.partition_point(|chunk| chunk.lba <= range.start.get());
        let end = self.chunks.partition_point(|chunk| chunk.lba < range.end().get());
        first.saturating_sub(1)..end
    }

    /// The blocks whose runs are in a chunk.
    pub(super) fn range_of(&self, chunk: usize) -> BlockRange {
        let start = self.chunks[chunk].lba;
        let end = self.chunks.get(chunk + 1).map_or(self.len.get(), |next| next.lba);
        BlockRange::new(Lba::new(start), Blocks::new(end - start))
    }

    /// How many chunks from `first` on are read at once.
    fn span(&self, first: usize) -> Range<usize> {
        let start = self.chunks[first].offset;
        let behind = self.chunks.partition_point(|chunk| chunk.offset < start + SPAN_LEN_BYTES);
        first..behind.max(first + 1)
    }

    /// Reads a chunk.
    ///
    /// # Errors
    /// [`DiskError`], unless the drive cannot read both copies of a block, or they are damaged.
    pub(super) fn read(&self, disk: &dyn Disk, chunk: usize) -> Result<Chunk, DiskError> {
        Ok(self.read_chunks(disk, chunk..chunk + 1)?.map(Arc::from))
    }

    /// The runs of all of `chunks`; `None` if a part of them cannot be read.
    fn read_chunks(
        &self,
        disk: &dyn Disk,
        chunks: Range<usize>,
    ) -> Result<Option<Vec<Run>>, DiskError> {
        let part_len = PART_LEN_BYTES as u64;
        let first = self.chunks[chunks.start];
        let end = self.chunks.get(chunks.end).map_or(self.end, |next| next.offset);
        let blocks = first.offset / part_len..end.div_ceil(part_len);
        let mut reader = PartReader::new(disk, self.id, self.number);
        let skipped = (first.offset - blocks.start * part_len) as usize;
        let bytes = match reader.read(&self.copies, blocks, 0) {
            Ok(bytes) => bytes,
            Err(DriverError::Disk { source, .. }) => return Err(source),
            Err(_) => return Ok(None),
        };
        let mut rest = &bytes[skipped..skipped + (end - first.offset) as usize];
        let mut coder = first.coder;
        let mut runs = Vec::new();
        while !rest.is_empty() {
            match coder.get(&mut rest) {
                Ok(run) => runs.push(run),
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(runs))
    }
}

/// A base, with what is in memory of it.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) place: Arc<BasePlace>,
    pub(super) live: Live,
    /// The memory of `live` at the beginning: places only leave it.
    live_bytes: u64,
    node_count: u64,
    kept: Cache<usize, Chunk, UnitWeighter, BuildHasherDefault<DefaultHasher>>,
}

impl Base {
    pub(super) fn node_count(&self) -> u64 {
        self.node_count
    }

    /// A chunk, if it is in the cache.
    pub(super) fn kept(&self, chunk: usize) -> Option<Chunk> {
        self.kept.get(&chunk).cloned()
    }

    /// Keeps a chunk that was read.
    pub(super) fn keep(&mut self, number: usize, chunk: Chunk) {
        self.kept.insert(number, chunk);
    }

    /// What it takes at least.
    pub(super) fn fixed_bytes(&self) -> u64 {
        self.live_bytes + (self.place.chunks.capacity() * size_of::<ChunkStart>()) as u64
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.fixed_bytes() + self.kept.len() as u64 * CHUNK_MEMORY_BYTES
    }
}

/// The pieces of `range` that are in the runs of `chunk`, appended to `pieces`, which end at
/// `range.start` or before.
pub(super) fn pieces_of(chunk: &[Run], range: BlockRange, pieces: &mut Vec<Piece>) {
    let first = chunk.partition_point(|run| run.range.end() <= range.start);
    let inside = chunk[first..].iter().take_while(|run| run.range.start < range.end());
    for run in inside {
        let start = run.range.start.max(range.start);
        let end = run.range.end().min(range.end());
        let at = Some(run.at + (start - run.range.start));
        pieces.push(Piece { range: BlockRange::new(start, end - start), at });
    }
}

/// All runs of a base in order, read as they are asked for.
#[derive(Debug)]
pub(super) struct BaseRuns {
    place: Arc<BasePlace>,
    disk: Arc<dyn Disk>,
    next_chunk: usize,
    runs: std::vec::IntoIter<Run>,
    /// The error of the drive that ended the runs early.
    pub(super) failure: Option<DiskError>,
    /// The blocks whose runs cannot be read.
    pub(super) lost: Vec<BlockRange>,
}

impl BaseRuns {
    pub(super) fn new(place: Arc<BasePlace>, disk: Arc<dyn Disk>) -> BaseRuns {
        let (runs, lost) = (Vec::new().into_iter(), Vec::new());
        BaseRuns { place, disk, next_chunk: 0, runs, failure: None, lost }
    }

    /// Reads the next chunks together or, where a part of them is damaged, one by one.
    fn read_on(&mut self) -> Result<(), DiskError> {
        let span = self.place.span(self.next_chunk);
        self.next_chunk = span.end;
        if let Some(runs) = self.place.read_chunks(&*self.disk, span.clone())? {
            self.runs = runs.into_iter();
            return Ok(());
        }
        let mut found = Vec::new();
        for chunk in span {
            match self.place.read_chunks(&*self.disk, chunk..chunk + 1)? {
                Some(runs) => found.extend(runs),
                None => self.lost.push(self.place.range_of(chunk)),
            }
        }
        self.runs = found.into_iter();
        Ok(())
    }
}

impl Iterator for BaseRuns {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        loop {
            if let Some(run) = self.runs.next() {
                return Some(run);
            }
            if self.failure.is_some() || self.next_chunk == self.place.chunk_count() {
                return None;
            }
            if let Err(error) = self.read_on() {
                self.failure = Some(error);
            }
        }
    }
}
