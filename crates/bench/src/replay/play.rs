//! The replay itself: drive, device, requests.

use super::options::{ReplayOptions, ReplayUnit};
use super::report::{BareReport, BytesWritten, ReplayReport, RequestFigures, TableFigures};
use super::survey::{Plan, Survey, blocks};
use crate::emulated::{DriveRule, DriveSpec, drive_in_parts};
use crate::error::BenchError;
use crate::latency::Latencies;
use imbrex_clockwork::{Order, Runtime};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba, Persist};
use imbrex_translate::model::{
    POOL_ZONE_COUNT_MIN, SPARE_ZONE_COUNT_MIN, SectorRange, TableMapping, spare_zone_count,
    zone_data_len,
};
use imbrex_translate::{BlockDriver, DriverCounters, DriverError, DriverOptions};
use imbrex_workload::trace::{TraceOp, TraceReader, TraceRequest};
use std::num::NonZeroU64;
use std::sync::Arc;

/// The interval at which `watch` is called.
const REQUESTS_PER_TICK: u64 = 256;
/// Entry lengths of the mapping tables for comparison.
const ENTRY_SECTORS: [u64; 3] = [1, 10, 100];
/// The unit of writes before the clock starts.
const PREFILL_LEN: u64 = 1024;
/// The largest number of zones: with 256 MiB each, 256 TiB.
const DRIVE_ZONE_COUNT_MAX: u64 = 1 << 20;

pub(super) fn play(
    trace: TraceReader,
    survey: Survey,
    plan: &Plan,
    options: &ReplayOptions,
    watch: &mut dyn FnMut(u64, Option<u64>) -> bool,
) -> Result<ReplayReport, BenchError> {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let sizes = Sizes::of(plan, options)?;
    let mut goes_on = || watch(0, Some(survey.requests));
    let driver = make(&runtime, &sizes, plan, options, &mut goes_on)?;
    let device_len = driver.geometry().len().get();
    if device_len < plan.len {
        return Err(BenchError::Options(format!(
            "the trace addresses {} bytes, and the device over this drive has {}; pass a larger \
             --drive-size, or --squeeze to leave out what is never touched",
            options.unit.bytes(Blocks::new(plan.len)),
            options.unit.bytes(Blocks::new(device_len))
        )));
    }
    let before = driver.driver_counters();
    let driver = Arc::new(driver);
    let device = Arc::clone(&driver) as Arc<dyn Disk>;
    let mut player = Player::new(runtime, device, survey.shift_bytes, plan, options);
    player.driver = Some(driver);
    player.tables = tables(device_len, options.unit);
    let is_complete = player.play(trace, survey.requests, watch)?;
    player.count_evictions();
    Ok(player.report(is_complete, survey, &sizes, before))
}

pub(super) fn play_bare(
    trace: TraceReader,
    survey: &Survey,
    plan: &Plan,
    options: &ReplayOptions,
    watch: &mut dyn FnMut(u64, Option<u64>) -> bool,
) -> Result<BareReport, BenchError> {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let Sizes { drive_bytes, drive_len, .. } = Sizes::of(plan, options)?;
    let spec = DriveSpec::whole(options.profile, DriveRule::Conventional, drive_len.bytes());
    let device =
        drive_in_parts(&spec, options.unit.part_count(), options.unpacked_bytes, &runtime)?;
    fill(&*device, plan, &mut || watch(0, Some(survey.requests)))?;
    device.flush().map_err(disk_error("filling"))?;
    let mut player = Player::new(runtime, device, survey.shift_bytes, plan, options);
    let is_complete = player.play(trace, survey.requests, watch)?;
    Ok(BareReport { is_complete, drive_bytes, requests: player.figures() })
}

/// The lengths of the device and the drive.
struct Sizes {
    journal_zone_count: u64,
    /// In blocks of the driver, whatever they stand for.
    drive_len: Blocks,
    zone_len: Blocks,
    /// What these stand for.
    drive_bytes: u64,
    prefilled_bytes: u64,
}

