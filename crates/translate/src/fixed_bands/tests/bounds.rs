//! The bound on remembered runs of valid blocks, and that a log has room for all of them.

use super::damage::KeepsDiscarded;
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

/// Bands with a log of the earlier length, without room for one more run a band.
fn with_a_shorter_log(valid: &Runs) -> Arc<SimDisk> {
    let (drive, options) = tiny_bands();
    let planned = BandLayout::plan(drive.geometry(), &options).unwrap();
    let log_len = Blocks::new(1 + 4 + 70) + planned.log_reserve();
    let superblock = format::Superblock { log_len, ..planned.superblock };
    let layout = BandLayout::of(drive.geometry(), superblock).unwrap();
    let below = Below::new(Arc::clone(&drive) as Arc<dyn Disk>);
    BandJournal::begin(&below, &layout, 0, 1, valid).unwrap();
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

/// On a drive that drops discards: blocks between two runs that were destroyed below do not simply
/// count as valid.
#[test]
fn destroyed_blocks_between_two_runs_are_written_before_they_count_as_valid() {
    let drive = Arc::new(SimDisk::builder(shingled(800, 4, 2)).memory().unwrap());
    let drive = Arc::new(KeepsDiscarded(drive));
    let options = BandOptions { run_count_max: 2, ..options(16) };
    let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    bands.write(Lba::new(16), &blocks(1, 12), Persist::Through).unwrap();
    bands.write(Lba::new(64), &blocks(1, 1), Persist::Through).unwrap();
    bands.discard(range(18, 10)).unwrap();
    bands.write(Lba::new(16), &blocks(2, 2), Persist::Cached).unwrap();
    bands.write(Lba::new(30), &blocks(3, 2), Persist::Cached).unwrap();
    check_gap(drive, bands);
}

/// On a drive that obeys discards: a failed write leaves a part that is in no run.
#[test]
fn a_part_of_a_failed_write_between_two_runs_is_written_before_it_counts_as_valid() {
    for before in [true, false] {
        let drive = Arc::new(SimDisk::builder(shingled(800, 4, 2)).memory().unwrap());
        let options = BandOptions { run_count_max: 2, ..options(16) };
        let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        bands.write(Lba::new(64), &blocks(1, 1), Persist::Through).unwrap();
        for seed in 0..20 {
            let fail_write = Some(FailAt { after: 0, sticky: false });
            let write_part = Some(seed);
            drive.set_faults(FaultPlan { fail_write, write_part, ..FaultPlan::default() });
            bands.write(Lba::new(20), &blocks(9, 8), Persist::Cached).unwrap_err();
        }
        let [first, second] = if before { [(16, 2), (30, 3)] } else { [(30, 3), (16, 2)] };
        for (at, fill) in [first, second] {
            bands.write(Lba::new(at), &blocks(fill, 2), Persist::Cached).unwrap();
        }
        check_gap(drive, bands);
    }
}

/// On a drive that refuses to destroy: the remains of a failed write blocked all writes before it.
#[test]
fn a_failed_write_does_not_block_later_writes() {
    for seed in 0..20 {
        let drive = SimDisk::builder(shingled(800, 4, 2)).refuse_destroying().memory().unwrap();
        let drive = Arc::new(drive);
        let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(16)).unwrap();
        let fail_write = Some(FailAt { after: 0, sticky: false });
        let write_part = Some(seed);
        drive.set_faults(FaultPlan { fail_write, write_part, ..FaultPlan::default() });
        bands.write(Lba::new(24), &blocks(9, 8), Persist::Cached).unwrap_err();
        bands.write(Lba::new(16), &blocks(2, 8), Persist::Cached).unwrap();
        let found = fills(&bands, 16, 16).unwrap();
        assert_eq!((&found[..8], &found[8..]), (&[2; 8][..], &[0; 8][..]), "seed {seed}");
    }
}

/// Blocks 16 and 17 hold 2, blocks 30 and 31 hold 3, the blocks between were never written, and all
/// can be written again.
fn check_gap(drive: Arc<dyn Disk>, bands: FixedBands) {
    let expected = |first: u8| {
        let mut fills = vec![0; 16];
        fills[..2].fill(first);
        fills[14..].fill(3);
        fills
    };
    assert_eq!(fills(&bands, 16, 16).unwrap(), expected(2));
    assert!(bands.read_state().valid.count() <= 2);
    bands.write(Lba::new(16), &blocks(4, 1), Persist::Cached).unwrap();
    bands.write(Lba::new(17), &blocks(4, 1), Persist::Cached).unwrap();
    bands.flush().unwrap();
    drop(bands);
    let bands = FixedBands::open(drive).unwrap();
    assert_eq!(fills(&bands, 16, 16).unwrap(), expected(4));
    assert_eq!(fills(&bands, 64, 1).unwrap(), [1]);
}

/// More runs than the log takes, on a drive that drops discards: a gap that is not blank below is
/// not chosen to count as valid, even if it is the shortest.
#[test]
fn opening_closes_only_blank_gaps() {
    let mut valid = Runs::default();
    (0..15_000).for_each(|n| valid.insert(range(4 * n, 2)));
    // One gap of one block; all others have two.
    valid.insert(range(2, 1));
    let drive = with_a_shorter_log(&valid);
    let superblock =
        recover::read_superblock(&Below::new(Arc::clone(&drive) as Arc<dyn Disk>)).unwrap();
    let layout = BandLayout::of(drive.geometry(), superblock).unwrap();
    let bad = Lba::new(layout.locate(Lba::new(3)).get());
    drive.write(bad, &blocks(9, 1), Persist::Through).unwrap();
    let bands = FixedBands::open(Arc::new(KeepsDiscarded(drive))).unwrap();
    let state = bands.read_state();
    assert!((5_000..15_000).contains(&state.valid.count()), "{}", state.valid.count());
    assert!(valid.iter().all(|run| state.valid.holds(run)));
    assert!(!state.valid.touches(range(3, 1)));
}
