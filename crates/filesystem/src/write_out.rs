//! Writing out: what a file's tail becomes, and how it is made durable.

use crate::error::FsError;
use crate::inner::Inner;
use crate::node::{Body, Node, NodeState, OpenLog, Tail};
use crate::tree::{Change, StoreId};
use crate::{INLINE_LEN_BYTES_MAX, REWRITE_LEN_BYTES_MAX, SEGMENT_LEN_BYTES_MAX};
use imbrex_files::{FileBuffer, FileKind, FilesError, Hints, Persisted};
use imbrex_record_log::Encoder;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The length at which a log's tail is written: long enough for the disk to stream, and little to
/// lose.
const LOG_PIECE_LEN_BYTES: usize = 256 << 10;

/// The longest record of a log. An append may be longer than a record can be, and a reader holds a
/// whole record in memory.
pub(crate) const RECORD_LEN_BYTES_MAX: usize = if cfg!(test) { 64 << 10 } else { 1 << 30 };

/// The log id of store `store`, on a drive with this format id.
pub(crate) fn log_id(format_id: u64, store: StoreId) -> u64 {
    format_id.wrapping_add(store.0.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Inner {
    /// Appends `data` to the file, in memory unless its tail has become long.
    pub(crate) fn append(
        &self,
        node: &Node,
        state: &mut NodeState,
        data: &[u8],
    ) -> Result<(), FsError> {
        state.check_growth()?;
        let is_long = match &state.tail {
            Tail::Empty => false,
            // No longer than the limit for rewrites. Later data is appended.
            Tail::Whole(bytes) => (bytes.len() + data.len()) as u64 > REWRITE_LEN_BYTES_MAX,
            Tail::Table(buffer) => buffer.len_bytes() >= SEGMENT_LEN_BYTES_MAX,
            Tail::Log { bytes, .. } => bytes.len() >= LOG_PIECE_LEN_BYTES,
        };
        if is_long {
            self.write_out(node, state)?;
        }
        if let Tail::Empty = state.tail {
            state.tail = if state.appends_to_log() {
                Tail::Log { bytes: Vec::new(), pushed: 0 }
            } else {
                Tail::Table(FileBuffer::new("", state.hints))
            };
        }
        match &mut state.tail {
            Tail::Empty => unreachable!("chosen above"),
            Tail::Table(buffer) => buffer.append(data),
            Tail::Log { bytes, .. } => bytes.extend_from_slice(data),
            Tail::Whole(bytes) => bytes.extend_from_slice(data),
        }
        Ok(())
    }

    /// Stores the tail: readable as before, durable after a flush or a commit.
    pub(crate) fn write_out(&self, node: &Node, state: &mut NodeState) -> Result<(), FsError> {
        state.check_whole()?;
        if node.is_gone.load(Ordering::Acquire) && state.log.is_none() {
            return Ok(()); // Nobody will find it again: memory is good enough.
        }
        match &state.tail {
            Tail::Empty => Ok(()),
            // All of it is in a log, which may have ended since.
            Tail::Log { bytes, .. } if bytes.is_empty() => Ok(()),
            _ if self.may_be_inline(state) => self.write_inline(node, state),
            Tail::Log { .. } => self.write_log(node, state),
            Tail::Table(_) | Tail::Whole(_) => self.write_table(node, state),
        }
    }

    fn may_be_inline(&self, state: &NodeState) -> bool {
        let len_bytes = state.len_bytes();
        state.is_inline()
            && len_bytes <= INLINE_LEN_BYTES_MAX
            && self.journal.lock().tree.inline_len_bytes() + len_bytes
                <= self.journal.inline_len_bytes_max()
    }

    fn write_inline(&self, node: &Node, state: &mut NodeState) -> Result<(), FsError> {
        let mut bytes = vec![0; state.len_bytes() as usize];
        let (stored, tail) = bytes.split_at_mut(state.stored_len_bytes as usize);
        for segment in state.segments.iter() {
            let Body::Inline(body) = &segment.body else { unreachable!("asked before") };
            let (start, end) = (segment.start as usize, segment.end() as usize);
            stored[start..end].copy_from_slice(&body[..end - start]);
        }
        state.tail.copy(0, tail);
        state.clear_segments();
        state.tail = Tail::Empty;
        state.push_segment(bytes.len() as u64, Body::Inline(bytes.into()));
        self.publish(node, state, None);
        Ok(())
    }

    fn write_table(&self, node: &Node, state: &mut NodeState) -> Result<(), FsError> {
        let is_rewrite = matches!(state.tail, Tail::Whole(_));
        if !is_rewrite {
            state.check_pieces()?;
        }
        let len_bytes = state.tail.len_bytes();
        self.journal.make_room(len_bytes)?;
        let store = StoreId(self.journal.lock().new_id());
        let hints = Hints { expected_len_bytes: Some(len_bytes), ..state.hints };
        let buffer = match std::mem::replace(&mut state.tail, Tail::Empty) {
            Tail::Table(buffer) => buffer.renamed(store.name(), hints),
            Tail::Whole(bytes) => {
                let mut buffer = FileBuffer::new(store.name(), hints);
                buffer.append(&bytes);
                buffer
            }
            Tail::Empty | Tail::Log { .. } => unreachable!("asked before"),
        };
        let persisted = self.files.persist(vec![buffer]).and_then(|mut files| {
            let file = files.pop().expect("one file for one buffer");
            let reader = self.files.open_persisted(&*file)?;
            Ok((file, reader))
        });
        let (file, reader) = persisted.map_err(|source| {
            state.lost = Some(source.to_string());
            node.moved.notify_all(); // No piece has a turn any more (H5).
            FsError::Files { what: format!("writing {}", state.path), source }
        })?;
        if is_rewrite {
            state.clear_segments();
        }
        state.log = None;
        state.push_segment(len_bytes, Body::Table { store, reader });
        self.publish(node, state, Some(file));
        Ok(())
    }

    fn write_log(&self, node: &Node, state: &mut NodeState) -> Result<(), FsError> {
        self.journal.make_room(state.tail.len_bytes())?;
        if state.log.is_none() {
            self.begin_log(node, state)?;
        }
        let NodeState { path, log, tail, segments, stored_len_bytes, grown_s, .. } = state;
        let (Some(log), Tail::Log { bytes, pushed }) = (log, tail) else {
            unreachable!("begun above")
        };
        let failed = |source| FsError::Files { what: format!("appending to {path}"), source };
        let segment = Arc::make_mut(segments).last_mut().expect("a log that is open is a segment");
        // Data that an earlier append left, for lack of space, goes first and alone.
        while !bytes.is_empty() {
            if *pushed == 0 {
                for record in bytes.chunks(RECORD_LEN_BYTES_MAX) {
                    let pushing = log.encoder.push(&[record]);
                    pushing.expect("a record log takes longer records than this");
                }
                log.encoder.seal();
                *pushed = bytes.len();
            }
            self.with_room(|| log.writer.append(log.encoder.ready()), failed)?;
            log.encoder.clear_ready();
            log.is_synced = false;
            segment.len_bytes += *pushed as u64;
            *stored_len_bytes += *pushed as u64;
            *grown_s = (self.options.unix_time_s)();
            bytes.drain(..std::mem::take(pushed));
        }
        Ok(())
    }

    /// Writes to a log. If there is no room, commits pending removals and tries once more (V4).
    /// Only the file layer knows how much of a drive a short write to a log takes.
    fn with_room<T>(
        &self,
        mut write: impl FnMut() -> Result<T, FilesError>,
        failed: impl Fn(FilesError) -> FsError,
    ) -> Result<T, FsError> {
        let written = match write() {
            Err(FilesError::NoSpace { .. }) if self.journal.commit_removals()? => write(),
            written => written,
        };
        written.map_err(failed)
    }

    fn begin_log(&self, node: &Node, state: &mut NodeState) -> Result<(), FsError> {
        state.check_pieces()?;
        let store = StoreId(self.journal.lock().new_id());
        let log_id = log_id(self.files.format_id(), store);
        let hints = Hints { kind: FileKind::Log, ..state.hints };
        let failed = |source| FsError::Files { what: "creating a log".to_owned(), source };
        let writer = self.with_room(|| self.files.create_log(&store.name(), hints), failed)?;
        let opened = self.files.open(&store.name());
        let reader = opened.map_err(|source| {
            self.journal.lock().drop_store(store);
            failed(source)
        })?;
        state.log = Some(OpenLog { writer, encoder: Encoder::new(log_id), is_synced: true });
        state.push_segment(0, Body::Log { store, log_id, reader, damage: None });
        if !self.publish(node, state, None) {
            // The file lost its last name meanwhile, and the log with it.
            self.journal.lock().drop_store(store);
        }
        Ok(())
    }

    /// Records the file's segments in the tree. Returns false if the file is no longer in it.
    ///
    /// Cost: occasionally a commit (J5).
    pub(crate) fn publish(
        &self,
        node: &Node,
        state: &NodeState,
        add: Option<Box<dyn Persisted>>,
    ) -> bool {
        let mtime_s = (self.options.unix_time_s)();
        let mut live = self.journal.lock();
        if live.tree.node(node.id).is_none() {
            return false;
        }
        let change = Change::SetBody { node: node.id, mtime_s, segments: state.records() };
        let seq = match add {
            Some(add) => live.change_adding(change, add),
            None => live.change(change),
        };
        node.seq.store(seq, Ordering::Release);
        let is_due = live.is_commit_due();
        drop(live);
        if is_due {
            // The caller did not ask for this commit. The next caller that does gets its error (J2,
            // J3).
            let _ = self.journal.commit(seq);
        }
        true
    }

    /// Flushes the file's log, if it has grown since the last flush.
    pub(crate) fn flush_log(&self, node: &Node) -> Result<(), FsError> {
        let (path, writer, end_blocks) = {
            let mut state = node.state.lock();
            self.write_out(node, &mut state)?;
            state.was_ended = true;
            match &state.log {
                Some(log) if !log.is_synced => {
                    (state.path.clone(), Arc::clone(&log.writer), log.encoder.end_blocks())
                }
                _ => return Ok(()),
            }
        };
        // Without the lock: others may append meanwhile.
        let failed = |source| FsError::Files { what: format!("syncing {path}"), source };
        writer.sync().map_err(failed)?;
        if let Some(log) = &mut node.state.lock().log
            && Arc::ptr_eq(&log.writer, &writer)
        {
            log.encoder.mark_durable(end_blocks);
            log.is_synced |= log.encoder.end_blocks() == end_blocks;
        }
        Ok(())
    }

    /// Makes the file's content and name durable (V2).
    pub(crate) fn sync(&self, node: &Node) -> Result<(), FsError> {
        self.flush_log(node)?;
        self.journal.commit(node.seq.load(Ordering::Acquire))
    }

    /// Ends the open log, which fixes its length.
    pub(crate) fn end_log(&self, node: &Node, state: &mut NodeState) -> Result<(), FsError> {
        let Some(log) = &state.log else { return Ok(()) };
        let failed = |source| FsError::Files { what: format!("closing {}", state.path), source };
        // First, so that any commit that records the length flushes the bytes before it (V2). A log
        // that cannot be ended stays open, because it is unknown what of it is durable.
        log.writer.finish().map_err(failed)?;
        state.log = None;
        self.publish(node, state, None);
        Ok(())
    }

    /// Reads the whole file into memory, to be rewritten as `len_bytes` bytes.
    pub(crate) fn take_whole(&self, state: &mut NodeState, len_bytes: u64) -> Result<(), FsError> {
        state.check_growth()?;
        check_rewrite(&state.path, len_bytes.max(state.len_bytes()))?;
        if !matches!(state.tail, Tail::Whole(_)) {
            let mut bytes = vec![0; state.len_bytes() as usize];
            let (stored, tail) = bytes.split_at_mut(state.stored_len_bytes as usize);
            crate::node::read_stored(&state.segments, &state.path, 0, stored, &mut None)?;
            state.tail.copy(0, tail);
            state.clear_segments();
            state.tail = Tail::Whole(bytes);
        }
        if let Tail::Whole(bytes) = &mut state.tail {
            bytes.resize(len_bytes as usize, 0);
        }
        Ok(())
    }
}

fn check_rewrite(path: &str, len_bytes: u64) -> Result<(), FsError> {
    let max_bytes = REWRITE_LEN_BYTES_MAX;
    if len_bytes <= max_bytes {
        return Ok(());
    }
    Err(FsError::TooLong { path: path.to_owned(), len_bytes, max_bytes })
}
