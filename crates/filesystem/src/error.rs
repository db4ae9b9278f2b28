//! Why the file system refused a request or failed at it.

use imbrex_files::FilesError;

/// Why the file system refused a request or failed at it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// No file or directory there.
    #[error("{path}: no such file or directory")]
    NotFound {
        /// The path.
        path: String,
    },
    /// The name is taken.
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
    /// The directory holds something.
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
    /// Somebody holds the lock.
    #[error("{path}: locked already")]
    Locked {
        /// The path.
        path: String,
    },
    /// A rewrite of a file that is too long to be taken into memory.
    #[error(
        "{path}: writing at a position or truncating takes a file of {len_bytes} bytes into memory; \
         at most {max_bytes} are"
    )]
    TooLong {
        /// The path.
        path: String,
        /// The file's length.
        len_bytes: u64,
        /// The most that is taken.
        max_bytes: u64,
    },
    /// A file of as many pieces as its record can count.
    #[error("{path}: stored in {max} pieces, and takes no more; copy it to append to it")]
    TooManyPieces {
        /// The path.
        path: String,
        /// The most pieces of a file.
        max: u16,
    },
    /// A piece of a file that is written in any order, too far behind a hole to wait in memory: it stays a hole.
    #[error(
        "{path}: bytes up to {end} would have to wait for those before them; only up to {max_bytes} can"
    )]
    TooFar {
        /// The path.
        path: String,
        /// Where the piece ends.
        end: u64,
        /// The furthest that is taken now.
        max_bytes: u64,
    },
    /// A file that is written in any order takes each byte once.
    #[error("{path}: byte {offset} and what follows is written already; each byte is written once")]
    WrittenTwice {
        /// The path.
        path: String,
        /// Where the second write begins.
        offset: u64,
    },
    /// A log that had been durable is damaged: what follows is lost.
    #[error("{path}: damaged at byte {offset}: {reason}")]
    Damaged {
        /// The path.
        path: String,
        /// The first byte that cannot be read.
        offset: u64,
        /// What was found.
        reason: String,
    },
    /// Data of the file could not be written earlier, and are gone.
    #[error("{path}: an earlier write of it failed: {reason}; write the file anew")]
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
    /// The drive holds something else.
    #[error("the drive holds no file system: {reason}")]
    Foreign {
        /// What it holds.
        reason: String,
    },
    /// Written by a newer program.
    #[error(
        "the drive's file system has format version {got}; this program knows {known}; use a newer one"
    )]
    Version {
        /// Its version.
        got: u16,
        /// The newest known.
        known: u16,
    },
    /// A record of the tree is damaged, or contradicts those before it.
    #[error("damaged record {record} of the file system: {reason}")]
    Corrupt {
        /// Its number, from 0.
        record: usize,
        /// What is wrong.
        reason: String,
    },
    /// The file layer failed.
    #[error("{what}: {source}")]
    Files {
        /// What was being done.
        what: String,
        /// Its error.
        #[source]
        source: FilesError,
    },
}

impl FsError {
    /// Whether it is for want of space.
    pub fn is_no_space(&self) -> bool {
        matches!(self, FsError::Files { source: FilesError::NoSpace { .. }, .. })
    }
}
