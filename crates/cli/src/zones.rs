//! The picture of a drive: which zone is in which state, how full it is, and what lies in it.
//!
//! ```text
//!   report_zones()  --+
//!                     +-->  ZoneMap (cells)  -->  text (terminal)
//!   Files::list()   --+                      -->  svg  (a file)
//! ```
//!
//! A drive with more zones than a picture can hold is drawn with several zones a cell; a drive
//! without zones is cut into stripes of equal length.

pub(crate) mod svg;
pub(crate) mod text;

use imbrex_disk::{BlockRange, Blocks, Geometry, Lba, ZoneInfo, ZoneKind, ZoneState};
use imbrex_files::{FileInfo, FileKind};
use std::collections::BTreeMap;

/// What a live block is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    /// A table of this level.
    Level(u8),
    Log,
    /// Catalog, checkpoints and anything else.
    Other,
}

impl Content {
    fn of(file: &FileInfo) -> Content {
        match file.kind {
            FileKind::Table => Content::Level(file.level),
            FileKind::Log => Content::Log,
            FileKind::Metadata | FileKind::Other => Content::Other,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Content::Level(level) => format!("level {level}"),
            Content::Log => "log".to_owned(),
            Content::Other => "other".to_owned(),
        }
    }
}

/// The state of a cell, without its write pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CellState {
    Conventional,
    Empty,
    Open,
    Closed,
    Full,
    ReadOnly,
    Offline,
}

impl CellState {
    fn of(state: ZoneState) -> CellState {
        match state {
            ZoneState::NoPointer => CellState::Conventional,
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
            CellState::Empty => "empty",
            CellState::Open => "open",
            CellState::Closed => "closed",
            CellState::Full => "full",
            CellState::ReadOnly => "read-only",
            CellState::Offline => "offline",
        }
    }

    /// Which state a cell of several zones shows: the one that a reader should know about most.
    fn rank(self) -> u8 {
        match self {
            CellState::Empty => 0,
            CellState::Conventional => 1,
            CellState::Full => 2,
            CellState::Closed => 3,
            CellState::Open => 4,
            CellState::ReadOnly => 5,
            CellState::Offline => 6,
        }
    }
}

/// One zone, several neighbours, or a stripe of a drive without zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The first zone.
    pub(crate) zone: u32,
    pub(crate) zone_count: u32,
    pub(crate) state: CellState,
    /// How much can be written.
    pub(crate) capacity: Blocks,
    /// How much lies below the write pointer; where there is none, what is live.
    pub(crate) written: Blocks,
    /// What lies in it; adds up to at most `written`.
    pub(crate) live: BTreeMap<Content, Blocks>,
}

impl Cell {
    pub(crate) fn live_blocks(&self) -> Blocks {
        self.live.values().copied().sum()
    }

    /// The content with most blocks, if any is live.
    pub(crate) fn main_content(&self) -> Option<Content> {
        self.live.iter().max_by_key(|(_, len)| **len).map(|(content, _)| *content)
    }

    fn absorb(&mut self, other: Cell) {
        self.zone_count += other.zone_count;
        if other.state.rank() > self.state.rank() {
            self.state = other.state;
        }
        self.capacity += other.capacity;
        self.written += other.written;
        for (content, len) in other.live {
            *self.live.entry(content).or_default() += len;
        }
    }
}

/// The whole drive, in cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneMap {
    /// All of equal `zone_count` but the last.
    pub(crate) cells: Vec<Cell>,
    pub(crate) zone_count: u32,
    pub(crate) zone_len: Blocks,
    /// How many zones are in each state; empty on a drive without zones.
    pub(crate) state_counts: BTreeMap<CellState, u32>,
}

/// How many stripes a drive without zones is cut into.
const STRIPE_COUNT: u64 = 64;

