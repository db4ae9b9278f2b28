//! Where the regions are on the drive below, and where a block of the host is.
//!
//! ```text
//!   | super 0 |g| super 1 |g| log 0 |g| log 1 |g| slot 0 |g| slot 1 |g| band 0 |g| band 1 |g| ...
//!                                                                                 g = guard
//! ```
//!
//! Invariants
//!   B1  Every region begins with a track and ends with a guard of `overlap_tracks` tracks: a write
//!       in one region reaches no other.

use super::error::BandsError;
use super::format::{Record, Superblock};
use super::options::{BandOptions, MIB};
use crate::error::FormatFault;
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, Geometry, GeometrySpec, Lba, Pba, Rule,
    ShingleSpec,
};

/// Log blocks beyond those of a checkpoint: a thousandth of the drive, within these bounds.
const LOG_ROOM_BLOCKS_MIN: u64 = 32;
const LOG_ROOM_BLOCKS_MAX: u64 = 4096;

/// The bound on runs: one for this many blocks, within these bounds.
const BLOCKS_PER_RUN: u64 = 32;
const RUN_COUNT_MIN: u64 = 64;
const RUN_COUNT_MAX: u64 = 1 << 18;

/// The length of the log's frames: short, because a flush closes one.
pub(crate) const FRAME_LEN_BYTES: usize = 4 * BLOCK_LEN_BYTES;
const FRAME_LEN_BLOCKS: u64 = (FRAME_LEN_BYTES / BLOCK_LEN_BYTES) as u64;

/// The least payload of a frame, without its header.
const FRAME_PAYLOAD_BYTES: u64 = FRAME_LEN_BYTES as u64 - 64;

/// The overhead of a record: its length, and its share of frame headers.
const RECORD_OVERHEAD_BYTES: u64 = 16;

/// Runs in one record of a checkpoint.
pub(crate) const RUNS_PER_RECORD: usize = 512;

/// A run of blocks on the drive below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: Pba,
    pub(crate) len: Blocks,
}

/// The drive below, divided into regions.
#[derive(Clone, Debug)]
pub(crate) struct BandLayout {
    pub(crate) superblock: Superblock,
    pub(crate) superblocks: [Pba; 2],
    pub(crate) logs: [Region; 2],
    pub(crate) slots: [Region; 2],
    /// The geometry that the host sees.
    pub(crate) geometry: Geometry,
    inner: Geometry,
    first_band: Pba,
    stride: Blocks,
}

impl BandLayout {
    /// Divides `inner` according to `options`.
    pub(crate) fn plan(inner: &Geometry, options: &BandOptions) -> Result<BandLayout, BandsError> {
        let shingle = shingle_of(inner)?;
        let len = inner.len().get();
        let band_len = options.band_len.get();
        let longest = (80 * MIB) / BLOCK_LEN_BYTES as u64;
        let check = |what, got, min, max| match min <= got && got <= max {
            true => Ok(()),
            false => Err(BandsError::Option { what, got, min, max }),
        };
        check("the length of a band in blocks", band_len, 1, longest)?;
        let run_count_max = match options.run_count_max {
            0 => (len / BLOCKS_PER_RUN).clamp(RUN_COUNT_MIN, RUN_COUNT_MAX),
            count => count,
        };
        check("run_count_max", run_count_max, 2, 1 << 32)?;
        let room = (len / 1000).clamp(LOG_ROOM_BLOCKS_MIN, LOG_ROOM_BLOCKS_MAX);
        // Every band may have one run more; this counts more bands than fit the drive.
        let stride = band_len.div_ceil(shingle.track_len.get()) + u64::from(shingle.overlap_tracks);
        let checkpoint = checkpoint_blocks(run_count_max + len / shingle.track_len.get() / stride);
        let superblock = Superblock {
            id: options.id,
            inner_len: inner.len(),
            track_len: shingle.track_len,
            overlap_tracks: shingle.overlap_tracks,
            band_len: options.band_len,
            band_count: 0,
            log_len: Blocks::new(1 + checkpoint + rewrite_blocks(band_len, run_count_max) + room),
            run_count_max,
            gather_len: options.gather_len,
            read_back: options.read_back,
            staging: options.staging,
        };
        let needed = Cursor::new(&superblock).bands(1).0;
        let got = len / shingle.track_len.get();
        if got < needed {
            return Err(BandsError::TooSmall { got, needed });
        }
        let band_count = 1 + (got - needed) / stride;
        BandLayout::of(inner, Superblock { band_count, ..superblock })
    }

