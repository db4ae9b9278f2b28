//! Memory backing: sparse, and compresses chunks that have not been used recently.
//!
//! ```text
//!     chunk = 16 blocks = 64 KiB, spread over shards by number
//!       absent   all zeros
//!       hot      plain bytes; the packed form is kept with them while it is still valid
//!       packed   LZ4, or the plain bytes if LZ4 does not shrink them
//! ```
//!
//! A read of a whole chunk unpacks straight into the reader's buffer and leaves the chunk packed:
//! large reads rarely return to the same chunk.
//!
//! Invariants
//!   M1  A shard that packs has at most `hot_count_max` hot chunks, each in its queue exactly once. A
//!       shard that does not pack has no queue, and all its chunks are hot.
//!   M2  No chunk of zeros outlives its eviction.
//!   M3  A spare buffer holds old bytes: its next user overwrites all of it.

use super::{Backing, Durable};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, Lba, ZoneId, ZoneRecord};
use lz4::block::{CompressionMode, compress_bound, compress_to_buffer, decompress_to_buffer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

const CHUNK_LEN_BLOCKS: u64 = 16;
const CHUNK_LEN_BYTES: usize = CHUNK_LEN_BLOCKS as usize * BLOCK_LEN_BYTES;

/// Sixteen shards let that many threads work at once.
const SHARD_COUNT: u64 = 16;

/// The least that stays hot: 16 shards x 32 chunks x 64 KiB = 32 MiB.
const HOT_LEN_BYTES_MIN: u64 = SHARD_COUNT * 32 * CHUNK_LEN_BYTES as u64;

/// Spare buffers of one shard: 16 shards x 4 x 64 KiB = 4 MiB at most.
const SPARE_COUNT_MAX: usize = 4;

/// LZ4's acceleration, which trades size for speed. At this value, half-compressible values shrink
/// as far as at 1.
const LZ4_ACCELERATION: i32 = 8;

/// A platter in memory.
#[derive(Debug)]
pub(crate) struct MemoryBacking {
    shards: Box<[Mutex<Shard>]>,
    zones: Mutex<BTreeMap<ZoneId, ZoneRecord>>,
}

#[derive(Debug, Default)]
struct Shard {
    chunks: BTreeMap<u64, Chunk>,
    /// `None` if it does not pack.
    hot_count_max: Option<usize>,
    hot: VecDeque<u64>,
    spare: Vec<Box<[u8]>>,
    /// Scratch space for compression, before the packed length is known.
    packing: Vec<u8>,
}

#[derive(Debug)]
enum Chunk {
    Hot { bytes: Box<[u8]>, packed: Option<Packed> },
    Cold(Packed),
}

#[derive(Debug)]
enum Packed {
    Lz4(Box<[u8]>),
    Plain(Box<[u8]>),
}

impl MemoryBacking {
    /// All zeros. Packs what has not been used for longest, beyond 32 MiB.
    #[cfg(test)]
    pub(crate) fn new() -> MemoryBacking {
        MemoryBacking::unpacked_up_to(HOT_LEN_BYTES_MIN)
    }

    /// The same, beyond `len_bytes` if that is more.
    pub(crate) fn unpacked_up_to(len_bytes: u64) -> MemoryBacking {
        let of_shard = len_bytes.max(HOT_LEN_BYTES_MIN) / SHARD_COUNT / CHUNK_LEN_BYTES as u64;
        MemoryBacking::of_shards(Some(of_shard as usize))
    }

    /// All zeros. Keeps everything unpacked.
    pub(crate) fn unpacked() -> MemoryBacking {
        MemoryBacking::of_shards(None)
    }

    fn of_shards(hot_count_max: Option<usize>) -> MemoryBacking {
        let shard = || Shard { hot_count_max, ..Shard::default() };
        MemoryBacking {
            shards: (0..SHARD_COUNT).map(|_| Mutex::new(shard())).collect(),
            zones: Mutex::default(),
        }
    }

    fn shard(&self, chunk: u64) -> MutexGuard<'_, Shard> {
        let index = (chunk % SHARD_COUNT) as usize;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn zones(&self) -> MutexGuard<'_, BTreeMap<ZoneId, ZoneRecord>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts the bytes of a request at chunk boundaries: (chunk, offset in the chunk, bytes).
fn pieces(at: Lba, len_bytes: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < len_bytes).then(|| {
            let byte = at.bytes() + done as u64;
            let chunk = byte / CHUNK_LEN_BYTES as u64;
            let offset = (byte % CHUNK_LEN_BYTES as u64) as usize;
            let len = (CHUNK_LEN_BYTES - offset).min(len_bytes - done);
            let piece = done..done + len;
            done += len;
            (chunk, offset, piece)
        })
    })
}

