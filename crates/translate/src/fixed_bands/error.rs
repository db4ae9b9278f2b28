//! Why a disk cannot be divided into bands, or its bands cannot be opened.

use crate::error::FormatFault;
use imbrex_disk::DiskError;

/// Fixed bands that cannot be made or opened. A failed open changes nothing that matters, and can
/// be tried again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BandsError {
    /// The disk below is not raw shingled.
    #[error("fixed bands need a shingled drive, but this one is {got}")]
    WrongRule {
        /// The rule's name.
        got: &'static str,
    },
    /// An option that no bands can have.
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
    /// The disk below is too short for one band.
    #[error("the drive has {got} tracks; one band, the journal and their guards need {needed}")]
    TooSmall {
        /// How many it has.
        got: u64,
        /// How many are needed.
        needed: u64,
    },
    /// The disk has no superblock.
    #[error("no fixed bands on this drive: neither superblock exists; format it first")]
    NotBands,
    /// The structures on the disk cannot be used.
    #[error(transparent)]
    Format(#[from] FormatFault),
    /// The disk below failed.
    #[error("fixed bands: {doing}")]
    Disk {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: DiskError,
    },
}

impl BandsError {
    /// Whether data on the disk is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, BandsError::Format(fault) if fault.is_damage())
    }
}

/// Adds what was being done.
pub(crate) fn during(doing: &'static str) -> impl FnOnce(DiskError) -> BandsError {
    move |source| BandsError::Disk { doing, source }
}
