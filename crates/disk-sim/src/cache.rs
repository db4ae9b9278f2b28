//! The volatile write cache: acknowledged operations that are not yet on the platter.
//!
//! ```text
//!     write --> [ w1 | w2 | finish z3 | w4 ] --> backing        oldest first, when full or flushed
//!                 ^ a power cut decides for each of them how much of it was already there
//! ```
//!
//! Invariants
//!   W1  `newest[b]` names the youngest pending write that holds block `b`, if any does.
//!   W2  Pending operations of one sequential zone are in the order of their addresses, without
//!       gaps, and the first starts at the zone's durable pointer.
//!   W3  In a sequential zone a prefix of the writes, in whole sectors, survives a power cut.
//!       Elsewhere each pending sector survives or not independently, and is never a mixture of two
//!       writes. A sector is a block unless the disk is built with shorter ones. If the disk breaks
//!       sectors, one sector under way may be neither old nor new: it cannot be read.
//!   W4  A write reaches the platter after every older write that shares a block with it or with
//!       what it destroys on overlapping tracks. It also comes after every older write that
//!       destroys one of its blocks.
//!
//! Not here: when an operation enters (`disk`), how long destaging takes (`mechanics`), what a
//! power cut leaves (`cut`).

mod cut;

use crate::backing::{Backing, Durable};
use cut::cut;
use imbrex_clockwork::Prng;
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, Geometry, Lba, ZoneId, ZoneMark, ZoneRecord,
};
use std::collections::BTreeMap;

/// One operation that a power cut may undo.
#[derive(Debug)]
pub(crate) enum Pending {
    /// Blocks in conventional space.
    Anywhere { at: Lba, data: Box<[u8]> },
    /// Blocks at the pointer of a sequential zone that starts at `start` and has `capacity`.
    AtPointer { zone: ZoneId, start: Lba, capacity: Blocks, at: Lba, data: Box<[u8]> },
    /// A finish.
    Finish { zone: ZoneId },
    /// A reset that was under way when the power failed.
    Reset { zone: ZoneId, range: BlockRange },
}

impl Pending {
    fn blocks(&self) -> Option<(Lba, &[u8])> {
        match self {
            Pending::Anywhere { at, data } | Pending::AtPointer { at, data, .. } => {
                Some((*at, data))
            }
            Pending::Finish { .. } | Pending::Reset { .. } => None,
        }
    }

    fn zone(&self) -> Option<ZoneId> {
        match self {
            Pending::Anywhere { .. } => None,
            Pending::AtPointer { zone, .. }
            | Pending::Finish { zone }
            | Pending::Reset { zone, .. } => Some(*zone),
        }
    }
}

/// What a power cut left of the unflushed writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerCycle {
    /// Unflushed blocks that had reached the platter.
    pub survived: Blocks,
    /// Unflushed blocks that are gone.
    pub lost: Blocks,
    /// The block that was being written and is now unreadable, on a disk that breaks sectors.
    pub broken: Option<Lba>,
}

/// How a power cut treats a sector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sectors {
    /// The length that a cut leaves entirely old or entirely new: a block, or a part of one.
    pub(crate) len_bytes: usize,
    /// Whether the sector that is being written becomes unreadable.
    pub(crate) break_at_cuts: bool,
}

impl Default for Sectors {
    fn default() -> Sectors {
        Sectors { len_bytes: BLOCK_LEN_BYTES, break_at_cuts: false }
    }
}

/// The pending operations of one disk, in order.
#[derive(Debug)]
pub(crate) struct WriteCache {
    geometry: Geometry,
    capacity: Blocks,
    sectors: Sectors,
    held: Blocks,
    /// By sequence number, so that an operation that leaves out of order leaves no gap to scan.
    pending: BTreeMap<u64, Pending>,
    next_seq: u64,
    newest: BTreeMap<u64, u64>,
    /// Ranges that have reached the platter since [`WriteCache::take_stored`] was last called.
    stored: Vec<BlockRange>,
}

impl WriteCache {
    /// A cache of `capacity`. One of zero blocks holds only the operation that a power cut
    /// interrupts. The length of a sector divides that of a block.
    pub(crate) fn new(capacity: Blocks, geometry: Geometry, sectors: Sectors) -> WriteCache {
        WriteCache {
            geometry,
            capacity,
            sectors,
            held: Blocks::ZERO,
            pending: BTreeMap::new(),
            next_seq: 0,
            newest: BTreeMap::new(),
            stored: Vec::new(),
        }
    }

