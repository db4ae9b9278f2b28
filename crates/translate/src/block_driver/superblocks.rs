//! Superblocks say which checkpoint counts. Each one is written to zone 0 and to zone 1.
//!
//! ```text
//!     zone 0   | 1 | 2 | 3 | ...  | 90 | 91 |
//!     zone 1   | 1 | 2 | 3 | ...  | 90 |       a power cut: 91 counts, and 90 still would
//! ```
//!
//! A zone that is nearly full begins anew. While it is blank, the other zone has the newest
//! superblock twice; the last blocks of each zone are kept free for that.
//!
//! Where the drive has given up one of the two zones, the other continues alone. A conventional
//! zone is used as a ring: the block after its last one is its first. A sequential zone has a
//! stand-in while it is blank:
//!
//! ```text
//!     zone 0   offline, or read-only with an old superblock
//!     zone 1   |                                      blank, the moment after its reset
//!     zone 57  | 1024 | 1024 |                        any free zone: written to its second block and no further
//! ```
//!
//! Opening looks for stand-ins only where zone 0 or 1 is given up, by the write pointers of zones.
//! Of all superblocks, the one with the highest number counts. The start of a data zone holds the
//! host's data, which may be a superblock of another device or a forged one. A stand-in therefore
//! has the id of the other zone's superblocks, which no host knows; while that zone is blank, it
//! must name a checkpoint that exists.
//!
//! Not here: the structures that a superblock names (`checkpoint`), its bytes (`format`).

use super::checkpoint_format::decode_part;
use super::data_zones::DataZones;
use super::error::{DriverError, during, no_room};
use super::format::{FORMAT_VERSION, Fault, Stored, Superblock};
use super::pool::Use;
use super::zones::SUPERBLOCK_ZONE_COUNT;
use crate::error::FormatFault;
use imbrex_disk::{
    BLOCK_LEN_BYTES, Blocks, Disk, DiskError, Persist, ZoneAction, ZoneId, ZoneInfo, ZoneKind,
    ZoneState,
};
use std::sync::Arc;

/// How many blocks of a zone take superblocks.
pub(super) const SUPERBLOCK_COUNT: u64 = 1024;
/// How many of those blocks are kept free for when the other zone begins anew: two each time, and
/// more after power cuts.
const KEPT_COUNT: u64 = 8;
/// How many superblocks a stand-in has. Its write pointer after them is all that distinguishes it
/// from other zones.
const STAND_IN_LEN: Blocks = Blocks::new(2);

/// Where to write the next superblock.
#[derive(Debug)]
pub(super) struct SuperblockZones {
    /// The next slot of each zone; `None` where the drive has given the zone up.
    pub(super) slots: [Option<u64>; 2],
    /// Zones in which the newest superblock is followed by something else: the power may have gone
    /// while that was written.
    pub(super) are_broken: [bool; 2],
}

/// The content of one slot for a superblock.
#[derive(PartialEq, Eq)]
enum Slot {
    Superblock(Box<Superblock>),
    Version(u32),
    Blank,
    /// Something was written there, but no superblock.
    Other,
}

impl Slot {
    fn superblock(&self) -> Option<&Superblock> {
        match self {
            Slot::Superblock(superblock) => Some(superblock),
            _ => None,
        }
    }

    fn number(&self) -> Option<u64> {
        self.superblock().map(|superblock| superblock.number)
    }
}

/// A zone of superblocks: the contents of its slots, up to where it is written.
#[derive(PartialEq, Eq)]
struct SuperblockZone {
    slots: Vec<Slot>,
    is_sequential: bool,
    /// Never written again: its superblocks may be long out of date.
    is_read_only: bool,
}

impl SuperblockZone {
    /// The last slot with the newest superblock of this zone.
    fn newest_slot(&self) -> Option<usize> {
        let numbered = self.slots.iter().enumerate();
        let numbered = numbered.filter_map(|(slot, found)| Some((found.number()?, slot)));
        numbered.max().map(|(_, slot)| slot)
    }

    /// The slot for the next superblock.
    fn next(&self) -> u64 {
        if self.is_sequential {
            return self.slots.len() as u64;
        }
        self.newest_slot().map_or(0, |slot| slot as u64 + 1)
    }

    /// Whether the block after the newest superblock of this zone was written and is no superblock:
    /// it was a newer one.
    fn has_damaged(&self) -> bool {
        let behind = self.newest_slot().map_or(0, |slot| slot + 1);
        // A zone without a write pointer is used as a ring.
        let may_begin = self.slots.len() <= behind + KEPT_COUNT as usize;
        let around = if self.is_sequential || !may_begin { None } else { self.slots.first() };
        [self.slots.get(behind), around].contains(&Some(&Slot::Other))
    }
}

