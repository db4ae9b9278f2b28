//! Whole-stack seeded runs against a model.
//!
//! ```text
//!   seed --> operations ----> store -> files -> disk-sim      the real system
//!        |        |              ^ jobs, in a seeded order
//!        |        +---------> model (BTreeMap)                the expected state
//!        +--> weather: power cuts, I/O errors, lost and torn writes
//! ```
//!
//! A run is a sequence of *lives* of one store on one disk. In each life seeded operations go to
//! the store and to a model, and every answer is compared. The virtual world puts a seeded number
//! of background steps before each operation. A life ends with a close, a killed process, or a
//! power cut at a seeded device event; so may the recovery that follows. The next life must find
//! the model after some prefix of the acknowledged writes that includes all synced ones. A *sweep*
//! does not draw the moments of the cuts but takes them all.
//!
//! The block driver has its own runs: a host's requests, and what each block may be. So has the
//! file system for foreign databases: paths and open files, and the properties on which RocksDB and
//! LevelDB rely.
//!
//! Every layout of the table (crate `imbrex`) has a scenario of the store, and one of the file
//! system if it differs below. Its drive is of the layout's kind, with parts so small that sets,
//! gear turns, band rewrites and cleanings happen in every run. The summary shows how many of them
//! were cut midway.
//!
//! A *campaign* draws scenarios by weight and uses new seeds for each commit. Seeds that once
//! failed run first.
//!
//! The last act of a store's run is damage that no flush protects from: a bit rots, a sector
//! becomes unreadable, a write lands elsewhere. Then every answer must be right or an error.
//!
//! Invariants
//!   R1  One scenario and one seed are one run: same events, same image, same clock.
//!   R2  An error of the store is excused only if the weather of this life explains it.
//!   R3  A failure prints one line that replays it.
//!
//! Not here: what a fault does to the disk (`disk-sim`), the order of jobs (`clockwork`).

mod blocks_run;
mod campaign;
#[cfg(test)]
mod census;
mod cuts;
mod files_run;
mod filesystem_run;
mod kill_switch;
mod report;
mod rig;
mod run;
mod scenario;
mod spent;
mod store_run;
mod sweep;

#[cfg(test)]
mod tests;

pub use campaign::{Campaign, Draw, Way, known, parse_seed};
pub use cuts::Cuts;
pub use report::{Failure, Report, WorkCounts};
pub use run::{run_cut, run_seed};
pub use scenario::{Scenario, Target};
pub use spent::Spent;
pub use sweep::{Sweep, sweep};
