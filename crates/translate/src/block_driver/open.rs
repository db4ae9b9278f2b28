//! Opening: from the newest superblock over its checkpoint to the end of the journal.
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

use super::broken::{Counted, can_be_continued, counted, find_broken_ends, finish_broken};
use super::buffer::JournalIndex;
use super::error::{DriverError, damaged, during};
use super::format::{
    Checkpoint, ENTRY_LEN_MIN, Entry, HEADER_LEN_MAX, Record, Superblock, checkpoint_len,
    decode_checkpoint, decode_header_block, decode_part,
};
use super::journal::{End, Journal, JournalUse, JournalZone};
use super::mapping::{MapRun, MapSpec, Mapping, PbaRange};
use super::options::DriverOptions;
use super::pool::{Pool, PoolZone, Use};
use super::read_only::{end_of_read_only, find_data_ends};
use super::state::State;
use super::summaries::Told;
use super::superblocks::{Newest, SUPERBLOCK_ZONE_COUNT, newest};
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Lba, Pba, ZoneAction, ZoneId,
    ZoneKind, ZoneSpec, ZoneState,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How much is read at a time.
pub(super) const READ_LEN: u64 = 1024;

pub(super) fn zones_of(geometry: &Geometry) -> Result<&ZoneSpec, DriverError> {
    geometry.zones().ok_or(DriverError::WrongRule { got: geometry.rule().name() })
}

pub(super) fn spec(superblock: &Superblock) -> MapSpec {
    MapSpec {
        len: superblock.len,
        zone_len: superblock.zone_len,
        zone_count: superblock.zone_count,
    }
}

/// Whether the drive writes a zone no more.
pub(super) fn is_given_up(disk: &dyn Disk, zone: ZoneId) -> bool {
    let found = disk.zone(zone).map(|info| info.state);
    matches!(found, Some(ZoneState::Offline | ZoneState::ReadOnly))
}

/// The journal's zones: the first sequential ones, whatever their state.
pub(super) fn journal_zones(disk: &dyn Disk, count: u32) -> Vec<(ZoneId, BlockRange)> {
    let zones = disk.report_zones().into_iter().skip(SUPERBLOCK_ZONE_COUNT as usize);
    let sequential = zones.filter(|info| info.kind == ZoneKind::SequentialRequired);
    let range =
        |info: imbrex_disk::ZoneInfo| (info.zone, BlockRange::new(info.start, info.capacity));
    sequential.map(range).take(count as usize).collect()
}

/// The number of the first zone behind the journal.
pub(super) fn behind(journal: &Journal) -> u32 {
    journal.zones.last().map_or(0, |zone| zone.zone.0 + 1)
}

