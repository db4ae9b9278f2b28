//! Gaps from a distribution with a mean of one, and the clock that adds them up.

use super::elementary::{exp, ln};
use super::limits::LEN_NS_MAX;
use imbrex_clockwork::Prng;
use std::fmt;

/// The distribution of gaps around the mean that the rate implies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interarrival {
    /// All gaps equal.
    Constant,
    /// Anything from 0 to twice the mean.
    Uniform,
    /// As in a Poisson process.
    Exponential,
    /// Heavy-tailed: the probability of a gap longer than x falls as x to the power -shape.
    Pareto {
        /// More than 1, because at 1 and below there is no mean. Up to 2 there is no variance.
        shape: f64,
    },
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

/// A number in (0, 1], one of 2^53 equally likely values.
fn share(prng: &mut Prng) -> f64 {
    ((prng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

impl Interarrival {
    /// A gap, in multiples of the mean.
    pub(super) fn draw(self, prng: &mut Prng) -> f64 {
        match self {
            Interarrival::Constant => 1.0,
            Interarrival::Uniform => 2.0 * share(prng),
            Interarrival::Exponential => -ln(share(prng)),
            Interarrival::Pareto { shape } => {
                let shortest = (shape - 1.0) / shape;
                shortest * exp(-ln(share(prng)) / shape)
            }
        }
    }
}

/// A time in nanoseconds, with whole part and fraction kept apart, so that a fraction of a
/// nanosecond counts as much after a year as at the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    whole_ns: u64,
    part_ns: f64,
}

impl Moment {
    /// Advances by a gap of 0 or more. Returns the whole nanoseconds, or `None` past the longest
    /// series.
    pub(super) fn advance(&mut self, gap_ns: f64) -> Option<u64> {
        let mut whole_ns = gap_ns.floor();
        self.part_ns += gap_ns - whole_ns;
        if self.part_ns >= 1.0 {
            self.part_ns -= 1.0;
            whole_ns += 1.0;
        }
        if whole_ns >= LEN_NS_MAX as f64 {
            return None;
        }
        self.whole_ns += whole_ns as u64;
        (self.whole_ns < LEN_NS_MAX).then_some(self.whole_ns)
    }
}
