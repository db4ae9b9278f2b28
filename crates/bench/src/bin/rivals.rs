//! Builds other stores and ours, and runs all of them on one workload: `rivals/README.md`.
//!
//! ```text
//! cargo run --release -p imbrex-bench --features rivals --bin rivals -- --profile std --rounds 3
//! ```
//!
//! The stores are in a separate workspace (`rivals/`): C++ and Go programs, and Rust crates that a
//! build of Imbrex should not need. This program starts the suite there with its arguments, and
//! prints the summary of the measurements.

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("rivals: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("rivals");
    let results = std::env::temp_dir().join(format!("rivals-{}.jsonl", std::process::id()));
    python(&suite, "suite.py", |command| {
        command.arg("--build").arg("--out").arg(&results).args(arguments);
    })?;
    python(&suite, "summarise.py", |command| {
        command.arg(&results);
    })
}

fn python(suite: &Path, script: &str, arguments: impl FnOnce(&mut Command)) -> Result<(), String> {
    let mut command = Command::new("python3");
    command.arg(suite.join(script));
    arguments(&mut command);
    let status = command
        .status()
        .map_err(|e| format!("{script} needs python3, which could not be started: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{script} failed ({status})")) }
}
