//! What may be wrong with the structures that a translation layer keeps on a disk.

/// Structures of a translation layer that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatFault {
    /// Written by another version.
    #[error(
        "{layer} of format version {got}, but this program reads version {expected}; open the drive \
         with the program that wrote it"
    )]
    Version {
        /// "fixed bands", "a block device".
        layer: &'static str,
        /// The version that this program reads.
        expected: u32,
        /// The drive's version.
        got: u32,
    },
    /// The superblock belongs to a drive of another geometry.
    #[error("the superblock describes {expected}, but the drive is {got}; was it copied?")]
    Geometry {
        /// The drive that the superblock describes.
        expected: String,
        /// The disk below.
        got: String,
    },
    /// A structure fails its check: the addresses that it holds are unknown.
    #[error("{structure} is damaged: {detail}; restore the drive from a copy")]
    Damaged {
        /// "superblock", "checkpoint", "journal", "staged rewrite".
        structure: &'static str,
        /// What was found.
        detail: String,
    },
}

impl FormatFault {
    pub(crate) fn damaged(structure: &'static str, detail: impl Into<String>) -> FormatFault {
        FormatFault::Damaged { structure, detail: detail.into() }
    }

    /// Whether data on the disk is damaged, and not only foreign to this program or drive.
    pub fn is_damage(&self) -> bool {
        matches!(self, FormatFault::Damaged { .. })
    }
}
