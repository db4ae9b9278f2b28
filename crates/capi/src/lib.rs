//! The C ABI of the file system on a drive: `include/imbrex.h`, which opens with its conventions.
//!
//! ```text
//!   adapters/rocksdb, any C or C++ program
//!   ------------------------------------------- include/imbrex.h: handles, strings, status codes
//!   status     no panic crosses; why a thread's last call failed
//!   drive      an image and what is on it, opened once a process, shared by all handles
//!   file       writers and readers         names      paths: rename, list, stat, locks
//!   ------------------------------------------- FileSystem
//! ```
//!
//! Invariants
//!   A1  Every exported function runs inside `status::guard`: what comes out is a status.
//!   A2  A handle is a `Box` made into a pointer, and nothing else ever is.
//!   A3  After a panic below it, a drive takes no more writes: its invariants may not hold.
//!
//! This is the only crate with `unsafe`; all of it is pointers that come from the caller, which the
//! header's conventions vouch for. Not here: what the calls do (`filesystem`), what a drive is made of
//! (`layouts`).
//!
//! The header is generated: `REWRITE=1 cargo test -p imbrex-capi` writes it anew, and without that the
//! test fails when it is not as the code says.

mod drive;
mod file;
mod names;
mod status;
mod strings;

pub use drive::*;
pub use file::*;
pub use names::*;
pub use status::*;

/// A file appended in small pieces and read only at recovery: a write-ahead log, a manifest.
pub const KIND_LOG: u8 = 1;
/// A file written once and placed whole.
pub const KIND_TABLE: u8 = 2;
/// A small file, rewritten often.
pub const KIND_METADATA: u8 = 3;
/// Any other file.
pub const KIND_OTHER: u8 = 4;
