//! Rewriting tracks: writes a bottom track of an interlaced disk without losing the data on top.
//!
//! ```text
//!   top       1 live     3 live                 1 lost     3 lost       1 live     3 live
//!   bottom          2                               2 new                     2 new
//!   backup    -                                 1, 3                    forgotten
//!             --- back up, sync ---> write 2, sync ---> move back, sync --->
//! ```
//!
//! *Naive*: the tracks of a table in order. Each bottom track with live data above is backed up,
//! written and moved back by itself, with three syncs each, and one more where a neighbour is not
//! synced yet. *Merged*: all such bottom tracks of a table together, then the other bottom tracks,
//! then the top ones. That takes at most five syncs for each table, of which the last is that of
//! its commit, and no top track moves twice.
//!
//! The data to move away were chosen under the lock under which the tracks were planned
//! (`space::unzoned`); nothing is chosen here. Meanwhile readers of the moved files read the backup
//! (`detour`), and writers of tables wait, because there is one backup region, and one head.
//!
//! Invariants
//!   W1  A bottom track is written only after all live data above it are in the backup and synced,
//!       or if there are none. The tracks on top are discarded first, so that the drive has nothing
//!       to lose.
//!   W2  The backup counts from its sync until it is retired. It is retired after the sync of the
//!       move back, and before the moved blocks may be given back (U4). A table that goes there
//!       later is committed with a flush, which makes the retirement durable first. A backup found
//!       at opening therefore holds the last content of those blocks, or content that no file owns.
//!       This is true of each entry by itself: a damaged entry affects no other.
//!   W3  A rewrite that fails is undone: the backup is moved back. If that fails too, readers stay
//!       with the backup, and no table is written until the disk is opened again.
//!   W4  Live data on top that cannot be read stay where they are, and nothing is written below
//!       them (I3 of `space::tracks`). A rewrite that meets them has destroyed nothing yet, and its
//!       table goes elsewhere.
//!
//! Source: KVIMR, section 3.3, algorithms 1 and 2. Ours are the readers' detour, the checksums that
//! decide at opening, and that dead data are not backed up.

mod backup;
pub(crate) mod detour;
mod format;

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod tests;

pub(crate) use backup::{BackupFlaw, files_start};
pub(crate) use detour::Source;

use crate::catalog::Namespace;
use crate::error::FilesError;
use crate::extent::Extent;
use crate::file_buffer::FileBuffer;
use crate::placement::Rewriting;
use crate::region::Region;
use crate::spare_chunks;
use crate::stats::Counts;
use backup::{Backup, Recovered, Saved};
use detour::Detours;
use imbrex_disk::{
    Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Handles, Lba,
    Persist, TrackId,
};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes tables to the tracks of an interlaced disk.
#[derive(Debug)]
pub(crate) struct Rewriter {
    /// The disk, for everything but the tables themselves.
    disk: Arc<dyn Disk>,
    disks: Handles,
    backup: Mutex<Backup>,
    detours: Arc<Detours>,
    turn: Mutex<()>,
    /// Whether something could not be moved back, now or at opening (W3).
    failed: AtomicBool,
    how: Rewriting,
    files_start: Lba,
}

/// A table and its extents.
pub(crate) struct TrackFile<'a> {
    pub(crate) extents: &'a [Extent],
    /// For each extent, the live ranges above it when it was planned.
    pub(crate) above: &'a [Vec<BlockRange>],
    pub(crate) content: &'a Content,
    /// What it serves.
    pub(crate) activity: Activity,
}

/// Why a table was not written.
#[derive(Debug)]
pub(crate) enum TrackWriteError {
    /// Block `at` above the target lives and cannot be read (W4).
    Below { at: Lba, source: DiskError },
    /// The disk failed.
    Disk(DiskError),
}

impl From<DiskError> for TrackWriteError {
    fn from(source: DiskError) -> TrackWriteError {
        TrackWriteError::Disk(source)
    }
}

