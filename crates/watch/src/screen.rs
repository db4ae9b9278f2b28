//! The screen: a scene as lines of a terminal, with or without colours.
//!
//! ```text
//!   imbrex-zones  8.00 GiB, 512 zones of 16 MiB                                  12.3 s
//!   5 123 writes/s   20.0 MiB/s of the user   amplification 3.12 without log, 4.15 with
//!   drive busy 98 %: seek 41 %, turn 22 %, transfer 33 %, electronics 2 %
//!   of that for compaction 71 %, flush 15 %, log 9 %, catalog 3 %
//!   live 5.1 GiB, dead 0.8 GiB, free 2.1 GiB, 14 zones open
//!      0  000000111111112222222...LL                                 one cell is 1 zone
//!   ...
//! ```
//!
//! A cell is a character: the level with most live data (`L` a log), in the level's colour, dim when less than half of
//! what is written there lives; `-` only dead data, `|` mostly a guard, `.` nothing written. The cell with the head is reversed.

use crate::frame::{Frame, StoreTotals};
use crate::scene::{Cell, Scene};
use imbrex_disk::{BLOCK_LEN_BYTES, ByteSize};
use std::fmt::Write;

/// The size of a terminal, and whether it shows colours.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Columns.
    pub columns: usize,
    /// Lines.
    pub lines: usize,
    /// Whether escape sequences for colours are written.
    pub has_colours: bool,
}

const LABEL_LEN: usize = 8;
const LOG_LEVEL: u8 = u8::MAX;

/// The scene in at most `terminal.lines` lines, none longer than `terminal.columns` characters.
pub fn draw(scene: &Scene, terminal: Terminal) -> Vec<String> {
    let mut lines = head_lines(scene);
    let tail = tail_lines(scene);
    let map_lines = terminal.lines.saturating_sub(lines.len() + tail.len() + 1).max(1);
    let mut lines: Vec<String> = lines.drain(..).map(|line| cut(&line, terminal.columns)).collect();
    lines.extend(map(scene, terminal, map_lines));
    lines.extend(tail.iter().map(|line| cut(line, terminal.columns)));
    lines.truncate(terminal.lines);
    lines
}

/// The start of a line. Names and plans come from a file: what would steer the terminal, or turn its text around,
/// becomes a question mark.
fn cut(line: &str, columns: usize) -> String {
    let is_steering = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    line.chars().map(|c| if is_steering(c) { '?' } else { c }).take(columns).collect()
}

/// What changed per second between the two newest frames.
struct Rates {
    ops_per_s: f64,
    bytes_per_s: f64,
    busy: [f64; 4],
    busy_share: f64,
}

fn rates(frame: &Frame, before: &Frame) -> Rates {
    let seconds = (frame.at_ns.saturating_sub(before.at_ns)) as f64 / 1e9;
    let per_s = |now: u64, then: u64| match seconds {
        s if s > 0.0 => now.saturating_sub(then) as f64 / s,
        _ => 0.0,
    };
    let (drive, old) = (frame.drive, before.drive);
    let busy_ns = drive.busy_ns.saturating_sub(old.busy_ns);
    let parts = [
        drive.seek_ns.saturating_sub(old.seek_ns),
        drive.turn_ns.saturating_sub(old.turn_ns),
        drive.transfer_ns.saturating_sub(old.transfer_ns),
    ];
    let other = parts.iter().fold(busy_ns, |left, part| left.saturating_sub(*part));
    let share = |ns: u64| 100.0 * ns as f64 / busy_ns.max(1) as f64;
    Rates {
        ops_per_s: per_s(frame.store.user_ops, before.store.user_ops),
        bytes_per_s: per_s(frame.store.user_bytes, before.store.user_bytes),
        busy: [share(parts[0]), share(parts[1]), share(parts[2]), share(other)],
        busy_share: per_s(drive.busy_ns, old.busy_ns) / 1e7,
    }
}

fn head_lines(scene: &Scene) -> Vec<String> {
    let (head, frame) = (&scene.head, &scene.last);
    let rates = rates(frame, &scene.before);
    let drive_len = ByteSize(head.len_blocks * BLOCK_LEN_BYTES as u64);
    let zones = match head.zone_count {
        0 if head.band_blocks > 0 => format!(
            "{} bands of {}",
            head.len_blocks / head.band_blocks,
            ByteSize(head.band_blocks * BLOCK_LEN_BYTES as u64)
        ),
        0 => format!("{} tracks", head.rule),
        count => {
            format!("{count} zones of {}", ByteSize(head.zone_len_blocks * BLOCK_LEN_BYTES as u64))
        }
    };
    let at_s = frame.at_ns as f64 / 1e9;
    let StoreTotals { user_bytes, log_bytes, .. } = frame.store;
    let written = frame.drive.written_bytes;
    let ratio = |bytes: u64| match user_bytes {
        0 => "-".to_owned(),
        user => format!("{:.2}", bytes as f64 / user as f64),
    };
    let mut lines = vec![
        format!("{}: {drive_len}, {zones}; at {at_s:.1} s", head.name),
        format!(
            "{:.0} writes/s, {}/s of the user; amplification {} without log, {} with",
            rates.ops_per_s,
            ByteSize(rates.bytes_per_s as u64),
            ratio(written.saturating_sub(log_bytes)),
            ratio(written),
        ),
    ];
    if frame.drive.busy_ns > 0 {
        let [seek, turn, transfer, other] = rates.busy;
        lines.push(format!(
            "drive busy {:.0} %: seek {seek:.0} %, turn {turn:.0} %, transfer {transfer:.0} %, electronics {other:.0} %",
            rates.busy_share.min(100.0)
        ));
        lines.extend(activities(frame, &scene.before));
    }
    let open = scene.zones.iter().filter(|zone| zone.state == crate::ZoneNow::Open).count();
    let open = if head.zone_count == 0 { String::new() } else { format!(", {open} zones open") };
    lines.push(format!(
        "live {}, dead {}, free {}{open}",
        ByteSize(frame.now.live_bytes),
        ByteSize(frame.now.dead_bytes),
        ByteSize(frame.now.free_bytes)
    ));
    lines
}

