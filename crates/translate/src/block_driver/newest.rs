//! Finds the newest content of the host's blocks: in the write buffer, on the drive, or lost.
//!
//! Not here: reading from the drive (`summaries`), the lock (`device`).

use super::buffer::Buffer;
use super::mapping::Piece;
use super::regions::Regions;
use super::summaries::Part;
use imbrex_disk::{BlockRange, Blocks, DiskError, Known, ReadRequest};

/// The structures that locate a block, the newest first.
pub(super) struct NewestContent<'a> {
    pub(super) buffer: &'a Buffer,
    pub(super) regions: &'a Regions,
    /// Clean blocks of the buffer.
    pub(super) kept: &'a Regions,
    pub(super) lost: &'a Regions,
}

impl NewestContent<'_> {
    /// Serves what is in memory, and returns the parts that must be read from the drive. `lookup` is
    /// the map's.
    pub(super) fn parts<'a, E: From<DiskError>>(
        &self,
        requests: &'a mut [ReadRequest<'_>],
        lookup: &mut dyn FnMut(BlockRange) -> Result<Vec<Piece>, E>,
    ) -> Result<Vec<Part<'a>>, E> {
        let mut parts = Vec::new();
        for request in requests.iter_mut() {
            let range = BlockRange::new(request.at, Blocks::holding(request.buf.len() as u64));
            self.buffer.read_over(request.at, request.buf);
            let (mut at, mut rest) = (range.start, &mut *request.buf);
            let held = self.regions.within(range).chain(self.kept.within(range));
            let mut held: Vec<BlockRange> = held.collect();
            held.sort_unstable();
            let ends = held.iter().map(|run| run.start).chain([range.end()]);
            let starts = [range.start].into_iter().chain(held.iter().map(|run| run.end()));
            for (start, end) in starts.zip(ends) {
                if let Some(lost) = self.lost.within(BlockRange::new(start, end - start)).next() {
                    return Err(DiskError::Medium { at: lost.start }.into());
                }
                for piece in lookup(BlockRange::new(start, end - start))? {
                    let (_, behind) = rest.split_at_mut((piece.range.start - at).bytes() as usize);
                    let (buf, behind) = behind.split_at_mut(piece.range.len.bytes() as usize);
                    match piece.at {
                        Some(pba) => parts.push(Part { at: pba, lba: piece.range.start, buf }),
                        None => buf.fill(0),
                    }
                    (at, rest) = (piece.range.end(), behind);
                }
            }
        }
        Ok(parts)
    }

    /// What is known of the first block of `range`, and for how many blocks that holds.
    /// `lookup` is the map's; it may leave out the end.
    pub(super) fn known(
        &self,
        range: BlockRange,
        lookup: &mut dyn FnMut(BlockRange) -> Vec<Piece>,
    ) -> (Known, Blocks) {
        let first = [self.regions.within(range).next(), self.lost.within(range).next()];
        let held = first.into_iter().flatten().min_by_key(|run| run.start);
        let held_from = held.map_or(range.end(), |run| run.start);
        if let Some(run) = held.filter(|run| run.start == range.start) {
            return (Known::Nothing, run.len);
        }
        let unheld = BlockRange::new(range.start, held_from - range.start);
        let mut pieces = lookup(unheld).into_iter();
        match pieces.next() {
            None => (Known::Nothing, Blocks::new(1).min(range.len)),
            Some(piece) if piece.at.is_none() => (Known::Unwritten, piece.range.len),
            first => {
                let mapped = pieces.take_while(|piece| piece.at.is_some());
                let len = first.into_iter().chain(mapped).map(|piece| piece.range.len).sum();
                (Known::Nothing, len)
            }
        }
    }
}
