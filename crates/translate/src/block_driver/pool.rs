//! The data zones: which are free, which are being written, and which wait for their reset.
//!
//! ```text
//!     Free ---> Open ---> Sealed ---> Emptied ---> Resettable ---> Free
//!                                 |           `-- a durable record says so
//!                                 `-- no valid data is left in it
//! ```
//!
//! A drive allows only a limited number of zones that are written in part. A zone that is no longer
//! written is therefore finished, even before it is full.
//!
//! After a power cut, the journal may still name a zone whose data is all dead. So a zone is reset
//! only after a durable record says that it is empty (K3 of the driver). A checkpoint is stored in
//! zones of the pool too.
//!
//! A drive may report that it has given up a zone only when the zone is reset or written. As soon
//! as that is known, the zone counts for nothing; the zones of the reserve are reset ahead of their
//! use.
//!
//! A [`Pba`] counts the data blocks of its zone; [`PoolZone::place`] gives their places among the
//! summaries.
//!
//! Invariant
//!   P1  The counts by use match the zones. Each write of the host needs them, and a drive has many
//!       zones.

use super::format::STRETCH_LEN;
use super::zones::{finish_zone, is_given_up};
use imbrex_disk::{Blocks, Disk, DiskError, Lba, Pba, ZoneAction, ZoneId, ZoneKind, ZoneState};

/// A stretch with its summary.
const SPAN: u64 = STRETCH_LEN + 1;

/// The use of a data zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Blank, to be written from its start.
    Free,
    /// Being written.
    Open,
    /// No longer written.
    Sealed,
    /// No valid data is in it, and no record says so yet.
    Emptied,
    /// A record says that it is empty, but is not durable yet.
    Recorded,
    /// Holds nothing that is needed. Unless its pointer is at its start, it must be reset first.
    Resettable,
    /// Sealed, but its valid data cannot be read. Cleaning leaves it alone until the host has
    /// written all of that data again, the device is opened again, or the room is needed.
    Unreadable,
    /// Its valid data is lost, so far only by the state in memory: the next checkpoint to begin
    /// will record it.
    Abandoned,
    /// Holds a checkpoint.
    Checkpoint,
    /// The drive has given it up.
    Lost,
}

/// How many uses there are.
const USE_COUNT: usize = Use::Lost as usize + 1;

/// A zone of the pool.
///
/// ```text
///     | 127 data blocks | summary | 127 data blocks | summary | data | summary |
///                                       ^ pointer                              ^ capacity
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolZone {
    pub(super) zone: ZoneId,
    pub(super) start: Lba,
    pub(super) capacity: Blocks,
    pub(super) used: Use,
    /// How much of it is written, summaries included.
    pub(super) pointer: Blocks,
    /// The generation of its content; 0 if it holds no data.
    pub(super) generation: u64,
}

impl PoolZone {
    /// How many data blocks fit.
    pub(super) fn len(&self) -> Blocks {
        data_len(self.capacity)
    }

    /// How many data blocks are written.
    pub(super) fn written(&self) -> Blocks {
        let pointer = self.pointer.get();
        let in_stretch = (pointer % SPAN).min(STRETCH_LEN);
        Blocks::new(pointer / SPAN * STRETCH_LEN + in_stretch).min(self.len())
    }

    /// How many of its data blocks have a summary.
    pub(super) fn summed(&self) -> Blocks {
        let is_whole = self.pointer == self.capacity;
        if is_whole { self.len() } else { Blocks::new(self.pointer.get() / SPAN * STRETCH_LEN) }
    }

    pub(super) fn is_full(&self) -> bool {
        self.pointer == self.capacity
    }

    /// Whether it is written in part.
    fn is_active(&self) -> bool {
        !self.pointer.is_zero() && !self.is_full()
    }

    /// Whether it can be written from its start without a reset.
    pub(super) fn is_blank(&self) -> bool {
        self.used == Use::Free || self.used == Use::Resettable && self.pointer.is_zero()
    }

    /// Whether a summary is, or will be, at a block of the zone.
    pub(super) fn is_summary(&self, offset: Blocks) -> bool {
        offset.get() % SPAN == STRETCH_LEN || offset + Blocks::new(1) == self.capacity
    }

    /// Whether a data block belongs to the zone.
    pub(super) fn holds(&self, at: Pba) -> bool {
        self.start.get() <= at.get() && self.index(at) < self.len().get()
    }

    /// The number of a data block in its zone.
    pub(super) fn index(&self, at: Pba) -> u64 {
        at.get() - self.start.get()
    }

    /// The data block with that number.
    pub(super) fn pba(&self, index: u64) -> Pba {
        Pba::new(self.start.get() + index)
    }

    /// Where a data block is on the drive.
    pub(super) fn place(&self, at: Pba) -> Lba {
        let index = self.index(at);
        self.start + Blocks::new(index + index / STRETCH_LEN)
    }

    /// Where the summary of a data block is.
    pub(super) fn summary_of(&self, at: Pba) -> Lba {
        let offset = self.index(at) / STRETCH_LEN * SPAN + STRETCH_LEN;
        self.start + Blocks::new(offset.min(self.capacity.get() - 1))
    }
}

