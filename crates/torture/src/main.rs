//! The program behind `cargo xtask torture`: many seeds on all cores, or one seed with its story.

use clap::Parser;
use imbrex_clockwork::{fan_out, processor_ns};
use imbrex_files::invariants;
use imbrex_torture::{
    Campaign, Cuts, Draw, Failure, Report, Scenario, Spent, Sweep, Target, Way, WorkCounts, known,
    parse_seed, run_cut, run_seed, sweep,
};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs the whole stack against a model, under power cuts and I/O errors.
///
/// Exit code 0: every run was clean. Exit code 1: a run broke a promise, and the last line replays
/// it.
#[derive(Debug, Parser)]
#[command(name = "imbrex-torture")]
struct Args {
    /// Run only this seed (decimal, or hexadecimal with 0x).
    #[arg(long, value_parser = parse_seed)]
    seed: Option<u64>,
    /// How many seeds to run, distributed over the scenarios.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// Instead, how many seeds to run for each scenario.
    #[arg(long, conflicts_with_all = ["seed", "seeds"])]
    each: Option<u64>,
    /// The first seed.
    #[arg(long, default_value = "0", value_parser = parse_seed)]
    first_seed: u64,
    /// Sweeps: runs each seed once in fair weather, then again with a power cut at every EVERY-th
    /// device event and a second cut during the recovery.
    #[arg(long)]
    every: Option<u64>,
    /// With --every: the largest number of runs per seed, spread over its life.
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    cuts_max: u64,
    /// With --seed: only the run of a sweep whose power fails after this many device events.
    #[arg(long, requires = "seed", conflicts_with = "every")]
    cut: Option<u64>,
    /// With --cut: count events of the flash drive, in a scenario that has one.
    #[arg(long, requires = "cut")]
    cut_on_flash: bool,
    /// With --cut: cut again after this many device events of the recovery.
    #[arg(long, requires = "cut", default_value_t = 0)]
    cut_again: u64,
    /// Only this scenario or, with a `*` at the end, all whose names begin so. May be given several
    /// times. See --list.
    #[arg(long)]
    scenario: Vec<String>,
    /// Runs a campaign: first every seed that once failed, then draws and sweeps of all scenarios
    /// by their weights, until each worker has used this much processor time (such as 90s or 4m).
    #[arg(long, value_parser = parse_budget, conflicts_with_all = ["seed", "seeds", "each", "every"])]
    budget: Option<u64>,
    /// With --budget: a scenario with fewer drawn runs fails the campaign.
    #[arg(long, requires = "budget", default_value_t = 0)]
    runs_min: u64,
    /// How many threads to use.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Lists the scenarios.
    #[arg(long)]
    list: bool,
}

/// Parses `90s`, `4m` or `2h` into nanoseconds.
fn parse_budget(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let seconds = units.iter().find_map(|&(unit, seconds)| {
        text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(seconds)
    });
    let budget = seconds.and_then(|seconds| seconds.checked_mul(1_000_000_000));
    budget.ok_or(format!(
        "{text:?} is not a budget: expected seconds, minutes or hours, such as 90s, 4m, 2h"
    ))
}

/// The sweeps of a campaign are short and many. The seed determines where each begins.
const SWEEP_EVERY: u64 = 25;
const SWEEP_CUTS_MAX: u64 = 8;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    if args.list {
        for scenario in Scenario::all() {
            println!("{:28} {}", scenario.name, scenario.about);
        }
        return Ok(());
    }
    invariants::check_always();
    let scenarios = chosen(&args.scenario)?;
    if let Some(budget_ns) = args.budget {
        return campaign(args, &scenarios, budget_ns);
    }
    let runs: Vec<(&'static Scenario, u64)> = match args.seed {
        Some(seed) => scenarios.iter().map(|&scenario| (scenario, seed)).collect(),
        None => (0..args.each.map_or(args.seeds, |each| each * scenarios.len() as u64))
            .map(|i| {
                (scenarios[(i % scenarios.len() as u64) as usize], args.first_seed.wrapping_add(i))
            })
            .collect(),
    };
    if let Some(every) = args.every {
        let outcomes = fan_out_shown(args, &runs, |scenario, seed| {
            sweep(scenario, seed, every, args.cuts_max)
        });
        tell_sweeps(&outcomes);
        return fail_by(&outcomes);
    }
    let outcomes = fan_out_shown(args, &runs, |scenario, seed| match args.cut {
        Some(at) => {
            let (is_on_flash, again) = (args.cut_on_flash, args.cut_again);
            run_cut(scenario, seed, Cuts { at, is_on_flash, again })
        }
        None => run_seed(scenario, seed),
    });
    tell_runs(args, &outcomes);
    fail_by(&outcomes)
}

