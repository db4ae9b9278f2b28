//! Cleaning: moves live data out of a zone, so that the zone can be reset.
//!
//! ```text
//!   victim   | a dead | b live | dead | c live |        copy b, c; commit both moves; reset
//!                         \___________/_____
//!   cold     | ....................... b  c |
//! ```
//!
//! If the living files of no set fit elsewhere, a set is dissolved: nothing is copied, one record says
//! that its files are no longer a set, and its dead blocks are free. Where guards are, islands are emptied
//! too, a long one in pieces (`space::emptying`).
//!
//! The policy chooses the victim (`plan_reclaim`) and the destination (`plan`). A step copies
//! pieces of at most 1 MiB, or whole files where files share runs. Between steps nothing is reserved,
//! so other writers never wait for a cleaner that is not running. The moves out of a victim are one
//! record of the catalog.
//!
//! Invariants
//!   M1  A file that was removed, moved or ended meanwhile is left alone.
//!   M2  The old blocks stay held until the record is durable and no read is in flight (F3).
//!   M3  A file that cannot be read stays where it is, and its zone is not chosen again.
//!   M4  Background cleaning continues after an error while anything can be written: nothing else
//!       makes room for writes that are refused before they are planned.
//!   M5  Room that the background has made is announced: a job that found none before may begin now, and a
//!       writer may be waiting for that job.

use crate::catalog::{EXTENT_COST_BYTES, Edit, FileId, FileRecord};
use crate::commit::{Committer, PendingFrees};
use crate::error::FilesError;
use crate::extent::Extent;
use crate::file::{FileBody, Placed};
use crate::hints::{FileKind, Hints};
use crate::placement::{FileRequest, Placement, Urgency};
use crate::placer::{ChunkError, Placer, UnwrittenRuns};
use crate::reclaim::Reclaimer;
use crate::room::CommitKind;
use crate::space::{Claim, Hold, NoSpace, Space, SpaceMap};
use crate::stats::Counts;
use imbrex_clockwork::{Budget, Job, Runtime, Step};
use imbrex_disk::{Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// How much one copy takes: long enough for the disk to stream.
const PIECE_LEN_BYTES: u64 = 1 << 20;

/// The same where files share runs. There the pieces of a file would go to the tightest holes, and be
/// apart forever, so a file is planned and copied as a whole. This limits the memory for long files.
const WHOLE_LEN_BYTES_MAX: u64 = 64 << 20;

/// How long background cleaning waits after an error: a second, so that a drive that fails for good
/// is not kept busy.
const AGAIN_AFTER_NS: u64 = 1_000_000_000;

/// One victim on its way to being empty.
#[derive(Debug)]
pub(crate) struct Relocation {
    space: Arc<Space>,
    victim: BlockRange,
    todo: VecDeque<FileMove>,
    moved: Vec<FileMove>,
}

/// A file that is being moved.
#[derive(Debug)]
struct FileMove {
    body: Arc<FileBody>,
    hints: Hints,
    /// Its extents when the relocation began.
    base: Arc<Placed>,
    /// The current extent of `base`, and how much of it is copied.
    index: usize,
    copied_bytes: u64,
    extents: Vec<Extent>,
    holds: Vec<Arc<Hold>>,
}

/// Empties zones, in the background and for writers that lack room.
#[derive(Debug)]
pub(crate) struct Cleaner {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) space: Arc<Space>,
    pub(crate) placement: Arc<dyn Placement>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) runtime: Runtime,
    pub(crate) reclaimer: Arc<Reclaimer>,
    pub(crate) placer: Arc<Placer>,
    /// Locked by a writer that cleans because it has no room.
    pub(crate) turn: Mutex<()>,
    /// The relocation that the background has begun. The background locks it for a step. A writer
    /// that lacks room completes it first, and keeps it locked while it cleans.
    pub(crate) background: Mutex<Option<Relocation>>,
    /// Whether background cleaning has ended. The job locks this for each step, and keeps the lock
    /// longer than anything else that the step holds.
    pub(crate) has_ended: Arc<Mutex<bool>>,
}

impl Cleaner {
    /// Wakes the background job if the policy wants something cleaned.
    pub(crate) fn wake(&self) {
        let due =
            |map: &mut SpaceMap| self.placement.plan_reclaim(map, Urgency::Background).is_some();
        if self.space.with(due) {
            self.runtime.scheduler.notify();
        }
    }

    /// Ends background cleaning. Waits for the current step of its job.
    pub(crate) fn end(&self) {
        let mut has_ended = self.has_ended.lock();
        *has_ended = true;
        *self.background.lock() = None;
    }

