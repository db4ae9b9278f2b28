//! YCSB: its core workload from its own property files, in a closed or an open loop.
//!
//! ```text
//!   -P workloads/a -p k=v --> Properties --> CoreWorkload (core)     Settings
//!                                |              |  keys    which record       clients, target,
//!        arrivals (open loop)  <-+              |  lengths how long           what is measured
//!                |                              |  values  which fields
//!                v                              v  stream  which operation
//!   run:     Timing (pace)  --when-->  YcsbClient  --record, fields-->  RecordStore (store)
//!                                        |  Measurements                  own      our store  \ a record is a value
//!                                        |                               foreign  RocksDB, LevelDB  / (encoded)
//!                                        v                                redis  a server; basic: nothing
//!                            YcsbReport, YcsbOutput (export), status lines
//! ```
//!
//! One implementation serves the property files and the published figures: [`YcsbWorkload`] names a
//! mix and a distribution as the figures use them.
//!
//! Invariants, each where it is kept
//!   K1  (`keys`) No operation is for a record whose insertion has not ended.
//!   O1  (`encoded`) Two clients that update fields of one record at the same time both have their way.
//!   S1  (`pace`) Operation k of an open loop starts at its intended time, or when the first client is free,
//!       whichever is later.
//!   S2  (`pace`) Waiting for a client is part of the response time, and never of the service time.
//!   S3  (`pace`) In virtual time operations are done in the order of their starts.
//!
//! In virtual time, properties and seed decide every byte of a report, and writes wait for each other as they do on threads
//! (`own`).
//!
//! Sources: YCSB's CoreWorkload, generators, client and measurements (`site.ycsb:core`), read and not
//! copied. `docs/ycsb.md` has the properties, and what differs.
//!
//! Not here: models of arrivals ([`crate::arrivals`]).

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
pub use options::YcsbOptions;
pub use report::{OperationFigures, YcsbReport, YcsbSetup};
pub use run::{YcsbPhase, ycsb};
pub use status::{YcsbProgress, YcsbWatch};
pub use store::{RecordStore, StoreError, Traffic};
