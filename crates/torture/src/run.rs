//! One run: a scenario and a seed, from the empty drive to the report.

use crate::cuts::Cuts;
use crate::report::{Failure, Report};
use crate::rig::{Forecast, Rig};
use crate::scenario::{Scenario, Target};
use crate::{blocks_run, files_run, filesystem_run, store_run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs one seed of one scenario.
///
/// # Errors
/// [`Failure`]: the stack broke a promise, or panicked.
pub fn run_seed(scenario: &'static Scenario, seed: u64) -> Result<Report, Failure> {
    run(scenario, seed, Forecast::Drawn)
}

/// Runs one seed of one scenario in fair weather, but for two power cuts.
///
/// # Errors
/// [`Failure`].
pub fn run_cut(scenario: &'static Scenario, seed: u64, cuts: Cuts) -> Result<Report, Failure> {
    run(scenario, seed, Forecast::Cuts(cuts))
}

/// Runs one seed of one scenario under `forecast`.
pub(crate) fn run(
    scenario: &'static Scenario,
    seed: u64,
    forecast: Forecast,
) -> Result<Report, Failure> {
    let mut rig = Rig::new(scenario, seed, forecast);
    let outcome = catch_unwind(AssertUnwindSafe(|| match scenario.target {
        Target::Files => files_run::run(&mut rig),
        Target::Store => store_run::run(&mut rig),
        Target::FullDrive => store_run::full::run(&mut rig),
        Target::Blocks => blocks_run::run(&mut rig),
        Target::FileSystem => filesystem_run::run(&mut rig),
    }));
    let what = match outcome {
        Ok(Ok(())) => match rig.report() {
            Ok(report) => return Ok(report),
            Err(what) => what,
        },
        Ok(Err(what)) => what,
        Err(payload) => {
            let text = payload.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
            format!("panicked: {}", text.unwrap_or_default())
        }
    };
    let cuts = match forecast {
        Forecast::Cuts(cuts) => Some(cuts),
        Forecast::Drawn | Forecast::Fair => None,
    };
    Err(Failure { scenario: scenario.name, seed, cuts, what, story: rig.story() })
}
