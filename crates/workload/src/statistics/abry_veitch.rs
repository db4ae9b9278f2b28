//! Abry-Veitch: the energy of wavelet coefficients grows from octave to octave by 2^(2H-1).
//!
//! ```text
//!   series    a0 a0 a0 a0 a0 a0 a0 a0 ...
//!   octave 1  d1    d1    d1    d1          differences of neighbours, smoothed
//!   octave 2  d2          d2                of pairs
//!   octave 3  d3                            of fours;  log2(mean d^2) over the octave: slope 2H - 1
//! ```
//!
//! Daubechies' wavelet with three vanishing moments ignores trends up to a parabola. Each octave is
//! weighted by its certainty. Coefficients that would reach past an end are left out.
//!
//! Source: Abry and Veitch, "Wavelet analysis of long-range-dependent traffic" (1998).

use super::deviations::NEGLIGIBLE;
use super::line::weighted_slope;
use std::f64::consts::LN_2;

/// The series itself is not a true level 0 of the pyramid; from this octave on the difference is
/// negligible.
const OCTAVE_MIN: usize = 3;
/// Octaves with fewer coefficients are left out.
const COEFFICIENT_COUNT_MIN: usize = 8;
const TAP_COUNT: usize = 6;
/// 95 % of a normal distribution lie within this many standard deviations.
pub(super) const DEVIATIONS_OF_95_PERCENT: f64 = 1.959_963_984_540_054;

/// The exponent, and half of its 95 % interval; `None` if fewer than two octaves have any energy.
pub(super) fn exponent(deviations: &[f64]) -> Option<(f64, f64)> {
    let octaves = energies(deviations);
    let known = octaves.iter().enumerate().skip(OCTAVE_MIN - 1);
    let known = known.filter(|(_, (energy, _))| *energy > NEGLIGIBLE);
    if known.clone().count() < 2 {
        return None;
    }
    let points = known.map(|(at, &(energy, count))| {
        let half = count as f64 / 2.0;
        // The logarithm of a mean of squares is too low by this on average, with that variance.
        let bias = digamma(half) / LN_2 - libm::log2(half);
        ((at + 1) as f64, libm::log2(energy) - bias, trigamma(half) / (LN_2 * LN_2))
    });
    let (slope, variance) = weighted_slope(points);
    Some(((slope + 1.0) / 2.0, DEVIATIONS_OF_95_PERCENT * libm::sqrt(variance) / 2.0))
}

/// Mean square and number of the coefficients of each octave, from the first.
pub(super) fn energies(series: &[f64]) -> Vec<(f64, usize)> {
    let low = low_pass();
    // The high-pass filter is the low-pass filter reversed, with every other tap negated.
    let high: [f64; TAP_COUNT] = std::array::from_fn(|i| {
        if i % 2 == 0 { low[TAP_COUNT - 1 - i] } else { -low[TAP_COUNT - 1 - i] }
    });
    let mut level = series.to_vec();
    let mut octaves = Vec::new();
    while level.len() >= TAP_COUNT + 2 * (COEFFICIENT_COUNT_MIN - 1) {
        let filtered = |taps: &[f64; TAP_COUNT], at: usize| -> f64 {
            taps.iter().zip(&level[2 * at..]).map(|(tap, x)| tap * x).sum()
        };
        let count = (level.len() - TAP_COUNT) / 2 + 1;
        let energy = (0..count).map(|at| filtered(&high, at)).map(|d| d * d).sum::<f64>();
        octaves.push((energy / count as f64, count));
        level = (0..count).map(|at| filtered(&low, at)).collect();
    }
    octaves
}

/// Daubechies' filter of six taps, in closed form.
fn low_pass() -> [f64; TAP_COUNT] {
    let a = libm::sqrt(10.0);
    let b = libm::sqrt(5.0 + 2.0 * a);
    let taps = [
        1.0 + a + b,
        5.0 + a + 3.0 * b,
        10.0 - 2.0 * a + 2.0 * b,
        10.0 - 2.0 * a - 2.0 * b,
        5.0 + a - 3.0 * b,
        1.0 + a - b,
    ];
    taps.map(|tap| tap / (16.0 * std::f64::consts::SQRT_2))
}

/// The derivative of the logarithm of the gamma function, for positive `x`, shifted up to where the
/// asymptotic series is exact to a double.
fn digamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let tail =
        z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z * (1.0 / 240.0 - z / 132.0))));
    sum + libm::log(x) - 0.5 / x - tail
}

/// Its derivative.
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let tail =
        z * (1.0 / 6.0 - z * (1.0 / 30.0 - z * (1.0 / 42.0 - z * (1.0 / 30.0 - z * 5.0 / 66.0))));
    sum + 1.0 / x + z / 2.0 + tail / x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_a_wavelet_with_three_vanishing_moments() {
        let low = low_pass();
        let sum = |of: &dyn Fn(usize) -> f64| (0..TAP_COUNT).map(of).sum::<f64>();
        assert!((sum(&|i| low[i] * low[i]) - 1.0).abs() < 1e-14);
        assert!((sum(&|i| low[i]) - std::f64::consts::SQRT_2).abs() < 1e-14);
        // A parabola has no detail.
        let parabola: Vec<f64> = (0..1000).map(|i| f64::from(i * i) / 1e6 + 3.0).collect();
        assert!(energies(&parabola).iter().all(|(energy, _)| *energy < 1e-20));
    }

    #[test]
    fn gamma_functions_have_their_known_values() {
        const EULER: f64 = 0.577_215_664_901_532_9;
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a}, not {b}");
        near(digamma(1.0), -EULER);
        near(digamma(0.5), -EULER - 2.0 * LN_2);
        near(digamma(4.0), -EULER + 1.0 + 1.0 / 2.0 + 1.0 / 3.0);
        let sixth = std::f64::consts::PI * std::f64::consts::PI / 6.0;
        near(trigamma(1.0), sixth);
        near(trigamma(0.5), 3.0 * sixth);
        near(trigamma(3.0), sixth - 1.0 - 1.0 / 4.0);
    }
}
