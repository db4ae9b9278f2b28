//! What a cleaning moves at a time: read in the order of place, written in the order of address.
//!
//! ```text
//!     a batch    aaa bb cc dd        up to 16 MiB of the valid data of the zones being cleaned
//!     step       read  cc aaa        as much as the drive reads in the time of a step
//!     step       read  dd bb
//!     step       write aaabbcc       as much as the drive writes in that time
//!     step       write dd
//! ```
//!
//! The arm moves between the zones that are read and the zone that is written once for each batch. The
//! lock is free between two steps, so the host may write a block again after it was read: a block is
//! written only if it is still where it was read.
//!
//! Not here: which zones, and when (`clean`); how long a step may be (`step`).

use super::batch::{Batch, MovingPiece};
use super::cleaning::Cleaning;
use super::data_zones::Stream;
use super::mapping::{MapRun, Piece};
use super::state::DriverState;
use super::step::{BATCH_PIECE_LEN_MAX, positioned_cost};
use super::summaries::Part;
use imbrex_disk::{Activity, BlockRange, Blocks, DiskError, Pba, ZoneId};
use std::collections::{BTreeMap, BTreeSet};

/// What was read of pieces, in order, and the zones of the unreadable rest.
#[derive(Default)]
struct Salvaged {
    found: Vec<(MapRun, Vec<u8>)>,
    unreadable: BTreeSet<ZoneId>,
}

fn run_of(piece: Piece) -> MapRun {
    let at = piece.at.expect("cleaning moves mapped blocks only");
    MapRun { start: piece.range.start, at, len: piece.range.len }
}

impl DriverState {
    /// Takes the next `len` blocks of what `cleaning` has to move; returns how many it took. Blocks that
    /// were written again meanwhile are elsewhere, and not in the batch.
    pub(super) fn begin_batch(&self, cleaning: &mut Cleaning, len: u64) -> (Batch, u64) {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut left = len;
        while left > 0 && cleaning.next < cleaning.runs.len() {
            let run = &mut cleaning.runs[cleaning.next];
            let now = MapRun { len: Blocks::new(run.len.get().min(left)), ..*run };
            left -= now.len.get();
            *run =
                MapRun { start: run.start + now.len, at: run.at + now.len, len: run.len - now.len };
            cleaning.next += usize::from(run.len.is_zero());
            pieces.extend(self.still_to_move(&cleaning.zones, now));
        }
        let taken = len - left;
        let to_move: u64 = pieces.iter().map(|piece| piece.range.len.get()).sum();
        cleaning.left -= Blocks::new(taken - to_move);
        let cut = pieces.into_iter().flat_map(|piece| {
            let starts = (0..piece.range.len.get()).step_by(BATCH_PIECE_LEN_MAX as usize);
            starts.map(move |from| {
                let len = (piece.range.len.get() - from).min(BATCH_PIECE_LEN_MAX);
                let from = Blocks::new(from);
                let range = BlockRange::new(piece.range.start + from, Blocks::new(len));
                Piece { range, at: piece.at.map(|at| at + from) }
            })
        });
        (Batch::new(cut), taken)
    }

    /// The parts of `run` that are still in the zones being cleaned, of the same generation: what was
    /// read of these is their content.
    fn still_to_move(&self, zones: &BTreeMap<ZoneId, u64>, run: MapRun) -> Vec<Piece> {
        let mut is_cleaned = |at: Pba| {
            let slot = self.zones.pool.zone_of(at);
            slot.is_some_and(|slot| zones.get(&slot.zone) == Some(&slot.generation))
        };
        self.map.still_at(run, &mut is_cleaned)
    }

