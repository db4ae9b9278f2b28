//! Errors of arrival series.

use super::limits::{LEN_NS_MAX, OPERATION_COUNT_MAX};
use std::io;
use std::path::PathBuf;

/// A model, a rate or a file that does not define a series.
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
    /// A required property is missing.
    #[error("{model} arrivals need the property {key}: {what}")]
    Missing {
        /// The model.
        model: &'static str,
        /// The property.
        key: &'static str,
        /// The meaning of the property.
        what: &'static str,
    },
    /// A property is not a number.
    #[error("property {key}: expected a number, got {got:?}")]
    Number {
        /// The property.
        key: &'static str,
        /// Its value.
        got: String,
    },
    /// A rate outside its range.
    #[error(
        "a rate of {got} operations a second; it must be more than 0 and at most 1000000000, one \
         per nanosecond"
    )]
    Rate {
        /// The rate.
        got: f64,
    },
    /// A bias that produces no bursts, or a single one.
    #[error("a bias of {got}; it must lie between 0.5 (even) and 1 (all at one moment)")]
    Bias {
        /// The bias.
        got: f64,
    },
    /// A shape without a mean.
    #[error(
        "a Pareto shape of {got}; it must be more than 1, because at 1 and below the mean gap is \
         infinite, and at most 1000"
    )]
    Shape {
        /// The shape.
        got: f64,
    },
    /// A modulation that is not a valid rate.
    #[error(
        "a modulation of {got} operations a second; it must be at least 0 and less than the \
             rate"
    )]
    Modulation {
        /// The modulation.
        got: f64,
    },
    /// A modulation that reaches the mean, so that nothing arrives at the minimum.
    #[error(
        "a modulation of {got} operations a second around a mean of {rate_per_s}; it must be less \
         than the mean"
    )]
    ModulationOfRate {
        /// The modulation.
        got: f64,
        /// The mean rate.
        rate_per_s: f64,
    },
    /// A cycle length outside its range.
    #[error("a cycle of {got_s} seconds; it must last between 0.001 seconds and a century")]
    CycleLen {
        /// Its length.
        got_s: f64,
    },
    /// More operations or a longer time than can be counted.
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
    /// A bin without length.
    #[error("bins of 0 s; a bin is at least a nanosecond long")]
    Bin,
    /// More bins than the analysis keeps.
    #[error(
        "bins of {} s over {} s are too many; at most 10000000 are kept: use longer bins",
        *bin_ns as f64 / 1e9,
        *len_ns as f64 / 1e9
    )]
    TooManyBins {
        /// The bin.
        bin_ns: u64,
        /// From the first arrival to this one.
        len_ns: u64,
    },
    /// A file cannot be read.
    #[error("arrivals {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file contains no time.
    #[error("arrivals {path}: no time in it; expected one per line")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line is empty.
    #[error(
        "arrivals {path}, line {line}: the series has a gap; expected a time, got an empty line"
    )]
    Gap {
        /// The file.
        path: PathBuf,
        /// The line number, counted from 1.
        line: u64,
    },
    /// A line is not a time.
    #[error("arrivals {path}, line {line}: expected {expected}, got {got:?}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, counted from 1.
        line: u64,
        /// The expected content.
        expected: &'static str,
        /// The actual content.
        got: String,
    },
    /// A time is earlier than that of the line before.
    #[error(
        "arrivals {path}, line {line}: time goes back from {before_ns} ns to {got_ns} ns; sort the \
         file first"
    )]
    Disorder {
        /// The file.
        path: PathBuf,
        /// The line number, counted from 1.
        line: u64,
        /// The time of the line before.
        before_ns: u64,
        /// The time of this one.
        got_ns: u64,
    },
}
