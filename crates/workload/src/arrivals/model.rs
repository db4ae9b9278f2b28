//! The models, and which of their parameters make sense.

use super::error::ArrivalError;
use super::gaps::Interarrival;
use super::limits::RATE_PER_S_MAX;
use std::fmt;
use std::sync::Arc;

/// A shorter day is none, and 1,024 slices of it would be no whole nanoseconds.
const CYCLE_LEN_S_MIN: f64 = 0.001;
/// A century.
const CYCLE_LEN_S_MAX: f64 = 3.2e9;
/// Gaps of such a shape are all the same to a thousandth.
const SHAPE_MAX: f64 = 1000.0;

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

impl ArrivalModel {
    /// Checks what does not depend on the rate.
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
