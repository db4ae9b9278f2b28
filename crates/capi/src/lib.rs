//! The C ABI of what a drive holds, a file system or a store: `include/imbrex.h`, which opens with its
//! conventions.
//!
//! ```text
//!   adapters/rocksdb, adapters/ycsb, any program in C or C++
//!   ------------------------------------------- include/imbrex.h: handles, strings, status codes
//!   status     no panic crosses; why a thread's last call failed
//!   open       an image is opened once a process, and shared by all handles
//!   drive      a file system on it                     store      a store on it, its keyspaces
//!   file       writers and readers                     entry      put, get, delete, batches
//!   names      paths: rename, list, stat, locks        cursor     entries in order
//!   process    a child that was forked is refused
//!   ------------------------------------------- FileSystem, Db
//! ```
//!
//! Invariants
//!   A1  Every exported function runs inside `status::guard`: what comes out is a status.
//!   A2  A handle is a `Box` made into a pointer, and nothing else ever is.
//!   A3  After a panic below it, in a call or in the background, a drive takes no more writes, and nothing writes to
//!       it of its own accord, not even the end of it: its invariants may not hold.
//!   A4  (`open`) An image is forgotten after it is closed.
//!   A5  (`open`) A process uses, and drops, only what it opened; a child that it forked gets Busy.
//!
//! All `unsafe` is pointers that come from the caller, which the header's conventions vouch for.
//! Not here: what the calls do (`filesystem`, `engine`), what a drive is made of (`imbrex`).
//!
//! The header is generated: `REWRITE=1 cargo test -p imbrex-capi` writes it anew, and without that the
//! test fails when it is not as the code says.

mod cursor;
mod drive;
mod entry;
mod file;
mod names;
mod open;
mod process;
mod status;
mod store;
mod strings;

pub use cursor::*;
pub use drive::*;
pub use entry::*;
pub use file::*;
pub use names::*;
pub use status::*;
pub use store::*;

/// What the header says of threads, for the types that do not say it themselves.
const _: fn() = || {
    fn used_by_all_at_once<T: Send + Sync>() {}
    fn used_by_one_at_a_time<T: Send>() {}
    used_by_all_at_once::<(Drive, Writer, Reader, Names, Store, Keyspace)>();
    used_by_one_at_a_time::<(Batch, Cursor)>();
};

/// A file appended in small pieces and read only at recovery: a write-ahead log, a manifest.
pub const KIND_LOG: u8 = 1;
/// A file written once and placed whole.
pub const KIND_TABLE: u8 = 2;
/// A small file, rewritten often.
pub const KIND_METADATA: u8 = 3;
/// Any other file.
pub const KIND_OTHER: u8 = 4;
