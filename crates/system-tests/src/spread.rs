//! Several measurements of one thing in a cell: the median or the mean, with the minimum and the maximum.

/// Of some numbers; all 0 if there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let [Some(&least), Some(&most)] = [sorted.first(), sorted.last()] else {
            return Spread { least: 0.0, median: 0.0, most: 0.0 };
        };
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Spread { least, median, most }
    }
}

/// `median (least to most)`, with as many places as are asked for, or one.
impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Spread { least, median, most } = self;
        let places = f.precision().unwrap_or(1);
        write!(f, "{median:.places$} ({least:.places$} to {most:.places$})")
    }
}

/// The mean of `values`.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The mean of `values`, with the minimum and the maximum if there are several.
pub(crate) fn with_range(values: &[f64]) -> String {
    let fold = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap_or(0.0);
    match values {
        [only] => format!("{only:.0}"),
        _ => format!("{:.0} ({:.0} to {:.0})", mean(values), fold(f64::min), fold(f64::max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(format!("{:.0}", Spread::of(&[3.0, 1.0, 2.0])), "2 (1 to 3)");
        assert_eq!(format!("{}", Spread::of(&[4.0, 1.0, 2.0, 3.0])), "2.5 (1.0 to 4.0)");
        assert_eq!(format!("{:.0}", Spread::of(&[])), "0 (0 to 0)");
    }
}
