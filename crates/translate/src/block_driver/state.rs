//! What the driver holds, and what it does with it: admit, evict, journal, keep pace. All of it under one
//! lock, but for what a read of the host asks of the drive. Cleaning is in `clean`, checkpoints are in `checkpoint`.

use super::buffer::{Buffer, JournalIndex};
use super::checkpoint::Writing;
use super::cleaning::{Cleaning, Debt};
use super::error::{broken, no_room};
use super::format::{
    self, ENTRY_DATA_LEN_MAX, RECORD_COUNT_MAX, Record, Superblock, encode_header,
};
use super::journal::{Journal, JournalUse};
use super::mapping::{Mapping, PbaRange};
use super::options::{DriverCounters, DriverOptions};
use super::pool::{Pool, PoolZone, Stream, Use};
use super::regions::{EvictionOrder, Regions};
use super::step::{CLEAN_STEP_LEN_MAX, STEP_LEN};
use super::summaries::{Part, Reading, Summaries};
use super::superblocks::Slots;
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Known, Lba, Pba, Persist, ReadRequest,
    ZoneId,
};
use std::sync::Arc;

/// How much the host writes before it goes to the journal, if nobody asks for it earlier.
const GROUP_LEN: Blocks = Blocks::new(256);
/// Records that wait at most before they are journaled.
const WAITING_RECORD_COUNT_MAX: usize = 4096;
/// Of the write buffer and of the journal, what may be in use before work begins (the paper's 90 %).
const WATERMARK_PERMILLE: u64 = 900;
/// So much may be written to the journal once more to free one of its zones: a sixth of the zone, and an eighth of
/// the write buffer. What other shares measured is in decision 37.
const KEPT_ZONE_SHARE: u64 = 6;
const KEPT_BUFFER_SHARE: u64 = 8;
/// Zones that only cleaning, checkpoints and a full journal may take, besides those of a checkpoint and of
/// one cleaning.
pub(super) const RESERVE_ZONE_COUNT: usize = 4;
/// So many of them may be missing once the journal has been emptied: the next emptying takes one at most, and the host
/// waits less where its own next zone brings them back.
const MISSING_ZONE_COUNT_MAX: usize = 2;
const _: () = assert!(MISSING_ZONE_COUNT_MAX < RESERVE_ZONE_COUNT);

/// Everything that changes.
#[derive(Debug)]
pub(super) struct State {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: DriverOptions,
    pub(super) superblock: Superblock,
    pub(super) slots: Slots,
    pub(super) map: Mapping,
    pub(super) buffer: Buffer,
    pub(super) regions: Regions,
    pub(super) copies: JournalIndex,
    /// What is in the buffer and not yet in the journal.
    pub(super) pending: Regions,
    /// What is not yet in the journal of what else happened.
    pub(super) records: Vec<Record>,
    pub(super) journal: Journal,
    pub(super) seq: u64,
    /// Entries below that one, and what they tell of, are flushed; 0 before the first flush.
    flushed_seq: u64,
    pub(super) pool: Pool,
    pub(super) summaries: Summaries,
    /// What the host wrote and the drive lost, and no map leads to any more: until what is written there next is in
    /// the journal.
    pub(super) lost: Regions,
    /// The zones being written: what is evicted, and what cleaning moves.
    pub(super) open: [Option<ZoneId>; 2],
    pub(super) evicting: Option<BlockRange>,
    pub(super) cleaning: Option<Cleaning>,
    /// What cleaning owes the host's writes; see [`State::clean_apace`].
    pub(super) debt: Debt,
    pub(super) writing: Option<Writing>,
    pub(super) counters: DriverCounters,
    /// What went from memory to data zones, in order, if the options ask for the list.
    pub(super) evictions: Vec<BlockRange>,
    pub(super) is_poisoned: bool,
    /// The journal is full and being emptied: nothing may be written to it meanwhile.
    is_emptying_journal: bool,
    /// Zones of superblocks in which the newest is followed by something else.
    pub(super) are_slots_broken: [bool; 2],
}

