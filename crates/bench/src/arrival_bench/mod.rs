//! `imbrex bench arrivals`: the response times of layouts under several arrival models and loads.
//!
//! ```text
//!   layouts x models x loads --> cells, each with a fresh drive and a separate world
//!                                  |  YCSB in an open loop: inserts, or the operations of -P on loaded records
//!                                ArrivalBenchReport: one row per cell; the picture (picture)
//! ```
//!
//! A benchmark that sends the next operation when the last one returns asks less of a store that
//! stalls. Here operations arrive at the model's times, independent of the store, and the response
//! time starts at the arrival. The longest stall of a cell is the longest operation, counted from
//! its own start; the rest of a response time is the queue before it.
//!
//! All cells of one model and load get the same series of arrivals, keys and values. In virtual
//! time, options and seed decide every figure.
//!
//! Source: the arrival models and the open loop of Pitchumani's thesis, chapter 4. The selection of
//! layouts and loads is ours.

mod picture;

use crate::error::BenchError;
use crate::latency::LatencySummary;
use crate::options::{TestbedOptions, len_bytes};
use crate::profile_choice::DriveShape;
use crate::report::Bytes;
use crate::watch::Phase;
use crate::workers::worker_count;
use crate::ycsb::{YcsbOptions, YcsbPhase, YcsbProgress, YcsbReport, YcsbWatch, ycsb};
use imbrex::Layout;
use imbrex_clockwork::fan_out;
use imbrex_disk::ByteSize;
use imbrex_workload::arrivals::{ArrivalEnd, ArrivalModel};
use imbrex_workload::ycsb::properties::{Properties, PropertyError};
use serde::Serialize;
use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The models, by their names in the property `arrivalgenerator`.
const MODELS: [&str; 4] = ["constant", "poisson", "selfsimilar", "diurnal"];

/// The amplitude of a diurnal rate, and the number of its cycles per run.
const MODULATION_PERCENT: f64 = 90.0;
const DAYS_PER_RUN: f64 = 2.0;

/// Properties that the runs set themselves, and the flags that set them. In files they are
/// overridden, because files are often shared with single runs. An argument that would have no
/// effect is refused.
const OWN: [(&str, &str); 5] = [
    ("arrivalgenerator", "--models"),
    ("arrivals.rate", "--loads"),
    ("operationcount", "--operations"),
    ("target", "--loads"),
    ("threadcount", "--threads"),
];

/// The same for runs of inserts: properties that select records, and so the number of operations.
const OWN_OF_INSERTS: [(&str, &str); 3] = [
    ("insertcount", "--operations"),
    ("insertstart", "--operations"),
    ("recordcount", "--operations"),
];

/// The options of one `imbrex bench arrivals`.
#[derive(Clone, Debug, clap::Args)]
pub struct ArrivalBenchOptions {
    /// Layouts to compare, such as sealdb,gear [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub layouts: Vec<String>,

    /// Arrival models
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        default_value = "constant,poisson,selfsimilar,diurnal"
    )]
    pub models: Vec<String>,

    /// Mean rates, in operations per second
    #[arg(long, value_delimiter = ',', value_name = "RATES", default_value = "1000,2000,4000")]
    pub loads: Vec<u64>,

    /// Number of operations of each run
    #[arg(long, default_value_t = 250_000)]
    pub operations: u64,

    /// Length of a value, such as 4096 or 4KiB, unless a property sets it
    #[arg(long = "value_size", alias = "value-size", default_value = "4096", value_parser = len_bytes::<u64>)]
    pub value_size: u64,

    /// Number of concurrent clients
    #[arg(long, default_value_t = 16)]
    pub threads: u32,

    /// A property file of YCSB with the operations to run on a loaded store; may be repeated, and later files
    /// override earlier ones [default: inserts at random keys]
    ///
    /// The number of operations, their arrivals and the number of clients are set by the flags alone.
    #[arg(short = 'P', long = "properties", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// A property of the workload or of an arrival model, such as ss.bias=0.75; may be repeated
    #[arg(short = 'p', long = "property", value_name = "KEY=VALUE")]
    pub assignments: Vec<String>,

    /// Capacity of each drive
    #[arg(long, value_name = "SIZE", default_value = "32G")]
    pub capacity: ByteSize,

    /// Seed: the same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Number of parallel runs; each takes one core and its own memory
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
}

impl ArrivalBenchOptions {
    /// The options with every flag at its default.
    pub fn new() -> ArrivalBenchOptions {
        #[derive(Debug, clap::Parser)]
        struct Only {
            #[command(flatten)]
            options: ArrivalBenchOptions,
        }
        <Only as clap::Parser>::parse_from(["arrivals"]).options
    }
}

impl Default for ArrivalBenchOptions {
    fn default() -> ArrivalBenchOptions {
        ArrivalBenchOptions::new()
    }
}