    /// Makes room until a write that did not fit may be planned again. A call empties one victim.
    /// `claim` is that of the write, and `gains` are the map's at the moment when the plan failed.
    ///
    /// # Errors
    /// [`FilesError::NoSpace`] with the numbers of `no_space`, if no cleaning can help.
    pub(crate) fn make_room(
        &self,
        claim: Claim,
        no_space: NoSpace,
        gains: u64,
    ) -> Result<(), FilesError> {
        let _turn = self.turn.lock();
        // Waits for the current step of the background, which may make the room. The lock is held
        // until this cleaning has ended: two at a time would take each other's room for moved data.
        let mut background = self.background.lock();
        self.space.wait_for_finishes();
        self.reclaimer.reclaim()?;
        let (now, cleanable, lacks_slot) = self
            .space
            .with(|map| (map.gains(), map.cleanable(), map.lacks_slot(no_space.needed, claim)));
        if now != gains || (lacks_slot && self.space.wait_for_filling()) {
            return Ok(());
        }
        let copied = background.as_ref().map_or(Blocks::ZERO, Relocation::copied);
        let missing = no_space.needed.saturating_sub(no_space.free);
        if cleanable + copied < missing && !lacks_slot {
            return Err(no_space.into());
        }
        // The copies that the background has made so far take room that comes back only with its
        // victim.
        let begun = match background.take() {
            Some(begun) => Some(begun),
            None => {
                // Sets in what is moved in pieces: of a set, what has moved would come back only with the rest.
                while self.dissolve_set(SpaceMap::spans_in_pieces)? {}
                self.begin_cleaning(Urgency::NoSpace)
            }
        };
        if let Some(mut cleaning) = begun {
            let refused = |error| match error {
                // Another writer took the room that was there when it began (K4).
                FilesError::NoSpace { .. } => no_space.into(),
                error => error,
            };
            while !cleaning.step(self, u64::MAX).map_err(refused)? {}
        } else if !self.dissolve_set(SpaceMap::dissolvable_spans)? {
            return Err(no_space.into());
        }
        // This terminates: each round resets a zone, or leaves one that readers pin and that is not
        // chosen again, or joins islands (J2), or dissolves a set.
        self.reclaimer.reclaim()
    }

    /// Gives back the dead blocks of the first of `sets` that can be dissolved. Its living files stay where
    /// they are and are no longer a set. Returns false if there is none.
    fn dissolve_set(
        &self,
        sets: impl FnOnce(&SpaceMap) -> Vec<(BlockRange, Blocks)>,
    ) -> Result<bool, FilesError> {
        let mut live = self.committer.lock();
        live.check()?;
        let sets = self.space.with(|map| sets(map));
        let members_of = |span: BlockRange| {
            let of_span = live.namespace.files().filter(move |file| file.span == Some(span));
            let bodies = of_span.filter_map(|file| live.bodies.get(&file.id).map(Arc::clone));
            bodies.collect::<Vec<_>>()
        };
        let mut candidates = sets.into_iter().map(|(span, held)| (span, held, members_of(span)));
        // Of a file whose removal is not durable yet, the blocks are held and no longer named.
        let found = candidates.find_map(|(span, held, members)| {
            let mut living: Vec<_> = members.iter().flat_map(|body| body.ranges()).collect();
            living.sort();
            let living_len: Blocks = living.iter().map(|run| run.len).sum();
            (living_len == held).then_some((span, members, living))
        });
        let Some((span, members, living)) = found else { return Ok(false) };
        // The record takes no more than the spans that it removes.
        self.committer.admit(&live, 0, CommitKind::Upkeep)?;
        let dead = self.space.with(|map| map.dissolve_span(span, &living));
        let dead: Vec<_> =
            dead.into_iter().map(|run| Arc::new(self.space.hold_nameless(run))).collect();
        let mut edits = Vec::new();
        for body in members {
            let placed = body.placed.load_full();
            edits.push(Edit::Move { id: body.id, extents: placed.extents.to_vec() });
            body.placed.store(Arc::new(Placed { span: None, ..Placed::clone(&placed) }));
        }
        let left = Placed { extents: Box::default(), span: Some(span), holds: Vec::new() };
        let frees = PendingFrees { left: vec![(Arc::new(left), dead)], ..PendingFrees::default() };
        let ticket = live.enqueue(edits, frees, true);
        drop(live);
        self.committer.settle(ticket)?;
        self.counts.cleaned_zone();
        Ok(true)
    }