impl TrackWriteError {
    /// Classifies an error that occurred while data on top were read and backed up.
    fn saving(source: DiskError) -> TrackWriteError {
        let at = match &source {
            DiskError::Medium { at } => *at,
            DiskError::Destroyed { range, .. } => range.start,
            _ => return TrackWriteError::Disk(source),
        };
        TrackWriteError::Below { at, source }
    }
}

impl Rewriter {
    /// A rewriter for a disk whose catalog lies in `regions`; `None` where no track lies on
    /// another.
    ///
    /// # Errors
    /// Why there is no room for a backup region.
    pub(crate) fn new(
        disk: &Arc<dyn Disk>,
        regions: &[Region; 2],
        unit_len: Blocks,
        format_id: u64,
        how: Rewriting,
    ) -> Result<Option<Rewriter>, String> {
        if disk.geometry().interlaced().is_none() {
            return Ok(None);
        }
        let disks = Handles::new(disk);
        let backup = Backup::new(disk.geometry(), regions, unit_len, format_id)?;
        Ok(Some(Rewriter {
            disk: Arc::clone(disks.of(Activity::Cleaning)),
            disks,
            files_start: files_start(disk.geometry(), regions, unit_len)?,
            detours: Detours::new(backup.region().clone()),
            backup: Mutex::new(backup),
            turn: Mutex::new(()),
            failed: AtomicBool::new(false),
            how,
        }))
    }

    /// Whether something could not be moved back (W3).
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Waits until no other table is being written.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    pub(crate) fn detours(&self) -> &Arc<Detours> {
        &self.detours
    }

    /// The first block that files may use.
    pub(crate) fn files_start(&self) -> Lba {
        self.files_start
    }

    /// Completes a rewrite that a power cut interrupted. Returns the damage in its backup, if any;
    /// nothing may be written after that.
    ///
    /// # Errors
    /// [`FilesError::Corrupt`], [`FilesError::Version`], [`FilesError::Disk`].
    pub(crate) fn recover(&self, namespace: &Namespace) -> Result<Option<BackupFlaw>, FilesError> {
        let mut backup = self.backup.lock();
        let Recovered { flaw, read_here } =
            backup.recover(&*self.disk, self.files_start, namespace)?;
        self.detours.open(&read_here);
        self.failed.store(flaw.is_some(), Ordering::Release);
        Ok(flaw)
    }

