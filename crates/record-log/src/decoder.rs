//! The reading half: decodes blocks into records, and decides how the log ended.
//!
//! ```text
//!   frames     | ok | ok | ok | ?? | .. | .. | .. |
//!                              ^ bad position       ^ bounds.len_blocks
//!                              +--- later frames ---+   do they say that `??` was durable?
//!                                                       or that the log was restarted after it?
//! ```
//!
//! A log may have a copy elsewhere, with the same frames at the same positions. The decoder takes a
//! bad frame from the copy, if the copy has it whole.

use crate::format::{
    BLOCK_LEN_BYTES, FRAME_LEN_BYTES_MAX, HEADER_LEN_BYTES, Header, Peek, take_varint,
};
use crate::look::{FAR_GAP_BLOCKS, GAP_BLOCKS, Look, READ_AHEAD_BLOCKS};
use crate::position::Position;
use std::collections::BTreeSet;
use std::ops::Range;

/// The log to read, and its greatest possible length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBounds {
    /// The log's id, as given to its encoder.
    pub log_id: u64,
    /// The greatest number of blocks that can be read; an upper bound is enough.
    pub len_blocks: u64,
    /// The caller knows that the log is durable up to this position, so an end before it is damage;
    /// 0 if it knows nothing.
    pub durable_blocks: u64,
}

/// A record and where it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it begins.
    pub position: Position,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// What was found where a frame should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// Nothing of this log: unwritten, or left over from something else.
    #[error("no frame of this log")]
    Missing,
    /// The last block of the log.
    #[error("the end of the log's blocks")]
    Bound,
    /// An unreadable block where a frame should begin ([`Decoder::passing`]).
    #[error("a block that cannot be read")]
    Unreadable,
    /// A frame with an unreadable block.
    #[error("a frame with a block that cannot be read")]
    UnreadableFrame,
    /// A frame that reaches past the log's last block.
    #[error("a frame that reaches past the log's last block")]
    CutShort,
    /// A frame whose checksum does not match.
    #[error("a frame whose checksum does not match its content")]
    Checksum,
    /// A frame with an impossible length.
    #[error("a frame that claims {payload_len_bytes} bytes of payload")]
    FrameLength {
        /// The length in its header.
        payload_len_bytes: u32,
    },
    /// A whole frame from before an earlier recovery.
    #[error("a stale frame of incarnation {got}, expected {expected}")]
    Stale {
        /// The incarnation of the frame.
        got: u32,
        /// The incarnation of the log at this point.
        expected: u32,
    },
    /// A frame whose records do not begin where its header says, or with an impossible record
    /// length.
    #[error("a frame whose records do not line up with its header")]
    Records,
    /// A complete frame of a version that this program does not know.
    #[error("a frame of format version {got}; this program knows 1; use a newer one")]
    Version {
        /// Its version.
        got: u16,
    },
}

/// How the log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// After a complete record, with nothing after it.
    #[error("the log ends at block {at_blocks}")]
    Clean {
        /// Where the next frame would be.
        at_blocks: u64,
    },
    /// In a write that never became durable. The last record that was returned is the end of the
    /// log.
    #[error("the log is torn at block {at_blocks}: found {flaw}")]
    Torn {
        /// Where the valid frames end.
        at_blocks: u64,
        /// What was found there.
        flaw: Flaw,
    },
    /// In data that were durable: the log is damaged, and later records are lost.
    #[error(
        "the log is damaged at block {at_blocks}: found {flaw}, \
         but everything below block {durable_upto_blocks} had been synced"
    )]
    Corrupt {
        /// Where the valid frames end.
        at_blocks: u64,
        /// How far the log was durable.
        durable_upto_blocks: u64,
        /// What was found.
        flaw: Flaw,
    },
    /// At a complete frame that this program cannot read.
    #[error(
        "the log has format version {got} from block {at_blocks} on; \
         this program knows 1; use a newer one"
    )]
    Version {
        /// Where the readable frames end.
        at_blocks: u64,
        /// The version.
        got: u16,
    },
}

/// What an encoder needs to continue a log after its recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Where the valid frames end.
    pub cut_blocks: u64,
    /// The next incarnation.
    pub incarnation: u32,
}

