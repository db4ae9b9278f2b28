//! Runs a load or a run: opens the store, lets clients work, and collects what they measured.
//!
//! ```text
//!   properties -> CoreWorkload, Settings
//!   store      -> ours on a drive (virtual time, or threads), or a server (threads)
//!   run on a new drive: load first, unmeasured, and let the store settle
//!   clients    -> virtual: the one that starts first goes next (S3 of `pace`); threads: all at once
//!                 an observer reports progress and status
//!   settle     -> figures -> report
//! ```

use super::client::{Shared, Work, YcsbClient};
use super::encoded::{EncodedStore, Stripes};
use super::export::YcsbOutput;
use super::measure::Measurements;
use super::options::YcsbOptions;
use super::own::OwnTable;
use super::pace::{Arrivals, ClientSchedule, Pace, ScheduleFigures, Timing};
use super::report::{OperationFigures, YcsbReport, YcsbSetup};
use super::server::{Connect, Server};
use super::settings::Settings;
use super::status::{Observer, YcsbProgress, YcsbWatch};
use super::store::{RecordStore, StoreError, Traffic};
use crate::error::BenchError;
use crate::options::Mode;
use crate::profile_choice::DriveShape;
use crate::run::{AtWork, per_second, store_figures, unless_stopped};
use crate::testbed::{KeyspaceChoice, Testbed, TestbedPlan};
use crate::watch::Phase;
use crate::write_turns::WriteTurns;
use imbrex_clockwork::{Clock, Prng, VirtualWorld, WallClock, try_fan_out};
use imbrex_engine::WriteOptions;
use imbrex_workload::arrivals::{ArrivalEnd, ArrivalModel};
use imbrex_workload::ycsb::core::CoreWorkload;
use imbrex_workload::ycsb::keys::InsertSequence;
use imbrex_workload::ycsb::properties::{Properties, PropertyError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The interval of the observer on threads.
const LOOK_EVERY_NS: u64 = 50_000_000;

/// The interval of the observer in virtual time.
const LOOK_EVERY_STEPS: u64 = 64;

const SECOND_NS: u64 = 1_000_000_000;

/// The largest number of measurement sets. Each client has its own set while there are enough. A
/// set has about a megabyte of histograms, and ten thousand clients are allowed.
const PLACE_COUNT_MAX: u64 = 64;

/// The phase of a YCSB benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YcsbPhase {
    /// Insert the records.
    Load,
    /// Do the operations.
    Run,
}

/// Loads records or runs operations, with the settings of `properties`, on the store of `options`.
///
/// A run on a new drive first loads the records, unmeasured. If the store is lost or the user stops
/// the run, the report covers the work up to that moment.
///
/// # Errors
/// [`BenchError::Property`], [`BenchError::Arrivals`]: a property is invalid;
/// [`BenchError::Options`]: the options contradict themselves; [`BenchError::Loading`]: the store
/// did not take the records of a run; any error of drive, store or server at the start or at the
/// end.
pub fn ycsb(
    options: &YcsbOptions,
    phase: YcsbPhase,
    properties: &Properties,
    watch: YcsbWatch<'_>,
) -> Result<YcsbReport, BenchError> {
    let workload = CoreWorkload::new(properties)?;
    let is_open = properties.get("arrivalgenerator").is_some();
    let settings = Settings::new(properties, is_open)?;
    let idle = if is_open { Vec::new() } else { properties.of_arrivals() };
    if !idle.is_empty() {
        let idle = idle.join(", ");
        (watch.warn)(&format!("without arrivalgenerator these properties change nothing: {idle}"));
    }
    let run = Run { options, workload: &workload, settings: &settings, watch };
    let arrivals = if is_open { Some(run.arrivals(phase, properties)?) } else { None };
    match Server::named(properties)? {
        None => run.on_own(phase, arrivals, &own_options(options, properties)?),
        Some(server) => run.on_server(phase, arrivals, &server),
    }
}

