//! Formats a device: decides how much of the drive the host gets, and writes the first superblock.
//!
//! ```text
//!     | superblocks | journal | pool: len of the host ...................... | spare |
//!                               zones that the drive has given up count in neither
//! ```
//!
//! The spare zones are what the driver needs to keep going when the host has written all of its
//! blocks at random places:
//!
//! ```text
//!     spare >= reserve, with the next checkpoint in it, twice      K5
//!            + the checkpoint that counts, twice
//!            + the zones being written, the host's and cleaning's
//!            + some with garbage, to be cleaned
//! ```

use super::buffer::JournalIndex;
use super::checkpoint_format::PART_LEN_BYTES;
use super::error::{DriverError, damaged, during};
use super::format::{CHECKPOINT_ZONE_COUNT_MAX, STRETCH_LEN, Stored, Superblock};
use super::journal::{JournalUse, JournalZones, first_pool_zone};
use super::layered::LayeredMap;
use super::mapping::Mapping;
use super::options::DriverOptions;
use super::pool::{Pool, Use, data_len};
use super::state::{DriverState, RESERVE_ZONE_COUNT};
use super::superblocks::{SUPERBLOCK_COUNT, SuperblockZones};
use super::zones::{SUPERBLOCK_ZONE_COUNT, is_given_up, journal_zones, spec, zones_of};
use imbrex_disk::{Blocks, Disk, Persist, ZoneId, ZoneKind, ZoneState};
use std::sync::Arc;

/// Data zones that the smallest device has.
pub const POOL_ZONE_COUNT_MIN: u64 = 24;
/// Zones that the host never gets: the reserve, two being written, and some to clean.
pub const SPARE_ZONE_COUNT_MIN: u64 = 14;
/// The least capacity of a zone: an entry of the journal takes at most half of one.
const ZONE_CAPACITY_MIN: Blocks = Blocks::new(16);
/// Zones being written, and some with garbage.
const WORKING_ZONE_COUNT: u64 = 4;
/// How many zones are written in part at once, besides those of superblocks: the host's,
/// cleaning's, one for each copy of a checkpoint, and two of the journal. A power cut may take back
/// the finish of the older one of these two.
const ACTIVE_ZONE_COUNT: u32 = 6;
/// Zones with an open stretch, and a few more after power cuts.
const OPEN_STRETCH_COUNT: u64 = 8;

/// How many of the `zone_count` zones after the journal the host does not get. Each zone takes
/// `zone_len`, and the drive has `drive_len`.
pub fn spare_zone_count(
    zone_count: u64,
    zone_len: Blocks,
    drive_len: Blocks,
    options: &DriverOptions,
) -> u64 {
    let by_share = zone_count * options.spare_percent / 100;
    let len = checkpoint_len_max(zone_count, zone_len, drive_len, options).get();
    // The next checkpoint may be half as long again.
    let checkpoints = both_zone_count(len, zone_len) + both_zone_count(len + len / 2, zone_len);
    let reserve = RESERVE_ZONE_COUNT as u64 + options.cleaning.chosen_count() as u64;
    by_share.max(SPARE_ZONE_COUNT_MIN).max(reserve + checkpoints + WORKING_ZONE_COUNT)
}

/// How many zones both copies of a checkpoint take, with `len` blocks in each.
fn both_zone_count(len: u64, zone_len: Blocks) -> u64 {
    2 * len.div_ceil(zone_len.get().max(1)).max(1)
}

/// The greatest length of a copy of a checkpoint: each of the host's blocks is a run, and so is
/// each of the journal's.
fn checkpoint_len_max(
    zone_count: u64,
    zone_len: Blocks,
    drive_len: Blocks,
    options: &DriverOptions,
) -> Blocks {
    // A distance in either direction, seven bits a byte.
    let distance_bytes = u64::from((2 * drive_len.get()).max(2).ilog2() / 7 + 1);
    // Longer or farther runs take more bytes each, but there are fewer of them, which saves more.
    let mapped = zone_count * data_len(zone_len).get() * (distance_bytes + 2);
    let journal = journal_zone_count(options, zone_len) * zone_len.get();
    let copies = journal * (2 * distance_bytes + 1 + 4);
    let sums = OPEN_STRETCH_COUNT * STRETCH_LEN.min(zone_len.get()) * 20;
    Blocks::new((mapped + copies + 12 * zone_count + sums).div_ceil(PART_LEN_BYTES as u64) + 1)
}

/// How many writable zones the journal has.
fn journal_zone_count(options: &DriverOptions, zone_len: Blocks) -> u64 {
    match options.journal_zone_count {
        0 => (2 * options.buffer_len.get()).div_ceil(zone_len.get().max(1)).max(4),
        count => u64::from(count).max(2),
    }
}

