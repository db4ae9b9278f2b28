//! Finds data zones that end in an unreadable block: the power went while it was being written.
//!
//! ```text
//!     | data | data | summary | data | data | ???? |              below the pointer, but not there
//!     | data | data | .................... | data | ???? |        the same for a summary: the checksums are in
//!                                                                 the checkpoint and the journal
//! ```
//!
//! A block that was flushed and rotted looks the same. Two facts distinguish the cases. An entry of
//! the journal says what was flushed before it. And the source of a recorded move is still there
//! after the power cut, while after a flush its zone may have been begun anew. For data of the last
//! flush before the power cut, nothing distinguishes the cases: such blocks are counted and
//! reported when the device is opened.
//!
//! Invariants
//!   B1  A record of a block that is not there does not count if no later entry says that it was
//!       flushed and the block's previous content is intact. If the previous content is gone, the
//!       record was durable and the block is lost: the map must not continue to lead to a zone that
//!       was emptied and begun anew because of that record.
//!   B2  A stretch whose summary is not there keeps its checksums in memory and in every
//!       checkpoint, and its zone is not written on.
//!   B3  Data that fills a zone is flushed before a record describes it. If the last summary of a
//!       full zone is not there, the blocks that records name have their checksums in the journal;
//!       otherwise it is damage.

use super::error::{DriverError, during};
use super::format::{Record, STRETCH_LEN, Sum, decode_summary};
use super::journaled_sums::{BrokenEnd, JournaledSums};
use super::mapping::{MapRun, PbaRange};
use super::pool::{Pool, PoolZone, Use};
use super::state::DriverState;
use super::zones::{finish_zone, is_given_up};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba, ZoneId, ZoneState};
use std::collections::BTreeMap;

/// What the records since the checkpoint say of a data zone, and what the checkpoint says of its
/// open stretch.
#[derive(Clone, Copy, Debug, Default)]
struct ZoneRecords {
    /// Records map nothing after this data block.
    end: u64,
    /// The last data block with a recorded checksum.
    last_sum: Option<u64>,
    /// The same since the last record that the zone is empty, if there is one. A commit writes
    /// checksums first, so they precede the record that opens their zone.
    since_emptied: Option<Option<u64>>,
}

impl ZoneRecords {
    fn note_sum(&mut self, index: u64) {
        self.last_sum = self.last_sum.max(Some(index));
        self.since_emptied = self.since_emptied.map(|last| last.max(Some(index)));
    }
}

/// Finds the zones that end in a block that is not there. `journaled` comes from the checkpoint,
/// `records` from the journal.
pub(super) fn find_broken_ends<'a>(
    state: &mut DriverState,
    journaled: &mut JournaledSums,
    records: impl Iterator<Item = &'a Record>,
) -> Result<(), DriverError> {
    for (zone, named) in records_by_zone(&state.zones.pool, journaled, records) {
        let Some(slot) = state.zones.pool.get(zone).copied() else { continue };
        let is_data = matches!(slot.used, Use::Free | Use::Sealed) && !slot.pointer.is_zero();
        if !is_data || is_given_up(&*state.disk, zone) {
            continue;
        }
        let found = end_of(state, &slot, named).map_err(during("looking for the end of a zone"))?;
        if let Some((end, broken)) = found {
            state.zones.pool.set_pointer(zone, end);
            journaled.broken.insert(zone, broken);
        }
    }
    Ok(())
}

fn records_by_zone<'a>(
    pool: &Pool,
    journaled: &JournaledSums,
    records: impl Iterator<Item = &'a Record>,
) -> BTreeMap<ZoneId, ZoneRecords> {
    let mut found: BTreeMap<ZoneId, ZoneRecords> = BTreeMap::new();
    for &at in journaled.sums.keys() {
        if let Some(slot) = pool.zone_of(at) {
            found.entry(slot.zone).or_default().note_sum(slot.index(at));
        }
    }
    for record in records {
        match *record {
            Record::Evicted { range, at } | Record::Moved { range, at } => {
                let Some(slot) = pool.zone_of(at) else { continue };
                let named = found.entry(slot.zone).or_default();
                named.end = named.end.max(slot.index(at).saturating_add(range.len.get()));
            }
            Record::Sum { at, .. } => {
                let Some(slot) = pool.zone_of(at) else { continue };
                found.entry(slot.zone).or_default().note_sum(slot.index(at));
            }
            Record::Emptied { zone } => {
                found.entry(zone).or_default().since_emptied = Some(None);
            }
            Record::Opened { zone, .. } => {
                let named = found.entry(zone).or_default();
                let last_sum = named.since_emptied.unwrap_or(named.last_sum);
                *named = ZoneRecords { last_sum, ..ZoneRecords::default() };
            }
            Record::Data { .. } | Record::Trimmed { .. } => {}
        }
    }
    found
}

/// How much of a data zone is there, summaries included, if its end is not. After a missing data
/// block, the zone can be written on.
fn end_of(
    state: &DriverState,
    slot: &PoolZone,
    named: ZoneRecords,
) -> Result<Option<(Blocks, BrokenEnd)>, DiskError> {
    let last = slot.pointer - Blocks::new(1);
    let is_there = |at: Lba| is_read(&*state.disk, at, &mut [0; BLOCK_LEN_BYTES]);
    let is_last_torn = !slot.is_full() && !is_there(slot.start + last)?;
    // For the drive, a zone that was finished after its stretch is full.
    if let Some(index) = named.last_sum {
        let summary = slot.summary_of(slot.pba(index));
        let behind = (index / STRETCH_LEN + 1) * STRETCH_LEN;
        if summary <= slot.start + last
            && named.end <= behind
            && !is_mapped_from(state, slot, behind)
            && !is_there(summary)?
        {
            let may_be_torn = is_last_torn && summary == slot.start + last;
            return Ok(Some((summary - slot.start, BrokenEnd { block: None, may_be_torn })));
        }
    }
    let torn = |block| BrokenEnd { block, may_be_torn: true };
    Ok(match (is_last_torn, slot.is_summary(last)) {
        (false, _) => None,
        (true, true) => Some((last, torn(None))),
        (true, false) => Some((slot.pointer, torn(Some(slot.pba(slot.written().get() - 1))))),
    })
}

