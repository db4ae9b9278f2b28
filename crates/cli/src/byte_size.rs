//! Sizes as people write and read them: `8GiB`, `512 MiB`, `1.5 GB`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ByteSize(pub(crate) u64);

/// Suffixes and their factors. The first match wins, so longer suffixes come first.
const UNITS: [(&str, u64); 14] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("b", 1),
    ("", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let wrong = || {
            format!("{text:?} is not a size; write 8GiB, 512MiB, 1.5TB or a plain number of bytes")
        };
        let lower = text.trim().to_ascii_lowercase();
        let (digits, factor) = UNITS
            .iter()
            .find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, *factor)))
            .ok_or_else(wrong)?;
        let (whole, fraction) = digits.trim().split_once('.').unwrap_or((digits.trim(), ""));
        let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit()) && part.len() <= 18;
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return Err(wrong());
        }
        let too_large = || format!("{text:?} is more than any drive can hold");
        let whole: u128 = whole.parse().map_err(|_| wrong())?;
        let parts: u128 =
            if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| wrong())? };
        let bytes = whole * u128::from(factor)
            + parts * u128::from(factor) / 10_u128.pow(fraction.len() as u32);
        u64::try_from(bytes).map(ByteSize).map_err(|_| too_large())
    }
}

impl fmt::Display for ByteSize {
    /// Binary units, three digits: `8.00 GiB`, `312 MiB`, `17 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut unit = "B";
        for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
            if value < 1000.0 {
                break;
            }
            value /= 1024.0;
            unit = larger;
        }
        let text = match unit {
            "B" => format!("{} B", self.0),
            _ if value < 10.0 => format!("{value:.2} {unit}"),
            _ if value < 100.0 => format!("{value:.1} {unit}"),
            _ => format!("{value:.0} {unit}"),
        };
        f.pad(&text)
    }
}

/// A count with spaces between its thousands: `1 234 567`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("8GiB", 8 << 30),
            ("8 gib", 8 << 30),
            ("8g", 8 << 30),
            ("1.5KiB", 1536),
            ("14TB", 14_000_000_000_000),
            ("17 B", 17),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in [
            "",
            "GiB",
            "-1",
            "8XiB",
            "1e3",
            "1..5",
            "999999999999999999999",
            "99999999TiB",
            "8 GiB GiB",
            "٣",
        ] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_counts_show() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (8 << 30, "8.00 GiB"),
            (312 << 20, "312 MiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(grouped(123_456), "123 456");
    }
}
