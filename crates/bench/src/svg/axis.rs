//! Maps values to pixels and places the ticks.

use libm::log10;

/// The mapping of one axis from values to pixels.
#[derive(Clone, Debug)]
pub struct Scale {
    min: f64,
    max: f64,
    is_log: bool,
    /// The pixels of `min` and `max`.
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Scale {
    /// A scale for `values` with round ends. A linear scale starts at zero if no value is negative.
    pub fn new(values: impl Iterator<Item = f64>, is_log: bool, from: f64, to: f64) -> Scale {
        let usable = values.filter(|v| v.is_finite() && (!is_log || *v > 0.0));
        let (low, high) = usable
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        if is_log { Scale::log(low, high, from, to) } else { Scale::linear(low, high, from, to) }
    }

    fn linear(low: f64, high: f64, from: f64, to: f64) -> Scale {
        let low = low.min(0.0);
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / 5.0);
        let min = (low / step).floor() * step;
        let count = ((high - min) / step).ceil().max(1.0);
        let max = min + count * step;
        let ticks = (0..=count as u32).map(|i| min + f64::from(i) * step).collect();
        Scale { min, max, is_log: false, from, to, ticks }
    }

    fn log(low: f64, high: f64, from: f64, to: f64) -> Scale {
        let low = if low > 0.0 { low } else { 1.0 };
        let (mut min, mut max) = (1.0, 1.0);
        while min > low {
            min /= 10.0;
        }
        while min * 10.0 <= low {
            min *= 10.0;
        }
        while max < high || max <= min {
            max = if max < min { min } else { max * 10.0 };
        }
        let mut ticks = vec![min];
        while ticks[ticks.len() - 1] < max * 0.99 {
            ticks.push(ticks[ticks.len() - 1] * 10.0);
        }
        Scale { min, max, is_log: true, from, to, ticks }
    }

    /// The positions of the ticks.
    pub fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// The pixel of `value`, clamped to the axis.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.is_log {
            let value = value.max(self.min);
            (log10(value) - log10(self.min)) / (log10(self.max) - log10(self.min))
        } else {
            (value - self.min) / (self.max - self.min)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }
}

/// The least of 1, 2, 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let mut unit = 1.0;
    while unit > step {
        unit /= 10.0;
    }
    while unit * 10.0 <= step {
        unit *= 10.0;
    }
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * unit).find(|s| *s >= step).unwrap_or(unit)
}

/// A number in its shortest form with three to four digits; a dash for NaN.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let text = if value.is_nan() {
        "-".to_owned()
    } else if size >= 1e9 {
        format!("{:.3e}", value)
    } else if size >= 100.0 || size == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.01 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    };
    match text.split_once('.') {
        Some((whole, part)) if !text.contains('e') => {
            let part = part.trim_end_matches('0');
            if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") }
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let scale = Scale::new([0.0, 37.0].into_iter(), false, 0.0, 100.0);
        assert_eq!(scale.ticks, [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(scale.at(20.0), 50.0);
        let scale = Scale::new([3.0, 700.0].into_iter(), true, 0.0, 90.0);
        assert_eq!(scale.ticks, [1.0, 10.0, 100.0, 1000.0]);
        assert!((scale.at(10.0) - 30.0).abs() < 1e-9);
        let none = Scale::new(std::iter::empty(), false, 0.0, 1.0);
        assert!(none.at(f64::NAN).is_nan() || none.at(0.5) > 0.0);
    }

    #[test]
    fn numbers_are_said_shortly() {
        let check = |value: f64, want: &str| assert_eq!(short(value), want);
        check(0.0, "0");
        check(1.0, "1");
        check(52.85, "52.9");
        check(6.70, "6.7");
        check(0.0932, "0.09");
        check(1234.5, "1234");
        check(0.00012, "0.0001");
        check(f64::NAN, "-");
    }
}
