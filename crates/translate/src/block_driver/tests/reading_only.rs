//! A device that is open for reading only: it has what an opening to write would have, and its disk
//! gets reads alone.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// A drive that counts what would change it, and refuses it.
#[derive(Debug)]
struct Guarded {
    drive: Arc<SimDisk>,
    change_count: AtomicU64,
}

impl Guarded {
    fn refuse(&self) -> Result<(), DiskError> {
        self.change_count.fetch_add(1, Ordering::Relaxed);
        Err(DiskError::ReadOnly)
    }
}

impl DiskLayer for Guarded {
    fn below(&self) -> &dyn Disk {
        &*self.drive
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.drive.read_batch(requests)
    }

    fn pass_write(&self, _: Lba, _: &[u8], _: Persist) -> Result<(), DiskError> {
        self.refuse()
    }

    fn pass_flush(&self) -> Result<(), DiskError> {
        self.refuse()
    }

    fn pass_discard(&self, _: BlockRange) -> Result<(), DiskError> {
        self.refuse()
    }

    fn pass_work(&self) -> Result<bool, DiskError> {
        self.refuse().map(|()| false)
    }

    fn pass_manage_zone(&self, _: ZoneId, _: ZoneAction) -> Result<(), DiskError> {
        self.refuse()
    }
}

fn guarded(drive: &Arc<SimDisk>) -> Arc<Guarded> {
    Arc::new(Guarded { drive: Arc::clone(drive), change_count: AtomicU64::new(0) })
}

fn content(driver: &BlockDriver) -> Vec<u8> {
    let mut bytes = vec![0xEE; driver.geometry().len().bytes() as usize];
    driver.read(Lba::new(0), &mut bytes).unwrap();
    bytes
}

/// Reads the whole device and asks it for all that it refuses. Returns what it holds.
fn read_whole(drive: &Arc<SimDisk>, options: &DriverOptions) -> Vec<u8> {
    let guarded = guarded(drive);
    let driver = BlockDriver::open_read_only(Arc::clone(&guarded) as _, options).unwrap();
    let before = content(&driver);
    assert!(driver.status().is_read_only);
    assert!(!driver.work().unwrap());
    driver.flush().unwrap();
    let block = [9; BLOCK_LEN_BYTES];
    let refused = [
        driver.write(Lba::new(0), &block, Persist::Cached),
        driver.write(Lba::new(0), &block, Persist::Through),
        driver.write(
            Lba::new(0),
            &block.repeat(options.bypass_len.get() as usize),
            Persist::Cached,
        ),
        driver.discard(range(0, 1)),
        driver.write_zeroes(range(0, 1), Persist::Through),
        driver.checkpoint(),
        driver.clean_step_now().map(drop),
    ];
    for outcome in refused {
        assert!(matches!(outcome, Err(DiskError::ReadOnly)), "{outcome:?}");
    }
    driver.set_buffer_len(Blocks::new(1));
    while driver.work().unwrap() {}
    assert!(!driver.status().is_poisoned, "it was refused, and did not fail");
    assert!(content(&driver) == before);
    drop(driver);
    assert_eq!(guarded.change_count.load(Ordering::Relaxed), 0);
    before
}

/// Devices of many shapes, cut off anywhere, also in the opening before. What a reader finds is what the next opening
/// to write finds.
#[test]
fn a_reader_finds_what_a_writer_would_and_changes_nothing() {
    let mut replayed = 0;
    for seed in 0..24 {
        let mut run = Run::new(seed);
        for round in 0..5 {
            let power_cut_after = Some(run.prng.below(400));
            run.drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            while run.step() {}
            run.driver = None;
            run.drive.power_cycle(&mut run.prng).unwrap();
            if round % 2 == 1 {
                let power_cut_after = Some(run.prng.below(8));
                run.drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
                drop(BlockDriver::open(Arc::clone(&run.drive) as _, &run.options));
                run.drive.power_cycle(&mut run.prng).unwrap();
            }
            run.drive.set_faults(FaultPlan::default());
            let hash = run.drive.image_hash().unwrap();
            let found = read_whole(&run.drive, &run.options);
            assert_eq!(run.drive.image_hash().unwrap(), hash, "{}", run.told);
            run.recover(0);
            assert!(content(run.driver()) == found, "{}", run.told);
            replayed += run.driver().driver_counters().replayed_entries;
        }
    }
    assert!(replayed > 100, "{replayed}");
}

/// A server that was killed, and not the drive: what its drive still has in the cache is read too.
#[test]
fn a_reader_finds_what_a_killed_writer_left() {
    for stream_len in [None, Some(Blocks::new(8))] {
        let drive = SimDisk::builder(zoned(60, 64, 2)).write_cache(Blocks::new(10_000));
        let drive = Arc::new(drive.memory().unwrap());
        let options = DriverOptions { stream_len, ..options(100) };
        let driver = BlockDriver::format(Arc::clone(&drive) as _, &options).unwrap();
        let block = |at: u64| [at as u8 + 1; BLOCK_LEN_BYTES];
        (0..90).for_each(|at| driver.write(Lba::new(at), &block(at), Persist::Cached).unwrap());
        driver.flush().unwrap();
        assert!(stream_len.is_some() || driver.status().buffered == Blocks::new(90), "all of it");
        drop(driver);
        let found = read_whole(&drive, &options);
        for at in 0..90 {
            assert_eq!(
                found[at as usize * BLOCK_LEN_BYTES..][..BLOCK_LEN_BYTES],
                block(at),
                "{at}"
            );
        }
    }
}

/// Filled to the last block: an opening to write would need zones for its checkpoint.
#[test]
fn a_full_device_is_read() {
    let drive = Arc::new(SimDisk::builder(zoned(60, 64, 0)).memory().unwrap());
    let options = options(60);
    let driver = BlockDriver::format(Arc::clone(&drive) as _, &options).unwrap();
    let len = driver.geometry().len().get();
    let one = |at: u64, of: u64| {
        driver.write(Lba::new(at), &[(at + of) as u8; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    };
    (0..len).for_each(|at| one(at, 0));
    (0..len).step_by(3).for_each(|at| one(at, 1));
    driver.flush().unwrap();
    drop(driver);
    let found = read_whole(&drive, &options);
    for at in 0..len {
        let expected = (at + u64::from(at % 3 == 0)) as u8;
        let block = &found[at as usize * BLOCK_LEN_BYTES..][..BLOCK_LEN_BYTES];
        assert!(block.iter().all(|&byte| byte == expected), "block {at}");
    }
}
