//! One command for every chore: `cargo xtask --help`.
//!
//! Each chore is a line of `cargo` that nobody should have to remember. `ci` is exactly what CI
//! runs, so a green `cargo xtask ci` at home is a green one there.

mod book;
mod bugs;
mod cargo;
mod ci;
mod golden;
mod package;
mod pages;
mod results;
mod soak;
mod tidy;
mod wheel;

use anyhow::Result;
use clap::{Parser, Subcommand};
use imbrex_system_tests::{
    adapters, block, browser, databases, dm_zoned, filesystems, python, stress, swift, ublk, ycsb,
    zoned,
};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "One command for every chore of the Imbrex tree.", name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Runs everything that CI runs, in the same order, and stops at the first failure.
    Ci(ci::CiArgs),
    /// Runs what needs hours, with fresh seeds: torture, sweeps, databases and file systems under power cuts.
    Soak(soak::SoakArgs),
    /// Builds the package for Debian, installs it in a root directory of its own and runs what it brought.
    Package,
    /// Plants bugs, one after the other, and says whether torture and the unit tests find them.
    Bugs(bugs::BugsArgs),
    /// Rewrites the expected outputs of script tests and examples; review the diff.
    Golden {
        /// Only this package (as `cargo test --package`); otherwise all.
        #[arg(long, value_name = "NAME")]
        package: Option<String>,
    },
    /// Checks the rules of the house: layering, sizes, bans, formats, dependencies, dead files, circles,
    /// English.
    Tidy,
    /// Prints each crate's circles: files that import each other, directly or through others.
    Circles {
        /// Only this crate, and with the imports that close its circles.
        #[arg(value_name = "CRATE")]
        only: Option<String>,
    },
    /// Lists phrases that read as translated, and sentences over 40 words, in comments and pages.
    ///
    /// `tidy` fails when a crate or folder has more of them than `xtask/src/tidy/english.txt` records.
    English(tidy::english::Args),
    /// Writes the results pages and their charts from docs/results/data.
    Results,
    /// Builds the book of docs/ into target/book, and checks its links. Builds mdBook once.
    Book,
    /// Runs what the guide and the results pages tell people to run, at its smallest, with target/release/imbrex.
    Pages,
    /// Runs seeded whole-stack runs with power cuts and I/O errors, optimised.
    ///
    /// All arguments go to the torture program: `cargo xtask torture -- --help` lists them.
    Torture {
        /// Arguments for the torture program, such as `--seeds 2000` or `--seed 0x5eed`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<String>,
    },
    /// Fuzzes one decoder with cargo-fuzz, or lists the targets. Needs a nightly toolchain.
    Fuzz {
        /// The target; without it the targets are listed.
        target: Option<String>,
        /// How long to fuzz, in seconds.
        #[arg(long, default_value_t = 60, value_name = "SECONDS")]
        seconds: u64,
    },
    /// Builds the adapters for the system's databases and tests them with the programs they ship.
    ///
    /// Installs what is missing where it may; else it fails, naming the packages. HyperLevelDB is not
    /// packaged: IMBREX_HYPERLEVELDB names the prefix of an installed one.
    Adapters {
        /// Only this database's.
        #[arg(long, value_name = "DATABASE")]
        only: Option<adapters::Database>,
    },
    /// Tests `imbrex serve` with the network block device clients of the system.
    ///
    /// Installs what is missing where it may; else it fails, naming the packages.
    Block {
        #[command(subcommand)]
        what: Option<BlockChore>,
    },
    /// Tests `imbrex serve --ublk` in a virtual machine, whose kernel has ublk: fio, ext4, kills.
    ///
    /// Downloads a kernel of the distribution's into target/guest, once. Installs what is missing where it
    /// may; else it fails, naming the packages.
    Ublk(ublk::UblkArgs),
    /// Tests stores and block devices on zoned block devices, in a virtual machine, whose kernel has them: SCSI,
    /// NVMe, with failing zones, killed, reset in the middle of a load.
    ///
    /// Downloads a kernel of the distribution's into target/guest, once. Installs what is missing where it
    /// may; else it fails, naming the packages.
    Zoned(zoned::ZonedArgs),
    /// Measures the kernel's dm-zoned beside our block device, in a virtual machine: the same writes to equal
    /// zoned drives in memory, and what each drive wrote and read for them, as Markdown.
    ///
    /// Needs dmzadm of dm-zoned-tools. Downloads a kernel of the distribution's into target/guest, once. Installs
    /// what else is missing where it may; else it fails, naming the packages.
    DmZoned(dm_zoned::DmZonedArgs),
    /// Runs ext4, xfs and btrfs on the block device of a zoned drive that loses its power at random, and
    /// checks that nothing is lost.
    ///
    /// Needs root, FUSE and loop devices. Installs what is missing where it may; else it fails, naming
    /// the packages.
    Filesystems(filesystems::FilesystemsArgs),
    /// Loads the databases themselves on emulated drives and prints what the drives did, as Markdown.
    ///
    /// Uses the adapters, and builds them as `adapters` does.
    Databases(databases::Args),
    /// Runs RocksDB or LevelDB on emulated drives, killed and cut off from their power at random, and
    /// checks that nothing is lost.
    Stress(stress::StressArgs),
    /// Runs YCSB's workloads on the system's Redis server by `imbrex ycsb`, and the original YCSB on our
    /// store: builds and tests adapters/ycsb, and lets one runner read what the other has loaded.
    ///
    /// Installs what is missing where it may; else it fails, naming the packages.
    Ycsb {
        #[command(subcommand)]
        what: Option<YcsbChore>,
    },
    /// Uses the page of `imbrex serve http` and `imbrex lab` in headless Chromium.
    ///
    /// Installs what is missing where it may; else it fails, naming the packages.
    Browser(browser::BrowserArgs),
    /// Tests the Python package in the system's Python and in the newest one of this machine.
    Python,
    /// Tests OpenStack Swift on drives of ours: its own tests, its clients, nodes that fail. With `--start DIR` it
    /// starts a cluster on loopback for a person to try.
    ///
    /// Installs Swift from PyPI into target/swift, once, and what else is missing where it may; else it fails, naming
    /// the packages.
    Swift(swift::SwiftArgs),
    /// Runs `imbrex bench`, optimised. All arguments go to it.
    Bench {
        /// Arguments for `imbrex bench`, such as `--benchmarks=fillrandom --num 100000`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<String>,
    },
}