/// The options of our own store: the flags, and properties for what the flags leave open.
fn own_options(
    options: &YcsbOptions,
    properties: &Properties,
) -> Result<YcsbOptions, PropertyError> {
    let mut own = options.clone();
    own.sync |= properties.flag("imbrex.sync", false)?;
    let testbed = &mut own.testbed;
    if testbed.drive.is_none() && testbed.image.is_none() {
        testbed.drive = properties.get("imbrex.drive").map(str::to_owned);
        if testbed.drive.as_ref().is_some_and(|path| !Path::new(path).is_file()) {
            let problem = "no such image; `imbrex drive create` makes one";
            return Err(properties.wrong("imbrex.drive", problem));
        }
        if testbed.drive.is_some() && testbed.flash.is_none() {
            testbed.flash = properties.get("imbrex.flash").map(PathBuf::from);
        }
    }
    Ok(own)
}

/// The number of measurement sets for this many clients.
fn place_count(threads: u64) -> u64 {
    threads.min(PLACE_COUNT_MAX)
}

/// One load or run.
#[derive(Clone, Copy)]
struct Run<'a> {
    options: &'a YcsbOptions,
    workload: &'a CoreWorkload,
    settings: &'a Settings,
    watch: YcsbWatch<'a>,
}

/// The results of the clients.
struct PhaseOutcome {
    measured: Measurements,
    traffic: Traffic,
    schedule: Option<ScheduleFigures>,
    threads: u32,
    pace: String,
    began_ns: u64,
    ended_ns: u64,
    is_stopped: bool,
    failure: Option<String>,
}

/// The clock, and the source of stores.
struct RunContext<'a> {
    clock: &'a dyn Clock,
    world: Option<&'a VirtualWorld>,
    /// Opens a store for a client.
    connect: &'a Connect<'a>,
}

