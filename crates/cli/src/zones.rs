//! The zone map of a drive: the state, fill and content of each zone.
//!
//! ```text
//!   FileLayer::zone_map()  --+
//!   BlockDriver::zones()        --+-->  ZoneMap (cells)  -->  text (terminal)
//!   Disk::report_zones()   --+                      -->  svg  (a file)
//! ```
//!
//! If a drive has more zones than a picture can hold, a cell stands for several zones. The file layer cuts a
//! drive without zones into slices of equal length.

pub(crate) mod parts;
pub(crate) mod svg;
pub(crate) mod text;

use crate::count::grouped;
use imbrex_disk::{
    BlockRange, Blocks, ByteSize, Geometry, Lba, Rule, TrackId, ZoneInfo, ZoneState,
};
use imbrex_files::inspect::ZoneUse;
use imbrex_files::{FileInfo, FileKind, Tier};
use imbrex_translate::{DeviceZone, DeviceZoneUse};
use std::collections::BTreeMap;

/// The structure that live bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    /// A table of this level.
    Level(u8),
    /// A log; the journal of a block device.
    Log,
    /// Data that the clients of a block device wrote, and its checksums.
    Device,
    /// A block device's superblocks and checkpoint.
    Checkpoint,
}

impl Content {
    pub(crate) fn name(self) -> String {
        match self {
            Content::Level(level) => format!("level {level}"),
            Content::Log => "log".to_owned(),
            Content::Device => "block device".to_owned(),
            Content::Checkpoint => "checkpoint".to_owned(),
        }
    }
}

/// The state of a cell, without its write pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CellState {
    Conventional,
    /// A slice of raw shingled tracks.
    Shingled,
    /// A slice of raw interlaced tracks.
    Interlaced,
    Empty,
    Open,
    Closed,
    Full,
    ReadOnly,
    Offline,
}

impl CellState {
    fn of(state: ZoneState, geometry: &Geometry) -> CellState {
        match state {
            ZoneState::NoPointer => match geometry.rule() {
                Rule::IsolationDistance(_) => CellState::Shingled,
                Rule::Neighbours(_) => CellState::Interlaced,
                _ => CellState::Conventional,
            },
            ZoneState::Empty => CellState::Empty,
            ZoneState::Open { .. } => CellState::Open,
            ZoneState::Closed { .. } => CellState::Closed,
            ZoneState::Full => CellState::Full,
            ZoneState::ReadOnly => CellState::ReadOnly,
            ZoneState::Offline => CellState::Offline,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            CellState::Conventional => "conventional",
            CellState::Shingled => "shingled",
            CellState::Interlaced => "interlaced",
            CellState::Empty => "empty",
            CellState::Open => "open",
            CellState::Closed => "closed",
            CellState::Full => "full",
            CellState::ReadOnly => "read-only",
            CellState::Offline => "offline",
        }
    }

    /// The rank of the state. A cell of several zones shows the highest, which a reader should know first.
    fn rank(self) -> u8 {
        match self {
            CellState::Empty => 0,
            CellState::Conventional | CellState::Shingled | CellState::Interlaced => 1,
            CellState::Full => 2,
            CellState::Closed => 3,
            CellState::Open => 4,
            CellState::ReadOnly => 5,
            CellState::Offline => 6,
        }
    }
}

/// One zone, several neighbours, or a slice of a drive without zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The first zone.
    pub(crate) zone: u32,
    pub(crate) zone_count: u32,
    pub(crate) state: CellState,
    /// The writable length.
    pub(crate) capacity_bytes: u64,
    /// The length up to the write pointer; without a write pointer, the live and dead bytes.
    pub(crate) written_bytes: u64,
    /// Live bytes by content; their sum is at most `written_bytes`.
    pub(crate) live_bytes: BTreeMap<Content, u64>,
    /// Whether part of the catalog is stored in it. Only the catalog knows how much.
    pub(crate) has_catalog: bool,
    /// On interlaced tracks: the two kinds of tracks apart.
    pub(crate) lanes: Option<Lanes>,
}

/// The tracks of a cell by their kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lanes {
    pub(crate) bottom: Lane,
    pub(crate) top: Lane,
}

/// The tracks of one kind in a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) capacity_bytes: u64,
    /// Live bytes by content.
    pub(crate) live_bytes: BTreeMap<Content, u64>,
}

impl Lanes {
    fn of(&mut self, track: TrackId) -> &mut Lane {
        if track.is_top() { &mut self.top } else { &mut self.bottom }
    }
}

impl Cell {
    pub(crate) fn all_live_bytes(&self) -> u64 {
        self.live_bytes.values().sum()
    }

    pub(crate) fn dead_bytes(&self) -> u64 {
        self.written_bytes.saturating_sub(self.all_live_bytes())
    }

