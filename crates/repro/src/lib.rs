//! Published figures, reproduced: one command per figure, with the paper's value next to ours.
//!
//! ```text
//!   Figure {runs, page}  --runs-->  RunSpec, RunSpec, ...    each distinct one is carried out once
//!                                        |                    (two at a time, in virtual time)
//!                        <--Results------+
//!                        --page-->  claims, charts, tables, notes  -->  table | JSON | HTML
//! ```
//!
//! A figure is a small declarative file in `figures`: what to run, what to compare with, how to
//! draw. It measures nothing itself. The only numbers of a paper in it are the claimed values; all
//! our numbers come from the stack's own counters.
//!
//! `scale` is a share of the paper's sizes. Data and drive shrink together, so that the same share
//! of the drive is used and seeks span the same share of the arm's stroke. Tables, bands and memory
//! keep their size.
//!
//! Invariants
//!   R1  Same figures, same size: the same bytes of JSON and HTML, on any machine, with any number of
//!       workers.
//!   R2  A failed run is listed with its reason; the results of the other runs are shown.

pub mod arrivals;
pub mod chart;
pub mod client_phase;
mod data;
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
pub use reproduction::{FigurePage, Machine, Reproduction, Watch, repro};
pub use spec::Size;

/// The default scale of `imbrex repro`: minutes rather than hours.
pub const SCALE_DEFAULT: f64 = 0.02;

#[cfg(test)]
mod tests;
