//! Second copies: opening needs no single block (K7 of the driver).

use super::*;

/// A drive after a power cut: some writes, and a checkpoint of which `event_count` requests reached
/// the drive. All writes are durable: block n holds n.
struct Scene {
    drive: Arc<SimDisk>,
    options: DriverOptions,
    was_cut: bool,
    /// Its superblocks, its journal, and the zones that may hold a checkpoint.
    metadata: Vec<BlockRange>,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    conventional_zone_count: u32,
    /// How many zones of superblocks are nearly full. With two, the last checkpoint's superblock
    /// begins one zone anew, and a later recovery the other.
    full_zone_count: usize,
}

const KINDS: [Kind; 5] = [
    Kind { conventional_zone_count: 0, full_zone_count: 0 },
    Kind { conventional_zone_count: 0, full_zone_count: 1 },
    Kind { conventional_zone_count: 0, full_zone_count: 2 },
    Kind { conventional_zone_count: 2, full_zone_count: 0 },
    Kind { conventional_zone_count: 2, full_zone_count: 2 },
];

/// How many blocks a scene writes.
const LEN: u64 = 60;

impl Scene {
    fn new(kind: Kind, event_count: u64) -> Scene {
        let geometry = zoned(40, 32, kind.conventional_zone_count);
        let drive = SimDisk::builder(geometry).write_cache(Blocks::new(10_000)).memory();
        let drive = Arc::new(drive.unwrap());
        let options = options(40);
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let write = |at: u64| {
            driver.write(Lba::new(at), &[at as u8; BLOCK_LEN_BYTES], Persist::Through).unwrap();
        };
        (0..LEN - 1).for_each(write);
        let full_zone_count = || (0..2).filter(|&index| begins_anew(&driver, index)).count();
        while full_zone_count() != kind.full_zone_count {
            driver.checkpoint().unwrap();
        }
        write(LEN - 1);
        assert_eq!(full_zone_count(), kind.full_zone_count);
        let power_cut_after = Some(event_count);
        drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
        let was_cut = !has_power(driver.checkpoint(), "the last checkpoint");
        let metadata = {
            let state = driver.state();
            let is_data =
                |zone: ZoneId| state.zones.pool.get(zone).is_some_and(|slot| slot.generation != 0);
            let zones = drive.report_zones().into_iter().filter(|info| !is_data(info.zone));
            zones.map(|info| BlockRange::new(info.start, info.capacity)).collect()
        };
        drop(driver);
        drive.power_cycle(&mut Prng::new(event_count)).unwrap();
        drive.set_faults(FaultPlan::default());
        Scene { drive, options, was_cut, metadata }
    }

    /// The written blocks of its metadata.
    fn written(&self) -> Vec<Lba> {
        let mut block = [0; BLOCK_LEN_BYTES];
        let all = self.metadata.iter().flat_map(|range| range.start.get()..range.end().get());
        let is_written = |at: &Lba| self.drive.read(*at, &mut block).is_ok() && block != [0; 4096];
        all.map(Lba::new).filter(is_written).collect()
    }

    fn open(&self) -> Result<BlockDriver, DriverError> {
        BlockDriver::open(Arc::clone(&self.drive) as Arc<dyn Disk>, &self.options)
    }

    fn damage(&self, at: Lba, is_readable: bool) {
        if is_readable {
            self.drive.flip_bit(at, at.get() as u32 * 811 % (8 * 4096)).unwrap();
        } else {
            self.drive.damage(BlockRange::new(at, Blocks::new(1)));
        }
    }
}

/// Counts the blocks that cannot be read; all others are right. The block at the very end of the
/// journal is an exception: if it cannot be read, it may have been in transit when the power went,
/// and its previous content counts.
fn unreadable(driver: &BlockDriver) -> usize {
    let mut buf = [0; BLOCK_LEN_BYTES];
    let is_lost = |&at: &u64| match driver.read(Lba::new(at), &mut buf) {
        Ok(()) if at == LEN - 1 && buf == [0; BLOCK_LEN_BYTES] => true,
        Ok(()) => {
            assert_eq!(buf[..8], [at as u8; 8], "block {at}");
            false
        }
        Err(DiskError::Medium { at: told }) if told == Lba::new(at) => true,
        Err(error) => panic!("block {at}: {error}"),
    };
    (0..LEN).filter(is_lost).count()
}

