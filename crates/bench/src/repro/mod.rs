//! Published figures, run again: one command a figure, the paper's value beside ours.
//!
//! ```text
//!   Figure {runs, page}  --runs-->  RunSpec, RunSpec, ...    each distinct one is carried out once
//!                                        |                    (two at a time, in virtual time)
//!                        <--Results------+
//!                        --page-->  claims, charts, tables, notes  -->  table | JSON | HTML
//! ```
//!
//! A figure is a small declarative file in `figures`: what to run, what to compare with, how to
//! draw. It never measures anything itself, and no figure of a paper other than the claimed value
//! occurs in it: every number of ours comes from the stack's own counters.
//!
//! `scale` is a share of the paper's sizes: data and drive shrink together, so that the same share
//! of the drive is used and seeks span the same share of the arm's stroke; tables, bands and memory
//! keep their size.
//!
//! Invariants
//!   R1  Same figures, same size: the same bytes of JSON and HTML, on any machine, with any number of
//!       workers.
//!   R2  A run that could not be made is named with its reason; the others are shown.

mod arrivals;
pub(crate) mod chart;
pub(crate) mod drive;
mod execute;
mod figures;
mod html;
#[cfg(test)]
mod made_up;
mod markdown;
mod offer;
mod page;
mod replays;
mod results;
mod spec;

pub use arrivals::{ArrivalReport, ArrivalSource, ArrivalSpec};
pub use chart::{Axis, Chart, ChartKind, Series};
pub use offer::{LatencyBins, Offer, Offered, OpenLoop, Trace};
pub use page::{Better, Claim, Elsewhere, Page, Table, Verdict};
pub use replays::{Cleans, GivenTrace, ReplaySpec, ReplayTrace};
pub use results::{
    LevelState, Milestone, PhaseResult, Results, RunResult, SpaceState, TierState, Totals,
};
pub use spec::{BesideSpec, DriveRule, DriveSpec, LoadOrder, Phase, RunSpec, Size, Tune, Victims};

use crate::error::BenchError;
use crate::run::worker_count;
use execute::execute;
use imbrex_clockwork::fan_out;
use results::Outcome;
use serde::Serialize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The scale of `imbrex repro` when none is asked for: minutes rather than hours.
pub const SCALE_DEFAULT: f64 = 0.02;

/// One figure or table of a paper.
#[derive(Clone, Copy)]
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    /// What it needs.
    runs: Runs,
    /// What it says, given what the runs found.
    page: fn(&Size, &Results) -> Page,
}

/// What a figure runs.
#[derive(Clone, Copy)]
enum Runs {
    /// Stores.
    Stores(fn(&Size) -> Vec<RunSpec>),
    /// Block traces.
    Replays(fn(&Size) -> Vec<ReplaySpec>),
    /// Series of arrivals.
    Arrivals(fn(&Size) -> Vec<ArrivalSpec>),
}

impl Runs {
    fn works(self, size: &Size) -> Vec<Work> {
        match self {
            Runs::Stores(runs) => runs(size).into_iter().map(Work::Store).collect(),
            Runs::Replays(runs) => runs(size).into_iter().map(Work::Replay).collect(),
            Runs::Arrivals(runs) => runs(size).into_iter().map(Work::Arrivals).collect(),
        }
    }
}

/// One run of any kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Store(RunSpec),
    Replay(ReplaySpec),
    Arrivals(ArrivalSpec),
}

impl Work {
    fn op_count(&self) -> u64 {
        match self {
            Work::Store(spec) => spec.op_count(),
            Work::Replay(spec) => spec.op_count(),
            Work::Arrivals(spec) => spec.op_count(),
        }
    }

    fn label(&self) -> String {
        match self {
            Work::Store(spec) => spec.label(),
            Work::Replay(spec) => spec.label(),
            Work::Arrivals(spec) => spec.label(),
        }
    }
}

impl std::fmt::Debug for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Figure({})", self.name)
    }
}

/// All figures, paper by paper.
pub fn figures() -> &'static [Figure] {
    figures::ALL
}

/// The figures that `name` means: one of them, a paper (`sealdb`), a chapter (`thesis-5`), or `all`.
///
/// # Errors
/// [`BenchError::Options`]: there is none; the message lists what there is.
pub fn figures_named(name: &str) -> Result<Vec<Figure>, BenchError> {
    let is_part = |figure: &&Figure| {
        figure.name.strip_prefix(name).is_some_and(|rest| rest.starts_with(['-', '.']))
    };
    let found: Vec<Figure> = match name {
        "all" => figures().to_vec(),
        _ => match figures().iter().find(|figure| figure.name == name) {
            Some(figure) => vec![*figure],
            None => figures().iter().filter(is_part).copied().collect(),
        },
    };
    if found.is_empty() {
        let names: Vec<&str> = figures().iter().map(|f| f.name).collect();
        return Err(BenchError::Options(format!(
            "no figure {name:?}; there are all, sealdb, thesis, geardb, kvimr, driver, {}",
            names.join(", ")
        )));
    }
    Ok(found)
}

/// How far a reproduction is; read by whoever shows it.
#[derive(Debug, Default)]
pub struct Watch {
    op_count: AtomicU64,
    ops_done: AtomicU64,
    running: Mutex<Vec<String>>,
}

impl Watch {
    /// Operations of all runs together; 0 until they are known.
    pub fn op_count(&self) -> u64 {
        self.op_count.load(Ordering::Relaxed)
    }

