//! Arrival series for figures: a model, a rate, a length.
//!
//! ```text
//!   series --> arrivals in each millisecond --> 100 ms by the ms, a minute by 0.1 s, all by the second
//!         |--> gaps ------> the first of them: autocorrelation, Hurst exponents
//! ```
//!
//! The minute shown is the one whose number of arrivals is closest to the mean rate, and likewise
//! the 100 ms within it. A burst or a pause that happens to come first would not be representative.

use imbrex_bench::BenchError;
use imbrex_clockwork::Prng;
use imbrex_workload::arrivals::{
    ArrivalEnd, ArrivalError, ArrivalModel, Correlation, Interarrival, SeriesFigures,
};
use serde::Serialize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The source of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalSource {
    /// The original YCSB: threads that wait for each operation and sleep when they are ahead.
    Original {
        /// The number of threads.
        thread_count: u64,
    },
    /// Equal gaps.
    Constant,
    /// Independent gaps.
    Poisson,
    /// The b-model.
    SelfSimilar {
        /// Its bias.
        bias_percent: u64,
    },
    /// A sine of the rate, and Pareto gaps.
    Diurnal {
        /// The amplitude of the rate.
        modulation_per_s: u64,
        /// The length of a cycle.
        cycle_len_ms: u64,
        /// The shape of the Pareto gaps.
        shape_percent: u64,
    },
}

/// A series of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArrivalSpec {
    /// The source.
    pub source: ArrivalSource,
    /// Mean operations per second.
    pub rate_per_s: u64,
    /// The length in seconds.
    pub len_s: u64,
    /// The number of the series among several with different seeds.
    pub number: u64,
}

/// The measurements of a series.
#[derive(Clone, Debug)]
pub struct ArrivalReport {
    /// The number of arrivals.
    pub operations: u64,
    /// Arrivals in each of 100 milliseconds.
    pub milliseconds: Vec<f64>,
    /// Arrivals in each tenth of a second of a minute.
    pub tenths: Vec<f64>,
    /// Arrivals in each second of the whole run.
    pub seconds: Vec<f64>,
    /// The first 10,000 gaps, with the autocorrelation up to 300.
    pub few_gaps: SeriesFigures,
    /// The first 100,000 gaps.
    pub many_gaps: SeriesFigures,
    /// The first 100,000 gaps if the arrivals of each second were anywhere within it.
    pub shuffled_gaps: SeriesFigures,
    /// Arrivals per second, with the autocorrelation up to half of them.
    pub whole: SeriesFigures,
}

/// The thesis' "short duration": the arrivals of one second.
pub(super) const GAPS_FEW: usize = 10_000;
/// Ten times as many.
pub(super) const GAPS_MANY: usize = 100_000;
/// The autocorrelation of gaps is drawn up to this lag.
const GAP_LAGS: usize = 300;

impl ArrivalSource {
    /// The source in a few words.
    pub fn label(self) -> String {
        match self {
            ArrivalSource::Original { thread_count: 1 } => "1 thread".to_owned(),
            ArrivalSource::Original { thread_count } => format!("{thread_count} threads"),
            ArrivalSource::Constant => "constant".to_owned(),
            ArrivalSource::Poisson => "Poisson".to_owned(),
            ArrivalSource::SelfSimilar { bias_percent } => {
                format!("self-similar, {}", bias_percent as f64 / 100.0)
            }
            ArrivalSource::Diurnal { shape_percent, .. } => {
                format!("diurnal, {}", shape_percent as f64 / 100.0)
            }
        }
    }

    /// The model; `None` for the original YCSB, whose arrivals are not known before the run.
    pub(super) fn model(self) -> Option<ArrivalModel> {
        Some(match self {
            ArrivalSource::Original { .. } => return None,
            ArrivalSource::Constant => ArrivalModel::Constant,
            ArrivalSource::Poisson => ArrivalModel::Poisson,
            ArrivalSource::SelfSimilar { bias_percent } => {
                ArrivalModel::SelfSimilar { bias: bias_percent as f64 / 100.0 }
            }
            ArrivalSource::Diurnal { modulation_per_s, cycle_len_ms, shape_percent } => {
                ArrivalModel::Diurnal {
                    modulation_per_s: modulation_per_s as f64,
                    cycle_len_s: cycle_len_ms as f64 / 1000.0,
                    gaps: Interarrival::Pareto { shape: shape_percent as f64 / 100.0 },
                }
            }
        })
    }
}

impl ArrivalSpec {
    /// The series in a few words.
    pub fn label(&self) -> String {
        let source = self.source.label();
        if self.number == 0 { source } else { format!("{source}, series {}", self.number + 1) }
    }

    /// The approximate number of arrivals, for progress.
    pub fn op_count(&self) -> u64 {
        self.rate_per_s * self.len_s
    }

