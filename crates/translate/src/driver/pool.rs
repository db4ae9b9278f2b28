//! The data zones: which are free, which are being written, and which wait for their reset.
//!
//! ```text
//!     Free ---> Open ---> Sealed ---> Emptied ---> Resettable ---> Free
//!                                 |           `-- the journal says so, durably
//!                                 `-- nothing valid is left in it
//! ```
//!
//! A drive can have so many zones written in part and no more: whoever ends with a zone before it is full
//! finishes it.
//!
//! A zone whose data are all dead may still be named by what a power cut would leave of the journal;
//! so it is reset only behind a durable record that it is empty (K3 of the driver). A checkpoint lies
//! in zones of the pool too.

use imbrex_disk::{
    BlockRange, Blocks, Disk, DiskError, Pba, ZoneAction, ZoneId, ZoneKind, ZoneState,
};

/// What a data zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Blank, to be written from its start.
    Free,
    /// Being written.
    Open,
    /// Not written any more.
    Sealed,
    /// Nothing valid is in it, and nobody knows yet.
    Emptied,
    /// A record of that is written, not yet durable.
    Recorded,
    /// Blank for all that matters; it must be reset first.
    Resettable,
    /// As sealed, but cleaning could not read all of it, so it is left alone until the device is opened again.
    Unreadable,
    /// Holds a checkpoint.
    Checkpoint,
    /// The drive has given it up.
    Lost,
}

/// A zone of the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolZone {
    pub(super) zone: ZoneId,
    pub(super) range: BlockRange,
    pub(super) used: Use,
    /// How much of it is written.
    pub(super) written: Blocks,
}

/// All of them, in order of their numbers.
#[derive(Debug)]
pub(super) struct Pool {
    zones: Vec<PoolZone>,
}

impl Pool {
    /// The sequential zones of `disk` behind the first `first`; all count as free or as sealed, by
    /// what is written.
    pub(super) fn new(disk: &dyn Disk, first: u32) -> Pool {
        let zones = disk.report_zones().into_iter().skip(first as usize);
        let zones = zones.filter(|info| info.kind == ZoneKind::SequentialRequired).map(|info| {
            let range = BlockRange::new(info.start, info.capacity);
            let (used, written) = match info.state {
                ZoneState::Offline => (Use::Lost, Blocks::ZERO),
                ZoneState::Empty => (Use::Free, Blocks::ZERO),
                ZoneState::Full | ZoneState::ReadOnly | ZoneState::NoPointer => {
                    (Use::Sealed, info.capacity)
                }
                ZoneState::Open { write_pointer, .. } | ZoneState::Closed { write_pointer } => {
                    (Use::Sealed, write_pointer - info.start)
                }
            };
            PoolZone { zone: info.zone, range, used, written }
        });
        Pool { zones: zones.collect() }
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

    pub(super) fn set(&mut self, zone: ZoneId, used: Use) {
        if let Some(index) = self.index(zone) {
            self.zones[index].used = used;
        }
    }

    /// Makes all zones of one use those of another.
    pub(super) fn promote(&mut self, from: Use, to: Use) -> Vec<ZoneId> {
        let found = self.zones.iter_mut().filter(|slot| slot.used == from);
        found
            .map(|slot| {
                slot.used = to;
                slot.zone
            })
            .collect()
    }

    pub(super) fn count(&self, used: Use) -> usize {
        self.zones.iter().filter(|slot| slot.used == used).count()
    }

    /// How many can be taken at once.
    pub(super) fn free(&self) -> usize {
        self.count(Use::Free) + self.count(Use::Resettable)
    }

    /// Takes a zone to write from its start, and resets it if it must be.
    pub(super) fn take(&mut self, disk: &dyn Disk, used: Use) -> Result<Option<ZoneId>, DiskError> {
        loop {
            let first = |wanted: Use| self.zones.iter().position(|slot| slot.used == wanted);
            // One written in part counts among the zones that a drive can have active.
            let is_active =
                |slot: &PoolZone| slot.used == Use::Resettable && slot.written < slot.range.len;
            let active = self.zones.iter().position(is_active);
            let found = active.or_else(|| first(Use::Free)).or_else(|| first(Use::Resettable));
            let Some(index) = found else { return Ok(None) };
            let slot = &mut self.zones[index];
            if slot.used == Use::Resettable {
                match disk.manage_zone(slot.zone, ZoneAction::Reset) {
                    Ok(()) => {}
                    Err(DiskError::ZoneNotWritable { .. } | DiskError::Offline { .. }) => {
                        slot.used = Use::Lost;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            slot.used = used;
            slot.written = Blocks::ZERO;
            return Ok(Some(slot.zone));
        }
    }

    /// Ends a zone that is written in part, for the drive too.
    pub(super) fn finish(&mut self, disk: &dyn Disk, zone: ZoneId) -> Result<(), DiskError> {
        if let Some(index) = self.index(zone) {
            let slot = &mut self.zones[index];
            if slot.written < slot.range.len {
                disk.manage_zone(zone, ZoneAction::Finish)?;
                slot.written = slot.range.len;
            }
        }
        Ok(())
    }

    /// What is left of a zone being written: where the next block goes, and how much fits.
    pub(super) fn rest(&self, zone: ZoneId) -> (Pba, Blocks) {
        let Some(slot) = self.get(zone) else { return (Pba::new(0), Blocks::ZERO) };
        let next = slot.range.start + slot.written;
        (Pba::new(next.get()), slot.range.len - slot.written)
    }

    /// Notes that so much was written to a zone.
    pub(super) fn advance(&mut self, zone: ZoneId, len: Blocks) {
        if let Some(index) = self.index(zone) {
            self.zones[index].written += len;
        }
    }

    /// Which zone holds a block.
    pub(super) fn zone_of(&self, at: Pba) -> Option<&PoolZone> {
        let behind = self.zones.partition_point(|slot| slot.range.start.get() <= at.get());
        let slot = &self.zones[behind.checked_sub(1)?];
        (at.get() < slot.range.end().get()).then_some(slot)
    }

    /// Whether the drive has what a record says lies at `at`.
    pub(super) fn has(&self, at: Pba, len: Blocks) -> bool {
        let written_to = |slot: &PoolZone| slot.range.start.get() + slot.written.get();
        self.zone_of(at).is_some_and(|slot| at.get() + len.get() <= written_to(slot))
    }
}
