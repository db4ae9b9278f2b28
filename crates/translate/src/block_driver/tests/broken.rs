//! Zones that end in an unreadable block: it was being written when the power went, or it was
//! flushed and rotted. In the first case the content that it replaced is still there; in the
//! second, the zone of that content may have been begun anew.

use super::*;
use imbrex_disk::ZoneState;
use pool::Use;

/// From here on, enough blocks to fill a data zone.
const AT: u64 = 1000;
const LEN: u64 = 173;
const OLD: u8 = 1;
const NEW: u8 = 2;

/// How much is written over the old content and recorded in the journal, how much more follows it,
/// and how many blocks are lost if the last block written to the zone cannot be read.
#[derive(Clone, Copy, Debug)]
struct Shape {
    told_len: u64,
    len: u64,
    lost_count: usize,
}

const SHAPES: [Shape; 3] = [
    // A data block.
    Shape { told_len: 60, len: 40, lost_count: 1 },
    // The summary of the zone's first stretch.
    Shape { told_len: 0, len: 127, lost_count: 127 },
    // The last summary of a full zone: the checksums of its first blocks are in the journal.
    Shape { told_len: 150, len: 23, lost_count: 23 },
];

fn write(
    driver: &BlockDriver,
    at: u64,
    len: u64,
    fill: u8,
    persist: Persist,
) -> Result<(), DiskError> {
    driver.write(Lba::new(at), &vec![fill; Blocks::new(len).bytes() as usize], persist)
}

/// A zone that a checkpoint describes is full of old content. All of that is written again in
/// another zone, or trimmed. Not all of it is flushed.
fn rewritten(
    drive: &Arc<SimDisk>,
    options: &DriverOptions,
    shape: Shape,
) -> (BlockDriver, [ZoneId; 2]) {
    let driver = BlockDriver::format(Arc::clone(drive) as Arc<dyn Disk>, options).unwrap();
    let zone_of = |at: u64| {
        let state = driver.state();
        let place = state.pieces(range(at, 1)).unwrap().into_iter().next().unwrap().at.unwrap();
        state.zones.pool.zone_of(place).unwrap().zone
    };
    write(&driver, AT, LEN, OLD, Persist::Through).unwrap();
    let old = zone_of(AT);
    driver.checkpoint().unwrap();
    let end = AT + shape.told_len + shape.len;
    driver.discard(range(end, AT + LEN - end)).unwrap();
    if shape.told_len > 0 {
        write(&driver, AT, shape.told_len, NEW, Persist::Through).unwrap();
    }
    driver.flush().unwrap();
    write(&driver, AT + shape.told_len, shape.len, NEW, Persist::Cached).unwrap();
    let new = zone_of(AT);
    assert_eq!(zone_of(end - 1), new);
    assert_eq!(driver.state().zones.pool.get(old).unwrap().used, Use::Emptied);
    (driver, [old, new])
}

fn options_here() -> DriverOptions {
    DriverOptions { bypass_len: Blocks::new(20), ..options(400) }
}

