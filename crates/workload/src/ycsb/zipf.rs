//! Zipf's law: a few items are requested often, most hardly ever.
//!
//! Source: Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), with
//! YCSB's constant of skew and YCSB's sum for its ten billion items.

use imbrex_clockwork::Prng;
use libm::pow;

/// The skew, as in YCSB.
const THETA: f64 = 0.99;

/// The number of ranks of YCSB's scrambled zipfian distribution, for any number of records.
pub(crate) const SCRAMBLED_ITEM_COUNT: u64 = 10_000_000_001;

/// The sum of `1 / i^0.99` over ten billion items, YCSB's constant. Computing it would take
/// minutes.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Above this number of items, the sum is computed by an integral, which takes no time and is exact
/// to the last digits of a double.
const SUMMED_COUNT_MAX: u64 = 10_000_000;

/// Ranks from 0; rank `r` has a probability proportional to `1 / (r + 1)^0.99`.
#[derive(Clone, Debug)]
pub(crate) struct Zipfian {
    item_count: u64,
    zeta: f64,
    zeta_2: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// A distribution over `item_count` items. Cost: one power per item, for the first ten million.
    pub(crate) fn new(item_count: u64) -> Zipfian {
        let mut zipfian = Zipfian {
            item_count: 0,
            zeta: 0.0,
            zeta_2: 1.0 + pow(0.5, THETA),
            alpha: 1.0 / (1.0 - THETA),
            eta: 0.0,
        };
        zipfian.grow(item_count);
        zipfian
    }

    /// A distribution over the ranks of YCSB's scrambled one.
    pub(crate) fn scrambled() -> Zipfian {
        let none = Zipfian::new(0);
        let item_count = SCRAMBLED_ITEM_COUNT;
        let mut zipfian = Zipfian { item_count, zeta: SCRAMBLED_ZETA, ..none };
        zipfian.eta = zipfian.eta();
        zipfian
    }

    /// Adds items up to `item_count`. Cost: as in [`Zipfian::new`], for the added items.
    pub(crate) fn grow(&mut self, item_count: u64) {
        if item_count <= self.item_count {
            return;
        }
        let summed_count = item_count.min(self.item_count.saturating_add(SUMMED_COUNT_MAX));
        for item in self.item_count..summed_count {
            self.zeta += 1.0 / pow((item + 1) as f64, THETA);
        }
        self.zeta += zeta_between(summed_count, item_count);
        self.item_count = item_count;
        self.eta = self.eta();
    }

    /// The number of items.
    pub(crate) fn item_count(&self) -> u64 {
        self.item_count
    }

    fn eta(&self) -> f64 {
        (1.0 - pow(2.0 / self.item_count as f64, 1.0 - THETA)) / (1.0 - self.zeta_2 / self.zeta)
    }

    /// The next rank, below the number of items.
    pub(crate) fn next(&self, prng: &mut Prng) -> u64 {
        let u = unit(prng);
        let uz = u * self.zeta;
        if uz < 1.0 || self.item_count < 2 {
            return 0;
        }
        if uz < self.zeta_2 {
            return 1;
        }
        let rank = self.item_count as f64 * pow(self.eta * u - self.eta + 1.0, self.alpha);
        (rank as u64).min(self.item_count - 1)
    }
}

/// The sum of `1 / i^0.99` over the items after `from`, a large number, up to `to`. By Euler and
/// Maclaurin: the integral, plus half of the difference between the ends.
fn zeta_between(from: u64, to: u64) -> f64 {
    let (from, to) = (from as f64, to as f64);
    let rest = 1.0 - THETA;
    (pow(to, rest) - pow(from, rest)) / rest + (pow(to, -THETA) - pow(from, -THETA)) / 2.0
}

/// A number from 0 to below 1.
pub(crate) fn unit(prng: &mut Prng) -> f64 {
    // 53 bits, which a double holds exactly.
    (prng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_law() {
        let zipfian = Zipfian::new(1000);
        let mut prng = Prng::new(1);
        let mut counts = vec![0_u32; 1000];
        for _ in 0..100_000 {
            counts[zipfian.next(&mut prng) as usize] += 1;
        }
        // 1 / zeta(1000) is 13 %; rank 1 has half of that.
        assert!((12_000..14_500).contains(&counts[0]), "{}", counts[0]);
        assert!((5_500..7_500).contains(&counts[1]), "{}", counts[1]);
        assert!(counts[500..].iter().sum::<u32>() > 5_000);
    }

    #[test]
    fn one_item_more_is_the_same_as_from_the_start() {
        let mut grown = Zipfian::new(10);
        grown.grow(500);
        grown.grow(20);
        let (mut a, mut b) = (Prng::new(7), Prng::new(7));
        let fresh = Zipfian::new(500);
        for _ in 0..1000 {
            assert_eq!(grown.next(&mut a), fresh.next(&mut b));
        }
        for item_count in [0, 1, 2, 3] {
            let few = Zipfian::new(item_count);
            assert!((0..1000).all(|_| few.next(&mut a) < item_count.max(1)), "{item_count}");
        }
    }

    #[test]
    fn ten_billion_ranks_have_the_sum_that_goes_with_them() {
        let short = Zipfian::new(100_000).zeta;
        let rest = zeta_between(100_000, SCRAMBLED_ITEM_COUNT - 1);
        assert!((short + rest - SCRAMBLED_ZETA).abs() < 1e-6);
        let many = Zipfian::new(SCRAMBLED_ITEM_COUNT - 1).zeta;
        assert!((many - SCRAMBLED_ZETA).abs() < 1e-6, "{many}");
        let (zipfian, mut prng) = (Zipfian::scrambled(), Prng::new(3));
        let ranks: Vec<u64> = (0..100_000).map(|_| zipfian.next(&mut prng)).collect();
        let first = ranks.iter().filter(|rank| **rank == 0).count();
        // 1 / zeta is 3.78 %.
        assert!((3_500..4_050).contains(&first), "{first}");
        assert!(ranks.iter().any(|rank| *rank > SCRAMBLED_ITEM_COUNT / 2));
    }
}