/// Whether all bytes are 0. Comparing the bytes with themselves, one further on, takes a twentieth of the
/// time of a loop over them.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.split_first().is_none_or(|(&first, rest)| first == 0 && *rest == bytes[..rest.len()])
}

impl Backing for MemoryBacking {
    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        for (chunk, offset, piece) in pieces(at, buf.len()) {
            self.shard(chunk).load(chunk, offset, &mut buf[piece]);
        }
        Ok(())
    }

    fn write(&self, at: Lba, data: &[u8], _durable: Durable) -> Result<(), DiskError> {
        for (chunk, offset, piece) in pieces(at, data.len()) {
            self.shard(chunk).store(chunk, offset, &data[piece]);
        }
        Ok(())
    }

    fn zero(&self, range: BlockRange) -> Result<(), DiskError> {
        let first_whole = range.start.get().div_ceil(CHUNK_LEN_BLOCKS);
        let end_whole = range.end().get() / CHUNK_LEN_BLOCKS;
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.drop_chunks(first_whole, end_whole);
        }
        let edges = if first_whole < end_whole {
            let (left_end, right_start) =
                (first_whole * CHUNK_LEN_BLOCKS, end_whole * CHUNK_LEN_BLOCKS);
            [(range.start.get(), left_end), (right_start, range.end().get())]
        } else {
            [(range.start.get(), range.end().get()), (0, 0)]
        };
        for (start, end) in edges {
            let len_bytes = Blocks::new(end - start).bytes() as usize;
            for (chunk, offset, piece) in pieces(Lba::new(start), len_bytes) {
                let mut shard = self.shard(chunk);
                if shard.chunks.contains_key(&chunk) {
                    shard.store(chunk, offset, &[0; CHUNK_LEN_BYTES][..piece.len()]);
                }
            }
        }
        Ok(())
    }

    fn stored(&self, range: BlockRange) -> (bool, Blocks) {
        let is_there = |chunk: u64| self.shard(chunk).chunks.contains_key(&chunk);
        let first = range.start.get() / CHUNK_LEN_BLOCKS;
        // The caller blocks others only briefly: 4,096 chunks are 256 MiB.
        let last = ((range.end().get() - 1) / CHUNK_LEN_BLOCKS).min(first + 4096);
        let is_stored = is_there(first);
        let alike = (first + 1..=last).find(|&chunk| is_there(chunk) != is_stored);
        let end = alike.unwrap_or(last + 1) * CHUNK_LEN_BLOCKS;
        (is_stored, Blocks::new(end.min(range.end().get()) - range.start.get()))
    }

    fn set_zone(
        &self,
        zone: ZoneId,
        record: ZoneRecord,
        _durable: Durable,
    ) -> Result<(), DiskError> {
        self.zones().insert(zone, record);
        Ok(())
    }

    fn zone(&self, zone: ZoneId) -> Result<ZoneRecord, DiskError> {
        Ok(self.zones().get(&zone).copied().unwrap_or(ZoneRecord::EMPTY))
    }

    fn flush(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn for_each_block(&self, see: &mut dyn FnMut(Lba, &[u8])) -> Result<(), DiskError> {
        let mut chunks: Vec<u64> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            chunks.extend(shard.chunks.keys());
        }
        chunks.sort_unstable();
        for chunk in chunks {
            let mut shard = self.shard(chunk);
            let Some(bytes) = shard.heat(chunk) else { continue };
            for (index, block) in bytes.chunks_exact(BLOCK_LEN_BYTES).enumerate() {
                if !is_zero(block) {
                    see(Lba::new(chunk * CHUNK_LEN_BLOCKS + index as u64), block);
                }
            }
        }
        Ok(())
    }

    fn stored_bytes(&self) -> Result<u64, DiskError> {
        let shard_bytes = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.chunks.values().map(Chunk::len_bytes).sum::<u64>()
        };
        Ok(self.shards.iter().map(shard_bytes).sum())
    }
}

