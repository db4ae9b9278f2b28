//! The only source of the date, for what other programs expect to see beside a file's name.
//!
//! No decision of a run may follow from it. It has two callers. The C API uses it because foreign
//! databases ask its file system when a file was changed. The status line of YCSB begins with the
//! date.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970, from the operating system; 0 before that.
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
