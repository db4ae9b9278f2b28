//! Logs: files that grow, and that only recovery reads.
//!
//! ```text
//!   zone      | older log (finished) | this log ....... >        | kept for this log |
//!   no zones  | piece 1: 1 MiB | ... | piece 2: 1 MiB | ... | piece 3: 2 MiB ... |
//!   tracks    the same, each piece cut into top tracks
//! ```
//!
//! A log owns a run of blocks from the moment that the catalog records it, and appends without
//! further records. When the run is full the log gets another one, with one catalog record each. At
//! its end the log gives back the blocks that it did not write, and the next log continues there.
//!
//! Invariants
//!   O1  A run is in the catalog before a byte is written to it.
//!   O2  Before another log starts after this one, the catalog records where this one ended, and
//!       everything up to there was flushed.
//!   O3  The first write of a run waits for everything that was planned into its zone before. A
//!       zone takes writes at its pointer only, and a run may begin after tables that are still
//!       being written.
//!   O4  If a run could not be recorded in the catalog, nothing more is appended.
//!   O5  An append up to a length that was reserved never finds the drive full.

use crate::api::LogWriter;
use crate::catalog::{EXTENT_COST_BYTES, Edit, FILE_COST_BYTES, FileId, FileRecord};
use crate::clean::Cleaner;
use crate::commit::{Committer, PendingFrees};
use crate::error::FilesError;
use crate::extent::{Extent, fill};
use crate::file::{FileBody, Placed};
use crate::hints::Hints;
use crate::names;
use crate::placement::{FileRequest, Placement};
use crate::reclaim::Reclaimer;
use crate::space::{Hold, Lane, Space};
use crate::stats::Counts;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Persist, ZoneId};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The longest write: a read never waits for more than this.
const PIECE_LEN_BYTES: usize = 1 << 20;

/// One run of a log, with its hold.
type Run = (BlockRange, Arc<Hold>);

/// A log being written.
#[derive(Debug)]
pub(crate) struct LogFile {
    logs: Arc<Logs>,
    name: String,
    hints: Hints,
    body: Arc<FileBody>,
    state: Mutex<LogState>,
    /// The length of the runs that it owns, for [`LogWriter::reserve`] without the lock.
    owned_bytes: AtomicU64,
    /// Why it takes no more appends.
    poisoned: OnceLock<PoisonCause>,
}

#[derive(Debug)]
struct LogState {
    /// The runs it owns, in order.
    runs: Vec<Run>,
    /// How many of them have had their turn.
    begun_count: usize,
    written: Blocks,
    is_finished: bool,
}

/// Why a log takes no more appends.
#[derive(Debug)]
enum PoisonCause {
    /// One of its own writes failed, for this reason.
    Failed(String),
    /// A write that was placed before it in this zone failed. Another log goes elsewhere; nothing
    /// needs to be reopened.
    NoTurn(ZoneId),
}

impl LogState {
    fn owned(&self) -> Blocks {
        self.runs.iter().map(|(range, _)| range.len).sum()
    }

    fn placed(&self) -> Placed {
        let extent =
            |range: &BlockRange| Extent { start: range.start, len_bytes: range.len.bytes() };
        Placed {
            extents: self.runs.iter().map(|(range, _)| extent(range)).collect(),
            span: None,
            holds: self.runs.iter().map(|(_, hold)| Arc::clone(hold)).collect(),
        }
    }
}

/// Creates logs and gives them room.
#[derive(Debug)]
pub(crate) struct Logs {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) space: Arc<Space>,
    pub(crate) placement: Arc<dyn Placement>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    pub(crate) cleaner: Arc<Cleaner>,
}

