//! Writes that continue each other: their data goes to the data zones once, and not through the journal.
//!
//! ```text
//!     requests      | 512K | 512K | 512K | 512K | 512K | ...          each begins where the stream is
//!                   `-- the first 2 MiB --^ from here on a stream
//!     write buffer  ..journaled as usual..|  held: not in the journal  |
//!     data zone                           | 4 MiB | 4 MiB | 4 MiB |        a full part leaves at once
//! ```
//!
//! A kernel cuts a long write into requests of 512 KiB or less, so the length of one request says
//! little. Here requests that begin near the end of an earlier one form a stream. Connections and
//! queues change the order of requests a little. So a stream's *front* is the highest end so far,
//! and a request belongs to the stream if it begins within [`NEAR_LEN`] of the front. A stream counts
//! only while its requests together are about as long as what they span: random writes to a small area
//! leave holes, or write blocks again.
//!
//! The data of a stream waits in the write buffer until a part of 4 MiB is complete, so that several
//! streams at once cost the map no more nodes than one. A flush of the host ends the wait: what is
//! long enough goes to a data zone, and the rest to the journal.
//!
//! What left is *kept* in the write buffer while there is room, because a host often reads what it has
//! just written. A kept block is clean: the map leads to the same content. It makes room for any write.
//!
//! Invariants
//!   T1  Held blocks are in the write buffer, and their newest content is not in the journal.
//!   T2  A flush that returns leaves nothing held that was written before it began.
//!   T3  Kept blocks are in the write buffer, are mapped, and are in none of its regions.
//!   T4  At most [`HELD_LEN_MAX`] blocks and half of the write buffer are held between two requests.
//!
//! Source: ours; the paper journals every write. Not here: what leaves the write buffer for other
//! reasons (`regions`), writes that bypass it in one request (`state`).

use super::regions::{EvictionOrder, PART_LEN, Regions};
use imbrex_disk::{BlockRange, Blocks};

/// How far from a stream's front a request may begin, in blocks: 16 MiB, the requests that a client
/// has under way.
const NEAR_LEN: u64 = 4096;
/// How many streams are followed. A request that continues none begins one, in place of another.
const STREAM_COUNT_MAX: usize = 64;
/// How much may be held, in blocks: 64 MiB.
const HELD_LEN_MAX: u64 = 16 * PART_LEN;

/// One sequence of requests.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    start: u64,
    front: u64,
    /// How many blocks its requests had.
    len: u64,
    /// The number of its last request.
    last: u64,
}

impl Sequence {
    /// Whether it is long enough, dense, and not written again and again.
    fn counts(&self, stream_len: Blocks) -> bool {
        let span = self.front - self.start;
        stream_len.get() <= self.len && 3 * span <= 4 * self.len && 4 * self.len <= 5 * span
    }
}

/// The streams of a host, and what is held of them.
#[derive(Debug)]
pub(super) struct Streams {
    /// How long a sequence is before it counts as a stream; `None` without streams.
    stream_len: Option<Blocks>,
    list: Vec<Sequence>,
    number: u64,
    pub(super) held: Regions,
    /// What has left and is still in the write buffer, the oldest first.
    pub(super) kept: Regions,
}

impl Streams {
    /// No stream yet.
    pub(super) fn new(stream_len: Option<Blocks>) -> Streams {
        let held = Regions::new(EvictionOrder::LongestAndOldest);
        let kept = Regions::new(EvictionOrder::LeastRecentlyWritten);
        Streams { stream_len, list: Vec::new(), number: 0, held, kept }
    }

    /// Notes a request; returns whether it continues a stream.
    pub(super) fn note(&mut self, written: BlockRange) -> bool {
        let Some(stream_len) = self.stream_len else { return false };
        self.number += 1;
        let (start, end) = (written.start.get(), written.end().get());
        let near = self.list.iter_mut().filter(|stream| stream.front.abs_diff(start) <= NEAR_LEN);
        let Some(stream) = near.min_by_key(|stream| stream.front.abs_diff(start)) else {
            self.begin(Sequence { start, front: end, len: end - start, last: self.number });
            return false;
        };
        let did_count = stream.counts(stream_len);
        *stream = Sequence {
            start: stream.start.min(start),
            front: stream.front.max(end),
            len: stream.len + (end - start),
            last: self.number,
        };
        did_count && stream.counts(stream_len)
    }

    /// Follows a new sequence in place of the one that was silent longest. Sequences that count as
    /// streams go last, so that random writes do not displace them.
    fn begin(&mut self, stream: Sequence) {
        if self.list.len() < STREAM_COUNT_MAX {
            self.list.push(stream);
            return;
        }
        let stream_len = self.stream_len.unwrap_or_default();
        let silent = self.list.iter_mut().min_by_key(|old| {
            let is_recent = self.number - old.last < 64 * STREAM_COUNT_MAX as u64;
            (is_recent && old.counts(stream_len), old.last)
        });
        silent.into_iter().for_each(|old| *old = stream);
    }

    /// Holds the blocks of a request, and returns the parts that are complete with them.
    pub(super) fn hold(&mut self, written: BlockRange) -> Vec<BlockRange> {
        self.held.insert(written);
        let parts = self.held.touching(written);
        parts.filter(|part| part.len.get() == PART_LEN).collect()
    }

    /// A part to write next so that no more is held than T4 allows.
    pub(super) fn excess(&mut self, capacity: Blocks) -> Option<BlockRange> {
        let most = Blocks::new(HELD_LEN_MAX.min(capacity.get() / 2));
        if most < self.held.total() { self.held.victim() } else { None }
    }

    /// Ends the wait of everything that is held. Returns the parts, and for each whether it is long
    /// enough for a data zone.
    pub(super) fn release(&mut self) -> Vec<(BlockRange, bool)> {
        let empty = Regions::new(EvictionOrder::LongestAndOldest);
        let held = std::mem::replace(&mut self.held, empty);
        let direct_len = self.stream_len.unwrap_or_default().get() / 2;
        held.iter().map(|part| (part, direct_len <= part.len.get())).collect()
    }

    /// How much memory it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.held.memory_bytes()
            + self.kept.memory_bytes()
            + (self.list.capacity() * size_of::<Sequence>()) as u64
    }
}

#[cfg(test)]
mod tests;
