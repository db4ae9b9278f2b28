//! Reads the blocks of a checkpoint, each from either copy.
//!
//! Not here: what they say (`checkpoint_format`).

use super::checkpoint_format::decode_part;
use super::error::{DriverError, during};
use super::step::READ_LEN;
use crate::error::FormatFault;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Lba, ZoneId};
use std::ops::Range;

/// Reads blocks of a checkpoint from either copy.
pub(super) struct PartReader<'a> {
    disk: &'a dyn Disk,
    id: u64,
    number: u64,
    /// How many blocks came from the second copy.
    pub(super) second_count: u64,
}

impl<'a> PartReader<'a> {
    /// A reader of checkpoint `number`.
    pub(super) fn new(disk: &'a dyn Disk, id: u64, number: u64) -> PartReader<'a> {
        PartReader { disk, id, number, second_count: 0 }
    }

    /// The parts in blocks `range` of the zones; their numbers have the bits of `flag`.
    pub(super) fn read(
        &mut self,
        zones: &[Vec<ZoneId>; 2],
        range: Range<u64>,
        flag: u64,
    ) -> Result<Vec<u8>, DriverError> {
        let (id, number) = (self.id, self.number);
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
