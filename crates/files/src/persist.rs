//! Writing table-like files: plan all, then write each where the plan says.
//!
//! Two callers whose plans lie in different zones write at the same time; in one zone the order is
//! that of the plans, because a zone takes writes at its pointer only. Where one of them fails, those behind
//! it in the zone have no turn any more, and are planned anew. On interlaced tracks one caller
//! writes at a time, by `rewrite`: the plan's neighbours are backed up and moved back where they live.
//! A neighbour that cannot be read is nobody's damage but its own file's: the plan is made anew without
//! what lies below it.

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
use crate::placer::{Missed, Placer, Turns};
use crate::reclaim::Reclaimer;
use crate::rewrite::{Content, Rewriter, TrackFile, Unwritten, Written};
use crate::space::{Levels, Space};
use crate::stats::Counts;
use imbrex_disk::BlockRange;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// For each extent of a planned file, what lives above it.
type Above = Vec<Vec<BlockRange>>;

/// A file written but not committed.
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

/// Files that were not written, for lack of room or else.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) error: FilesError,
    /// All of them, if none was touched.
    pub(crate) files: Vec<FileBuffer>,
}

impl From<FilesError> for Refused {
    fn from(error: FilesError) -> Refused {
        Refused { error, files: Vec::new() }
    }
}

/// A file that is still to be written, with its bytes as its writer wants them.
struct Todo<C> {
    name: String,
    hints: Hints,
    len_bytes: u64,
    id: FileId,
    content: C,
}

impl<C> Todo<C> {
    fn new(file: FileBuffer, id: FileId, content: impl FnOnce(Vec<Vec<u8>>) -> C) -> Todo<C> {
        let (name, hints, len_bytes, chunks) = file.into_parts();
        Todo { name, hints, len_bytes, id, content: content(chunks) }
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
    /// Writes tables, where tracks lie on top of others.
    pub(crate) rewriter: Option<Arc<Rewriter>>,
}

impl TableWriter {
    pub(crate) fn persist(
        &self,
        files: Vec<FileBuffer>,
    ) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        self.persist_or_return(files).map_err(|refused| refused.error)
    }

