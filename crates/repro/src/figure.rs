//! A figure: its runs, and the page built from their results.

use crate::arrivals::ArrivalSpec;
use crate::page::Page;
use crate::replays::ReplaySpec;
use crate::results::Results;
use crate::spec::{RunSpec, Size};
use crate::work::Work;

/// One figure or table of a paper.
#[derive(Clone, Copy)]
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its source.
    pub paper: &'static str,
    /// Its runs.
    pub(crate) runs: Runs,
    /// Builds its page from the results.
    pub(crate) page: fn(&Size, &Results) -> Page,
}

/// The runs of a figure.
#[derive(Clone, Copy)]
pub(crate) enum Runs {
    /// Stores.
    Stores(fn(&Size) -> Vec<RunSpec>),
    /// Block traces.
    Replays(fn(&Size) -> Vec<ReplaySpec>),
    /// Series of arrivals.
    Arrivals(fn(&Size) -> Vec<ArrivalSpec>),
}

impl Runs {
    pub(crate) fn works(self, size: &Size) -> Vec<Work> {
        match self {
            Runs::Stores(runs) => runs(size).into_iter().map(Work::Store).collect(),
            Runs::Replays(runs) => runs(size).into_iter().map(Work::Replay).collect(),
            Runs::Arrivals(runs) => runs(size).into_iter().map(Work::Arrivals).collect(),
        }
    }
}

impl std::fmt::Debug for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Figure({})", self.name)
    }
}
