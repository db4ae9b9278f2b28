//! A map that is longer than its memory.

use super::*;
use imbrex_disk_sim::FailAt;

/// Every other block is written, so that each is a node.
const LEN: u64 = 6_000;

fn device(map_memory_bytes: u64) -> (Arc<SimDisk>, DriverOptions) {
    long_device(120, map_memory_bytes)
}

fn long_device(zone_count: u64, map_memory_bytes: u64) -> (Arc<SimDisk>, DriverOptions) {
    let drive = Arc::new(SimDisk::builder(zoned(zone_count, 128, 0)).memory().unwrap());
    (drive, DriverOptions { map_memory_bytes, bypass_len: Blocks::new(200), ..options(60) })
}

fn open(drive: &Arc<SimDisk>, options: &DriverOptions) -> BlockDriver {
    BlockDriver::open(Arc::clone(drive) as Arc<dyn Disk>, options).unwrap()
}

fn write(driver: &BlockDriver, at: u64, version: u64) {
    let block = [at, version].map(u64::to_le_bytes).concat().repeat(BLOCK_LEN_BYTES / 16);
    driver.write(Lba::new(at), &block, Persist::Cached).unwrap();
}

/// The version of a block; 0 if it is blank.
fn version(driver: &BlockDriver, at: u64) -> Result<u64, DiskError> {
    let mut found = vec![0; BLOCK_LEN_BYTES];
    driver.read(Lba::new(at), &mut found)?;
    let word = |index: usize| u64::from_le_bytes(found[8 * index..][..8].try_into().unwrap());
    assert!(word(0) == at || word(1) == 0, "block {at} has the content of {}", word(0));
    Ok(word(1))
}

fn check(driver: &BlockDriver, versions: &[u64]) {
    for (at, &wanted) in (0..).zip(versions) {
        assert_eq!(version(driver, at).unwrap(), wanted, "block {at}");
    }
    invariants::check(&driver.state()).unwrap();
}

/// Fills the device with single blocks, and writes and trims some of them again.
fn filled(driver: &BlockDriver) -> Vec<u64> {
    filled_to(driver, LEN)
}

fn filled_to(driver: &BlockDriver, len: u64) -> Vec<u64> {
    let mut versions = vec![0; driver.geometry().len().get() as usize];
    for at in (0..len).step_by(2) {
        versions[at as usize] = 1;
        write(driver, at, 1);
    }
    let mut prng = Prng::new(1);
    for round in 2..2_000 {
        let at = prng.below(LEN);
        let is_trim = prng.chance(1, 8);
        versions[at as usize] = if is_trim { 0 } else { round };
        match is_trim {
            true => driver.discard(range(at, 1)).unwrap(),
            false => write(driver, at, round),
        }
    }
    driver.flush().unwrap();
    versions
}

#[test]
fn a_long_map_takes_little_memory() {
    let (drive, options) = device(0);
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let versions = filled(&driver);
    check(&driver, &versions);
    let bounded = driver.driver_counters();
    assert!(bounded.mapping_nodes_on_drive > 2_000, "{bounded:?}");
    let unbounded = DriverOptions { map_memory_bytes: u64::MAX, ..options };
    drop(driver);
    let driver = open(&drive, &unbounded);
    check(&driver, &versions);
    let whole = driver.driver_counters();
    assert_eq!(whole.mapping_nodes_on_drive, 0);
    assert!(whole.mapping_nodes <= bounded.mapping_nodes, "{whole:?}");
    let newest_bytes = driver.state().map.newest().node_bytes();
    assert!(newest_bytes > 100_000, "{newest_bytes} bytes, some 36 for each node");
    drop(driver);
    // A device that grew on a large host opens on a small one.
    let driver = open(&drive, &DriverOptions { map_memory_bytes: 0, ..unbounded });
    check(&driver, &versions);
    let state = driver.state();
    assert!(state.map.has_base() && state.map.newest().node_bytes() < 4_000);
}

/// What was written twice is dead at once in a map in memory, and by the next base in this one.
#[test]
fn the_next_base_finds_what_died_unnoticed() {
    let (drive, options) = device(0);
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    drop(filled(&driver));
    let len = driver.geometry().len();
    driver.checkpoint().unwrap();
    driver.discard(BlockRange::new(Lba::new(0), len)).unwrap();
    let before = driver.state().map.mapped();
    assert!(before > Blocks::new(2_000), "{before} blocks may be mapped");
    driver.change(DriverState::base_now).unwrap();
    assert_eq!(driver.state().map.mapped(), Blocks::ZERO);
    check(&driver, &vec![0; len.get() as usize]);
    driver.change(DriverState::reclaim).unwrap();
    let free = driver.driver_counters().free_zones;
    assert!(free > 105, "{free} zones are free");
    drop(driver);
    check(&open(&drive, &options), &vec![0; len.get() as usize]);
}

