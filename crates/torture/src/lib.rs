//! Whole-stack seeded runs against a model.
//!
//! ```text
//!   seed --> operations ----> store -> files -> disk-sim      what it is
//!        |        |              ^ jobs, in a seeded order
//!        |        +---------> model (BTreeMap)                what it should be
//!        +--> weather: power cuts, I/O errors, lost and torn writes
//! ```
//!
//! A run is a sequence of *lives* of one store on one disk. In each life seeded operations go to
//! the store and to a model, and every answer is compared; the seeded order of the virtual world
//! puts any number of background steps before any operation. A life ends by closing, by killing the
//! process, or by a power cut at a seeded device event; so may the recovery that follows. What the
//! next life finds must be the model after some prefix of what was acknowledged, which includes
//! all that was synced. A *sweep* leaves the moments of the cuts not to the seed but takes them all.
//!
//! The block driver has runs of its own: a host's requests, and what each block may be. So has the file
//! system for foreign databases: paths and open files, and what RocksDB and LevelDB count on.
//!
//! Every layout of the table (`imbrex-layouts`) has a scenario of the store, and of the file system where
//! it differs below, on a drive of its kind and with its parts cut down until sets, gear turns, band
//! rewrites and cleanings happen in every run; the summary says how many were cut in their midst.
//!
//! A *campaign* draws scenarios by weight and moves on to new seeds with each commit; seeds that once failed
//! run first.
//!
//! The last act of a store's run is damage that no flush protects from: a bit rots, a sector cannot be
//! read, a write lands elsewhere. Then every answer must be right or an error.
//!
//! Invariants
//!   R1  One scenario and one seed are one run: same events, same image, same clock.
//!   R2  An error of the store is excused only where the weather of this life can explain it.
//!   R3  A failure prints one line that replays it.
//!
//! Not here: what a fault does to the disk (`disk-sim`), the order of jobs (`clockwork`).

mod blocks_run;
mod campaign;
mod files_run;
mod filesystem_run;
mod leash;
mod report;
mod rig;
mod scenario;
mod spent;
mod store_run;
mod sweep;

#[cfg(test)]
mod tests;

pub use campaign::{Campaign, Draw, Way, known, parse_seed};
pub use report::{Deeds, Failure, Report};
pub use scenario::{Scenario, Target};
pub use spent::Spent;
pub use sweep::{Cuts, Sweep, sweep};

use rig::{Forecast, Rig};
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

fn run(scenario: &'static Scenario, seed: u64, forecast: Forecast) -> Result<Report, Failure> {
    let mut rig = Rig::new(scenario, seed, forecast);
    let outcome = catch_unwind(AssertUnwindSafe(|| match scenario.target {
        Target::Files => files_run::run(&mut rig),
        Target::Store => store_run::run(&mut rig),
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
