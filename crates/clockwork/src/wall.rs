//! The one door for the date: what other programs want to see beside a file's name.
//!
//! Nothing that a run decides may follow from it. The C API calls it, on whose file system foreign
//! databases ask when a file was changed, and the status line of YCSB, which begins with the date.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970, as the operating system has it; 0 before that.
#[expect(clippy::disallowed_methods, reason = "the one place where the date enters")]
pub fn unix_time_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_was_written_in_the_past() {
        assert!(unix_time_s() > 1_700_000_000);
    }
}