    /// Returns the ranges that have left the cache for the platter since the last call.
    pub(crate) fn take_stored(&mut self) -> Vec<BlockRange> {
        std::mem::take(&mut self.stored)
    }

    /// Whether the cache holds writes at all.
    pub(crate) fn is_on(&self) -> bool {
        !self.capacity.is_zero()
    }

    /// Adds an operation at the end.
    pub(crate) fn push(&mut self, operation: Pending) {
        let seq = self.next_seq;
        self.next_seq += 1;
        if let Some((at, data)) = operation.blocks() {
            let len = Blocks::holding(data.len() as u64);
            for block in at.get()..at.get() + len.get() {
                self.newest.insert(block, seq);
            }
            self.held += len;
        }
        self.pending.insert(seq, operation);
    }

    /// Overlays pending blocks on data read from the backing.
    pub(crate) fn overlay(&self, at: Lba, buf: &mut [u8]) {
        let end = at.get() + (buf.len() / BLOCK_LEN_BYTES) as u64;
        for (&block, &seq) in self.newest.range(at.get()..end) {
            let Some((start, data)) = self.pending.get(&seq).and_then(Pending::blocks) else {
                continue;
            };
            let from = ((block - start.get()) as usize) * BLOCK_LEN_BYTES;
            let to = ((block - at.get()) as usize) * BLOCK_LEN_BYTES;
            buf[to..to + BLOCK_LEN_BYTES].copy_from_slice(&data[from..from + BLOCK_LEN_BYTES]);
        }
    }

    /// The parts of `range` that are not pending.
    pub(crate) fn not_held(&self, range: BlockRange) -> Vec<BlockRange> {
        let (mut at, end) = (range.start.get(), range.end().get());
        let mut parts = Vec::new();
        let mut part_to = |at: u64, to: u64| {
            if at < to {
                parts.push(BlockRange::new(Lba::new(at), Blocks::new(to - at)));
            }
        };
        for (&block, _) in self.newest.range(at..end) {
            part_to(at, block);
            at = block + 1;
        }
        part_to(at, end);
        parts
    }

    /// The first pending block in `range`.
    pub(crate) fn first_held(&self, range: BlockRange) -> Option<BlockRange> {
        let (&block, _) = self.newest.range(range.start.get()..range.end().get()).next()?;
        Some(BlockRange::new(Lba::new(block), Blocks::new(1)))
    }

    /// The run from the first to the last block that a write writes or destroys, including what it
    /// spares in between.
    fn footprint(&self, write: BlockRange) -> BlockRange {
        let [before, behind] = self.geometry.reach_around(write);
        BlockRange::new(before.start, behind.end() - before.start)
    }

    /// Every pending operation's blocks, in order.
    pub(crate) fn pending_blocks(&self) -> impl Iterator<Item = (Lba, &[u8])> {
        self.pending.values().filter_map(Pending::blocks)
    }

    /// Destages the oldest operations until the cache holds no more than its capacity.
    pub(crate) fn make_room(&mut self, backing: &dyn Backing) -> Result<(), DiskError> {
        while self.held > self.capacity
            && let Some((&oldest, _)) = self.pending.first_key_value()
        {
            self.destage(oldest, backing, Durable::Later)?;
        }
        Ok(())
    }

    /// Destages everything.
    pub(crate) fn destage_all(&mut self, backing: &dyn Backing) -> Result<(), DiskError> {
        while let Some((&oldest, _)) = self.pending.first_key_value() {
            self.destage(oldest, backing, Durable::Later)?;
        }
        Ok(())
    }

    /// Destages, in order, every operation that touches `range` or belongs to `zone`.
    ///
    /// An older operation goes too if it shares a block with one of those, because it would hide
    /// the younger one if it were destaged later. Where tracks overlap it would destroy it (W4).
    /// All other operations stay: a write through promises nothing about other cached writes.
    pub(crate) fn destage_touching(
        &mut self,
        range: BlockRange,
        zone: Option<ZoneId>,
        backing: &dyn Backing,
    ) -> Result<(), DiskError> {
        let mut ranges = vec![self.footprint(range)];
        let mut seqs = Vec::new();
        for (&seq, operation) in self.pending.iter().rev() {
            let own = operation
                .blocks()
                .map(|(at, data)| range_at(at, data))
                .map(|own| self.footprint(own));
            let touches = own.is_some_and(|own| ranges.iter().any(|range| range.overlaps(own)));
            if touches || (zone.is_some() && operation.zone() == zone) {
                ranges.extend(own);
                seqs.push(seq);
            }
        }
        for &seq in seqs.iter().rev() {
            self.destage(seq, backing, Durable::Now)?;
        }
        Ok(())
    }