/// What the drive's time served since the frame before, the largest share first. `None` if nothing is known.
fn activities(frame: &Frame, before: &Frame) -> Option<String> {
    let old = before.drive.activities.each();
    let now = frame.drive.activities.each().into_iter().zip(old);
    let spent = now.map(|((activity, now), (_, old))| {
        (now.busy_ns.saturating_sub(old.busy_ns), activity.name())
    });
    let mut spent: Vec<(u64, &str)> = spent.collect();
    let all_ns = spent.iter().fold(0, |sum: u64, (ns, _)| sum.saturating_add(*ns)).max(1);
    spent.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let percent = |ns: u64| 100.0 * ns as f64 / all_ns as f64;
    let shares = spent.into_iter().filter(|(ns, _)| percent(*ns) >= 0.5);
    let shares: Vec<String> =
        shares.map(|(ns, name)| format!("{name} {:.0} %", percent(ns))).collect();
    (!shares.is_empty()).then(|| format!("of that for {}", shares.join(", ")))
}

fn tail_lines(scene: &Scene) -> Vec<String> {
    let now = &scene.last.now;
    let mut lines = Vec::new();
    for job in &now.running {
        let (done, all) = (ByteSize(job.done_bytes), ByteSize(job.len_bytes));
        lines.push(format!("runs: {done} of {all}: {}", job.plan));
    }
    if let Some(next) = &now.next {
        lines.push(format!("next: {next}"));
    }
    if let Some(wait) = &now.base_merge_waits {
        lines.push(format!("the base merge waits for {wait}"));
    }
    let store = &scene.last.store;
    let waited = [
        (store.stopped, "for a flush, a compaction or space"),
        (store.slowed, "at the pace of compaction"),
        (store.offload, "for the flash drive"),
    ];
    for (stalls, why) in waited.iter().filter(|(stalls, _)| stalls.count > 0) {
        let seconds = stalls.total_ns as f64 / 1e9;
        lines.push(format!("writers waited {} times {why}, {seconds:.1} s together", stalls.count));
    }
    if let Some(note) = &scene.last.note {
        lines.push(format!("* {note}"));
    }
    lines
}

fn map(scene: &Scene, terminal: Terminal, lines: usize) -> Vec<String> {
    let columns = terminal.columns.saturating_sub(LABEL_LEN).max(8);
    let cells = scene.cells((columns * lines) as u64);
    let blocks = cells.first().map_or(1, |cell| cell.len_blocks.max(1));
    let head_at = scene.last.drive.head_block.map(|block| (block / blocks) as usize);
    let unit = scene.head.zone_len_blocks.max(1);
    let rows = cells.chunks(columns).enumerate().map(|(row, cells)| {
        let first = cells.first().map_or(0, |cell| cell.start_block);
        let label = if scene.zones.is_empty() {
            ByteSize(first * BLOCK_LEN_BYTES as u64).to_string()
        } else {
            (first / unit).to_string()
        };
        let mut line = format!("{label:>6}  ");
        for (column, cell) in cells.iter().enumerate() {
            let is_head = head_at == Some(row * columns + column);
            put_cell(&mut line, cell, is_head, terminal.has_colours);
        }
        line
    });
    let mut rows: Vec<String> = rows.collect();
    let per_cell = match scene.zones.is_empty() {
        true => ByteSize(blocks * BLOCK_LEN_BYTES as u64).to_string(),
        false => match blocks / unit {
            1 => "one zone".to_owned(),
            count => format!("{count} zones"),
        },
    };
    let free = if scene.gaps.is_empty() { ". not written" } else { ". free, | guard" };
    let key = format!("a cell is {per_cell}: 0-9 level of most live data, L log, - dead, {free}");
    rows.push(cut(&key, terminal.columns));
    rows
}

fn put_cell(line: &mut String, cell: &Cell, is_head: bool, has_colours: bool) {
    let level = cell.main_level();
    let letter = match level {
        Some(LOG_LEVEL) => 'L',
        Some(level) => char::from(b'0' + level.min(9)),
        None if cell.written_blocks > 0 => '-',
        None if cell.guard_blocks * 2 > cell.len_blocks => '|',
        None => '.',
    };
    if !has_colours {
        line.push(letter);
        return;
    }
    // Colours of 256: warm for young levels, cold for old ones, as in the pictures of zones.
    const COLOURS: [u8; 7] = [167, 208, 178, 71, 37, 68, 97];
    let colour = match level {
        Some(LOG_LEVEL) => 250,
        Some(level) => COLOURS[usize::from(level).min(COLOURS.len() - 1)],
        None => 240,
    };
    let is_dim = level.is_some() && cell.all_live_blocks() * 2 < cell.written_blocks;
    let dim = if is_dim { "2;" } else { "" };
    let reverse = if is_head { "7;" } else { "" };
    let _ = write!(line, "\x1b[{reverse}{dim}38;5;{colour}m{letter}\x1b[0m");
}
