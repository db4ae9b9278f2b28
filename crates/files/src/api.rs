//! The contract of the file layer: the trait [`Files`] and its vocabulary.
//!
//! There are two kinds of file, by the way they grow:
//!
//! - a *table-like* file ([`FileBuffer`]) is buffered as a whole. [`Files::persist`] places it and
//!   writes it in one go. It exists only from the [`Files::commit`] that adds it: a crash before
//!   that commit leaves free space and nothing else;
//! - a *log* ([`Files::create_log`]) exists from its creation and grows by whole blocks. After a
//!   crash its length is an upper bound, and its content shows where it ends (`record-log`).
//!
//! Invariants
//!   F1  A commit is atomic and durable: after a power cut all of it is there, or none.
//!   F2  Everything that a durable commit names is durable itself: data are flushed before the
//!       catalog record.
//!   F3  An extent is reused only after the commit that removes its last name is durable and the
//!       last reader of the file is gone.

use crate::error::FilesError;
use crate::file_buffer::FileBuffer;
use crate::hints::{FileKind, GroupId, Hints, Tier};
use crate::planned_read::PlannedRead;
use crate::room::{CatalogUse, CommitKind};
use crate::stats::FilesStats;
use imbrex_disk::{Activity, BlockRange, Counters, Lba};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// A file that is written to the disk but that no commit names yet. Dropping it frees its space.
pub trait Persisted: Any + Send + Debug {
    /// The file's name.
    fn name(&self) -> &str;
    /// Its length.
    fn len_bytes(&self) -> u64;
    /// Its extents on the disk, in order.
    fn extents(&self) -> Vec<BlockRange>;
    /// Lets the implementation of [`Files::commit`] recover its own type.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// A log being written.
///
/// Each log has one writer. `append` and `sync` take `&self`, so that one thread may sync while
/// another appends.
pub trait LogWriter: Send + Sync + Debug {
    /// Appends `data`, a positive multiple of `BLOCK_LEN_BYTES`, and returns the offset in the log
    /// of its first byte. Readable on return; durable after [`LogWriter::sync`].
    ///
    /// # Errors
    /// [`FilesError::NoSpace`]: nothing was appended; the log can continue once there is room.
    /// [`FilesError::Finished`].
    /// [`FilesError::Disk`], [`FilesError::NoTurn`]: the log is then poisoned.
    fn append(&self, data: &[u8]) -> Result<u64, FilesError>;

    /// Keeps room for the log to grow to `len_bytes`. Returns false if there is none. After `true`,
    /// an append within that length never finds the drive full.
    ///
    /// Cost: nothing while the log owns the room. Otherwise a record of the catalog.
    fn reserve(&self, len_bytes: u64) -> bool {
        let _ = len_bytes;
        true
    }

    /// Whether the log is on the flash drive of a pair.
    fn is_on_flash(&self) -> bool {
        false
    }

    /// Makes everything appended before the call durable.
    ///
    /// # Errors
    /// [`FilesError::Disk`]: the log is then poisoned, because it is unknown what is durable.
    fn sync(&self) -> Result<(), FilesError>;

    /// How many bytes were appended.
    fn len_bytes(&self) -> u64;

    /// Ends the log and gives back the space beyond its end. Until then a log on a zoned drive
    /// keeps its zone for itself. This call is not a durability point.
    fn finish(&self) -> Result<(), FilesError>;
}

/// A file open for reading. Its extents stay allocated while it lives (F3), even if the file is
/// removed or moved meanwhile.
pub trait FileReader: Send + Sync + Debug {
    /// The file's length in bytes; an upper bound for an unfinished log.
    fn len_bytes(&self) -> u64;

    /// The file's name when it was opened, for messages.
    fn name(&self) -> &str;

    /// Reads `len_bytes` bytes at `offset` into `scratch`, and returns the requested part of it.
    ///
    /// `scratch` grows to whole blocks as needed. Keep it between calls to save allocations. Cost:
    /// one disk read for each extent touched.
    ///
    /// # Errors
    /// [`FilesError::PastEnd`], [`FilesError::Disk`].
    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError>;

    /// Reads several ranges of the file. They are queued together, so that the disk can order them.
    ///
    /// # Errors
    /// As for [`FileReader::read_at`].
    fn read_batch(&self, ranges: &[(u64, usize)]) -> Result<Vec<Vec<u8>>, FilesError> {
        ranges
            .iter()
            .map(|&(offset, len_bytes)| {
                let mut scratch = Vec::new();
                self.read_at(offset, len_bytes, &mut scratch).map(<[u8]>::to_vec)
            })
            .collect()
    }

