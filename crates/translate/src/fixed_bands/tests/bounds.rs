//! How many runs of valid blocks are remembered, and that a log takes them all.

use super::*;

/// Bands of one block on a drive of 70 000, with room for two runs and one more a band.
fn tiny_bands() -> (Arc<SimDisk>, BandOptions) {
    let drive = Arc::new(SimDisk::builder(shingled(70_000, 1, 0)).memory().unwrap());
    (drive, BandOptions { run_count_max: 2, ..options(1) })
}

fn write_every_second_block(bands: &FixedBands) {
    for at in (0..bands.geometry().len().get()).step_by(2) {
        bands.write(Lba::new(at), &blocks(1 + (at % 200) as u8, 1), Persist::Cached).unwrap();
    }
    bands.flush().unwrap();
}

fn check_every_second_block(bands: &FixedBands) {
    let expected = |at: u64| if at.is_multiple_of(2) { 1 + (at % 200) as u8 } else { 0 };
    let len = bands.geometry().len().get();
    for at in (0..len).step_by(1_000) {
        let count = (len - at).min(1_000);
        let expected: Vec<u8> = (at..at + count).map(expected).collect();
        assert_eq!(fills(bands, at, count).unwrap(), expected, "from block {at}");
    }
}

#[test]
fn a_run_in_every_band_fits_into_the_log() {
    let (drive, options) = tiny_bands();
    let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    write_every_second_block(&bands);
    let run_count = bands.read_state().valid.count() as u64;
    assert_eq!(run_count, bands.band_count().div_ceil(2), "nothing else counts as valid");
    drop(bands);
    let bands = FixedBands::open(drive).unwrap();
    assert_eq!(bands.read_state().valid.count() as u64, run_count);
    check_every_second_block(&bands);
}

/// Bands whose log is as long as it was before it had room for one more run a band.
fn with_a_shorter_log(valid: &Runs) -> Arc<SimDisk> {
    let (drive, options) = tiny_bands();
    let planned = Layout::plan(drive.geometry(), &options).unwrap();
    let log_len = Blocks::new(1 + 4 + 70) + planned.log_reserve();
    let superblock = format::Superblock { log_len, ..planned.superblock };
    let layout = Layout::of(drive.geometry(), superblock).unwrap();
    let below = Below::new(Arc::clone(&drive) as Arc<dyn Disk>);
    Journal::begin(&below, &layout, 0, 1, valid).unwrap();
    for at in layout.superblocks {
        below.write(at, &superblock.encode(), Persist::Through, Purpose::Log).unwrap();
    }
    drive
}

#[test]
fn a_shorter_log_takes_every_write() {
    let drive = with_a_shorter_log(&Runs::default());
    for _ in 0..2 {
        let bands = FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap();
        write_every_second_block(&bands);
        assert!(bands.read_state().valid.count() > 5_000);
        check_every_second_block(&bands);
    }
    check_every_second_block(&FixedBands::open(drive).unwrap());
}

#[test]
fn more_runs_than_a_checkpoint_takes_become_fewer() {
    let mut valid = Runs::default();
    (0..15_000).for_each(|n| valid.insert(range(4 * n, 2)));
    let bands = FixedBands::open(with_a_shorter_log(&valid)).unwrap();
    let state = bands.read_state();
    assert!((5_000..15_000).contains(&state.valid.count()), "{}", state.valid.count());
    assert!(valid.iter().all(|run| state.valid.holds(run)));
}
