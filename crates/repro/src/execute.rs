//! Executes one run: a drive in memory, a layout on it, the phases in virtual time.
//!
//! ```text
//!   RunSpec -> drive (profile, rule) -> Layout::format_with(recipe + tune) -> phases -> RunResult
//! ```
//!
//! Values are built so that a memory-backed drive can hold a paper's 100 GB: 16 bytes identify the
//! key and the write, then one byte repeats. The drive's memory compresses data that was not
//! touched for a while, 64 KiB at a time, to about a sixtieth. The tables are not compressed, so
//! the store and the modelled disk move every byte.

mod clients;

use crate::results::{
    LevelState, Milestone, PhaseResult, RunResult, SpaceState, TierState, Totals,
};
use crate::spec::{KEY_LEN_BYTES, LoadOrder, Phase, RunSpec, Tune, Victims};
use imbrex::stack::{Drives, Layout, Recipe, Stack, unit_len};
use imbrex_bench::BenchError;
use imbrex_bench::emulated::{beside, drive};
use imbrex_bench::latency::Latencies;
use imbrex_clockwork::{Clock, Order, Prng, Runtime, VirtualWorld};
use imbrex_disk::{Blocks, Geometry};
use imbrex_engine::tuning::{GearDepth, VictimGrowth, VictimOrder};
use imbrex_engine::{Compression, EngineError, Iter, Keyspace, ReadOptions, WriteOptions};
use imbrex_files::inspect::ZoneUseKind;
use imbrex_files::tiers::TieredFiles;
use imbrex_translate::{ReadBack, Staging};
use imbrex_workload::keys::Permutation;
use imbrex_workload::ycsb::keys::scatter;
use imbrex_workload::ycsb::stream::{YcsbOp, YcsbStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of remembered compactions: all of them.
const LINE_COUNT_MAX: usize = usize::MAX;

/// The interval of progress reports.
const OPS_PER_TICK: u64 = 256;

/// Executes `spec` with `seed`, on a drive in memory with `unpacked_bytes` uncompressed. Updates
/// `ops_done` and polls `is_stopped` along the way.
pub(super) fn execute(
    spec: &RunSpec,
    seed: u64,
    unpacked_bytes: u64,
    ops_done: &AtomicU64,
    is_stopped: &dyn Fn() -> bool,
) -> Result<RunResult, BenchError> {
    let watched = Watched { ops_done, is_stopped };
    if is_stopped() {
        return Err(BenchError::Stopped);
    }
    let mut bench = Bench::new(spec, seed, unpacked_bytes)?;
    let phases: Result<Vec<PhaseResult>, BenchError> =
        spec.phases.iter().map(|phase| bench.run(*phase, watched)).collect();
    let lines = bench.stack.db.metrics().compactions;
    let closed = bench.close();
    let result = RunResult { phases: phases?, lines };
    closed.map(|()| result)
}

/// Progress and the stop flag of a run.
#[derive(Clone, Copy)]
struct Watched<'a> {
    ops_done: &'a AtomicU64,
    is_stopped: &'a dyn Fn() -> bool,
}

/// A running stack.
struct Bench {
    runtime: Runtime,
    world: Arc<VirtualWorld>,
    stack: Stack,
    keyspace: Keyspace,
    seed: Prng,
    compresses: bool,
    rests: bool,
    is_zoned: bool,
    /// The content written by the last load.
    loaded: Loaded,
    reach_bytes: u64,
}

/// The content of a store after a load.
#[derive(Clone, Copy)]
struct Loaded {
    order: LoadOrder,
    key_count: u64,
    value_len_bytes: usize,
}

