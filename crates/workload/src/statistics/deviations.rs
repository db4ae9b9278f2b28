//! A series in standard deviations from its mean, which is what estimators take.

/// Of a series whose variance is 1: a variance or a power this small is what rounding left of none.
pub(super) const NEGLIGIBLE: f64 = 1e-20;

/// What `series` differs from its mean, in standard deviations; nothing if it does not vary.
pub(super) fn deviations(series: &[f64]) -> Option<Vec<f64>> {
    let count = series.len() as f64;
    let mean = series.iter().sum::<f64>() / count;
    let variance = series.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    let deviation = libm::sqrt(variance);
    // A constant that no double holds exactly differs from its own mean by its last bits.
    let varies = deviation.is_finite() && deviation > mean.abs() * 1e-12;
    varies.then(|| series.iter().map(|x| (x - mean) / deviation).collect())
}