    fn times(&self, seed: u64) -> Result<Box<dyn Iterator<Item = u64>>, ArrivalError> {
        let ns = self.len_s * SECOND_NS;
        let seed = seed.wrapping_add(self.number);
        Ok(match (self.source.model(), self.source) {
            (Some(model), _) => {
                let end = ArrivalEnd::Duration { ns };
                Box::new(model.series(self.rate_per_s as f64, end, seed)?)
            }
            (None, ArrivalSource::Original { thread_count }) => {
                let all = OriginalYcsb::new(thread_count, self.rate_per_s, seed);
                Box::new(all.take_while(move |&at_ns| at_ns < ns))
            }
            (None, _) => Box::new(std::iter::empty()),
        })
    }
}

const SECOND_NS: u64 = 1_000_000_000;
const MS_NS: u64 = 1_000_000;
const MINUTE_MS: usize = 60_000;
const TENTH_MS: usize = 100;

/// Executes `spec`, updating `ops_done` and polling `is_stopped` along the way.
pub(super) fn execute(
    spec: &ArrivalSpec,
    seed: u64,
    ops_done: &AtomicU64,
    is_stopped: &dyn Fn() -> bool,
) -> Result<ArrivalReport, BenchError> {
    const LOOK_EVERY: u64 = 1 << 16;
    let mut counts = vec![0_u32; spec.len_s as usize * 1000];
    let (mut operations, mut last_ns, mut gaps) = (0, None, Vec::new());
    for at_ns in spec.times(seed)? {
        if operations % LOOK_EVERY == 0 {
            if is_stopped() {
                return Err(BenchError::Stopped);
            }
            ops_done.fetch_add(LOOK_EVERY, Ordering::Relaxed);
        }
        operations += 1;
        counts[(at_ns / MS_NS) as usize] += 1;
        if let Some(last_ns) = last_ns.replace(at_ns).filter(|_| gaps.len() < GAPS_MANY) {
            gaps.push((at_ns - last_ns) as f64);
        }
    }
    let minute = most_usual(&counts, 0..counts.len(), MINUTE_MS, spec.rate_per_s);
    let moment = most_usual(&counts, minute.clone(), TENTH_MS, spec.rate_per_s);
    let seconds = by(1000, &counts);
    let few = &gaps[..gaps.len().min(GAPS_FEW)];
    Ok(ArrivalReport {
        operations,
        milliseconds: by(1, &counts[moment]),
        tenths: by(TENTH_MS, &counts[minute]),
        few_gaps: SeriesFigures::of(few, &(1..=GAP_LAGS).collect::<Vec<_>>()),
        many_gaps: SeriesFigures::of(&gaps, &[1]),
        shuffled_gaps: SeriesFigures::of(&shuffled_gaps(&seconds, seed), &[1]),
        whole: SeriesFigures::of(&seconds, &(1..=seconds.len() / 2).collect::<Vec<_>>()),
        seconds,
    })
}

/// Counts per `len_ms`, from counts per millisecond.
fn by(len_ms: usize, counts: &[u32]) -> Vec<f64> {
    counts.chunks(len_ms).map(|part| part.iter().map(|&count| f64::from(count)).sum()).collect()
}

/// The first gaps of a series with these arrivals per second, placed anywhere within their second.
fn shuffled_gaps(seconds: &[f64], seed: u64) -> Vec<f64> {
    let mut prng = Prng::new(seed).derive("anywhere within a second");
    let mut times: Vec<u64> = Vec::new();
    for (second, count) in (0..).zip(seconds) {
        if times.len() > GAPS_MANY {
            break;
        }
        let start = times.len();
        times.extend((0..*count as u64).map(|_| second * SECOND_NS + prng.below(SECOND_NS)));
        times[start..].sort_unstable();
    }
    times.truncate(GAPS_MANY + 1);
    times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
}

/// Of the intervals of `len_ms` within `within`, the first whose number of arrivals is closest to
/// the mean.
fn most_usual(
    counts: &[u32],
    within: Range<usize>,
    len_ms: usize,
    rate_per_s: u64,
) -> Range<usize> {
    let wanted = rate_per_s * len_ms as u64 / 1000;
    let starts = within.clone().step_by(len_ms).filter(|start| start + len_ms <= within.end);
    let off = |&start: &usize| {
        let count: u64 = counts[start..start + len_ms].iter().map(|&count| u64::from(count)).sum();
        count.abs_diff(wanted)
    };
    let start = starts.min_by_key(off).unwrap_or(within.start);
    start..(start + len_ms).min(within.end)
}

impl ArrivalReport {
    /// The autocorrelation of gaps or of seconds at a lag.
    pub(super) fn at_lag(of: &SeriesFigures, lag: usize) -> f64 {
        let found = of.autocorrelation.iter().find(|found| found.lag == lag);
        found.and_then(|found| found.value).unwrap_or(f64::NAN)
    }

