//! Translation layers: a [`Disk`](imbrex_disk::Disk) over another, where one block address becomes
//! another.
//!
//! ```text
//!     files, engine            "write these blocks anywhere"        a file system, by serve
//!   ======= trait Disk ==================================================================
//!     FixedBands               append, or read-modify-write         BlockDriver
//!   ======= trait Disk ==================================================================
//!     a raw shingled drive     destroys the tracks that follow      a host-managed drive
//! ```
//!
//! [`BlockDriver`] makes a block device of a host-managed drive: what a file system can live on that knows of
//! no zones.
//!
//! [`FixedBands`] is what a drive-managed shingled disk does at its simplest, and what SEALDB's
//! baselines run on: bands of one length, each ended by a guard, and a read-modify-write where a
//! write would destroy valid data of its band.
//!
//! Architecture invariants
//!   X1  This is the only crate in which one block address becomes another: [`Lba`] above, [`Pba`]
//!       below.
//!   X2  What a layer does of its own accord is counted as `added_*` of its counters, and every
//!       request it makes passes through the disk below, so that time is right.
//!
//! [`Lba`]: imbrex_disk::Lba
//! [`Pba`]: imbrex_disk::Pba

mod block_driver;
mod error;
mod fields;
mod fixed_bands;
pub mod model;

pub use block_driver::{
    BlockDriver, CleaningOrder, DeviceZone, DeviceZoneUse, DriverCheck, DriverCounters,
    DriverError, DriverOptions, EvictionOrder,
};
pub use error::FormatFault;
pub use fixed_bands::{BandCounters, BandOptions, BandsError, FixedBands, ReadBack, Staging};
