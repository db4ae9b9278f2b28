//! Checksums of the data zones: a read returns what was written to its address, or an error.
//!
//! ```text
//!     data zone   | 127 blocks | summary | 127 blocks | summary | 40 blocks |    ...
//!                       stretch                                   ^ open: its checksums are in
//!                                                                   memory, and in the journal
//! ```
//!
//! A summary has an address and a checksum for each block of its stretch, and the zone's
//! generation. It exposes a block that rotted, a block that was written elsewhere, a block that
//! another write overwrote, and a whole stretch from an earlier life of the zone.
//!
//! Invariants
//!   S1  A mapped block that is not lost is in a stretch whose summary is written, or its checksum
//!       is in `open`.
//!   S2  A checksum in `open` is in the journal or the checkpoint before the record that maps its
//!       block: no power cut leaves a mapped block without its checksum.
//!   S3  A zone that will be reset has nothing in `open`, nor in a checkpoint that begins from then
//!       on. Recovery assumes that a block whose checksum is known exists, while in the zone's next
//!       life that block's checksum may be in a summary that was not written.
//!
//! Cost: one block in 128. A read of a stretch whose summary is not in memory also reads the
//! summary, some 250 KiB further on.
//!
//! Not here: checksums of the journal (`format`, `journal`) and of checkpoints.

use super::format::{Record, STRETCH_LEN, Sum, decode_summary, encode_summary};
use super::journaled_sums::JournaledSums;
#[cfg(test)]
use super::pool::Use;
use super::pool::{Pool, PoolZone};
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba, Pba, ReadRequest, ZoneId,
};
use quick_cache::UnitWeighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// A stretch without a summary.
#[derive(Debug)]
struct Stretch {
    /// The number of its first block in the zone.
    first: u64,
    sums: Vec<Sum>,
    /// How many of the checksums are in the journal or about to be.
    journaled_count: usize,
}

/// A summary in memory: its address, and the generation of its zone.
pub(super) type Key = (Lba, u64);
pub(super) type Crcs = Arc<[u32]>;
type Kept = Cache<Key, Crcs, UnitWeighter, BuildHasherDefault<DefaultHasher>>;

/// The checksums of the data zones that are in memory.
#[derive(Debug)]
pub(super) struct Summaries {
    id: u64,
    open: BTreeMap<ZoneId, Stretch>,
    kept: Kept,
}

/// A part of a request that must be read from the drive: `buf` is for the host's blocks from `lba`,
/// all of one mapping node, stored from `at`.
pub(super) struct Part<'a> {
    pub(super) at: Pba,
    pub(super) lba: Lba,
    pub(super) buf: &'a mut [u8],
}

/// The piece of a part that is in one stretch.
struct StretchPart {
    lba: Lba,
    zone: ZoneId,
    place: BlockRange,
    /// The position of its first block in the stretch.
    first: usize,
    summary: Key,
    crcs: Option<Crcs>,
}

impl Summaries {
    /// No checksums yet; at most `kept_count` summaries stay in memory.
    pub(super) fn new(id: u64, kept_count: usize) -> Summaries {
        let (weigher, hasher) = (UnitWeighter, BuildHasherDefault::default());
        let lifecycle = DefaultLifecycle::default();
        let kept = Cache::with(kept_count, kept_count as u64, weigher, hasher, lifecycle);
        Summaries { id, open: BTreeMap::new(), kept }
    }

