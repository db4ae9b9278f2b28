//! What cleaning does with unreadable blocks, and with reads that fail for another reason.

use super::steps::SlowClock;
use super::*;
use imbrex_disk_sim::FailAt;
use pool::Use;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A full device of short zones, ten of which have an unreadable block; returns those blocks.
fn damaged() -> (Arc<SimDisk>, DriverOptions, BlockDriver, Vec<u64>) {
    let drive = Arc::new(SimDisk::builder(zoned(60, 64, 2)).memory().unwrap());
    let options = options(60);
    let driver = worn(&drive, &options, 60);
    let mut zones = std::collections::BTreeSet::new();
    let mut blocks = Vec::new();
    for lba in (31..driver.geometry().len().get()).step_by(100) {
        let place = driver
            .state()
            .pieces(range(lba, 1))
            .unwrap()
            .into_iter()
            .next()
            .and_then(|piece| piece.at);
        let Some(place) = place else { continue };
        let slot = *driver.state().zones.pool.zone_of(place).unwrap();
        if slot.used == Use::Sealed && zones.insert(slot.zone) {
            drive.damage(BlockRange::new(slot.place(place), Blocks::new(1)));
            blocks.push(lba);
        }
        if blocks.len() == 10 {
            break;
        }
    }
    assert_eq!(blocks.len(), 10);
    (drive, options, driver, blocks)
}