    /// The same, but files for which there is no room come back.
    pub(crate) fn persist_or_return(
        &self,
        files: Vec<FileBuffer>,
    ) -> Result<Vec<Box<dyn Persisted>>, Refused> {
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
            Err(error) => return Err(Refused { error, files }),
        };
        if let (Some(rewriter), Some(_turn)) = (&self.rewriter, turn) {
            return Ok(self.persist_tracks(rewriter, files, &requests, &ids, allocated)?);
        }
        Ok(self.persist_runs(files, &requests, &ids, allocated.0)?)
    }

    /// Writes what was placed where a write leaves others alone, one file after the other. What has no turn any more
    /// is placed anew, and with it what comes after it.
    fn persist_runs(
        &self,
        files: Vec<FileBuffer>,
        requests: &[FileRequest],
        ids: &[FileId],
        mut placed: Vec<Placed>,
    ) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        let todo = |(file, &id): (FileBuffer, &FileId)| Todo::new(file, id, |chunks| chunks);
        let mut todo: VecDeque<_> = files.into_iter().zip(ids).map(todo).collect();
        let mut persisted = Vec::with_capacity(todo.len());
        // Ends: each round goes back to a write that failed, or to a caller who lost a turn to one and gave up what it
        // had in other zones, where others waited for it. A zone in which a turn was lost takes nothing before its
        // reset: if that goes on there is no space.
        while !self.write_runs(&mut todo, placed, &mut persisted)? {
            self.reclaimer.reclaim()?;
            let next = persisted.len();
            (placed, _) = self.allocate(&requests[next..], &ids[next..])?;
        }
        Ok(persisted)
    }

    /// Moves from `todo` to `persisted` what can be written; false if the next of them has no turn any more.
    fn write_runs(
        &self,
        todo: &mut VecDeque<Todo<Vec<Vec<u8>>>>,
        placed: Vec<Placed>,
        persisted: &mut Vec<Box<dyn Persisted>>,
    ) -> Result<bool, FilesError> {
        // Dropped before what was placed: blocks that come free are nobody's turn any more.
        let mut turns = Turns::new(&self.space, &placed);
        for placed in &placed {
            let mut next = todo.pop_front().expect("a place is that of a file");
            match self.placer.write_chunks(&placed.extents, &mut next.content, &mut turns) {
                Ok(()) => {}
                Err(Missed::Turn) => {
                    todo.push_front(next);
                    return Ok(false);
                }
                Err(Missed::Disk(source)) => {
                    let what = format!("writing {:?}", next.name);
                    return Err(FilesError::Disk { what, source });
                }
            }
            if self.placement.keeps_files_apart() {
                self.reclaimer.finish_zones()?;
            }
            let Todo { name, hints, len_bytes, id, .. } = next;
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

    /// Writes what was placed on interlaced tracks, one file after the other. What was to go below a
    /// block that cannot be read is placed anew, and with it what comes after it.
    fn persist_tracks(
        &self,
        rewriter: &Rewriter,
        files: Vec<FileBuffer>,
        requests: &[FileRequest],
        ids: &[FileId],
        mut allocated: (Vec<Placed>, Vec<Above>),
    ) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        let todo = |(file, &id): (FileBuffer, &FileId)| Todo::new(file, id, Content::new);
        let mut todo: VecDeque<_> = files.into_iter().zip(ids).map(todo).collect();
        let mut written = Written::default();
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
                // Once for each block: nothing else is placed below it.
                Err(Unwritten::Below { at, source }) => {
                    if self.space.with(|map| map.avoid(at)) {
                        self.reclaimer.reclaim()?;
                        let next = persisted.len();
                        allocated = self.allocate(&requests[next..], &ids[next..])?;
                        continue;
                    }
                    source
                }
                Err(Unwritten::Disk(source)) => source,
            };
            let name = todo.front().map_or("", |todo| &todo.name);
            return Err(FilesError::Disk { what: format!("writing {name:?}"), source });
        }
    }

    /// Moves from `todo` to `persisted` what can be written.
    fn write_tracks(
        &self,
        rewriter: &Rewriter,
        todo: &mut VecDeque<Todo<Content>>,
        placed: Vec<Placed>,
        above: &[Above],
        written: &mut Written,
        persisted: &mut Vec<Box<dyn Persisted>>,
    ) -> Result<(), Unwritten> {
        // Whatever happens, who waits for these writes waits no longer than this call.
        let turns = Turns::new(&self.space, &placed);
        let pinned: Vec<BlockRange> = above.iter().flatten().flatten().copied().collect();
        let mut outcome = Ok(());
        for (placed, above) in placed.iter().zip(above) {
            let next = todo.pop_front().expect("a place is that of a file");
            let file = TrackFile { extents: &placed.extents, above, content: &next.content };
            let top_count = written.tops().len();
            outcome = rewriter.write(&file, written, &self.counts);
            if outcome.is_err() {
                if rewriter.has_failed() {
                    // The backup may have what these files wrote to top tracks, which will be free.
                    self.space.with(|map| map.pin(written.tops()));
                }
                written.truncate(top_count);
                todo.push_front(next);
                break;
            }
            let Todo { name, hints, len_bytes, id, content } = next;
            content.spare();
            persisted.push(self.persisted(name, hints, placed.clone(), len_bytes, id));
        }
        // A backup that could not be moved back will be at the next opening: until then what was in
        // it stays where it is (W3).
        if !rewriter.has_failed() {
            self.space.with(|map| map.unpin(&pinned));
        }
        drop(turns);
        outcome
    }

    /// Plans `requests` and takes what the plan chose; cleans where it does not fit otherwise.
    fn allocate(
        &self,
        requests: &[FileRequest],
        ids: &[FileId],
    ) -> Result<(Vec<Placed>, Vec<Above>), FilesError> {
        loop {
            let levels = self.rewriter.as_ref().map(|_| {
                let namespace = &self.committer.lock().namespace;
                Levels {
                    largest: namespace.largest_written_level(),
                    fullest: namespace.fullest_level(),
                }
            });
            let planned = self.space.with(|map| {
                if let Some(levels) = levels {
                    map.set_levels(levels);
                }
                let planned = self.placement.plan(map, requests);
                let plan = planned.map_err(|no_space| (no_space, map.gains()))?;
                assert!(plan.len() == requests.len(), "a plan answers every request");
                let above = |extent: &Extent| map.live_above(extent.range());
                let of_file = |planned: &Planned| planned.extents.iter().map(above).collect();
                let above: Vec<Above> = plan.iter().map(of_file).collect();
                above.iter().flatten().for_each(|ranges| map.pin(ranges));
                Ok((self.placer.take_plan(map, plan, requests, ids), above))
            });
            match planned {
                Ok(placed) => return Ok(placed),
                Err((no_space, gains)) => {
                    self.cleaner.make_room(claim_of(requests), no_space, gains)?;
                }
            }
        }
    }
}
