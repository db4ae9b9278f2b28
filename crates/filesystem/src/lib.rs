//! A file system for databases: directories, renames, links and byte-exact lengths over [`Files`].
//!
//! ```text
//!   RocksDB, LevelDB          "append to db/000012.sst", "rename db/000003.dbtmp to db/CURRENT"
//!   ------------------------------------------------------------------ FileSystem
//!   tree      paths -> files -> segments           one list of changes, in order
//!   files     inline (<= 4 KiB) | table, placed whole | log, appended in frames
//!   ------------------------------------------------------------------ trait Files
//! ```
//!
//! The file layer is an append-only namespace. A table exists once it is completely written; a log
//! grows by blocks and knows its length only from its content. A database expects more: empty
//! files, directories, a rename that replaces, a length in bytes, thousands of files of a few bytes
//! each. This crate keeps the missing state in a *tree*, whose changes are the file layer's
//! application records. A change of names and the placement of the data that it names are therefore
//! one atomic commit.
//!
//! # Which file becomes what
//!
//! A file is a list of *segments*. Appended data stays in memory behind them, as the file's *tail*,
//! until it must become durable or gets long. Then the tail becomes one of these:
//!
//! - *inline* bytes in the tree, while the file has at most [`INLINE_LEN_BYTES_MAX`]: `CURRENT`,
//!   `IDENTITY`, locks, options, a manifest's first records, small tables. Thousands of such files
//!   cost their bytes and about 60 more each, without a block or a zone;
//! - a *log segment*, for kind [`FileKind::Log`] (write-ahead log, manifest, info log). It is
//!   framed by `record-log`, so that a torn tail is cut at the last whole record and the length is
//!   exact again;
//! - a *table segment*, for any other kind. It is placed and written as a whole, with the hints
//!   that the file has at that moment, so a level may be set after the first append. A file of
//!   unknown kind that is synced repeatedly continues as a log.
//!
//! A table longer than [`SEGMENT_LEN_BYTES_MAX`] is written in pieces of that length, each with the
//! hints that the file has at that moment. A file that is written at a position, or truncated in
//! its tail, is read into memory and written again as a whole. A log that threads write in any
//! order, each byte once, is put in order in memory ([`Writer::fill_at`]).
//!
//! # After a power cut
//!
//! For this crate, a process that dies is a power cut, because tails are in the memory of the
//! process.
//!
//! Invariants
//!   V1  Changes of names (create, link, rename, unlink, directories) become durable in the order
//!       in which they were made. After a power cut the names are those of some earlier moment, no
//!       older than the last sync that waited for the tree.
//!   V2  `sync` of a file makes its bytes, its name and every earlier change of names durable,
//!       including changes that an earlier process wrote and never flushed. After a power cut the
//!       file holds a prefix of the appended data, at least the synced part, and never foreign
//!       bytes.
//!   V3  A rename replaces atomically, and the new file is never shorter than it was when the
//!       rename began.
//!   V4  A removed file's space is freed once the removal is durable and the last reader is gone.
//!       When space is lacking, pending removals are committed first.
//!   V5  The number of a stored file is never used again, not even after a crash, so the remains of
//!       a dead log on the platter are never taken for a new log.
//!
//! A sync of a log whose name is durable costs one write and one flush. A change of the tree costs
//! one commit of the catalog, which all waiting callers share.
//!
//! Not here: which path has which kind and level (the caller's hints), the C ABI (`capi`), locks
//! between processes (the drive's own).

#![doc = include_str!("../docs/formats/filesystem.md")]

mod error;
mod fill;
mod format;
mod fs;
mod handle;
mod inner;
mod journal;
mod log_cursor;
mod mount;
mod node;
mod path;
mod pieces;
mod read_ahead;
mod scratch;
mod tree;
mod write_out;

pub use error::FsError;
pub use fs::{DirEntry, FileSystem, Metadata};
pub use handle::{Reader, Writer};
pub use inner::FsOptions;
pub use mount::holds_file_system;

#[cfg(doc)]
use imbrex_files::{FileKind, Files};

/// The longest file that is stored in the tree itself.
pub const INLINE_LEN_BYTES_MAX: u64 = 4096;

/// The longest piece in which a table is buffered and placed.
pub const SEGMENT_LEN_BYTES_MAX: u64 = if cfg!(test) { 128 << 10 } else { 256 << 20 };

/// The longest file that may be written at a position or truncated in its tail. Also how far behind
/// its end a file that is written in any order accepts pieces.
pub const REWRITE_LEN_BYTES_MAX: u64 = if cfg!(test) { 1 << 20 } else { 1 << 30 };

#[cfg(test)]
mod tests;