    /// The content with most bytes, if any is live.
    pub(crate) fn main_content(&self) -> Option<Content> {
        self.live_bytes.iter().max_by_key(|(_, bytes)| **bytes).map(|(content, _)| *content)
    }

    fn absorb(&mut self, other: Cell) {
        self.zone_count += other.zone_count;
        if other.state.rank() > self.state.rank() {
            self.state = other.state;
        }
        self.capacity_bytes += other.capacity_bytes;
        self.written_bytes += other.written_bytes;
        self.has_catalog |= other.has_catalog;
        for (content, bytes) in other.live_bytes {
            *self.live_bytes.entry(content).or_default() += bytes;
        }
    }
}

/// The whole drive, in cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneMap {
    /// Every cell has the same `zone_count`, except a shorter last one.
    pub(crate) cells: Vec<Cell>,
    pub(crate) zone_count: u32,
    pub(crate) zone_len_bytes: u64,
    /// How many zones are in each state; empty on a drive without zones.
    pub(crate) state_counts: BTreeMap<CellState, u32>,
    /// The recording of a drive without zones, in words.
    pub(crate) recording: String,
}

impl ZoneMap {
    /// The map of a drive that holds files, in at most `cell_count_max` cells.
    pub(crate) fn of_files(
        geometry: &Geometry,
        uses: &[ZoneUse],
        cell_count_max: usize,
    ) -> ZoneMap {
        let cells = uses.iter().map(|zone_use| used_cell(geometry, zone_use)).collect();
        ZoneMap::of_cells(geometry, cells, cell_count_max)
    }

    /// Tells the two kinds of interlaced tracks apart, by the places of `files`. On other drives it does nothing.
    pub(crate) fn with_lanes(mut self, geometry: &Geometry, files: &[FileInfo]) -> ZoneMap {
        if geometry.interlaced().is_none() {
            return self;
        }
        let slice_len_bytes = self.cells.first().map_or(1, |cell| cell.capacity_bytes.max(1));
        let mut lanes = vec![Lanes::default(); self.cells.len()];
        let mut add = |range: BlockRange, work: &mut dyn FnMut(&mut Lane, u64)| {
            for part in pieces(geometry, range, slice_len_bytes) {
                let slice = (Blocks::new(part.start.get()).bytes() / slice_len_bytes) as usize;
                if let (Some(lanes), Some(track)) =
                    (lanes.get_mut(slice), geometry.track_of(part.start))
                {
                    work(lanes.of(track), part.len.bytes());
                }
            }
        };
        let whole = BlockRange::new(Lba::new(0), geometry.len());
        add(whole, &mut |lane, bytes| lane.capacity_bytes += bytes);
        for file in files.iter().filter(|file| file.tier == Tier::Main) {
            let content = match file.kind {
                FileKind::Log => Content::Log,
                _ => Content::Level(file.level),
            };
            for extent in &file.extents {
                add(*extent, &mut |lane, bytes| {
                    *lane.live_bytes.entry(content).or_default() += bytes;
                });
            }
        }
        for (cell, lanes) in self.cells.iter_mut().zip(lanes) {
            cell.lanes = Some(lanes);
        }
        self
    }

    /// The map of a drive from its own report of zones.
    pub(crate) fn of_report(
        geometry: &Geometry,
        zones: &[ZoneInfo],
        cell_count_max: usize,
    ) -> ZoneMap {
        let cells = zones.iter().map(|zone| reported_cell(geometry, zone));
        ZoneMap::of_cells(geometry, cells.collect(), cell_count_max)
    }

    /// The map of a drive that holds a block device.
    pub(crate) fn of_device(
        geometry: &Geometry,
        zones: &[DeviceZone],
        cell_count_max: usize,
    ) -> ZoneMap {
        let cells = zones.iter().map(|zone| device_cell(geometry, zone)).collect();
        ZoneMap::of_cells(geometry, cells, cell_count_max)
    }

    fn of_cells(geometry: &Geometry, cells: Vec<Cell>, cell_count_max: usize) -> ZoneMap {
        let mut state_counts = BTreeMap::new();
        if geometry.zones().is_some() {
            for cell in &cells {
                *state_counts.entry(cell.state).or_insert(0) += 1;
            }
        }
        let zone_len_bytes = match geometry.zones() {
            Some(zones) => zones.zone_len.bytes(),
            None => cells.first().map_or(0, |cell| cell.capacity_bytes),
        };
        let zone_count = cells.len() as u32;
        let recording = geometry.rule().name().to_owned();
        let cells = merge(cells, cell_count_max);
        ZoneMap { cells, zone_count, zone_len_bytes, state_counts, recording }
    }

    /// Live bytes by content, over the whole drive.
    pub(crate) fn live_bytes(&self) -> BTreeMap<Content, u64> {
        let mut all = BTreeMap::new();
        for (content, bytes) in self.cells.iter().flat_map(|cell| &cell.live_bytes) {
            *all.entry(*content).or_default() += *bytes;
        }
        all
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.cells.iter().map(|cell| cell.capacity_bytes).sum()
    }