/// What else is done with the block device.
#[derive(Subcommand)]
enum BlockChore {
    /// Measures it beside nbdkit's memory plugin: 4 KiB at random, the same fio job, in turn.
    Rates(block::rates::RatesArgs),
}

/// What else is done with YCSB.
#[derive(Subcommand)]
enum YcsbChore {
    /// Runs YCSB's own property files in both runners, on our store and on a Redis server, and prints what
    /// they measured side by side, as Markdown.
    ///
    /// Takes about six minutes a round for each store at 8 s a run.
    Compare(ycsb::compare::CompareArgs),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("xtask: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let root = cargo::workspace_root()?;
    match Args::parse().chore {
        Chore::Ci(args) => ci::run(&root, &args),
        Chore::Soak(args) => soak::run(&root, &args),
        Chore::Package => package::run(&root),
        Chore::Bugs(args) => bugs::run(&root, &args),
        Chore::Golden { package } => golden::rewrite(&root, package.as_deref()),
        Chore::Tidy => tidy::run(&root),
        Chore::Circles { only } => tidy::circles::print(&root, only.as_deref()),
        Chore::English(args) => tidy::english::run(&root, &args),
        Chore::Results => results::run(&root),
        Chore::Book => book::run(&root),
        Chore::Pages => pages::run(&root),
        Chore::Torture { args } => {
            cargo::torture(&root).args(args.iter().map(String::as_str)).run()
        }
        Chore::Fuzz { target, seconds } => cargo::fuzz(&root, target.as_deref(), seconds),
        Chore::Adapters { only } => adapters::run(&root, false, only),
        Chore::Block { what: None } => block::run(&root, false),
        Chore::Block { what: Some(BlockChore::Rates(args)) } => block::rates::run(&root, &args),
        Chore::Ublk(args) => ublk::run(&root, &args),
        Chore::Zoned(args) => zoned::run(&root, &args),
        Chore::DmZoned(args) => dm_zoned::run(&root, &args),
        Chore::Filesystems(args) => filesystems::run(&root, &args),
        Chore::Databases(args) => databases::run(&root, &args),
        Chore::Stress(args) => stress::run(&root, &args),
        Chore::Ycsb { what: None } => ycsb::run(&root, false),
        Chore::Ycsb { what: Some(YcsbChore::Compare(args)) } => ycsb::compare::run(&root, &args),
        Chore::Browser(args) => browser::run(&root, false, &args),
        Chore::Python => python::run(&root, false),
        Chore::Swift(args) => swift::run(&root, &args),
        Chore::Bench { args } => cargo::Cargo::new(&root)
            .args(["run", "--release", "--package", "imbrex-cli", "--", "bench"])
            .args(args.iter().map(String::as_str))
            .run(),
    }
}