    /// The layout that a superblock describes, on the drive that it names.
    pub(crate) fn of(inner: &Geometry, superblock: Superblock) -> Result<BandLayout, BandsError> {
        let shingle = shingle_of(inner)?;
        let described = GeometrySpec {
            len: superblock.inner_len,
            rule: Rule::IsolationDistance(ShingleSpec {
                track_len: superblock.track_len,
                overlap_tracks: superblock.overlap_tracks,
            }),
        };
        if Geometry::new(described).ok() != Some(*inner) {
            let tracks = |len: Blocks, track_len: Blocks, overlap: u32| {
                format!("{len} in tracks of {track_len}, {overlap} overlapping")
            };
            let Superblock { inner_len, track_len, overlap_tracks, .. } = superblock;
            return Err(FormatFault::Geometry {
                expected: tracks(inner_len, track_len, overlap_tracks),
                got: tracks(inner.len(), shingle.track_len, shingle.overlap_tracks),
            }
            .into());
        }
        let damaged = |field: &str| -> BandsError {
            FormatFault::damaged("superblock", format!("field {field} is out of range")).into()
        };
        let longest = (80 * MIB) / BLOCK_LEN_BYTES as u64;
        let Superblock { band_len, band_count, log_len, run_count_max, .. } = superblock;
        if band_len.is_zero() || band_len.get() > longest {
            return Err(damaged("band_len_blocks"));
        }
        if band_count == 0 || band_count > inner.len().get() {
            return Err(damaged("band_count"));
        }
        // The extra run for each band came in a later version. It is not required here, so that
        // older logs stay sound.
        let run_count = run_count_max.min(1 << 32);
        let log_min = 1 + checkpoint_blocks(run_count) + rewrite_blocks(band_len.get(), run_count);
        if run_count_max > 1 << 32 || log_len.get() < log_min || log_len > inner.len() {
            return Err(damaged("log_len_blocks"));
        }
        let mut cursor = Cursor::new(&superblock);
        let (tracks, first_band) = cursor.bands(band_count);
        if tracks > inner.len().get() / shingle.track_len.get() {
            return Err(damaged("band_count"));
        }
        let len = Blocks::new(band_count * band_len.get());
        let geometry = Geometry::new(GeometrySpec { len, rule: Rule::Anywhere })
            .map_err(|_| damaged("band_count"))?;
        let stride = Cursor::tracks_of(&superblock, band_len) * shingle.track_len.get();
        let region = |start, len| Region { start, len };
        Ok(BandLayout {
            superblocks: [cursor.starts[0], cursor.starts[1]],
            logs: [region(cursor.starts[2], log_len), region(cursor.starts[3], log_len)],
            slots: [region(cursor.starts[4], band_len), region(cursor.starts[5], band_len)],
            geometry,
            inner: *inner,
            first_band,
            stride: Blocks::new(stride),
            superblock,
        })
    }

    /// The blocks of the drive from the end of a band to the next one.
    pub(crate) fn guard_len(&self) -> Blocks {
        self.stride - self.superblock.band_len
    }

    /// Where the host's block `at` is.
    pub(crate) fn locate(&self, at: Lba) -> Pba {
        let band_len = self.superblock.band_len.get();
        let (band, offset) = (at.get() / band_len, at.get() % band_len);
        self.first_band + Blocks::new(band * self.stride.get() + offset)
    }

    /// The host's block at `at`; `None` for guards and everything before the bands.
    pub(crate) fn host_block(&self, at: Pba) -> Option<Lba> {
        let from_first = at.get().checked_sub(self.first_band.get())?;
        let (band, offset) = (from_first / self.stride.get(), from_first % self.stride.get());
        let Superblock { band_len, band_count, .. } = self.superblock;
        let is_held = band < band_count && offset < band_len.get();
        is_held.then(|| Lba::new(band * band_len.get() + offset))
    }

    /// An error of the drive below, with the host's addresses.
    pub(crate) fn error_for_host(&self, error: DiskError) -> DiskError {
        let host_run = |range: BlockRange| {
            let start = self.host_block(Pba::new(range.start.get()))?;
            Some(BlockRange::new(start, range.len.min(self.band_of(start).end() - start)))
        };
        match error {
            DiskError::Medium { at } => {
                DiskError::Medium { at: self.host_block(Pba::new(at.get())).unwrap_or(at) }
            }
            DiskError::Destroyed { range, by } => DiskError::Destroyed {
                range: host_run(range).unwrap_or(range),
                by: by.and_then(host_run),
            },
            other => other,
        }
    }

    /// The band that holds `at`.
    pub(crate) fn band_of(&self, at: Lba) -> BlockRange {
        let band_len = self.superblock.band_len;
        BlockRange::new(Lba::new(at.get() - at.get() % band_len.get()), band_len)
    }

