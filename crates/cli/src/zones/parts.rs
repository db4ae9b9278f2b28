//! The zones of a drive by the parts of the store that they hold: a summary, and a line for each zone.
//!
//! ```text
//!   extents of files x places of files  -->  live bytes of each zone by place
//! ```
//!
//! Not here: the picture of the zones (`text`, `svg`).

use super::{Cell, CellState};
use crate::count::grouped;
use crate::output::Table;
use crate::parts::{Part, Parts, Place};
use imbrex_disk::{BlockRange, ByteSize};
use imbrex_files::inspect::ZoneUse;
use imbrex_files::{FileInfo, Tier};
use serde_json::json;
use std::collections::BTreeMap;

/// A line names so many parts of a zone; the smallest are left out.
const NAMED_PART_COUNT: usize = 4;

/// Live bytes by place, for each zone.
pub(crate) struct ZoneParts(Vec<BTreeMap<Place, u64>>);

impl ZoneParts {
    /// The parts of the zones `uses`, which are in order of address.
    pub(crate) fn of(uses: &[ZoneUse], files: &[FileInfo], parts: &Parts) -> ZoneParts {
        let mut zones = vec![BTreeMap::new(); uses.len()];
        for file in files.iter().filter(|file| file.tier == Tier::Main) {
            let place = parts.place_of(file);
            for extent in &file.extents {
                let first = uses.partition_point(|zone| zone.range.end() <= extent.start);
                let touched = uses[first..].iter().take_while(|zone| zone.range.overlaps(*extent));
                for (zone, parts) in touched.zip(&mut zones[first..]) {
                    *parts.entry(place.clone()).or_insert(0) += common_bytes(zone.range, *extent);
                }
            }
        }
        ZoneParts(zones)
    }

    /// A row for each part: how many zones hold it, and how much.
    pub(crate) fn summary(&self, cells: &[Cell]) -> String {
        #[derive(Default)]
        struct Row {
            zone_count: u64,
            alone_count: u64,
            live_bytes: u64,
            zones_live_bytes: u64,
            zones_written_bytes: u64,
        }
        let mut rows: BTreeMap<Part, Row> = BTreeMap::new();
        for (cell, places) in cells.iter().zip(&self.0) {
            let mut by_part: BTreeMap<&Part, u64> = BTreeMap::new();
            places.iter().for_each(|(p, bytes)| *by_part.entry(&p.part).or_default() += bytes);
            for (part, bytes) in &by_part {
                let row = rows.entry((*part).clone()).or_default();
                row.zone_count += 1;
                row.alone_count += u64::from(by_part.len() == 1);
                row.live_bytes += bytes;
                row.zones_live_bytes += cell.all_live_bytes();
                row.zones_written_bytes += cell.written_bytes;
            }
        }
        let header = ["part", "zones", "without others", "bytes", "live in these zones"];
        let mut table = Table::new(&header);
        for (part, row) in &rows {
            let live = 100.0 * row.zones_live_bytes as f64 / row.zones_written_bytes.max(1) as f64;
            table.row(vec![
                part.name(),
                grouped(row.zone_count),
                grouped(row.alone_count),
                ByteSize(row.live_bytes).to_string(),
                format!("{live:.1} %"),
            ]);
        }
        for (name, is_in) in NO_PART {
            let count = cells.iter().zip(&self.0).filter(|(cell, p)| p.is_empty() && is_in(cell));
            let mut row = vec![name.to_owned(), grouped(count.count() as u64)];
            row.resize(header.len(), "-".to_owned());
            table.row(row);
        }
        table.text()
    }

    /// A line for each zone that is not empty.
    pub(crate) fn lines(&self, cells: &[Cell]) -> String {
        let mut table = Table::new(&["zone", "state", "written", "live", "holds"]);
        for (cell, places) in cells.iter().zip(&self.0) {
            if cell.written_bytes == 0 && places.is_empty() && !cell.has_catalog {
                continue;
            }
            let live = 100.0 * cell.all_live_bytes() as f64 / cell.written_bytes.max(1) as f64;
            table.row(vec![
                cell.zone.to_string(),
                cell.state.name().to_owned(),
                ByteSize(cell.written_bytes).to_string(),
                format!("{live:.1} %"),
                holds(cell, places),
            ]);
        }
        table.text()
    }

    /// The parts of the zone at `index`.
    pub(crate) fn json(&self, index: usize) -> serde_json::Value {
        let place = |(place, bytes): (&Place, &u64)| {
            json!({
                "part": place.part.name(),
                "keyspace": place.keyspace,
                "partition": place.partition,
                "live_bytes": bytes,
            })
        };
        self.0.get(index).into_iter().flatten().map(place).collect()
    }
}

/// Zones without a part of the store, by what they have instead.
type IsIn = fn(&Cell) -> bool;
const NO_PART: [(&str, IsIn); 3] = [
    ("catalog alone", |cell| cell.has_catalog),
    ("only dead data", |cell| !cell.has_catalog && cell.written_bytes > 0),
    ("free", |cell| !cell.has_catalog && cell.written_bytes == 0 && is_usable(cell)),
];

fn is_usable(cell: &Cell) -> bool {
    !matches!(cell.state, CellState::ReadOnly | CellState::Offline)
}

fn common_bytes(zone: BlockRange, extent: BlockRange) -> u64 {
    (zone.end().min(extent.end()) - zone.start.max(extent.start)).bytes()
}

/// `base of default/3 200 MiB, log 12 MiB`: the longest parts first.
fn holds(cell: &Cell, places: &BTreeMap<Place, u64>) -> String {
    let mut longest: Vec<_> = places.iter().collect();
    longest.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    let words = |(place, bytes): &(&Place, &u64)| format!("{place} {}", ByteSize(**bytes));
    let mut named: Vec<_> = longest.iter().take(NAMED_PART_COUNT).map(words).collect();
    if longest.len() > NAMED_PART_COUNT {
        named.push(format!("{} more", longest.len() - NAMED_PART_COUNT));
    }
    if cell.has_catalog {
        named.push("catalog".to_owned());
    }
    if named.is_empty() { "only dead data".to_owned() } else { named.join(", ") }
}
