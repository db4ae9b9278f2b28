//! The two regions of the catalog: their blocks on the disk, addressed by offset.
//!
//! ```text
//!   conventional      | A | B | files ...
//!   zones, some       | A | B | rest of the conventional zones | sequential zones ...
//!   conventional
//!   all sequential    | A: whole zones | B: whole zones | files ...
//!   shingled          | A: header | guard | body, log | guard | B: header | guard | ... | files ...
//!   interlaced, top      | A | A |...| B | B |...| backup |...| files ...
//!            bottom     |   |   |   |   |   |   |        |   | unused: a write would destroy them
//! ```
//!
//! Where tracks overlap, a region is two bands: the track of the header, which is rewritten in
//! place, and the rest, which is discarded and rewritten from its start. A guard follows each.
//! Where tracks are interlaced, a region is a row of top tracks, which can be written freely; the
//! bottom tracks between them, and the one after the last, stay unused. The backup region
//! (`rewrite`) follows in the same way.

use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Lba, Persist, Rule,
    ShingleSpec, TrackId, ZoneAction, ZoneId, ZoneState, readable_len,
};

/// A region takes one part in this many of the disk.
const DISK_PER_REGION: u64 = 1024;
/// On a small disk a region takes more, up to 1 MiB, so that not every few commits need a
/// checkpoint.
const DISK_PER_REGION_SMALL: u64 = 64;
const REGION_BLOCKS_SMALL: u64 = 256;
/// 128 KiB: a header, a body of a few hundred files, and room for a few records.
const REGION_BLOCKS_MIN: u64 = 32;
/// 256 MiB: a checkpoint of three million tables of one extent each.
const REGION_BLOCKS_MAX: u64 = 65_536;
/// Longer writes are cut, so that a read never waits for a whole checkpoint.
const PIECE_LEN_BYTES: usize = 1 << 20;

/// One copy of the catalog: several runs of blocks, used as one.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pieces: Vec<BlockRange>,
    /// The zones that hold the pieces, if they are sequential.
    zones: Vec<ZoneId>,
    /// The blocks after the last piece, which must stay blank.
    guard_len: Blocks,
    /// The blocks that a rewrite would destroy, and that are discarded first.
    discards: Vec<BlockRange>,
}

/// The two regions of a disk of this geometry, or the reason why there is no room for them.
pub(crate) fn regions(geometry: &Geometry) -> Result<[Region; 2], String> {
    let disk_len = geometry.len().get();
    let least = (disk_len / DISK_PER_REGION).clamp(REGION_BLOCKS_MIN, REGION_BLOCKS_MAX);
    let len = least.max((disk_len / DISK_PER_REGION_SMALL).min(REGION_BLOCKS_SMALL));
    let side_by_side = |len: u64| {
        [0, len].map(|start| Region {
            pieces: vec![BlockRange::new(Lba::new(start), Blocks::new(len))],
            zones: Vec::new(),
            guard_len: Blocks::ZERO,
            discards: Vec::new(),
        })
    };
    let too_small = || format!("the drive has {disk_len} blocks, too few for a catalog and files");
    if let Rule::IsolationDistance(shingle) = geometry.rule() {
        let a = Region::shingled(Lba::new(0), Blocks::new(len), shingle);
        let b = Region::shingled(a.reserved_end(), Blocks::new(len), shingle);
        let end = b.reserved_end().get();
        return if 4 * end <= disk_len {
            Ok([a, b])
        } else {
            Err(format!(
                "the drive has {disk_len} blocks, of which a catalog with its guards takes {end}; \
                 at least four times as many are needed"
            ))
        };
    }
    if geometry.interlaced().is_some() {
        let a = Region::of_top_tracks(geometry, Lba::new(0), Blocks::new(len));
        let b = a
            .as_ref()
            .and_then(|a| Region::of_top_tracks(geometry, a.reserved_end(), Blocks::new(len)));
        return match (a, b) {
            (Some(a), Some(b)) if b.reserved_end().get().saturating_mul(4) <= disk_len => {
                Ok([a, b])
            }
            _ => Err(format!(
                "the drive has {disk_len} blocks, less than four times what a catalog in top \
                 tracks takes"
            )),
        };
    }
    let Some(zones) = geometry.zones() else {
        return if 8 * len <= disk_len { Ok(side_by_side(len)) } else { Err(too_small()) };
    };
    let conventional_len =
        (u64::from(zones.conventional_zone_count) * zones.zone_len.get()).min(disk_len);
    if 2 * least <= conventional_len {
        return Ok(side_by_side(len.min(conventional_len / 2)));
    }
    let mut next_zone = zones.conventional_zone_count;
    let mut region = || -> Result<Region, String> {
        let mut region = Region {
            pieces: Vec::new(),
            zones: Vec::new(),
            guard_len: Blocks::ZERO,
            discards: Vec::new(),
        };
        while region.len().get() < len {
            let zone = ZoneId(next_zone);
            let range = geometry.zone_range(zone).ok_or_else(too_small)?;
            let capacity = geometry.zone_capacity(zone).ok_or_else(too_small)?;
            region.pieces.push(BlockRange::new(range.start, capacity));
            region.zones.push(zone);
            next_zone += 1;
        }
        Ok(region)
    };
    Ok([region()?, region()?])
}

