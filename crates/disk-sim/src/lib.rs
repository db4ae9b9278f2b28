//! The platter in software: a [`SimDisk`] obeys its recording rule, takes modelled time, and fails
//! on request.
//!
//! A simulated drive is composed of four independent parts:
//!
//! ```text
//!                 SimDisk: Disk                       (disk.rs, builder.rs)
//!      +------------+-------------+----------------+
//!      |            |             |                |
//!     rule       mechanics     backing          faults
//!     which      how long      where the        what goes wrong, and what
//!     writes     it takes      bytes live       a power cut leaves (cache.rs)
//! ```
//!
//! # Example
//! ```
//! use imbrex_disk::{Blocks, Disk, Lba, Persist};
//! use imbrex_disk_sim::SimDisk;
//!
//! // Four zones of sixteen blocks, the first conventional.
//! let disk = SimDisk::tiny_zoned(4, Blocks::new(16));
//! disk.write(Lba::new(16), &[1; 4096], Persist::Through)?;
//! assert!(disk.write(Lba::new(20), &[1; 4096], Persist::Cached).is_err(), "not at the pointer");
//! # Ok::<(), imbrex_disk::DiskError>(())
//! ```
//!
//! Architecture invariants
//!   S1  A request that breaks the rule is refused with a typed error and changes nothing.
//!   S2  A disk without mechanics, write cache and faults serves requests without a shared lock: a
//!       read takes none, a write only its zone's. Where tracks overlap, a write takes all of them.
//!   S3  Same calls, same seed: same bytes, same times, same event log.
//!
//! Sources: ZBC (INCITS 536); see docs/papers.md for the drives.

mod backing;
mod build_error;
mod builder;
mod cache;
mod disk;
mod event_log;
mod fault;
mod image_error;
mod measure;
mod mechanics;
mod profile;
mod rule;
mod wear;

pub use backing::{ImageInfo, is_image};
pub use build_error::BuildError;
pub use builder::{OpenOptions, SimDiskBuilder};
pub use cache::PowerCycle;
pub use disk::{SimDisk, ZoneFailure};
pub use fault::{FailAt, FaultPlan, Misdirect};
pub use image_error::ImageError;
pub use measure::{Figure, MeasureError, Measurement, measure};
pub use profile::{
    KVIMR_TRACKS, Profile, ProfileError, ProfileFault, PublishedFigure, SEALDB_SHINGLE, Workload,
};
pub use wear::{FLASH_WRITE_CYCLES, flash_life_bytes, flash_wear_ratio};
