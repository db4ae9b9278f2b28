//! Drives that allow few zones to be written at once, and devices with little to spare.

use super::*;

/// A drive is refused with a clear message, or a whole life of the device succeeds on it.
#[test]
fn a_drive_with_few_active_zones_is_refused_or_enough() {
    for conventional in [0, 1, 2] {
        let needed = 8 - conventional;
        for limit in 3..=9 {
            let told = format!("{limit} zones may be active, {conventional} are conventional");
            let geometry = zoned_as(40, 64, |spec| {
                spec.conventional_zone_count = conventional;
                spec.open_zone_limit = Some(limit);
                spec.active_zone_limit = Some(limit);
            });
            let drive = SimDisk::builder(geometry).write_cache(Blocks::new(100)).memory().unwrap();
            let drive = Arc::new(drive);
            // Zones of deltas stay open between checkpoints.
            let options = DriverOptions { delta_from_bytes: 1, ..options(60) };
            let made = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options);
            if limit < needed {
                let error = made.expect_err("refused").to_string();
                let expected = format!("the drive allows {limit} active zones, but the block");
                assert!(error.starts_with(&expected), "{told}: {error}");
                continue;
            }
            let mut driver = made.unwrap_or_else(|error| panic!("{told}: {error}"));
            let len = driver.geometry().len().get();
            let mut prng = Prng::new(9);
            for round in 0..40 {
                let power_cut_after = Some(prng.below(500));
                drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
                loop {
                    let (at, count) = (prng.below(len - 50), [1, 5, 50][prng.below(3) as usize]);
                    let persist =
                        if prng.chance(1, 9) { Persist::Through } else { Persist::Cached };
                    let data = vec![round; count * BLOCK_LEN_BYTES];
                    if !has_power(driver.write(Lba::new(at), &data, persist), &told)
                        || prng.chance(1, 60) && !has_power(driver.checkpoint(), &told)
                    {
                        break;
                    }
                }
                drop(driver);
                for cut in [Some(prng.below(10)), Some(prng.below(20)), None] {
                    drive.power_cycle(&mut prng).unwrap();
                    drive.set_faults(FaultPlan { power_cut_after: cut, ..FaultPlan::default() });
                    match BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options) {
                        Ok(_) => {}
                        Err(DriverError::Disk { source: DiskError::PowerLost, .. }) => {}
                        Err(error) => panic!("{told}, round {round}: {error:?}"),
                    }
                }
                let opened = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
                driver = opened.unwrap_or_else(|error| panic!("{told}, round {round}: {error}"));
            }
        }
    }
}

/// Each block of the host's is a run of the map: the checkpoint is as long as possible, and little
/// is spare.
#[test]
fn a_device_with_little_to_spare_can_be_filled_at_random() {
    let geometry = zoned_as(1_406, 16, |spec| spec.zone_capacity = Blocks::new(16));
    let drive = Arc::new(SimDisk::builder(geometry).memory().unwrap());
    let options = DriverOptions { spare_percent: 1, ..options(64) };
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let len = driver.geometry().len().get();
    let mut order: Vec<u64> = (0..len).collect();
    let mut prng = Prng::new(4);
    for at in (1..len).rev() {
        order.swap(at as usize, prng.below(at + 1) as usize);
    }
    let write = |at: u64| {
        let written = driver.write(Lba::new(at), &[at as u8; BLOCK_LEN_BYTES], Persist::Cached);
        written.unwrap_or_else(|error| {
            let counters = driver.driver_counters();
            panic!("block {at}, {} zones a checkpoint: {error}: {counters:?}", {
                driver.state().superblock.checkpoint.zones().count()
            })
        });
    };
    order.iter().for_each(|&at| write(at));
    for _ in 0..len / 2 {
        write(prng.below(len));
    }
    driver.flush().unwrap();
    let counters = driver.driver_counters();
    assert!(counters.mapping_nodes > len * 9 / 10, "{counters:?}");
    assert!(driver.state().superblock.checkpoint.zones().count() > 2);
    invariants::check(&driver.state()).unwrap();
}

