//! Two drives under one namespace: a main drive, whose catalog decides, and a flash drive beside
//! it.
//!
//! ```text
//!      commit                main drive                         flash drive
//!   1  additions on flash ------------------------------------> "1f" +t      durable, unknown to main
//!   2  the commit itself ---> + "a" = 1f beside, - "w", app     the moment of truth
//!                              (gone: 1c)
//!   3  removals on flash --------------------------------------> - "1c w"    durable
//!                         ... (swept: 1c), with the next record
//!
//!   create_log (fast)      ... "w2" = 20 beside, with the       + "20 w2"    durable on return
//!                              next record
//! ```
//!
//! Each drive holds a file layer with a catalog of its own, and each catalog is atomic by itself.
//! All names belong to the main drive: its catalog records whether a file is on the flash drive
//! (*beside*). Links, renames and levels change the main drive only. The flash drive names a file
//! by its number, in hexadecimal; the name of a log also includes the name that it was created
//! with.
//!
//! A commit is therefore one record of one catalog, whichever drives hold its files. Either drive
//! may lose power first, at any write. The next opening of both drives resolves what a power cut
//! left:
//!
//! ```text
//!   a file on flash     main names it         it is there
//!                       main records it gone  it is removed: step 3 did not happen
//!                       main does not know it
//!                         a log               it is there: main had no record of it yet; but if another
//!                                             file has its name, main's next record makes it gone
//!                         any other           it is removed: its commit, step 2, never happened
//!   main names a file that flash lacks        the flash drive is older than main's record: refused
//! ```
//!
//! Invariants
//!   T1  A name is on exactly one drive, and main's catalog records which. A commit is durable when
//!       its record on main is; before that none of it is (F1).
//!   T2  Everything that main's catalog names on flash is durable there before main's record is
//!       (F2). Tables are durable with the commit that adds them. A log is durable with the commit
//!       that renames it; by then it should be finished, so that its end is durable too. A file is
//!       removed on flash only after it is durably nameless on main (F3).
//!   T3  A log created on flash is durable on return, though main records it only with its next
//!       record: an ordinary offloaded write waits for flash alone. The exception is a log whose
//!       name was freed by a commit that main has not made durable yet: it is created after that.
//!   T4  Each drive records the other's format id, and no two pairs may be formatted with the same
//!       id: a drive of another pair is refused. Flash counts its commits, main records how many it
//!       knows of, and flash records how many main durably knows of. If either drive is replaced by
//!       an older copy, it is refused.
//!   T5  Opening writes nothing; leftovers are removed with the first commit. Opening flushes both
//!       drives, so what each then records about the other is durable.
//!   T6  A log begun on flash finds room there up to its expected length. A log that would not fit
//!       beside the logs being written goes to main instead, and is counted. A log that outgrows
//!       its length asks first ([`LogWriter::reserve`]); if there is no room its writer ends it
//!       while it still fits.
//!   T7  A store opens without its flash drive only if the caller asks for that, and then nothing
//!       is written. Names on flash are listed but do not open. Logs that main has not recorded yet
//!       (T3) are not listed.
//!
//! There is one case that T4 cannot detect: a copy of the flash drive that was taken after the last
//! flash commit that main knows of. Logs then end at the copy, and logs that main has not recorded
//! are gone, as if later data had never been synced. A single drive does not detect this case in
//! itself either.
//!
//! Not here: the choice of files for the flash drive. The writer makes it ([`Tier`]); cleaning
//! moves nothing from one drive to the other.
//!
//! Source: write-offloading of Pitchumani's thesis, chapter 5.2; the order of commits is ours.

mod check;
mod flash;
mod format;
mod log;
mod open;
mod write;

pub use crate::error::FlashError;
pub use crate::formatting::FLASH_LAYOUT_NAME;

use crate::api::{
    Commit, FileInfo, FileReader, Files, LogWriter, Persisted, RegionPart, SpaceUse, UnitId, Work,
};
use crate::catalog::FileId;
use crate::error::FilesError;
use crate::file_buffer::FileBuffer;
use crate::hints::{Hints, Tier};
use crate::layer::FileLayer;
use flash::Flash;
use imbrex_disk::{BlockRange, Lba};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use write::{FlashFile, PairWriter};

/// Requirements on the flash drive of a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashOptions {
    /// The length that logs can reach: a flash drive without room for one such log is refused.
    pub log_len_bytes_max: u64,
}

/// An append-only file namespace on a main drive and a flash drive beside it; cheap to clone.
#[derive(Clone, Debug)]
pub struct TieredFiles {
    main: FileLayer,
    /// `None`: read-only access to the files on the main drive (T7).
    flash: Option<Arc<Flash>>,
}

/// Totals for the flash drive since the pair was opened, and its present content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// Logs begun on flash.
    pub logs: u64,
    /// Other files written to flash.
    pub tables: u64,
    /// Bytes of both kinds.
    pub written_bytes: u64,
    /// Files meant for flash that went to main, because flash had no room.
    pub fallbacks: u64,
    /// The length of those that were written whole; the final length of a log is not known.
    pub fallback_bytes: u64,
    /// Files on flash at present.
    pub file_count: u64,
    /// The present use of its space.
    pub space: SpaceUse,
}

impl TieredFiles {
    /// The main drive's files, for tools and for the cleaner. Make changes through the pair.
    pub fn main(&self) -> &FileLayer {
        &self.main
    }

