//! The contents of the write buffer, and the places of their copies in the journal.
//!
//! ```text
//!     chunk     0 .. 15        16 .. 31        48 .. 63
//!     blocks    ..xx xx..      xxxx xxxx       .... .x..      each x an allocation of 4096 bytes
//!
//!     journal   LBA 800..804 -> PBA 1000       zone 0: 6 blocks active
//!               LBA 520..522 -> PBA 1004
//! ```
//!
//! Blocks are allocated one by one, so single blocks far apart cost no more than their content. The
//! index has one entry for sixteen neighbours, so long writes are quick.
//!
//! Invariants
//!   U1  No chunk is empty, and the length is the number of blocks held.
//!
//! Source: section II-A of the paper; D^(k), the active data of journal zone k, is
//! [`JournalIndex::ranges_in`].
//! Not here: which region to evict (`regions`), the journal's records (`journal`).

use super::mapping::{MapRun, MapSpec, Mapping, MappingError, PbaRange};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba, Pba, ZoneId};
use std::collections::BTreeMap;

const CHUNK_LEN: u64 = 16;

type BlockBytes = Box<[u8; BLOCK_LEN_BYTES]>;
type Chunk = [Option<BlockBytes>; CHUNK_LEN as usize];

/// Whole blocks by LBA, with a capacity.
#[derive(Debug)]
pub(crate) struct Buffer {
    capacity: Blocks,
    len: u64,
    chunks: BTreeMap<u64, Chunk>,
}

impl Buffer {
    /// An empty buffer for `capacity` blocks.
    pub(crate) fn new(capacity: Blocks) -> Buffer {
        Buffer { capacity, len: 0, chunks: BTreeMap::new() }
    }

    /// The capacity. Callers keep to it; the buffer never refuses a write.
    pub(crate) fn capacity(&self) -> Blocks {
        self.capacity
    }

    /// Sets the capacity. Excess blocks stay until they are removed.
    pub(crate) fn set_capacity(&mut self, capacity: Blocks) {
        self.capacity = capacity;
    }

    /// How many blocks it holds.
    pub(crate) fn len(&self) -> Blocks {
        Blocks::new(self.len)
    }

    /// Whether it holds nothing.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many blocks `len` is beyond `permille` of its capacity.
    pub(crate) fn excess(&self, len: Blocks, permille: u64) -> Blocks {
        let bound = u128::from(self.capacity.get()) * u128::from(permille) / 1000;
        len.saturating_sub(Blocks::new(u64::try_from(bound).unwrap_or(u64::MAX)))
    }

    /// About how much memory it takes: the blocks with their allocator's headers, and the index.
    pub(crate) fn memory_bytes(&self) -> u64 {
        const HEADER_BYTES: u64 = 16;
        const CHUNK_BYTES: u64 = size_of::<(u64, Chunk)>() as u64;
        self.len * (BLOCK_LEN_BYTES as u64 + HEADER_BYTES)
            // A node of the standard B-tree is 69 % full on average.
            + self.chunks.len() as u64 * CHUNK_BYTES * 100 / 69
    }

    /// Puts `data`, whole blocks, at `at`; returns how many of the blocks are new.
    pub(crate) fn write(&mut self, at: Lba, data: &[u8]) -> Blocks {
        assert!(data.len().is_multiple_of(BLOCK_LEN_BYTES), "the buffer takes whole blocks");
        let before = self.len;
        let mut lba = at.get();
        let mut rest = data;
        while !rest.is_empty() {
            let slot = lba % CHUNK_LEN;
            let here = ((CHUNK_LEN - slot) as usize * BLOCK_LEN_BYTES).min(rest.len());
            let (part, behind) = rest.split_at(here);
            let chunk = self.chunks.entry(lba / CHUNK_LEN).or_default();
            for (held, block) in
                chunk[slot as usize..].iter_mut().zip(part.chunks_exact(BLOCK_LEN_BYTES))
            {
                match held {
                    Some(bytes) => bytes.copy_from_slice(block),
                    None => {
                        let bytes: Box<[u8]> = block.into();
                        *held = Some(bytes.try_into().expect("the parts are blocks"));
                        self.len += 1;
                    }
                }
            }
            lba += (here / BLOCK_LEN_BYTES) as u64;
            rest = behind;
        }
        Blocks::new(self.len - before)
    }

    /// Drops the blocks of `range`; returns how many were held.
    pub(crate) fn remove(&mut self, range: BlockRange) -> Blocks {
        let before = self.len;
        let (start, end) = (range.start.get(), range.end().get());
        let mut from = start / CHUNK_LEN;
        while let Some((&number, chunk)) =
            self.chunks.range_mut(from..end.div_ceil(CHUNK_LEN).max(from)).next()
        {
            for (lba, held) in (number * CHUNK_LEN..).zip(chunk.iter_mut()) {
                if start <= lba && lba < end && held.take().is_some() {
                    self.len -= 1;
                }
            }
            if chunk.iter().all(Option::is_none) {
                self.chunks.remove(&number);
            }
            from = number + 1;
        }
        Blocks::new(before - self.len)
    }