/// The power goes at each moment of a checkpoint: in the first copy, between the copies, in the second, before the
/// superblock, between its copies; and where the superblocks begin their zones anew. Then any block is damaged.
#[test]
fn one_damaged_block_and_a_power_cut_cost_one_block() {
    let mut used_count = 0;
    for kind in KINDS {
        let mut event_counts = 0..;
        loop {
            let event_count = event_counts.next().unwrap();
            let scene = || Scene::new(kind, event_count);
            let told = format!("{kind:?}, cut at {event_count}");
            let Scene { was_cut, .. } = scene();
            // Every third block, others at each cut.
            let blocks = scene().written().into_iter().skip(event_count as usize % 3).step_by(3);
            for at in blocks {
                let scene = scene();
                scene.damage(at, (at.get() + event_count).is_multiple_of(2));
                let driver = scene.open().unwrap_or_else(|error| panic!("{told}, {at}: {error}"));
                let lost_count = unreadable(&driver);
                assert!(lost_count <= 1, "{told}, {at}: {lost_count} blocks are lost");
                used_count += driver.driver_counters().second_copies;
                drop(driver);
                let driver = scene.open().unwrap_or_else(|error| panic!("{told}, {at}: {error}"));
                assert_eq!(driver.driver_counters().second_copies, 0, "{told}, {at}: not mended");
                assert_eq!(unreadable(&driver), lost_count);
            }
            if !was_cut {
                break;
            }
        }
    }
    assert!(used_count > 50, "{used_count} second copies");
}

/// The power goes at each moment of that checkpoint and again during the opening. Then the last
/// superblock of either zone is damaged: the remaining one names structures that still exist.
#[test]
fn a_damaged_superblock_and_two_power_cuts_cost_nothing() {
    for kind in KINDS {
        for (first, second) in (0..12).flat_map(|first| (0..12).map(move |second| (first, second)))
        {
            for index in 0..2 {
                let scene = Scene::new(kind, first);
                let power_cut_after = Some(second);
                scene.drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
                drop(scene.open());
                scene.drive.power_cycle(&mut Prng::new(first + 100 * second)).unwrap();
                scene.drive.set_faults(FaultPlan::default());
                let newest = superblocks::newest(&*scene.drive).unwrap();
                let damaged = newest.zones.slots[index].unwrap().checked_sub(1);
                let start = scene.drive.geometry().zone_range(ZoneId(index as u32)).unwrap().start;
                damaged.into_iter().for_each(|slot| scene.damage(start + Blocks::new(slot), true));
                let told = format!("{kind:?}, cuts at {first} and {second}, {index}");
                let driver = scene.open().unwrap_or_else(|error| panic!("{told}: {error}"));
                assert_eq!(unreadable(&driver), 0, "{told}");
            }
        }
    }
}

