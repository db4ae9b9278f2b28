//! Fixed bands with read-modify-write: a disk that takes writes anywhere, over raw shingled tracks.
//!
//! ```text
//!     band          valid data         free      guard
//!     | vvvvvvvvvvvvvvvvvvvvvvvvvvvvvv ......... ggggg |  next band
//!                 ^ write here:        ^ write here: straight through
//!                 read the rest back, modify, write it again
//! ```
//!
//! A block of the host is *valid* from its first write until it is discarded. The layer remembers
//! the valid blocks as runs. A write that destroys nothing valid goes straight through: an append,
//! or an overwrite with nothing valid after it in the band. Any other write first reads the valid
//! blocks that it would destroy, and then writes them again after its own.
//!
//! Consecutive writes that need a rewrite are gathered, as in a drive's write cache: a table that
//! comes in pieces of 1 MiB is one rewrite.
//!
//! With [`Staging::Journaled`] a power cut during a rewrite loses nothing:
//!
//! ```text
//!     1. the new content of the rest of the band -> a staging slot;  flush
//!     2. a record of the rewrite, with a checksum -> the journal;    through
//!     3. the new content -> the band;                                flush
//!     4. "done" -> the journal, with the next records
//! ```
//!
//! After a cut before step 2, the band is as it was; after a later cut, opening repeats step 3. Two
//! slots alternate: before a slot is written again, the flush of step 1 of the rewrite in between
//! has made its "done" durable.
//!
//! Invariants
//!   F1  A valid block that can be read is destroyed only in a rewrite that has a copy of it.
//!   F2  Flushed data is valid after any crash, and can be read.
//!   F3  A block that is not valid reads as zeros, and the disk below holds nothing there that it
//!       would have to preserve.
//!   F4  At most one rewrite is open, and the next begins after the end of the last one is durable
//!       or known.
//!   F5  A write over discarded blocks comes after the durable record of the discard. The drive may
//!       drop a discard, and a power cut would otherwise leave the blocks valid and destroyed.
//!   F6  Blocks that count as valid but were never written are blank on the disk below: they were
//!       found blank, or written.
//!   F7  A valid block that cannot be read when its band is rewritten is left out and stays valid.
//!       It may be destroyed; reading it is an error until it is written again.
//!
//! Memory: the valid runs (at most [`BandOptions::run_count_max`] and one a band), the gathered
//! writes, and one band during a rewrite.
//! Source: drive-managed disks as emulated by SEALDB (section II-B, table II) and SMRDB.
//! Not here: which files share a band (`files`), the physics of the platter (`disk-sim`).

mod below;
mod device;
mod error;
mod format;
mod journal;
mod layout;
mod options;
mod plan;
mod recover;
mod runs;

pub use below::BandCounters;
pub use error::BandsError;
pub use options::{BandOptions, ReadBack, Staging};

use below::{Below, Purpose};
use error::during;
use format::{Record, RegionHead, Rewrite};
use imbrex_disk::{
    Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Lba, Pba, Persist,
    ReadRequest,
};
use journal::{BandJournal, Change};
use layout::{BandLayout, Region};
use plan::{Plan, plan_rewrite, plan_write};
use recover::Image;
use runs::Runs;
use std::mem;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A disk that takes writes anywhere, over raw shingled tracks; see the module.
#[derive(Debug)]
pub struct FixedBands {
    layout: BandLayout,
    below: Below,
    state: RwLock<BandState>,
}

/// The length of a band and of the guard after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandShape {
    /// The host's blocks of a band, which follow those of the band before.
    pub band_len: Blocks,
    /// The blocks of the drive between two bands: the rest of the last track, and the tracks that a write there
    /// destroys.
    pub guard_len: Blocks,
}

#[derive(Debug)]
struct BandState {
    valid: Runs,
    journal: BandJournal,
    /// Blocks that were discarded but would be valid again after a power cut (F5).
    discarded: Runs,
    next_seq: u64,
    /// What the request under way serves.
    activity: Activity,
    /// A write that is gathered before its band is rewritten.
    waiting: Option<Waiting>,
    /// The buffer of the last rewrite, with any content: allocating a whole band is not cheap.
    image: Vec<u8>,
    /// A request failed half-way: what is durable is unknown.
    is_poisoned: bool,
    /// The band whose rewrite failed: its content is in the slot, where this instance cannot read
    /// it.
    torn: Option<BlockRange>,
}