    /// The blocks of `range` that are held, with their bytes, in order.
    pub(crate) fn blocks(
        &self,
        range: BlockRange,
    ) -> impl Iterator<Item = (Lba, &[u8; BLOCK_LEN_BYTES])> + '_ {
        let (start, end) = (range.start.get(), range.end().get());
        let chunks = self.chunks.range(start / CHUNK_LEN..end.div_ceil(CHUNK_LEN));
        chunks
            .flat_map(|(&number, chunk)| (number * CHUNK_LEN..).zip(chunk))
            .filter(move |&(lba, _)| start <= lba && lba < end)
            .filter_map(|(lba, held)| Some((Lba::new(lba), &**held.as_ref()?)))
    }

    /// Copies held blocks from `at` on over `buf`, which is whole blocks, and leaves the others
    /// unchanged. Returns how many blocks it copied.
    pub(crate) fn read_over(&self, at: Lba, buf: &mut [u8]) -> Blocks {
        let range = BlockRange::new(at, Blocks::holding(buf.len() as u64));
        let mut count = 0;
        for (lba, bytes) in self.blocks(range) {
            let from = (lba - at).bytes() as usize;
            buf[from..from + BLOCK_LEN_BYTES].copy_from_slice(bytes);
            count += 1;
        }
        Blocks::new(count)
    }

    /// Appends the content of `range`, which must be held completely, to `out`.
    pub(crate) fn append_to(&self, range: BlockRange, out: &mut Vec<u8>) {
        out.reserve(range.len.bytes() as usize);
        let mut count = 0;
        for (_, bytes) in self.blocks(range) {
            out.extend_from_slice(bytes);
            count += 1;
        }
        assert!(
            count == range.len.get(),
            "{range} must be held, but only {count} of its blocks are"
        );
    }

    /// Checks U1.
    ///
    /// # Errors
    /// The violation, in words.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut sum = 0;
        for (number, chunk) in &self.chunks {
            let count = chunk.iter().flatten().count() as u64;
            if count == 0 {
                return Err(format!("U1: chunk {number} is empty"));
            }
            sum += count;
        }
        if sum == self.len {
            Ok(())
        } else {
            Err(format!("U1: {sum} blocks are held, but the length is {}", self.len))
        }
    }
}

/// The place of the newest journal copy of each block in the buffer: the paper's D^(k) for each
/// zone.
///
/// A copy that the buffer no longer needs (written again, evicted, trimmed) is not active.
#[derive(Debug)]
pub(crate) struct JournalIndex {
    copies: Mapping,
}

impl JournalIndex {
    /// No copies yet. `spec` describes the whole drive: journal zones have their numbers on it.
    ///
    /// # Errors
    /// As [`Mapping::new`].
    pub(crate) fn new(spec: MapSpec) -> Result<JournalIndex, MappingError> {
        Ok(JournalIndex { copies: Mapping::new(spec)? })
    }

    /// Records that the newest copy of `range` is at `at`, where no other active copy is.
    ///
    /// # Errors
    /// As [`Mapping::set`]; nothing has changed.
    pub(crate) fn record(&mut self, range: BlockRange, at: Pba) -> Result<(), MappingError> {
        self.copies.set(range, at).map(drop)
    }

    /// Drops the copies of `range`, which was evicted or trimmed.
    pub(crate) fn forget(&mut self, range: BlockRange) {
        self.copies.unset(range);
    }

    /// How many blocks of a zone are active.
    pub(crate) fn active(&self, zone: ZoneId) -> Blocks {
        self.copies.valid(zone)
    }

    /// How many blocks of all zones are active.
    #[cfg(test)]
    pub(crate) fn total(&self) -> Blocks {
        self.copies.mapped()
    }

    /// The zone with the least active data; of equal ones, the first.
    pub(crate) fn least_active(&self, sealed: impl IntoIterator<Item = ZoneId>) -> Option<ZoneId> {
        sealed.into_iter().min_by_key(|&zone| self.active(zone))
    }

    /// The LBAs whose newest copy is in `zone`, in the order of the copies.
    pub(crate) fn ranges_in(&self, zone: ZoneId) -> impl Iterator<Item = BlockRange> + '_ {
        self.runs_in(zone).map(|run| run.range())
    }

    /// The same, with the places of the copies.
    pub(crate) fn runs_in(&self, zone: ZoneId) -> impl Iterator<Item = MapRun> + '_ {
        self.copies.runs_in(zone)
    }

    /// The places of the copies of `range`, in the order of LBAs, without blocks that have no copy.
    pub(crate) fn copies_of(
        &self,
        range: BlockRange,
    ) -> impl Iterator<Item = (BlockRange, PbaRange)> + '_ {
        self.copies.lookup(range).filter_map(|piece| {
            piece.at.map(|start| (piece.range, PbaRange { start, len: piece.range.len }))
        })
    }

    /// How much memory it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.copies.memory_bytes()
    }

    /// Checks the index.
    ///
    /// # Errors
    /// The first violation, in words.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Result<(), String> {
        self.copies.check()
    }
}

#[cfg(test)]
mod tests;
