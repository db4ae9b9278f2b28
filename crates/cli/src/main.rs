//! The command `imbrex`: emulated drives, and the store on them, from the command line.
//!
//! ```text
//!   args (clap) -> a command -> Store: Db on Files on a drive -> Output (table, JSON, bytes)
//!                     |  looks at Interrupt between two operations
//!                     |  shows Progress after two seconds, on a terminal
//!                     +-> CliError: one line, an exit code
//! ```
//!
//! Commands put the layers together and show what comes back; they hold no logic of the store.
//!
//! Invariants
//!   U1  No input makes it panic; no failure ends without a line that says what, where, what now.
//!   U2  A command that was interrupted has closed the store as one that ended.

// They panic where nobody reads any more; `output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arrival_bench;
mod arrivals;
mod blank;
mod byte_size;
mod check;
mod completions;
mod demo;
mod device;
mod drive;
mod dump;
mod error;
mod interrupt;
mod key;
mod layouts;
mod load;
mod measure;
mod output;
mod progress;
mod read;
mod replay;
#[cfg(feature = "repro")]
mod repro;
mod run;
mod serve;
mod stats;
mod store;
mod target;
mod write;
mod ycsb;
mod zones;

use clap::{Parser, Subcommand};
use error::{CliError, EXIT_CODES, Exit};
use interrupt::Interrupt;
use output::{Format, Output, note};
use std::process::ExitCode;

/// An ordered, durable key-value store on disks whose tracks overlap.
///
/// A drive is an image file that emulates a real disk: what a write may do, and how long it takes.
/// `imbrex drive create disk.imbrex` makes one, the other commands work on it.
#[derive(Debug, Parser)]
#[command(name = "imbrex", version, after_help = EXIT_CODES, max_term_width = 100)]
struct Args {
    /// How to print: table or json for reports; raw, json or hex for entries
    #[arg(long, global = true, value_enum)]
    format: Option<Format>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create, describe, measure and draw drives
    #[command(subcommand)]
    Drive(drive::DriveCommand),
    /// Put many records: JSON lines, CSV or TSV, plain, .zst or .gz, from a file or a pipe
    Load(load::LoadArgs),
    /// Print the value of a key
    Get(read::GetArgs),
    /// Set the value of a key; durable when the command ends
    Put(write::PutArgs),
    /// Delete keys; durable when the command ends
    Delete(write::DeleteArgs),
    /// Print entries in order of key
    Scan(read::ScanArgs),
    /// Show what the store and the drive have done and hold
    Stats(stats::StatsArgs),
    /// Merge all tables, so that deleted and replaced data go
    Compact(write::CompactArgs),
    /// Verify every checksum, extent, write pointer and reference of a store; where a database of `imbrex run`
    /// has its files, verify where they lie and the logs that were being written; of a block device, read all that it
    /// holds
    Check(check::CheckArgs),
    /// Tell what a file or structure on the drive holds, in words
    Dump(dump::DumpArgs),
    /// Measure the store, with db_bench's names
    Bench(measure::BenchArgs),
    /// Measure a store with YCSB's workloads, from its own property files
    #[command(subcommand)]
    Ycsb(ycsb::YcsbCommand),
    /// List the layouts: how a store lies on a drive, by name
    Layouts(layouts::LayoutsArgs),
    /// Run published figures again: the paper's value, ours, the ratio, the picture
    #[cfg(feature = "repro")]
    Repro(repro::ReproArgs),
    /// Play a block trace to the block driver over an emulated zoned drive, in virtual time
    Replay(replay::ReplayArgs),
    /// Print when the operations of an open-loop run are due, or tell what a series is like
    Arrivals(arrivals::ArrivalsArgs),
    /// Run an unmodified RocksDB or LevelDB program with its databases on a drive
    Run(run::RunArgs),
    /// Serve a drive as a network block device: to QEMU, nbd-client, nbdcopy, fio
    Serve(serve::ServeArgs),
    /// For `serve --ublk`: stop its block device
    #[cfg(feature = "ublk")]
    #[command(hide = true, name = serve::STOP)]
    UblkStop(serve::StopArgs),
    /// Show it all in half a minute: a drive, real records, a power cut, the zone map
    Demo(demo::DemoArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, as roff: `imbrex man | man -l -`
    Man,
}

/// What every command works with.
struct Session {
    out: Output,
    interrupt: Interrupt,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if error.exit() != Exit::ReaderGone {
                note(format!("imbrex: {error}"));
            }
            ExitCode::from(error.exit() as u8)
        }
    }
}

fn run(args: Args) -> Result<(), CliError> {
    let interrupt = match args.command {
        // Its signals are the program's.
        Command::Run(_) => Interrupt::default(),
        // Its server's are not for it.
        #[cfg(feature = "ublk")]
        Command::UblkStop(_) => Interrupt::default(),
        _ => Interrupt::listen()?,
    };
    let mut session = Session { out: Output::new(args.format), interrupt };
    let session_ref = &mut session;
    let result = match args.command {
        Command::Drive(command) => command.run(session_ref),
        Command::Load(args) => args.run(session_ref),
        Command::Get(args) => args.run(session_ref),
        Command::Put(args) => args.run(session_ref),
        Command::Delete(args) => args.run(session_ref),
        Command::Scan(args) => args.run(session_ref),
        Command::Stats(args) => args.run(session_ref),
        Command::Compact(args) => args.run(session_ref),
        Command::Check(args) => args.run(session_ref),
        Command::Dump(args) => args.run(session_ref),
        Command::Bench(args) => args.run(session_ref),
        Command::Ycsb(command) => command.run(session_ref),
        Command::Layouts(args) => args.run(session_ref),
        #[cfg(feature = "repro")]
        Command::Repro(args) => args.run(session_ref),
        Command::Replay(args) => args.run(session_ref),
        Command::Arrivals(args) => args.run(session_ref),
        Command::Run(args) => args.run(session_ref),
        Command::Serve(args) => args.run(session_ref),
        #[cfg(feature = "ublk")]
        Command::UblkStop(args) => args.run(),
        Command::Demo(args) => args.run(session_ref),
        Command::Completions(args) => args.run(session_ref),
        Command::Man => completions::manual(session_ref),
    };
    // What was printed before a failure is still worth reading.
    let flushed = session.out.flush();
    result.and(flushed)
}
