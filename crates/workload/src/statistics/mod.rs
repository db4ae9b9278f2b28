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
//! No single estimator is reliable: a trend or a daily cycle affects some of them and not the
//! others. Therefore there are five.
//!
//! Invariants
//!   S1  A series that is too short, constant, or varies at only one scale has no estimate.
//!   S2  Estimates depend on the order and the shape of a series, not on its unit or its mean.
//!
//! Sources: Feitelson, "Workload modeling for computer systems performance evaluation", chapter 9; Taqqu,
//! Teverovsky and Willinger (1995) for the first three; Abry and Veitch (1998); Beran, "Statistics for
//! long-memory processes" (1994), for Whittle's; Paxson (1997) for the density's sum.
//!
//! Not here: arrivals as a series (`arrivals::analysis`).

mod abry_veitch;
mod aggregate_variance;
pub(crate) mod autocorrelation;
mod deviations;
#[cfg(test)]
mod fractional_noise;
pub(crate) mod hurst;
mod line;
mod normal;
mod periodogram;
mod rescaled_range;
mod whittle;

pub use autocorrelation::autocorrelations;
pub use hurst::{Estimator, Hurst, LEN_MIN, hurst_exponents};
pub use normal::normals;

#[cfg(test)]
mod tests;
