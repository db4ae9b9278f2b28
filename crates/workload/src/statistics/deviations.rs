//! Deviations of a series from its mean, in standard deviations, which all estimators take.

/// For a series of variance 1, a variance or power this small is a rounding error.
pub(super) const NEGLIGIBLE: f64 = 1e-20;

/// The deviations of `series` from its mean, in standard deviations; `None` if it is constant.
pub(super) fn deviations(series: &[f64]) -> Option<Vec<f64>> {
    let count = series.len() as f64;
    let mean = series.iter().sum::<f64>() / count;
    let variance = series.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    let deviation = libm::sqrt(variance);
    // A constant that a double cannot hold exactly differs from its own mean in the last bits.
    let varies = deviation.is_finite() && deviation > mean.abs() * 1e-12;
    varies.then(|| series.iter().map(|x| (x - mean) / deviation).collect())
}
