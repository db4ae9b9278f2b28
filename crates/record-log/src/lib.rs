//! One checksummed log format for the write-ahead log, the catalog and the map journal.
//!
//! ```text
//!   push(record) ... push(record)            Encoder: records -> frames, whole blocks
//!   | header | payload ........ | header | payload ... zeros |
//!   0                        64 KiB                        68 KiB
//!   next_record() ... end()                  Decoder: blocks -> records, and how the log ended
//! ```
//!
//! Invariants
//!   L1  A record comes back exactly as it was pushed, or not at all.
//!   L2  The records that come back are a prefix of those pushed: none is skipped, no two swap.
//!   L3  A prefix that is shorter than what a later frame calls durable is an error, not an end.
//!
//! The crate does no I/O: the encoder returns bytes to append, and the decoder asks a closure for
//! bytes to read. The user appends the ready bytes in order, and after a sync calls
//! [`Encoder::mark_durable`]. That call distinguishes damage from a torn tail (L3).
//!
//! ```
//! use imbrex_record_log::{Decoder, Encoder, End, LogBounds};
//! let (mut encoder, mut log, mut ready) = (Encoder::new(7), Vec::new(), Vec::new());
//! encoder.push(&[b"hello, ", b"platter"]).unwrap();
//! encoder.seal();
//! encoder.take_ready(&mut ready);
//! log.extend_from_slice(&ready);
//!
//! let read = |offset: u64, buf: &mut [u8]| -> Result<(), std::io::Error> {
//!     buf.copy_from_slice(&log[offset as usize..][..buf.len()]);
//!     Ok(())
//! };
//! let mut decoder = Decoder::new(LogBounds { log_id: 7, len_blocks: 1, durable_blocks: 1 }, read);
//! assert_eq!(decoder.next_record().unwrap().unwrap().bytes, b"hello, platter");
//! assert!(decoder.next_record().unwrap().is_none());
//! assert_eq!(decoder.end(), Some(&End::Clean { at_blocks: 1 }));
//! ```
//!
//! The format, byte by byte: `docs/formats/record_log.md`.

mod decoder;
mod encoder;
mod format;
mod look;
mod position;

#[cfg(test)]
mod tests;

pub use decoder::{Decoder, End, Flaw, LogBounds, Record, Resume};
pub use encoder::{Encoder, RecordTooLong};
pub use format::{
    BLOCK_LEN_BYTES, FRAME_LEN_BYTES_DEFAULT, FRAME_LEN_BYTES_MAX, FrameHead, RECORD_LEN_BYTES_MAX,
    is_whole_frame, log_id_of,
};
pub use look::RUN_AHEAD_BLOCKS;
pub use position::Position;