/// The old zone is begun anew after the flush that says that it is empty, and then the last block
/// written to the other zone rots. The record that emptied the old zone did not count then: the map
/// led to a blank zone, and the next write there was refused.
#[test]
fn rot_at_the_end_of_a_zone_does_not_map_a_zone_begun_anew() {
    for shape in SHAPES {
        for (is_readable, is_written) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let told = format!("{shape:?}, readable: {is_readable}, written: {is_written}");
            let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
            let options = options_here();
            let (driver, [old, new]) = rewritten(&drive, &options, shape);
            driver.state().reclaim().unwrap();
            driver.state().zones.pool.blank(&*drive, 1000).unwrap();
            assert_eq!(drive.zone(old).unwrap().state, ZoneState::Empty, "{told}");
            let slot = *driver.state().zones.pool.get(new).unwrap();
            drop(driver);
            if is_written {
                // The next data, without a record of it.
                let start = drive.zone(old).unwrap().start;
                drive.write(start, &[9; 5 * BLOCK_LEN_BYTES], Persist::Through).unwrap();
            }
            let last = slot.start + slot.pointer - Blocks::new(1);
            match is_readable {
                true => drive.flip_bit(last, 99).unwrap(),
                false => drive.damage(BlockRange::new(last, Blocks::new(1))),
            }
            let open = || {
                let opened = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
                opened.unwrap_or_else(|error| panic!("{told}: {error}"))
            };
            let mut driver = open();
            for _ in 0..2 {
                invariants::check(&driver.state())
                    .unwrap_or_else(|broken| panic!("{told}: {broken}"));
                let mut buf = [0; BLOCK_LEN_BYTES];
                let mut lost_count = 0;
                for at in AT..AT + shape.told_len + shape.len {
                    match driver.read(Lba::new(at), &mut buf) {
                        Ok(()) => assert_eq!(buf, [NEW; BLOCK_LEN_BYTES], "{told}: block {at}"),
                        Err(DiskError::Medium { at: lost }) if lost == Lba::new(at) => {
                            lost_count += 1;
                        }
                        Err(error) => panic!("{told}: block {at}: {error}"),
                    }
                }
                // A readable block that is no summary is the only evidence about its stretch.
                let is_full_stretch = is_readable && slot.is_full();
                let expected = if is_full_stretch { 46 } else { shape.lost_count };
                assert_eq!(lost_count, expected, "{told}");
                drop(driver);
                driver = open();
            }
            let len = driver.geometry().len().get();
            for at in (0..3 * len).step_by(30).map(|at| at % (len - 30)) {
                let written = write(&driver, at, 30, NEW, Persist::Cached);
                written.unwrap_or_else(|error| panic!("{told}: block {at}: {error}"));
            }
            driver.flush().unwrap();
            invariants::check(&driver.state()).unwrap_or_else(|broken| panic!("{told}: {broken}"));
        }
    }
}

/// The power goes in the flush that says that the old zone is empty, and breaks the block that was
/// being written. Blocks that the journal recorded are there, or else all of the old content. Data
/// that fills a zone is flushed before the journal records it (B3), so at the end of a full zone
/// the same is damage. It is damage too if the journal continues after a flush: then the block
/// rotted.
#[test]
fn a_block_broken_by_a_power_cut_keeps_its_old_content_and_a_rotten_one_is_an_error() {
    for (shape, is_flushed) in SHAPES.into_iter().flat_map(|shape| [(shape, false), (shape, true)])
    {
        let told = format!("{shape:?}, flushed: {is_flushed}");
        let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
        let options = options_here();
        let (driver, [_, new]) = rewritten(&drive, &options, shape);
        let slot = {
            let mut state = driver.state();
            for zone in state.zones.pool.promote(Use::Emptied, Use::Recorded) {
                state.records.push(format::Record::Emptied { zone });
            }
            state.commit().unwrap();
            *state.zones.pool.get(new).unwrap()
        };
        if is_flushed {
            driver.flush().unwrap();
            write(&driver, 5, 1, NEW, Persist::Through).unwrap();
        }
        drop(driver);
        let last = slot.start + slot.pointer - Blocks::new(1);
        drive.damage(BlockRange::new(last, Blocks::new(1)));
        for is_first in [true, false, false] {
            let driver = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
            invariants::check(&driver.state()).unwrap_or_else(|broken| panic!("{told}: {broken}"));
            let mut counts = [0; 3];
            for at in AT..AT + shape.told_len + shape.len {
                let mut buf = [0; BLOCK_LEN_BYTES];
                let fill = match driver.read(Lba::new(at), &mut buf) {
                    Ok(()) => buf[0],
                    Err(DiskError::Medium { at: lost }) if lost == Lba::new(at) => 0,
                    Err(error) => panic!("{told}: block {at}: {error}"),
                };
                counts[usize::from(fill)] += 1;
            }
            let is_lost = slot.is_full() || is_flushed;
            let mut expected = [0; 3];
            expected[if is_lost { 0 } else { usize::from(OLD) }] = shape.lost_count;
            expected[usize::from(NEW)] = (shape.told_len + shape.len) as usize - shape.lost_count;
            assert_eq!(counts, expected, "{told}");
            let broken = if is_first && !is_lost { shape.lost_count } else { 0 };
            assert_eq!(driver.driver_counters().broken_blocks, broken as u64, "{told}");
        }
    }
}
