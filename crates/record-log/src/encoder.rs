//! The writing half: encodes records into frames of whole blocks.
//!
//! ```text
//!   buffer   | ready frames ......... | header | payload so far
//!            0                        frame_start              len
//! ```
//!
//! Bytes are copied once, into the buffer. The checksum of a frame is computed once, when it
//! closes.

use crate::decoder::Resume;
use crate::format::{
    BLOCK_LEN_BYTES, FRAME_LEN_BYTES_DEFAULT, FRAME_LEN_BYTES_MAX, HEADER_LEN_BYTES, Header,
    RECORD_LEN_BYTES_MAX, VARINT_LEN_BYTES_MAX, put_varint,
};
use crate::position::Position;

/// How many ready bytes [`Encoder::push_to`] collects before it passes them on.
const HAND_ON_LEN_BYTES: usize = 1 << 20;

/// A record longer than the format allows. Nothing was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record of {len_bytes} bytes; a record log takes at most {RECORD_LEN_BYTES_MAX}")]
pub struct RecordTooLong {
    /// Its length.
    pub len_bytes: u64,
}

/// Turns records into frames. The caller appends the ready bytes to the log, in order.
#[derive(Debug)]
pub struct Encoder {
    log_id: u64,
    incarnation: u32,
    frame_len_bytes: usize,
    buffer: Vec<u8>,
    /// The start of the open frame in `buffer`; everything before it is ready.
    frame_start: usize,
    /// Offset in the open frame of the first record that begins in it; 0 for none yet.
    first_record: u32,
    /// The position of the open frame in the log.
    position_blocks: u64,
    durable_upto_blocks: u64,
    /// The cut that the next frame must record as a restart.
    restart_cut_blocks: Option<u64>,
}

impl Encoder {
    /// An encoder of a new log. `log_id` must never have named another log on the same drive.
    pub fn new(log_id: u64) -> Encoder {
        Encoder::with_frame_len(log_id, FRAME_LEN_BYTES_DEFAULT)
    }

    /// Like [`Encoder::new`], with frames of `frame_len_bytes`.
    ///
    /// # Panics
    /// If `frame_len_bytes` is not a positive multiple of 4096 up to [`FRAME_LEN_BYTES_MAX`].
    pub fn with_frame_len(log_id: u64, frame_len_bytes: usize) -> Encoder {
        assert!(
            frame_len_bytes > 0 && frame_len_bytes.is_multiple_of(BLOCK_LEN_BYTES),
            "a frame is whole blocks"
        );
        assert!(frame_len_bytes <= FRAME_LEN_BYTES_MAX, "a reader holds any frame");
        Encoder {
            log_id,
            incarnation: 0,
            frame_len_bytes,
            buffer: Vec::with_capacity(2 * frame_len_bytes),
            frame_start: 0,
            first_record: 0,
            position_blocks: 0,
            durable_upto_blocks: 0,
            restart_cut_blocks: None,
        }
    }

    /// An encoder that continues a log after its recovery, at `at_blocks`: the next block that the
    /// log can take, at or after the end that the decoder found.
    ///
    /// # Panics
    /// If `at_blocks` is before that end.
    pub fn resume(log_id: u64, from: Resume, at_blocks: u64) -> Encoder {
        assert!(from.cut_blocks <= at_blocks, "a restart lies after what it goes on from");
        Encoder {
            incarnation: from.incarnation,
            position_blocks: at_blocks,
            // The blocks between the cut and the restart are debris: nothing is claimed about them.
            durable_upto_blocks: from.cut_blocks,
            restart_cut_blocks: Some(from.cut_blocks),
            ..Encoder::new(log_id)
        }
    }

    /// Appends a record made of `parts`, one after another. Cost: one copy.
    ///
    /// # Errors
    /// [`RecordTooLong`]: nothing was pushed.
    pub fn push(&mut self, parts: &[&[u8]]) -> Result<(), RecordTooLong> {
        self.start_record(parts)?;
        for part in parts {
            self.push_bytes(part);
        }
        Ok(())
    }

