//! The zone map as SVG: one tile for each zone, filled from the left like the zone, coloured by level.
//!
//! A few zones get tiles with numbers, many zones get plain tiles with a number for each row. Rows without data become
//! one strip that says what it stands for. Every tile names its zone in a tooltip.
//!
//! A tile of interlaced tracks has two bars: top tracks above, and the bottom tracks that they overlap.

use super::{Cell, CellState, Content, Lane, ZoneMap};
use crate::count::grouped;
use imbrex_disk::ByteSize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The most tiles that viewers still draw quickly.
pub(crate) const CELL_COUNT_MAX: usize = 4096;

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 40.0;
const HEAD_HEIGHT: f64 = 150.0;
const LEGEND_HEIGHT: f64 = 96.0;

/// The size of the tiles, which depends on their number.
struct Grid {
    columns: usize,
    gap: f64,
    height: f64,
    /// Whether a tile has room for words.
    has_words: bool,
}

impl Grid {
    fn for_cells(count: usize) -> Grid {
        match count {
            0..=96 => Grid { columns: 8, gap: 12.0, height: 76.0, has_words: true },
            97..=512 => Grid { columns: 24, gap: 6.0, height: 30.0, has_words: false },
            _ => Grid { columns: 64, gap: 3.0, height: 15.0, has_words: false },
        }
    }

    fn tile_width(&self) -> f64 {
        let columns = self.columns as f64;
        (WIDTH - 2.0 * MARGIN - (columns - 1.0) * self.gap) / columns
    }
}

/// A whole SVG document.
pub(crate) fn draw(map: &ZoneMap, title: &str, subtitle: &str) -> String {
    let grid = Grid::for_cells(map.cells.len());
    let rows = rows(map, &grid);
    let grid_height: f64 = rows.iter().map(|row| row.height(&grid) + grid.gap).sum();
    let height = HEAD_HEIGHT + grid_height + LEGEND_HEIGHT;
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
         width=\"{WIDTH}\" height=\"{height:.0}\" font-family=\"{FONT}\" fill=\"{INK}\">\n\
         <defs><pattern id=\"dead\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#ddd8ce\"/>\
         <rect width=\"2\" height=\"6\" fill=\"#b9b2a4\"/></pattern></defs>\n\
         <rect width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"{PAPER}\"/>\n"
    );
    head(&mut svg, map, title, subtitle);
    let mut y = HEAD_HEIGHT;
    for row in &rows {
        match row {
            Row::Tiles(cells) => {
                if !grid.has_words
                    && let Some(first) = cells.first()
                {
                    row_number(&mut svg, first, y + grid.height / 2.0 + 3.0);
                }
                for (at, cell) in cells.iter().enumerate() {
                    let x = MARGIN + at as f64 * (grid.tile_width() + grid.gap);
                    tile(&mut svg, &grid, cell, x, y);
                }
            }
            Row::Blank { cells, words } => {
                if !grid.has_words
                    && let Some(first) = cells.first()
                {
                    row_number(&mut svg, first, y + STRIP_HEIGHT / 2.0 + 3.0);
                }
                strip(&mut svg, words, y);
            }
        }
        y += row.height(&grid) + grid.gap;
    }
    legend(&mut svg, map, HEAD_HEIGHT + grid_height + 26.0);
    svg.push_str("</svg>\n");
    svg
}

/// So many rows without data, or more, become a strip.
const BLANK_ROWS_MIN: usize = 2;
const STRIP_HEIGHT: f64 = 22.0;

/// A row of the picture.
enum Row<'a> {
    Tiles(&'a [Cell]),
    /// Several rows without data.
    Blank {
        cells: &'a [Cell],
        words: String,
    },
}

impl Row<'_> {
    fn height(&self, grid: &Grid) -> f64 {
        match self {
            Row::Tiles(_) => grid.height,
            Row::Blank { .. } => STRIP_HEIGHT,
        }
    }
}

