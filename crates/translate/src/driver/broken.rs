//! Where data zones end in a block that cannot be read: the power went while it was being written.
//!
//! ```text
//!     | data | data | summary | data | data | ???? |              below the pointer, and yet not there
//!     | data | data | .................... | data | ???? |        the same of a summary: checksums are those that the
//!                                                                 checkpoint and the journal have
//! ```
//!
//! Invariants
//!   B1  A record counts only if all of its blocks are there: what it moved is still where it was.
//!   B2  A stretch whose summary is not there keeps its checksums in memory and in every checkpoint, and its zone is not
//!       written on.
//!
//! A block that was durable and rotted is treated in the same way; what a record moved is the same at both places.

use super::error::{DriverError, during};
use super::format::{Record, STRETCH_LEN, decode_summary};
use super::mapping::PbaRange;
use super::open::is_given_up;
use super::pool::{Pool, PoolZone, Use};
use super::state::State;
use super::summaries::Told;
use imbrex_disk::{
    BLOCK_LEN_BYTES, Blocks, Disk, DiskError, Lba, Pba, ZoneAction, ZoneId, ZoneState,
};
use std::collections::BTreeMap;

/// What is said of a data zone since the checkpoint, or of its open stretch by it.
#[derive(Clone, Copy, Debug, Default)]
struct Named {
    /// The newest of its lives that the journal tells of.
    generation: Option<u64>,
    /// Records map nothing behind this data block.
    end: u64,
    /// The last data block that a checksum is told of.
    last_sum: Option<u64>,
}

/// Finds the zones that end in a block that is not there; `told` is what the checkpoint told, `records` are what the
/// journal tells.
pub(super) fn find_broken_ends<'a>(
    state: &mut State,
    told: &mut Told,
    records: impl Iterator<Item = &'a Record>,
) -> Result<(), DriverError> {
    for (zone, named) in named(&state.pool, told, records) {
        let Some(slot) = state.pool.get(zone).copied() else { continue };
        let is_data = matches!(slot.used, Use::Free | Use::Sealed) && !slot.pointer.is_zero();
        if !is_data || is_given_up(&*state.disk, zone) {
            continue;
        }
        let end = end_of(state, &slot, named, told);
        let end = end.map_err(during("looking for the end of a zone"))?;
        state.pool.set_pointer(zone, end);
    }
    Ok(())
}

fn named<'a>(
    pool: &Pool,
    told: &Told,
    records: impl Iterator<Item = &'a Record>,
) -> BTreeMap<ZoneId, Named> {
    let mut found: BTreeMap<ZoneId, Named> = BTreeMap::new();
    let mut note = |at: Pba, note: &dyn Fn(&mut Named, u64)| {
        if let Some(slot) = pool.zone_of(at) {
            note(found.entry(slot.zone).or_default(), slot.index(at));
        }
    };
    for &at in told.sums.keys() {
        note(at, &|named, index| named.last_sum = named.last_sum.max(Some(index)));
    }
    for record in records {
        match *record {
            Record::Evicted { range, at } | Record::Moved { range, at } => {
                note(at, &|named, index| named.end = named.end.max(index + range.len.get()));
            }
            Record::Sum { at, .. } => {
                note(at, &|named, index| named.last_sum = named.last_sum.max(Some(index)));
            }
            Record::Opened { zone, generation } => {
                let begun = Named { generation: Some(generation), ..Named::default() };
                let start = pool.get(zone).map(|slot| slot.pba(0));
                start.into_iter().for_each(|at| note(at, &|named, _| *named = begun));
            }
            Record::Data { .. } | Record::Trimmed { .. } | Record::Emptied { .. } => {}
        }
    }
    found
}

/// How much of a data zone is there, summaries included. A data block at its end that is not there is added to `told`:
/// behind that one the zone can be written on.
fn end_of(
    state: &State,
    slot: &PoolZone,
    named: Named,
    told: &mut Told,
) -> Result<Blocks, DiskError> {
    let last = slot.pointer - Blocks::new(1);
    let mut block = vec![0; BLOCK_LEN_BYTES];
    // A zone that was finished behind its stretch is full for the drive.
    if let Some(index) = named.last_sum {
        let summary = slot.summary_of(slot.pba(index));
        let behind = (index / STRETCH_LEN + 1) * STRETCH_LEN;
        let is_summary = |block: &[u8]| {
            let generation = named.generation.unwrap_or(slot.generation);
            decode_summary(state.superblock.id, summary, generation, block).is_some()
        };
        if summary <= slot.start + last
            && named.end <= behind
            && !is_mapped_from(state, slot, behind)
            && !(read_block(&*state.disk, summary, &mut block)? && is_summary(&block))
        {
            return Ok(summary - slot.start);
        }
    }
    if read_block(&*state.disk, slot.start + last, &mut block)? {
        return Ok(slot.pointer);
    }
    if slot.is_summary(last) {
        return Ok(last);
    }
    told.broken.insert(slot.pba(slot.written().get() - 1));
    Ok(slot.pointer)
}

/// Whether the checkpoint maps a block of the zone from the `index`-th on.
fn is_mapped_from(state: &State, slot: &PoolZone, index: u64) -> bool {
    let len = slot.len().saturating_sub(Blocks::new(index));
    !len.is_zero() && state.map.owner(PbaRange { start: slot.pba(index), len }).is_some()
}

/// Whether what is written next to a zone comes where the drive takes it.
pub(super) fn can_be_continued(disk: &dyn Disk, slot: &PoolZone) -> bool {
    let pointer = disk.zone(slot.zone).and_then(|info| info.state.write_pointer(slot.start));
    pointer == Some(slot.start + slot.pointer)
}

/// B2: a zone that cannot be written on is ended for the drive alone.
pub(super) fn finish_broken(state: &State) -> Result<(), DiskError> {
    let is_active = |slot: &&PoolZone| {
        let found = state.disk.zone(slot.zone).map(|info| info.state);
        matches!(found, Some(ZoneState::Open { .. } | ZoneState::Closed { .. }))
    };
    let is_broken = |slot: &&PoolZone| {
        slot.used == Use::Sealed && !slot.is_full() && !can_be_continued(&*state.disk, slot)
    };
    let mut slots = state.pool.iter().filter(is_broken).filter(is_active);
    slots.try_for_each(|slot| state.disk.manage_zone(slot.zone, ZoneAction::Finish))
}

/// Reads a block; false if the medium fails. What a drive refuses to read was not being written.
fn read_block(disk: &dyn Disk, at: Lba, block: &mut [u8]) -> Result<bool, DiskError> {
    match disk.read(at, block) {
        Ok(()) | Err(DiskError::ReadAbovePointer { .. }) => Ok(true),
        Err(DiskError::Medium { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
