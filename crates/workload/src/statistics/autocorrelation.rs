//! The autocorrelation function.

use super::deviations::deviations;

/// How much a series is like itself so many places later, for each of `lags`: 1 the same, -1 the
/// opposite, 0 unrelated. Nothing where the series is not longer than that, or does not vary.
///
/// The mean of the products is over those there are, as in the thesis, 4.1; so at long lags of a short
/// series it may leave -1 to 1.
pub fn autocorrelations(series: &[f64], lags: &[usize]) -> Vec<Option<f64>> {
    let Some(deviations) = deviations(series) else { return vec![None; lags.len()] };
    let at = |&lag: &usize| {
        let later = deviations.get(lag..).filter(|later| !later.is_empty())?;
        let products: f64 = deviations.iter().zip(later).map(|(a, b)| a * b).sum();
        Some(products / later.len() as f64)
    };
    lags.iter().map(at).collect()
}
