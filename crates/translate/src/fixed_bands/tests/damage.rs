//! Damaged and forged structures are reported, and never taken for something else.

use super::*;
use crate::error::FormatFault;

/// The header of the newer log rots: the older log does not count in its place, and the frames of the
/// newer one replace the header.
#[test]
fn a_rotten_log_header_does_not_roll_back() {
    let (drive, mut bands) = filled();
    for (fill, bit) in (7..).zip([0, 8 * 24 + 1, 8 * 1_000, 8 * 4_095]) {
        bands.write(Lba::new(80), &blocks(fill, 4), Persist::Cached).unwrap();
        bands.flush().unwrap();
        let region = bands.read_state().journal.region_index();
        let header = Lba::new(bands.layout.logs[region].start.get());
        drop(bands);
        drive.flip_bit(header, bit).unwrap();
        bands = FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap();
        assert_eq!(fills(&bands, 80, 4).unwrap(), [fill; 4], "bit {bit}");
        assert_eq!(bands.read_state().journal.region_index(), 1 - region);
    }
}

/// The power goes at each event, while requests are served and while the bands are opened. A block
/// that was being written cannot be read afterwards: the header of a log, its checkpoint or its
/// end, a slot, a band.
#[test]
fn blocks_broken_by_a_cut_do_not_prevent_opening() {
    for seed in 0..24 {
        let mut cut = 0;
        loop {
            let builder = SimDisk::builder(shingled(1000, 4, 2)).write_cache(Blocks::new(10_000));
            let drive = Arc::new(builder.breaking_sectors().memory().unwrap());
            let open = || FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>);
            let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(32));
            let bands = bands.unwrap();
            bands.write(Lba::new(0), &blocks(1, 20), Persist::Cached).unwrap();
            bands.flush().unwrap();
            drive.set_faults(FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() });
            let was_cut = bands
                .write(Lba::new(4), &blocks(2, 4), Persist::Cached)
                .and_then(|()| bands.flush())
                .and_then(|()| bands.write(Lba::new(40), &blocks(3, 8), Persist::Through))
                .is_err();
            drop(bands);
            let is_over = !was_cut && open().is_ok();
            drive.power_cycle(&mut Prng::new(seed)).unwrap();
            let told = format!("seed {seed}, cut at event {cut}");
            let check = |bands: &FixedBands| {
                for (at, len) in [(0, 4), (8, 12)] {
                    assert_eq!(fills(bands, at, len).unwrap(), vec![1; len as usize], "{told}");
                }
                if !was_cut {
                    assert_eq!(fills(bands, 4, 4).unwrap(), [2; 4], "{told}");
                    assert_eq!(fills(bands, 40, 8).unwrap(), [3; 8], "{told}");
                }
            };
            // Again during the repair.
            let power_cut_after = Some(cut % 9);
            drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            drop(open());
            drive.power_cycle(&mut Prng::new(seed + 1000)).unwrap();
            for _ in 0..2 {
                let bands = open().unwrap_or_else(|error| panic!("{told}: {error}"));
                check(&bands);
                bands.write(Lba::new(60), &blocks(4, 2), Persist::Through).unwrap();
            }
            if is_over {
                break;
            }
            cut += 1;
        }
        assert!(cut > 10, "{cut}");
    }
}

/// Acknowledged records are before the end of the log. The block at its end was being written when
/// the power went.
#[test]
fn an_unreadable_block_after_the_journal_does_not_prevent_opening() {
    let (drive, bands) = filled();
    let expected = fills(&bands, 0, 128).unwrap();
    let log = bands.layout.logs[bands.read_state().journal.region_index()];
    let is_blank = |at: &u64| fills(&*drive, log.start.get() + at, 1).unwrap() == [0];
    let end = log.len.get() - (0..log.len.get()).rev().take_while(is_blank).count() as u64;
    assert!(3 < end && end + 8 < log.len.get(), "{end} of {}", log.len);
    drop(bands);
    for at in 0..log.len.get() {
        let (drive, bands) = filled();
        drop(bands);
        drive.damage(BlockRange::new(Lba::new(log.start.get() + at), Blocks::new(1)));
        match FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>) {
            // The log after the header says everything that the header says.
            Ok(bands) => {
                if 0 < at && at < end {
                    // A block of the last frame, which may have been in transit: no later frame
                    // says that it was durable.
                    assert_eq!(end - 1, at, "block {at} is of the log");
                    continue;
                }
                assert_eq!(fills(&bands, 0, 128).unwrap(), expected);
                drop(bands);
                // The next log is in the other region; the one after that writes the block again.
                for _ in 0..2 {
                    let bands = FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap();
                    assert_eq!(fills(&bands, 0, 128).unwrap(), expected);
                }
            }
            Err(BandsError::Format(FormatFault::Damaged { structure: "journal", .. })) => {
                assert!(0 < at && at < end, "block {at} is behind the end, {end}");
            }
            Err(error) => panic!("block {at}: {error}"),
        }
    }
}

