//! The straight line through points.

/// The slope of the least-squares line through `points`, `(x, y)`.
pub(super) fn slope(points: &[(f64, f64)]) -> f64 {
    weighted_slope(points.iter().map(|&(x, y)| (x, y, 1.0))).0
}

/// The slope of the weighted least-squares line through points with the given variances, `(x, y,
/// variance)`, and the variance of the slope.
pub(super) fn weighted_slope(points: impl Iterator<Item = (f64, f64, f64)> + Clone) -> (f64, f64) {
    let sum = |of: fn(f64, f64) -> f64| {
        points.clone().map(|(x, y, variance)| of(x, y) / variance).sum::<f64>()
    };
    let weight = sum(|_, _| 1.0);
    let (mean_x, mean_y) = (sum(|x, _| x) / weight, sum(|_, y| y) / weight);
    let (mut squares, mut products) = (0.0, 0.0);
    for (x, y, variance) in points {
        squares += (x - mean_x) * (x - mean_x) / variance;
        products += (x - mean_x) * (y - mean_y) / variance;
    }
    (products / squares, 1.0 / squares)
}
