//! Arrivals: when each operation of an open-loop run is due, whatever the store does.
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
//! A series is made as it is read: one of 10^9 operations takes no more memory than one of ten.
//! Only a recorded one is held, at eight bytes an operation.
//!
//! Invariants
//!   A1  Times never decrease, begin at or after 0, and end below 2^62 ns.
//!   A2  The same model, rate, end and seed give the same series on any machine and in any language:
//!       `docs/arrivals.md` has every step, and no library function takes part.
//!   A3  A self-similar series has exactly the operations that rate and end say.
//!
//! Sources: the three models and their properties, Pitchumani, thesis, 4.1 and table 4.1; the b-model,
//! Wang and others (ICDE 2002).
//!
//! Not here: who waits for the times, and the statistics of any series (`statistics`).

mod analysis;
mod cascade;
mod diurnal;
mod elementary;
mod error;
mod file;
mod gaps;
mod properties;
mod series;

pub use analysis::{ArrivalAnalyser, ArrivalAnalysis, Correlation, SeriesFigures};
pub use error::ArrivalError;
pub use file::{ArrivalReader, read_recorded};
pub use series::ArrivalSeries;

use series::Times;
use std::fmt;
use std::sync::Arc;

/// The highest rate: an operation a nanosecond.
pub const RATE_PER_S_MAX: f64 = 1e9;
/// No series has more operations: a double counts them all.
pub const OPERATION_COUNT_MAX: u64 = 1 << 53;
/// No series is longer: 146 years.
pub const LEN_NS_MAX: u64 = 1 << 62;

/// How arrivals are distributed over time.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalModel {
    /// The same time from each to the next.
    Constant,
    /// Independent of each other: gaps are distributed exponentially.
    Poisson,
    /// The b-model: of the operations of any interval, one half of it has so large a share.
    SelfSimilar {
        /// That share: between 0.5, which would be even, and 1.
        bias: f64,
    },
    /// The rate goes up and down as a sine, beginning at the mean and upwards.
    Diurnal {
        /// By how much it leaves the mean: 0 to the mean rate.
        modulation_per_s: f64,
        /// From one high to the next.
        cycle_len_s: f64,
        /// Gaps within.
        gaps: Interarrival,
    },
    /// As it was once, in nanoseconds from 0; rate and seed change nothing.
    Recorded(Arc<[u64]>),
}

/// How gaps are distributed, about a mean that the rate gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interarrival {
    /// All the same.
    Constant,
    /// Anything from 0 to twice the mean.
    Uniform,
    /// As in a Poisson process.
    Exponential,
    /// With a heavy tail: a gap longer than x has a probability that falls as x to the power -shape.
    Pareto {
        /// More than 1: at 1 and below there is no mean. Up to 2 there is no variance.
        shape: f64,
    },
}

/// When a series ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalEnd {
    /// After so many operations.
    Operations(u64),
    /// Before the first operation at or after this time.
    Duration {
        /// From the start.
        ns: u64,
    },
}

impl ArrivalModel {
    /// The model that YCSB-style properties describe: `arrivalgenerator` and those of its model, as
    /// `docs/arrivals.md` lists them. Without `arrivalgenerator` it is constant, as YCSB's target is.
    ///
    /// # Errors
    /// [`ArrivalError`]: an unknown name, a value that is no number or outside its range, a missing
    /// one, or a file that is no series.
    pub fn from_properties(
        get: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ArrivalModel, ArrivalError> {
        properties::model(get)
    }

    /// The arrivals of a run with this mean rate, until `end`.
    ///
    /// # Errors
    /// [`ArrivalError`]: a rate or a parameter is outside its range, or the series would be too long.
    pub fn series(
        &self,
        rate_per_s: f64,
        end: ArrivalEnd,
        seed: u64,
    ) -> Result<ArrivalSeries, ArrivalError> {
        self.check()?;
        let times = Times::new(self, rate_per_s, end, seed)?;
        Ok(ArrivalSeries::new(times, end))
    }

    /// Checks what does not depend on the rate.
    fn check(&self) -> Result<(), ArrivalError> {
        match *self {
            ArrivalModel::SelfSimilar { bias } if !(0.5 < bias && bias < 1.0) => {
                Err(ArrivalError::Bias { got: bias })
            }
            ArrivalModel::Diurnal { modulation_per_s, .. }
                if !(0.0..=RATE_PER_S_MAX).contains(&modulation_per_s) =>
            {
                Err(ArrivalError::Modulation { got: modulation_per_s })
            }
            ArrivalModel::Diurnal { cycle_len_s, .. }
                if !(CYCLE_LEN_S_MIN..=CYCLE_LEN_S_MAX).contains(&cycle_len_s) =>
            {
                Err(ArrivalError::CycleLen { got_s: cycle_len_s })
            }
            ArrivalModel::Diurnal { gaps: Interarrival::Pareto { shape }, .. }
                if !(shape > 1.0 && shape <= SHAPE_MAX) =>
            {
                Err(ArrivalError::Shape { got: shape })
            }
            _ => Ok(()),
        }
    }
}

/// A shorter day is none, and 1,024 slices of it would be no whole nanoseconds.
const CYCLE_LEN_S_MIN: f64 = 0.001;
/// A century.
const CYCLE_LEN_S_MAX: f64 = 3.2e9;
/// Gaps of such a shape are all the same to a thousandth.
const SHAPE_MAX: f64 = 1000.0;

impl fmt::Display for ArrivalModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrivalModel::Constant => f.write_str("constant"),
            ArrivalModel::Poisson => f.write_str("poisson"),
            ArrivalModel::SelfSimilar { bias } => write!(f, "self-similar, bias {bias}"),
            ArrivalModel::Diurnal { modulation_per_s, cycle_len_s, gaps } => write!(
                f,
                "diurnal, {modulation_per_s}/s up and down in {} min, {gaps}",
                cycle_len_s / 60.0
            ),
            ArrivalModel::Recorded(times) => write!(f, "recorded, {} operations", times.len()),
        }
    }
}

impl fmt::Display for Interarrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interarrival::Constant => f.write_str("constant gaps"),
            Interarrival::Uniform => f.write_str("uniform gaps"),
            Interarrival::Exponential => f.write_str("exponential gaps"),
            Interarrival::Pareto { shape } => write!(f, "Pareto gaps of shape {shape}"),
        }
    }
}

#[cfg(test)]
mod tests;
