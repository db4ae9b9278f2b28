//! The last act: damage that no flush protects from, while nobody looks.
//!
//! - Bits rot, or blocks cannot be read any more, anywhere on the drive. The device is refused, or each of its
//!   blocks is right or an error, then and after it was worked with.
//! - A write of a short last life is acknowledged and lands elsewhere: the same, in that life and after it.

use super::{Model, Outcome, stamps, step};
use crate::rig::{Ending, Rig, Weather, chain};
use imbrex_disk::{BlockRange, Blocks, Disk, DiskError, Lba};
use imbrex_disk_sim::{FaultPlan, Misdirect};
use imbrex_translate::{Driver, DriverOptions};

/// Draws the damage, does it, and looks at everything.
pub(crate) fn run(rig: &mut Rig, options: &DriverOptions, model: &mut Model) -> Result<(), String> {
    rig.set_weather(Weather::Fair);
    if rig.prng.chance(1, 3) {
        let Some(driver) = open(rig, options) else {
            return Err("the device does not open before anything was damaged".to_string());
        };
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
        for _ in 0..1 + rig.prng.below(3) {
            damage_a_block(rig)?;
        }
    }
    for _ in 0..2 {
        let Some(driver) = open(rig, options) else { return Ok(()) };
        read_all(rig, &driver, model)?;
        live(rig, &driver, model)?;
        read_all(rig, &driver, model)?;
        close(rig, driver)?;
    }
    Ok(())
}

/// Damages a block that was written, of any zone.
fn damage_a_block(rig: &mut Rig) -> Result<(), String> {
    let zones = rig.disk.report_zones();
    let written = zones.iter().map(|zone| {
        // Of a zone without a pointer only its beginning is used.
        let end = zone.state.write_pointer(zone.start);
        BlockRange::new(zone.start, end.map_or(Blocks::new(20), |end| end - zone.start))
    });
    let written: Vec<BlockRange> = written.filter(|range| !range.len.is_zero()).collect();
    let range = written[rig.prng.below(written.len() as u64) as usize];
    let at = range.start + Blocks::new(rig.prng.below(range.len.get()));
    if rig.prng.chance(1, 4) {
        rig.say(format!("{at} cannot be read any more"));
        rig.disk.damage(BlockRange::new(at, Blocks::new(1)));
        return Ok(());
    }
    let bit = rig.prng.below(4096 * 8) as u32;
    rig.say(format!("bit {bit} of {at} rots"));
    rig.disk.flip_bit(at, bit).map_err(|error| error.to_string())
}

/// Opens a device that may be damaged; `None` if it is refused.
fn open(rig: &mut Rig, options: &DriverOptions) -> Option<Driver> {
    rig.say("open the device".to_string());
    match Driver::open(rig.leash(), options) {
        Ok(driver) => Some(driver),
        Err(error) => {
            rig.say(format!("it is refused: {}", chain(&error)));
            None
        }
    }
}

/// Ends a life by a flush and a kill.
fn close(rig: &mut Rig, driver: Driver) -> Result<(), String> {
    rig.kill(Ending::Kill);
    drop(driver);
    rig.reboot(Ending::Kill)
}

/// Works until a request fails, or for a while; a read that fails is no end.
fn live(rig: &mut Rig, driver: &Driver, model: &mut Model) -> Result<(), String> {
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

/// Reads block by block: each is what it may be, and is that from now on, or an error that names it.
fn read_all(rig: &mut Rig, driver: &Driver, model: &mut Model) -> Result<(), String> {
    rig.say("read all".to_string());
    let mut wrong_count = 0;
    for (at, may_be) in model.may_be.iter_mut().enumerate() {
        let at = Lba::new(at as u64);
        match stamps(driver, BlockRange::new(at, Blocks::new(1))) {
            Ok(found) => match found[0] {
                Some(found) if may_be.contains(&found) => *may_be = vec![found],
                found => return Err(format!("{at} is {found:?}, not one of {may_be:?}")),
            },
            Err(DiskError::Medium { at: told }) if told == at => wrong_count += 1,
            Err(DiskError::Poisoned) => return Ok(()),
            Err(error) => return Err(format!("reading {at}: {}", chain(&error))),
        }
    }
    rig.say(format!("{wrong_count} blocks cannot be read"));
    Ok(())
}
