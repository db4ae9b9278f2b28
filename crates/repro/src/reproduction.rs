//! Executes the runs that figures need, each distinct run once, and builds the pages.

use crate::arrivals;
use crate::execute::execute;
use crate::figure::Figure;
use crate::figures;
use crate::page::{Page, Verdict};
use crate::replays;
use crate::results::{Outcome, Results};
use crate::spec::Size;
use crate::work::Work;
use imbrex_bench::BenchError;
use imbrex_bench::worker_count;
use imbrex_clockwork::fan_out;
use serde::Serialize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The progress of a reproduction.
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

    /// The current runs, in a few words each.
    pub fn running(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The result of a reproduction.
#[derive(Clone, Debug, Serialize)]
pub struct Reproduction {
    /// The size.
    pub size: Size,
    /// The figures, in the requested order.
    pub figures: Vec<FigurePage>,
    /// Requested figures whose runs were stopped early.
    pub unfinished: Vec<&'static str>,
}

/// The result of one figure.
#[derive(Clone, Debug, Serialize)]
pub struct FigurePage {
    /// Its name.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its source.
    pub paper: &'static str,
    /// Its page.
    pub page: Page,
}

/// What a reproduction may use of the machine. It changes no figure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine {
    /// How many runs at a time; 0 counts as one.
    pub jobs: usize,
    /// Memory for the contents of emulated drives before they are compressed, of all runs together.
    pub unpacked_bytes: u64,
}

/// Executes the runs of `figures` at `size`, each distinct run once, and builds the pages. Polls
/// `is_stopped` between any two operations. After a stop, the result has the figures whose runs had
/// all ended.
///
/// # Errors
/// [`BenchError::Options`]: the scale is outside 0 to 1, or no trace of these figures has a name in
/// [`Size::only`]; [`BenchError::Stopped`]: stopped before the first figure was done.
pub fn repro(
    figures: &[Figure],
    size: Size,
    machine: Machine,
    watch: &Watch,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Reproduction, BenchError> {
    if !(size.scale > 0.0 && size.scale <= 1.0) {
        let message = format!("--scale is {}; it must be more than 0 and at most 1", size.scale);
        return Err(BenchError::Options(message));
    }
    figures::check_only(figures, &size).map_err(BenchError::Options)?;
    let mut works: Vec<Work> = Vec::new();
    for work in figures.iter().flat_map(|figure| figure.runs.works(&size)) {
        if !works.contains(&work) {
            works.push(work);
        }
    }
    // The longest runs first, so that the last worker has little left to do alone.
    works.sort_by_key(|work| std::cmp::Reverse(work.op_count()));
    watch.op_count.store(works.iter().map(Work::op_count).sum(), Ordering::Relaxed);
    let worker_count = worker_count(machine.jobs, works.len());
    let unpacked_bytes = machine.unpacked_bytes / worker_count as u64;
    let found = fan_out(worker_count, &works, |work| {
        let label = work.label();
        watch.lock().push(label.clone());
        let result = match work {
            Work::Store(spec) => {
                execute(spec, size.seed, unpacked_bytes, &watch.ops_done, is_stopped)
                    .map(Outcome::Store)
            }
            Work::Replay(spec) => {
                replays::execute(spec, size.seed, unpacked_bytes, &watch.ops_done, is_stopped)
                    .map(|report| Outcome::Replay(Box::new(report)))
            }
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
    // A figure with only some of its runs would contradict its words.
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

    /// The names of the unfinished figures; `None` if there are none.
    pub fn unfinished_names(&self) -> Option<String> {
        Some(self.unfinished.join(", ")).filter(|names| !names.is_empty())
    }

    /// The number of claims per verdict, in words; verdicts without a claim are left out.
    pub fn verdicts(&self) -> String {
        let claims = || self.figures.iter().flat_map(|figure| &figure.page.claims);
        let counted = [
            (Verdict::Met, "met"),
            (Verdict::Exceeded, "exceeded"),
            (Verdict::Explained, "missed and explained by a condition measured here"),
            (Verdict::Missed, "missed"),
        ];
        let mut words = Vec::new();
        for (verdict, word) in counted {
            let count = claims().filter(|claim| claim.verdict == verdict).count();
            let unit = match (words.is_empty(), count) {
                (_, 0) => continue,
                (true, 1) => " claim",
                (true, _) => " claims",
                (false, _) => "",
            };
            words.push(format!("{count}{unit} {word}"));
        }
        match words.is_empty() {
            true => "without claims to judge".to_owned(),
            false => words.join(", "),
        }
    }
}
