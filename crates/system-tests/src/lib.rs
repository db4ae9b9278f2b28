//! Tests against other systems: databases, clients and kernels use what Imbrex builds.
//!
//! ```text
//!   databases   adapters  stress  databases     RocksDB, LevelDB, HyperLevelDB --> adapters/ --> C API
//!   clients     block  ycsb                     NBD clients --> imbrex serve;  YCSB and Redis, imbrex ycsb
//!   browsers    browser                         Chromium --> imbrex serve http, imbrex lab
//!   languages   python                          the system's Python and a newer one --> the package `imbrex`
//!   clusters    swift                           OpenStack Swift, its tests and its clients --> adapters/swift --> `imbrex`
//!   kernels     filesystems                     ext4, xfs, btrfs --> imbrex serve --> a drive that loses power
//!               ublk  zoned  dm_zoned  (guest)  a virtual machine's kernel: block devices of imbrex, zoned drives
//!                  |
//!   ground      cargo  packages  program  scratch   what is built, what the machine has, what a program prints
//! ```
//!
//! Each module above the ground is one chore of `cargo xtask`: its arguments, and a function that runs it.
//!
//! Invariants
//!   T1  A test uses only what a user has: the program `imbrex`, the C API, the Python package, the adapters. It links no crate of the
//!       stack, and Cargo holds that: this crate depends on none.
//!   T2  A test runs, fails, or prints `SKIPPED:` with what was not tested ([`packages::skip`]).
//!   T3  As a step of the gate a test builds no crate: [`cargo::build`] returns at once.
//!
//! Not here: the command line and the gate (`xtask`), faults on emulated drives in virtual time (`torture`), tests of
//! one crate (that crate).

pub mod adapters;
pub mod block;
pub mod browser;
pub mod cargo;
pub mod databases;
pub mod dm_zoned;
pub mod filesystems;
mod guest;
pub mod packages;
pub mod program;
pub mod python;
mod random;
mod report;
pub mod scratch;
mod spread;
pub mod stress;
pub mod swift;
pub mod ublk;
pub mod ycsb;
pub mod zoned;