/// Whether the checkpoint maps a block of the zone with number `index` or higher.
fn is_mapped_from(state: &DriverState, slot: &PoolZone, index: u64) -> bool {
    let len = slot.len().saturating_sub(Blocks::new(index));
    !len.is_zero() && state.map.is_taken(PbaRange { start: slot.pba(index), len })
}

/// The runs that count of one that a record maps to a zone.
#[derive(Debug, Default)]
pub(super) struct AcceptedRuns {
    pub(super) runs: Vec<MapRun>,
    /// How many blocks do not count because the power may have gone while they were written.
    pub(super) broken_count: u64,
}

impl AcceptedRuns {
    /// All of `run`.
    pub(super) fn all(run: MapRun) -> AcceptedRuns {
        AcceptedRuns { runs: vec![run], broken_count: 0 }
    }
}

/// B1: which runs count of one that a record maps to a zone. `is_flushed`: a later entry says that
/// it was flushed.
pub(super) fn accepted_runs(
    state: &DriverState,
    journaled: &JournaledSums,
    slot: &PoolZone,
    run: MapRun,
    is_flushed: bool,
) -> Result<AcceptedRuns, DiskError> {
    if journaled.has(slot, run.at, run.len) {
        return Ok(AcceptedRuns::all(run));
    }
    let is_written = slot.index(run.at).saturating_add(run.len.get()) <= slot.written().get();
    let Some(broken) = journaled.broken.get(&slot.zone).filter(|_| is_written) else {
        return Ok(AcceptedRuns::default());
    };
    let may_be_torn = broken.may_be_torn && !is_flushed;
    let mut accepted = AcceptedRuns::default();
    for offset in (0..run.len.get()).map(Blocks::new) {
        let (start, at, len) = (run.start + offset, run.at + offset, Blocks::new(1));
        let is_there = journaled.has(slot, at, len);
        if !is_there && may_be_torn && is_as_before(state, journaled, start)? {
            accepted.broken_count += 1;
            continue;
        }
        match accepted.runs.last_mut() {
            Some(last) if last.range().end() == start => last.len += len,
            _ => accepted.runs.push(MapRun { start, at, len }),
        }
    }
    Ok(accepted)
}

/// Whether the content of a block that the map has so far is intact.
fn is_as_before(
    state: &DriverState,
    journaled: &JournaledSums,
    lba: Lba,
) -> Result<bool, DiskError> {
    let mapped = state.pieces(BlockRange::new(lba, Blocks::new(1)))?.into_iter().next();
    let Some(at) = mapped.and_then(|piece| piece.at) else { return Ok(true) };
    let Some(slot) = state.zones.pool.zone_of(at) else { return Ok(false) };
    let index = slot.index(at);
    let mut block = vec![0; BLOCK_LEN_BYTES];
    let sum = if index < slot.summed().get() {
        let summary = slot.summary_of(at);
        if !is_read(&*state.disk, summary, &mut block)? {
            return Ok(false);
        }
        let sums = decode_summary(state.superblock.id, summary, slot.generation, &block);
        sums.and_then(|sums| sums.get((index % STRETCH_LEN) as usize).copied())
    } else {
        journaled.sums.get(&at).copied()
    };
    Ok(is_read(&*state.disk, slot.place(at), &mut block)? && sum == Some(Sum::of(lba, &block)))
}

/// Whether the drive's write pointer is where the pool would write next.
pub(super) fn can_be_continued(disk: &dyn Disk, slot: &PoolZone) -> bool {
    let pointer = disk.zone(slot.zone).and_then(|info| info.state.write_pointer(slot.start));
    pointer == Some(slot.start + slot.pointer)
}

/// B2: finishes zones that cannot be written on, on the drive only.
pub(super) fn finish_broken(state: &DriverState) -> Result<(), DiskError> {
    let is_active = |slot: &&PoolZone| {
        let found = state.disk.zone(slot.zone).map(|info| info.state);
        matches!(found, Some(ZoneState::Open { .. } | ZoneState::Closed { .. }))
    };
    let is_broken = |slot: &&PoolZone| {
        slot.used == Use::Sealed && !slot.is_full() && !can_be_continued(&*state.disk, slot)
    };
    let mut slots = state.zones.pool.iter().filter(is_broken).filter(is_active);
    slots.try_for_each(|slot| finish_zone(&*state.disk, slot.zone))
}

/// Reads a block; returns false if the drive does not have it, or no longer has it.
fn is_read(disk: &dyn Disk, at: Lba, block: &mut [u8]) -> Result<bool, DiskError> {
    match disk.read(at, block) {
        Ok(()) => Ok(true),
        Err(
            DiskError::Medium { .. }
            | DiskError::Offline { .. }
            | DiskError::ReadAbovePointer { .. },
        ) => Ok(false),
        Err(error) => Err(error),
    }
}
