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
use super::journal::{Journal, JournalUse, JournalZone};
use super::mapping::{MapRun, MapSpec, Mapping, PbaRange};
use super::options::DriverOptions;
use super::pool::{Pool, PoolZone, Use, data_len};
use super::state::{SUPERBLOCK_COUNT, Slots, State};
use super::summaries::Told;
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
    let is_dead = |(zone, _): &&(ZoneId, BlockRange)| {
        let found = disk.zone(*zone).map(|info| info.state);
        matches!(found, Some(ZoneState::Offline | ZoneState::ReadOnly))
    };
    // The journal has the first zones, whatever their state.
    let wanted = (wanted..).find(|&count| {
        let first = &all[..all.len().min(count as usize)];
        all.len() < count as usize || wanted <= count - first.iter().filter(is_dead).count() as u64
    });
    let wanted = wanted.unwrap_or(all.len() as u64 + 1);
    let needed = wanted + POOL_ZONE_COUNT_MIN + u64::from(SUPERBLOCK_ZONE_COUNT);
    if (all.len() as u64) < wanted + POOL_ZONE_COUNT_MIN || capacity < 16 {
        return Err(DriverError::TooSmall { got: all.len() as u64, needed });
    }
    let journal_zone_count = wanted as u32;
    let data = all[wanted as usize..].iter().map(|(_, range)| data_len(range.len).get());
    let data: Vec<u64> = data.collect();
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
    let slots = [Some(0), Some(0)];
    let mut state = State::new(disk, options, superblock, slots, map, copies, journal, pool);
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
    // After a kill the drive may tell of what a power cut would still take back.
    disk.flush().map_err(during("flushing the drive"))?;
    let (superblock, slots) = newest_superblock(&*disk)?;
    check_geometry(&superblock, disk.geometry())?;
    let checkpoint = read_checkpoint(&*disk, &superblock)?;
    let node =
        |run: super::format::Run| MapRun { start: run.range.start, at: run.at, len: run.range.len };
    let mapped = checkpoint.mapped.iter().copied().map(node);
    let map = Mapping::from_sorted(spec(&superblock), mapped).map_err(damaged("checkpoint"))?;
    let mut copies = JournalIndex::new(spec(&superblock)).map_err(damaged("checkpoint"))?;
    let mut journal = Journal::new(journal_zones(&*disk, superblock.journal_zone_count));
    let mut crcs = checkpoint.copy_crcs.iter().copied();
    for run in &checkpoint.copies {
        copies.record(run.range, run.at).map_err(damaged("checkpoint"))?;
        journal.note_crcs(run.at, crcs.by_ref().take(run.range.len.get() as usize));
    }
    let pool = Pool::new(&*disk, behind(&journal));
    let mut state = State::new(disk, options, superblock, slots, map, copies, journal, pool);
    for zone in state.superblock.checkpoint.zones.clone() {
        state.pool.set(zone, Use::Checkpoint);
    }
    for &range in &checkpoint.lost {
        state.lost.insert(range);
    }
    for &(zone, generation) in &checkpoint.generations {
        state.pool.set_generation(zone, generation);
    }
    check_journal_zones(&mut state, &checkpoint)?;
    let entries = read_journal(&mut state, &checkpoint)?;
    // One more: a torn entry has the next number, and its zone may look written to the end later on.
    state.seq = checkpoint.seq + entries.len() as u64 + 1;
    state.counters.replayed_entries = entries.len() as u64;
    let mut told = Told { sums: checkpoint.sums.into_iter().collect() };
    let named = replay(&mut state, &mut told, entries)?;
    for slot in state.pool.iter().filter(|slot| slot.generation != 0) {
        let info = state.disk.zone(slot.zone);
        let is_read_only = info.is_some_and(|info| info.state == ZoneState::ReadOnly);
        state.summaries.resume(slot, is_read_only, &told);
    }
    load_buffer(&mut state)?;
    settle(&mut state, &named)?;
    Ok(state)
}

/// What lies where a superblock may.
#[derive(PartialEq, Eq)]
enum Found {
    Superblock(Box<Superblock>),
    Version(u32),
    Nothing,
    /// Something was written there, and it is none.
    Else,
}