impl Bench {
    fn new(spec: &RunSpec, seed: u64, unpacked_bytes: u64) -> Result<Bench, BenchError> {
        // Figures are about what was published, whatever sizes the layout of that name has.
        let layout = Layout::by_name(spec.layout).map_err(BenchError::layout)?.as_published();
        let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
        let drive = drive(&spec.drive, unpacked_bytes, &runtime)?;
        let geometry = *drive.geometry();
        let mut recipe = layout.recipe(&geometry);
        tune(&mut recipe, &spec.tune, &geometry);
        if spec.drive.beside.is_some() && !layout.takes_flash() {
            recipe = recipe.with_logs_on_flash();
        }
        let mut drives = Drives::from(drive);
        if let Some(beside) = beside(&spec.drive, &runtime)? {
            drives = drives.with_flash(beside);
        }
        let stack =
            layout.format_with(drives, &runtime, &recipe, seed).map_err(BenchError::layout)?;
        let keyspace = stack.db.default_keyspace();
        let loaded = Loaded { order: LoadOrder::Sequential, key_count: 0, value_len_bytes: 0 };
        Ok(Bench {
            runtime,
            world,
            stack,
            keyspace,
            seed: Prng::new(seed),
            compresses: spec.tune.compresses,
            rests: !spec.tune.without_rest,
            is_zoned: geometry.zones().is_some(),
            loaded,
            reach_bytes: 0,
        })
    }

    fn close(self) -> Result<(), BenchError> {
        let Bench { world, stack, keyspace, .. } = self;
        drop(keyspace);
        let closed = stack.close().map_err(BenchError::layout);
        // Jobs hold the runtime, which holds the jobs. Without this, the memory would leak.
        world.drop_jobs();
        closed
    }

    fn run(&mut self, phase: Phase, watched: Watched<'_>) -> Result<PhaseResult, BenchError> {
        let context = |source| BenchError::Engine { what: phase.label(), source };
        let before = self.totals();
        let levels = self.levels();
        let mut tally = Tally::new(before.at_ns, watched);
        let mut offered = None;
        match phase {
            Phase::Load { order, count, value_len_bytes, sync_every, milestone_count } => {
                self.loaded = Loaded { order, key_count: count, value_len_bytes };
                self.load(sync_every, milestone_count, &mut tally)
            }
            Phase::ReadRandom { count } => self.read_random(count, &mut tally),
            Phase::ReadSequential { count, read_ahead_len_bytes } => {
                self.read_sequential(count, read_ahead_len_bytes, &mut tally)
            }
            Phase::Ycsb { workload, count, sync } => {
                let prng = self.seed.derive(&format!("ycsb {workload}"));
                let mut stream = workload.stream(prng, self.loaded.key_count, count);
                let outcome = self.ycsb(&mut stream, count, sync, &mut tally);
                self.loaded.key_count = stream.record_count();
                outcome
            }
            Phase::Clients(offer) => {
                let key_count = self.loaded.key_count;
                let value_len_bytes = offer.value_len_bytes;
                self.loaded = Loaded { order: LoadOrder::Once, key_count, value_len_bytes };
                let prng = self.seed.derive(&format!("offer {key_count} {}", offer.label()));
                let pace = self.pace(&offer, prng.clone().next_u64())?;
                let mut stream = offer.workload.stream(prng, key_count, offer.count);
                let outcome = self.offer(&offer, pace, &mut stream, &mut tally);
                self.loaded.key_count = stream.record_count();
                outcome.map(|found| offered = Some(found))
            }
        }
        .map_err(context)?;
        if tally.is_stopped {
            return Err(BenchError::Stopped);
        }
        let ended = self.totals();
        let tiers = self.tiers();
        if self.rests {
            self.stack.db.wait_idle().map_err(context)?;
        }
        tally.flush();
        let after = self.totals();
        let user_bytes = tally.user_bytes;
        let totals = Totals { user_bytes, ..after - before };
        let totals_at_last_op = Totals { user_bytes, ..ended - before };
        if let Some(last) = tally.milestones.last_mut() {
            // The background work after the load is part of it.
            *last = self.milestone(tally.ops, last.totals.user_bytes);
        }
        Ok(PhaseResult {
            phase,
            ops: tally.ops,
            found: tally.found,
            elapsed_ns: totals_at_last_op.at_ns,
            settled_ns: totals.at_ns,
            latency: tally.latencies.summary(),
            totals,
            totals_at_last_op,
            milestones: tally.milestones,
            levels,
            tiers,
            offered,
        })
    }