/// The progress of all runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrivalBenchProgress {
    /// Operations done in all runs.
    pub done: u64,
    /// Operations to do.
    pub total: u64,
    /// The current rate of arrivals in the run that reports.
    pub arrivals_per_second: Option<f64>,
}

/// Callbacks, called from any thread.
#[derive(Clone, Copy)]
pub struct ArrivalBenchWatch<'a> {
    /// Warnings, one line each.
    pub warn: &'a (dyn Fn(&str) + Sync),
    /// Progress; `Break` ends the bench, and the report has the completed runs.
    pub progress: &'a (dyn Fn(&ArrivalBenchProgress) -> ControlFlow<()> + Sync),
}

impl fmt::Debug for ArrivalBenchWatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrivalBenchWatch").finish_non_exhaustive()
    }
}

/// The results of all runs.
#[derive(Clone, Debug, Serialize)]
pub struct ArrivalBenchReport {
    /// The operations in words.
    pub workload: String,
    /// Operations per run
    pub operations: u64,
    /// Clients.
    pub threads: u32,
    /// Length of each drive
    pub capacity_bytes: u64,
    /// The seed.
    pub seed: u64,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// By layout, model and load, in the requested order.
    pub runs: Vec<ArrivalRun>,
}

/// The results of one layout under one series of arrivals.
#[derive(Clone, Debug, Serialize)]
pub struct ArrivalRun {
    /// The layout.
    pub layout: &'static str,
    /// The arrival model.
    pub model: &'static str,
    /// The requested arrivals per second.
    pub load_per_s: u64,
    /// Operations done.
    pub ops: u64,
    /// Operations that were due before the end and never started, because `maxexecutiontime` ended
    /// the run. No response time includes them.
    pub unstarted_count: u64,
    /// Whether there were more of them than were counted.
    pub has_more_unstarted: bool,
    /// Operations per second, up to the end of the last one.
    pub ops_per_second: f64,
    /// Response times, from the intended starts.
    pub response: LatencySummary,
    /// The longest operation, from its own start.
    pub longest_stall_ns: u64,
    /// The reason for an early end, if the store was lost or could not be loaded. The figures cover
    /// the work up to that moment.
    pub failure: Option<String>,
    /// The store's error at its first refusal of an operation.
    pub first_error: Option<String>,
}

/// One run to be done.
#[derive(Clone, Debug)]
struct Cell {
    layout: Layout,
    model: &'static str,
    load_per_s: u64,
    index: usize,
}

/// Runs every layout under every model at every load.
///
/// Cost: per concurrent run, a drive in memory with everything that the run writes.
///
/// A run that fails while others succeed is part of the report, with its `failure`.
///
/// # Errors
/// [`BenchError::Options`], [`BenchError::Property`], [`BenchError::Arrivals`],
/// [`BenchError::Layout`]: the request is invalid; found before the first run where possible.
/// Otherwise an error that all runs share.
pub fn arrival_bench(
    options: &ArrivalBenchOptions,
    watch: ArrivalBenchWatch<'_>,
) -> Result<ArrivalBenchReport, BenchError> {
    let cells = cells(options)?;
    let bench = Bench {
        options,
        watch,
        done: (0..cells.len()).map(|_| AtomicU64::new(0)).collect(),
        is_stopped: AtomicBool::new(false),
    };
    let asked = bench.asked()?;
    bench.check_arguments(&asked)?;
    cells.iter().try_for_each(|cell| bench.check(cell))?;
    let workload = bench.workload(cells.first())?;
    bench.warn(&asked);
    let results = fan_out(worker_count(options.jobs, cells.len()), &cells, |cell| bench.run(cell));
    // A warning of all runs is about the request; a warning of one run is about its layout.
    let have_all_failed = results.iter().all(Result::is_err);
    let mut runs = Vec::new();
    for (cell, result) in cells.iter().zip(results) {
        match result {
            Ok(run) => runs.extend(run),
            Err(error) if have_all_failed => return Err(error),
            Err(error) => runs.push(cell.undone(error.to_string())),
        }
    }
    Ok(ArrivalBenchReport {
        workload,
        operations: options.operations,
        threads: bench.client_count(),
        capacity_bytes: options.capacity.0,
        seed: options.seed,
        interrupted: bench.is_stopped.load(Ordering::Relaxed),
        runs,
    })
}

