//! The gate: what CI runs. It takes about fifteen minutes on two cores, and is to take no more.
//!
//! ```text
//!   format  tidy  deny                          seconds
//!   build                                       every crate, program and test once, with the profile `ci`
//!   lints   documentation                       clippy and rustdoc, on what the build left
//!
//!   lane 1:  tests  doc-tests  torture          two cores' worth of work
//!   lane 2:  adapters                           these wait for other programs
//!   lane 3:  filesystems
//!   lane 4:  block  ycsb  demo  pages  browser  python  swift
//! ```
//!
//! Each step is a process of its own (`step`), whose processor time is kept and compared (`times`).
//!
//! Invariants
//!   G1  Two builds and no more: what clippy and rustdoc check, and the profile `ci` with one choice of packages and
//!       features. A step of a lane builds nothing.
//!   G2  A step that could not test something says SKIPPED; the gate repeats it at its end.
//!   G3  For one commit the seeds are the same (`commit`).
//!
//! Not here: what needs hours, and the book, whose program takes long to build (`soak`); what a chore does (its own
//! module).

mod binaries;
mod commit;
mod deny;
mod step;
mod times;

use crate::cargo::{self, Cargo, TESTED_FEATURES};
use crate::{pages, tidy};
use anyhow::{Context, Result, anyhow, ensure};
use commit::Commit;
use imbrex_system_tests::browser::{self, BrowserArgs};
use imbrex_system_tests::scratch::Scratch;
use imbrex_system_tests::{adapters, block, filesystems, python, swift, ycsb};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use step::{Done, Shown};
use times::Times;

/// How much processor time torture has for each of its two workers.
pub(crate) const TORTURE_BUDGET: &str = "45s";
/// Every scenario gets at least so many drawn runs in it.
const TORTURE_RUNS_MIN: &str = "5";

