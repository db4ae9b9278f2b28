//! How long waits of one kind took: their number, their sum, and a histogram with fixed buckets.
//!
//! Four buckets for each power of two, from 1 µs to about an hour, so a percentile is at most a quarter too
//! high. A wait costs four atomic additions, and all buckets together take 1 KiB.

use crate::metrics::StallMetrics;
use std::sync::atomic::{AtomicU64, Ordering};

const BUCKET_COUNT: usize = 128;
/// A wait is measured in units of so many bits of nanoseconds, which is about a microsecond.
const UNIT_BITS: u32 = 10;

/// Waits of one kind.
#[derive(Debug)]
pub(crate) struct Waits {
    count: AtomicU64,
    total_ns: AtomicU64,
    max_ns: AtomicU64,
    buckets: [AtomicU64; BUCKET_COUNT],
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            count: AtomicU64::default(),
            total_ns: AtomicU64::default(),
            max_ns: AtomicU64::default(),
            buckets: [const { AtomicU64::new(0) }; BUCKET_COUNT],
        }
    }
}

impl Waits {
    /// Counts a wait.
    pub(crate) fn note(&self, ns: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
        self.max_ns.fetch_max(ns, Ordering::Relaxed);
        self.buckets[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn total_ns(&self) -> u64 {
        self.total_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn metrics(&self) -> StallMetrics {
        Waits::together([self])
    }

    /// Waits of several kinds, as if they were of one.
    pub(crate) fn together<'a>(kinds: impl IntoIterator<Item = &'a Waits> + Clone) -> StallMetrics {
        let sum = |of: fn(&Waits) -> u64| kinds.clone().into_iter().map(of).sum::<u64>();
        let max_ns = kinds.clone().into_iter().map(|one| one.max_ns.load(Ordering::Relaxed)).max();
        let max_ns = max_ns.unwrap_or(0);
        let mut counts = [0; BUCKET_COUNT];
        for kind in kinds.clone() {
            for (count, bucket) in counts.iter_mut().zip(&kind.buckets) {
                *count += bucket.load(Ordering::Relaxed);
            }
        }
        let within_ns = |percent: u64| within_ns(&counts, percent).min(max_ns);
        StallMetrics {
            count: sum(Waits::count),
            total_ns: sum(Waits::total_ns),
            p50_ns: within_ns(50),
            p99_ns: within_ns(99),
            max_ns,
        }
    }
}

/// The end of the bucket up to which there are at least `percent` of all waits.
fn within_ns(counts: &[u64; BUCKET_COUNT], percent: u64) -> u64 {
    let total: u64 = counts.iter().sum();
    let mut below = 0;
    let reaches = |&count: &u64| {
        below += count;
        u128::from(below) * 100 >= u128::from(total) * u128::from(percent)
    };
    counts.iter().position(reaches).map_or(0, end_ns)
}

fn bucket_of(ns: u64) -> usize {
    let units = ns >> UNIT_BITS;
    if units < 4 {
        return units as usize;
    }
    let log = units.ilog2();
    let quarter = (units >> (log - 2)) & 3;
    (4 * (log as usize - 1) + quarter as usize).min(BUCKET_COUNT - 1)
}

/// The first time after bucket `index`.
fn end_ns(index: usize) -> u64 {
    let next = index as u64 + 1;
    let units = if next < 4 { next } else { (4 + next % 4) << (next / 4 - 1) };
    units << UNIT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_a_quarter_of_a_power_of_two() {
        let mut last = 0;
        for ns in (0..60).flat_map(|bits| [1_u64 << bits, (1 << bits) + (1 << bits) / 3]) {
            let index = bucket_of(ns);
            assert!(index >= last, "{ns}");
            last = index;
            if index + 1 < BUCKET_COUNT {
                assert!(ns < end_ns(index), "{ns} ends at {}", end_ns(index));
                assert!(end_ns(index) <= ns + ns / 4 + 1024, "{ns} ends at {}", end_ns(index));
            }
        }
        assert_eq!(last, BUCKET_COUNT - 1);
    }

    #[test]
    fn percentiles_are_of_all_waits_and_never_above_the_longest() {
        let (short, long) = (Waits::default(), Waits::default());
        assert_eq!(short.metrics(), StallMetrics::default());
        (0..98).for_each(|_| short.note(1_000_000));
        (0..2).for_each(|_| long.note(3_000_000_000));
        let all = Waits::together([&short, &long]);
        assert_eq!((all.count, all.total_ns), (100, 98_000_000 + 6_000_000_000));
        assert!((1_000_000..1_250_000).contains(&all.p50_ns), "{all:?}");
        assert_eq!((all.p99_ns, all.max_ns), (3_000_000_000, 3_000_000_000));
        assert_eq!(short.metrics().p99_ns, 1_000_000);
    }
}