    /// Writes `file`. `written` holds the ranges of this batch in top tracks so far, and gets those
    /// of the file.
    ///
    /// Everything but the last sync is done on return: the commit's flush is the last one.
    pub(crate) fn write(
        &self,
        file: &TrackFile<'_>,
        written: &mut BatchProgress,
        counts: &Counts,
    ) -> Result<(), TrackWriteError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(DiskError::Poisoned.into());
        }
        match self.how {
            Rewriting::Naive => self.write_in_order(file, written, counts),
            Rewriting::Merged => self.write_merged(file, written, counts),
        }
    }

    /// Track by track, in order (KVIMR's algorithm 1).
    fn write_in_order(
        &self,
        file: &TrackFile<'_>,
        written: &mut BatchProgress,
        counts: &Counts,
    ) -> Result<(), TrackWriteError> {
        for index in 0..file.extents.len() {
            let track = self.track(file, index);
            if written.is_unsynced_near(track) {
                self.sync(written, counts)?;
            }
            let live = written.live(file, index, self.disk.geometry());
            if live.is_empty() {
                self.write_extent(file, index)?;
                written.note(file.extents[index].range(), track);
            } else {
                self.rewrite(file, &[index], live, counts)?;
                written.is_synced();
            }
        }
        Ok(())
    }

    /// All tracks that need a rewrite together, then the other bottom tracks, then the top ones
    /// (algorithm 2).
    fn write_merged(
        &self,
        file: &TrackFile<'_>,
        written: &mut BatchProgress,
        counts: &Counts,
    ) -> Result<(), TrackWriteError> {
        let (tops, bottoms): (Vec<usize>, Vec<usize>) =
            (0..file.extents.len()).partition(|&index| self.track(file, index).is_top());
        let mut quiet = Vec::new();
        let mut batch: Vec<usize> = Vec::new();
        let mut batch_live: Vec<BlockRange> = Vec::new();
        for index in bottoms {
            let live = written.live(file, index, self.disk.geometry());
            if live.is_empty() {
                quiet.push(index);
                continue;
            }
            let joined = join(batch_live.iter().copied().chain(live.iter().copied()));
            if !batch.is_empty() && !self.backup.lock().holds(&joined) {
                self.rewrite(file, &batch, std::mem::take(&mut batch_live), counts)?;
                batch.clear();
                batch_live = join(live.into_iter());
            } else {
                batch_live = joined;
            }
            batch.push(index);
        }
        if !batch.is_empty() {
            self.rewrite(file, &batch, batch_live, counts)?;
            written.is_synced();
        }
        for &index in &quiet {
            self.write_extent(file, index)?;
            written.note(file.extents[index].range(), self.track(file, index));
        }
        if tops.iter().any(|&index| written.is_unsynced_near(self.track(file, index))) {
            self.sync(written, counts)?;
        }
        for &index in &tops {
            self.write_extent(file, index)?;
            written.note(file.extents[index].range(), self.track(file, index));
        }
        Ok(())
    }

    /// Backs up `live`, writes the bottom tracks of `indices`, and moves `live` back (W1).
    fn rewrite(
        &self,
        file: &TrackFile<'_>,
        indices: &[usize],
        live: Vec<BlockRange>,
        counts: &Counts,
    ) -> Result<(), TrackWriteError> {
        let mut backup = self.backup.lock();
        let saved = self.save(&mut backup, &live, counts).or_else(|error| {
            // The backup may be complete all the same, and would be moved back over later data
            // (W2).
            self.retire(&backup)?;
            Err(error)
        })?;
        self.detours.open(&saved);
        let written = indices
            .iter()
            .try_for_each(|&index| self.write_extent(file, index))
            .and_then(|()| self.flush(counts));
        // Whether the writes succeeded or not (W3).
        let moved = backup.put_back(&*self.disk, &saved).and_then(|()| self.flush(counts));
        if let Err(error) = moved {
            self.failed.store(true, Ordering::Release);
            return Err(error.into());
        }
        self.detours.close();
        let tracks: BTreeSet<Option<TrackId>> =
            live.iter().map(|range| self.disk.geometry().track_of(range.start)).collect();
        counts.rewrote(tracks.len() as u64, live.iter().map(|range| range.len.bytes()).sum());
        self.retire(&backup)?;
        Ok(written?)
    }

    fn save(
        &self,
        backup: &mut Backup,
        live: &[BlockRange],
        counts: &Counts,
    ) -> Result<Vec<Saved>, TrackWriteError> {
        let saved = backup.save(&*self.disk, live).map_err(TrackWriteError::saving)?;
        self.flush(counts)?;
        Ok(saved)
    }

    fn retire(&self, backup: &Backup) -> Result<(), DiskError> {
        backup.retire(&*self.disk).inspect_err(|_| self.failed.store(true, Ordering::Release))
    }

    fn write_extent(&self, file: &TrackFile<'_>, index: usize) -> Result<(), DiskError> {
        let extent = &file.extents[index];
        for top in self.disk.geometry().tracks_above(self.track(file, index)) {
            if !top.len.is_zero() {
                self.disk.discard(top)?;
            }
        }
        let before: u64 = file.extents[..index].iter().map(|e| e.blocks().get()).sum();
        file.content.write(&**self.disks.of(file.activity), extent.range(), Blocks::new(before))
    }

    fn track(&self, file: &TrackFile<'_>, index: usize) -> TrackId {
        let range = file.extents[index].range();
        let geometry = self.disk.geometry();
        let track = geometry.track_of(range.start).expect("a plan lies on the disk");
        let end = geometry.track_range(track).map(BlockRange::end);
        assert!(end.is_some_and(|end| range.end() <= end), "an extent lies in one track");
        track
    }

    fn sync(&self, written: &mut BatchProgress, counts: &Counts) -> Result<(), DiskError> {
        written.is_synced();
        self.flush(counts)
    }

    fn flush(&self, counts: &Counts) -> Result<(), DiskError> {
        counts.synced_tracks();
        self.disk.flush()
    }
}