/// How many data blocks fit a zone of `capacity`.
pub fn data_len(capacity: Blocks) -> Blocks {
    Blocks::new(capacity.get() - capacity.get().div_ceil(SPAN))
}

/// All zones of the pool, in the order of their numbers.
#[derive(Debug)]
pub(super) struct Pool {
    zones: Vec<PoolZone>,
    /// P1: how many zones have each use.
    counts: [usize; USE_COUNT],
}

impl Pool {
    /// The sequential zones of `disk` after the first `first` zones. Each counts as free or sealed,
    /// depending on whether it was written.
    pub(super) fn new(disk: &dyn Disk, first: u32) -> Pool {
        let zones = disk.report_zones().into_iter().skip(first as usize);
        let zones = zones.filter(|info| info.kind == ZoneKind::SequentialRequired).map(|info| {
            let (used, pointer) = match info.state {
                ZoneState::Offline => (Use::Lost, Blocks::ZERO),
                ZoneState::Empty => (Use::Free, Blocks::ZERO),
                ZoneState::Full | ZoneState::ReadOnly | ZoneState::NoPointer => {
                    (Use::Sealed, info.capacity)
                }
                ZoneState::Open { write_pointer, .. } | ZoneState::Closed { write_pointer } => {
                    (Use::Sealed, write_pointer - info.start)
                }
            };
            let (zone, start, capacity) = (info.zone, info.start, info.capacity);
            PoolZone { zone, start, capacity, used, pointer, generation: 0 }
        });
        let zones: Vec<PoolZone> = zones.collect();
        Pool { counts: use_counts(&zones), zones }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PoolZone> + '_ {
        self.zones.iter()
    }

    pub(super) fn get(&self, zone: ZoneId) -> Option<&PoolZone> {
        self.index(zone).map(|index| &self.zones[index])
    }

    fn index(&self, zone: ZoneId) -> Option<usize> {
        self.zones.binary_search_by_key(&zone, |slot| slot.zone).ok()
    }

    fn get_mut(&mut self, zone: ZoneId) -> Option<&mut PoolZone> {
        self.index(zone).map(|index| &mut self.zones[index])
    }

    pub(super) fn set(&mut self, zone: ZoneId, used: Use) {
        if let Some(index) = self.index(zone) {
            self.set_at(index, used);
        }
    }

    /// P1: nothing else changes the use of a zone.
    fn set_at(&mut self, index: usize, used: Use) {
        let before = std::mem::replace(&mut self.zones[index].used, used);
        self.counts[before as usize] -= 1;
        self.counts[used as usize] += 1;
    }

    pub(super) fn set_generation(&mut self, zone: ZoneId, generation: u64) {
        if let Some(slot) = self.get_mut(zone) {
            slot.generation = generation;
        }
    }

    /// Gives all zones of one use another use.
    pub(super) fn promote(&mut self, from: Use, to: Use) -> Vec<ZoneId> {
        if self.count(from) == 0 {
            return Vec::new();
        }
        let found = self.zones.iter().filter(|slot| slot.used == from);
        let found: Vec<ZoneId> = found.map(|slot| slot.zone).collect();
        found.iter().for_each(|&zone| self.set(zone, to));
        found
    }

    /// Marks a zone whose content is no longer needed. It can be reset, unless the drive has given
    /// it up.
    pub(super) fn clear(&mut self, disk: &dyn Disk, zone: ZoneId) {
        let used = if is_given_up(disk, zone) { Use::Lost } else { Use::Resettable };
        self.set(zone, used);
    }

    /// Clears all zones of one use, and returns them.
    pub(super) fn clear_all(&mut self, disk: &dyn Disk, from: Use) -> Vec<ZoneId> {
        let found = self.promote(from, Use::Resettable);
        found.iter().for_each(|&zone| self.clear(disk, zone));
        found
    }

    pub(super) fn count(&self, used: Use) -> usize {
        self.counts[used as usize]
    }

    /// How many zones can be taken at once.
    pub(super) fn free(&self) -> usize {
        self.count(Use::Free) + self.count(Use::Resettable)
    }

    /// Resets zones until `wanted` are blank or none is left to reset. It does not change the order
    /// in which zones are taken.
    pub(super) fn blank(&mut self, disk: &dyn Disk, wanted: usize) -> Result<(), DiskError> {
        for index in 0..self.zones.len() {
            let slot = &self.zones[index];
            if slot.is_blank() && is_given_up(disk, slot.zone) {
                self.set_at(index, Use::Lost);
            }
        }
        let mut count = self.zones.iter().filter(|slot| slot.is_blank()).count();
        while count < wanted
            && let Some(index) = self.next_to_reset(|slot| !slot.is_blank())
        {
            count += usize::from(self.reset(disk, index)?);
        }
        Ok(())
    }

