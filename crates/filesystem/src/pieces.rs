//! Pieces: what of a file came before its turn, because threads write it at places of their own.
//!
//! ```text
//!   file    | appended ............. |  hole  |  piece  | hole |  piece  |
//!           0                       end                                reach
//! ```
//!
//! A thread takes a range of a log by moving a counter, then writes its range; whoever is faster comes
//! first, and every range is written by somebody. A drive whose tracks overlap takes a log only in
//! order, so pieces wait in memory for the holes before them.
//!
//! Invariants
//!   H1  Pieces do not overlap; none begins at `end`, and none reaches further than 1 GiB behind it.
//!   H2  A piece is no part of the file: it is not read, measured or made durable before its turn.
//!   H3  A sync returns when what had come before it was called is durable, holes below included: it waits
//!       until they are filled, or until filling one has failed.
//!
//! H3 makes a log better than a file with holes: a record behind a hole is of no use to a reader that
//! stops, or skips, at zeros.

use crate::error::FsError;
use crate::{REWRITE_LEN_BYTES_MAX, Writer};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;

/// The pieces of one writer.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    early: Mutex<Early>,
    /// The file's end has moved, or never will again.
    moved: Condvar,
}

/// What the lock of [`Pieces`] guards.
#[derive(Debug, Default)]
pub(crate) struct Early {
    /// By where they begin (H1).
    pieces: BTreeMap<u64, Vec<u8>>,
    /// Why a hole will never be filled.
    failed: Option<String>,
}

impl Early {
    /// The end of the last piece.
    fn reach(&self) -> Option<u64> {
        self.pieces.last_key_value().map(|(start, piece)| start + piece.len() as u64)
    }

    fn is_free(&self, start: u64, end: u64) -> bool {
        let before = self.pieces.range(..end).next_back();
        before.is_none_or(|(at, piece)| at + piece.len() as u64 <= start)
    }

    /// The pieces that a file of `end` bytes is filled up with, zeros for holes.
    fn take_all(&mut self, mut end: u64) -> Vec<Vec<u8>> {
        let mut filling = Vec::new();
        for (start, mut piece) in std::mem::take(&mut self.pieces) {
            // Whoever appended meanwhile was first.
            let known = end.saturating_sub(start).min(piece.len() as u64);
            piece.drain(..known as usize);
            filling.push(vec![0; start.saturating_sub(end) as usize]);
            end = end.max(start + known) + piece.len() as u64;
            filling.push(piece);
        }
        filling
    }
}

impl Writer {
    /// Writes `data` at `offset`, before or after others who write below and above: each byte once, in
    /// any order. What lies behind a hole waits in memory and is the file's when the hole is filled.
    ///
    /// [`Writer::sync`] waits for the holes below what came before it was called, so every one must be
    /// filled by a thread that does not wait for that sync. [`Writer::close`] fills them with zeros.
    ///
    /// Cost: a copy; two where it waits for its turn.
    ///
    /// # Errors
    /// [`FsError::WrittenTwice`], [`FsError::TooFar`] (further than 1 GiB behind the end): nothing
    /// happened. As [`Writer::append`]: then the hole stays for good, and so does the error,
    /// [`FsError::Lost`], for everybody.
    pub fn fill_at(&self, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let mut early = self.pieces.early.lock();
        self.check_pieces(&early)?;
        let end = self.len_bytes();
        let data_end = offset.saturating_add(data.len() as u64);
        if data.is_empty() {
            return Ok(());
        }
        if offset < end || !early.is_free(offset, data_end) {
            return Err(FsError::WrittenTwice { path: self.path(), offset });
        }
        self.check_reach(end, data_end)?;
        if offset > end {
            early.pieces.insert(offset, data.to_vec());
            return Ok(());
        }
        let mut result = self.append(data);
        let mut end = data_end;
        while result.is_ok()
            && let Some(piece) = early.pieces.remove(&end)
        {
            end += piece.len() as u64;
            result = self.append(&piece);
        }
        early.failed = result.as_ref().err().map(ToString::to_string);
        self.pieces.moved.notify_all();
        result
    }

    /// Waits until the file reaches as far as its pieces do now (H3).
    pub(crate) fn await_holes(&self) -> Result<(), FsError> {
        let mut early = self.pieces.early.lock();
        let Some(reach) = early.reach() else { return self.check_pieces(&early) };
        while self.len_bytes() < reach {
            self.check_pieces(&early)?;
            self.pieces.moved.wait(&mut early);
        }
        Ok(())
    }

    /// Makes what waits a part of the file, with zeros for what never came.
    pub(crate) fn fill_holes(&self) -> Result<(), FsError> {
        let mut early = self.pieces.early.lock();
        let Some(reach) = early.reach() else { return Ok(()) };
        self.check_pieces(&early)?;
        let end = self.len_bytes();
        self.check_reach(end, reach)?;
        let filling = early.take_all(end);
        filling.iter().try_for_each(|piece| self.append(piece))
    }

    fn check_reach(&self, end: u64, reach: u64) -> Result<(), FsError> {
        let max_bytes = end.saturating_add(REWRITE_LEN_BYTES_MAX);
        if reach <= max_bytes {
            return Ok(());
        }
        Err(FsError::TooFar { path: self.path(), end: reach, max_bytes })
    }

    fn check_pieces(&self, early: &Early) -> Result<(), FsError> {
        match &early.failed {
            None => Ok(()),
            Some(reason) => Err(FsError::Lost { path: self.path(), reason: reason.clone() }),
        }
    }
}
