//! The narrow waist of Imbrex: what a host may ask of a disk, and what the disk may answer.
//!
//! ```text
//!     files, translate          "write these blocks at this LBA"
//!   ======= trait Disk =============================================
//!     disk-sim, disk-host       obeys the rule of the recording, or refuses; in software, or a real drive
//! ```
//!
//! A disk is a run of 4096-byte blocks under one [`Rule`]:
//!
//! | rule | drive | a write |
//! |---|---|---|
//! | [`Rule::Anywhere`] | conventional, or a drive that manages itself | may go anywhere |
//! | [`Rule::AtPointer`] | host-managed zones (ZBC/ZAC) | only at a zone's write pointer |
//! | [`Rule::IsolationDistance`] | raw shingled | destroys the blocks that follow it |
//! | [`Rule::Neighbours`] | raw interlaced | to a bottom track destroys its top neighbours |
//!
//! Architecture invariants
//!   D1  This crate does no I/O and reads no clock; it depends on no other crate of ours.
//!   D2  A call that returns an error has changed nothing, unless its doc says otherwise.
//!   D3  Every address has a type; an address and a length never mix.
//!
//! A translation layer is a function from `Disk` to `Disk` (crate `translate`). A disk over a disk
//! that changes two or three methods is a [`DiskLayer`]. A disk that must not change is read through
//! an [`Overlay`]. A [`Handles`] tells a disk what its requests serve. A placement policy in `files` works directly under one of the rules.

mod activity;
mod address;
mod byte_size;
mod counters;
mod disk;
mod error;
mod flipped_bit;
mod geometry;
mod holder;
mod layer;
mod overlay;
mod tally;
mod zone;
mod zone_table;

pub use activity::{
    Activity, ActivityCounters, ActivityHandle, ByActivity, CountsActivities, Handles,
};
pub use address::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba, Pba, ZoneId};
pub use byte_size::ByteSize;
pub use counters::Counters;
pub use disk::{Disk, Known, Persist, ReadRequest, readable_len, write_zero_blocks};
pub use error::{DiskError, GeometryError};
pub use flipped_bit::flipped_bit;
pub use geometry::{Geometry, GeometrySpec, NeighbourSpec, Rule, ShingleSpec, TrackId, ZoneSpec};
pub use holder::Holder;
pub use layer::DiskLayer;
pub use overlay::Overlay;
pub use tally::Tally;
pub use zone::{ZoneAction, ZoneInfo, ZoneKind, ZoneState};
pub use zone_table::{Readable, ZoneMark, ZoneRecord, ZoneTable};
