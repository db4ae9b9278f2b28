//! `bench device`: a block device on a large drive over simulated days, by the crate `imbrex-bench`.

use crate::data_file::DataArgs;
use crate::error::{CliError, Context, Exit};
use crate::output::Table;
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::store::cannot_measure;
use imbrex_bench::BenchError;
use imbrex_bench::device_bench::{
    DeviceBenchOptions, DeviceBenchReport, DeviceDay, DeviceWatch, device_bench,
};

/// Arguments of `imbrex bench device`.
#[derive(clap::Args, Debug)]
pub(crate) struct DeviceBenchArgs {
    #[command(flatten)]
    options: DeviceBenchOptions,
    #[command(flatten)]
    data: DataArgs,
}

impl DeviceBenchArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let data = self.data.open()?;
        let is_json = session.out.is_json()?;
        let progress = Progress::new("running", Unit::Items, None);
        let interrupt = session.interrupt.clone();
        let finished = |day: &DeviceDay| {
            // A run may take hours.
            progress.line(&line(day));
        };
        let look = |done: u64, total: u64| {
            progress.set_of(done, Some(total));
            interrupt.flow()
        };
        let watch = DeviceWatch { finished: &finished, progress: &look };
        let report = device_bench(&self.options, watch);
        drop(progress);
        let report = report.map_err(|error| match error {
            BenchError::Options(fault) => CliError::usage(fault),
            error => cannot_measure(&error),
        })?;
        let tables = tables(&report);
        if let Some(data) = data.filter(|_| !report.interrupted && report.refusal.is_none()) {
            data.write(tables.iter().map(|(title, table)| table.data(*title)).collect())?;
        }
        let shown = if is_json {
            session.out.json(&serde_json::to_value(&report).context(|| "cannot write JSON")?)
        } else {
            let texts =
                tables.iter().map(|(title, table)| format!("\n{title}\n\n{}", table.text()));
            session
                .out
                .bytes(format!("{}\n{}", report.title(), texts.collect::<String>()).as_bytes())
        };
        match &report.refusal {
            Some(refusal) => {
                Err(CliError::new(Exit::Store, format!("the device refused: {refusal}")))
            }
            None if report.interrupted => Err(CliError::interrupted()),
            None => shown,
        }
    }
}

/// A day in one line, while others go on.
fn line(day: &DeviceDay) -> String {
    let DeviceDay { written, memory, waits, opening, .. } = day;
    format!(
        "{} % full, {}, day {}: {:.2} blocks written for each, {} nodes, longest write {:.0} ms, opens in {:.2} s",
        day.fill_percent,
        day.load,
        day.day,
        written.all,
        memory.nodes,
        waits.write.max_ns as f64 / 1e6,
        opening.drive_ns as f64 / 1e9,
    )
}

fn tables(report: &DeviceBenchReport) -> Vec<(&'static str, Table)> {
    let tables = DeviceBenchReport::tables();
    let mut tables: Vec<_> =
        tables.into_iter().map(|(title, columns)| (title, Table::new(columns))).collect();
    for day in &report.days {
        for ((_, table), row) in tables.iter_mut().zip(day.rows()) {
            table.row(row);
        }
    }
    tables
}
