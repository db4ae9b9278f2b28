//! Zones that the drive has given up for good: of superblocks, of the journal, and before the
//! device was made.

use super::*;
use journal::JournalUse;

/// Blocks 0 to 60 hold their numbers, durably.
fn numbered(drive: &Arc<SimDisk>, options: &DriverOptions) -> BlockDriver {
    let driver = BlockDriver::format(Arc::clone(drive) as Arc<dyn Disk>, options).unwrap();
    for at in 0..60 {
        driver.write(Lba::new(at), &[at as u8; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    }
    driver.flush().unwrap();
    driver
}

fn check_numbered(driver: &BlockDriver, told: &str) {
    let mut buf = [0; BLOCK_LEN_BYTES];
    for at in 0..60 {
        driver.read(Lba::new(at), &mut buf).unwrap_or_else(|error| panic!("{told}: {at}: {error}"));
        assert_eq!(buf, [at as u8; BLOCK_LEN_BYTES], "{told}: block {at}");
    }
    invariants::check(&driver.state()).unwrap_or_else(|broken| panic!("{told}: {broken}"));
}

fn give_up(drive: &SimDisk, zone: u32, failure: ZoneFailure) {
    drive.fail_zone(ZoneId(zone), failure).unwrap();
}

#[test]
fn one_zone_of_superblocks_is_enough() {
    for conventional in [0, 1, 2] {
        for (zone, failure) in [
            (0, ZoneFailure::ReadOnly),
            (0, ZoneFailure::Offline),
            (1, ZoneFailure::ReadOnly),
            (1, ZoneFailure::Offline),
        ] {
            let told = format!("{conventional} conventional, zone {zone} is {failure:?}");
            let drive = Arc::new(SimDisk::builder(zoned(60, 200, conventional)).memory().unwrap());
            let options = options(100);
            let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
            let mut driver = numbered(&drive, &options);
            give_up(&drive, zone, failure);
            for round in 0..400 {
                let checkpoint = driver.checkpoint();
                checkpoint.unwrap_or_else(|error| panic!("{told}, round {round}: {error}"));
                if round % 60 == 59 {
                    drop(driver);
                    driver = open().unwrap_or_else(|error| panic!("{told}, {round}: {error}"));
                }
            }
            check_numbered(&driver, &told);
            assert!(BlockDriver::is_on(&*drive));
        }
    }
}

/// The power goes at each moment while the last zone of superblocks begins anew, and again during
/// the opening.
#[test]
fn the_last_zone_of_superblocks_begins_anew() {
    let mut stood_in_count = 0;
    for failure in [ZoneFailure::ReadOnly, ZoneFailure::Offline] {
        let mut event_counts = 0..;
        loop {
            let event_count = event_counts.next().unwrap();
            let mut was_cut = false;
            for again in (0..12).step_by(3) {
                let told = format!("{failure:?}, cut at {event_count}, again at {again}");
                let cache = Blocks::new([0, 10_000][event_count as usize % 2]);
                let drive = SimDisk::builder(zoned(40, 32, 0)).write_cache(cache).memory();
                let drive = Arc::new(drive.unwrap());
                let options = options(40);
                let driver = numbered(&drive, &options);
                give_up(&drive, 0, failure);
                driver.checkpoint().unwrap();
                while !begins_anew(&driver, 1) {
                    driver.checkpoint().unwrap();
                }
                let faults =
                    |after| FaultPlan { power_cut_after: Some(after), ..Default::default() };
                drive.set_faults(faults(event_count));
                was_cut = !has_power(driver.checkpoint(), &told);
                drop(driver);
                drive.power_cycle(&mut Prng::new(event_count + 1000 * again)).unwrap();
                let is_blank =
                    drive.zone(ZoneId(1)).unwrap().state == imbrex_disk::ZoneState::Empty;
                stood_in_count += usize::from(is_blank);
                assert!(BlockDriver::is_on(&*drive), "{told}");
                drive.set_faults(faults(again));
                let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
                drop(open());
                drive.power_cycle(&mut Prng::new(event_count + 1000 * again + 1)).unwrap();
                drive.set_faults(FaultPlan::default());
                for _ in 0..3 {
                    let driver = open().unwrap_or_else(|error| panic!("{told}: {error}"));
                    check_numbered(&driver, &told);
                    (0..30).for_each(|_| driver.checkpoint().unwrap());
                }
            }
            if !was_cut {
                break;
            }
        }
    }
    assert!(stood_in_count > 0);
}

/// On a drive that reads unwritten blocks, only the content shows where a read-only journal zone
/// ends, and the host may have written blocks that look like fill.
#[test]
fn a_read_only_zone_of_the_journal_ends_with_its_last_entry() {
    for zeros in [0, 1, 3] {
        let geometry = zoned_as(60, 200, |spec| spec.strict_reads = false);
        let drive = Arc::new(SimDisk::builder(geometry).memory().unwrap());
        let options = options(100);
        let driver = numbered(&drive, &options);
        for at in 100..100 + zeros {
            driver.write(Lba::new(at), &[7; BLOCK_LEN_BYTES], Persist::Through).unwrap();
        }
        let data = vec![0; (zeros * BLOCK_LEN_BYTES as u64) as usize];
        if zeros > 0 {
            driver.write(Lba::new(100), &data, Persist::Through).unwrap();
        }
        let zone = {
            let state = driver.state();
            state.journal.zones.iter().find(|zone| zone.used == JournalUse::Open).unwrap().zone
        };
        drop(driver);
        drive.fail_zone(zone, ZoneFailure::ReadOnly).unwrap();
        for _ in 0..3 {
            let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
            check_numbered(&driver, "read-only");
            let mut buf = [1; BLOCK_LEN_BYTES];
            for at in 100..100 + zeros {
                driver.read(Lba::new(at), &mut buf).unwrap();
                assert_eq!(buf, [0; BLOCK_LEN_BYTES], "{at} of {zeros}");
            }
        }
    }
}

/// An entry that a power cut tore and whose zone then turned read-only never happened.
#[test]
fn an_entry_torn_in_a_read_only_zone_never_happened() {
    for kept in 0..8 {
        let geometry = zoned_as(60, 200, |spec| spec.strict_reads = false);
        let drive = Arc::new(SimDisk::builder(geometry).memory().unwrap());
        let options = options(100);
        let driver = numbered(&drive, &options);
        let next = Lba::new(driver.state().journal.next().get());
        for at in 0..4 {
            driver.write(Lba::new(at), &[99; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        }
        driver.flush().unwrap();
        let zone = journal_zone_at(&driver, next);
        let mut bytes = vec![0; (next - zone.start).bytes() as usize + kept * BLOCK_LEN_BYTES];
        drive.read(zone.start, &mut bytes).unwrap();
        drop(driver);
        let id = ZoneId((zone.start.get() / 200) as u32);
        drive.manage_zone(id, ZoneAction::Reset).unwrap();
        drive.write(zone.start, &bytes, Persist::Through).unwrap();
        drive.fail_zone(id, ZoneFailure::ReadOnly).unwrap();
        let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
        let driver = driver.unwrap_or_else(|error| panic!("{kept} blocks: {error}"));
        let mut buf = [0; BLOCK_LEN_BYTES];
        driver.read(Lba::new(1), &mut buf).unwrap();
        // The entry is two blocks of header and four of the host's.
        let expected = if kept < 6 { 1 } else { 99 };
        assert_eq!(buf, [expected; BLOCK_LEN_BYTES], "{kept} blocks");
    }
}

fn journal_zone_at(driver: &BlockDriver, at: Lba) -> BlockRange {
    let state = driver.state();
    let mut zones = state.journal.zones.iter();
    zones.find(|zone| zone.range.contains(at)).unwrap().range
}

/// Zones of each kind that were given up before. The new device is as long as the others allow, and
/// works when it is full. Data that an earlier device left in them is not taken for its own.
#[test]
fn a_drive_with_dead_zones_becomes_a_device() {
    for failure in [ZoneFailure::ReadOnly, ZoneFailure::Offline] {
        for conventional in [0, 2] {
            for dead in [&[0][..], &[1], &[3, 4], &[20], &[9, 30, 31, 32, 33, 34, 59], &[1, 2, 30]]
            {
                let told = format!("zones {dead:?} are {failure:?}, {conventional} conventional");
                let drive = SimDisk::builder(zoned(60, 32, conventional)).memory().unwrap();
                let drive = Arc::new(drive);
                let before = DriverOptions { id: 5, ..options(60) };
                let driver = numbered(&drive, &before);
                (0..70).for_each(|_| driver.checkpoint().unwrap());
                let whole_len = driver.geometry().len();
                drop(driver);
                dead.iter().for_each(|&zone| give_up(&drive, zone, failure));
                let options = options(60);
                let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options);
                let mut driver = driver.unwrap_or_else(|error| panic!("{told}: {error}"));
                let len = driver.geometry().len().get();
                let lacking = dead.iter().filter(|&&zone| zone > 1).count() as u64;
                assert_eq!(len, whole_len.get() - 27 * lacking, "{told}");
                let write = |driver: &BlockDriver, at: u64, stamp: u64| {
                    let written = driver.write(
                        Lba::new(at),
                        &[stamp as u8; BLOCK_LEN_BYTES],
                        Persist::Cached,
                    );
                    written.unwrap_or_else(|error| panic!("{told}: block {at}: {error}"));
                };
                let mut stamps = vec![0; len as usize];
                let mut prng = Prng::new(1);
                for round in 0..3 * len {
                    let at = if round < len { round } else { prng.below(len) };
                    write(&driver, at, round);
                    stamps[at as usize] = round as u8;
                    if round % 700 == 699 {
                        driver.flush().unwrap();
                        drop(driver);
                        let opened =
                            BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
                        driver = opened.unwrap_or_else(|error| panic!("{told}: {error}"));
                    }
                }
                invariants::check(&driver.state()).unwrap();
                let mut buf = [0; BLOCK_LEN_BYTES];
                for (at, &stamp) in (0..).zip(&stamps) {
                    driver.read(Lba::new(at), &mut buf).unwrap();
                    assert_eq!(buf, [stamp; BLOCK_LEN_BYTES], "{told}: block {at}");
                }
            }
        }
    }
}

/// A journal zone goes offline while the device is open. The data that it held for the write buffer
/// is in memory, and the next flush makes it durable again, whatever the reason for that flush.
#[test]
fn data_of_an_offline_journal_zone_is_journaled_again() {
    for is_checkpointed in [true, false] {
        let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
        let options = options(400);
        let driver = numbered(&drive, &options);
        let zone = {
            let mut state = driver.state();
            let next = Lba::new(state.journal.next().get());
            state.journal.begin_zone(&*drive).unwrap();
            state.journal.zones.iter().find(|zone| zone.range.contains(next)).unwrap().zone
        };
        // So that the previous checkpoint does not refer to the zone's content.
        driver.checkpoint().unwrap();
        drive.fail_zone(zone, ZoneFailure::Offline).unwrap();
        if is_checkpointed {
            driver.checkpoint().unwrap();
        } else {
            driver.flush().unwrap();
        }
        check_numbered(&driver, "running");
        drop(driver);
        for _ in 0..2 {
            let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
            check_numbered(&driver, "opened");
        }
    }
}

/// A blank journal zone is found offline when it is to be reset. Nothing in it is needed, and the
/// next flush records that where opening looks.
#[test]
fn a_lost_journal_zone_is_recorded() {
    let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
    let options = options(400);
    let driver = numbered(&drive, &options);
    let zones: Vec<ZoneId> = {
        let state = driver.state();
        let free = state.journal.zones.iter().filter(|zone| zone.used == JournalUse::Free);
        free.map(|zone| zone.zone).collect()
    };
    drive.fail_zone(zones[0], ZoneFailure::Offline).unwrap();
    driver.flush().unwrap();
    drop(driver);
    let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    check_numbered(&driver, "opened");
}

/// A journal zone goes offline while the device is closed. If the journal ends inside another zone,
/// this one can only hold copies for the write buffer, and only they are lost.
#[test]
fn an_offline_journal_zone_costs_its_data() {
    for used in [JournalUse::Free, JournalUse::Sealed] {
        let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
        let options = options(400);
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let write = |at: u64| {
            driver.write(Lba::new(at), &[at as u8; BLOCK_LEN_BYTES], Persist::Through).unwrap();
        };
        (0..100).for_each(write);
        driver.checkpoint().unwrap();
        write(99);
        let zone = {
            let state = driver.state();
            state.journal.zones.iter().find(|zone| zone.used == used).unwrap().zone
        };
        let copied_count = driver.state().copies.active(zone).get();
        drop(driver);
        drive.fail_zone(zone, ZoneFailure::Offline).unwrap();
        for _ in 0..2 {
            let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
            let mut buf = [0; BLOCK_LEN_BYTES];
            let mut lost_count = 0;
            for at in 0..100 {
                match driver.read(Lba::new(at), &mut buf) {
                    Ok(()) => assert_eq!(buf, [at as u8; BLOCK_LEN_BYTES], "block {at}"),
                    Err(DiskError::Medium { at: told }) if told == Lba::new(at) => lost_count += 1,
                    Err(error) => panic!("block {at}: {error}"),
                }
            }
            assert_eq!(lost_count, copied_count, "{used:?}");
            assert_eq!(lost_count > 0, used == JournalUse::Sealed);
            invariants::check(&driver.state()).unwrap();
        }
    }
}

/// The entries after the checkpoint may be in it, or their continuation. Right after opening
/// nothing shows where the journal ends.
#[test]
fn an_offline_journal_zone_may_hold_the_last_entries() {
    for (count, used) in [(70, JournalUse::Sealed), (1, JournalUse::Open), (0, JournalUse::Free)] {
        let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
        // With this many zones no checkpoint is due.
        let options = DriverOptions { journal_zone_count: 8, ..options(400) };
        let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
        drop(numbered(&drive, &options));
        let driver = open().unwrap();
        for at in 100..100 + count {
            driver.write(Lba::new(at), &[9; BLOCK_LEN_BYTES], Persist::Through).unwrap();
        }
        let zone = {
            let state = driver.state();
            let mut zones = state.journal.zones.iter().filter(|zone| zone.used == used);
            zones.next_back().unwrap().zone
        };
        drop(driver);
        drive.fail_zone(zone, ZoneFailure::Offline).unwrap();
        let error = open().err().unwrap_or_else(|| panic!("{used:?}: opened")).to_string();
        assert!(error.contains(&format!("journal is damaged: {zone} is offline")), "{error}");
    }
}

/// The zone was full: it was sealed without a request to the drive, and its data was in memory
/// only.
#[test]
fn a_full_journal_zone_that_goes_offline_costs_nothing_after_a_flush() {
    let mut flushed_count = 0;
    for (extra, count) in (0..4).flat_map(|extra| (20..60).map(move |count| (extra, count))) {
        let told = format!("{extra} and {count} blocks");
        let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
        let options = options(400);
        let driver = numbered(&drive, &options);
        let write = |at: u64, len: u64, persist| {
            driver.write(Lba::new(at), &vec![7; Blocks::new(len).bytes() as usize], persist)
        };
        write(100, 1 + extra, Persist::Through).unwrap();
        (0..count).for_each(|at| write(200 + at, 1, Persist::Through).unwrap());
        let zone = {
            let journal = &driver.state().journal;
            journal.zones.iter().find(|zone| zone.used == JournalUse::Open).unwrap().zone
        };
        drive.fail_zone(zone, ZoneFailure::Offline).unwrap();
        if write(300, 1, Persist::Through).is_err() {
            continue;
        }
        flushed_count += 1;
        drop(driver);
        drive.power_cycle(&mut Prng::new(count)).unwrap();
        let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
        let driver = driver.unwrap_or_else(|error| panic!("{told}: {error}"));
        check_numbered(&driver, &told);
    }
    assert!(flushed_count > 0);
}
