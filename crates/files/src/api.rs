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

use crate::error::FilesError;
use crate::file_buffer::FileBuffer;
use crate::hints::{FileKind, GroupId, Hints, Tier};
use crate::room::{CatalogUse, CommitKind};
use imbrex_disk::BlockRange;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

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
    /// is none. Only a log that competes for room with others ([`crate::tiers::TieredFiles`]) answers false, any other one
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
