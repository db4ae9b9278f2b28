//! A file while the drive is open: its stored segments, and its tail in memory.
//!
//! ```text
//!   segments   | inline | log ......... |      immutable list, shared with reads under way
//!   tail                                | bytes appended since |
//!   0                         stored_len_bytes          len_bytes
//! ```

use crate::error::FsError;
use crate::log_cursor::LogCursor;
use crate::pieces::Pieces;
use crate::scratch::with_scratch;
use crate::tree::{NodeId, SegmentRecord, StoreId};
use imbrex_files::{FileBuffer, FileKind, FileReader, Hints, LogWriter};
use imbrex_record_log::Encoder;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The most segments that a record of the tree can count.
const SEGMENT_COUNT_MAX: u16 = u16::MAX;

/// A file of the tree, or one that has lost its last path and is still open.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) state: Mutex<NodeState>,
    /// Signals that pieces were appended, or never will be.
    pub(crate) moved: Condvar,
    /// The last change of the tree on which its name or content depends.
    pub(crate) seq: AtomicU64,
    /// Whether it has no path any more.
    pub(crate) is_gone: AtomicBool,
}

/// The state under the lock of a [`Node`].
#[derive(Debug)]
pub(crate) struct NodeState {
    /// The path by which it was last opened, for messages.
    pub(crate) path: Arc<str>,
    pub(crate) hints: Hints,
    pub(crate) segments: Arc<Vec<Segment>>,
    /// Counts changes of stored bytes. Appends do not count.
    pub(crate) generation: u64,
    pub(crate) stored_len_bytes: u64,
    /// When its log last grew, in seconds since 1970. Recorded in the tree together with the log's
    /// length. 0 for never.
    pub(crate) grown_s: u64,
    pub(crate) tail: Tail,
    /// The log of the last segment, while it can grow.
    pub(crate) log: Option<OpenLog>,
    pub(crate) writer_count: u32,
    /// The number of the newest writer.
    pub(crate) last_writer: u64,
    pub(crate) pieces: Pieces,
    /// Whether it was synced or closed since its first segment. Pieces that were stored only
    /// because they were long do not count.
    pub(crate) was_ended: bool,
    /// Why bytes of it are lost, if any are.
    pub(crate) lost: Option<String>,
}

/// Appended data that is not stored yet.
#[derive(Debug)]
pub(crate) enum Tail {
    Empty,
    /// Becomes a table, or inline bytes.
    Table(FileBuffer),
    /// Becomes part of a log, or inline bytes. The first `pushed` bytes are already in the log's
    /// encoder, because an append of them failed for lack of space.
    Log {
        bytes: Vec<u8>,
        pushed: usize,
    },
    /// The whole file, in memory because it is being rewritten.
    Whole(Vec<u8>),
}

impl Tail {
    pub(crate) fn len_bytes(&self) -> u64 {
        match self {
            Tail::Empty => 0,
            Tail::Table(buffer) => buffer.len_bytes(),
            Tail::Log { bytes, .. } | Tail::Whole(bytes) => bytes.len() as u64,
        }
    }

    /// Fills `out` from `offset` of the tail, which is long enough.
    pub(crate) fn copy(&self, offset: u64, out: &mut [u8]) {
        let (mut at, mut done) = (offset as usize, 0);
        match self {
            Tail::Empty => assert!(out.is_empty(), "an empty tail has nothing to copy"),
            Tail::Log { bytes, .. } | Tail::Whole(bytes) => {
                out.copy_from_slice(&bytes[at..at + out.len()]);
            }
            Tail::Table(buffer) => {
                while done < out.len() {
                    let chunk = &buffer.chunks()[at / FileBuffer::CHUNK_LEN_BYTES];
                    let inside = at % FileBuffer::CHUNK_LEN_BYTES;
                    let now = (chunk.len() - inside).min(out.len() - done);
                    out[done..done + now].copy_from_slice(&chunk[inside..inside + now]);
                    done += now;
                    at += now;
                }
            }
        }
    }
}

/// A log segment that can grow.
#[derive(Debug)]
pub(crate) struct OpenLog {
    pub(crate) writer: Arc<dyn LogWriter>,
    pub(crate) encoder: Encoder,
    pub(crate) is_synced: bool,
}

/// A stored piece of a file.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) len_bytes: u64,
    pub(crate) body: Body,
}

/// Where the bytes of a segment are.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Inline(Arc<[u8]>),
    Table { store: StoreId, reader: Arc<dyn FileReader> },
    Log { store: StoreId, log_id: u64, reader: Arc<dyn FileReader>, damage: Option<Arc<str>> },
}

impl Segment {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len_bytes
    }

    pub(crate) fn damage(&self) -> Option<&str> {
        match &self.body {
            Body::Log { damage, .. } => damage.as_deref(),
            Body::Inline(_) | Body::Table { .. } => None,
        }
    }

    fn record(&self, grows: bool) -> SegmentRecord {
        match &self.body {
            Body::Inline(bytes) => SegmentRecord::Inline(bytes[..self.len_bytes as usize].to_vec()),
            Body::Table { store, .. } => {
                SegmentRecord::Table { store: *store, len_bytes: self.len_bytes }
            }
            Body::Log { store, .. } => {
                let len_bytes = (!grows).then_some(self.len_bytes);
                SegmentRecord::Log { store: *store, len_bytes }
            }
        }
    }
}

