//! Formatting and opening: from the newest superblock over its checkpoint to the end of the journal.
//!
//! ```text
//!     superblock -> checkpoint: mapping, what the buffer held and where the journal has it
//!                -> entries from there on, zone by zone, up to the first that is torn
//!                -> the buffer's bytes, read back from the journal
//!                -> a checkpoint, before anything else is written
//! ```
//!
//! A record of an eviction or a move may have survived a power cut that its data did not: it counts only
//! if the zone is written that far, which by the rule of sequential zones says that the data are there,
//! or if a later record says that the zone was emptied, because then a flush came in between. Without
//! the checkpoint at the end, a second recovery could find the zone written further, by other data.

use super::buffer::JournalIndex;
use super::error::{DriverError, damaged, during};
use super::format::{
    Checkpoint, Entry, FORMAT_VERSION, Fault, Record, Stored, Superblock, decode_checkpoint,
    decode_header, peek_header,
};
use super::journal::{Journal, JournalUse};
use super::mapping::{MapRun, MapSpec, Mapping, PbaRange};
use super::options::DriverOptions;
use super::pool::{Pool, Use};
use super::state::{SUPERBLOCK_COUNT, Slot, State};
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Lba, Pba, ZoneAction, ZoneId,
    ZoneKind, ZoneSpec, ZoneState,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Zones for superblocks.
const SUPERBLOCK_ZONE_COUNT: u32 = 2;
/// How much is read at a time.
const READ_LEN: u64 = 1024;
/// Data zones that the smallest device has.
pub const POOL_ZONE_COUNT_MIN: u64 = 24;
/// Zones that are never the host's: the reserve, two being written, and some to clean.
pub const SPARE_ZONE_COUNT_MIN: u64 = 14;

fn zones_of(geometry: &Geometry) -> Result<&ZoneSpec, DriverError> {
    geometry.zones().ok_or(DriverError::WrongRule { got: geometry.rule().name() })
}

fn spec(superblock: &Superblock) -> MapSpec {
    MapSpec {
        len: superblock.len,
        zone_len: superblock.zone_len,
        zone_count: superblock.zone_count,
    }
}

/// The journal's zones: the first sequential ones that can be written.
fn journal_zones(disk: &dyn Disk, count: u32) -> Vec<(ZoneId, BlockRange)> {
    let zones = disk.report_zones().into_iter().skip(SUPERBLOCK_ZONE_COUNT as usize);
    let sequential = zones.filter(|info| info.kind == ZoneKind::SequentialRequired);
    let range =
        |info: imbrex_disk::ZoneInfo| (info.zone, BlockRange::new(info.start, info.capacity));
    sequential.map(range).take(count as usize).collect()
}

/// Makes an empty device.
pub(super) fn format(disk: Arc<dyn Disk>, options: &DriverOptions) -> Result<State, DriverError> {
    options.check()?;
    let geometry = *disk.geometry();
    let zones = *zones_of(&geometry)?;
    let all = journal_zones(&*disk, u32::MAX);
    let capacity = all.iter().map(|(_, range)| range.len.get()).min().unwrap_or(0);
    let wanted = match options.journal_zone_count {
        0 => (2 * options.buffer_len.get()).div_ceil(capacity.max(1)).max(4),
        count => u64::from(count).max(2),
    };
    let needed = wanted + POOL_ZONE_COUNT_MIN + u64::from(SUPERBLOCK_ZONE_COUNT);
    if (all.len() as u64) < wanted + POOL_ZONE_COUNT_MIN || capacity < 16 {
        return Err(DriverError::TooSmall { got: all.len() as u64, needed });
    }
    let journal_zone_count = wanted as u32;
    let data: Vec<u64> = all[wanted as usize..].iter().map(|(_, range)| range.len.get()).collect();
    let spare = (data.len() as u64 * options.spare_percent / 100).max(SPARE_ZONE_COUNT_MIN);
    let len = data[spare as usize..].iter().sum();
    for zone in disk.report_zones() {
        let is_blank =
            matches!(zone.state, ZoneState::Empty | ZoneState::NoPointer | ZoneState::Offline);
        if !is_blank {
            disk.manage_zone(zone.zone, ZoneAction::Reset).map_err(during("resetting a zone"))?;
        }
    }
    let superblock = Superblock {
        id: options.id,
        number: 0,
        drive_len: geometry.len(),
        zone_len: zones.zone_len,
        zone_count: geometry.zone_count(),
        journal_zone_count,
        len: Blocks::new(len),
        checkpoint: Stored::default(),
    };
    let map = Mapping::new(spec(&superblock)).map_err(damaged("geometry"))?;
    let copies = JournalIndex::new(spec(&superblock)).map_err(damaged("geometry"))?;
    let journal = Journal::new(journal_zones(&*disk, journal_zone_count));
    let pool = Pool::new(&*disk, behind(&journal));
    let slot = Slot { zone: 0, next: 0 };
    let mut state = State::new(disk, options, superblock, slot, map, copies, journal, pool);
    clear_conventional(&state)?;
    state.checkpoint_now().map_err(during("writing the first checkpoint"))?;
    Ok(state)
}