impl Sizes {
    fn of(plan: &Plan, options: &ReplayOptions) -> Result<Sizes, BenchError> {
        let unit = options.unit;
        let zone_len = unit.holding(options.zone_len_bytes).get();
        let buffer_len = unit.holding(options.buffer_bytes).get();
        let journal_len = options.journal_bytes.map(|bytes| unit.holding(bytes).get());
        let journal_len = journal_len.unwrap_or(2 * buffer_len);
        let journal_zone_count = journal_len.div_ceil(zone_len).max(4);
        let used = plan.len.div_ceil(zone_data_len(Blocks::new(zone_len)).get()).max(1);
        let spare = 100 - options.fill_percent;
        let by_share = (used * 100).div_ceil(options.fill_percent) + 1;
        let data = by_share.max(used + SPARE_ZONE_COUNT_MIN).max(POOL_ZONE_COUNT_MIN);
        // The driver rounds its share down, so one further zone is always enough.
        let data = if data * spare / 100 + used > data { data + 1 } else { data };
        let driver = DriverOptions {
            journal_zone_count: u32::try_from(journal_zone_count).unwrap_or(u32::MAX),
            cleaning: options.cleaning,
            spare_percent: spare,
            ..DriverOptions::default()
        };
        // With few spare zones and a long map, the driver keeps more.
        let is_enough = |&data: &u64| {
            let (zone_len, drive_len) =
                (Blocks::new(zone_len), (data + journal_zone_count) * zone_len);
            let spare = spare_zone_count(data, zone_len, Blocks::new(drive_len), &driver);
            used + spare <= data
        };
        let data = (data..).find(is_enough).unwrap_or(data);
        let asked = options.drive_len_bytes.map(|bytes| unit.holding(bytes).get() / zone_len);
        let zone_count = asked.unwrap_or(data + journal_zone_count);
        if zone_count > DRIVE_ZONE_COUNT_MAX {
            return Err(BenchError::Options(format!(
                "a drive for this has {zone_count} zones, and {DRIVE_ZONE_COUNT_MAX} are the most; \
                 pass a larger --zone-len or a smaller --buffer, or --squeeze to leave out addresses \
                 that the trace never touches"
            )));
        }
        let drive_len = Blocks::new(zone_count * zone_len);
        Ok(Sizes {
            journal_zone_count,
            drive_len,
            zone_len: Blocks::new(zone_len),
            drive_bytes: unit.bytes(drive_len),
            prefilled_bytes: plan.prefill.iter().map(|run| unit.bytes(run.len)).sum(),
        })
    }
}

