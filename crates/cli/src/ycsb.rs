//! `ycsb load` and `ycsb run`: YCSB's core workload on a store or a server, by the crate `imbrex-bench`;
//! `ycsb workloads`: its property files.

use crate::arrivals;
use crate::error::{CliError, Context, Exit};
use crate::output::note;
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::store::cannot_measure;
use crate::target::Target;
use clap::Subcommand;
use imbrex_bench::ycsb::{
    YcsbOptions, YcsbPhase, YcsbProgress, YcsbWatch, core_workload_files, ycsb,
};
use imbrex_bench::{BenchError, Phase};
use imbrex_workload::ycsb::properties::PropertyError;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// YCSB's two phases.
#[derive(Debug, Subcommand)]
pub(crate) enum YcsbCommand {
    /// Insert the records that the properties describe
    Load(YcsbArgs),
    /// Run operations on the records; a run on a new drive loads the records first
    Run(YcsbArgs),
    /// Write the property files of the six core workloads, for -P and for the original YCSB
    Workloads(WorkloadsArgs),
}

/// Arguments of `imbrex ycsb workloads`.
#[derive(clap::Args, Debug)]
pub(crate) struct WorkloadsArgs {
    /// Directory for workloada to workloadf; created if missing. A file of that name with other content
    /// is not overwritten
    #[arg(default_value = "workloads", value_name = "DIR")]
    dir: PathBuf,
}

impl WorkloadsArgs {
    fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let dir = &self.dir;
        std::fs::create_dir_all(dir).context(|| format!("cannot make {}", dir.display()))?;
        let files: Vec<_> =
            core_workload_files().map(|(name, text)| (dir.join(name), text)).collect();
        for (path, text) in &files {
            let shown = path.display();
            let found = std::fs::read(path).ok();
            if found.is_some_and(|found| found != text.as_bytes()) {
                return Err(CliError::usage(format!(
                    "cannot write {shown}: it exists with other content; name another directory"
                )));
            }
        }
        let mut shown = Vec::new();
        for (path, text) in &files {
            Target::new(path, &[])?.write(text)?;
            shown.push(path.display().to_string());
        }
        match is_json {
            true => session.out.json(&serde_json::json!({ "files": shown })),
            false => shown.iter().try_for_each(|path| session.out.line(format!("{path}: written"))),
        }
    }
}

/// Arguments of `imbrex ycsb load` and `imbrex ycsb run`.
#[derive(clap::Args, Debug)]
pub(crate) struct YcsbArgs {
    #[command(flatten)]
    options: YcsbOptions,
}

/// The progress bar of the current phase: loading, running, or the background work after either.
#[derive(Debug, Default)]
struct Bars {
    shown: Mutex<Option<(bool, Phase, Progress)>>,
}

impl Bars {
    fn lock(&self) -> MutexGuard<'_, Option<(bool, Phase, Progress)>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, at: &YcsbProgress) {
        let mut shown = self.lock();
        let now = (at.is_load, at.phase);
        if shown.as_ref().is_none_or(|(is_load, phase, _)| (*is_load, *phase) != now) {
            let unit = match at.phase {
                Phase::Operations => Unit::Items,
                Phase::Background => Unit::Bytes,
            };
            let what = match now {
                (true, Phase::Operations) => "loading",
                (false, Phase::Operations) => "running",
                (_, Phase::Background) => "background work",
            };
            // The previous bar is removed first, so that two never share the line.
            drop(shown.take());
            *shown = Some((at.is_load, at.phase, Progress::new(what, unit, at.total)));
        }
        if let Some((_, _, progress)) = &*shown {
            progress.set_of(at.done, at.total);
            progress.tell(at.arrivals_per_second.map(|rate| format!("arrivals {rate:.0}/s")));
        }
    }

    /// Prints a line above the bar.
    fn line(&self, text: &str) {
        match &*self.lock() {
            Some((_, _, progress)) => progress.line(text),
            None => note(text),
        }
    }

    fn clear(&self) {
        drop(self.lock().take());
    }
}

impl YcsbCommand {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let (phase, options) = match self {
            YcsbCommand::Load(args) => (YcsbPhase::Load, args.options),
            YcsbCommand::Run(args) => (YcsbPhase::Run, args.options),
            YcsbCommand::Workloads(args) => return args.run(session),
        };
        // The output is YCSB's own unless the user gave --format.
        let is_ours = session.out.is_chosen();
        let is_json = session.out.is_json()?;
        let properties = options.read_properties().map_err(|error| failed(error.into()))?;
        for property in ["exportfile", "measurement.raw.output_file"] {
            if let Some(path) = properties.get(property) {
                Target::new(Path::new(path), &[])?;
            }
        }
        let bars = Bars::default();
        let warn = |text: &str| bars.line(&format!("imbrex: warning: {text}"));
        for property in properties.unknown() {
            warn(&format!("property {property} is unknown and has no effect"));
        }
        let interrupt = session.interrupt.clone();
        let progress = |at: &YcsbProgress| {
            bars.show(at);
            interrupt.flow()
        };
        let status = |text: &str| bars.line(text);
        let watch = YcsbWatch { warn: &warn, status: &status, progress: &progress };
        let report = ycsb(&options, phase, &properties, watch);
        bars.clear();
        let report = report.map_err(failed)?;
        // The error that ended the run is reported at the end.
        let is_news = |refusal: &&String| {
            report.failure.as_ref().is_none_or(|failure| !failure.contains(refusal.as_str()))
        };
        if let Some(refusal) = report.first_error.as_ref().filter(is_news) {
            note(format!(
                "imbrex: warning: an operation was refused: {refusal}; further ones are only counted"
            ));
        }
        let saved = report.output.save();
        // The measurements cannot be repeated, so they are printed if they cannot be saved.
        let printed = match &saved {
            Ok(printed) => printed.clone(),
            Err(_) => format!("{}{}", report.output.raw(), report.output.text()),
        };
        let told = if is_json {
            session.out.json(&serde_json::to_value(&report).context(|| "cannot write JSON")?)
        } else if is_ours {
            session.out.bytes(report.to_string().as_bytes())
        } else {
            // YCSB's output format has no line for it.
            if let Some(line) = report.schedule_line() {
                note(line);
            }
            session.out.bytes(printed.as_bytes())
        };
        match &report.failure {
            Some(failure) => {
                if let Err(error) = &saved {
                    let error = CliError::of("cannot save the measurements", error);
                    note(format!("imbrex: warning: {error}"));
                }
                let message = format!(
                    "the run ended early; its figures cover the operations until then: {failure}"
                );
                Err(CliError::new(Exit::Store, message))
            }
            None => {
                saved.context(|| "cannot save the measurements (they were printed instead)")?;
                if report.interrupted { Err(CliError::interrupted()) } else { told }
            }
        }
    }
}

pub(crate) fn failed(error: BenchError) -> CliError {
    match error {
        BenchError::Options(fault) => CliError::usage(fault),
        BenchError::Property(
            error @ (PropertyError::File { .. } | PropertyError::Syntax { .. }),
        ) => CliError::data(error.to_string()),
        BenchError::Property(error) => CliError::usage(error.to_string()),
        BenchError::Arrivals(error) => arrivals::failed(error),
        error => cannot_measure(&error),
    }
}
