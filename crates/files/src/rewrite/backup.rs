//! The backup region: what was moved away from top tracks, and where it belongs.
//!
//! ```text
//!   | header: entries, checksums | data of entry 1 | data of entry 2 | ...      in top tracks of its own
//! ```
//!
//! It holds twice the length of a table, but at least two top tracks, so that every bottom track can be
//! written. Source: KVIMR, section 3.3.2.

use super::format::{self, Header};
use crate::api::FilesError;
use crate::catalog::Region;
use crate::space::CLASS_LEN;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Lba, Persist};

/// How much is copied at a time.
const PIECE_LEN_BYTES: u64 = 2 << 20;

/// One run of blocks in the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Where it belongs.
    pub(crate) home: BlockRange,
    /// Where it is, from the start of the region.
    pub(crate) offset: Blocks,
}

/// The region, and what it may hold.
#[derive(Debug)]
pub(super) struct Backup {
    region: Region,
    header_len: Blocks,
    format_id: u64,
    number: u64,
}

/// How long a region for tables of `unit_len` is, and how much of it is its header.
fn lengths(geometry: &Geometry, unit_len: Blocks) -> Option<(Blocks, Blocks)> {
    let tracks = geometry.interlaced()?;
    let unit_len = if unit_len.is_zero() { CLASS_LEN } else { unit_len };
    let top_len = tracks.top_track_len.get();
    let data_len = unit_len.get().checked_mul(2)?.max(top_len.checked_mul(2)?);
    // Of two tracks every other block may live; of a table's tracks few do not live wholly.
    let entry_count = top_len.checked_add(4)?.max(data_len.div_ceil(top_len).checked_mul(4)?);
    let header_len = Blocks::holding(format::header_len_bytes(entry_count)?);
    Some((Blocks::new(data_len.checked_add(header_len.get())?), header_len))
}

fn region(
    geometry: &Geometry,
    regions: &[Region; 2],
    unit_len: Blocks,
) -> Result<(Region, Blocks), String> {
    let start = regions.iter().map(Region::reserved_end).max().unwrap_or_default();
    lengths(geometry, unit_len)
        .and_then(|(len, header_len)| {
            Some((Region::of_top_tracks(geometry, start, len)?, header_len))
        })
        .ok_or_else(|| {
            format!(
                "the drive has {}, too few for a catalog and a backup region of two tables",
                geometry.len()
            )
        })
}

/// The first block that files may use on a disk of `geometry`.
///
/// # Errors
/// Why there is none.
pub(crate) fn files_start(
    geometry: &Geometry,
    regions: &[Region; 2],
    unit_len: Blocks,
) -> Result<Lba, String> {
    if geometry.interlaced().is_none() {
        return Ok(regions.iter().map(Region::reserved_end).max().unwrap_or_default());
    }
    region(geometry, regions, unit_len).map(|(region, _)| region.reserved_end())
}

impl Backup {
    pub(super) fn new(
        geometry: &Geometry,
        regions: &[Region; 2],
        unit_len: Blocks,
        format_id: u64,
    ) -> Result<Backup, String> {
        let (region, header_len) = region(geometry, regions, unit_len)?;
        Ok(Backup { region, header_len, format_id, number: 0 })
    }

    pub(super) fn region(&self) -> &Region {
        &self.region
    }

    /// Whether all of `ranges` fit.
    pub(super) fn holds(&self, ranges: &[BlockRange]) -> bool {
        let len: Blocks = ranges.iter().map(|range| range.len).sum();
        let header_len_bytes = format::header_len_bytes(ranges.len() as u64);
        self.header_len + len <= self.region.len()
            && header_len_bytes.is_some_and(|len| len <= self.header_len.bytes())
    }