    /// Chooses a victim and takes it out of use; `None` if there is nothing to clean.
    fn begin_cleaning(&self, urgency: Urgency) -> Option<Relocation> {
        loop {
            let live = self.committer.lock();
            let victim = self.space.with(|map| {
                let victim = self.placement.plan_reclaim(map, urgency)?;
                map.set_cleaning(victim, true);
                Some(victim)
            })?;
            let files: Vec<_> = {
                let overlaps = |e: &Extent| e.range().overlaps(victim);
                live.namespace.files().filter(|file| file.extents.iter().any(overlaps)).collect()
            };
            // Where files share runs a log is not moved: it dies soon, and an open one grows where it is.
            let is_moved =
                |file: &&&FileRecord| file.kind != FileKind::Log || !self.placement.moves_sets();
            let extents = files.iter().filter(is_moved).flat_map(|file| &file.extents);
            let extents = extents.map(|extent| extent.range());
            let mut extents: Vec<_> = extents.filter(|range| range.overlaps(victim)).collect();
            extents.sort();
            // This ends: what is not taken is not chosen again before something has been given back.
            let taken = self.space.with(|map| {
                let taken = map.take_victim(victim, &extents).filter(|taken| {
                    let fits = self.is_room_for(map, &files, *taken);
                    if !fits {
                        map.keep(victim);
                    }
                    fits
                });
                if taken.is_none() {
                    map.set_cleaning(victim, false);
                }
                taken
            });
            let Some(victim) = taken else { continue };
            let overlaps = |e: &Extent| e.range().overlaps(victim);
            let files = files.into_iter().filter(|file| file.extents.iter().any(overlaps));
            let todo = files
                .filter_map(|file| {
                    let body = Arc::clone(live.bodies.get(&file.id)?);
                    let base = body.placed.load_full();
                    let hints = file.hints();
                    let (extents, holds) = (Vec::new(), Vec::new());
                    Some(FileMove { body, hints, base, index: 0, copied_bytes: 0, extents, holds })
                })
                .collect();
            return Some(Relocation {
                space: Arc::clone(&self.space),
                victim,
                todo,
                moved: Vec::new(),
            });
        }
    }

    /// Whether all of `files` in `victim` find room elsewhere, as the map is (K4). Where there are zones, that is
    /// seen when a victim is chosen.
    fn is_room_for(&self, map: &SpaceMap, files: &[&FileRecord], victim: BlockRange) -> bool {
        if !self.placement.moves_sets() {
            return true;
        }
        let mut requests = Vec::new();
        for file in files {
            let moved = file.extents.iter().filter(|extent| extent.range().overlaps(victim));
            requests.extend(moved.map(|extent| FileRequest {
                len_bytes: extent.len_bytes,
                hints: file.hints(),
                is_moved: true,
            }));
        }
        self.placement.plan(map, &requests).is_ok()
    }

    /// The longest piece of an extent that is planned at once.
    fn piece_len_bytes(&self) -> u64 {
        if self.placement.moves_sets() { WHOLE_LEN_BYTES_MAX } else { PIECE_LEN_BYTES }
    }

    /// Reads a piece, in chunks.
    fn read_piece(&self, piece: Extent) -> Result<Vec<Vec<u8>>, DiskError> {
        let (mut at, end) = (piece.start, piece.range().end());
        let mut chunks = Vec::new();
        while at < end {
            let len = (end - at).min(Blocks::holding(PIECE_LEN_BYTES));
            let mut chunk = vec![0; len.bytes() as usize];
            self.disk.read(at, &mut chunk)?;
            chunks.push(chunk);
            at += len;
        }
        Ok(chunks)
    }

    /// Writes one piece of an extent to where the policy puts it.
    fn move_piece(
        &self,
        hints: Hints,
        id: FileId,
        from: Extent,
        mut chunks: Vec<Vec<u8>>,
    ) -> Result<(Vec<Extent>, Vec<Arc<Hold>>), FilesError> {
        let request = FileRequest { len_bytes: from.len_bytes, hints, is_moved: true };
        loop {
            // Not `allocate`, which would clean in order to clean.
            let placed = self
                .space
                .with(|map| {
                    let plan = self.placement.plan(map, &[request])?;
                    Ok(self.placer.take_plan(map, plan, &[request], &[id]))
                })
                .map_err(|no_space: NoSpace| FilesError::from(no_space))?;
            let placed = placed.into_iter().next().expect("a plan answers every request");
            let mut turns = UnwrittenRuns::new(&self.space, std::slice::from_ref(&placed));
            let activity = Activity::Cleaning;
            match self.placer.write_chunks(activity, &placed.extents, &mut chunks, &mut turns) {
                Ok(()) => {}
                Err(ChunkError::Turn) => continue,
                Err(ChunkError::Disk(source)) => {
                    let what = format!("moving blocks {from} to clean their zone");
                    return Err(FilesError::Disk { what, source });
                }
            }
            drop(turns);
            self.counts.moved(from.len_bytes);
            return Ok((placed.extents.to_vec(), placed.holds));
        }
    }
}

