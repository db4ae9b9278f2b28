//! What the layers above may ask of the file layer: the trait [`Files`] and its vocabulary.
//!
//! A file is one of two kinds by the way it grows:
//!
//! - a *table-like* file ([`FileBuffer`]) is buffered whole, placed and written in one go by
//!   [`Files::persist`], and exists only from the [`Files::commit`] that adds it: a crash before
//!   that leaves nothing behind but free space;
//! - a *log* ([`Files::create_log`]) exists from its creation and grows by whole blocks; after a
//!   crash its length is an upper bound, and its content says where it ends (`record-log`).
//!
//! Invariants
//!   F1  A commit is atomic and durable: after a power cut all of it is there or none.
//!   F2  What a durable commit names is durable itself: data are flushed before the catalog record.
//!   F3  An extent is reused only after the commit that removes its last name is durable and the
//!       last reader of the file is gone.

use crate::room::{CatalogUse, CommitKind};
use crate::spare_chunks;
use crate::tiers::FlashError;
use imbrex_disk::{BlockRange, DiskError, ZoneId};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// What a file holds: the coarsest hint about how it will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Appended in small pieces, read only at recovery, dies soon.
    Log,
    /// Written once, read at random, dies by compaction.
    Table,
    /// Small, rewritten often.
    Metadata,
    /// Anything else.
    Other,
}

/// The compaction (or flush) that wrote a file; files of one group tend to be read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

/// Which drive of a pair a file should lie on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The drive whose catalog decides; where there is only one drive, that.
    #[default]
    Main,
    /// The flash drive beside it, as long as it has room.
    Fast,
}

/// What the writer knows about a file and the placement may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// What it holds.
    pub kind: FileKind,
    /// Its level in an LSM-tree, 0 the youngest; 0 where that means nothing.
    pub level: u8,
    /// Which compaction wrote it.
    pub group: Option<GroupId>,
    /// Files of one stream are expected to die together.
    pub stream: u32,
    /// How long it will get, if known before it is written.
    pub expected_len_bytes: Option<u64>,
    /// What it is written for, and so how deep into the reserve it may go, which is kept so that a
    /// full drive can be emptied.
    pub purpose: CommitKind,
    /// Which drive it should lie on; only [`TieredFiles`](crate::TieredFiles) has two.
    pub tier: Tier,
}

impl Hints {
    /// Hints for a file of `kind`, all else unknown.
    pub fn new(kind: FileKind) -> Hints {
        Hints {
            kind,
            level: 0,
            group: None,
            stream: 0,
            expected_len_bytes: None,
            purpose: CommitKind::Ordinary,
            tier: Tier::Main,
        }
    }
}

/// A table-like file being written: all in memory until [`Files::persist`].
#[derive(Debug)]
pub struct FileBuffer {
    name: String,
    hints: Hints,
    chunks: Vec<Vec<u8>>,
    len_bytes: u64,
}

impl FileBuffer {
    /// How long the pieces are in which a file is buffered and then written: long enough that a
    /// disk streams, short enough that reads are not kept waiting.
    pub const CHUNK_LEN_BYTES: usize = 1 << 20;

    /// An empty file that will be called `name`.
    pub fn new(name: impl Into<String>, hints: Hints) -> FileBuffer {
        FileBuffer { name: name.into(), hints, chunks: Vec::new(), len_bytes: 0 }
    }

    /// Adds `data` at the end. Cost: one copy.
    pub fn append(&mut self, mut data: &[u8]) {
        self.len_bytes += data.len() as u64;
        while !data.is_empty() {
            let room = self.chunks.last().map_or(0, |c| Self::CHUNK_LEN_BYTES - c.len());
            if room == 0 {
                self.chunks.push(spare_chunks::take());
                continue;
            }
            let (now, later) = data.split_at(room.min(data.len()));
            if let Some(chunk) = self.chunks.last_mut() {
                chunk.extend_from_slice(now);
            }
            data = later;
        }
    }

    /// How many bytes were appended.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }

    /// The name it will have.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its hints.
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// The same bytes under another name and with other hints: a writer may learn both only when it
    /// has the bytes.
    pub fn renamed(self, name: impl Into<String>, hints: Hints) -> FileBuffer {
        FileBuffer { name: name.into(), hints, ..self }
    }

    /// Name, hints, length and pieces: for the implementation of [`Files::persist`].
    pub(crate) fn into_parts(self) -> (String, Hints, u64, Vec<Vec<u8>>) {
        (self.name, self.hints, self.len_bytes, self.chunks)
    }

    /// Its bytes, in pieces of [`FileBuffer::CHUNK_LEN_BYTES`], the last shorter.
    pub fn chunks(&self) -> &[Vec<u8>] {
        &self.chunks
    }
}