fn cells(options: &ArrivalBenchOptions) -> Result<Vec<Cell>, BenchError> {
    let wrong = |what: &str| BenchError::Options(what.to_owned());
    if options.operations == 0 || options.threads == 0 || options.jobs == 0 {
        return Err(wrong("--operations, --threads and --jobs are at least 1"));
    }
    if options.loads.is_empty() || options.loads.contains(&0) {
        return Err(wrong("--loads are operations a second, at least 1 each"));
    }
    let layouts: Vec<Layout> = match options.layouts.is_empty() {
        true => Layout::all().collect(),
        false => {
            let named = options.layouts.iter().map(|name| Layout::by_name(name));
            named.collect::<Result<_, _>>().map_err(BenchError::layout)?
        }
    };
    let model = |name: &String| {
        let known = MODELS.into_iter().find(|known| known == name);
        known.ok_or_else(|| {
            let all = MODELS.join(", ");
            BenchError::Options(format!("{name:?} is not an arrival model; choose from {all}"))
        })
    };
    let models = options.models.iter().map(model).collect::<Result<Vec<_>, _>>()?;
    let mut cells = Vec::new();
    for &layout in &layouts {
        for &model in &models {
            for &load_per_s in &options.loads {
                cells.push(Cell { layout, model, load_per_s, index: cells.len() });
            }
        }
    }
    Ok(cells)
}

struct Bench<'a> {
    options: &'a ArrivalBenchOptions,
    watch: ArrivalBenchWatch<'a>,
    /// Operations done, by cell.
    done: Vec<AtomicU64>,
    is_stopped: AtomicBool,
}

impl Bench<'_> {
    fn phase(&self) -> YcsbPhase {
        if self.options.files.is_empty() { YcsbPhase::Load } else { YcsbPhase::Run }
    }

    /// The operations in words; all cells have the same ones.
    fn workload(&self, cell: Option<&Cell>) -> Result<String, PropertyError> {
        let (Some(cell), YcsbPhase::Load) = (cell, self.phase()) else {
            let names = self.options.files.iter().map(|file| file.display().to_string());
            return Ok(names.collect::<Vec<_>>().join(" "));
        };
        let properties = self.properties(cell)?;
        let number = |key: &str| properties.parsed(key, 0_u64, "a whole number");
        let value_len_bytes = number("fieldcount")?.saturating_mul(number("fieldlength")?);
        Ok(match properties.get("fieldlengthdistribution") {
            None | Some("constant") => format!("inserts of {value_len_bytes} bytes"),
            Some("histogram") => "inserts of fields as long as a histogram says".to_owned(),
            Some(_) => format!("inserts of up to {value_len_bytes} bytes"),
        })
    }

    /// The requested clients, but no more than there are operations.
    fn client_count(&self) -> u32 {
        let operations = u32::try_from(self.options.operations).unwrap_or(u32::MAX);
        self.options.threads.min(operations)
    }

    /// The properties of the files, overridden by those of the command line.
    fn asked(&self) -> Result<Properties, PropertyError> {
        let asked = YcsbOptions {
            files: self.options.files.clone(),
            assignments: self.options.assignments.clone(),
            ..YcsbOptions::new()
        };
        asked.read_properties()
    }

    /// Refuses arguments that would change nothing.
    fn check_arguments(&self, asked: &Properties) -> Result<(), PropertyError> {
        let of_inserts = match self.phase() {
            YcsbPhase::Load => &OWN_OF_INSERTS[..],
            YcsbPhase::Run => &[],
        };
        match OWN.iter().chain(of_inserts).find(|(key, _)| asked.is_argument(key)) {
            Some((key, flag)) => Err(asked.wrong(key, format!("set it by {flag} here"))),
            None => Ok(()),
        }
    }

    /// Warns about parts of the request that do not apply.
    fn warn(&self, asked: &Properties) {
        let warn = self.watch.warn;
        for property in asked.unknown() {
            warn(&format!("property {property} is unknown and has no effect"));
        }
        let (threads, operations) = (self.options.threads, self.options.operations);
        if self.client_count() < threads {
            warn(&format!(
                "--threads is {threads}, but a run has only {operations} operations, so it uses \
                 that many clients"
            ));
        }
    }

    /// The properties of a cell: our own values, overridden by the files', overridden by those of
    /// the command line. The arrivals are the cell's.
    fn properties(&self, cell: &Cell) -> Result<Properties, PropertyError> {
        let options = self.options;
        let (operations, load_per_s) = (options.operations, cell.load_per_s);
        let run_len_s = operations as f64 / load_per_s as f64;
        let usual = [
            ("fieldcount", "1".to_owned()),
            ("fieldlength", options.value_size.to_string()),
            ("insertorder", "hashed".to_owned()),
            ("recordcount", operations.to_string()),
            ("diurnal.modulation", (load_per_s as f64 * MODULATION_PERCENT / 100.0).to_string()),
            ("diurnal.cyclelength", (run_len_s / DAYS_PER_RUN / 60.0).to_string()),
        ];
        let mut properties = self.asked()?;
        for (key, value) in usual {
            if properties.get(key).is_none() {
                properties.set(key, value);
            }
        }
        let own = [
            ("arrivalgenerator", cell.model.to_owned()),
            ("arrivals.rate", load_per_s.to_string()),
            ("operationcount", operations.to_string()),
            // The other name of the rate; a run takes only one of them.
            ("target", "0".to_owned()),
            ("threadcount", self.client_count().to_string()),
        ];
        debug_assert!(own.iter().map(|(key, _)| key).eq(OWN.iter().map(|(key, _)| key)));
        for (key, value) in own {
            properties.set(key, value);
        }
        Ok(properties)
    }

    /// Reports invalid requests before the first run.
    fn check(&self, cell: &Cell) -> Result<(), BenchError> {
        let properties = self.properties(cell)?;
        let model = ArrivalModel::from_properties(&|key| properties.get(key).map(str::to_owned))?;
        model.series(cell.load_per_s as f64, ArrivalEnd::Operations(1), self.options.seed)?;
        Ok(())
    }

    /// The results of the cell; `None` if the user stopped it.
    fn run(&self, cell: &Cell) -> Result<Option<ArrivalRun>, BenchError> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let properties = self.properties(cell)?;
        let mut options =
            YcsbOptions { seed: self.options.seed, settle: false, ..YcsbOptions::new() };
        let shape = DriveShape { capacity: Some(self.options.capacity), ..DriveShape::default() };
        let layout = Some(cell.layout.name().to_owned());
        options.testbed = TestbedOptions { layout, shape, ..options.testbed };
        let progress = |at: &YcsbProgress| self.look(cell, at);
        let warn = |text: &str| (self.watch.warn)(&format!("{cell}: {text}"));
        let watch = YcsbWatch { warn: &warn, status: &|_| (), progress: &progress };
        let report = ycsb(&options, self.phase(), &properties, watch);
        if report.as_ref().is_ok_and(|report| report.interrupted) {
            return Ok(None);
        }
        self.done[cell.index].store(self.options.operations, Ordering::Relaxed);
        Ok(Some(cell.of(&report?)))
    }

    fn look(&self, cell: &Cell, at: &YcsbProgress) -> ControlFlow<()> {
        let is_counted =
            at.phase == Phase::Operations && at.is_load == (self.phase() == YcsbPhase::Load);
        if is_counted {
            self.done[cell.index].store(at.done, Ordering::Relaxed);
        }
        let progress = ArrivalBenchProgress {
            done: self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum(),
            total: self.options.operations * self.done.len() as u64,
            arrivals_per_second: at.arrivals_per_second,
        };
        let flow = (self.watch.progress)(&progress);
        if flow.is_break() {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        flow
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}/s", self.layout.name(), self.model, self.load_per_s)
    }
}

