//! Zones that the journal names and whose data did not reach the platter. Nothing is written there
//! before a checkpoint settles their state, or a second recovery would take the new data for the
//! old.

use super::*;
use imbrex_disk::ZoneState;

const AT: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// No other fault.
    Plain,
    /// The newest superblock in zone 0 is rotten.
    Rotten,
    /// Zone 0 is offline, and zone 1 is nearly full: the next superblock needs a stand-in.
    Alone,
}

/// A block is durable in the journal and evicted to a zone that the journal names and a power cut
/// leaves blank. `None` if the power cut left something else.
fn scene(kind: Kind, seed: u64) -> Option<Arc<SimDisk>> {
    let drive = SimDisk::builder(zoned(40, 32, 0)).write_cache(Blocks::new(10_000)).memory();
    let drive = Arc::new(drive.unwrap());
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(40)).unwrap();
    if kind == Kind::Alone {
        drive.fail_zone(ZoneId(0), ZoneFailure::Offline).unwrap();
        driver.checkpoint().unwrap();
        while !begins_anew(&driver, 1) {
            driver.checkpoint().unwrap();
        }
    }
    driver.write(Lba::new(AT), &[AT as u8; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    driver.set_buffer_len(Blocks::new(1));
    while driver.work().unwrap() {}
    driver.state().commit().unwrap();
    let (zone, behind) = {
        let state = driver.state();
        (state.zones.open[0].unwrap(), Lba::new(state.journal.next().get()))
    };
    drop(driver);
    drive.power_cycle(&mut Prng::new(seed)).unwrap();
    if kind == Kind::Rotten {
        let newest = superblocks::newest(&*drive).unwrap();
        drive.flip_bit(Lba::new(newest.zones.slots[0].unwrap() - 1), 700).unwrap();
    }
    let pointers =
        drive.report_zones().into_iter().map(|info| info.state.write_pointer(info.start));
    let is_blank = drive.zone(zone).unwrap().state == ZoneState::Empty;
    (is_blank && pointers.into_iter().any(|pointer| pointer == Some(behind))).then_some(drive)
}

#[test]
fn a_named_zone_stays_blank_until_a_checkpoint_counts() {
    for kind in [Kind::Plain, Kind::Rotten, Kind::Alone] {
        let seeds: Vec<u64> =
            (0..200).filter(|&seed| scene(kind, seed).is_some()).take(3).collect();
        assert_eq!(seeds.len(), 3, "{kind:?}");
        for seed in seeds {
            for (event_count, again) in (0..24).flat_map(|count| (0..4).map(move |n| (count, n))) {
                let told = format!("{kind:?}, {seed}, cut at {event_count}, {again}");
                let drive = scene(kind, seed).unwrap();
                let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options(40));
                let power_cut_after = Some(event_count);
                drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
                drop(open());
                drive.power_cycle(&mut Prng::new(again)).unwrap();
                let driver = open().unwrap_or_else(|error| panic!("{told}: {error}"));
                let mut buf = [0; BLOCK_LEN_BYTES];
                let read = driver.read(Lba::new(AT), &mut buf);
                read.unwrap_or_else(|error| panic!("{told}: {error}"));
                assert_eq!(buf, [AT as u8; BLOCK_LEN_BYTES], "{told}");
                invariants::check(&driver.state())
                    .unwrap_or_else(|broken| panic!("{told}: {broken}"));
            }
        }
    }
}