impl Run<'_> {
    /// The arrivals that the properties describe.
    fn arrivals(
        self,
        phase: YcsbPhase,
        properties: &Properties,
    ) -> Result<(Arrivals, String), BenchError> {
        let get = |key: &str| properties.get(key).map(str::to_owned);
        let model = ArrivalModel::from_properties(&get)?;
        let rate = self.arrival_rate(properties)?;
        let is_recorded = matches!(model, ArrivalModel::Recorded(_));
        if rate.is_none() && !is_recorded {
            let what = format!(
                "{model} arrivals need the property arrivals.rate (or target): operations a second"
            );
            return Err(PropertyError::Contradiction(what).into());
        }
        let rate = rate.unwrap_or(1.0);
        let expected = "a whole number from 0 to 2^64 - 1";
        let seed = properties.parsed("arrivals.seed", self.options.seed, expected)?;
        let end = match (self.asked_ops(phase), self.settings.max_execution_s) {
            (ops @ 1.., _) => ArrivalEnd::Operations(ops),
            (0, seconds @ 1..) => ArrivalEnd::Duration { ns: seconds.saturating_mul(SECOND_NS) },
            (0, 0) => {
                let what = "arrivals need an end: the property operationcount or maxexecutiontime";
                return Err(PropertyError::Contradiction(what.to_owned()).into());
            }
        };
        let series = model.series(rate, end, seed)?;
        let name = match is_recorded {
            true => format!("arrivals: {model}"),
            false => format!("arrivals: {model}, {rate} ops/s"),
        };
        Ok((Box::new(series), name))
    }

    /// The mean rate of arrivals, from the property that the original YCSB leaves to workloads or
    /// from the one that its clients read.
    fn arrival_rate(self, properties: &Properties) -> Result<Option<f64>, PropertyError> {
        let target = (self.settings.target_per_s > 0).then_some(self.settings.target_per_s as f64);
        let rate = match properties.get("arrivals.rate") {
            None => return Ok(target),
            Some(_) => properties.parsed("arrivals.rate", 0.0, "operations a second")?,
        };
        match target {
            None => Ok(Some(rate)),
            Some(target) => Err(PropertyError::Contradiction(format!(
                "arrivals.rate={rate} and target={target}: set only one of them; the original YCSB \
                 reads arrivals.rate"
            ))),
        }
    }

    /// The number of operations of all clients; 0 for no limit.
    fn asked_ops(self, phase: YcsbPhase) -> u64 {
        match phase {
            YcsbPhase::Load => self.workload.load_count,
            YcsbPhase::Run => self.workload.operation_count,
        }
    }

    /// Runs on our own store with `options`, paced by `arrivals` if given.
    fn on_own(
        self,
        phase: YcsbPhase,
        arrivals: Option<(Arrivals, String)>,
        options: &YcsbOptions,
    ) -> Result<YcsbReport, BenchError> {
        let mode = options.mode.unwrap_or(Mode::Virtual);
        let table = self.workload.table.as_str();
        let keyspace = match phase {
            YcsbPhase::Load => KeyspaceChoice::Table(table),
            YcsbPhase::Run => KeyspaceChoice::LoadedTable(table),
        };
        let plan = TestbedPlan { options: &options.testbed, mode, seed: options.seed, keyspace };
        let testbed = Testbed::new(plan)?;
        let stripes = Stripes::new();
        let field_count = self.workload.field_names.len();
        let turns =
            (mode == Mode::Virtual).then(|| Arc::new(WriteTurns::new(testbed.shared_clock())));
        let connect = || {
            let write = WriteOptions { sync: options.sync };
            let keyspace = testbed.keyspace().clone();
            let store = EncodedStore::new(
                OwnTable { keyspace, write, turns: turns.clone() },
                field_count,
                stripes.clone(),
            );
            Ok(Box::new(store) as Box<dyn RecordStore>)
        };
        let context =
            RunContext { clock: testbed.clock(), world: testbed.world(), connect: &connect };
        let loads_first = phase == YcsbPhase::Run && !testbed.was_there();
        let loaded = if loads_first { self.load_first(&testbed, &context) } else { Ok(true) };
        let is_loaded = match loaded {
            Ok(is_loaded) => is_loaded,
            Err(error) => {
                // The load error is what counts. Without closing, the memory of the drive would
                // leak.
                let _ = testbed.close();
                return Err(error);
            }
        };
        let before = testbed.reading();
        let worked = match is_loaded {
            true => self.work(phase, arrivals, false, &context)?,
            false => self.nothing(&context),
        };
        let is_whole = worked.failure.is_none() && !worked.is_stopped;
        let mut interrupted = worked.is_stopped;
        if options.settle && is_whole && worked.traffic.written_bytes > 0 {
            interrupted |= !self.settle(&testbed, phase == YcsbPhase::Load)?;
        }
        let after = testbed.reading();
        let setup = YcsbSetup {
            phase: phase.name(),
            db: "imbrex".to_owned(),
            drive: Some(testbed.drive_name().to_owned()),
            capacity_bytes: Some(testbed.capacity_bytes()),
            layout: Some(testbed.layout().to_string()),
            mode,
            seed: options.seed,
            threads: worked.threads,
            record_count: self.workload.record_count,
            loaded_first: loads_first,
            pace: worked.pace.clone(),
        };
        let written_bytes = worked.traffic.written_bytes;
        let figures = store_figures(worked.measured.ops, written_bytes, (&before, &after), mode);
        let mut report = self.report(setup, worked, after.now_ns);
        report.store = Some(figures);
        report.interrupted |= interrupted;
        let closed = testbed.close();
        // A lost store may also fail to close; the loss is what counts.
        if report.failure.is_none() {
            closed?;
        }
        Ok(report)
    }

    /// Runs on a server or a foreign database, in this machine's time.
    fn on_server(
        self,
        phase: YcsbPhase,
        arrivals: Option<(Arrivals, String)>,
        server: &Server,
    ) -> Result<YcsbReport, BenchError> {
        let options = self.options;
        if options.mode == Some(Mode::Virtual) {
            let what = "--mode virtual is for our own store: any other store runs in real time";
            return Err(BenchError::Options(what.to_owned()));
        }
        let testbed = &options.testbed;
        let is_foreign = server.is_in_process();
        let flags = [
            ("--drive", testbed.drive.is_some()),
            ("--image", testbed.image.is_some()),
            ("--flash", testbed.flash.is_some()),
            ("--layout", testbed.layout.is_some()),
            ("--sync", options.sync && !is_foreign),
            ("--write_buffer_size", testbed.write_buffer_size.is_some() && !is_foreign),
            ("--compression_type", testbed.compression_type.is_some()),
            ("--cache_size", testbed.cache_size.is_some()),
            ("--bloom_bits", testbed.bloom_bits.is_some()),
            ("--block_size", testbed.block_size.is_some()),
            ("--target_file_size_base", testbed.target_file_size_base.is_some()),
            ("--offload_delay_us", testbed.offload_delay_us.is_some()),
            ("--mechanics", !testbed.mechanics),
            ("the drive's shape (--capacity and the like)", testbed.shape != DriveShape::default()),
        ];
        if let Some((flag, _)) = flags.iter().find(|(_, is_there)| *is_there) {
            let what = format!("{flag} is for our own store, but this run uses another");
            return Err(BenchError::Options(what));
        }
        let clock = WallClock::new();
        let (connect, address) = server.connector(options, self.workload.field_names.len())?;
        let connect = &*connect;
        let context = RunContext { clock: &clock, world: None, connect };
        let worked = self.work(phase, arrivals, false, &context)?;
        let setup = YcsbSetup {
            phase: phase.name(),
            db: address,
            drive: None,
            capacity_bytes: None,
            layout: None,
            mode: Mode::Threads,
            seed: options.seed,
            threads: worked.threads,
            record_count: self.workload.record_count,
            loaded_first: false,
            pace: worked.pace.clone(),
        };
        let ended_ns = worked.ended_ns;
        Ok(self.report(setup, worked, ended_ns))
    }

    /// Loads the records of a run, unmeasured, and lets the store settle. Returns false if the user
    /// stopped it.
    fn load_first(self, testbed: &Testbed, context: &RunContext<'_>) -> Result<bool, BenchError> {
        let loaded = self.work(YcsbPhase::Load, None, true, context)?;
        match loaded.failure {
            Some(failure) => Err(BenchError::Loading(failure)),
            None => Ok(!loaded.is_stopped && self.settle(testbed, true)?),
        }
    }

    /// Waits for the store's background work. Returns false if the user stopped it.
    fn settle(self, testbed: &Testbed, is_load: bool) -> Result<bool, BenchError> {
        let failed = |source| BenchError::Engine { what: "settling".into(), source };
        let mut is_stopped = false;
        testbed.db().flush().map_err(failed)?;
        let settled = testbed.db().wait_idle_with(&mut |progress| {
            let flow = (self.watch.progress)(&YcsbProgress {
                is_load,
                phase: Phase::Background,
                done: progress.done_bytes,
                total: (progress.total_bytes > 0).then_some(progress.total_bytes),
                arrivals_per_second: None,
            });
            is_stopped |= flow.is_break();
            flow
        });
        unless_stopped(settled).map_err(failed)?;
        Ok(!is_stopped)
    }

    /// The outcome of a run that the user stopped before it started.
    fn nothing(self, context: &RunContext<'_>) -> PhaseOutcome {
        let now_ns = context.clock.now_ns();
        PhaseOutcome {
            measured: Measurements::new(&Arc::new(self.settings.measure.clone()), now_ns),
            traffic: Traffic::default(),
            schedule: None,
            threads: 0,
            pace: "not begun".to_owned(),
            began_ns: now_ns,
            ended_ns: now_ns,
            is_stopped: true,
            failure: None,
        }
    }

    fn report(self, setup: YcsbSetup, worked: PhaseOutcome, settled_ns: u64) -> YcsbReport {
        let PhaseOutcome { measured, traffic, began_ns, ended_ns, .. } = worked;
        let elapsed_ns = ended_ns - began_ns;
        YcsbReport {
            setup,
            interrupted: worked.is_stopped,
            failure: worked.failure,
            first_error: measured.first_error.clone(),
            ops: measured.ops,
            elapsed_ns,
            settled_ns: settled_ns.saturating_sub(began_ns),
            ops_per_second: per_second(measured.ops, elapsed_ns),
            service: measured.all.service.summary(),
            response: measured.all.response.summary(),
            operations: OperationFigures::all(&measured),
            schedule: worked.schedule,
            written_bytes: traffic.written_bytes,
            read_bytes: traffic.read_bytes,
            store: None,
            output: YcsbOutput::new(&self.settings.measure, &measured, elapsed_ns),
        }
    }

    /// Runs the clients of `phase`. `is_first` is a load before a run, at full speed.
    fn work(
        self,
        phase: YcsbPhase,
        arrivals: Option<(Arrivals, String)>,
        is_first: bool,
        context: &RunContext<'_>,
    ) -> Result<PhaseOutcome, BenchError> {
        let asked_ops = self.asked_ops(phase);
        let threads = self.client_count(asked_ops);
        let (pace, pace_name) = self.pace(threads, arrivals, is_first);
        let limit_ns = match self.settings.max_execution_s {
            1.. if !is_first => self.settings.max_execution_s.saturating_mul(SECOND_NS),
            _ => u64::MAX,
        };
        let timing = Timing::new(context.clock, pace, limit_ns);
        let plan = Arc::new(self.settings.measure.clone());
        let measured: Vec<Mutex<Measurements>> =
            (0..place_count(threads)).map(|_| Mutex::new(Measurements::new(&plan, 0))).collect();
        let shared = Shared { workload: self.workload, timing: &timing, warn: self.watch.warn };
        let mut clients = self.clients(phase, (threads, asked_ops), &shared, context, &measured)?;
        let told = (phase == YcsbPhase::Load, (asked_ops > 0).then_some(asked_ops));
        let observer = Observer::new(&timing, &measured, self.settings, self.watch, told);
        let (ended_ns, outcome) = match context.world {
            Some(world) => take_turns(world, &mut clients, &observer),
            None => race(&mut clients, &observer).map_err(|source| {
                BenchError::Options(format!(
                    "the system refuses a thread for each of {threads} clients ({source}): lower \
                     threadcount"
                ))
            })?,
        };
        let (beats, traffics): (Vec<ClientSchedule>, Vec<Traffic>) =
            clients.into_iter().map(YcsbClient::finish).unzip();
        observer.end(ended_ns);
        let began_ns = timing.began_ns();
        let mut all = Measurements::new(&plan, began_ns);
        for place in &measured {
            all.add(&place.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let is_stopped = timing.is_stopped() && outcome.is_ok();
        let is_cut = is_stopped || ended_ns >= timing.deadline_ns();
        let lost = outcome.err().map(|error| error.to_string());
        let failure = match phase {
            YcsbPhase::Load if !is_cut => lost.or_else(|| self.gap(&all, asked_ops)),
            _ => lost,
        };
        let sum = |of: fn(&Traffic) -> u64| traffics.iter().map(of).sum();
        Ok(PhaseOutcome {
            measured: all,
            traffic: Traffic {
                written_bytes: sum(|traffic| traffic.written_bytes),
                read_bytes: sum(|traffic| traffic.read_bytes),
            },
            schedule: ScheduleFigures::of(&timing, &beats, ended_ns),
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            pace: pace_name,
            began_ns,
            ended_ns,
            is_stopped,
            failure,
        })
    }

    /// The number of clients: that of the properties, but no more than there are operations.
    fn client_count(self, asked_ops: u64) -> u64 {
        let threads = u64::from(self.settings.thread_count);
        if asked_ops == 0 || threads <= asked_ops {
            return threads;
        }
        (self.watch.warn)(&format!(
            "threadcount is {threads}, but there are only {asked_ops} operations, so that many \
             clients do them"
        ));
        asked_ops
    }

    /// The clients, each with its share of the operations. In an open loop a free client takes the
    /// next one.
    fn clients<'a>(
        self,
        phase: YcsbPhase,
        (threads, asked_ops): (u64, u64),
        shared: &'a Shared<'a>,
        context: &RunContext<'_>,
        measured: &'a [Mutex<Measurements>],
    ) -> Result<Vec<YcsbClient<'a>>, BenchError> {
        let workload = shared.workload;
        let seed = Prng::new(self.options.seed).derive(phase.name());
        let numbers = Arc::new(InsertSequence::new(match phase {
            YcsbPhase::Load => workload.insert_start,
            YcsbPhase::Run => workload.record_count,
        }));
        let has_shares = asked_ops > 0 && !matches!(shared.timing.pace, Pace::Open(_));
        let client = |(index, measured): (u64, &'a Mutex<Measurements>)| {
            let index = u32::try_from(index).expect("there are at most ten thousand");
            let work = match phase {
                YcsbPhase::Load => Work::Load(Arc::clone(&numbers)),
                YcsbPhase::Run => {
                    let prng = seed.derive(&format!("ycsb operations client {index}"));
                    Work::Run(workload.stream(Arc::clone(&numbers), prng))
                }
            };
            let share = asked_ops / threads + u64::from(u64::from(index) < asked_ops % threads);
            let ops = if has_shares { share } else { u64::MAX };
            let store = (context.connect)()?;
            Ok(YcsbClient::new(index, shared, store, work, ops, &seed, measured))
        };
        (0..threads).zip(measured.iter().cycle()).map(client).collect()
    }

    /// The records missing after a load, unless the properties allow gaps.
    fn gap(self, measured: &Measurements, asked_ops: u64) -> Option<String> {
        let inserted_count = measured.inserted_count();
        if self.workload.retry.keeps_going || inserted_count >= asked_ops {
            return None;
        }
        let refusal = measured.first_error.as_deref().unwrap_or("the arrivals ended");
        Some(format!("{inserted_count} of {asked_ops} records: {refusal}"))
    }

    fn pace(
        self,
        threads: u64,
        arrivals: Option<(Arrivals, String)>,
        is_first: bool,
    ) -> (Pace, String) {
        match (arrivals, self.settings.target_per_s) {
            (Some((arrivals, name)), _) => (Pace::Open(Mutex::new(arrivals)), name),
            (None, 1..) if !is_first => {
                let target = self.settings.target_per_s;
                let tick_ns = threads.saturating_mul(SECOND_NS) / target;
                (Pace::Target { tick_ns: tick_ns.max(1) }, format!("target {target} ops/s"))
            }
            _ => (Pace::BackToBack, "back to back".to_owned()),
        }
    }
}