    /// Like [`Encoder::push`], for records of any size in bounded memory. Passes ready frames to
    /// `append` while it still copies the record. [`Encoder::take_ready`] returns the frames that
    /// are ready at the end.
    ///
    /// # Errors
    /// Outer: [`RecordTooLong`], nothing was pushed. Inner: that of `append`; the log then ends in
    /// the middle of a record and must be abandoned.
    pub fn push_to<E>(
        &mut self,
        parts: &[&[u8]],
        append: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Result<(), E>, RecordTooLong> {
        self.start_record(parts)?;
        for piece in parts.iter().flat_map(|part| part.chunks(HAND_ON_LEN_BYTES)) {
            self.push_bytes(piece);
            if self.ready_len_bytes() >= HAND_ON_LEN_BYTES {
                if let Err(error) = append(self.ready()) {
                    return Ok(Err(error));
                }
                self.clear_ready();
            }
        }
        Ok(Ok(()))
    }

    /// The position of the content of a record of `len_bytes` that is pushed next.
    pub fn place_of_next(&self, len_bytes: u64) -> Position {
        let offset =
            if self.is_sealed() { HEADER_LEN_BYTES } else { self.buffer.len() - self.frame_start };
        let start = Position { frame_blocks: self.position_blocks, offset_bytes: offset as u32 };
        let varint_len = put_varint(len_bytes, &mut [0; VARINT_LEN_BYTES_MAX]);
        start.advanced(varint_len as u64, self.frame_len_bytes)
    }

    /// The greatest length of the log if a record of `len_bytes` is pushed next and all frames are
    /// closed.
    pub fn len_bytes_with(&self, len_bytes: u64) -> u64 {
        let end = self.place_of_next(len_bytes).advanced(len_bytes, self.frame_len_bytes);
        // A long record may begin in a frame of its own (`seal` before it).
        end.offset().next_multiple_of(BLOCK_LEN_BYTES as u64) + BLOCK_LEN_BYTES as u64
    }

    /// Closes the open frame, if there is one, padded to whole blocks. Everything pushed is then
    /// ready.
    pub fn seal(&mut self) {
        if self.buffer.len() > self.frame_start {
            self.close_frame();
        }
    }

    /// The frames that can be appended to the log.
    pub fn ready(&self) -> &[u8] {
        &self.buffer[..self.frame_start]
    }

    /// How many bytes are ready.
    pub fn ready_len_bytes(&self) -> usize {
        self.frame_start
    }

    /// Moves the ready bytes to `out`. The old content of `out` is lost and its memory reused.
    ///
    /// Cost: a swap of two buffers, and a copy of the open frame (less than a frame).
    pub fn take_ready(&mut self, out: &mut Vec<u8>) {
        out.clear();
        if self.frame_start == 0 {
            return;
        }
        out.extend_from_slice(&self.buffer[self.frame_start..]);
        std::mem::swap(&mut self.buffer, out);
        out.truncate(self.frame_start);
        self.frame_start = 0;
    }

    /// Forgets the ready bytes, after the caller has appended them.
    pub fn clear_ready(&mut self) {
        self.buffer.copy_within(self.frame_start.., 0);
        self.buffer.truncate(self.buffer.len() - self.frame_start);
        self.frame_start = 0;
    }

    /// Whether everything that was pushed is in closed frames.
    pub fn is_sealed(&self) -> bool {
        self.buffer.len() == self.frame_start
    }

    /// The end of the closed frames in the log. Pass it to [`Encoder::mark_durable`] after
    /// appending and syncing them.
    pub fn end_blocks(&self) -> u64 {
        self.position_blocks
    }

    /// Lets frames closed from now on record that everything below `upto_blocks` is durable.
    ///
    /// # Panics
    /// If not all frames up to there are closed.
    pub fn mark_durable(&mut self, upto_blocks: u64) {
        assert!(upto_blocks <= self.position_blocks, "only what was written can be durable");
        self.durable_upto_blocks = self.durable_upto_blocks.max(upto_blocks);
    }

    fn start_record(&mut self, parts: &[&[u8]]) -> Result<(), RecordTooLong> {
        let len_bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if len_bytes > RECORD_LEN_BYTES_MAX {
            return Err(RecordTooLong { len_bytes });
        }
        if self.is_sealed() {
            self.buffer.extend_from_slice(&[0; HEADER_LEN_BYTES]);
        }
        if self.first_record == 0 {
            self.first_record = (self.buffer.len() - self.frame_start) as u32;
        }
        let mut varint = [0; VARINT_LEN_BYTES_MAX];
        let varint_len = put_varint(len_bytes, &mut varint);
        self.push_bytes(&varint[..varint_len]);
        Ok(())
    }

    fn push_bytes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.is_sealed() {
                self.buffer.extend_from_slice(&[0; HEADER_LEN_BYTES]);
            }
            let room = self.frame_start + self.frame_len_bytes - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            if now.len() == room {
                self.close_frame();
            }
            bytes = later;
        }
    }

    fn close_frame(&mut self) {
        let used_len = self.buffer.len() - self.frame_start;
        let frame_len = used_len.next_multiple_of(BLOCK_LEN_BYTES);
        self.buffer.resize(self.frame_start + frame_len, 0);
        let cut_blocks = self.restart_cut_blocks.take();
        let header = Header {
            log_id: self.log_id,
            position_blocks: self.position_blocks,
            durable_upto_blocks: self.durable_upto_blocks,
            cut_blocks: cut_blocks.unwrap_or(0),
            payload_len_bytes: (used_len - HEADER_LEN_BYTES) as u32,
            first_record: self.first_record,
            incarnation: self.incarnation,
            restart: cut_blocks.is_some(),
        };
        header.encode_into(&mut self.buffer[self.frame_start..]);
        self.frame_start += frame_len;
        self.first_record = 0;
        self.position_blocks += (frame_len / BLOCK_LEN_BYTES) as u64;
    }
}