    /// Copies `ranges` into the region; they count after the next flush.
    pub(super) fn save(
        &mut self,
        disk: &dyn Disk,
        ranges: &[BlockRange],
    ) -> Result<Vec<Saved>, DiskError> {
        assert!(self.holds(ranges), "a batch is cut to what the backup region holds");
        let mut offset = self.header_len;
        let mut saved = Vec::with_capacity(ranges.len());
        let mut data_crc32c = 0;
        for &home in ranges {
            for_each_piece(home, |piece| {
                let mut data = vec![0; piece.len.bytes() as usize];
                disk.read(piece.start, &mut data)?;
                data_crc32c = crc32c::crc32c_append(data_crc32c, &data);
                self.region.write(disk, offset + (piece.start - home.start), &data, Persist::Cached)
            })?;
            saved.push(Saved { home, offset });
            offset += home.len;
        }
        self.number += 1;
        let header = Header {
            format_id: self.format_id,
            number: self.number,
            data_crc32c,
            homes: ranges.to_vec(),
        };
        self.region.write(disk, Blocks::ZERO, &header.encode(), Persist::Cached)?;
        Ok(saved)
    }

    /// Copies what was saved to where it belongs.
    pub(super) fn put_back(&self, disk: &dyn Disk, saved: &[Saved]) -> Result<(), DiskError> {
        saved.iter().try_for_each(|saved| {
            for_each_piece(saved.home, |piece| {
                let mut data = vec![0; piece.len.bytes() as usize];
                let offset = saved.offset + (piece.start - saved.home.start);
                self.region.read(disk, offset, &mut data)?;
                disk.write(piece.start, &data, Persist::Cached)
            })
        })
    }

    /// What was saved is where it belongs, durably: the backup does not count any more.
    pub(super) fn retire(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        self.region.write(disk, Blocks::ZERO, &[0; BLOCK_LEN_BYTES], Persist::Cached)
    }

    /// Moves back what a power cut left in the region.
    pub(super) fn recover(&mut self, disk: &dyn Disk, files_start: Lba) -> Result<(), FilesError> {
        let failed = |what: &str| {
            let what = format!("{what} the backup of rewritten tracks");
            move |source| FilesError::Disk { what, source }
        };
        let mut block = vec![0; self.header_len.bytes() as usize];
        self.region.read(disk, Blocks::ZERO, &mut block).map_err(failed("reading"))?;
        // A header that is torn, or of another format of this drive, was never synced as ours.
        let Some(header) = Header::decode(&block).filter(|h| h.format_id == self.format_id) else {
            return Ok(());
        };
        self.number = header.number;
        if !self.holds(&header.homes) {
            return Err(corrupt("it names more than the region holds".to_owned()));
        }
        let mut offset = self.header_len;
        let mut crc = 0;
        let mut saved = Vec::with_capacity(header.homes.len());
        for &home in &header.homes {
            let geometry = disk.geometry();
            let track = geometry.track_of(home.start).filter(|track| track.is_top());
            let is_in_one = track
                .and_then(|track| geometry.track_range(track))
                .is_some_and(|track| files_start <= home.start && home.end() <= track.end());
            if !is_in_one {
                return Err(corrupt(format!("blocks {home} are no part of a top track of files")));
            }
            for_each_piece(home, |piece| {
                let mut data = vec![0; piece.len.bytes() as usize];
                self.region.read(disk, offset + (piece.start - home.start), &mut data)?;
                crc = crc32c::crc32c_append(crc, &data);
                Ok(())
            })
            .map_err(failed("reading"))?;
            saved.push(Saved { home, offset });
            offset += home.len;
        }
        if crc != header.data_crc32c {
            // Cut before the first sync: nothing was destroyed yet.
            return Ok(());
        }
        self.put_back(disk, &saved)
            .and_then(|()| disk.flush())
            .and_then(|()| self.retire(disk))
            .and_then(|()| disk.flush())
            .map_err(failed("moving back"))
    }
}

fn corrupt(reason: String) -> FilesError {
    FilesError::Corrupt { structure: "backup header", place: "the backup region".into(), reason }
}

fn for_each_piece(
    range: BlockRange,
    mut each: impl FnMut(BlockRange) -> Result<(), DiskError>,
) -> Result<(), DiskError> {
    let mut at = range.start;
    while at < range.end() {
        let len = (range.end() - at).min(Blocks::holding(PIECE_LEN_BYTES));
        each(BlockRange::new(at, len))?;
        at += len;
    }
    Ok(())
}
