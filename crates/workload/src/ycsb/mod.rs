//! YCSB's core workload: which operation comes next, for which record, with which fields.
//!
//! ```text
//!   -P workloads/a -p k=v --> Properties --> CoreWorkload (core)
//!                                              |  keys     which record
//!                                              |  lengths  how long, how many
//!                                              |  values   which fields
//!                                              v  stream   which operation
//!                                            YcsbStream, FieldMaker
//! ```
//!
//! One implementation serves the property files and the published figures: [`presets::YcsbWorkload`] names a
//! mix and a distribution as the figures use them.
//!
//! Invariant, kept in `keys`
//!   K1  No operation is for a record whose insertion has not ended.
//!
//! Sources: YCSB's CoreWorkload and generators (`site.ycsb:core`), read, not copied. `docs/ycsb.md`
//! lists the properties and the differences.
//!
//! Not here: clients, their timing and their measurements (the crate `imbrex-bench`); models of
//! arrivals ([`crate::arrivals`]).

pub mod core;
pub mod keys;
mod lengths;
pub mod presets;
pub mod properties;
pub mod record;
pub mod stream;
pub mod values;
mod zipf;