impl Logs {
    pub(crate) fn create_log(
        self: &Arc<Self>,
        name: &str,
        hints: Hints,
    ) -> Result<Arc<dyn LogWriter>, FilesError> {
        names::check(name)?;
        self.reclaimer.reclaim()?;
        let id = self.committer.new_id();
        let runs = self.allocate_log(&hints, &[], id)?;
        let run_count = runs.len() as u64;
        let (begun_count, written) = (0, Blocks::ZERO);
        let state = LogState { runs, begun_count, written, is_finished: false };
        let body = FileBody::new(id, state.placed(), 0);
        let owned_bytes = AtomicU64::new(state.owned().bytes());
        let record = FileRecord {
            id: body.id,
            kind: hints.kind,
            level: hints.level,
            written_level: hints.level,
            group: hints.group,
            stream: hints.stream,
            is_open: true,
            is_beside: false,
            span: None,
            extents: body.placed.load().extents.to_vec(),
        };
        // From here on, dropping the log gives its runs back.
        let log = LogFile {
            logs: Arc::clone(self),
            name: name.to_owned(),
            hints,
            body: Arc::clone(&body),
            state: Mutex::new(state),
            owned_bytes,
            poisoned: OnceLock::new(),
        };
        let mut live = self.committer.lock();
        live.check()?;
        if live.namespace.id_of(name).is_some() {
            return Err(FilesError::Exists { name: name.to_owned() });
        }
        let cost_bytes = FILE_COST_BYTES + name.len() as u64 + run_count * EXTENT_COST_BYTES;
        self.committer.admit(&live, cost_bytes, hints.purpose)?;
        body.set_named(true);
        live.bodies.insert(body.id, body);
        let edit = Edit::Add { name: name.to_owned(), file: record };
        let ticket = live.enqueue(vec![edit], PendingFrees::default(), false);
        drop(live);
        self.committer.settle(ticket)?;
        Ok(Arc::new(log))
    }

    /// Allocates further runs for a log that has `runs`.
    fn allocate_log(
        &self,
        hints: &Hints,
        runs: &[Run],
        id: FileId,
    ) -> Result<Vec<Run>, FilesError> {
        let owned: Blocks = runs.iter().map(|(range, _)| range.len).sum();
        let claim = FileRequest { len_bytes: 1, hints: *hints, is_moved: false }.claim();
        loop {
            let planned = self.space.with(|map| {
                runs.last().iter().for_each(|(last, _)| map.set_filling(*last, true));
                let planned = self.placement.plan_log_pieces(map, hints, owned);
                let pieces = planned.map_err(|no_space| {
                    runs.last().iter().for_each(|(last, _)| map.set_filling(*last, false));
                    (no_space, map.gains())
                })?;
                if let (Some((last, _)), Some(next)) = (runs.last(), pieces.first()) {
                    // Only a log that begins a zone needs the slot of the zone before (A1).
                    map.set_filling(*last, map.takes_slot(*next));
                }
                let take = |range: BlockRange| {
                    let hold = self.space.take(map, range, Lane::Log, id.0);
                    map.set_owned(range, true);
                    if self.placement.keeps_files_apart() {
                        map.seal(range);
                    }
                    (range, Arc::new(hold))
                };
                Ok(pieces.into_iter().map(take).collect())
            });
            match planned {
                Ok(runs) => return Ok(runs),
                Err((no_space, gains)) => self.cleaner.make_room(claim, no_space, gains)?,
            }
        }
    }
}

