//! Open files: a [`Writer`] that appends, and a [`Reader`] that reads at any offset.

use crate::error::FsError;
use crate::inner::Inner;
use crate::node::{Body, Node, NodeState, Tail, check_damage, read_stored};
use crate::pieces::Pieces;
use crate::read_ahead::ReadState;
use crate::tree::StoreId;
use imbrex_files::{FileKind, Hints};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// A file open for writing. Dropping it closes it, but does not report a failure to store its tail.
pub struct Writer {
    pub(crate) inner: Arc<Inner>,
    pub(crate) node: Arc<Node>,
    /// Unique among the writers of the file.
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

    /// Appends `data`. It is readable on return, and durable after [`Writer::sync`].
    ///
    /// Cost: a copy. A log also writes 256 KiB at a time.
    ///
    /// # Errors
    /// [`FsError::Files`] (if space is lacking, nothing was appended), [`FsError::Lost`],
    /// [`FsError::Damaged`].
    pub fn append(&self, data: &[u8]) -> Result<(), FsError> {
        let mut state = self.node.state.lock();
        self.inner.append(&self.node, &mut state, data)?;
        self.end_moved(&mut state);
        Ok(())
    }

    /// Appends the waiting pieces whose turn has come (H4). If that fails, their writers learn of
    /// it when they sync; the operation that moved the end has succeeded.
    fn end_moved(&self, state: &mut NodeState) {
        let _ = self.take_turns(state);
    }

    /// Writes `data` at `offset`. Fills a gap before it with zeros.
    ///
    /// At the end of the file this is an append. Anywhere else the whole file is read into memory,
    /// and the next [`Writer::sync`] writes it again. A power cut before that leaves the old
    /// content.
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

    /// Truncates the file to `len_bytes`, or extends it with zeros. Durable after [`Writer::sync`].
    ///
    /// # Errors
    /// [`FsError::TooLong`] if the file would have to be rewritten; [`FsError::Damaged`] if it
    /// would grow.
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
        // Stored segments are truncated by changing their length.
        self.inner.end_log(&self.node, &mut state)?;
        state.tail = Tail::Empty;
        state.generation += 1;
        let segments = Arc::make_mut(&mut state.segments);
        segments.retain(|segment| segment.start < len_bytes);
        if let Some(last) = segments.last_mut() {
            last.len_bytes = last.len_bytes.min(len_bytes - last.start);
            if let Body::Log { damage, .. } = &mut last.body {
                *damage = None; // It lies in the part that is cut off.
            }
        }
        state.stored_len_bytes = len_bytes;
        self.inner.publish(&self.node, &state, None);
        Ok(())
    }

    /// Declares how the file will be used. Data that is stored already stays where it is.
    ///
    /// A table is placed when it is synced or closed, so its level may be set until then. A long
    /// table is placed in pieces of [`SEGMENT_LEN_BYTES_MAX`](crate::SEGMENT_LEN_BYTES_MAX) as they
    /// fill.
    pub fn set_hints(&self, hints: Hints) {
        let mut state = self.node.state.lock();
        // The existing tail was begun as one kind.
        let kind = if matches!(state.tail, Tail::Empty) { hints.kind } else { state.hints.kind };
        state.hints = Hints { kind, ..hints };
    }

    /// Makes all appended data and the file's name durable. For a file that has lost its last name,
    /// makes the removal durable.
    ///
    /// Cost: one write and one flush of the drive for a log whose name is durable; otherwise one
    /// commit of the catalog.
    ///
    /// # Errors
    /// [`FsError::Files`]: it is unknown what is durable, except after a lack of space.
    /// [`FsError::Lost`] if a hole will not be filled ([`Writer::fill_at`]).
    pub fn sync(&self) -> Result<(), FsError> {
        self.await_holes()?;
        self.inner.sync(&self.node)
    }

    /// Stores the appended data without making it durable, and releases the space that a log
    /// reserves for its growth.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn close(mut self) -> Result<(), FsError> {
        self.end()
    }

    /// Abandons the file: appended data that is not stored stays unstored, and nothing is written.
    ///
    /// For a caller that caught a panic in a lower layer and no longer trusts its state. Close the
    /// drive and open it again.
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
        // A hole that stays is no reason to lose the data before it.
        let stored = self.inner.write_out(&self.node, &mut state);
        state.was_ended = true;
        filled.and(stored.and_then(|()| self.inner.end_log(&self.node, &mut state)))
    }

    /// The file's length.
    pub fn len_bytes(&self) -> u64 {
        self.node.state.lock().len_bytes()
    }

    /// What the file holds, as its creator declared.
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

/// A file open for reading. It stays readable when its name is removed or replaced.
pub struct Reader {
    node: Arc<Node>,
    reads: Mutex<ReadState>,
}

impl Reader {
    pub(crate) fn new(node: Arc<Node>) -> Reader {
        Reader { node, reads: Mutex::default() }
    }

    /// Fills `out` from `offset` as far as the file reaches, and returns how much it read.
    ///
    /// Threads that share a reader may read concurrently. A log is best read forward, by one
    /// thread.
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

    /// A number that no other file of this drive has or will have, provided that the file's name is
    /// synced at some time. Without that, a file created after a crash may get the same number.
    pub fn unique_id(&self) -> u64 {
        self.node.id.0
    }

    /// How much memory the reader holds between reads.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.reads.lock().kept_bytes()
    }

    /// The stored files that hold the content, by name, for tools.
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