/// Blocks that were acknowledged and are only in memory, as in a drive's write cache.
#[derive(Debug)]
struct Waiting {
    range: BlockRange,
    activity: Activity,
    data: Vec<u8>,
}

impl Waiting {
    /// Copies the waiting blocks over what was read.
    fn overlay(&self, request: &mut ReadRequest<'_>) {
        let len = Blocks::holding(request.buf.len() as u64);
        let start = self.range.start.max(request.at);
        let end = self.range.end().min(request.at + len);
        if start < end {
            let bytes = |from: Lba, to: Lba| (to - from).bytes() as usize;
            request.buf[bytes(request.at, start)..bytes(request.at, end)].copy_from_slice(
                &self.data[bytes(self.range.start, start)..bytes(self.range.start, end)],
            );
        }
    }
}

impl FixedBands {
    /// Makes bands on `disk`, and discards its content.
    ///
    /// # Errors
    /// [`BandsError::WrongRule`], [`BandsError::Option`], [`BandsError::TooSmall`],
    /// [`BandsError::Disk`].
    pub fn format(disk: Arc<dyn Disk>, options: &BandOptions) -> Result<FixedBands, BandsError> {
        let layout = BandLayout::plan(disk.geometry(), options)?;
        let below = Below::new(disk);
        let heads = recover::read_heads(&below, &layout).map_err(during("looking for old logs"))?;
        let [first, second] = heads.map(RegionHead::epoch);
        let superblock = layout.superblock.encode();
        let whole = Region { start: imbrex_disk::Pba::new(0), len: layout.superblock.inner_len };
        let make = || {
            below.discard(whole)?;
            if !matches!(heads[1], RegionHead::Absent | RegionHead::Log { .. }) {
                // A discarded block may read as before, and would be taken for a rotten header
                // (J4).
                let blank = [0; BLOCK_LEN_BYTES];
                below.write(layout.logs[1].start, &blank, Persist::Cached, Purpose::Log)?;
            }
            let epoch = first.max(second) + 1;
            let journal = BandJournal::begin(&below, &layout, 0, epoch, &Runs::default())?;
            // The superblocks come last: without them there are no bands.
            for at in layout.superblocks {
                below.write(at, &superblock, Persist::Through, Purpose::Log)?;
            }
            Ok(journal)
        };
        let journal = make().map_err(during("writing the first checkpoint"))?;
        Ok(FixedBands::new(layout, below, Runs::default(), journal, 0))
    }

    /// The geometry of the disk that [`FixedBands::format`] would make of a drive like `inner`.
    /// Neither reads nor writes.
    ///
    /// # Errors
    /// [`BandsError::WrongRule`], [`BandsError::Option`], [`BandsError::TooSmall`].
    pub fn geometry_over(inner: &Geometry, options: &BandOptions) -> Result<Geometry, BandsError> {
        Ok(BandLayout::plan(inner, options)?.geometry)
    }

    /// Opens the bands on `disk`: finishes a rewrite that a power cut interrupted, and writes a
    /// checkpoint.
    ///
    /// # Errors
    /// [`BandsError`] names the damage. The drive can be opened again.
    pub fn open(disk: Arc<dyn Disk>) -> Result<FixedBands, BandsError> {
        let below = Below::new(disk);
        let recovered = recover::recover(&below)?;
        let recover::Recovered { layout, valid, journal, next_seq } = recovered;
        Ok(FixedBands::new(layout, below, valid, journal, next_seq))
    }

