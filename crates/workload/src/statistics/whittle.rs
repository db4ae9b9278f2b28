//! Whittle: the fractional Gaussian noise whose spectral density fits the periodogram best.
//!
//! ```text
//!   f(l; H) = (1 - cos l) sum over all j of |l + 2 pi j|^(-2H-1)         but for a factor
//!   Q(H)    = log(mean(I / f)) + mean(log f)                             least at the estimate
//! ```
//!
//! The factor cancels in Q. Where the density hardly changes, neighbouring frequencies are grouped
//! and their powers added, which is all that Q needs. So ten million points cost four thousand
//! evaluations of the density.
//!
//! Sources: Beran, "Statistics for long-memory processes" (1994), 6.1; the sum's tail by the midpoint
//! rule, as Paxson's (1997), with two corrections.

use super::abry_veitch::DEVIATIONS_OF_95_PERCENT;
use super::periodogram::Periodogram;
use std::f64::consts::PI;

const EXPONENT_MIN: f64 = 0.01;
const EXPONENT_MAX: f64 = 0.999;
const TOLERANCE: f64 = 1e-6;
/// Frequencies within this share of their value are grouped.
const GROUP_WIDTH: f64 = 1.0 / 256.0;
/// The terms of the density's sum that precede its tail.
const TERM_COUNT: u32 = 4;

/// Neighbouring frequencies.
#[derive(Debug)]
struct Group {
    frequency: f64,
    count: f64,
    power: f64,
}

/// The exponent, and half of its 95 % interval.
pub(super) fn exponent(periodogram: &Periodogram) -> (f64, f64) {
    let groups = groups(periodogram);
    let exponent = least(|exponent| misfit(&groups, exponent));
    // The information about H in this many frequencies, less the part of the unknown variance.
    let step = 1e-4;
    let score = |group: &Group| {
        let density = |exponent| libm::log(density(group.frequency, exponent));
        (density(exponent + step) - density(exponent - step)) / (2.0 * step)
    };
    let total: f64 = groups.iter().map(|group| group.count).sum();
    let mean = groups.iter().map(|group| group.count * score(group)).sum::<f64>() / total;
    let information: f64 = groups
        .iter()
        .map(|group| group.count * (score(group) - mean) * (score(group) - mean))
        .sum();
    (exponent, DEVIATIONS_OF_95_PERCENT / libm::sqrt(information))
}

fn groups(periodogram: &Periodogram) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut from = 0;
    while from < periodogram.power.len() {
        let count = ((from + 1) as f64 * GROUP_WIDTH) as usize;
        let to = (from + count.max(1)).min(periodogram.power.len());
        groups.push(Group {
            frequency: (periodogram.frequency(from) + periodogram.frequency(to - 1)) / 2.0,
            count: (to - from) as f64,
            power: periodogram.power[from..to].iter().sum(),
        });
        from = to;
    }
    groups
}

/// Q as in the module's picture.
fn misfit(groups: &[Group], exponent: f64) -> f64 {
    let (mut count, mut ratios, mut logs) = (0.0, 0.0, 0.0);
    for group in groups {
        let density = density(group.frequency, exponent);
        count += group.count;
        ratios += group.power / density;
        logs += group.count * libm::log(density);
    }
    libm::log(ratios / count) + logs / count
}

/// The spectral density of fractional Gaussian noise, up to a factor that depends on the exponent.
pub(super) fn density(frequency: f64, exponent: f64) -> f64 {
    let power = -2.0 * exponent - 1.0;
    let mut sum = libm::pow(frequency, power);
    for j in 1..=TERM_COUNT {
        let turn = 2.0 * PI * f64::from(j);
        sum += libm::pow(turn + frequency, power) + libm::pow(turn - frequency, power);
    }
    let turn = 2.0 * PI * (f64::from(TERM_COUNT) + 0.5);
    for edge in [turn + frequency, turn - frequency] {
        let at_edge = libm::pow(edge, power);
        // The integral from the edge, and two corrections: f' / 24 - 7 f''' / 5760.
        let step = 2.0 * PI / edge;
        let first = power * step / 24.0;
        let third = power * (power - 1.0) * (power - 2.0) * step * step * step;
        sum += at_edge * (edge / (4.0 * PI * exponent) + first - 7.0 / 5760.0 * third);
    }
    (1.0 - libm::cos(frequency)) * sum
}

/// The minimum of `of` by golden section; `of` has a single minimum between the possible exponents.
fn least(of: impl Fn(f64) -> f64) -> f64 {
    let golden = (libm::sqrt(5.0) - 1.0) / 2.0;
    let (mut low, mut high) = (EXPONENT_MIN, EXPONENT_MAX);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (of(left), of(right));
    while high - low > TOLERANCE {
        if at_left < at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = of(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = of(right);
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_density_is_the_long_sum() {
        for exponent in [0.1, 0.5, 0.75, 0.95] {
            for frequency in [1e-6, 0.01, 1.0, 3.1] {
                let power = -2.0 * exponent - 1.0;
                let turns = (1..200_000).map(|j| 2.0 * PI * f64::from(j));
                let term =
                    |turn| libm::pow(turn + frequency, power) + libm::pow(turn - frequency, power);
                let rest =
                    2.0 * libm::pow(2.0 * PI * 199_999.5, power + 1.0) / (4.0 * PI * exponent);
                let sum = libm::pow(frequency, power) + turns.map(term).sum::<f64>() + rest;
                let want = (1.0 - libm::cos(frequency)) * sum;
                let got = density(frequency, exponent);
                assert!((got / want - 1.0).abs() < 1e-6, "{exponent}, {frequency}: {got}, {want}");
            }
        }
    }

    #[test]
    fn white_noise_has_a_flat_density() {
        let of = |frequency| density(frequency, 0.5);
        assert!((of(0.001) / of(3.0) - 1.0).abs() < 1e-6);
    }
}