    /// Operations done.
    pub fn ops_done(&self) -> u64 {
        self.ops_done.load(Ordering::Relaxed)
    }

    /// The runs at work, in a few words each.
    pub fn running(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What a reproduction came to.
#[derive(Clone, Debug, Serialize)]
pub struct Reproduction {
    /// At which size.
    pub size: Size,
    /// The figures, in the order asked for.
    pub figures: Vec<FigurePage>,
    /// Figures that were asked for and whose runs were stopped before their end.
    pub unfinished: Vec<&'static str>,
}

/// One figure's outcome.
#[derive(Clone, Debug, Serialize)]
pub struct FigurePage {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    /// What it came to.
    pub page: Page,
}

/// Runs what `figures` need at `size`, each distinct run once and `jobs` at a time, and writes their
/// pages. `is_stopped` is asked between two operations of every run; of what was stopped come the figures whose runs
/// had all ended.
///
/// # Errors
/// [`BenchError::Options`] for a scale outside 0 to 1, and for a name in [`Size::only`] that no trace of these figures
/// has; [`BenchError::Stopped`] before the first figure was done.
pub fn repro(
    figures: &[Figure],
    size: Size,
    jobs: usize,
    watch: &Watch,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Reproduction, BenchError> {
    if !(size.scale > 0.0 && size.scale <= 1.0) {
        let message = format!("--scale is {}; it is more than 0 and at most 1", size.scale);
        return Err(BenchError::Options(message));
    }
    figures::check_only(figures, &size).map_err(BenchError::Options)?;
    let mut works: Vec<Work> = Vec::new();
    for work in figures.iter().flat_map(|figure| figure.runs.works(&size)) {
        if !works.contains(&work) {
            works.push(work);
        }
    }
    // The longest first: the last worker to finish then has little left alone.
    works.sort_by_key(|work| std::cmp::Reverse(work.op_count()));
    watch.op_count.store(works.iter().map(Work::op_count).sum(), Ordering::Relaxed);
    let found = fan_out(worker_count(jobs, works.len()), &works, |work| {
        let label = work.label();
        watch.lock().push(label.clone());
        let result = match work {
            Work::Store(spec) => {
                execute(spec, size.seed, &watch.ops_done, is_stopped).map(Outcome::Store)
            }
            Work::Replay(spec) => replays::execute(spec, size.seed, &watch.ops_done, is_stopped)
                .map(|report| Outcome::Replay(Box::new(report))),
            Work::Arrivals(spec) => arrivals::execute(spec, size.seed, &watch.ops_done, is_stopped)
                .map(|report| Outcome::Arrivals(Box::new(report))),
        };
        let mut running = watch.lock();
        if let Some(at) = running.iter().position(|l| *l == label) {
            running.remove(at);
        }
        result
    });
    let mut results = Results::default();
    let mut stopped: Vec<Work> = Vec::new();
    for (work, result) in works.into_iter().zip(found) {
        match result {
            Err(BenchError::Stopped) => stopped.push(work),
            result => results.insert(work, result.map_err(|error| with_causes(&error))),
        }
    }
    if let Some(fault) = results.fault_of_all().filter(|_| stopped.is_empty()) {
        return Err(BenchError::Options(format!("no run was possible: {fault}")));
    }
    // A figure of some of its runs would not be what its words say.
    let is_whole =
        |figure: &&Figure| figure.runs.works(&size).iter().all(|work| !stopped.contains(work));
    let (whole, unfinished): (Vec<&Figure>, Vec<&Figure>) = figures.iter().partition(is_whole);
    if whole.is_empty() && !unfinished.is_empty() {
        return Err(BenchError::Stopped);
    }
    let pages = whole.iter().map(|figure| FigurePage {
        name: figure.name,
        title: figure.title,
        paper: figure.paper,
        page: (figure.page)(&size, &results).without_the_unmeasured(),
    });
    Ok(Reproduction {
        size,
        figures: pages.collect(),
        unfinished: unfinished.iter().map(|figure| figure.name).collect(),
    })
}

fn with_causes(error: &BenchError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl Reproduction {
    /// Everything as JSON, ending in a line feed.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("a reproduction is numbers, strings and lists");
        text.push('\n');
        text
    }

    /// One page for a browser, with nothing outside of it.
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// The claims and notes as Markdown, as `docs/results` keeps them.
    pub fn to_markdown(&self) -> String {
        markdown::page(self)
    }

    /// Tables for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if let Some(names) = self.unfinished_names() {
            text.push_str(&format!("Stopped before the end of {names}.\n\n"));
        }
        for figure in &self.figures {
            text.push_str(&format!("{}: {} ({})\n", figure.name, figure.title, figure.paper));
            text.push_str(&figure.page.text());
            text.push('\n');
        }
        text
    }

    /// What was asked for and stopped, in words; none if nothing was.
    pub fn unfinished_names(&self) -> Option<String> {
        Some(self.unfinished.join(", ")).filter(|names| !names.is_empty())
    }

    /// How many claims came out how, in words.
    pub fn verdicts(&self) -> String {
        let count = |verdict: Verdict| {
            let claims = self.figures.iter().flat_map(|figure| &figure.page.claims);
            claims.filter(|claim| claim.verdict == verdict).count()
        };
        format!(
            "{} claims met, {} exceeded, {} missed and explained by a condition measured here, {} \
             missed",
            count(Verdict::Met),
            count(Verdict::Exceeded),
            count(Verdict::Explained),
            count(Verdict::Missed)
        )
    }
}

#[cfg(test)]
mod tests;