/// A drive on which a discarded block reads as before, as the contract allows.
#[derive(Debug)]
pub(super) struct KeepsDiscarded(pub(super) Arc<SimDisk>);

impl DiskLayer for KeepsDiscarded {
    fn below(&self) -> &dyn Disk {
        &*self.0
    }

    fn pass_discard(&self, _range: BlockRange) -> Result<(), DiskError> {
        Ok(())
    }
}

#[test]
fn earlier_content_of_a_drive_is_no_rotten_header() {
    let drive = SimDisk::builder(shingled(800, 4, 2)).memory().unwrap();
    let drive = Arc::new(KeepsDiscarded(Arc::new(drive)));
    drive.0.write(Lba::new(0), &blocks(0xEE, 800), Persist::Through).unwrap();
    for id in [77, 78] {
        let options = BandOptions { id, ..options(16) };
        drop(FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap());
        for _ in 0..3 {
            let bands = FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap();
            assert_eq!(bands.options().id, id);
        }
    }
}

#[test]
fn waiting_writes_are_read_from_memory() {
    let drive = Arc::new(SimDisk::builder(shingled(800, 4, 2)).memory().unwrap());
    let options = BandOptions { gather_len: Blocks::new(16), ..options(16) };
    let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    bands.write(Lba::new(16), &blocks(1, 12), Persist::Through).unwrap();
    bands.write(Lba::new(17), &blocks(2, 2), Persist::Cached).unwrap();
    let bad = Lba::new(bands.layout.locate(Lba::new(18)).get());
    drive.damage(BlockRange::new(bad, Blocks::new(1)));
    assert_eq!(fills(&bands, 14, 7).unwrap(), [0, 0, 1, 2, 2, 1, 1]);
    assert_eq!(fills(&bands, 18, 1).unwrap(), [2]);
}

#[test]
fn a_destroyed_block_is_found_among_unreadable_ones() {
    let drive = Arc::new(SimDisk::builder(shingled(64, 4, 2)).memory().unwrap());
    for at in [4, 0] {
        drive.write(Lba::new(at), &blocks(1, 4), Persist::Through).unwrap();
    }
    drive.damage(range(1, 1));
    let below = Below::new(drive);
    let mut buf = blocks(0, 16);
    let found = below.look(Pba::new(0), &mut buf).unwrap().unwrap();
    assert_eq!(found.start, Pba::new(4));
    assert_eq!(below.look(Pba::new(0), &mut buf[..4 * BLOCK_LEN_BYTES]).unwrap(), None);
}

/// A valid checksum says nothing about the writer.
#[test]
fn forged_numbers_are_damage() {
    let (drive, bands) = filled();
    let layout = bands.layout.clone();
    drop(bands);
    let below = Below::new(Arc::clone(&drive) as Arc<dyn Disk>);
    let refused = |expected: &str| {
        let error = FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    BandJournal::begin(&below, &layout, 1, u64::MAX, &Runs::default()).unwrap();
    refused("journal is damaged: the header of region 1");
    let mut journal = BandJournal::begin(&below, &layout, 1, 9, &Runs::default()).unwrap();
    let pieces = vec![range(0, 1)];
    journal.push(&Record::Rewrite(Rewrite { seq: u64::MAX - 1, slot: 0, crc: 0, pieces }));
    journal.write_out(&below, &layout, Persist::Through).unwrap();
    refused("journal is damaged: record at");
    let log_len = layout.log_reserve() + Blocks::new(2);
    let superblock = format::Superblock { log_len, ..layout.superblock };
    for at in layout.superblocks {
        below.write(at, &superblock.encode(), Persist::Through, Purpose::Log).unwrap();
    }
    refused("superblock is damaged: field log_len_blocks is out of range");
    FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(16)).unwrap();
    BandJournal::begin(&below, &layout, 1, u64::MAX, &Runs::default()).unwrap();
    FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(16)).unwrap();
}
