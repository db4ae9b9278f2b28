//! Reads the newest checkpoint, block by block from either copy.

use super::error::{DriverError, during};
use super::format::{Checkpoint, Superblock, checkpoint_len, decode_checkpoint, decode_part};
use super::step::READ_LEN;
use crate::error::FormatFault;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Lba, ZoneId};

/// Returns the newest checkpoint, and how many of its blocks came from the second copy.
pub(super) fn read_checkpoint(
    disk: &dyn Disk,
    superblock: &Superblock,
) -> Result<(Checkpoint, u64), DriverError> {
    let stored = &superblock.checkpoint;
    let damage = |detail: String| DriverError::from(FormatFault::damaged("checkpoint", detail));
    let block_count = checkpoint_len(stored.len_bytes).get();
    let mut bytes = Vec::new();
    let (mut next, mut second_count) = (0, 0);
    while next < block_count {
        let places = stored.copies.each_ref().map(|zones| place(disk.geometry(), zones, next));
        let rooms = places.iter().flatten().map(|place| place.len.get());
        let count = rooms.chain([block_count - next, READ_LEN]).min().unwrap_or(0);
        let starts = places.map(|place| place.map(|place| place.start));
        let first = read_copy(disk, starts[0], count)?;
        let mut second = None;
        for (offset, block) in first.chunks_exact(BLOCK_LEN_BYTES).enumerate() {
            let index = next + offset as u64;
            let part = |block| decode_part(superblock.id, stored.number, index, block);
            if let Some(part) = part(block) {
                bytes.extend_from_slice(part);
                continue;
            }
            second_count += 1;
            let second = match &mut second {
                Some(second) => second,
                none => none.insert(read_copy(disk, starts[1], count)?),
            };
            let part = second.chunks_exact(BLOCK_LEN_BYTES).nth(offset).and_then(part);
            let lost = || damage(format!("both copies of its block {index} are damaged"));
            bytes.extend_from_slice(part.ok_or_else(lost)?);
        }
        next += count;
    }
    bytes.truncate(stored.len_bytes as usize);
    let checkpoint = decode_checkpoint(superblock.id, &bytes).map_err(damage)?;
    Ok((checkpoint, second_count))
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
