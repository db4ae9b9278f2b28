//! A process that is killed in a sync leaves its writes in the drive's cache. The next process
//! finds them there, and then the power goes.

use super::*;

/// The record of a rewrite was only in the cache. The next process finished the rewrite, and a
/// power cut kept the destruction and lost the record.
#[test]
fn a_rewrite_is_finished_only_if_its_record_is_durable() {
    let mut was_killed_count = 0;
    for (kill, cut) in (0..6).flat_map(|kill| (0..8).map(move |cut| (kill, cut))) {
        for seed in 0..8 {
            let told = format!("killed in sync {kill}, cut at event {cut}, seed {seed}");
            let drive = SimDisk::builder(shingled(1000, 4, 2)).write_cache(Blocks::new(10_000));
            let drive = Arc::new(drive.memory().unwrap());
            let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(32));
            let bands = bands.unwrap();
            bands.write(Lba::new(0), &blocks(1, 20), Persist::Cached).unwrap();
            bands.flush().unwrap();
            drive.set_faults(FaultPlan { kill_in_sync_after: Some(kill), ..FaultPlan::default() });
            let written = bands.write(Lba::new(2), &blocks(2, 3), Persist::Through);
            was_killed_count += usize::from(written.is_err());
            drop(bands);

            let open = || FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>);
            let cut_at = FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() };
            drive.set_faults(cut_at);
            drop(open());
            drive.power_cycle(&mut Prng::new(seed)).unwrap();
            drive.set_faults(FaultPlan::default());
            let bands = open().unwrap_or_else(|error| panic!("{told}: {error}"));
            let found = fills(&bands, 0, 20).unwrap_or_else(|error| panic!("{told}: {error}"));
            for (at, fill) in found.into_iter().enumerate() {
                let is_new = (2..5).contains(&at) && fill == 2;
                let is_old = fill == 1 && !((2..5).contains(&at) && written.is_ok());
                assert!(is_new || is_old, "{told}: block {at} is {fill}");
            }
        }
    }
    assert!(was_killed_count > 100, "{was_killed_count}");
}

/// The checkpoint of an opening was only in the cache. The next process discarded the log before
/// it, which was the durable one.
#[test]
fn the_durable_log_is_kept_until_the_next_is_durable() {
    for (kill, cut) in (0..3).flat_map(|kill| (0..8).map(move |cut| (kill, cut))) {
        for seed in 0..16 {
            let told = format!("killed in sync {kill}, cut at event {cut}, seed {seed}");
            let drive = SimDisk::builder(shingled(1000, 4, 2)).write_cache(Blocks::new(10_000));
            let drive = Arc::new(drive.memory().unwrap());
            let open = || FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>);
            let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(32));
            let bands = bands.unwrap();
            bands.write(Lba::new(0), &blocks(1, 20), Persist::Cached).unwrap();
            bands.flush().unwrap();
            drop(bands);
            drive.set_faults(FaultPlan { kill_in_sync_after: Some(kill), ..FaultPlan::default() });
            drop(open().map(|bands| bands.flush()));
            drive.set_faults(FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() });
            drop(open());
            drive.power_cycle(&mut Prng::new(seed)).unwrap();
            drive.set_faults(FaultPlan::default());
            let bands = open().unwrap_or_else(|error| panic!("{told}: {error}"));
            let found = fills(&bands, 0, 20).unwrap_or_else(|error| panic!("{told}: {error}"));
            assert!(found.iter().all(|&fill| fill == 1), "{told}: {found:?}");
        }
    }
}
