//! The parts of a block device over a host-managed drive.
//!
//! ```text
//!     write ---> write buffer ---- evict ----> data zones ---- clean ----> data zones
//!                regions, buffer               mapping        choose
//!                    |
//!                    +--> journal zones (what the buffer holds survives a power cut)
//! ```
//!
//! The host's writes gather in memory until contiguous regions grow, and the largest is evicted
//! first: so the map from [`Lba`](imbrex_disk::Lba) to [`Pba`](imbrex_disk::Pba) stays short, and it
//! has one node for each run. Cleaning picks the zones whose valid data merge the most nodes.
//!
//! Source: "On the Design of SMR HDD Block Device Driver" (Hao and others).

#[cfg_attr(not(test), expect(dead_code, reason = "the driver that calls it is being built"))]
mod buffer;
mod choose;
mod mapping;
mod regions;

pub use choose::{Cleaning, CleaningOrder, ZoneContent, ZoneFill, candidates, choose};
pub use mapping::{
    MapRun, MapSpec, Mapping, MappingError, PbaRange, Piece, SectorRange, TableMapping, TableWrite,
};
pub use regions::{EvictionOrder, Regions};
