//! R/S: the range of a block's running sum, in the block's standard deviations, grows as d^H.
//!
//! ```text
//!   sum of deviations from the block's mean
//!       _/\_                       |
//!     _/    \__        _           | R
//!    /         \_    _/ \          |
//!                \__/    \_        |        0 at both ends
//! ```

use super::line::slope;

/// Shorter blocks raise the exponent of any series.
const BLOCK_LEN_MIN: usize = 32;
/// The number of blocks of the longest length.
const BLOCK_COUNT_MIN: usize = 4;

pub(super) fn exponent(deviations: &[f64]) -> f64 {
    let lens = std::iter::successors(Some(BLOCK_LEN_MIN), |len| Some(len * 2));
    let lens = lens.take_while(|len| deviations.len() / len >= BLOCK_COUNT_MIN);
    let points = lens.filter_map(|len| {
        let mean = mean_ratio(deviations, len);
        (mean > 0.0).then(|| (libm::log(len as f64), libm::log(mean)))
    });
    slope(&points.collect::<Vec<_>>())
}

/// The mean of R/S over whole blocks of `len` that vary; 0 if there are none.
pub(super) fn mean_ratio(deviations: &[f64], len: usize) -> f64 {
    let ratios = deviations.chunks_exact(len).filter_map(ratio);
    let (count, sum) = ratios.fold((0.0, 0.0), |(count, sum), ratio| (count + 1.0, sum + ratio));
    if count == 0.0 { 0.0 } else { sum / count }
}

fn ratio(block: &[f64]) -> Option<f64> {
    let len = block.len() as f64;
    let mean = block.iter().sum::<f64>() / len;
    let (mut sum, mut low, mut high, mut squares) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0);
    for x in block {
        sum += x - mean;
        squares += (x - mean) * (x - mean);
        low = low.min(sum);
        high = high.max(sum);
    }
    let deviation = libm::sqrt(squares / len);
    (deviation > 0.0).then(|| (high - low) / deviation)
}
