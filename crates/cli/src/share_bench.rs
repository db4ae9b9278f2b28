//! `bench shares`: how full each layout's drive may be, by the crate `imbrex-bench`.

use crate::data_file::DataArgs;
use crate::error::{CliError, Context};
use crate::output::Table;
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::store::cannot_measure;
use imbrex_bench::BenchError;
use imbrex_bench::share_bench::{
    ShareBenchOptions, ShareBenchReport, ShareBenchWatch, ShareRun, share_bench,
};

/// Arguments of `imbrex bench shares`.
#[derive(clap::Args, Debug)]
pub(crate) struct ShareBenchArgs {
    #[command(flatten)]
    options: ShareBenchOptions,
    #[command(flatten)]
    data: DataArgs,
}

impl ShareBenchArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let data = self.data.open()?;
        let is_json = session.out.is_json()?;
        let progress = Progress::new("running", Unit::Items, None);
        let interrupt = session.interrupt.clone();
        let finished = |run: &ShareRun| {
            if let Some(refusal) = &run.refusal {
                let ShareRun { layout, share_percent, .. } = run;
                progress.line(&format!("{layout} at {share_percent} %: {refusal}"));
            }
        };
        let look = |done: u64, total: u64| {
            progress.set_of(done, Some(total));
            interrupt.flow()
        };
        let watch = ShareBenchWatch { finished: &finished, progress: &look };
        let report = share_bench(&self.options, watch);
        drop(progress);
        let report = report.map_err(|error| match error {
            BenchError::Options(fault) => CliError::usage(fault),
            error => cannot_measure(&error),
        })?;
        let table = table(&report);
        if let Some(data) = data.filter(|_| !report.interrupted) {
            data.write(vec![table.data(report.title())])?;
        }
        let told = if is_json {
            let report = serde_json::to_value(&report).context(|| "cannot write JSON")?;
            session.out.json(&report)
        } else {
            session.out.bytes(format!("{}\n\n{}", report.title(), table.text()).as_bytes())
        };
        if report.interrupted { Err(CliError::interrupted()) } else { told }
    }
}

fn table(report: &ShareBenchReport) -> Table {
    let shares: Vec<String> = report.shares.iter().map(|share| format!("{share} %")).collect();
    let header: Vec<&str> =
        std::iter::once("layout").chain(shares.iter().map(|s| &s[..])).collect();
    let mut table = Table::new(&header);
    report.rows().into_iter().for_each(|row| table.row(row));
    table
}