/// Superblocks of an earlier device in a zone that no reset clears.
fn clear_conventional(state: &State) -> Result<(), DriverError> {
    for zone in 0..SUPERBLOCK_ZONE_COUNT {
        let info = state.disk.zone(ZoneId(zone));
        if let Some(info) = info.filter(|info| info.kind == ZoneKind::Conventional) {
            let len = info.capacity.get().min(SUPERBLOCK_COUNT);
            let zeros = vec![0; Blocks::new(len).bytes() as usize];
            let cleared = state.disk.write(info.start, &zeros, imbrex_disk::Persist::Through);
            cleared.map_err(during("clearing old superblocks"))?;
        }
    }
    Ok(())
}

/// The number of the first zone behind the journal.
fn behind(journal: &Journal) -> u32 {
    journal.zones.last().map_or(0, |zone| zone.zone.0 + 1)
}

/// Opens a device, whatever a power cut left of it.
pub(super) fn open(disk: Arc<dyn Disk>, options: &DriverOptions) -> Result<State, DriverError> {
    options.check()?;
    zones_of(disk.geometry())?;
    let (superblock, slot) = newest_superblock(&*disk)?;
    check_geometry(&superblock, disk.geometry())?;
    let checkpoint = read_checkpoint(&*disk, &superblock)?;
    let node =
        |run: super::format::Run| MapRun { start: run.range.start, at: run.at, len: run.range.len };
    let mapped = checkpoint.mapped.iter().copied().map(node);
    let map = Mapping::from_sorted(spec(&superblock), mapped).map_err(damaged("checkpoint"))?;
    let mut copies = JournalIndex::new(spec(&superblock)).map_err(damaged("checkpoint"))?;
    for run in &checkpoint.copies {
        copies.record(run.range, run.at).map_err(damaged("checkpoint"))?;
    }
    let journal = Journal::new(journal_zones(&*disk, superblock.journal_zone_count));
    let pool = Pool::new(&*disk, behind(&journal));
    let mut state = State::new(disk, options, superblock, slot, map, copies, journal, pool);
    for zone in state.superblock.checkpoint.zones.clone() {
        state.pool.set(zone, Use::Checkpoint);
    }
    let entries = read_journal(&state, &checkpoint)?;
    state.seq = checkpoint.seq + entries.len() as u64;
    state.counters.replayed_entries = entries.len() as u64;
    let named = replay(&mut state, entries)?;
    load_buffer(&mut state)?;
    settle(&mut state, &named)?;
    Ok(state)
}

fn newest_superblock(disk: &dyn Disk) -> Result<(Superblock, Slot), DriverError> {
    let mut newest: Option<(Superblock, Slot)> = None;
    let mut other_version = None;
    for zone in 0..SUPERBLOCK_ZONE_COUNT {
        // One that the drive has given up leaves the other.
        let info = disk.zone(ZoneId(zone)).filter(|info| info.state != ZoneState::Offline);
        let Some(info) = info else { continue };
        let written =
            info.state.write_pointer(info.start).map_or(info.capacity, |at| at - info.start);
        let count = written.get().min(SUPERBLOCK_COUNT);
        let mut block = vec![0; BLOCK_LEN_BYTES];
        for next in 0..count {
            match disk.read(info.start + Blocks::new(next), &mut block) {
                Ok(()) => {}
                Err(DiskError::Medium { .. }) => continue,
                Err(error) => return Err(during("reading superblocks")(error)),
            }
            match Superblock::decode(&block) {
                Ok(found) => {
                    if newest.as_ref().is_none_or(|(newest, _)| newest.number < found.number) {
                        newest = Some((found, Slot { zone, next: next + 1 }));
                    }
                }
                Err(Fault::Version { got }) => other_version = Some(got),
                // In a conventional zone what follows was never written.
                Err(Fault::None) if info.kind == ZoneKind::Conventional => break,
                Err(Fault::None) => {}
            }
        }
        if let Some((_, slot)) = newest.as_mut().filter(|(_, slot)| slot.zone == zone)
            && info.kind == ZoneKind::SequentialRequired
        {
            // A torn superblock may lie behind it.
            slot.next = written.get();
        }
    }
    match (newest, other_version) {
        (Some(found), _) => Ok(found),
        (None, Some(got)) => Err(DriverError::Version { expected: FORMAT_VERSION, got }),
        (None, None) => Err(DriverError::NotFormatted),
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
        return Err(DriverError::Geometry { expected, got });
    }
    Ok(())
}