    /// Returns `data`, the host's blocks `lbas`, as it goes to the zone: with the summaries that
    /// fall due within and after it.
    pub(super) fn frame(
        &mut self,
        slot: &PoolZone,
        data: &[u8],
        lbas: impl Iterator<Item = Lba>,
    ) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(data.len() + data.len() / 64 + 2 * BLOCK_LEN_BYTES);
        let mut pointer = slot.pointer;
        let begun = Stretch { first: slot.written().get(), sums: Vec::new(), journaled_count: 0 };
        let mut stretch = self.open.remove(&slot.zone).unwrap_or(begun);
        let mut blocks = data.chunks_exact(BLOCK_LEN_BYTES).zip(lbas);
        loop {
            while pointer < slot.capacity && slot.is_summary(pointer) {
                let at = slot.start + pointer;
                let summary = encode_summary(self.id, at, slot.generation, &stretch.sums);
                bytes.extend_from_slice(&summary);
                self.kept.insert((at, slot.generation), crcs(&stretch.sums));
                let first = stretch.first + stretch.sums.len() as u64;
                stretch = Stretch { first, sums: Vec::new(), journaled_count: 0 };
                pointer += Blocks::new(1);
            }
            let Some((block, lba)) = blocks.next() else { break };
            stretch.sums.push(Sum::of(lba, block));
            bytes.extend_from_slice(block);
            pointer += Blocks::new(1);
        }
        if !stretch.sums.is_empty() {
            self.open.insert(slot.zone, stretch);
        }
        bytes
    }

    /// The blocks that end the open stretch of a zone: zeros that are never read, and the summary.
    pub(super) fn end(&mut self, slot: &PoolZone) -> Vec<u8> {
        let Some(stretch) = self.open.get(&slot.zone) else { return Vec::new() };
        let end = (stretch.first + STRETCH_LEN).min(slot.len().get());
        let missing = end - slot.written().get();
        let zeros = vec![0; Blocks::new(missing).bytes() as usize];
        self.frame(slot, &zeros, std::iter::repeat(Sum::NONE.lba))
    }

    /// Records of the checksums that are neither in a summary nor in the journal.
    pub(super) fn take_unjournaled<'a>(
        &'a mut self,
        pool: &'a Pool,
    ) -> impl Iterator<Item = Record> + 'a {
        self.open.iter_mut().flat_map(|(zone, stretch)| {
            let from = std::mem::replace(&mut stretch.journaled_count, stretch.sums.len());
            let first = pool.get(*zone).map_or(Pba::new(0), |slot| slot.pba(stretch.first));
            let numbered = stretch.sums.iter().enumerate().skip(from);
            numbered.map(move |(index, &sum)| Record::Sum {
                at: first + Blocks::new(index as u64),
                sum,
            })
        })
    }

    /// All checksums without a summary.
    pub(super) fn open_sums(&self, pool: &Pool) -> Vec<(Pba, Sum)> {
        let of_zone = |(zone, stretch): (&ZoneId, &Stretch)| {
            let first = pool.get(*zone).map_or(Pba::new(0), |slot| slot.pba(stretch.first));
            let numbered = (0u64..).zip(stretch.sums.clone());
            numbered.map(move |(index, sum)| (first + Blocks::new(index), sum))
        };
        self.open.iter().flat_map(of_zone).collect()
    }

    /// Restores the open stretch of a zone from the journal and the checkpoint.
    pub(super) fn resume(&mut self, slot: &PoolZone, journaled: &JournaledSums) {
        let (first, written) = (slot.summed().get(), slot.written().get());
        if first < written {
            let sum = |index| journaled.sums.get(&slot.pba(index)).copied().unwrap_or(Sum::NONE);
            let sums: Vec<Sum> = (first..written).map(sum).collect();
            self.open.insert(slot.zone, Stretch { first, journaled_count: sums.len(), sums });
        }
    }

    /// Drops everything about the zone.
    pub(super) fn forget(&mut self, zone: ZoneId) {
        self.open.remove(&zone);
    }

    /// Keeps summaries that were read.
    pub(super) fn keep(&mut self, sums: BTreeMap<Key, Crcs>) {
        for (key, crcs) in sums {
            self.kept.insert(key, crcs);
        }
    }

    /// Checks S3.
    ///
    /// # Errors
    /// The first violation, in words.
    #[cfg(test)]
    pub(super) fn check(&self, pool: &Pool) -> Result<(), String> {
        let mut slots = self.open.keys().filter_map(|&zone| pool.get(zone));
        let found =
            slots.find(|slot| matches!(slot.used, Use::Free | Use::Resettable | Use::Checkpoint));
        found.map_or(Ok(()), |slot| Err(format!("S3: {} is {:?}", slot.zone, slot.used)))
    }

    /// How much memory it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        const ENTRY_BYTES: u64 = 4 * STRETCH_LEN + 64;
        self.kept.len() as u64 * ENTRY_BYTES
    }

    /// Splits parts at the ends of stretches, with the checksums and generations of this moment.
    pub(super) fn cut<'a>(
        &mut self,
        pool: &Pool,
        parts: Vec<Part<'a>>,
    ) -> Result<Reading<'a>, DiskError> {
        let mut pieces = Vec::new();
        for part in parts {
            let (mut at, mut lba, mut rest) = (part.at, part.lba, part.buf);
            // The recovered map may belong to another device than its checksums say.
            let slot = pool.zone_of(at).ok_or(DiskError::Medium { at: lba })?;
            while !rest.is_empty() {
                let index = slot.index(at);
                let left = STRETCH_LEN - index % STRETCH_LEN;
                let len = Blocks::holding(rest.len() as u64).min(Blocks::new(left));
                let (buf, behind) = rest.split_at_mut(len.bytes() as usize);
                let has = |stretch: &&Stretch| {
                    let end = stretch.first + stretch.sums.len() as u64;
                    stretch.first <= index && index + len.get() <= end
                };
                let open = self.open.get(&slot.zone).filter(has);
                let summary = (slot.summary_of(at), slot.generation);
                let known = open.map(|stretch| crcs(&stretch.sums));
                pieces.push((
                    StretchPart {
                        lba,
                        zone: slot.zone,
                        place: BlockRange::new(slot.place(at), len),
                        first: (index % STRETCH_LEN) as usize,
                        summary,
                        crcs: known.or_else(|| self.kept.get(&summary).cloned()),
                    },
                    buf,
                ));
                (at, lba, rest) = (at + len, lba + len, behind);
            }
        }
        Ok(Reading { id: self.id, pieces })
    }
}