impl Cell {
    fn of(&self, report: &YcsbReport) -> ArrivalRun {
        ArrivalRun {
            layout: self.layout.name(),
            model: self.model,
            load_per_s: self.load_per_s,
            ops: report.ops,
            unstarted_count: report.schedule.map_or(0, |schedule| schedule.unstarted_count),
            has_more_unstarted: report.schedule.is_some_and(|schedule| schedule.has_more_unstarted),
            ops_per_second: report.ops_per_second,
            response: report.response,
            longest_stall_ns: report.service.max_ns,
            failure: report.failure.clone(),
            first_error: report.first_error.clone(),
        }
    }

    /// A cell without operations, and the reason.
    fn undone(&self, failure: String) -> ArrivalRun {
        ArrivalRun {
            layout: self.layout.name(),
            model: self.model,
            load_per_s: self.load_per_s,
            ops: 0,
            unstarted_count: 0,
            has_more_unstarted: false,
            ops_per_second: 0.0,
            response: LatencySummary::default(),
            longest_stall_ns: 0,
            failure: Some(failure),
            first_error: None,
        }
    }
}

impl ArrivalRun {
    /// The number of operations that were due and never started.
    pub fn unstarted(&self) -> String {
        let or_more = if self.has_more_unstarted { " or more" } else { "" };
        format!("{}{or_more}", self.unstarted_count)
    }
}

impl ArrivalBenchReport {
    /// The setup in one line.
    pub fn title(&self) -> String {
        format!(
            "{} runs of {} {}, {} clients, drives of {}, seed {}; virtual time",
            self.runs.len(),
            self.operations,
            self.workload,
            self.threads,
            Bytes(self.capacity_bytes),
            self.seed
        )
    }

    /// The report as JSON, ending in a line feed.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a report is numbers, strings and lists");
        text.push('\n');
        text
    }

    /// The picture: for each layout and load, the median wait, the 99th percentile and so on up to
    /// the longest wait; one panel per model.
    pub fn to_svg(&self) -> String {
        picture::draw(self)
    }
}

#[cfg(test)]
mod tests;
