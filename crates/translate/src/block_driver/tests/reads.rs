//! Reads while other threads change the device (K8 of the driver).

use super::*;
use imbrex_clockwork::fan_out;
use std::sync::atomic::{AtomicU64, Ordering};

/// A drive on which something happens between the driver's lookup of the map and its read.
struct Meddled {
    drive: SimDisk,
    meddler: Mutex<Option<Meddler>>,
}

type Meddler = Box<dyn FnMut() + Send>;

impl std::fmt::Debug for Meddled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.drive.fmt(f)
    }
}

impl Meddled {
    fn set(&self, meddler: Option<Meddler>) -> Option<Meddler> {
        std::mem::replace(&mut *self.meddler.lock().unwrap(), meddler)
    }
}

impl DiskLayer for Meddled {
    fn below(&self) -> &dyn Disk {
        &self.drive
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        // The meddler may read too.
        if let Some(mut meddler) = self.set(None) {
            meddler();
            self.set(Some(meddler));
        }
        self.drive.read_batch(requests)
    }

    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        if let Some(mut meddler) = self.set(None) {
            meddler();
            self.set(Some(meddler));
        }
        self.drive.write(at, data, persist)
    }

    fn pass_flush(&self) -> Result<(), DiskError> {
        if let Some(mut meddler) = self.set(None) {
            meddler();
            self.set(Some(meddler));
        }
        self.drive.flush()
    }
}

/// A drive that serves reads once so many wait for it at a time.
#[derive(Debug)]
struct Queueing {
    drive: SimDisk,
    needed_count: Mutex<usize>,
    arrived: std::sync::Condvar,
}

impl DiskLayer for Queueing {
    fn below(&self) -> &dyn Disk {
        &self.drive
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        let mut missing = self.needed_count.lock().unwrap();
        *missing = missing.saturating_sub(1);
        self.arrived.notify_all();
        // The full time passes only if the others never come.
        let patience = std::time::Duration::from_secs(60);
        let (missing, waited) =
            self.arrived.wait_timeout_while(missing, patience, |missing| *missing > 0).unwrap();
        drop(missing);
        match waited.timed_out() {
            true => Err(DiskError::PowerLost),
            false => self.drive.read_batch(requests),
        }
    }
}

/// K8: as many reads of the host wait at the drive at a time as a drive queues, so that it orders them.
#[test]
fn a_drives_queue_of_reads_reaches_the_drive() {
    let (drive, driver) = {
        let drive = SimDisk::builder(zoned(40, 32, 0)).memory().unwrap();
        let (needed_count, arrived) = (Mutex::new(0), std::sync::Condvar::new());
        let drive = Arc::new(Queueing { drive, needed_count, arrived });
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(20));
        (drive, driver.unwrap())
    };
    (0..driver.geometry().len().get()).for_each(|at| write(&driver, at, 0));
    *drive.needed_count.lock().unwrap() = 32;
    let lbas: Vec<u64> = (0..32).map(|n| 3 * n).collect();
    let found = fan_out(32, &lbas, |&at| {
        let mut found = vec![0; BLOCK_LEN_BYTES];
        driver.read(Lba::new(at), &mut found).map(|()| version_of(at, &found))
    });
    assert!(found.iter().all(|found| matches!(found, Ok(0))), "{found:?}");
}

/// Version `version` of a block.
fn block(at: u64, version: u64) -> Vec<u8> {
    [at, version].map(u64::to_le_bytes).concat().repeat(BLOCK_LEN_BYTES / 16)
}

/// Which version of the block `at` this is; it is whole.
fn version_of(at: u64, found: &[u8]) -> u64 {
    let version = u64::from_le_bytes(found[8..16].try_into().unwrap());
    assert!(found == block(at, version), "block {at}: version {version} and something else");
    version
}

/// A device on such a drive, with version 0 in all of its blocks.
fn filled() -> (Arc<Meddled>, Arc<BlockDriver>) {
    let drive =
        SimDisk::builder(zoned(40, 32, 0)).write_cache(Blocks::new(10_000)).memory().unwrap();
    let drive = Arc::new(Meddled { drive, meddler: Mutex::new(None) });
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(20)).unwrap();
    (0..driver.geometry().len().get()).for_each(|at| write(&driver, at, 0));
    (drive, Arc::new(driver))
}

fn write(driver: &BlockDriver, at: u64, version: u64) {
    driver.write(Lba::new(at), &block(at, version), Persist::Cached).unwrap();
}

