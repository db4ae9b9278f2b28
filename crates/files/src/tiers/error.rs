//! Why two drives do not make a pair, or what a pair without its flash drive refuses.

use crate::api::FilesError;

/// An error of the pair; what one drive reports of itself is the other kinds of [`FilesError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlashError {
    /// The drive has a flash drive beside it, and was opened alone.
    #[error(
        "part of its files lie on flash drive {flash_id:016x}, and none was given; give it, or open \
         the drive read-only without it"
    )]
    NotGiven {
        /// The format id that the flash drive must have.
        flash_id: u64,
    },
    /// The drive has no flash drive beside it, and was opened as if it had.
    #[error("the drive was formatted without a flash drive beside it; open it as a drive alone")]
    NotPaired,
    /// A flash drive was opened as if it were a main drive.
    #[error("it is the flash drive of a pair; open the main drive and give this one as its flash")]
    Alone,
    /// The flash drive cannot be opened at all.
    #[error("the flash drive does not open: {source}; find the right one, or restore it")]
    Unopened {
        /// Its own error.
        #[source]
        source: Box<FilesError>,
    },
    /// The flash drive belongs to another drive, or to another format of this one.
    #[error(
        "the wrong flash drive: it is {got_flash_id:016x} of drive {got_main_id:016x}, but flash \
         {flash_id:016x} of drive {main_id:016x} is wanted; give that one"
    )]
    Foreign {
        /// The main drive's format id.
        main_id: u64,
        /// The flash drive that it wants.
        flash_id: u64,
        /// The main drive that the flash drive wants.
        got_main_id: u64,
        /// The flash drive's format id.
        got_flash_id: u64,
    },
    /// The flash drive was set back: the main drive knows of commits that it lacks.
    #[error(
        "the flash drive is older than the main drive: it has made {got} commits, and main knows of \
         {expected}; it was restored from a copy, find the newest one or restore both drives from \
         copies of one moment"
    )]
    FlashOlder {
        /// How many commits of the flash drive the main drive knows of.
        expected: u64,
        /// How many it has made.
        got: u64,
    },
    /// The main drive was set back.
    #[error(
        "the main drive is older than its flash drive: it knows of {got} commits of flash, and flash \
         says that it knew of {expected}; it was restored from a copy, find the newest one or \
         restore both drives from copies of one moment"
    )]
    MainOlder {
        /// How many commits the flash drive says that the main drive knows of.
        expected: u64,
        /// How many it knows of.
        got: u64,
    },
    /// The main drive names a file that the flash drive does not have.
    #[error(
        "{name:?} lies on the flash drive, which does not have it: it was restored from a copy, find \
         the newest one or restore both drives from copies of one moment"
    )]
    Lost {
        /// The file.
        name: String,
    },
    /// The file lies on the flash drive, and the drive was opened without.
    #[error(
        "{name:?} lies on the flash drive, which was not given; open the drive with its flash to \
         read it"
    )]
    OnFlash {
        /// The file.
        name: String,
    },
    /// All that was written was asked for, and the drive was opened without its flash drive.
    #[error(
        "the drive is open without its flash drive, which may hold what was written last; open it with its flash, or \
         to be read in part"
    )]
    InPart,
    /// A change was asked for, and the drive was opened without its flash drive.
    #[error(
        "refused: the drive is open without its flash drive, to be read only; open it with its \
         flash to write"
    )]
    ReadOnly,
    /// The flash drive has no room for a log. Nothing was written.
    #[error(
        "the flash drive is too small: it has room for {got_bytes} bytes of files, and a log gets \
         as long as {needed_bytes}; use a larger one, or a drive with shorter bands"
    )]
    TooSmall {
        /// How long a log gets.
        needed_bytes: u64,
        /// What files may use.
        got_bytes: u64,
    },
}
