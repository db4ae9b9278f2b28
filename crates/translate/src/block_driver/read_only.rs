//! Finds where read-only zones end: they no longer have a write pointer.
//!
//! ```text
//!     | data | data | summary | data | data | data | 0 0 0 0 ...
//!                                    |             `-- a drive refuses to read this, or reads one byte over and over
//!                                    `-- a block of zeros that the host wrote: its checksum shows
//!                                    it
//! ```
//!
//! A zone may turn read-only before all data written to it is on the platter, while the journal
//! describes the missing part. If such a zone counted as full, the journal's copies of those blocks
//! would be given up.
//!
//! Invariants
//!   E1  Blocks that a checkpoint maps or has checksums of are below the end: they were flushed
//!       before the checkpoint counted.
//!   E2  A block that only the journal describes is below the end if the drive has it.

use super::error::{DriverError, during};
use super::format::{Record, Sum};
use super::journal::End;
use super::journaled_sums::JournaledSums;
use super::pool::PoolZone;
use super::state::DriverState;
use super::step::READ_LEN;
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba, Pba, ZoneState, readable_len,
};
use std::collections::BTreeMap;

/// Finds how far read-only data zones are written. `journaled` comes from the checkpoint, `records`
/// from the journal.
pub(super) fn find_data_ends<'a>(
    state: &mut DriverState,
    journaled: &JournaledSums,
    records: impl Iterator<Item = &'a Record> + Clone,
) -> Result<(), DriverError> {
    let is_read_only = |slot: &&PoolZone| {
        state.disk.zone(slot.zone).is_some_and(|info| info.state == ZoneState::ReadOnly)
    };
    let slots: Vec<PoolZone> = state.zones.pool.iter().filter(is_read_only).copied().collect();
    for slot in slots {
        let end = end_of_data(&*state.disk, &slot, journaled, records.clone());
        let end = end.map_err(during("looking for the end of a read-only zone"))?;
        state.zones.pool.set_pointer(slot.zone, end);
    }
    Ok(())
}

/// How much of a read-only data zone is written, summaries included.
fn end_of_data<'a>(
    disk: &dyn Disk,
    slot: &PoolZone,
    journaled: &JournaledSums,
    records: impl Iterator<Item = &'a Record>,
) -> Result<Blocks, DiskError> {
    let (mut is_named, mut is_begun) = (false, false);
    let mut sums: BTreeMap<Pba, Sum> = BTreeMap::new();
    for record in records {
        match *record {
            Record::Evicted { at, .. } | Record::Moved { at, .. } => is_named |= slot.holds(at),
            Record::Sum { at, sum } if slot.holds(at) => drop(sums.insert(at, sum)),
            Record::Opened { zone, .. } => is_begun |= zone == slot.zone,
            Record::Sum { .. }
            | Record::Data { .. }
            | Record::Trimmed { .. }
            | Record::Emptied { .. } => {}
        }
    }
    // E1, unless the checksum is from an earlier life of the zone.
    let last = journaled.last_of(slot).filter(|_| !is_begun);
    let flushed = last.map(|last| slot.place(slot.pba(last)) + Blocks::new(1) - slot.start);
    if !is_named {
        // Without an open stretch, every mapped block has its summary.
        return Ok(flushed.unwrap_or(slot.capacity));
    }
    let flushed = flushed.unwrap_or(Blocks::ZERO);
    let rest = BlockRange::new(slot.start + flushed, slot.capacity - flushed);
    let End { at, is_exact } = end_of_read_only(disk, rest)?;
    let mut end = PoolZone { pointer: at - slot.start, ..*slot };
    let mut block = vec![0; BLOCK_LEN_BYTES];
    // A summary never looks like fill: no data follows a missing one.
    while !is_exact && !end.is_full() && !end.is_summary(end.pointer) {
        let at = slot.pba(end.written().get());
        let Some(sum) = sums.get(&at).or_else(|| journaled.sums.get(&at)) else { break };
        if !read_block(disk, slot.place(at), &mut block)? || Sum::of(sum.lba, &block) != *sum {
            break;
        }
        end.pointer += Blocks::new(1);
    }
    Ok(end.pointer)
}

/// Finds the end of a read-only zone, which has no write pointer: the first block that the drive
/// refuses to read. Another kind of drive reads one byte over and over beyond the end, and the
/// host's last blocks may look the same.
pub(super) fn end_of_read_only(disk: &dyn Disk, range: BlockRange) -> Result<End, DiskError> {
    let len = readable_len(disk, range)?;
    if len < range.len {
        return Ok(End { at: range.start + len, is_exact: true });
    }
    let mut block = vec![0; BLOCK_LEN_BYTES];
    if range.len.is_zero() || !read_block(disk, range.end() - Blocks::new(1), &mut block)? {
        return Ok(End { at: range.end(), is_exact: false });
    }
    let fill = block[0];
    let is_fill = |bytes: &[u8]| bytes.iter().all(|&byte| byte == fill);
    let mut end = range.len.get();
    let mut bytes = vec![0; Blocks::new(READ_LEN).bytes() as usize];
    while end > 0 {
        let len = end.min(READ_LEN);
        let from = end - len;
        let bytes = &mut bytes[..Blocks::new(len).bytes() as usize];
        let is_read = read_block(disk, range.start + Blocks::new(from), bytes)?;
        let blocks = bytes.chunks_exact_mut(BLOCK_LEN_BYTES).rev();
        for (index, block) in (from..end).rev().zip(blocks) {
            let at = range.start + Blocks::new(index);
            // A block that cannot be read was written.
            if !(is_read || read_block(disk, at, block)?) || !is_fill(block) {
                return Ok(End { at: at + Blocks::new(1), is_exact: false });
            }
        }
        end = from;
    }
    Ok(End { at: range.start, is_exact: false })
}

/// Reads one block or several; returns false if the medium fails.
fn read_block(disk: &dyn Disk, at: Lba, buf: &mut [u8]) -> Result<bool, DiskError> {
    match disk.read(at, buf) {
        Ok(()) => Ok(true),
        Err(DiskError::Medium { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