/// Opens a device, whatever a power cut left of it.
pub(super) fn open(disk: Arc<dyn Disk>, options: &DriverOptions) -> Result<State, DriverError> {
    options.check()?;
    zones_of(disk.geometry())?;
    // After a kill the drive may tell of what a power cut would still take back.
    disk.flush().map_err(during("flushing the drive"))?;
    let Newest { superblock, slots, are_broken, is_alone, stand_in, damaged_count } =
        newest(&*disk)?;
    check_geometry(&superblock, disk.geometry())?;
    let (checkpoint, second_count) = read_checkpoint(&*disk, &superblock)?;
    let node =
        |run: super::format::Run| MapRun { start: run.range.start, at: run.at, len: run.range.len };
    let mapped = checkpoint.mapped.iter().copied().map(node);
    let map = Mapping::from_sorted(spec(&superblock), mapped).map_err(damaged("checkpoint"))?;
    let mut copies = JournalIndex::new(spec(&superblock)).map_err(damaged("checkpoint"))?;
    let zones = journal_zones(&*disk, superblock.journal_zone_count);
    if zones.len() != superblock.journal_zone_count as usize {
        let detail = format!("the drive has {} zones for a journal", zones.len());
        return Err(DriverError::Damaged { structure: "superblock", detail });
    }
    let mut journal = Journal::new(zones);
    let mut crcs = checkpoint.copy_crcs.iter().copied();
    for run in &checkpoint.copies {
        copies.record(run.range, run.at).map_err(damaged("checkpoint"))?;
        journal.note_crcs(run.at, crcs.by_ref().take(run.range.len.get() as usize));
    }
    let pool = Pool::new(&*disk, behind(&journal));
    let mut state = State::new(disk, options, superblock, slots, map, copies, journal, pool);
    state.are_slots_broken = are_broken;
    state.counters.second_copies = damaged_count + second_count;
    for zone in state.superblock.checkpoint.zones() {
        state.pool.set(zone, Use::Checkpoint);
    }
    for &range in &checkpoint.lost {
        state.lost.insert(range);
    }
    for &(zone, generation) in &checkpoint.generations {
        state.pool.set_generation(zone, generation);
    }
    let offline = find_lost_journal_zones(&mut state, &checkpoint)?;
    let entries = read_journal(&mut state, &checkpoint, offline)?;
    // One more: a torn entry has the next number, and its zone may look written to the end later on.
    state.seq = checkpoint.seq + entries.len() as u64 + 1;
    state.counters.replayed_entries = entries.len() as u64;
    let mut told = Told { sums: checkpoint.sums.into_iter().collect(), ..Told::default() };
    let records = entries.iter().flat_map(|found| &found.entry.records);
    forget_earlier_lives(&state.pool, &mut told, records.clone());
    find_data_ends(&mut state, &told, records.clone())?;
    find_broken_ends(&mut state, &mut told, records)?;
    let named = replay(&mut state, &mut told, entries)?;
    // S3: others are reset before they are written on.
    let is_needed =
        |slot: &&PoolZone| slot.generation != 0 && !state.map.valid(slot.zone).is_zero();
    for slot in state.pool.iter().filter(is_needed) {
        state.summaries.resume(slot, &told);
    }
    load_buffer(&mut state)?;
    free_blank(&mut state, &named);
    if is_alone {
        // K7: what the one before it tells of is not touched before, nor is a stand-in for its zone.
        let stand_in = stand_in.and_then(|zone| state.pool.get(zone).copied());
        let stand_in = stand_in.filter(|slot| state.map.valid(slot.zone).is_zero());
        stand_in.into_iter().for_each(|slot| state.pool.set(slot.zone, Use::Checkpoint));
        state.superblock.number += 1;
        state.write_superblock().map_err(during("writing the superblock again"))?;
        stand_in.into_iter().for_each(|slot| state.pool.set(slot.zone, slot.used));
    }
    settle(&mut state)?;
    Ok(state)
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
    if superblock.journal_zone_count == 0 {
        let detail = "it says that there is no journal".to_owned();
        return Err(DriverError::Damaged { structure: "superblock", detail });
    }
    Ok(())
}

/// The newest checkpoint, and how many of its blocks came from its second copy.
fn read_checkpoint(
    disk: &dyn Disk,
    superblock: &Superblock,
) -> Result<(Checkpoint, u64), DriverError> {
    let stored = &superblock.checkpoint;
    let damage = |detail: String| DriverError::Damaged { structure: "checkpoint", detail };
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
            let lost = || damage(format!("both copies of its block {index} are"));
            bytes.extend_from_slice(part.ok_or_else(lost)?);
        }
        next += count;
    }
    bytes.truncate(stored.len_bytes as usize);
    let checkpoint = decode_checkpoint(superblock.id, &bytes).map_err(damage)?;
    Ok((checkpoint, second_count))
}

/// Where block `index` of a copy in `zones` lies, and what of the copy may be behind it in the same zone.
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

/// Reads `count` blocks of a copy; zeros, which are no part of any checkpoint, where the drive fails.
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
        // Its zone is gone, or was written again.
        Err(DiskError::Offline { .. } | DiskError::ReadAbovePointer { .. }) => {
            bytes.fill(0);
            Ok(bytes)
        }
        Err(error) => Err(during("reading the checkpoint")(error)),
    }
}

