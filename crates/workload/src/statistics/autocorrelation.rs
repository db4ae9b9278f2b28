//! The autocorrelation function.

use super::deviations::deviations;

/// The autocorrelation of a series at each of `lags`: 1 for equal, -1 for opposite, 0 for
/// unrelated. `None` where the lag is not shorter than the series, or the series is constant.
///
/// The mean is over the products that exist, as in section 4.1 of the thesis, so at long lags of a
/// short series the value may leave the range from -1 to 1.
pub fn autocorrelations(series: &[f64], lags: &[usize]) -> Vec<Option<f64>> {
    let Some(deviations) = deviations(series) else { return vec![None; lags.len()] };
    let at = |&lag: &usize| {
        let later = deviations.get(lag..).filter(|later| !later.is_empty())?;
        let products: f64 = deviations.iter().zip(later).map(|(a, b)| a * b).sum();
        Some(products / later.len() as f64)
    };
    lags.iter().map(at).collect()
}