impl Shard {
    fn load(&mut self, chunk: u64, offset: usize, out: &mut [u8]) {
        if out.len() == CHUNK_LEN_BYTES
            && let Some(Chunk::Cold(packed)) = self.chunks.get(&chunk)
        {
            return packed.unpack(out);
        }
        match self.heat(chunk) {
            Some(bytes) => out.copy_from_slice(&bytes[offset..offset + out.len()]),
            None => out.fill(0),
        }
    }

    /// The bytes of `chunk`, uncompressed and hot. `None` if they are all zeros.
    fn heat(&mut self, chunk: u64) -> Option<&[u8]> {
        if let Chunk::Cold(_) = self.chunks.get(&chunk)? {
            let mut bytes = self.buffer();
            let Some(Chunk::Cold(packed)) = self.chunks.remove(&chunk) else { return None };
            packed.unpack(&mut bytes);
            self.insert_hot(chunk, bytes, Some(packed));
        }
        match self.chunks.get(&chunk)? {
            Chunk::Hot { bytes, .. } => Some(bytes),
            Chunk::Cold(_) => None,
        }
    }

    fn store(&mut self, chunk: u64, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        if data.len() < CHUNK_LEN_BYTES {
            self.heat(chunk);
        }
        match self.chunks.get_mut(&chunk) {
            Some(Chunk::Hot { bytes, packed }) => {
                bytes[offset..end].copy_from_slice(data);
                *packed = None;
            }
            None if is_zero(data) => {}
            // Only a write of the whole chunk can find it cold.
            Some(Chunk::Cold(_)) | None => {
                let mut bytes = self.buffer();
                bytes[..offset].fill(0);
                bytes[offset..end].copy_from_slice(data);
                bytes[end..].fill(0);
                self.insert_hot(chunk, bytes, None);
            }
        }
    }

    /// A buffer of one chunk with arbitrary content (M3).
    fn buffer(&mut self) -> Box<[u8]> {
        self.spare.pop().unwrap_or_else(|| vec![0; CHUNK_LEN_BYTES].into_boxed_slice())
    }

    fn give_back(&mut self, bytes: Box<[u8]>) {
        if self.spare.len() < SPARE_COUNT_MAX {
            self.spare.push(bytes);
        }
    }

    fn insert_hot(&mut self, chunk: u64, bytes: Box<[u8]>, packed: Option<Packed>) {
        if let Some(most) = self.hot_count_max {
            if self.hot.len() >= most
                && let Some(coldest) = self.hot.pop_front()
            {
                self.cool(coldest);
            }
            self.hot.push_back(chunk);
            assert!(self.hot.len() <= most, "M1: too many hot chunks");
        }
        self.chunks.insert(chunk, Chunk::Hot { bytes, packed });
    }

    fn cool(&mut self, chunk: u64) {
        let Some(Chunk::Hot { bytes, packed }) = self.chunks.remove(&chunk) else { return };
        if let Some(packed) = packed {
            self.give_back(bytes);
            self.chunks.insert(chunk, Chunk::Cold(packed));
        } else if is_zero(&bytes) {
            // M2: absent.
            self.give_back(bytes);
        } else if let Some(packed) = self.pack(&bytes) {
            self.give_back(bytes);
            self.chunks.insert(chunk, Chunk::Cold(packed));
        } else {
            self.chunks.insert(chunk, Chunk::Cold(Packed::Plain(bytes)));
        }
    }

