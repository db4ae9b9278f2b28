//! Loads and reads compared with the best that the head could do: docs/results/disk_user.md.
//!
//! ```text
//! cargo run --release -p imbrex-bench --bin disk_user -- --scale 1
//! ```

use clap::Parser;
use imbrex_bench::BenchError;
use imbrex_bench::disk_user::{DiskUserOptions, disk_user};
use std::process::ExitCode;

/// Loads and reads in operations per disk-second, compared with the best that the head could do.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: DiskUserOptions,
    /// Print all figures as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match measure(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("disk_user: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<(), BenchError> {
    let report = disk_user(&arguments.options, &mut |run| eprintln!("{run}\n"))?;
    if arguments.json {
        print!("{}", report.to_json());
    } else {
        print!("{report}");
    }
    Ok(())
}
