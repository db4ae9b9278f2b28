//! The driver's state, and how it admits, evicts, journals and keeps pace. One lock covers all of
//! it; only reads and flushes of the host wait for the drive without the lock. Cleaning is in `clean`.

use super::buffer::{Buffer, JournalIndex};
use super::checkpoint::CheckpointWriter;
use super::checkpointing::Checkpointed;
use super::cleaning::{Cleaning, Debt};
use super::data_zones::{DataZones, Stream};
use super::error::{broken, no_room};
use super::flushes::{FlushesInTurn, Written};
use super::format::{
    self, ENTRY_DATA_LEN_MAX, RECORD_COUNT_MAX, Record, Superblock, encode_header,
};
use super::journal::{JournalUse, JournalZones};
use super::layered::{LayeredMap, MissingChunks, Unknown};
use super::mapping::PbaRange;
use super::newest::NewestContent;
use super::options::{DriverCounters, DriverOptions};
use super::pool::{Pool, PoolZone, Use};
use super::regions::{EvictionOrder, Regions};
use super::step::{CLEAN_STEP_LEN_MAX, Pace, Steps};
use super::streams::Streams;
use super::summaries::{Fetched, Reading, Summaries};
use super::superblocks::SuperblockZones;
use imbrex_disk::{
    Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Handles, Lba, Pba, Persist,
    ReadRequest, ZoneId,
};
use std::sync::Arc;

/// The host may write this many blocks before they are journaled, unless a flush comes earlier.
const GROUP_LEN: Blocks = Blocks::new(256);
/// At most this many records wait to be journaled.
const WAITING_RECORD_COUNT_MAX: usize = 4096;
/// To free a journal zone, its active data may be journaled again if it is at most this share of
/// the zone and of the write buffer: a sixth and an eighth. Decision 37 has measurements of other
/// shares.
const KEPT_ZONE_SHARE: u64 = 6;
const KEPT_BUFFER_SHARE: u64 = 8;
/// Zones reserved for cleaning, checkpoints and a full journal (K5), in addition to those of one
/// checkpoint and one cleaning.
pub(super) const RESERVE_ZONE_COUNT: usize = 4;
/// How many reserved zones may be missing after the journal has been emptied. The next emptying
/// takes at most one, and the host waits less if its own next zone restores the reserve.
const MISSING_ZONE_COUNT_MAX: usize = 2;
const _: () = assert!(MISSING_ZONE_COUNT_MAX < RESERVE_ZONE_COUNT);

/// A read of the host after its lookup.
pub(super) enum Begun<'a> {
    /// What the drive must read.
    Reading(Reading<'a>),
    /// The map must be read first.
    Missing(MissingChunks),
}

/// Everything that changes.
#[derive(Debug)]
pub(super) struct DriverState {
    /// The disk, for the journal and the flushes that the host asks for.
    pub(super) disk: Arc<dyn Disk>,
    pub(super) written: Arc<Written>,
    pub(super) steps: Steps,
    pub(super) options: DriverOptions,
    pub(super) superblock: Superblock,
    pub(super) superblocks: SuperblockZones,
    pub(super) map: LayeredMap,
    pub(super) buffer: Buffer,
    pub(super) regions: Regions,
    pub(super) copies: JournalIndex,
    /// Blocks in the buffer that are not yet in the journal.
    pub(super) pending: Regions,
    /// Streams of the host; what they hold is not yet in the journal either.
    pub(super) streams: Streams,
    /// Other events that are not yet in the journal.
    pub(super) records: Vec<Record>,
    pub(super) journal: JournalZones,
    pub(super) seq: u64,
    /// Entries below this number, and what they describe, are flushed; 0 before the first flush.
    flushed_seq: u64,
    pub(super) zones: DataZones,
    /// Blocks that the host wrote and the drive lost. The map no longer leads to them. A block
    /// leaves the set once its next write is in the journal.
    pub(super) lost: Regions,
    pub(super) evicting: Option<BlockRange>,
    pub(super) cleaning: Option<Cleaning>,
    /// How many blocks cleaning owes for the host's writes; see [`DriverState::owe`].
    pub(super) debt: Debt,
    pub(super) writing: Option<CheckpointWriter>,
    pub(super) checkpointed: Checkpointed,
    pub(super) counters: DriverCounters,
    /// Ranges that went from memory to data zones, in order, if the options ask for the list.
    pub(super) evictions: Vec<BlockRange>,
    /// Cleaning finds little garbage, and the next base would find more.
    pub(super) map_is_stale: bool,
    pub(super) is_poisoned: bool,
    /// The journal is full and being emptied: no entry may be written meanwhile.
    is_emptying_journal: bool,
}

