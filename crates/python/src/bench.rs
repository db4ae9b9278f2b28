//! `imbrex bench`, for notebooks: the same flags, the same figures.

use crate::failure::Failure;
use crate::interrupts::Interrupts;
use clap::Parser;
use imbrex::ErrorKind;
use imbrex_bench::{BenchError, BenchOptions, RunWatches, run_watched};
use pyo3::prelude::*;

/// The flags of one run.
#[derive(Debug, Parser)]
#[command(name = "bench", no_binary_name = true, disable_help_flag = true)]
struct Flags {
    #[command(flatten)]
    options: BenchOptions,
}

/// Runs benchmarks with `flags`, as `imbrex bench` takes them, and returns its report as JSON. Ctrl-C stops the run.
#[pyfunction]
pub(crate) fn run_bench(py: Python<'_>, flags: Vec<String>) -> PyResult<String> {
    let flags = Flags::try_parse_from(flags).map_err(|error| {
        let text = error.render().to_string();
        let text = text.trim_start_matches("error: ");
        // Usage and help are of the command line.
        Failure::argument(text.split("\n\n").next().unwrap_or(text))
    })?;
    let report = py.detach(|| {
        let interrupts = Interrupts::default();
        let watch = |_: &_| interrupts.ask();
        let done = run_watched(&flags.options, &mut |_| (), RunWatches::new(&watch));
        interrupts.end(done.map_err(|failure| failed(&failure.error)))
    })?;
    Ok(report.to_json())
}

fn failed(error: &BenchError) -> Failure {
    let kind = match error {
        BenchError::Options(_) => ErrorKind::InvalidArgument,
        error => ErrorKind::of(error),
    };
    Failure::Kind(kind, imbrex::stack::error_text(error))
}
