//! Aggregate variance: means of blocks of m vary as m^(2H-2).
//!
//! ```text
//!   |..m..|..m..|..m..|   log var
//!      means               |*  *
//!                          |      *  *       slope 2H - 2: -1 where the past does not matter
//!                          |            *  log m
//! ```

use super::deviations::NEGLIGIBLE;
use super::line::slope;

/// Shorter blocks reflect neighbours, not the long run.
const BLOCK_LEN_MIN: f64 = 4.0;
/// The variance of fewer means is too uncertain.
const BLOCK_COUNT_MIN: usize = 64;
/// The growth factor of block lengths.
const STEP: f64 = std::f64::consts::SQRT_2;

/// `None` if means vary at fewer than two lengths, because those define no line.
pub(super) fn exponent(deviations: &[f64]) -> Option<f64> {
    let points: Vec<(f64, f64)> = block_lens(deviations.len())
        .map(|len| (len, variance(deviations, len)))
        .filter(|(_, variance)| *variance > NEGLIGIBLE)
        .map(|(len, variance)| (libm::log(len as f64), libm::log(variance)))
        .collect();
    (points.len() >= 2).then(|| 1.0 + slope(&points) / 2.0)
}

fn block_lens(len: usize) -> impl Iterator<Item = usize> {
    let lens = std::iter::successors(Some(BLOCK_LEN_MIN), |len| Some(len * STEP));
    lens.map(|len| (len + 0.5) as usize)
        .take_while(move |block_len| len / block_len >= BLOCK_COUNT_MIN)
}

/// The variance of the means of whole blocks of `len`.
fn variance(deviations: &[f64], len: usize) -> f64 {
    let means = deviations.chunks_exact(len).map(|block| block.iter().sum::<f64>() / len as f64);
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for mean in means {
        count += 1.0;
        sum += mean;
        squares += mean * mean;
    }
    squares / count - (sum / count) * (sum / count)
}
