//! Active data of a journal zone that is to be recycled.

use super::*;

/// Blocks far from each other, and from those that are written over and over.
const FAR: [u64; 5] = [1000, 1100, 1200, 1300, 1400];

struct Scene {
    drive: Arc<SimDisk>,
    options: DriverOptions,
    driver: BlockDriver,
}

impl Scene {
    /// Writes the far blocks durably.
    fn new(eviction: EvictionOrder) -> Scene {
        let drive = SimDisk::builder(zoned(60, 200, 2)).write_cache(Blocks::new(10_000)).memory();
        let drive = Arc::new(drive.unwrap());
        let options = DriverOptions { eviction, ..options(120) };
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        for at in FAR {
            let data = vec![at as u8; BLOCK_LEN_BYTES];
            driver.write(Lba::new(at), &data, Persist::Cached).unwrap();
        }
        driver.flush().unwrap();
        Scene { drive, options, driver }
    }

    /// Writes enough elsewhere to recycle the journal many times; false if the power goes.
    fn recycle(&self) -> bool {
        (0..200).all(|round| {
            let data = vec![round as u8; 20 * BLOCK_LEN_BYTES];
            let written = self.driver.write(Lba::new(20 * (round % 12)), &data, Persist::Through);
            let on = has_power(written, "the journal is recycled");
            if on {
                invariants::check(&self.driver.state()).unwrap();
            }
            on
        })
    }

    /// How many of the far blocks are in the write buffer.
    fn held(&self) -> usize {
        let state = self.driver.state();
        FAR.iter().filter(|&&at| state.regions.within(range(at, 1)).next().is_some()).count()
    }
}

#[test]
fn a_few_short_regions_stay_in_the_buffer() {
    let scene = Scene::new(EvictionOrder::LongestAndOldest);
    assert!(scene.recycle());
    let counters = scene.driver.driver_counters();
    assert!(counters.checkpoints > 10, "{counters:?}");
    assert!(counters.kept_blocks >= 5 * FAR.len() as u64, "{counters:?}");
    assert_eq!(scene.held(), FAR.len());
}

/// The paper's order, and the baseline.
#[test]
fn other_orders_evict_them() {
    for eviction in [EvictionOrder::LargestRegion, EvictionOrder::LeastRecentlyWritten] {
        let scene = Scene::new(eviction);
        assert!(scene.recycle());
        assert_eq!((scene.driver.driver_counters().kept_blocks, scene.held()), (0, 0));
    }
}

#[test]
fn kept_data_survives_a_power_cut_at_any_moment() {
    let mut cut_count = 0;
    for event_count in (0..600).step_by(7) {
        let scene = Scene::new(EvictionOrder::LongestAndOldest);
        let faults = FaultPlan { power_cut_after: Some(event_count), ..FaultPlan::default() };
        scene.drive.set_faults(faults);
        cut_count += usize::from(!scene.recycle());
        let Scene { drive, options, driver } = scene;
        drop(driver);
        drive.power_cycle(&mut Prng::new(event_count)).unwrap();
        drive.set_faults(FaultPlan::default());
        let driver = BlockDriver::open(drive as Arc<dyn Disk>, &options).unwrap();
        for at in FAR {
            let mut buf = vec![0; BLOCK_LEN_BYTES];
            driver.read(Lba::new(at), &mut buf).unwrap();
            assert_eq!(buf, [at as u8; BLOCK_LEN_BYTES], "block {at}, {event_count} events");
        }
        invariants::check(&driver.state()).unwrap();
    }
    assert!(cut_count > 40, "{cut_count}");
}
