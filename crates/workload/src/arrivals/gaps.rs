//! Gaps drawn from a distribution with a mean of one, and the clock that adds them up.

use super::elementary::{exp, ln};
use super::{Interarrival, LEN_NS_MAX};
use imbrex_clockwork::Prng;

/// A number in (0, 1], of 2^53 equally likely ones.
fn share(prng: &mut Prng) -> f64 {
    ((prng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

impl Interarrival {
    /// A gap, in means.
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

/// A time in nanoseconds that gaps are added to, whole and fraction apart: a fraction of a nanosecond
/// counts as much after a year as at the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    whole_ns: u64,
    part_ns: f64,
}

impl Moment {
    /// Goes on by a gap of 0 or more; the whole nanoseconds then, or none past the longest series.
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
