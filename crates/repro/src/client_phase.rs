//! Phases with clients: the load they offer, and the latencies they observe.
//!
//! ```text
//!   back to back   each client asks again when it has its answer
//!   open loop      arrivals, which the first free client takes, late or not
//!
//!   a request      intended      taken                          answered
//!                     |  waits     |  the call  |  the store       |
//!                     |            '------------- service ---------'
//!                     '---------------- response -------------------'
//! ```
//!
//! In virtual time only drives take time. The way of a client to the store, through a server or a
//! framework, is a constant per call and part of the service time.

use crate::arrivals::ArrivalSource;
use imbrex_workload::ycsb::presets::YcsbWorkload;
use serde::Serialize;
use std::collections::BTreeSet;

/// The load that clients offer to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ClientPhase {
    /// The operations, on the existing records.
    pub workload: YcsbWorkload,
    /// The number of operations.
    pub count: u64,
    /// Bytes per value.
    pub value_len_bytes: usize,
    /// Clients, each with one request at a time.
    pub client_count: u32,
    /// The arrivals of requests; `None` for back to back.
    pub arrivals: Option<OpenLoop>,
    /// The time of each call before it reaches the store.
    pub call_ns: u64,
    /// Whether scans are answered from memory and never reach the store.
    pub scans_in_memory: bool,
}

/// Arrivals that do not depend on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct OpenLoop {
    /// The source of arrivals.
    pub source: ArrivalSource,
    /// Mean arrivals per second.
    pub rate_per_s: u64,
}

impl ClientPhase {
    /// The phase in a few words.
    pub fn label(&self) -> String {
        let OpenLoop { source, rate_per_s } = match self.arrivals {
            Some(open) => open,
            None if self.client_count == 1 => return format!("{}, 1 client", self.workload),
            None => return format!("{}, {} clients", self.workload, self.client_count),
        };
        format!("{}, {} at {rate_per_s}/s", self.workload, source.label())
    }
}

/// The latencies that the clients of a phase observed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientLatencies {
    /// From the call of a client to its answer.
    pub service: LatencyBins,
    /// From the intended start of a request to its answer.
    pub response: LatencyBins,
    /// Service times over the phase.
    #[serde(skip)]
    pub trace: Trace,
}

/// Bins: the first ends at a microsecond, and each further one covers a twentieth of a decade, up
/// to a thousand seconds.
const FIRST_NS: f64 = 1e3;
const BINS_A_DECADE: usize = 20;
const BIN_COUNT: usize = 9 * BINS_A_DECADE + 2;

/// Counts of latencies in bins of equal width on a logarithmic axis.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyBins {
    counts: Vec<u64>,
    count: u64,
    max_ns: u64,
    sum_ns: u64,
}

impl Default for LatencyBins {
    fn default() -> LatencyBins {
        LatencyBins { counts: vec![0; BIN_COUNT], count: 0, max_ns: 0, sum_ns: 0 }
    }
}

/// The upper end of bin `at`.
fn end_ns(at: usize) -> f64 {
    FIRST_NS * libm::pow(10.0, at as f64 / BINS_A_DECADE as f64)
}

/// The bin of a latency.
fn bin_of(ns: u64) -> usize {
    if ns as f64 <= FIRST_NS {
        return 0;
    }
    let bins = libm::log10(ns as f64 / FIRST_NS) * BINS_A_DECADE as f64;
    (bins.ceil() as usize).min(BIN_COUNT - 1)
}

