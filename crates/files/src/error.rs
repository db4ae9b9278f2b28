//! Errors of the file layer: of one drive, and of a pair of drives.

use imbrex_disk::{DiskError, ZoneId};

/// Why the file layer refused a request or failed at it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// No file of that name.
    #[error("no file named {name:?}")]
    NotFound {
        /// The name.
        name: String,
    },
    /// The name is taken.
    #[error("a file named {name:?} exists already")]
    Exists {
        /// The name.
        name: String,
    },
    /// Not a name: empty, too long, or with a NUL.
    #[error("{name:?} cannot name a file: {reason}")]
    BadName {
        /// The name, cut to 64 characters.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The log was ended by [`LogWriter::finish`].
    #[error("log {name:?} is finished and takes no more; create another one")]
    Finished {
        /// The log.
        name: String,
    },
    /// A read reaches past the end of the file.
    #[error("{name}: read of {len_bytes} bytes at {offset}, but the file has {file_len_bytes}")]
    PastEnd {
        /// The file.
        name: String,
        /// Where the read starts.
        offset: u64,
        /// How much it wants.
        len_bytes: usize,
        /// How long the file is.
        file_len_bytes: u64,
    },
    /// The drive is full.
    #[error(
        "no space: {needed_bytes} bytes are needed and {free_bytes} are free for this write; \
         delete data or compact, or use a larger drive"
    )]
    NoSpace {
        /// What the write needs.
        needed_bytes: u64,
        /// What it may use.
        free_bytes: u64,
    },
    /// The disk is not formatted for files.
    #[error("the disk holds no file layer: {reason}")]
    NotFormatted {
        /// What was found instead.
        reason: String,
    },
    /// Formatted as a drive of another geometry.
    #[error("it was formatted as {expected}, but the drive is {got}; open it as what it was")]
    Geometry {
        /// What the catalog says.
        expected: String,
        /// What the disk says.
        got: String,
    },
    /// Written by a version of Imbrex that this one does not know.
    #[error(
        "the disk's {what} has format version {got}; this program knows up to {known}; use a newer one"
    )]
    Version {
        /// Which structure.
        what: &'static str,
        /// Its version.
        got: u32,
        /// The newest known.
        known: u32,
    },
    /// A structure on the disk is damaged.
    #[error("damaged {structure} at {place}: {reason}")]
    Corrupt {
        /// Which structure: "catalog checkpoint", "catalog log", "superblock".
        structure: &'static str,
        /// Where: blocks, or a file and an offset.
        place: String,
        /// What was expected and found.
        reason: String,
    },
    /// The layout cannot live on this drive.
    #[error("placement {placement} cannot use this drive: {reason}")]
    Unsuitable {
        /// The placement policy.
        placement: String,
        /// Why not, and what would do.
        reason: String,
    },
    /// The flash drive beside the disk is missing, or not the one that belongs to it.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// An earlier write failed, in the background maybe, so what is durable is unknown.
    #[error("refused: an earlier write failed ({reason}); close the store and open it again")]
    Poisoned {
        /// How it failed.
        reason: String,
    },
    /// Another write failed that was placed before a log in its zone, which takes nothing more. The drive takes writes
    /// elsewhere.
    #[error(
        "log {name:?} takes no more: another write failed before it in {zone}; create another log, \
         which goes elsewhere"
    )]
    NoTurn {
        /// The log.
        name: String,
        /// The zone.
        zone: ZoneId,
    },
    /// The disk failed.
    #[error("{what}: {source}")]
    Disk {
        /// What was being done, to which file.
        what: String,
        /// The disk's error.
        #[source]
        source: DiskError,
    },
}

impl FilesError {
    /// What every later write is refused with, if this error left unknown what is durable.
    pub(crate) fn reason(&self) -> String {
        match self {
            FilesError::Poisoned { reason } => reason.clone(),
            error => error.to_string(),
        }
    }

    /// Whether the drive cannot read single blocks: also what a power cut leaves of a sector that was being written.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, FilesError::Disk { source, .. } if source.is_unreadable())
    }

    /// Whether what was to be read is damaged or gone, so that other reads may do better.
    pub fn is_damage(&self) -> bool {
        match self {
            FilesError::Disk { source, .. } => source.is_damage(),
            _ => matches!(
                self,
                FilesError::Corrupt { .. }
                    | FilesError::NotFound { .. }
                    | FilesError::PastEnd { .. }
            ),
        }
    }
}

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
