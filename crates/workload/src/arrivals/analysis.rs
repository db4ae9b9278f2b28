//! Analysis of a series of arrivals: its gaps, and its counts per bin of time.
//!
//! ```text
//!   |  |      | ||    |      |   |  |       ||  |     arrivals
//!    g    g    g g  g     g    g   g     g           gaps: the first 10^7 of them
//!   |----- 3 -----|---- 2 ----|---- 3 ----|- -        counts: every whole bin from the first arrival on
//! ```
//!
//! Gaps show the load from one request to the next; counts show the load over the whole run. A
//! daily cycle appears in the counts and hardly in the gaps.

use super::error::ArrivalError;
use crate::statistics::autocorrelation::autocorrelations;
use crate::statistics::hurst::{Hurst, hurst_exponents};
use serde::Serialize;

/// Further gaps enter only the means.
const GAP_COUNT_MAX: usize = 10_000_000;
/// More bins are refused, to bound memory.
const BIN_COUNT_MAX: usize = 10_000_000;

/// Collects arrivals one by one.
#[derive(Clone, Debug)]
pub struct ArrivalAnalyser {
    bin_ns: u64,
    count: u64,
    first_ns: u64,
    last_ns: u64,
    gaps: Vec<f64>,
    bins: Vec<f64>,
}

/// The analysis of a series.
#[derive(Clone, Debug, Serialize)]
pub struct ArrivalAnalysis {
    /// How many arrivals.
    pub operations: u64,
    /// From the first to the last.
    pub seconds: f64,
    /// Arrivals after the first, divided by that time.
    pub rate_per_s: f64,
    /// The length of a bin of the counts.
    pub bin_ns: u64,
    /// Gaps in nanoseconds.
    pub gaps: SeriesFigures,
    /// Arrivals per bin. The last bin, which may be incomplete, is left out.
    pub counts: SeriesFigures,
}

/// Statistics of a list of numbers.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesFigures {
    /// How many values were used, from the first.
    pub values: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The autocorrelation at each lag. `None` at a lag beyond the end, or if all values are equal.
    pub autocorrelation: Vec<Correlation>,
    /// The Hurst exponent; `None` if the series is too short, constant, or varies at only one
    /// scale.
    pub hurst: Option<[Hurst; 5]>,
}

/// The autocorrelation at a lag.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Correlation {
    /// The distance in values.
    pub lag: usize,
    /// From -1 to 1.
    pub value: Option<f64>,
}

impl ArrivalAnalyser {
    /// An analyser that counts in bins of `bin_ns`.
    ///
    /// # Errors
    /// [`ArrivalError::Bin`]: `bin_ns` is 0.
    pub fn new(bin_ns: u64) -> Result<ArrivalAnalyser, ArrivalError> {
        if bin_ns == 0 {
            return Err(ArrivalError::Bin);
        }
        let (gaps, bins) = (Vec::new(), Vec::new());
        Ok(ArrivalAnalyser { bin_ns, count: 0, first_ns: 0, last_ns: 0, gaps, bins })
    }

    /// Adds the next arrival, which is not before the last one.
    ///
    /// # Errors
    /// [`ArrivalError::TooManyBins`].
    pub fn push(&mut self, at_ns: u64) -> Result<(), ArrivalError> {
        if self.count == 0 {
            (self.first_ns, self.last_ns) = (at_ns, at_ns);
        } else if self.gaps.len() < GAP_COUNT_MAX {
            self.gaps.push((at_ns - self.last_ns) as f64);
        }
        let bin = (at_ns - self.first_ns) / self.bin_ns;
        if bin >= BIN_COUNT_MAX as u64 {
            let len_ns = at_ns - self.first_ns;
            return Err(ArrivalError::TooManyBins { bin_ns: self.bin_ns, len_ns });
        }
        let bin = bin as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0.0);
        }
        self.bins[bin] += 1.0;
        self.count += 1;
        self.last_ns = at_ns;
        Ok(())
    }

    /// The analysis of the series, with the autocorrelation at `lags`.
    pub fn finish(mut self, lags: &[usize]) -> ArrivalAnalysis {
        self.bins.pop();
        let seconds = (self.last_ns - self.first_ns) as f64 / 1e9;
        let later = self.count.saturating_sub(1) as f64;
        ArrivalAnalysis {
            operations: self.count,
            seconds,
            rate_per_s: if seconds > 0.0 { later / seconds } else { 0.0 },
            bin_ns: self.bin_ns,
            gaps: SeriesFigures::of(&self.gaps, lags),
            counts: SeriesFigures::of(&self.bins, lags),
        }
    }
}

