//! Superblocks: which checkpoint counts. Each is written to zone 0 and to zone 1.
//!
//! ```text
//!     zone 0   | 1 | 2 | 3 | ...  | 90 | 91 |
//!     zone 1   | 1 | 2 | 3 | ...  | 90 |       a power cut: 91 counts, and 90 still would
//! ```
//!
//! A zone that is nearly full begins anew. While it is blank the other has the newest superblock twice; for that
//! the last blocks of each are kept.
//!
//! Not here: what a superblock tells of (`checkpoint`), its bytes (`format`).

use super::error::{DriverError, during};
use super::format::{FORMAT_VERSION, Fault, Superblock};
use super::state::{State, no_room};
use imbrex_disk::{
    BLOCK_LEN_BYTES, Blocks, Disk, DiskError, Persist, ZoneAction, ZoneId, ZoneKind, ZoneState,
};

/// Zones for superblocks.
pub(super) const SUPERBLOCK_ZONE_COUNT: u32 = 2;
/// The blocks of a zone that take superblocks.
pub(super) const SUPERBLOCK_COUNT: u64 = 1024;
/// Of those, the ones kept for when the other zone begins anew: two each time, and more after power cuts.
const KEPT_COUNT: u64 = 8;

/// Where the next superblock goes in each of its zones; none where the drive has given it up.
pub(super) type Slots = [Option<u64>; 2];

/// What lies where a superblock may.
#[derive(PartialEq, Eq)]
enum Found {
    Superblock(Box<Superblock>),
    Version(u32),
    Nothing,
    /// Something was written there, and it is none.
    Else,
}

impl Found {
    fn number(&self) -> Option<u64> {
        match self {
            Found::Superblock(superblock) => Some(superblock.number),
            _ => None,
        }
    }
}

/// A zone of superblocks: what is in its slots, as far as they are written.
#[derive(PartialEq, Eq)]
struct Zone {
    slots: Vec<Found>,
    is_sequential: bool,
}

impl Zone {
    /// The last slot that has the newest superblock of this zone.
    fn newest_slot(&self) -> Option<usize> {
        let numbered = self.slots.iter().enumerate();
        let numbered = numbered.filter_map(|(slot, found)| Some((found.number()?, slot)));
        numbered.max().map(|(_, slot)| slot)
    }

    /// Where the next superblock would be written.
    fn next(&self) -> u64 {
        if self.is_sequential {
            return self.slots.len() as u64;
        }
        self.newest_slot().map_or(0, |slot| slot as u64 + 1)
    }

    /// Whether a block behind the newest superblock of this zone was written and is none: it was a newer one.
    fn has_damaged(&self) -> bool {
        let behind = self.newest_slot().map_or(0, |slot| slot + 1);
        // A zone without a pointer is written round and round.
        let may_begin = self.slots.len() <= behind + KEPT_COUNT as usize;
        let around = if self.is_sequential || !may_begin { None } else { self.slots.first() };
        [self.slots.get(behind), around].contains(&Some(&Found::Else))
    }
}

/// The superblock that counts.
pub(super) struct Newest {
    pub(super) superblock: Superblock,
    pub(super) slots: Slots,
    /// A zone that may be written does not have it.
    pub(super) is_alone: bool,
    /// Zones in which it, or one before it, is damaged.
    pub(super) damaged_count: u64,
}

/// Finds the newest superblock.
pub(super) fn newest(disk: &dyn Disk) -> Result<Newest, DriverError> {
    let zones = [read_zone(disk, 0)?, read_zone(disk, 1)?];
    let all = || zones.iter().flatten().flat_map(|zone| &zone.slots);
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
    let has_newest = |zone: &Zone| {
        zone.newest_slot().is_some_and(|slot| zone.slots[slot].number() == Some(newest.number))
    };
    // A newer one counted if it was written to both.
    let is_followed = |zone: &Option<Zone>| {
        zone.as_ref().is_none_or(|zone| has_newest(zone) && zone.has_damaged())
    };
    if zones.iter().all(is_followed) {
        let detail = format!("what follows number {} is none", newest.number);
        return Err(DriverError::Damaged { structure: "superblock", detail });
    }
    let lacking = || zones.iter().flatten().filter(|zone| !has_newest(zone));
    Ok(Newest {
        superblock: (**newest).clone(),
        slots: zones.each_ref().map(|zone| zone.as_ref().map(Zone::next)),
        is_alone: lacking().next().is_some(),
        damaged_count: lacking().filter(|zone| zone.has_damaged()).count() as u64,
    })
}