/// The superblock that counts.
pub(super) struct Newest {
    pub(super) superblock: Superblock,
    pub(super) zones: SuperblockZones,
    /// A zone that can be written does not have it.
    pub(super) is_alone: bool,
    /// The stand-in that also has it, to be kept until zone 0 or 1 has it.
    pub(super) stand_in: Option<ZoneId>,
    /// In how many zones it, or a superblock before it, is damaged.
    pub(super) damaged_count: u64,
}

/// Finds the newest superblock.
pub(super) fn newest(disk: &dyn Disk) -> Result<Newest, DriverError> {
    let mut zones = [read_zone(disk, 0)?, read_zone(disk, 1)?];
    let stand_ins = read_stand_ins(disk, &zones)?;
    forget_foreign(&mut zones, &stand_ins);
    let all = || zones.iter().flatten().flat_map(|zone| &zone.slots);
    let standing = stand_ins.iter().map(|(_, superblock)| superblock);
    let found = all().filter_map(Slot::superblock).chain(standing);
    let Some(newest) = found.max_by_key(|superblock| superblock.number) else {
        let version = all().find_map(|found| match found {
            Slot::Version(got) => Some(*got),
            _ => None,
        });
        return Err(match version {
            Some(got) => {
                FormatFault::Version { layer: "a block device", expected: FORMAT_VERSION, got }
                    .into()
            }
            None if zones.contains(&None) => {
                let detail = "zone 0 or 1 is offline, and the other has none";
                FormatFault::damaged("superblock", detail).into()
            }
            None => DriverError::NotFormatted,
        });
    };
    let has_newest = |zone: &SuperblockZone| {
        zone.newest_slot().is_some_and(|slot| zone.slots[slot].number() == Some(newest.number))
    };
    let living = || zones.iter().flatten().filter(|zone| !zone.is_read_only);
    // A newer one counted if it was written to every zone that can be written.
    let is_followed = |zone: &SuperblockZone| has_newest(zone) && zone.has_damaged();
    if living().next().is_some() && living().all(is_followed) {
        let detail = format!("the block after number {} is no superblock", newest.number);
        return Err(FormatFault::damaged("superblock", detail).into());
    }
    let lacking = || living().filter(|zone| !has_newest(zone));
    let is_standing = |(_, superblock): &&(ZoneId, Superblock)| superblock.number == newest.number;
    let next = |zone: &SuperblockZone| (!zone.is_read_only).then(|| zone.next());
    Ok(Newest {
        superblock: newest.clone(),
        zones: SuperblockZones {
            slots: zones.each_ref().map(|zone| zone.as_ref().and_then(next)),
            are_broken: zones
                .each_ref()
                .map(|zone| zone.as_ref().is_some_and(SuperblockZone::has_damaged)),
        },
        is_alone: lacking().next().is_some(),
        stand_in: stand_ins.iter().find(is_standing).map(|&(zone, _)| zone),
        damaged_count: lacking().filter(|zone| zone.has_damaged()).count() as u64,
    })
}

/// Drops superblocks of an earlier device from a read-only zone, which formatting cannot clear.
fn forget_foreign(zones: &mut [Option<SuperblockZone>; 2], stand_ins: &[(ZoneId, Superblock)]) {
    let living = zones.iter().flatten().filter(|zone| !zone.is_read_only);
    let living = living.flat_map(|zone| &zone.slots).filter_map(Slot::superblock);
    let ours = living.chain(stand_ins.iter().map(|(_, superblock)| superblock));
    let Some(id) = ours.max_by_key(|superblock| superblock.number).map(|ours| ours.id) else {
        return;
    };
    for zone in zones.iter_mut().flatten().filter(|zone| zone.is_read_only) {
        let foreign = zone
            .slots
            .iter_mut()
            .filter(|found| found.superblock().is_some_and(|superblock| superblock.id != id));
        foreign.for_each(|found| *found = Slot::Blank);
    }
}

/// Whether a readable slot or a stand-in holds a superblock, of this version or another.
pub(super) fn are_on(disk: &dyn Disk) -> bool {
    let zones = [0, 1].map(|zone| read_zone(disk, zone).ok().flatten());
    let mut slots = zones.iter().flatten().flat_map(|zone| &zone.slots);
    slots.any(|found| matches!(found, Slot::Superblock(_) | Slot::Version(_)))
        || read_stand_ins(disk, &zones).is_ok_and(|found| !found.is_empty())
}

