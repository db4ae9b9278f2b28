//! Why a drive image cannot be created or opened: what is wrong, where, and what to do.

use crate::build_error::BuildError;
use imbrex_disk::{Holder, ZoneId};
use std::path::PathBuf;

/// Why a drive image cannot be created or opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Nothing exists at the path.
    #[error("{}: no such file; check the path, or create a drive there first", path.display())]
    NotFound {
        /// Which path.
        path: PathBuf,
    },
    /// Something exists at the path already.
    #[error("{}: exists already; choose another path or remove it first", path.display())]
    Exists {
        /// Which path.
        path: PathBuf,
    },
    /// The path names a directory, a device, a pipe or a socket.
    #[error("{}: is {what}, not a regular file; give the path of a drive image", path.display())]
    NotAFile {
        /// Which path.
        path: PathBuf,
        /// "a directory", "a device, pipe or socket".
        what: &'static str,
    },
    /// The file may be read but not written.
    #[error(
        "{}: is read-only; open it read-only, or make the file and its file system writable",
        path.display()
    )]
    ReadOnly {
        /// Which path.
        path: PathBuf,
    },
    /// The user of this process may not read the file.
    #[error(
        "{}: permission denied: {needs}; change its permissions, or work on a copy",
        path.display()
    )]
    NotPermitted {
        /// Which path.
        path: PathBuf,
        /// What opening needs, and why.
        needs: &'static str,
    },
    /// Another process, or another disk in this process, has the file open.
    #[error("{}: is in use by {holder}; end that use first", path.display())]
    InUse {
        /// Which path.
        path: PathBuf,
        /// Which process, if the system shows it.
        holder: Holder,
    },
    /// The file is not a drive image.
    #[error("{}: is not an Imbrex drive image: {}", path.display(), beginning(.got))]
    NotAnImage {
        /// Which path.
        path: PathBuf,
        /// The first eight bytes of the file, escaped if they are not text.
        got: String,
    },
    /// A newer program wrote the file.
    #[error(
        "{}: drive image of format version {got}, but this program reads versions up to {expected}; \
         use the program that wrote it", path.display()
    )]
    Version {
        /// Which path.
        path: PathBuf,
        /// The newest version this program reads.
        expected: u32,
        /// The file's version.
        got: u32,
    },
    /// The header, the profile or the padding fails its check.
    #[error("{}: {structure} is damaged: {detail}; restore the image from a copy", path.display())]
    Damaged {
        /// Which path.
        path: PathBuf,
        /// "header", "profile text", "zone table".
        structure: &'static str,
        /// The expected value and the value found.
        detail: String,
    },
    /// The record of a zone's state fails its check, so its write pointer is unknown.
    #[error(
        "{}: record of {zone} at byte {offset} is damaged, so its write pointer is unknown; \
         restore the image from a copy", path.display()
    )]
    ZoneDamaged {
        /// Which path.
        path: PathBuf,
        /// Which zone.
        zone: ZoneId,
        /// The offset of its record in the file.
        offset: u64,
    },
    /// The file is shorter or longer than its header says.
    #[error(
        "{}: {got} bytes long, but its header says {expected}; the image was cut or appended to, \
         restore it from a copy", path.display()
    )]
    WrongLength {
        /// Which path.
        path: PathBuf,
        /// The length that the geometry requires, in bytes.
        expected: u64,
        /// The file's length in bytes.
        got: u64,
    },
    /// The image holds a drive of another geometry than the one requested.
    #[error("{}: holds {got}, but {expected} was asked for", path.display())]
    GeometryMismatch {
        /// Which path.
        path: PathBuf,
        /// The requested geometry.
        expected: String,
        /// The geometry of the image.
        got: String,
    },
    /// A label or a profile is too long for the header.
    #[error("{what} is {got} bytes long; at most {bound} fit into a drive image")]
    TooLong {
        /// "label", "profile name", "profile text", "drive".
        what: &'static str,
        /// Its length in bytes.
        got: u64,
        /// The bound in bytes.
        bound: u64,
    },
    /// The host has no room for the image.
    #[error("{}: no space left on the host while {what}; free some and try again", path.display())]
    NoSpace {
        /// Which path.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
    },
    /// The host failed.
    #[error("{}: {what}: {source}", path.display())]
    Host {
        /// Which path.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The header is sound, but no disk can be built from it.
    #[error("{}: {source}", path.display())]
    Build {
        /// Which path.
        path: PathBuf,
        /// The reason.
        #[source]
        source: BuildError,
    },
}

fn beginning(got: &str) -> String {
    match got {
        "" => "it is empty".to_owned(),
        got => format!("it begins with \"{got}\", not with \"IMBREXDK\""),
    }
}

impl ImageError {
    /// Whether the image exists but differs from what was written.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            ImageError::Damaged { .. }
                | ImageError::ZoneDamaged { .. }
                | ImageError::WrongLength { .. }
        )
    }
}
