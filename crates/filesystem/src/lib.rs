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
//! The file layer is an append-only namespace: a table exists once it is written whole, a log grows
//! by blocks and knows its length only from its content. A database expects more: empty files,
//! directories, a rename that replaces, a length in bytes, thousands of files of some bytes each. This
//! crate keeps what is missing in a *tree*, whose changes are the file layer's application records: a
//! change of names and the placement of the data that it names are one atomic commit.
//!
//! # Which file becomes what
//!
//! A file is a list of *segments*; what is appended lies in memory behind them, its *tail*, until
//! something makes it durable or it gets long. Then the tail becomes
//!
//! - *inline* bytes in the tree, as long as the file has at most [`INLINE_LEN_BYTES_MAX`]: `CURRENT`,
//!   `IDENTITY`, locks, options, a manifest's first records, small tables; thousands of them cost
//!   their bytes and some 60 more each, no block and no zone;
//! - a *log segment*, for kind [`FileKind::Log`] (write-ahead log, manifest, info log): framed by
//!   `record-log`, so that a torn tail is cut at the last whole record and the length is exact again;
//! - a *table segment*, for any other kind: placed and written in one go, with the hints that the
//!   file has at that moment, so that a level may be told after the first append. A file of no known
//!   kind that is synced again and again goes on as a log.
//!
//! A table longer than [`SEGMENT_LEN_BYTES_MAX`] is written in pieces of that length, each with the hints that
//! the file has when it goes on behind it. A file written at a position, or truncated in its tail, is taken
//! into memory and written anew as a whole. A log that threads write in any order, each byte once, is put in
//! order in memory ([`Writer::fill_at`]).
//!
//! # After a power cut
//!
//! A process that dies is a power cut here: tails are memory of the process.
//!
//! Invariants
//!   V1  Changes of names (create, link, rename, unlink, directories) are durable in the order in
//!       which they were made: what is found is what some moment saw, no older than the last sync of
//!       anything that waited for the tree.
//!   V2  `sync` of a file makes its bytes durable, and its name and every change of names before it,
//!       also what a process before wrote and never flushed.
//!       What is found is a prefix of what was appended, at least what was synced: never foreign bytes.
//!   V3  A rename replaces atomically, and never by a file shorter than it was when the rename began.
//!   V4  A removed file's space comes back when the removal is durable and nobody reads it; a lack of
//!       space makes pending removals durable first.
//!   V5  A number of a stored file is never used again, not even after a crash: what a dead log left on
//!       the platter is not taken for a new one.
//!
//! A sync of a log whose name is durable costs one write and one flush; a change of the tree one commit
//! of the catalog, shared by all who wait for one.
//!
//! Not here: which path is of which kind and level (the caller's hints), the C ABI (`capi`), locks
//! between processes (the drive's own).

#![doc = include_str!("../../../docs/formats/filesystem.md")]

mod error;
mod format;
mod fs;
mod handle;
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
pub use fs::{DirEntry, FileSystem, FsOptions, Metadata};
pub use handle::{Reader, Writer};
pub use mount::holds_file_system;

#[cfg(doc)]
use imbrex_files::{FileKind, Files};

/// The longest file that lies in the tree itself.
pub const INLINE_LEN_BYTES_MAX: u64 = 4096;

/// The longest piece in which a table is buffered and placed.
pub const SEGMENT_LEN_BYTES_MAX: u64 = if cfg!(test) { 128 << 10 } else { 256 << 20 };

/// The longest file that may be written at a position or truncated in its tail; and how far behind its
/// end a file that is written in any order takes what comes before its turn.
pub const REWRITE_LEN_BYTES_MAX: u64 = if cfg!(test) { 1 << 20 } else { 1 << 30 };

#[cfg(test)]
mod tests;
