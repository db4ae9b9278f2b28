//! Why there is no such series.

use super::limits::{LEN_NS_MAX, OPERATION_COUNT_MAX};
use std::io;
use std::path::PathBuf;

/// A model, a rate or a file that gives no series.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrivalError {
    /// No model has this name.
    #[error(
        "no arrival model {got:?}; there are constant, poisson, selfsimilar, diurnal and recorded"
    )]
    Model {
        /// The name.
        got: String,
    },
    /// No distribution of gaps has this name.
    #[error("no distribution of gaps {got:?}; there are constant, uniform, exponential and pareto")]
    Distribution {
        /// The name.
        got: String,
    },
    /// A property that the model cannot do without.
    #[error("{model} arrivals need the property {key}: {what}")]
    Missing {
        /// Of which model.
        model: &'static str,
        /// The property.
        key: &'static str,
        /// What it says.
        what: &'static str,
    },
    /// A property that is no number.
    #[error("property {key}: expected a number, got {got:?}")]
    Number {
        /// The property.
        key: &'static str,
        /// Its value.
        got: String,
    },
    /// A rate that cannot be kept.
    #[error(
        "a rate of {got} operations a second; it is more than 0 and at most 1000000000, one a \
         nanosecond"
    )]
    Rate {
        /// The rate.
        got: f64,
    },
    /// A bias that makes no bursts, or a single one.
    #[error("a bias of {got}; it lies between 0.5, which would be even, and 1, all in one moment")]
    Bias {
        /// The bias.
        got: f64,
    },
    /// A shape without a mean.
    #[error(
        "a Pareto shape of {got}; at 1 and below the mean gap is infinite and there is no rate: \
         more than 1, and at most 1000"
    )]
    Shape {
        /// The shape.
        got: f64,
    },
    /// A modulation that is no number of operations.
    #[error("a modulation of {got} operations a second; it is 0 or more, and less than the rate")]
    Modulation {
        /// The modulation.
        got: f64,
    },
    /// A modulation that would leave nothing at the lowest.
    #[error(
        "a modulation of {got} operations a second about a mean of {rate_per_s}; it is less than \
         the mean, or nothing would arrive at the lowest"
    )]
    ModulationOfRate {
        /// The modulation.
        got: f64,
        /// The mean rate.
        rate_per_s: f64,
    },
    /// A cycle that is none.
    #[error("a cycle of {got_s} seconds; it is 0.001 seconds to a century")]
    CycleLen {
        /// Its length.
        got_s: f64,
    },
    /// More operations or time than can be counted.
    #[error(
        "a series of {operations:e} operations in {seconds:e} seconds; at most {} operations and \
         {} seconds can be counted",
        OPERATION_COUNT_MAX,
        LEN_NS_MAX / 1_000_000_000
    )]
    TooLong {
        /// How many.
        operations: f64,
        /// How long.
        seconds: f64,
    },
    /// A bin of no time.
    #[error("bins of 0 s; a bin is at least a nanosecond long")]
    Bin,
    /// More bins than are kept.
    #[error(
        "bins of {} s over {} s are too many; at most 10000000 are kept: take longer ones",
        *bin_ns as f64 / 1e9,
        *len_ns as f64 / 1e9
    )]
    TooManyBins {
        /// The bin.
        bin_ns: u64,
        /// From the first arrival to this one.
        len_ns: u64,
    },
    /// A file that cannot be read.
    #[error("arrivals {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file without a time.
    #[error("arrivals {path}: no time in it; expected one a line")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line that has no time.
    #[error(
        "arrivals {path}, line {line}: the series has a gap; expected a time, got an empty line"
    )]
    Gap {
        /// The file.
        path: PathBuf,
        /// Which, counted from 1.
        line: u64,
    },
    /// A line that is no time.
    #[error("arrivals {path}, line {line}: expected {expected}, got {got:?}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Which, counted from 1.
        line: u64,
        /// What should be there.
        expected: &'static str,
        /// What is.
        got: String,
    },
    /// A time before the one of the line before.
    #[error(
        "arrivals {path}, line {line}: time goes back from {before_ns} ns to {got_ns} ns; sort the \
         file first"
    )]
    Disorder {
        /// The file.
        path: PathBuf,
        /// Which, counted from 1.
        line: u64,
        /// The time of the line before.
        before_ns: u64,
        /// The time of this one.
        got_ns: u64,
    },
}