impl State {
    #[expect(clippy::too_many_arguments, reason = "what opening has found out, once")]
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        options: &DriverOptions,
        superblock: Superblock,
        slots: Slots,
        map: Mapping,
        copies: JournalIndex,
        journal: Journal,
        pool: Pool,
    ) -> State {
        let id = superblock.id;
        State {
            disk,
            superblock,
            slots,
            map,
            buffer: Buffer::new(options.buffer_len),
            regions: Regions::new(options.eviction),
            copies,
            pending: Regions::new(EvictionOrder::LargestRegion),
            records: Vec::new(),
            journal,
            seq: 1,
            flushed_seq: 0,
            pool,
            summaries: Summaries::new(id, options.kept_summary_count),
            lost: Regions::new(EvictionOrder::LargestRegion),
            open: [None; 2],
            evicting: None,
            cleaning: None,
            debt: Debt::default(),
            writing: None,
            counters: DriverCounters::default(),
            evictions: Vec::new(),
            is_poisoned: false,
            is_emptying_journal: false,
            are_slots_broken: [false; 2],
            options: options.clone(),
        }
    }

    // What the host asks for.

    pub(super) fn write(&mut self, at: Lba, data: &[u8]) -> Result<(), DiskError> {
        let range = BlockRange::new(at, Blocks::holding(data.len() as u64));
        self.counters.host_blocks += range.len.get();
        if self.options.bypass_len <= range.len || self.buffer.capacity() < range.len {
            self.counters.bypassed_blocks += range.len.get();
            self.append(Stream::Host, data, &[range])?;
        } else {
            while self.buffer.capacity() < self.buffer.len() + range.len {
                self.evict_step()?;
            }
            self.buffer.write(at, data);
            self.regions.insert(range);
            self.pending.insert(range);
        }
        if GROUP_LEN <= self.pending.total() || WAITING_RECORD_COUNT_MAX <= self.records.len() {
            self.commit()?;
        }
        self.pace(range.len)
    }

    /// Answers what is in memory, and says what has to be read for the rest.
    pub(super) fn begin_read<'a>(
        &mut self,
        requests: &'a mut [ReadRequest<'_>],
    ) -> Result<Reading<'a>, DiskError> {
        let mut parts = Vec::new();
        for request in requests.iter_mut() {
            let range = BlockRange::new(request.at, Blocks::holding(request.buf.len() as u64));
            self.buffer.read_over(request.at, request.buf);
            let (mut at, mut rest) = (range.start, &mut *request.buf);
            let held: Vec<BlockRange> = self.regions.within(range).collect();
            let ends = held.iter().map(|run| run.start).chain([range.end()]);
            let starts = [range.start].into_iter().chain(held.iter().map(|run| run.end()));
            for (start, end) in starts.zip(ends) {
                if let Some(lost) = self.lost.within(BlockRange::new(start, end - start)).next() {
                    return Err(DiskError::Medium { at: lost.start });
                }
                for piece in self.map.lookup(BlockRange::new(start, end - start)) {
                    let (_, behind) = rest.split_at_mut((piece.range.start - at).bytes() as usize);
                    let (buf, behind) = behind.split_at_mut(piece.range.len.bytes() as usize);
                    match piece.at {
                        Some(pba) => parts.push(Part { at: pba, lba: piece.range.start, buf }),
                        None => buf.fill(0),
                    }
                    (at, rest) = (piece.range.end(), behind);
                }
            }
        }
        self.summaries.cut(&self.pool, parts)
    }

    /// What is known of the first block of `range`, and for how many more that is so.
    pub(super) fn known(&self, range: BlockRange) -> (Known, Blocks) {
        let first = [self.regions.within(range).next(), self.lost.within(range).next()];
        let held = first.into_iter().flatten().min_by_key(|run| run.start);
        let held_from = held.map_or(range.end(), |run| run.start);
        if let Some(run) = held.filter(|run| run.start == range.start) {
            return (Known::Nothing, run.len);
        }
        let unheld = BlockRange::new(range.start, held_from - range.start);
        let mut pieces = self.map.lookup(unheld);
        match pieces.next() {
            Some(piece) if piece.at.is_none() => (Known::Unwritten, piece.range.len),
            first => {
                let mapped = pieces.take_while(|piece| piece.at.is_some());
                let len = first.into_iter().chain(mapped).map(|piece| piece.range.len).sum();
                (Known::Nothing, len)
            }
        }
    }

    pub(super) fn trim(&mut self, range: BlockRange) -> Result<(), DiskError> {
        self.forget(range);
        let displaced = self.map.unset(range);
        self.note_displaced(&displaced);
        self.records.push(Record::Trimmed { range });
        if WAITING_RECORD_COUNT_MAX <= self.records.len() {
            self.commit()?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), DiskError> {
        self.commit()?;
        self.flush_drive()?;
        if self.journal.has_untold_loss {
            self.checkpoint_now()?;
        }
        Ok(())
    }

    pub(super) fn flush_drive(&mut self) -> Result<(), DiskError> {
        self.disk.flush()?;
        self.flushed_seq = self.seq;
        // Where the journal is being emptied a commit holds records that are neither here nor there.
        if self.records.is_empty() && !self.is_emptying_journal {
            self.clear_all(Use::Recorded);
        }
        Ok(())
    }

    // The write buffer.

    /// The buffer does not hold `range` any more.
    fn forget(&mut self, range: BlockRange) {
        self.buffer.remove(range);
        self.regions.remove(range);
        self.pending.remove(range);
        self.copies.forget(range);
        self.lost.remove(range);
    }

    /// Evicts a piece of the next victim.
    fn evict_step(&mut self) -> Result<u64, DiskError> {
        let rest = self.evicting.take().and_then(|rest| self.regions.within(rest).next());
        let Some(victim) = rest.or_else(|| self.regions.victim()) else { return Ok(0) };
        let len = Blocks::new(victim.len.get().min(STEP_LEN));
        let behind = victim.start + len;
        if behind < victim.end() {
            self.evicting = Some(BlockRange::new(behind, victim.end() - behind));
        }
        self.evict(&[BlockRange::new(victim.start, len)])
    }

    /// Evicts regions, which are written one behind the other.
    fn evict(&mut self, regions: &[BlockRange]) -> Result<u64, DiskError> {
        let mut data = Vec::new();
        for &region in regions {
            self.buffer.append_to(region, &mut data);
        }
        let count = (data.len() / BLOCK_LEN_BYTES) as u64;
        self.counters.evicted_runs += regions.len() as u64;
        self.counters.evicted_blocks += count;
        self.append(Stream::Host, &data, regions)?;
        Ok(count)
    }

    /// Writes `data`, the content of `ranges` one behind the other, where a stream is, and maps them to it.
    /// False if what cleaning has read may not be the newest any more: then the rest stays where it is.
    pub(super) fn append(
        &mut self,
        stream: Stream,
        data: &[u8],
        ranges: &[BlockRange],
    ) -> Result<bool, DiskError> {
        let mut rest = data;
        let mut ranges = ranges.iter().copied();
        let mut unplaced = ranges.next();
        while unplaced.is_some() {
            let checkpoints = self.counters.checkpoints;
            let (zone, at, room) = self.place(stream)?;
            if stream == Stream::Cleaning && checkpoints != self.counters.checkpoints {
                // There was no zone to be had before the journal was emptied: that evicts, and may clean.
                return Ok(false);
            }
            let (now, behind) = rest.split_at(rest.len().min(room.bytes() as usize));
            let before = (ranges.clone(), unplaced);
            let mut placed = Vec::new();
            let mut left = PbaRange { start: at, len: Blocks::holding(now.len() as u64) };
            while let Some(range) = unplaced.filter(|_| !left.len.is_zero()) {
                let len = range.len.min(left.len);
                placed.push((BlockRange::new(range.start, len), left.start));
                left = PbaRange { start: left.start + len, len: left.len - len };
                let behind = BlockRange::new(range.start + len, range.len - len);
                unplaced = if behind.len.is_zero() { ranges.next() } else { Some(behind) };
            }
            let lbas = placed
                .iter()
                .flat_map(|(range, _)| (range.start.get()..range.end().get()).map(Lba::new));
            match self.write_data(zone, now, lbas) {
                Ok(()) => rest = behind,
                Err(error) if self.passes_over(zone, &error) => {
                    (ranges, unplaced) = before;
                    continue;
                }
                Err(error) => return Err(error),
            }
            for (range, at) in placed {
                self.put(stream, range, at)?;
            }
            self.seal_if_full(zone)?;
        }
        Ok(true)
    }

    /// Passes over a zone that the drive has given up, as it said when the first was to be written there: nothing is
    /// lost, and another one does as well. False if `error` says something else.
    pub(super) fn passes_over(&mut self, zone: ZoneId, error: &DiskError) -> bool {
        let is_given_up =
            matches!(error, DiskError::ZoneNotWritable { .. } | DiskError::Offline { .. });
        let is_blank = self.pool.get(zone).is_some_and(|slot| slot.pointer.is_zero());
        if is_given_up && is_blank {
            self.pool.set(zone, Use::Lost);
            self.summaries.forget(zone);
            self.open.iter_mut().filter(|open| **open == Some(zone)).for_each(|open| *open = None);
        }
        is_given_up && is_blank
    }

    /// `range` lies in a data zone now, by the host's writes or by cleaning.
    fn put(&mut self, stream: Stream, range: BlockRange, at: Pba) -> Result<(), DiskError> {
        // The buffer has it until the map does.
        let displaced = self.map.set(range, at).map_err(|error| broken(&error))?;
        let record = match stream {
            Stream::Host => {
                self.forget(range);
                if self.options.lists_evictions {
                    self.evictions.push(range);
                }
                Record::Evicted { range, at }
            }
            Stream::Cleaning => {
                self.counters.moved_blocks += range.len.get();
                Record::Moved { range, at }
            }
        };
        self.note_displaced(&displaced);
        self.records.push(record);
        Ok(())
    }

    fn note_displaced(&mut self, displaced: &[PbaRange]) {
        for place in displaced {
            if let Some(slot) = self.pool.zone_of(place.start)
                && matches!(slot.used, Use::Sealed | Use::Unreadable)
                && self.map.valid(slot.zone).is_zero()
            {
                let zone = slot.zone;
                self.pool.set(zone, Use::Emptied);
            }
        }
    }

    /// Ends a zone that is full. The flush is what keeps a power cut from leaving many zones written in
    /// part: a drive may have only so many.
    fn seal_if_full(&mut self, zone: ZoneId) -> Result<(), DiskError> {
        if self.pool.get(zone).is_some_and(PoolZone::is_full) {
            let is_empty = self.map.valid(zone).is_zero();
            self.pool.set(zone, if is_empty { Use::Emptied } else { Use::Sealed });
            self.open.iter_mut().filter(|open| **open == Some(zone)).for_each(|open| *open = None);
            self.disk.flush()?;
        }
        Ok(())
    }

    // The data zones.

    /// Where the next blocks of a stream go, and how many fit there.
    fn place(&mut self, stream: Stream) -> Result<(ZoneId, Pba, Blocks), DiskError> {
        if self.open[stream as usize].is_none() {
            if stream == Stream::Host
                && !self.is_emptying_journal
                && let Some(shared) = self.make_room()?
            {
                return Ok(shared);
            }
            // Making room may have opened one, to empty the journal.
            if self.open[stream as usize].is_none() {
                let zone = self.take_zone(Use::Open)?;
                self.debt.taken_zones += usize::from(stream == Stream::Cleaning);
                self.pool.set_generation(zone, self.seq);
                self.records.push(Record::Opened { zone, generation: self.seq });
                self.open[stream as usize] = Some(zone);
            }
        }
        let zone = self.open[stream as usize].expect("opened above");
        let (at, room) = self.pool.rest(zone);
        Ok((zone, at, room))
    }

    /// Zones that the host does not get. A cleaning under way has some of its own already.
    pub(super) fn reserve(&self) -> usize {
        let taken = self.debt.taken_zones.min(self.options.cleaning.chosen_count());
        self.reserve_between_cleanings() - taken
    }

    /// The same where no cleaning is under way. A checkpoint under way has some of its own already, too.
    pub(super) fn reserve_between_cleanings(&self) -> usize {
        let taken = self.writing.as_ref().map_or(0, Writing::taken_zone_count);
        let checkpoint = self.checkpoint_zone_count().saturating_sub(taken);
        RESERVE_ZONE_COUNT + self.options.cleaning.chosen_count() + checkpoint
    }

    fn take_zone(&mut self, used: Use) -> Result<ZoneId, DiskError> {
        if self.pool.free() == 0 && !self.is_emptying_journal {
            self.reclaim()?;
        }
        let taken = self.pool.take(&*self.disk, used)?;
        let none = || no_room("no zone of the drive is free for the block driver".to_owned());
        let zone = taken.ok_or_else(none)?;
        self.summaries.forget(zone);
        Ok(zone)
    }

    /// Sees to it that more zones are free than the reserve, or that the host has one, or a part of one: that is
    /// returned as [`Self::place`] would.
    fn make_room(&mut self) -> Result<Option<(ZoneId, Pba, Blocks)>, DiskError> {
        loop {
            self.pool.blank(&*self.disk, self.reserve())?;
            if self.reserve() < self.pool.free() {
                return Ok(None);
            } else if self.pool.count(Use::Emptied) + self.pool.count(Use::Recorded) > 0 {
                self.reclaim()?;
            } else if self.has_abandoned() {
                self.save_copies()?;
                self.checkpoint_now()?;
            } else if self.lend_zone() {
                return Ok(None);
            } else if let Some(shared) = self.share_zone() {
                return Ok(Some(shared));
            } else if self.clean_step(true, CLEAN_STEP_LEN_MAX)? == 0
                && !self.abandon_unreadable()?
            {
                return Err(no_room("the block driver finds no zone to clean".to_owned()));
            }
        }
    }

    /// Nothing that matters is in zones of one use any more; what a stretch without its summary had in memory (S3) goes
    /// with it.
    pub(super) fn clear_all(&mut self, from: Use) {
        for zone in self.pool.clear_all(&*self.disk, from) {
            self.summaries.forget(zone);
        }
    }

    /// Makes zones resettable in which nothing is valid: a record, and a flush.
    pub(super) fn reclaim(&mut self) -> Result<(), DiskError> {
        for zone in self.pool.promote(Use::Emptied, Use::Recorded) {
            self.records.push(Record::Emptied { zone });
        }
        self.flush()
    }

    // The journal.

    /// What zones of the journal held that are offline now is in memory only, and has to be journaled once more. True
    /// if there is any.
    fn leave_offline_zones(&mut self) -> bool {
        let zones = self.journal.leave_offline(&*self.disk);
        let lost: Vec<BlockRange> =
            zones.into_iter().flat_map(|zone| self.copies.ranges_in(zone)).collect();
        for &range in &lost {
            self.pending.insert(range);
        }
        !lost.is_empty()
    }

    /// Sees to it that a checkpoint, which says that nothing is needed of offline zones, says what is true.
    fn save_copies(&mut self) -> Result<(), DiskError> {
        if self.leave_offline_zones() { self.commit() } else { Ok(()) }
    }

    /// Writes to the journal what is not yet there. Not durable before the drive's flush.
    pub(super) fn commit(&mut self) -> Result<(), DiskError> {
        if self.is_emptying_journal {
            // The checkpoint that ends it says all that happened, and what is pending waits for the room.
            return Ok(());
        }
        // An entry is no more than half of a short zone, and of that both copies of its header are half.
        let quarter = self.journal.zone_len().get() / 4;
        let record_count_max = format::record_count(Blocks::new(quarter / 2)).min(RECORD_COUNT_MAX);
        // S2: before the records of what they are the checksums of.
        let untold = self.summaries.take_untold(&self.pool);
        drop(self.records.splice(0..0, untold));
        loop {
            // One that was open and is full may have been left unnoticed.
            self.leave_offline_zones();
            let count = self.records.len().min(record_count_max / 2);
            let records: Vec<Record> = self.records.drain(..count).collect();
            let mut data = Vec::new();
            let mut ranges = Vec::new();
            if self.records.is_empty() {
                let fit = (record_count_max - records.len()) as u64;
                let mut room = ENTRY_DATA_LEN_MAX.min(quarter).min(fit);
                for range in self.pending.iter() {
                    if room == 0 {
                        break;
                    }
                    let part = BlockRange::new(range.start, Blocks::new(range.len.get().min(room)));
                    room -= part.len.get();
                    self.buffer.append_to(part, &mut data);
                    ranges.push(part);
                }
            }
            if records.is_empty() && ranges.is_empty() {
                return Ok(());
            }
            let data_len = Blocks::holding(data.len() as u64);
            let header_len = format::header_len(records.len() + data_len.get() as usize);
            if self.journal.room() < format::both_len(header_len) + data_len
                && !self.turn_journal()?
            {
                continue;
            }
            self.write_entry(records, &ranges, &data)?;
        }
    }

    /// Writes an entry: records, and `data`, the content of `ranges` one behind the other.
    fn write_entry(
        &mut self,
        mut records: Vec<Record>,
        ranges: &[BlockRange],
        data: &[u8],
    ) -> Result<(), DiskError> {
        let data_len = Blocks::holding(data.len() as u64);
        let header_len = format::header_len(records.len() + data_len.get() as usize);
        let start = self.journal.next();
        let data_at = start + format::both_len(header_len);
        let lbas =
            ranges.iter().flat_map(|range| (range.start.get()..range.end().get()).map(Lba::new));
        for ((index, lba), block) in (0..).zip(lbas).zip(data.chunks_exact(BLOCK_LEN_BYTES)) {
            let (at, crc) = (data_at + Blocks::new(index), crc32c::crc32c(block));
            records.push(Record::Data { lba, at, crc });
            self.journal.note_crcs(at, std::iter::once(crc));
        }
        let mut bytes = encode_header(
            self.superblock.id,
            [self.seq, self.flushed_seq],
            start,
            &records,
            data_len,
        );
        bytes.extend_from_slice(data);
        self.disk.write(Lba::new(start.get()), &bytes, Persist::Cached)?;
        let len = Blocks::holding(bytes.len() as u64);
        self.journal.advance(len);
        self.counters.journal_blocks += len.get();
        self.seq += 1;
        let mut at = data_at;
        for &range in ranges {
            self.copies.record(range, at).map_err(|error| broken(&error))?;
            self.pending.remove(range);
            // Not before: a checkpoint in between would speak of neither.
            self.lost.remove(range);
            at += range.len;
        }
        Ok(())
    }

    /// Goes on in a free journal zone. If there is none, one is emptied first, and a checkpoint holds
    /// what has happened: then false says that there may be nothing left to write.
    fn turn_journal(&mut self) -> Result<bool, DiskError> {
        let has_free = self.journal.count(JournalUse::Free) > 0;
        let has_sealed = self.journal.count(JournalUse::Sealed) > 0;
        if (has_free || !has_sealed) && format::ENTRY_LEN_MIN <= self.journal.room() {
            // It says that the zone ends here: what is missing behind another entry is damage.
            self.write_entry(Vec::new(), &[], &[])?;
        }
        if has_free && self.journal.turn(&*self.disk)? {
            return Ok(true);
        }
        if !has_sealed {
            // The drive has given up all other zones: this one is emptied and begun anew.
            self.journal.seal(&*self.disk)?;
        }
        if self.journal.count(JournalUse::Lost) == self.journal.zones.len() {
            return Err(no_room("the drive has given up every zone of the journal".to_owned()));
        }
        self.is_emptying_journal = true;
        if let Some(zone) = self.least_active() {
            let ranges: Vec<BlockRange> = self.copies.ranges_in(zone).collect();
            for batch in ranges.chunks(64) {
                self.evict(batch)?;
            }
        }
        loop {
            // A zone that is cleared now may be opened before the next entry, and needs a generation of its own.
            self.seq += 1;
            self.checkpoint_now()?;
            // The checkpoint says all that they would, and that the zones are empty.
            self.records.clear();
            self.clear_all(Use::Emptied);
            self.clear_all(Use::Recorded);
            // One commit may turn a short journal many times, and no write of the host makes room in between (K5).
            let is_enough = self.reserve() - MISSING_ZONE_COUNT_MAX <= self.pool.free();
            if is_enough || !self.clean_one()? {
                break;
            }
        }
        self.is_emptying_journal = false;
        Ok(false)
    }

    fn least_active(&self) -> Option<ZoneId> {
        self.copies.least_active(self.journal.sealed().map(|zone| zone.zone))
    }

    /// Makes some of what a journal zone is kept for needless there: it is written to the journal once more if it is
    /// little, or else evicted.
    fn recycle_step(&mut self, zone: ZoneId) -> Result<u64, DiskError> {
        let mut wanted = Vec::new();
        let mut total = 0;
        for range in self.copies.ranges_in(zone) {
            wanted.push(range);
            total += range.len.get();
            if STEP_LEN <= total {
                break;
            }
        }
        if self.keeps(zone) {
            for range in wanted {
                self.pending.insert(range);
            }
            self.commit()?;
            self.counters.kept_blocks += total;
            return Ok(total);
        }
        let regions = self.regions.covering(wanted);
        // A long region goes piece by piece, so that no step is long.
        let pieces = regions.into_iter().flat_map(|region| {
            let starts = (0..region.len.get()).step_by(STEP_LEN as usize);
            starts.map(move |from| {
                let len = (region.len.get() - from).min(STEP_LEN);
                BlockRange::new(region.start + Blocks::new(from), Blocks::new(len))
            })
        });
        let mut batch = Vec::new();
        let mut batch_len = 0;
        for piece in pieces {
            if STEP_LEN < batch_len + piece.len.get() && !batch.is_empty() {
                break;
            }
            batch_len += piece.len.get();
            batch.push(piece);
        }
        self.evict(&batch)
    }

    /// Whether what a journal zone is kept for stays in the buffer: short regions that the order of eviction would
    /// keep, not so many of them that the journal is written for their sake. The paper evicts.
    fn keeps(&self, zone: ZoneId) -> bool {
        let active = self.copies.active(zone).get();
        self.options.eviction == EvictionOrder::LongestAndOldest
            && KEPT_ZONE_SHARE * active <= self.journal.zone_len().get()
            && KEPT_BUFFER_SHARE * active <= self.buffer.capacity().get()
    }

    // The pace.

    /// Does as much work as `written` blocks ask for.
    fn pace(&mut self, written: Blocks) -> Result<(), DiskError> {
        let mut budget = (3 * written.get()).max(64);
        while budget > 0 {
            let done = self.memory_step()?;
            if done == 0 {
                break;
            }
            budget = budget.saturating_sub(done);
        }
        self.clean_apace(written)
    }

    /// A step of what is due; says how many blocks it moved, 0 if nothing is due.
    pub(super) fn work_step(&mut self) -> Result<u64, DiskError> {
        match self.memory_step()? {
            0 => self.room_step(),
            done => Ok(done),
        }
    }

    /// A step of what the write buffer and the journal ask for.
    fn memory_step(&mut self) -> Result<u64, DiskError> {
        if self.writing.is_some() {
            return self.checkpoint_step();
        }
        let sealed = self.journal.count(JournalUse::Sealed);
        let free = self.journal.count(JournalUse::Free);
        let zone_count = self.journal.zones.len();
        if free * 2 <= zone_count {
            let idle = self.journal.sealed().filter(|z| self.copies.active(z.zone).is_zero());
            if idle.count() > 0 {
                self.save_copies()?;
                self.begin_checkpoint();
                return self.checkpoint_step();
            }
        }
        if !self.buffer.excess(WATERMARK_PERMILLE).is_zero() {
            return self.evict_step();
        }
        if WATERMARK_PERMILLE * zone_count as u64 <= 1000 * (sealed as u64 + 2)
            && let Some(zone) = self.least_active()
            && !self.copies.active(zone).is_zero()
        {
            return self.recycle_step(zone);
        }
        Ok(0)
    }

    /// Checks that the parts agree.
    ///
    /// # Errors
    /// The first violation, in words.
    #[cfg(test)]
    pub(super) fn check(&self) -> Result<(), String> {
        self.map.check()?;
        self.buffer.check()?;
        self.regions.check()?;
        self.pending.check()?;
        self.copies.check()?;
        self.summaries.check(&self.pool)?;
        self.pool.check()?;
        if self.regions.total() != self.buffer.len() {
            return Err(format!(
                "{} buffered, {} in regions",
                self.buffer.len(),
                self.regions.total()
            ));
        }
        for region in self.regions.iter() {
            let copied: Blocks = self.copies.copies_of(region).map(|(range, _)| range.len).sum();
            let pending: Blocks = self.pending.within(region).map(|range| range.len).sum();
            if copied + pending < region.len {
                return Err(format!("K1: {region} is neither in the journal nor about to be"));
            }
        }
        for slot in self.pool.iter() {
            let valid = self.map.valid(slot.zone);
            let may_hold = matches!(slot.used, Use::Open | Use::Sealed | Use::Unreadable);
            if !may_hold && !valid.is_zero() {
                return Err(format!("K3: {} is {:?} and holds {valid}", slot.zone, slot.used));
            }
            let owned = self.open.contains(&Some(slot.zone));
            if (slot.used == Use::Open) != owned {
                return Err(format!("{} is {:?}, but owned: {owned}", slot.zone, slot.used));
            }
        }
        Ok(())
    }
}
