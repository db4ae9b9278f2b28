//! Data zones that turn read-only before all data written to them is on the platter.

use super::*;
use pool::Use;

/// Where the blocks of a scene are: far enough apart that each leaves the write buffer on its own.
fn lba(index: u64) -> Lba {
    Lba::new(3 * index)
}

fn block(index: u64, has_zeros: bool) -> [u8; BLOCK_LEN_BYTES] {
    let byte = if has_zeros && !index.is_multiple_of(5) { 0 } else { index as u8 + 1 };
    [byte; BLOCK_LEN_BYTES]
}

fn check(driver: &BlockDriver, count: u64, has_zeros: bool, told: &str) {
    let mut buf = [0; BLOCK_LEN_BYTES];
    for index in 0..count {
        let read = driver.read(lba(index), &mut buf);
        read.unwrap_or_else(|error| panic!("{told}: block {index}: {error}"));
        assert!(buf == block(index, has_zeros), "{told}: block {index} has {}", buf[0]);
    }
    invariants::check(&driver.state()).unwrap_or_else(|broken| panic!("{told}: {broken}"));
}

/// Blocks are flushed, and so in the journal. Then they are written to a data zone: the first
/// `safe_count` of them durably, the others as far as a power cut allows. The journal describes all
/// of them. The zone turns read-only.
fn failed(
    drive: &Arc<SimDisk>,
    safe_count: u64,
    count: u64,
    has_zeros: bool,
    seed: u64,
) -> DriverOptions {
    let options = options(400);
    let driver = BlockDriver::format(Arc::clone(drive) as Arc<dyn Disk>, &options).unwrap();
    for (from, to, is_safe) in [(0, safe_count, true), (safe_count, count, false)] {
        driver.set_buffer_len(Blocks::new(400));
        for round in 0..2 {
            for index in from..to {
                let old = [222; BLOCK_LEN_BYTES];
                let data = if round == 0 { old } else { block(index, has_zeros) };
                driver.write(lba(index), &data, Persist::Cached).unwrap();
            }
            driver.flush().unwrap();
        }
        driver.set_buffer_len(Blocks::new(1));
        while driver.work().unwrap() {}
        driver.state().commit().unwrap();
        if is_safe {
            driver.flush().unwrap();
        }
    }
    let zone = driver.state().zones.open[0].unwrap();
    drop(driver);
    drive.power_cycle(&mut Prng::new(seed)).unwrap();
    drive.fail_zone(zone, ZoneFailure::ReadOnly).unwrap();
    options
}

/// For missing blocks the journal's copy counts, and the checksums of the others are known.
#[test]
fn data_that_did_not_reach_a_read_only_zone_is_in_the_journal() {
    let mut ignored_count = 0;
    for (strict_reads, has_zeros) in [(true, false), (false, false), (false, true)] {
        for (safe_count, count) in [(0, 60), (100, 150)] {
            for seed in 0..24 {
                let told = format!(
                    "strict: {strict_reads}, zeros: {has_zeros}, {safe_count} of {count}, {seed}"
                );
                let geometry = zoned_as(60, 200, |spec| spec.strict_reads = strict_reads);
                let drive = SimDisk::builder(geometry).write_cache(Blocks::new(10_000)).memory();
                let drive = Arc::new(drive.unwrap());
                let options = failed(&drive, safe_count, count, has_zeros, seed);
                let open = || {
                    let opened = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
                    opened.unwrap_or_else(|error| panic!("{told}: {error}"))
                };
                let mut driver = open();
                ignored_count += driver.driver_counters().ignored_records;
                check(&driver, count, has_zeros, &told);
                for _ in 0..2 {
                    driver.checkpoint().unwrap();
                    drop(driver);
                    driver = open();
                    check(&driver, count, has_zeros, &told);
                }
            }
        }
    }
    assert!(ignored_count > 100, "{ignored_count}");
}

/// Earlier versions mapped blocks that never reached such a zone. They are lost, and nothing else
/// is.
#[test]
fn blocks_mapped_above_the_end_are_unreadable() {
    let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(400)).unwrap();
    for index in 0..20 {
        driver.write(lba(index), &block(index, false), Persist::Cached).unwrap();
    }
    driver.set_buffer_len(Blocks::new(1));
    while driver.work().unwrap() {}
    driver.flush().unwrap();
    let zone = driver.state().zones.open[0].take().unwrap();
    {
        let mut state = driver.state();
        let slot = *state.zones.pool.get(zone).unwrap();
        let at = slot.pba(slot.written().get() + 5);
        state.map.set(range(1000, 2), at).unwrap();
        state.zones.pool.set(zone, Use::Sealed);
        state.zones.pool.set_pointer(zone, slot.capacity);
    }
    drive.fail_zone(zone, ZoneFailure::ReadOnly).unwrap();
    let mut buf = vec![0; 2 * BLOCK_LEN_BYTES];
    let error = driver.read(Lba::new(1000), &mut buf).unwrap_err();
    assert!(matches!(error, DiskError::Medium { at } if at == Lba::new(1000)), "{error}");
    assert_eq!(driver.state().clean_step(true, 1024).unwrap(), 0, "no room is gained by that");
    check(&driver, 20, false, "read");
}

