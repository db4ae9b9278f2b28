//! Reads the journal's entries after a checkpoint, up to the first torn one.
//!
//! ```text
//!     zone 3   | 17 | 18 | 19 ends its zone |      zone 5   | 20 | 21 | torn |
//!                ^ the checkpoint's next entry                          ^ the journal ends here
//! ```
//!
//! The end is certain only inside a zone. At the end of a zone, the next entry may begin any
//! other zone, so all of their first entries are read: one of them has the next number, or the
//! journal ends here, or it is damaged.
//!
//! Entries may be short and many, one for each flush. A disk that read them one by one would lose a turn
//! for each: so a window of the journal is read ahead.
//!
//! Not here: the effect of the records (`replay`).

use super::checkpoint_format::Checkpoint;
use super::error::{DriverError, during};
use super::format::{ENTRY_LEN_MIN, Entry, HEADER_LEN_MAX, Record, decode_header_block};
use super::journal::JournalZone;
use super::state::DriverState;
use super::step::READ_LEN;
use crate::error::FormatFault;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, Lba, Pba, ZoneId, ZoneState};

/// An entry, and which of its data the drive lost.
pub(super) struct ReadEntry {
    pub(super) entry: Entry,
    pub(super) lost: Vec<BlockRange>,
    /// The host's block at the very end of the written part of the zone, if it cannot be read. If
    /// no entry follows, it was being written when the power went, and no flush returned after it.
    pub(super) broken: Option<BlockRange>,
}

fn journal_damage(detail: String) -> DriverError {
    FormatFault::damaged("journal", detail).into()
}

/// Returns the whole entries after a checkpoint.
///
/// # Errors
/// The drive fails, the journal is damaged, or further entries may be in `offline`.
pub(super) fn read_journal(
    state: &mut DriverState,
    checkpoint: &Checkpoint,
    offline: Option<ZoneId>,
) -> Result<Vec<ReadEntry>, DriverError> {
    let mut entries: Vec<ReadEntry> = Vec::new();
    let mut seq = checkpoint.seq;
    let mut at = checkpoint.next;
    let mut has_begun = false;
    let mut window = Window::ahead();
    loop {
        if let Some(found) = read_entry(state, &mut window, at, seq)? {
            // An entry in another zone follows a flush.
            if let Some(before) = entries.last_mut() {
                before.lost.extend(before.broken.take());
            }
            seq += 1;
            has_begun = false;
            let zone = journal_zone(state, at).map(|zone| zone.range);
            at += found.entry.data_offset() + found.entry.data_len;
            let is_nothing_lost = found.lost.is_empty() && found.broken.is_none();
            if found.entry.records.is_empty() && is_nothing_lost {
                // That entry ended its zone.
                at = zone.map_or(at, |range| Pba::new(range.end().get()));
            }
            entries.push(found);
            continue;
        }
        // The entry after a torn one, or after the last one of a zone, begins a zone.
        let starts = state.journal.zones.iter().map(|zone| Pba::new(zone.range.start.get()));
        let is_end = ends_inside(state, at);
        let (mut begun, mut later) = (None, None);
        for start in starts.filter(|&start| start != at) {
            match read_header(state, &mut Window::default(), start)? {
                Header::Whole(entry, _) if entry.seq == seq => begun = Some(start),
                Header::Whole(entry, _) if seq < entry.seq => later = Some(entry.seq),
                Header::Whole(..) | Header::Unwritten => {}
                // Torn in an earlier life of the zone, which was then finished: fill follows.
                Header::Else(Some(old)) if old < seq => {}
                // The same, and what remained of the header is damaged.
                Header::Else(None) if is_end => {}
                Header::Else(_) => {
                    let at = start.get();
                    return Err(journal_damage(format!(
                        "the zone at block {at} does not begin with an entry"
                    )));
                }
            }
        }
        if let Some(zone) = offline.filter(|_| begun.is_none() && !is_end) {
            return Err(journal_damage(format!("{zone} is offline")));
        }
        match (begun, later) {
            (Some(_), _) if has_begun => {
                return Err(journal_damage(format!("two zones begin with entry {seq}")));
            }
            (Some(start), _) => (at, has_begun) = (start, true),
            (None, None) => return Ok(entries),
            (None, Some(later)) => {
                return Err(journal_damage(format!(
                    "entry {later} exists, but entry {seq} is missing"
                )));
            }
        }
    }
}