impl LogFile {
    /// Gets another run, and records it in the catalog before it is used (O1).
    fn grow(&self, state: &mut LogState) -> Result<(), FilesError> {
        let unknown = |error| self.poison(error);
        self.logs.reclaimer.reclaim()?;
        let runs = self.logs.allocate_log(&self.hints, &state.runs, self.body.id)?;
        let grow = |(range, _): &Run| {
            let extent = Extent { start: range.start, len_bytes: range.len.bytes() };
            Edit::Grow { id: self.body.id, extent }
        };
        let edits: Vec<Edit> = runs.iter().map(grow).collect();
        let mut live = self.logs.committer.lock();
        let cost_bytes = runs.len() as u64 * EXTENT_COST_BYTES;
        let admitted = self.logs.committer.admit(&live, cost_bytes, self.hints.purpose);
        if let Err(error) = admitted {
            drop(live);
            for (range, hold) in runs.iter().rev() {
                hold.shrink(Blocks::ZERO);
                self.logs.space.with(|map| map.set_owned(*range, false));
            }
            return Err(error);
        }
        state.runs.extend(runs);
        self.owned_bytes.store(state.owned().bytes(), Ordering::Release);
        if !live.bodies.contains_key(&self.body.id) {
            self.body.placed.store(Arc::new(state.placed()));
            return Ok(());
        }
        live.check().map_err(unknown)?; // O4
        state.runs.iter().for_each(|(_, hold)| hold.set_named(true));
        self.body.placed.store(Arc::new(state.placed()));
        let ticket = live.enqueue(edits, PendingFrees::default(), true);
        drop(live);
        self.logs.committer.settle(ticket).map(drop).map_err(unknown)
    }

    fn write(&self, state: &mut LogState, data: &[u8]) -> Result<(), FilesError> {
        let mut rest = data;
        let mut skip = state.written;
        let mut written = state.written;
        for (index, (range, _)) in state.runs.iter().enumerate() {
            let mut at = range.start + skip.min(range.len);
            skip = skip.saturating_sub(range.len);
            if at == range.start && !rest.is_empty() && !self.logs.space.wait_turn(*range) {
                return Err(self.no_turn(*range)); // O3
            }
            if at == range.start && !rest.is_empty() {
                state.begun_count = index + 1;
                self.logs.reclaimer.begin_zone(*range);
            }
            while at < range.end() && !rest.is_empty() {
                let room = (range.end() - at).bytes().min(PIECE_LEN_BYTES as u64) as usize;
                let (now, later) = rest.split_at(room.min(rest.len()));
                let written_now = self.logs.disk.write(at, now, Persist::Cached);
                written_now.map_err(|source| self.failed("appending to", source))?;
                at += Blocks::holding(now.len() as u64);
                written += Blocks::holding(now.len() as u64);
                rest = later;
                if at == range.end() {
                    self.logs.space.end_turn(*range, true);
                }
            }
        }
        assert!(rest.is_empty(), "the log owns room for what it appends");
        state.written = written;
        Ok(())
    }

    /// Gets runs until the log owns `len` blocks.
    fn own(&self, state: &mut LogState, len: Blocks) -> Result<(), FilesError> {
        while state.owned() < len {
            self.grow(state).inspect_err(|_| {
                // The zones that were to be filled will not be.
                self.logs.space.with(|map| {
                    state.runs.iter().for_each(|(range, _)| map.set_filling(*range, false));
                });
            })?;
        }
        Ok(())
    }

    /// Ends the log, because a write that was placed before `range` in its zone failed. The catalog
    /// already names the run (O1).
    fn no_turn(&self, range: BlockRange) -> FilesError {
        let zone = self.logs.disk.geometry().zone_of(range.start);
        let zone = zone.expect("turns are lost in zones only");
        self.poison(FilesError::NoTurn { name: self.name.clone(), zone })
    }

    fn failed(&self, doing: &str, source: DiskError) -> FilesError {
        self.poison(FilesError::Disk { what: format!("{doing} log {:?}", self.name), source })
    }

    fn poison(&self, error: FilesError) -> FilesError {
        self.poisoned.get_or_init(|| match &error {
            FilesError::NoTurn { zone, .. } => PoisonCause::NoTurn(*zone),
            error => PoisonCause::Failed(error.reason()),
        });
        error
    }

    fn check(&self) -> Result<(), FilesError> {
        match self.poisoned.get() {
            None => Ok(()),
            Some(PoisonCause::Failed(reason)) => {
                Err(FilesError::Poisoned { reason: reason.clone() })
            }
            Some(&PoisonCause::NoTurn(zone)) => {
                Err(FilesError::NoTurn { name: self.name.clone(), zone })
            }
        }
    }

