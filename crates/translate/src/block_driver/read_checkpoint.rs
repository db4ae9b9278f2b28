//! Reads the newest checkpoint, block by block from either copy.

use super::error::{DriverError, during};
use super::format::{
    Checkpoint, DELTA_HEADER_LEN, DELTA_INDEX, Superblock, checkpoint_len, decode_checkpoint,
    decode_delta_header, decode_part,
};
use super::overlay::DeltaRuns;
use super::step::READ_LEN;
use crate::error::FormatFault;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Lba, ZoneId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Returns the newest checkpoint with its deltas, and how many of its blocks came from the second
/// copy.
pub(super) fn read_checkpoint(
    disk: &dyn Disk,
    superblock: &Superblock,
) -> Result<(Checkpoint, u64), DriverError> {
    let stored = &superblock.checkpoint;
    let damage = |detail: String| DriverError::from(FormatFault::damaged("checkpoint", detail));
    let mut reader = Reader { disk, superblock, second_count: 0 };
    let block_count = checkpoint_len(stored.len_bytes).get();
    let mut bytes = reader.read(&stored.copies, 0..block_count, 0)?;
    bytes.truncate(stored.len_bytes as usize);
    let mut newest = decode_checkpoint(superblock.id, &bytes).map_err(damage)?;
    let mut deltas = DeltaRuns::default();
    let mut at = 0;
    for number in 1..=stored.deltas.count {
        let zones = &stored.deltas.copies;
        let first = reader.read(zones, at..at + 1, DELTA_INDEX)?;
        let len_bytes =
            decode_delta_header(&first).and_then(|len| len.checked_add(DELTA_HEADER_LEN as u64));
        let len = len_bytes.map_or(0, |len| checkpoint_len(len).get());
        if len == 0 || stored.deltas.len - at < len {
            return Err(damage(format!("delta {number} exceeds its zones")));
        }
        let mut bytes = first;
        bytes.extend(reader.read(zones, at + 1..at + len, DELTA_INDEX)?);
        bytes.truncate(len_bytes.unwrap_or(0) as usize);
        at += len;
        let mut delta =
            decode_checkpoint(superblock.id, &bytes[DELTA_HEADER_LEN..]).map_err(damage)?;
        deltas.push(std::mem::take(&mut delta.mapped));
        let mut generations: BTreeMap<ZoneId, u64> = newest.generations.into_iter().collect();
        generations.extend(delta.generations);
        delta.generations = generations.into_iter().collect();
        delta.mapped = newest.mapped;
        newest = delta;
    }
    if at != stored.deltas.len {
        return Err(damage(format!("its deltas end at block {at} of {}", stored.deltas.len)));
    }
    newest.mapped = deltas.over(newest.mapped);
    Ok((newest, reader.second_count))
}

/// Reads blocks of a checkpoint from either copy.
struct Reader<'a> {
    disk: &'a dyn Disk,
    superblock: &'a Superblock,
    /// How many blocks came from the second copy.
    second_count: u64,
}

impl Reader<'_> {
    /// The parts in blocks `range` of the zones; their numbers have the bits of `flag`.
    fn read(
        &mut self,
        zones: &[Vec<ZoneId>; 2],
        range: Range<u64>,
        flag: u64,
    ) -> Result<Vec<u8>, DriverError> {
        let (id, number) = (self.superblock.id, self.superblock.checkpoint.number);
        let mut bytes = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let places = zones.each_ref().map(|zones| place(self.disk.geometry(), zones, next));
            let rooms = places.iter().flatten().map(|place| place.len.get());
            let count = rooms.chain([range.end - next, READ_LEN]).min().unwrap_or(0);
            let starts = places.map(|place| place.map(|place| place.start));
            let first = read_copy(self.disk, starts[0], count)?;
            let mut second = None;
            for (offset, block) in first.chunks_exact(BLOCK_LEN_BYTES).enumerate() {
                let index = next + offset as u64;
                let part = |block| decode_part(id, number, flag | index, block);
                if let Some(part) = part(block) {
                    bytes.extend_from_slice(part);
                    continue;
                }
                self.second_count += 1;
                let second = match &mut second {
                    Some(second) => second,
                    none => none.insert(read_copy(self.disk, starts[1], count)?),
                };
                let part = second.chunks_exact(BLOCK_LEN_BYTES).nth(offset).and_then(part);
                let lost = || {
                    let detail = format!("both copies of its block {index} are damaged");
                    DriverError::from(FormatFault::damaged("checkpoint", detail))
                };
                bytes.extend_from_slice(part.ok_or_else(lost)?);
            }
            next += count;
        }
        Ok(bytes)
    }
}

/// Where block `index` of a copy in `zones` is, and how many further blocks the zone holds.
fn place(geometry: &Geometry, zones: &[ZoneId], index: u64) -> Option<BlockRange> {
    let mut before = index;
    for &zone in zones {
        let start = geometry.zone_range(zone)?.start;
        let capacity = geometry.zone_capacity(zone)?.get();
        if before < capacity {
            let (before, rest) = (Blocks::new(before), Blocks::new(capacity - before));
            return Some(BlockRange::new(start + before, rest));
        }
        before -= capacity;
    }
    None
}

/// Reads `count` blocks of a copy. Blocks that the drive fails to read become zeros, which are no
/// part of any checkpoint.
fn read_copy(disk: &dyn Disk, start: Option<Lba>, count: u64) -> Result<Vec<u8>, DriverError> {
    let mut bytes = vec![0; Blocks::new(count).bytes() as usize];
    let Some(start) = start else { return Ok(bytes) };
    let is_read = |read: Result<(), DiskError>| match read {
        Ok(()) => Ok(true),
        Err(DiskError::Medium { .. }) => Ok(false),
        Err(error) => Err(error),
    };
    let read_all = |bytes: &mut [u8]| -> Result<(), DiskError> {
        if is_read(disk.read(start, bytes))? {
            return Ok(());
        }
        for (index, block) in (0..).zip(bytes.chunks_exact_mut(BLOCK_LEN_BYTES)) {
            if !is_read(disk.read(start + Blocks::new(index), block))? {
                block.fill(0);
            }
        }
        Ok(())
    };
    match read_all(&mut bytes) {
        Ok(()) => Ok(bytes),
        // The zone is gone, or was written again.
        Err(DiskError::Offline { .. } | DiskError::ReadAbovePointer { .. }) => {
            bytes.fill(0);
            Ok(bytes)
        }
        Err(error) => Err(during("reading the checkpoint")(error)),
    }
}
