//! Why a drive cannot become a block device, or its block device cannot be opened.

use super::mapping::MappingError;
use crate::error::FormatFault;
use imbrex_disk::{Blocks, DiskError};

/// A block device that cannot be made or opened. A failed open changes nothing that matters, and can
/// be tried again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The disk below has no zones.
    #[error("the block driver needs a host-managed zoned drive, but this one is {got}")]
    WrongRule {
        /// The rule's name.
        got: &'static str,
    },
    /// An option that no device can have.
    #[error("{what} is {got}; it must be between {min} and {max}")]
    Option {
        /// The option.
        what: &'static str,
        /// Its value.
        got: u64,
        /// The least it may be.
        min: u64,
        /// The most it may be.
        max: u64,
    },
    /// The disk below has too few zones that can be written.
    #[error(
        "the drive has {got} sequential zones that can be written; superblocks, journal and \
         cleaning need {needed}; {}use a longer drive, or one with shorter zones (an emulated one: --zone-len)",
        shorter_buffer(.buffer_fits)
    )]
    TooSmall {
        /// How many it has.
        got: u64,
        /// How many are needed.
        needed: u64,
        /// The longest write buffer with which the drive would do, if there is one: its journal takes
        /// fewer zones.
        buffer_fits: Option<Blocks>,
    },
    /// A zone of the disk below is too short for what every zone has.
    #[error(
        "the drive's zones take {got} of data each, but a block device needs zones of {min} or more (an emulated \
         drive: --zone-len)"
    )]
    ZoneTooShort {
        /// The capacity of a zone.
        got: Blocks,
        /// The least.
        min: Blocks,
    },
    /// The zones of the disk below are too short for their number.
    #[error(
        "the map of this drive may take {got} of its zones, but a superblock names at most {max}; a block \
         device needs longer or fewer zones"
    )]
    ZonesTooShort {
        /// How many zones the longest checkpoint takes, in both copies.
        got: u64,
        /// How many it may take.
        max: u64,
    },
    /// The disk below allows too few zones that are written in part.
    #[error(
        "the drive allows {got} active zones, but the block driver needs {needed}; it cannot be a \
         block device"
    )]
    ActiveZones {
        /// Its limit.
        got: u32,
        /// How many zones are written at once: superblocks, journal, host, cleaning, and two copies
        /// of a checkpoint.
        needed: u32,
    },
    /// The disk has no superblock.
    #[error(
        "no block device on this drive: no superblock is in its first two zones; format it first"
    )]
    NotFormatted,
    /// The structures on the disk cannot be used.
    #[error(transparent)]
    Format(#[from] FormatFault),
    /// The disk below failed.
    #[error("block driver: {doing}")]
    Disk {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: DiskError,
    },
}

impl DriverError {
    /// Whether data on the disk is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, DriverError::Format(fault) if fault.is_damage())
    }
}

/// Adds what was being done.
pub(super) fn during(doing: &'static str) -> impl FnOnce(DiskError) -> DriverError {
    move |source| DriverError::Disk { doing, source }
}

/// A structure that refers to addresses that no drive has.
pub(super) fn damaged(structure: &'static str) -> impl FnOnce(MappingError) -> DriverError {
    move |error| FormatFault::damaged(structure, error.to_string()).into()
}

/// The driver's own accounting is wrong, reported as the error of a disk that cannot go on.
pub(super) fn broken(error: &MappingError) -> DiskError {
    no_room(format!("the block driver's map refuses a run: {error}"))
}

pub(super) fn no_room(what: String) -> DiskError {
    DiskError::Host { what, source: std::io::Error::from(std::io::ErrorKind::StorageFull) }
}

/// What to do about a drive that is too short for its write buffer.
fn shorter_buffer(fits: &Option<Blocks>) -> String {
    fits.map_or(String::new(), |len| {
        format!("pass a write buffer of at most {} MiB (--buffer), or ", len.bytes() >> 20)
    })
}
