//! Opens a device: from the newest superblock through its checkpoint to the end of the journal.
//!
//! ```text
//!     superblock -> checkpoint: mapping, what the buffer held and where the journal has it
//!                -> entries from there on, zone by zone, up to the first that is torn
//!                -> the buffer's bytes, read back from the journal
//!                -> a checkpoint, before anything else is written
//! ```
//!
//! A device that is only read is opened the same way without what would be written: the checkpoint is
//! missing, and so is the work that it allows.
//!
//! A record of an eviction or a move may survive a power cut that its data did not survive. It
//! counts in two cases. Either the zone is written that far, which in a sequential zone means that
//! the data is there. Or a later record says that the zone was emptied, because a flush came in
//! between. Without the checkpoint at the end, a second recovery could find the zone written
//! further, with other data.

use super::broken::{can_be_continued, find_broken_ends, finish_broken};
use super::buffer::JournalIndex;
use super::checkpoint_format::Checkpoint;
use super::entries::read_journal;
use super::error::{DriverError, damaged, during};
use super::format::{ENTRY_LEN_MIN, Superblock};
use super::journal::{End, JournalUse, JournalZones, first_pool_zone};
use super::journaled_sums::JournaledSums;
use super::layered::LayeredMap;
use super::load::load_buffer;
use super::mapping::{MapRun, Mapping, MappingError};
use super::options::DriverOptions;
use super::pool::{Pool, PoolZone, Use};
use super::read_checkpoint::{self, NewestMap, read_checkpoint};
use super::read_only::{end_of_read_only, find_data_ends};
use super::replay::{forget_earlier_lives, replay};
use super::state::DriverState;
use super::superblocks::{Newest, newest};
use super::zones::{journal_zones, spec, zones_of};
use crate::error::FormatFault;
use imbrex_disk::{Blocks, Disk, Geometry, ZoneAction, ZoneId, ZoneState};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Opens a device in whatever state a power cut left it.
pub(super) fn open(
    disk: Arc<dyn Disk>,
    options: &DriverOptions,
) -> Result<DriverState, DriverError> {
    // After a kill, the drive may report data that a power cut would still take back.
    let flush = |disk: &dyn Disk| disk.flush().map_err(during("flushing the drive"));
    let Recovered { mut state, is_alone, stand_in } = recover(disk, options, flush)?;
    if is_alone {
        // K7: until both zones have the superblock, neither the structures of the previous one nor
        // a stand-in change.
        let stand_in = stand_in.and_then(|zone| state.zones.pool.get(zone).copied());
        let stand_in = stand_in.filter(|slot| state.map.valid(slot.zone).is_zero());
        stand_in.into_iter().for_each(|slot| state.zones.pool.set(slot.zone, Use::Checkpoint));
        state.superblock.number += 1;
        state.write_superblock().map_err(during("writing the superblock again"))?;
        stand_in.into_iter().for_each(|slot| state.zones.pool.set(slot.zone, slot.used));
    }
    settle(&mut state)?;
    Ok(state)
}

/// Opens a device to read it, in whatever state a power cut left it. The disk gets reads alone.
pub(super) fn open_read_only(
    disk: Arc<dyn Disk>,
    options: &DriverOptions,
) -> Result<DriverState, DriverError> {
    Ok(recover(disk, options, |_| Ok(()))?.state)
}

/// A device as its drive describes it. Nothing has been written.
struct Recovered {
    state: DriverState,
    /// Only one zone has the newest superblock.
    is_alone: bool,
    /// The zone that has it in place of a zone of superblocks.
    stand_in: Option<ZoneId>,
}

