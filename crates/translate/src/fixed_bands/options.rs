//! How bands are made.

use imbrex_disk::Blocks;

pub(crate) const MIB: u64 = 1 << 20;

/// How much of a band a rewrite reads back; only what is valid is ever read.
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
    /// Yes: what is rewritten lies in a staging slot first.
    Journaled = 1,
    /// **Unsafe**: a power cut during a rewrite destroys what was valid behind it. The published
    /// emulations had no journal; this is for reproducing their figures beside honest ones.
    None = 2,
}

/// How bands are made. The drive remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BandOptions {
    /// How much of the host's data a band holds, its guard not included: up to 80 MiB.
    pub band_len: Blocks,
    /// How much a rewrite reads back.
    pub read_back: ReadBack,
    /// Whether a rewrite is staged first.
    pub staging: Staging,
    /// Cached writes that follow one another and need a rewrite wait for each other in memory, up to
    /// so many blocks of one band, until a flush or another rewrite: a host that writes a file in
    /// pieces pays for one rewrite. At most one band waits. 0 rewrites at once.
    pub gather_len: Blocks,
    /// Names the bands on this drive, for their journal. Any number.
    pub id: u64,
    /// Runs of valid blocks remembered at most, besides one a band: where there would be more, blocks
    /// between two runs count as valid, which costs rewrites and loses nothing. 0 chooses
    /// by the drive's length.
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