/// Marks the zones of the journal that the drive has given up. One is returned that is offline without a word of it in
/// the checkpoint: it may hold what was written last.
fn find_lost_journal_zones(
    state: &mut State,
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

/// An entry, and what of its data the drive lost.
struct Replayed {
    entry: Entry,
    lost: Vec<BlockRange>,
    /// The host's block that lies at the end of all that is written of the zone, and cannot be read: if no entry
    /// follows, it was being written when the power went, and no flush returned behind it.
    broken: Option<BlockRange>,
}

fn journal_damage(detail: String) -> DriverError {
    DriverError::Damaged { structure: "journal", detail }
}

/// The entries behind a checkpoint, whole ones only.
///
/// # Errors
/// The drive; damage; or more of them may be in `offline`.
fn read_journal(
    state: &mut State,
    checkpoint: &Checkpoint,
    offline: Option<ZoneId>,
) -> Result<Vec<Replayed>, DriverError> {
    let mut entries: Vec<Replayed> = Vec::new();
    let mut seq = checkpoint.seq;
    let mut at = checkpoint.next;
    let mut has_begun = false;
    loop {
        if let Some(found) = read_entry(state, at, seq)? {
            // In another zone an entry follows behind a flush.
            if let Some(before) = entries.last_mut() {
                before.lost.extend(before.broken.take());
            }
            seq += 1;
            has_begun = false;
            let zone = journal_zone(state, at).map(|zone| zone.range);
            at += found.entry.data_offset() + found.entry.data_len;
            let is_nothing_lost = found.lost.is_empty() && found.broken.is_none();
            if found.entry.records.is_empty() && is_nothing_lost {
                // It ended its zone.
                at = zone.map_or(at, |range| Pba::new(range.end().get()));
            }
            entries.push(found);
            continue;
        }
        // What follows a torn entry, or a zone's last one, begins a zone.
        let starts = state.journal.zones.iter().map(|zone| Pba::new(zone.range.start.get()));
        let is_end = ends_inside(state, at);
        let (mut begun, mut later) = (None, None);
        for start in starts.filter(|&start| start != at) {
            match read_header(state, start)? {
                Header::Whole(entry, _) if entry.seq == seq => begun = Some(start),
                Header::Whole(entry, _) if seq < entry.seq => later = Some(entry.seq),
                Header::Whole(..) | Header::Unwritten => {}
                // Torn in an earlier life; the zone was finished then, and has fill behind it.
                Header::Else(Some(old)) if old < seq => {}
                // The same, and what there was of it is damaged.
                Header::Else(None) if is_end => {}
                Header::Else(_) => {
                    let at = start.get();
                    return Err(journal_damage(format!("no entry begins its zone at block {at}")));
                }
            }
        }
        if let Some(zone) = offline.filter(|_| begun.is_none() && !is_end) {
            return Err(journal_damage(format!("{zone} is offline")));
        }
        match (begun, later) {
            (Some(_), _) if has_begun => {
                return Err(journal_damage(format!("two zones begin with entry {seq}")));
            }
            (Some(start), _) => (at, has_begun) = (start, true),
            (None, None) => return Ok(entries),
            (None, Some(later)) => {
                return Err(journal_damage(format!("entry {later} is there, {seq} is not")));
            }
        }
    }
}

/// Whether the journal ends at `at` for certain. It goes on in another zone only behind an entry that ends the zone,
/// which is flushed, or where none fits; where a zone begins, another may end.
fn ends_inside(state: &State, at: Pba) -> bool {
    let Some(zone) = journal_zone(state, at) else { return false };
    let at = Lba::new(at.get());
    let pointer = match state.disk.zone(zone.zone).map(|info| info.state) {
        Some(ZoneState::Open { write_pointer, .. } | ZoneState::Closed { write_pointer }) => {
            write_pointer
        }
        _ => return false,
    };
    zone.range.start < at && at <= pointer && ENTRY_LEN_MIN <= zone.range.end() - at
}

/// What lies where an entry may begin.
enum Header {
    /// And how many of its blocks came from the second copy.
    Whole(Entry, u64),
    /// Nothing was written there, or not all of it. What is behind the end of a zone that was finished early reads
    /// as one byte again and again.
    Unwritten,
    /// Something else, or a header of which a block is damaged in both copies: its number, if any block tells it.
    Else(Option<u64>),
}

fn journal_zone(state: &State, at: Pba) -> Option<&JournalZone> {
    state.journal.zones.iter().find(|zone| zone.range.contains(Lba::new(at.get())))
}

/// How far the zone of a block of the journal is written, by the drive; none outside of the journal.
fn written_to(state: &State, at: Pba) -> Option<Lba> {
    let zone = journal_zone(state, at)?;
    match state.disk.zone(zone.zone)?.state {
        ZoneState::Full => Some(zone.range.end()),
        ZoneState::ReadOnly => Some(zone.end.map_or(zone.range.end(), |end| end.at)),
        other => Some(other.write_pointer(zone.range.start).unwrap_or(zone.range.start)),
    }
}

/// Whether the zone of a block of the journal is read-only, and only what is read there tells where it ends.
fn may_end_in_fill(state: &State, at: Pba) -> bool {
    let end = journal_zone(state, at).and_then(|zone| zone.end);
    end.is_some_and(|end| !end.is_exact)
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

/// What lies `offset` behind the start of an entry, if that is a block of its header.
fn header_block(state: &State, at: Pba, offset: Blocks) -> Result<Option<Entry>, DriverError> {
    let block = read_blocks(state, at + offset, Blocks::new(1))?;
    let id = state.superblock.id;
    Ok(block.and_then(|block| decode_header_block(id, at, offset, &block)))
}

/// The header of the entry at `at`, each block from its first copy or else from its second.
fn read_header(state: &State, at: Pba) -> Result<Header, DriverError> {
    let end = written_to(state, at).map_or(0, Lba::get);
    let written = end.saturating_sub(at.get());
    // No entry is shorter: that one is torn, or nothing more fits the zone.
    if written < ENTRY_LEN_MIN.get() {
        return Ok(Header::Unwritten);
    }
    // Any block tells how long the header is.
    let mut found = None;
    for offset in (0..written.min(2 * HEADER_LEN_MAX)).map(Blocks::new) {
        found = header_block(state, at, offset)?;
        if found.is_some() {
            break;
        }
    }
    let Some(found) = found else { return Ok(Header::Else(None)) };
    if written < found.data_offset().get() {
        return Ok(Header::Unwritten);
    }
    let mut second_count = 0;
    let mut records = Vec::new();
    for index in (0..found.header_len.get()).map(Blocks::new) {
        let mut block = header_block(state, at, index)?;
        if block.is_none() {
            second_count += 1;
            block = header_block(state, at, found.header_len + index)?;
        }
        match block {
            Some(block) if block.seq == found.seq => records.extend(block.records),
            _ => return Ok(Header::Else(Some(found.seq))),
        }
    }
    Ok(Header::Whole(Entry { records, ..found }, second_count))
}

/// The entry at `at` if it is number `seq` and whole.
///
/// A power cut leaves a prefix of what was written to a zone. So what lies below the pointer and is not as it
/// was written is damage.
fn read_entry(state: &mut State, at: Pba, seq: u64) -> Result<Option<Replayed>, DriverError> {
    let mut entry = match read_header(state, at)? {
        Header::Whole(entry, second_count) if entry.seq == seq => {
            state.counters.second_copies += second_count;
            entry
        }
        Header::Unwritten => return Ok(None),
        // Another life of the zone.
        Header::Whole(..) if begins_zone(state, at) => return Ok(None),
        Header::Else(Some(old)) if old < seq && begins_zone(state, at) => return Ok(None),
        Header::Whole(..) | Header::Else(_) => {
            return Err(journal_damage(format!("entry {seq} should begin at block {}", at.get())));
        }
    };
    let start = at + entry.data_offset();
    // Behind the last block that is not fill: there a block of the host's may be fill, too.
    let unsure_from = match written_to(state, at) {
        Some(end) if start.get() + entry.data_len.get() <= end.get() => None,
        Some(end) if may_end_in_fill(state, at) => Some(end),
        _ => return Ok(None),
    };
    let data = read_blocks(state, start, entry.data_len)?;
    let (mut lost, mut broken) = (Vec::new(), None);
    let mut records = Vec::with_capacity(entry.records.len());
    for record in entry.records {
        if let Record::Data { lba, at, crc } = record {
            let block = match &data {
                Some(data) => at.get().checked_sub(start.get()).and_then(|index| {
                    data.chunks_exact(BLOCK_LEN_BYTES).nth(index as usize).map(crc32c::crc32c)
                }),
                // One of them cannot be read.
                None => read_blocks(state, at, Blocks::new(1))?.map(|block| crc32c::crc32c(&block)),
            };
            let is_last = written_to(state, at).is_some_and(|end| end.get() == at.get() + 1);
            if block.is_none() && data.is_none() && is_last {
                broken = Some(BlockRange::new(lba, Blocks::new(1)));
                continue;
            }
            if block != Some(crc) {
                if unsure_from.is_some_and(|from| from.get() <= at.get()) {
                    return Ok(None);
                }
                lost.push(BlockRange::new(lba, Blocks::new(1)));
                continue;
            }
            state.journal.note_crcs(at, std::iter::once(crc));
        }
        records.push(record);
    }
    entry.records = records;
    Ok(Some(Replayed { entry, lost, broken }))
}

fn begins_zone(state: &State, at: Pba) -> bool {
    journal_zone(state, at).is_some_and(|zone| zone.range.start.get() == at.get())
}

/// The host's newest content of `range` is gone.
fn lose(state: &mut State, range: BlockRange) {
    state.copies.forget(range);
    state.lost.insert(range);
}

/// What a checkpoint told of a zone is over if the zone was begun anew since. Where nothing was valid in it no record
/// says that it was emptied; checkpoints of earlier versions have checksums of such zones.
fn forget_earlier_lives<'a>(
    pool: &Pool,
    told: &mut Told,
    records: impl Iterator<Item = &'a Record>,
) {
    for record in records {
        if let Record::Opened { zone, generation } = *record
            && let Some(slot) = pool.get(zone).filter(|slot| slot.generation != generation)
        {
            told.forget(slot);
        }
    }
}

/// Does again what the journal says. The zones that records name which depend on how far they are
/// written come back: until the next checkpoint they must stay as they are, for the next recovery.
fn replay(
    state: &mut State,
    told: &mut Told,
    entries: Vec<Replayed>,
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
                    let slot = state.pool.zone_of(at).copied();
                    let last = slot.and_then(|slot| emptied.get(&slot.zone));
                    let is_older = last.is_some_and(|&last| (number, index) < last);
                    named.extend(slot.map(|slot| slot.zone).filter(|_| !is_older));
                    let Counted { runs, broken_count } = match slot {
                        None => Counted::default(),
                        // What an offline zone held is gone: to ignore the record would bring back older content.
                        Some(slot) if is_older || slot.used == Use::Lost => Counted::all(run),
                        // Its blocks may be another's by now, or nobody's.
                        Some(slot) => counted(state, told, &slot, run, is_flushed)
                            .map_err(during("looking for what a record moved"))?,
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
                // Unless it was begun anew the flush behind the record may have been cut, and what came instead be gone.
                Record::Emptied { zone } if opened.get(&zone) > Some(&(number, index)) => {
                    state.pool.get(zone).into_iter().for_each(|slot| told.forget(slot));
                }
                Record::Emptied { .. } => {}
                Record::Opened { zone, generation } => state.pool.set_generation(zone, generation),
                Record::Sum { at, sum } => drop(told.sums.insert(at, sum)),
            }
        }
        found.lost.into_iter().for_each(|range| lose(state, range));
        state.counters.broken_blocks += u64::from(found.broken.is_some());
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

/// Says which zones can be written from their start.
fn free_blank(state: &mut State, named: &BTreeSet<ZoneId>) {
    for slot in state.pool.iter().copied().collect::<Vec<_>>() {
        let is_blank = slot.used == Use::Sealed && state.map.valid(slot.zone).is_zero();
        // One that is named may be empty: its data did not reach the platter, and what is written there now would
        // be taken for them if this recovery is cut short.
        if named.contains(&slot.zone) && (is_blank || slot.used == Use::Free) {
            state.pool.set(slot.zone, Use::Recorded);
        } else if is_blank {
            state.pool.clear(&*state.disk, slot.zone);
        }
    }
}

/// Says what the other zones are now, and writes all of it down before anything else is written.
fn settle(state: &mut State) -> Result<(), DriverError> {
    // Zones that are written in part take what comes next.
    let disk = Arc::clone(&state.disk);
    let part = |slot: &&PoolZone| {
        slot.used == Use::Sealed && !slot.is_full() && can_be_continued(&*disk, slot)
    };
    let open: Vec<ZoneId> = state.pool.iter().filter(part).map(|slot| slot.zone).take(2).collect();
    for (index, zone) in open.into_iter().enumerate() {
        state.pool.set(zone, Use::Open);
        state.open[index] = Some(zone);
    }
    let living = state.journal.zones.iter_mut().filter(|zone| zone.used != JournalUse::Lost);
    living.for_each(|zone| zone.used = JournalUse::Sealed);
    // A power cut behind the superblock leaves them written in part, and a drive allows only so many of those.
    let stored: Vec<ZoneId> = state.superblock.checkpoint.zones().collect();
    for zone in stored {
        state.pool.finish(&*state.disk, zone).map_err(during("finishing a zone"))?;
    }
    state.checkpoint_now().map_err(during("writing a checkpoint"))?;
    state.clear_all(Use::Recorded);
    // Not before the checkpoint: how far a zone is written tells which records count.
    let ended: Vec<ZoneId> = state.pool.iter().filter(part).map(|slot| slot.zone).collect();
    state.finish_data(&ended).map_err(during("finishing a zone"))?;
    finish_broken(state).map_err(during("finishing a zone"))?;
    for zone in &state.journal.zones {
        let found = state.disk.zone(zone.zone).map(|info| info.state);
        let (Some(ZoneState::Open { write_pointer, .. })
        | Some(ZoneState::Closed { write_pointer })) = found
        else {
            continue;
        };
        // One that was begun without an entry holds nothing: finished, it would look like one whose entry is damaged.
        let is_blank = write_pointer - zone.range.start < ENTRY_LEN_MIN;
        let action = if is_blank { ZoneAction::Reset } else { ZoneAction::Finish };
        let ended = state.disk.manage_zone(zone.zone, action);
        ended.map_err(during("ending a zone of the journal"))?;
    }
    Ok(())
}
