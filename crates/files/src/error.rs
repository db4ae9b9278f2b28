//! Errors of the file layer: of one drive, and of a pair of drives.

use imbrex_disk::{ByteSize, DiskError, ZoneId};

/// Two lengths in bytes, in words that differ if they do.
fn apart(left_bytes: u64, right_bytes: u64) -> [String; 2] {
    ByteSize(left_bytes).apart(ByteSize(right_bytes))
}

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
    /// [`LogWriter::finish`](crate::LogWriter::finish) has ended the log.
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
        /// The offset of the read.
        offset: u64,
        /// The length of the read.
        len_bytes: usize,
        /// The length of the file.
        file_len_bytes: u64,
    },
    /// The drive is full.
    #[error(
        "no space: {} are needed and {} are free for this write; delete data or compact, or use a \
         larger drive",
        apart(*.needed_bytes, *.free_bytes)[0],
        apart(*.needed_bytes, *.free_bytes)[1]
    )]
    NoSpace {
        /// What the write needs.
        needed_bytes: u64,
        /// What this write may use.
        free_bytes: u64,
    },
    /// The disk has no file layer on it.
    #[error("the disk holds no file layer: {reason}")]
    NotFormatted {
        /// What was found instead.
        reason: String,
    },
    /// The disk was formatted with another geometry.
    #[error(
        "it was formatted as {expected}, but the drive is {got}; open a drive of that geometry"
    )]
    Geometry {
        /// The geometry in the catalog.
        expected: String,
        /// The geometry of the disk.
        got: String,
    },
    /// A newer version of Imbrex wrote it.
    #[error(
        "the disk's {what} has format version {got}; this program knows up to {known}; use a newer one"
    )]
    Version {
        /// Which structure.
        what: &'static str,
        /// Its version.
        got: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// A structure on the disk is damaged.
    #[error("damaged {structure} at {place}: {reason}")]
    Corrupt {
        /// Which structure: "catalog checkpoint", "catalog log", "superblock".
        structure: &'static str,
        /// The location: blocks, or a file and an offset.
        place: String,
        /// What was expected and found.
        reason: String,
    },
    /// The placement does not suit this drive.
    #[error("placement {placement} cannot use this drive: {reason}")]
    Unsuitable {
        /// The placement policy.
        placement: String,
        /// The reason, and what would suit.
        reason: String,
    },
    /// The flash drive of the pair is missing, or is not the one that belongs to this drive.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// An earlier write failed, perhaps in the background, so it is unknown what is durable.
    #[error("refused: an earlier write failed ({reason}); close the store and open it again")]
    Poisoned {
        /// How it failed.
        reason: String,
    },
    /// A write that was placed before the log in the same zone failed, so the zone takes no more
    /// writes. Other zones do.
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
        /// The operation, and its file.
        what: String,
        /// The disk's error.
        #[source]
        source: DiskError,
    },
}

impl FilesError {
    /// The reason with which later writes are refused, if this error leaves it unknown what is
    /// durable.
    pub(crate) fn reason(&self) -> String {
        match self {
            FilesError::Poisoned { reason } => reason.clone(),
            error => error.to_string(),
        }
    }

    /// Whether the drive cannot read some blocks. A power cut during the write of a sector can
    /// leave such blocks.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, FilesError::Disk { source, .. } if source.is_unreadable())
    }

    /// Whether the requested data are damaged or gone, so that other reads may succeed.
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

/// An error of a pair of drives. Errors of one drive are the other variants of [`FilesError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlashError {
    /// The drive belongs to a pair and was opened alone.
    #[error(
        "some of its files are on flash drive {flash_id:016x}, which was not given; give it, or open the \
         drive read-only without it"
    )]
    NotGiven {
        /// The format id of its flash drive.
        flash_id: u64,
    },
    /// The drive was opened as the main drive of a pair, but was formatted alone.
    #[error("the drive was formatted without a flash drive; open it alone")]
    NotPaired,
    /// A flash drive was opened as a main drive.
    #[error("it is the flash drive of a pair; open the main drive and give this one as its flash")]
    Alone,
    /// The flash drive cannot be opened.
    #[error("the flash drive does not open: {source}; find the right one, or restore it")]
    Unopened {
        /// Its own error.
        #[source]
        source: Box<FilesError>,
    },
    /// The flash drive belongs to another drive, or to an earlier format of this one.
    #[error(
        "the wrong flash drive: it is {got_flash_id:016x} of drive {got_main_id:016x}, but flash \
         {flash_id:016x} of drive {main_id:016x} is wanted; give that one"
    )]
    Foreign {
        /// The main drive's format id.
        main_id: u64,
        /// The format id of its flash drive.
        flash_id: u64,
        /// The main drive that the flash drive belongs to.
        got_main_id: u64,
        /// The flash drive's format id.
        got_flash_id: u64,
    },
    /// The flash drive was restored from an older copy: the main drive knows of commits that it
    /// lacks.
    #[error(
        "the flash drive is older than the main drive: it has made {got} commits, and main knows of \
         {expected}; it was restored from a copy, find the newest one or restore both drives from \
         copies of the same moment"
    )]
    FlashOlder {
        /// How many of its commits the main drive knows of.
        expected: u64,
        /// How many it has made.
        got: u64,
    },
    /// The main drive was restored from an older copy.
    #[error(
        "the main drive is older than its flash drive: it knows of {got} commits of flash, and flash \
         says that it knew of {expected}; it was restored from a copy, find the newest one or \
         restore both drives from copies of the same moment"
    )]
    MainOlder {
        /// How many of its commits the main drive knew of, according to the flash drive.
        expected: u64,
        /// How many the main drive knows of.
        got: u64,
    },
    /// The main drive names a file that the flash drive lacks.
    #[error(
        "{name:?} lies on the flash drive, which does not have it: it was restored from a copy, find \
         the newest one or restore both drives from copies of the same moment"
    )]
    Lost {
        /// The file.
        name: String,
    },
    /// The file is on the flash drive, and the drive was opened without it.
    #[error(
        "{name:?} lies on the flash drive, which was not given; open the drive with its flash to \
         read it"
    )]
    OnFlash {
        /// The file.
        name: String,
    },
    /// A caller asked for everything that was written, and the drive was opened without its flash
    /// drive.
    #[error(
        "the drive is open without its flash drive, which may hold the last writes; open it with its flash drive, \
         or read-only in part"
    )]
    InPart,
    /// A caller asked for a change, and the drive was opened without its flash drive.
    #[error(
        "refused: the drive is open without its flash drive, to be read only; open it with its \
         flash to write"
    )]
    ReadOnly,
    /// The flash drive is too small for a log. Nothing was written.
    #[error(
        "the flash drive is too small: it has room for {} of files, and a log gets as long as {}; use a \
         larger one, or a drive with shorter bands",
        apart(*.got_bytes, *.needed_bytes)[0],
        apart(*.got_bytes, *.needed_bytes)[1]
    )]
    TooSmall {
        /// How long a log can get.
        needed_bytes: u64,
        /// What files may use.
        got_bytes: u64,
    },
}