/// A device on a new drive, with the data that the trace expects.
fn make(
    runtime: &Runtime,
    sizes: &Sizes,
    plan: &Plan,
    options: &ReplayOptions,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<BlockDriver, BenchError> {
    let rule = DriveRule::Zoned { zone_len_bytes: sizes.zone_len.bytes() };
    let spec = DriveSpec::whole(options.profile, rule, sizes.drive_len.bytes());
    let disk = drive_in_parts(&spec, options.unit.part_count(), options.unpacked_bytes, runtime)?;
    let failed = |source: DriverError| BenchError::Driver { source };
    let unbuffered = DriverOptions {
        id: 1,
        buffer_len: Blocks::new(1),
        bypass_len: Blocks::new(1),
        eviction: options.eviction,
        cleaning: options.cleaning,
        journal_zone_count: u32::try_from(sizes.journal_zone_count).unwrap_or(u32::MAX),
        spare_percent: 100 - options.fill_percent,
        ..DriverOptions::default()
    };
    let driver = match BlockDriver::format(Arc::clone(&disk), &unbuffered) {
        Err(error @ DriverError::TooSmall { .. }) if options.drive_len_bytes.is_some() => {
            return Err(BenchError::Options(format!("{error}; pass a larger --drive-size")));
        }
        made => made.map_err(failed)?,
    };
    fill(&driver, plan, goes_on)?;
    driver.checkpoint().map_err(disk_error("filling"))?;
    drop(driver);
    let mut wanted = DriverOptions { lists_evictions: true, ..unbuffered };
    if options.buffer_bytes > 0 {
        wanted.buffer_len = options.unit.holding(options.buffer_bytes);
        wanted.bypass_len = options.unit.holding(DriverOptions::default().bypass_len.bytes());
    }
    BlockDriver::open(disk, &wanted).map_err(failed)
}

/// Writes the data that the trace expects.
fn fill(
    device: &dyn Disk,
    plan: &Plan,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(), BenchError> {
    let device_len = device.geometry().len();
    let mut buf = Vec::new();
    for run in plan.prefill.iter().filter(|run| run.end().get() <= device_len.get()) {
        let mut done = 0;
        while done < run.len.get() {
            if !goes_on() {
                return Err(BenchError::Stopped);
            }
            let len = (run.len.get() - done).min(PREFILL_LEN);
            let range = BlockRange::new(run.start + Blocks::new(done), Blocks::new(len));
            let marked = mark(&mut buf, range);
            device.write(range.start, marked, Persist::Cached).map_err(disk_error("filling"))?;
            done += len;
        }
    }
    Ok(())
}

fn disk_error(what: &str) -> impl FnOnce(DiskError) -> BenchError + '_ {
    move |source| BenchError::Disk { what: format!("{what} the block device"), source }
}

/// As many bytes of `buf` as `range` has. The buffer never shrinks, so that bytes are zeroed once and not for
/// every request.
fn part_of(buf: &mut Vec<u8>, range: BlockRange) -> &mut [u8] {
    let len_bytes = range.len.bytes() as usize;
    if buf.len() < len_bytes {
        buf.resize(len_bytes, 0);
    }
    &mut buf[..len_bytes]
}

/// Blocks that contain their own number, and zeros: `buf` holds nothing but blocks of this kind.
fn mark(buf: &mut Vec<u8>, range: BlockRange) -> &[u8] {
    let marked = part_of(buf, range);
    for (block, lba) in marked.chunks_exact_mut(BLOCK_LEN_BYTES).zip(range.start.get()..) {
        block[..8].copy_from_slice(&(lba + 1).to_le_bytes());
    }
    marked
}

/// Fails if a block is not the requested one; a blank block is valid if `may_be_blank`.
fn check(buf: &[u8], start: Lba, may_be_blank: bool) -> Result<(), BenchError> {
    for (block, at) in buf.chunks_exact(BLOCK_LEN_BYTES).zip(start.get()..) {
        let mut mark = [0; 8];
        mark.copy_from_slice(&block[..8]);
        let got = u64::from_le_bytes(mark);
        if got != at + 1 && !(may_be_blank && got == 0) {
            return Err(BenchError::WrongData { at, got });
        }
    }
    Ok(())
}

/// The sectors of a run of blocks.
fn sectors(run: BlockRange, unit: ReplayUnit) -> SectorRange {
    match unit {
        ReplayUnit::Block => SectorRange::from(run),
        ReplayUnit::Sector => SectorRange { start: run.start.get(), len: run.len.get() },
    }
}

fn tables(device_len: u64, unit: ReplayUnit) -> Vec<(TableMapping, TableFigures)> {
    let sectors = sectors(BlockRange::new(Lba::new(0), Blocks::new(device_len)), unit).len;
    let entries = ENTRY_SECTORS.iter().filter_map(|&entry| NonZeroU64::new(entry));
    let table = |entry: NonZeroU64| {
        let table = TableMapping::new(sectors, entry);
        let figures = TableFigures {
            entry_sectors: entry.get(),
            evicted_sectors: 0,
            written_sectors: 0,
            memory_bytes: table.memory_bytes(),
        };
        (table, figures)
    };
    entries.map(table).collect()
}

struct Player<'a> {
    runtime: Runtime,
    /// What the requests go to.
    device: Arc<dyn Disk>,
    /// The same, unless it is the bare drive.
    driver: Option<Arc<BlockDriver>>,
    start_ns: u64,
    shift_bytes: u64,
    plan: &'a Plan,
    options: &'a ReplayOptions,
    buf: Vec<u8>,
    tables: Vec<(TableMapping, TableFigures)>,
    /// The end of the last evicted run, which the next run may continue.
    last_evicted: Option<BlockRange>,
    read_latencies: Latencies,
    write_latencies: Latencies,
    reads: u64,
    writes: u64,
    read_bytes: u64,
    written_bytes: u64,
    edge_blocks: u64,
    write_stall_ns_max: u64,
}