    fn load(
        &mut self,
        sync_every: u64,
        milestone_count: u32,
        tally: &mut Tally<'_>,
    ) -> Result<(), EngineError> {
        let Loaded { order, key_count: count, value_len_bytes } = self.loaded;
        let mut prng = self.seed.derive("load");
        let permutation = Permutation::new(&mut self.seed.derive("order"), count);
        let mut value = Value::new(value_len_bytes, self.compresses);
        let mut noted = 0;
        for op in 0..count {
            let number = match order {
                LoadOrder::Sequential => op,
                LoadOrder::Random | LoadOrder::Again => prng.below(count),
                LoadOrder::Once => permutation.at(op),
            };
            let sync = sync_every > 0 && (op + 1) % sync_every == 0;
            let key = key(number, order);
            self.keyspace.put_with(&key[..], value.of(number, op), WriteOptions { sync })?;
            tally.user_bytes += (KEY_LEN_BYTES + value_len_bytes) as u64;
            tally.note(self.now_ns());
            if (op + 1) * u64::from(milestone_count) >= (noted + 1) * count {
                noted += 1;
                let milestone = self.milestone(op + 1, tally.user_bytes);
                tally.milestones.push(milestone);
            }
            if tally.is_stopped {
                break;
            }
        }
        Ok(())
    }

    fn read_random(&self, count: u64, tally: &mut Tally<'_>) -> Result<(), EngineError> {
        let mut prng = self.seed.derive("read");
        for _ in 0..count {
            let number = prng.below(self.loaded.key_count);
            self.read(number, tally)?;
            self.let_others_work();
            tally.note(self.now_ns());
            if tally.is_stopped {
                break;
            }
        }
        Ok(())
    }

    /// A get, unlike a put, does not yield to background jobs, because it needs nothing from them.
    fn let_others_work(&self) {
        if !self.rests {
            self.runtime.scheduler.yield_now();
        }
    }

    fn read(&self, number: u64, tally: &mut Tally<'_>) -> Result<(), EngineError> {
        let found = self.keyspace.get(&key(number, self.loaded.order)[..])?;
        if let Some(value) = found {
            let header = value.get(..8).unwrap_or_default();
            assert_eq!(header, number.to_le_bytes(), "the store answered with another key's value");
            tally.found += 1;
        }
        Ok(())
    }

    fn read_sequential(
        &self,
        count: u64,
        read_ahead_bytes: usize,
        tally: &mut Tally<'_>,
    ) -> Result<(), EngineError> {
        // Blocks that earlier reads left in the cache are dropped, because they belong to another
        // phase.
        let options = ReadOptions { read_ahead_bytes, fill_cache: false, ..ReadOptions::default() };
        let mut cursor = self.keyspace.iter(options)?;
        cursor.seek_to_first()?;
        while cursor.valid() && tally.ops < count && !tally.is_stopped {
            tally.found += 1;
            self.let_others_work();
            tally.note(self.now_ns());
            cursor.next()?;
        }
        Ok(())
    }

    fn ycsb(
        &self,
        stream: &mut YcsbStream,
        count: u64,
        sync: bool,
        tally: &mut Tally<'_>,
    ) -> Result<(), EngineError> {
        let mut value = Value::new(self.loaded.value_len_bytes, self.compresses);
        for op in 0..count {
            let next = stream.next_op();
            self.do_one(next, op, sync, &mut value, tally)?;
            stream.ended(next);
            self.let_others_work();
            tally.note(self.now_ns());
            if tally.is_stopped {
                break;
            }
        }
        Ok(())
    }