    /// Whether `disk` has bands. Writes nothing.
    ///
    /// # Errors
    /// [`BandsError::Format`], [`BandsError::Disk`].
    pub fn are_on(disk: Arc<dyn Disk>) -> Result<bool, BandsError> {
        match recover::read_superblock(&Below::new(disk)) {
            Ok(_) => Ok(true),
            Err(BandsError::NotBands | BandsError::WrongRule { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn new(
        layout: BandLayout,
        below: Below,
        valid: Runs,
        journal: BandJournal,
        next_seq: u64,
    ) -> FixedBands {
        let state = RwLock::new(BandState {
            valid,
            journal,
            discarded: Runs::default(),
            next_seq,
            activity: Activity::Other,
            waiting: None,
            image: Vec::new(),
            is_poisoned: false,
            torn: None,
        });
        FixedBands { layout, below, state }
    }

    /// The options that the bands were made with.
    pub fn options(&self) -> BandOptions {
        let format::Superblock {
            band_len, read_back, staging, gather_len, id, run_count_max, ..
        } = self.layout.superblock;
        BandOptions { band_len, read_back, staging, gather_len, id, run_count_max }
    }

    /// The shape of each band.
    pub fn shape(&self) -> BandShape {
        BandShape { band_len: self.layout.superblock.band_len, guard_len: self.layout.guard_len() }
    }

    /// How many bands there are.
    pub fn band_count(&self) -> u64 {
        self.layout.superblock.band_count
    }

    /// Where the host's block `at` is on the drive below, for tools that inspect it there.
    pub fn locate(&self, at: Lba) -> Pba {
        self.layout.locate(at)
    }

    /// The layer's own work.
    pub fn band_counters(&self) -> BandCounters {
        self.below.band_counters()
    }

    /// How many blocks are valid, not counting those that wait for their rewrite.
    pub fn valid(&self) -> Blocks {
        self.read_state().valid.iter().map(|run| run.len).sum()
    }

    fn read_state(&self) -> RwLockReadGuard<'_, BandState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if the disk still takes writes.
    fn write_state(&self) -> Result<RwLockWriteGuard<'_, BandState>, DiskError> {
        let state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.is_poisoned { Err(DiskError::Poisoned) } else { Ok(state) }
    }

    /// The host's view of a read error. With staging, only blocks that cannot be read are ever
    /// destroyed (F7).
    fn loss_for_host(&self, error: DiskError) -> DiskError {
        match (self.layout.error_for_host(error), self.layout.superblock.staging) {
            (DiskError::Destroyed { range, .. }, Staging::Journaled) => {
                DiskError::Medium { at: range.start }
            }
            (error, _) => error,
        }
    }

    /// Makes room in the journal for what a request may add.
    fn make_room(&self, state: &mut BandState) -> Result<(), DiskError> {
        let BandState { journal, valid, discarded, is_poisoned, .. } = state;
        if journal.is_long() {
            journal
                .write_out(&self.below, &self.layout, Persist::Cached)
                .inspect_err(|_| *is_poisoned = true)?;
        }
        if !journal.is_full(&self.layout) {
            return Ok(());
        }
        journal
            .switch_region(&self.below, &self.layout, valid)
            .inspect_err(|_| *is_poisoned = true)?;
        *discarded = Runs::default();
        Ok(())
    }

    /// Makes room in the journal for what `write` may add, and keeps the number of runs within its
    /// bound: where `write` would exceed it, the blocks between it and its neighbour count as valid
    /// from now on.
    fn make_room_for(&self, state: &mut BandState, write: BlockRange) -> Result<(), DiskError> {
        self.make_room(state)?;
        let Some(gap) = self.gap_to_close(&state.valid, write) else { return Ok(()) };
        // Writes that the disk below has not finished may still destroy something there.
        self.flush_all(state)?;
        let mut parts: Vec<BlockRange> = self.layout.by_band(gap).collect();
        let is_blank = |part: &BlockRange| {
            let region = Region { start: self.layout.locate(part.start), len: part.len };
            self.below.is_blank(region)
        };
        if parts.iter().all(is_blank) {
            make_valid(state, gap);
            return self.make_room(state);
        }
        // A dropped discard, or a part of a write that failed (F6). In this order, each part joins
        // valid blocks.
        if write.end() == gap.start {
            parts.reverse();
        }
        for part in parts {
            let zeros = vec![0; part.len.bytes() as usize];
            self.rewrite_with(state, &[(part, &zeros)], 0)?;
            self.make_room(state)?;
        }
        Ok(())
    }

    /// The blocks that must count as valid so that `write` does not exceed the bound on runs. A
    /// band in which nothing is valid gets one run more while the log has room for it.
    fn gap_to_close(&self, valid: &Runs, write: BlockRange) -> Option<BlockRange> {
        let count = valid.count() as u64;
        if count < self.layout.superblock.run_count_max || valid.touches(write) {
            return None;
        }
        let around = match count < self.layout.run_count_limit() {
            true => self.layout.band_of(write.start),
            false => BlockRange::new(Lba::new(0), self.layout.geometry.len()),
        };
        let head = BlockRange::new(around.start, write.start - around.start);
        let tail = BlockRange::new(write.end(), around.end() - write.end());
        let (left_end, right) = (valid.end_within(head), valid.within(tail).next());
        if right.is_some_and(|right| right.start == write.end()) {
            return None;
        }
        let (start, end) = match (left_end, right) {
            (Some(left_end), _) => (left_end, write.start),
            (None, Some(right)) => (write.end(), right.start),
            (None, None) => return None,
        };
        (start < end).then(|| BlockRange::new(start, end - start))
    }

    /// Makes everything durable.
    fn flush_all(&self, state: &mut BandState) -> Result<(), DiskError> {
        let flush = |state: &mut BandState| {
            state.journal.write_out(&self.below, &self.layout, Persist::Cached)?;
            self.below.flush(state.activity)
        };
        flush(state).inspect_err(|_| state.is_poisoned = true)?;
        state.journal.flushed();
        state.discarded = Runs::default();
        Ok(())
    }

    /// Writes within one band.
    fn write_part(
        &self,
        state: &mut BandState,
        write: BlockRange,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError> {
        if self.join(state, write, data, persist)? {
            return Ok(());
        }
        self.make_room_for(state, write)?;
        match plan_write(&self.layout, &state.valid, write) {
            Plan::Rewrite
                if persist == Persist::Cached && write.len < self.layout.superblock.gather_len =>
            {
                match self.release(state) {
                    Ok(()) => {
                        let (activity, data) = (state.activity, data.to_vec());
                        state.waiting = Some(Waiting { range: write, activity, data });
                    }
                    Err(error) if state.is_poisoned => return Err(error),
                    // The waiting write is in another band and goes on waiting. This one is done at
                    // once.
                    Err(_) => self.rewrite(state, &[(write, data)])?,
                }
            }
            Plan::Direct => self.write_direct(state, write, data, persist)?,
            Plan::Rewrite => {
                self.rewrite(state, &[(write, data)])?;
                // Its pieces went through the cache.
                return if persist == Persist::Through { self.flush_all(state) } else { Ok(()) };
            }
        }
        if persist == Persist::Through && state.journal.has_undurable() {
            self.flush_all(state)?;
        }
        Ok(())
    }

    /// Adds a write to the one that waits in its band. Returns false if it must be done on its own;
    /// then nothing waits in its band.
    fn join(
        &self,
        state: &mut BandState,
        write: BlockRange,
        data: &[u8],
        persist: Persist,
    ) -> Result<bool, DiskError> {
        let Some(waiting) = &mut state.waiting else { return Ok(false) };
        let band = self.layout.band_of(waiting.range.start);
        if !band.contains(write.start) {
            return Ok(false);
        }
        let len = waiting.range.len + write.len;
        let follows = waiting.range.end() == write.start && persist == Persist::Cached;
        if !follows || len > self.layout.superblock.gather_len {
            return match self.release(state) {
                Err(_) if !state.is_poisoned => {
                    // This write may replace the blocks that cannot be read.
                    self.release_with(state, write, data)?;
                    if persist == Persist::Through {
                        self.flush_all(state)?;
                    }
                    Ok(true)
                }
                done => done.map(|()| false),
            };
        }
        waiting.range.len = len;
        waiting.data.extend_from_slice(data);
        if write.end() == band.end() {
            self.release(state)?;
        }
        Ok(true)
    }

    /// Does the waiting write. If that fails, the write goes on waiting.
    fn release(&self, state: &mut BandState) -> Result<(), DiskError> {
        let Some(Waiting { range, activity, data }) = state.waiting.take() else { return Ok(()) };
        let under_way = mem::replace(&mut state.activity, activity);
        let done = self.make_room_for(state, range).and_then(|()| {
            // Blocks that were discarded meanwhile need not be read back.
            match plan_write(&self.layout, &state.valid, range) {
                Plan::Direct => self.write_direct(state, range, &data, Persist::Cached),
                Plan::Rewrite => self.rewrite(state, &[(range, &data)]),
            }
        });
        state.activity = under_way;
        if done.is_err() {
            state.waiting = Some(Waiting { range, activity, data });
        }
        done
    }

    /// Does the waiting write and `write`, of the same band, in one rewrite. If that fails, neither
    /// is done.
    fn release_with(
        &self,
        state: &mut BandState,
        write: BlockRange,
        data: &[u8],
    ) -> Result<(), DiskError> {
        let Some(Waiting { range, activity, data: waiting }) = state.waiting.take() else {
            return Ok(());
        };
        let bytes = |part: BlockRange| {
            let from = (part.start - range.start).bytes() as usize;
            &waiting[from..from + part.len.bytes() as usize]
        };
        let older = without(range, Some(write)).map(|part| (part, bytes(part)));
        let mut own: Vec<(BlockRange, &[u8])> = older.chain([(write, data)]).collect();
        own.sort_unstable_by_key(|(part, _)| part.start);
        let done = own.iter().try_for_each(|&(part, _)| self.make_room_for(state, part));
        let done = done.and_then(|()| self.rewrite(state, &own));
        if done.is_err() {
            state.waiting = Some(Waiting { range, activity, data: waiting });
        }
        done
    }

    /// Writes straight through.
    fn write_direct(
        &self,
        state: &mut BandState,
        write: BlockRange,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError> {
        let destroyed = [self.layout.reach(write), self.layout.own_reach(write)];
        if destroyed.into_iter().any(|reach| state.discarded.touches(reach)) {
            // F5
            self.flush_all(state)?;
        }
        let at = self.layout.locate(write.start);
        let direct = Purpose::Direct { activity: state.activity };
        if let Err(error) = self.below.write(at, data, persist, direct) {
            self.give_back(state, write);
            return Err(error);
        }
        make_valid(state, write);
        Ok(())
    }

    /// Discards what a failed write may have left where nothing is valid: a drive that refuses to
    /// destroy would preserve it (F3).
    fn give_back(&self, state: &BandState, write: BlockRange) {
        for gap in state.valid.gaps(write) {
            // A hint only: the cause of the failed write may make this fail too.
            let _ =
                self.below.discard(Region { start: self.layout.locate(gap.start), len: gap.len });
        }
    }

    /// Reads the valid rest of the band, and writes it again together with the host's `own`, in
    /// order of address.
    fn rewrite(&self, state: &mut BandState, own: &[(BlockRange, &[u8])]) -> Result<(), DiskError> {
        let host_bytes = own.iter().map(|(_, data)| data.len() as u64).sum();
        self.rewrite_with(state, own, host_bytes)
    }

    /// Like `rewrite`, where only `host_bytes` of `own` are the host's.
    fn rewrite_with(
        &self,
        state: &mut BandState,
        own: &[(BlockRange, &[u8])],
        host_bytes: u64,
    ) -> Result<(), DiskError> {
        let ranges: Vec<BlockRange> = own.iter().map(|&(range, _)| range).collect();
        let (read, mut pieces) = plan_rewrite(&self.layout, &state.valid, &ranges);
        let mut image = mem::take(&mut state.image);
        let mut filled = self.fill_image(&mut image, own, &read, &pieces);
        if let Err(DiskError::Medium { .. } | DiskError::Destroyed { .. }) = filled {
            // F7
            let readable = self.without_unreadable(&state.valid, &read)?;
            let (read, rest) = plan_rewrite(&self.layout, &readable, &ranges);
            if rest.len() as u64 <= self.layout.piece_count_max() {
                filled = self.fill_image(&mut image, own, &read, &rest);
                pieces = rest;
            }
        }
        filled?;
        let is_journaled = self.layout.superblock.staging == Staging::Journaled;
        let seq = state.next_seq;
        if is_journaled {
            let rewrite = Rewrite {
                seq,
                slot: (seq % 2) as u32,
                crc: crc32c::crc32c(&image),
                pieces: pieces.clone(),
            };
            self.stage(state, &image, rewrite).inspect_err(|_| state.is_poisoned = true)?;
            state.next_seq += 1;
        }
        let band = Image { pieces: &pieces, bytes: &image, host_bytes };
        let done = match self.layout.superblock.staging {
            Staging::Journaled => {
                recover::rewrite_from_slot(&self.below, &self.layout, &state.valid, band)
            }
            Staging::None => recover::write_pieces(&self.below, &self.layout, band),
        };
        if let Err(error) = done {
            state.is_poisoned = true;
            state.torn = Some(self.layout.band_of(pieces[0].start));
            return Err(error);
        }
        self.below.count_rewrite();
        ranges.into_iter().for_each(|range| make_valid(state, range));
        if is_journaled {
            state.journal.flushed();
            state.journal.push(&Record::Done { seq });
        }
        state.image = image;
        Ok(())
    }

    /// `valid` without the blocks of `runs` that cannot be read.
    fn without_unreadable(&self, valid: &Runs, runs: &[BlockRange]) -> Result<Runs, DiskError> {
        let mut readable = valid.clone();
        for run in runs {
            let at = self.layout.locate(run.start);
            for lost in self.below.unreadable(Region { start: at, len: run.len })? {
                let start = run.start + (lost - at);
                readable.remove(BlockRange::new(start, Blocks::new(1)));
            }
        }
        Ok(readable)
    }

    /// Fills `image` with the new contents of `pieces`, one after another.
    fn fill_image(
        &self,
        image: &mut Vec<u8>,
        own: &[(BlockRange, &[u8])],
        read: &[BlockRange],
        pieces: &[BlockRange],
    ) -> Result<(), DiskError> {
        let len: Blocks = pieces.iter().map(|piece| piece.len).sum();
        image.resize(len.bytes() as usize, 0);
        let mut requests = Vec::with_capacity(read.len());
        let mut rest = &mut image[..];
        let mut sources: Vec<(BlockRange, Option<&[u8]>)> =
            read.iter().map(|&run| (run, None)).collect();
        sources.extend(own.iter().map(|&(range, data)| (range, Some(data))));
        sources.sort_unstable_by_key(|(run, _)| run.start);
        for (run, data) in sources {
            let (buf, behind) = rest.split_at_mut(run.len.bytes() as usize);
            rest = behind;
            if let Some(data) = data {
                buf.copy_from_slice(data);
            } else {
                let at = Lba::new(self.layout.locate(run.start).get());
                requests.push(ReadRequest { at, buf });
            }
        }
        assert!(rest.is_empty(), "the pieces cover the blocks that are read and written");
        if !requests.is_empty() {
            let result = self.below.read_back(&mut requests);
            result.map_err(|error| self.layout.error_for_host(error))?;
        }
        Ok(())
    }

    /// Steps 1 and 2 of a rewrite.
    fn stage(
        &self,
        state: &mut BandState,
        image: &[u8],
        rewrite: Rewrite,
    ) -> Result<(), DiskError> {
        let slot = self.layout.slots[rewrite.slot as usize];
        state.journal.write_out(&self.below, &self.layout, Persist::Cached)?;
        self.below.discard(slot)?;
        self.below.write(slot.start, image, Persist::Cached, Purpose::Stage)?;
        self.below.flush(Activity::Cleaning)?;
        state.journal.flushed();
        state.discarded = Runs::default();
        state.journal.push(&Record::Rewrite(rewrite));
        state.journal.write_out(&self.below, &self.layout, Persist::Through)
    }
}

fn make_valid(state: &mut BandState, range: BlockRange) {
    if !state.valid.holds(range) {
        state.valid.insert(range);
        state.journal.note(Change::Valid, range);
    }
}

/// The parts of `run` before and after `hole`.
fn without(run: BlockRange, hole: Option<BlockRange>) -> impl Iterator<Item = BlockRange> {
    let hole = hole.filter(|hole| hole.overlaps(run));
    let hole = hole.unwrap_or(BlockRange::new(run.end(), Blocks::ZERO));
    let before = BlockRange::new(run.start, hole.start.max(run.start) - run.start);
    let behind = hole.end().min(run.end());
    let behind = BlockRange::new(behind, run.end() - behind);
    [before, behind].into_iter().filter(|part| !part.len.is_zero())
}

#[cfg(test)]
mod tests;