/// Superblocks that stand in for a zone while it begins anew. They exist only where the other zone
/// is given up.
fn read_stand_ins(
    disk: &dyn Disk,
    zones: &[Option<SuperblockZone>; 2],
) -> Result<Vec<(ZoneId, Superblock)>, DriverError> {
    let living = || zones.iter().flatten().filter(|zone| !zone.is_read_only);
    if living().count() == zones.len() {
        return Ok(Vec::new());
    }
    let known = living().flat_map(|zone| &zone.slots).filter_map(Slot::superblock);
    let known = known.max_by_key(|superblock| superblock.number).map(|newest| newest.id);
    let is_one = |info: &ZoneInfo| {
        info.kind == ZoneKind::SequentialRequired
            && info.state.write_pointer(info.start) == Some(info.start + STAND_IN_LEN)
    };
    let mut found = Vec::new();
    let others = disk.report_zones().into_iter().skip(SUPERBLOCK_ZONE_COUNT as usize);
    for info in others.filter(is_one) {
        for index in (0..STAND_IN_LEN.get()).map(Blocks::new) {
            let mut block = [0; BLOCK_LEN_BYTES];
            match disk.read(info.start + index, &mut block) {
                Ok(()) => {}
                Err(DiskError::Medium { .. }) => continue,
                Err(error) => return Err(during("reading superblocks")(error)),
            }
            let Ok(superblock) = Superblock::decode(&block) else { continue };
            // The host may have written it.
            let is_ours = match known {
                Some(id) => superblock.id == id,
                None => has_checkpoint(disk, &superblock)?,
            };
            if is_ours {
                found.push((info.zone, superblock));
                break;
            }
        }
    }
    Ok(found)
}

/// Whether a superblock's checkpoint begins where the superblock says, judged by the first block of
/// either copy.
fn has_checkpoint(disk: &dyn Disk, superblock: &Superblock) -> Result<bool, DriverError> {
    let Stored { copies, number, .. } = &superblock.checkpoint;
    for zone in copies.iter().filter_map(|zones| zones.first()) {
        let Some(range) = disk.geometry().zone_range(*zone) else { continue };
        let mut block = [0; BLOCK_LEN_BYTES];
        match disk.read(range.start, &mut block) {
            Ok(()) if decode_part(superblock.id, *number, 0, &block).is_some() => return Ok(true),
            Ok(())
            | Err(
                DiskError::Medium { .. }
                | DiskError::Offline { .. }
                | DiskError::ReadAbovePointer { .. },
            ) => {}
            Err(error) => return Err(during("reading superblocks")(error)),
        }
    }
    Ok(false)
}

/// Reads a zone of superblocks; `None` if the drive has given it up.
fn read_zone(disk: &dyn Disk, zone: u32) -> Result<Option<SuperblockZone>, DriverError> {
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
            Ok(superblock) => Slot::Superblock(Box::new(superblock)),
            Err(Fault::Version { got }) => Slot::Version(got),
            Err(Fault::None) if block.iter().all(|&byte| byte == 0) => Slot::Blank,
            Err(Fault::None) => Slot::Other,
        });
    }
    let is_sequential = info.kind == ZoneKind::SequentialRequired;
    let is_read_only = info.state == ZoneState::ReadOnly;
    Ok(Some(SuperblockZone { slots, is_sequential, is_read_only }))
}

impl SuperblockZones {
    /// Writes the superblock to both zones, one after the other. At any moment there are two copies
    /// of it, or two of the previous one. Returns how many blocks were written.
    pub(super) fn write(
        &mut self,
        superblock: &Superblock,
        zones: &mut DataZones,
    ) -> Result<u64, DiskError> {
        let bytes = superblock.encode();
        let mut count = 0;
        // The zone with more room is written first. A zone in which a power cut tore the last
        // superblock precedes it, so that power cuts never leave a torn superblock in both.
        let mut order = [0, 1];
        let are_broken = std::mem::take(&mut self.are_broken);
        order.sort_by_key(|&index| (!are_broken[index], self.slots[index].unwrap_or(u64::MAX)));
        let [first, second] = order;
        let begins_anew = self.begins_anew(&*zones.disk, second);
        for (index, is_to_begin) in [(first, false), (second, begins_anew)] {
            let copy_count = if index == first && begins_anew { 2 } else { 1 };
            for _ in 0..copy_count {
                count += self.write_to_zone(zones, index, is_to_begin, &bytes[..])?;
            }
            // The flush makes no zone resettable: structures that the previous superblock names
            // must not change yet (K7).
            zones.disk.flush()?;
        }
        if self.slots == [None; 2] {
            return Err(no_room("the drive has given up both zones of superblocks".to_owned()));
        }
        Ok(count)
    }