    /// `range`, split at the ends of bands.
    pub(crate) fn by_band(&self, range: BlockRange) -> impl Iterator<Item = BlockRange> + '_ {
        let (mut at, end) = (range.start, range.end());
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let part_end = self.band_of(at).end().min(end);
                let part = BlockRange::new(at, part_end - at);
                at = part_end;
                part
            })
        })
    }

    /// The host's blocks of the same band that a write of `write` destroys, without `write` itself.
    pub(crate) fn reach(&self, write: BlockRange) -> BlockRange {
        let at = Lba::new(self.locate(write.start).get());
        let reach = self.inner.reach(BlockRange::new(at, write.len));
        let start = write.start + (reach.start - at);
        let end = (start + reach.len).min(self.band_of(write.start).end());
        BlockRange::new(start.min(end), end - start.min(end))
    }

    /// The part of `write` that its own tracks destroy before it is written: everything after its
    /// first track.
    pub(crate) fn own_reach(&self, write: BlockRange) -> BlockRange {
        let first = self.reach(BlockRange::new(write.start, Blocks::new(1)));
        let start = if first.len.is_zero() { write.end() } else { first.start.min(write.end()) };
        BlockRange::new(start, write.end() - start)
    }

    /// How many runs fit into a checkpoint: `run_count_max` and one a band. A log made by an
    /// earlier version may hold fewer, but never fewer than `run_count_max`.
    pub(crate) fn run_count_limit(&self) -> u64 {
        let Superblock { log_len, run_count_max, .. } = self.superblock;
        let others = 1 + self.log_reserve().get() + LOG_ROOM_BLOCKS_MIN;
        let frames = log_len.get().saturating_sub(others) / FRAME_LEN_BLOCKS;
        // Of 512 runs: a record of 16 bytes each and 16 more, 513 parts of 16 bytes.
        let parts = (frames * FRAME_PAYLOAD_BYTES).saturating_sub(64) / RECORD_OVERHEAD_BYTES;
        let runs = RUNS_PER_RECORD as u64;
        (parts * runs / (runs + 1)).max(run_count_max)
    }

    /// The most pieces of a rewrite: the record of more pieces would not fit into the log.
    pub(crate) fn piece_count_max(&self) -> u64 {
        let Superblock { band_len, run_count_max, .. } = self.superblock;
        piece_count_max(band_len.get(), run_count_max)
    }

    /// How many blocks of the log the record of a rewrite takes, with the small records around it.
    pub(crate) fn log_reserve(&self) -> Blocks {
        let Superblock { band_len, run_count_max, .. } = self.superblock;
        Blocks::new(rewrite_blocks(band_len.get(), run_count_max))
    }
}

/// Lays regions one after another, each on whole tracks and with its guard.
struct Cursor<'a> {
    superblock: &'a Superblock,
    track: u64,
    starts: Vec<Pba>,
}

impl Cursor<'_> {
    fn new(superblock: &Superblock) -> Cursor<'_> {
        let mut cursor = Cursor { superblock, track: 0, starts: Vec::new() };
        let Superblock { band_len, log_len, .. } = *superblock;
        for len in [Blocks::new(1), Blocks::new(1), log_len, log_len, band_len, band_len] {
            cursor.starts.push(cursor.here());
            cursor.track += Cursor::tracks_of(superblock, len);
        }
        cursor
    }

    fn here(&self) -> Pba {
        Pba::new(self.track * self.superblock.track_len.get())
    }

    fn tracks_of(superblock: &Superblock, len: Blocks) -> u64 {
        len.get().div_ceil(superblock.track_len.get()) + u64::from(superblock.overlap_tracks)
    }

    /// How many tracks the layout takes with `band_count` bands, and where the bands begin.
    fn bands(&mut self, band_count: u64) -> (u64, Pba) {
        let stride = Cursor::tracks_of(self.superblock, self.superblock.band_len);
        (self.track.saturating_add(band_count.saturating_mul(stride)), self.here())
    }
}

fn shingle_of(inner: &Geometry) -> Result<ShingleSpec, BandsError> {
    match inner.rule() {
        Rule::IsolationDistance(shingle) => Ok(*shingle),
        other => Err(BandsError::WrongRule { got: other.name() }),
    }
}

fn piece_count_max(band_len: u64, run_count_max: u64) -> u64 {
    (band_len / 2 + 1).min(run_count_max + 1)
}

/// How many blocks the record of a rewrite takes, with the small records around it and the open
/// frame.
fn rewrite_blocks(band_len: u64, run_count_max: u64) -> u64 {
    let piece_count = piece_count_max(band_len, run_count_max);
    framed_blocks(Record::len_bytes_max(piece_count) + 8 * RECORD_OVERHEAD_BYTES) + 8
}

/// How many blocks a checkpoint of `run_count` runs takes.
fn checkpoint_blocks(run_count: u64) -> u64 {
    let records = (run_count / RUNS_PER_RECORD as u64 + 2) * RECORD_OVERHEAD_BYTES;
    framed_blocks(Record::len_bytes_max(run_count) + records)
}

/// Blocks of frames that hold `len_bytes` of records.
fn framed_blocks(len_bytes: u64) -> u64 {
    len_bytes.div_ceil(FRAME_PAYLOAD_BYTES) * FRAME_LEN_BLOCKS
}