/// Writes all other blocks, many times over.
fn wear(driver: &BlockDriver, spared: &[u64], seed: u64) {
    let len = driver.geometry().len().get();
    let mut prng = Prng::new(seed);
    for _ in 0..6 * len {
        let at = prng.below(len);
        if !spared.contains(&at) {
            driver.write(Lba::new(at), &[1; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        }
    }
    driver.flush().unwrap();
    invariants::check(&driver.state()).unwrap();
}

fn check_lost(driver: &BlockDriver, blocks: &[u64]) {
    let mut buf = [0; BLOCK_LEN_BYTES];
    for &lba in blocks {
        let error = driver.read(Lba::new(lba), &mut buf).unwrap_err();
        assert!(matches!(error, DiskError::Medium { at } if at == Lba::new(lba)), "{error}");
        assert_eq!(driver.known(range(lba, 1)).0, Known::Nothing);
    }
}

#[test]
fn unreadable_blocks_cost_only_themselves() {
    let (drive, options, driver, blocks) = damaged();
    wear(&driver, &blocks, 1);
    check_lost(&driver, &blocks);
    assert!(driver.driver_counters().lost_blocks >= 8, "{:?}", driver.driver_counters());
    assert!(driver.state().zones.pool.count(Use::Unreadable) <= 1);
    for &lba in &blocks {
        driver.write(Lba::new(lba), &[5; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    }
    driver.set_buffer_len(Blocks::new(1));
    while driver.work().unwrap() {}
    driver.flush().unwrap();
    assert_eq!(driver.state().zones.pool.count(Use::Unreadable), 0);
    assert_eq!(driver.driver_counters().lost_blocks, 0);
    drop(driver);
    let driver = BlockDriver::open(drive as Arc<dyn Disk>, &options).unwrap();
    let mut buf = [0; BLOCK_LEN_BYTES];
    for lba in blocks {
        driver.read(Lba::new(lba), &mut buf).unwrap();
        assert_eq!(buf, [5; BLOCK_LEN_BYTES]);
    }
}

/// Blocks that were given up stay lost after any power cuts: they never read as zeros or as another
/// block.
#[test]
fn blocks_given_up_stay_lost() {
    let (drive, options, mut driver, blocks) = damaged();
    let mut prng = Prng::new(7);
    for round in 0..20 {
        let power_cut_after = Some(prng.below(300));
        drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
        let len = driver.geometry().len().get();
        loop {
            let at = prng.below(len);
            if blocks.contains(&at) {
                continue;
            }
            let persist = if prng.chance(1, 20) { Persist::Through } else { Persist::Cached };
            let written = driver.write(Lba::new(at), &[2; BLOCK_LEN_BYTES], persist);
            if !has_power(written, "given up") {
                break;
            }
        }
        drop(driver);
        drive.power_cycle(&mut prng).unwrap();
        drive.set_faults(FaultPlan::default());
        driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        check_lost(&driver, &blocks);
        invariants::check(&driver.state())
            .unwrap_or_else(|broken| panic!("round {round}: {broken}"));
    }
    wear(&driver, &blocks, 2);
    check_lost(&driver, &blocks);
}

/// Nothing is in doubt after a failed read: cleaning tries again later.
#[test]
fn a_failed_read_in_cleaning_stops_nothing() {
    for is_idle in [true, false] {
        let drive = Arc::new(SimDisk::builder(zoned(60, 64, 2)).memory().unwrap());
        let driver = worn(&drive, &options(60), 60);
        let len = driver.geometry().len().get();
        let mut prng = Prng::new(3);
        let mut write = || {
            let at = Lba::new(prng.below(len));
            driver.write(at, &[1; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        };
        for _ in 0..20 {
            let fail_read = Some(FailAt { after: 0, sticky: false });
            drive.set_faults(FaultPlan { fail_read, ..FaultPlan::default() });
            (0..300).for_each(|_| write());
            // It ends, however often reads fail.
            while is_idle && driver.work().unwrap() {}
        }
        drive.set_faults(FaultPlan::default());
        (0..4 * len).for_each(|_| write());
        driver.flush().unwrap();
        invariants::check(&driver.state()).unwrap();
        assert!(driver.driver_counters().cleanings > 50);
    }
}

/// A drive that no longer reads: the host that waits for room gets the error, and no read is
/// repeated without end.
#[test]
fn permanent_read_failures_are_reported_when_room_is_needed() {
    let drive = Arc::new(SimDisk::builder(zoned(60, 64, 2)).memory().unwrap());
    let driver = worn(&drive, &options(60), 60);
    let len = driver.geometry().len().get();
    let fail_read = Some(FailAt { after: 0, sticky: true });
    drive.set_faults(FaultPlan { fail_read, ..FaultPlan::default() });
    while driver.work().unwrap() {}
    let mut prng = Prng::new(3);
    let mut write = |_: &u64| {
        let at = Lba::new(prng.below(len));
        driver.write(at, &[1; BLOCK_LEN_BYTES], Persist::Cached).is_ok()
    };
    let done_count = (0..20 * len).take_while(&mut write).count();
    assert!((1..20 * len).contains(&(done_count as u64)), "{done_count}");
}

/// A drive that fails to read the second half of each zone of 64 blocks.
#[derive(Debug)]
struct HalfRead {
    drive: Arc<SimDisk>,
    fails: AtomicBool,
    failed_count: AtomicU64,
}

impl DiskLayer for HalfRead {
    fn below(&self) -> &dyn Disk {
        &*self.drive
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        let is_second = |request: &ReadRequest<'_>| request.at.get() % 64 >= 32;
        if self.fails.load(Ordering::Relaxed) && requests.iter().any(is_second) {
            let count = self.failed_count.fetch_add(1, Ordering::Relaxed);
            assert!(count < 10_000, "the same is read without end");
            let source = std::io::Error::other("the second half of a zone");
            return Err(DiskError::Host { what: "reading".to_owned(), source });
        }
        self.drive.read_batch(requests)
    }
}

/// With short steps the first steps of a batch succeed each time it is tried, which is no progress.
#[test]
fn reads_that_fail_late_in_a_batch_are_reported_too() {
    for is_timed in [false, true] {
        let drive = Arc::new(SimDisk::builder(zoned(60, 64, 2)).memory().unwrap());
        let options = options(60);
        drop(worn(&drive, &options, 60));
        let drive = HalfRead { drive, fails: false.into(), failed_count: 0.into() };
        let drive = Arc::new(drive);
        let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let driver =
            if is_timed { driver.with_clock(Arc::new(SlowClock::default())) } else { driver };
        drive.fails.store(true, Ordering::Relaxed);
        let len = driver.geometry().len().get();
        let mut prng = Prng::new(3);
        let mut write = |_: &u64| {
            // The block may be one that cannot be read now.
            let _ = driver.read(Lba::new(prng.below(len)), &mut [0; BLOCK_LEN_BYTES]);
            let at = Lba::new(prng.below(len));
            driver.write(at, &[1; BLOCK_LEN_BYTES], Persist::Cached).is_ok()
        };
        let done_count = (0..20 * len).take_while(&mut write).count();
        assert!((1..20 * len).contains(&(done_count as u64)), "{is_timed}: {done_count}");
    }
}

/// The host empties a zone that a cleaning found partly unreadable, and fills it anew before the
/// cleaning ends.
#[test]
fn a_zone_begun_anew_meanwhile_is_not_given_up() {
    let drive = Arc::new(SimDisk::builder(zoned(60, 64, 2)).memory().unwrap());
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(60)).unwrap();
    let len = driver.geometry().len().get() / 2;
    for at in (0..len).step_by(50) {
        driver.write(Lba::new(at), &[3; 50 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    }
    (0..len).step_by(5).for_each(|at| driver.discard(range(at, 2)).unwrap());
    driver.flush().unwrap();

    let mut state = driver.state();
    state.clean_step(false, 5).unwrap();
    let first_of = |state: &DriverState, zone| {
        state.runs_in(zone).unwrap().into_iter().map(|run| run.range().start).min()
    };
    let zones: Vec<ZoneId> = state.cleaning.as_ref().unwrap().zones.keys().copied().collect();
    assert!(zones.len() > 1);
    let zone = zones.into_iter().min_by_key(|&zone| first_of(&state, zone)).unwrap();
    let lba = first_of(&state, zone).unwrap();
    let place = state
        .pieces(BlockRange::new(lba, Blocks::new(1)))
        .unwrap()
        .into_iter()
        .next()
        .unwrap()
        .at
        .unwrap();
    let slot = *state.zones.pool.get(zone).unwrap();
    drive.damage(BlockRange::new(slot.place(place), Blocks::new(1)));
    while state.map.valid(zone) > Blocks::new(1) {
        state.clean_step(false, 5).unwrap();
    }
    state.trim(BlockRange::new(lba, Blocks::new(1))).unwrap();
    state.reclaim().unwrap();
    assert_eq!(state.zones.pool.get(zone).unwrap().used, Use::Resettable);
    // A zone that is written in part is taken first.
    state.zones.pool.set_pointer(zone, Blocks::new(1));
    state.zones.open[0] = None;
    let count = slot.len().get();
    let new = range(len + 100, count);
    let data = vec![4; new.len.bytes() as usize];
    assert!(state.append(data_zones::Stream::Host, &data, &[new]).unwrap());
    assert_eq!(
        (state.zones.pool.get(zone).unwrap().used, state.map.valid(zone)),
        (Use::Sealed, new.len)
    );
    assert!(state.cleaning.is_some());
    while state.cleaning.is_some() {
        state.clean_step(false, 5).unwrap();
    }
    assert_eq!(state.zones.pool.get(zone).unwrap().used, Use::Sealed);
    assert!(!state.abandon_unreadable().unwrap());
    drop(state);
    let mut buf = vec![0; data.len()];
    driver.read(new.start, &mut buf).unwrap();
    assert!(buf == data);
}
