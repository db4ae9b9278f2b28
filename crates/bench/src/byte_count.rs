//! Numbers of bytes on the command line.

use std::str::FromStr;

/// A number of bytes as people write it: `4096`, `64M`, `8GiB` (powers of 1024), `10GB` (of 1000).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

impl FromStr for ByteCount {
    type Err = String;
    fn from_str(text: &str) -> Result<ByteCount, String> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let unit_bytes: u64 = match unit.trim() {
            "" | "B" => 1,
            "K" | "k" | "KiB" => 1 << 10,
            "M" | "m" | "MiB" => 1 << 20,
            "G" | "g" | "GiB" => 1 << 30,
            "T" | "t" | "TiB" => 1 << 40,
            "KB" | "kB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            _ => return Err(format!("{text:?} is not a size; write 4096, 64M, 8GiB or 10GB")),
        };
        let number: u64 = number.parse().map_err(|e| format!("{text:?}: {e}"))?;
        number
            .checked_mul(unit_bytes)
            .map(ByteCount)
            .ok_or_else(|| format!("{text:?} is more than 16 EiB"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_are_read_as_people_write_them() {
        let check = |text: &str, want: Option<u64>| {
            assert_eq!(text.parse::<ByteCount>().ok().map(|c| c.0), want, "{text:?}");
        };
        check("0", Some(0));
        check("4096", Some(4096));
        check("64M", Some(64 << 20));
        check("8GiB", Some(8 << 30));
        check("10GB", Some(10_000_000_000));
        check("17000000T", None);
        check("", None);
        check("M", None);
        check("-1", None);
        check("1.5G", None);
        check("5 parsecs", None);
    }
}
