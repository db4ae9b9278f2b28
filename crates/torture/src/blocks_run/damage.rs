//! The last act: damage that no flush protects from, done while the device is closed.
//!
//! - Bits rot, or blocks become unreadable, anywhere on the drive, after a close or a power cut.
//!   Each of the device's blocks is then right or an error, on opening and after further work. One
//!   damaged block is never a reason to refuse the device, and costs at most 127 blocks. Several
//!   damaged blocks may be both copies of something.
//! - A write of a short last life is acknowledged and lands elsewhere. Each block is right or an
//!   error, in that life and after it, or the device is refused.

use super::{Model, Outcome, stamps, step, verify, write};
use crate::rig::{Ending, Rig, Weather, chain};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba, ZoneInfo, ZoneState};
use imbrex_disk_sim::{FaultPlan, Misdirect, SimDisk};
use imbrex_translate::{BlockDriver, DriverOptions};

/// The blocks that one damaged block may cost: those that its summary describes.
const LOST_COUNT_MAX: usize = 127;

/// Draws the damage, does it, and checks everything.
pub(crate) fn run(rig: &mut Rig, options: &DriverOptions, model: &mut Model) -> Result<(), String> {
    rig.set_weather(Weather::Fair);
    let mut damaged_count = None;
    if rig.prng.chance(1, 3) {
        let driver = open(rig, options)?;
        let misdirect = Misdirect {
            after: rig.prng.below(60),
            shift: Blocks::new(1 + rig.prng.below(rig.disk.geometry().len().get() - 1)),
        };
        rig.say(format!("{misdirect:?}"));
        let misdirect_write = Some(misdirect);
        rig.disk.set_faults(FaultPlan { misdirect_write, ..FaultPlan::default() });
        live(rig, &driver, model)?;
        close(rig, driver)?;
    } else {
        if rig.prng.chance(1, 2) {
            lose_power(rig, options, model)?;
        }
        // No power cut follows, which might leave a zone that was reset torn at the same end.
        let flushed_ends =
            if rig.prng.chance(1, 2) { flush_twice(rig, options, model)? } else { vec![] };
        let count = [1, 1, 2, 3][rig.prng.below(4) as usize];
        for _ in 0..count {
            damage_a_block(rig, &flushed_ends)?;
        }
        damaged_count = Some(count);
    }
    let is_one = damaged_count == Some(1);
    for _ in 0..2 {
        let driver = match open(rig, options) {
            Err(refused) if is_one => return Err(format!("one damaged block, and {refused}")),
            Err(_) => return Ok(()),
            Ok(driver) => driver,
        };
        for is_worked_with in [false, true] {
            if is_worked_with {
                live(rig, &driver, model)?;
            }
            let lost_count = read_all(rig, &driver, model)?;
            if is_one && LOST_COUNT_MAX < lost_count {
                return Err(format!("one damaged block, and {lost_count} cannot be read"));
            }
        }
        close(rig, driver)?;
    }
    Ok(())
}

/// A life with a flush, and behind it an entry of the journal that records the flush. Returns where
/// open zones ended at that flush and still end, with the same last block: a power cut cannot have left
/// it. A zone that was begun anew may end at the same place with another block.
fn flush_twice(
    rig: &mut Rig,
    options: &DriverOptions,
    model: &mut Model,
) -> Result<Vec<Lba>, String> {
    let driver = open(rig, options)?;
    verify(rig, &driver, model)?;
    live(rig, &driver, model)?;
    let flushed: Outcome = driver.flush();
    let ends = open_ends(&rig.disk);
    let range = model.draw(&mut rig.prng);
    let flushed_again = flushed.and_then(|()| write(rig, &driver, model, range));
    let flushed_again = flushed_again.and_then(|()| driver.flush());
    if flushed_again.is_ok() {
        model.settle();
    }
    close(rig, driver)?;
    let now = open_ends(&rig.disk);
    let settled = ends.into_iter().filter(|end| now.contains(end)).map(|(end, _)| end);
    Ok(if flushed_again.is_ok() { settled.collect() } else { vec![] })
}

/// Where open zones end, each with its last block.
fn open_ends(disk: &SimDisk) -> Vec<(Lba, Vec<u8>)> {
    let ends = disk.report_zones().iter().filter_map(open_end).collect::<Vec<Lba>>();
    let last = |end: Lba| {
        let mut block = vec![0; BLOCK_LEN_BYTES];
        disk.read(end - Blocks::new(1), &mut block).ok().map(|()| (end, block))
    };
    ends.into_iter().filter_map(last).collect()
}

/// A short life that the power ends, at any request to the drive.
fn lose_power(rig: &mut Rig, options: &DriverOptions, model: &mut Model) -> Result<(), String> {
    let driver = open(rig, options)?;
    let after = rig.prng.below(120);
    rig.set_weather(Weather::PowerCut { after });
    for _ in 0..rig.prng.below(200) {
        if let Err(error) = step(rig, &driver, model)? {
            rig.excuse("the request", &error)?;
            break;
        }
    }
    rig.kill(Ending::PowerCut);
    drop(driver);
    rig.reboot(Ending::PowerCut).map(drop)
}

