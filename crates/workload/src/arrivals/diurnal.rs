//! A rate that follows a sine, with gaps of any distribution.
//!
//! ```text
//!   rate + modulation        __--__
//!   rate               _--          --_                             a cycle is 1,024 slices of one
//!   rate - modulation                   --__--                      rate each: the sine at its middle
//!                      |  gap of 3.7 operations  |
//! ```
//!
//! A gap is a number of operations, drawn with a mean of one. It lasts until the slices had
//! capacity for that many operations. So a gap that spans half a day follows the rates of that
//! half, not the rate at its start.

use super::elementary::sin;
use super::gaps::{Interarrival, Moment};
use super::limits::LEN_NS_MAX;
use imbrex_clockwork::Prng;

const SLICE_COUNT: usize = 1024;
const QUARTER: usize = SLICE_COUNT / 4;

/// The arrivals of a diurnal model, in order of time.
#[derive(Clone, Debug)]
pub(super) struct Diurnal {
    gaps: Interarrival,
    prng: Prng,
    moment: Moment,
    /// Operations per nanosecond in each slice.
    rates: Box<[f64]>,
    slice_len_ns: f64,
    cycle_len_ns: f64,
    operations_per_cycle: f64,
    /// The current slice, and the remainder of it.
    slice: usize,
    left_ns: f64,
}

impl Diurnal {
    pub(super) fn new(
        rate_per_s: f64,
        modulation_per_s: f64,
        cycle_len_s: f64,
        gaps: Interarrival,
        prng: Prng,
    ) -> Diurnal {
        let cycle_len_ns = cycle_len_s * 1e9;
        let slice_len_ns = cycle_len_ns / SLICE_COUNT as f64;
        let rate = |slice| (rate_per_s + modulation_per_s * sine(slice)) / 1e9;
        Diurnal {
            gaps,
            prng,
            moment: Moment::default(),
            rates: (0..SLICE_COUNT).map(rate).collect(),
            slice_len_ns,
            cycle_len_ns,
            operations_per_cycle: rate_per_s * cycle_len_s,
            slice: 0,
            left_ns: slice_len_ns,
        }
    }

    /// The time until the slices have had capacity for `operations`.
    fn pass(&mut self, mut operations: f64) -> f64 {
        let mut gap_ns = 0.0;
        if operations >= self.operations_per_cycle {
            let cycles = (operations / self.operations_per_cycle).floor();
            operations -= cycles * self.operations_per_cycle;
            gap_ns = cycles * self.cycle_len_ns;
            if gap_ns >= LEN_NS_MAX as f64 {
                // The series ends here. After so many cycles, rounding may leave more operations
                // than the slices ever have capacity for.
                return gap_ns;
            }
        }
        loop {
            let rate = self.rates[self.slice];
            let room = rate * self.left_ns;
            if operations < room {
                let rest_ns = operations / rate;
                self.left_ns -= rest_ns;
                if self.left_ns < 0.0 {
                    self.left_ns = 0.0;
                }
                return gap_ns + rest_ns;
            }
            operations -= room;
            gap_ns += self.left_ns;
            self.slice = (self.slice + 1) % SLICE_COUNT;
            self.left_ns = self.slice_len_ns;
        }
    }
}

/// The sine in the middle of a slice.
fn sine(slice: usize) -> f64 {
    let within = slice % QUARTER;
    let rising = if (slice / QUARTER).is_multiple_of(2) { within } else { QUARTER - 1 - within };
    let angle = (rising as f64 + 0.5) * std::f64::consts::PI / (SLICE_COUNT / 2) as f64;
    if slice < SLICE_COUNT / 2 { sin(angle) } else { -sin(angle) }
}

impl Iterator for Diurnal {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let operations = self.gaps.draw(&mut self.prng);
        let gap_ns = self.pass(operations);
        self.moment.advance(gap_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_a_sine() {
        for slice in 0..SLICE_COUNT {
            let angle = (slice as f64 + 0.5) * 2.0 * std::f64::consts::PI / SLICE_COUNT as f64;
            assert!((sine(slice) - libm::sin(angle)).abs() < 1e-14, "slice {slice}");
        }
    }
}
