//! What the driver's own requests and those of its host serve.

use super::*;
use imbrex_disk::Activity;

#[test]
fn each_part_of_the_driver_names_its_activity() {
    let drive = Arc::new(SimDisk::builder(zoned(40, 32, 0)).memory().unwrap());
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(20)).unwrap();
    let len = driver.geometry().len().get();
    let formatted = drive.counters();
    let of = |activity| (drive.counters() - formatted).by_activity[activity];
    let block = BLOCK_LEN_BYTES as u64;
    let write = |at: u64| {
        driver.write(Lba::new(at), &[7; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    };
    (0..len).for_each(write);
    driver.flush().unwrap();
    // All but the buffer's blocks were evicted, and all were journaled or evicted.
    assert!(of(Activity::Flush).written_bytes >= (len - 20) * block);
    assert!(of(Activity::Log).written_bytes > 0 && of(Activity::Log).read_bytes == 0);
    assert_eq!(of(Activity::User).read_bytes, 0);
    driver.read(Lba::new(0), &mut [0; BLOCK_LEN_BYTES]).unwrap();
    assert_eq!(of(Activity::User).read_bytes, block);
    // Overwrites in no order leave zones half dead, which cleaning empties.
    (0..4 * len).for_each(|n| write(n * 7919 % len));
    let cleaning = of(Activity::Cleaning);
    assert!(cleaning.read_bytes > 0 && cleaning.written_bytes > 0, "{cleaning:?}");
    let moved = driver.driver_counters().moved_blocks;
    assert!(cleaning.written_bytes >= moved * block, "{cleaning:?} for {moved} blocks");
    driver.checkpoint().unwrap();
    assert!(of(Activity::Catalog).written_bytes > 0, "checkpoints and superblocks");
    let all = drive.counters();
    let sum = all.by_activity.iter().map(|(_, own)| own.written_bytes).sum::<u64>();
    assert_eq!(sum, all.written_bytes);
}