/// Spends `budget_ns` of processor time on each worker. No run begins after a failure.
fn campaign(args: &Args, scenarios: &[&'static Scenario], budget_ns: u64) -> Result<(), String> {
    println!("first seed {:#x}", args.first_seed);
    let known = known(scenarios)?;
    let known_count = known.len();
    let campaign = Mutex::new((known.into_iter(), Campaign::new(scenarios, args.first_seed)));
    let next = || {
        let (known, campaign) = &mut *campaign.lock().unwrap_or_else(PoisonError::into_inner);
        match known.next() {
            Some(draw) => Some((draw, true)),
            None => campaign.draw().map(|draw| (draw, false)),
        }
    };
    let has_failed = AtomicBool::new(false);
    let start_ns = processor_ns();
    let budget_ns = budget_ns.saturating_mul(args.workers as u64);
    let is_over = || has_failed.load(Ordering::Relaxed) || processor_ns() - start_ns >= budget_ns;
    let outcomes = fan_out(args.workers, &vec![(); args.workers], |()| {
        let mut outcomes = Vec::new();
        while !is_over()
            && let Some((draw, is_known)) = next()
        {
            let outcome = run_draw(&draw, is_known);
            has_failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
            outcomes.push((draw, outcome));
        }
        outcomes
    });
    tell_campaign(args, scenarios, known_count, outcomes.into_iter().flatten().collect())
}

/// The outcome of one run of a campaign.
enum Outcome {
    Run { report: Box<Report>, is_known: bool },
    Swept(Sweep),
}

fn run_draw(draw: &Draw, is_known: bool) -> Result<Outcome, Failure> {
    match draw.way {
        Way::Drawn => {
            let report = Box::new(run_seed(draw.scenario, draw.seed)?);
            Ok(Outcome::Run { report, is_known })
        }
        Way::Swept => {
            sweep(draw.scenario, draw.seed, SWEEP_EVERY, SWEEP_CUTS_MAX).map(Outcome::Swept)
        }
    }
}

fn tell_campaign(
    args: &Args,
    scenarios: &[&'static Scenario],
    known_count: usize,
    outcomes: Vec<(Draw, Result<Outcome, Failure>)>,
) -> Result<(), String> {
    let mut spent = Spent::new(scenarios);
    let (mut reports, mut failures) = (Vec::new(), Vec::new());
    for (draw, outcome) in outcomes {
        match outcome {
            Ok(Outcome::Run { report, is_known }) => {
                spent.note_run(&draw, is_known, &report);
                reports.push(report);
            }
            Ok(Outcome::Swept(sweep)) => spent.note_sweep(&draw, &sweep),
            Err(failure) => failures.push(Err::<(), _>(failure)),
        }
    }
    tell_layouts(&reports.iter().map(|report| &**report).collect::<Vec<_>>());
    print!("{spent}");
    println!("{} runs, {known_count} seeds that once failed among them", spent.run_count());
    fail_by(&failures)?;
    match spent.too_few(args.runs_min).first() {
        None => Ok(()),
        Some((name, count)) => Err(format!(
            "{name}: {count} drawn runs, expected {} or more: the budget is too short, or runs have become slower",
            args.runs_min
        )),
    }
}

/// Performs all runs on all threads. On a terminal shows the progress.
fn fan_out_shown<T: Send>(
    args: &Args,
    runs: &[(&'static Scenario, u64)],
    run: impl Fn(&'static Scenario, u64) -> Result<T, Failure> + Sync,
) -> Vec<Result<T, Failure>> {
    let done_count = AtomicUsize::new(0);
    fan_out(args.workers, runs, |&(scenario, seed)| {
        let outcome = run(scenario, seed);
        let done_count = 1 + done_count.fetch_add(1, Ordering::Relaxed);
        if std::io::stderr().is_terminal() && done_count.is_multiple_of(100) {
            eprint!("\r{done_count} of {} runs", runs.len());
        }
        outcome
    })
}

fn tell_sweeps(outcomes: &[Result<Sweep, Failure>]) {
    let clean: Vec<&Sweep> = outcomes.iter().flatten().collect();
    let sum = |figure: fn(&Sweep) -> u64| clean.iter().map(|sweep| figure(sweep)).sum::<u64>();
    println!(
        "{} of {} sweeps clean: {} device events, cut in {} runs; {} power cuts, {} operations, \
         {} blocks lost on flash",
        clean.len(),
        outcomes.len(),
        sum(|s| s.event_count),
        sum(|s| s.run_count),
        sum(|s| s.power_cut_count),
        sum(|s| s.operation_count),
        sum(|s| s.flash_lost.get()),
    );
}

fn tell_runs(args: &Args, outcomes: &[Result<Report, Failure>]) {
    let clean: Vec<&Report> = outcomes.iter().flatten().collect();
    let sum = |figure: fn(&Report) -> u64| clean.iter().map(|report| figure(report)).sum::<u64>();
    println!(
        "{} of {} runs clean: {} operations, {} lives, {} power cuts, {} I/O errors, \
         {} background steps, {} zone resets, {} zones cleaned, {} times no space",
        clean.len(),
        outcomes.len(),
        sum(|r| r.operation_count),
        sum(|r| r.life_count),
        sum(|r| r.power_cut_count),
        sum(|r| r.io_error_count),
        sum(|r| r.step_count),
        sum(|r| r.zone_reset_count),
        sum(|r| r.cleaned_zone_count),
        sum(|r| r.no_space_count),
    );
    tell_layouts(&clean);
    if args.seed.is_some() {
        clean.iter().for_each(|report| println!("{report:#?}"));
    }
}

/// Prints one line per layout: how often power cuts hit its special work midway.
fn tell_layouts(clean: &[&Report]) {
    let is_of_layout =
        |scenario: &&Scenario| scenario.layout().is_some() && scenario.target == Target::Store;
    for scenario in Scenario::all().iter().filter(is_of_layout) {
        let reports = clean.iter().filter(|report| report.scenario == scenario.name);
        let (mut count, mut cleaned_zone_count, mut work) = (0, 0, WorkCounts::default());
        for report in reports {
            count += 1;
            cleaned_zone_count += report.cleaned_zone_count;
            work += report.work;
        }
        if count > 0 {
            println!("{:24} {count} runs: {work}, {cleaned_zone_count} cleaned", scenario.name);
        }
    }
}

fn fail_by<T>(outcomes: &[Result<T, Failure>]) -> Result<(), String> {
    let failures: Vec<&Failure> = outcomes.iter().filter_map(|o| o.as_ref().err()).collect();
    match failures.first() {
        None => Ok(()),
        Some(first) => {
            let line = |f: &&Failure| format!("{} {:#x}: {}\n", f.scenario, f.seed, f.what);
            let others: String = failures.iter().skip(1).take(20).map(line).collect();
            Err(format!("{} runs failed\n{others}the first:\n{first}", failures.len()))
        }
    }
}

fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>, String> {
    if names.is_empty() {
        // On full drives some layouts still break promises; docs/testing.md lists them.
        let is_drawn = |scenario: &&Scenario| scenario.target != Target::FullDrive;
        return Ok(Scenario::all().iter().filter(is_drawn).collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        let count_before = chosen.len();
        match name.strip_suffix('*') {
            Some(head) => {
                chosen.extend(Scenario::all().iter().filter(|s| s.name.starts_with(head)));
            }
            None => chosen.extend(Scenario::by_name(name)),
        }
        if chosen.len() == count_before {
            let known: Vec<&str> = Scenario::all().iter().map(|s| s.name).collect();
            return Err(format!("no scenario named {name:?}; there are {}", known.join(", ")));
        }
    }
    Ok(chosen)
}