/// A host that writes anything anywhere, power cuts, and zones that turn read-only at some of the
/// cuts: mostly zones that were being written.
#[test]
fn flushed_data_survives_zones_that_turn_read_only() {
    let mut ignored_count = 0;
    for seed in 0..8 {
        let Run { options, prng, .. } = Run::new(seed);
        let strict_reads = seed % 2 == 0;
        let geometry = zoned_as(60, 200, |spec| spec.strict_reads = strict_reads);
        let drive = SimDisk::builder(geometry).write_cache(Blocks::new(10_000)).memory().unwrap();
        let drive = Arc::new(drive);
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let model = Model { may_be: vec![vec![0]; driver.geometry().len().get() as usize] };
        let told = format!("seed {seed}, strict: {strict_reads}");
        let driver = Some(driver);
        let mut run = Run {
            drive,
            driver,
            options,
            model,
            next_stamp: 1,
            next_at: 0,
            prng,
            told,
            lent_count: 0,
            is_slow: true,
        };
        for round in 0..8 {
            // The power goes at a random moment, or when a short journal entry describes
            // everything.
            let power_cut_after = run.prng.chance(1, 2).then(|| run.prng.below(400));
            run.drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            let most = if power_cut_after.is_some() { 4000 } else { run.prng.below(200) };
            for _ in 0..most {
                if !run.step() {
                    break;
                }
                run.check();
            }
            if power_cut_after.is_none() {
                run.driver().set_buffer_len(Blocks::new(1));
                while run.driver().work().unwrap() {}
                run.driver().state().commit().unwrap();
            }
            let failing = {
                let state = run.driver().state();
                let any = state.zones.pool.iter().find(|slot| slot.used == Use::Sealed);
                state.zones.open[round % 2].or(state.zones.open[0]).or(any.map(|slot| slot.zone))
            };
            run.driver = None;
            run.drive.power_cycle(&mut run.prng).unwrap();
            if let Some(zone) = failing.filter(|_| round < 5) {
                run.drive.fail_zone(zone, ZoneFailure::ReadOnly).unwrap();
            }
            let cuts = run.prng.below(4);
            run.recover(cuts);
            ignored_count += run.driver().driver_counters().ignored_records;
        }
    }
    assert!(ignored_count > 10, "{ignored_count}");
}

/// The contents of such a zone are written elsewhere, and the power goes in the flush that records
/// this and that the zone is empty. The checksums of its contents were forgotten, although the
/// contents count again.
#[test]
fn a_read_only_zone_is_emptied_by_a_flushed_record_only() {
    const COUNT: u64 = 12;
    let mut ignored_count = 0;
    for seed in 0..120 {
        let told = format!("seed {seed}");
        let drive = SimDisk::builder(zoned(60, 200, 0)).write_cache(Blocks::new(10_000)).memory();
        let drive = Arc::new(drive.unwrap());
        let options = failed(&drive, COUNT, COUNT, false, seed);
        let open = || {
            let opened = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
            opened.unwrap_or_else(|error| panic!("{told}: {error}"))
        };
        let driver = open();
        let new = [222; BLOCK_LEN_BYTES];
        for index in 0..COUNT {
            driver.write(lba(index), &new, Persist::Cached).unwrap();
        }
        driver.set_buffer_len(Blocks::new(1));
        while driver.work().unwrap() {}
        // The flush is the third event.
        drive.set_faults(FaultPlan { power_cut_after: Some(2), ..FaultPlan::default() });
        assert!(!has_power(driver.state().reclaim(), &told));
        drop(driver);
        drive.power_cycle(&mut Prng::new(seed)).unwrap();
        let mut driver = open();
        ignored_count += driver.driver_counters().ignored_records;
        for _ in 0..2 {
            let mut buf = [0; BLOCK_LEN_BYTES];
            for index in 0..COUNT {
                let read = driver.read(lba(index), &mut buf);
                read.unwrap_or_else(|error| panic!("{told}: block {index}: {error}"));
                assert!(buf == new || buf == block(index, false), "{told}: block {index}");
            }
            invariants::check(&driver.state()).unwrap_or_else(|broken| panic!("{told}: {broken}"));
            driver.checkpoint().unwrap();
            drop(driver);
            driver = open();
        }
    }
    assert!(ignored_count > 0, "{ignored_count}");
}