    /// Where the disk has this range, for [`read_together`](crate::read_together). `None` if the
    /// file can only be read by itself. The blocks stay allocated while the plan lives.
    ///
    /// # Errors
    /// [`FilesError::PastEnd`].
    fn plan_read(&self, offset: u64, len_bytes: usize) -> Result<Option<PlannedRead>, FilesError> {
        let _ = (offset, len_bytes);
        Ok(None)
    }

    /// The same file, for reads that serve `activity`; those of the file itself count as
    /// [`Activity::Other`]. `None` if its reads are not counted. Costs an allocation.
    fn for_activity(&self, activity: Activity) -> Option<Arc<dyn FileReader>> {
        let _ = activity;
        None
    }

    /// The file's current extents, in order.
    fn extents(&self) -> Vec<BlockRange>;

    /// Whether its blocks are in a run that comes back as a whole, with those of other files.
    fn is_in_set(&self) -> bool {
        false
    }
}

/// Checks that `file` has `len_bytes` bytes at `offset`.
///
/// # Errors
/// [`FilesError::PastEnd`].
pub(crate) fn check_range(
    file: &dyn FileReader,
    offset: u64,
    len_bytes: usize,
) -> Result<(), FilesError> {
    let file_len_bytes = file.len_bytes();
    match offset.checked_add(len_bytes as u64) {
        Some(end) if end <= file_len_bytes => Ok(()),
        _ => {
            let name = file.name().to_owned();
            Err(FilesError::PastEnd { name, offset, len_bytes, file_len_bytes })
        }
    }
}

/// Changes that become durable together (F1).
///
/// Applied in this order: removals, renames, links, additions, levels, then the application record.
#[derive(Debug, Default)]
pub struct Commit {
    /// Names to remove. The space comes back when the last name and the last reader are gone.
    pub remove: Vec<String>,
    /// `(from, to)`: an existing `to` is replaced.
    pub rename: Vec<(String, String)>,
    /// `(existing, new name)`: both name the same bytes afterwards.
    pub link: Vec<(String, String)>,
    /// Files to add, from [`Files::persist`].
    pub add: Vec<Box<dyn Persisted>>,
    /// `(name, level)`: the file moves to another level without being rewritten.
    pub level: Vec<(String, u8)>,
    /// The application's own record, opaque to this layer.
    pub app: Option<AppRecord>,
    /// The purpose of the commit, which decides how far it may fill the catalog.
    pub kind: CommitKind,
}

/// An opaque record that the application commits together with changes of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppRecord {
    /// Adds a record after the earlier ones.
    Append(Vec<u8>),
    /// Replaces all earlier records.
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
    /// Its current level.
    pub level: u8,
    /// The compaction that wrote it.
    pub group: Option<GroupId>,
    /// The drive that holds it.
    pub tier: Tier,
    /// Its extents on that drive, in order.
    pub extents: Vec<BlockRange>,
}

/// How the disk's space is used, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUse {
    /// Everything that files could ever use, without zones that take no more writes.
    pub capacity_bytes: u64,
    /// Held by live files, including those in zones that take no more writes.
    pub live_bytes: u64,
    /// Dead or lost to alignment, in zones and bands that are not free. Cleaning or time brings it
    /// back.
    pub dead_bytes: u64,
    /// Can be written now. At most the reserve when the catalog is nearly full.
    pub free_bytes: u64,
    /// The part of `free_bytes` kept for writes that are not [`CommitKind::Ordinary`].
    pub reserve_bytes: u64,
    /// What ordinary writes may still take, including what cleaning would bring back: free and dead
    /// bytes together without the reserve. The catalog does not count.
    pub ordinary_bytes: u64,
    /// The same for all other writes, which leave only what cleaning itself needs.
    pub upkeep_bytes: u64,
    /// What such writes take in the last resort, if nothing is worth cleaning: that, and what cleaning needs
    /// where files share runs. Else the same as `upkeep_bytes`.
    pub lent_bytes: u64,
    /// The least that a new file takes, however short it is, where files share no zone; otherwise
    /// 0.
    pub grain_bytes: u64,
    /// The length of the tables that the placement is made for, where shorter ones waste space;
    /// otherwise 0.
    pub unit_bytes: u64,
    /// How full the catalog is: it may fill up before the drive does.
    pub catalog: CatalogUse,
}

impl SpaceUse {
    /// Live bytes as a share of the space that is not free.
    pub fn utilisation_ratio(&self) -> f64 {
        let occupied = self.live_bytes + self.dead_bytes;
        if occupied == 0 { 1.0 } else { self.live_bytes as f64 / occupied as f64 }
    }
}