    /// Gives back the blocks that were not written. The next catalog record includes the end (O2).
    fn end(&self) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_finished, true) {
            return;
        }
        let mut left = state.written;
        let owned: Vec<BlockRange> = state.runs.iter().map(|(range, _)| *range).collect();
        for (range, _) in &mut state.runs {
            range.len = left.min(range.len);
            left -= range.len;
        }
        let used: Vec<BlockRange> = state.runs.iter().map(|(range, _)| *range).collect();
        let kept: Vec<BlockRange> = used.iter().copied().filter(|r| !r.len.is_zero()).collect();
        let extents = fill(&kept, state.written.bytes());
        let holds: Vec<Arc<Hold>> = state.runs.iter().map(|(_, hold)| Arc::clone(hold)).collect();
        state.runs.retain(|(range, _)| !range.len.is_zero());
        let mut live = self.logs.committer.lock();
        self.body.placed.store(Arc::new(state.placed()));
        if live.check().is_ok() && live.bodies.contains_key(&self.body.id) {
            live.defer(Edit::Finish { id: self.body.id, extents }, true);
        }
        drop(live);
        // Only now may another log start after this one (O2).
        let is_sound = self.poisoned.get().is_none();
        for (index, ((owned, used), hold)) in owned.iter().zip(&used).zip(&holds).enumerate() {
            // A run that never had its turn may lie after others that wait for theirs.
            if used.len < owned.len && (is_sound || state.begun_count <= index) {
                hold.shrink(used.len);
            } else if used.len < owned.len {
                // A writer that waits for the rest of it would wait forever.
                self.logs.space.end_turn(*owned, false);
                hold.cut(used.len);
            }
            self.logs.space.with(|map| map.set_owned(*owned, false));
        }
    }
}

impl LogWriter for LogFile {
    fn append(&self, data: &[u8]) -> Result<u64, FilesError> {
        self.check()?;
        let mut state = self.state.lock();
        if state.is_finished {
            return Err(FilesError::Finished { name: self.name.clone() });
        }
        let offset = state.written.bytes();
        if data.is_empty() || !data.len().is_multiple_of(BLOCK_LEN_BYTES) {
            let at = state.runs.first().map_or_else(Default::default, |(r, _)| r.start);
            let source = DiskError::NotBlocks { at, len_bytes: data.len() };
            return Err(FilesError::Disk { what: format!("appending to {:?}", self.name), source });
        }
        let len = state.written + Blocks::holding(data.len() as u64);
        self.own(&mut state, len)?;
        if let Err(error) = self.write(&mut state, data) {
            // The zones that were to be filled will not be.
            self.logs.space.with(|map| {
                state.runs.iter().for_each(|(range, _)| map.set_filling(*range, false));
            });
            return Err(error);
        }
        self.body.len_bytes.store(state.written.bytes(), Ordering::Release);
        self.logs.counts.wrote(data.len() as u64);
        Ok(offset)
    }

    fn reserve(&self, len_bytes: u64) -> bool {
        if len_bytes <= self.owned_bytes.load(Ordering::Acquire) {
            return true;
        }
        let mut state = self.state.lock();
        // A log that ended or failed has a better reason to refuse an append.
        let takes_appends = !state.is_finished && self.check().is_ok();
        let owned = takes_appends.then(|| self.own(&mut state, Blocks::holding(len_bytes)));
        !matches!(owned, Some(Err(FilesError::NoSpace { .. })))
    }

    fn sync(&self) -> Result<(), FilesError> {
        self.check()?;
        self.logs.disk.flush().map_err(|source| self.failed("syncing", source))
    }

    fn len_bytes(&self) -> u64 {
        self.body.len_bytes()
    }

    fn finish(&self) -> Result<(), FilesError> {
        self.check()?;
        self.end();
        Ok(())
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        self.end();
    }
}