impl ZoneMap {
    /// The picture of a drive with `files` on it, in at most `cell_count_max` cells.
    pub(crate) fn new(
        geometry: &Geometry,
        zones: &[ZoneInfo],
        files: &[FileInfo],
        cell_count_max: usize,
    ) -> ZoneMap {
        let mut cells = if zones.is_empty() {
            stripes(geometry)
        } else {
            zones.iter().map(zone_cell).collect()
        };
        let zone_len = match geometry.zones() {
            Some(zones) => zones.zone_len,
            None => Blocks::new(geometry.len().get().div_ceil(STRIPE_COUNT)),
        };
        for file in files {
            let content = Content::of(file);
            for extent in file.extents.iter().filter(|extent| geometry.holds(**extent)) {
                for (at, len) in split(*extent, zone_len) {
                    if let Some(cell) = cells.get_mut(at) {
                        *cell.live.entry(content).or_default() += len;
                    }
                }
            }
        }
        let mut state_counts = BTreeMap::new();
        for cell in &mut cells {
            cell.written = cell.written.max(cell.live_blocks());
            if !zones.is_empty() {
                *state_counts.entry(cell.state).or_insert(0) += 1;
            }
        }
        let zone_count = cells.len() as u32;
        let cells = merge(cells, cell_count_max);
        ZoneMap { cells, zone_count, zone_len, state_counts }
    }

    /// Live blocks by content, over the whole drive.
    pub(crate) fn live(&self) -> BTreeMap<Content, Blocks> {
        let mut all = BTreeMap::new();
        for (content, len) in self.cells.iter().flat_map(|cell| &cell.live) {
            *all.entry(*content).or_default() += *len;
        }
        all
    }

    pub(crate) fn capacity(&self) -> Blocks {
        self.cells.iter().map(|cell| cell.capacity).sum()
    }

    /// What is written but belongs to no file any more.
    pub(crate) fn dead(&self) -> Blocks {
        self.cells.iter().map(|cell| cell.written.saturating_sub(cell.live_blocks())).sum()
    }

    /// `32 zones of 256 MiB: 1 conventional, 28 empty, 2 open, 1 full`.
    pub(crate) fn headline(&self) -> String {
        let len = crate::byte_size::ByteSize(self.zone_len.bytes());
        if self.state_counts.is_empty() {
            return format!("conventional drive, drawn as {} stripes of {len}", self.zone_count);
        }
        let states: Vec<_> = self
            .state_counts
            .iter()
            .map(|(state, count)| {
                format!("{} {}", crate::byte_size::grouped(u64::from(*count)), state.name())
            })
            .collect();
        let zone_count = crate::byte_size::grouped(u64::from(self.zone_count));
        format!("{zone_count} zones of {len}: {}", states.join(", "))
    }
}

fn zone_cell(zone: &ZoneInfo) -> Cell {
    let written = match (zone.kind, zone.state) {
        (ZoneKind::Conventional, _) => Blocks::ZERO,
        (_, ZoneState::Full) => zone.capacity,
        (_, state) => state.write_pointer(zone.start).map_or(Blocks::ZERO, |at| at - zone.start),
    };
    Cell {
        zone: zone.zone.0,
        zone_count: 1,
        state: CellState::of(zone.state),
        capacity: zone.capacity,
        written,
        live: BTreeMap::new(),
    }
}

fn stripes(geometry: &Geometry) -> Vec<Cell> {
    let len = geometry.len().get();
    let stripe = len.div_ceil(STRIPE_COUNT);
    (0..len.div_ceil(stripe))
        .map(|at| Cell {
            zone: at as u32,
            zone_count: 1,
            state: CellState::Conventional,
            capacity: Blocks::new(stripe.min(len - at * stripe)),
            written: Blocks::ZERO,
            live: BTreeMap::new(),
        })
        .collect()
}

/// The parts of `extent` in each zone it touches, by the zone's number.
fn split(extent: BlockRange, zone_len: Blocks) -> Vec<(usize, Blocks)> {
    let mut parts = Vec::new();
    let mut at = extent.start.get();
    while at < extent.end().get() {
        let zone = at / zone_len.get();
        let end = Lba::new((zone + 1) * zone_len.get()).min(extent.end());
        parts.push((zone as usize, Blocks::new(end.get() - at)));
        at = end.get();
    }
    parts
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
