//! A series: the times of a model, up to its end.
//!
#![doc = include_str!("../../../../docs/arrivals.md")]

use super::cascade::Cascade;
use super::diurnal::Diurnal;
use super::error::ArrivalError;
use super::gaps::{Interarrival, Moment};
use super::limits::{LEN_NS_MAX, OPERATION_COUNT_MAX, RATE_PER_S_MAX};
use super::model::ArrivalModel;
use imbrex_clockwork::Prng;
use std::sync::Arc;

/// Intended start times in nanoseconds from 0, never decreasing.
#[derive(Clone, Debug)]
pub struct ArrivalSeries {
    times: Times,
    left_count: u64,
    end_ns: u64,
}

/// The end of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalEnd {
    /// After this many operations.
    Operations(u64),
    /// Before the first operation at or after this time.
    Duration {
        /// From the start.
        ns: u64,
    },
}

/// The source of the times.
#[derive(Clone, Debug)]
enum Times {
    /// Operation `next` is due `next / rate` after the start.
    Constant {
        rate_per_s: f64,
        next: u64,
    },
    Poisson {
        mean_ns: f64,
        moment: Moment,
        prng: Prng,
    },
    SelfSimilar(Cascade),
    Diurnal(Box<Diurnal>),
    Recorded {
        times: Arc<[u64]>,
        next: usize,
    },
}

/// The name of the random stream of arrivals.
const STREAM: &str = "arrivals";

impl Times {
    fn new(
        model: &ArrivalModel,
        rate_per_s: f64,
        end: ArrivalEnd,
        seed: u64,
    ) -> Result<Times, ArrivalError> {
        if let ArrivalModel::Recorded(times) = model {
            return Ok(Times::Recorded { times: Arc::clone(times), next: 0 });
        }
        let (count, len_ns) = extent(rate_per_s, end)?;
        let prng = Prng::new(seed).derive(STREAM);
        Ok(match *model {
            ArrivalModel::Constant | ArrivalModel::Recorded(_) => {
                Times::Constant { rate_per_s, next: 0 }
            }
            ArrivalModel::Poisson => {
                Times::Poisson { mean_ns: 1e9 / rate_per_s, moment: Moment::default(), prng }
            }
            ArrivalModel::SelfSimilar { bias } => {
                Times::SelfSimilar(Cascade::new(bias, prng, len_ns, count))
            }
            ArrivalModel::Diurnal { modulation_per_s, cycle_len_s, gaps } => {
                if modulation_per_s >= rate_per_s {
                    let got = modulation_per_s;
                    return Err(ArrivalError::ModulationOfRate { got, rate_per_s });
                }
                let all = Diurnal::new(rate_per_s, modulation_per_s, cycle_len_s, gaps, prng);
                Times::Diurnal(Box::new(all))
            }
        })
    }

    fn next_ns(&mut self) -> Option<u64> {
        match self {
            Times::Constant { rate_per_s, next } => {
                let at_ns = *next as f64 * 1e9 / *rate_per_s;
                *next += 1;
                Some(at_ns as u64)
            }
            Times::Poisson { mean_ns, moment, prng } => {
                moment.advance(Interarrival::Exponential.draw(prng) * *mean_ns)
            }
            Times::SelfSimilar(cascade) => cascade.next(),
            Times::Diurnal(diurnal) => diurnal.next(),
            Times::Recorded { times, next } => {
                let at_ns = times.get(*next).copied();
                *next += 1;
                at_ns
            }
        }
    }
}

/// The number of operations and the length of a series, both at the mean rate.
fn extent(rate_per_s: f64, end: ArrivalEnd) -> Result<(u64, u64), ArrivalError> {
    if !(rate_per_s > 0.0 && rate_per_s <= RATE_PER_S_MAX) {
        return Err(ArrivalError::Rate { got: rate_per_s });
    }
    let (count, len_ns) = match end {
        ArrivalEnd::Operations(count) => {
            (count as f64, (count as f64 * 1e9 / rate_per_s + 0.5).floor().max(1.0))
        }
        ArrivalEnd::Duration { ns } => ((rate_per_s * ns as f64 / 1e9 + 0.5).floor(), ns as f64),
    };
    if count > OPERATION_COUNT_MAX as f64 || len_ns > LEN_NS_MAX as f64 {
        return Err(ArrivalError::TooLong { operations: count, seconds: len_ns / 1e9 });
    }
    match end {
        ArrivalEnd::Operations(count) => Ok((count, len_ns as u64)),
        ArrivalEnd::Duration { ns } => Ok((count as u64, ns)),
    }
}

impl ArrivalModel {
    /// The arrivals of a run with this mean rate, until `end`.
    ///
    /// # Errors
    /// [`ArrivalError`]: a rate or a parameter is outside its range, or the series would be too long.
    pub fn series(
        &self,
        rate_per_s: f64,
        end: ArrivalEnd,
        seed: u64,
    ) -> Result<ArrivalSeries, ArrivalError> {
        self.check()?;
        let times = Times::new(self, rate_per_s, end, seed)?;
        Ok(ArrivalSeries::new(times, end))
    }
}

impl ArrivalSeries {
    fn new(times: Times, end: ArrivalEnd) -> ArrivalSeries {
        let (left_count, end_ns) = match end {
            ArrivalEnd::Operations(count) => (count, u64::MAX),
            ArrivalEnd::Duration { ns } => (u64::MAX, ns),
        };
        ArrivalSeries { times, left_count, end_ns }
    }
}

impl Iterator for ArrivalSeries {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left_count = self.left_count.checked_sub(1)?;
        let at_ns = self.times.next_ns().filter(|&at_ns| at_ns < self.end_ns);
        if at_ns.is_none() {
            self.left_count = 0;
        }
        at_ns
    }
}

impl std::iter::FusedIterator for ArrivalSeries {}
