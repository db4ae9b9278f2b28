//! `bench arrivals`: all layouts under all arrival models at several loads, by the crate `imbrex-bench`.

use crate::data_file::DataArgs;
use crate::error::{CliError, Context, Exit};
use crate::output::{Table, note};
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::target::Target;
use imbrex_bench::arrival_bench::{
    ArrivalBenchOptions, ArrivalBenchProgress, ArrivalBenchReport, ArrivalBenchWatch, ArrivalRun,
    arrival_bench,
};
use std::path::PathBuf;

/// Arguments of `imbrex bench arrivals`.
#[derive(clap::Args, Debug)]
pub(crate) struct ArrivalBenchArgs {
    #[command(flatten)]
    options: ArrivalBenchOptions,
    /// Directory for the table (text), the numbers (JSON) and the picture (SVG); created if missing
    #[arg(long, value_name = "DIR", default_value = "bench-arrivals")]
    out: PathBuf,
    #[command(flatten)]
    data: DataArgs,
}

impl ArrivalBenchArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        // An output that cannot be written fails now: the runs may take half an hour.
        let data = self.data.open()?;
        let is_json = session.out.is_json()?;
        let dir = &self.out;
        std::fs::create_dir_all(dir).context(|| format!("cannot make {}", dir.display()))?;
        let progress = Progress::new("running", Unit::Items, None);
        let interrupt = session.interrupt.clone();
        let warn = |text: &str| progress.line(&format!("imbrex: warning: {text}"));
        let look = |at: &ArrivalBenchProgress| {
            progress.set_of(at.done, Some(at.total));
            progress.tell(at.arrivals_per_second.map(|rate| format!("arrivals {rate:.0}/s")));
            interrupt.flow()
        };
        let watch = ArrivalBenchWatch { warn: &warn, progress: &look };
        let report = arrival_bench(&self.options, watch);
        drop(progress);
        let report = report.map_err(crate::ycsb::failed)?;
        let table = table(&report);
        if let Some(data) = data.filter(|_| !report.interrupted) {
            data.write(vec![table.data(report.title())])?;
        }
        let table = format!("{}\n\n{}", report.title(), table.text());
        let told = match is_json {
            true => session.out.bytes(report.to_json().as_bytes()),
            false => session.out.bytes(table.as_bytes()),
        };
        let put = |name: &str, text: &str| {
            let path = dir.join(name);
            Target::new(&path, &[])?.write(text)
        };
        put("arrivals.txt", &table)?;
        put("arrivals.json", &report.to_json())?;
        put("arrivals.svg", &report.to_svg())?;
        note(format!("the picture is in {}", dir.join("arrivals.svg").display()));
        match lost(&report) {
            Some(message) => Err(CliError::new(Exit::Store, message)),
            None if report.interrupted => Err(CliError::interrupted()),
            None => told,
        }
    }
}

/// The number of runs that lost their stores, with the story of the first one.
fn lost(report: &ArrivalBenchReport) -> Option<String> {
    let lost = report.runs.iter().filter(|run| run.failure.is_some());
    let (count, all) = (lost.clone().count(), report.runs.len());
    let (run, failure) = lost.filter_map(|run| Some((run, run.failure.as_ref()?))).next()?;
    Some(format!(
        "{count} of {all} runs ended early; their figures cover the operations until then; the first was {}, {}, \
         {}/s: {failure}",
        run.layout, run.model, run.load_per_s
    ))
}

/// Milliseconds, with three decimals.
fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

fn row(run: &ArrivalRun) -> Vec<String> {
    let l = &run.response;
    let mut cells = vec![run.layout.to_owned(), run.model.to_owned(), run.load_per_s.to_string()];
    cells.push(format!("{:.0}", run.ops_per_second));
    cells.extend([l.p50_ns, l.p99_ns, l.p999_ns, l.p9999_ns, l.max_ns].map(ms));
    cells.push(ms(run.longest_stall_ns));
    cells.push(run.unstarted());
    cells.push(match (&run.failure, &run.first_error) {
        (Some(failure), _) => format!("ended early: {failure}"),
        (None, Some(error)) => format!("refused: {error}"),
        (None, None) => String::new(),
    });
    cells
}

fn table(report: &ArrivalBenchReport) -> Table {
    let mut table = Table::new(&[
        "layout",
        "model",
        "ops/s asked",
        "done",
        "p50, ms",
        "p99",
        "p99.9",
        "p99.99",
        "longest",
        "longest stall",
        "never started",
        "remark",
    ]);
    report.runs.iter().for_each(|run| table.row(row(run)));
    table
}