fn newest_superblock(disk: &dyn Disk) -> Result<(Superblock, Slots), DriverError> {
    let zones = [superblocks_in(disk, 0)?, superblocks_in(disk, 1)?];
    let all = || zones.iter().flatten().flatten();
    let found = all().filter_map(|found| match found {
        Found::Superblock(superblock) => Some(superblock),
        _ => None,
    });
    let Some(newest) = found.max_by_key(|superblock| superblock.number) else {
        let version = all().find_map(|found| match found {
            Found::Version(got) => Some(*got),
            _ => None,
        });
        return Err(match version {
            Some(got) => DriverError::Version { expected: FORMAT_VERSION, got },
            None if zones.contains(&None) => DriverError::Damaged {
                structure: "superblock",
                detail: "zone 0 or 1 is offline, and the other has none".to_owned(),
            },
            None => DriverError::NotFormatted,
        });
    };
    // A block is written or it is not: what follows the newest one and is none was a newer one. It counted if
    // it was written to both.
    let is_followed = |slots: &Option<Vec<Found>>| {
        let Some(slots) = slots else { return true };
        let mut behind = slots.iter().skip_while(|found| number_of(found) != Some(newest.number));
        behind.next().is_some() && behind.next() == Some(&Found::Else)
    };
    if zones.iter().all(is_followed) {
        let detail = format!("what follows number {} is none", newest.number);
        return Err(DriverError::Damaged { structure: "superblock", detail });
    }
    let next = |zone: u32| {
        let slots = zones[zone as usize].as_ref()?;
        let last = (0u64..).zip(slots).filter(|(_, found)| number_of(found).is_some());
        let last = last.max_by_key(|(_, found)| number_of(found)).map_or(0, |(slot, _)| slot + 1);
        let is_sequential = disk.zone(ZoneId(zone))?.kind == ZoneKind::SequentialRequired;
        Some(if is_sequential { slots.len() as u64 } else { last })
    };
    Ok(((**newest).clone(), [next(0), next(1)]))
}

fn number_of(found: &Found) -> Option<u64> {
    match found {
        Found::Superblock(superblock) => Some(superblock.number),
        _ => None,
    }
}