/// A file written to the disk but named by no commit yet; dropped, its space is free again.
pub trait Persisted: Any + Send + Debug {
    /// The file's name.
    fn name(&self) -> &str;
    /// Its length.
    fn len_bytes(&self) -> u64;
    /// Where it lies, in order.
    fn extents(&self) -> Vec<BlockRange>;
    /// For the implementation of [`Files::commit`] to find its own type again.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// A log being written.
///
/// One writer a log; `append` and `sync` take `&self` so that one thread may sync while another
/// appends.
pub trait LogWriter: Send + Sync + Debug {
    /// Appends `data`, a positive multiple of `BLOCK_LEN_BYTES`, and returns the offset in the log
    /// of its first byte. Readable on return; durable after [`LogWriter::sync`].
    ///
    /// # Errors
    /// [`FilesError::NoSpace`]: nothing was appended, the log can go on once there is room.
    /// [`FilesError::Finished`].
    /// [`FilesError::Disk`], [`FilesError::NoTurn`]: the log is then poisoned.
    fn append(&self, data: &[u8]) -> Result<u64, FilesError>;

    /// Keeps room for the log to get as long as `len_bytes`, beyond [`Hints::expected_len_bytes`]; false if there
    /// is none. Only a log that competes for room with others ([`crate::TieredFiles`]) answers false, any other one
    /// always true, and may be refused an append all the same.
    fn reserve(&self, len_bytes: u64) -> bool {
        let _ = len_bytes;
        true
    }

    /// Whether it lies on the flash drive beside the drive.
    fn is_on_flash(&self) -> bool {
        false
    }

    /// Makes everything appended before the call durable.
    ///
    /// # Errors
    /// [`FilesError::Disk`]: the log is then poisoned: what is durable is unknown.
    fn sync(&self) -> Result<(), FilesError>;

    /// How many bytes were appended.
    fn len_bytes(&self) -> u64;

    /// Ends the log: gives back space it holds beyond its end (until then a log on a zoned drive
    /// keeps its zone for itself). Not a durability point.
    fn finish(&self) -> Result<(), FilesError>;
}

/// A file open for reading. The extents it reads stay allocated while it lives (F3), also when the
/// file is removed or moved meanwhile.
pub trait FileReader: Send + Sync + Debug {
    /// The file's length in bytes; for an unfinished log an upper bound.
    fn len_bytes(&self) -> u64;

    /// The file's name when it was opened, for messages.
    fn name(&self) -> &str;

    /// Reads `len_bytes` bytes from `offset`, into `scratch`, and returns the part asked for.
    ///
    /// `scratch` is resized as needed to whole blocks; keep it between calls to save allocations.
    /// Cost: one disk read per extent touched.
    ///
    /// # Errors
    /// [`FilesError::PastEnd`], [`FilesError::Disk`].
    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError>;

    /// Reads several ranges of the file, queued at once so that the disk can order them.
    ///
    /// # Errors
    /// As [`FileReader::read_at`].
    fn read_batch(&self, ranges: &[(u64, usize)]) -> Result<Vec<Vec<u8>>, FilesError> {
        ranges
            .iter()
            .map(|&(offset, len_bytes)| {
                let mut scratch = Vec::new();
                self.read_at(offset, len_bytes, &mut scratch).map(<[u8]>::to_vec)
            })
            .collect()
    }

    /// Where the file lies now, in order.
    fn extents(&self) -> Vec<BlockRange>;
}

/// Changes that become durable together (F1).
///
/// Applied in this order: removals, renames, links, additions, levels, then the application record.
#[derive(Debug, Default)]
pub struct Commit {
    /// Names to remove; the space comes back when the last name and the last reader are gone.
    pub remove: Vec<String>,
    /// `(from, to)`: an existing `to` is replaced.
    pub rename: Vec<(String, String)>,
    /// `(existing, new name)`: both name the same bytes afterwards.
    pub link: Vec<(String, String)>,
    /// Files to add, from [`Files::persist`].
    pub add: Vec<Box<dyn Persisted>>,
    /// `(name, level)`: the file moved to another level without being rewritten.
    pub level: Vec<(String, u8)>,
    /// The application's own record, opaque here.
    pub app: Option<AppRecord>,
    /// What it is for, and so how far it may fill the catalog.
    pub kind: CommitKind,
}

/// An opaque record that the application commits together with changes of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppRecord {
    /// One more, after those before it.
    Append(Vec<u8>),
    /// Stands for all before it, which are forgotten.
    Replace(Vec<u8>),
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The name.
    pub name: String,
    /// Length in bytes; an upper bound for a log that was not finished.
    pub len_bytes: u64,
    /// What it holds.
    pub kind: FileKind,
    /// Its level now.
    pub level: u8,
    /// Which compaction wrote it.
    pub group: Option<GroupId>,
    /// The drive that it lies on.
    pub tier: Tier,
    /// Where it lies on that drive, in order.
    pub extents: Vec<BlockRange>,
}

