//! Takes the blocks that a plan chose, and writes to them in the order that zones require.

use crate::catalog::FileId;
use crate::extent::Extent;
use crate::file::Placed;
use crate::placement::{FileRequest, Placement, Planned};
use crate::reclaim::Reclaimer;
use crate::space::{Hold, Space, SpaceMap};
use crate::spare_chunks;
use imbrex_disk::{Activity, BLOCK_LEN_BYTES, Blocks, DiskError, Handles, Persist};
use std::collections::VecDeque;
use std::sync::Arc;

/// Why chunks were not written.
#[derive(Debug)]
pub(crate) enum ChunkError {
    /// A write that was placed before one of their extents in its zone failed. They may be written
    /// elsewhere.
    Turn,
    Disk(DiskError),
}

impl From<DiskError> for ChunkError {
    fn from(source: DiskError) -> ChunkError {
        ChunkError::Disk(source)
    }
}

/// Takes the blocks that a plan chose, and writes chunks to them.
#[derive(Debug)]
pub(crate) struct Placer {
    disks: Handles,
    space: Arc<Space>,
    placement: Arc<dyn Placement>,
    reclaimer: Arc<Reclaimer>,
}

impl Placer {
    pub(crate) fn new(
        disks: Handles,
        space: Arc<Space>,
        placement: Arc<dyn Placement>,
        reclaimer: Arc<Reclaimer>,
    ) -> Placer {
        Placer { disks, space, placement, reclaimer }
    }

    /// Takes the blocks of a plan for `requests`, for the files `ids`. `map` has been locked since
    /// the plan was made.
    pub(crate) fn take_plan(
        &self,
        map: &mut SpaceMap,
        plan: Vec<Planned>,
        requests: &[FileRequest],
        ids: &[FileId],
    ) -> Vec<Placed> {
        let mut opened = None;
        let take = |((planned, request), id): ((Planned, &FileRequest), &FileId)| {
            let Planned { extents, span } = planned;
            if let Some(span) = span
                && opened != Some(span)
            {
                map.open_span(span);
                opened = Some(span);
            }
            let zone = map.zone_capacity();
            let mut hold = |extent: &Extent| {
                let lane = self.placement.lane(&request.piece(extent.len_bytes), zone);
                let hold = self.space.take(map, extent.range(), lane, id.0);
                if self.placement.keeps_files_apart() {
                    map.seal(extent.range());
                }
                Arc::new(hold)
            };
            let holds = extents.iter().map(&mut hold).collect();
            Placed { extents: extents.into(), span, holds }
        };
        plan.into_iter().zip(requests).zip(ids).map(take).collect()
    }

    /// Writes the chunks of a file to its extents, in order, each extent in its zone's turn. Takes
    /// the chunks; leaves them if a write fails. The writes serve `activity`.
    pub(crate) fn write_chunks(
        &self,
        activity: Activity,
        extents: &[Extent],
        chunks: &mut Vec<Vec<u8>>,
        turns: &mut UnwrittenRuns<'_>,
    ) -> Result<(), ChunkError> {
        if let Some(last) = chunks.last_mut() {
            last.resize(last.len().next_multiple_of(BLOCK_LEN_BYTES), 0);
        }
        let disk = self.disks.of(activity);
        let mut pieces = chunks.iter();
        let mut rest: &[u8] = &[];
        for extent in extents {
            turns.wait()?;
            self.reclaimer.begin_zone(extent.range());
            let mut at = extent.start;
            let end = extent.range().end();
            while at < end {
                if rest.is_empty() {
                    rest = pieces.next().expect("the extents hold the chunks and no more");
                }
                let room = (end - at).bytes().min(rest.len() as u64) as usize;
                let (now, later) = rest.split_at(room);
                disk.write(at, now, Persist::Cached)?;
                at += Blocks::holding(room as u64);
                rest = later;
            }
            turns.done();
        }
        spare_chunks::give(std::mem::take(chunks));
        Ok(())
    }
}

/// The runs that are yet to be written, in order. If it is dropped early it gives up the rest, so
/// that no writer waits for a write that never comes. Nothing is lost in runs that had no turn yet.
#[derive(Debug)]
pub(crate) struct UnwrittenRuns<'a> {
    space: &'a Space,
    runs: VecDeque<Arc<Hold>>,
    /// Whether the first of them has its turn.
    is_begun: bool,
}

impl<'a> UnwrittenRuns<'a> {
    pub(crate) fn new(space: &'a Space, placed: &[Placed]) -> UnwrittenRuns<'a> {
        let runs = placed.iter().flat_map(|placed| placed.holds.iter().map(Arc::clone)).collect();
        UnwrittenRuns { space, runs, is_begun: false }
    }

    fn wait(&mut self) -> Result<(), ChunkError> {
        match self.runs.front() {
            Some(run) if !self.space.wait_turn(run.range()) => Err(ChunkError::Turn),
            _ => {
                self.is_begun = true;
                Ok(())
            }
        }
    }

    fn done(&mut self) {
        if let Some(run) = self.runs.pop_front() {
            self.space.end_turn(run.range(), true);
        }
        self.is_begun = false;
    }
}

impl Drop for UnwrittenRuns<'_> {
    fn drop(&mut self) {
        if self.is_begun
            && let Some(run) = self.runs.pop_front()
        {
            self.space.end_turn(run.range(), false);
        }
        // From the last one back, so that each is the last of its zone when it is given up.
        while let Some(run) = self.runs.pop_back() {
            run.give_up();
        }
    }
}