impl Node {
    pub(crate) fn new(id: NodeId, path: &str, hints: Hints, segments: Vec<Segment>) -> Arc<Node> {
        let stored_len_bytes = segments.last().map_or(0, Segment::end);
        let was_ended = !segments.is_empty();
        let state = NodeState {
            path: path.into(),
            hints,
            segments: Arc::new(segments),
            generation: 0,
            stored_len_bytes,
            grown_s: 0,
            tail: Tail::Empty,
            log: None,
            writer_count: 0,
            last_writer: 0,
            pieces: Pieces::default(),
            was_ended,
            lost: None,
        };
        Arc::new(Node {
            id,
            state: Mutex::new(state),
            moved: Condvar::new(),
            seq: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
        })
    }
}

impl NodeState {
    pub(crate) fn len_bytes(&self) -> u64 {
        self.stored_len_bytes + self.tail.len_bytes()
    }

    pub(crate) fn records(&self) -> Vec<SegmentRecord> {
        let last = self.segments.len().wrapping_sub(1);
        // A log found damaged at its end never gets a length: with one it would look sound, only
        // shorter. A damaged log before other segments keeps the length that it has.
        let grows = |index, segment: &Segment| {
            index == last && (self.log.is_some() || segment.damage().is_some())
        };
        let records = self.segments.iter().enumerate();
        records.map(|(index, segment)| segment.record(grows(index, segment))).collect()
    }

    /// Adds a segment behind the existing ones.
    pub(crate) fn push_segment(&mut self, len_bytes: u64, body: Body) {
        let start = self.stored_len_bytes;
        self.was_ended &= !self.segments.is_empty();
        Arc::make_mut(&mut self.segments).push(Segment { start, len_bytes, body });
        self.stored_len_bytes += len_bytes;
    }

    /// Drops all stored bytes of the file.
    pub(crate) fn clear_segments(&mut self) {
        self.segments = Arc::default();
        self.generation += 1;
        self.stored_len_bytes = 0;
        self.log = None;
    }

    /// Whether the next append goes to a log.
    pub(crate) fn appends_to_log(&self) -> bool {
        match self.hints.kind {
            FileKind::Log => true,
            FileKind::Table => false,
            // Synced before, and still growing: not a table after all.
            FileKind::Metadata | FileKind::Other => self.was_ended && !self.segments.is_empty(),
        }
    }

    /// Whether no part of it is stored in the file layer.
    pub(crate) fn is_inline(&self) -> bool {
        self.segments.iter().all(|segment| matches!(segment.body, Body::Inline(_)))
    }

    /// Checks that the file may grow or be rewritten.
    pub(crate) fn check_growth(&self) -> Result<(), FsError> {
        self.check_whole()?;
        check_damage(&self.segments, &self.path, self.stored_len_bytes, u64::MAX)
    }

    /// Checks that the file may get one more segment.
    pub(crate) fn check_pieces(&self) -> Result<(), FsError> {
        if self.segments.len() < usize::from(SEGMENT_COUNT_MAX) {
            return Ok(());
        }
        Err(FsError::TooManyPieces { path: self.path.to_string(), max: SEGMENT_COUNT_MAX })
    }

    pub(crate) fn check_whole(&self) -> Result<(), FsError> {
        match &self.lost {
            None => Ok(()),
            Some(reason) => {
                Err(FsError::Lost { path: self.path.to_string(), reason: reason.clone() })
            }
        }
    }
}

/// Refuses a read or write from `offset` that passes the end of a damaged log before `upto`. That
/// end is not the end of the file.
pub(crate) fn check_damage(
    segments: &[Segment],
    path: &str,
    offset: u64,
    upto: u64,
) -> Result<(), FsError> {
    let first = segments.partition_point(|segment| segment.end() < offset);
    let first = first.min(segments.len().saturating_sub(1));
    for segment in segments[first..].iter().take_while(|segment| segment.end() < upto) {
        if let Some(reason) = segment.damage() {
            let (path, reason) = (path.to_owned(), reason.to_owned());
            return Err(FsError::Damaged { path, offset: segment.end(), reason });
        }
    }
    Ok(())
}

/// Fills `out` from `offset` of the stored bytes in `segments`, which are long enough.
pub(crate) fn read_stored(
    segments: &[Segment],
    path: &str,
    mut offset: u64,
    mut out: &mut [u8],
    cursor: &mut Option<LogCursor>,
) -> Result<(), FsError> {
    let first = segments.partition_point(|segment| segment.end() <= offset);
    for segment in &segments[first..] {
        if out.is_empty() {
            break;
        }
        let inside = offset - segment.start;
        let now_len = (segment.len_bytes - inside).min(out.len() as u64) as usize;
        let (now, later) = out.split_at_mut(now_len);
        match &segment.body {
            Body::Inline(bytes) => now.copy_from_slice(&bytes[inside as usize..][..now_len]),
            Body::Table { reader, .. } => {
                let failed = |source| FsError::Files { what: format!("reading {path}"), source };
                with_scratch(|scratch| {
                    now.copy_from_slice(reader.read_at(inside, now_len, scratch)?);
                    Ok(())
                })
                .map_err(failed)?;
            }
            Body::Log { store, log_id, reader, .. } => {
                let usable = cursor.as_ref().is_some_and(|c| c.can_read(*store, inside));
                let mut taken = cursor.take().filter(|_| usable);
                let cursor_now =
                    taken.get_or_insert_with(|| LogCursor::new(*store, *log_id, reader));
                cursor_now.read(path, segment.start, inside, now)?;
                *cursor = taken;
            }
        }
        offset += now_len as u64;
        out = later;
    }
    assert!(out.is_empty(), "a read lies within the stored bytes");
    Ok(())
}
