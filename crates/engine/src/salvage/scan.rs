//! The search: which footers of tables and frames of logs are on the drives.
//!
//! ```text
//!   1 MiB  | .... RLOG ........ IMBRXTBL | ..        a footer may lie across two pieces
//! ```
//!
//! A piece that cannot be read is read in halves, down to blocks. If the first, the middle and the
//! last block of a piece cannot be read, the piece is left out as a whole: a drive may spend many
//! seconds on each bad block.

use super::Place;
use crate::EngineError;
use crate::table::FoundFooter;
use crate::watch::{Progress, Watch, ask};
use imbrex_files::FilesError;
use imbrex_files::raw::RawDrive;
use imbrex_record_log::{BLOCK_LEN_BYTES, FrameHead};
use std::ops::Range;

/// How much is read at a time.
const PIECE_BLOCKS: u64 = 256;

/// A footer on a drive.
#[derive(Clone, Debug)]
pub(super) struct FooterAt {
    pub(super) drive: usize,
    /// The byte of the drive at which the table ends, if nothing is missing in between.
    pub(super) end: u64,
    pub(super) footer: FoundFooter,
}

/// The head of a frame on a drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameAt {
    pub(super) place: Place,
    pub(super) head: FrameHead,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct Finds {
    pub(super) footers: Vec<FooterAt>,
    pub(super) frames: Vec<FrameAt>,
    pub(super) read_bytes: u64,
    pub(super) unreadable_bytes: u64,
}

/// Reads all written blocks of `drives`.
///
/// # Errors
/// [`EngineError::Stopped`]; [`EngineError::Files`] if a drive fails, other than by bad blocks.
pub(super) fn scan(drives: &[RawDrive], watch: &mut Watch<'_>) -> Result<Finds, EngineError> {
    let runs: Vec<Vec<Range<u64>>> = drives.iter().map(RawDrive::written).collect();
    let total: u64 = runs.iter().flatten().map(|run| run.end - run.start).sum();
    let total_bytes = total * BLOCK_LEN_BYTES as u64;
    let mut finds = Finds::default();
    for (drive, runs) in runs.iter().enumerate() {
        for run in runs {
            let mut scan =
                RunScan { drive, raw: &drives[drive], finds: &mut finds, tail: Vec::new() };
            let mut at = run.start;
            while at < run.end {
                let end = run.end.min((at / PIECE_BLOCKS + 1) * PIECE_BLOCKS);
                scan.piece(at..end)?;
                at = end;
                let done_bytes = scan.finds.read_bytes + scan.finds.unreadable_bytes;
                ask(watch, "a search of the drive", Progress { done_bytes, total_bytes })?;
            }
        }
    }
    Ok(finds)
}

/// The search of one run of blocks.
struct RunScan<'a> {
    drive: usize,
    raw: &'a RawDrive,
    finds: &'a mut Finds,
    /// The last bytes before the next piece, as many as a footer may have there.
    tail: Vec<u8>,
}

impl RunScan<'_> {
    fn piece(&mut self, range: Range<u64>) -> Result<(), EngineError> {
        let len_blocks = range.end - range.start;
        let mut buf = vec![0; len_blocks as usize * BLOCK_LEN_BYTES];
        match self.raw.read(range.start, &mut buf) {
            Ok(()) => {
                self.look(range.start, &buf);
                return Ok(());
            }
            Err(error) if !error.is_damage() => return Err(failed(error)),
            Err(_) => {}
        }
        let middle = range.start + len_blocks / 2;
        let probes = [range.start, middle, range.end - 1];
        let is_gone = |at| self.raw.read(at, &mut [0; BLOCK_LEN_BYTES]).is_err();
        if len_blocks == 1 || probes.into_iter().all(is_gone) {
            self.finds.unreadable_bytes += len_blocks * BLOCK_LEN_BYTES as u64;
            self.tail.clear();
            return Ok(());
        }
        self.piece(range.start..middle)?;
        self.piece(middle..range.end)
    }

    fn look(&mut self, start: u64, bytes: &[u8]) {
        let block_len = BLOCK_LEN_BYTES as u64;
        for (index, block) in bytes.chunks_exact(BLOCK_LEN_BYTES).enumerate() {
            if let Some(head) = FrameHead::of(block) {
                let place = Place { drive: self.drive, block: start + index as u64 };
                self.finds.frames.push(FrameAt { place, head });
            }
        }
        self.finds.read_bytes += bytes.len() as u64;
        let from = start * block_len - self.tail.len() as u64;
        let mut joined = std::mem::take(&mut self.tail);
        joined.extend_from_slice(&bytes[..bytes.len().min(FoundFooter::OVERLAP_LEN_BYTES)]);
        // Across the border, then in the piece itself.
        let across = FoundFooter::all_in(&joined).into_iter().map(|(at, f)| (from + at as u64, f));
        let within = FoundFooter::all_in(bytes);
        let within = within.into_iter().map(|(at, f)| (start * block_len + at as u64, f));
        for (at, footer) in across.chain(within) {
            let Some(end) = footer.end(at) else { continue };
            // Only the last block of a table may be in part its own.
            if footer.len_bytes() % block_len == end % block_len || footer.is_logged() {
                self.finds.footers.push(FooterAt { drive: self.drive, end, footer });
            }
        }
        self.tail = bytes[bytes.len() - FoundFooter::OVERLAP_LEN_BYTES..].to_vec();
    }
}

fn failed(source: FilesError) -> EngineError {
    EngineError::Files { what: "searching the drive".to_owned(), source }
}
