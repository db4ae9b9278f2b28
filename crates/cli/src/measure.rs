//! `bench`: measures the store with the benchmarks of db_bench, by the crate `imbrex-bench`.

use crate::arrival_bench::ArrivalBenchArgs;
use crate::data_file::{DataArgs, DataFile};
use crate::device_bench::DeviceBenchArgs;
use crate::error::{CliError, Context};
use crate::output::{Table, note};
use crate::progress::{Progress, Unit};
use crate::recorder::RecordArgs;
use crate::session::Session;
use crate::share_bench::ShareBenchArgs;
use crate::store::{cannot_measure, layout_named};
use imbrex_bench::options::Mode;
use imbrex_bench::report::{Report, RunReport};
use imbrex_bench::{
    BenchError, BenchOptions, Phase, RunFailure, RunProgress, RunWatches, run_watched,
};
use imbrex_watch::{Subject, Tap, Title};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Arguments of `imbrex bench`.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    options: BenchOptions,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    record: RecordArgs,
}

#[derive(clap::Subcommand, Debug)]
enum BenchCommand {
    /// Compare the response times of layouts under several arrival models and loads
    Arrivals(ArrivalBenchArgs),
    /// Compare how full the drives of layouts may be under overwrites, and how fast they are then
    Shares(ShareBenchArgs),
    /// Compare the steady state of layouts under overwrites: speed, stalls, space and reads
    Steady(ShareBenchArgs),
    /// Live with a block device on a drive of many TB for simulated days: writes, memory, stalls, opening
    ///
    /// The drive is a model that keeps the map, the journal and the zones but not the data. The device is
    /// filled with files, loses some of them, and serves each load at each share for the days asked. A
    /// power cut ends each day. Every read is compared with what was written.
    Device(DeviceBenchArgs),
}

/// The progress bar. Each benchmark has one bar for its operations and one for its background work.
#[derive(Debug, Default)]
struct Bars {
    shown: Mutex<Option<(usize, Phase, Progress)>>,
}

impl Bars {
    fn lock(&self) -> MutexGuard<'_, Option<(usize, Phase, Progress)>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, at: &RunProgress) {
        let mut shown = self.lock();
        let is_new =
            shown.as_ref().is_none_or(|(n, phase, _)| (*n, *phase) != (at.number, at.phase));
        if is_new {
            let unit = match at.phase {
                Phase::Operations => Unit::Items,
                Phase::Background => Unit::Bytes,
            };
            // The previous bar is removed first, so that two never share the line.
            drop(shown.take());
            *shown = Some((at.number, at.phase, Progress::new(title(at), unit, at.total)));
        }
        if let Some((_, _, progress)) = &*shown {
            progress.set_of(at.done, at.total);
        }
    }

    fn clear(&self) {
        drop(self.lock().take());
    }
}

/// `fillrandom, 2 of 4`, or `fillrandom, 2 of 4, background work` after the clients have ended.
fn title(at: &RunProgress) -> String {
    let behind = match at.phase {
        Phase::Operations => "",
        Phase::Background => ", background work",
    };
    match at.count {
        1 => format!("{}{behind}", at.benchmark),
        count => format!("{}, {} of {count}{behind}", at.benchmark, at.number),
    }
}

impl BenchArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        match self.command {
            Some(BenchCommand::Arrivals(args)) => return args.run(session),
            Some(BenchCommand::Shares(args)) => return args.run_shares(session),
            Some(BenchCommand::Steady(args)) => return args.run_steady(session),
            Some(BenchCommand::Device(args)) => return args.run(session),
            None => {}
        }
        let data = self.data.open()?;
        let is_json = session.out.is_json()?;
        let layouts = layouts(&self.options)?;
        let mut reports = Vec::new();
        let mut failure = None;
        let recorder = self.record.begin()?;
        for (id, layout) in layouts.iter().enumerate() {
            let mut options = self.options.clone();
            options.testbed.layout = layout.map(str::to_owned);
            if let Some(layout) = layout.filter(|_| layouts.len() > 1 && !is_json) {
                session.out.line(format!("{layout}\n"))?;
            }
            let tap = recorder.as_ref().map(|recorder| recorder.tap(id as u32, title_of(&options)));
            let (report, outcome) = measure(&options, session, is_json, tap.as_ref())?;
            let is_interrupted = report.as_ref().is_some_and(|report| report.interrupted);
            reports.extend(report);
            // The other layouts are measured all the same.
            if let Err(error) = outcome {
                let error = match layout {
                    Some(layout) if layouts.len() > 1 => error.about(layout),
                    _ => error,
                };
                failure = keep_first(failure, error);
            }
            if is_interrupted {
                break;
            }
        }
        self.tell(session, &reports, layouts.len() > 1, data)?;
        match failure {
            Some(error) => Err(error),
            None if reports.iter().any(|report| report.interrupted) => session.interrupt.check(),
            None => Ok(()),
        }
    }

    /// Prints and writes what was measured after all layouts have ended.
    fn tell(
        &self,
        session: &mut Session,
        reports: &[Report],
        has_several: bool,
        data: Option<DataFile>,
    ) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        if is_json && has_several {
            let all = serde_json::to_value(reports).context(|| "cannot write JSON")?;
            session.out.json(&all)?;
        } else if is_json && let [report] = reports {
            let report = serde_json::to_value(report).context(|| "cannot write JSON")?;
            session.out.json(&report)?;
        } else if has_several && !reports.is_empty() {
            session.out.bytes(table(reports, true).text().as_bytes())?;
        }
        let is_whole = |report: &Report| !report.interrupted && report.failure.is_none();
        if let (Some(data), [first, ..], true) = (data, reports, reports.iter().all(is_whole)) {
            data.write(vec![table(reports, has_several).data(first.setup.to_string())])?;
        }
        Ok(())
    }
}