/// The progress of a batch of tables.
#[derive(Debug, Default)]
pub(crate) struct BatchProgress {
    /// Ranges written to top tracks, which a later bottom track would destroy.
    tops: Vec<BlockRange>,
    /// Tracks written since the last sync.
    unsynced: BTreeSet<TrackId>,
}

impl BatchProgress {
    fn note(&mut self, range: BlockRange, track: TrackId) {
        if track.is_top() {
            self.tops.push(range);
        }
        self.unsynced.insert(track);
    }

    /// The ranges that the batch has written to top tracks.
    pub(crate) fn tops(&self) -> &[BlockRange] {
        &self.tops
    }

    /// Forgets all but the first `len` ranges in top tracks.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.tops.truncate(len);
    }

    fn is_synced(&mut self) {
        self.unsynced.clear();
    }

    fn is_unsynced_near(&self, track: TrackId) -> bool {
        let before = track.0.checked_sub(1).is_some_and(|t| self.unsynced.contains(&TrackId(t)));
        before || self.unsynced.contains(&TrackId(track.0 + 1))
    }

    /// The live ranges above an extent: those at the time of the plan, and those that the batch has
    /// written since.
    fn live(&self, file: &TrackFile<'_>, index: usize, geometry: &Geometry) -> Vec<BlockRange> {
        let reach = geometry.reach_around(file.extents[index].range());
        let own = self.tops.iter().copied().filter(|top| reach.iter().any(|r| r.overlaps(*top)));
        join(file.above[index].iter().copied().chain(own))
    }
}

/// Sorts the ranges and merges those that overlap or touch.
fn join(ranges: impl Iterator<Item = BlockRange>) -> Vec<BlockRange> {
    let mut sorted: Vec<BlockRange> = ranges.filter(|range| !range.len.is_zero()).collect();
    sorted.sort();
    let mut joined: Vec<BlockRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match joined.last_mut() {
            Some(last) if range.start <= last.end() => {
                let end = last.end().max(range.end());
                last.len = end - last.start;
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// The bytes of a table, in whole blocks.
pub(crate) struct Content {
    chunks: Vec<Vec<u8>>,
}

impl Content {
    pub(crate) fn new(mut chunks: Vec<Vec<u8>>) -> Content {
        if let Some(last) = chunks.last_mut() {
            last.resize(last.len().next_multiple_of(BLOCK_LEN_BYTES), 0);
        }
        Content { chunks }
    }

    /// Writes the bytes from `skip` blocks into the table on to `range`.
    fn write(&self, disk: &dyn Disk, range: BlockRange, skip: Blocks) -> Result<(), DiskError> {
        let mut from = skip.bytes() as usize;
        let mut at = range.start;
        while at < range.end() {
            let chunk = self.chunks.get(from / FileBuffer::CHUNK_LEN_BYTES);
            let chunk = chunk.expect("the extents hold the chunks and no more");
            let rest = &chunk[from % FileBuffer::CHUNK_LEN_BYTES..];
            let len = rest.len().min((range.end() - at).bytes() as usize);
            disk.write(at, &rest[..len], Persist::Cached)?;
            at += Blocks::holding(len as u64);
            from += len;
        }
        Ok(())
    }

    /// Returns the chunks for reuse.
    pub(crate) fn spare(self) {
        spare_chunks::give(self.chunks);
    }
}