impl YcsbPhase {
    fn name(self) -> &'static str {
        match self {
            YcsbPhase::Load => "load",
            YcsbPhase::Run => "run",
        }
    }
}

/// Virtual mode: the client whose next operation starts first goes next (S3), not the one that is
/// free first, because its tick may come later. Returns when the last client ended, and whether the
/// store was lost.
fn take_turns(
    world: &VirtualWorld,
    clients: &mut [YcsbClient<'_>],
    observer: &Observer<'_>,
) -> (u64, Result<(), StoreError>) {
    let actors: Vec<_> =
        (0..clients.len()).map(|index| world.client(&format!("client {index}"))).collect();
    let mut at_work: Vec<usize> = (0..clients.len()).collect();
    clients.iter_mut().for_each(YcsbClient::begin);
    let mut ended_ns = observer.timing.began_ns();
    let mut outcome = Ok(());
    let mut steps = 0_u64;
    observer.look(ended_ns);
    while let Some((at, index)) = at_work.iter().copied().enumerate().min_by_key(|&(_, index)| {
        let free_ns = world.client_now_ns(actors[index]);
        (clients[index].starts_ns(free_ns), index)
    }) {
        let step = world.as_client(actors[index], || clients[index].step());
        let now_ns = world.client_now_ns(actors[index]);
        ended_ns = ended_ns.max(now_ns);
        if !matches!(step, Ok(true)) {
            at_work.remove(at);
        }
        if let Err(error) = step {
            observer.timing.stop();
            outcome = outcome.and(Err(error));
        }
        steps += 1;
        if steps.is_multiple_of(LOOK_EVERY_STEPS) {
            observer.look(now_ns);
        }
    }
    observer.timing.clock.advance_to_ns(ended_ns);
    (ended_ns, outcome)
}

/// Threads mode: each client on its own thread, and the observer on another. All threads exist when
/// the run starts.
fn race(
    clients: &mut [YcsbClient<'_>],
    observer: &Observer<'_>,
) -> std::io::Result<(u64, Result<(), StoreError>)> {
    let clock = observer.timing.clock;
    let at_work_count = AtomicUsize::new(clients.len());
    let stop = || observer.timing.stop();
    let ended_ns = AtomicU64::new(0);
    let mut places: Vec<Option<Mutex<&mut YcsbClient<'_>>>> =
        clients.iter_mut().map(|client| Some(Mutex::new(client))).collect();
    places.push(None);
    let outcomes = try_fan_out(places.len(), &places, |place| {
        let Some(client) = place else {
            while at_work_count.load(Ordering::Relaxed) > 0 {
                observer.look(clock.now_ns());
                clock.wait_until_ns(clock.now_ns() + LOOK_EVERY_NS);
            }
            return Ok(());
        };
        let mut client = client.lock().unwrap_or_else(PoisonError::into_inner);
        let _at_work = AtWork::new(&at_work_count, &stop);
        client.begin();
        let outcome = loop {
            match client.step() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => {
                    observer.timing.stop();
                    break Err(error);
                }
            }
        };
        ended_ns.fetch_max(clock.now_ns(), Ordering::Relaxed);
        outcome
    })?;
    let outcome = outcomes.into_iter().fold(Ok(()), Result::and);
    Ok((ended_ns.load(Ordering::Relaxed), outcome))
}

#[cfg(test)]
mod tests;
