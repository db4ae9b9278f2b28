//! `imbrex bench device`: a block device on a large drive, day after day, in the drive's time.
//!
//! ```text
//!     fill the whole device with files | delete some, rewrite others: no zone is blank
//!     | a day of load, a power cut, an opening |  again, for each day and load
//!     | down to the next share, or up to it    |  the same
//! ```
//!
//! The drive keeps no data of the host's (`forgetful`), so 14 TB fit some GB of memory; journal,
//! checkpoints, map and zones are the real ones. Every block names the write that it is of. Reads are
//! compared with what the host knows.
//!
//! One device lives through all shares and loads: later days begin with what earlier days left. Before the
//! first day it is filled whole, loses files down to the first share, and has files rewritten until cleaning
//! begins. So no day lives from zones that were never written, of which a new drive has enough for weeks.
//!
//! A day ends with a flush and a power cut: the driver's memory is gone, and the drive's own state stays.
//! Which unflushed writes a power cut takes is a matter of torture.
//!
//! Invariants
//!   V1  Same options: the same report, but for the program's own times.
//!   V2  A read that differs from what the host wrote last ends the run with an error.

mod files;
mod forgetful;
mod load;
mod player;
mod report;
mod words;
mod zone_pieces;

pub use load::DeviceLoad;
pub use report::{
    DeviceBenchReport, DeviceDay, FillingFigures, MemoryFigures, OpeningFigures, ProgramFigures,
    WaitFigures, WrittenFigures,
};

use crate::emulated::{DriveRule, geometry};
use crate::error::BenchError;
use files::{Files, HostRequest};
use forgetful::ForgetfulDrive;
use imbrex_clockwork::{Order, Prng, Runtime, processor_ns};
use imbrex_disk::{BlockRange, Blocks, ByteSize, Disk};
use imbrex_disk_sim::{Profile, SimDisk};
use imbrex_translate::{BlockDriver, DriverCounters, DriverError, DriverOptions};
use load::{TICK_NS, Tick, files_tick, random_tick};
use player::{DayTimes, Player};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

const DAY_S: u64 = 86_400;
/// Blocks read and compared after an opening.
const OPENING_PROBE_COUNT: u64 = 64;
/// While the device is filled, requests of this length go straight to the data zones. They stay in the
/// processor's cache.
const FILLING_LEN: u64 = 64;
/// Requests between two looks at the watch.
const REQUESTS_PER_LOOK: u64 = 4096;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct DeviceBenchOptions {
    /// Length of the drive; filling it takes some two minutes of a processor for each TB
    #[arg(long, value_name = "SIZE", default_value = "1TB")]
    pub drive: ByteSize,

    /// Profile with the mechanics of the drive, as in `imbrex drive create --profile`
    #[arg(long, value_name = "NAME", default_value = "hc620")]
    pub profile: String,

    /// Length of a zone
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub zone_len: ByteSize,

    /// Shares of the device that files take, in percent, one after another; deleting takes a processor less
    /// time than writing more files
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", default_value = "95,90,80")]
    pub fill: Vec<u64>,

    /// Loads at each share, one after another
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LOADS",
        default_value = "random,files"
    )]
    pub loads: Vec<DeviceLoad>,

    /// Simulated days of each load at each share
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub days: u64,

    /// Length of a day in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = DAY_S)]
    pub day: u64,

    /// Random writes a second
    #[arg(long, value_name = "COUNT", default_value_t = 30)]
    pub rate: u64,

    /// What the load of files writes in 24 hours, in percent of the drive
    #[arg(long, value_name = "PERCENT", default_value_t = 2)]
    pub daily: u64,

    /// Reads of single blocks an hour, each compared
    #[arg(long, value_name = "COUNT", default_value_t = 60)]
    pub probes: u64,

    /// Capacity of the write buffer
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    pub buffer: ByteSize,

    /// Memory for the map; the rest of a longer map stays on the drive
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub map_memory: ByteSize,

    /// Share of the data zones that the host does not get, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 7)]
    pub spare: u64,

    /// Seed: the same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Callbacks.
