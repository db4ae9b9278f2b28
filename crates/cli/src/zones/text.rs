//! The zone map as text: three lines for each row of zones, for state, fill and content.
//!
//! ```text
//!     0  state  CF o . . .      C conventional, F full, o open, c closed, . empty
//!        fill   ▃█ ▅            the written part of the zone, in eighths
//!        holds  k1 L            the level of most live data; L log, d block device, k catalog, x only dead data
//! ```

use super::{Cell, CellState, Content, ZoneMap};
use crate::output::Table;
use imbrex_disk::ByteSize;

/// Cells in a row; with the label a row fits into 80 columns.
const ROW_CELL_COUNT: usize = 64;

/// The most cells that are still readable as text.
pub(crate) const CELL_COUNT_MAX: usize = 64 * 16;

/// The map, its key and a table of the space's use.
pub(crate) fn draw(map: &ZoneMap) -> String {
    let mut text = format!("{}\n", map.headline());
    if let Some(cell) = map.cells.first().filter(|cell| cell.zone_count > 1) {
        text.push_str(&format!("each column is {} zones\n", cell.zone_count));
    }
    let mut rows = map.cells.chunks(ROW_CELL_COUNT).peekable();
    while let Some(row) = rows.next() {
        let Some(first) = row.first() else { continue };
        if is_blank(row) {
            // Consecutive rows of empty zones become one line.
            let mut last = row.last().unwrap_or(first);
            while let Some(next) = rows.next_if(|row| is_blank(row)) {
                last = next.last().unwrap_or(last);
            }
            let end = last.zone + last.zone_count - 1;
            text.push_str(&format!("\n{:>6}  to {end}: empty\n", first.zone));
            continue;
        }
        for (label, line) in [
            (format!("{:>6}  state  ", first.zone), row.iter().map(state_char).collect::<String>()),
            ("        fill   ".to_owned(), row.iter().map(fill_char).collect()),
            ("        holds  ".to_owned(), row.iter().map(content_char).collect()),
        ] {
            text.push('\n');
            text.push_str(format!("{label}{line}").trim_end());
        }
        text.push('\n');
    }
    text.push_str(
        "\nstate  C conventional  S shingled  I interlaced  . empty  o open  c closed  F full  \
         R read-only  X offline\n\
         holds  0-9 level of most live data  L log  d device  k catalog  x only dead data\n\n",
    );
    text.push_str(&use_table(map));
    text
}

/// Whether all zones of the row are empty.
fn is_blank(row: &[Cell]) -> bool {
    row.iter()
        .all(|cell| cell.state == CellState::Empty && cell.written_bytes == 0 && !cell.has_catalog)
}

fn state_char(cell: &Cell) -> char {
    match cell.state {
        CellState::Conventional => 'C',
        CellState::Shingled => 'S',
        CellState::Interlaced => 'I',
        CellState::Empty => '.',
        CellState::Open => 'o',
        CellState::Closed => 'c',
        CellState::Full => 'F',
        CellState::ReadOnly => 'R',
        CellState::Offline => 'X',
    }
}

fn fill_char(cell: &Cell) -> char {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let capacity_bytes = cell.capacity_bytes.max(1);
    // Rounded up, so that a zone with one written block does not look empty.
    let eighths = (cell.written_bytes * 8).div_ceil(capacity_bytes).min(8);
    EIGHTHS[eighths as usize]
}

fn content_char(cell: &Cell) -> char {
    match cell.main_content() {
        Some(Content::Level(level)) => char::from_digit(u32::from(level.min(9)), 10).unwrap_or('9'),
        Some(Content::Log) => 'L',
        Some(Content::Device) => 'd',
        Some(Content::Checkpoint) => 'k',
        None if cell.has_catalog => 'k',
        None if cell.written_bytes == 0 => ' ',
        None => 'x',
    }
}

/// The use of the drive's space, by content.
fn use_table(map: &ZoneMap) -> String {
    let capacity_bytes = map.capacity_bytes();
    let mut table = Table::new(&["use", "bytes", "share"]);
    let mut row = |name: String, bytes: u64| {
        let share = 100.0 * bytes as f64 / capacity_bytes.max(1) as f64;
        table.row(vec![name, ByteSize(bytes).to_string(), format!("{share:.1} %")]);
    };
    let mut used_bytes = map.dead_bytes();
    for (content, bytes) in map.live_bytes() {
        used_bytes += bytes;
        row(content.name(), bytes);
    }
    row("dead".to_owned(), map.dead_bytes());
    row("not written".to_owned(), capacity_bytes.saturating_sub(used_bytes));
    row("all".to_owned(), capacity_bytes);
    table.text()
}