/// Makes an empty device.
pub(super) fn format(
    disk: Arc<dyn Disk>,
    options: &DriverOptions,
) -> Result<DriverState, DriverError> {
    options.check()?;
    let geometry = *disk.geometry();
    let zones = *zones_of(&geometry)?;
    check_active_zones(&*disk, zones.active_zone_limit)?;
    let capacity = zones.zone_capacity;
    if capacity < ZONE_CAPACITY_MIN {
        return Err(DriverError::ZoneTooShort { got: capacity, min: ZONE_CAPACITY_MIN });
    }
    let all = journal_zones(&*disk, u32::MAX);
    let is_living: Vec<bool> = all.iter().map(|(zone, _)| !is_given_up(&*disk, *zone)).collect();
    let living_count = |zones: &[bool]| zones.iter().filter(|&&is_living| is_living).count() as u64;
    let wanted = journal_zone_count(options, capacity);
    let needed = wanted + POOL_ZONE_COUNT_MIN + u64::from(SUPERBLOCK_ZONE_COUNT);
    let too_small = |needed: u64| {
        let got = living_count(&is_living);
        let journal_fits = (got + wanted).saturating_sub(needed);
        let len = Blocks::new(journal_fits * capacity.get() / 2);
        let is_shorter = options.journal_zone_count == 0 && 4 <= journal_fits;
        let is_advice = |len: &Blocks| *len < options.buffer_len && len.bytes() >> 20 > 0;
        let buffer_fits = Some(len).filter(|len| is_shorter && is_advice(len));
        DriverError::TooSmall { got, needed, buffer_fits }
    };
    // The journal has the first zones, whatever their state.
    let mut counts = wanted as usize..=all.len();
    let count = counts.find(|&count| wanted <= living_count(&is_living[..count]));
    let count = count.ok_or_else(|| too_small(needed))?;
    let pool = all[count..].iter().zip(&is_living[count..]).filter(|&(_, &is_living)| is_living);
    // A shorter last zone is used but not counted on: it may be the one that is free.
    let (whole, shorter): (Vec<_>, Vec<_>) =
        pool.partition(|((_, range), _)| range.len == capacity);
    let zone_count = whole.len() as u64;
    let spare = spare_zone_count(zone_count, capacity, geometry.len(), options);
    let spare = spare + shorter.len() as u64;
    if zone_count < POOL_ZONE_COUNT_MIN || zone_count <= spare {
        let with_spare = wanted + spare + 1 + u64::from(SUPERBLOCK_ZONE_COUNT);
        return Err(too_small(needed.max(with_spare)));
    }
    check_checkpoint(zone_count, capacity, geometry.len(), options)?;
    let len = (zone_count - spare) * data_len(capacity).get();
    disk.reset_zones().map_err(during("resetting the zones"))?;
    let superblock = Superblock {
        id: options.id,
        number: 0,
        drive_len: geometry.len(),
        zone_len: zones.zone_len,
        zone_count: geometry.zone_count(),
        journal_zone_count: count as u32,
        len: Blocks::new(len),
        checkpoint: Stored::default(),
    };
    let map = Mapping::new(spec(&superblock)).map_err(damaged("geometry"))?;
    let map = LayeredMap::new(map, options.map_memory_bytes);
    let copies = JournalIndex::new(spec(&superblock)).map_err(damaged("geometry"))?;
    let mut journal = JournalZones::new(journal_zones(&*disk, count as u32));
    for zone in journal.zones.iter_mut().filter(|zone| is_given_up(&*disk, zone.zone)) {
        zone.used = JournalUse::Lost;
    }
    let mut pool = Pool::new(&*disk, first_pool_zone(&journal));
    // The content of a read-only zone belongs to no device.
    pool.promote(Use::Sealed, Use::Lost);
    let slots = [0, 1].map(|zone| (!is_given_up(&*disk, ZoneId(zone))).then_some(0));
    let superblocks = SuperblockZones { slots, are_broken: [false; 2] };
    let mut state =
        DriverState::new(disk, options, superblock, superblocks, map, copies, journal, pool);
    clear_conventional(&state)?;
    state.base_now().map_err(during("writing the first checkpoint"))?;
    Ok(state)
}

/// Whether a superblock can name all zones of the longest checkpoint.
fn check_checkpoint(
    zone_count: u64,
    zone_len: Blocks,
    drive_len: Blocks,
    options: &DriverOptions,
) -> Result<(), DriverError> {
    let len = checkpoint_len_max(zone_count, zone_len, drive_len, options).get();
    let (got, max) = (both_zone_count(len, zone_len), CHECKPOINT_ZONE_COUNT_MAX as u64);
    if got <= max { Ok(()) } else { Err(DriverError::ZonesTooShort { got, max }) }
}

/// Whether the drive allows as many zones written in part as the driver ever has.
fn check_active_zones(disk: &dyn Disk, limit: Option<u32>) -> Result<(), DriverError> {
    let superblocks = (0..SUPERBLOCK_ZONE_COUNT).filter_map(|zone| disk.zone(ZoneId(zone)));
    let sequential = superblocks.filter(|info| info.kind == ZoneKind::SequentialRequired).count();
    let needed = ACTIVE_ZONE_COUNT + sequential as u32;
    match limit {
        Some(got) if got < needed => Err(DriverError::ActiveZones { got, needed }),
        _ => Ok(()),
    }
}

/// Clears superblocks of an earlier device from zones that a reset does not clear.
fn clear_conventional(state: &DriverState) -> Result<(), DriverError> {
    for zone in 0..SUPERBLOCK_ZONE_COUNT {
        let info = state.disk.zone(ZoneId(zone));
        if let Some(info) = info.filter(|info| info.state == ZoneState::NoPointer) {
            let len = info.capacity.get().min(SUPERBLOCK_COUNT);
            let zeros = vec![0; Blocks::new(len).bytes() as usize];
            let cleared = state.disk.write(info.start, &zeros, Persist::Through);
            cleared.map_err(during("clearing old superblocks"))?;
        }
    }
    Ok(())
}