#[derive(Clone, Copy)]
pub struct DeviceWatch<'a> {
    /// A finished day.
    pub finished: &'a dyn Fn(&DeviceDay),
    /// How much is done, in parts of the whole run; `Break` ends it.
    pub progress: &'a dyn Fn(u64, u64) -> ControlFlow<()>,
}

impl fmt::Debug for DeviceWatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceWatch").finish_non_exhaustive()
    }
}

/// Fills a device and lives with it. A refusal of the device is part of the report.
///
/// # Errors
/// [`BenchError`]: the options are invalid, the drive cannot be made, or a read returned what was not
/// written.
pub fn device_bench(
    options: &DeviceBenchOptions,
    watch: DeviceWatch<'_>,
) -> Result<DeviceBenchReport, BenchError> {
    check(options)?;
    let mut life = Life::new(options, watch)?;
    let outcome = life.live();
    let Life { mut report, .. } = life;
    match outcome {
        Ok(()) => Ok(report),
        Err(BenchError::Stopped) => Ok(DeviceBenchReport { interrupted: true, ..report }),
        Err(error @ (BenchError::Disk { .. } | BenchError::Driver { .. })) => {
            report.refusal = Some(with_causes(&error));
            Ok(report)
        }
        Err(error) => Err(error),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

fn check(options: &DeviceBenchOptions) -> Result<(), BenchError> {
    let bad = |message: String| Err(BenchError::Options(message));
    if let Some(fill) = options.fill.iter().find(|fill| !(1..=100).contains(*fill)) {
        return bad(format!("--fill is {fill}; from 1 to 100 percent"));
    }
    for (name, value, max) in [
        ("--days", options.days, 10_000),
        ("--day", options.day, 10 * DAY_S),
        ("--rate", options.rate, 1_000_000),
        ("--daily", options.daily, 10_000),
        ("--probes", options.probes, 1_000_000),
    ] {
        if !(1..=max).contains(&value) {
            return bad(format!("{name} is {value}; from 1 to {max}"));
        }
    }
    if !(1 << 20..=1 << 34).contains(&options.zone_len.0) {
        return bad(format!("--zone-len is {}; from 1 MiB to 16 GiB", options.zone_len));
    }
    Ok(())
}

/// A device from its first write on.
struct Life<'a> {
    options: &'a DeviceBenchOptions,
    watch: DeviceWatch<'a>,
    runtime: Runtime,
    sim: Arc<SimDisk>,
    drive: Arc<ForgetfulDrive>,
    /// `None` between a power cut and the opening.
    player: Option<Player>,
    files: Files,
    prng: Prng,
    report: DeviceBenchReport,
    /// Days done, and one for filling.
    done: u64,
}

impl<'a> Life<'a> {
    fn new(
        options: &'a DeviceBenchOptions,
        watch: DeviceWatch<'a>,
    ) -> Result<Life<'a>, BenchError> {
        let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| BenchError::Drive {
            drive: options.profile.clone(),
            source,
        };
        let profile = Profile::by_name(&options.profile).map_err(|e| failed(e.into()))?;
        let rule = DriveRule::Zoned { zone_len_bytes: options.zone_len.0 };
        let geometry = geometry(rule, options.drive.0).map_err(|e| failed(e.into()))?;
        let sim = SimDisk::builder(geometry).profile(profile).clock(Arc::clone(&runtime.clock));
        let sim = Arc::new(sim.memory().map_err(|e| failed(e.into()))?);
        let drive = Arc::new(ForgetfulDrive::new(Arc::clone(&sim) as Arc<dyn Disk>));
        let filling =
            DriverOptions { bypass_len: Blocks::new(FILLING_LEN), ..driver_options(options) };
        let device = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &filling);
        let device = device.map_err(|error| match error {
            error @ DriverError::TooSmall { .. } => {
                BenchError::Options(format!("{error}; pass a larger --drive or a smaller --buffer"))
            }
            source => BenchError::Driver { source },
        })?;
        let prng = Prng::new(options.seed);
        let len = device.geometry().len();
        let report = DeviceBenchReport {
            drive_bytes: geometry.len().bytes(),
            device_bytes: len.bytes(),
            seed: options.seed,
            interrupted: false,
            filling: FillingFigures::default(),
            days: Vec::new(),
            refusal: None,
        };
        let player = Some(Player::new(device, Arc::clone(&runtime.clock)));
        let files = Files::new(len, prng.derive("files"));
        Ok(Life { options, watch, runtime, sim, drive, player, files, prng, report, done: 0 })
    }

    fn live(&mut self) -> Result<(), BenchError> {
        self.fill()?;
        let mut prng = self.prng.derive("loads");
        for &fill_percent in &self.options.fill {
            self.reach(fill_percent)?;
            for &load in &self.options.loads {
                for day in 1..=self.options.days {
                    let finished = self.day(fill_percent, load, day, &mut prng)?;
                    (self.watch.finished)(&finished);
                    self.report.days.push(finished);
                    self.done += 1;
                }
            }
        }
        Ok(())
    }

    /// Writes the whole device, file by file, makes it an old one at the first share, and opens it with the
    /// options of its days.
    fn fill(&mut self) -> Result<(), BenchError> {
        let (from_ns, program_from_ns) = (self.runtime.clock.now_ns(), processor_ns());
        let mut requests = self.files.make();
        let mut count = 0;
        while !requests.is_empty() {
            for request in cut(&requests, FILLING_LEN) {
                if count % REQUESTS_PER_LOOK == 0 {
                    self.look(self.files.used_permille(), 1000)?;
                }
                count += 1;
                self.player().send(&[request])?;
            }
            requests = self.files.create();
        }
        self.reach(self.options.fill.first().copied().unwrap_or(100))?;
        self.use_up_zones()?;
        self.player().device.checkpoint().map_err(player::failed("filling"))?;
        let counters = self.player().device.driver_counters();
        self.report.filling = FillingFigures {
            files: self.files.file_count() as u64,
            host_blocks: counters.host_blocks,
            drive_s: (self.runtime.clock.now_ns() - from_ns) as f64 / 1e9,
            program_s: processor_ns().saturating_sub(program_from_ns) as f64 / 1e9,
            nodes: counters.mapping_nodes,
        };
        self.cut_and_open()?;
        self.done += 1;
        Ok(())
    }

    /// Rewrites files until the device has cleaned zones.
    fn use_up_zones(&mut self) -> Result<(), BenchError> {
        let drive_len = Blocks::holding(self.options.drive.0).get();
        let mut rewritten = 0;
        while rewritten < drive_len && self.player().device.driver_counters().cleanings == 0 {
            self.look(999, 1000)?;
            for _ in 0..64 {
                let requests = self.files.rewrite();
                for request in cut(&requests, FILLING_LEN) {
                    self.player().send(&[request])?;
                }
                rewritten += requests.iter().map(HostRequest::written_len).sum::<u64>().max(1);
            }
        }
        Ok(())
    }

    /// Deletes or makes files until they take the share.
    fn reach(&mut self, fill_percent: u64) -> Result<(), BenchError> {
        let wanted = 10 * fill_percent;
        let mut count = 0u64;
        while wanted < self.files.used_permille() {
            let requests = self.files.delete();
            self.player().send(&requests)?;
            count += 1;
            if count.is_multiple_of(REQUESTS_PER_LOOK) {
                self.look(0, 1)?;
                self.player().flush()?;
            }
        }
        while self.files.used_permille() < wanted {
            let requests = self.files.create();
            if requests.is_empty() {
                break;
            }
            self.player().send(&requests)?;
            count += 1;
            if count.is_multiple_of(64) {
                self.look(0, 1)?;
                self.player().flush()?;
            }
        }
        self.player().flush()
    }

    fn day(
        &mut self,
        fill_percent: u64,
        load: DeviceLoad,
        day: u64,
        prng: &mut Prng,
    ) -> Result<DeviceDay, BenchError> {
        let program_from_ns = processor_ns();
        let start_ns = self.runtime.clock.now_ns();
        let player = self.player();
        player.times = DayTimes::default();
        let before = player.device.driver_counters();
        let drive_before = self.sim.counters();
        let tick_count = (self.options.day * 1_000_000_000).div_ceil(TICK_NS);
        let daily_len = Blocks::holding(self.options.drive.0).get() * self.options.daily / 100;
        let mut credit = 0;
        let mut probe_credit = 0;
        for tick in 0..tick_count {
            self.look(tick, tick_count)?;
            let tick_ns = start_ns + tick * TICK_NS;
            // Of the whole day, so that no rest is lost.
            let share = |total: u64, tick: u64| {
                (u128::from(total) * u128::from(tick * TICK_NS) / u128::from(DAY_S * 1_000_000_000))
                    as i64
            };
            credit += share(daily_len, tick + 1) - share(daily_len, tick);
            let asked = match load {
                DeviceLoad::Random => random_tick(&mut self.files, prng, self.options.rate),
                DeviceLoad::Files => {
                    files_tick(&mut self.files, prng, &mut credit, 10 * fill_percent)
                }
            };
            self.play(&asked, tick_ns)?;
            let probes_a_day = 24 * self.options.probes;
            probe_credit += share(probes_a_day, tick + 1) - share(probes_a_day, tick);
            for _ in 0..std::mem::take(&mut probe_credit) {
                let (at, number) = self.files.draw_known();
                self.player().probe(at, number)?;
            }
        }
        let end_ns = start_ns + tick_count * TICK_NS;
        self.player().idle_until(end_ns)?;
        self.player().flush()?;
        let now = self.player().device.driver_counters();
        let all_bytes = self.sim.counters().written_bytes - drive_before.written_bytes;
        let written = written(&now, &before, all_bytes, self.player().times.trimmed_blocks);
        let memory = MemoryFigures {
            nodes: now.mapping_nodes,
            map_bytes: now.mapping_bytes,
            buffer_bytes: now.buffer_bytes,
            free_zones: now.free_zones,
            model_bytes: self.drive.memory_bytes() + self.sim.stored_bytes().unwrap_or(0),
        };
        let times = std::mem::take(&mut self.player().times);
        let day_ns = processor_ns().saturating_sub(program_from_ns);
        let (opening, opening_ns) = self.cut_and_open()?;
        Ok(DeviceDay {
            fill_percent,
            load: load.name(),
            day,
            written,
            memory,
            waits: WaitFigures {
                writes: times.write.count(),
                write: times.write.summary(),
                flush: times.flush.summary(),
                read: times.read.summary(),
                late_ns: times.late_ns,
            },
            opening,
            program: ProgramFigures { day_ns, longest_call_ns: times.longest_call_ns, opening_ns },
        })
    }

    /// Sends what a tick that begins at `from_ns` asks.
    fn play(&mut self, tick: &Tick, from_ns: u64) -> Result<(), BenchError> {
        let player = self.player();
        for (after_ns, requests) in &tick.operations {
            player.idle_until(from_ns + after_ns)?;
            player.send(requests)?;
        }
        player.idle_until(from_ns + TICK_NS)?;
        player.send(&tick.commit)?;
        player.flush()?;
        player.send(&tick.behind)
    }

    /// Cuts the power, opens the device again and compares blocks. Returns the program's time too.
    fn cut_and_open(&mut self) -> Result<(OpeningFigures, u64), BenchError> {
        self.player = None;
        let mut prng = self.prng.derive("power cuts");
        let cut = self.sim.power_cycle(&mut prng);
        cut.map_err(player::failed("cutting the power of"))?;
        let before = self.sim.counters();
        let (from_ns, program_from_ns) = (self.runtime.clock.now_ns(), processor_ns());
        let drive = Arc::clone(&self.drive) as Arc<dyn Disk>;
        let device = BlockDriver::open(drive, &driver_options(self.options));
        let device = device.map_err(|source| BenchError::Driver { source })?;
        let opening_ns = processor_ns().saturating_sub(program_from_ns);
        let (after, counters) = (self.sim.counters(), device.driver_counters());
        let opening = OpeningFigures {
            drive_ns: self.runtime.clock.now_ns() - from_ns,
            read_bytes: after.read_bytes - before.read_bytes,
            written_bytes: after.written_bytes - before.written_bytes,
            seeks: after.seeks - before.seeks,
            replayed_entries: counters.replayed_entries,
            buffered_blocks: counters.buffered_blocks,
            probes: OPENING_PROBE_COUNT,
        };
        self.player = Some(Player::new(device, Arc::clone(&self.runtime.clock)));
        for index in 0..OPENING_PROBE_COUNT {
            let single = (index % 2 == 0).then(|| self.files.draw_single()).flatten();
            let (at, number) = single.unwrap_or_else(|| self.files.draw_known());
            self.player().probe(at, number)?;
        }
        Ok((opening, opening_ns))
    }

    fn player(&mut self) -> &mut Player {
        self.player.as_mut().expect("the device is open between two power cuts")
    }

    fn look(&self, part: u64, parts: u64) -> Result<(), BenchError> {
        let options = self.options;
        let days = options.fill.len() as u64 * options.loads.len() as u64 * options.days;
        let done = 1000 * self.done + 1000 * part / parts.max(1);
        match (self.watch.progress)(done, 1000 * (days + 1)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(BenchError::Stopped),
        }
    }
}

