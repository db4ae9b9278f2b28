//! The command `imbrex`: drives and the stores on them, from the command line.
//!
//! ```text
//!   args (clap) -> a command -> Store: Db on Files on a drive -> Output (table, JSON, bytes)
//!                     |  checks Interrupt between two operations
//!                     |  shows Progress after two seconds, on a terminal
//!                     +-> CliError: one line, an exit code
//! ```
//!
//! A command composes the layers and prints the result. It contains no logic of the store.
//!
//! Invariants
//!   U1  No input causes a panic. Every failure ends with a line that says what failed, where, and what
//!       to do.
//!   U2  An interrupted command closes the store in the same way as one that ends by itself.

// These macros panic after the reader of the pipe has gone; `output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod amplification;
mod arrival_bench;
mod arrivals;
mod check;
mod checkpoint;
mod completions;
mod copies;
mod count;
mod data_file;
mod demo;
mod device;
mod device_bench;
mod device_command;
mod door;
mod drive;
mod dump;
mod error;
mod interrupt;
mod key;
mod lab;
mod layouts;
mod load;
mod measure;
mod memory;
mod object;
mod output;
mod parts;
mod progress;
mod read;
mod recorder;
mod replay;
#[cfg(feature = "repro")]
mod repro;
mod run;
mod salvage;
mod scrub;
mod serve;
mod session;
mod share_bench;
mod site;
mod stats;
mod store;
mod target;
mod watch;
mod watched;
mod write;
mod ycsb;
mod zones;

use clap::{CommandFactory, Parser, Subcommand};
use error::{CliError, EXIT_CODES, Exit};
use interrupt::Interrupt;
use output::{Format, Output, note};
use session::Session;
use std::process::ExitCode;

