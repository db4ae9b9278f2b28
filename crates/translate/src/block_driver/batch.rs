//! Valid data that a cleaning moves at a time.
//!
//! Not here: how it is moved (`moving`).

use super::mapping::{MapRun, Piece};

/// Valid data that is being moved.
#[derive(Debug)]
pub(super) struct Batch {
    /// In the order in which they are written.
    pub(super) pieces: Vec<MovingPiece>,
    /// The positions of pieces in the order in which they are read.
    pub(super) reading: Vec<usize>,
    pub(super) read_count: usize,
    pub(super) written_count: usize,
}

/// A piece of it, of at most 1 MiB.
#[derive(Debug)]
pub(super) struct MovingPiece {
    pub(super) piece: Piece,
    /// What was read of it. Blocks that cannot be read are left out.
    pub(super) found: Vec<(MapRun, Vec<u8>)>,
}

impl Batch {
    pub(super) fn new(pieces: impl Iterator<Item = Piece>) -> Batch {
        let pieces: Vec<MovingPiece> =
            pieces.map(|piece| MovingPiece { piece, found: Vec::new() }).collect();
        let mut reading: Vec<usize> = (0..pieces.len()).collect();
        reading.sort_unstable_by_key(|&index| pieces[index].piece.at);
        Batch { pieces, reading, read_count: 0, written_count: 0 }
    }

    /// Whether all of it is read.
    pub(super) fn is_read(&self) -> bool {
        self.read_count == self.pieces.len()
    }

    /// Whether all of it is written.
    pub(super) fn is_moved(&self) -> bool {
        self.written_count == self.pieces.len()
    }
}
