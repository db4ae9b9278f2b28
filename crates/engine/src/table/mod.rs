//! Tables: immutable files of sorted entries, written once, read at random and in order.
//!
//! ```text
//!   TableBuilder --> | data blocks | index partitions | copies | filter | properties | tombstones | top index | footer |
//!                          ^               ^                       ^                                ^
//!   get(key)               4. search       3. which block          1. is it here at all?            2. which partition
//! ```
//!
//! Tombstones, top index and footer are stored twice. The filter and the properties are not needed to
//! read the table.
//!
//! A get of an absent key usually costs one cache line of the filter. A get of an existing key
//! costs one read of one block. The filter, the top index and the tombstones stay in memory while
//! the table is open. Data blocks and index partitions are kept in the block cache.
//!
//! Not here: which tables exist (`version`), which are merged (`compaction`).

mod apart;
mod block;
mod builder;
pub(crate) mod cache;
pub(crate) mod compression;
mod describe;
mod filter;
mod format;
mod found;
mod histogram;
mod identity;
mod index;
mod iter;
mod level_iter;
mod mend;
mod moved;
mod origin;
mod properties;
mod read_ahead;
mod reader;
mod reading;
mod tombstones;
mod values;
pub(crate) mod varint;
mod verify;
mod written;

pub(crate) use apart::{
    ApartPlace, MOVED_KEY_LEN_BYTES, MOVED_KEYS, MovedKey, no_place, read_values,
};
pub(crate) use builder::{TableBuilder, TableOptions};
pub(crate) use filter::key_hash;
pub(crate) use format::BlockHandle;
pub(crate) use found::FoundFooter;
#[cfg(test)]
pub(crate) use histogram::HistogramBuilder;
pub(crate) use histogram::{HISTOGRAM_LEN_BYTES_MIN, Histogram};
pub(crate) use index::IndexPartition;
pub(crate) use iter::{TableIter, TableReadOptions};
pub(crate) use level_iter::{LevelIter, SortedRun};
pub(crate) use mend::mend_from_copies;
pub(crate) use origin::{
    Origin, Part, Roster, RosterKeyspace, RosterRun, Stamp, StopMark, mark_of,
};
pub(crate) use properties::TableProperties;
pub(crate) use reader::{Table, TableLookup};
pub(crate) use values::{INLINE_LEN_BYTES_MAX, ValuePlace};
pub(crate) use written::WrittenEnd;

#[cfg(feature = "micro-bench")]
pub(crate) mod micro;
#[cfg(test)]
mod tests;
