//! Positions of bytes in a log, for readers of a part of a record.
//!
//! ```text
//!   | header | ... varint content con | header | tent ...        frames of one length, all of them full
//!                         ^ position
//! ```
//!
//! Only a frame that ends with a record may be shorter than the others ([`crate::Encoder::seal`]).
//! Within a record, each frame but the last is therefore full.

use crate::format::{BLOCK_LEN_BYTES, HEADER_LEN_BYTES};
use std::fmt;
use std::ops::Range;

/// The position of a byte in a log: of the start of a record, or of a part of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The start of its frame, in blocks from the start of the log.
    pub frame_blocks: u64,
    /// The offset in the frame.
    pub offset_bytes: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} + {}", self.frame_blocks, self.offset_bytes)
    }
}

impl Position {
    /// The position `len_bytes` later in the same record, whose frames have `frame_len_bytes`.
    pub fn advanced(self, len_bytes: u64, frame_len_bytes: usize) -> Position {
        let frame_len = frame_len_bytes as u64;
        let room = frame_len.saturating_sub(u64::from(self.offset_bytes));
        if len_bytes < room {
            return Position { offset_bytes: self.offset_bytes + len_bytes as u32, ..self };
        }
        let payload_len = frame_len - HEADER_LEN_BYTES as u64;
        let (frames, rest) = ((len_bytes - room) / payload_len, (len_bytes - room) % payload_len);
        Position {
            frame_blocks: self.frame_blocks + (1 + frames) * (frame_len / BLOCK_LEN_BYTES as u64),
            offset_bytes: (HEADER_LEN_BYTES as u64 + rest) as u32,
        }
    }

    /// Its offset in the log.
    pub fn offset(self) -> u64 {
        self.frame_blocks * BLOCK_LEN_BYTES as u64 + u64::from(self.offset_bytes)
    }

    /// The ranges of the log that hold the `len_bytes` from here on, in order.
    pub fn ranges(
        self,
        len_bytes: u64,
        frame_len_bytes: usize,
    ) -> impl Iterator<Item = Range<u64>> {
        let (mut at, mut left) = (self, len_bytes);
        std::iter::from_fn(move || {
            let room = (frame_len_bytes as u64).saturating_sub(u64::from(at.offset_bytes));
            let now = left.min(room);
            if now == 0 {
                return None;
            }
            let range = at.offset()..at.offset() + now;
            at = at.advanced(now, frame_len_bytes);
            left -= now;
            Some(range)
        })
    }
}
