//! Salvage: a store from a drive whose catalog is lost, by what tables and logs say of themselves.
//!
//! ```text
//!   scan      all written blocks        -> footers of tables, heads of frames
//!   traces    properties of tables      -> which stores left something here
//!   lineage   origins and rosters       -> which tables were alive, which are missing      (pure)
//!   join      checksums of blocks       -> where the extents of those tables are
//!   logs      frames by position        -> the logs, and which of them are still needed
//!   files     all of that               -> a catalog's worth: `Files` with one snapshot record
//!   Db::open  OpenMode::Salvage         -> a store to read, whose damaged blocks are skipped
//!   copy      newest first              -> another store
//! ```
//!
//! Nothing is written to the drives. The store is opened like any damaged store, so there is one
//! way to merge tables, range tombstones and logs, and one way to skip damage.
//!
//! Invariants
//!   G1  Every entry that is returned was written to the store once: all blocks have checksums.
//!   G2  An entry is the newest of its key, unless a [`Doubt`] covers the key. Exception: what no
//!       table and no log records is not known. That is a drop of a keyspace, or a compaction that
//!       leaves nothing, after the newest table; and the loss of the newest table or log itself,
//!       unless the sequence numbers of later logs show it.
//!   G3  What is missing is reported: tables by their number and the keys between their
//!       neighbours, writes of logs by their numbers.
//!
//! Not here: reading drives and layouts, the target (`imbrex::salvage`). Not supported: files of
//! other databases, block devices, logged tables of version 1.

mod copy;
mod files;
mod join;
mod lineage;
mod logs;
mod scan;
mod traces;

pub use copy::{KeyspaceCopy, copy_store, has_entries};
pub use files::{Doubt, Found, FoundReport, doubts_of};
pub use traces::{StoreTrace, Traces};

/// A block of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    drive: usize,
    block: u64,
}