    /// Reads the next pieces, as many as a step may. Returns the zones with blocks that cannot be read.
    pub(super) fn read_of_batch(
        &mut self,
        batch: &mut Batch,
    ) -> Result<BTreeSet<ZoneId>, DiskError> {
        let most = self.steps.reading_cost(self.written.all());
        let first = batch.read_count;
        let (mut cost, mut behind, mut is_whole) = (0, None, false);
        let mut wanted: Vec<Piece> = Vec::new();
        for &index in &batch.reading[first..] {
            let piece = batch.pieces[index].piece;
            let is_next = piece.at.is_some() && piece.at == behind;
            cost += positioned_cost(piece.range.len, is_next);
            if !wanted.is_empty() && most < cost {
                is_whole = true;
                break;
            }
            behind = piece.at.map(|at| at + piece.range.len);
            wanted.push(piece);
        }
        let from_ns = self.steps.now_ns();
        let salvaged = self.salvage(&wanted)?;
        if most < u64::MAX {
            self.steps.note_reading(from_ns, is_whole);
        }
        batch.read_count += wanted.len();
        let mut found = salvaged.found.into_iter().peekable();
        for &index in &batch.reading[first..batch.read_count] {
            let MovingPiece { piece, found: own } = &mut batch.pieces[index];
            let is_own = |(run, _): &(MapRun, Vec<u8>)| {
                piece.range.start <= run.start && run.range().end() <= piece.range.end()
            };
            own.extend(std::iter::from_fn(|| found.next_if(is_own)));
        }
        Ok(salvaged.unreadable)
    }

    /// Writes the next pieces, as many as a step may. Returns false if others may be out of date: they
    /// then stay where they are.
    pub(super) fn write_of_batch(
        &mut self,
        cleaning: &mut Cleaning,
        batch: &mut Batch,
    ) -> Result<bool, DiskError> {
        let most = self.step_len();
        let (mut len, mut data) = (0, Vec::new());
        let (mut ranges, mut moved) = (Vec::new(), Vec::new());
        while let Some(next) = batch.pieces.get_mut(batch.written_count)
            && (len == 0 || len + next.piece.range.len.get() <= most)
        {
            len += next.piece.range.len.get();
            batch.written_count += 1;
            moved.push(next.piece);
            for (run, bytes) in std::mem::take(&mut next.found) {
                for piece in self.still_to_move(&cleaning.zones, run) {
                    if piece.at.map(|at| at - run.at) != Some(piece.range.start - run.start) {
                        // Another cleaning of these zones has moved it within them.
                        continue;
                    }
                    let from = (piece.range.start - run.start).bytes() as usize;
                    data.extend_from_slice(&bytes[from..from + piece.range.len.bytes() as usize]);
                    ranges.push(piece.range);
                }
            }
        }
        let is_placed = self.append(Stream::Cleaning, &data, &ranges)?;
        self.forget_moved(&moved);
        cleaning.left -= Blocks::new(len);
        Ok(is_placed)
    }

    /// Reads pieces: together, or, where the medium fails, block by block whatever can be read.
    fn salvage(&mut self, pieces: &[Piece]) -> Result<Salvaged, DiskError> {
        let mut salvaged = Salvaged::default();
        match self.read_pieces(pieces) {
            Ok(found) => return Ok(Salvaged { found, ..salvaged }),
            Err(DiskError::Medium { .. }) => {}
            Err(error) => return Err(error),
        }
        for &piece in pieces {
            match self.read_pieces(&[piece]) {
                Ok(found) => {
                    salvaged.found.extend(found);
                    continue;
                }
                Err(DiskError::Medium { .. }) => {}
                Err(error) => return Err(error),
            }
            let run = run_of(piece);
            for index in (0..run.len.get()).map(Blocks::new) {
                let range = BlockRange::new(run.start + index, Blocks::new(1));
                match self.read_pieces(&[Piece { range, at: Some(run.at + index) }]) {
                    Ok(found) => salvaged.found.extend(found),
                    Err(DiskError::Medium { .. }) => {
                        let zone = self.zones.pool.zone_of(run.at).map(|slot| slot.zone);
                        salvaged.unreadable.extend(zone);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(salvaged)
    }

    fn read_pieces(&mut self, pieces: &[Piece]) -> Result<Vec<(MapRun, Vec<u8>)>, DiskError> {
        let mut found: Vec<(MapRun, Vec<u8>)> = pieces
            .iter()
            .map(|&piece| (run_of(piece), vec![0; piece.range.len.bytes() as usize]))
            .collect();
        let parts = found.iter_mut();
        let parts = parts.map(|(run, buf)| Part { at: run.at, lba: run.start, buf }).collect();
        let cut = self.zones.summaries.cut(&self.zones.pool, parts)?;
        let fetched = cut.fetch(&**self.zones.disks.of(Activity::Cleaning));
        self.end_read(fetched).expect("the lock is held")?;
        Ok(found)
    }
}