/// Fills a buffer from a byte offset of a log's copy. Returns false if the copy cannot be read there.
type NoCopy = fn(u64, &mut [u8]) -> bool;

/// Reads a log from its start. `R` fills a buffer from a byte offset of the log; offset and length
/// are whole blocks within `bounds.len_blocks`. `C` does so for the log's copy, and returns whether
/// it could.
#[derive(Debug)]
pub struct Decoder<R, E, C = NoCopy> {
    bounds: LogBounds,
    read: R,
    copy: C,
    /// The positions of frames that came from the copy.
    copied: Vec<u64>,
    /// Everything below this position was durable, as the frames so far record.
    durable_upto_blocks: u64,
    /// Which errors of the reader mean only that a block cannot be read.
    is_unreadable: fn(&E) -> bool,
    /// The unreadable blocks so far; the window has zeros in their place.
    unreadable: BTreeSet<u64>,
    /// Blocks read ahead, from `window_blocks` on.
    window: Vec<u8>,
    window_blocks: u64,
    read_ahead_blocks: u64,
    /// How far the look behind a bad position goes without finding anything.
    gap_blocks: u64,
    /// Where the next frame must be.
    next_blocks: u64,
    /// The position of the current frame.
    frame_blocks: u64,
    frame: Header,
    /// The part of the frame's payload that was not returned yet, as offsets in the frame.
    payload: Range<usize>,
    /// Whether a record has begun in this frame.
    record_began: bool,
    /// The bytes so far of a record that did not end in its first frame.
    partial: Vec<u8>,
    partial_at: Position,
    /// The last record returned, if it spanned several frames.
    finished: Vec<u8>,
    incarnation: u32,
    incarnation_max: u32,
    /// A bad position after which the decoder has yet to look.
    bad: Option<(u64, Flaw)>,
    end: Option<End>,
}

impl<R, E> Decoder<R, E>
where
    R: FnMut(u64, &mut [u8]) -> Result<(), E>,
{
    /// A decoder of the log `bounds`, at its start.
    pub fn new(bounds: LogBounds, read: R) -> Decoder<R, E> {
        Decoder::passing(bounds, read, |_| false)
    }

    /// Like [`Decoder::new`], for a reader that can fail on single blocks. If a read of a single
    /// block fails with an error that `is_unreadable`, the decoder takes the block for no frame, or
    /// for a flaw of its frame. A power cut can leave a block in that state if the block was being
    /// written. Like a failed checksum it ends the log as torn or damaged, never cleanly.
    pub fn passing(bounds: LogBounds, read: R, is_unreadable: fn(&E) -> bool) -> Decoder<R, E> {
        Decoder::of_copies(bounds, read, |_, _| false, is_unreadable)
    }
}

