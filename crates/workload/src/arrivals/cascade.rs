//! The b-model: a multiplicative cascade, walked depth first, earliest interval first.
//!
//! ```text
//!   600 s                          N
//!                     bN                   (1-b)N          which half gets b: a coin
//!             (1-b)bN      bbN        b(1-b)N    (1-b)(1-b)N
//!              ...                                            down to one operation, or a microsecond
//! ```
//!
//! Only the path to the current interval and its later halves are kept: at most 43 intervals.

use imbrex_clockwork::Prng;

/// Intervals of at most this length are not halved; their operations are spread evenly.
const LEAF_LEN_NS: u64 = 1000;

/// An interval of time and the number of operations in it.
#[derive(Clone, Copy, Debug)]
struct Interval {
    start_ns: u64,
    len_ns: u64,
    count: u64,
}

/// The arrivals of a b-model, in order of time.
#[derive(Clone, Debug)]
pub(super) struct Cascade {
    bias: f64,
    prng: Prng,
    /// Intervals after `leaf`; the next one is last.
    later: Vec<Interval>,
    leaf: Interval,
    /// How many of the leaf's operations were returned.
    given_count: u64,
}

impl Cascade {
    pub(super) fn new(bias: f64, prng: Prng, len_ns: u64, count: u64) -> Cascade {
        let leaf = Interval { start_ns: 0, len_ns: 0, count: 0 };
        let later = vec![Interval { start_ns: 0, len_ns, count }];
        Cascade { bias, prng, later, leaf, given_count: 0 }
    }

    /// Its two halves, the earlier first.
    fn split(&mut self, whole: Interval) -> (Interval, Interval) {
        let bits = self.prng.next_u64();
        let share = (bits & ((1 << 53) - 1)) as f64 / (1_u64 << 53) as f64;
        // Rounded up or down at random, so that the mean of b N is exact for any N.
        let more = ((self.bias * whole.count as f64 + share).floor() as u64).min(whole.count);
        let is_first = bits >> 63 == 1;
        let first_count = if is_first { more } else { whole.count - more };
        let first_len_ns = whole.len_ns / 2;
        let first = Interval { start_ns: whole.start_ns, len_ns: first_len_ns, count: first_count };
        let second = Interval {
            start_ns: whole.start_ns + first_len_ns,
            len_ns: whole.len_ns - first_len_ns,
            count: whole.count - first_count,
        };
        (first, second)
    }
}

impl Iterator for Cascade {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while self.given_count == self.leaf.count {
            let interval = self.later.pop()?;
            if 1 < interval.count && LEAF_LEN_NS < interval.len_ns {
                let (first, second) = self.split(interval);
                self.later.push(second);
                self.later.push(first);
            } else {
                (self.leaf, self.given_count) = (interval, 0);
            }
        }
        let Interval { start_ns, len_ns, count } = self.leaf;
        let offset_ns =
            if count == 1 { self.prng.below(len_ns) } else { self.given_count * len_ns / count };
        self.given_count += 1;
        Some(start_ns + offset_ns)
    }
}
