//! A disk without its catalog: its blocks, and files put together from blocks.
//!
//! ```text
//!   RawDrive   written()   the runs that may hold data: below write pointers, not known as unwritten
//!              borders()   where tracks and zones begin and end: most extents do so there
//!   RawFile    [ drive 0, block 700, 16 blocks ][ nothing known, 4 blocks ][ drive 0, block 960 ... ]
//! ```
//!
//! A reader of a [`RawFile`] finds its known blocks. A read of the others is an error that counts as
//! damage, so what is stored there is skipped like a damaged block.
//!
//! Invariants
//!   R1  Nothing is written, and no recovery is run.
//!
//! Not here: which blocks belong together. Only the user of the files can tell, by checksums.

use crate::api::{FileReader, check_range};
use crate::error::FilesError;
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, Known, Lba, TrackId, ZoneId, ZoneState,
};
use std::ops::Range;
use std::sync::Arc;

/// How many tracks before and after a block are of interest.
const NEAR_TRACK_COUNT: u64 = 512;

/// A disk, block by block.
#[derive(Clone, Debug)]
pub struct RawDrive {
    disk: Arc<dyn Disk>,
}

impl RawDrive {
    /// The blocks of `disk`.
    pub fn new(disk: Arc<dyn Disk>) -> RawDrive {
        RawDrive { disk }
    }

    /// Its length.
    pub fn len_blocks(&self) -> u64 {
        self.disk.geometry().len().get()
    }

    /// The runs of blocks that may have been written, in order.
    pub fn written(&self) -> Vec<Range<u64>> {
        let zones = self.disk.report_zones();
        let mut candidates = Vec::new();
        for zone in &zones {
            let end = match zone.state {
                ZoneState::Empty | ZoneState::Offline => zone.start,
                ZoneState::Open { write_pointer, .. } | ZoneState::Closed { write_pointer } => {
                    write_pointer
                }
                ZoneState::NoPointer | ZoneState::Full | ZoneState::ReadOnly => {
                    zone.start + zone.capacity
                }
            };
            candidates.push(zone.start.get()..end.get());
        }
        if zones.is_empty() {
            candidates.push(0..self.len_blocks());
        }
        let mut runs: Vec<Range<u64>> = Vec::new();
        for mut left in candidates {
            while left.start < left.end {
                let range =
                    BlockRange::new(Lba::new(left.start), Blocks::new(left.end - left.start));
                let (known, len) = self.disk.known(range);
                let end = (left.start + len.get().max(1)).min(left.end);
                match runs.last_mut() {
                    _ if known != Known::Nothing => {}
                    Some(last) if last.end == left.start => last.end = end,
                    _ => runs.push(left.start..end),
                }
                left.start = end;
            }
        }
        runs
    }

    /// The blocks near `at` where a zone or a track begins, or where the writable part of a zone
    /// ends, the nearest first.
    pub fn borders(&self, at: u64) -> Vec<u64> {
        let geometry = self.disk.geometry();
        let mut borders = Vec::new();
        for zone in (0..geometry.zone_count()).map(ZoneId) {
            let (Some(range), Some(capacity)) =
                (geometry.zone_range(zone), geometry.zone_capacity(zone))
            else {
                continue;
            };
            borders.push(range.start.get());
            borders.push((range.start + capacity).get());
        }
        if let Some(TrackId(near)) = geometry.track_of(Lba::new(at.min(self.len_blocks() - 1))) {
            let from = near.saturating_sub(NEAR_TRACK_COUNT);
            let tracks = (from..near.saturating_add(NEAR_TRACK_COUNT)).map(TrackId);
            for range in tracks.map_while(|track| geometry.track_range(track)) {
                borders.push(range.start.get());
                borders.push(range.end().get());
            }
        }
        borders.sort_unstable_by_key(|border| (border.abs_diff(at), *border));
        borders.dedup();
        borders
    }

    /// Reads `buf.len()` bytes, a multiple of a block, from block `at`.
    ///
    /// # Errors
    /// [`FilesError::Disk`].
    pub fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), FilesError> {
        let range = BlockRange::new(Lba::new(at), Blocks::holding(buf.len() as u64));
        let mut rest = buf;
        for part in self.disk.geometry().read_parts(range) {
            let (now, later) = rest.split_at_mut(part.len.bytes() as usize);
            let what = || format!("reading block {}", part.start.get());
            self.disk
                .read(part.start, now)
                .map_err(|source| FilesError::Disk { what: what(), source })?;
            rest = later;
        }
        Ok(())
    }
}

/// A part of a [`RawFile`].
#[derive(Clone, Debug)]
pub struct RawPiece {
    /// The drive and the first block on it; `None` if they are unknown.
    pub place: Option<(RawDrive, u64)>,
    /// Its length.
    pub len_blocks: u64,
}

/// A file whose blocks were found one by one.
#[derive(Debug)]
pub struct RawFile {
    name: String,
    pieces: Vec<RawPiece>,
    len_bytes: u64,
}

impl RawFile {
    /// The file `name`, whose first `len_bytes` are in `pieces`, in order.
    pub fn open(name: String, pieces: Vec<RawPiece>, len_bytes: u64) -> Arc<dyn FileReader> {
        Arc::new(RawFile { name, pieces, len_bytes })
    }

    fn read_blocks(&self, first: u64, buf: &mut [u8]) -> Result<(), FilesError> {
        let (mut at, mut rest) = (first, buf);
        let mut start = 0;
        for piece in &self.pieces {
            let end = start + piece.len_blocks;
            let left = (rest.len() / BLOCK_LEN_BYTES) as u64;
            if left == 0 {
                break;
            }
            if at < end {
                let now = left.min(end - at);
                let (buf, later) = rest.split_at_mut(now as usize * BLOCK_LEN_BYTES);
                let Some((drive, block)) = &piece.place else { return Err(self.unknown(at)) };
                drive.read(block + (at - start), buf)?;
                (at, rest) = (at + now, later);
            }
            start = end;
        }
        if rest.is_empty() { Ok(()) } else { Err(self.unknown(at)) }
    }

    fn unknown(&self, at: u64) -> FilesError {
        FilesError::Corrupt {
            structure: "file",
            place: format!("block {at} of {}", self.name),
            reason: "it was not found on the drive".to_owned(),
        }
    }
}

impl FileReader for RawFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        check_range(self, offset, len_bytes)?;
        if len_bytes == 0 {
            return Ok(&[]);
        }
        let block = BLOCK_LEN_BYTES as u64;
        let (first, end) = (offset / block, offset + len_bytes as u64);
        let blocks_len = ((end.div_ceil(block) - first) * block) as usize;
        if scratch.len() < blocks_len {
            scratch.resize(blocks_len, 0);
        }
        self.read_blocks(first, &mut scratch[..blocks_len])?;
        let skip = (offset % block) as usize;
        Ok(&scratch[skip..skip + len_bytes])
    }

    fn extents(&self) -> Vec<BlockRange> {
        let known = self.pieces.iter().filter_map(|piece| {
            let (_, block) = piece.place.as_ref()?;
            Some(BlockRange::new(Lba::new(*block), Blocks::new(piece.len_blocks)))
        });
        known.collect()
    }
}