fn read_checkpoint(disk: &dyn Disk, superblock: &Superblock) -> Result<Checkpoint, DriverError> {
    let stored = &superblock.checkpoint;
    let damage = |detail: String| DriverError::Damaged { structure: "checkpoint", detail };
    let mut bytes = Vec::new();
    let mut left = Blocks::holding(stored.len_bytes).get();
    for &zone in &stored.zones {
        let geometry = disk.geometry();
        let range =
            geometry.zone_range(zone).ok_or_else(|| damage(format!("it lies in {zone}")))?;
        let capacity = geometry.zone_capacity(zone).unwrap_or_default().get();
        let (mut at, mut here) = (range.start, capacity.min(left));
        left -= here;
        while here > 0 {
            let count = here.min(READ_LEN);
            let from = bytes.len();
            bytes.resize(from + count as usize * BLOCK_LEN_BYTES, 0);
            match disk.read(at, &mut bytes[from..]) {
                Ok(()) => {}
                Err(error @ DiskError::ReadAbovePointer { .. }) => {
                    return Err(damage(error.to_string()));
                }
                Err(error) => return Err(during("reading the checkpoint")(error)),
            }
            at += Blocks::new(count);
            here -= count;
        }
    }
    let len = usize::try_from(stored.len_bytes).ok().filter(|&len| len <= bytes.len());
    let len = len.ok_or_else(|| damage(format!("{} bytes in its zones", bytes.len())))?;
    bytes.truncate(len);
    if crc32c::crc32c(&bytes) != stored.crc {
        return Err(damage("its checksum fails".to_owned()));
    }
    decode_checkpoint(superblock.id, &bytes).map_err(damage)
}

/// The entries behind a checkpoint, whole ones only.
fn read_journal(state: &State, checkpoint: &Checkpoint) -> Result<Vec<Entry>, DriverError> {
    let mut entries = Vec::new();
    let mut seq = checkpoint.seq;
    let mut at = checkpoint.next;
    loop {
        match read_entry(state, at, seq)? {
            Some(entry) => {
                seq += 1;
                at += entry.header_len + entry.data_len;
                entries.push(entry);
            }
            None => {
                // What follows a torn entry, or a zone's last one, begins a zone.
                let mut begun = None;
                for zone in &state.journal.zones {
                    let start = Pba::new(zone.range.start.get());
                    if start != at && read_entry(state, start, seq)?.is_some() {
                        begun = Some(start);
                    }
                }
                match begun {
                    Some(start) => at = start,
                    None => return Ok(entries),
                }
            }
        }
    }
}

/// The entry at `at` if it is number `seq` and whole.
fn read_entry(state: &State, at: Pba, seq: u64) -> Result<Option<Entry>, DriverError> {
    let inside = |zone: &&super::journal::JournalZone| zone.range.contains(Lba::new(at.get()));
    let Some(zone) = state.journal.zones.iter().find(inside) else { return Ok(None) };
    let written_to = match state.disk.zone(zone.zone).map(|info| info.state) {
        Some(ZoneState::Full | ZoneState::ReadOnly) => zone.range.end(),
        Some(other) => other.write_pointer(zone.range.start).unwrap_or(zone.range.start),
        None => return Ok(None),
    };
    let read = |at: Pba, len: Blocks| -> Result<Option<Vec<u8>>, DriverError> {
        if written_to.get() < at.get() + len.get() {
            return Ok(None);
        }
        if len.is_zero() {
            return Ok(Some(Vec::new()));
        }
        let mut bytes = vec![0; len.bytes() as usize];
        let read = state.disk.read(Lba::new(at.get()), &mut bytes);
        read.map_err(during("reading the journal")).map(|()| Some(bytes))
    };
    let Some(first) = read(at, Blocks::new(1))? else { return Ok(None) };
    let Some((header_len, found)) = peek_header(state.superblock.id, at, &first) else {
        return Ok(None);
    };
    if found != seq {
        return Ok(None);
    }
    let Some(header) = read(at, header_len)? else { return Ok(None) };
    let damage = |detail| DriverError::Damaged { structure: "journal", detail };
    let Some(entry) = decode_header(&header).map_err(damage)? else { return Ok(None) };
    let Some(data) = read(at + header_len, entry.data_len)? else { return Ok(None) };
    Ok((crc32c::crc32c(&data) == entry.data_crc).then_some(entry))
}