/// What is in the slots of a superblock zone, as far as they are written.
fn superblocks_in(disk: &dyn Disk, zone: u32) -> Result<Option<Vec<Found>>, DriverError> {
    // One that the drive has given up leaves the other.
    let info = disk.zone(ZoneId(zone)).filter(|info| info.state != ZoneState::Offline);
    let Some(info) = info else { return Ok(None) };
    let written = info.state.write_pointer(info.start).map_or(info.capacity, |at| at - info.start);
    let count = written.get().min(SUPERBLOCK_COUNT);
    let mut bytes = vec![0; count as usize * BLOCK_LEN_BYTES];
    let failed = during("reading superblocks");
    let is_read = match count {
        0 => true,
        _ => match disk.read(info.start, &mut bytes) {
            Ok(()) => true,
            Err(DiskError::Medium { .. } | DiskError::ReadAbovePointer { .. }) => false,
            Err(error) => return Err(failed(error)),
        },
    };
    let mut found = Vec::new();
    for (next, block) in (0..).zip(bytes.chunks_exact_mut(BLOCK_LEN_BYTES)) {
        if !is_read {
            match disk.read(info.start + Blocks::new(next), block) {
                Ok(()) => {}
                Err(DiskError::Medium { .. }) => block.fill(0xFF),
                // One that was given up has no pointer, but an end all the same.
                Err(DiskError::ReadAbovePointer { .. }) => break,
                Err(error) => return Err(failed(error)),
            }
        }
        found.push(match Superblock::decode(block) {
            Ok(superblock) => Found::Superblock(Box::new(superblock)),
            Err(Fault::Version { got }) => Found::Version(got),
            Err(Fault::None) if block.iter().all(|&byte| byte == 0) => Found::Nothing,
            Err(Fault::None) => Found::Else,
        });
    }
    Ok(Some(found))
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

/// Marks the zones of the journal that the drive has given up.
///
/// # Errors
/// One is offline that the checkpoint counts on: it may hold what was written last.
fn check_journal_zones(state: &mut State, checkpoint: &Checkpoint) -> Result<(), DriverError> {
    for zone in &mut state.journal.zones {
        let found = state.disk.zone(zone.zone).map(|info| info.state);
        if matches!(found, Some(ZoneState::Offline | ZoneState::ReadOnly)) {
            zone.used = JournalUse::Lost;
        }
        let is_known = checkpoint.generations.contains(&(zone.zone, 0));
        if found == Some(ZoneState::Offline) && !is_known {
            return Err(journal_damage(format!("{} is offline", zone.zone)));
        }
    }
    Ok(())
}

/// An entry, and what of its data the drive lost.
struct Replayed {
    entry: Entry,
    lost: Vec<BlockRange>,
}

fn journal_damage(detail: String) -> DriverError {
    DriverError::Damaged { structure: "journal", detail }
}

/// The entries behind a checkpoint, whole ones only.
fn read_journal(state: &mut State, checkpoint: &Checkpoint) -> Result<Vec<Replayed>, DriverError> {
    let mut entries = Vec::new();
    let mut seq = checkpoint.seq;
    let mut at = checkpoint.next;
    loop {
        if let Some(found) = read_entry(state, at, seq)? {
            seq += 1;
            let zone = journal_zone(state, at).map(|zone| zone.range);
            at += found.entry.header_len + found.entry.data_len;
            if found.entry.records.is_empty() && found.lost.is_empty() {
                // It ended its zone.
                at = zone.map_or(at, |range| Pba::new(range.end().get()));
            }
            entries.push(found);
            continue;
        }
        // What follows a torn entry, or a zone's last one, begins a zone.
        let starts = state.journal.zones.iter().map(|zone| Pba::new(zone.range.start.get()));
        let (mut begun, mut later) = (None, None);
        for start in starts.filter(|&start| start != at) {
            match read_header(state, start)? {
                Header::Whole(entry) if entry.seq == seq => begun = Some(start),
                Header::Whole(entry) if seq < entry.seq => later = Some(entry.seq),
                Header::Whole(_) | Header::Unwritten => {}
                Header::Else => {
                    let at = start.get();
                    return Err(journal_damage(format!("no entry begins its zone at block {at}")));
                }
            }
        }
        match (begun, later) {
            (Some(start), _) => at = start,
            (None, None) => return Ok(entries),
            (None, Some(later)) => {
                return Err(journal_damage(format!("entry {later} is there, {seq} is not")));
            }
        }
    }
}

/// What lies where an entry may begin.
enum Header {
    Whole(Entry),
    /// Nothing was written there, or not all of it. What is behind the end of a zone that was finished early reads
    /// as one byte again and again.
    Unwritten,
    /// Something else, or a header whose checksum fails, or one that cannot be read.
    Else,
}

fn journal_zone(state: &State, at: Pba) -> Option<&JournalZone> {
    state.journal.zones.iter().find(|zone| zone.range.contains(Lba::new(at.get())))
}

/// How far the zone of a block of the journal is written, by the drive; none outside of the journal.
fn written_to(state: &State, at: Pba) -> Option<Lba> {
    let zone = journal_zone(state, at)?;
    match state.disk.zone(zone.zone)?.state {
        ZoneState::Full => Some(zone.range.end()),
        ZoneState::ReadOnly => Some(end_of_read_only(state, zone)),
        other => Some(other.write_pointer(zone.range.start).unwrap_or(zone.range.start)),
    }
}

/// A zone that is read-only has no pointer: it ends where a drive refuses to read, or else counts as full.
fn end_of_read_only(state: &State, zone: &JournalZone) -> Lba {
    let mut block = vec![0; BLOCK_LEN_BYTES];
    let (mut low, mut high) = (0, zone.range.len.get());
    while low < high {
        let middle = low + (high - low) / 2;
        match state.disk.read(zone.range.start + Blocks::new(middle), &mut block) {
            Err(DiskError::ReadAbovePointer { .. }) => high = middle,
            _ => low = middle + 1,
        }
    }
    zone.range.start + Blocks::new(low)
}

/// Reads blocks of the journal: `Ok(None)` where the medium fails.
fn read_blocks(state: &State, at: Pba, len: Blocks) -> Result<Option<Vec<u8>>, DriverError> {
    let mut bytes = vec![0; len.bytes() as usize];
    if len.is_zero() {
        return Ok(Some(bytes));
    }
    match state.disk.read(Lba::new(at.get()), &mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(DiskError::Medium { .. } | DiskError::Offline { .. }) => Ok(None),
        Err(error) => Err(during("reading the journal")(error)),
    }
}

fn read_header(state: &State, at: Pba) -> Result<Header, DriverError> {
    let Some(written_to) = written_to(state, at) else { return Ok(Header::Unwritten) };
    if written_to.get() <= at.get() {
        return Ok(Header::Unwritten);
    }
    let Some(first) = read_blocks(state, at, Blocks::new(1))? else { return Ok(Header::Else) };
    let Some(len) = peek_header(state.superblock.id, at, &first) else { return Ok(Header::Else) };
    if written_to.get() < at.get() + len.get() {
        return Ok(Header::Unwritten);
    }
    let Some(header) = read_blocks(state, at, len)? else { return Ok(Header::Else) };
    Ok(decode_header(&header).map_err(journal_damage)?.map_or(Header::Else, Header::Whole))
}

/// The entry at `at` if it is number `seq` and whole.
///
/// A power cut leaves a prefix of what was written to a zone. So what lies below the pointer and is not as it
/// was written is damage.
fn read_entry(state: &mut State, at: Pba, seq: u64) -> Result<Option<Replayed>, DriverError> {
    let mut entry = match read_header(state, at)? {
        Header::Whole(entry) if entry.seq == seq => entry,
        Header::Unwritten => return Ok(None),
        // Another life of the zone.
        Header::Whole(_) if begins_zone(state, at) => return Ok(None),
        Header::Whole(_) | Header::Else => {
            return Err(journal_damage(format!("entry {seq} should begin at block {}", at.get())));
        }
    };
    let start = at + entry.header_len;
    if written_to(state, at).is_none_or(|end| end.get() < start.get() + entry.data_len.get()) {
        return Ok(None);
    }
    let data = read_blocks(state, start, entry.data_len)?;
    let mut lost = Vec::new();
    entry.records.retain(|record| {
        let Record::Data { range, at, crc } = *record else { return true };
        let bytes = data.as_ref().and_then(|data| {
            let from = Blocks::new(at.get().checked_sub(start.get())?).bytes() as usize;
            data.get(from..from.checked_add(range.len.bytes() as usize)?)
        });
        let whole = bytes.filter(|bytes| crc32c::crc32c(bytes) == crc);
        whole.inspect(|bytes| state.journal.note(at, bytes)).is_some() || {
            lost.push(range);
            false
        }
    });
    Ok(Some(Replayed { entry, lost }))
}

fn begins_zone(state: &State, at: Pba) -> bool {
    journal_zone(state, at).is_some_and(|zone| zone.range.start.get() == at.get())
}

/// The host's newest content of `range` is gone.
fn lose(state: &mut State, range: BlockRange) {
    state.copies.forget(range);
    state.lost.insert(range);
}

/// Does again what the journal says. The zones that records name which depend on how far they are
/// written come back: until the next checkpoint they must stay as they are, for the next recovery.
fn replay(
    state: &mut State,
    told: &mut Told,
    entries: Vec<Replayed>,
) -> Result<BTreeSet<ZoneId>, DriverError> {
    let mut emptied: BTreeMap<ZoneId, (usize, usize)> = BTreeMap::new();
    for (number, found) in entries.iter().enumerate() {
        for (index, record) in found.entry.records.iter().enumerate() {
            if let Record::Emptied { zone } = *record {
                emptied.insert(zone, (number, index));
            }
        }
    }
    let mut named = BTreeSet::new();
    for (number, found) in entries.into_iter().enumerate() {
        for (index, record) in found.entry.records.into_iter().enumerate() {
            let mut is_there = |told: &Told, at: Pba, len: Blocks| {
                let slot = state.pool.zone_of(at);
                let last = slot.and_then(|slot| emptied.get(&slot.zone));
                let is_older = last.is_some_and(|&last| (number, index) < last);
                named.extend(slot.map(|slot| slot.zone).filter(|_| !is_older));
                // What an offline zone held is gone: to ignore the record would bring back older content.
                is_older
                    || slot.is_some_and(|slot| slot.used == Use::Lost || told.has(slot, at, len))
            };
            match record {
                // Its blocks may be another's by now, or nobody's.
                Record::Evicted { range, at } | Record::Moved { range, at }
                    if !is_there(told, at, range.len) =>
                {
                    state.counters.ignored_records += 1;
                }
                Record::Evicted { range, at } => {
                    state.copies.forget(range);
                    state.lost.remove(range);
                    take_over(state, range, at)?;
                }
                Record::Moved { range, at } => take_over(state, range, at)?,
                Record::Trimmed { range } => {
                    state.copies.forget(range);
                    state.lost.remove(range);
                    state.map.unset(range);
                }
                Record::Data { range, at, .. } => {
                    state.lost.remove(range);
                    state.copies.record(range, at).map_err(damaged("journal"))?;
                }
                Record::Emptied { zone } => {
                    state.pool.get(zone).into_iter().for_each(|slot| told.forget(slot));
                }
                Record::Opened { zone, generation } => state.pool.set_generation(zone, generation),
                Record::Sum { at, sum } => drop(told.sums.insert(at, sum)),
            }
        }
        found.lost.into_iter().for_each(|range| lose(state, range));
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
        for from in (0..range.len.get()).step_by(READ_LEN as usize) {
            let len = Blocks::new((range.len.get() - from).min(READ_LEN));
            let part = BlockRange::new(range.start + Blocks::new(from), len);
            load_part(state, part, place.start + Blocks::new(from))?;
        }
    }
    Ok(())
}

/// Reads back the copies of `range` from `at`: together, or one by one if the medium fails.
fn load_part(state: &mut State, range: BlockRange, at: Pba) -> Result<(), DriverError> {
    let Some(bytes) = read_blocks(state, at, range.len)? else {
        if range.len == Blocks::new(1) {
            lose(state, range);
            return Ok(());
        }
        for index in (0..range.len.get()).map(Blocks::new) {
            load_part(state, BlockRange::new(range.start + index, Blocks::new(1)), at + index)?;
        }
        return Ok(());
    };
    for (index, block) in (0..).map(Blocks::new).zip(bytes.chunks_exact(BLOCK_LEN_BYTES)) {
        let lba = BlockRange::new(range.start + index, Blocks::new(1));
        if crc32c::crc32c(block) == state.journal.crc(at + index) {
            state.buffer.write(lba.start, block);
            state.regions.insert(lba);
        } else {
            lose(state, lba);
        }
    }
    Ok(())
}

/// Says what each zone is now, and writes that down before anything else is written.
fn settle(state: &mut State, named: &BTreeSet<ZoneId>) -> Result<(), DriverError> {
    for slot in state.pool.iter().copied().collect::<Vec<_>>() {
        let is_blank = slot.used == Use::Sealed && state.map.valid(slot.zone).is_zero();
        // One that is named may be empty: its data did not reach the platter, and what is written there now would
        // be taken for them if this recovery is cut short.
        if named.contains(&slot.zone) && (is_blank || slot.used == Use::Free) {
            state.pool.set(slot.zone, Use::Recorded);
        } else if is_blank {
            state.pool.set(slot.zone, Use::Resettable);
        }
    }
    // Zones that are written in part take what comes next.
    let part = |slot: &&PoolZone| slot.used == Use::Sealed && !slot.is_full();
    let open: Vec<ZoneId> = state.pool.iter().filter(part).map(|slot| slot.zone).take(2).collect();
    for (index, zone) in open.into_iter().enumerate() {
        state.pool.set(zone, Use::Open);
        state.open[index] = Some(zone);
    }
    let living = state.journal.zones.iter_mut().filter(|zone| zone.used != JournalUse::Lost);
    living.for_each(|zone| zone.used = JournalUse::Sealed);
    state.checkpoint_now().map_err(during("writing a checkpoint"))?;
    state.pool.promote(Use::Recorded, Use::Resettable);
    // Not before the checkpoint: how far a zone is written tells which records count.
    let ended: Vec<ZoneId> = state.pool.iter().filter(part).map(|slot| slot.zone).collect();
    for zone in ended {
        state.finish_data(zone).map_err(during("finishing a zone"))?;
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
