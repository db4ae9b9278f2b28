//! Open files: a [`Writer`] that appends, a [`Reader`] that reads anywhere.

use crate::error::FsError;
use crate::fs::Inner;
use crate::node::{Body, Node, NodeState, Tail, check_damage, read_stored};
use crate::pieces::Pieces;
use crate::read_ahead::ReadState;
use crate::tree::StoreId;
use imbrex_files::{FileKind, Hints};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// A file open for writing. Dropped, it is closed, and a failure to store its tail is not told.
pub struct Writer {
    pub(crate) inner: Arc<Inner>,
    pub(crate) node: Arc<Node>,
    /// No other writer of the file has it.
    pub(crate) id: u64,
    is_closed: bool,
}

impl Writer {
    pub(crate) fn new(inner: &Arc<Inner>, node: Arc<Node>) -> Writer {
        let mut state = node.state.lock();
        state.writer_count += 1;
        state.last_writer += 1;
        let id = state.last_writer;
        drop(state);
        Writer { inner: Arc::clone(inner), node, id, is_closed: false }
    }

    /// Appends `data`. Readable on return; durable after [`Writer::sync`].
    ///
    /// Cost: a copy; for a log one write of 256 KiB now and then.
    ///
    /// # Errors
    /// [`FsError::Files`] (for want of space nothing was appended), [`FsError::Lost`],
    /// [`FsError::Damaged`].
    pub fn append(&self, data: &[u8]) -> Result<(), FsError> {
        let mut state = self.node.state.lock();
        self.inner.append(&self.node, &mut state, data)?;
        self.end_moved(&mut state);
        Ok(())
    }

    /// Lets those in whose turn has come (H4). If that fails they are told when they sync: what moved the end was
    /// done.
    fn end_moved(&self, state: &mut NodeState) {
        let _ = self.take_turns(state);
    }

    /// Writes `data` at `offset`; a gap before it is filled with zeros.
    ///
    /// At the end of the file it is an append. Anywhere else the whole file is taken into memory and
    /// written anew by the next [`Writer::sync`]; a power cut before that leaves the old content.
    ///
    /// # Errors
    /// As [`Writer::append`]; [`FsError::TooLong`].
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let mut state = self.node.state.lock();
        let len_bytes = state.len_bytes();
        if offset == len_bytes {
            self.inner.append(&self.node, &mut state, data)?;
            self.end_moved(&mut state);
            return Ok(());
        }
        state.check_whole()?;
        let end = offset.saturating_add(data.len() as u64);
        self.inner.take_whole(&mut state, len_bytes.max(end))?;
        if let Tail::Whole(bytes) = &mut state.tail {
            bytes[offset as usize..end as usize].copy_from_slice(data);
        }
        self.end_moved(&mut state);
        Ok(())
    }

    /// Cuts the file to `len_bytes`, or lengthens it by zeros. Durable after [`Writer::sync`].
    ///
    /// # Errors
    /// [`FsError::TooLong`] where the file would have to be rewritten; [`FsError::Damaged`] where it
    /// would get longer.
    pub fn truncate(&self, len_bytes: u64) -> Result<(), FsError> {
        let mut state = self.node.state.lock();
        state.check_whole()?;
        if len_bytes == state.len_bytes() {
            return Ok(());
        }
        if len_bytes > state.stored_len_bytes || matches!(state.tail, Tail::Whole(_)) {
            self.inner.take_whole(&mut state, len_bytes)?;
            self.end_moved(&mut state);
            return Ok(());
        }
        // Stored segments are cut by saying so.
        self.inner.end_log(&self.node, &mut state)?;
        state.tail = Tail::Empty;
        state.generation += 1;
        let segments = Arc::make_mut(&mut state.segments);
        segments.retain(|segment| segment.start < len_bytes);
        if let Some(last) = segments.last_mut() {
            last.len_bytes = last.len_bytes.min(len_bytes - last.start);
            if let Body::Log { damage, .. } = &mut last.body {
                *damage = None; // It lies in what nobody wants any more.
            }
        }
        state.stored_len_bytes = len_bytes;
        self.inner.publish(&self.node, &state, None);
        Ok(())
    }

    /// Tells how the file will be used; what is stored already stays where it is.
    ///
    /// A table is placed when it is synced or closed, so its level may be told until then; of a long one
    /// each [`SEGMENT_LEN_BYTES_MAX`](crate::SEGMENT_LEN_BYTES_MAX) are placed as they come.
    pub fn set_hints(&self, hints: Hints) {
        let mut state = self.node.state.lock();
        // What there is of the tail was begun as one kind.
        let kind = if matches!(state.tail, Tail::Empty) { hints.kind } else { state.hints.kind };
        state.hints = Hints { kind, ..hints };
    }

    /// Makes all that was appended durable, and the file's name; of a file that has lost its last one, the removal.
    ///
    /// Cost: for a log that is durable by name one write and one flush of the drive; else one commit
    /// of the catalog.
    ///
    /// # Errors
    /// [`FsError::Files`]; what is durable is unknown, except after a lack of space. [`FsError::Lost`]
    /// where a hole will not be filled ([`Writer::fill_at`]).
    pub fn sync(&self) -> Result<(), FsError> {
        self.await_holes()?;
        self.inner.sync(&self.node)
    }

    /// Stores what was appended, without making it durable, and gives back what a log keeps for its
    /// growth.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn close(mut self) -> Result<(), FsError> {
        self.end()
    }

    /// Gives the file up: what was appended and is not stored stays unstored, and nothing is written.
    ///
    /// For a caller that met a panic below and trusts nothing there any more; the drive is to be
    /// closed and opened again.
    pub fn abandon(mut self) {
        self.is_closed = true;
    }

    fn end(&mut self) -> Result<(), FsError> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        let filled = self.fill_holes();
        let mut state = self.node.state.lock();
        state.writer_count -= 1;
        if state.writer_count > 0 {
            return filled;
        }
        state.pieces = Pieces::default();
        // A hole that stays is no reason to lose what lies before it.
        let stored = self.inner.write_out(&self.node, &mut state);
        state.was_ended = true;
        filled.and(stored.and_then(|()| self.inner.end_log(&self.node, &mut state)))
    }

    /// The file's length.
    pub fn len_bytes(&self) -> u64 {
        self.node.state.lock().len_bytes()
    }

    /// What the file holds, as its creator said.
    pub fn kind(&self) -> FileKind {
        self.node.state.lock().hints.kind
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("node", &self.node.id).finish_non_exhaustive()
    }
}