/// Does again what the journal says. The zones that records name which depend on how far they are
/// written come back: until the next checkpoint they must stay as they are, for the next recovery.
fn replay(state: &mut State, entries: Vec<Entry>) -> Result<BTreeSet<ZoneId>, DriverError> {
    let records: Vec<Record> = entries.into_iter().flat_map(|entry| entry.records).collect();
    let mut emptied: BTreeMap<ZoneId, usize> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        if let Record::Emptied { zone } = *record {
            emptied.insert(zone, index);
        }
    }
    let mut named = BTreeSet::new();
    for (index, record) in records.into_iter().enumerate() {
        let mut is_there = |at: Pba, len: Blocks| {
            let zone = state.pool.zone_of(at).map(|slot| slot.zone);
            let emptied = zone.and_then(|zone| emptied.get(&zone));
            let is_older = emptied.is_some_and(|&last| index < last);
            named.extend(zone.filter(|_| !is_older));
            is_older || state.pool.has(at, len)
        };
        match record {
            Record::Evicted { range, at } | Record::Moved { range, at }
                if !is_there(at, range.len) =>
            {
                state.counters.ignored_records += 1;
                // Its blocks may be another's by now, or nobody's.
                let _ = range;
            }
            Record::Evicted { range, at } => {
                state.copies.forget(range);
                take_over(state, range, at)?;
            }
            Record::Moved { range, at } => take_over(state, range, at)?,
            Record::Trimmed { range } => {
                state.copies.forget(range);
                state.map.unset(range);
            }
            Record::Data { range, at } => {
                state.copies.record(range, at).map_err(damaged("journal"))?;
            }
            Record::Emptied { .. } => {}
        }
    }
    Ok(named)
}

/// Maps `range`. Blocks of others that are mapped there have another place by a later record, which is
/// to come: a checkpoint may be younger than the records that follow it.
fn take_over(state: &mut State, range: BlockRange, at: Pba) -> Result<(), DriverError> {
    let mut place = PbaRange { start: at, len: range.len };
    while let Some(owner) = state.map.owner(place) {
        let (from, to) = (owner.at.max(place.start), owner.place().end().min(place.end()));
        let start = owner.start + (from - owner.at);
        if start != range.start + (from - at) {
            state.map.unset(BlockRange::new(start, to - from));
        }
        place = PbaRange { start: to, len: place.end() - to };
    }
    state.map.set(range, at).map(drop).map_err(damaged("journal"))
}

/// Reads back what the write buffer held.
fn load_buffer(state: &mut State) -> Result<(), DriverError> {
    let everything = BlockRange::new(Lba::new(0), state.superblock.len);
    let copies: Vec<_> = state.copies.copies_of(everything).collect();
    for (range, place) in copies {
        let mut done = 0;
        while done < range.len.get() {
            let count = (range.len.get() - done).min(READ_LEN);
            let mut bytes = vec![0; count as usize * BLOCK_LEN_BYTES];
            let from = Lba::new(place.start.get() + done);
            state.disk.read(from, &mut bytes).map_err(during("reading the write buffer back"))?;
            state.buffer.write(range.start + Blocks::new(done), &bytes);
            done += count;
        }
        state.regions.insert(range);
    }
    Ok(())
}

/// Says what each zone is now, and writes that down before anything else is written.
fn settle(state: &mut State, named: &BTreeSet<ZoneId>) -> Result<(), DriverError> {
    let is_blank = |slot: &&super::pool::PoolZone| {
        slot.used == Use::Sealed && state.map.valid(slot.zone).is_zero()
    };
    let blank: Vec<ZoneId> = state.pool.iter().filter(is_blank).map(|slot| slot.zone).collect();
    for zone in blank {
        let waits = named.contains(&zone);
        state.pool.set(zone, if waits { Use::Recorded } else { Use::Resettable });
    }
    // Zones that are written in part take what comes next.
    let part =
        |slot: &&super::pool::PoolZone| slot.used == Use::Sealed && slot.written < slot.range.len;
    let open: Vec<ZoneId> = state.pool.iter().filter(part).map(|slot| slot.zone).take(2).collect();
    for (index, zone) in open.into_iter().enumerate() {
        state.pool.set(zone, Use::Open);
        state.open[index] = Some(zone);
    }
    for zone in &mut state.journal.zones {
        zone.used = JournalUse::Sealed;
    }
    state.checkpoint_now().map_err(during("writing a checkpoint"))?;
    state.pool.promote(Use::Recorded, Use::Resettable);
    // Not before the checkpoint: how far a zone is written tells which records count.
    let ended: Vec<ZoneId> = state.pool.iter().filter(part).map(|slot| slot.zone).collect();
    for zone in ended {
        let finished = state.pool.finish(&*state.disk, zone);
        finished.map_err(during("finishing a zone"))?;
    }
    for zone in &state.journal.zones {
        let found = state.disk.zone(zone.zone).map(|info| info.state);
        if matches!(found, Some(ZoneState::Open { .. } | ZoneState::Closed { .. })) {
            let finished = state.disk.manage_zone(zone.zone, ZoneAction::Finish);
            finished.map_err(during("finishing a zone of the journal"))?;
        }
    }
    Ok(())
}