/// A part of a file in a region of the drive, such as a zone: its space comes back only when nothing in it is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionPart {
    /// The number of the region.
    pub region: u64,
    /// How many bytes of it the file takes.
    pub own_bytes: u64,
    /// How many bytes of it all files take.
    pub live_bytes: u64,
    /// How many bytes of it are dead.
    pub dead_bytes: u64,
}

/// What a file layer and its drive have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The file layer.
    pub files: FilesStats,
    /// The drive, with the translation layer over it, if there is one.
    pub drive: Counters,
    /// Bytes written to the flash drive of a pair, with its catalog.
    pub flash_written_bytes: u64,
    /// Files meant for the flash drive that went to the main drive, because flash had no room.
    pub flash_fallbacks: u64,
}

/// A piece of the disk that becomes free as a whole: a zone, or a set. Opaque.
///
/// The files in one unit free it together: removing some of them leaves dead space until the rest
/// is removed or moved. A unit keeps its number while a file is in it; later the number may be
/// reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u64);

/// An append-only file namespace on one disk. Names are 1 to 1024 bytes of UTF-8 without NUL.
pub trait Files: Send + Sync + Debug {
    /// Places and writes finished files. The placement sees them all at once, so it may lay them
    /// side by side. The files can be read after a commit; they are not durable before it.
    ///
    /// # Errors
    /// [`FilesError::NoSpace`] (after cleaning whatever can be cleaned), [`FilesError::Disk`].
    fn persist(&self, files: Vec<FileBuffer>) -> Result<Vec<Box<dyn Persisted>>, FilesError>;

    /// Opens a file that is persisted but not committed yet, so that its writer can read it.
    fn open_persisted(&self, file: &dyn Persisted) -> Result<Arc<dyn FileReader>, FilesError>;

    /// Creates an empty log, which is durable on return.
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
    /// [`FilesError::Disk`]: it is unknown whether the commit took effect, and the namespace is
    /// poisoned.
    fn commit(&self, commit: Commit) -> Result<(), FilesError>;

    /// Makes durable everything that was written before the files were opened. The end of a log
    /// whose process was killed may still be in a drive's cache.
    ///
    /// # Errors
    /// [`FilesError::Disk`].
    fn sync(&self) -> Result<(), FilesError>;

    /// All files whose name starts with `prefix`, in order of name.
    fn list(&self, prefix: &str) -> Vec<FileInfo>;

    /// The application records since the last `Replace`, oldest first.
    fn app_records(&self) -> Vec<Vec<u8>>;

    /// Makes space writable that nothing holds any more. Each change does so first; this call is for
    /// space that should come back without one.
    ///
    /// # Errors
    /// [`FilesError::Disk`], [`FilesError::Poisoned`].
    fn reclaim(&self) -> Result<(), FilesError> {
        Ok(())
    }

    /// How the space is used at present.
    fn space(&self) -> SpaceUse;

    /// In which regions each of the named files lies. Where every file gives back its own space, and for a name that
    /// is not there, the list is empty.
    fn region_parts(&self, names: &[String]) -> Vec<Vec<RegionPart>> {
        vec![Vec::new(); names.len()]
    }

    /// How many names the file has: more than one if it was linked, 0 if there is no such file.
    fn name_count(&self, name: &str) -> usize;

    /// Whether the file is on the flash drive. Removing such a file does not change
    /// [`Files::space`], which reports the main drive.
    fn is_on_flash(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Whether a drive is missing that may hold files, including files that no list shows.
    fn is_in_part(&self) -> bool {
        false
    }

    /// The unit that holds a block of a file on the main drive. `None` if the disk frees space extent
    /// by extent.
    ///
    /// Cost: the lock on the space map, not the one that commits hold.
    fn unit_at(&self, at: Lba) -> Option<UnitId> {
        let _ = at;
        None
    }

    /// Whether further files may begin in `unit` before it is empty.
    fn is_filling(&self, unit: UnitId) -> bool {
        let _ = unit;
        false
    }

    /// How many files are on the flash drive; 0 without one.
    fn flash_file_count(&self) -> usize {
        0
    }

    /// What was done since the files were opened; on a pair, by the files and on the main drive. Nothing
    /// for files that count nothing.
    fn work(&self) -> Work {
        Work::default()
    }

    /// How the flash drive's space is used; `None` without one.
    fn flash_space(&self) -> Option<SpaceUse> {
        None
    }

    /// Distinguishes this format of the drive from earlier ones, whose data are still on the
    /// platter.
    fn format_id(&self) -> u64;
}
