//! Replays the journal's records since the checkpoint.
//!
//! A record counts only if its data is there (`broken`), because a power cut may keep the record
//! and lose the data. A checkpoint may be younger than the records that follow it, so replaying a
//! record may repeat what the map already says.
//!
//! Not here: reading the entries (`entries`).

use super::broken::{AcceptedRuns, accepted_runs};
use super::entries::ReadEntry;
use super::error::{DriverError, damaged, during};
use super::format::Record;
use super::journaled_sums::JournaledSums;
use super::mapping::{MapRun, PbaRange};
use super::pool::{Pool, Use};
use super::state::DriverState;
use imbrex_disk::{BlockRange, Blocks, Pba, ZoneId};
use std::collections::{BTreeMap, BTreeSet};

/// Marks the host's newest content of `range` as lost.
pub(super) fn lose(state: &mut DriverState, range: BlockRange) {
    state.copies.forget(range);
    state.lost.insert(range);
}

/// Drops what a checkpoint says about a zone that was begun anew since. If nothing in the zone was
/// valid, no record says that it was emptied, and checkpoints of earlier versions have checksums of
/// such zones.
pub(super) fn forget_earlier_lives<'a>(
    pool: &Pool,
    journaled: &mut JournaledSums,
    records: impl Iterator<Item = &'a Record>,
) {
    for record in records {
        if let Record::Opened { zone, generation } = *record
            && let Some(slot) = pool.get(zone).filter(|slot| slot.generation != generation)
        {
            journaled.forget(slot);
        }
    }
}

/// Replays the entries. Returns the zones named by records that count only if the zone is written
/// far enough. Until the next checkpoint these zones must stay as they are, for the next recovery.
pub(super) fn replay(
    state: &mut DriverState,
    journaled: &mut JournaledSums,
    entries: Vec<ReadEntry>,
) -> Result<BTreeSet<ZoneId>, DriverError> {
    let mut emptied: BTreeMap<ZoneId, (usize, usize)> = BTreeMap::new();
    let mut opened = BTreeMap::new();
    for (number, found) in entries.iter().enumerate() {
        for (index, record) in found.entry.records.iter().enumerate() {
            match *record {
                Record::Emptied { zone } => _ = emptied.insert(zone, (number, index)),
                Record::Opened { zone, .. } => _ = opened.insert(zone, (number, index)),
                _ => {}
            }
        }
    }
    let mut named = BTreeSet::new();
    let flushed_seq = entries.iter().map(|found| found.entry.flushed_seq).max();
    for (number, found) in entries.into_iter().enumerate() {
        let is_flushed = Some(found.entry.seq) < flushed_seq;
        for (index, record) in found.entry.records.into_iter().enumerate() {
            match record {
                Record::Evicted { range, at } | Record::Moved { range, at } => {
                    let run = MapRun { start: range.start, at, len: range.len };
                    let slot = state.zones.pool.zone_of(at).copied();
                    let last = slot.and_then(|slot| emptied.get(&slot.zone));
                    let is_older = last.is_some_and(|&last| (number, index) < last);
                    named.extend(slot.map(|slot| slot.zone).filter(|_| !is_older));
                    let AcceptedRuns { runs, broken_count } = match slot {
                        None => AcceptedRuns::default(),
                        // The content of an offline zone is gone. Ignoring the record would bring
                        // back older content.
                        Some(slot) if is_older || slot.used == Use::Lost => AcceptedRuns::all(run),
                        // Its blocks may belong to another life of the zone by now, or to none.
                        Some(slot) => accepted_runs(state, journaled, &slot, run, is_flushed)
                            .map_err(during("looking for the source of a move"))?,
                    };
                    state.counters.broken_blocks += broken_count;
                    state.counters.ignored_records += u64::from(runs != [run]);
                    for run in runs {
                        if matches!(record, Record::Evicted { .. }) {
                            state.copies.forget(run.range());
                            state.lost.remove(run.range());
                        }
                        take_over(state, run.range(), run.at)?;
                    }
                }
                Record::Trimmed { range } => {
                    state.copies.forget(range);
                    state.lost.remove(range);
                    state.map.unset(range);
                }
                Record::Data { lba, at, .. } => {
                    let range = BlockRange::new(lba, Blocks::new(1));
                    state.lost.remove(range);
                    state.copies.record(range, at).map_err(damaged("journal"))?;
                }
                // If the zone was not begun anew, the flush after the record may have been cut, and
                // what replaced its data be gone.
                Record::Emptied { zone } if opened.get(&zone) > Some(&(number, index)) => {
                    state.zones.pool.get(zone).into_iter().for_each(|slot| journaled.forget(slot));
                }
                Record::Emptied { .. } => {}
                Record::Opened { zone, generation } => {
                    state.zones.pool.set_generation(zone, generation);
                }
                Record::Sum { at, sum } => drop(journaled.sums.insert(at, sum)),
            }
        }
        found.lost.into_iter().for_each(|range| lose(state, range));
        state.counters.broken_blocks += u64::from(found.broken.is_some());
    }
    Ok(named)
}

/// Maps `range`. A checkpoint may be younger than the records that follow it, so other blocks may
/// be mapped to the place already. Their own place is in a later record.
fn take_over(state: &mut DriverState, range: BlockRange, at: Pba) -> Result<(), DriverError> {
    let mut place = PbaRange { start: at, len: range.len };
    // What a base has there has its own record too, or was written elsewhere since.
    while let Some(owner) = state.map.newest().owner(place) {
        let (from, to) = (owner.at.max(place.start), owner.place().end().min(place.end()));
        let start = owner.start + (from - owner.at);
        if start != range.start + (from - at) {
            state.map.unset(BlockRange::new(start, to - from));
        }
        place = PbaRange { start: to, len: place.end() - to };
    }
    state.map.set(range, at).map(drop).map_err(damaged("journal"))
}
