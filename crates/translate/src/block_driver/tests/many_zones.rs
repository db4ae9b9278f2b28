//! Drives with so many short zones that a superblock cannot name all zones of a checkpoint.

use super::*;
use imbrex_disk::ZoneId;

#[test]
fn a_drive_with_too_many_short_zones_is_refused() {
    let geometry = zoned_as(400_000, 16, |spec| spec.zone_capacity = Blocks::new(16));
    let drive = Arc::new(SimDisk::builder(geometry).memory().unwrap());
    let error = BlockDriver::format(drive as Arc<dyn Disk>, &options(64)).err().unwrap();
    let DriverError::ZonesTooShort { got, max } = error else { panic!("{error}") };
    assert!(max == 1000 && max < got, "{got}");
}

/// A device on such a drive that an earlier version made.
#[test]
fn a_checkpoint_of_too_many_zones_leaves_the_one_before() {
    let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
    let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options(100)).unwrap();
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(100)).unwrap();
    driver.write(Lba::new(9), &[9; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    let before = driver.state().superblock.clone();
    let refused = driver.change(|state| {
        state.begin_checkpoint()?;
        let writing = state.writing.as_mut().unwrap();
        writing.stored.copies[0] = vec![ZoneId(0); format::CHECKPOINT_ZONE_COUNT_MAX];
        while state.writing.is_some() {
            state.checkpoint_step()?;
        }
        Ok(())
    });
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("the map takes too many zones of the drive"), "{error}");
    assert_eq!(driver.state().superblock, before);
    drop(driver);
    for _ in 0..2 {
        let mut buf = [0; BLOCK_LEN_BYTES];
        open().read(Lba::new(9), &mut buf).unwrap();
        assert_eq!(buf, [9; BLOCK_LEN_BYTES]);
    }
}