fn rows<'a>(map: &'a ZoneMap, grid: &Grid) -> Vec<Row<'a>> {
    let per_row = grid.columns;
    let mut rows = Vec::new();
    let mut at = 0;
    while at < map.cells.len() {
        let state = map.cells[at].state;
        let is_blank =
            |cell: &&Cell| cell.state == state && cell.written_bytes == 0 && !cell.has_catalog;
        let blank_count = map.cells[at..].iter().take_while(is_blank).count();
        let ends = at + blank_count == map.cells.len();
        let row_count = if ends { blank_count.div_ceil(per_row) } else { blank_count / per_row };
        if row_count >= BLANK_ROWS_MIN {
            let cells = &map.cells[at..(at + row_count * per_row).min(map.cells.len())];
            rows.push(Row::Blank { cells, words: blank_words(map, cells) });
            at += cells.len();
        } else {
            let end = (at + per_row).min(map.cells.len());
            rows.push(Row::Tiles(&map.cells[at..end]));
            at = end;
        }
    }
    rows
}

/// `zones 1 024 to 55 879: empty, 13.4 TiB`
fn blank_words(map: &ZoneMap, cells: &[Cell]) -> String {
    let (Some(first), Some(last)) = (cells.first(), cells.last()) else { return String::new() };
    let end = last.zone + last.zone_count - 1;
    let len = ByteSize(cells.iter().map(|cell| cell.capacity_bytes).sum());
    let (name, state) = match map.state_counts.is_empty() {
        true => ("slices", "nothing is written"),
        false => ("zones", first.state.name()),
    };
    let number = |zone: u32| grouped(u64::from(zone));
    format!("{name} {} to {}: {state}, {len}", number(first.zone), number(end))
}

/// The number of a row's first zone, left of it.
fn row_number(svg: &mut String, first: &Cell, y: f64) {
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{y:.1}\" font-size=\"9\" fill=\"{MUTED}\" \
         text-anchor=\"end\">{}</text>",
        MARGIN - 5.0,
        first.zone
    );
}

/// The strip that stands for rows without data.
fn strip(svg: &mut String, words: &str, y: f64) {
    let width = WIDTH - 2.0 * MARGIN;
    let _ = write!(
        svg,
        "<rect x=\"{MARGIN}\" y=\"{y:.1}\" width=\"{width}\" height=\"{STRIP_HEIGHT}\" rx=\"4\" \
         fill=\"{UNWRITTEN}\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" fill=\"{MUTED}\">{}</text>\n",
        MARGIN + 10.0,
        y + 15.0,
        escaped(words)
    );
}

const FONT: &str = "'Inter','Segoe UI','DejaVu Sans',sans-serif";
const INK: &str = "#26292e";
const MUTED: &str = "#6f7378";
const PAPER: &str = "#fffdf8";
const UNWRITTEN: &str = "#f0ece3";

/// Young levels have warm colours, old levels cold ones.
fn colour(content: Content) -> &'static str {
    const LEVELS: [&str; 7] =
        ["#d64550", "#ee8434", "#e9b93c", "#5fa777", "#2f8fa8", "#3f67b1", "#6b4fa0"];
    match content {
        Content::Level(level) => LEVELS[usize::from(level).min(LEVELS.len() - 1)],
        Content::Log => "#3b4652",
        Content::Device => "#2f8fa8",
        Content::Checkpoint => "#a08c5b",
    }
}

fn head(svg: &mut String, map: &ZoneMap, title: &str, subtitle: &str) {
    let _ = write!(
        svg,
        "<text x=\"{MARGIN}\" y=\"52\" font-size=\"26\" font-weight=\"600\">{}</text>\n\
         <text x=\"{MARGIN}\" y=\"78\" font-size=\"14\" fill=\"{MUTED}\">{}</text>\n",
        escaped(title),
        escaped(&format!("{subtitle}, {}{}", map.headline(), tile_words(map)))
    );
    let width = WIDTH - 2.0 * MARGIN;
    let _ = writeln!(
        svg,
        "<clipPath id=\"all\"><rect x=\"{MARGIN}\" y=\"98\" width=\"{width}\" height=\"18\" rx=\"4\"/></clipPath>"
    );
    let _ = writeln!(svg, "<g clip-path=\"url(#all)\">");
    let live = map.live_bytes();
    bar(svg, &live, map.dead_bytes(), map.capacity_bytes(), (MARGIN, 98.0, width, 18.0));
    svg.push_str("</g>\n");
    let live_bytes: u64 = live.values().sum();
    let free_bytes = map.capacity_bytes().saturating_sub(live_bytes + map.dead_bytes());
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"135\" font-size=\"12\" fill=\"{MUTED}\">{} live, {} dead, {} \
         not written</text>",
        ByteSize(live_bytes),
        ByteSize(map.dead_bytes()),
        ByteSize(free_bytes)
    );
}

