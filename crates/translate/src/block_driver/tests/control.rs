//! The status of a running device, and a cleaning that somebody asked for.

use super::*;

/// Zones of 64 blocks, written and then half of it again: every zone has garbage.
fn half_rewritten(drive: &Arc<SimDisk>) -> BlockDriver {
    let driver = BlockDriver::format(Arc::clone(drive) as Arc<dyn Disk>, &options(120)).unwrap();
    let len = driver.geometry().len().get();
    let one = |at: u64, byte: u8| {
        driver.write(Lba::new(at), &[byte; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    };
    (0..len / 2).for_each(|at| one(at, 1));
    (0..len / 2).step_by(2).for_each(|at| one(at, 2));
    driver.set_buffer_len(Blocks::new(1));
    while driver.work().unwrap() {}
    driver
}

#[test]
fn a_cleaning_on_request_gains_zones_and_loses_nothing() {
    let drive = Arc::new(SimDisk::builder(zoned(80, 64, 0)).memory().unwrap());
    let driver = half_rewritten(&drive);
    let (before, cleaned) = (driver.status(), driver.driver_counters().cleaned_zones);
    assert_eq!(before.cleaning_zone_count, 0, "much is free, so nothing is cleaned by itself");
    let mut seen_running = false;
    for _ in 0..6 {
        while driver.clean_step_now().unwrap() {
            seen_running |= driver.status().cleaning_zone_count > 0;
        }
    }
    let after = driver.status();
    assert!(cleaned < driver.driver_counters().cleaned_zones);
    assert!(before.free_zone_count < after.free_zone_count, "{before:?} {after:?}");
    assert!(!seen_running || after.cleaning_left.is_zero());
    drop(driver);
    let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options(120)).unwrap();
    let mut block = [0; BLOCK_LEN_BYTES];
    for at in 0..driver.geometry().len().get() / 2 {
        driver.read(Lba::new(at), &mut block).unwrap();
        assert_eq!(block[0], if at % 2 == 0 { 2 } else { 1 }, "block {at}");
    }
}

#[test]
fn a_device_without_garbage_has_nothing_to_clean() {
    let drive = Arc::new(SimDisk::builder(zoned(40, 64, 0)).memory().unwrap());
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(60)).unwrap();
    assert!(!driver.clean_step_now().unwrap());
    assert_eq!(driver.driver_counters().cleanings, 0);
}

/// The buffer shrinks as far as asked while the device works, and the journal empties with it.
#[test]
fn the_status_follows_the_buffer() {
    let drive = Arc::new(SimDisk::builder(zoned(40, 64, 0)).memory().unwrap());
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(60)).unwrap();
    let block = [1; BLOCK_LEN_BYTES];
    (0..50).for_each(|at| driver.write(Lba::new(3 * at), &block, Persist::Cached).unwrap());
    driver.flush().unwrap();
    let full = driver.status();
    assert_eq!((full.buffer_len, full.buffered), (Blocks::new(60), Blocks::new(50)));
    assert_eq!((full.journal_zone_count, full.active_journal_len), (4, Blocks::new(50)));
    driver.set_buffer_len(Blocks::new(10));
    while driver.work().unwrap() {}
    let less = driver.status();
    assert_eq!(less.buffer_len, Blocks::new(10));
    assert!(less.buffered <= Blocks::new(9), "nine tenths: {less:?}");
    assert_eq!(less.active_journal_len, less.buffered);
}

/// Each block that reaches the drive is in one of the counters.
#[test]
fn the_counters_count_all_that_the_drive_writes() {
    let drive = Arc::new(SimDisk::builder(zoned(80, 64, 0)).memory().unwrap());
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(120)).unwrap();
    let blocks = || drive.counters().written_bytes / BLOCK_LEN_BYTES as u64;
    let (before, counted_before) = (blocks(), driver.driver_counters().written_blocks());
    let len = driver.geometry().len().get();
    let mut prng = Prng::new(3);
    let data = vec![1; 50 * BLOCK_LEN_BYTES];
    for number in 0..4 * len / 5 {
        let count = [1, 5, 50][prng.below(3) as usize];
        let at = Lba::new(prng.below(len - 50));
        driver.write(at, &data[..count * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        if number % 100 == 0 {
            driver.flush().unwrap();
        }
    }
    driver.checkpoint().unwrap();
    let counters = driver.driver_counters();
    assert!(counters.cleanings > 0 && counters.bypassed_blocks > 0, "{counters:?}");
    assert!(counters.journal_evicted_blocks > 0, "{counters:?}");
    assert_eq!(counters.written_blocks() - counted_before, blocks() - before, "{counters:?}");
}
