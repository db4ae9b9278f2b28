//! `bench`: measures the store with the benchmarks of db_bench, by the crate `imbrex-bench`.

use crate::arrival_bench::ArrivalBenchArgs;
use crate::error::{CliError, Context};
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::store::cannot_measure;
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
}

#[derive(clap::Subcommand, Debug)]
enum BenchCommand {
    /// Compare the response times of layouts under several arrival models and loads
    Arrivals(ArrivalBenchArgs),
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
        if let Some(BenchCommand::Arrivals(args)) = self.command {
            return args.run(session);
        }
        let is_json = session.out.is_json()?;
        let bars = Bars::default();
        let interrupt = session.interrupt.clone();
        let mut shown = Ok(());
        let is_read = AtomicBool::new(true);
        let mut finished = |run: &imbrex_bench::report::RunReport| {
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
        let is_interrupted = report.interrupted && session.interrupt.is_asked();
        if is_interrupted { Err(CliError::interrupted()) } else { shown }
    }
}