    fn slot_count(disk: &dyn Disk, index: usize) -> u64 {
        let capacity = disk.geometry().zone_capacity(ZoneId(index as u32));
        SUPERBLOCK_COUNT.min(capacity.unwrap_or_default().get())
    }

    /// Whether the next superblock begins the zone anew, because little of it is left.
    pub(super) fn begins_anew(&self, disk: &dyn Disk, index: usize) -> bool {
        self.slots[index]
            .is_some_and(|next| SuperblockZones::slot_count(disk, index) <= next + KEPT_COUNT)
    }

    /// Writes a superblock to the next slot of a zone, or to the first slot if the zone is full or
    /// is to begin anew.
    fn write_to_zone(
        &mut self,
        zones: &mut DataZones,
        index: usize,
        is_to_begin: bool,
        bytes: &[u8],
    ) -> Result<u64, DiskError> {
        let Some(next) = self.slots[index] else { return Ok(0) };
        let disk = Arc::clone(&zones.disk);
        let zone = ZoneId(index as u32);
        let start = disk.geometry().zone_range(zone).unwrap_or_default().start;
        let is_full = SuperblockZones::slot_count(&*disk, index) <= next;
        let is_last = self.slots.contains(&None);
        if is_last && is_sequential(&*disk, zone) && self.begins_anew(&*disk, index) {
            if let Some(count) = self.begin_alone(zones, index, bytes)? {
                return Ok(count);
            }
            if is_full {
                let what = "the last zone of superblocks is full, and none is free to stand in";
                return Err(no_room(what.to_owned()));
            }
        }
        // A conventional zone keeps the previous superblock in its last slot.
        let begins = is_full || is_to_begin && !is_last;
        let slot = if begins { 0 } else { next };
        let reset = if begins { reset_superblocks(&*disk, zone) } else { Ok(()) };
        let at = start + Blocks::new(slot);
        match reset.and_then(|()| disk.write(at, bytes, Persist::Cached)) {
            Ok(()) => {
                self.slots[index] = Some(slot + 1);
                Ok(1)
            }
            Err(DiskError::ZoneNotWritable { .. } | DiskError::Offline { .. }) => {
                self.slots[index] = None;
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Begins the last zone of superblocks anew with `bytes`, while another zone stands in for it.
    /// Returns how many blocks were written, or `None` if no zone is free to stand in.
    fn begin_alone(
        &mut self,
        zones: &mut DataZones,
        index: usize,
        bytes: &[u8],
    ) -> Result<Option<u64>, DiskError> {
        let disk = Arc::clone(&zones.disk);
        let stand_in = loop {
            let Some(zone) = zones.take(Use::Checkpoint)? else { return Ok(None) };
            let start = disk.geometry().zone_range(zone).unwrap_or_default().start;
            let copies = bytes.repeat(STAND_IN_LEN.get() as usize);
            match disk.write(start, &copies, Persist::Cached) {
                Ok(()) => break zone,
                Err(error) if zones.passes_over(zone, &error) => {}
                Err(error) => return Err(error),
            }
        };
        zones.pool.advance(stand_in, STAND_IN_LEN);
        disk.flush()?;
        let zone = ZoneId(index as u32);
        let start = disk.geometry().zone_range(zone).unwrap_or_default().start;
        let reset = reset_superblocks(&*disk, zone);
        match reset.and_then(|()| disk.write(start, bytes, Persist::Cached)) {
            Ok(()) => self.slots[index] = Some(1),
            Err(DiskError::ZoneNotWritable { .. } | DiskError::Offline { .. }) => {
                self.slots[index] = None;
            }
            Err(error) => return Err(error),
        }
        disk.flush()?;
        zones.pool.clear(&*disk, stand_in);
        Ok(Some(STAND_IN_LEN.get() + 1))
    }
}

fn is_sequential(disk: &dyn Disk, zone: ZoneId) -> bool {
    disk.zone(zone).is_some_and(|info| info.kind == ZoneKind::SequentialRequired)
}

fn reset_superblocks(disk: &dyn Disk, zone: ZoneId) -> Result<(), DiskError> {
    if is_sequential(disk, zone) { disk.manage_zone(zone, ZoneAction::Reset) } else { Ok(()) }
}