    fn destage(
        &mut self,
        seq: u64,
        backing: &dyn Backing,
        durable: Durable,
    ) -> Result<(), DiskError> {
        // The operation stays in the cache until it is stored, so a host error loses nothing.
        if let Some(operation) = self.pending.get(&seq) {
            match operation {
                Pending::Anywhere { at, data } => backing.write(*at, data, durable)?,
                Pending::AtPointer { zone, start, capacity, at, data } => {
                    backing.write(*at, data, durable)?;
                    let written = *at + Blocks::holding(data.len() as u64) - *start;
                    backing.set_zone(*zone, ZoneRecord::at_pointer(written, *capacity), durable)?;
                }
                Pending::Finish { zone } => {
                    let written = backing.zone(*zone)?.written;
                    let record = ZoneRecord { mark: ZoneMark::Full, written };
                    backing.set_zone(*zone, record, durable)?;
                }
                Pending::Reset { zone, range } => {
                    backing.set_zone(*zone, ZoneRecord::EMPTY, durable)?;
                    backing.zero(*range)?;
                }
            }
        }
        let stored = self.pending.get(&seq).and_then(Pending::blocks);
        self.stored.extend(stored.map(|(at, data)| range_at(at, data)));
        self.forget(seq);
        Ok(())
    }

    /// Drops every pending operation of `zone`, which was reset.
    pub(crate) fn drop_zone(&mut self, zone: ZoneId) {
        let of_zone = self.pending.iter().filter(|(_, operation)| operation.zone() == Some(zone));
        let seqs: Vec<u64> = of_zone.map(|(&seq, _)| seq).collect();
        seqs.into_iter().for_each(|seq| self.forget(seq));
    }

    fn forget(&mut self, seq: u64) {
        let Some(operation) = self.pending.remove(&seq) else { return };
        if let Some((at, data)) = operation.blocks() {
            let len = Blocks::holding(data.len() as u64);
            for block in at.get()..at.get() + len.get() {
                if self.newest.get(&block) == Some(&seq) {
                    self.newest.remove(&block);
                }
            }
            self.held -= len;
        }
    }

    /// Applies a power cut: decides for each pending operation how much of it reached the platter,
    /// stores that part, and drops the rest (W3).
    pub(crate) fn power_cut(
        &mut self,
        backing: &dyn Backing,
        prng: &mut Prng,
    ) -> Result<PowerCycle, DiskError> {
        let pending: Vec<Pending> = std::mem::take(&mut self.pending).into_values().collect();
        let stored = self.take_stored();
        *self = WriteCache::new(self.capacity, self.geometry, self.sectors);
        let (outcome, stored) = cut(&pending, backing, prng, self.sectors, stored)?;
        self.stored = stored;
        Ok(outcome)
    }
}

fn range_at(at: Lba, data: &[u8]) -> BlockRange {
    BlockRange::new(at, Blocks::holding(data.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backing::MemoryBacking;
    use imbrex_disk::{GeometrySpec, Rule};

    #[test]
    fn what_left_the_cache_takes_no_room_in_it() {
        let spec = GeometrySpec { len: Blocks::new(8), rule: Rule::Anywhere };
        let backing = MemoryBacking::new();
        let mut cache =
            WriteCache::new(Blocks::new(4), Geometry::new(spec).unwrap(), Sectors::default());
        let write = |cache: &mut WriteCache, at| {
            let data = vec![at as u8; BLOCK_LEN_BYTES].into();
            cache.push(Pending::Anywhere { at: Lba::new(at), data });
        };
        write(&mut cache, 0);
        let range = BlockRange::new(Lba::new(1), Blocks::new(1));
        for _ in 0..100 {
            write(&mut cache, 1);
            cache.destage_touching(range, None, &backing).unwrap();
        }
        assert_eq!(cache.pending.len(), 1);
        assert_eq!(cache.held, Blocks::new(1));
    }
}