/// A device filled to its last block takes overwrites for as long as it lives.
#[test]
fn a_full_device_is_cleaned() {
    for map_memory_bytes in [0, 16 << 10] {
        let drive = Arc::new(SimDisk::builder(zoned(60, 64, 3)).memory().unwrap());
        let options = DriverOptions { map_memory_bytes, ..options(40) };
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let len = driver.geometry().len().get();
        let mut versions = vec![1; len as usize];
        (0..len).for_each(|at| write(&driver, at, 1));
        let mut prng = Prng::new(3);
        for round in 2..5 * len {
            let at = prng.below(len);
            versions[at as usize] = round;
            write(&driver, at, round);
        }
        driver.flush().unwrap();
        check(&driver, &versions);
        let counters = driver.driver_counters();
        assert!(counters.cleanings > 50, "{counters:?}");
        drop(driver);
        check(&open(&drive, &options), &versions);
    }
}

/// The blocks of the drive with the runs of the base, in one copy.
fn blocks_of_map(driver: &BlockDriver, copy: usize) -> Vec<Lba> {
    let state = driver.state();
    let zones = &state.superblock.checkpoint.copies[copy];
    let slots = zones.iter().filter_map(|&zone| state.zones.pool.get(zone));
    let len = checkpoint_format::checkpoint_len(state.superblock.checkpoint.len_bytes).get();
    let blocks =
        slots.flat_map(|slot| (0..slot.capacity.get()).map(|at| slot.start + Blocks::new(at)));
    blocks.take(len as usize).collect()
}

/// With one copy rotten, everything is read from the other. With both, reads of the blocks whose nodes
/// are gone report it, and all others are there.
#[test]
fn a_rotten_part_of_the_map_loses_its_blocks_only() {
    for copy_count in [1, 2] {
        let (drive, options) = long_device(400, 0);
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let versions = filled_to(&driver, 4 * LEN);
        driver.change(DriverState::base_now).unwrap();
        for copy in 0..copy_count {
            let blocks = blocks_of_map(&driver, copy);
            // Not the first block: it has the fields. Not the last: it has what follows the map.
            assert!(blocks.len() > 10, "{} blocks", blocks.len());
            drive.flip_bit(blocks[5], 77).unwrap();
        }
        let found = |driver: &BlockDriver| -> Vec<bool> {
            let read = |(at, &wanted): (u64, &u64)| match version(driver, at) {
                Ok(found) => {
                    assert_eq!(found, wanted, "block {at}");
                    true
                }
                Err(DiskError::Medium { at: told }) => {
                    assert_eq!(told, Lba::new(at));
                    false
                }
                Err(error) => panic!("{error}"),
            };
            (0..).zip(&versions).map(read).collect()
        };
        let before = found(&driver);
        let lost_count = before.iter().filter(|&&is_there| !is_there).count();
        assert_eq!(lost_count > 0, copy_count == 2, "{lost_count} blocks are lost");
        assert!(lost_count < versions.len() / 2);
        // The next base has the loss from the moment on at which it counts: the power may go right then.
        driver.change(DriverState::base_now).unwrap();
        assert_eq!(found(&driver), before);
        drop(driver);
        let driver = open(&drive, &options);
        assert_eq!(found(&driver), before);
        assert_eq!(driver.driver_counters().lost_blocks, lost_count as u64);
        // A block that is written again is there again.
        for (at, _) in (0..).zip(&before).filter(|(_, is_there)| !**is_there) {
            write(&driver, at, 9_999);
            assert_eq!(version(&driver, at).unwrap(), 9_999);
        }
        driver.flush().unwrap();
        assert_eq!(driver.driver_counters().lost_blocks, 0);
        invariants::check(&driver.state()).unwrap();
    }
}

/// The drive gives up a zone with a copy of the map.
#[test]
fn a_map_survives_its_zone() {
    for failure in [ZoneFailure::Offline, ZoneFailure::ReadOnly] {
        for copy in 0..2 {
            let (drive, options) = device(0);
            let driver =
                BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
            let mut versions = filled(&driver);
            let zone = driver.state().superblock.checkpoint.copies[copy][0];
            drive.fail_zone(zone, failure).unwrap();
            check(&driver, &versions);
            for (at, version) in (0..).zip(versions.iter_mut()).skip(100).take(900) {
                *version = 9_000;
                write(&driver, at, 9_000);
            }
            driver.flush().unwrap();
            check(&driver, &versions);
            drop(driver);
            check(&open(&drive, &options), &versions);
        }
    }
}

