//! The C ABI of a drive's content, a file system or a store. The header `include/imbrex.h` begins with the
//! conventions.
//!
//! ```text
//!   adapters/rocksdb, adapters/ycsb, any program in C or C++
//!   ------------------------------------------- include/imbrex.h: handles, strings, status codes
//!   status     no panic crosses; the message of a thread's last failed call
//!   open       a process opens an image once, and all handles share it
//!   drive      a file system on it                     store      a store on it, its keyspaces
//!   file       writers and readers                     entry      put, get, delete, batches
//!   names      paths: rename, list, stat, locks        cursor     entries in order
//!   process    a forked child is refused               snapshot   a store as it was at one moment
//!                                                      making     create and format
//!   ------------------------------------------- FileSystem, Db
//! ```
//!
//! Invariants
//!   A1  Every exported function runs inside `status::guard`, so its result is a status.
//!   A2  Every handle is a `Box` turned into a pointer, and no other pointer is a handle.
//!   A3  After a panic, in a call or in the background, the drive refuses writes. Nothing writes to it on its
//!       own either, not even the close, because its invariants may not hold.
//!   A4  (`open`) An image is removed from the registry after it is closed.
//!   A5  (`open`) A process uses and drops only images that it opened; its forked child gets Busy.
//!
//! All `unsafe` code handles pointers from the caller, for which the header's conventions vouch.
//! Not here: the work of the calls (`filesystem`, `engine`), the composition of a drive (`imbrex`).
//!
//! The header is generated. `REWRITE=1 cargo test -p imbrex-capi` rewrites it; without `REWRITE` the test
//! fails if the header differs from the code.

mod cursor;
mod drive;
mod entry;
mod file;
mod making;
mod names;
mod open;
mod process;
mod snapshot;
mod status;
mod store;
mod strings;

pub use cursor::*;
pub use drive::*;
pub use entry::*;
pub use file::*;
pub use making::*;
pub use names::*;
pub use snapshot::*;
pub use status::*;
pub use store::*;

/// The header's promises about threads, checked for the types that do not implement the traits by hand.
const _: fn() = || {
    fn used_by_all_at_once<T: Send + Sync>() {}
    fn used_by_one_at_a_time<T: Send>() {}
    used_by_all_at_once::<(Drive, Writer, Reader, Names, Store, Keyspace, Snapshot)>();
    used_by_one_at_a_time::<(Batch, Cursor)>();
};

/// A file appended in small pieces and read only at recovery: a write-ahead log, a manifest.
pub const KIND_LOG: u8 = 1;
/// A file written once and placed as a whole.
pub const KIND_TABLE: u8 = 2;
/// A small file that is rewritten often.
pub const KIND_METADATA: u8 = 3;
/// Any other file.
pub const KIND_OTHER: u8 = 4;
