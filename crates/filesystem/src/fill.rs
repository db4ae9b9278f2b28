//! Writes at an offset of a log, by many threads at once: [`Writer::fill_at`].
//!
//! Not here: the data that waits for its turn, and its invariants H1 to H5 (`pieces`).

use crate::REWRITE_LEN_BYTES_MAX;
use crate::error::FsError;
use crate::handle::Writer;
use crate::node::NodeState;
use crate::pieces::Piece;

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
    /// [`FsError::TooFar`] (further than 1 GiB behind the end), or an error of [`Writer::append`],
    /// also for data behind a hole: the hole then stays for good, and every caller gets the error
    /// [`FsError::Lost`].
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
        let has_turn = state.check_growth().and_then(|()| check_reach(&state.path, end, data_end));
        self.or_give_up(&mut state, has_turn)?;
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

    /// Waits until the pieces that this writer has written so far are appended (H3), or never will
    /// be (H5).
    pub(crate) fn await_holes(&self) -> Result<(), FsError> {
        let mut state = self.node.state.lock();
        let reach = state.pieces.reach(self.id).unwrap_or(0);
        loop {
            state.pieces.check(&state.path)?;
            if !state.pieces.waits(self.id, reach) {
                return Ok(());
            }
            state.check_whole()?;
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
