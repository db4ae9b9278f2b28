//! Translation layers: a [`Disk`](imbrex_disk::Disk) over another disk, with block addresses of its
//! own.
//!
//! ```text
//!     files, engine            "write these blocks anywhere"        a file system, by serve
//!   ======= trait Disk ==================================================================
//!     FixedBands               append, or read-modify-write         BlockDriver
//!   ======= trait Disk ==================================================================
//!     a raw shingled drive     destroys the tracks that follow      a host-managed drive
//! ```
//!
//! [`BlockDriver`] makes a host-managed drive a block device, for file systems that know nothing of
//! zones.
//!
//! [`FixedBands`] is the simplest drive-managed shingled disk, and the one that SEALDB's baselines
//! run on: bands of one length, each ended by a guard, and a read-modify-write where a write would
//! destroy valid data of its band.
//!
//! Architecture invariants
//!   X1  Only this crate translates one block address into another: [`Lba`] above, [`Pba`] below.
//!   X2  A layer counts its own work as `added_*` in its counters, and sends each of its requests
//!       through the disk below, so that simulated time is right.
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
    DriverError, DriverOptions, DriverStatus, EvictionOrder,
};
pub use error::FormatFault;
pub use fixed_bands::{
    BandCounters, BandOptions, BandShape, BandsError, FixedBands, ReadBack, Staging,
};