/// Whether the journal certainly ends at `at`. It continues in another zone only after a flushed
/// entry that ends the zone, or where no entry fits. At the start of a zone the journal may have
/// ended in another one.
fn ends_inside(state: &DriverState, at: Pba) -> bool {
    let Some(zone) = journal_zone(state, at) else { return false };
    let at = Lba::new(at.get());
    let pointer = match state.disk.zone(zone.zone).map(|info| info.state) {
        Some(ZoneState::Open { write_pointer, .. } | ZoneState::Closed { write_pointer }) => {
            write_pointer
        }
        _ => return false,
    };
    zone.range.start < at && at <= pointer && ENTRY_LEN_MIN <= zone.range.end() - at
}

/// What is found where an entry may begin.
enum Header {
    /// The entry, and how many blocks of its header came from the second copy.
    Whole(Entry, u64),
    /// Nothing was written there, or not all of it. Beyond the end of a zone that was finished
    /// early, a drive reads one byte over and over.
    Unwritten,
    /// Something else, or a header with a block that is damaged in both copies. Its number, if a
    /// remaining block has it.
    Else(Option<u64>),
}

fn journal_zone(state: &DriverState, at: Pba) -> Option<&JournalZone> {
    state.journal.zones.iter().find(|zone| zone.range.contains(Lba::new(at.get())))
}

/// How far the drive says that the zone of a journal block is written; `None` outside the journal.
fn written_to(state: &DriverState, at: Pba) -> Option<Lba> {
    let zone = journal_zone(state, at)?;
    match state.disk.zone(zone.zone)?.state {
        ZoneState::Full => Some(zone.range.end()),
        ZoneState::ReadOnly => Some(zone.end.map_or(zone.range.end(), |end| end.at)),
        other => Some(other.write_pointer(zone.range.start).unwrap_or(zone.range.start)),
    }
}

/// Whether the zone of a journal block is read-only and its end could only be guessed from its
/// content.
fn may_end_in_fill(state: &DriverState, at: Pba) -> bool {
    let end = journal_zone(state, at).and_then(|zone| zone.end);
    end.is_some_and(|end| !end.is_exact)
}

/// Reads blocks of the journal: `Ok(None)` if the medium fails.
pub(super) fn read_blocks(
    state: &DriverState,
    at: Pba,
    len: Blocks,
) -> Result<Option<Vec<u8>>, DriverError> {
    let mut bytes = vec![0; len.bytes() as usize];
    if len.is_zero() {
        return Ok(Some(bytes));
    }
    match state.disk.read(Lba::new(at.get()), &mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(DiskError::Medium { .. } | DiskError::Offline { .. }) => Ok(None),
        Err(error) => Err(during("reading the journal")(error)),
    }
}

/// A part of the journal that was read before it is needed.
#[derive(Default)]
struct Window {
    /// How much is read at a time; 0 reads nothing ahead.
    len: u64,
    start: Pba,
    bytes: Vec<u8>,
    /// Below this block the medium failed somewhere: blocks are read one by one.
    is_broken_until: Pba,
}

impl Window {
    fn ahead() -> Window {
        Window { len: READ_LEN, ..Window::default() }
    }

    /// As [`read_blocks`].
    fn read(
        &mut self,
        state: &DriverState,
        at: Pba,
        len: Blocks,
    ) -> Result<Option<Vec<u8>>, DriverError> {
        if self.part(at, len).is_none() && self.is_broken_until <= at {
            let end = written_to(state, at).map_or(0, Lba::get);
            let ahead = Blocks::new(end.saturating_sub(at.get()).min(self.len));
            if len < ahead {
                self.start = at;
                self.bytes = read_blocks(state, at, ahead)?.unwrap_or_else(|| {
                    self.is_broken_until = at + ahead;
                    Vec::new()
                });
            }
        }
        match self.part(at, len) {
            Some(part) => Ok(Some(part.to_vec())),
            None => read_blocks(state, at, len),
        }
    }

    fn part(&self, at: Pba, len: Blocks) -> Option<&[u8]> {
        let skipped = Blocks::new(at.get().checked_sub(self.start.get())?).bytes() as usize;
        self.bytes.get(skipped..)?.get(..len.bytes() as usize)
    }
}