    /// The autocorrelation as points of a chart, the first `lag_max` lags.
    pub(super) fn correlogram(of: &SeriesFigures, lag_max: usize) -> Vec<(f64, f64)> {
        let points = of.autocorrelation.iter().take(lag_max);
        let point = |found: &Correlation| Some((found.lag as f64, found.value?));
        points.filter_map(point).collect()
    }
}

/// YCSB's client threads with a target, as in its client of that time.
///
/// ```text
///   clock, ms     |0         |1         |2         |3
///   a thread       |||||||||| sleep(1)..  ||||||||||  ..   until it has done what its share allows
/// ```
///
/// After each operation a thread compares the milliseconds since its start, by a clock of whole
/// milliseconds, with its operations, and sleeps a millisecond at a time while it is ahead. A sleep
/// lasts longer than requested, so now and then a millisecond has no operation and the next one has
/// twice as many.
///
/// Source: YCSB 0.1.4, `Client.java`, the throttle of `ClientThread`. The duration of a sleep and
/// of an operation of the placeholder database are assumptions.
#[derive(Debug)]
struct OriginalYcsb {
    threads: Vec<Thread>,
    target_per_ms: f64,
    prng: Prng,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    /// Its start, by the clock of whole milliseconds.
    start_ms: u64,
    now_ns: u64,
    done: u64,
}

/// The duration of an operation: the database does nothing but log it.
const OPERATION_NS: u64 = 2_000;
/// The excess of a sleep: the kernel's timer slack is 50 microseconds, and waking up takes longer
/// still.
const OVERSLEEP_NS: Range<u64> = 50_000..150_000;

impl OriginalYcsb {
    fn new(thread_count: u64, rate_per_s: u64, seed: u64) -> OriginalYcsb {
        let mut prng = Prng::new(seed).derive("original YCSB");
        let mut thread = || {
            // Threads start one after another, within the first millisecond.
            let now_ns = prng.below(MS_NS);
            Thread { start_ms: now_ns / MS_NS, now_ns, done: 0 }
        };
        let threads = (0..thread_count).map(|_| thread()).collect();
        let target_per_ms = rate_per_s as f64 / thread_count as f64 / 1000.0;
        OriginalYcsb { threads, target_per_ms, prng }
    }
}

impl Iterator for OriginalYcsb {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let thread = self.threads.iter_mut().min_by_key(|thread| thread.now_ns)?;
        let at_ns = thread.now_ns;
        thread.done += 1;
        thread.now_ns += OPERATION_NS;
        let allowed_ms = thread.done as f64 / self.target_per_ms;
        while ((thread.now_ns / MS_NS - thread.start_ms) as f64) < allowed_ms {
            let over = OVERSLEEP_NS.end - OVERSLEEP_NS.start;
            thread.now_ns += MS_NS + OVERSLEEP_NS.start + self.prng.below(over);
        }
        Some(at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(source: ArrivalSource) -> ArrivalReport {
        let spec = ArrivalSpec { source, rate_per_s: 10_000, len_s: 120, number: 0 };
        execute(&spec, 1, &AtomicU64::new(0), &|| false).unwrap()
    }

    #[test]
    fn original_ycsb_keeps_its_target_and_leaves_milliseconds_out() {
        for thread_count in [1, 4, 8] {
            let found = report(ArrivalSource::Original { thread_count });
            assert!(found.seconds.iter().all(|count| (count - 10_000.0).abs() <= 100.0));
            assert_eq!((found.milliseconds.len(), found.tenths.len()), (100, 600));
        }
        let alone = report(ArrivalSource::Original { thread_count: 1 });
        let has = |count: f64| alone.milliseconds.contains(&count);
        assert!(has(0.0) && has(10.0) && has(20.0), "{:?}", alone.milliseconds);
    }

    #[test]
    fn a_constant_series_is_flat_at_every_scale() {
        let found = report(ArrivalSource::Constant);
        assert!(found.milliseconds.iter().all(|&count| count == 10.0));
        assert!(found.tenths.iter().all(|&count| count == 1000.0));
        assert!(found.seconds.iter().all(|&count| count == 10_000.0));
        assert_eq!(found.operations, 1_200_000);
    }

    #[test]
    fn the_stretch_shown_is_the_most_usual_one() {
        let counts = [0, 0, 9, 9, 2, 1, 5, 5];
        assert_eq!(most_usual(&counts, 0..8, 2, 2000), 4..6);
        assert_eq!(most_usual(&counts, 6..8, 1, 5000), 6..7);
        assert_eq!(most_usual(&counts, 7..8, 5, 1), 7..8);
    }
}
