//! Writes table-like files: plans all of them, then writes each where the plan puts it.
//!
//! Two callers whose plans lie in different zones write at the same time. Within one zone writes
//! follow the order of the plans, because a zone takes writes at its pointer only. If one of them
//! fails, those after it in the zone lose their turn and are planned again.
//!
//! On interlaced tracks one caller writes at a time, through `rewrite`: the neighbours of the plan
//! are backed up and moved back. A neighbour that cannot be read damages its own file only: the
//! plan is made again without the tracks below it.

use crate::api::Persisted;
use crate::catalog::{FileId, FileRecord};
use crate::clean::Cleaner;
use crate::commit::Committer;
use crate::error::FilesError;
use crate::extent::Extent;
use crate::file::{FileBody, Placed};
use crate::file_buffer::FileBuffer;
use crate::hints::Hints;
use crate::names;
use crate::placement::{FileRequest, Placement, Planned, claim_of};
use crate::placer::{ChunkError, Placer, UnwrittenRuns};
use crate::reclaim::Reclaimer;
use crate::rewrite::{BatchProgress, Content, Rewriter, TrackFile, TrackWriteError};
use crate::space::{Claim, Levels, LevelsOfStream, Space};
use crate::stats::Counts;
use imbrex_disk::BlockRange;
use std::any::Any;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// For each extent of a planned file, the live ranges above it.
type Above = Vec<Vec<BlockRange>>;

/// A file that is written but not committed.
#[derive(Debug)]
pub(crate) struct PersistedFile {
    pub(crate) name: String,
    pub(crate) hints: Hints,
    pub(crate) body: Arc<FileBody>,
    pub(crate) space: Arc<Space>,
}

impl PersistedFile {
    pub(crate) fn record(&self) -> FileRecord {
        FileRecord {
            id: self.body.id,
            kind: self.hints.kind,
            level: self.hints.level,
            written_level: self.hints.level,
            group: self.hints.group,
            stream: self.hints.stream,
            is_open: false,
            is_beside: false,
            span: self.body.placed.load().span,
            extents: self.body.placed.load().extents.to_vec(),
        }
    }
}

