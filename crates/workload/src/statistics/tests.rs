//! Noise of known exponent, results of other programs, and series without an estimate.

use super::deviations::{NEGLIGIBLE, deviations};
use super::fractional_noise::fractional_noise;
use super::periodogram::Periodogram;
use super::*;
use std::path::PathBuf;

/// The tolerance for 2^17 values. Aggregate variance reads low, more so as the exponent approaches
/// 1; R/S reads high near 0.5 and low near 1.
const TOLERANCES: [(Estimator, [f64; 4]); 5] = [
    (Estimator::AggregateVariance, [0.03, 0.03, 0.05, 0.08]),
    (Estimator::RescaledRange, [0.05, 0.04, 0.04, 0.06]),
    (Estimator::Periodogram, [0.02; 4]),
    (Estimator::AbryVeitch, [0.015; 4]),
    (Estimator::Whittle, [0.007; 4]),
];

#[test]
fn noise_of_a_known_exponent_is_found_out() {
    for (at, exponent) in [0.5, 0.6, 0.75, 0.9].into_iter().enumerate() {
        for seed in 0..2 {
            let found = hurst_exponents(&fractional_noise(1 << 17, exponent, seed)).unwrap();
            for (hurst, (by, tolerances)) in found.into_iter().zip(TOLERANCES) {
                assert_eq!(hurst.by, by);
                let off = (hurst.exponent - exponent).abs();
                assert!(off <= tolerances[at], "{exponent}, seed {seed}: {hurst:?}");
            }
        }
    }
}

#[test]
fn margins_hold_in_about_nineteen_of_twenty_cases() {
    for exponent in [0.5, 0.9] {
        let (mut abry_veitch, mut whittle) = (0, 0);
        for seed in 0..40 {
            let found = hurst_exponents(&fractional_noise(2048, exponent, seed)).unwrap();
            let holds = |h: Hurst| u32::from((h.exponent - exponent).abs() <= h.margin.unwrap());
            abry_veitch += holds(found[3]);
            whittle += holds(found[4]);
        }
        assert!(abry_veitch >= 34 && whittle >= 34, "{exponent}: {abry_veitch}, {whittle}");
        assert!(abry_veitch < 40 && whittle < 40, "{exponent}: {abry_veitch}, {whittle}");
    }
}

fn testdata(name: &str) -> String {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/statistics");
    std::fs::read_to_string(dir.join(name)).unwrap()
}

#[test]
fn other_packages_say_the_same() {
    let text = testdata("expected.txt");
    let (mut series, mut found): (Vec<f64>, _) = (Vec::new(), None);
    let mut count = 0;
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<f64>().unwrap();
        let mut check = |got: f64, want: f64, tolerance: f64| {
            assert!((got - want).abs() <= tolerance, "{line}: {got}");
            count += 1;
        };
        let of = |by: Estimator| -> Hurst {
            let all: &[Hurst; 5] = found.as_ref().unwrap();
            *all.iter().find(|hurst| hurst.by == by).unwrap()
        };
        match words[0] {
            "autocorrelation" => {
                let lag = words[1].parse().unwrap();
                check(autocorrelations(&series, &[lag])[0].unwrap(), number(2), 1e-10);
            }
            "aggregate_variance" => {
                check(of(Estimator::AggregateVariance).exponent, number(1), 1e-8);
            }
            "rescaled_range" => check(of(Estimator::RescaledRange).exponent, number(1), 1e-8),
            "periodogram" => check(of(Estimator::Periodogram).exponent, number(1), 1e-8),
            "abry_veitch" => {
                check(of(Estimator::AbryVeitch).exponent, number(1), 1e-8);
                check(of(Estimator::AbryVeitch).margin.unwrap(), number(2), 1e-8);
            }
            "whittle" => check(of(Estimator::Whittle).exponent, number(1), 1e-4),
            name => {
                series = testdata(name).lines().map(|line| line.parse().unwrap()).collect();
                found = hurst_exponents(&series);
            }
        }
    }
    assert_eq!(count, 4 * 12);
}

#[test]
fn neither_unit_nor_mean_matters() {
    let noise = fractional_noise(5000, 0.7, 9);
    let moved: Vec<f64> = noise.iter().map(|x| 1e6 + 250.0 * x).collect();
    let [one, other] = [&noise, &moved].map(|series| hurst_exponents(series).unwrap());
    for (one, other) in one.into_iter().zip(other) {
        assert!((one.exponent - other.exponent).abs() < 1e-6, "{one:?}, {other:?}");
    }
}

#[test]
fn short_or_constant_series_have_no_estimate() {
    let noise = fractional_noise(LEN_MIN, 0.5, 1);
    assert!(hurst_exponents(&noise).is_some());
    assert!(hurst_exponents(&noise[1..]).is_none());
    assert!(hurst_exponents(&[]).is_none());
    assert!(hurst_exponents(&[0.1; 5000]).is_none());
    assert!(hurst_exponents(&[f64::NAN; 5000]).is_none());
    assert_eq!(autocorrelations(&noise, &[LEN_MIN, usize::MAX]), [None, None]);
    assert_eq!(autocorrelations(&[0.1; 3], &[1]), [None]);
    assert!((autocorrelations(&noise, &[0])[0].unwrap() - 1.0).abs() < 1e-12);
    let by_turns: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
    assert!((autocorrelations(&by_turns, &[1])[0].unwrap() + 1.0).abs() < 1e-12);
}

/// A series with a period of three has no power at low frequencies except rounding errors, whose
/// slope used to be reported as an exponent (S1). Gaps of constant arrivals at 3/s are such a
/// series.
#[test]
fn a_series_of_period_three_has_no_estimate() {
    let thirds: Vec<f64> = (0..9_999).map(|i| 333_333_333.0 + f64::from(i % 3 / 2)).collect();
    let deviations = deviations(&thirds).unwrap();
    let powers = Periodogram::of(&deviations).power;
    let lowest = powers[..1000].iter().fold(0.0, |most: f64, power| most.max(*power));
    assert!(0.0 < lowest && lowest < NEGLIGIBLE, "{lowest}");
    assert_eq!(Periodogram::of(&deviations).exponent(), None);
    assert_eq!(hurst_exponents(&thirds), None);
}

#[test]
fn a_series_with_stretches_that_do_not_vary_has_finite_estimates() {
    let mut spikes = vec![0.0; 4096];
    spikes[100] = 1.0;
    spikes[3000] = 5.0;
    for hurst in hurst_exponents(&spikes).unwrap() {
        assert!(hurst.exponent.is_finite(), "{hurst:?}");
    }
}

#[test]
fn a_series_whose_means_do_not_vary_has_finite_estimates_or_none() {
    for len in [LEN_MIN, 800, 4096, 5001] {
        for values in [[0.0, 1.0], [0.1, 0.7], [-3.0, 1e6]] {
            let by_turns: Vec<f64> = (0..len).map(|i| values[i % 2]).collect();
            for hurst in hurst_exponents(&by_turns).into_iter().flatten() {
                assert!(hurst.exponent.is_finite(), "{len}: {hurst:?}");
            }
        }
    }
    // Odd blocks of an alternating series differ, less so the longer they are; even blocks do not.
    let by_turns: Vec<f64> = (0..4096).map(|i| [-1.0, 1.0][i % 2]).collect();
    let found = aggregate_variance::exponent(&by_turns);
    assert!(found.is_some_and(|exponent| exponent.abs() < 0.01), "{found:?}");
}
