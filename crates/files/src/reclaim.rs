//! Makes dead space writable: resets and finishes zones, discards free runs.

use crate::commit::Committer;
use crate::error::FilesError;
use crate::space::Space;
use crate::stats::Counts;
use imbrex_disk::{
    Activity, BlockRange, Disk, DiskError, Handles, Rule, ZoneAction, ZoneId, ZoneKind, ZoneState,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// Makes the dead space of one disk writable.
#[derive(Debug)]
pub(crate) struct Reclaimer {
    /// The disk, for what makes dead space writable.
    disk: Arc<dyn Disk>,
    /// The disk, for syncs that a caller asks for.
    synced: Arc<dyn Disk>,
    space: Arc<Space>,
    committer: Arc<Committer>,
    counts: Arc<Counts>,
    /// Locked while dead space is made writable. Until then it cannot be used, and a writer that
    /// looked at the map meanwhile would find no room.
    reclaiming: Mutex<Reclaiming>,
}

/// What the reclaimer remembers between calls.
#[derive(Debug, Default)]
struct Reclaiming {
    /// Whether everything that opening found is durable: it was flushed since, or this process
    /// wrote it.
    found_is_durable: bool,
}

impl Reclaimer {
    pub(crate) fn new(
        disks: &Handles,
        space: Arc<Space>,
        committer: Arc<Committer>,
        counts: Arc<Counts>,
    ) -> Reclaimer {
        let disk_for = |activity| Arc::clone(disks.of(activity));
        let (disk, synced) = (disk_for(Activity::Cleaning), disk_for(Activity::Other));
        Reclaimer { disk, synced, space, committer, counts, reclaiming: Mutex::default() }
    }

    /// Resets zones that nothing holds, and discards runs that were given back, so that they can be
    /// written. Keeps within the drive's limit on active zones. A zone that cannot be reset is
    /// retired.
    ///
    /// This runs before anything is written, and flushes first. A run that opening found free may
    /// owe that to a commit that a killed process left in the drive's cache. A power cut could lose
    /// that commit alone, and the catalog would name the old data again.
    pub(crate) fn reclaim(&self) -> Result<(), FilesError> {
        self.committer.lock().check()?;
        let mut reclaiming = self.reclaiming.lock();
        if !reclaiming.found_is_durable {
            self.flush_found()?;
            reclaiming.found_is_durable = true;
        }
        while let Some((zone, kind, range)) = self.space.with(|map| map.begin_reset()) {
            let result = match kind {
                ZoneKind::SequentialRequired => self.disk.manage_zone(zone, ZoneAction::Reset),
                ZoneKind::Conventional => self.disk.discard(range),
            };
            match result {
                Ok(()) => {
                    self.space.with(|map| map.was_reset(zone));
                    self.counts.reset_zone();
                }
                Err(source) => self.give_up(zone, "resetting", source)?,
            }
        }
        self.finish_zones()?;
        let runs = self.space.with(|map| map.begin_discard());
        let failed = runs.iter().enumerate().find_map(|(done_count, &run)| {
            self.discard(run).err().map(|source| (done_count, source))
        });
        let done_count = failed.as_ref().map_or(runs.len(), |(done_count, _)| *done_count);
        let (done, left) = runs.split_at(done_count);
        self.space.with(|map| {
            map.was_discarded(done);
            map.was_not_discarded(left);
        });
        failed.map_or(Ok(()), |(_, source)| {
            Err(FilesError::Disk { what: "discarding free blocks".into(), source })
        })
    }

    /// Discards a run. Where writes go anywhere a discard is a hint, which a drive may refuse.
    fn discard(&self, run: BlockRange) -> Result<(), DiskError> {
        let is_hint = *self.disk.geometry().rule() == Rule::Anywhere;
        match self.disk.discard(run) {
            Err(error @ (DiskError::PowerLost | DiskError::Poisoned)) => Err(error),
            Err(_) if is_hint => Ok(()),
            discarded => discarded,
        }
    }

    /// Records that everything that opening found is durable, because this process has just written
    /// it.
    pub(crate) fn trust_found(&self) {
        self.reclaiming.lock().found_is_durable = true;
    }

    /// Flushes what opening found. If that fails nothing more is written: a second flush would not
    /// show what the first one lost.
    fn flush_found(&self) -> Result<(), FilesError> {
        let flushed = self.disk.flush();
        flushed.map_err(|source| {
            let error =
                FilesError::Disk { what: "making durable what was found".to_owned(), source };
            self.committer.lock().poison(&error);
            error
        })
    }

    /// Finishes zones to keep within the drive's limit on active zones.
    pub(crate) fn finish_zones(&self) -> Result<(), FilesError> {
        while let Some(zone) = self.space.with(|map| map.begin_finish()) {
            let ended = match self.disk.manage_zone(zone, ZoneAction::Finish) {
                Ok(()) => {
                    self.space.with(|map| map.was_finished(zone));
                    Ok(())
                }
                Err(source) => self.give_up(zone, "finishing", source),
            };
            self.space.wake();
            ended?;
        }
        Ok(())
    }

    /// Begins the zone of `range`, as soon as the limit on active zones permits.
    pub(crate) fn begin_zone(&self, range: BlockRange) {
        while !self.space.begin_zone(range) {
            // If it fails, the write that follows meets the same error.
            let _ = self.finish_zones();
        }
    }

    /// Retires a zone on which the drive failed. Its data may still be readable.
    ///
    /// # Errors
    /// The drive takes no more writes at all.
    fn give_up(&self, zone: ZoneId, doing: &str, source: DiskError) -> Result<(), FilesError> {
        let state = self.disk.zone(zone).map(|info| info.state);
        let is_active = !matches!(state, Some(ZoneState::ReadOnly | ZoneState::Offline));
        self.space.with(|map| map.give_up(zone, is_active));
        match source {
            DiskError::PowerLost | DiskError::Poisoned => {
                Err(FilesError::Disk { what: format!("{doing} {zone}"), source })
            }
            _ => Ok(()),
        }
    }

    /// Flushes the disk, including what opening found.
    pub(crate) fn sync(&self) -> Result<(), FilesError> {
        let mut reclaiming = self.reclaiming.lock();
        let what = "syncing the drive".to_owned();
        self.synced.flush().map_err(|source| FilesError::Disk { what, source })?;
        reclaiming.found_is_durable = true;
        Ok(())
    }
}
