//! `arrivals`: generates the arrival times of an open-loop run, and analyses a series of them, by the crate
//! `imbrex-workload`.

use crate::error::{CliError, Context};
use crate::interrupt::Stdin;
use crate::output::{Report, Table};
use crate::progress::{Progress, Unit};
use crate::session::Session;
use imbrex_workload::arrivals::{
    ArrivalAnalyser, ArrivalAnalysis, ArrivalEnd, ArrivalError, ArrivalModel, ArrivalReader,
    SeriesFigures,
};
use imbrex_workload::statistics::{Estimator, LEN_MIN};
use serde_json::json;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Arguments of `imbrex arrivals`.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ArrivalsArgs {
    #[command(subcommand)]
    command: Option<ArrivalsCommand>,
    /// The arrival model: constant, poisson, selfsimilar, diurnal or recorded
    #[arg(long, required = true)]
    model: Option<String>,
    /// Mean rate, in operations per second
    #[arg(long, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Length of the series, in seconds
    #[arg(long, conflicts_with = "operations", allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Length of the series, in operations
    #[arg(long)]
    operations: Option<u64>,
    /// Seed: the same seed gives the same series on every machine
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// selfsimilar: the share of arrivals that falls into one half of any interval, between 0.5 and 1
    /// [default: 0.65]
    #[arg(long)]
    bias: Option<String>,
    /// diurnal: amplitude around the mean rate, in operations per second
    #[arg(long)]
    modulation: Option<String>,
    /// diurnal: length of a cycle, in minutes [default: 15]
    #[arg(long, value_name = "MINUTES")]
    cycle_length: Option<String>,
    /// diurnal: distribution of the gaps: constant, uniform, exponential or pareto [default: pareto]
    #[arg(long)]
    distribution: Option<String>,
    /// diurnal: shape of the Pareto distribution, greater than 1 [default: 1.5]
    #[arg(long)]
    shape: Option<String>,
    /// recorded: a file with one arrival time per line, plain, .zst or .gz
    #[arg(long)]
    file: Option<String>,
}

#[derive(clap::Subcommand, Debug)]
enum ArrivalsCommand {
    /// Analyse a series: its rate, its autocorrelation, and its Hurst exponent by five estimators
    Analyse(AnalyseArgs),
}

/// Arguments of `imbrex arrivals analyse`.
#[derive(clap::Args, Debug)]
struct AnalyseArgs {
    /// A file with one arrival time per line, as `imbrex arrivals` prints it, plain, .zst or .gz; `-`
    /// reads standard input
    file: PathBuf,
    /// Length of the bins in which arrivals are counted, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    bin: f64,
    /// Lags of the autocorrelation
    #[arg(long, value_delimiter = ',', default_value = "1,2,5,10,100,1000")]
    lags: Vec<usize>,
}

/// Interruption and progress are handled once every so many arrivals.
const LOOK_EVERY: u64 = 1 << 16;

impl ArrivalsArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        match &self.command {
            Some(ArrivalsCommand::Analyse(args)) => args.run(session),
            None => self.print(session),
        }
    }

    /// The value of a property, from the option that stands for it.
    fn property(&self, key: &str) -> Option<String> {
        let option = match key {
            "arrivalgenerator" => &self.model,
            "ss.bias" => &self.bias,
            "diurnal.modulation" => &self.modulation,
            "diurnal.cyclelength" => &self.cycle_length,
            "diurnal.distribution" => &self.distribution,
            "diurnal.distribution.shape" => &self.shape,
            "recorded.file" => &self.file,
            _ => &None,
        };
        option.clone()
    }

    /// Refuses an option of another model, which would have no effect. Every model but `recorded` needs a
    /// rate and an end.
    fn check_options(&self, model: &ArrivalModel) -> Result<(), CliError> {
        let name = match model {
            ArrivalModel::Constant => "constant",
            ArrivalModel::Poisson => "poisson",
            ArrivalModel::SelfSimilar { .. } => "selfsimilar",
            ArrivalModel::Diurnal { .. } => "diurnal",
            ArrivalModel::Recorded(_) => "recorded",
        };
        let options = [
            ("--bias", &self.bias, "selfsimilar"),
            ("--modulation", &self.modulation, "diurnal"),
            ("--cycle-length", &self.cycle_length, "diurnal"),
            ("--distribution", &self.distribution, "diurnal"),
            ("--shape", &self.shape, "diurnal"),
            ("--file", &self.file, "recorded"),
        ];
        let is_other =
            |(_, value, of): &&(&str, &Option<String>, &str)| value.is_some() && *of != name;
        if let Some((option, _, of)) = options.iter().find(is_other) {
            let message = format!("{option} is for {of} arrivals, but --model is {name}");
            return Err(CliError::usage(message));
        }
        if name == "recorded" {
            return Ok(());
        }
        if self.rate.is_none() {
            return Err(CliError::usage(format!("{name} arrivals need --rate")));
        }
        if self.seconds.is_none() && self.operations.is_none() {
            let message = format!("{name} arrivals need a length: --seconds or --operations");
            return Err(CliError::usage(message));
        }
        Ok(())
    }

    fn print(&self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let model = ArrivalModel::from_properties(&|key| self.property(key)).map_err(failed)?;
        self.check_options(&model)?;
        // A recorded series needs neither a rate nor an end.
        let rate = self.rate.unwrap_or(1.0);
        let end = match (self.seconds, self.operations) {
            (Some(seconds), _) => ArrivalEnd::Duration { ns: nanoseconds("--seconds", seconds)? },
            (None, Some(operations)) => ArrivalEnd::Operations(operations),
            (None, None) => ArrivalEnd::Duration { ns: u64::MAX },
        };
        let series = model.series(rate, end, self.seed).map_err(failed)?;
        if is_json {
            let head = json!({ "model": model.to_string(), "rate_per_s": self.rate });
            let head = head.to_string();
            let head = head.trim_end_matches('}');
            session
                .out
                .bytes(format!("{head},\"seed\":{},\"times_ns\":[", self.seed).as_bytes())?;
        } else {
            session.out.line("time_ns")?;
        }
        let mut text = String::new();
        for (at, at_ns) in (0_u64..).zip(series) {
            if at % LOOK_EVERY == 0 {
                session.interrupt.check()?;
            }
            text.clear();
            let between = if is_json && at > 0 { ",\n" } else { "" };
            let after = if is_json { "" } else { "\n" };
            let _ = write!(text, "{between}{at_ns}{after}");
            session.out.bytes(text.as_bytes())?;
        }
        if is_json { session.out.line("]}") } else { Ok(()) }
    }
}

