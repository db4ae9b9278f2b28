//! The blocks of the disk that a read of a range of a file needs, and a batch of such reads.
//!
//! Invariant
//!   R1  A plan holds the blocks of its range (F3) from before it is made until it is dropped. If
//!       cleaning moves the file meanwhile, the old blocks are not reset under the read.

use crate::rewrite::detour::Source;
use imbrex_disk::{BLOCK_LEN_BYTES, DiskError, Lba, ReadRequest};
use std::any::Any;
use std::sync::Arc;

/// The blocks that a read of one range needs; opaque. They stay allocated while the plan lives (R1).
pub struct PlannedRead {
    source: Source,
    pieces: Vec<BlockRead>,
    _hold: Arc<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for PlannedRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlannedRead").field("pieces", &self.pieces).finish_non_exhaustive()
    }
}

impl PlannedRead {
    /// The read of `pieces`, whose blocks are not reset while `hold` lives.
    pub(crate) fn new(
        source: Source,
        pieces: Vec<BlockRead>,
        hold: Arc<dyn Any + Send + Sync>,
    ) -> PlannedRead {
        PlannedRead { source, pieces, _hold: hold }
    }

    /// The disk that has the blocks.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Whether both read one disk, which can order their reads.
    pub(crate) fn is_on_disk_of(&self, other: &PlannedRead) -> bool {
        self.source.is_same_disk(&other.source)
    }
}

/// The part of a read that lies in one extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRead {
    pub(crate) at: Lba,
    /// Bytes to skip at the start of the first block.
    pub(crate) skip: usize,
    pub(crate) len_bytes: usize,
}

impl BlockRead {
    pub(crate) fn blocks_len_bytes(&self) -> usize {
        (self.skip + self.len_bytes).next_multiple_of(BLOCK_LEN_BYTES)
    }
}

/// Reads `plans`, all of one disk, in one batch by `read`.
pub(crate) fn read_planned(
    plans: &[PlannedRead],
    read: &dyn Fn(&mut [ReadRequest<'_>]) -> Result<(), DiskError>,
) -> Result<Vec<Vec<u8>>, DiskError> {
    let pieces = || plans.iter().flat_map(|plan| &plan.pieces);
    let mut buffers: Vec<Vec<u8>> =
        pieces().map(|piece| vec![0; piece.blocks_len_bytes()]).collect();
    let mut requests: Vec<ReadRequest<'_>> =
        pieces().zip(&mut buffers).map(|(piece, buf)| ReadRequest { at: piece.at, buf }).collect();
    if !requests.is_empty() {
        read(&mut requests)?;
    }
    let mut buffers = buffers.into_iter();
    let assemble = |plan: &PlannedRead| {
        let mut whole = Vec::new();
        for (piece, mut buffer) in plan.pieces.iter().zip(&mut buffers) {
            let used = piece.skip..piece.skip + piece.len_bytes;
            if plan.pieces.len() == 1 {
                buffer.copy_within(used, 0);
                buffer.truncate(piece.len_bytes);
                return buffer;
            }
            whole.extend_from_slice(&buffer[used]);
        }
        whole
    };
    Ok(plans.iter().map(assemble).collect())
}
