//! Latencies: an HdrHistogram of nanoseconds, exact to three digits.
//!
//! The histogram has no maximum and grows with its values: 16 KiB when empty, 88 KiB for a
//! millisecond, 264 KiB for an hour. In modelled time a queue may outlast any bound.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies of one client, or of several after [`Latencies::add`].
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

impl Latencies {
    /// No latencies.
    pub fn new() -> Latencies {
        let histogram = Histogram::new(3).expect("three digits are within 0..=5");
        Latencies { histogram }
    }

    /// Adds a latency of `ns`.
    pub fn record(&mut self, ns: u64) {
        self.histogram.record(ns).expect("it grows to whatever 64 bits hold");
    }

    /// Adds the latencies of `other`.
    pub fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("it grows as the other one did");
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean; 0 if there are none.
    pub fn mean_ns(&self) -> f64 {
        self.histogram.mean()
    }

    /// The shortest; 0 if there are none.
    pub fn min_ns(&self) -> u64 {
        if self.histogram.is_empty() { 0 } else { self.histogram.min() }
    }

    /// The latency that `percent` of the operations did not exceed.
    pub fn at_ns(&self, percent: f64) -> u64 {
        self.histogram.value_at_percentile(percent)
    }

    /// The mean, the percentiles and the maximum.
    pub fn summary(&self) -> LatencySummary {
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
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The 99.99th percentile.
    pub p9999_ns: u64,
    /// The maximum.
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

    /// The histogram used to end at a day: a latency of two days was reported as one, and one of 40
    /// hours as shorter than one of 30.
    #[test]
    fn latencies_of_any_length_are_reported() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let mut all = Latencies::new();
        for longest_ns in [HOUR_NS, 30 * HOUR_NS, 40 * HOUR_NS, 1 << 62, u64::MAX] {
            let mut one = Latencies::new();
            one.record(longest_ns);
            all.add(&one);
            let told_ns = all.summary().max_ns;
            assert!(told_ns.abs_diff(longest_ns) <= longest_ns / 1000, "{told_ns} {longest_ns}");
        }
        assert_eq!(all.count(), 5);
    }

    /// Each histogram used to have the size for a day of nanoseconds, even when empty, and every
    /// client has nine.
    #[test]
    fn a_histogram_of_short_latencies_is_small() {
        let len_bytes = |l: &Latencies| l.histogram.distinct_values() * size_of::<u64>();
        let mut latencies = Latencies::new();
        assert!(len_bytes(&latencies) <= 16 << 10, "{}", len_bytes(&latencies));
        latencies.record(1_000_000);
        assert!(len_bytes(&latencies) <= 90 << 10, "{}", len_bytes(&latencies));
    }
}
