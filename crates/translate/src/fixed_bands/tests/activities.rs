//! What requests serve, through the bands to the drive.

use super::*;
use imbrex_disk::Handles;

/// Bytes `(read, written)` that the drive counted for `activity`.
fn counted(drive: &SimDisk, activity: Activity) -> (u64, u64) {
    let own = drive.counters().by_activity[activity];
    (own.read_bytes, own.written_bytes)
}

#[test]
fn the_host_names_its_own_requests_and_rewrites_are_cleaning() {
    let drive = Arc::new(SimDisk::builder(shingled(1_000, 4, 2)).memory().unwrap());
    let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(16)).unwrap();
    let disks = Handles::new(&(Arc::new(bands) as Arc<dyn Disk>));
    let of = |activity| counted(&drive, activity);
    let block = BLOCK_LEN_BYTES as u64;
    let write = |activity, at, len| {
        disks.of(activity).write(Lba::new(at), &blocks(7, len), Persist::Cached).unwrap();
    };
    write(Activity::Log, 0, 4);
    write(Activity::Compaction, 4, 12);
    assert_eq!(of(Activity::Log), (0, 4 * block));
    assert_eq!(of(Activity::Compaction), (0, 12 * block));
    assert_eq!(of(Activity::Cleaning), (0, 0), "appends are no rewrite");
    disks.of(Activity::User).read(Lba::new(2), &mut blocks(0, 3)).unwrap();
    assert_eq!(of(Activity::User), (3 * block, 0));
    // A write below valid data reads the rest of the band, stages it and writes it again.
    write(Activity::Flush, 0, 1);
    let (read, written) = of(Activity::Cleaning);
    assert!(read >= 15 * block && written >= 16 * block, "{read} and {written} bytes");
    assert_eq!(of(Activity::Flush), (0, 0), "the host's block is part of the rewrite");
    disks.of(Activity::Log).flush().unwrap();
    assert!(of(Activity::Catalog).1 > 0, "the journal");
    let all = drive.counters();
    let sums = all.by_activity.iter().map(|(_, own)| (own.read_bytes, own.written_bytes));
    let sum = sums.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
    assert_eq!(sum, (all.read_bytes, all.written_bytes));
}
