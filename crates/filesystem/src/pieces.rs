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
//!   H1  Pieces do not overlap; each begins behind `end`, and none reaches further than 1 GiB behind it.
//!   H2  A piece is no part of the file: it is not read, measured or made durable before its turn.
//!   H3  A sync returns when what had come by its writer before it was called is durable, holes below included:
//!       it waits until they are filled, or until filling one has failed. Who is refused by H1 does not come
//!       again: its piece is such a hole.
//!   H4  Whatever moves the end, by whichever writer, takes the pieces whose turn has come. Where it wrote in the
//!       place of one it was first.
//!
//! H3 makes a log better than a file with holes: a record behind a hole is of no use to a reader that
//! stops, or skips, at zeros.

use crate::error::FsError;
use crate::node::NodeState;
use crate::{REWRITE_LEN_BYTES_MAX, Writer};
use std::collections::BTreeMap;

/// The pieces of one file.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// By where they begin (H1).
    waiting: BTreeMap<u64, Piece>,
    /// Why a hole will never be filled.
    failed: Option<String>,
}

#[derive(Debug)]
struct Piece {
    /// Whose it is.
    writer: u64,
    bytes: Vec<u8>,
}

impl Pieces {
    /// The end of the last piece of `writer`.
    fn reach(&self, writer: u64) -> Option<u64> {
        let last = self.waiting.iter().rev().find(|(_, piece)| piece.writer == writer);
        last.map(|(start, piece)| start + piece.bytes.len() as u64)
    }

    /// Whether a piece of `writer` waits that begins before `reach`.
    fn waits(&self, writer: u64, reach: u64) -> bool {
        self.waiting.range(..reach).any(|(_, piece)| piece.writer == writer)
    }

    fn is_free(&self, start: u64, end: u64) -> bool {
        let before = self.waiting.range(..end).next_back();
        before.is_none_or(|(at, piece)| at + piece.bytes.len() as u64 <= start)
    }

    /// The next piece whose turn has come in a file of `end` bytes, or what is left of it (H4).
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
    /// Writes `data` at `offset`, before or after others who write below and above: each byte once, in
    /// any order. What lies behind a hole waits in memory and is the file's when the hole is filled.
    ///
    /// [`Writer::sync`] waits for the holes below what came by this writer before it was called, so every one
    /// must be filled, by this or by any other call that writes there, by a thread that does not wait for that
    /// sync. [`Writer::close`] fills them with zeros.
    ///
    /// Cost: a copy; two where it waits for its turn.
    ///
    /// # Errors
    /// [`FsError::WrittenTwice`]: nothing happened. [`FsError::TooFar`] (further than 1 GiB behind the end), or as
    /// [`Writer::append`]: then the hole stays for good, and so does the error, [`FsError::Lost`], for everybody.
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

    /// Makes the pieces whose turn has come a part of the file (H4).
    ///
    /// # Errors
    /// As [`Writer::append`]: then the hole stays.
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

    /// Waits until the pieces that it has given so far had their turn (H3).
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

    /// Makes its pieces that wait a part of the file, with zeros for what never came below them.
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

    /// Where filling a hole has failed nobody waits for it any more.
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
