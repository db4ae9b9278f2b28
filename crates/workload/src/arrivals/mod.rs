//! Arrivals: the times at which the operations of an open-loop run are due, independent of the
//! store.
//!
//! ```text
//!   properties --> ArrivalModel --(rate, end, seed)--> ArrivalSeries --> 0, 93 211, 101 007, ... ns
//!
//!   constant       |    |    |    |    |    |    |    |    |    |    every 1/rate
//!   poisson        |  |      | ||    |      |   |  |       ||        independent gaps
//!   selfsimilar    |      ||    |           |||| | ||          |     halves get b and 1 - b, again and again
//!   diurnal        | | || |||| ||| | |  |    |       |     |  |  |   a sine of the rate, gaps of any kind
//!   recorded       a file of times
//! ```
//!
//! A series is generated while it is read, so a series of 10^9 operations takes no more memory than
//! one of ten. Only a recorded series is held in memory, at eight bytes per operation.
//!
//! Invariants
//!   A1  Times never decrease, begin at or after 0, and end below 2^62 ns.
//!   A2  The same model, rate, end and seed give the same series on any machine and in any
//!       language: `docs/arrivals.md` specifies every step without library functions.
//!   A3  A self-similar series has exactly as many operations as rate and end imply.
//!
//! Sources: the three models and their properties, Pitchumani, thesis, 4.1 and table 4.1; the b-model,
//! Wang and others (ICDE 2002).
//!
//! Not here: clients that wait for the times (the crate `imbrex-bench`), and statistics of series
//! (`statistics`).

mod analysis;
mod cascade;
mod diurnal;
mod elementary;
mod error;
mod file;
mod gaps;
mod limits;
mod model;
mod properties;
mod series;

pub use analysis::{ArrivalAnalyser, ArrivalAnalysis, Correlation, SeriesFigures};
pub use error::ArrivalError;
pub use file::{ArrivalReader, read_recorded};
pub use gaps::Interarrival;
pub use limits::{LEN_NS_MAX, OPERATION_COUNT_MAX, RATE_PER_S_MAX};
pub use model::ArrivalModel;
pub use series::{ArrivalEnd, ArrivalSeries};

#[cfg(test)]
mod tests;
