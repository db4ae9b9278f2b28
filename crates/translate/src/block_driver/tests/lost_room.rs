//! Data zones that the drive gives up while the device is in use, whether it reports that at once
//! or only when one is written or reset: they are no free room, and their data can be read.

use super::*;
use pool::{PoolZone, Use};
use std::collections::BTreeMap;

/// A drive that keeps reporting the earlier state of a failed zone until it has refused a request
/// there.
#[derive(Debug)]
struct Reticent {
    drive: SimDisk,
    before: Mutex<BTreeMap<ZoneId, ZoneInfo>>,
}

impl Reticent {
    fn new(zone_count: u64) -> Arc<Reticent> {
        let drive = SimDisk::builder(zoned(zone_count, 64, 0)).memory().unwrap();
        Arc::new(Reticent { drive, before: Mutex::default() })
    }

    fn fail(&self, zone: ZoneId, failure: ZoneFailure, is_told: bool) {
        if !is_told {
            self.before.lock().unwrap().insert(zone, self.drive.zone(zone).unwrap());
        }
        self.drive.fail_zone(zone, failure).unwrap();
    }

    fn refused<T>(
        &self,
        zone: Option<ZoneId>,
        result: Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        if let (Err(_), Some(zone)) = (&result, zone) {
            self.before.lock().unwrap().remove(&zone);
        }
        result
    }
}

impl DiskLayer for Reticent {
    fn below(&self) -> &dyn Disk {
        &self.drive
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.drive.read_batch(requests)
    }

    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.refused(self.drive.geometry().zone_of(at), self.drive.write(at, data, persist))
    }

    fn pass_zone(&self, zone: ZoneId) -> Option<ZoneInfo> {
        let before = self.before.lock().unwrap().get(&zone).cloned();
        before.or_else(|| self.drive.zone(zone))
    }

    fn pass_manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        self.refused(Some(zone), self.drive.manage_zone(zone, action))
    }
}

/// A device that is written at random, and the contents of its blocks.
struct Used {
    drive: Arc<Reticent>,
    options: DriverOptions,
    driver: Option<BlockDriver>,
    stamps: Vec<u8>,
    prng: Prng,
    told: String,
}

impl Used {
    fn new(zone_count: u64, spare_percent: u64, told: String) -> Used {
        let drive = Reticent::new(zone_count);
        let options = DriverOptions { spare_percent, ..options(60) };
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let stamps = vec![0; driver.geometry().len().get() as usize];
        Used { drive, options, driver: Some(driver), stamps, prng: Prng::new(5), told }
    }

    fn driver(&self) -> &BlockDriver {
        self.driver.as_ref().unwrap()
    }

    fn write(&mut self, at: u64) {
        let stamp = self.prng.below(256) as u8;
        let data = [stamp; BLOCK_LEN_BYTES];
        let written = self.driver().write(Lba::new(at), &data, Persist::Cached);
        written.unwrap_or_else(|error| panic!("{}: block {at}: {error}", self.told));
        self.stamps[at as usize] = stamp;
    }

    fn fill(&mut self) {
        (0..self.stamps.len() as u64).for_each(|at| self.write(at));
        self.driver().flush().unwrap();
    }

    fn write_anywhere(&mut self, count: u64) {
        for _ in 0..count {
            let at = self.prng.below(self.stamps.len() as u64);
            self.write(at);
        }
        self.driver().flush().unwrap();
    }

    /// Fails the first `count` of these zones.
    fn fail<'a>(
        &self,
        zones: impl Iterator<Item = &'a PoolZone>,
        count: usize,
        failure: ZoneFailure,
        is_told: bool,
    ) {
        let zones: Vec<ZoneId> = zones.map(|slot| slot.zone).take(count).collect();
        assert_eq!(zones.len(), count, "{}", self.told);
        zones.into_iter().for_each(|zone| self.drive.fail(zone, failure, is_told));
    }

    fn pool(&self) -> Vec<PoolZone> {
        self.driver().state().zones.pool.iter().copied().collect()
    }

    fn reopen(&mut self) {
        self.driver = None;
        let opened = BlockDriver::open(Arc::clone(&self.drive) as Arc<dyn Disk>, &self.options);
        self.driver = Some(opened.unwrap_or_else(|error| panic!("{}: {error}", self.told)));
    }

    fn check(&self) {
        let mut buf = [0; BLOCK_LEN_BYTES];
        for (at, &stamp) in (0..).zip(&self.stamps) {
            let read = self.driver().read(Lba::new(at), &mut buf);
            read.unwrap_or_else(|error| panic!("{}: block {at}: {error}", self.told));
            assert_eq!(buf, [stamp; BLOCK_LEN_BYTES], "{}: block {at}", self.told);
        }
        invariants::check(&self.driver().state()).unwrap();
    }
}

/// Such zones were emptied like others and counted as free from then on. The device wrote until
/// only they were left, failed, and had no room for a checkpoint when it was opened.
#[test]
fn emptied_zones_that_cannot_be_reset_are_no_room() {
    for is_told in [true, false] {
        for count in share_of([7, 12, 20]) {
            let mut used = Used::new(120, 40, format!("{count} zones, told: {is_told}"));
            used.fill();
            // So that zones everywhere are in use.
            let len = used.stamps.len() as u64;
            used.write_anywhere(2 * len);
            let pool = used.pool();
            // The failure of a blank zone is not noticed before it is written.
            let last = pool.iter().rev().filter(|slot| {
                let is_waiting = matches!(slot.used, Use::Resettable | Use::Free);
                slot.used == Use::Sealed || is_waiting && (is_told || !slot.is_blank())
            });
            used.fail(last, count, ZoneFailure::ReadOnly, is_told);
            for _ in 0..6 {
                used.write_anywhere(len);
                used.driver().checkpoint().unwrap();
            }
            used.check();
            used.reopen();
            used.check();
            used.write_anywhere(len);
            used.check();
        }
    }
}

/// They were empty, and the device failed.
#[test]
fn blank_zones_that_cannot_be_written_are_passed_over() {
    for failure in [ZoneFailure::ReadOnly, ZoneFailure::Offline] {
        for is_told in [true, false] {
            let told = format!("{failure:?}, told: {is_told}");
            let mut used = Used::new(120, 40, told);
            used.write_anywhere(500);
            for _ in 0..3 {
                for count in [4, 3] {
                    let pool = used.pool();
                    let free = pool.iter().filter(|slot| slot.used == Use::Free);
                    used.fail(free, count, failure, is_told);
                    used.write_anywhere(300);
                }
                used.driver().checkpoint().unwrap();
                used.check();
            }
            let lost = used.driver().state().zones.pool.count(Use::Lost);
            assert!(lost >= 15, "{}: {lost}", used.told);
            used.reopen();
            used.check();
            used.fill();
            used.check();
        }
    }
}
