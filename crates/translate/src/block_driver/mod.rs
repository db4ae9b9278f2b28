//! A block device that is written anywhere, over a host-managed zoned drive.
//!
//! ```text
//!     write ---> write buffer ---- evict ----> data zones ---- clean ----> data zones
//!                regions, buffer               mapping        choose
//!                    |  group                     |
//!                    +--------> journal zones <---+ records of what moved where
//!                                    |
//!                                    +---- superseded by ----> checkpoint: mapping, buffer's copies
//! ```
//!
//! The host's writes gather in memory until contiguous regions grow, and long and old ones are evicted
//! first: so the map from [`Lba`] to [`Pba`](imbrex_disk::Pba) stays short, and it
//! has one node for each run. Cleaning picks the zones whose valid data merge the most nodes.
//!
//! A write is durable after a flush, as on any disk with a cache: a flush writes to the journal what is
//! not yet there, and flushes the drive. The paper leaves out how the map survives a power cut; here
//! the journal tells of evictions and moves too, and a checkpoint of the map frees its zones.
//!
//! Invariants
//!   K1  What was flushed is in the journal, or in a data zone of which the journal or a checkpoint tells.
//!   K2  A journal zone is reset only when no data in it are active and a durable checkpoint is
//!       younger than its last entry.
//!   K3  A data zone is reset only when nothing valid is in it and a durable record or checkpoint says so.
//!   K4  A checkpoint counts from its superblock on, which is written when all it speaks of is durable.
//!   K5  The host never gets the last free zones: cleaning, checkpoints and a full journal have them. They are blank:
//!       what is still to be reset may turn out to be given up. A full journal cleans until there are enough of them
//!       for the next time.
//!   K6  What is read is what was written, or an error: all that is stored has checksums, the host's data in
//!       `summaries` and `journal`.
//!   K7  Opening needs no one block: superblocks, checkpoints and headers of the journal are there twice. What an older
//!       superblock tells of is changed when the newer one is there twice, not before.
//!   K8  A read of the host waits for the drive without the lock. It looks at the map under the lock, and under the lock
//!       again at the generations of the zones that it read: if none was begun anew in between, what it read is what
//!       its blocks were when it looked, since a block of a zone is written once. Else it is done again, the last time
//!       under the lock.
//!
//! Work is done in steps of 4 MiB, as many as the host's writes ask for ([`Disk::work`] does more when
//! nobody asks for anything).
//!
//! Source: "On the Design of SMR HDD Block Device Driver" (Hao and others). Ours is all that makes it
//! survive power cuts.

mod broken;
mod buffer;
mod check;
mod checkpoint;
mod choose;
mod clean;
mod cleaning;
mod create;
mod data_zones;
mod device;
mod entries;
mod error;
mod format;
mod journal;
mod journaled_sums;
mod mapping;
mod newest;
mod open;
mod options;
mod pool;
mod read_checkpoint;
mod read_only;
mod regions;
mod replay;
mod state;
mod step;
mod summaries;
mod superblocks;
mod zones;

pub use check::{DeviceZone, DeviceZoneUse, DriverCheck};
pub use choose::{CleaningChoice, CleaningOrder, ZoneContent, ZoneFill, candidates, choose};
pub use create::{POOL_ZONE_COUNT_MIN, SPARE_ZONE_COUNT_MIN, spare_zone_count};
pub use device::BlockDriver;
pub use error::DriverError;
pub use mapping::{
    MapRun, MapSpec, Mapping, MappingError, PbaRange, Piece, SectorRange, TableMapping, TableWrite,
};
pub use options::{DriverCounters, DriverOptions};
pub use pool::data_len as zone_data_len;
pub use regions::{EvictionOrder, Regions};

#[cfg(test)]
mod tests;