    /// `bytes` compressed by LZ4. `None` if that saves less than a sixteenth.
    fn pack(&mut self, bytes: &[u8]) -> Option<Packed> {
        if self.packing.is_empty() {
            self.packing = vec![0; compress_bound(CHUNK_LEN_BYTES).ok()?];
        }
        let mode = CompressionMode::FAST(LZ4_ACCELERATION);
        let len = compress_to_buffer(bytes, Some(mode), false, &mut self.packing).ok()?;
        (len < CHUNK_LEN_BYTES * 15 / 16).then(|| Packed::Lz4(self.packing[..len].into()))
    }

    fn drop_chunks(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let mut has_hot = false;
        while let Some((&chunk, _)) = self.chunks.range(first..end).next() {
            if let Some(Chunk::Hot { bytes, .. }) = self.chunks.remove(&chunk) {
                has_hot = true;
                self.give_back(bytes);
            }
        }
        if has_hot {
            self.hot.retain(|chunk| !(first <= *chunk && *chunk < end));
        }
    }
}

impl Chunk {
    fn len_bytes(&self) -> u64 {
        match self {
            Chunk::Hot { bytes, .. } => bytes.len() as u64,
            Chunk::Cold(Packed::Lz4(bytes) | Packed::Plain(bytes)) => bytes.len() as u64,
        }
    }
}

impl Packed {
    fn unpack(&self, out: &mut [u8]) {
        match self {
            Packed::Lz4(packed) => {
                let len = decompress_to_buffer(packed, Some(CHUNK_LEN_BYTES as i32), out)
                    .expect("packed by `pack` and never handed out");
                assert_eq!(len, CHUNK_LEN_BYTES, "a chunk was packed");
            }
            Packed::Plain(bytes) => out.copy_from_slice(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::Prng;

    #[test]
    fn blocks_come_back_through_compression_and_without() {
        blocks_come_back(MemoryBacking::new());
        blocks_come_back(MemoryBacking::unpacked_up_to(100 << 20));
        blocks_come_back(MemoryBacking::unpacked());
    }

    fn blocks_come_back(backing: MemoryBacking) {
        let mut prng = Prng::new(7);
        let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        // 40,000 blocks are 2,500 chunks: five times what stays hot.
        for _ in 0..3_000 {
            let at = prng.below(40_000);
            let mut block = vec![0; BLOCK_LEN_BYTES];
            match prng.below(3) {
                0 => {}
                1 => prng.fill(&mut block),
                _ => block.fill(at as u8),
            }
            backing.write(Lba::new(at), &block, Durable::Later).unwrap();
            model.insert(at, block);
        }
        backing.zero(BlockRange::new(Lba::new(1_003), Blocks::new(5_000))).unwrap();
        for (_, block) in model.range_mut(1_003..6_003) {
            block.fill(0);
        }
        let mut buf = vec![0; BLOCK_LEN_BYTES];
        for (at, block) in &model {
            backing.read(Lba::new(*at), &mut buf).unwrap();
            assert_eq!(&buf, block, "block {at}");
        }
        let mut seen = BTreeMap::new();
        backing.for_each_block(&mut |at, b| drop(seen.insert(at.get(), b.to_vec()))).unwrap();
        model.retain(|_, block| block.iter().any(|&b| b != 0));
        assert_eq!(seen, model);
    }

    #[test]
    fn repetitive_data_takes_little_memory() {
        let backing = MemoryBacking::new();
        let chunk = vec![7; CHUNK_LEN_BYTES];
        for i in 0..4_000 {
            backing.write(Lba::new(i * CHUNK_LEN_BLOCKS), &chunk, Durable::Later).unwrap();
        }
        let stored = backing.stored_bytes().unwrap();
        assert!(stored < 40 << 20, "250 MiB of one byte take {stored} bytes");
    }
}
