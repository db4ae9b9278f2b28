//! The last act: the drive gives up any one zone, while the device is open or closed.
//!
//! ```text
//!   zone of          read-only           offline
//!   superblocks      costs nothing       costs nothing
//!   a checkpoint     costs nothing       costs nothing
//!   data             costs nothing       the valid data in it
//!   the journal      costs nothing       the write buffer's content, or the device; after a flush nothing
//! ```
//!
//! Each block is right or an error, and the cost is no higher than the table says. The life in
//! which it happens may end there. The next life accepts requests.

use super::damage::{open, read_all};
use super::{Model, Outcome, step, write};
use crate::rig::{Ending, Rig, Weather, chain};
use imbrex_disk::{Disk, DiskError};
use imbrex_disk_sim::ZoneFailure;
use imbrex_translate::{BlockDriver, DeviceZone, DeviceZoneUse, DriverOptions};

/// Gives up a zone, and checks everything.
pub(crate) fn run(rig: &mut Rig, options: &DriverOptions, model: &mut Model) -> Result<(), String> {
    rig.set_weather(Weather::Fair);
    let driver = open(rig, options)?;
    live(rig, &driver, model)?.map_err(|error| chain(&error))?;
    let (zone, failure) = draw(rig, &driver.zones());
    let what = format!("{failure:?}: {} of {:?}", zone.info.zone, zone.used);
    let (mut may_lose, mut may_be_refused) = match (failure, zone.used) {
        (ZoneFailure::Offline, DeviceZoneUse::Data) => (true, false),
        (ZoneFailure::Offline, DeviceZoneUse::Journal) => (true, true),
        _ => (false, false),
    };
    let is_open = rig.prng.chance(1, 2);
    let driver = if is_open {
        Some(driver)
    } else {
        end(rig, driver)?;
        None
    };
    rig.say(what.clone());
    rig.disk.fail_zone(zone.info.zone, failure).map_err(|error| chain(&error))?;
    if let Some(driver) = driver {
        match live(rig, &driver, model)? {
            Err(error) => rig.say(format!("the request failed: {}", chain(&error))),
            // Another zone holds the same content.
            Ok(()) if zone.used == DeviceZoneUse::Journal => {
                (may_lose, may_be_refused) = (false, false);
            }
            Ok(()) => {}
        }
        end(rig, driver)?;
    }
    for _ in 0..3 {
        let driver = match open(rig, options) {
            Err(_) if may_be_refused => return Ok(()),
            opened => opened.map_err(|refused| format!("{what}, and {refused}"))?,
        };
        for is_worked_with in [false, true] {
            if is_worked_with {
                let lived = live(rig, &driver, model)?;
                lived.map_err(|error| format!("{what}, opened again: {}", chain(&error)))?;
            }
            let lost_count = read_all(rig, &driver, model)? as u64;
            let lost_count_max = if may_lose { zone.info.capacity.get() } else { 0 };
            if lost_count_max < lost_count {
                return Err(format!("{what}: {lost_count} blocks cannot be read"));
            }
        }
        end(rig, driver)?;
    }
    Ok(())
}

/// Each use of zones is equally likely. Mostly picks a zone that holds something.
fn draw(rig: &mut Rig, zones: &[DeviceZone]) -> (DeviceZone, ZoneFailure) {
    let uses = [
        DeviceZoneUse::Superblocks,
        DeviceZoneUse::Journal,
        DeviceZoneUse::Checkpoint,
        DeviceZoneUse::Data,
    ];
    let used = uses[rig.prng.below(4) as usize];
    let of_use = zones.iter().filter(|zone| zone.used == used);
    let (live, empty): (Vec<&DeviceZone>, Vec<_>) = of_use.partition(|zone| !zone.live.is_zero());
    let is_live = empty.is_empty() || !live.is_empty() && rig.prng.chance(3, 4);
    let of_use = if is_live { live } else { empty };
    let zone = *of_use[rig.prng.below(of_use.len() as u64) as usize];
    (zone, if rig.prng.chance(1, 2) { ZoneFailure::ReadOnly } else { ZoneFailure::Offline })
}

/// Works until a request fails, or for a while, then writes and flushes. A failed read does not end
/// it.
fn live(rig: &mut Rig, driver: &BlockDriver, model: &mut Model) -> Result<Outcome, String> {
    // A short life does not rewrite the content of the journal.
    let step_count_max = [3, 200][rig.prng.below(2) as usize];
    for _ in 0..rig.prng.below(step_count_max) {
        match step(rig, driver, model)? {
            Ok(()) | Err(DiskError::Medium { .. } | DiskError::Offline { .. }) => {}
            failed => return Ok(failed),
        }
    }
    // A flush without new data would not write to the journal.
    let range = model.draw(&mut rig.prng);
    if let Err(error) = write(rig, driver, model, range) {
        return Ok(Err(error));
    }
    rig.say("flush".to_string());
    Ok(driver.flush().inspect(|()| model.settle()))
}

/// Ends a life with a kill or a power cut.
fn end(rig: &mut Rig, driver: BlockDriver) -> Result<(), String> {
    let ending = if rig.prng.chance(1, 2) { Ending::Kill } else { Ending::PowerCut };
    rig.kill(ending);
    drop(driver);
    rig.reboot(ending).map(drop)
}
