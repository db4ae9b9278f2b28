//! The periodogram: the distribution of a series' variance over frequencies. Near 0 it behaves as
//! f^(1-2H).

use super::deviations::NEGLIGIBLE;
use super::line::slope;
use realfft::RealFftPlanner;
use std::f64::consts::PI;

/// The estimate uses the lowest tenth of the frequencies.
const LOWEST_PART: usize = 10;

/// Squares of the Fourier transform at the frequencies `2 pi k / len`, from `k = 1` to just below
/// the highest frequency, where the transform is real.
#[derive(Debug)]
pub(super) struct Periodogram {
    pub(super) len: usize,
    pub(super) power: Vec<f64>,
}

impl Periodogram {
    pub(super) fn of(deviations: &[f64]) -> Periodogram {
        let len = deviations.len();
        let transform = RealFftPlanner::<f64>::new().plan_fft_forward(len);
        let mut input = deviations.to_vec();
        let mut output = transform.make_output_vec();
        transform
            .process(&mut input, &mut output)
            .expect("both lists have the lengths that the plan gave");
        let scale = 1.0 / (2.0 * PI * len as f64);
        let power = output[1..len.div_ceil(2)].iter().map(|c| c.norm_sqr() * scale).collect();
        Periodogram { len, power }
    }

    /// The angular frequency at `at`, above 0 and below pi.
    pub(super) fn frequency(&self, at: usize) -> f64 {
        2.0 * PI * (at + 1) as f64 / self.len as f64
    }

    /// `None` if fewer than two frequencies have power, because those define no line.
    pub(super) fn exponent(&self) -> Option<f64> {
        let lowest = self.power.iter().take(self.power.len() / LOWEST_PART).enumerate();
        let points: Vec<(f64, f64)> = lowest
            .filter(|(_, power)| **power > NEGLIGIBLE)
            .map(|(at, power)| (libm::log(self.frequency(at)), libm::log(*power)))
            .collect();
        (points.len() >= 2).then(|| (1.0 - slope(&points)) / 2.0)
    }
}
