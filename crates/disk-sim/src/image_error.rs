//! Why a drive image cannot be created or opened: what, where, and what to do.

use crate::BuildError;
use imbrex_disk::ZoneId;
use std::path::PathBuf;

/// A drive image that cannot be created or opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// There is nothing at the path.
    #[error("{}: no such file; check the path, or create a drive there first", path.display())]
    NotFound {
        /// Which path.
        path: PathBuf,
    },
    /// Something is at the path already.
    #[error("{}: exists already; choose another path or remove it first", path.display())]
    Exists {
        /// Which path.
        path: PathBuf,
    },
    /// The path names a directory, a device, a socket.
    #[error("{}: is {what}, not a regular file; give the path of a drive image", path.display())]
    NotAFile {
        /// Which path.
        path: PathBuf,
        /// "a directory", "a device, pipe or socket".
        what: &'static str,
    },
    /// The file may be read but not written.
    #[error("{}: is read-only; make the file and its file system writable", path.display())]
    ReadOnly {
        /// Which path.
        path: PathBuf,
    },
    /// Whoever runs the program may not read and write the file.
    #[error(
        "{}: you may not read and write it, and reading what it holds needs both: what a crash left is put in order \
         first; change its permissions, or work on a copy",
        path.display()
    )]
    NotPermitted {
        /// Which path.
        path: PathBuf,
    },
    /// Another process, or another disk in this one, has it open.
    #[error("{}: in use by another process; stop that one first", path.display())]
    InUse {
        /// Which path.
        path: PathBuf,
    },
    /// The file is something else.
    #[error(
        "{}: not an Imbrex drive image: begins with {got:?}, expected \"IMBREXDK\"", path.display()
    )]
    NotAnImage {
        /// Which path.
        path: PathBuf,
        /// How the file begins.
        got: String,
    },
    /// The file was written by another version.
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
        /// What was expected and what is there.
        detail: String,
    },
    /// The record of one zone's state fails its check: its write pointer is unknown.
    #[error(
        "{}: record of {zone} at byte {offset} is damaged, so its write pointer is unknown; \
         restore the image from a copy", path.display()
    )]
    ZoneDamaged {
        /// Which path.
        path: PathBuf,
        /// Which zone.
        zone: ZoneId,
        /// Where its record lies in the file.
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
        /// The length that belongs to the geometry, in bytes.
        expected: u64,
        /// The file's length in bytes.
        got: u64,
    },
    /// The image holds a drive of another geometry than the caller asked for.
    #[error("{}: holds {got}, but {expected} was asked for", path.display())]
    GeometryMismatch {
        /// Which path.
        path: PathBuf,
        /// What the caller asked for.
        expected: String,
        /// What the image holds.
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
        /// What was being done.
        what: &'static str,
    },
    /// The host failed.
    #[error("{}: {what}: {source}", path.display())]
    Host {
        /// Which path.
        path: PathBuf,
        /// What was being done.
        what: &'static str,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The header is sound, but no disk can be made of it.
    #[error("{}: {source}", path.display())]
    Build {
        /// Which path.
        path: PathBuf,
        /// Why not.
        #[source]
        source: BuildError,
    },
}

impl ImageError {
    /// Whether the image is there, and is not what was made.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            ImageError::Damaged { .. }
                | ImageError::ZoneDamaged { .. }
                | ImageError::WrongLength { .. }
        )
    }
}
