//! What a sequential zone holds, as a few numbers for each run of blocks.
//!
//! ```text
//!     blocks    | header | data data data ... | summary | 127 data | summary | 127 data | summary |
//!     pieces    | bytes  | one write's        | values  | a stream: what the host wrote in order  |
//! ```
//!
//! A piece ends where the next one begins. Bytes stay on the drive below; a block of zeros is bytes too,
//! because they take no room there.
//!
//! Invariants
//!   D1  A piece says exactly what was written: a summary is made again from its values and compared
//!       before it becomes a piece.
//!   D2  The pieces cover the zone from its first written block to its last, in order.

use super::words::{Checksums, WriteNumber};
use imbrex_disk::{BLOCK_LEN_BYTES, Lba};
use imbrex_translate::model::SummaryValues;
use std::ops::Range;

const SPAN: u32 = SummaryValues::SPAN as u32;
/// The data blocks of a stretch.
const STRETCH: u32 = SPAN - 1;
/// The bits of a run's length in [`PackedRun`].
const LEN_BITS: u32 = 8;

/// The zone and device that summaries name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Names {
    id: u64,
    generation: u64,
}

/// Consecutive addresses of the host: the first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedRun(u64);

impl PackedRun {
    /// Blocks that are never read.
    const NONE: u64 = u64::MAX >> LEN_BITS;

    fn new(lba: Lba) -> PackedRun {
        let lba = if lba == SummaryValues::NONE.0 { PackedRun::NONE } else { lba.get() };
        PackedRun(lba << LEN_BITS | 1)
    }

    fn start(self) -> u64 {
        self.0 >> LEN_BITS
    }

    fn len(self) -> u64 {
        self.0 & ((1 << LEN_BITS) - 1)
    }

    /// The same with the block `lba` if that is the next.
    fn with(self, lba: Lba) -> Option<PackedRun> {
        let is_next = match self.start() {
            PackedRun::NONE => lba == SummaryValues::NONE.0,
            start => lba.get() == start + self.len(),
        };
        is_next.then_some(PackedRun(self.0 + 1))
    }