/// An ordered, durable key-value store for shingled and interlaced hard disks
///
/// A drive is an image file that emulates a real disk (which writes it accepts, what they destroy, how
/// long they take), or a block device of this machine such as /dev/sdb.
///
/// `imbrex drive create disk.imbrex` creates an image with an empty store. `imbrex put disk.imbrex KEY
/// VALUE` and the other commands then take its path. `imbrex demo` shows everything in a few seconds.
#[derive(Debug, Parser)]
#[command(name = "imbrex", version, after_help = EXIT_CODES, max_term_width = 100)]
struct Args {
    /// Output format: table or json for reports; raw, json or hex for the entries of get and scan
    #[arg(long, global = true, value_enum, hide_possible_values = true, display_order = 1000)]
    format: Option<Format>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create, format, describe, measure and draw drives
    #[command(subcommand)]
    Drive(drive::DriveCommand),
    /// Store many records from a file or a pipe: JSON lines, CSV or TSV; plain, .zst or .gz
    Load(load::LoadArgs),
    /// Print the value of a key
    Get(read::GetArgs),
    /// Set the value of a key; the write is durable when the command returns
    Put(write::PutArgs),
    /// Delete keys, a prefix or a range; the deletion is durable when the command returns
    Delete(write::DeleteArgs),
    /// Print entries in key order: all of them, a prefix or a range
    Scan(read::ScanArgs),
    /// Show what the store holds, what it did, and what its drive did, since the opening and in its lifetime
    ///
    /// What is 0 is left out; `--all` prints every counter, and `--format json` has them all as well.
    Stats(stats::StatsArgs),
    /// Merge all tables, which removes deleted and overwritten entries
    Compact(write::CompactArgs),
    /// Verify what a drive holds, and report every damaged place
    ///
    /// On a store: every checksum, extent, write pointer and reference. On a drive with the files of
    /// another database (`imbrex run`): their extents, and the logs that were open at the last stop. On a
    /// drive with a block device (`imbrex serve`): every block that a client has written is read.
    ///
    /// Exit code 0 means that nothing is wrong, 5 that something is damaged.
    Check(check::CheckArgs),
    /// Read and verify all tables, and replace damaged ones from second copies
    ///
    /// A table has second copies of the parts that it cannot be read without; `--from DIR` names a backup that
    /// has whole tables. What has no second copy is listed with its range of keys.
    ///
    /// Exit code 0 means that nothing is damaged any more, 5 that something is.
    Scrub(scrub::ScrubArgs),
    /// Copy a store to a directory or another drive: what the target does not have yet, verified
    ///
    /// A directory is made if it does not exist. Each run adds a copy of the whole store as it is at one
    /// moment. Copies share the tables that they have in common, so a run costs what changed since the last
    /// one. `imbrex copies TARGET` lists the copies, and `imbrex restore TARGET DRIVE` writes one of them to
    /// an empty drive.
    ///
    /// A drive as the target holds an empty store or an earlier copy, which the new one replaces.
    ///
    /// A run that was interrupted leaves all earlier copies whole, and the next one continues. Exit code 5 means
    /// that the drive is damaged: no copy was made.
    Backup(copies::BackupArgs),
    /// Write a copy of a backup to an empty drive, and check it there
    ///
    /// `imbrex drive create` makes the empty drive. Every table is compared with its checksum before anything
    /// is written. The drive holds the whole copy or, if the command is interrupted, still nothing.
    Restore(copies::RestoreArgs),
    /// List the copies of a backup, verify or delete them
    ///
    /// Exit code 5 means that a copy is damaged.
    Copies(copies::CopiesArgs),
    /// Make, list and delete checkpoints: states of a store that are kept on its drive
    #[command(subcommand)]
    Checkpoint(checkpoint::CheckpointCommand),
    /// Store, print, list and delete objects: data of any length, in and out as streams
    ///
    /// A keyspace of objects has no other entries. `imbrex drive create DRIVE --values-apart 64KiB` makes a drive for
    /// them: their data are then written once.
    #[command(subcommand)]
    Object(object::ObjectCommand),
    /// Copy everything that can still be read on a damaged drive to another store
    ///
    /// If the catalog of the drive can be read, it decides what the store holds. Otherwise the drive is
    /// searched for tables and logs. The report lists what is missing, and the keys for which a value may be
    /// outdated or a deleted entry may be back.
    ///
    /// Nothing is written to DRIVE. Exit code 0 means that everything was found, 5 that something is missing
    /// or in doubt.
    Salvage(salvage::SalvageArgs),
    /// Print the content of a file or a structure of the drive as text, for debugging
    Dump(dump::DumpArgs),
    /// Measure the store with the benchmarks of db_bench, in modelled or real time
    Bench(Box<measure::BenchArgs>),
    /// Measure a store with YCSB's core workloads
    #[command(subcommand)]
    Ycsb(ycsb::YcsbCommand),
    /// List the layouts: the named ways in which a store can use a drive
    Layouts(layouts::LayoutsArgs),
    /// Reproduce published figures: the paper's value, ours, their ratio and a chart
    #[cfg(feature = "repro")]
    Repro(repro::ReproArgs),
    /// Replay a block trace on the block driver over an emulated zoned drive
    Replay(replay::ReplayArgs),
    /// Generate the arrival times of an open-loop run, or analyse a series of them
    Arrivals(arrivals::ArrivalsArgs),
    /// Run an unmodified RocksDB or LevelDB program with its databases on a drive
    Run(run::RunArgs),
    /// Watch a recording or a drive in the terminal: the map, what the drive's time goes to, what runs
    Watch(watch::WatchArgs),
    /// Watch up to four layouts side by side on emulated drives, in a browser, and cut their power
    Lab(lab::LabArgs),
    /// Serve a drive as a block device to QEMU, nbdcopy, fio or this machine's kernel; `serve http` shows
    /// what a drive does in a browser
    Serve(serve::ServeArgs),
    /// Ask a running `imbrex serve --control PATH` how it is, or to do something now
    #[command(subcommand)]
    Device(device_command::DeviceCommand),
    /// Stop a block device of `serve --ublk`; the server itself calls this
    #[cfg(feature = "ublk")]
    #[command(hide = true, name = serve::STOP)]
    UblkStop(serve::StopArgs),
    /// Show everything in half a minute: three stores under one load, real records, a power cut, the zone map
    Demo(demo::DemoArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page; read it with `imbrex man | man -l -`
    Man,
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
        // `run` passes signals on to its program and does not handle them.
        Command::Run(_) => Interrupt::default(),
        // Signals sent to the server are not meant for this helper process.
        #[cfg(feature = "ublk")]
        Command::UblkStop(_) => Interrupt::default(),
        _ => Interrupt::listen()?,
    };
    let mut session = Session { out: Output::new(args.format), interrupt };
    if matches!(
        args.command,
        Command::Put(_)
            | Command::Serve(_)
            | Command::Run(_)
            | Command::Completions(_)
            | Command::Man
    ) {
        session.out.check_no_page()?;
    }
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
        Command::Scrub(args) => args.run(session_ref),
        Command::Backup(args) => args.run(session_ref),
        Command::Restore(args) => args.run(session_ref),
        Command::Copies(args) => args.run(session_ref),
        Command::Checkpoint(command) => command.run(session_ref),
        Command::Object(command) => command.run(session_ref),
        Command::Salvage(args) => args.run(session_ref),
        Command::Dump(args) => args.run(session_ref),
        Command::Bench(args) => args.run(session_ref),
        Command::Ycsb(command) => command.run(session_ref),
        Command::Layouts(args) => args.run(session_ref),
        #[cfg(feature = "repro")]
        Command::Repro(args) => args.run(session_ref),
        Command::Replay(args) => args.run(session_ref),
        Command::Arrivals(args) => args.run(session_ref),
        Command::Run(args) => args.run(session_ref),
        Command::Watch(args) => args.run(session_ref),
        Command::Lab(args) => args.run(session_ref),
        Command::Serve(args) => args.run(session_ref),
        Command::Device(command) => command.run(session_ref),
        #[cfg(feature = "ublk")]
        Command::UblkStop(args) => args.run(),
        Command::Demo(args) => args.run(session_ref),
        Command::Completions(args) => args.run(session_ref, Args::command()),
        Command::Man => completions::manual(session_ref, Args::command()),
    };
    // The output before a failure is still useful.
    let flushed = session.out.flush();
    result.and(flushed)
}
