//! Two drives under one namespace: a main drive, whose catalog decides, and a flash drive beside it.
//!
//! ```text
//!      commit                main drive                         flash drive
//!   1  additions on flash ------------------------------------> "1f" +t      durable, unknown yet
//!   2  the commit itself ---> + "a" = 1f beside, - "w", app     the moment of truth
//!                              (gone: 1c)
//!   3  what nobody names --------------------------------------> - "1c w"    durable
//!                         ... (swept: 1c), with the next record
//!
//!   create_log (fast)      ... "w2" = 20 beside, with the       + "20 w2"    durable on return
//!                              next record
//! ```
//!
//! Both drives hold a file layer with a catalog of its own, each atomic for itself. All names are the
//! main drive's: its catalog says of a file whether it lies beside, and links, renames and levels
//! change nothing else. The flash drive knows a file by its number, in hexadecimal, and a log by the
//! name that it was created with besides.
//!
//! So a commit is one record of one catalog, whichever drives its files lie on, and either drive may
//! lose its power first, at any write. What a power cut leaves over is told apart when both are
//! opened again:
//!
//! ```text
//!   a file on flash     main names it         it is there
//!                       main says it is gone  it is removed: step 3 did not come to pass
//!                       main does not know
//!                         a log               it is there: main had not heard of it; but if its name is
//!                                             another file's, it is gone from main's next record on
//!                         any other           it is removed: its commit, step 2, never was
//!   main names a file that flash lacks        the flash drive is older than main says: refused
//! ```
//!
//! Invariants
//!   T1  A name lies on exactly one drive, and main's catalog says on which. A commit is durable when
//!       its record on main is; before that none of it is (F1).
//!   T2  What main's catalog names on flash is durable there before main's record is (F2): tables with
//!       the commit that adds them, a log with the one that gives it another name, by which time it
//!       should be finished, so that its end is durable too. What is removed on flash is nameless on
//!       main durably before (F3).
//!   T3  A log created on flash is durable on return, though main hears of it with its next record
//!       only: an ordinary write that is offloaded waits for flash alone. But for a log whose name a commit
//!       has freed that is still on its way to main: it is created when that is durable.
//!   T4  Each drive records the other's format id, which who formats a pair gives to no other: another
//!       drive is refused. Flash counts its commits, main says how many it knows of, and flash says how
//!       many main knows of durably: of the two a drive that was set back to an older copy is refused.
//!   T5  Opening writes nothing; what it found left over is removed with the first commit. It flushes
//!       both drives: what each then hears of the other is durable.
//!   T6  A log begun on flash finds room there up to its expected length: what would not fit beside
//!       the logs being written goes to main instead, and is counted. A log that gets longer asks first
//!       ([`LogWriter::reserve`]): told that there is no room, its writer ends it while it still fits.
//!   T7  Without its flash drive a store opens only if asked to, and nothing is written then; names
//!       that lie on flash are listed and do not open. Logs that main has not heard of (T3) are not listed.
//!
//! What T4 cannot see is a copy of the flash drive taken after the last of its commits that main knows of: logs end
//! there, and those that main has not heard of are gone, as if what followed had never been synced. No drive notices
//! that of itself either.
//!
//! Not here: when a file should lie on flash. The writer says so ([`Tier`]); cleaning moves nothing
//! from one drive to the other.
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

use crate::api::{Commit, FileInfo, FileReader, Files, LogWriter, Persisted, SpaceUse, UnitId};
use crate::catalog::FileId;
use crate::error::FilesError;
use crate::file_buffer::FileBuffer;
use crate::hints::{Hints, Tier};
use crate::layer::FileLayer;
use flash::Flash;
use imbrex_disk::BlockRange;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use write::{FlashFile, PairWriter};

/// What the flash drive of a pair must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashOptions {
    /// How long logs get: a flash drive that has no room for one such is refused.
    pub log_len_bytes_max: u64,
}

/// An append-only file namespace on a main drive and a flash drive beside it; cheap to clone.
#[derive(Clone, Debug)]
pub struct TieredFiles {
    main: FileLayer,
    /// `None`: read-only, for what is on main (T7).
    flash: Option<Arc<Flash>>,
}

/// What went to the flash drive since the pair was opened, and what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// Logs begun on flash.
    pub logs: u64,
    /// Other files written to flash.
    pub tables: u64,
    /// Bytes of both.
    pub written_bytes: u64,
    /// Files that were to lie on flash and lie on main, because flash had no room.
    pub fallbacks: u64,
    /// How long those are that were written whole; how long a log gets is not known.
    pub fallback_bytes: u64,
    /// Files on flash now.
    pub file_count: u64,
    /// How its space is used now.
    pub space: SpaceUse,
}

impl TieredFiles {
    /// The main drive's files, for tools and for the cleaner; changes go through the pair.
    pub fn main(&self) -> &FileLayer {
        &self.main
    }

    /// The flash drive's files, which are numbers; `None` without it.
    pub fn flash(&self) -> Option<&FileLayer> {
        self.flash.as_ref().map(|flash| &flash.files)
    }

    /// What went to flash; `None` without it.
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

    /// Both drives, for a change.
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
            // Removed in between, flash does not have it any more, and main says so.
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

    fn unit_of(&self, name: &str) -> Option<UnitId> {
        self.main.unit_of(name)
    }

    fn flash_file_count(&self) -> usize {
        let Some(flash) = &self.flash else { return 0 };
        flash.files.inner.committer.lock().namespace.list("").count()
    }

    fn format_id(&self) -> u64 {
        self.main.format_id()
    }
}

#[cfg(test)]
mod tests;
