//! YCSB's runner: the core workload from its own property files, in a closed or an open loop.
//!
//! ```text
//!   -P workloads/a -p k=v --> Properties --> CoreWorkload (core)     Settings
//!                                |              |  keys    which record       clients, target,
//!        arrivals (open loop)  <-+              |  lengths how long           the measurements
//!                |                              |  values  which fields
//!                v                              v  stream  which operation
//!   run:     Timing (pace)  --when-->  YcsbClient  --record, fields-->  RecordStore (store)
//!                                        |  Measurements                  own      our store  \ a record is a value
//!                                        |                               foreign  RocksDB, LevelDB  / (encoded)
//!                                        v                                redis  a server; basic: nothing
//!                            YcsbReport, YcsbOutput (export), status lines
//! ```
//!
//! Invariants, with the module that keeps each
//!   K1  (`keys` of `imbrex-workload`) No operation uses a record whose insertion has not ended.
//!   O1  (`encoded`) When two clients update fields of one record at the same time, neither update
//!       is lost.
//!   S1  (`pace`) Operation k of an open loop starts at its intended time, or when the first client is free,
//!       whichever is later.
//!   S2  (`pace`) Waiting for a client counts for the response time and never for the service time.
//!   S3  (`pace`) In virtual time operations are done in the order of their starts.
//!
//! In virtual time, properties and seed decide every byte of a report, and writes wait for each
//! other as on threads (`own`).
//!
//! Sources: YCSB's client and measurements (`site.ycsb:core`), read, not copied. `docs/ycsb.md`
//! lists the properties and the differences.
//!
//! Not here: the workload and models of arrivals (the crate `imbrex-workload`).

mod basic;
mod client;
mod encoded;
mod export;
#[cfg(feature = "foreign")]
mod foreign;
mod measure;
mod options;
mod own;
pub mod pace;
#[cfg(feature = "redis")]
mod redis;
mod report;
mod run;
mod server;
mod settings;
mod status;
mod store;

pub use export::YcsbOutput;
pub use options::{YcsbOptions, core_workload_files};
pub use report::{OperationFigures, YcsbReport, YcsbSetup};
pub use run::{YcsbPhase, ycsb};
pub use status::{YcsbProgress, YcsbWatch};
pub use store::{RecordStore, StoreError, Traffic};
