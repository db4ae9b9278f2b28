//! The Hurst exponent of a series, by five estimators.

use super::deviations::{NEGLIGIBLE, deviations};
use super::periodogram::Periodogram;
use super::{abry_veitch, aggregate_variance, rescaled_range, whittle};
use serde::Serialize;

/// Shorter series have too few scales for a line.
pub const LEN_MIN: usize = 512;

/// A way to estimate the Hurst exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// How fast means of longer and longer blocks come closer together.
    AggregateVariance,
    /// How fast the range of the sum grows with the block, in standard deviations of the block.
    RescaledRange,
    /// How steep the periodogram is at its lowest frequencies.
    Periodogram,
    /// How fast the energy of wavelet coefficients grows with the octave.
    AbryVeitch,
    /// Which fractional Gaussian noise is the likeliest to have this periodogram.
    Whittle,
}

impl Estimator {
    /// All, in the order of the thesis' table 4.2.
    pub const ALL: [Estimator; 5] = [
        Estimator::AggregateVariance,
        Estimator::RescaledRange,
        Estimator::Periodogram,
        Estimator::AbryVeitch,
        Estimator::Whittle,
    ];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Estimator::AggregateVariance => "aggregate variance",
            Estimator::RescaledRange => "R/S",
            Estimator::Periodogram => "periodogram",
            Estimator::AbryVeitch => "Abry-Veitch",
            Estimator::Whittle => "Whittle",
        }
    }
}

/// An estimate of the Hurst exponent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hurst {
    /// By which estimator.
    pub by: Estimator,
    /// The exponent: 0.5 where what was long ago does not matter. A trend may bring it above 1.
    pub exponent: f64,
    /// How far off it may be, either way, in 19 of 20 cases if the estimator's model holds; known of
    /// Abry-Veitch and Whittle.
    pub margin: Option<f64>,
}

/// The Hurst exponent of `series` by all five estimators, or nothing if the series is shorter than
/// [`LEN_MIN`], does not vary, has a value that is no number, or leaves one of them nothing to go by: what goes
/// to and fro between two values varies at one scale only.
///
/// Cost: two Fourier transforms' worth of time; ten million points take a few seconds, and 24 bytes a
/// point.
pub fn hurst_exponents(series: &[f64]) -> Option<[Hurst; 5]> {
    let deviations = deviations(series).filter(|all| all.len() >= LEN_MIN)?;
    let periodogram = Periodogram::of(&deviations);
    if periodogram.power.iter().sum::<f64>() <= NEGLIGIBLE {
        return None;
    }
    let known = |by, exponent| Hurst { by, exponent, margin: None };
    let within = |by, (exponent, margin)| Hurst { by, exponent, margin: Some(margin) };
    let all = [
        known(Estimator::AggregateVariance, aggregate_variance::exponent(&deviations)?),
        known(Estimator::RescaledRange, rescaled_range::exponent(&deviations)),
        known(Estimator::Periodogram, periodogram.exponent()?),
        within(Estimator::AbryVeitch, abry_veitch::exponent(&deviations)?),
        within(Estimator::Whittle, whittle::exponent(&periodogram)),
    ];
    all.iter().all(|hurst| hurst.exponent.is_finite()).then_some(all)
}