/// One step: a name and what it does.
type Step = (&'static str, fn(&Path) -> Result<()>);

/// One after the other, cheapest first.
const FIRST: &[Step] = &[
    ("format", |root| shown(Cargo::new(root).args(["fmt", "--all", "--check"]))),
    ("tidy", tidy::run),
    ("deny", deny::run),
    ("build", |root| shown(cargo::whole_build(Cargo::new(root)))),
    ("lints", |root| {
        let clippy = ["clippy", "--workspace", "--all-targets", "--profile", "ci"];
        let clippy = Cargo::new(root).args(clippy).args(["--features", TESTED_FEATURES]);
        shown(clippy.args(["--", "-D", "warnings"]))
    }),
    ("documentation", |root| {
        let doc = ["doc", "--workspace", "--no-deps", "--document-private-items"];
        let doc = Cargo::new(root)
            .args(doc)
            .args(["--profile", "ci"])
            .args(["--features", TESTED_FEATURES]);
        shown(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
    }),
];

/// Side by side: the first takes what processor time the others leave.
const LANES: [&[Step]; 4] = [
    &[
        ("tests", |root| binaries::run(root, &Commit::of(root).part())),
        ("doc-tests", |root| {
            let test = ["test", "--doc", "--workspace", "--profile", "ci"];
            shown(Cargo::new(root).args(test).args(["--features", TESTED_FEATURES]))
        }),
        ("torture", |root| {
            let first_seed = Commit::of(root).first_seed();
            let budget = ["--budget", TORTURE_BUDGET, "--runs-min", TORTURE_RUNS_MIN];
            program(root, "imbrex-torture", &[&budget[..], &["--first-seed", &first_seed]].concat())
        }),
    ],
    &[("adapters", |root| adapters::run(root, true, None))],
    &[("filesystems", filesystems::shortly)],
    &[
        ("block", |root| block::run(root, true)),
        ("ycsb", |root| ycsb::run(root, true)),
        // The README's first command.
        ("demo", |root| program(root, "imbrex", &["demo"])),
        ("pages", pages::run),
        ("browser", |root| browser::run(root, true, &BrowserArgs::default())),
        ("python", |root| python::run(root, true)),
        ("swift", |root| swift::units(root, true)),
    ],
];

/// What only `cargo xtask soak` runs.
const IN_FULL: Step = ("tests-in-full", |root| binaries::run(root, "0/1"));

/// Arguments of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct CiArgs {
    /// Run only this step, as the gate does, on what the gate has built.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["timings", "adopt_timings"])]
    step: Option<String>,
    /// Run nothing: print the times of the last run beside those of xtask/ci-times.txt.
    #[arg(long)]
    timings: bool,
    /// Run nothing: take the times of the last run into xtask/ci-times.txt.
    #[arg(long)]
    adopt_timings: bool,
}

/// Runs the gate, or what `args` ask for.
pub(crate) fn run(root: &Path, args: &CiArgs) -> Result<()> {
    if args.adopt_timings {
        times::adopt(root)?;
    }
    match &args.step {
        _ if args.timings || args.adopt_timings => times::compare(root),
        Some(name) => run_step(root, name),
        None => run_all(root),
    }
}

fn run_step(root: &Path, name: &str) -> Result<()> {
    cargo::be_gate();
    let all = FIRST.iter().chain(LANES.into_iter().flatten()).chain([&IN_FULL]);
    let names: Vec<&str> = all.clone().map(|(name, _)| *name).collect();
    let found = all.clone().find(|(step, _)| *step == name);
    let (_, step) = found.with_context(|| format!("no step {name:?}; {}", names.join(", ")))?;
    let done = step(root);
    step::leave_time(root, name)?;
    done
}

/// What the steps so far came to.
#[derive(Default)]
struct Gate {
    times: Times,
    skipped: Vec<String>,
}

impl Gate {
    fn note(&mut self, name: &str, done: Done) {
        self.times.note(name, done.time);
        self.skipped.extend(done.skipped);
    }
}

/// Runs every step. A lane ends at its first step that fails; the other lanes run to their ends, so that one run
/// reports every failure.
fn run_all(root: &Path) -> Result<()> {
    let start = step::now();
    let mut gate = Gate::default();
    let scratch = Scratch::new(root, "gate")?;
    let scratch = scratch.path();
    for (name, _) in FIRST {
        gate.note(name, step::run(root, name, scratch, Shown::AsItComes)?);
    }
    let gate = Mutex::new(gate);
    let lane = |steps: &[Step]| -> Result<()> {
        for (name, _) in steps {
            let done = step::run(root, name, scratch, Shown::AtTheEnd)?;
            gate.lock().unwrap_or_else(PoisonError::into_inner).note(name, done);
        }
        Ok(())
    };
    let lane = &lane;
    let ends = std::thread::scope(|scope| {
        let lanes = LANES.map(|steps| scope.spawn(move || lane(steps)));
        lanes.map(|lane| lane.join().unwrap_or_else(|_| Err(anyhow!("a lane panicked"))))
    });
    let failures: Vec<String> =
        ends.into_iter().filter_map(Result::err).map(|failure| format!("{failure:#}")).collect();
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    let gate = gate.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "\n=== all {} steps passed ===",
        FIRST.len() + LANES.iter().map(|l| l.len()).sum::<usize>()
    );
    gate.times.keep(root)?;
    times::compare(root)?;
    println!("{:<16} {:>10} {:>10.1}", "this run", "", start.elapsed().as_secs_f64());
    for what in gate.skipped {
        println!("SKIPPED: {what}");
    }
    Ok(())
}

/// Runs a program that the gate has built.
fn program(root: &Path, name: &str, args: &[&str]) -> Result<()> {
    println!("$ {name} {}", args.join(" "));
    let status = Command::new(cargo::target(root).join(name)).args(args).current_dir(root).status();
    let status = status.with_context(|| format!("cannot start {name}"))?;
    ensure!(status.success(), "{name} {} failed ({status})", args.join(" "));
    Ok(())
}

fn shown(cargo: Cargo) -> Result<()> {
    println!("$ {}", cargo.shown());
    cargo.run()
}
