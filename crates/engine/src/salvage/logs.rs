//! Logs from their frames.
//!
//! ```text
//!   frames    8:0    8:16    8:32 ...      9:0   9:16           log : position, wherever they are
//!   file      | 0 .. | 16 .. | 32 .. |                          a frame says its place in its log
//!   extents   ... 16 | 17 ..                                    and may lie across two extents
//! ```
//!
//! The rest of a frame that lies across two extents precedes the next frame on the drive. Its
//! checksum decides where the first extent ends.

use super::Place;
use super::scan::FrameAt;
use crate::EngineError;
use crate::batch::BatchView;
use imbrex_files::FileReader;
use imbrex_files::FilesError;
use imbrex_files::raw::{RawDrive, RawPiece};
use imbrex_record_log::{BLOCK_LEN_BYTES, Decoder, LogBounds, is_whole_frame};
use std::collections::{BTreeMap, BTreeSet};

/// The frames of one log, by position.
#[derive(Clone, Debug, Default)]
pub(super) struct LogFrames(BTreeMap<u64, Vec<FrameAt>>);

/// Distributes frames over logs, by the id of the log.
pub(super) fn by_log(frames: &[FrameAt]) -> BTreeMap<u64, LogFrames> {
    let mut logs: BTreeMap<u64, LogFrames> = BTreeMap::new();
    for frame in frames {
        let log = logs.entry(frame.head.log_id).or_default();
        log.0.entry(frame.head.position_blocks).or_default().push(*frame);
    }
    logs
}

/// What the batches of a log hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogContent {
    /// The runs of sequence numbers: first and last.
    pub(super) seqs: Vec<(u64, u64)>,
    pub(super) keyspaces: BTreeSet<u32>,
}

impl LogContent {
    fn note(&mut self, first: u64, last: u64) {
        match self.seqs.last_mut() {
            Some(run) if run.1 + 1 == first => run.1 = last,
            _ => self.seqs.push((first, last)),
        }
    }
}

impl LogFrames {
    /// The pieces of the log's file. Frames that are damaged, or were not found, are unknown there.
    pub(super) fn pieces(&self, drives: &[RawDrive]) -> Vec<RawPiece> {
        let mut pieces: Vec<RawPiece> = Vec::new();
        let mut at = 0;
        let starts: Vec<&Vec<FrameAt>> = self.0.values().collect();
        for (index, candidates) in starts.iter().enumerate() {
            let next = starts.get(index + 1).and_then(|next| next.first());
            let Some((position, frame)) = whole_frame(candidates, next, drives) else { continue };
            if position < at {
                continue;
            }
            if at < position {
                pieces.push(RawPiece { place: None, len_blocks: position - at });
            }
            at = position + frame.iter().map(|piece| piece.len_blocks).sum::<u64>();
            pieces.extend(frame);
        }
        pieces
    }

    /// The first block of each extent.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.0.values().flatten().map(|frame| frame.place)
    }
}

/// The newest whole frame among `candidates`, which have the same position.
fn whole_frame(
    candidates: &[FrameAt],
    next: Option<&FrameAt>,
    drives: &[RawDrive],
) -> Option<(u64, Vec<RawPiece>)> {
    let mut candidates = candidates.to_vec();
    candidates.sort_by_key(|frame| std::cmp::Reverse(frame.head.incarnation));
    for frame in candidates {
        let (drive, len) = (&drives[frame.place.drive], frame.head.len_blocks);
        let piece = |drive: &RawDrive, block, len_blocks| RawPiece {
            place: Some((drive.clone(), block)),
            len_blocks,
        };
        let mut bytes = vec![0; len as usize * BLOCK_LEN_BYTES];
        let is_read = drive.read(frame.place.block, &mut bytes).is_ok();
        if is_read && is_whole_frame(&bytes) {
            let pieces = vec![piece(drive, frame.place.block, len)];
            return Some((frame.head.position_blocks, pieces));
        }
        let Some(next) =
            next.filter(|next| next.head.position_blocks == frame.head.position_blocks + len)
        else {
            continue;
        };
        for first in 1..len {
            let (head, rest) = bytes.split_at_mut(first as usize * BLOCK_LEN_BYTES);
            let other = &drives[next.place.drive];
            let Some(from) = next.place.block.checked_sub(len - first) else { continue };
            if drive.read(frame.place.block, head).is_err() || other.read(from, rest).is_err() {
                continue;
            }
            if is_whole_frame(&bytes) {
                let pieces =
                    vec![piece(drive, frame.place.block, first), piece(other, from, len - first)];
                return Some((frame.head.position_blocks, pieces));
            }
        }
    }
    None
}

/// Reads the batches of a log; `None` if it is not a log of batches.
///
/// # Errors
/// [`EngineError::Files`] if a drive fails, other than by damage.
pub(super) fn content(
    file: &dyn FileReader,
    log_id: u64,
) -> Result<Option<LogContent>, EngineError> {
    let mut scratch = Vec::new();
    let read = |offset: u64, buf: &mut [u8]| -> Result<(), FilesError> {
        buf.copy_from_slice(file.read_at(offset, buf.len(), &mut scratch)?);
        Ok(())
    };
    let failed = |source| EngineError::Files { what: "reading a found log".to_owned(), source };
    let len_blocks = file.len_bytes() / BLOCK_LEN_BYTES as u64;
    let bounds = LogBounds { log_id, len_blocks, durable_blocks: 0 };
    let mut decoder = Decoder::passing(bounds, read, FilesError::is_damage).looking_far();
    let (mut content, mut foreign_count) = (LogContent::default(), 0);
    loop {
        while let Some(record) = decoder.next_record().map_err(failed)? {
            if record.bytes.is_empty() {
                continue;
            }
            let Ok(batch) = BatchView::decode(record.bytes) else {
                foreign_count += 1;
                continue;
            };
            let first = batch.first_seq().0;
            content.note(first, first + u64::from(batch.op_count()) - 1);
            content.keyspaces.extend(batch.ops().map(|(_, op)| op.keyspace.0));
        }
        if !decoder.pass_damage().map_err(failed)? {
            break;
        }
    }
    let is_ours = foreign_count == 0 || !content.seqs.is_empty();
    Ok(is_ours.then_some(content))
}