/// The first of two errors; the other is reported now.
fn keep_first(first: Option<CliError>, error: CliError) -> Option<CliError> {
    if first.is_some() {
        note(format!("imbrex: {error}"));
        return first;
    }
    Some(error)
}

/// The layouts to measure, in order; `None` is the usual one for the drive.
fn layouts(options: &BenchOptions) -> Result<Vec<Option<&str>>, CliError> {
    let testbed = &options.testbed;
    let Some(names) = testbed.layout.as_deref() else { return Ok(vec![None]) };
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    if let [_, _, ..] = names[..] {
        let file = [("--image", testbed.image.is_some()), ("--flash", testbed.flash.is_some())];
        if let Some((flag, _)) = file.iter().find(|(_, is_named)| *is_named) {
            return Err(CliError::usage(format!(
                "{flag} names a file for one store; name one layout, or leave it out: the drives are then in memory"
            )));
        }
        // A name that no layout has is reported before the first run, which may take an hour.
        for name in &names {
            layout_named(Some(name))?;
        }
    }
    Ok(names.into_iter().map(Some).collect())
}

/// Runs the benchmarks of one layout and prints each as it ends. Returns what ended, which may be less than
/// all, and whether the user can still read it.
fn measure(
    options: &BenchOptions,
    session: &mut Session,
    is_json: bool,
    tap: Option<&Tap>,
) -> Result<(Option<Report>, Result<(), CliError>), CliError> {
    let bars = Bars::default();
    let interrupt = session.interrupt.clone();
    let mut shown = Ok(());
    let is_read = AtomicBool::new(true);
    let mut finished = |run: &RunReport| {
        bars.clear();
        if !is_json && shown.is_ok() {
            // Each benchmark is reported as it ends: the next may take a while.
            shown = session.out.line(run.to_string()).and_then(|()| session.out.flush());
            is_read.store(shown.is_ok(), Ordering::Relaxed);
        }
    };
    let watch = |at: &RunProgress| {
        bars.show(at);
        // After the reader of the output has gone, no further benchmark is run.
        if is_read.load(Ordering::Relaxed) { interrupt.flow() } else { ControlFlow::Break(()) }
    };
    let look = |now_ns: u64, subject: Subject<'_>| {
        if let Some(tap) = tap {
            tap.tick(now_ns, subject);
        }
    };
    let watches = RunWatches { progress: &watch, store: &look };
    let outcome = run_watched(options, &mut finished, watches);
    bars.clear();
    shown?;
    match outcome {
        Ok(report) => Ok((Some(report), Ok(()))),
        Err(failure) => match *failure {
            RunFailure { error: BenchError::Options(fault), .. } => Err(CliError::usage(fault)),
            RunFailure { error, report } => Ok((report, Err(cannot_measure(&error)))),
        },
    }
}

/// The name of the store in a recording.
fn title_of(options: &BenchOptions) -> Title {
    let layout = options.testbed.layout.clone();
    let layout = layout.unwrap_or_else(|| "store".to_owned());
    Title { name: layout.clone(), layout, is_virtual: options.mode == Mode::Virtual }
}

/// A row for each benchmark, with its layout if there are several.
fn table(reports: &[Report], has_several: bool) -> Table {
    let header = [
        "layout",
        "benchmark",
        "operations",
        "operations/s",
        "operations per disk-second",
        "mean, ms",
        "p50",
        "p99",
        "p99.9",
        "longest",
        "WA",
        "AWA",
        "MWA",
        "drive read, MB",
        "written, MB",
        "busy, s",
    ];
    let mut table = Table::new(&header[usize::from(!has_several)..]);
    for report in reports {
        let layout = has_several.then(|| report.setup.layout.clone());
        for run in &report.runs {
            table.row(layout.clone().into_iter().chain(row(run)).collect());
        }
        if let (Some(layout), Some(failure)) = (layout, &report.failure) {
            table.row(vec![layout, format!("failed: {failure}")]);
        }
    }
    table
}

fn row(run: &RunReport) -> Vec<String> {
    let (l, d) = (&run.latency, &run.drive);
    let mut cells = vec![run.benchmark.clone(), run.ops.to_string()];
    cells.extend([run.ops_per_second, d.ops_per_disk_second].map(|rate| format!("{rate:.1}")));
    let times = [l.mean_ns, l.p50_ns, l.p99_ns, l.p999_ns, l.max_ns];
    cells.extend(times.map(|ns| format!("{:.3}", ns as f64 / 1e6)));
    let ratios =
        [run.engine.write_amp_ratio, d.added_write_amp_ratio, d.multiplied_write_amp_ratio];
    cells.extend(ratios.map(|ratio| format!("{ratio:.2}")));
    cells.extend([d.read_bytes, d.written_bytes].map(|bytes| format!("{:.1}", bytes as f64 / 1e6)));
    cells.push(format!("{:.2}", d.busy_ns as f64 / 1e9));
    cells
}