/// The journal and the reserve took as many zones as if all were as short as the last one.
#[test]
fn a_shorter_last_zone_is_used_and_changes_nothing_else() {
    let zoned_with = |rest: u64| {
        let Rule::AtPointer(spec) = *zoned(60, 200, 0).rule() else { unreachable!("it has zones") };
        let spec = ZoneSpec { zone_capacity: spec.zone_len, ..spec };
        let len = Blocks::new(60 * 200 + rest);
        Geometry::new(GeometrySpec { len, rule: Rule::AtPointer(spec) }).unwrap()
    };
    let options = DriverOptions { journal_zone_count: 0, ..options(400) };
    let mut lens = Vec::new();
    for rest in [0, 1, 8, 20, 199] {
        let drive = Arc::new(SimDisk::builder(zoned_with(rest)).memory().unwrap());
        let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        drop(BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap());
        let driver = open();
        let len = driver.geometry().len().get();
        lens.push((len, driver.state().journal.zones.len()));
        let mut prng = Prng::new(rest);
        for round in 0..4 {
            for _ in 0..len {
                let at = if round == 0 { Lba::new(0) } else { Lba::new(prng.below(len)) };
                let data = [at.get() as u8; BLOCK_LEN_BYTES];
                driver.write(at, &data, Persist::Cached).unwrap();
            }
            for at in 0..len {
                let data = [at as u8; BLOCK_LEN_BYTES];
                driver.write(Lba::new(at), &data, Persist::Cached).unwrap();
            }
        }
        driver.flush().unwrap();
        drop(driver);
        let driver = open();
        let mut buf = [0; BLOCK_LEN_BYTES];
        for at in 0..len {
            driver.read(Lba::new(at), &mut buf).unwrap();
            assert_eq!(buf, [at as u8; BLOCK_LEN_BYTES], "block {at}, {rest} blocks more");
        }
        invariants::check(&driver.state()).unwrap();
    }
    let (len, journal_zone_count) = lens[0];
    for &(other_len, other_count) in &lens[1..] {
        // Except for one more zone of the reserve.
        assert!(len - 200 <= other_len && other_len <= len, "{lens:?}");
        assert_eq!(other_count, journal_zone_count, "{lens:?}");
    }
}

/// The advice was a longer buffer than the one that was passed.
#[test]
fn a_drive_of_very_short_zones_is_told_so_whatever_its_buffer() {
    for (zone_len, is_told) in [(8, true), (16, true), (32, false)] {
        for buffer_len in [1, 1024, 100_000] {
            let drive = SimDisk::builder(zoned(2000, zone_len, 0)).memory().unwrap();
            let buffer_len = Blocks::new(buffer_len);
            let options = DriverOptions { journal_zone_count: 0, buffer_len, ..options(1) };
            match BlockDriver::format(Arc::new(drive) as Arc<dyn Disk>, &options) {
                Err(DriverError::ZoneTooShort { got, min }) => {
                    assert!(is_told && got < min, "{zone_len} {got} {min}");
                }
                Err(DriverError::TooSmall { buffer_fits, .. }) => {
                    assert!(!is_told && buffer_fits.is_none_or(|fits| fits < buffer_len));
                }
                other => assert!(!is_told, "{zone_len}: {other:?}"),
            }
        }
    }
}

/// A refusal names a write buffer that would do, and it does.
#[test]
fn a_drive_too_short_for_its_buffer_says_which_one_fits() {
    let mut told_count = 0;
    for zone_count in 10..60 {
        let drive = Arc::new(SimDisk::builder(zoned(zone_count, 512, 0)).memory().unwrap());
        let made = |buffer_len| {
            let options = DriverOptions { journal_zone_count: 0, buffer_len, ..options(1) };
            BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options)
        };
        let error = match made(Blocks::new(10_000)) {
            Err(error @ DriverError::TooSmall { .. }) => error,
            other => panic!("{zone_count} zones: {other:?}"),
        };
        let DriverError::TooSmall { buffer_fits, .. } = error else { unreachable!() };
        let Some(fits) = buffer_fits else { continue };
        let mib = format!("at most {} MiB", fits.bytes() >> 20);
        assert!(error.to_string().contains(&mib), "{zone_count} zones: {error}");
        made(fits).unwrap_or_else(|error| panic!("{zone_count} zones, {fits}: {error}"));
        told_count += 1;
    }
    assert!(told_count > 20, "{told_count}");
}
