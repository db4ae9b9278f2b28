//! How bands are made.

use imbrex_disk::Blocks;

pub(crate) const MIB: u64 = 1 << 20;

/// How much of a band a rewrite reads back. Only valid blocks are ever read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBack {
    /// From the write to the end of the band's valid data.
    ToEndOfValid = 1,
    /// All of the band, which is then written from its start.
    WholeBand = 2,
}

/// Whether a rewrite can be finished after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staging {
    /// Yes: the new content is in a staging slot first.
    Journaled = 1,
    /// **Unsafe**: a power cut during a rewrite destroys the valid blocks after it. The published
    /// emulations had no journal; this option reproduces their figures next to honest ones.
    None = 2,
}

/// How bands are made. The superblock records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BandOptions {
    /// How much of the host's data a band holds, without its guard: up to 80 MiB.
    pub band_len: Blocks,
    /// How much a rewrite reads back.
    pub read_back: ReadBack,
    /// Whether a rewrite is staged first.
    pub staging: Staging,
    /// Consecutive cached writes that need a rewrite wait in memory, up to this many blocks of one
    /// band, until a flush or another rewrite. A host that writes a file in pieces then pays for
    /// one rewrite. At most one band waits. 0 rewrites at once.
    pub gather_len: Blocks,
    /// Identifies the bands on this drive in their journal. Any number.
    pub id: u64,
    /// How many runs of valid blocks are remembered at most, besides one a band. Where there would
    /// be more, the blocks between two runs count as valid: this costs rewrites and loses nothing.
    /// 0 chooses by the drive's length.
    pub run_count_max: u64,
}

impl Default for BandOptions {
    /// Bands of 40 MB, SEALDB's default; writes are gathered up to a band.
    fn default() -> BandOptions {
        BandOptions {
            band_len: Blocks::holding(40 * MIB),
            read_back: ReadBack::ToEndOfValid,
            staging: Staging::Journaled,
            gather_len: Blocks::holding(40 * MIB),
            id: 0,
            run_count_max: 0,
        }
    }
}
