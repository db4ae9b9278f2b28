//! Checks that everything on a block device can be read, and reports the use of each zone of its
//! drive.
//!
//! ```text
//!     mapping, zone by zone  -->  read 4 MiB at a time, as the host would
//!                                     | fails
//!                                     v
//!                                 by halves: which blocks
//! ```
//!
//! Every block is judged by its checksum, as in any read. Opening has read superblocks, checkpoint
//! and journal, and has written all of them anew. Blocks of the write buffer that it could not read
//! are lost, and are reported with the others.
//!
//! Not here: repair. Only the host can write again what cannot be read.

use super::device::BlockDriver;
use super::mapping::MapRun;
use super::pool::Use;
use super::regions::Regions;
use super::step::READ_LEN;
use super::zones::SUPERBLOCK_ZONE_COUNT;
use imbrex_disk::{BlockRange, Blocks, Disk, DiskError, ReadRequest, ZoneId, ZoneInfo, ZoneState};
use std::ops::ControlFlow;

/// The result of [`BlockDriver::check_with`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverCheck {
    /// How many of the host's blocks are in data zones; all of them were read.
    pub mapped: Blocks,
    /// How many blocks are in the write buffer, with copies in the journal.
    pub buffered: Blocks,
    /// The ranges that the host cannot read, in order of LBA; no two of them touch.
    pub unreadable: Vec<BlockRange>,
}

/// The use of a zone of the drive below a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceZoneUse {
    /// Superblocks.
    Superblocks,
    /// The journal.
    Journal,
    /// A copy of the checkpoint.
    Checkpoint,
    /// The host's data, or nothing yet.
    Data,
    /// Nothing.
    Unused,
}

/// A zone of the drive below a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceZone {
    /// As the drive reports it.
    pub info: ZoneInfo,
    /// Its use.
    pub used: DeviceZoneUse,
    /// How much of it counts. In a data zone: data that the host would read there, with the
    /// summaries. In a journal zone: data that the write buffer holds. In other zones: what was
    /// written, where the drive reports it.
    pub live: Blocks,
}

