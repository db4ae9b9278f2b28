//! The blocks that a trace touches, found by reading it once.

use super::options::{ReplayOptions, ReplayUnit};
use crate::error::BenchError;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba};
use imbrex_translate::EvictionOrder;
use imbrex_translate::model::Regions;
use imbrex_workload::trace::{TraceError, TraceOp, TraceReader, TraceRequest, TraceSource};
use serde::Serialize;

/// A description of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// Requests.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The arrival of the last request.
    pub duration_ns: u64,
    /// Distinct blocks, in bytes.
    pub footprint_bytes: u64,
    /// The shift of all offsets, so that most requests start at a block.
    pub shift_bytes: u64,
    /// Lines or records that were neither reads nor writes.
    pub skipped: u64,
    /// Requests that are out of order in the file.
    pub late: u64,
}

/// The place of the trace's blocks on the device.
#[derive(Debug)]
pub(super) struct Plan {
    /// `(first block of the trace, first block of the device)`, ascending; empty if blocks keep
    /// their place.
    moves: Vec<(u64, u64)>,
    /// The number of blocks that the device needs.
    pub(super) len: u64,
    /// The blocks that are read before they are written, on the device.
    pub(super) prefill: Vec<BlockRange>,
}

impl Plan {
    /// The place of a block of the trace.
    pub(super) fn place(&self, block: u64) -> u64 {
        let behind = self.moves.partition_point(|&(from, _)| from <= block);
        match behind.checked_sub(1).map(|index| self.moves[index]) {
            Some((from, to)) => to + (block - from),
            None => block,
        }
    }
}

/// The number of requests used to find the alignment of the trace.
const SHIFT_REQUEST_COUNT: usize = 20_000;
const SECTOR_LEN_BYTES: u64 = 512;
const SECTORS_PER_BLOCK: usize = BLOCK_LEN_BYTES / SECTOR_LEN_BYTES as usize;

/// The shift of all offsets, if more than half of the requests start at one odd sector of a block.
pub(super) fn shift(trace: TraceReader) -> Result<u64, TraceError> {
    let (mut count, mut at_sector) = (0_u64, [0_u64; SECTORS_PER_BLOCK]);
    for request in trace.take(SHIFT_REQUEST_COUNT) {
        let within = request?.offset_bytes % BLOCK_LEN_BYTES as u64;
        count += 1;
        if within.is_multiple_of(SECTOR_LEN_BYTES) {
            at_sector[(within / SECTOR_LEN_BYTES) as usize] += 1;
        }
    }
    let most = (1..SECTORS_PER_BLOCK).max_by_key(|&sector| at_sector[sector]);
    let found = most.filter(|&sector| count < 2 * at_sector[sector]);
    Ok(found.map_or(0, |sector| (SECTORS_PER_BLOCK - sector) as u64 * SECTOR_LEN_BYTES))
}

/// The blocks that a request touches.
pub(super) fn blocks(request: TraceRequest, shift_bytes: u64, unit: ReplayUnit) -> BlockRange {
    let block = unit.len_bytes();
    let start = (request.offset_bytes + shift_bytes) / block;
    let end = (request.offset_bytes + shift_bytes + request.len_bytes).div_ceil(block);
    BlockRange::new(Lba::new(start), Blocks::new(end - start))
}

/// The interval at which `watch` is called.
const REQUESTS_PER_TICK: u64 = 4096;

pub(super) fn survey(
    options: &ReplayOptions,
    watch: &mut dyn FnMut(u64, Option<u64>) -> bool,
) -> Result<(Survey, Plan), BenchError> {
    let unit = options.unit;
    let shift_bytes = match unit {
        ReplayUnit::Block => shift(options.trace.open()?)?,
        ReplayUnit::Sector => 0,
    };
    let mut trace = options.trace.open()?;
    let mut survey = Survey { shift_bytes, ..Survey::default() };
    let regions = || Regions::new(EvictionOrder::LargestRegion);
    let (mut touched, mut written, mut read_first) = (regions(), regions(), regions());
    for request in trace.by_ref() {
        if options.request_count_max <= survey.requests {
            break;
        }
        let request = request?;
        if survey.requests.is_multiple_of(REQUESTS_PER_TICK) && !watch(0, None) {
            return Err(BenchError::Stopped);
        }
        survey.requests += 1;
        survey.duration_ns = request.at_ns;
        let range = blocks(request, shift_bytes, unit);
        touched.insert(range);
        match request.op {
            TraceOp::Write => {
                survey.written_bytes += request.len_bytes;
                written.insert(range);
            }
            TraceOp::Read => {
                survey.read_bytes += request.len_bytes;
                let held: Vec<BlockRange> = written.within(range).collect();
                let ends = held.iter().map(|run| run.start).chain([range.end()]);
                let starts = [range.start].into_iter().chain(held.iter().map(|run| run.end()));
                for (start, end) in starts.zip(ends).filter(|(start, end)| start < end) {
                    read_first.insert(BlockRange::new(start, end - start));
                }
            }
        }
    }
    if survey.requests == 0 {
        let message = format!("{} has no reads and no writes", options.trace);
        return Err(BenchError::Options(message));
    }
    (survey.skipped, survey.late) = (trace.skipped_count(), trace.late_count());
    survey.footprint_bytes = unit.bytes(touched.total());
    let mut plan = Plan { moves: Vec::new(), len: 0, prefill: Vec::new() };
    if let TraceSource::Synthetic { shape, .. } = &options.trace {
        plan.len = unit.holding(shape.end_bytes()).get();
        plan.prefill = vec![BlockRange::new(Lba::new(0), Blocks::new(plan.len))];
        return Ok((survey, plan));
    }
    for region in touched.iter() {
        if options.squeezes {
            plan.moves.push((region.start.get(), plan.len));
            // One further block keeps separate ranges separate.
            plan.len += region.len.get() + 1;
        } else {
            plan.len = region.end().get();
        }
    }
    let on_device =
        |run: BlockRange| BlockRange::new(Lba::new(plan.place(run.start.get())), run.len);
    plan.prefill = read_first.iter().map(on_device).collect();
    Ok((survey, plan))
}
