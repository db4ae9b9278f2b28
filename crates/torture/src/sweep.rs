//! A sweep: the power fails at every k-th device event of a life, and again during the recovery.
//!
//! ```text
//!   fair run      format, life: 0 . . . . k . . . . 2k . . . . 3k . . ends      events are counted
//!   run 1         format, life: 0 x                recovery . x   recovery, life . x   recovery
//!   run 2         format, life: 0 . . . . k x      recovery . . x ...
//!   ...
//! ```
//!
//! A device event is a write, a flush, a reset or a finish. One seed is one life, so each run
//! equals the fair run up to its cut. If a drive has flash, both lose their power at the same
//! moment, and the sweep covers first the events of one, then those of the other. The seed
//! determines where the sweep begins: many seeds with one `every` cut at all events modulo `every`.
//! If a life has so many events that there would be more runs than requested, the cuts are sparser,
//! but still cover all of it.

use crate::cuts::Cuts;
use crate::report::Failure;
use crate::rig::Forecast;
use crate::run::run;
use crate::scenario::Scenario;
use imbrex_disk::Blocks;

/// At how many different events the recovery is cut: more than most recoveries have.
const AGAIN_END: u64 = 12;

/// The result of a clean sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Device events of the fair run, on all drives.
    pub event_count: u64,
    /// How many runs were cut.
    pub run_count: u64,
    /// How many power cuts there were in all runs.
    pub power_cut_count: u64,
    /// Operations of all runs.
    pub operation_count: u64,
    /// What the flash drive lost in all runs, if there is one.
    pub flash_lost: Blocks,
}

/// Runs one seed of one scenario once in fair weather, then with a cut at every `every`-th device
/// event, in at most `run_count_max` runs.
///
/// # Errors
/// [`Failure`], with the cut that shows it.
pub fn sweep(
    scenario: &'static Scenario,
    seed: u64,
    every: u64,
    run_count_max: u64,
) -> Result<Sweep, Failure> {
    let fair = run(scenario, seed, Forecast::Fair)?;
    let event_count = fair.life_event_count + fair.flash_event_count;
    let every = every.max(event_count.div_ceil(run_count_max.max(1))).max(1);
    let mut sweep = Sweep { event_count, ..Sweep::default() };
    let mut nth = seed % every;
    while nth < event_count {
        let is_on_flash = fair.life_event_count <= nth;
        let at = if is_on_flash { nth - fair.life_event_count } else { nth };
        let again = (seed + sweep.run_count) % AGAIN_END;
        let report = run(scenario, seed, Forecast::Cuts(Cuts { at, is_on_flash, again }))?;
        sweep.run_count += 1;
        sweep.power_cut_count += report.power_cut_count;
        sweep.operation_count += report.operation_count;
        sweep.flash_lost += report.flash_lost;
        nth += every;
    }
    Ok(sweep)
}