/// What is written or unmapped after a part of the map rotted is not lost with it.
#[test]
fn a_rotten_part_of_the_map_takes_nothing_newer() {
    let (drive, options) = long_device(400, 0);
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let mut versions = filled_to(&driver, 4 * LEN);
    driver.change(DriverState::base_now).unwrap();
    for copy in 0..2 {
        drive.flip_bit(blocks_of_map(&driver, copy)[5], 77).unwrap();
    }
    let is_lost = |&at: &u64| version(&driver, at).is_err();
    let lost: Vec<u64> = (0..4 * LEN).filter(is_lost).collect();
    let (written, unmapped) = (lost[10], lost[20]);
    write(&driver, written, 9_999);
    driver.discard(range(unmapped, 1)).unwrap();
    (versions[written as usize], versions[unmapped as usize]) = (9_999, 0);
    driver.change(DriverState::base_now).unwrap();
    driver.flush().unwrap();
    drop(driver);
    let driver = open(&drive, &options);
    for at in (0..4 * LEN).filter(|at| !lost.contains(at)).chain([written, unmapped]) {
        assert_eq!(version(&driver, at).unwrap(), versions[at as usize], "block {at}");
    }
    assert_eq!(driver.driver_counters().lost_blocks, lost.len() as u64 - 2);
}

/// Only a failed read of the map is tried again. A checkpoint whose flush fails stops the device, as
/// any other flush does.
#[test]
fn a_failed_flush_of_a_base_is_no_failed_read() {
    let (drive, options) = device(0);
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    drop(filled(&driver));
    driver.flush().unwrap();
    driver.change(DriverState::begin_whole).unwrap();
    let fail_flush = Some(FailAt { after: 0, sticky: false });
    drive.set_faults(FaultPlan { fail_flush, ..FaultPlan::default() });
    let failed = (0..1_000).find_map(|_| driver.work().err());
    assert!(matches!(failed, Some(DiskError::Host { .. })), "{failed:?}");
    assert!(driver.status().is_poisoned);
}

/// A base that cannot be read is given up and begun again, and the next flush is as good as any.
#[test]
fn a_failed_read_of_a_merge_is_tried_again() {
    let (drive, options) = device(0);
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let versions = filled(&driver);
    driver.change(DriverState::base_now).unwrap();
    let fail_read = Some(FailAt { after: 0, sticky: true });
    drive.set_faults(FaultPlan { fail_read, ..FaultPlan::default() });
    driver.change(DriverState::begin_whole).unwrap();
    driver.work().unwrap();
    assert!(driver.state().writing.is_none());
    drive.set_faults(FaultPlan::default());
    driver.flush().unwrap();
    assert!(!driver.status().is_poisoned);
    check(&driver, &versions);
    drop(driver);
    check(&open(&drive, &options), &versions);
}

/// A read of the map that fails without the medium being at fault fails the host's read, once.
#[test]
fn a_failed_read_of_the_map_stops_nothing() {
    let (drive, options) = device(0);
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let versions = filled(&driver);
    driver.change(DriverState::base_now).unwrap();
    drive.set_faults(FaultPlan {
        fail_read: Some(FailAt { after: 0, sticky: false }),
        ..FaultPlan::default()
    });
    let found = version(&driver, 0);
    assert!(matches!(found, Err(DiskError::Host { .. })), "{found:?}");
    drive.set_faults(FaultPlan::default());
    check(&driver, &versions);
    assert!(!driver.status().is_poisoned);
}

/// Reads that need more of the map than its cache holds.
#[test]
fn a_long_read_goes_through_the_map() {
    let (drive, options) = device(0);
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let versions = filled(&driver);
    drop(driver);
    let driver = open(&drive, &options);
    let mut all = vec![0xEE; Blocks::new(LEN).bytes() as usize];
    driver.read(Lba::new(0), &mut all).unwrap();
    for (at, block) in (0..).zip(all.chunks_exact(BLOCK_LEN_BYTES)) {
        let found = u64::from_le_bytes(block[8..16].try_into().unwrap());
        assert_eq!(found, versions[at as usize], "block {at}");
    }
    let (mut at, mut blank) = (0, 0);
    while at < LEN {
        let (known, len) = driver.known(range(at, LEN - at));
        assert!(!len.is_zero());
        if known == Known::Unwritten {
            blank += len.get();
            assert!(versions[at as usize..][..len.get() as usize].iter().all(|&v| v == 0));
        }
        at += len.get();
    }
    let unwritten = versions[..LEN as usize].iter().filter(|&&version| version == 0).count();
    assert_eq!(blank, unwritten as u64);
}
