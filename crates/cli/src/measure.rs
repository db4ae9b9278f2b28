//! `bench`: measures the store with the benchmarks of db_bench, by the crate `imbrex-bench`.

use crate::arrival_bench::ArrivalBenchArgs;
use crate::data_file::DataArgs;
use crate::error::{CliError, Context};
use crate::output::Table;
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::share_bench::ShareBenchArgs;
use crate::store::cannot_measure;
use imbrex_bench::report::{Report, RunReport};
use imbrex_bench::{BenchError, BenchOptions, Phase, RunProgress, run_watched};
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
}

#[derive(clap::Subcommand, Debug)]
enum BenchCommand {
    /// Compare the response times of layouts under several arrival models and loads
    Arrivals(ArrivalBenchArgs),
    /// Compare how full the drives of layouts may be under uniform overwrites, and how fast they are then
    Shares(ShareBenchArgs),
    /// Compare the steady state of layouts under uniform overwrites: speed, stalls, space and reads
    Steady(ShareBenchArgs),
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
            None => {}
        }
        let is_json = session.out.is_json()?;
        let data = self.data.open()?;
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
        let report = run_watched(&self.options, &mut finished, &watch);
        bars.clear();
        let report = report.map_err(|error| match error {
            BenchError::Options(fault) => CliError::usage(fault),
            error => cannot_measure(&error),
        })?;
        if is_json {
            let report = serde_json::to_value(&report).context(|| "cannot write JSON")?;
            shown = session.out.json(&report);
        }
        if let Some(data) = data.filter(|_| !report.interrupted) {
            data.write(vec![table(&report).data(report.setup.to_string())])?;
        }
        let is_interrupted = report.interrupted && session.interrupt.is_asked();
        if is_interrupted { Err(CliError::interrupted()) } else { shown }
    }
}

/// A row for each benchmark.
fn table(report: &Report) -> Table {
    let mut table = Table::new(&[
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
    ]);
    report.runs.iter().for_each(|run| table.row(row(run)));
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