impl BlockDriver {
    /// Reads everything on the device. After each piece, `watch` gets the number of blocks read and
    /// their total. If it breaks off the check, there is no result.
    ///
    /// The host may go on meanwhile; blocks that are moved during the check are read by that move.
    /// Cost: reads everything, in the order in which it is stored on the drive; 24 bytes of memory
    /// for each mapping node of a zone.
    ///
    /// # Errors
    /// [`DiskError`], except for blocks that cannot be read: those are the result.
    pub fn check_with(
        &self,
        watch: &mut dyn FnMut(Blocks, Blocks) -> ControlFlow<()>,
    ) -> Result<Option<DriverCheck>, DiskError> {
        let (zones, mapped, mut unreadable, buffered) = {
            let state = self.state();
            let zones: Vec<ZoneId> = state.zones.pool.iter().map(|slot| slot.zone).collect();
            (zones, state.map.mapped(), state.lost.clone(), state.regions.total())
        };
        // With a part of the map on the drive, `mapped` may be too high.
        let mut done = Blocks::ZERO;
        for zone in zones {
            let runs = self.state().runs_in(zone)?;
            let mut pieces = runs.into_iter().flat_map(pieces).peekable();
            while pieces.peek().is_some() {
                let mut batch = Vec::new();
                let mut len = Blocks::ZERO;
                while let Some(piece) = pieces.next_if(|piece| (len + piece.len).get() <= READ_LEN)
                {
                    len += piece.len;
                    batch.push(piece);
                }
                if !self.reads(&batch)? {
                    for piece in batch {
                        self.find_unreadable(piece, &mut unreadable)?;
                    }
                }
                done += len;
                if watch(done, mapped).is_break() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(DriverCheck { mapped: done, buffered, unreadable: unreadable.iter().collect() }))
    }

    /// Whether all of `ranges` can be read.
    fn reads(&self, ranges: &[BlockRange]) -> Result<bool, DiskError> {
        let len: Blocks = ranges.iter().map(|range| range.len).sum();
        let mut bytes = vec![0; len.bytes() as usize];
        let mut rest = &mut bytes[..];
        let mut requests = Vec::new();
        for range in ranges {
            let (buf, behind) = rest.split_at_mut(range.len.bytes() as usize);
            requests.push(ReadRequest { at: range.start, buf });
            rest = behind;
        }
        match self.read_batch(&mut requests) {
            Ok(()) => Ok(true),
            Err(DiskError::Medium { .. } | DiskError::Offline { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Adds the blocks of `range` that cannot be read.
    fn find_unreadable(&self, range: BlockRange, found: &mut Regions) -> Result<(), DiskError> {
        if self.reads(&[range])? {
            return Ok(());
        }
        if range.len == Blocks::new(1) {
            found.insert(range);
            return Ok(());
        }
        let half = Blocks::new(range.len.get() / 2);
        self.find_unreadable(BlockRange::new(range.start, half), found)?;
        self.find_unreadable(BlockRange::new(range.start + half, range.len - half), found)
    }

    /// The use of each zone of the drive.
    pub fn zones(&self) -> Vec<DeviceZone> {
        let state = self.state();
        let is_of_journal =
            |zone: ZoneId| state.journal.zones.iter().any(|journal| journal.zone == zone);
        let zones = self.disk.report_zones().into_iter().map(|info| {
            let zone = info.zone;
            let written = match info.state {
                ZoneState::Full | ZoneState::ReadOnly => info.capacity,
                state => state.write_pointer(info.start).unwrap_or(info.start) - info.start,
            };
            let (used, live) = match state.zones.pool.get(zone) {
                _ if zone.0 < SUPERBLOCK_ZONE_COUNT => (DeviceZoneUse::Superblocks, written),
                _ if is_of_journal(zone) => (DeviceZoneUse::Journal, state.copies.active(zone)),
                Some(slot) if slot.used == Use::Checkpoint => (DeviceZoneUse::Checkpoint, written),
                Some(slot) => {
                    let valid = state.map.valid(zone);
                    let summaries = slot.pointer - slot.written();
                    let live = if valid.is_zero() { valid } else { valid + summaries };
                    (DeviceZoneUse::Data, live)
                }
                None => (DeviceZoneUse::Unused, Blocks::ZERO),
            };
            DeviceZone { info, used, live }
        });
        zones.collect()
    }
}

/// The pieces in which `run` is read.
fn pieces(run: MapRun) -> impl Iterator<Item = BlockRange> {
    (0..run.len.get()).step_by(READ_LEN as usize).map(move |from| {
        let len = Blocks::new((run.len.get() - from).min(READ_LEN));
        BlockRange::new(run.start + Blocks::new(from), len)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{options, places, range, written, zoned};
    use super::*;
    use imbrex_disk::{BLOCK_LEN_BYTES, Lba, Persist};
    use imbrex_disk_sim::SimDisk;
    use std::sync::Arc;

    fn checked(driver: &BlockDriver) -> DriverCheck {
        driver.check_with(&mut |_, _| ControlFlow::Continue(())).unwrap().unwrap()
    }

    #[test]
    fn a_check_finds_exactly_the_unreadable_blocks() {
        let (drive, options, driver) = written(true);
        let sound = checked(&driver);
        let (mapped, buffered) = (sound.mapped.get(), sound.buffered.get());
        assert_eq!((mapped + buffered, sound.unreadable), (320, vec![]));
        assert!(mapped > 300, "{mapped} blocks are in data zones");
        for lba in [3, 4, 200] {
            drive.flip_bit(places(&driver, lba).0, 9).unwrap();
        }
        drive.damage(BlockRange::new(places(&driver, 50).0, Blocks::new(1)));
        let wrong = vec![range(3, 2), range(50, 1), range(200, 1)];
        assert_eq!(checked(&driver).unreadable, wrong);
        drop(driver);
        let driver = BlockDriver::open(drive as Arc<dyn Disk>, &options).unwrap();
        assert_eq!(checked(&driver).unreadable, wrong);
        driver.write(Lba::new(3), &[3; 2 * BLOCK_LEN_BYTES], Persist::Through).unwrap();
        assert_eq!(checked(&driver).unreadable, wrong[1..]);
    }

    /// A block that was in the write buffer and rotted in the journal is in no map.
    #[test]
    fn a_check_reports_losses_of_opening() {
        let (drive, options, driver) = written(false);
        let (held, at) = driver.state().copies.copies_of(range(0, 320)).next().unwrap();
        drop(driver);
        drive.flip_bit(Lba::new(at.start.get()), 5).unwrap();
        let driver = BlockDriver::open(drive as Arc<dyn Disk>, &options).unwrap();
        let found = checked(&driver);
        assert_eq!(found.unreadable, [BlockRange::new(held.start, Blocks::new(1))]);
        assert_eq!(found.buffered, Blocks::new(319));
    }

    #[test]
    fn a_check_can_be_ended_early() {
        let (_, _, driver) = written(true);
        let mut told = Vec::new();
        let stopped = driver.check_with(&mut |done, all| {
            told.push((done, all));
            ControlFlow::Break(())
        });
        assert_eq!(stopped.unwrap(), None);
        let [(done, all)] = told[..] else { panic!("{told:?}") };
        assert!(Blocks::ZERO < done && done <= all, "{done} of {all}");
    }

    #[test]
    fn every_zone_has_its_use() {
        let (drive, _, driver) = written(true);
        let zones = driver.zones();
        let reported: Vec<ZoneInfo> = zones.iter().map(|zone| zone.info).collect();
        assert_eq!(reported, drive.report_zones());
        let count = |used| zones.iter().filter(|zone| zone.used == used).count();
        assert_eq!(count(DeviceZoneUse::Superblocks), 2);
        assert_eq!(count(DeviceZoneUse::Journal), 4);
        assert_eq!(count(DeviceZoneUse::Checkpoint), 2, "two copies");
        let live = |used| {
            let zones = zones.iter().filter(|zone| zone.used == used);
            zones.map(|zone| zone.live.get()).sum::<u64>()
        };
        let sound = checked(&driver);
        let data = live(DeviceZoneUse::Data);
        assert!((sound.mapped.get()..sound.mapped.get() + 8).contains(&data), "{data}");
        assert_eq!(live(DeviceZoneUse::Journal), sound.buffered.get());

        let drive = Arc::new(SimDisk::builder(zoned(60, 200, 4)).memory().unwrap());
        let driver = BlockDriver::format(drive as Arc<dyn Disk>, &options(100)).unwrap();
        let zones = driver.zones();
        assert_eq!(zones[3].used, DeviceZoneUse::Unused, "conventional, behind the superblocks");
    }
}
