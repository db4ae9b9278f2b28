//! Sizes as people write and read them: `8GiB`, `8gb`, `1.5 TB`, `4096`.
//!
//! ```text
//!   kB  MB  GB  TB  PB     powers of 1000, as on a drive's label
//!   KiB MiB GiB TiB PiB    powers of 1024
//!   K   M   G   T   P      the same, as in db_bench
//! ```
//!
//! Upper and lower case mean the same. A size that is read back from its own [`Display`](fmt::Display) form is equal
//! within the three digits that are shown.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Suffixes and their factors. The first match wins, so longer suffixes come first.
const UNITS: [(&str, u64); 17] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("pb", 1_000_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("p", 1 << 50),
    ("b", 1),
    ("", 1),
];

/// More digits than any size has.
const DIGIT_COUNT_MAX: usize = 20;

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let wrong = || {
            format!(
                "{text:?} is not a size; write a number and a unit, such as 64MiB, 1.5GB or 30TB, or a \
                 number of bytes; kB, MB, GB, TB and PB are powers of 1000, and KiB to PiB, or K to P, \
                 powers of 1024"
            )
        };
        let lower = text.trim().to_ascii_lowercase();
        let (digits, factor) = UNITS
            .iter()
            .find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, *factor)))
            .ok_or_else(wrong)?;
        let (whole, fraction) = match digits.trim().split_once('.') {
            Some((_, "")) => return Err(wrong()),
            Some(parts) => parts,
            None => (digits.trim(), ""),
        };
        let is_number = |part: &str| {
            part.bytes().all(|byte| byte.is_ascii_digit()) && part.len() <= DIGIT_COUNT_MAX
        };
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return Err(wrong());
        }
        let factor = u128::from(factor);
        if factor == 1 && !fraction.is_empty() {
            return Err(format!("{text:?} is not a whole number of bytes"));
        }
        let number = |part: &str| part.parse::<u128>().unwrap_or(0);
        let parts = number(fraction) * factor / 10_u128.pow(fraction.len() as u32);
        u64::try_from(number(whole) * factor + parts)
            .map(ByteSize)
            .map_err(|_| format!("{text:?} is more than 16 EiB, the largest size"))
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

impl ByteSize {
    /// Both sizes in words that differ if the sizes do: in bytes where three digits would make them look
    /// equal. For messages that compare them.
    pub fn apart(self, other: ByteSize) -> [String; 2] {
        let shown = [self, other].map(|size| size.to_string());
        if self == other || shown[0] != shown[1] {
            return shown;
        }
        [self, other].map(|size| format!("{} bytes", size.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("8GiB", 8 << 30),
            ("8 gib", 8 << 30),
            ("8g", 8 << 30),
            ("64M", 64 << 20),
            ("8gb", 8_000_000_000),
            ("30TB", 30_000_000_000_000),
            ("1.5 GB", 1_500_000_000),
            ("1.5KiB", 1536),
            ("1pb", 1_000_000_000_000_000),
            (" 17 B ", 17),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn a_bad_size_says_what_is_accepted() {
        for text in
            ["", "GiB", "-1", "+1", "8XiB", "1e3", "1..5", "1.", ".5G", "8 GiB GiB", "1,5G", "٣"]
        {
            let error = text.parse::<ByteSize>().unwrap_err();
            let parts = ["is not a size", "64MiB, 1.5GB or 30TB", "powers of 1024"];
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
        for (text, want) in [
            ("1.5", "not a whole number of bytes"),
            ("1.5B", "not a whole number of bytes"),
            ("17000000T", "more than 16 EiB"),
            ("99999999TiB", "more than 16 EiB"),
            ("999999999999999999999", "is not a size"),
        ] {
            let error = text.parse::<ByteSize>().unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_show_three_digits() {
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
    }

    #[test]
    fn sizes_that_differ_look_different_beside_each_other() {
        let check = |a: u64, b: u64, want: [&str; 2]| {
            assert_eq!(ByteSize(a).apart(ByteSize(b)), want);
        };
        check(3_427_200, 1_424_256, ["3.27 MiB", "1.36 MiB"]);
        check(3_427_200, 3_424_256, ["3427200 bytes", "3424256 bytes"]);
        check(4096, 4096, ["4.00 KiB", "4.00 KiB"]);
    }
}
