//! Reads the contents of the write buffer back from the journal, in the order in which they lie there.
//!
//! ```text
//!     journal zone   | hdr | aaaa.bb | hdr | .c..dd | hdr | ............................ | hdr | e |
//!     windows        [------- one read -----------]                                           [e]
//! ```
//!
//! Small random writes leave the buffer's blocks scattered over the device and close together in the
//! journal. So a window goes over short gaps: headers, and blocks that were written again since. A
//! disk passes a short gap sooner than it finds the next block after it.
//!
//! Not here: which copies are the newest ones (`replay`).

use super::entries::read_blocks;
use super::error::DriverError;
use super::mapping::MapRun;
use super::replay::lose;
use super::state::DriverState;
use super::step::READ_LEN;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Pba};

/// The longest gap that a read goes over, in blocks: 1 MiB, which a disk passes in half a turn.
const GAP_LEN: u64 = 256;

/// Reads the contents of the write buffer back from the journal. A copy that cannot be read, or has
/// another checksum, is lost.
pub(super) fn load_buffer(state: &mut DriverState) -> Result<(), DriverError> {
    let zones: Vec<_> = state.journal.zones.iter().map(|zone| zone.zone).collect();
    for zone in zones {
        let mut window: Vec<MapRun> = Vec::new();
        let runs: Vec<MapRun> = state.copies.runs_in(zone).flat_map(pieces).collect();
        for run in runs {
            if let (Some(first), Some(last)) = (window.first(), window.last())
                && (READ_LEN < (run.place().end() - first.at).get()
                    || GAP_LEN < (run.at - last.place().end()).get())
            {
                load_window(state, &window)?;
                window.clear();
            }
            window.push(run);
        }
        load_window(state, &window)?;
    }
    Ok(())
}

/// Cuts a run into pieces that one read takes.
fn pieces(run: MapRun) -> impl Iterator<Item = MapRun> {
    (0..run.len.get()).step_by(READ_LEN as usize).map(move |from| {
        let (from, len) = (Blocks::new(from), (run.len.get() - from).min(READ_LEN));
        MapRun { start: run.start + from, at: run.at + from, len: Blocks::new(len) }
    })
}

/// Reads runs that are close together: in one read or, where the medium fails, run by run.
fn load_window(state: &mut DriverState, window: &[MapRun]) -> Result<(), DriverError> {
    let (Some(first), Some(last)) = (window.first(), window.last()) else { return Ok(()) };
    match read_blocks(state, first.at, last.place().end() - first.at)? {
        Some(bytes) => {
            for &run in window {
                let from = (run.at - first.at).bytes() as usize;
                keep(state, run, &bytes[from..from + run.len.bytes() as usize]);
            }
        }
        None => window.iter().try_for_each(|&run| load_run(state, run))?,
    }
    Ok(())
}

/// Reads a run: together, or block by block where the medium fails.
fn load_run(state: &mut DriverState, run: MapRun) -> Result<(), DriverError> {
    match read_blocks(state, run.at, run.len)? {
        Some(bytes) => keep(state, run, &bytes),
        None if run.len == Blocks::new(1) => lose(state, run.range()),
        None => {
            for index in (0..run.len.get()).map(Blocks::new) {
                let (start, at) = (run.start + index, run.at + index);
                load_run(state, MapRun { start, at, len: Blocks::new(1) })?;
            }
        }
    }
    Ok(())
}

/// Puts the blocks of a run that match their checksums into the write buffer.
fn keep(state: &mut DriverState, run: MapRun, bytes: &[u8]) {
    for (index, block) in (0..).map(Blocks::new).zip(bytes.chunks_exact(BLOCK_LEN_BYTES)) {
        let at: Pba = run.at + index;
        let range = BlockRange::new(run.start + index, Blocks::new(1));
        if crc32c::crc32c(block) == state.journal.crc(at) {
            state.buffer.write(range.start, block);
            state.regions.insert(range);
        } else {
            lose(state, range);
        }
    }
}