/// The places of both copies of the checkpoint, of the newest superblock, and of the first header
/// of the journal.
fn pairs(driver: &BlockDriver) -> [(&'static str, Lba, Lba); 3] {
    let state = driver.state();
    let start = |zone: ZoneId| state.disk.geometry().zone_range(zone).unwrap().start;
    let slot = |index: usize| {
        start(ZoneId(index as u32)) + Blocks::new(state.superblocks.slots[index].unwrap() - 1)
    };
    let [first, second] =
        state.superblock.checkpoint.copies.each_ref().map(|zones| start(zones[0]));
    let entry = state.journal.zones[1].range.start;
    [
        ("superblock", slot(0), slot(1)),
        ("checkpoint", first, second),
        ("journal", entry, entry + Blocks::new(1)),
    ]
}

#[test]
fn either_copy_is_enough_and_neither_is_an_error() {
    for index in 0..3 {
        for damaged in [vec![0], vec![1], vec![0, 1]] {
            let (drive, options, driver) = written(false);
            if index == 0 {
                // Without an earlier one, nothing shows that there was any.
                driver.checkpoint().unwrap();
            }
            let (structure, first, second) = pairs(&driver)[index];
            drop(driver);
            for &copy in &damaged {
                drive.flip_bit([first, second][copy], 300).unwrap();
            }
            let opened = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
            if damaged.len() == 2 {
                let error = opened.err().unwrap().to_string();
                assert!(error.starts_with(&format!("{structure} is damaged: ")), "{error}");
                continue;
            }
            let driver = opened.unwrap_or_else(|error| panic!("{structure} {damaged:?}: {error}"));
            assert_eq!(super::unreadable(&driver), []);
            // Opening does not read the second copies of checkpoint and header while the first ones
            // are whole.
            let is_seen = damaged == [0] || structure == "superblock";
            assert_eq!(driver.driver_counters().second_copies, u64::from(is_seen), "{structure}");
        }
    }
}

/// Two damaged blocks of a checkpoint, one in each copy, are not the same block.
#[test]
fn copies_of_a_checkpoint_complete_each_other() {
    let drive = Arc::new(SimDisk::builder(zoned(60, 200, 2)).memory().unwrap());
    let options = options(400);
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    // Single blocks far apart take much room in the map.
    let count = driver.geometry().len().get() / 2;
    for at in (0..count).rev().map(|at| 2 * at) {
        driver.write(Lba::new(at), &[at as u8; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    }
    driver.checkpoint().unwrap();
    let [_, (_, first, second), _] = pairs(&driver);
    assert!(driver.state().superblock.checkpoint.len_bytes > 2 * 4092);
    drop(driver);
    drive.flip_bit(first, 9).unwrap();
    drive.damage(BlockRange::new(second + Blocks::new(1), Blocks::new(1)));
    let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    assert_eq!(driver.driver_counters().second_copies, 1);
    let mut buf = [0; BLOCK_LEN_BYTES];
    for at in (0..count).map(|at| 2 * at) {
        driver.read(Lba::new(at), &mut buf).unwrap();
        assert_eq!(buf, [at as u8; BLOCK_LEN_BYTES]);
    }
}

/// A zone with one copy of the checkpoint goes offline while the device is closed.
#[test]
fn a_checkpoint_outlives_its_zone() {
    for copy in 0..2 {
        let (drive, options, driver) = written(true);
        driver.checkpoint().unwrap();
        let zone = driver.state().superblock.checkpoint.copies[copy][0];
        drop(driver);
        drive.fail_zone(zone, ZoneFailure::Offline).unwrap();
        let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        assert_eq!(super::unreadable(&driver), []);
    }
}

/// One copy of the newest superblock is enough, however often the zones have begun anew.
#[test]
fn a_rotten_superblock_has_a_twin() {
    for conventional in [0, 2] {
        let drive = Arc::new(SimDisk::builder(zoned(60, 200, conventional)).memory().unwrap());
        let driver =
            BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(100)).unwrap();
        (0..200).for_each(|_| driver.checkpoint().unwrap());
        let newest =
            |driver: &BlockDriver| driver.state().superblocks.slots.map(|next| next.unwrap() - 1);
        let rot = |zone: u64, slot: u64| drive.flip_bit(Lba::new(200 * zone + slot), 700).unwrap();
        rot(0, newest(&driver)[0]);
        drop(driver);
        let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options(100));
        let driver = open().unwrap();
        driver.checkpoint().unwrap();
        let [first, second] = newest(&driver);
        drop(driver);
        rot(0, first);
        rot(1, second);
        let error = open().err().unwrap().to_string();
        assert!(error.starts_with("superblock is damaged: the block after number"), "{error}");
    }
}

/// A power cut left one block of the entry that should have begun a journal zone; the zone was
/// finished, and the block rots. It costs nothing if the journal certainly ends inside another
/// zone.
#[test]
fn rot_in_a_torn_entry_costs_nothing() {
    let (drive, options, driver) = written(false);
    driver.checkpoint().unwrap();
    driver.write(Lba::new(1), &[1; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    let zone = {
        let state = driver.state();
        let mut zones = state.journal.zones.iter();
        *zones.find(|zone| zone.used == journal::JournalUse::Free).unwrap()
    };
    drop(driver);
    drive.manage_zone(zone.zone, ZoneAction::Reset).unwrap();
    drive.write(zone.range.start, &[0xAB; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    drive.manage_zone(zone.zone, ZoneAction::Finish).unwrap();
    let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    assert_eq!(super::unreadable(&driver), []);
}