    /// The flash drive's files, whose names are numbers; `None` without it.
    pub fn flash(&self) -> Option<&FileLayer> {
        self.flash.as_ref().map(|flash| &flash.files)
    }

    /// Totals for the flash drive; `None` without it.
    pub fn tier_stats(&self) -> Option<TierStats> {
        let flash = self.flash.as_ref()?;
        let counts = &flash.counts;
        Some(TierStats {
            logs: counts.logs.load(Ordering::Relaxed),
            tables: counts.tables.load(Ordering::Relaxed),
            written_bytes: counts.written_bytes.load(Ordering::Relaxed),
            fallbacks: counts.fallbacks.load(Ordering::Relaxed),
            fallback_bytes: counts.fallback_bytes.load(Ordering::Relaxed),
            file_count: flash.files.list("").len() as u64,
            space: flash.files.space(),
        })
    }

    /// Both drives, for a change; an error without the flash drive.
    fn writer(&self) -> Result<PairWriter<'_>, FilesError> {
        let flash = self.flash.as_ref().ok_or(FlashError::ReadOnly)?;
        Ok(PairWriter { main: &self.main, flash })
    }
}

impl Files for TieredFiles {
    fn persist(&self, files: Vec<FileBuffer>) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        self.writer()?.persist(files)
    }

    fn open_persisted(&self, file: &dyn Persisted) -> Result<Arc<dyn FileReader>, FilesError> {
        let any: &dyn Any = file;
        match (any.downcast_ref::<FlashFile>(), &self.flash) {
            (Some(file), Some(flash)) => flash.files.open_persisted(&*file.written),
            _ => self.main.open_persisted(file),
        }
    }

    fn create_log(&self, name: &str, hints: Hints) -> Result<Arc<dyn LogWriter>, FilesError> {
        let writer = self.writer()?;
        if hints.tier == Tier::Fast
            && let Some(log) = writer.create_on_flash(name, hints)?
        {
            return Ok(log);
        }
        self.main.create_log(name, hints)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn FileReader>, FilesError> {
        if let Some(flash) = &self.flash {
            let live = self.main.inner.committer.lock();
            let id = live.namespace.id_of(name).filter(|&id| live.namespace.is_beside(id));
            drop(live);
            // If the file was removed in between, flash no longer has it, and main reports that.
            if let Some(on_flash) = id.and_then(|id| flash.name_of(id)) {
                return flash.files.open_file(&on_flash, name);
            }
        }
        self.main.open(name)
    }

    fn commit(&self, commit: Commit) -> Result<(), FilesError> {
        self.writer()?.commit(commit)
    }

    fn sync(&self) -> Result<(), FilesError> {
        if let Some(flash) = &self.flash {
            flash.files.sync()?;
        }
        self.main.sync()
    }

    fn list(&self, prefix: &str) -> Vec<FileInfo> {
        let mut list = self.main.list(prefix);
        let Some(flash) = &self.flash else { return list };
        if list.iter().all(|info| info.tier == Tier::Main) {
            return list;
        }
        let on_flash: BTreeMap<FileId, (u64, Vec<BlockRange>)> = flash
            .files
            .list("")
            .into_iter()
            .filter_map(|info| {
                let (id, _) = format::parse_name(&info.name)?;
                Some((id, (info.len_bytes, info.extents)))
            })
            .collect();
        let live = self.main.inner.committer.lock();
        for info in list.iter_mut().filter(|info| info.tier == Tier::Fast) {
            let id = live.namespace.id_of(&info.name);
            if let Some((len_bytes, extents)) = id.and_then(|id| on_flash.get(&id)) {
                info.len_bytes = *len_bytes;
                info.extents.clone_from(extents);
            }
        }
        list
    }

    fn app_records(&self) -> Vec<Vec<u8>> {
        self.main.app_records()
    }

    fn work(&self) -> Work {
        let Some(flash) = &self.flash else { return self.main.work() };
        Work {
            flash_written_bytes: flash.files.disk().counters().written_bytes,
            flash_fallbacks: flash.counts.fallbacks.load(Ordering::Relaxed),
            ..self.main.work()
        }
    }

    fn reclaim(&self) -> Result<(), FilesError> {
        self.main.reclaim()
    }

    fn region_parts(&self, names: &[String]) -> Vec<Vec<RegionPart>> {
        self.main.region_parts(names)
    }

    fn space(&self) -> SpaceUse {
        self.main.space()
    }

    fn name_count(&self, name: &str) -> usize {
        self.main.name_count(name)
    }

    fn is_on_flash(&self, name: &str) -> bool {
        let live = self.main.inner.committer.lock();
        live.namespace.id_of(name).is_some_and(|id| live.namespace.is_beside(id))
    }

    fn is_in_part(&self) -> bool {
        self.flash.is_none()
    }

    fn unit_at(&self, at: Lba) -> Option<UnitId> {
        self.main.unit_at(at)
    }

    fn is_filling(&self, unit: UnitId) -> bool {
        self.main.is_filling(unit)
    }

    fn flash_file_count(&self) -> usize {
        let Some(flash) = &self.flash else { return 0 };
        flash.files.inner.committer.lock().namespace.list("").count()
    }

    fn flash_space(&self) -> Option<SpaceUse> {
        self.flash.as_ref().map(|flash| flash.files.space())
    }

    fn format_id(&self) -> u64 {
        self.main.format_id()
    }
}

#[cfg(test)]
mod tests;