impl DriverState {
    #[expect(clippy::too_many_arguments, reason = "the results of opening, passed once")]
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        options: &DriverOptions,
        superblock: Superblock,
        superblocks: SuperblockZones,
        map: LayeredMap,
        copies: JournalIndex,
        journal: JournalZones,
        pool: Pool,
    ) -> DriverState {
        let summaries = Summaries::new(superblock.id, options.kept_summary_count);
        let disk = FlushesInTurn::new(disk);
        let written = disk.written();
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let disks = Handles::new(&disk);
        let disk = Arc::clone(disks.of(Activity::Log));
        let catalog_disk = Arc::clone(disks.of(Activity::Catalog));
        let zones = DataZones { disk: catalog_disk, disks, pool, summaries, open: [None; 2] };
        DriverState {
            disk,
            written,
            steps: Steps::new(),
            superblock,
            superblocks,
            map,
            buffer: Buffer::new(options.buffer_len),
            regions: Regions::new(options.eviction),
            copies,
            pending: Regions::new(EvictionOrder::LargestRegion),
            streams: Streams::new(
                options.stream_len.filter(|_| options.eviction == EvictionOrder::LongestAndOldest),
            ),
            records: Vec::new(),
            journal,
            seq: 1,
            flushed_seq: 0,
            zones,
            lost: Regions::new(EvictionOrder::LargestRegion),
            evicting: None,
            cleaning: None,
            debt: Debt::default(),
            writing: None,
            checkpointed: Checkpointed::default(),
            counters: DriverCounters::default(),
            evictions: Vec::new(),
            map_is_stale: false,
            is_poisoned: false,
            is_emptying_journal: false,
            options: options.clone(),
        }
    }

    // Requests of the host.

    /// Takes what the host writes. The work that it asks for remains, for [`Self::pace_step`].
    pub(super) fn write(&mut self, at: Lba, data: &[u8]) -> Result<Pace, DiskError> {
        let range = BlockRange::new(at, Blocks::holding(data.len() as u64));
        self.counters.host_blocks += range.len.get();
        if self.options.bypass_len <= range.len || self.buffer.capacity() < range.len {
            self.counters.bypassed_blocks += range.len.get();
            self.append(Stream::Host, data, &[range])?;
        } else {
            while self.buffer.capacity() < self.regions.total() + range.len {
                self.evict_step()?;
            }
            self.buffer.write(at, data);
            self.regions.insert(range);
            self.streams.kept.remove(range);
            self.shed_kept();
            if self.streams.note(range) {
                self.pending.remove(range);
                self.write_stream(range)?;
            } else {
                self.streams.held.remove(range);
                self.pending.insert(range);
            }
        }
        if GROUP_LEN <= self.pending.total() || WAITING_RECORD_COUNT_MAX <= self.records.len() {
            self.commit()?;
        }
        Ok(Pace::of(range.len))
    }

    /// Serves what is in memory, and returns the reads that the drive must do for the rest.
    pub(super) fn begin_read<'a>(
        &mut self,
        requests: &'a mut [ReadRequest<'_>],
    ) -> Result<Begun<'a>, DiskError> {
        self.steps.note_read(self.written.all());
        match self.newest().parts(requests, &mut |range| self.map.lookup(range)) {
            Ok(parts) => Ok(Begun::Reading(self.zones.summaries.cut(&self.zones.pool, parts)?)),
            Err(Unknown::Missing(chunks)) => Ok(Begun::Missing(chunks)),
            Err(Unknown::Failed(error)) => Err(error),
        }
    }

    /// The same; what is not in memory of the map is read at once.
    pub(super) fn begin_read_here<'a>(
        &mut self,
        requests: &'a mut [ReadRequest<'_>],
    ) -> Result<Reading<'a>, DiskError> {
        let parts = self.newest().parts(requests, &mut |range| self.pieces(range))?;
        self.zones.summaries.cut(&self.zones.pool, parts)
    }

    /// K8: the outcome of a read; `None` if a zone that it read from was begun anew meanwhile.
    pub(super) fn end_read(&mut self, fetched: Fetched) -> Option<Result<(), DiskError>> {
        let (outcome, is_wrong) = self.zones.end_read(fetched)?;
        self.counters.wrong_blocks += u64::from(is_wrong);
        Some(outcome)
    }

    /// Where the newest content of each block is.
    pub(super) fn newest(&self) -> NewestContent<'_> {
        let DriverState { buffer, regions, streams, lost, .. } = self;
        NewestContent { buffer, regions, kept: &streams.kept, lost }
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

    /// Writes everything that the host has written to where the drive's next flush makes it durable.
    /// Returns the number below which that flush covers all entries.
    pub(super) fn begin_flush(&mut self) -> Result<u64, DiskError> {
        self.release_streams()?;
        self.commit()?;
        Ok(self.seq)
    }

    /// K9: the drive was flushed since [`Self::begin_flush`] returned `seq`.
    pub(super) fn end_flush(&mut self, seq: u64) -> Result<(), DiskError> {
        self.flushed_seq = self.flushed_seq.max(seq);
        if self.journal.has_unrecorded_loss {
            self.checkpoint_now()?;
        }
        Ok(())
    }

    /// Makes everything durable that is not held of a stream.
    fn flush(&mut self) -> Result<(), DiskError> {
        self.commit()?;
        self.flush_drive()?;
        if self.journal.has_unrecorded_loss {
            self.checkpoint_now()?;
        }
        Ok(())
    }

    pub(super) fn flush_drive(&mut self) -> Result<(), DiskError> {
        self.disk.flush()?;
        self.flushed_seq = self.seq;
        // While the journal is being emptied, a commit holds records that are neither here nor in
        // the journal.
        if self.records.is_empty() && !self.is_emptying_journal {
            self.zones.clear_all(Use::Recorded);
        }
        Ok(())
    }

    // The write buffer.

    /// Drops `range` from the buffer and its indices.
    fn forget(&mut self, range: BlockRange) {
        self.buffer.remove(range);
        self.regions.remove(range);
        self.pending.remove(range);
        self.streams.held.remove(range);
        self.streams.kept.remove(range);
        self.copies.forget(range);
        self.lost.remove(range);
    }

    /// Evicts a piece of the next victim.
    pub(super) fn evict_step(&mut self) -> Result<u64, DiskError> {
        let rest = self.evicting.take().and_then(|rest| self.regions.within(rest).next());
        let Some(victim) = rest.or_else(|| self.regions.victim()) else { return Ok(0) };
        let len = Blocks::new(victim.len.get().min(self.step_len()));
        let behind = victim.start + len;
        if behind < victim.end() {
            self.evicting = Some(BlockRange::new(behind, victim.end() - behind));
        }
        self.evict(&[BlockRange::new(victim.start, len)])?;
        Ok(len.get())
    }

    /// Evicts regions, written one after the other, and returns their content.
    pub(super) fn evict(&mut self, regions: &[BlockRange]) -> Result<Vec<u8>, DiskError> {
        let mut data = Vec::new();
        for &region in regions {
            self.buffer.append_to(region, &mut data);
        }
        let count = (data.len() / BLOCK_LEN_BYTES) as u64;
        self.counters.evicted_runs += regions.len() as u64;
        self.counters.evicted_blocks += count;
        self.append(Stream::Host, &data, regions)?;
        Ok(data)
    }

    /// Writes `data`, the contents of `ranges` in order, to the zone of a stream, and maps the
    /// ranges to it. Returns false if the data that cleaning has read may be out of date: the rest
    /// then stays where it is.
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
                // No zone was free before the journal was emptied. Emptying evicts and may clean.
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
            match self.zones.write(stream.activity(), zone, now, lbas) {
                Ok(summary_count) => {
                    self.counters.summary_blocks += summary_count;
                    rest = behind;
                }
                Err(error) if self.zones.passes_over(zone, &error) => {
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

    /// Records that `range` is now at `at` in a data zone, written by the host or by cleaning.
    fn put(&mut self, stream: Stream, range: BlockRange, at: Pba) -> Result<(), DiskError> {
        // The buffer keeps the blocks until the map has them.
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

    pub(super) fn note_displaced(&mut self, displaced: &[PbaRange]) {
        for place in displaced {
            if let Some(slot) = self.zones.pool.zone_of(place.start)
                && matches!(slot.used, Use::Sealed | Use::Unreadable)
                && self.map.valid(slot.zone).is_zero()
            {
                let zone = slot.zone;
                self.zones.pool.set(zone, Use::Emptied);
            }
        }
    }

    /// Seals a zone that is full. The flush bounds the number of zones that a power cut leaves
    /// written in part: a drive allows only so many.
    fn seal_if_full(&mut self, zone: ZoneId) -> Result<(), DiskError> {
        if self.zones.pool.get(zone).is_some_and(PoolZone::is_full) {
            let is_empty = self.map.valid(zone).is_zero();
            self.zones.pool.set(zone, if is_empty { Use::Emptied } else { Use::Sealed });
            self.zones.close(zone);
            self.disk.flush()?;
        }
        Ok(())
    }

    // The data zones.

    /// Where the next blocks of a stream go, and how many fit there.
    fn place(&mut self, stream: Stream) -> Result<(ZoneId, Pba, Blocks), DiskError> {
        if self.zones.open[stream as usize].is_none() {
            if stream == Stream::Host
                && !self.is_emptying_journal
                && let Some(shared) = self.make_room()?
            {
                return Ok(shared);
            }
            // Making room may have emptied the journal, and that may have opened a zone.
            if self.zones.open[stream as usize].is_none() {
                let zone = self.take_zone(Use::Open)?;
                self.debt.taken_zones += usize::from(stream == Stream::Cleaning);
                self.zones.pool.set_generation(zone, self.seq);
                self.records.push(Record::Opened { zone, generation: self.seq });
                self.zones.open[stream as usize] = Some(zone);
            }
        }
        let zone = self.zones.open[stream as usize].expect("opened above");
        let (at, room) = self.zones.pool.rest(zone);
        Ok((zone, at, room))
    }

    /// How many zones the host does not get. A cleaning that is running has taken some of them
    /// already.
    pub(super) fn reserve(&self) -> usize {
        let taken = self.debt.taken_zones.min(self.options.cleaning.chosen_count());
        self.reserve_between_cleanings() - taken
    }

    /// The reserve while no cleaning is running. A checkpoint that is being written has taken some
    /// of it already.
    pub(super) fn reserve_between_cleanings(&self) -> usize {
        let taken = self.writing.as_ref().map_or(0, CheckpointWriter::taken_zone_count);
        let checkpoint = self.checkpoint_zone_count().saturating_sub(taken);
        RESERVE_ZONE_COUNT + self.options.cleaning.chosen_count() + checkpoint
    }

    fn take_zone(&mut self, used: Use) -> Result<ZoneId, DiskError> {
        if self.zones.pool.free() == 0 && !self.is_emptying_journal {
            self.reclaim()?;
        }
        let none = || no_room("no zone of the drive is free for the block driver".to_owned());
        self.zones.take(used)?.ok_or_else(none)
    }

    /// Makes more zones free than the reserve, or gives the host a zone that cleaning was writing.
    /// If the host gets only a part of such a zone, that part is returned as [`Self::place`] would.
    fn make_room(&mut self) -> Result<Option<(ZoneId, Pba, Blocks)>, DiskError> {
        loop {
            self.zones.pool.blank(&*self.disk, self.reserve())?;
            if self.reserve() < self.zones.pool.free() {
                return Ok(None);
            } else if self.zones.pool.count(Use::Emptied) + self.zones.pool.count(Use::Recorded) > 0
            {
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
                if self.has_deltas() || !self.map.hidden().is_zero() {
                    // A base takes fewer zones in the end than its deltas and the base before, and
                    // finds what has died unnoticed.
                    self.save_copies()?;
                    self.base_now()?;
                    continue;
                }
                return Err(no_room("the block driver finds no zone to clean".to_owned()));
            }
        }
    }

    /// Makes zones without valid data resettable: a record, and a flush.
    pub(super) fn reclaim(&mut self) -> Result<(), DiskError> {
        for zone in self.zones.pool.promote(Use::Emptied, Use::Recorded) {
            self.records.push(Record::Emptied { zone });
        }
        self.flush()
    }

    // The journal.

    /// Marks journal zones that have gone offline. Active data that they held is now in memory only
    /// and must be journaled again. Returns whether there is any.
    fn leave_offline_zones(&mut self) -> bool {
        let zones = self.journal.leave_offline(&*self.disk);
        let lost: Vec<BlockRange> =
            zones.into_iter().flat_map(|zone| self.copies.ranges_in(zone)).collect();
        for &range in &lost {
            self.pending.insert(range);
        }
        !lost.is_empty()
    }

    /// A checkpoint says that nothing is needed of offline zones. Makes that true before one
    /// begins.
    pub(super) fn save_copies(&mut self) -> Result<(), DiskError> {
        if self.leave_offline_zones() { self.commit() } else { Ok(()) }
    }

    /// Writes to the journal what is not there yet. It is durable after the drive's next flush.
    pub(super) fn commit(&mut self) -> Result<(), DiskError> {
        if self.is_emptying_journal {
            // The checkpoint that ends the emptying covers every event, and pending blocks wait for
            // the room.
            return Ok(());
        }
        // An entry takes at most half of a short zone, and both copies of its header take half of
        // that.
        let quarter = self.journal.zone_len().get() / 4;
        let record_count_max = format::record_count(Blocks::new(quarter / 2)).min(RECORD_COUNT_MAX);
        // S2: checksums precede the records of their blocks.
        let unjournaled = self.zones.summaries.take_unjournaled(&self.zones.pool);
        drop(self.records.splice(0..0, unjournaled));
        loop {
            // A zone that was open and is now full may have gone offline without notice.
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
                && !self.begin_journal_zone()?
            {
                continue;
            }
            self.write_entry(records, &ranges, &data)?;
        }
    }

    /// Writes an entry: records, and `data`, the contents of `ranges` in order.
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
            self.streams.held.remove(range);
            // Only now: a checkpoint in between would name the block neither as lost nor as copied.
            self.lost.remove(range);
            at += range.len;
        }
        Ok(())
    }

    /// Continues in a free journal zone. If there is none, empties one and writes a checkpoint of
    /// all events. Then returns false, because there may be nothing left to write.
    fn begin_journal_zone(&mut self) -> Result<bool, DiskError> {
        let has_free = self.journal.count(JournalUse::Free) > 0;
        let has_sealed = self.journal.count(JournalUse::Sealed) > 0;
        if (has_free || !has_sealed) && format::ENTRY_LEN_MIN <= self.journal.room() {
            // An empty entry marks the end of the zone: after any other entry, a missing entry is
            // damage.
            self.write_entry(Vec::new(), &[], &[])?;
        }
        if has_free && self.journal.begin_zone(&*self.disk)? {
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
                let len: Blocks = batch.iter().map(|range| range.len).sum();
                self.counters.journal_evicted_blocks += len.get();
            }
        }
        loop {
            // A zone that is cleared now may be opened before the next entry, and needs a
            // generation of its own.
            self.seq += 1;
            self.checkpoint_now()?;
            // The checkpoint says everything that the records would, and that the zones are empty.
            self.records.clear();
            self.zones.clear_all(Use::Emptied);
            self.zones.clear_all(Use::Recorded);
            // One commit may begin many zones of a short journal, and no write of the host makes
            // room in between (K5).
            let is_enough = self.reserve() - MISSING_ZONE_COUNT_MAX <= self.zones.pool.free();
            if is_enough || !self.clean_one()? {
                break;
            }
        }
        self.is_emptying_journal = false;
        Ok(false)
    }

    pub(super) fn least_active(&self) -> Option<ZoneId> {
        self.copies.least_active(self.journal.sealed().map(|zone| zone.zone))
    }

    /// Takes some active data off a journal zone: journals it again if the zone has little of it,
    /// and evicts it otherwise.
    pub(super) fn recycle_step(&mut self, zone: ZoneId) -> Result<u64, DiskError> {
        let most = self.step_len();
        let mut wanted = Vec::new();
        let mut total = 0;
        for range in self.copies.ranges_in(zone) {
            wanted.push(range);
            total += range.len.get();
            if most <= total {
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
        // A long region is evicted piece by piece, so that no step is long.
        let pieces = regions.into_iter().flat_map(|region| {
            let starts = (0..region.len.get()).step_by(most as usize);
            starts.map(move |from| {
                let len = (region.len.get() - from).min(most);
                BlockRange::new(region.start + Blocks::new(from), Blocks::new(len))
            })
        });
        let mut batch = Vec::new();
        let mut batch_len = 0;
        for piece in pieces {
            if most < batch_len + piece.len.get() && !batch.is_empty() {
                break;
            }
            batch_len += piece.len.get();
            batch.push(piece);
        }
        self.evict(&batch)?;
        self.counters.journal_evicted_blocks += batch_len;
        Ok(batch_len)
    }

    /// Whether the active data of a journal zone stays in the buffer. It does if the order of
    /// eviction would keep these short regions, and if journaling them again costs little. The
    /// paper evicts.
    fn keeps(&self, zone: ZoneId) -> bool {
        let active = self.copies.active(zone).get();
        self.options.eviction == EvictionOrder::LongestAndOldest
            && KEPT_ZONE_SHARE * active <= self.journal.zone_len().get()
            && KEPT_BUFFER_SHARE * active <= self.buffer.capacity().get()
    }
}
