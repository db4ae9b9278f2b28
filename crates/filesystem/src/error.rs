//! Why the file system refused a request or failed to serve it.

use imbrex_files::FilesError;

/// Why the file system refused a request or failed to serve it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// No file or directory exists at the path.
    #[error("{path}: no such file or directory")]
    NotFound {
        /// The path.
        path: String,
    },
    /// The name is already taken.
    #[error("{path}: exists already")]
    Exists {
        /// The path.
        path: String,
    },
    /// A file where a directory is needed.
    #[error("{path}: not a directory")]
    NotADirectory {
        /// The path.
        path: String,
    },
    /// A directory where a file is needed.
    #[error("{path}: is a directory")]
    IsADirectory {
        /// The path.
        path: String,
    },
    /// The directory is not empty.
    #[error("{path}: directory not empty")]
    NotEmpty {
        /// The path.
        path: String,
    },
    /// Not a path.
    #[error("{path:?} cannot be a path: {reason}")]
    BadPath {
        /// The path, cut to 64 characters.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The lock is already held.
    #[error("{path}: locked already")]
    Locked {
        /// The path.
        path: String,
    },
    /// A write that must hold the whole file in memory, and the file is too long for that.
    #[error(
        "{path}: a write at a position or a truncation holds the whole file in memory, here {len_bytes} bytes; \
         at most {max_bytes} are allowed"
    )]
    TooLong {
        /// The path.
        path: String,
        /// The file's length.
        len_bytes: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// A file of as many pieces as its record can count.
    #[error("{path}: stored in {max} pieces, the most there can be; copy the file to append to it")]
    TooManyPieces {
        /// The path.
        path: String,
        /// The limit.
        max: u16,
    },
    /// A piece, written out of order, that begins too far behind a hole to wait in memory. It stays
    /// a hole.
    #[error(
        "{path}: a write up to byte {end} is too far ahead of the file's end; it may reach {max_bytes} at most"
    )]
    TooFar {
        /// The path.
        path: String,
        /// Where the piece ends.
        end: u64,
        /// The furthest end that is accepted now.
        max_bytes: u64,
    },
    /// A byte that is already written, in a file that takes each byte once.
    #[error("{path}: byte {offset} or one behind it is already written; each byte is written once")]
    WrittenTwice {
        /// The path.
        path: String,
        /// Where the second write begins.
        offset: u64,
    },
    /// A log that was durable is damaged. Everything behind the damage is lost.
    #[error("{path}: damaged at byte {offset}: {reason}")]
    Damaged {
        /// The path.
        path: String,
        /// The first byte that cannot be read.
        offset: u64,
        /// The damage found.
        reason: String,
    },
    /// An earlier write of the file's data failed, so the data is lost.
    #[error("{path}: an earlier write to it failed: {reason}; write the file again")]
    Lost {
        /// The path.
        path: String,
        /// How it failed.
        reason: String,
    },
    /// The tree could not be made durable, so what is durable is unknown.
    #[error("refused: an earlier commit failed ({reason}); close the drive and open it again")]
    Poisoned {
        /// How it failed.
        reason: String,
    },
    /// The drive holds something other than a file system.
    #[error("the drive holds no file system: {reason}")]
    Foreign {
        /// What it holds.
        reason: String,
    },
    /// A newer program wrote the file system.
    #[error(
        "the drive's file system has format version {got}; this program knows {known}; use a newer one"
    )]
    Version {
        /// Its version.
        got: u16,
        /// The newest version known.
        known: u16,
    },
    /// A record of the tree is damaged, or contradicts those before it.
    #[error("damaged record {record} of the file system: {reason}")]
    Corrupt {
        /// Its number, from 0.
        record: usize,
        /// The contradiction or damage.
        reason: String,
    },
    /// The file layer failed.
    #[error("{what}: {source}")]
    Files {
        /// The operation that failed.
        what: String,
        /// Its error.
        #[source]
        source: FilesError,
    },
}

impl FsError {
    /// Whether the cause is a lack of space.
    pub fn is_no_space(&self) -> bool {
        matches!(self, FsError::Files { source: FilesError::NoSpace { .. }, .. })
    }
}