/// Damages a written block of any zone. The last one of a zone, which may be a summary, is chosen
/// more often. For open zones that still end as in `flushed_ends`, which [`flush_twice`] returned,
/// the last block may be chosen too.
fn damage_a_block(rig: &mut Rig, flushed_ends: &[Lba]) -> Result<(), String> {
    let zones = rig.disk.report_zones().into_iter();
    let written = zones.map(|zone| (zone, written_len(&rig.disk, &zone)));
    let written: Vec<(ZoneInfo, Blocks)> = written.filter(|(_, len)| !len.is_zero()).collect();
    let ends = written.iter().filter_map(|(zone, _)| open_end(zone));
    let settled: Vec<Lba> = ends.filter(|end| flushed_ends.contains(end)).collect();
    if !settled.is_empty() && rig.prng.chance(1, 2) {
        let at = settled[rig.prng.below(settled.len() as u64) as usize] - Blocks::new(1);
        rig.work.open_end_damage_count += 1;
        rig.say(format!("{at}, the end of an open zone, cannot be read any more"));
        rig.disk.damage(BlockRange::new(at, Blocks::new(1)));
        return Ok(());
    }
    let (zone, len) = written[rig.prng.below(written.len() as u64) as usize];
    let last = len.get() - 1;
    let index = if rig.prng.chance(1, 8) { last } else { rig.prng.below(last + 1) };
    let at = zone.start + Blocks::new(index);
    let is_last_of_full = zone.state == ZoneState::Full && index == last;
    rig.work.full_end_damage_count += u64::from(is_last_of_full);
    if rig.prng.chance(1, 4) && !may_be_torn(&zone, index) {
        rig.say(format!("{at} cannot be read any more"));
        rig.disk.damage(BlockRange::new(at, Blocks::new(1)));
        return Ok(());
    }
    let bit = rig.prng.below(4096 * 8) as u32;
    rig.say(format!("bit {bit} of {at} rots"));
    rig.disk.flip_bit(at, bit).map_err(|error| error.to_string())
}

/// Whether a power cut may have left a block unreadable. If no journal entry followed the block's
/// flush, rot cannot be distinguished from a torn write, and the earlier content counts. The model
/// does not know which blocks these are.
fn may_be_torn(zone: &ZoneInfo, index: u64) -> bool {
    open_end(zone) == Some(zone.start + Blocks::new(index + 1))
}

/// Where the data written to a zone ends, if the zone is not full.
fn open_end(zone: &ZoneInfo) -> Option<Lba> {
    zone.state.write_pointer(zone.start).filter(|&end| end != zone.start)
}

/// How much of a zone is written. For a zone without a pointer, which is written from its start,
/// one block more.
fn written_len(disk: &SimDisk, zone: &ZoneInfo) -> Blocks {
    match zone.state {
        ZoneState::Full => zone.capacity,
        ZoneState::NoPointer => {
            let mut block = vec![0; BLOCK_LEN_BYTES];
            let mut is_written = |&index: &u64| {
                let read = disk.read(zone.start + Blocks::new(index), &mut block);
                read.is_err() || block.iter().any(|&byte| byte != 0)
            };
            let last = (0..zone.capacity.get()).rev().find(&mut is_written);
            last.map_or(Blocks::ZERO, |last| Blocks::new(last + 2).min(zone.capacity))
        }
        state => state.write_pointer(zone.start).map_or(Blocks::ZERO, |end| end - zone.start),
    }
}

/// Opens a device that may be damaged.
pub(super) fn open(rig: &mut Rig, options: &DriverOptions) -> Result<BlockDriver, String> {
    rig.say("open the device".to_string());
    let opened = BlockDriver::open(rig.process_disk(), options);
    opened.map_err(|error| {
        let refused = format!("it is refused: {}", chain(&error));
        rig.say(refused.clone());
        refused
    })
}

/// Ends a life with a flush and a kill.
fn close(rig: &mut Rig, driver: BlockDriver) -> Result<(), String> {
    rig.kill(Ending::Kill);
    drop(driver);
    rig.reboot(Ending::Kill).map(drop)
}

/// Works until a request fails, or for a while. A failed read does not end it.
fn live(rig: &mut Rig, driver: &BlockDriver, model: &mut Model) -> Result<(), String> {
    for _ in 0..rig.prng.below(200) {
        match step(rig, driver, model)? {
            Ok(()) | Err(DiskError::Medium { .. }) => {}
            Err(error) => {
                rig.say(format!("the request failed: {}", chain(&error)));
                break;
            }
        }
    }
    let flushed: Outcome = driver.flush();
    if flushed.is_ok() {
        model.settle();
    }
    Ok(())
}

/// Reads block by block. Each is an allowed content, expected from now on, or an error that names
/// it. Returns the number of errors.
pub(super) fn read_all(
    rig: &mut Rig,
    driver: &BlockDriver,
    model: &mut Model,
) -> Result<usize, String> {
    rig.say("read all".to_string());
    let mut wrong_count = 0;
    for (at, may_be) in model.may_be.iter_mut().enumerate() {
        let at = Lba::new(at as u64);
        match stamps(driver, BlockRange::new(at, Blocks::new(1))) {
            Ok(found) => match found[0] {
                Some(found) if may_be.contains(&found) => *may_be = vec![found],
                found => return Err(format!("{at} is {found:?}, not one of {may_be:?}")),
            },
            Err(DiskError::Medium { at: named }) if named == at => wrong_count += 1,
            Err(DiskError::Offline { .. }) => wrong_count += 1,
            Err(DiskError::Poisoned) => return Ok(0),
            Err(error) => return Err(format!("reading {at}: {}", chain(&error))),
        }
    }
    rig.say(format!("{wrong_count} blocks cannot be read"));
    Ok(wrong_count)
}
