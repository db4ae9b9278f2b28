//! What others made: a host that writes what looks like a superblock.

use super::*;
use format::Superblock;

/// A device whose host wrote a superblock, twice, which now lies at the start of a data zone and nothing behind it.
fn forged(forge: impl FnOnce(&mut Superblock)) -> (Arc<SimDisk>, Driver, Vec<u8>) {
    let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
    let driver = Driver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(100)).unwrap();
    let mut superblock = driver.state().superblock.clone();
    forge(&mut superblock);
    let data = superblock.encode().repeat(2);
    driver.write(Lba::new(500), &data, Persist::Cached).unwrap();
    driver.set_buffer_len(Blocks::new(1));
    while driver.work().unwrap() {}
    driver.set_buffer_len(Blocks::new(100));
    driver.write(Lba::new(7), &[7; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    driver.flush().unwrap();
    let zone = driver.state().open[0].unwrap();
    let info = drive.zone(zone).unwrap();
    assert_eq!(info.state.write_pointer(info.start), Some(info.start + Blocks::new(2)));
    (drive, driver, data)
}

fn check_forged(drive: &Arc<SimDisk>, data: &[u8], told: &str) {
    for _ in 0..3 {
        let opened = Driver::open(Arc::clone(drive) as Arc<dyn Disk>, &options(100));
        let driver = opened.unwrap_or_else(|error| panic!("{told}: {error}"));
        let mut buf = vec![0; 2 * BLOCK_LEN_BYTES];
        driver.read(Lba::new(500), &mut buf).unwrap();
        assert!(buf == data, "{told}");
        driver.read(Lba::new(7), &mut buf[..BLOCK_LEN_BYTES]).unwrap();
        assert_eq!(buf[..BLOCK_LEN_BYTES], [7; BLOCK_LEN_BYTES], "{told}");
    }
}

fn another_device(superblock: &mut Superblock) {
    (superblock.id, superblock.number) = (99, 7_000);
    superblock.zone_count = 13;
}

/// It differs from the true one as little as a host can know.
fn a_newer_one(superblock: &mut Superblock) {
    (superblock.id, superblock.number) = (99, 7_000);
}

#[test]
fn a_superblock_that_the_host_wrote_stands_in_for_none() {
    for forge in [another_device, a_newer_one] {
        for failure in [ZoneFailure::Offline, ZoneFailure::ReadOnly] {
            for dead in 0..2 {
                let (drive, driver, data) = forged(forge);
                drop(driver);
                drive.fail_zone(ZoneId(dead), failure).unwrap();
                check_forged(&drive, &data, &format!("zone {dead} is {failure:?}"));
            }
        }
    }
}

/// The same while the last zone of superblocks is blank, and a true one stands in for it.
#[test]
fn a_true_stand_in_is_told_from_a_forged_one() {
    for forge in [another_device, a_newer_one] {
        let (drive, driver, data) = forged(forge);
        let (superblock, free) = {
            let state = driver.state();
            let free = state.pool.iter().filter(|slot| slot.used == pool::Use::Free);
            (state.superblock.encode(), free.last().unwrap().start)
        };
        drop(driver);
        drive.fail_zone(ZoneId(0), ZoneFailure::Offline).unwrap();
        drive.write(free, &superblock.repeat(2), Persist::Through).unwrap();
        drive.manage_zone(ZoneId(1), ZoneAction::Reset).unwrap();
        check_forged(&drive, &data, "blank");
    }
}