/// Whether a superblock, of this version or another, is in a slot that can be read.
pub(super) fn are_on(disk: &dyn Disk) -> bool {
    let zones = (0..SUPERBLOCK_ZONE_COUNT).filter_map(|zone| read_zone(disk, zone).ok().flatten());
    let mut slots = zones.flat_map(|zone| zone.slots);
    slots.any(|found| matches!(found, Found::Superblock(_) | Found::Version(_)))
}

/// Reads what is in a zone of superblocks; none if the drive has given it up.
fn read_zone(disk: &dyn Disk, zone: u32) -> Result<Option<Zone>, DriverError> {
    // One that is offline leaves the other.
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
    let mut slots = Vec::new();
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
        slots.push(match Superblock::decode(block) {
            Ok(superblock) => Found::Superblock(Box::new(superblock)),
            Err(Fault::Version { got }) => Found::Version(got),
            Err(Fault::None) if block.iter().all(|&byte| byte == 0) => Found::Nothing,
            Err(Fault::None) => Found::Else,
        });
    }
    let is_sequential = info.kind == ZoneKind::SequentialRequired;
    Ok(Some(Zone { slots, is_sequential }))
}

impl State {
    /// Writes the superblock to both zones, one after the other: at any moment there are two copies of it, or of
    /// the one before it.
    pub(super) fn write_superblock(&mut self) -> Result<(), DiskError> {
        let bytes = self.superblock.encode();
        // The one with more room goes first.
        let mut order = [0, 1];
        order.sort_by_key(|&index| self.slots[index].unwrap_or(u64::MAX));
        let [first, second] = order;
        let begins_anew = self.begins_anew(second);
        for (index, is_to_begin) in [(first, false), (second, begins_anew)] {
            let copy_count = if index == first && begins_anew { 2 } else { 1 };
            for _ in 0..copy_count {
                self.write_to_zone(index, is_to_begin, &bytes[..])?;
            }
            self.flush_drive()?;
        }
        if self.slots == [None; 2] {
            return Err(no_room("the drive has given up both zones of superblocks".to_owned()));
        }
        Ok(())
    }

    fn slot_count(&self, index: usize) -> u64 {
        let capacity = self.disk.geometry().zone_capacity(ZoneId(index as u32));
        SUPERBLOCK_COUNT.min(capacity.unwrap_or_default().get())
    }

    /// Whether so little is left of a zone that the next superblock begins it anew.
    pub(super) fn begins_anew(&self, index: usize) -> bool {
        self.slots[index].is_some_and(|next| self.slot_count(index) <= next + KEPT_COUNT)
    }

    /// Writes a superblock to the next slot of a zone, or to the first one if the zone is full or is to begin anew.
    fn write_to_zone(
        &mut self,
        index: usize,
        is_to_begin: bool,
        bytes: &[u8],
    ) -> Result<(), DiskError> {
        let Some(next) = self.slots[index] else { return Ok(()) };
        let zone = ZoneId(index as u32);
        let start = self.disk.geometry().zone_range(zone).unwrap_or_default().start;
        let is_full = self.slot_count(index) <= next;
        let is_last = self.slots.contains(&None);
        if is_full && is_last {
            let what = "the last zone of superblocks is full, and the other one is gone";
            return Err(no_room(what.to_owned()));
        }
        let begins = is_full || is_to_begin && !is_last;
        let slot = if begins { 0 } else { next };
        let reset = if begins { self.reset_superblocks(zone) } else { Ok(()) };
        let at = start + Blocks::new(slot);
        match reset.and_then(|()| self.disk.write(at, bytes, Persist::Cached)) {
            Ok(()) => {
                self.slots[index] = Some(slot + 1);
                self.counters.checkpoint_blocks += 1;
                Ok(())
            }
            Err(DiskError::ZoneNotWritable { .. } | DiskError::Offline { .. }) => {
                self.slots[index] = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn reset_superblocks(&self, zone: ZoneId) -> Result<(), DiskError> {
        let is_sequential =
            self.disk.zone(zone).is_some_and(|info| info.kind == ZoneKind::SequentialRequired);
        if is_sequential { self.disk.manage_zone(zone, ZoneAction::Reset) } else { Ok(()) }
    }
}
