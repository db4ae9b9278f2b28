//! Pieces: data of a file that arrives ahead of its turn, because threads write at offsets of their
//! own.
//!
//! ```text
//!   file    | appended ............. |  hole  |  piece  | hole |  piece  |
//!           0                       end                                reach
//! ```
//!
//! A thread reserves a range of a log by moving a counter, then writes its range. Faster threads
//! arrive first, and every range is written by some thread. A drive with overlapping tracks takes a
//! log only in order, so pieces wait in memory until the holes before them are filled.
//!
//! Invariants
//!   H1  Pieces do not overlap. Each begins behind `end`, and none reaches further than 1 GiB
//!       behind it.
//!   H2  A piece is no part of the file before its turn: it is not read, measured or made durable.
//!   H3  A sync returns when the data that its writer wrote before the call is durable, including
//!       the holes below it. It waits until those holes are filled, or until filling one has
//!       failed. A writer that H1 refuses does not retry, so its piece remains such a hole.
//!   H4  An operation that moves the end, by any writer, appends the pieces whose turn has come. If
//!       it wrote in the place of a piece, its bytes win.
//!   H5  A piece is accepted only while the file can grow. A file that has lost bytes cannot, so the
//!       operation that loses them ends every wait of H3 with an error.
//!
//! H3 makes a log better than a file with holes: a record behind a hole is useless to a reader that
//!    stops, or skips, at zeros.
//!
//! Not here: the writer's calls that put pieces in and take them out (`fill`).

use crate::error::FsError;
use std::collections::BTreeMap;

/// The pieces of one file.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// By start offset (H1).
    pub(crate) waiting: BTreeMap<u64, Piece>,
    /// Why a hole will never be filled, if one will not.
    pub(crate) failed: Option<String>,
}

/// Data of one writer, ahead of its turn.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The writer that wrote it.
    pub(crate) writer: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Pieces {
    /// The end of the last piece of `writer`.
    pub(crate) fn reach(&self, writer: u64) -> Option<u64> {
        let last = self.waiting.iter().rev().find(|(_, piece)| piece.writer == writer);
        last.map(|(start, piece)| start + piece.bytes.len() as u64)
    }

    /// Whether a piece of `writer` that begins before `reach` still waits.
    pub(crate) fn waits(&self, writer: u64, reach: u64) -> bool {
        self.waiting.range(..reach).any(|(_, piece)| piece.writer == writer)
    }

    /// Whether no piece overlaps `start..end`.
    pub(crate) fn is_free(&self, start: u64, end: u64) -> bool {
        let before = self.waiting.range(..end).next_back();
        before.is_none_or(|(at, piece)| at + piece.bytes.len() as u64 <= start)
    }

    /// Takes the next piece whose turn has come in a file of `end` bytes, without any bytes below
    /// `end` (H4).
    pub(crate) fn take_turn(&mut self, end: u64) -> Option<Vec<u8>> {
        let first = self.waiting.first_entry().filter(|first| *first.key() <= end)?;
        let (start, Piece { mut bytes, .. }) = first.remove_entry();
        let known = (end - start).min(bytes.len() as u64);
        bytes.drain(..known as usize);
        Some(bytes)
    }

    /// Refuses a file with a hole that will never be filled.
    pub(crate) fn check(&self, path: &str) -> Result<(), FsError> {
        match &self.failed {
            None => Ok(()),
            Some(reason) => Err(FsError::Lost { path: path.to_owned(), reason: reason.clone() }),
        }
    }
}