    /// Operation number `op` of a workload.
    fn do_one(
        &self,
        next: YcsbOp,
        op: u64,
        sync: bool,
        value: &mut Value,
        tally: &mut Tally<'_>,
    ) -> Result<(), EngineError> {
        match next {
            YcsbOp::Read(number) => self.read(number, tally)?,
            YcsbOp::Scan(number, len) => {
                let mut cursor: Iter = self.keyspace.iter(ReadOptions::default())?;
                cursor.seek(&key(number, self.loaded.order)[..])?;
                for _ in 1..len {
                    if !cursor.valid() {
                        break;
                    }
                    cursor.next()?;
                }
            }
            YcsbOp::Update(number) | YcsbOp::Insert(number) => {
                self.put(number, op, sync, value, tally)?;
            }
            YcsbOp::ReadModifyWrite(number) => {
                self.read(number, tally)?;
                self.put(number, op, sync, value, tally)?;
            }
        }
        Ok(())
    }

    fn put(
        &self,
        number: u64,
        op: u64,
        sync: bool,
        value: &mut Value,
        tally: &mut Tally<'_>,
    ) -> Result<(), EngineError> {
        let key = key(number, self.loaded.order);
        tally.user_bytes += (KEY_LEN_BYTES + self.loaded.value_len_bytes) as u64;
        self.keyspace.put_with(&key[..], value.of(number, op), WriteOptions { sync })
    }

    fn now_ns(&self) -> u64 {
        let clock: &dyn Clock = &*self.runtime.clock;
        clock.now_ns()
    }

    /// All current counters; the caller fills in the user bytes.
    fn totals(&self) -> Totals {
        let metrics = self.stack.db.metrics();
        let files = self.stack.files.stats();
        let counters = self.stack.counters();
        Totals {
            at_ns: self.now_ns(),
            user_bytes: 0,
            log_bytes: metrics.log_bytes,
            offloaded_bytes: metrics.offloaded_bytes,
            flush_bytes: metrics.flush_out_bytes,
            flush_ns: metrics.flush_total_ns,
            compaction_in_bytes: metrics.compaction_in_bytes,
            compaction_out_bytes: metrics.compaction_out_bytes,
            compaction_count: metrics.compaction_count - metrics.move_count,
            move_count: metrics.move_count,
            commit_count: files.commits,
            stall_ns: metrics.stall_stop.total_ns
                + metrics.stall_slowdown.total_ns
                + metrics.stall_offload.total_ns,
            cleaned_bytes: files.cleaning_moved_bytes,
            cleaning_busy_ns: files.cleaning_busy_ns,
            drive_reads: counters.reads,
            drive_read_bytes: counters.read_bytes,
            drive_written_bytes: counters.written_bytes,
            added_read_bytes: counters.added_read_bytes,
            added_written_bytes: counters.added_written_bytes,
            seeks: counters.seeks,
            busy_ns: counters.busy_ns,
            rewritten_tracks: files.rewritten_tracks,
            track_syncs: files.track_syncs,
        }
    }

    /// The unsorted data, and the data on the second drive.
    fn tiers(&self) -> TierState {
        let metrics = self.stack.db.metrics();
        let flash = self.stack.tiers.as_ref().and_then(TieredFiles::tier_stats);
        TierState {
            unsorted_bytes: metrics.keyspaces.iter().map(|k| k.unsorted_len_bytes).sum(),
            beside_bytes: flash.map_or(0, |flash| flash.space.live_bytes),
            beside_file_count: flash.map_or(0, |flash| flash.file_count),
            fallback_count: flash.map_or(0, |flash| flash.fallbacks),
        }
    }

    fn levels(&self) -> Vec<LevelState> {
        let metrics = self.stack.db.metrics();
        let levels = metrics.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        levels
            .map(|level| LevelState {
                level: level.level,
                run_count: level.run_count,
                table_count: level.table_count,
                len_bytes: level.len_bytes,
            })
            .collect()
    }

