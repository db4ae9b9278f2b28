//! How long operations took: an HdrHistogram of nanoseconds, exact to three digits.

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest latency told from a longer one.
const DAY_NS: u64 = 86_400_000_000_000;

/// Latencies of one client, or of several after [`Latencies::add`].
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
}

impl Latencies {
    pub(crate) fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, DAY_NS, 3)
            .expect("the bounds are a factor of two apart and three digits are within 0..=5");
        Latencies { histogram }
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    pub(crate) fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// 0 if there are none.
    pub(crate) fn mean_ns(&self) -> f64 {
        self.histogram.mean()
    }

    /// 0 if there are none.
    pub(crate) fn min_ns(&self) -> u64 {
        if self.histogram.is_empty() { 0 } else { self.histogram.min() }
    }

    /// So many percent were at least this fast.
    pub(crate) fn at_ns(&self, percent: f64) -> u64 {
        self.histogram.value_at_percentile(percent)
    }

    pub(crate) fn summary(&self) -> LatencySummary {
        let at = |percent: f64| self.histogram.value_at_percentile(percent);
        LatencySummary {
            mean_ns: self.histogram.mean() as u64,
            p50_ns: at(50.0),
            p90_ns: at(90.0),
            p99_ns: at(99.0),
            p999_ns: at(99.9),
            p9999_ns: at(99.99),
            max_ns: self.histogram.max(),
        }
    }
}

/// Percentiles of the latency of one operation, in nanoseconds of the run's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencySummary {
    /// The mean.
    pub mean_ns: u64,
    /// Half of all operations were at least this fast.
    pub p50_ns: u64,
    /// Nine of ten.
    pub p90_ns: u64,
    /// Ninety-nine of a hundred.
    pub p99_ns: u64,
    /// All but one of a thousand.
    pub p999_ns: u64,
    /// All but one of ten thousand.
    pub p9999_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_series() {
        let (mut low, mut high) = (Latencies::new(), Latencies::new());
        (1..=500).for_each(|us| low.record(us * 1000));
        (501..=1000).for_each(|us| high.record(us * 1000));
        low.add(&high);
        let summary = low.summary();
        let near = |got: u64, want: u64| got.abs_diff(want) * 500 <= want;
        assert!(near(summary.p50_ns, 500_000), "{summary:?}");
        assert!(near(summary.p999_ns, 999_000), "{summary:?}");
        assert!(near(summary.max_ns, 1_000_000), "{summary:?}");
        assert_eq!(Latencies::new().summary(), LatencySummary::default());
    }
}
