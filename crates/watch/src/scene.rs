//! The scene: everything that the lines up to one moment add up to.

use crate::frame::{FileChange, Frame, GapChange, Head, Line, ZoneChange};
use std::collections::BTreeMap;

/// A file of a scene.
pub type FileNow = FileChange;

/// One store at one moment.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// What is watched.
    pub head: Head,
    /// The newest frame. Its changes are part of `files` and `zones`.
    pub last: Frame,
    /// The frame before it: rates are the difference of both.
    pub before: Frame,
    /// How many frames there were.
    pub frame_count: u64,
    /// All files, by name.
    pub files: BTreeMap<String, FileNow>,
    /// All zones, in order; empty on a drive without zones.
    pub zones: Vec<ZoneChange>,
    /// The runs without data of a drive without zones, by their first block.
    pub gaps: BTreeMap<u64, GapChange>,
}

/// A part of the drive: one zone, several, or a part of a drive without zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Its first block.
    pub start_block: u64,
    /// Its length.
    pub len_blocks: u64,
    /// Blocks of live files by level; logs have level 255.
    pub live_blocks: BTreeMap<u8, u64>,
    /// Blocks before the write pointers, on a drive with zones; otherwise those that are not free, or as many as are live
    /// if that is unknown.
    pub written_blocks: u64,
    /// Free blocks that must stay blank.
    pub guard_blocks: u64,
}

impl Cell {
    /// All live blocks.
    pub fn all_live_blocks(&self) -> u64 {
        self.live_blocks.values().sum()
    }

    /// The level with most live blocks, if any block is live.
    pub fn main_level(&self) -> Option<u8> {
        self.live_blocks.iter().max_by_key(|(_, blocks)| **blocks).map(|(level, _)| *level)
    }
}

impl Scene {
    /// The scene before the first frame.
    pub fn new(head: Head) -> Scene {
        let zones = (0..head.zone_count).map(|zone| ZoneChange { zone, ..ZoneChange::default() });
        Scene { zones: zones.collect(), head, ..Scene::default() }
    }

    /// Applies the next frame.
    pub fn apply(&mut self, frame: &Frame) {
        for file in &frame.files {
            if file.is_gone {
                self.files.remove(&file.name);
            } else {
                self.files.insert(file.name.clone(), file.clone());
            }
        }
        for zone in &frame.zones {
            if let Some(known) = self.zones.get_mut(zone.zone as usize) {
                *known = *zone;
            }
        }
        for gap in &frame.gaps {
            match gap.len_blocks {
                0 => self.gaps.remove(&gap.start_block),
                _ => self.gaps.insert(gap.start_block, *gap),
            };
        }
        self.before = std::mem::replace(&mut self.last, frame.clone());
        self.frame_count += 1;
    }

    /// Applies `line` to the scene of its store; a head begins a new one.
    pub fn apply_to(scenes: &mut BTreeMap<u32, Scene>, line: &Line) {
        match line {
            Line::Head(head) => {
                scenes.insert(head.id, Scene::new((**head).clone()));
            }
            Line::Frame(frame) => {
                if let Some(scene) = scenes.get_mut(&frame.id) {
                    scene.apply(frame);
                }
            }
        }
    }

    /// The drive in at most `count_max` cells of equal length: whole zones where it has zones.
    pub fn cells(&self, count_max: u64) -> Vec<Cell> {
        let len = self.head.len_blocks.max(1);
        let unit = if self.zones.is_empty() { 1 } else { self.head.zone_len_blocks.max(1) };
        let per_cell = len.div_ceil(unit).div_ceil(count_max.max(1)).max(1) * unit;
        let mut cells: Vec<Cell> = (0..len.div_ceil(per_cell))
            .map(|at| Cell {
                start_block: at * per_cell,
                len_blocks: per_cell.min(len - at * per_cell),
                ..Cell::default()
            })
            .collect();
        let mut each_part = |start: u64, part_len: u64, add: &mut dyn FnMut(&mut Cell, u64)| {
            let end = start.saturating_add(part_len).min(len);
            let mut at = start;
            while at < end {
                let index = at / per_cell;
                let part = end.min((index + 1) * per_cell) - at;
                if let Some(cell) = cells.get_mut(index as usize) {
                    add(cell, part);
                }
                at += part;
            }
        };
        for file in self.files.values().filter(|file| !file.is_on_flash) {
            for &(start, extent_len) in &file.extents {
                each_part(start, extent_len, &mut |cell, part| {
                    *cell.live_blocks.entry(file.level).or_default() += part;
                });
            }
        }
        if !self.gaps.is_empty() {
            // What is neither free nor the catalog's was written.
            each_part(0, len, &mut |cell, part| cell.written_blocks = part);
            let catalog = self.head.catalog.iter().copied();
            let gaps = self.gaps.values().map(|gap| (gap.start_block, gap.len_blocks));
            for (start, part_len) in gaps.chain(catalog) {
                each_part(start, part_len, &mut |cell, part| {
                    cell.written_blocks = cell.written_blocks.saturating_sub(part);
                });
            }
            for gap in self.gaps.values() {
                let guard = gap.guard_blocks.min(gap.len_blocks);
                let start = gap.start_block.saturating_add(gap.len_blocks - guard);
                each_part(start, guard, &mut |cell, part| cell.guard_blocks += part);
            }
        }
        for zone in &self.zones {
            let start = u64::from(zone.zone) * self.head.zone_len_blocks;
            if let Some(cell) = cells.get_mut((start / per_cell) as usize) {
                cell.written_blocks = cell.written_blocks.saturating_add(zone.written_blocks);
            }
        }
        for cell in &mut cells {
            cell.written_blocks = cell.written_blocks.max(cell.all_live_blocks());
        }
        cells
    }
}
