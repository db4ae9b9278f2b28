//! The models and the ranges of their parameters.

use super::error::ArrivalError;
use super::gaps::Interarrival;
use super::limits::RATE_PER_S_MAX;
use std::fmt;
use std::sync::Arc;

/// The shortest cycle: 1,024 slices of a shorter one would not be whole nanoseconds.
const CYCLE_LEN_S_MIN: f64 = 0.001;
/// The longest cycle: a century.
const CYCLE_LEN_S_MAX: f64 = 3.2e9;
/// The largest shape: its gaps are equal to a thousandth.
const SHAPE_MAX: f64 = 1000.0;

/// How arrivals are distributed over time.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalModel {
    /// Equal gaps.
    Constant,
    /// Independent, exponentially distributed gaps.
    Poisson,
    /// The b-model: of the operations in any interval, one half of the interval has the share
    /// `bias`.
    SelfSimilar {
        /// Between 0.5, which would be even, and 1.
        bias: f64,
    },
    /// The rate follows a sine that starts at the mean and rises.
    Diurnal {
        /// The amplitude: at least 0, less than the mean rate.
        modulation_per_s: f64,
        /// The time from one maximum to the next.
        cycle_len_s: f64,
        /// The distribution of gaps.
        gaps: Interarrival,
    },
    /// A recorded series in nanoseconds from 0; rate and seed have no effect.
    Recorded(Arc<[u64]>),
}

impl ArrivalModel {
    /// Checks the parameters that do not depend on the rate.
    pub(super) fn check(&self) -> Result<(), ArrivalError> {
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