impl Persisted for PersistedFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.body.len_bytes()
    }

    fn extents(&self) -> Vec<BlockRange> {
        self.body.ranges()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// Files that were not written, for lack of room or another error.
#[derive(Debug)]
pub(crate) struct PersistError {
    pub(crate) error: FilesError,
    /// All files of the call, if none of them was touched.
    pub(crate) files: Vec<FileBuffer>,
}

impl From<FilesError> for PersistError {
    fn from(error: FilesError) -> PersistError {
        PersistError { error, files: Vec::new() }
    }
}

/// A file that is yet to be written, with its bytes in the form that its writer wants.
struct PendingFile<C> {
    name: String,
    hints: Hints,
    len_bytes: u64,
    id: FileId,
    content: C,
}

impl<C> PendingFile<C> {
    fn new(
        file: FileBuffer,
        id: FileId,
        content: impl FnOnce(Vec<Vec<u8>>) -> C,
    ) -> PendingFile<C> {
        let (name, hints, len_bytes, chunks) = file.into_parts();
        PendingFile { name, hints, len_bytes, id, content: content(chunks) }
    }
}

/// Places table-like files and writes them.
#[derive(Debug)]
pub(crate) struct TableWriter {
    pub(crate) space: Arc<Space>,
    pub(crate) placement: Arc<dyn Placement>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    pub(crate) placer: Arc<Placer>,
    pub(crate) cleaner: Arc<Cleaner>,
    /// Writes tables to interlaced tracks; `None` on other disks.
    pub(crate) rewriter: Option<Arc<Rewriter>>,
}

impl TableWriter {
    pub(crate) fn persist(
        &self,
        files: Vec<FileBuffer>,
    ) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        self.persist_or_return(files).map_err(|refused| refused.error)
    }

    /// Like `persist`, but returns files for which there is no room.
    pub(crate) fn persist_or_return(
        &self,
        files: Vec<FileBuffer>,
    ) -> Result<Vec<Box<dyn Persisted>>, PersistError> {
        files.iter().try_for_each(|file| names::check(file.name()))?;
        let turn = self.rewriter.as_ref().map(|rewriter| rewriter.turn());
        self.reclaimer.reclaim()?;
        let requests: Vec<FileRequest> = files
            .iter()
            .map(|file| FileRequest {
                len_bytes: file.len_bytes(),
                hints: *file.hints(),
                is_moved: false,
            })
            .collect();
        let ids: Vec<FileId> = files.iter().map(|_| self.committer.new_id()).collect();
        let allocated = match self.allocate(&requests, &ids) {
            Ok(allocated) => allocated,
            Err(error) => return Err(PersistError { error, files }),
        };
        if let (Some(rewriter), Some(_turn)) = (&self.rewriter, turn) {
            return Ok(self.persist_tracks(rewriter, files, &requests, &ids, allocated)?);
        }
        Ok(self.persist_runs(files, &requests, &ids, allocated.0)?)
    }

    /// Writes files, one after the other, on a disk where a write destroys nothing else. A file
    /// that has lost its turn is placed again, along with those after it.
    fn persist_runs(
        &self,
        files: Vec<FileBuffer>,
        requests: &[FileRequest],
        ids: &[FileId],
        mut placed: Vec<Placed>,
    ) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        let todo = |(file, &id): (FileBuffer, &FileId)| PendingFile::new(file, id, |chunks| chunks);
        let mut todo: VecDeque<_> = files.into_iter().zip(ids).map(todo).collect();
        let mut persisted = Vec::with_capacity(todo.len());
        // This terminates. Each round is caused by a failed write, or by a caller that lost its
        // turn to one and gave up its runs in other zones, where others waited for it. A zone in
        // which a turn was lost takes nothing before its reset, so in the end there is no space.
        while !self.write_runs(&mut todo, placed, &mut persisted)? {
            self.reclaimer.reclaim()?;
            let next = persisted.len();
            (placed, _) = self.allocate(&requests[next..], &ids[next..])?;
        }
        Ok(persisted)
    }

    /// Moves files from `todo` to `persisted` as they are written. Returns false if the next one
    /// has lost its turn.
    fn write_runs(
        &self,
        todo: &mut VecDeque<PendingFile<Vec<Vec<u8>>>>,
        placed: Vec<Placed>,
        persisted: &mut Vec<Box<dyn Persisted>>,
    ) -> Result<bool, FilesError> {
        // Dropped before `placed`: freed blocks hold no turn.
        let mut turns = UnwrittenRuns::new(&self.space, &placed);
        for placed in &placed {
            let mut next = todo.pop_front().expect("a place is that of a file");
            let (activity, chunks) = (next.hints.activity, &mut next.content);
            match self.placer.write_chunks(activity, &placed.extents, chunks, &mut turns) {
                Ok(()) => {}
                Err(ChunkError::Turn) => {
                    todo.push_front(next);
                    return Ok(false);
                }
                Err(ChunkError::Disk(source)) => {
                    let what = format!("writing {:?}", next.name);
                    return Err(FilesError::Disk { what, source });
                }
            }
            if self.placement.keeps_files_apart() {
                self.reclaimer.finish_zones()?;
            }
            let PendingFile { name, hints, len_bytes, id, .. } = next;
            persisted.push(self.persisted(name, hints, placed.clone(), len_bytes, id));
        }
        Ok(true)
    }

    fn persisted(
        &self,
        name: String,
        hints: Hints,
        placed: Placed,
        len_bytes: u64,
        id: FileId,
    ) -> Box<dyn Persisted> {
        let body = FileBody::new(id, placed, len_bytes);
        self.counts.wrote(len_bytes);
        Box::new(PersistedFile { name, hints, body, space: Arc::clone(&self.space) })
    }

    /// Writes files to interlaced tracks, one after the other. A file that would go below an
    /// unreadable block is placed again, along with those after it.
    fn persist_tracks(
        &self,
        rewriter: &Rewriter,
        files: Vec<FileBuffer>,
        requests: &[FileRequest],
        ids: &[FileId],
        mut allocated: (Vec<Placed>, Vec<Above>),
    ) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        let todo = |(file, &id): (FileBuffer, &FileId)| PendingFile::new(file, id, Content::new);
        let mut todo: VecDeque<_> = files.into_iter().zip(ids).map(todo).collect();
        let mut written = BatchProgress::default();
        let mut persisted = Vec::with_capacity(todo.len());
        loop {
            let (placed, above) = allocated;
            let outcome = self.write_tracks(
                rewriter,
                &mut todo,
                placed,
                &above,
                &mut written,
                &mut persisted,
            );
            let source = match outcome {
                Ok(()) => return Ok(persisted),
                // At most once for each block: nothing else is placed below it.
                Err(TrackWriteError::Below { at, source }) => {
                    if self.space.with(|map| map.avoid(at)) {
                        self.reclaimer.reclaim()?;
                        let next = persisted.len();
                        allocated = self.allocate(&requests[next..], &ids[next..])?;
                        continue;
                    }
                    source
                }
                Err(TrackWriteError::Disk(source)) => source,
            };
            let name = todo.front().map_or("", |todo| &todo.name);
            return Err(FilesError::Disk { what: format!("writing {name:?}"), source });
        }
    }

    /// Moves files from `todo` to `persisted` as they are written.
    fn write_tracks(
        &self,
        rewriter: &Rewriter,
        todo: &mut VecDeque<PendingFile<Content>>,
        placed: Vec<Placed>,
        above: &[Above],
        written: &mut BatchProgress,
        persisted: &mut Vec<Box<dyn Persisted>>,
    ) -> Result<(), TrackWriteError> {
        // Whatever happens, other writers wait no longer than this call for these runs.
        let turns = UnwrittenRuns::new(&self.space, &placed);
        let pinned: Vec<BlockRange> = above.iter().flatten().flatten().copied().collect();
        let mut outcome = Ok(());
        for (placed, above) in placed.iter().zip(above) {
            let next = todo.pop_front().expect("a place is that of a file");
            let PendingFile { hints, content, .. } = &next;
            let activity = hints.activity;
            let file = TrackFile { extents: &placed.extents, above, content, activity };
            let top_count = written.tops().len();
            outcome = rewriter.write(&file, written, &self.counts);
            if outcome.is_err() {
                if rewriter.has_failed() {
                    // The backup may hold what these files wrote to top tracks, which will be free.
                    self.space.with(|map| map.pin(written.tops()));
                }
                written.truncate(top_count);
                todo.push_front(next);
                break;
            }
            let PendingFile { name, hints, len_bytes, id, content } = next;
            content.spare();
            persisted.push(self.persisted(name, hints, placed.clone(), len_bytes, id));
        }
        // A backup that could not be moved back is moved at the next opening. Until then its data
        // stay where they are (W3).
        if !rewriter.has_failed() {
            self.space.with(|map| map.unpin(&pinned));
        }
        drop(turns);
        outcome
    }

    /// Whether `requests` are tables that replace others, or a log, and are refused for what is kept for cleaning.
    fn may_take_what_is_kept(&self, requests: &[FileRequest]) -> bool {
        let needed = requests.iter().map(FileRequest::blocks).sum();
        self.placement.moves_sets()
            && claim_of(requests) == Claim::Reserve
            && self.space.with(|map| map.lends(needed))
    }

    /// Plans `requests` and takes the blocks of the plan; cleans if they do not fit otherwise. If no cleaning
    /// helps, what is kept for cleaning goes to tables that replace others, or a log (K5 of `space::emptying`).
    fn allocate(
        &self,
        requests: &[FileRequest],
        ids: &[FileId],
    ) -> Result<(Vec<Placed>, Vec<Above>), FilesError> {
        let mut requests = Cow::Borrowed(requests);
        loop {
            let levels = self.rewriter.as_ref().map(|_| {
                let namespace = &self.committer.lock().namespace;
                let of = |request: &FileRequest| {
                    let stream = request.hints.stream;
                    let largest = namespace.largest_written_level_of(stream);
                    let fullest = namespace.fullest_level_of(stream);
                    (stream, LevelsOfStream { largest, fullest })
                };
                let of_streams = requests.iter().map(of).collect();
                Levels { of_streams, largest: namespace.largest_written_level() }
            });
            let planned = self.space.with(|map| {
                if let Some(levels) = levels {
                    map.set_levels(levels);
                }
                let planned = self.placement.plan(map, &requests);
                let plan = planned.map_err(|no_space| (no_space, map.gains()))?;
                assert!(plan.len() == requests.len(), "a plan answers every request");
                let above = |extent: &Extent| map.live_above(extent.range());
                let of_file = |planned: &Planned| planned.extents.iter().map(above).collect();
                let above: Vec<Above> = plan.iter().map(of_file).collect();
                above.iter().flatten().for_each(|ranges| map.pin(ranges));
                Ok((self.placer.take_plan(map, plan, &requests, ids), above))
            });
            match planned {
                Ok(placed) => return Ok(placed),
                Err((no_space, gains)) => {
                    match self.cleaner.make_room(claim_of(&requests), no_space, gains) {
                        Ok(()) => {}
                        Err(FilesError::NoSpace { .. })
                            if self.may_take_what_is_kept(&requests) =>
                        {
                            requests
                                .to_mut()
                                .iter_mut()
                                .for_each(|request| request.is_moved = true);
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
}