/// Decodes the block at `offset` from the start of an entry; `None` if it is no block of a header.
fn header_block(
    state: &DriverState,
    window: &mut Window,
    at: Pba,
    offset: Blocks,
) -> Result<Option<Entry>, DriverError> {
    let block = window.read(state, at + offset, Blocks::new(1))?;
    let id = state.superblock.id;
    Ok(block.and_then(|block| decode_header_block(id, at, offset, &block)))
}

/// The header of the entry at `at`; each block comes from the first copy, or else from the second.
fn read_header(state: &DriverState, window: &mut Window, at: Pba) -> Result<Header, DriverError> {
    let end = written_to(state, at).map_or(0, Lba::get);
    let written = end.saturating_sub(at.get());
    // Every entry is longer: this one is torn, or nothing more fits the zone.
    if written < ENTRY_LEN_MIN.get() {
        return Ok(Header::Unwritten);
    }
    // Any block gives the length of the header.
    let mut found = None;
    for offset in (0..written.min(2 * HEADER_LEN_MAX)).map(Blocks::new) {
        found = header_block(state, window, at, offset)?;
        if found.is_some() {
            break;
        }
    }
    let Some(found) = found else { return Ok(Header::Else(None)) };
    if written < found.data_offset().get() {
        return Ok(Header::Unwritten);
    }
    let mut second_count = 0;
    let mut records = Vec::new();
    for index in (0..found.header_len.get()).map(Blocks::new) {
        let mut block = header_block(state, window, at, index)?;
        if block.is_none() {
            second_count += 1;
            block = header_block(state, window, at, found.header_len + index)?;
        }
        match block {
            Some(block) if block.seq == found.seq => records.extend(block.records),
            _ => return Ok(Header::Else(Some(found.seq))),
        }
    }
    Ok(Header::Whole(Entry { records, ..found }, second_count))
}

/// The entry at `at`, if it is whole and has number `seq`.
///
/// A power cut leaves a prefix of what was written to a zone. A block below the pointer that
/// differs from what was written is therefore damage.
fn read_entry(
    state: &mut DriverState,
    window: &mut Window,
    at: Pba,
    seq: u64,
) -> Result<Option<ReadEntry>, DriverError> {
    let mut entry = match read_header(state, window, at)? {
        Header::Whole(entry, second_count) if entry.seq == seq => {
            state.counters.second_copies += second_count;
            entry
        }
        Header::Unwritten => return Ok(None),
        // From another life of the zone.
        Header::Whole(..) if begins_zone(state, at) => return Ok(None),
        Header::Else(Some(old)) if old < seq && begins_zone(state, at) => return Ok(None),
        Header::Whole(..) | Header::Else(_) => {
            return Err(journal_damage(format!("entry {seq} is missing at block {}", at.get())));
        }
    };
    let start = at + entry.data_offset();
    // Beyond the last block that is not fill: a block of the host's there may look like fill as
    // well.
    let unsure_from = match written_to(state, at) {
        Some(end) if start.get() + entry.data_len.get() <= end.get() => None,
        Some(end) if may_end_in_fill(state, at) => Some(end),
        _ => return Ok(None),
    };
    let data = window.read(state, start, entry.data_len)?;
    let (mut lost, mut broken) = (Vec::new(), None);
    let mut records = Vec::with_capacity(entry.records.len());
    for record in entry.records {
        if let Record::Data { lba, at, crc } = record {
            let block = match &data {
                Some(data) => at.get().checked_sub(start.get()).and_then(|index| {
                    data.chunks_exact(BLOCK_LEN_BYTES).nth(index as usize).map(crc32c::crc32c)
                }),
                // One of the blocks cannot be read.
                None => read_blocks(state, at, Blocks::new(1))?.map(|block| crc32c::crc32c(&block)),
            };
            let is_last = written_to(state, at).is_some_and(|end| end.get() == at.get() + 1);
            if block.is_none() && data.is_none() && is_last {
                broken = Some(BlockRange::new(lba, Blocks::new(1)));
                continue;
            }
            if block != Some(crc) {
                if unsure_from.is_some_and(|from| from.get() <= at.get()) {
                    return Ok(None);
                }
                lost.push(BlockRange::new(lba, Blocks::new(1)));
                continue;
            }
            state.journal.note_crcs(at, std::iter::once(crc));
        }
        records.push(record);
    }
    entry.records = records;
    Ok(Some(ReadEntry { entry, lost, broken }))
}

fn begins_zone(state: &DriverState, at: Pba) -> bool {
    journal_zone(state, at).is_some_and(|zone| zone.range.start.get() == at.get())
}