/// A file open for reading; it stays readable when its name is removed or replaced.
pub struct Reader {
    node: Arc<Node>,
    reads: Mutex<ReadState>,
}

impl Reader {
    pub(crate) fn new(node: Arc<Node>) -> Reader {
        Reader { node, reads: Mutex::default() }
    }

    /// Fills `out` from `offset` as far as the file reaches, and says how far.
    ///
    /// Threads that share a reader may read at once, except from a log, which is read forward best.
    ///
    /// # Errors
    /// [`FsError::Damaged`], [`FsError::Lost`], [`FsError::Files`].
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize, FsError> {
        let (segments, generation, path, stored_len, total) = {
            let state = self.node.state.lock();
            state.check_whole()?;
            let total = state.len_bytes().saturating_sub(offset).min(out.len() as u64) as usize;
            let stored = state.stored_len_bytes.saturating_sub(offset).min(total as u64) as usize;
            if stored < total {
                let behind = offset + stored as u64 - state.stored_len_bytes;
                state.tail.copy(behind, &mut out[stored..total]);
            }
            let segments = Arc::clone(&state.segments);
            (segments, state.generation, state.path.clone(), stored, total)
        };
        check_damage(&segments, &path, offset, offset.saturating_add(out.len() as u64))?;
        if stored_len == 0 {
            return Ok(total); // The end of the stored bytes is no place for a stream to go on.
        }
        let out = &mut out[..stored_len];
        match self.reads.try_lock() {
            Some(mut reads) => reads.read(&segments, generation, &path, offset, out)?,
            None => read_stored(&segments, &path, offset, out, &mut None)?,
        }
        Ok(total)
    }

    /// The file's length now.
    pub fn len_bytes(&self) -> u64 {
        self.node.state.lock().len_bytes()
    }

    /// A number that no other file of this drive has or will have, if the file's name is ever synced: else a file that
    /// is made after a crash may have it too.
    pub fn unique_id(&self) -> u64 {
        self.node.id.0
    }

    /// How much memory stays with it between reads.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.reads.lock().kept_bytes()
    }

    /// The stored files that hold it, by name, for tools.
    pub fn stores(&self) -> Vec<String> {
        let segments = Arc::clone(&self.node.state.lock().segments);
        let store = |body: &Body| match *body {
            Body::Inline(_) => None,
            Body::Table { store, .. } | Body::Log { store, .. } => Some(store),
        };
        segments.iter().filter_map(|segment| store(&segment.body)).map(StoreId::name).collect()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("node", &self.node.id).finish_non_exhaustive()
    }
}