impl<R, E, C> Decoder<R, E, C>
where
    R: FnMut(u64, &mut [u8]) -> Result<(), E>,
    C: FnMut(u64, &mut [u8]) -> bool,
{
    /// Like [`Decoder::passing`], for a log with a copy. A frame that is bad in the log is taken
    /// from the copy. Where both lack a frame, the log ends.
    pub fn of_copies(
        bounds: LogBounds,
        read: R,
        copy: C,
        is_unreadable: fn(&E) -> bool,
    ) -> Decoder<R, E, C> {
        Decoder {
            bounds,
            read,
            copy,
            copied: Vec::new(),
            durable_upto_blocks: bounds.durable_blocks,
            is_unreadable,
            unreadable: BTreeSet::new(),
            window: Vec::new(),
            window_blocks: 0,
            read_ahead_blocks: READ_AHEAD_BLOCKS,
            gap_blocks: GAP_BLOCKS,
            next_blocks: 0,
            frame_blocks: 0,
            frame: Header {
                log_id: bounds.log_id,
                position_blocks: 0,
                durable_upto_blocks: 0,
                cut_blocks: 0,
                payload_len_bytes: 0,
                first_record: 0,
                incarnation: 0,
                restart: false,
            },
            payload: 0..0,
            record_began: true,
            partial: Vec::new(),
            partial_at: Position { frame_blocks: 0, offset_bytes: 0 },
            finished: Vec::new(),
            incarnation: 0,
            incarnation_max: 0,
            bad: None,
            end: None,
        }
    }

    /// The same decoder, for a log whose writer need not sync: before it takes the log for ended, it
    /// passes up to 5 MiB that have nothing of the log.
    #[must_use]
    pub fn looking_far(self) -> Self {
        Decoder { gap_blocks: FAR_GAP_BLOCKS, ..self }
    }

    /// The next record, or `None` at the end of the log; [`Decoder::end`] then returns the kind of
    /// end.
    ///
    /// Memory: one record and 1 MiB. Never panics, whatever the bytes are.
    ///
    /// # Errors
    /// That of the reader; the call may be repeated.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, E> {
        if self.finished.capacity() > FRAME_LEN_BYTES_MAX {
            self.finished = Vec::new();
        }
        while self.end.is_none() {
            if let Some((at_blocks, flaw)) = self.bad {
                self.look_behind(at_blocks, flaw)?;
                continue;
            }
            if self.payload.is_empty() {
                self.next_frame()?;
                continue;
            }
            match self.take_from_frame() {
                Ok(Some(found)) => return Ok(Some(self.record(found))),
                Ok(None) => {}
                Err(flaw) => self.bad = Some((self.frame_blocks, flaw)),
            }
        }
        Ok(None)
    }

    /// How the log ended, once [`Decoder::next_record`] has returned `None`.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// How many frames were bad in the log and came from its copy.
    pub fn copied_count(&self) -> u64 {
        self.copied.len() as u64
    }

    /// The position of the first of them.
    pub fn first_copied_blocks(&self) -> Option<u64> {
        self.copied.first().copied()
    }

    /// How many of them had been durable, so that the log was damaged. The others may also be writes
    /// that a power cut kept out of the log.
    pub fn damaged_count(&self) -> u64 {
        let is_damaged = |at: &&u64| **at < self.durable_upto_blocks;
        self.copied.iter().filter(is_damaged).count() as u64
    }

    /// Whether the log ended in the middle of a record.
    pub fn ended_in_record(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Continues after an end, at the first record that begins in the next complete frame. The data
    /// in between are lost. Returns false if there is no such frame.
    ///
    /// # Errors
    /// That of the reader.
    pub fn pass_damage(&mut self) -> Result<bool, E> {
        let (Some(End::Corrupt { at_blocks, .. }) | Some(End::Torn { at_blocks, .. })) = self.end
        else {
            return Ok(false);
        };
        self.payload = 0..0;
        for later in at_blocks + 1..self.bounds.len_blocks {
            let Ok(header) = self.frame_at(later)? else { continue };
            let begins = header.first_record as usize;
            if header.incarnation < self.incarnation || begins == 0 {
                continue;
            }
            self.partial.clear();
            self.enter(later, header);
            self.payload.start = begins.min(self.payload.end);
            (self.bad, self.end) = (None, None);
            return Ok(true);
        }
        Ok(false)
    }

    /// Continues where the bounds ended, after the log has grown to `len_blocks` blocks. Returns
    /// false if it did not end there, or has not grown.
    pub fn grow(&mut self, len_blocks: u64) -> bool {
        let (Some(End::Clean { at_blocks }) | Some(End::Torn { at_blocks, .. })) = self.end else {
            return false;
        };
        if at_blocks != self.bounds.len_blocks || len_blocks <= at_blocks {
            return false;
        }
        self.bounds.len_blocks = len_blocks;
        (self.bad, self.end) = (None, None);
        true
    }

    /// The argument for [`Encoder::resume`](crate::Encoder::resume), if the log can be continued:
    /// after a clean or torn end.
    pub fn resume(&self) -> Option<Resume> {
        match self.end? {
            End::Clean { at_blocks } | End::Torn { at_blocks, .. } => {
                let incarnation = self.incarnation_max.checked_add(1)?;
                Some(Resume { cut_blocks: at_blocks, incarnation })
            }
            End::Corrupt { .. } | End::Version { .. } => None,
        }
    }

    /// Takes the rest of the current record from the current frame; `Ok(None)` if the record
    /// continues in the next frame.
    fn take_from_frame(&mut self) -> Result<Option<Found>, Flaw> {
        let frame = frame_bytes(&self.window, self.window_blocks, self.frame_blocks);
        let rest = &frame[self.payload.clone()];
        if !self.partial.is_empty() {
            return self.continue_partial();
        }
        let start = self.payload.start;
        if !self.record_began && start as u32 != self.frame.first_record {
            return Err(Flaw::Records);
        }
        self.record_began = true;
        let position = Position { frame_blocks: self.frame_blocks, offset_bytes: start as u32 };
        if let Some((len, varint_len)) = take_varint(rest).map_err(|()| Flaw::Records)?
            && len <= (rest.len() - varint_len) as u64
        {
            let bytes = start + varint_len..start + varint_len + len as usize;
            self.payload.start = bytes.end;
            return Ok(Some(Found { position, place: Located::Frame(bytes) }));
        }
        self.partial.extend_from_slice(rest);
        self.partial_at = position;
        self.payload = 0..0;
        Ok(None)
    }

    /// Adds bytes of the current frame to a partial record.
    fn continue_partial(&mut self) -> Result<Option<Found>, Flaw> {
        let frame = frame_bytes(&self.window, self.window_blocks, self.frame_blocks);
        loop {
            match take_varint(&self.partial).map_err(|()| Flaw::Records)? {
                None if self.payload.is_empty() => return Ok(None),
                None => {
                    self.partial.push(frame[self.payload.start]);
                    self.payload.start += 1;
                }
                Some((len, varint_len)) => {
                    let missing = varint_len as u64 + len - self.partial.len() as u64;
                    let readable = (self.bounds.len_blocks - self.frame_blocks)
                        .saturating_mul(BLOCK_LEN_BYTES as u64);
                    self.partial.reserve_exact(missing.min(readable) as usize);
                    let now = missing.min(self.payload.len() as u64) as usize;
                    let end = self.payload.start + now;
                    self.partial.extend_from_slice(&frame[self.payload.start..end]);
                    self.payload.start = end;
                    let place = Located::Partial(varint_len..varint_len + len as usize);
                    let found = Found { position: self.partial_at, place };
                    return Ok((missing == now as u64).then_some(found));
                }
            }
        }
    }

    /// The record at `found`. A partial one is returned and forgotten.
    fn record(&mut self, found: Found) -> Record<'_> {
        let bytes = match found.place {
            Located::Frame(range) => {
                &frame_bytes(&self.window, self.window_blocks, self.frame_blocks)[range]
            }
            Located::Partial(range) => {
                // Swapped, not cleared: the caller reads it while the next record is assembled.
                self.finished.clear();
                std::mem::swap(&mut self.finished, &mut self.partial);
                &self.finished[range]
            }
        };
        Record { position: found.position, bytes }
    }

    /// Moves to the frame at `next_blocks`, or records that it is bad.
    fn next_frame(&mut self) -> Result<(), E> {
        if !self.record_began && self.frame.first_record != 0 {
            self.bad = Some((self.frame_blocks, Flaw::Records));
            return Ok(());
        }
        let at_blocks = self.next_blocks;
        let header = match self.frame_at(at_blocks)? {
            Ok(header) => header,
            Err(flaw) => match self.copied_frame_at(at_blocks)? {
                Some(header) => header,
                None => {
                    self.bad = Some((at_blocks, flaw));
                    return Ok(());
                }
            },
        };
        let goes_on = header.incarnation == self.incarnation && !header.restart;
        let restarts = header.restart
            && header.cut_blocks == at_blocks
            && header.incarnation > self.incarnation;
        if goes_on || restarts {
            self.enter(at_blocks, header);
            return Ok(());
        }
        let flaw = Flaw::Stale { got: header.incarnation, expected: self.incarnation };
        self.bad = Some((at_blocks, flaw));
        Ok(())
    }

    /// The frame that the copy has at `at_blocks`, if it is whole. Afterwards the window holds it.
    fn copied_frame_at(&mut self, at_blocks: u64) -> Result<Option<Header>, E> {
        if at_blocks >= self.bounds.len_blocks {
            return Ok(None);
        }
        let offset = at_blocks * BLOCK_LEN_BYTES as u64;
        let mut frame = vec![0; BLOCK_LEN_BYTES];
        if !(self.copy)(offset, &mut frame) {
            return Ok(None);
        }
        let Peek::Candidate { frame_len_bytes } =
            Header::peek(&frame, self.bounds.log_id, at_blocks)
        else {
            return Ok(None);
        };
        let len_blocks = (frame_len_bytes / BLOCK_LEN_BYTES) as u64;
        if len_blocks > self.bounds.len_blocks - at_blocks {
            return Ok(None);
        }
        frame.resize(frame_len_bytes, 0);
        if !(self.copy)(offset, &mut frame) {
            return Ok(None);
        }
        let Ok(Some(header)) = Header::decode(&frame) else { return Ok(None) };
        self.fetch(at_blocks, len_blocks)?;
        let start = (at_blocks - self.window_blocks) as usize * BLOCK_LEN_BYTES;
        self.window[start..start + frame_len_bytes].copy_from_slice(&frame);
        self.copied.push(at_blocks);
        Ok(Some(header))
    }

    fn enter(&mut self, at_blocks: u64, header: Header) {
        if header.restart {
            // A record that was incomplete at the cut never became durable.
            self.partial.clear();
        }
        let payload_end = HEADER_LEN_BYTES + header.payload_len_bytes as usize;
        self.incarnation = header.incarnation;
        self.incarnation_max = self.incarnation_max.max(header.incarnation);
        self.durable_upto_blocks = self.durable_upto_blocks.max(header.durable_upto_blocks);
        self.frame_blocks = at_blocks;
        self.next_blocks = at_blocks + payload_end.div_ceil(BLOCK_LEN_BYTES) as u64;
        self.payload = HEADER_LEN_BYTES..payload_end;
        self.record_began = false;
        self.frame = header;
    }

    /// Verifies the frame at `at_blocks`. Afterwards the window holds the whole frame.
    fn frame_at(&mut self, at_blocks: u64) -> Result<Result<Header, Flaw>, E> {
        if at_blocks >= self.bounds.len_blocks {
            return Ok(Err(Flaw::Bound));
        }
        self.fetch(at_blocks, 1)?;
        if self.unreadable.contains(&at_blocks) {
            return Ok(Err(Flaw::Unreadable));
        }
        let block = frame_bytes(&self.window, self.window_blocks, at_blocks);
        let frame_len_bytes = match Header::peek(block, self.bounds.log_id, at_blocks) {
            Peek::Foreign => return Ok(Err(Flaw::Missing)),
            Peek::BadLength { payload_len_bytes } => {
                return Ok(Err(Flaw::FrameLength { payload_len_bytes }));
            }
            Peek::Candidate { frame_len_bytes } => frame_len_bytes,
        };
        let len_blocks = (frame_len_bytes / BLOCK_LEN_BYTES) as u64;
        if len_blocks > self.bounds.len_blocks - at_blocks {
            return Ok(Err(Flaw::CutShort));
        }
        self.fetch(at_blocks, len_blocks)?;
        if self.unreadable.range(at_blocks..at_blocks + len_blocks).next().is_some() {
            return Ok(Err(Flaw::UnreadableFrame));
        }
        let frame = &frame_bytes(&self.window, self.window_blocks, at_blocks)[..frame_len_bytes];
        Ok(match Header::decode(frame) {
            Ok(Some(header)) => Ok(header),
            Ok(None) => Err(Flaw::Checksum),
            Err(got) => Err(Flaw::Version { got }),
        })
    }

    /// Fills the window with `len_blocks` blocks from `at_blocks`, which are within the bounds.
    fn fetch(&mut self, at_blocks: u64, len_blocks: u64) -> Result<(), E> {
        let window_end = self.window_blocks + (self.window.len() / BLOCK_LEN_BYTES) as u64;
        if self.window_blocks <= at_blocks && at_blocks + len_blocks <= window_end {
            return Ok(());
        }
        let wanted = len_blocks.max(self.read_ahead_blocks).min(self.bounds.len_blocks - at_blocks);
        // Until the read succeeds the window is empty.
        self.window.clear();
        let mut window = std::mem::take(&mut self.window);
        window.resize(wanted as usize * BLOCK_LEN_BYTES, 0);
        match (self.read)(at_blocks * BLOCK_LEN_BYTES as u64, &mut window) {
            Err(error) if (self.is_unreadable)(&error) => {
                self.read_each(at_blocks, &mut window)?;
            }
            result => result?,
        }
        self.window = window;
        self.window_blocks = at_blocks;
        Ok(())
    }

    /// Fills `window` block by block, from `at_blocks` on, and records the unreadable blocks.
    fn read_each(&mut self, at_blocks: u64, window: &mut [u8]) -> Result<(), E> {
        for (at, block) in (at_blocks..).zip(window.chunks_exact_mut(BLOCK_LEN_BYTES)) {
            match (self.read)(at * BLOCK_LEN_BYTES as u64, block) {
                Err(error) if (self.is_unreadable)(&error) => {
                    block.fill(0);
                    self.unreadable.insert(at);
                }
                result => result?,
            }
        }
        Ok(())
    }

    /// Looks after the bad position `at_blocks`: continues at a restart, or ends the log.
    fn look_behind(&mut self, at_blocks: u64, flaw: Flaw) -> Result<(), E> {
        // The scan moves the window away from the current frame.
        self.payload = 0..0;
        let mut durable_upto_blocks = self.bounds.durable_blocks;
        let mut is_last = true;
        let mut look = Look::from(at_blocks, self.bounds.len_blocks, self.gap_blocks);
        while let Some(later) = self.next_to_look_at(&mut look)? {
            let Ok(header) = self.frame_at(later)? else { continue };
            self.incarnation_max = self.incarnation_max.max(header.incarnation);
            if header.restart
                && header.cut_blocks == at_blocks
                && header.incarnation > self.incarnation
            {
                self.bad = None;
                self.enter(later, header);
                return Ok(());
            }
            // A frame of a later incarnation without its restart: the restart was lost, and the log
            // continued.
            is_last &= header.incarnation < self.incarnation;
            durable_upto_blocks = durable_upto_blocks.max(header.durable_upto_blocks);
        }
        let is_whole = self.partial.is_empty()
            && match flaw {
                Flaw::Missing | Flaw::Bound => true,
                Flaw::Stale { got, expected } => got < expected,
                _ => false,
            };
        self.end = Some(match flaw {
            Flaw::Version { got } => End::Version { at_blocks, got },
            _ if durable_upto_blocks > at_blocks => {
                End::Corrupt { at_blocks, durable_upto_blocks, flaw }
            }
            _ if is_whole && is_last => End::Clean { at_blocks },
            _ => End::Torn { at_blocks, flaw },
        });
        Ok(())
    }

    /// The next block that may begin a frame behind a bad position; `None` at the end of the look.
    fn next_to_look_at(&mut self, look: &mut Look) -> Result<Option<u64>, E> {
        loop {
            let Some(at_blocks) = look.next() else { return Ok(None) };
            self.read_ahead_blocks = look.read_ahead_blocks();
            let is_blank = match self.frame_at(at_blocks)? {
                Err(Flaw::Missing | Flaw::Bound) => true,
                // A frame of this log, whole or not, or a block that cannot be read.
                _ => false,
            };
            self.read_ahead_blocks = READ_AHEAD_BLOCKS;
            if !is_blank {
                look.found();
                return Ok(Some(at_blocks));
            }
        }
    }
}

/// The location of a complete record.
#[derive(Debug)]
struct Found {
    position: Position,
    place: Located,
}

#[derive(Debug)]
enum Located {
    /// In the current frame, as offsets in it.
    Frame(Range<usize>),
    /// In the assembled bytes.
    Partial(Range<usize>),
}

fn frame_bytes(window: &[u8], window_blocks: u64, at_blocks: u64) -> &[u8] {
    &window[(at_blocks - window_blocks) as usize * BLOCK_LEN_BYTES..]
}