impl LatencyBins {
    pub(super) fn note(&mut self, ns: u64) {
        self.counts[bin_of(ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// The maximum, in milliseconds.
    pub fn max_ms(&self) -> f64 {
        self.max_ns as f64 / 1e6
    }

    /// The mean, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / 1e6 / self.count as f64 }
    }

    /// The number of latencies above `ms`, to the precision of a bin.
    pub fn slower_than(&self, ms: f64) -> u64 {
        let first = bin_of((ms * 1e6) as u64) + 1;
        self.counts.iter().skip(first).sum()
    }

    /// The percentage at or below the end of each bin: the normalised cumulative histogram.
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let mut sum = 0;
        let all = self.count.max(1) as f64;
        let mut points = Vec::new();
        for (at, count) in self.counts.iter().enumerate() {
            sum += count;
            if sum > 0 {
                points.push((end_ns(at) / 1e6, 100.0 * sum as f64 / all));
            }
            if sum == self.count {
                break;
            }
        }
        points
    }

    /// The percentage above the end of each bin, while there are any.
    pub fn slower(&self) -> Vec<(f64, f64)> {
        let rest = self.cumulative().into_iter().map(|(ms, percent)| (ms, 100.0 - percent));
        rest.filter(|(_, percent)| *percent > 1e-9).collect()
    }
}

/// Latencies over time, as the occupied cells of a grid. The grid gets coarser as a phase gets
/// longer, so that a picture of any length is a few hundred cells wide.
#[derive(Clone, Debug)]
pub struct Trace {
    column_ns: u64,
    cells: BTreeSet<(u64, usize)>,
}

const COLUMN_NS_FIRST: u64 = 1_000_000;
const COLUMN_COUNT_MAX: u64 = 512;

impl Default for Trace {
    fn default() -> Trace {
        Trace { column_ns: COLUMN_NS_FIRST, cells: BTreeSet::new() }
    }
}

impl Trace {
    pub(super) fn note(&mut self, at_ns: u64, ns: u64) {
        while at_ns / self.column_ns >= COLUMN_COUNT_MAX {
            self.column_ns *= 2;
            self.cells = self.cells.iter().map(|&(column, bin)| (column / 2, bin)).collect();
        }
        self.cells.insert((at_ns / self.column_ns, bin_of(ns)));
    }

    /// Seconds since the start, and milliseconds.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let middle_s = |column: u64| (column as f64 + 0.5) * self.column_ns as f64 / 1e9;
        let points = self.cells.iter().map(|&(column, bin)| (middle_s(column), end_ns(bin) / 1e6));
        points.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_a_twentieth_of_a_decade() {
        let mut bins = LatencyBins::default();
        for ns in [0, 1_000, 1_001, 9_999_999, 10_000_000, 20_000_000, u64::MAX] {
            bins.note(ns);
        }
        assert_eq!((bin_of(0), bin_of(1_000), bin_of(1_001)), (0, 0, 1));
        assert_eq!(bin_of(10_000_000), 4 * BINS_A_DECADE);
        assert_eq!(bin_of(u64::MAX), BIN_COUNT - 1);
        assert_eq!((bins.slower_than(10.0), bins.slower_than(0.0005)), (2, 5));
        let cumulative = bins.cumulative();
        assert!((cumulative[0].1 - 200.0 / 7.0).abs() < 1e-9, "{cumulative:?}");
        assert_eq!(cumulative.last().map(|point| point.1), Some(100.0));
        assert!(cumulative.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        let slower = bins.slower();
        assert!(slower.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{slower:?}");
        assert!((slower[slower.len() - 1].1 - 100.0 / 7.0).abs() < 1e-9, "{slower:?}");
    }

    #[test]
    fn a_trace_keeps_its_shape_as_its_grid_gets_coarser() {
        let mut trace = Trace::default();
        for second in 0..1000_u64 {
            trace.note(second * 1_000_000_000, 50_000);
        }
        trace.note(700_000_000_000, 2_000_000_000);
        let points = trace.points();
        assert!((250..=513).contains(&points.len()), "{}", points.len());
        let slow: Vec<_> = points.iter().filter(|(_, ms)| *ms > 1.0).collect();
        assert_eq!(slow.len(), 1);
        assert!((slow[0].0 - 700.0).abs() < 3.0 && (slow[0].1 - 2000.0).abs() < 250.0, "{slow:?}");
    }
}