/// How the disk's space is used, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUse {
    /// All that files could ever use, without zones that take no writes any more.
    pub capacity_bytes: u64,
    /// Held by live files, in such zones too.
    pub live_bytes: u64,
    /// Dead, or lost to alignment, in zones and bands that are not free: cleaning or time brings it
    /// back.
    pub dead_bytes: u64,
    /// Can be written now. No more than the reserve when the catalog is nearly full.
    pub free_bytes: u64,
    /// The part of `free_bytes` kept for writes that are not [`CommitKind::Ordinary`].
    pub reserve_bytes: u64,
    /// What a new file takes at least, however short it is, where files share no zone; else 0.
    pub grain_bytes: u64,
    /// How full the catalog is: it may be full before the drive is.
    pub catalog: CatalogUse,
}

impl SpaceUse {
    /// Live bytes as a share of the space that is not free.
    pub fn utilisation_ratio(&self) -> f64 {
        let occupied = self.live_bytes + self.dead_bytes;
        if occupied == 0 { 1.0 } else { self.live_bytes as f64 / occupied as f64 }
    }
}

/// The piece of the disk that files share until all of it is free again: a zone, a set. Opaque.
///
/// Files of one unit become free together: removing some of them leaves dead space until the rest
/// is removed or moved. A unit keeps its number while a file lies in it; numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u64);

/// An append-only file namespace on one disk. Names are 1 to 1024 bytes of UTF-8 without NUL.
pub trait Files: Send + Sync + Debug {
    /// Places and writes finished files; the placement sees them all at once, so that it may lay
    /// them side by side. Readable after a commit; not durable before it.
    ///
    /// # Errors
    /// [`FilesError::NoSpace`] (after cleaning what can be cleaned), [`FilesError::Disk`].
    fn persist(&self, files: Vec<FileBuffer>) -> Result<Vec<Box<dyn Persisted>>, FilesError>;

    /// Opens a file that is persisted but not committed yet, for reading by its writer.
    fn open_persisted(&self, file: &dyn Persisted) -> Result<Arc<dyn FileReader>, FilesError>;

    /// Creates an empty log; durable on return.
    ///
    /// # Errors
    /// [`FilesError::Exists`], [`FilesError::NoSpace`], [`FilesError::Disk`].
    fn create_log(&self, name: &str, hints: Hints) -> Result<Arc<dyn LogWriter>, FilesError>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`FilesError::NotFound`].
    fn open(&self, name: &str) -> Result<Arc<dyn FileReader>, FilesError>;

    /// Applies `commit`, atomically and durably (F1, F2).
    ///
    /// # Errors
    /// [`FilesError::NotFound`], [`FilesError::Exists`], [`FilesError::BadName`],
    /// [`FilesError::NoSpace`] in the catalog: nothing changed.
    /// [`FilesError::Disk`]: whether it took effect is unknown and the namespace is poisoned.
    fn commit(&self, commit: Commit) -> Result<(), FilesError>;

    /// Makes durable what was written before the files were opened: the end of a log that was killed may be in a
    /// drive's cache still.
    ///
    /// # Errors
    /// [`FilesError::Disk`].
    fn sync(&self) -> Result<(), FilesError>;

    /// All files whose name starts with `prefix`, in order of name.
    fn list(&self, prefix: &str) -> Vec<FileInfo>;

    /// The application records since the last `Replace`, oldest first.
    fn app_records(&self) -> Vec<Vec<u8>>;

    /// How the space is used now.
    fn space(&self) -> SpaceUse;

    /// How many names the file has: more than one if it was linked, none if there is no such file.
    fn name_count(&self, name: &str) -> usize;

    /// Whether the file lies on the flash drive: when it is removed [`Files::space`], which is of the main
    /// drive, stays as it is.
    fn is_on_flash(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Whether a drive that is not there may hold files, also such as no list has.
    fn is_in_part(&self) -> bool {
        false
    }

    /// The unit in which the first byte of a file lies; `None` if there is no such file, if it is
    /// empty, or if the disk gives space back piece by piece.
    ///
    /// Asked of one name it costs a lookup; the answer changes when cleaning moves the file.
    fn unit_of(&self, name: &str) -> Option<UnitId> {
        let _ = name;
        None
    }

    /// How many files lie on the flash drive, which files on one drive do not have.
    fn flash_file_count(&self) -> usize {
        0
    }

    /// Tells this format of the drive from those before it: what they left is still on the platter.
    fn format_id(&self) -> u64;
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
