//! Which blocks behind the end of a log are examined, so that opening a log costs what is in it and
//! not the length of its file.
//!
//! ```text
//!   | frames | ?? | .. | frame | .. | frame | ......... gap ........... |   |s|       |s|
//!              P    one by one, while there are frames                     a sample every 16 MiB
//! ```
//!
//! At a bad position P the log is torn, or it is damaged: a frame behind P may record that P was
//! durable. Such a frame must be found, without reading everything to the end of the file.
//!
//! Invariants
//!   E1  What is found is evidence. A block that is not examined never makes a sound log damaged, nor
//!       a torn one.
//!   E2  The look goes on while it finds something of this log, or a block that cannot be read. It
//!       ends after a *gap* without either, if no sample behind it has anything. The gap is
//!       [`GAP_BLOCKS`], or [`FAR_GAP_BLOCKS`] for a log whose writer need not sync: rot of a few
//!       tracks that read as zeros is then passed too.
//!   E3  While a writer has at most [`RUN_AHEAD_BLOCKS`] written without a sync, the look finds what an
//!       examination of all blocks would find, unless damage is longer than that. Proof: let S be the
//!       end of what the last sync covered. No frame records a length above S. If P is not below S,
//!       nothing anywhere records that P was durable. If P is below S, the frames between P and S are
//!       durable, so the look reaches the last one, or P is that one. It begins less than the longest
//!       frame before S, and all that was written after S begins less than the run-ahead behind S. So
//!       no two of these beginnings are a gap apart, and the look reaches them all.
//!   E4  Otherwise the look misses damage only if three things coincide: P rotted, a power cut lost
//!       everything behind S or behind a later frame for the gap less the longest frame, and it kept only
//!       frames between two samples. A kept stretch of 16 MiB has a sample in it. If the power cut had lost those frames
//!       too, nothing would show the damage to any reader.
//!
//! Cost: the frames behind P, the gap, and 128 KiB for every 16 MiB of the file.
//!
//! Not here: the conclusion from what is found (`decoder`).

use crate::format::{BLOCK_LEN_BYTES, FRAME_LEN_BYTES_DEFAULT, FRAME_LEN_BYTES_MAX};

/// How much a writer may write without a sync if a reader is to miss no damage (E3).
pub const RUN_AHEAD_BLOCKS: u64 = GAP_BLOCKS - READ_AHEAD_BLOCKS;

/// The look ends after this many blocks without a frame.
pub(crate) const GAP_BLOCKS: u64 = (2 << 20) / BLOCK_LEN_BYTES as u64;

/// The same, where the writer need not sync. A track of a large drive has about 2 MB.
pub(crate) const FAR_GAP_BLOCKS: u64 = (6 << 20) / BLOCK_LEN_BYTES as u64;

/// Behind the gap there is one sample in this many blocks.
const SAMPLE_PERIOD_BLOCKS: u64 = (16 << 20) / BLOCK_LEN_BYTES as u64;

/// Any two frames of the default length have a beginning in a sample.
const SAMPLE_BLOCKS: u64 = (2 * FRAME_LEN_BYTES_DEFAULT / BLOCK_LEN_BYTES) as u64;

/// How much one read takes: the longest frame.
pub(crate) const READ_AHEAD_BLOCKS: u64 = (FRAME_LEN_BYTES_MAX / BLOCK_LEN_BYTES) as u64;

/// The state of a look.
#[derive(Debug)]
pub(crate) struct Look {
    next_blocks: u64,
    /// The first block that is examined only as part of a sample.
    gap_end_blocks: u64,
    len_blocks: u64,
    gap_blocks: u64,
    is_last_a_sample: bool,
}

impl Look {
    /// A look behind the bad position `at_blocks`, in a file of `len_blocks`.
    pub(crate) fn from(at_blocks: u64, len_blocks: u64, gap_blocks: u64) -> Look {
        let next_blocks = at_blocks.saturating_add(1);
        let gap_end_blocks = next_blocks.saturating_add(gap_blocks);
        Look { next_blocks, gap_end_blocks, len_blocks, gap_blocks, is_last_a_sample: false }
    }

    /// The next block to examine, if nothing was found in the last one.
    pub(crate) fn next(&mut self) -> Option<u64> {
        self.is_last_a_sample = self.next_blocks >= self.gap_end_blocks;
        if self.is_last_a_sample && self.next_blocks % SAMPLE_PERIOD_BLOCKS >= SAMPLE_BLOCKS {
            self.next_blocks = self.next_blocks.next_multiple_of(SAMPLE_PERIOD_BLOCKS);
        }
        let at_blocks = self.next_blocks;
        self.next_blocks += 1;
        (at_blocks < self.len_blocks).then_some(at_blocks)
    }

    /// The last block had something of the log. If it is part of a sample, everything from the gap on
    /// is examined.
    pub(crate) fn found(&mut self) {
        if self.is_last_a_sample {
            self.next_blocks = self.gap_end_blocks;
            self.gap_end_blocks = self.len_blocks;
        } else {
            self.gap_end_blocks = self.gap_end_blocks.max(self.next_blocks + self.gap_blocks);
        }
    }

    /// How much to read at the last block.
    pub(crate) fn read_ahead_blocks(&self) -> u64 {
        if self.is_last_a_sample { SAMPLE_BLOCKS } else { READ_AHEAD_BLOCKS }
    }
}