impl AnalyseArgs {
    fn run(&self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let mut analyser = ArrivalAnalyser::new(nanoseconds("--bin", self.bin)?).map_err(failed)?;
        let progress = Progress::new("reading", Unit::Items, None);
        let mut count = 0;
        for at_ns in self.open(session)? {
            if let Err(error) = at_ns.and_then(|at_ns| analyser.push(at_ns)) {
                // An interruption can cut a line short; that is no malformed line.
                session.interrupt.check()?;
                return Err(failed(error));
            }
            count += 1;
            if count % LOOK_EVERY == 0 {
                session.interrupt.check()?;
                progress.set(count);
            }
        }
        session.interrupt.check()?;
        if count == 0 {
            return Err(failed(ArrivalError::Empty { path: self.name().to_owned() }));
        }
        let analysis = analyser.finish(&self.lags);
        drop(progress);
        if is_json {
            let value = serde_json::to_value(&analysis).context(|| "cannot write JSON")?;
            return session.out.json(&value);
        }
        session.out.report(&summary(&analysis))?;
        session.out.line("")?;
        session.out.bytes(figures(&analysis).text().as_bytes())?;
        if analysis.gaps.hurst.is_none() || analysis.counts.hurst.is_none() {
            let note = format!(
                "\na dash means that all values are equal, or fewer than the lag; the Hurst exponent needs \
                 {LEN_MIN} values"
            );
            session.out.line(note)?;
        }
        Ok(())
    }

    /// The name of the file in errors.
    fn name(&self) -> &Path {
        if self.file == Path::new("-") { Path::new("standard input") } else { &self.file }
    }

    fn open(&self, session: &Session) -> Result<ArrivalReader, CliError> {
        let bytes: Box<dyn Read + Send> = if self.file == Path::new("-") {
            Box::new(Stdin::new(session.interrupt.clone()))
        } else {
            let io_error = |source| ArrivalError::Io { path: self.file.clone(), source };
            Box::new(File::open(&self.file).map_err(io_error).map_err(failed)?)
        };
        ArrivalReader::new(self.name(), bytes).map_err(failed)
    }
}

pub(crate) fn failed(error: ArrivalError) -> CliError {
    match error {
        ArrivalError::Io { .. } => CliError::of("cannot read", &error),
        ArrivalError::Empty { .. }
        | ArrivalError::Gap { .. }
        | ArrivalError::Line { .. }
        | ArrivalError::Disorder { .. } => CliError::data(error.to_string()),
        error => CliError::usage(error.to_string()),
    }
}

fn nanoseconds(option: &str, seconds: f64) -> Result<u64, CliError> {
    if (0.0..=1e9).contains(&seconds) {
        return Ok((seconds * 1e9).round() as u64);
    }
    Err(CliError::usage(format!(
        "{option} is {seconds}; it must be between 0 and 1000000000 seconds"
    )))
}

fn summary(analysis: &ArrivalAnalysis) -> Report {
    let mut report = Report::default();
    report.row("operations", analysis.operations.to_string(), analysis.operations);
    report.row("seconds", format!("{:.3}", analysis.seconds), analysis.seconds);
    report.row("per second", format!("{:.3}", analysis.rate_per_s), analysis.rate_per_s);
    report
}

fn figures(analysis: &ArrivalAnalysis) -> Table {
    let counts = format!("counts in {} s", analysis.bin_ns as f64 / 1e9);
    let mut table = Table::new(&["", "gaps, us", &counts]);
    let (gaps, counts) = (&analysis.gaps, &analysis.counts);
    let mut row = |name: String, of: &dyn Fn(&SeriesFigures) -> f64, gap_unit: f64, digits| {
        let cell = |value: f64| match value {
            value if value.is_finite() => format!("{value:.digits$}"),
            _ => "-".to_owned(),
        };
        table.row(vec![name, cell(of(gaps) / gap_unit), cell(of(counts))]);
    };
    row("values".to_owned(), &|of| of.values as f64, 1.0, 0);
    row("mean".to_owned(), &|of| of.mean, 1e3, 3);
    row("standard deviation".to_owned(), &|of| of.deviation, 1e3, 3);
    row("minimum".to_owned(), &|of| of.min, 1e3, 3);
    row("maximum".to_owned(), &|of| of.max, 1e3, 3);
    for (at, correlation) in gaps.autocorrelation.iter().enumerate() {
        let value = |of: &SeriesFigures| of.autocorrelation[at].value.unwrap_or(f64::NAN);
        row(format!("autocorrelation at {}", correlation.lag), &value, 1.0, 4);
    }
    for (at, by) in Estimator::ALL.into_iter().enumerate() {
        let value = |of: &SeriesFigures| of.hurst.map_or(f64::NAN, |all| all[at].exponent);
        row(format!("Hurst exponent, {}", by.name()), &value, 1.0, 3);
    }
    table
}
