//! The autocorrelation function.

/// How much a series is like itself `lag` places later: 1 the same, -1 the opposite, 0 unrelated.
/// Nothing if the series is not longer than that, or does not vary.
///
/// The mean of the products is over those there are, as in the thesis, 4.1; so at long lags of a short
/// series it may leave -1 to 1.
pub fn autocorrelation(series: &[f64], lag: usize) -> Option<f64> {
    let deviations = super::deviations(series)?;
    of_deviations(&deviations, lag)
}

/// The same of what is given in standard deviations from the mean.
pub(super) fn of_deviations(deviations: &[f64], lag: usize) -> Option<f64> {
    let later = deviations.get(lag..).filter(|later| !later.is_empty())?;
    let products: f64 = deviations.iter().zip(later).map(|(a, b)| a * b).sum();
    Some(products / later.len() as f64)
}