    /// Written bytes that belong to no file any more.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.cells.iter().map(Cell::dead_bytes).sum()
    }

    /// `32 zones of 256 MiB: 1 conventional, 28 empty, 2 open, 1 full`.
    pub(crate) fn headline(&self) -> String {
        let len = ByteSize(self.zone_len_bytes);
        if self.state_counts.is_empty() {
            return match self.zone_count {
                0 => format!("{}, without files", self.recording),
                count => format!("{}, drawn as {count} slices of {len}", self.recording),
            };
        }
        let states: Vec<_> = self
            .state_counts
            .iter()
            .map(|(state, count)| format!("{} {}", grouped(u64::from(*count)), state.name()))
            .collect();
        let zone_count = grouped(u64::from(self.zone_count));
        format!("{zone_count} zones of {len}: {}", states.join(", "))
    }
}

/// The parts of `range` that each lie in one track and one slice.
fn pieces(
    geometry: &Geometry,
    range: BlockRange,
    slice_len_bytes: u64,
) -> impl Iterator<Item = BlockRange> + '_ {
    let slice_len = Blocks::holding(slice_len_bytes).get().max(1);
    let mut at = range.start;
    std::iter::from_fn(move || {
        let track = geometry.track_range(geometry.track_of(at)?)?;
        let slice_end = Lba::new((at.get() / slice_len + 1) * slice_len);
        let end = range.end().min(track.end()).min(slice_end);
        let part = (at < end).then(|| BlockRange::new(at, end - at));
        at = end;
        part
    })
}

/// The cell of a zone from the drive's own report.
fn reported_cell(geometry: &Geometry, zone: &ZoneInfo) -> Cell {
    Cell {
        zone: zone.zone.0,
        zone_count: 1,
        state: CellState::of(zone.state, geometry),
        capacity_bytes: zone.capacity.bytes(),
        written_bytes: match zone.state {
            ZoneState::Full => zone.capacity.bytes(),
            state => state.write_pointer(zone.start).map_or(0, |at| (at - zone.start).bytes()),
        },
        live_bytes: BTreeMap::new(),
        has_catalog: false,
        lanes: None,
    }
}

fn device_cell(geometry: &Geometry, zone: &DeviceZone) -> Cell {
    let cell = reported_cell(geometry, &zone.info);
    let content = match zone.used {
        DeviceZoneUse::Journal => Content::Log,
        DeviceZoneUse::Superblocks | DeviceZoneUse::Checkpoint => Content::Checkpoint,
        _ => Content::Device,
    };
    let live = zone.live.bytes();
    Cell {
        // The drive does not report the write pointer of a zone that was given up.
        written_bytes: cell.written_bytes.max(live),
        live_bytes: (live > 0).then_some((content, live)).into_iter().collect(),
        has_catalog: content == Content::Checkpoint,
        ..cell
    }
}

fn used_cell(geometry: &Geometry, zone_use: &ZoneUse) -> Cell {
    let zone = imbrex_disk::ZoneId(zone_use.zone);
    let capacity = match zone_use.state {
        ZoneState::NoPointer => zone_use.range.len,
        _ => geometry.zone_capacity(zone).unwrap_or(zone_use.range.len),
    };
    let written_bytes = match zone_use.state.write_pointer(zone_use.range.start) {
        Some(pointer) => (pointer - zone_use.range.start).bytes(),
        None if zone_use.state == ZoneState::Full => capacity.bytes(),
        None => zone_use.live_bytes + zone_use.dead_bytes,
    };
    let levels = zone_use.levels.iter().map(|(level, bytes)| (Content::Level(*level), *bytes));
    let contents = levels.chain([(Content::Log, zone_use.log_bytes)]);
    Cell {
        zone: zone_use.zone,
        zone_count: 1,
        state: CellState::of(zone_use.state, geometry),
        capacity_bytes: capacity.bytes(),
        // The space of a log is allocated before the write pointer reaches it.
        written_bytes: written_bytes.max(zone_use.live_bytes),
        live_bytes: contents.filter(|(_, bytes)| *bytes > 0).collect(),
        has_catalog: zone_use.catalog_bytes > 0,
        lanes: None,
    }
}

fn merge(cells: Vec<Cell>, cell_count_max: usize) -> Vec<Cell> {
    let per_cell = cells.len().div_ceil(cell_count_max.max(1)).max(1);
    if per_cell == 1 {
        return cells;
    }
    let mut merged: Vec<Cell> = Vec::new();
    for (at, cell) in cells.into_iter().enumerate() {
        match merged.last_mut() {
            Some(last) if at % per_cell != 0 => last.absorb(cell),
            _ => merged.push(cell),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
