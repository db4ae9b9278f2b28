//! `repro`: reproduces published figures, by the crate `imbrex-repro`.

use crate::data_file::DataArgs;
use crate::error::{CliError, Context};
use crate::memory;
use crate::output::{Format, Table, note};
use crate::progress::{Progress, Unit};
use crate::session::Session;
use crate::target::Target;
use imbrex_bench::BenchError;
use imbrex_repro::{
    Figure, GivenTrace, Machine, Reproduction, SCALE_DEFAULT, Size, Watch, figures, figures_named,
    page, repro,
};
use imbrex_workload::trace::TraceError;
use serde_json::json;
use std::num::NonZero;
use std::path::{Path, PathBuf};

/// Arguments of `imbrex repro`.
#[derive(clap::Args, Debug)]
pub(crate) struct ReproArgs {
    /// What to reproduce: a figure such as sealdb-8, a chapter such as thesis-5, a paper (sealdb, thesis,
    /// geardb, kvimr, driver), or all; list prints the figures
    ///
    /// With `--format html` the result is one self-contained page.
    figure: String,
    /// Scale of the run, up to 1 for the paper's own sizes; data and drive shrink together
    #[arg(long, default_value_t = SCALE_DEFAULT)]
    scale: f64,
    /// Seed: the same seed gives the same numbers and pictures on every machine
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A block trace for the figures of the block driver; may be repeated
    ///
    /// A known name, such as LUN0=FILE, replaces the synthetic trace of that name; a new name adds a trace.
    #[arg(long = "trace", value_name = "NAME=FILE", value_parser = given_name)]
    traces: Vec<(String, PathBuf)>,
    /// Restrict the block driver's figures to these traces, such as LUN0,Kmeans
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of parallel runs; each takes one core and its own memory
    #[arg(long, default_value = "2")]
    jobs: NonZero<usize>,
    /// Directory for the page (HTML), the numbers (JSON, Markdown) and the pictures (SVG) [default: none,
    /// or repro for `all`]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    data: DataArgs,
}

/// The directory of `repro all` without `--out`.
const OUT_DEFAULT: &str = "repro";

impl ReproArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        if self.figure == "list" {
            return list(session);
        }
        let figures = figures_named(&self.figure).map_err(failed)?;
        let open = |(name, path): &(String, PathBuf)| GivenTrace::open(name, path.clone());
        let traces: Result<Vec<GivenTrace>, BenchError> = self.traces.iter().map(open).collect();
        let traces = traces.map_err(failed)?.leak();
        let size =
            Size { scale: self.scale, seed: self.seed, traces, only: self.only.clone().leak() };
        // An output that cannot be written fails now: the runs may take an hour.
        let data = self.data.open()?;
        let format = session.out.page_format()?;
        let out = self.out.clone().or_else(|| (self.figure == "all").then(|| OUT_DEFAULT.into()));
        if let Some(dir) = &out {
            std::fs::create_dir_all(dir).context(|| format!("cannot make {}", dir.display()))?;
        }
        let reproduction = self.reproduce(&figures, size, session)?;
        let told = match format {
            Format::Json => session.out.bytes(reproduction.to_json().as_bytes()),
            Format::Html => session.out.bytes(reproduction.to_html().as_bytes()),
            _ => session.out.bytes(reproduction.to_text().as_bytes()),
        };
        if let Some(dir) = out {
            // An unfinished result does not replace a complete one.
            let is_whole = reproduction.unfinished.is_empty();
            let name = format!("{}{}", self.figure, if is_whole { "" } else { "-unfinished" });
            write(&dir, &name, &reproduction)?;
            let page = dir.join(format!("{name}.html"));
            note(format!("{}; see {}", reproduction.verdicts(), page.display()));
        }
        if let Some(data) = data.filter(|_| reproduction.unfinished.is_empty()) {
            data.write(reproduction.tables().into_iter().map(data_table).collect())?;
        }
        if reproduction.unfinished.is_empty() { told } else { Err(CliError::interrupted()) }
    }

    fn reproduce(
        &self,
        figures: &[Figure],
        size: Size,
        session: &Session,
    ) -> Result<Reproduction, CliError> {
        let watch = Watch::default();
        let progress = Progress::new("reproducing", Unit::Items, None);
        let interrupt = session.interrupt.clone();
        let is_stopped = || {
            progress.set_of(watch.ops_done(), Some(watch.op_count()));
            interrupt.is_asked()
        };
        let machine =
            Machine { jobs: self.jobs.get(), unpacked_bytes: memory::for_emulated_drives() };
        repro(figures, size, machine, &watch, &is_stopped).map_err(failed)
    }
}

fn data_table(table: page::Table) -> imbrex_results::Table {
    let mut data = imbrex_results::Table::new(table.title, table.header);
    table.rows.into_iter().for_each(|cells| data.row(cells));
    data
}

/// `NAME=FILE`.
fn given_name(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(path)))
        }
        _ => Err("expected NAME=FILE, such as LUN0=lun0.csv.gz".to_owned()),
    }
}

fn failed(error: BenchError) -> CliError {
    match error {
        BenchError::Options(fault) => CliError::usage(fault),
        BenchError::Stopped => CliError::interrupted(),
        BenchError::Trace(TraceError::Io { .. }) => CliError::of("cannot reproduce", &error),
        BenchError::Trace(error) => CliError::data(error.to_string()),
        error => CliError::of("cannot reproduce", &error),
    }
}

fn list(session: &mut Session) -> Result<(), CliError> {
    if session.out.is_json()? {
        let all: Vec<_> = figures()
            .iter()
            .map(|f| json!({ "name": f.name, "title": f.title, "paper": f.paper }))
            .collect();
        return session.out.json(&json!(all));
    }
    let mut table = Table::new(&["figure", "shows", "published"]);
    for figure in figures() {
        table.row(vec![figure.name.into(), figure.title.into(), figure.paper.into()]);
    }
    session.out.bytes(table.text().as_bytes())
}

/// Writes the page, the numbers and the pictures.
fn write(dir: &Path, name: &str, reproduction: &Reproduction) -> Result<(), CliError> {
    let put = |name: String, text: String| {
        let path = dir.join(name);
        Target::new(&path, &[])?.write(&text)
    };
    put(format!("{name}.html"), reproduction.to_html())?;
    put(format!("{name}.json"), reproduction.to_json())?;
    put(format!("{name}.md"), reproduction.to_markdown())?;
    for figure in &reproduction.figures {
        for (at, chart) in figure.page.charts.iter().enumerate() {
            put(format!("{}-{}.svg", figure.name, at + 1), chart.to_svg())?;
        }
    }
    Ok(())
}
