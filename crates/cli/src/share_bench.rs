//! `bench shares` and `bench steady`: how full each layout's drive may be, and how fast it then is, by the
//! crate `imbrex-bench`.

use crate::data_file::DataArgs;
use crate::error::{CliError, Context};
use crate::output::Table;
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::store::cannot_measure;
use imbrex_bench::BenchError;
use imbrex_bench::share_bench::{ShareBenchReport, share_bench};
use imbrex_bench::share_grid::{CellRun, GridOptions, GridWatch};
use imbrex_bench::steady_bench::{SteadyBenchReport, steady_bench};

/// Arguments of `imbrex bench shares` and `imbrex bench steady`.
#[derive(clap::Args, Debug)]
pub(crate) struct ShareBenchArgs {
    #[command(flatten)]
    options: GridOptions,
    #[command(flatten)]
    data: DataArgs,
}

/// A bench that ended, for JSON and as a table.
struct Told {
    json: serde_json::Result<serde_json::Value>,
    title: String,
    table: Table,
    is_interrupted: bool,
}

impl ShareBenchArgs {
    pub(crate) fn run_shares(self, session: &mut Session) -> Result<(), CliError> {
        self.run(session, |options, watch| {
            let report = share_bench(options, watch)?;
            let (title, table) = (report.title(), share_table(&report));
            let json = serde_json::to_value(&report);
            Ok(Told { json, title, table, is_interrupted: report.interrupted })
        })
    }

    pub(crate) fn run_steady(self, session: &mut Session) -> Result<(), CliError> {
        self.run(session, |options, watch| {
            let report = steady_bench(options, watch)?;
            let mut table = Table::new(&SteadyBenchReport::columns());
            report.rows().into_iter().for_each(|row| table.row(row));
            let title = report.title();
            let json = serde_json::to_value(&report);
            Ok(Told { json, title, table, is_interrupted: report.interrupted })
        })
    }

    fn run(
        self,
        session: &mut Session,
        bench: impl FnOnce(&GridOptions, GridWatch<'_>) -> Result<Told, BenchError>,
    ) -> Result<(), CliError> {
        let data = self.data.open()?;
        let is_json = session.out.is_json()?;
        let progress = Progress::new("running", Unit::Items, None);
        let interrupt = session.interrupt.clone();
        let finished = |run: &CellRun| {
            if let Some(refusal) = &run.refusal {
                let CellRun { layout, share_percent, .. } = run;
                progress.line(&format!("{layout} at {share_percent} %: {refusal}"));
            }
        };
        let look = |done: u64, total: u64| {
            progress.set_of(done, Some(total));
            interrupt.flow()
        };
        let watch = GridWatch { finished: &finished, progress: &look };
        let told = bench(&self.options, watch);
        drop(progress);
        let told = told.map_err(|error| match error {
            BenchError::Options(fault) => CliError::usage(fault),
            error => cannot_measure(&error),
        })?;
        let Told { json, title, table, is_interrupted } = told;
        if let Some(data) = data.filter(|_| !is_interrupted) {
            data.write(vec![table.data(title.clone())])?;
        }
        let shown = if is_json {
            session.out.json(&json.context(|| "cannot write JSON")?)
        } else {
            session.out.bytes(format!("{title}\n\n{}", table.text()).as_bytes())
        };
        if is_interrupted { Err(CliError::interrupted()) } else { shown }
    }
}

fn share_table(report: &ShareBenchReport) -> Table {
    let shares: Vec<String> = report.shares.iter().map(|share| format!("{share} %")).collect();
    let header: Vec<&str> =
        std::iter::once("layout").chain(shares.iter().map(|s| &s[..])).collect();
    let mut table = Table::new(&header);
    report.rows().into_iter().for_each(|row| table.row(row));
    table
}