fn driver_options(options: &DeviceBenchOptions) -> DriverOptions {
    DriverOptions {
        id: 1,
        buffer_len: Blocks::holding(options.buffer.0),
        spare_percent: options.spare,
        map_memory_bytes: options.map_memory.0,
        ..DriverOptions::default()
    }
}

/// The same requests, none longer than `len_max`.
fn cut(requests: &[HostRequest], len_max: u64) -> impl Iterator<Item = HostRequest> + '_ {
    requests.iter().flat_map(move |&request| {
        let (range, number) = match request {
            HostRequest::Write(range, number) => (range, Some(number)),
            HostRequest::Trim(range) => (range, None),
        };
        let step = if number.is_some() { len_max } else { range.len.get().max(1) };
        (0..range.len.get()).step_by(step as usize).map(move |from| {
            let len = Blocks::new((range.len.get() - from).min(step));
            let part = BlockRange::new(range.start + Blocks::new(from), len);
            number.map_or(HostRequest::Trim(part), |number| HostRequest::Write(part, number))
        })
    })
}

fn written(
    now: &DriverCounters,
    before: &DriverCounters,
    all_bytes: u64,
    trimmed_blocks: u64,
) -> WrittenFigures {
    let host_blocks = now.host_blocks - before.host_blocks;
    let of_host = |blocks: u64| blocks as f64 / host_blocks.max(1) as f64;
    WrittenFigures {
        host_blocks,
        trimmed_blocks,
        all: of_host(Blocks::holding(all_bytes).get()),
        journal: of_host(now.journal_blocks - before.journal_blocks),
        moved: of_host(now.moved_blocks - before.moved_blocks),
        checkpoint: of_host(now.checkpoint_blocks - before.checkpoint_blocks),
        summary: of_host(now.summary_blocks - before.summary_blocks),
        checkpoints: now.checkpoints - before.checkpoints,
        delta_checkpoints: now.delta_checkpoints - before.delta_checkpoints,
        cleanings: now.cleanings - before.cleanings,
        urgent_cleanings: now.urgent_cleanings - before.urgent_cleanings,
    }
}

#[cfg(test)]
mod tests;
