//! Statistics of a series: how it depends on its own past, and for how long.
//!
//! ```text
//!   series --> autocorrelation at a lag               near 0 everywhere: independent
//!         |--> Hurst exponent, by five estimators     0.5: independent; up to 1: bursts at every scale
//!               |
//!               |  block means     aggregate variance    var ~ m^(2H-2)
//!               |  block ranges    R/S                   R/S ~ d^H
//!               |  periodogram     periodogram           I ~ f^(1-2H) near 0
//!               |                  Whittle               likelihood of fractional Gaussian noise
//!               |  wavelets        Abry-Veitch           energy of octave j ~ 2^(j(2H-1))
//! ```
//!
//! No one estimator is to be trusted alone: a trend or a daily cycle moves some of them and not the
//! others, which is why there are five.
//!
//! Invariants
//!   S1  A series that is too short, or that does not vary, or at one scale only, has no estimate; none is
//!       made up.
//!   S2  Estimates depend on the order and the shape of a series, not on its unit or its mean.
//!
//! Sources: Feitelson, "Workload modeling for computer systems performance evaluation", chapter 9; Taqqu,
//! Teverovsky and Willinger (1995) for the first three; Abry and Veitch (1998); Beran, "Statistics for
//! long-memory processes" (1994), for Whittle's; Paxson (1997) for the density's sum.
//!
//! Not here: arrivals as a series (`arrivals::analysis`).

mod abry_veitch;
mod aggregate_variance;
mod autocorrelation;
#[cfg(test)]
mod fractional_noise;
mod line;
mod periodogram;
mod rescaled_range;
mod whittle;

pub use autocorrelation::autocorrelations;

use periodogram::Periodogram;
use serde::Serialize;

/// Of a series whose variance is 1: a variance or a power this small is what rounding left of none.
const NEGLIGIBLE: f64 = 1e-20;

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

/// What `series` differs from its mean, in standard deviations; nothing if it does not vary.
fn deviations(series: &[f64]) -> Option<Vec<f64>> {
    let count = series.len() as f64;
    let mean = series.iter().sum::<f64>() / count;
    let variance = series.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    let deviation = libm::sqrt(variance);
    // A constant that no double holds exactly differs from its own mean by its last bits.
    let varies = deviation.is_finite() && deviation > mean.abs() * 1e-12;
    varies.then(|| series.iter().map(|x| (x - mean) / deviation).collect())
}

#[cfg(test)]
mod tests;
