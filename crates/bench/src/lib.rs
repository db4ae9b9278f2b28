//! Runners and reports: many operations on one store, and their cost.
//!
//! ```text
//!   BenchOptions --> Testbed (drive, files, store, time)
//!                      |
//!                    Clients: keys and values from the seed, one operation a step
//!                      |      virtual: the smallest local time goes next; threads: all at once
//!                    Report: engine, drive, space, latency; JSON or a table
//! ```
//!
//! [`run()`] is `imbrex bench`: db_bench's names and flags, in virtual time (a modelled disk, the
//! same figures on any machine) or on threads. [`disk_user`] measures what a user of the disk gets,
//! compared with the best that the head could do.
//!
//! # Example
//! ```
//! use imbrex_bench::{BenchOptions, run};
//!
//! let mut options = BenchOptions::new();
//! options.benchmarks = vec!["fillseq".parse()?, "readrandom:100".parse()?];
//! options.num = 1000;
//! let report = run(&options, &mut |run| println!("{run}"))?;
//! assert_eq!(report.runs[1].found, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`replay`] plays a block trace to the block driver: `imbrex replay`. [`ycsb`] is `imbrex ycsb`:
//! YCSB's workloads on our store or on a server, in an open loop or in YCSB's own loop.
//! [`arrival_bench`] compares all layouts in open loops: `imbrex bench arrivals`. [`share_bench`] fills
//! their drives and overwrites: `imbrex bench shares`. [`steady_bench`] measures what they do for ever
//! after: `imbrex bench steady`. [`device_bench`] lives with a block device on a large drive for simulated
//! days: `imbrex bench device`.
//!
//! Not here: the workloads themselves (the crate `imbrex-workload`), published figures
//! (`imbrex-repro`), and rival stores, which `rivals/` measures on the same workload (feature
//! `rivals`; its README has the details).

pub mod arrival_bench;
mod benchmark;
mod client;
pub mod device_bench;
pub mod disk_user;
pub mod emulated;
mod error;
mod host;
pub mod lab;
pub mod latency;
pub mod options;
pub mod profile_choice;
pub mod replay;
pub mod report;
mod run;
pub mod share_bench;
pub mod share_grid;
pub mod steady_bench;
pub mod svg;
mod testbed;
pub mod trace_recorder;
mod watch;
mod workers;
pub mod write_turns;
pub mod ycsb;

pub use benchmark::{Benchmark, Task};
pub use error::BenchError;
pub use options::BenchOptions;
pub use run::{RunFailure, run, run_watched};
pub use watch::{Phase, RunProgress, RunWatch, RunWatches, StoreWatch};
pub use workers::worker_count;