/// Reads a device; `flush` makes what is read durable, where that is needed.
fn recover(
    disk: Arc<dyn Disk>,
    options: &DriverOptions,
    flush: impl FnOnce(&dyn Disk) -> Result<(), DriverError>,
) -> Result<Recovered, DriverError> {
    options.check()?;
    zones_of(disk.geometry())?;
    flush(&*disk)?;
    let Newest { superblock, zones: superblocks, is_alone, stand_in, damaged_count } =
        newest(&*disk)?;
    check_geometry(&superblock, disk.geometry())?;
    let bound = options.map_memory_bytes;
    let read_checkpoint::Newest { checkpoint, map, second_count } =
        read_checkpoint(&*disk, &superblock, bound)?;
    let map = layered(map, &superblock, bound).map_err(damaged("checkpoint"))?;
    let mut copies = JournalIndex::new(spec(&superblock)).map_err(damaged("checkpoint"))?;
    let zones = journal_zones(&*disk, superblock.journal_zone_count);
    if zones.len() != superblock.journal_zone_count as usize {
        let detail = format!("the drive has only {} zones for its journal", zones.len());
        return Err(FormatFault::damaged("superblock", detail).into());
    }
    let mut journal = JournalZones::new(zones);
    let mut crcs = checkpoint.copy_crcs.iter().copied();
    for run in &checkpoint.copies {
        copies.record(run.range, run.at).map_err(damaged("checkpoint"))?;
        journal.note_crcs(run.at, crcs.by_ref().take(run.range.len.get() as usize));
    }
    let pool = Pool::new(&*disk, first_pool_zone(&journal));
    let mut state =
        DriverState::new(disk, options, superblock, superblocks, map, copies, journal, pool);
    state.counters.second_copies = damaged_count + second_count;
    for zone in state.superblock.checkpoint.zones() {
        state.zones.pool.set(zone, Use::Checkpoint);
    }
    for &range in &checkpoint.lost {
        state.lost.insert(range);
    }
    for &(zone, generation) in &checkpoint.generations {
        state.zones.pool.set_generation(zone, generation);
    }
    let offline = find_lost_journal_zones(&mut state, &checkpoint)?;
    let entries = read_journal(&mut state, &checkpoint, offline)?;
    // One number is skipped: a torn entry has the next number, and its zone may look written to the
    // end later on.
    state.seq = checkpoint.seq + entries.len() as u64 + 1;
    state.counters.replayed_entries = entries.len() as u64;
    let mut journaled =
        JournaledSums { sums: checkpoint.sums.into_iter().collect(), ..JournaledSums::default() };
    let records = entries.iter().flat_map(|found| &found.entry.records);
    forget_earlier_lives(&state.zones.pool, &mut journaled, records.clone());
    find_data_ends(&mut state, &journaled, records.clone())?;
    find_broken_ends(&mut state, &mut journaled, records)?;
    let named = replay(&mut state, &mut journaled, entries)?;
    // S3: all other zones are reset before they are written.
    let is_needed =
        |slot: &&PoolZone| slot.generation != 0 && !state.map.valid(slot.zone).is_zero();
    for slot in state.zones.pool.iter().filter(is_needed) {
        state.zones.summaries.resume(slot, &journaled);
    }
    load_buffer(&mut state)?;
    free_blank(&mut state, &named);
    Ok(Recovered { state, is_alone, stand_in })
}

/// The map of a checkpoint in about `bound` bytes.
fn layered(
    map: NewestMap,
    superblock: &Superblock,
    bound: u64,
) -> Result<LayeredMap, MappingError> {
    match map {
        NewestMap::Whole(runs) => {
            let nodes = runs.into_iter().map(MapRun::from);
            Ok(LayeredMap::new(Mapping::from_sorted(spec(superblock), nodes)?, bound))
        }
        NewestMap::Base(noted, newer) => {
            let base = noted.finish(
                superblock.id,
                &superblock.checkpoint,
                LayeredMap::cache_bytes_of(bound),
            );
            LayeredMap::over(base, newer, spec(superblock), bound)
        }
    }
}

fn check_geometry(superblock: &Superblock, geometry: &Geometry) -> Result<(), DriverError> {
    let found = (geometry.len(), zones_of(geometry)?.zone_len, geometry.zone_count());
    let expected = (superblock.drive_len, superblock.zone_len, superblock.zone_count);
    let shown = |(len, zone_len, count): (Blocks, Blocks, u32)| {
        format!("{count} zones of {zone_len}, {len} in all")
    };
    if found != expected {
        let (expected, got) = (shown(expected), shown(found));
        return Err(FormatFault::Geometry { expected, got }.into());
    }
    if superblock.journal_zone_count == 0 {
        let detail = "it says that there is no journal";
        return Err(FormatFault::damaged("superblock", detail).into());
    }
    Ok(())
}