/// The zone of block 5.
fn zone_of_5(driver: &BlockDriver) -> pool::PoolZone {
    let state = driver.state();
    let at = state.pieces(range(5, 1)).unwrap().into_iter().next().and_then(|piece| piece.at);
    *state.zones.pool.zone_of(at.unwrap()).unwrap()
}

/// While the drive is being flushed for the host, others read and write.
#[test]
fn a_flush_of_the_host_keeps_nobody_waiting() {
    let (drive, driver) = filled();
    let served_count = Arc::new(AtomicU64::new(0));
    let meddler = {
        let (driver, served_count) = (Arc::downgrade(&driver), Arc::clone(&served_count));
        move || {
            let driver = driver.upgrade().unwrap();
            if driver.state.try_lock().is_ok() {
                let mut found = vec![0; BLOCK_LEN_BYTES];
                driver.read(Lba::new(5), &mut found).unwrap();
                write(&driver, 5, version_of(5, &found) + 1);
                served_count.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    write(&driver, 5, 1);
    drive.set(Some(Box::new(meddler)));
    driver.flush().unwrap();
    driver.write(Lba::new(7), &block(7, 1), Persist::Through).unwrap();
    drive.set(None);
    assert_eq!(served_count.load(Ordering::Relaxed), 2);
    // What was written during the first flush is covered by the second.
    drop(driver);
    drive.drive.power_cycle(&mut Prng::new(1)).unwrap();
    let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options(20)).unwrap();
    let mut found = vec![0; 3 * BLOCK_LEN_BYTES];
    driver.read(Lba::new(5), &mut found).unwrap();
    assert!(version_of(5, &found[..BLOCK_LEN_BYTES]) >= 2);
    assert_eq!(version_of(7, &found[2 * BLOCK_LEN_BYTES..]), 1);
}

/// K10: between two steps of a write, another request is served.
#[test]
fn a_write_takes_the_lock_for_a_step_at_a_time() {
    let drive = SimDisk::builder(zoned(60, 64, 0)).memory().unwrap();
    let drive = Arc::new(Meddled { drive, meddler: Mutex::new(None) });
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(100)).unwrap();
    let driver = Arc::new(driver);
    (0..90).for_each(|at| write(&driver, 2 * at, 0));
    // Six blocks too many: each is evicted in a step of its own, with a write to the drive.
    driver.set_buffer_len(Blocks::new(95));
    let steps = Arc::new(AtomicU64::new(0));
    let (asking, asked) = std::sync::mpsc::channel::<u64>();
    let meddler = {
        let (steps, driver) = (Arc::clone(&steps), Arc::downgrade(&driver));
        // The step goes on when the other thread waits for its turn.
        move || {
            let driver = driver.upgrade().unwrap();
            asking.send(steps.fetch_add(1, Ordering::Relaxed) + 1).unwrap();
            while driver.turn.try_lock().is_ok() {
                std::hint::spin_loop();
            }
        }
    };
    drive.set(Some(Box::new(meddler)));
    let asked = Mutex::new(asked);
    let served = fan_out(2, &[true, false], |&is_writer| {
        let mut served = Vec::new();
        if is_writer {
            write(&driver, 1000, 0);
            drop(drive.set(None));
            return served;
        }
        while let Ok(step) = asked.lock().unwrap().recv() {
            let state = driver.state();
            served.push((step, steps.load(Ordering::Relaxed)));
            drop(state);
        }
        served
    });
    assert_eq!(served[1], (1..=6).map(|step| (step, step)).collect::<Vec<_>>());
}

/// Between the lookup and the read, the zone of a block is written with other data: once, or before
/// each attempt.
#[test]
fn a_read_returns_the_zone_that_it_looked_up() {
    for meddled_count in [1_u64, 2, 3, 9] {
        let (drive, driver) = filled();
        let len = driver.geometry().len().get();
        let now = Arc::new(AtomicU64::new(0));
        let held_count = Arc::new(AtomicU64::new(0));
        let meddler = {
            let (driver, now) = (Arc::downgrade(&driver), Arc::clone(&now));
            let (held_count, mut left) = (Arc::clone(&held_count), meddled_count);
            move || {
                let driver = driver.upgrade().unwrap();
                if driver.state.try_lock().is_err() {
                    held_count.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                let before = zone_of_5(&driver);
                let generation = || driver.state().zones.pool.get(before.zone).unwrap().generation;
                let is_same = || generation() == before.generation;
                while left > 0 && is_same() {
                    let version = now.fetch_add(1, Ordering::Relaxed) + 1;
                    (0..len).for_each(|at| write(&driver, at, version));
                }
                left = left.saturating_sub(1);
            }
        };
        drive.set(Some(Box::new(meddler)));
        let mut found = vec![0; BLOCK_LEN_BYTES];
        driver.read(Lba::new(5), &mut found).unwrap();
        drive.set(None);
        // The first lookup was out of date, so the driver repeated it.
        assert_eq!(version_of(5, &found), now.load(Ordering::Relaxed), "{meddled_count} times");
        let is_held = meddled_count >= device::READ_ATTEMPT_COUNT as u64;
        assert_eq!(held_count.load(Ordering::Relaxed), u64::from(is_held), "{meddled_count} times");
    }
}

/// Between the lookup and the read, the block is written elsewhere, and then its zone is given up:
/// the read failed.
#[test]
fn a_read_of_a_zone_given_up_meanwhile_is_repeated() {
    let (drive, driver) = filled();
    let meddler = {
        let (driver, drive) = (Arc::downgrade(&driver), Arc::downgrade(&drive));
        let mut is_over = false;
        move || {
            if std::mem::replace(&mut is_over, true) {
                return;
            }
            let (driver, drive) = (driver.upgrade().unwrap(), drive.upgrade().unwrap());
            let before = zone_of_5(&driver);
            let is_elsewhere = |at: u64| {
                write(&driver, at, 1);
                zone_of_5(&driver).zone != before.zone
            };
            let len = driver.geometry().len().get();
            assert!((5..len).any(is_elsewhere), "it leaves the write buffer");
            let after = driver.state().zones.pool.get(before.zone).unwrap().generation;
            assert_eq!(after, before.generation, "nobody has begun it anew");
            drive.drive.fail_zone(before.zone, ZoneFailure::Offline).unwrap();
        }
    };
    drive.set(Some(Box::new(meddler)));
    let mut found = vec![0; BLOCK_LEN_BYTES];
    driver.read(Lba::new(5), &mut found).unwrap();
    drive.set(None);
    assert_eq!(version_of(5, &found), 1);
}

/// Readers next to a writer that makes the driver evict, clean and reset all the time: each block
/// has one of the versions that it had during the read.
#[test]
fn concurrent_readers_see_whole_versions() {
    const LEN: u64 = 200;
    let drive = Arc::new(SimDisk::builder(zoned(40, 32, 0)).memory().unwrap());
    let options = DriverOptions { kept_summary_count: 1, ..options(20) };
    let driver = BlockDriver::format(drive as Arc<dyn Disk>, &options).unwrap();
    let versions = || (0..LEN).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let (begun, done) = (versions(), versions());
    let write = |at: u64, version: u64| {
        begun[at as usize].store(version, Ordering::SeqCst);
        driver.write(Lba::new(at), &block(at, version), Persist::Cached).unwrap();
        done[at as usize].store(version, Ordering::SeqCst);
    };
    (0..LEN).for_each(|at| write(at, 0));
    let goes_on = AtomicU64::new(1);
    fan_out(4, &[0, 1, 2, 3], |&worker| {
        let mut prng = Prng::new(worker);
        if worker == 0 {
            for version in 1..30_000 {
                write(prng.below(LEN), version);
            }
            goes_on.store(0, Ordering::SeqCst);
        }
        let mut buf = vec![0; 8 * BLOCK_LEN_BYTES];
        while goes_on.load(Ordering::SeqCst) == 1 {
            let first = prng.below(LEN - 7);
            let lbas = first..first + 8;
            let of = |versions: &[AtomicU64]| -> Vec<u64> {
                lbas.clone().map(|at| versions[at as usize].load(Ordering::SeqCst)).collect()
            };
            let least = of(&done);
            driver.read(Lba::new(first), &mut buf).unwrap();
            let most = of(&begun);
            for (index, at) in lbas.clone().enumerate() {
                let found = version_of(at, &buf[index * BLOCK_LEN_BYTES..][..BLOCK_LEN_BYTES]);
                let (least, most) = (least[index], most[index]);
                assert!((least..=most).contains(&found), "{at}: {found} of {least} to {most}");
            }
        }
    });
    assert!(driver.driver_counters().cleaned_zones > 100);
    invariants::check(&driver.state()).unwrap();
}
