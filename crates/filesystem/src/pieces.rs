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
//!
//! H3 makes a log better than a file with holes: a record behind a hole is useless to a reader that
//!    stops, or skips, at zeros.

use crate::error::FsError;
use crate::node::NodeState;
use crate::{REWRITE_LEN_BYTES_MAX, Writer};
use std::collections::BTreeMap;

/// The pieces of one file.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// By start offset (H1).
    waiting: BTreeMap<u64, Piece>,
    /// Why a hole will never be filled, if one will not.
    failed: Option<String>,
}

#[derive(Debug)]
struct Piece {
    /// The writer that wrote it.
    writer: u64,
    bytes: Vec<u8>,
}

impl Pieces {
    /// The end of the last piece of `writer`.
    fn reach(&self, writer: u64) -> Option<u64> {
        let last = self.waiting.iter().rev().find(|(_, piece)| piece.writer == writer);
        last.map(|(start, piece)| start + piece.bytes.len() as u64)
    }

    /// Whether a piece of `writer` that begins before `reach` still waits.
    fn waits(&self, writer: u64, reach: u64) -> bool {
        self.waiting.range(..reach).any(|(_, piece)| piece.writer == writer)
    }

    fn is_free(&self, start: u64, end: u64) -> bool {
        let before = self.waiting.range(..end).next_back();
        before.is_none_or(|(at, piece)| at + piece.bytes.len() as u64 <= start)
    }

    /// Takes the next piece whose turn has come in a file of `end` bytes, without any bytes below
    /// `end` (H4).
    fn take_turn(&mut self, end: u64) -> Option<Vec<u8>> {
        let first = self.waiting.first_entry().filter(|first| *first.key() <= end)?;
        let (start, Piece { mut bytes, .. }) = first.remove_entry();
        let known = (end - start).min(bytes.len() as u64);
        bytes.drain(..known as usize);
        Some(bytes)
    }

    fn check(&self, path: &str) -> Result<(), FsError> {
        match &self.failed {
            None => Ok(()),
            Some(reason) => Err(FsError::Lost { path: path.to_owned(), reason: reason.clone() }),
        }
    }
}

impl Writer {
    /// Writes `data` at `offset`, concurrently with callers that write below and above: each byte
    /// once, in any order. Data behind a hole waits in memory, and becomes part of the file when
    /// the hole is filled.
    ///
    /// [`Writer::sync`] waits for the holes below the data that this writer wrote before the call.
    /// Every such hole must be filled, by this or any other call that writes there, in a thread
    /// that does not wait for that sync. [`Writer::close`] fills holes with zeros.
    ///
    /// Cost: one copy; two if the data waits for its turn.
    ///
    /// # Errors
    /// [`FsError::WrittenTwice`]: nothing happened.
    ///
    /// [`FsError::TooFar`] (further than 1 GiB behind the end), or an error of [`Writer::append`]:
    /// the hole then stays for good, and every caller gets the error [`FsError::Lost`].
    pub fn fill_at(&self, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let mut state = self.node.state.lock();
        state.pieces.check(&state.path)?;
        let end = state.len_bytes();
        let data_end = offset.saturating_add(data.len() as u64);
        if data.is_empty() {
            return Ok(());
        }
        if offset < end || !state.pieces.is_free(offset, data_end) {
            return Err(FsError::WrittenTwice { path: state.path.to_string(), offset });
        }
        let reachable = check_reach(&state.path, end, data_end);
        self.or_give_up(&mut state, reachable)?;
        if offset > end {
            let piece = Piece { writer: self.id, bytes: data.to_vec() };
            state.pieces.waiting.insert(offset, piece);
            return Ok(());
        }
        let appended = self.inner.append(&self.node, &mut state, data);
        self.or_give_up(&mut state, appended)?;
        self.take_turns(&mut state)
    }

    /// Appends the pieces whose turn has come to the file (H4).
    ///
    /// # Errors
    /// As [`Writer::append`]. The hole then stays.
    pub(crate) fn take_turns(&self, state: &mut NodeState) -> Result<(), FsError> {
        if state.pieces.waiting.is_empty() || state.pieces.failed.is_some() {
            return Ok(());
        }
        let mut end = state.len_bytes();
        while let Some(bytes) = state.pieces.take_turn(end) {
            if !bytes.is_empty() {
                let appended = self.inner.append(&self.node, state, &bytes);
                self.or_give_up(state, appended)?;
                end = state.len_bytes();
            }
        }
        self.node.moved.notify_all();
        Ok(())
    }

    /// Waits until the pieces that this writer has written so far are appended (H3).
    pub(crate) fn await_holes(&self) -> Result<(), FsError> {
        let mut state = self.node.state.lock();
        let reach = state.pieces.reach(self.id).unwrap_or(0);
        loop {
            state.pieces.check(&state.path)?;
            if !state.pieces.waits(self.id, reach) {
                return Ok(());
            }
            self.node.moved.wait(&mut state);
        }
    }

    /// Appends this writer's waiting pieces to the file, with zeros for data below them that never
    /// arrived.
    pub(crate) fn fill_holes(&self) -> Result<(), FsError> {
        let mut state = self.node.state.lock();
        let Some(reach) = state.pieces.reach(self.id) else { return Ok(()) };
        state.pieces.check(&state.path)?;
        let reachable = check_reach(&state.path, state.len_bytes(), reach);
        self.or_give_up(&mut state, reachable)?;
        while state.pieces.waits(self.id, reach)
            && let Some((&start, _)) = state.pieces.waiting.first_key_value()
        {
            let hole_len = start - state.len_bytes();
            let zeros = vec![0; hole_len as usize];
            let filled = self.inner.append(&self.node, &mut state, &zeros);
            self.or_give_up(&mut state, filled)?;
            self.take_turns(&mut state)?;
        }
        Ok(())
    }

    /// If filling a hole has failed, stops all waits for it.
    fn or_give_up(
        &self,
        state: &mut NodeState,
        result: Result<(), FsError>,
    ) -> Result<(), FsError> {
        if let Err(error) = &result {
            state.pieces.failed = Some(error.to_string());
            self.node.moved.notify_all();
        }
        result
    }
}

fn check_reach(path: &str, end: u64, reach: u64) -> Result<(), FsError> {
    let max_bytes = end.saturating_add(REWRITE_LEN_BYTES_MAX);
    if reach <= max_bytes {
        return Ok(());
    }
    Err(FsError::TooFar { path: path.to_owned(), end: reach, max_bytes })
}