/// Marks the journal zones that the drive has given up. Returns one that is offline without a note
/// in the checkpoint: it may hold the last entries.
fn find_lost_journal_zones(
    state: &mut DriverState,
    checkpoint: &Checkpoint,
) -> Result<Option<ZoneId>, DriverError> {
    let mut offline = None;
    for zone in &mut state.journal.zones {
        let is_known = checkpoint.generations.contains(&(zone.zone, 0));
        match state.disk.zone(zone.zone).map(|info| info.state) {
            Some(ZoneState::Offline) => {
                zone.used = JournalUse::Lost;
                offline = offline.or((!is_known).then_some(zone.zone));
            }
            Some(ZoneState::ReadOnly) => {
                zone.used = JournalUse::Lost;
                zone.end = Some(match is_known {
                    true => End { at: zone.range.start, is_exact: true },
                    false => end_of_read_only(&*state.disk, zone.range)
                        .map_err(during("reading the journal"))?,
                });
            }
            _ => {}
        }
    }
    Ok(offline)
}

/// Determines which zones can be written from their start.
fn free_blank(state: &mut DriverState, named: &BTreeSet<ZoneId>) {
    for slot in state.zones.pool.iter().copied().collect::<Vec<_>>() {
        let is_blank = slot.used == Use::Sealed && state.map.valid(slot.zone).is_zero();
        // A named zone may be empty because its data did not reach the platter. If this recovery is
        // interrupted, data that was written there meanwhile would be taken for the data that the
        // record names.
        if named.contains(&slot.zone) && (is_blank || slot.used == Use::Free) {
            state.zones.pool.set(slot.zone, Use::Recorded);
        } else if is_blank {
            state.zones.pool.clear(&*state.disk, slot.zone);
        }
    }
}

/// Determines the use of all other zones, and writes a checkpoint before anything else.
fn settle(state: &mut DriverState) -> Result<(), DriverError> {
    // Zones that are written in part take the next data.
    let disk = Arc::clone(&state.disk);
    let part = |slot: &&PoolZone| {
        slot.used == Use::Sealed && !slot.is_full() && can_be_continued(&*disk, slot)
    };
    let open: Vec<ZoneId> =
        state.zones.pool.iter().filter(part).map(|slot| slot.zone).take(2).collect();
    for (index, zone) in open.into_iter().enumerate() {
        state.zones.pool.set(zone, Use::Open);
        state.zones.open[index] = Some(zone);
    }
    let living = state.journal.zones.iter_mut().filter(|zone| zone.used != JournalUse::Lost);
    living.for_each(|zone| zone.used = JournalUse::Sealed);
    // A power cut after the superblock leaves them written in part, and a drive allows only a
    // limited number of those.
    let stored: Vec<ZoneId> = state.superblock.checkpoint.zones().collect();
    for zone in stored {
        state.zones.pool.finish(&*state.disk, zone).map_err(during("finishing a zone"))?;
    }
    state.base_now().map_err(during("writing a checkpoint"))?;
    state.zones.clear_all(Use::Recorded);
    // Only after the checkpoint: how far a zone is written decides which records count.
    let ended: Vec<ZoneId> = state.zones.pool.iter().filter(part).map(|slot| slot.zone).collect();
    state.zones.finish(&ended).map_err(during("finishing a zone"))?;
    finish_broken(state).map_err(during("finishing a zone"))?;
    for zone in &state.journal.zones {
        let found = state.disk.zone(zone.zone).map(|info| info.state);
        let (Some(ZoneState::Open { write_pointer, .. })
        | Some(ZoneState::Closed { write_pointer })) = found
        else {
            continue;
        };
        // A zone that was begun without an entry holds nothing. If it were finished, it would look
        // like a zone with a damaged entry.
        let is_blank = write_pointer - zone.range.start < ENTRY_LEN_MIN;
        let action = if is_blank { ZoneAction::Reset } else { ZoneAction::Finish };
        let ended = state.disk.manage_zone(zone.zone, action);
        ended.map_err(during("finishing a zone of the journal"))?;
    }
    Ok(())
}
