//! A sweep: the power goes at every k-th device event of a life, and again during the recovery.
//!
//! ```text
//!   fair run      format, life: 0 . . . . k . . . . 2k . . . . 3k . . ends      events are counted
//!   run 1         format, life: 0 x                recovery . x   recovery, life . x   recovery
//!   run 2         format, life: 0 . . . . k x      recovery . . x ...
//!   ...
//! ```
//!
//! A device event is a write, a flush, a reset or a finish. One seed is one life, so each run is the
//! fair run up to its cut. Where the sweep begins follows from the seed: many seeds with one `every`
//! cut at all events modulo `every`. A life with so many events that there would be more runs than
//! asked for is cut less often, but all along.

use crate::rig::Forecast;
use crate::{Failure, Scenario, run};

/// At how many different events the recovery is cut: more than most have.
const AGAIN_END: u64 = 12;

/// Two moments at which the power goes, counted in device events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cuts {
    /// So many events of the first life complete.
    pub at: u64,
    /// So many events of the recovery after it complete, and of the life after that.
    pub again: u64,
}

/// What a clean sweep came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Device events of the fair run.
    pub event_count: u64,
    /// How many runs were cut.
    pub run_count: u64,
    /// How often the power went in all of them.
    pub power_cut_count: u64,
    /// Operations of all of them.
    pub operation_count: u64,
}

/// Runs one seed of one scenario once in fair weather and then with a cut at every `every`-th device
/// event, in `run_count_max` runs at most.
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
    let every = every.max(fair.life_event_count.div_ceil(run_count_max.max(1))).max(1);
    let mut sweep = Sweep { event_count: fair.life_event_count, ..Sweep::default() };
    let mut at = seed % every;
    while at < sweep.event_count {
        let again = (seed + sweep.run_count) % AGAIN_END;
        let report = run(scenario, seed, Forecast::Cuts(Cuts { at, again }))?;
        sweep.run_count += 1;
        sweep.power_cut_count += report.power_cut_count;
        sweep.operation_count += report.operation_count;
        at += every;
    }
    Ok(sweep)
}