    fn milestone(&mut self, ops: u64, user_bytes: u64) -> Milestone {
        let metrics = self.stack.db.metrics();
        Milestone {
            ops,
            totals: Totals { user_bytes, ..self.totals() },
            space: self.space(),
            zone_valid_permille: self.zone_valid_permille(),
            line_count: metrics.compactions.len(),
        }
    }

    fn space(&mut self) -> SpaceState {
        let report = self.stack.files.space_report(None);
        self.reach_bytes = self.reach_bytes.max(report.address_bytes);
        SpaceState {
            capacity_bytes: report.capacity_bytes,
            valid_bytes: report.valid_bytes,
            dead_bytes: report.dead_held_bytes,
            occupied_bytes: match self.is_zoned {
                true => report.address_bytes,
                false => report.occupied_bytes(),
            },
            reach_bytes: self.reach_bytes,
            fragment_bytes: report.fragment_bytes,
            fragment_count: report.fragment_count,
            guard_bytes: report.guard_bytes,
            mean_set_bytes: report.set_len_bytes_mean,
        }
    }

    fn zone_valid_permille(&self) -> Vec<u32> {
        if !self.is_zoned {
            return Vec::new();
        }
        let zones = self.stack.files.zone_map();
        let used = zones.iter().filter(|zone| {
            zone.kind == ZoneUseKind::Files && zone.live_bytes + zone.dead_bytes > 0
        });
        used.map(|zone| (zone.live_bytes * 1000 / zone.range.len.bytes().max(1)) as u32).collect()
    }
}

/// The key of a number: in numeric order, or scattered for a load like YCSB's.
fn key(number: u64, order: LoadOrder) -> [u8; KEY_LEN_BYTES] {
    let place = match order {
        LoadOrder::Once | LoadOrder::Again => scatter(number),
        LoadOrder::Sequential | LoadOrder::Random => number,
    };
    let mut key = [b'0'; KEY_LEN_BYTES];
    key[..8].copy_from_slice(&place.to_be_bytes());
    key
}

/// A value buffer: an identification and filling.
struct Value {
    buf: Vec<u8>,
    /// The length of its incompressible prefix.
    noise_len_bytes: usize,
}

impl Value {
    fn new(len_bytes: usize, is_half_noise: bool) -> Value {
        let len_bytes = len_bytes.max(16);
        Value {
            buf: vec![0; len_bytes],
            noise_len_bytes: if is_half_noise { len_bytes / 2 } else { 0 },
        }
    }

    fn of(&mut self, number: u64, op: u64) -> &[u8] {
        self.buf[..8].copy_from_slice(&number.to_le_bytes());
        self.buf[8..16].copy_from_slice(&op.to_le_bytes());
        // A different byte for each key, so that two values never form identical pages on the host.
        self.buf[16..].fill((scatter(number) >> 56) as u8);
        if self.noise_len_bytes > 16 {
            let words = self.buf[16..self.noise_len_bytes].chunks_exact_mut(8);
            for (at, word) in words.enumerate() {
                let noise = scatter(scatter(number) ^ scatter(op) ^ at as u64);
                word.copy_from_slice(&noise.to_le_bytes());
            }
        }
        &self.buf
    }
}

/// The measurements of a phase so far.
struct Tally<'a> {
    ops: u64,
    found: u64,
    user_bytes: u64,
    last_ns: u64,
    latencies: Latencies,
    milestones: Vec<Milestone>,
    watched: Watched<'a>,
    untold: u64,
    is_stopped: bool,
}

