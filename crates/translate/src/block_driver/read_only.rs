//! Where zones end that the drive has turned read-only: such a zone has no pointer any more.
//!
//! ```text
//!     | data | data | summary | data | data | data | 0 0 0 0 ...
//!                                    |             `-- a drive refuses to read this, or reads one byte again and again
//!                                    `-- a host's block of zeros is written all the same: its checksum tells
//! ```
//!
//! A zone may turn read-only before all that was written to it is on the platter, and the journal tell of what is not:
//! to take such a zone for full would give up what the journal has of those blocks.
//!
//! Invariants
//!   E1  What a checkpoint maps or has checksums of is below the end: it was flushed before the checkpoint counted.
//!   E2  What only the journal tells of is below the end if the drive has it.

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

/// Finds how far the data zones are written that are read-only; `journaled` is what the checkpoint journaled, `records` are what
/// the journal tells.
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
    // E1; unless that was of an earlier life.
    let last = journaled.last_of(slot).filter(|_| !is_begun);
    let flushed = last.map(|last| slot.place(slot.pba(last)) + Blocks::new(1) - slot.start);
    if !is_named {
        // Without an open stretch all that is mapped has its summary.
        return Ok(flushed.unwrap_or(slot.capacity));
    }
    let flushed = flushed.unwrap_or(Blocks::ZERO);
    let rest = BlockRange::new(slot.start + flushed, slot.capacity - flushed);
    let End { at, is_exact } = end_of_read_only(disk, rest)?;
    let mut end = PoolZone { pointer: at - slot.start, ..*slot };
    let mut block = vec![0; BLOCK_LEN_BYTES];
    // A summary is never fill: no data are behind one that is not there.
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

/// A zone that is read-only has no pointer: it ends where a drive refuses to read. Another drive reads one byte again
/// and again behind the end; a block of the host's before it may be the same.
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
            // One that cannot be read was written.
            if !(is_read || read_block(disk, at, block)?) || !is_fill(block) {
                return Ok(End { at: at + Blocks::new(1), is_exact: false });
            }
        }
        end = from;
    }
    Ok(End { at: range.start, is_exact: false })
}

/// Reads a block, or some; false if the medium fails.
fn read_block(disk: &dyn Disk, at: Lba, buf: &mut [u8]) -> Result<bool, DiskError> {
    match disk.read(at, buf) {
        Ok(()) => Ok(true),
        Err(DiskError::Medium { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
