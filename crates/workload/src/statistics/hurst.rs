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
    /// How fast the means of longer blocks converge.
    AggregateVariance,
    /// How fast the range of the running sum grows with the block length, in standard deviations of
    /// the block.
    RescaledRange,
    /// How steep the periodogram is at its lowest frequencies.
    Periodogram,
    /// How fast the energy of wavelet coefficients grows with the octave.
    AbryVeitch,
    /// The fractional Gaussian noise that is most likely to have this periodogram.
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

    /// Its display name.
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
    /// The exponent; 0.5 if the distant past has no influence. A trend may raise it above 1.
    pub exponent: f64,
    /// The half width of the 95 % interval, provided that the estimator's model holds. Only
    /// Abry-Veitch and Whittle give it.
    pub margin: Option<f64>,
}

/// The Hurst exponent of `series` by all five estimators. `None` if the series is shorter than
/// [`LEN_MIN`], is constant, contains a value that is not a number, or leaves an estimator without
/// data; a series that alternates between two values, for example, varies at only one scale.
///
/// Cost: about two Fourier transforms. Ten million points take a few seconds and 24 bytes per
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