impl Relocation {
    /// Copies about `budget_bytes`; `Ok(true)` once the victim is empty and the moves are durable.
    fn step(&mut self, cleaner: &Cleaner, budget_bytes: u64) -> Result<bool, FilesError> {
        let state = || (cleaner.runtime.clock.now_ns(), cleaner.disk.counters().busy_ns);
        let (start_ns, start_busy_ns) = state();
        let outcome =
            self.copy(cleaner, budget_bytes).inspect_err(|_| cleaner.counts.cleaning_failed());
        let (end_ns, end_busy_ns) = state();
        let busy_ns = end_busy_ns.saturating_sub(start_busy_ns);
        cleaner.counts.cleaned_for(end_ns.saturating_sub(start_ns), busy_ns);
        outcome
    }

    fn copy(&mut self, cleaner: &Cleaner, budget_bytes: u64) -> Result<bool, FilesError> {
        let mut left = budget_bytes;
        while let Some(moving) = self.todo.front_mut() {
            let Some(&extent) = moving.base.extents.get(moving.index) else {
                self.moved.extend(self.todo.pop_front());
                continue;
            };
            if left == 0 {
                return Ok(false);
            }
            if !extent.range().overlaps(self.victim) {
                moving.extents.push(extent);
                moving.index += 1;
                continue;
            }
            let piece = Extent {
                start: extent.start + Blocks::holding(moving.copied_bytes),
                len_bytes: (extent.len_bytes - moving.copied_bytes).min(cleaner.piece_len_bytes()),
            };
            let chunks = match cleaner.read_piece(piece) {
                Ok(chunks) => chunks,
                Err(source @ DiskError::PowerLost) => {
                    let what = format!("reading blocks {piece} to clean their zone");
                    return Err(FilesError::Disk { what, source });
                }
                Err(_) => {
                    // M3: a reader of the file gets the error, with the file's name.
                    self.space.with(|map| map.set_pinned(self.victim, piece.range()));
                    self.todo.pop_front();
                    continue;
                }
            };
            let id = moving.body.id;
            let (extents, holds) = cleaner.move_piece(moving.hints, id, piece, chunks)?;
            extents.into_iter().for_each(|extent| moving.push(cleaner, extent));
            moving.holds.extend(holds);
            moving.copied_bytes += piece.len_bytes;
            if moving.copied_bytes == extent.len_bytes {
                moving.index += 1;
                moving.copied_bytes = 0;
            }
            left = left.saturating_sub(piece.len_bytes);
        }
        self.commit(cleaner)?;
        cleaner.counts.cleaned_zone();
        Ok(true)
    }

    /// The blocks that it has taken so far, which come back with the victim in the end.
    fn copied(&self) -> Blocks {
        let holds = self.todo.iter().chain(&self.moved).flat_map(|moving| &moving.holds);
        holds.map(|hold| hold.range().len).sum()
    }

    /// How much the moves lengthen the catalog.
    fn growth_bytes(&self) -> u64 {
        let count = |of: fn(&FileMove) -> usize| self.moved.iter().map(of).sum::<usize>() as u64;
        let (before, after) = (count(|m| m.base.extents.len()), count(|m| m.extents.len()));
        EXTENT_COST_BYTES * after.saturating_sub(before)
    }

    /// Makes the moves durable as one record.
    fn commit(&mut self, cleaner: &Cleaner) -> Result<(), FilesError> {
        let mut live = cleaner.committer.lock();
        live.check()?;
        cleaner.committer.admit(&live, self.growth_bytes(), CommitKind::Upkeep)?;
        let mut edits = Vec::new();
        let mut frees = PendingFrees::default();
        for moving in std::mem::take(&mut self.moved) {
            let FileMove { body, base, extents, mut holds, .. } = moving;
            let is_same =
                live.bodies.contains_key(&body.id) && Arc::ptr_eq(&body.placed.load_full(), &base);
            if !is_same {
                continue; // M1
            }
            let (left, kept): (Vec<_>, Vec<_>) = base
                .holds
                .iter()
                .map(Arc::clone)
                .partition(|hold| hold.range().overlaps(self.victim));
            holds.iter().for_each(|hold| hold.set_named(true));
            holds.extend(kept);
            edits.push(Edit::Move { id: body.id, extents: extents.clone() });
            body.placed.store(Arc::new(Placed { extents: extents.into(), span: None, holds }));
            frees.left.push((base, left)); // M2
        }
        if edits.is_empty() {
            // It is not tried again for nothing.
            self.space.with(|map| map.keep(self.victim));
            return Ok(());
        }
        let ticket = live.enqueue(edits, frees, true);
        drop(live);
        cleaner.committer.settle(ticket).map(drop)
    }
}