impl<'a> Tally<'a> {
    fn new(start_ns: u64, watched: Watched<'a>) -> Tally<'a> {
        Tally {
            ops: 0,
            found: 0,
            user_bytes: 0,
            last_ns: start_ns,
            latencies: Latencies::new(),
            milestones: Vec::new(),
            watched,
            untold: 0,
            is_stopped: false,
        }
    }

    /// Records the end of an operation.
    fn note(&mut self, now_ns: u64) {
        let took_ns = now_ns - self.last_ns;
        self.last_ns = now_ns;
        self.note_taking(took_ns);
    }

    /// Records the latency of an operation.
    fn note_taking(&mut self, ns: u64) {
        self.latencies.record(ns);
        self.ops += 1;
        self.untold += 1;
        if self.untold == OPS_PER_TICK {
            self.flush();
            self.is_stopped = (self.watched.is_stopped)();
        }
    }

    /// Reports the operations since the last report.
    fn flush(&mut self) {
        self.watched.ops_done.fetch_add(self.untold, Ordering::Relaxed);
        self.untold = 0;
    }
}

fn tune(recipe: &mut Recipe, tune: &Tune, geometry: &Geometry) {
    let options = &mut recipe.options;
    options.compaction_line_count_max = LINE_COUNT_MAX;
    if let Some(bands) = &mut recipe.bands {
        if let Some(bytes) = tune.band_len_bytes {
            bands.band_len = Blocks::holding(bytes);
        }
        bands.staging = if tune.is_staged { Staging::Journaled } else { Staging::None };
        if tune.reads_whole_band {
            bands.read_back = ReadBack::WholeBand;
        }
    }
    let set = |to: &mut u64, from: Option<u64>| *to = from.unwrap_or(*to);
    set(&mut options.memtable_len_bytes, tune.memtable_len_bytes);
    let as_usize = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    if let Some(bytes) = tune.compaction_read_len_bytes {
        options.compaction_read_len_bytes = as_usize(bytes);
    }
    set(&mut options.offload_delay_ns, tune.offload_delay_ns);
    set(&mut options.eager_after_ns, tune.eager_after_ns);
    options.offloads &= !tune.keeps_writes;
    if let Some(bytes) = tune.log_frame_len_bytes {
        options.log_frame_len_bytes = as_usize(bytes);
    }
    let keyspace = &mut options.keyspace;
    if tune.compresses {
        keyspace.compression = Compression::Lz4;
    }
    set(&mut keyspace.table_len_bytes, tune.table_len_bytes);
    if geometry.interlaced().is_some() {
        recipe.placement_options.unit_len = unit_len(geometry, keyspace.table_len_bytes);
    }
    set(&mut keyspace.base_level_len_bytes, tune.base_level_len_bytes);
    if let Some(bits) = tune.filter_bits_per_key {
        keyspace.filter_bits_per_key = bits;
    }
    if let Some(bytes) = tune.block_len_bytes {
        keyspace.block_len_bytes = bytes;
    }
    if let Some(victims) = tune.victims {
        (keyspace.victim_order, keyspace.victim_growth) = match victims {
            Victims::RoundRobin => (VictimOrder::RoundRobin, VictimGrowth::Single),
            Victims::MinOverlap => (VictimOrder::MinOverlap, VictimGrowth::Neighbours),
        };
    }
    if let Some(sets) = tune.sets {
        keyspace.cuts_at_sets = sets.cuts;
        keyspace.victim_order =
            if sets.by_key { VictimOrder::RoundRobin } else { VictimOrder::DeadFirst };
    }
    if tune.has_leveldbs_habits {
        keyspace.flushes_pass_levels = true;
        keyspace.missed_tables_go_down = true;
    }
    if tune.full_levels {
        keyspace.gear_depth = GearDepth::FullLevels;
    }
    if let Some(percent) = tune.cleans_below_percent {
        recipe.placement_options.free_percent_least = percent;
    }
    if let Some(count) = tune.overlap_count_max {
        keyspace.overlap_count_max = count;
    }
    if let Some((compact, slowdown, stop)) = tune.l0_run_counts {
        keyspace.l0_compact_run_count = compact;
        keyspace.l0_slowdown_run_count = slowdown;
        keyspace.l0_stop_run_count = stop;
    }
}