    fn lbas(self) -> impl Iterator<Item = Lba> {
        let start = self.start();
        (0..self.len()).map(move |index| match start {
            PackedRun::NONE => SummaryValues::NONE.0,
            start => Lba::new(start + index),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// On the drive below.
    Bytes,
    /// One write of the host.
    Words(WriteNumber),
    /// The summary of the stretch before it, by its number in `summaries`.
    Summary(u32),
    /// Whole stretches with their summaries, by the number in `streams`.
    Stream(u32),
}

#[derive(Clone, Copy, Debug)]
struct ZonePiece {
    start: u32,
    content: Content,
}

/// One write of consecutive addresses.
#[derive(Clone, Copy, Debug)]
struct Stream {
    number: WriteNumber,
    lba: u64,
}

/// The written blocks of a zone. Offsets are from its start.
#[derive(Debug, Default)]
pub(super) struct ZonePieces {
    pieces: Vec<ZonePiece>,
    end: u32,
    /// Of all its summaries that are values.
    names: Option<Names>,
    summaries: Vec<Box<[PackedRun]>>,
    streams: Vec<Stream>,
}

impl ZonePieces {
    /// Forgets what was at `from` and behind: a power cut took it, and it is written again.
    pub(super) fn truncate(&mut self, from: u32) {
        if from < self.end {
            self.pieces.retain(|piece| piece.start < from);
            self.end = from;
        }
    }

    /// Notes the blocks `data` behind the last one; the zone begins at `zone_start` and has `capacity`
    /// blocks. Returns the numbers of the blocks that the drive below must keep.
    pub(super) fn append(
        &mut self,
        sums: &Checksums,
        zone_start: Lba,
        capacity: u64,
        data: &[u8],
    ) -> Vec<usize> {
        let mut kept = Vec::new();
        for (index, block) in data.chunks_exact(BLOCK_LEN_BYTES).enumerate() {
            let offset = self.end;
            let number = WriteNumber::of(block);
            let may_be_summary = offset % SPAN == STRETCH || u64::from(offset) + 1 == capacity;
            match number {
                Some(WriteNumber::NONE) => self.push(Content::Bytes),
                Some(number) => self.push(Content::Words(number)),
                None if may_be_summary && self.push_summary(sums, zone_start, block) => {}
                None => {
                    self.push(Content::Bytes);
                    kept.push(index);
                }
            }
        }
        if u64::from(self.end) == capacity {
            self.pieces.shrink_to_fit();
            self.summaries.shrink_to_fit();
            self.streams.shrink_to_fit();
        }
        kept
    }

    fn push(&mut self, content: Content) {
        if self.pieces.last().is_none_or(|piece| piece.content != content) {
            self.pieces.push(ZonePiece { start: self.end, content });
        }
        self.end += 1;
    }

    /// Notes a summary as values; returns false if `block` says anything that these do not.
    fn push_summary(&mut self, sums: &Checksums, zone_start: Lba, block: &[u8]) -> bool {
        let Ok(block) = <&[u8; BLOCK_LEN_BYTES]>::try_from(block) else { return false };
        let at = Lba::new(zone_start.get() + u64::from(self.end));
        let Some(values) = SummaryValues::read(at, block) else { return false };
        let names = Names { id: values.id, generation: values.generation };
        let is_named = !(self.summaries.is_empty() && self.streams.is_empty());
        if is_named && self.names != Some(names) {
            return false;
        }
        let mut runs: Vec<PackedRun> = Vec::new();
        for &(lba, _) in &values.sums {
            match runs.last_mut().and_then(|run| Some((run.with(lba)?, run))) {
                Some((longer, run)) => *run = longer,
                None => runs.push(PackedRun::new(lba)),
            }
        }
        let before = self.names.replace(names);
        // D1.
        if self.values(sums, self.end, &runs).is_none_or(|made| made.block(at) != *block) {
            self.names = before;
            return false;
        }
        if self.extend_stream(&runs) {
            return true;
        }
        let number = self.summaries.len() as u32;
        self.summaries.push(runs.into());
        self.push(Content::Summary(number));
        true
    }

    /// What the summary at `offset` says if its stretch has the addresses `runs`.
    fn values(&self, sums: &Checksums, offset: u32, runs: &[PackedRun]) -> Option<SummaryValues> {
        let Names { id, generation } = self.names?;
        let lbas = runs.iter().flat_map(|run| run.lbas());
        let first = offset - offset % SPAN;
        let numbers = self.numbers(first..offset);
        let sum = |(lba, number): (Lba, Option<WriteNumber>)| match lba == SummaryValues::NONE.0 {
            true => Some(SummaryValues::NONE),
            false => Some((lba, sums.of(lba, number?))),
        };
        let sums = lbas.zip(numbers).map(sum).collect::<Option<Vec<_>>>()?;
        Some(SummaryValues { id, generation, sums })
    }

    /// The writes that wrote the data blocks of a range; `None` for bytes on the drive below.
    fn numbers(&self, range: Range<u32>) -> impl Iterator<Item = Option<WriteNumber>> + '_ {
        let mut index = self.piece_index(range.start).unwrap_or(0);
        range.map(move |offset| {
            while self.pieces.get(index + 1).is_some_and(|next| next.start <= offset) {
                index += 1;
            }
            match self.pieces.get(index)?.content {
                Content::Words(number) => Some(number),
                Content::Stream(stream) => Some(self.streams[stream as usize].number),
                Content::Bytes | Content::Summary(_) => None,
            }
        })
    }

    /// Makes the last stretch, a whole one of one write, and its summary a part of a stream.
    fn extend_stream(&mut self, runs: &[PackedRun]) -> bool {
        let (&[run], Some(&last)) = (runs, self.pieces.last()) else { return false };
        let (Content::Words(number), true) = (last.content, run.start() != PackedRun::NONE) else {
            return false;
        };
        if self.end - last.start != STRETCH
            || last.start % SPAN != 0
            || run.len() != u64::from(STRETCH)
        {
            return false;
        }
        self.pieces.pop();
        let continued = self.pieces.last().is_some_and(|before| {
            let Content::Stream(stream) = before.content else { return false };
            let stream = self.streams[stream as usize];
            let span_count = u64::from((last.start - before.start) / SPAN);
            stream.number == number && stream.lba + span_count * u64::from(STRETCH) == run.start()
        });
        if !continued {
            let content = Content::Stream(self.streams.len() as u32);
            self.streams.push(Stream { number, lba: run.start() });
            self.pieces.push(ZonePiece { start: last.start, content });
        }
        self.end += 1;
        true
    }

    fn piece_index(&self, offset: u32) -> Option<usize> {
        self.pieces.partition_point(|piece| piece.start <= offset).checked_sub(1)
    }

    /// Puts what the pieces say over `buf`, the blocks from `offset` on; bytes stay as they are.
    pub(super) fn read_over(&self, sums: &Checksums, zone_start: Lba, offset: u32, buf: &mut [u8]) {
        let mut index = self.piece_index(offset);
        for (block, offset) in buf.chunks_exact_mut(BLOCK_LEN_BYTES).zip(offset..self.end) {
            while let Some(next) = self.pieces.get(index.map_or(0, |index| index + 1))
                && next.start <= offset
            {
                index = Some(index.map_or(0, |index| index + 1));
            }
            let Some(piece) = index.map(|index| self.pieces[index]) else { continue };
            let at = Lba::new(zone_start.get() + u64::from(offset));
            let made = match piece.content {
                Content::Bytes => continue,
                Content::Words(number) => {
                    number.fill(block);
                    continue;
                }
                Content::Summary(number) => {
                    self.values(sums, offset, &self.summaries[number as usize])
                }
                Content::Stream(stream) if offset % SPAN != STRETCH => {
                    self.streams[stream as usize].number.fill(block);
                    continue;
                }
                Content::Stream(stream) => {
                    let spans = u64::from((offset - piece.start) / SPAN);
                    let start = self.streams[stream as usize].lba + spans * u64::from(STRETCH);
                    let run = PackedRun(start << LEN_BITS | u64::from(STRETCH));
                    self.values(sums, offset, &[run])
                }
            };
            let made = made.expect("D1: a summary was made from these values before");
            block.copy_from_slice(&made.block(at));
        }
    }

    /// About how much memory it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let runs: usize = self.summaries.iter().map(|runs| 16 + size_of_val::<[_]>(runs)).sum();
        (self.pieces.capacity() * size_of::<ZonePiece>()
            + self.streams.capacity() * size_of::<Stream>()
            + self.summaries.capacity() * size_of::<Box<[PackedRun]>>()
            + runs) as u64
    }
}