impl<'a> Player<'a> {
    /// A player of requests to `device`, which begins now.
    fn new(
        runtime: Runtime,
        device: Arc<dyn Disk>,
        shift_bytes: u64,
        plan: &'a Plan,
        options: &'a ReplayOptions,
    ) -> Player<'a> {
        Player {
            start_ns: runtime.clock.now_ns(),
            runtime,
            device,
            driver: None,
            shift_bytes,
            plan,
            options,
            buf: Vec::new(),
            tables: Vec::new(),
            last_evicted: None,
            read_latencies: Latencies::new(),
            write_latencies: Latencies::new(),
            reads: 0,
            writes: 0,
            read_bytes: 0,
            written_bytes: 0,
            edge_blocks: 0,
            write_stall_ns_max: 0,
        }
    }

    /// Issues `count` requests; returns whether all were issued.
    fn play(
        &mut self,
        trace: TraceReader,
        count: u64,
        watch: &mut dyn FnMut(u64, Option<u64>) -> bool,
    ) -> Result<bool, BenchError> {
        for (done, request) in (0..count).zip(trace) {
            if done.is_multiple_of(REQUESTS_PER_TICK) && !watch(done, Some(count)) {
                return Ok(false);
            }
            self.request(request?)?;
        }
        Ok(true)
    }

    fn now_ns(&self) -> u64 {
        self.runtime.clock.now_ns()
    }

    fn request(&mut self, request: TraceRequest) -> Result<(), BenchError> {
        let after_ns = u128::from(request.at_ns) * u128::from(self.options.time_percent) / 100;
        // As late as possible, while the next time still fits.
        let after_ns = u64::try_from(after_ns).unwrap_or(u64::MAX).min(u64::MAX / 2);
        let arrival_ns = if self.options.is_closed_loop {
            self.now_ns()
        } else {
            self.start_ns.saturating_add(after_ns)
        };
        while self.now_ns() < arrival_ns {
            if !self.device.work().map_err(disk_error("working on"))? {
                self.runtime.clock.advance_to_ns(arrival_ns);
            }
        }
        let in_trace = blocks(request, self.shift_bytes, self.options.unit);
        let start = Lba::new(self.plan.place(in_trace.start.get()));
        let range = BlockRange::new(start, in_trace.len);
        let begin_ns = self.now_ns();
        match request.op {
            TraceOp::Read => {
                self.reads += 1;
                self.read_bytes += self.options.unit.bytes(range.len);
                self.read(range, false)?;
                self.read_latencies.record(self.now_ns() - arrival_ns);
            }
            TraceOp::Write => {
                self.writes += 1;
                self.written_bytes += self.options.unit.bytes(range.len);
                self.read_edges(request, range)?;
                let through = self.options.writes_through;
                let persist = if through { Persist::Through } else { Persist::Cached };
                let written = self.device.write(range.start, mark(&mut self.buf, range), persist);
                written.map_err(disk_error("writing to"))?;
                self.write_latencies.record(self.now_ns() - arrival_ns);
                self.write_stall_ns_max = self.write_stall_ns_max.max(self.now_ns() - begin_ns);
                self.count_evictions();
            }
        }
        Ok(())
    }

    fn read(&mut self, range: BlockRange, may_be_blank: bool) -> Result<(), BenchError> {
        let read = part_of(&mut self.buf, range);
        self.device.read(range.start, read).map_err(disk_error("reading"))?;
        check(read, range.start, may_be_blank)
    }

    /// Reads the blocks that a write covers only in part.
    fn read_edges(&mut self, request: TraceRequest, range: BlockRange) -> Result<(), BenchError> {
        let block = self.options.unit.len_bytes();
        let first = request.offset_bytes + self.shift_bytes;
        let head = !first.is_multiple_of(block);
        let tail = !(first + request.len_bytes).is_multiple_of(block);
        let last = Lba::new(range.end().get() - 1);
        let wanted = [head.then_some(range.start), tail.then_some(last)];
        let is_same = head && tail && range.len.get() == 1;
        for at in wanted.into_iter().flatten().take(if is_same { 1 } else { 2 }) {
            self.edge_blocks += 1;
            self.read(BlockRange::new(at, Blocks::new(1)), true)?;
        }
        Ok(())
    }

    /// Counts what the mapping tables would have written for the evicted run.
    fn count_evictions(&mut self) {
        let Some(driver) = &self.driver else { return };
        let mut last = self.last_evicted;
        for piece in driver.take_evictions() {
            last = match last {
                Some(run) if run.end() == piece.start => {
                    Some(BlockRange::new(run.start, run.len + piece.len))
                }
                Some(run) => {
                    self.count_run(run);
                    Some(piece)
                }
                None => Some(piece),
            };
        }
        self.last_evicted = last;
    }

    fn count_run(&mut self, run: BlockRange) {
        let sectors = sectors(run, self.options.unit);
        for (table, figures) in &mut self.tables {
            figures.evicted_sectors += sectors.len;
            figures.written_sectors += table.evict(sectors).written.len;
        }
    }

    /// How the requests were served so far.
    fn figures(&self) -> RequestFigures {
        RequestFigures {
            reads: self.reads,
            read_bytes: self.read_bytes,
            writes: self.writes,
            written_bytes: self.written_bytes,
            edge_blocks: self.edge_blocks,
            elapsed_ns: self.now_ns() - self.start_ns,
            read_latency: self.read_latencies.summary(),
            write_latency: self.write_latencies.summary(),
            write_stall_ns_max: self.write_stall_ns_max,
        }
    }

    fn report(
        mut self,
        is_complete: bool,
        survey: Survey,
        sizes: &Sizes,
        before: DriverCounters,
    ) -> ReplayReport {
        if let Some(run) = self.last_evicted.take() {
            self.count_run(run);
        }
        let driver = self.driver.as_ref().expect("only a bare drive has no driver");
        let now = driver.driver_counters();
        let unit = self.options.unit;
        let bytes = |now: u64, before: u64| unit.bytes(Blocks::new(now - before));
        let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
        let timely_cleanings = now.timely_cleanings - before.timely_cleanings;
        ReplayReport {
            is_complete,
            survey,
            device_bytes: unit.bytes(self.device.geometry().len()),
            drive_bytes: sizes.drive_bytes,
            prefilled_bytes: sizes.prefilled_bytes,
            requests: self.figures(),
            journal_evicted_bytes: bytes(now.journal_evicted_blocks, before.journal_evicted_blocks),
            written: BytesWritten {
                host_bytes: bytes(now.host_blocks, before.host_blocks),
                journal_bytes: bytes(now.journal_blocks, before.journal_blocks),
                evicted_bytes: bytes(
                    now.evicted_blocks + now.bypassed_blocks,
                    before.evicted_blocks + before.bypassed_blocks,
                ),
                moved_bytes: bytes(now.moved_blocks, before.moved_blocks),
                checkpoint_bytes: bytes(now.checkpoint_blocks, before.checkpoint_blocks),
                summary_bytes: bytes(now.summary_blocks, before.summary_blocks),
            },
            mapping_nodes: now.mapping_nodes,
            mapping_bytes: now.mapping_bytes,
            timely_cleanings,
            urgent_cleanings: now.urgent_cleanings - before.urgent_cleanings,
            merged_nodes_mean: share(now.merged_nodes - before.merged_nodes, timely_cleanings),
            garbage_percent: 100.0
                * share(
                    now.cleaned_garbage_blocks - before.cleaned_garbage_blocks,
                    now.cleaned_written_blocks - before.cleaned_written_blocks,
                ),
            tables: self.tables.into_iter().map(|(_, figures)| figures).collect(),
        }
    }
}