impl Drop for Relocation {
    fn drop(&mut self) {
        self.space.with(|map| map.set_cleaning(self.victim, false));
    }
}

impl FileMove {
    /// Adds an extent, merged with the last one if it continues it in the same zone.
    fn push(&mut self, cleaner: &Cleaner, extent: Extent) {
        let zone_of = |extent: &Extent| cleaner.disk.geometry().zone_of(extent.start);
        if let Some(last) = self.extents.last_mut()
            && last.len_bytes.is_multiple_of(BLOCK_LEN_BYTES as u64)
            && last.range().end() == extent.start
            && zone_of(last) == zone_of(&extent)
        {
            last.len_bytes += extent.len_bytes;
        } else {
            self.extents.push(extent);
        }
    }
}

/// The job that cleans in the background when the policy wants it.
#[derive(Debug)]
pub(crate) struct CleanJob {
    cleaner: Weak<Cleaner>,
    has_ended: Arc<Mutex<bool>>,
}

impl CleanJob {
    pub(crate) fn new(cleaner: &Arc<Cleaner>) -> CleanJob {
        let has_ended = Arc::clone(&cleaner.has_ended);
        CleanJob { cleaner: Arc::downgrade(cleaner), has_ended }
    }

    /// The cleaner, unless cleaning has ended. After that the job must not hold it even for a
    /// moment: it could be the last owner, while the caller that ended cleaning opens the disk
    /// again.
    fn cleaner(&self, has_ended: bool) -> Option<Arc<Cleaner>> {
        if has_ended { None } else { self.cleaner.upgrade() }
    }
}

impl Drop for CleanJob {
    fn drop(&mut self) {
        let has_ended = self.has_ended.lock();
        if let Some(cleaner) = self.cleaner(*has_ended) {
            *cleaner.background.lock() = None;
        }
    }
}

impl Job for CleanJob {
    fn name(&self) -> &'static str {
        "clean"
    }

    fn step(&mut self, budget: Budget) -> Step {
        // Held longer than `cleaner`: a caller that waits for this lock may open the disk again.
        let has_ended = self.has_ended.lock();
        let Some(cleaner) = self.cleaner(*has_ended) else { return Step::Done };
        if cleaner.committer.lock().check().is_err() {
            return Step::Done;
        }
        let mut current = cleaner.background.lock();
        if current.is_none() {
            // Space that the last readers have released since the last commit.
            if let Err(error) = cleaner.reclaimer.reclaim() {
                return after(&cleaner, &error);
            }
            *current = cleaner.begin_cleaning(Urgency::Background);
        }
        let Some(cleaning) = &mut *current else { return Step::Wait };
        match cleaning.step(&cleaner, budget.io_bytes.max(PIECE_LEN_BYTES)) {
            Ok(false) => Step::More,
            Ok(true) => {
                *current = None;
                let reclaimed = cleaner.reclaimer.reclaim();
                // M5
                cleaner.runtime.scheduler.notify();
                match reclaimed {
                    Ok(()) => Step::More,
                    Err(error) => after(&cleaner, &error),
                }
            }
            Err(error) => {
                *current = None;
                after(&cleaner, &error)
            }
        }
    }
}

/// What follows an error (M4). A zone in which a write failed takes no more writes, so the next
/// attempt copies elsewhere.
fn after(cleaner: &Cleaner, error: &FilesError) -> Step {
    match error {
        // There is no room for moved data: the next removal makes some and wakes this job.
        FilesError::NoSpace { .. } => Step::Wait,
        FilesError::Disk { source: DiskError::PowerLost, .. } => Step::Done,
        _ if cleaner.committer.lock().check().is_err() => Step::Done,
        // A writer that is refused for lack of room changes nothing, and therefore wakes no job.
        _ => Step::WaitFor { ns: AGAIN_AFTER_NS },
    }
}