/// What a tile stands for, if that is more than one zone.
fn tile_words(map: &ZoneMap) -> String {
    match map.cells.first() {
        Some(cell) if cell.zone_count > 1 => format!("; a tile is {} zones", cell.zone_count),
        _ => String::new(),
    }
}

/// A bar of `capacity_bytes` at (x, y, width, height): live contents, then dead data, then unwritten space.
fn bar(
    svg: &mut String,
    live_bytes: &BTreeMap<Content, u64>,
    dead_bytes: u64,
    capacity_bytes: u64,
    (x, y, width, height): (f64, f64, f64, f64),
) {
    let scale = width / capacity_bytes.max(1) as f64;
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" \
         fill=\"{UNWRITTEN}\"/>"
    );
    let parts = live_bytes.iter().map(|(content, bytes)| (colour(*content), *bytes));
    let mut at = 0;
    for (fill, len) in parts.chain([("url(#dead)", dead_bytes)]).filter(|(_, len)| *len > 0) {
        // At least half a pixel, so that a sliver stays visible.
        let part = (len as f64 * scale).max(0.5);
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{part:.1}\" height=\"{height}\" \
             fill=\"{fill}\"/>",
            x + at as f64 * scale
        );
        at += len;
    }
}

/// The content of a cell: one bar, or one for top tracks over one for bottom tracks.
fn bars(svg: &mut String, cell: &Cell, (x, y, width, height): (f64, f64, f64, f64)) {
    let Some(lanes) = &cell.lanes else {
        let (dead, capacity) = (cell.dead_bytes(), cell.capacity_bytes);
        return bar(svg, &cell.live_bytes, dead, capacity, (x, y, width, height));
    };
    let lane_height = (height - 1.0) / 2.0;
    // Top tracks are narrower, and lie between the bottom tracks.
    let top = (x + width * 0.05, y, width * 0.9, lane_height);
    bar(svg, &lanes.top.live_bytes, 0, lanes.top.capacity_bytes, top);
    let bottom = (x, y + lane_height + 1.0, width, lane_height);
    bar(svg, &lanes.bottom.live_bytes, 0, lanes.bottom.capacity_bytes, bottom);
}

/// The frame that shows a zone's state: colour, width, dashes.
fn frame(state: CellState) -> (&'static str, f64, &'static str) {
    match state {
        CellState::Conventional => ("#a08c5b", 1.5, ""),
        CellState::Shingled => ("#5b7fa0", 1.5, ""),
        CellState::Interlaced => ("#6f8f5b", 1.5, ""),
        CellState::Empty => ("#dcd6c9", 1.0, ""),
        CellState::Open => ("#1b7f4d", 2.5, ""),
        CellState::Closed => ("#1b7f4d", 1.5, "4 3"),
        CellState::Full => ("#8b8f94", 1.5, ""),
        CellState::ReadOnly => ("#b3541e", 2.0, "2 2"),
        CellState::Offline => ("#c1121f", 2.5, "2 2"),
    }
}