impl SeriesFigures {
    /// The statistics of `values`; zeros if there are none.
    pub fn of(values: &[f64], lags: &[usize]) -> SeriesFigures {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
        let found = autocorrelations(values, lags);
        let pairs = lags.iter().zip(found).map(|(&lag, value)| Correlation { lag, value });
        SeriesFigures {
            values: values.len(),
            mean,
            deviation: libm::sqrt(variance),
            min: values.iter().copied().reduce(f64::min).unwrap_or_default(),
            max: values.iter().copied().reduce(f64::max).unwrap_or_default(),
            autocorrelation: pairs.collect(),
            hurst: hurst_exponents(values),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::{ArrivalEnd, ArrivalModel, Interarrival};

    fn analysis(model: &ArrivalModel, seed: u64) -> ArrivalAnalysis {
        let end = ArrivalEnd::Duration { ns: 2_000_000_000_000 };
        let mut analyser = ArrivalAnalyser::new(1_000_000_000).unwrap();
        for at_ns in model.series(100.0, end, seed).unwrap() {
            analyser.push(at_ns).unwrap();
        }
        analyser.finish(&[1, 10, 100])
    }

    #[test]
    fn poisson_arrivals_depend_on_nothing() {
        for seed in 1..3 {
            let found = analysis(&ArrivalModel::Poisson, seed);
            for (of, tolerance) in [(&found.gaps, 0.01), (&found.counts, 0.1)] {
                let first = of.autocorrelation[0].value.unwrap();
                assert!(first.abs() < tolerance, "lag 1: {first}");
                for hurst in of.hurst.unwrap() {
                    assert!((hurst.exponent - 0.5).abs() < 0.1, "{hurst:?}");
                }
            }
            // The variance of the counts equals their mean, and gaps vary as much as they last.
            assert!((found.counts.deviation / libm::sqrt(100.0) - 1.0).abs() < 0.05);
            assert!((found.gaps.deviation / found.gaps.mean - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn self_similar_arrivals_have_a_long_memory() {
        let found = analysis(&ArrivalModel::SelfSimilar { bias: 0.7 }, 1);
        assert!(found.counts.autocorrelation[0].value.unwrap() > 0.2);
        for hurst in found.counts.hurst.unwrap() {
            assert!(hurst.exponent > 0.6, "{hurst:?}");
        }
    }

    #[test]
    fn a_cycle_shows_in_the_counts() {
        let gaps = Interarrival::Exponential;
        let model = ArrivalModel::Diurnal { modulation_per_s: 80.0, cycle_len_s: 20.0, gaps };
        let found = analysis(&model, 1);
        let at = |at: usize| found.counts.autocorrelation[at].value.unwrap();
        assert!(at(0) > 0.9, "a second later");
        assert!(at(1) < -0.9, "half a cycle later");
        assert!(at(2) > 0.9, "five cycles later");
    }

    #[test]
    fn gaps_and_whole_bins_are_counted() {
        let mut analyser = ArrivalAnalyser::new(10).unwrap();
        for at_ns in [100, 100, 109, 130, 139, 141] {
            analyser.push(at_ns).unwrap();
        }
        let found = analyser.finish(&[1]);
        assert_eq!((found.operations, found.seconds), (6, 4.1e-8));
        assert_eq!((found.gaps.values, found.gaps.max), (5, 21.0));
        assert_eq!((found.counts.values, found.counts.mean), (4, 1.25), "3, 0, 0, 2");
        assert!(found.gaps.hurst.is_none());
        let none = ArrivalAnalyser::new(10).unwrap().finish(&[1]);
        assert_eq!((none.operations, none.rate_per_s, none.counts.values), (0, 0.0, 0));
    }

    #[test]
    fn bins_that_are_too_many_are_refused() {
        assert!(ArrivalAnalyser::new(0).is_err());
        let mut analyser = ArrivalAnalyser::new(1000).unwrap();
        analyser.push(5).unwrap();
        let error = analyser.push(20_000_000_005).unwrap_err().to_string();
        assert!(
            error.contains("bins of 0.000001 s over 20 s") && error.contains("longer"),
            "{error}"
        );
    }
}
