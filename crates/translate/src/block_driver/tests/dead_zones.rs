//! Zones without valid data that are written in part when the device is opened: no checksum of that
//! life counts in the next one.
//!
//! Recovery takes a block whose checksum is known for one that exists. Checksums of the next life
//! are in no journal once they are in a summary, and that summary may not be on the platter when
//! the record of its blocks is.

use super::*;
use journaled_sums::JournaledSums;
use pool::Use;

/// Flushed, and therefore in the journal, before they are written to a zone.
const KEPT: std::ops::Range<u64> = 1000..1010;
/// How much is written after them without a flush: together more than a stretch.
const BEHIND: u64 = 120;

/// How a zone becomes partly written without valid data.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    /// The host trims its data.
    Trimmed,
    /// The same, and an earlier version has put its checksums into the checkpoint.
    TrimmedEarlier,
    /// A power cut leaves less of it than its only record says.
    Torn,
}

fn stamp(at: u64) -> [u8; BLOCK_LEN_BYTES] {
    [at as u8; BLOCK_LEN_BYTES]
}

/// Evicts all but the shortest region.
fn evict(driver: &BlockDriver) {
    driver.set_buffer_len(Blocks::new(5));
    while driver.work().unwrap() {}
    driver.set_buffer_len(Blocks::new(400));
}

fn check(driver: &BlockDriver, told: &str) {
    let mut buf = [0; BLOCK_LEN_BYTES];
    for at in KEPT {
        driver.read(Lba::new(at), &mut buf).unwrap_or_else(|error| panic!("{told}: {at}: {error}"));
        assert_eq!(buf, stamp(at), "{told}: block {at}");
    }
    invariants::check(&driver.state()).unwrap_or_else(|broken| panic!("{told}: {broken}"));
}

/// Whether power cuts left the situation under test: a dead zone, and of its next life a part of
/// the first stretch, which the journal describes completely.
fn lives_again(death: Death, seed: u64) -> bool {
    let told = format!("{death:?}, seed {seed}");
    let drive = SimDisk::builder(zoned(60, 200, 0)).write_cache(Blocks::new(10_000)).memory();
    let drive = Arc::new(drive.unwrap());
    let options = options(400);
    let open = || {
        let opened = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
        opened.unwrap_or_else(|error| panic!("{told}: {error}"))
    };
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    // Keeps its journal zone active, so that no checkpoint is due.
    driver.write(Lba::new(500), &[5; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    if death == Death::Torn {
        for at in 0..45 {
            driver.write(Lba::new(at), &stamp(at), Persist::Through).unwrap();
        }
        evict(&driver);
        driver.state().commit().unwrap();
    } else {
        driver.write(Lba::new(0), &[7; 45 * BLOCK_LEN_BYTES], Persist::Through).unwrap();
        driver.discard(range(0, 45)).unwrap();
        driver.flush().unwrap();
    }
    let zone = driver.state().zones.open[0].unwrap();
    drop(driver);
    drive.power_cycle(&mut Prng::new(seed)).unwrap();

    let driver = open();
    invariants::check(&driver.state()).unwrap_or_else(|broken| panic!("{told}: {broken}"));
    let dead = *driver.state().zones.pool.get(zone).unwrap();
    let is_dead = dead.used == Use::Resettable && dead.written().get() >= 10;
    if death == Death::TrimmedEarlier {
        let sum = |index| (dead.pba(index), format::Sum::of(Lba::new(index), &[7; 4096]));
        let sums = (0..dead.written().get()).map(sum).collect();
        driver
            .state()
            .zones
            .summaries
            .resume(&dead, &JournaledSums { sums, ..JournaledSums::default() });
        // Otherwise the checkpoint would take the zone.
        driver.state().zones.pool.set(zone, Use::Recorded);
        driver.state().checkpoint_now().unwrap();
        driver.state().flush_drive().unwrap();
    }
    // So that the kept blocks are the first of the zone.
    driver.discard(range(0, 45)).unwrap();
    let kept: Vec<u8> = KEPT.flat_map(stamp).collect();
    driver.write(Lba::new(KEPT.start), &kept, Persist::Through).unwrap();
    evict(&driver);
    let behind = vec![9; BEHIND as usize * BLOCK_LEN_BYTES];
    driver.write(Lba::new(2000), &behind, Persist::Cached).unwrap();
    driver.state().commit().unwrap();
    let end = Lba::new(driver.state().journal.next().get());
    let is_next = driver.state().zones.open[0] == Some(zone);
    drop(driver);
    drive.power_cycle(&mut Prng::new(1000 + seed)).unwrap();
    let pointer = |zone| {
        let info = drive.zone(zone).unwrap();
        info.state.write_pointer(info.start)
    };
    let is_whole = drive.report_zones().iter().any(|info| pointer(info.zone) == Some(end));
    let written = pointer(zone).map_or(0, |pointer| (pointer - dead.start).get());
    let driver = open();
    check(&driver, &told);
    drop(driver);
    check(&open(), &told);
    is_dead && is_next && is_whole && (10..=127).contains(&written)
}

fn check_lives_again(death: Death) {
    let count = (0..200).filter(|&seed| lives_again(death, seed)).count();
    assert!(count >= 5, "{death:?}: {count}");
}

#[test]
fn no_checksum_outlives_trimmed_data() {
    check_lives_again(Death::Trimmed);
}

#[test]
fn no_checksum_of_an_earlier_version_counts_in_the_next_life() {
    check_lives_again(Death::TrimmedEarlier);
}

#[test]
fn no_checksum_outlives_torn_data() {
    check_lives_again(Death::Torn);
}