fn crcs(sums: &[Sum]) -> Crcs {
    sums.iter().map(|sum| sum.crc).collect()
}

/// A read that has looked up the map and has not asked the drive yet.
pub(super) struct Reading<'a> {
    id: u64,
    pieces: Vec<(StretchPart, &'a mut [u8])>,
}

/// The drive's answer to a read.
pub(super) struct Fetched {
    pub(super) outcome: Result<(), DiskError>,
    pub(super) is_wrong: bool,
    /// Summaries that were not in memory.
    pub(super) sums: BTreeMap<Key, Crcs>,
    /// The zones that were read, with their generations at the lookup.
    pub(super) zones: BTreeSet<(ZoneId, u64)>,
}

impl Reading<'_> {
    /// Reads and checks the pieces. It uses nothing that other threads may change.
    pub(super) fn fetch(mut self, disk: &dyn Disk) -> Fetched {
        let zones = self.pieces.iter().map(|(piece, _)| (piece.zone, piece.summary.1)).collect();
        let mut sums = BTreeMap::new();
        let outcome = self.read(disk, &mut sums);
        let wrong = match outcome {
            Ok(()) => self.first_wrong(&sums),
            Err(_) => None,
        };
        let outcome = wrong.map_or(outcome, |at| Err(DiskError::Medium { at }));
        Fetched { outcome, is_wrong: wrong.is_some(), sums, zones }
    }

    fn read(&mut self, disk: &dyn Disk, sums: &mut BTreeMap<Key, Crcs>) -> Result<(), DiskError> {
        let missing = self.pieces.iter().filter(|(piece, _)| piece.crcs.is_none());
        let mut summaries: BTreeMap<Key, Vec<u8>> =
            missing.map(|(piece, _)| (piece.summary, vec![0; BLOCK_LEN_BYTES])).collect();
        let data = self.pieces.iter_mut();
        let mut requests: Vec<ReadRequest<'_>> =
            data.map(|(piece, buf)| ReadRequest { at: piece.place.start, buf }).collect();
        requests.extend(summaries.iter_mut().map(|(key, buf)| ReadRequest { at: key.0, buf }));
        // A drive serves a batch in the order of its addresses.
        requests.sort_by_key(|request| request.at);
        if !requests.is_empty() {
            let read = disk.read_batch(&mut requests);
            read.map_err(|error| {
                error_for_host(error, self.pieces.iter().map(|(piece, _)| piece))
            })?;
        }
        for (key, bytes) in summaries {
            if let Some(found) = decode_summary(self.id, key.0, key.1, &bytes) {
                sums.insert(key, crcs(&found));
            }
        }
        Ok(())
    }

    /// The first block that differs from what was written there.
    fn first_wrong(&self, sums: &BTreeMap<Key, Crcs>) -> Option<Lba> {
        self.pieces.iter().find_map(|(piece, buf)| {
            let crcs = piece.crcs.as_ref().or_else(|| sums.get(&piece.summary));
            let crcs = crcs.and_then(|crcs| crcs.get(piece.first..)).unwrap_or_default();
            let mut blocks = buf.chunks_exact(BLOCK_LEN_BYTES).enumerate();
            blocks.find_map(|(index, block)| {
                let lba = piece.lba + Blocks::new(index as u64);
                let is_right = crcs.get(index) == Some(&Sum::of(lba, block).crc);
                (!is_right).then_some(lba)
            })
        })
    }
}

/// Translates the address of an error from the drive below into the host's.
fn error_for_host<'a>(
    error: DiskError,
    mut pieces: impl Iterator<Item = &'a StretchPart>,
) -> DiskError {
    let at = match error {
        DiskError::Medium { at } => at,
        // The drive does not have a mapped block: it is as lost as one that cannot be read.
        DiskError::ReadAbovePointer { range, write_pointer, .. } => range.start.max(write_pointer),
        error => return error,
    };
    let lba = pieces.find_map(|piece| {
        let inside = piece.place.contains(at).then(|| piece.lba + (at - piece.place.start));
        inside.or_else(|| (piece.summary.0 == at && piece.crcs.is_none()).then_some(piece.lba))
    });
    DiskError::Medium { at: lba.unwrap_or(at) }
}
