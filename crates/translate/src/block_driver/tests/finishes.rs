//! Finishing a zone: the data written to it is already durable, and if the drive has given the zone
//! up since, nothing is lost.

use super::*;
use pool::Use;
use std::collections::BTreeSet;

/// A drive that gives up the next zone that is to be finished, and records the zones that were
/// finished too early.
#[derive(Debug)]
struct Finishing {
    drive: SimDisk,
    log: Mutex<FinishLog>,
}

#[derive(Debug, Default)]
struct FinishLog {
    /// How many zones are finished before one is given up, and how.
    failure: Option<(u64, ZoneFailure)>,
    /// Zones that were written since the last flush.
    unflushed: BTreeSet<ZoneId>,
    finished: Vec<ZoneId>,
    finished_early: Vec<ZoneId>,
}

impl Finishing {
    fn new() -> Arc<Finishing> {
        let drive = SimDisk::builder(zoned(60, 200, 0)).memory().unwrap();
        Arc::new(Finishing { drive, log: Mutex::default() })
    }

    fn log(&self) -> MutexGuard<'_, FinishLog> {
        self.log.lock().unwrap()
    }
}

impl DiskLayer for Finishing {
    fn below(&self) -> &dyn Disk {
        &self.drive
    }

    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        if persist == Persist::Cached {
            self.log().unflushed.extend(self.drive.geometry().zone_of(at));
        }
        self.drive.write(at, data, persist)
    }

    fn pass_flush(&self) -> Result<(), DiskError> {
        self.log().unflushed.clear();
        self.drive.flush()
    }

    fn pass_manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        if action == ZoneAction::Finish {
            let mut log = self.log();
            log.finished.push(zone);
            if log.unflushed.contains(&zone) {
                log.finished_early.push(zone);
            }
            match log.failure.take() {
                Some((0, failure)) => self.drive.fail_zone(zone, failure).unwrap(),
                Some((after, failure)) => log.failure = Some((after - 1, failure)),
                None => {}
            }
        }
        self.drive.manage_zone(zone, action)
    }
}

/// Zones are finished after their checkpoint counts, or after their journal zone was flushed. A
/// zone that had turned read-only or offline by then failed the host's write, and all later ones
/// were refused.
#[test]
fn a_zone_given_up_before_its_finish_does_not_fail_a_write() {
    for failure in [ZoneFailure::ReadOnly, ZoneFailure::Offline] {
        let mut used = BTreeSet::new();
        for after in 0.. {
            let told = format!("{failure:?} behind {after}");
            let drive = Finishing::new();
            let options = options(100);
            let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
            let driver =
                BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
            drive.log().failure = Some((after, failure));
            for round in 0..200 {
                let data = [round as u8; BLOCK_LEN_BYTES];
                let written = driver.write(Lba::new(round % 60), &data, Persist::Through);
                written.unwrap_or_else(|error| panic!("{told}, round {round}: {error}"));
                if round % 50 == 49 {
                    let checkpoint = driver.checkpoint();
                    checkpoint.unwrap_or_else(|error| panic!("{told}, round {round}: {error}"));
                }
            }
            let check = |driver: &BlockDriver| {
                let mut buf = [0; BLOCK_LEN_BYTES];
                for round in 140..200 {
                    let read = driver.read(Lba::new(round % 60), &mut buf);
                    read.unwrap_or_else(|error| panic!("{told}, round {round}: {error}"));
                    assert_eq!(buf[0], round as u8, "{told}");
                }
                invariants::check(&driver.state())
                    .unwrap_or_else(|broken| panic!("{told}: {broken}"));
            };
            check(&driver);
            if drive.log().failure.is_some() {
                break;
            }
            let is_given_up = |zone: &ZoneId| zones::is_given_up(&*drive, *zone);
            let zone = drive.log().finished.iter().copied().find(is_given_up).unwrap();
            used.insert(driver.state().zones.pool.get(zone).is_some());
            drop(driver);
            for _ in 0..2 {
                check(&open().unwrap_or_else(|error| panic!("{told}: {error}")));
            }
        }
        assert_eq!(used.len(), 2, "zones of checkpoints and of the journal");
    }
}

/// More data zones are written in part than can be written on. Opening finishes the others, with a
/// summary.
#[test]
fn opening_finishes_a_data_zone_after_its_summary_is_durable() {
    let drive = Finishing::new();
    let options = options(100);
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let mut zones = Vec::new();
    for at in 0..4 {
        let data = vec![at as u8; 50 * BLOCK_LEN_BYTES];
        driver.write(Lba::new(100 * at), &data, Persist::Through).unwrap();
        let mut state = driver.state();
        let zone = state.zones.open[0].take().unwrap();
        state.zones.pool.set(zone, Use::Sealed);
        zones.push(zone);
    }
    drop(driver);
    let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let finished_count = drive.log().finished.iter().filter(|&zone| zones.contains(zone)).count();
    assert_eq!(finished_count, 2);
    assert_eq!(drive.log().finished_early, []);
    let mut buf = vec![0; 50 * BLOCK_LEN_BYTES];
    for at in 0..4 {
        driver.read(Lba::new(100 * at), &mut buf).unwrap();
        assert!(buf.iter().all(|&byte| byte == at as u8), "{at}");
    }
}
