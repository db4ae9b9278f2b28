//! A block device over a host-managed zoned drive: the host may write any block at any time.
//!
//! ```text
//!     write ---> write buffer ---- evict ----> data zones ---- clean ----> data zones
//!                regions, buffer               layered        choose
//!                    |  group                     |
//!                    +--------> journal zones <---+ records of what moved where
//!                                    |
//!                                    +---- superseded by ----> checkpoint: map, buffer's copies
//!                                                                (the base of a long map)
//! ```
//!
//! The host's writes gather in memory, so that contiguous regions grow. The write buffer evicts
//! long and old regions first. This keeps the map from [`Lba`](imbrex_disk::Lba) to
//! [`Pba`](imbrex_disk::Pba) short, since it has one node for each run. Cleaning picks the zones
//! whose valid data merge the most nodes. Requests that continue each other are a stream, whose data
//! bypass the journal (`streams`). A map that does not fit its memory is a base on the drive, with
//! what has changed since in memory (`layered`).
//!
//! A write is durable after a flush, as on any disk with a cache. A flush appends to the journal
//! whatever is not there yet, and flushes the drive. The paper does not say how the map survives a
//! power cut. Here the journal records evictions and moves too, and a checkpoint of the map frees
//! journal zones.
//!
//! Invariants
//!   K1  Flushed data is in the journal, or in a data zone that the journal or a checkpoint
//!       describes.
//!   K2  A journal zone is reset only when it holds no active data and a durable checkpoint is
//!       younger than its last entry.
//!   K3  A data zone is reset only when it holds nothing valid and a durable record or checkpoint
//!       says so.
//!   K4  A checkpoint counts as soon as its superblock is written, which happens after everything
//!       that the checkpoint describes is durable.
//!   K5  The host never gets the last free zones: they are reserved for cleaning, for checkpoints
//!       and for emptying a full journal. The reserved zones are blank, because the drive may
//!       refuse to reset a zone that still needs it. Emptying a full journal includes cleaning
//!       until enough zones are free for the next time.
//!   K6  A read returns what was written, or an error. All stored data has checksums; those of the
//!       host's data are in `summaries` and `journal`.
//!   K7  Opening depends on no single block: superblocks, checkpoints and journal headers are
//!       stored twice. Structures that an older superblock names are changed only after the newer
//!       one is stored twice.
//!   K8  A host's read waits for the drive without the lock. It looks up the map under the lock,
//!       reads, and then checks under the lock that no zone that it read from was begun anew. If
//!       none was, the data is what its blocks held at the lookup, since a block of a zone is
//!       written once. Otherwise the read is repeated, the last time under the lock.
//!   K9  A flush of the host waits for the drive without the lock: what it makes durable was written
//!       before. It makes no zone resettable, since a record may have been written meanwhile. After a flush
//!       that failed no flush succeeds (`flushes`).
//!   K10 The work that a write asks for is done in steps, and each takes the lock anew. So a request
//!       waits for one step at most, and not for a whole write. With a clock, and while the host reads,
//!       a step of cleaning reads as much as the drive has lately read in the time of a step, and not a
//!       number of bytes (`step`). A request that finds no zone left cleans in such steps before it
//!       writes, for 4 MiB at most. Emptying a full journal is one step, however long.
//!   K11 With a clock, and while the host reads, the drive's cache holds no more than the drive has
//!       lately flushed in the time of a step, beside what one step adds: the driver flushes it before.
//!       So no flush keeps a read waiting for longer, and no write waits for a full cache. A host that
//!       does not read leaves the cache, and the order of reads of cleaning, to the drive.
//!
//! Work is done in proportion to the host's writes. [`Disk::work`](imbrex_disk::Disk::work) does more
//! of it while the host is idle.
//!
//! Source: "On the Design of SMR HDD Block Device Driver" (Hao and others). Surviving power cuts is
//! our addition.

mod base;
mod batch;
mod broken;
mod buffer;
mod check;
mod checkpoint;
mod checkpoint_format;
mod checkpointing;
mod choose;
mod clean;
mod cleaning;
mod control;
mod create;
mod data_zones;
mod device;
mod entries;
mod error;
mod flushes;
mod format;
mod journal;
mod journaled_sums;
mod layered;
mod load;
mod mapping;
mod moving;
mod newest;
mod open;
mod options;
mod overlay;
mod pacing;
mod paging;
mod part_reader;
mod pool;
mod read_checkpoint;
mod read_only;
mod regions;
mod replay;
mod state;
mod step;
mod streaming;
mod streams;
mod summaries;
mod summary_values;
mod superblocks;
mod zones;

pub use check::{DeviceZone, DeviceZoneUse, DriverCheck};
pub use choose::{CleaningChoice, CleaningOrder, ZoneContent, ZoneFill, candidates, choose};
pub use control::DriverStatus;
pub use create::{POOL_ZONE_COUNT_MIN, SPARE_ZONE_COUNT_MIN, spare_zone_count};
pub use device::BlockDriver;
pub use error::DriverError;
pub use mapping::{
    MapRun, MapSpec, Mapping, MappingError, PbaRange, Piece, SectorRange, TableMapping, TableWrite,
};
pub use options::{DriverCounters, DriverOptions};
pub use pool::data_len as zone_data_len;
pub use regions::{EvictionOrder, Regions};
pub use summary_values::{SummaryValues, data_checksum};

#[cfg(test)]
mod tests;