fn tile(svg: &mut String, grid: &Grid, cell: &Cell, x: f64, y: f64) {
    let (width, height) = (grid.tile_width(), grid.height);
    let (stroke, stroke_width, dashes) = frame(cell.state);
    let _ = writeln!(svg, "<g><title>{}</title>", escaped(&tooltip(cell)));
    if grid.has_words {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" rx=\"6\" \
             fill=\"#ffffff\"/>"
        );
        let (inner_x, inner_width) = (x + 10.0, width - 20.0);
        bars(svg, cell, (inner_x, y + 29.0, inner_width, 18.0));
        let _ = write!(
            svg,
            "<text x=\"{inner_x:.1}\" y=\"{:.1}\" font-size=\"13\" font-weight=\"600\">{}</text>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" fill=\"{MUTED}\" \
             text-anchor=\"end\">{}</text>\n",
            y + 20.0,
            zone_numbers(cell),
            x + width - 10.0,
            y + 20.0,
            cell.state.name(),
        );
        let _ = writeln!(
            svg,
            "<text x=\"{inner_x:.1}\" y=\"{:.1}\" font-size=\"11\" fill=\"{MUTED}\">{}</text>",
            y + 64.0,
            contents(cell)
        );
    } else {
        bars(svg, cell, (x, y, width, height));
    }
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" rx=\"{}\" \
         fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{stroke_width}\" \
         stroke-dasharray=\"{dashes}\"/></g>",
        if grid.has_words { 6 } else { 2 }
    );
}

fn zone_numbers(cell: &Cell) -> String {
    match cell.zone_count {
        1 => cell.zone.to_string(),
        count => format!("{}-{}", cell.zone, cell.zone + count - 1),
    }
}

/// `78 % · L1 L2 log`, the largest content first.
fn contents(cell: &Cell) -> String {
    if cell.written_bytes == 0 {
        return if cell.has_catalog { "catalog".to_owned() } else { String::new() };
    }
    let mut parts: Vec<_> = cell.live_bytes.iter().collect();
    parts.sort_by_key(|(content, bytes)| (std::cmp::Reverse(**bytes), **content));
    let mut names: Vec<_> = parts
        .iter()
        .take(4)
        .map(|(content, _)| match content {
            Content::Level(level) => format!("L{level}"),
            other => other.name(),
        })
        .collect();
    if cell.has_catalog && !cell.live_bytes.contains_key(&Content::Checkpoint) {
        names.push("catalog".to_owned());
    }
    if names.is_empty() {
        names.push("dead".to_owned());
    }
    let percent = 100.0 * cell.written_bytes as f64 / cell.capacity_bytes.max(1) as f64;
    format!("{percent:.0} % · {}", names.join(" "))
}

fn tooltip(cell: &Cell) -> String {
    let mut text = format!(
        "zone {}: {}, {} of {} written",
        zone_numbers(cell),
        cell.state.name(),
        ByteSize(cell.written_bytes),
        ByteSize(cell.capacity_bytes)
    );
    for (content, bytes) in &cell.live_bytes {
        let _ = write!(text, ", {} {}", ByteSize(*bytes), content.name());
    }
    if let Some(lanes) = &cell.lanes {
        let live = |lane: &Lane| ByteSize(lane.live_bytes.values().sum());
        let (top, bottom) = (live(&lanes.top), live(&lanes.bottom));
        let _ = write!(text, "; {top} on top tracks, {bottom} on bottom tracks");
    }
    if cell.has_catalog {
        text.push_str(", the catalog");
    }
    text
}

fn legend(svg: &mut String, map: &ZoneMap, y: f64) {
    let mut x = MARGIN;
    let mut item = |svg: &mut String, y: f64, swatch: &str, name: &str, new_row: bool| {
        if new_row {
            x = MARGIN;
        }
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"18\" height=\"12\" rx=\"2\" {swatch}/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\">{name}</text>\n",
            y - 10.0,
            x + 25.0,
            y
        );
        x += 25.0 + 7.2 * name.len() as f64 + 22.0;
    };
    let contents = map.live_bytes();
    for (at, content) in contents.keys().enumerate() {
        let swatch = format!("fill=\"{}\"", colour(*content));
        item(svg, y, &swatch, &content.name(), at == 0);
    }
    item(svg, y, "fill=\"url(#dead)\"", "dead", contents.is_empty());
    item(svg, y, &format!("fill=\"{UNWRITTEN}\" stroke=\"#dcd6c9\""), "not written", false);
    for (at, state) in map.state_counts.keys().enumerate() {
        let (stroke, width, dashes) = frame(*state);
        let swatch = format!(
            "fill=\"#ffffff\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
             stroke-dasharray=\"{dashes}\""
        );
        item(svg, y + 28.0, &swatch, state.name(), at == 0);
    }
}

fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            c if c.is_control() => " ".to_owned(),
            c => c.to_string(),
        })
        .collect()
}
