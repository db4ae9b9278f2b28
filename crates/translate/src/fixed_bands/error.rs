//! Why a disk cannot be put into bands, or its bands cannot be opened.

use imbrex_disk::DiskError;

/// Fixed bands that cannot be made or opened. A failed open has changed nothing that matters: it can
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
    /// No superblock is there.
    #[error("no fixed bands on this drive: neither superblock is one; format it first")]
    NotBands,
    /// Written by another version.
    #[error(
        "fixed bands of format version {got}, but this program reads version {expected}; use the \
         program that wrote them"
    )]
    Version {
        /// The version this program reads.
        expected: u32,
        /// The drive's version.
        got: u32,
    },
    /// The superblock belongs to a drive of another geometry.
    #[error("the superblock tells of {expected}, but the drive is {got}; was it copied?")]
    Geometry {
        /// What the superblock says.
        expected: String,
        /// What the disk below says.
        got: String,
    },
    /// A structure fails its check: which blocks are valid is unknown.
    #[error("{structure} is damaged: {detail}; restore the drive from a copy")]
    Damaged {
        /// "superblock", "journal", "staged rewrite".
        structure: &'static str,
        /// What was found.
        detail: String,
    },
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

/// Adds what was being done.
pub(crate) fn during(doing: &'static str) -> impl FnOnce(DiskError) -> BandsError {
    move |source| BandsError::Disk { doing, source }
}