    /// Takes a zone to write from its start, and resets it if needed.
    pub(super) fn take(&mut self, disk: &dyn Disk, used: Use) -> Result<Option<ZoneId>, DiskError> {
        loop {
            let free = || self.zones.iter().position(|slot| slot.used == Use::Free);
            let found = self.next_to_reset(PoolZone::is_active).or_else(free);
            let Some(index) = found.or_else(|| self.next_to_reset(|_| true)) else {
                return Ok(None);
            };
            if self.reset(disk, index)? {
                self.set_at(index, used);
                return Ok(Some(self.zones[index].zone));
            }
        }
    }

    /// The next zone to reset. Zones written in part come first: they count towards the drive's
    /// limit of active zones.
    fn next_to_reset(&self, is_wanted: impl Fn(&PoolZone) -> bool) -> Option<usize> {
        let found = |slot: &PoolZone| slot.used == Use::Resettable && is_wanted(slot);
        let active = self.zones.iter().position(|slot| found(slot) && slot.is_active());
        active.or_else(|| self.zones.iter().position(found))
    }

    /// Makes a zone blank; returns false if the drive has given it up.
    fn reset(&mut self, disk: &dyn Disk, index: usize) -> Result<bool, DiskError> {
        let slot = self.zones[index];
        if !slot.is_blank() {
            match disk.manage_zone(slot.zone, ZoneAction::Reset) {
                Ok(()) => {}
                Err(DiskError::ZoneNotWritable { .. } | DiskError::Offline { .. }) => {
                    self.set_at(index, Use::Lost);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.zones[index] = PoolZone { pointer: Blocks::ZERO, generation: 0, ..slot };
        Ok(true)
    }

    /// Finishes a zone that is written in part, on the drive too.
    pub(super) fn finish(&mut self, disk: &dyn Disk, zone: ZoneId) -> Result<(), DiskError> {
        if let Some(slot) = self.get_mut(zone).filter(|slot| !slot.is_full()) {
            finish_zone(disk, zone)?;
            slot.pointer = slot.capacity;
        }
        Ok(())
    }

    /// What is left of a zone being written: the next data block, and how many fit.
    pub(super) fn rest(&self, zone: ZoneId) -> (Pba, Blocks) {
        let Some(slot) = self.get(zone) else { return (Pba::new(0), Blocks::ZERO) };
        (slot.pba(slot.written().get()), slot.len() - slot.written())
    }

    /// Records that `len` more of a zone is written, summaries included.
    pub(super) fn advance(&mut self, zone: ZoneId, len: Blocks) {
        if let Some(slot) = self.get_mut(zone) {
            slot.pointer += len;
        }
    }

    /// Sets how far a zone is written, where the drive does not report it.
    pub(super) fn set_pointer(&mut self, zone: ZoneId, pointer: Blocks) {
        if let Some(slot) = self.get_mut(zone) {
            slot.pointer = pointer;
        }
    }

    /// The zone that holds a data block.
    pub(super) fn zone_of(&self, at: Pba) -> Option<&PoolZone> {
        let behind = self.zones.partition_point(|slot| slot.start.get() <= at.get());
        let slot = &self.zones[behind.checked_sub(1)?];
        slot.holds(at).then_some(slot)
    }

    /// Checks P1.
    ///
    /// # Errors
    /// The violation, in words.
    #[cfg(test)]
    pub(super) fn check(&self) -> Result<(), String> {
        let (expected, got) = (use_counts(&self.zones), self.counts);
        let violation =
            || format!("P1: the zones by use are {expected:?}, but the counts are {got:?}");
        (expected == got).then_some(()).ok_or_else(violation)
    }
}

/// How many of the zones have each use.
fn use_counts(zones: &[PoolZone]) -> [usize; USE_COUNT] {
    let mut counts = [0; USE_COUNT];
    zones.iter().for_each(|slot| counts[slot.used as usize] += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every block of a zone is a summary or the place of one data block, whatever the capacity,
    /// and a summary follows the blocks that it describes.
    #[test]
    fn data_and_summaries_fill_a_zone() {
        for capacity in [1, 2, 28, 127, 128, 129, 130, 255, 256, 257, 600] {
            let mut slot = PoolZone {
                zone: ZoneId(3),
                start: Lba::new(1000),
                capacity: Blocks::new(capacity),
                used: Use::Sealed,
                pointer: Blocks::ZERO,
                generation: 1,
            };
            let mut indices = 0..slot.len().get();
            let (mut written, mut summed) = (0, 0);
            for offset in 0..capacity {
                slot.pointer = Blocks::new(offset);
                assert_eq!(slot.written().get(), written, "{offset} of {capacity}");
                assert_eq!(slot.summed().get(), summed, "{offset} of {capacity}");
                if slot.is_summary(slot.pointer) {
                    for index in summed..written {
                        assert_eq!(slot.summary_of(slot.pba(index)), slot.start + slot.pointer);
                    }
                    summed = written;
                } else {
                    let at = slot.pba(indices.next().unwrap());
                    assert_eq!(slot.place(at), slot.start + slot.pointer, "{capacity}");
                    written += 1;
                }
            }
            slot.pointer = slot.capacity;
            assert_eq!((slot.written().get(), slot.summed().get()), (written, written));
            assert_eq!(indices.next(), None);
        }
    }
}
