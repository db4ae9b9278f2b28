//! Writes that the drive takes back, zones that it gives up, and structures that a power cut leaves
//! half done.

use super::*;
use imbrex_disk::{ZoneInfo, ZoneState};
use imbrex_disk_sim::FailAt;
use journal::JournalUse;
use pool::Use;

/// Recovery finishes a zone that begins with an incomplete header: reads after it return fill from
/// then on.
#[test]
fn a_header_torn_at_a_zones_start_does_not_prevent_opening() {
    let block_count = 250;
    assert!(format::header_len(block_count).get() >= 2);
    for kept in 1..8 {
        let drive = Arc::new(SimDisk::builder(zoned(40, 2400, 0)).memory().unwrap());
        let options = options(400);
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        for at in 0..block_count as u64 {
            driver.write(Lba::new(2 * at), &[7; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        }
        driver.flush().unwrap();
        let zone = {
            let state = driver.state();
            *state.journal.zones.iter().find(|zone| zone.used == JournalUse::Open).unwrap()
        };
        drop(driver);
        let mut torn = vec![0; kept * BLOCK_LEN_BYTES];
        drive.read(zone.range.start, &mut torn).unwrap();
        drive.manage_zone(zone.zone, ZoneAction::Reset).unwrap();
        drive.write(zone.range.start, &torn, Persist::Through).unwrap();
        for opening in 0..3 {
            let opened = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
            assert!(opened.is_ok(), "{kept} blocks, opening {opening}: {:?}", opened.err());
        }
    }
}

/// A journal zone whose first write fails is open and holds nothing. The next opening finished it,
/// and the one after that took it for a zone whose first entry is damaged.
#[test]
fn a_zone_begun_by_a_failed_write_does_not_prevent_opening() {
    let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
    let options = DriverOptions { journal_zone_count: 3, ..options(60) };
    let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
    drop(BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap());
    let fail_write = Some(FailAt { after: 0, sticky: true });
    let mut begun_count = 0;
    for round in 0..30_u8 {
        let driver = open().unwrap_or_else(|error| panic!("round {round}: {error}"));
        if round > 0 {
            let mut buf = [0; BLOCK_LEN_BYTES];
            driver.read(Lba::new(7), &mut buf).unwrap();
            assert_eq!(buf, [round - 1; BLOCK_LEN_BYTES]);
        }
        let write = |fill| driver.write(Lba::new(7), &[fill; BLOCK_LEN_BYTES], Persist::Through);
        drive.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
        write(99).unwrap_err();
        drop(driver);
        drive.set_faults(FaultPlan::default());
        let zones = drive.report_zones();
        let is_begun = |info: &ZoneInfo| match info.state {
            ZoneState::Open { write_pointer, .. } => write_pointer == info.start,
            _ => false,
        };
        begun_count += zones.iter().filter(|info| is_begun(info)).count();
        drop(open().unwrap_or_else(|error| panic!("round {round}, first opening: {error}")));
        let driver = open().unwrap_or_else(|error| panic!("round {round}, second: {error}"));
        driver.write(Lba::new(7), &[round; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    }
    assert!(begun_count > 0);
}

/// The drive refuses to begin free journal zones, down to the last one. Durable data is there.
#[test]
fn a_journal_goes_on_with_whatever_zones_it_has() {
    for (zone_count, failing_count) in [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3)] {
        let told = format!("{failing_count} of {zone_count}");
        let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
        let options = DriverOptions { journal_zone_count: zone_count, ..options(60) };
        let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
        let mut driver =
            BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let mut stamps = [0; 40];
        let mut failed_count = 0;
        for round in 0..600_u64 {
            let at = round * 7 % 40;
            let data = vec![round as u8; 5 * BLOCK_LEN_BYTES];
            let written = driver.write(Lba::new(5 * at), &data, Persist::Through);
            written.unwrap_or_else(|error| panic!("{told}, round {round}: {error}"));
            stamps[at as usize] = round as u8;
            if round % 20 == 19 && failed_count < failing_count {
                let zones = driver.state().journal.zones.clone();
                if let Some(free) = zones.iter().find(|zone| zone.used == JournalUse::Free) {
                    drive.fail_zone(free.zone, ZoneFailure::ReadOnly).unwrap();
                    failed_count += 1;
                }
            }
            if round % 37 == 0 {
                drop(driver);
                driver = open().unwrap_or_else(|error| panic!("{told}, round {round}: {error}"));
            }
        }
        assert_eq!(failed_count, failing_count, "{told}");
        let mut buf = [0; BLOCK_LEN_BYTES];
        for (at, stamp) in (0..).zip(stamps) {
            driver.read(Lba::new(5 * at), &mut buf).unwrap();
            assert_eq!(buf, [stamp; BLOCK_LEN_BYTES], "{told}: block {at}");
        }
    }
}

/// A lost block is written again, and a checkpoint is written before the journal has the new
/// content.
#[test]
fn older_content_does_not_come_back_after_a_loss() {
    let drive = SimDisk::builder(zoned(60, 200, 0)).write_cache(Blocks::new(10_000)).memory();
    let drive = Arc::new(drive.unwrap());
    let options = options(100);
    let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let write = |driver: &BlockDriver, content: u8| {
        driver.write(Lba::new(31), &[content; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    };
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    write(&driver, 1);
    driver.set_buffer_len(Blocks::new(1));
    driver.write(Lba::new(500), &[9; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    while driver.work().unwrap() {}
    assert!(
        driver.state().pieces(range(31, 1)).unwrap().into_iter().next().unwrap().at.is_some(),
        "evicted"
    );
    driver.set_buffer_len(Blocks::new(100));
    write(&driver, 2);
    driver.flush().unwrap();
    let place = driver.state().copies.copies_of(range(31, 1)).next().unwrap().1.start;
    drop(driver);
    drive.flip_bit(Lba::new(place.get()), 1).unwrap();
    let driver = open();
    let mut buf = [0; BLOCK_LEN_BYTES];
    driver.read(Lba::new(31), &mut buf).unwrap_err();
    write(&driver, 3);
    driver.read(Lba::new(31), &mut buf).unwrap();
    assert_eq!(buf, [3; BLOCK_LEN_BYTES], "the write buffer has it");
    driver.state().checkpoint_now().unwrap();
    drop(driver);
    drive.power_cycle(&mut Prng::new(1)).unwrap();
    let driver = open();
    let error = driver.read(Lba::new(31), &mut buf).unwrap_err();
    assert!(matches!(error, DiskError::Medium { at } if at == Lba::new(31)), "{error}");
    write(&driver, 4);
    driver.flush().unwrap();
    drop(driver);
    drive.power_cycle(&mut Prng::new(2)).unwrap();
    open().read(Lba::new(31), &mut buf).unwrap();
    assert_eq!(buf, [4; BLOCK_LEN_BYTES]);
}

#[test]
fn cleaning_goes_on_without_a_zone_that_goes_offline() {
    let drive = Arc::new(SimDisk::builder(zoned(60, 64, 2)).memory().unwrap());
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(60)).unwrap();
    let len = driver.geometry().len().get();
    let mut prng = Prng::new(3);
    let mut write = |count: u64| {
        for _ in 0..count {
            let at = Lba::new(prng.below(len));
            driver.write(at, &[1; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        }
        driver.driver_counters().cleanings
    };
    write(4 * len);
    let zone = {
        let state = driver.state();
        let sealed = state.zones.pool.iter().filter(|slot| slot.used == Use::Sealed);
        sealed.min_by_key(|slot| state.map.valid(slot.zone)).unwrap().zone
    };
    drive.fail_zone(zone, ZoneFailure::Offline).unwrap();
    let before = driver.driver_counters().cleanings;
    assert!(write(2 * len) > before + 10);
    driver.flush().unwrap();
    invariants::check(&driver.state()).unwrap();
}
