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

pub mod arrivals;
pub mod chart;
pub mod client_phase;
mod execute;
pub mod figure;
mod figures;
mod html;
mod markdown;
pub mod page;
pub mod replays;
mod reproduction;
pub mod results;
#[cfg(test)]
mod sample_results;
pub mod spec;
mod work;

pub use figure::Figure;
pub use figures::{figures, figures_named};
pub use replays::GivenTrace;
pub use reproduction::{FigurePage, Reproduction, Watch, repro};
pub use spec::Size;

/// The scale of `imbrex repro` when none is asked for: minutes rather than hours.
pub const SCALE_DEFAULT: f64 = 0.02;

#[cfg(test)]
mod tests;
