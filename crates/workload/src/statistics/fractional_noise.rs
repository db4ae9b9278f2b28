//! Exact fractional Gaussian noise, for tests: by circulant embedding.
//!
//! Source: Davies and Harte, "Tests for Hurst effect" (1987).

use super::normal::normals;
use imbrex_clockwork::Prng;
use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

/// `len` values with the Hurst exponent `exponent` and variance 1.
pub(super) fn fractional_noise(len: usize, exponent: f64, seed: u64) -> Vec<f64> {
    let covariance = |lag: f64| {
        let power = |x: f64| libm::pow(x.abs(), 2.0 * exponent);
        (power(lag + 1.0) - 2.0 * power(lag) + power(lag - 1.0)) / 2.0
    };
    // One period: the covariances up to `len` and back.
    let mut row: Vec<f64> = (0..=len).map(|lag| covariance(lag as f64)).collect();
    row.extend((1..len).rev().map(|lag| covariance(lag as f64)));
    let mut planner = RealFftPlanner::<f64>::new();
    let forward = planner.plan_fft_forward(2 * len);
    let mut spectrum = forward.make_output_vec();
    forward.process(&mut row, &mut spectrum).unwrap();
    let mut prng = Prng::new(seed).derive("fractional noise");
    let last = spectrum.len() - 1;
    for (at, value) in spectrum.iter_mut().enumerate() {
        let (a, b) = normals(&mut prng);
        let eigenvalue = value.re.max(0.0);
        *value = if at == 0 || at == last {
            Complex::new((eigenvalue * 2.0 * len as f64).sqrt() * a, 0.0)
        } else {
            Complex::new(a, b) * (eigenvalue * len as f64).sqrt()
        };
    }
    let inverse = planner.plan_fft_inverse(2 * len);
    let mut noise = inverse.make_output_vec();
    inverse.process(&mut spectrum, &mut noise).unwrap();
    noise.truncate(len);
    noise.iter_mut().for_each(|x| *x /= 2.0 * len as f64);
    noise
}
