//! Checkpoints of what changed.

use super::*;

/// Every other block is written, so that each is a node.
const LEN: u64 = 4000;

fn device(delta_from_bytes: u64) -> (Arc<SimDisk>, DriverOptions, BlockDriver) {
    let drive = Arc::new(SimDisk::builder(zoned(80, 128, 0)).memory().unwrap());
    let options = DriverOptions { delta_from_bytes, ..options(20) };
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    // A map of many nodes, so that changes are short beside it.
    for at in (0..LEN).step_by(2) {
        write(&driver, at, 1);
    }
    driver.checkpoint().unwrap();
    drop(driver);
    let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    (drive, options, driver)
}

fn first_versions() -> Vec<u64> {
    (0..LEN).map(|at| 1 - at % 2).collect()
}

fn block(at: u64, version: u64) -> Vec<u8> {
    [at, version].map(u64::to_le_bytes).concat().repeat(BLOCK_LEN_BYTES / 16)
}

fn write(driver: &BlockDriver, at: u64, version: u64) {
    driver.write(Lba::new(at), &block(at, version), Persist::Cached).unwrap();
}

/// Checks that each block has its version; 0 is blank.
fn check(driver: &BlockDriver, versions: &[u64]) {
    for (at, &version) in (0..).zip(versions) {
        let mut found = vec![0; BLOCK_LEN_BYTES];
        driver.read(Lba::new(at), &mut found).unwrap();
        let wanted = if version == 0 { vec![0; BLOCK_LEN_BYTES] } else { block(at, version) };
        assert!(found == wanted, "block {at} is not of version {version}");
    }
}

/// Writes, trims and evicts some blocks, with a checkpoint after each few.
fn change(driver: &BlockDriver, versions: &mut [u64], rounds: u64) {
    let mut prng = Prng::new(rounds);
    for round in 0..rounds {
        for _ in 0..4 {
            let at = prng.below(LEN);
            let is_trim = prng.chance(1, 4);
            versions[at as usize] = if is_trim { 0 } else { 2 + round };
            match is_trim {
                true => driver.discard(range(at, 1)).unwrap(),
                false => write(driver, at, 2 + round),
            }
        }
        driver.checkpoint().unwrap();
    }
}

#[test]
fn deltas_and_their_base_give_the_map() {
    let (drive, options, driver) = device(1);
    let mut versions = first_versions();
    change(&driver, &mut versions, 5);
    let counters = driver.driver_counters();
    assert_eq!(counters.checkpoints - counters.delta_checkpoints, 1, "the one of the opening");
    assert!(counters.delta_checkpoints >= 5, "{counters:?}");
    let blocks = counters.checkpoint_blocks;
    let base_len =
        checkpoint_format::checkpoint_len(driver.state().superblock.checkpoint.len_bytes).get();
    assert!(blocks >= 2 * base_len + 5 * 4, "{blocks} blocks");
    drop(driver);
    for _ in 0..2 {
        let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        check(&driver, &versions);
        assert!(!driver.state().has_deltas(), "opening ends with a base");
    }
}

#[test]
fn a_base_follows_when_the_deltas_are_long() {
    let (drive, options, driver) = device(1);
    let mut versions = first_versions();
    change(&driver, &mut versions, 200);
    let counters = driver.driver_counters();
    let bases = counters.checkpoints - counters.delta_checkpoints;
    assert!(2 < bases && bases < 150, "{bases} of {} are bases", counters.checkpoints);
    let deltas = driver.state().superblock.checkpoint.deltas.clone();
    assert!(deltas.copies.iter().all(|zones| zones.len() <= 2), "{deltas:?}");
    drop(driver);
    check(&BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap(), &versions);
}

#[test]
fn a_short_map_is_written_whole() {
    let (_, _, driver) = device(4 << 20);
    change(&driver, &mut first_versions(), 5);
    assert_eq!(driver.driver_counters().delta_checkpoints, 0);
}

/// K7, for each block of the deltas.
#[test]
fn a_delta_is_read_from_either_copy() {
    let deltas_of = |driver: &BlockDriver| driver.state().superblock.checkpoint.deltas.clone();
    let (_, _, driver) = device(1);
    change(&driver, &mut first_versions(), 3);
    let count = deltas_of(&driver).len;
    assert!(count >= 3, "{count} blocks");
    for index in 0..count {
        for copies in [vec![0], vec![1], vec![0, 1]] {
            let (drive, options, driver) = device(1);
            let mut versions = first_versions();
            change(&driver, &mut versions, 3);
            let deltas = deltas_of(&driver);
            drop(driver);
            for &copy in &copies {
                let zone: &ZoneId = deltas.copies[copy].first().unwrap();
                let start = drive.geometry().zone_range(*zone).unwrap().start;
                drive.flip_bit(start + Blocks::new(index), 9).unwrap();
            }
            let opened = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
            if copies.len() == 2 {
                let refused = opened.unwrap_err().to_string();
                assert!(refused.contains("checkpoint"), "{refused}");
                continue;
            }
            let driver = opened.unwrap();
            let second_copies = driver.driver_counters().second_copies;
            assert_eq!(second_copies, u64::from(copies == [0]), "block {index}");
            check(&driver, &versions);
        }
    }
}

/// A drive may give up the zone that the next delta would go on in.
#[test]
fn a_lost_zone_of_deltas_costs_nothing() {
    for failure in [ZoneFailure::ReadOnly, ZoneFailure::Offline] {
        for copy in [0, 1] {
            let (drive, options, driver) = device(1);
            let mut versions = first_versions();
            change(&driver, &mut versions, 2);
            let deltas = driver.state().superblock.checkpoint.deltas.clone();
            drive.fail_zone(*deltas.copies[copy].last().unwrap(), failure).unwrap();
            let told = format!("{failure:?}, copy {copy}");
            let before = driver.driver_counters();
            change(&driver, &mut versions, 3);
            let now = driver.driver_counters();
            assert!(now.checkpoints > before.checkpoints, "{told}: {now:?}");
            check(&driver, &versions);
            drop(driver);
            let reopened = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
            check(&reopened.unwrap_or_else(|error| panic!("{told}: {error}")), &versions);
        }
    }
}

/// The zones of deltas are no reason to refuse a write.
#[test]
fn a_device_without_room_gives_up_its_deltas() {
    let drive = Arc::new(SimDisk::builder(zoned(40, 32, 0)).memory().unwrap());
    let options = DriverOptions { delta_from_bytes: 1, spare_percent: 1, ..options(20) };
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let len = driver.geometry().len().get();
    let mut prng = Prng::new(7);
    let mut versions = vec![0; len as usize];
    for at in 0..len {
        versions[at as usize] = 1;
        write(&driver, at, 1);
    }
    for round in 0..6 * len {
        let at = prng.below(len);
        versions[at as usize] = 2 + round;
        write(&driver, at, 2 + round);
        if prng.chance(1, 50) {
            driver.checkpoint().unwrap();
        }
    }
    assert!(driver.driver_counters().delta_checkpoints > 10);
    driver.flush().unwrap();
    drop(driver);
    check(&BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap(), &versions);
}