impl Region {
    /// A region of at least `len` blocks in the top tracks from `start` on. The bottom tracks
    /// between them, and the one after the last, stay unused. `None` if the disk is too short.
    pub(crate) fn of_top_tracks(geometry: &Geometry, start: Lba, len: Blocks) -> Option<Region> {
        let mut track = geometry.track_of(start)?;
        let mut pieces: Vec<BlockRange> = Vec::new();
        let mut missing = len;
        while !missing.is_zero() {
            let range = geometry.track_range(track)?;
            if track.is_top() {
                let piece = BlockRange::new(range.start, range.len.min(missing));
                missing -= piece.len;
                pieces.push(piece);
            }
            track = TrackId(track.0 + 1);
        }
        // Up to the next top track: the rest of the last one, and the bottom track after it.
        let end = pieces.last()?.end();
        let next = geometry.track_range(TrackId(track.0 + 1))?.start;
        Some(Region { pieces, zones: Vec::new(), guard_len: next - end, discards: Vec::new() })
    }

    /// A region of at least `len` blocks on overlapping tracks, beginning at the start of a track.
    fn shingled(start: Lba, len: Blocks, shingle: &ShingleSpec) -> Region {
        let track_len = shingle.track_len.get();
        let guard_len = shingle.isolation_len();
        let body_start = start + shingle.track_len + guard_len;
        let body_len = Blocks::new((len.get() - 1).next_multiple_of(track_len));
        let header = BlockRange::new(start, Blocks::new(1));
        let body = BlockRange::new(body_start, body_len);
        let behind_header = BlockRange::new(header.end(), body.start - header.end());
        let body_and_guard = BlockRange::new(body.start, body.len + guard_len);
        let discards = vec![behind_header, body_and_guard];
        Region { pieces: vec![header, body], zones: Vec::new(), guard_len, discards }
    }

    /// The first block after the region that files may use.
    pub(crate) fn reserved_end(&self) -> Lba {
        let end = self.pieces.iter().map(|piece| piece.end()).max().unwrap_or_default();
        end + self.guard_len
    }

    /// The last block of each piece, counted from the region's start.
    pub(crate) fn piece_ends(&self) -> impl Iterator<Item = Blocks> {
        let lens = self.pieces.iter().map(|piece| piece.len);
        lens.scan(Blocks::ZERO, |end, len| {
            *end += len;
            Some(*end - Blocks::new(1))
        })
    }

    /// Its length in blocks.
    pub(crate) fn len(&self) -> Blocks {
        self.pieces.iter().map(|p| p.len).sum()
    }

    /// Its sequential zones; empty in conventional space.
    pub(crate) fn zones(&self) -> &[ZoneId] {
        &self.zones
    }

    /// Its runs of blocks, in order.
    pub(crate) fn pieces(&self) -> &[BlockRange] {
        &self.pieces
    }

    /// Whether it must be written in order.
    pub(crate) fn is_sequential(&self) -> bool {
        !self.zones.is_empty()
    }

    /// A zone that the drive has given up, if there is one: it may have held the newest commits.
    pub(crate) fn lost_zone(&self, disk: &dyn Disk) -> Option<ZoneId> {
        let is_lost =
            |zone: &&ZoneId| disk.zone(**zone).is_none_or(|info| info.state == ZoneState::Offline);
        self.zones.iter().find(is_lost).copied()
    }

    /// The first zone, sequential or conventional, that takes no more writes, with its state.
    pub(crate) fn unwritable_zone(&self, disk: &dyn Disk) -> Option<(ZoneId, ZoneState)> {
        let geometry = disk.geometry();
        let zones_of = |piece: &BlockRange| {
            let first = geometry.zone_of(piece.start)?;
            let last = geometry.zone_of(piece.end() - Blocks::new(1))?;
            Some((first.0..=last.0).map(ZoneId))
        };
        let state = |zone| disk.zone(zone).map(|info| (zone, info.state));
        let is_unwritable = |(_, state): &(ZoneId, ZoneState)| {
            matches!(state, ZoneState::ReadOnly | ZoneState::Offline)
        };
        self.pieces.iter().filter_map(zones_of).flatten().filter_map(state).find(is_unwritable)
    }

