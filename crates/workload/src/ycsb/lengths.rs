//! Lengths: of fields in bytes, of scans in records.

use super::zipf::Zipfian;
use imbrex_clockwork::Prng;

/// A distribution of lengths.
#[derive(Clone, Debug)]
pub(crate) enum Lengths {
    /// Always the same.
    Constant(u64),
    /// Each of `min..=max` equally often.
    Uniform { min: u64, max: u64 },
    /// From `min`; short lengths are the most frequent.
    Zipfian { min: u64, ranks: Zipfian },
    /// By a histogram.
    Histogram(Histogram),
}

impl Lengths {
    /// From `min` to `max`; short lengths are the most frequent. Cost: one power per length.
    pub(crate) fn zipfian(min: u64, max: u64) -> Lengths {
        Lengths::Zipfian { min, ranks: Zipfian::new(max - min + 1) }
    }

    /// The greatest of them.
    pub(crate) fn longest(&self) -> u64 {
        match self {
            Lengths::Constant(length) => *length,
            Lengths::Uniform { max, .. } => *max,
            Lengths::Zipfian { min, ranks } => min + ranks.item_count() - 1,
            Lengths::Histogram(histogram) => histogram.longest(),
        }
    }

    /// The next length.
    pub(crate) fn next(&self, prng: &mut Prng) -> u64 {
        match self {
            Lengths::Constant(length) => *length,
            Lengths::Uniform { min, max } => min + prng.below(max - min + 1),
            Lengths::Zipfian { min, ranks } => min + ranks.next(prng),
            Lengths::Histogram(histogram) => histogram.next(prng),
        }
    }
}

/// Weights of buckets of equal width. Bucket `i` stands for the length `(i + 1) * width`, and the
/// last bucket for the length of the one before it, as in YCSB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Histogram {
    width: u64,
    weights: Vec<u64>,
    weight_sum: u64,
}

/// The largest number of buckets, and the longest field.
const SENSIBLE_MAX: u64 = 1 << 30;

impl Histogram {
    /// Parses YCSB's form: `BlockSize`, a tab and the width; then one line per bucket with its
    /// number and weight, from bucket 0.
    ///
    /// # Errors
    /// The line number, and the problem.
    pub(crate) fn parse(text: &str) -> Result<Histogram, (usize, String)> {
        let mut lines = text.lines().zip(1..);
        let number = |text: Option<&str>, line: usize, what: &str| {
            let text = text.unwrap_or_default().trim();
            let number = text.parse().ok().filter(|number: &u64| *number <= SENSIBLE_MAX);
            number.ok_or_else(|| (line, format!("{what} is {text:?}, not a number up to 2^30")))
        };
        let header = lines.next().and_then(|(line, _)| line.split_once('\t'));
        let Some(("BlockSize", width)) = header else {
            return Err((1, "expected BlockSize, a tab and the width of a bucket".to_owned()));
        };
        let width = number(Some(width), 1, "the width")?;
        let mut weights = Vec::new();
        for (text, line) in lines {
            let mut parts = text.split('\t');
            let bucket = number(parts.next(), line, "the bucket")?;
            if bucket != weights.len() as u64 {
                return Err((line, format!("bucket {bucket}, expected {}", weights.len())));
            }
            weights.push(number(parts.next(), line, "the weight")?);
        }
        let weight_sum = weights.iter().sum();
        if weight_sum == 0 {
            return Err((1, "no bucket has a weight".to_owned()));
        }
        if width.saturating_mul(weights.len() as u64) > SENSIBLE_MAX {
            return Err((1, "the last bucket is longer than 2^30".to_owned()));
        }
        Ok(Histogram { width, weights, weight_sum })
    }

    fn longest(&self) -> u64 {
        self.width * self.weights.len() as u64
    }

    fn next(&self, prng: &mut Prng) -> u64 {
        let mut left = prng.below(self.weight_sum);
        let mut bucket = 0;
        while left >= self.weights[bucket] {
            left -= self.weights[bucket];
            bucket += 1;
        }
        let last = self.weights.len() - 1;
        self.width * if bucket < last { bucket as u64 + 1 } else { last as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(lengths: &Lengths) -> Vec<u64> {
        let mut prng = Prng::new(5);
        (0..10_000).map(|_| lengths.next(&mut prng)).collect()
    }

    #[test]
    fn lengths_keep_their_bounds_and_shapes() {
        assert!(seen(&Lengths::Constant(7)).iter().all(|length| *length == 7));
        let uniform = seen(&Lengths::Uniform { min: 1, max: 100 });
        assert_eq!((uniform.iter().min(), uniform.iter().max()), (Some(&1), Some(&100)));
        let mean = uniform.iter().sum::<u64>() as f64 / 1e4;
        assert!((49.6..51.4).contains(&mean), "{mean}");
        let zipfian = seen(&Lengths::zipfian(10, 100));
        assert_eq!((zipfian.iter().min(), zipfian.iter().max()), (Some(&10), Some(&100)));
        // 1 / zeta(91) is 19.6 %.
        let short = zipfian.iter().filter(|length| **length == 10).count();
        assert!((1_800..2_100).contains(&short), "{short}");
        assert_eq!(seen(&Lengths::Uniform { min: 3, max: 3 })[0], 3);
        assert_eq!(seen(&Lengths::zipfian(3, 3))[0], 3);
    }

    #[test]
    fn a_histogram_is_read_and_followed() {
        let histogram = Histogram::parse("BlockSize\t10\n0\t1\n1\t0\n2\t3\n3\t0\n").unwrap();
        let lengths = seen(&Lengths::Histogram(histogram));
        let count = |wanted: u64| lengths.iter().filter(|length| **length == wanted).count();
        assert_eq!(count(10) + count(30), 10_000);
        assert!((2_370..2_630).contains(&count(10)), "{}", count(10));
    }

    #[test]
    fn a_histogram_that_is_none_is_refused_with_its_line() {
        let check = |text: &str, line: usize, what: &str| {
            let (at, message) = Histogram::parse(text).unwrap_err();
            assert_eq!(at, line, "{message}");
            assert!(message.contains(what), "{message}");
        };
        check("", 1, "BlockSize");
        check("0\t1\n", 1, "BlockSize");
        check("BlockSize\tten\n0\t1\n", 1, "\"ten\"");
        check("BlockSize\t10\n", 1, "no bucket");
        check("BlockSize\t10\n1\t1\n", 2, "expected 0");
        check("BlockSize\t10\n0\t1\n1\n", 3, "weight");
        check("BlockSize\t10\n0\t-1\n", 2, "\"-1\"");
        check("BlockSize\t1073741824\n0\t1\n1\t1\n", 1, "longer");
    }
}
