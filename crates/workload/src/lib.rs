//! The requests to a store, and their times, derived from a seed alone. This crate knows no store.
//!
//! ```text
//!   keys         key numbers as keys, values that compress as asked, permutations      db_bench's benchmarks
//!   ycsb         YCSB's core workload: which record, which operation, which fields     `imbrex ycsb`, figures
//!   arrivals     when each operation of an open-loop run is due                        `imbrex arrivals`, ycsb
//!   statistics   what a series of arrivals is like: Hurst exponents, autocorrelation   `imbrex arrivals --analyse`
//!   trace        block traces: read from files, bundled, made from a shape             `imbrex replay`
//! ```
//!
//! Not here: stores, drives, clients, and measurements (the crate `imbrex-bench`).

pub mod arrivals;
mod byte_order_mark;
mod decompress;
pub mod keys;
pub mod statistics;
pub mod trace;
pub mod ycsb;