    /// Whether the drive no longer reports how far the region is written: one of its zones is
    /// read-only.
    pub(crate) fn is_pointerless(&self, disk: &dyn Disk) -> bool {
        let is_read_only =
            |zone: &ZoneId| disk.zone(*zone).is_some_and(|info| info.state == ZoneState::ReadOnly);
        self.zones.iter().any(is_read_only)
    }

    /// How many blocks from its start are written, at most: all of them in conventional space.
    pub(crate) fn written(&self, disk: &dyn Disk) -> Blocks {
        let mut written = Blocks::ZERO;
        if !self.is_sequential() {
            return self.len();
        }
        for (zone, piece) in self.zones.iter().zip(&self.pieces) {
            let state = disk.zone(*zone).map(|info| info.state);
            let now = match state {
                Some(ZoneState::Full) => piece.len,
                // A read of these blocks meets the error that was found here.
                Some(ZoneState::ReadOnly) => readable_len(disk, *piece).unwrap_or(piece.len),
                Some(state) => state
                    .write_pointer(piece.start)
                    .map_or(Blocks::ZERO, |p| (p - piece.start).min(piece.len)),
                None => Blocks::ZERO,
            };
            written += now;
            if now < piece.len {
                break;
            }
        }
        written
    }

    /// Reads whole blocks, from block `at` of the region on.
    pub(crate) fn read(
        &self,
        disk: &dyn Disk,
        at: Blocks,
        buf: &mut [u8],
    ) -> Result<(), DiskError> {
        let mut rest = buf;
        for range in self.ranges(at, Blocks::holding(rest.len() as u64)) {
            let (now, later) = rest.split_at_mut(range.len.bytes() as usize);
            match disk.read(range.start, now) {
                Err(DiskError::Destroyed { .. }) => read_remains(disk, range.start, now)?,
                result => result?,
            }
            rest = later;
        }
        Ok(())
    }

    /// Writes whole blocks, from block `at` of the region on.
    pub(crate) fn write(
        &self,
        disk: &dyn Disk,
        at: Blocks,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError> {
        let mut rest = data;
        for range in self.ranges(at, Blocks::holding(data.len() as u64)) {
            let (mut now, later) = rest.split_at(range.len.bytes() as usize);
            let mut at = range.start;
            while !now.is_empty() {
                let (piece, left) = now.split_at(now.len().min(PIECE_LEN_BYTES));
                disk.write(at, piece, persist)?;
                at += Blocks::holding(piece.len() as u64);
                now = left;
            }
            rest = later;
        }
        Ok(())
    }

    /// Prepares the region for a new checkpoint. From now on it holds no catalog. Its first block is
    /// `mark`, or nothing in sequential zones.
    pub(crate) fn clear(&self, disk: &dyn Disk, mark: &[u8]) -> Result<(), DiskError> {
        if self.is_sequential() {
            return self
                .zones
                .iter()
                .try_for_each(|&zone| disk.manage_zone(zone, ZoneAction::Reset));
        }
        // Where tracks overlap, the blocks after the header are blank before and after.
        if let Some(behind_header) = self.discards.first() {
            disk.discard(*behind_header)?;
        }
        self.write(disk, Blocks::ZERO, mark, Persist::Through)?;
        self.discards.iter().skip(1).try_for_each(|&range| disk.discard(range))
    }

    /// The runs on the disk for `len` blocks, from block `at` of the region on.
    fn ranges(&self, at: Blocks, len: Blocks) -> Vec<BlockRange> {
        assert!(at + len <= self.len(), "the region holds the request");
        let (mut skip, mut left) = (at, len);
        let mut ranges = Vec::new();
        for piece in &self.pieces {
            let start = piece.start + skip.min(piece.len);
            let now = left.min(piece.end() - start);
            if !now.is_zero() {
                ranges.push(BlockRange::new(start, now));
            }
            skip = skip.saturating_sub(piece.len);
            left -= now;
        }
        ranges
    }
}

/// Reads blocks, some of which are destroyed. Those read as zeros, from which no record decodes.
fn read_remains(disk: &dyn Disk, start: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
    let mut at = start;
    for block in buf.chunks_mut(BLOCK_LEN_BYTES) {
        match disk.read(at, block) {
            Err(DiskError::Destroyed { .. }) => block.fill(0),
            result => result?,
        }
        at += Blocks::new(1);
    }
    Ok(())
}
